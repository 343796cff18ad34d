"""A database at a standstill: locked, read as a start would read it, and no byte of its data files changed.

For moving a store elsewhere. What a start would cut off at a torn end is left out; where it would have to repair
damage, nothing is read: the next start for writing does that, and says what is lost.
"""

from pathlib import Path

from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.options import system_clock
from oms_journal.database.queries import DatabaseState
from oms_journal.database.reading import Files
from oms_journal.index.duplicates import WindowBounds
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import RecoveryRefused
from oms_journal.journal.lock import DirectoryLock
from oms_journal.journal.names import DataFileName, parse
from oms_journal.recovery.examination import Examination
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.replay import identities, load_duplicates, replay
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.startup import refuse_backup
from oms_journal.recovery.survey import refuse_newer
from oms_journal.recovery.validation import examine_directory, no_progress


class LockedView:
    """A database that nobody writes while this is open. Made by `open`; close it."""

    def __init__(self, disk: Disk, directory: Path, ownership: DirectoryLock, examined: list[Examination]) -> None:
        self.directory = directory
        self._disk = disk
        self._ownership = ownership
        headers = [one.header for one in examined if one.header is not None]
        index, kept = replay(disk, examined, WindowBounds())
        self._files = Files(disk, directory, identities(kept))
        load_duplicates(disk, directory, index, identities(kept))  # what is damaged of it is left out
        self._ledger = Ledger(index)
        self.identity = headers[-1].database.hex() if headers else ""
        self.highest = max([index.highest, *(header.next_message - 1 for header in headers)])  # that a message has had

    @classmethod
    def open(cls, directory: str | Path, *, disk: Disk | None = None, forgives: bool = False) -> "LockedView":
        """Lock the directory and read it; with `forgives` as much as can be read of a damaged one.

        DatabaseLocked, IsBackup, RestoreUnfinished, RecoveryRefused where data files are damaged, DiskError,
        NewerFormat, NotThisDatabase.
        """
        disk, path = disk or RealDisk(), directory_of(directory)
        refuse_backup(disk, path)
        refuse_unfinished(disk, path)
        refuse_newer(disk, path)
        ownership = DirectoryLock.acquire(disk, path)
        try:
            examined = examine_directory(disk, path, no_progress, full=False)
            damaged = [one for one in examined if one.decision.verdict is Verdict.DAMAGED]
            if damaged and not forgives:
                what = "; ".join(f"{one.name}: {one.reason}" for one in damaged)
                raise RecoveryRefused(f"{path} is damaged: {what} (nothing was changed; an ordinary start repairs it)")
            return cls(disk, path, ownership, [one for one in examined if one not in damaged])
        except BaseException:
            ownership.close()
            raise

    def state(self) -> DatabaseState:
        """Return the database to be asked (`database/queries.py`)."""
        return DatabaseState(
            disk=self._disk,
            directory=self.directory,
            ledger=self._ledger,
            files=self._files,
            active=None,
            active_bytes=0,
            owner=self._ownership.number,
            now=system_clock(),
            next_message=self.highest + 1,
        )

    def remove(self) -> None:
        """Remove the data files, the newest first, so that the first one goes last: the directory is then empty."""
        names = [name for entry in self._disk.list(self.directory) if isinstance(name := parse(entry), DataFileName)]
        self._files.close()
        self._ownership.forget_witness()
        for name in sorted(names, key=lambda name: name.sequence, reverse=True):
            self._disk.unlink(self.directory / str(name))
            self._disk.sync_directory(self.directory)

    def close(self) -> None:
        """Let go of the directory."""
        self._files.close()
        self._ownership.close()
