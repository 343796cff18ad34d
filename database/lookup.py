"""Look one message up in a database that may be running, without its lock and without reading all of it.

`omsmsg.index` says which sealed files can hold the message and which can have removed it; only their
footers are read, and the files that are not sealed yet. Where the index file is missing or out of
date, the whole database is read instead.

Keeping `omsmsg.index` as it should be: made anew at the opening, with every sealed file, after clean-up.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from oms_journal.database import index_file
from oms_journal.database.view import DatabaseView
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, FormatError, MessageDamaged, NoSuchMessage
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.dump import sequence_of
from oms_journal.journal.reading.message import FrameReader, Message, Source
from oms_journal.journal.writing.segment import Sealed
from oms_journal.recovery.examination import read_contents
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.survey import data_files, survey
from oms_journal.recovery.validation import as_followed, examine


class _OutOfDate(Exception):
    """The index file does not fit the files any more."""


def look_up(directory: str | Path, number: int, *, disk: Disk | None = None) -> Message:
    """Return an undelivered message; NoSuchMessage, MessageDamaged, DiskError, RestoreUnfinished."""
    disk = disk or RealDisk()
    path = directory_of(directory)
    refuse_unfinished(disk, path)
    found = index_file.read(disk, path) if path.is_dir() else None
    if found is not None:
        try:
            return _look_up(disk, path, found.files, number)
        except (_OutOfDate, FileNotFoundError):
            pass  # clean-up was faster
        except DiskError as failure:
            if not isinstance(failure.failure, FileNotFoundError):
                raise
    with DatabaseView.open(path, disk=disk) as view:
        return view.read(number)


def _look_up(disk: Disk, directory: Path, files: Sequence[Sealed], number: int) -> Message:
    place: tuple[Path, int, int] | None = None  # file, its identity, offset of the frame
    known = {file.sequence for file in files}
    there = dict(data_files(disk, directory))
    if known - set(there):
        raise _OutOfDate
    unsealed = [replace(task, vouched_only=True) for task in survey(disk, directory) if task.sequence not in known]
    for file in files:
        if _within(number, file.ranges.added) or _within(number, file.ranges.removed):
            contents = _contents(disk, there[file.sequence], file)
            place = _after(contents, number, (there[file.sequence], file.identity), place)
    found = [examine(disk, task, full=False) for task in unsealed]
    for examined in as_followed(disk, unsealed, found, full=False):
        walked = read_contents(disk, examined)
        if walked is not None and examined.header is not None:
            place = _after(walked, number, (examined.task.path, examined.header.identity), place)
    if place is None:
        raise NoSuchMessage(number)
    return _read(disk, place, number)


def _within(number: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= number <= limits[1]


def _contents(disk: Disk, path: Path, expected: Sealed) -> Contents:
    with DataFile(disk, path) as file:
        footer = file.footer(identity=expected.identity)
    if not isinstance(footer, Footer) or footer.summary.end != expected.end:
        raise _OutOfDate
    try:
        return footer.contents()
    except FormatError:
        raise _OutOfDate from None


def _after(
    contents: Contents, number: int, file: tuple[Path, int], before: tuple[Path, int, int] | None
) -> tuple[Path, int, int] | None:
    """Return where the message is after one file's operations, given where it was before them."""
    columns = contents.columns
    added = np.flatnonzero((columns["kind"] == Operation.ADD) & (columns["number"] == np.uint64(number)))
    place = (*file, int(columns["offset"][added[-1]])) if len(added) else before
    is_removal = (columns["kind"] == Operation.DELIVER) | (columns["kind"] == Operation.DELETE)
    if (is_removal & (columns["count"] == 1) & (columns["number"] == np.uint64(number))).any():
        return None
    return None if any(np.uint64(number) in numbers for numbers in contents.removal_sets()) else place


def _read(disk: Disk, place: tuple[Path, int, int], number: int) -> Message:
    path, identity, offset = place
    try:
        with DataFile(disk, path) as file:
            source = Source(file.file, path, identity, sequence_of(path))
            found = next(FrameReader(source).messages([(number, offset)]))
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    if isinstance(found, MessageDamaged):
        raise found
    return found


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
            index_file.write(self._disk, self._directory, index_file.encode(self._owner, self._files.values()))
        except OSError as failure:
            _log.warning(
                "cannot note in %s which data files hold which messages: %s; whoever reads without the lock "
                "looks into all of them until that is possible",
                self._directory,
                failure.strerror,
            )
