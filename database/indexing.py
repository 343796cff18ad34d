"""Keeping `omsmsg.index` as it should be: made anew at the opening, with every sealed file, after clean-up."""

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from oms_journal.index import sealed
from oms_journal.journal.disk import Disk
from oms_journal.journal.writing.segment import Sealed

_log = logging.getLogger("oms.database")


class SealedIndex:
    """The index file of one open database, for any thread. A fault is not one of the database, which never reads it."""

    def __init__(self, disk: Disk, directory: Path, owner: int, files: Iterable[Sealed]) -> None:
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._lock = threading.Lock()  # guards the sealed files, and their index file
        self._files = {file.sequence: file for file in files}

    def take(self, files: Iterable[Sealed]) -> None:
        """Note files that have been sealed."""
        with self._lock:
            self._files |= {file.sequence: file for file in files}
            self._write()

    def write(self, low_water: int = 0) -> None:
        """Make the file anew, without the data files below a sequence."""
        with self._lock:
            self._files = {sequence: file for sequence, file in self._files.items() if sequence >= low_water}
            self._write()

    def _write(self) -> None:
        try:
            sealed.write(self._disk, self._directory, sealed.encode(self._owner, self._files.values()))
        except OSError as failure:
            _log.warning(
                "cannot note in %s which data files hold which messages: %s; whoever reads without the lock "
                "looks into all of them until that is possible",
                self._directory,
                failure.strerror,
            )
