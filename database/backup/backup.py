"""A backup of a database, running or closed, without its lock and without holding up a commit.

    1  look: which files, from the low-water mark to the end of the last frame that is vouched for
    2  bring each file, durable and read back; where one has gone meanwhile, look again
    3  put the manifest in its place: from now on the backup is this one
    4  remove what it does not need any more

If it is killed, the backup is the one before or the new one. What was acknowledged before the call is in it. If the
last group is not vouched for yet, it waits for the next frame, which an idle writer adds within a second.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from oms_journal.database.backup.files import CopiedFile
from oms_journal.database.backup.snapshot import Snapshot, SnapshotReader
from oms_journal.database.backup.target import BackupTarget, are_apart
from oms_journal.database.options import system_clock
from oms_journal.journal.background import yielding
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import BehindItsBackup, DiskError, NothingToBackUp, NotReadBack, NotThisBackup
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.startup import refuse_backup
from oms_journal.recovery.validation import Progress, no_progress

ATTEMPTS_MAX = 20  # clean-up of a running database may be faster than the copying
LOOK_SECONDS = 0.1  # between two looks for a frame that vouches


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """The options of a backup."""

    links: bool = True  # sealed files are linked where the file system allows it, else copied
    rereads: bool = False  # what the backup has already is read, and brought anew where it is not as it was
    vouch_seconds: float = 3.0  # how long the frame is waited for that vouches for what was acknowledged before
    key: bytes = b""  # whose presence says that the database is a broker's store
    progress: Progress = no_progress
    clock: Callable[[], int] = system_clock
    wait: Callable[[float], None] = time.sleep
    seconds: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What a run of the backup did, and what the backup is now. Sizes are in bytes."""

    directory: Path
    manifest: Manifest
    brought: tuple[CopiedFile, ...] = ()
    removed: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    damage: dict[str, str] = field(default_factory=dict)  # what is wrong with the database's files, by name
    unvouched: int = 0  # commits that nothing vouched for: they are not in the backup
    is_first: bool = False
    is_mended: bool = False  # its manifest was damaged
    fell_behind: bool = False  # files were cleaned up before they were brought: all was copied anew
    is_new: bool = True  # False: nothing had changed, and nothing was written
    seconds: float = 0.0

    @property
    def written_bytes(self) -> int:
        return sum(one.bytes for one in self.brought)

    def count(self, how: str) -> int:
        """Return how many files were "kept", "linked", "copied" or "extended"."""
        return sum(one.how == how for one in self.brought)

    def as_dict(self) -> dict[str, object]:
        known = self.manifest
        return {
            "directory": str(self.directory),
            "database": known.database.hex(),
            "files": len(known.files),
            "bytes": sum(file.size for file in known.files),
            "kept": self.count("kept"),
            "linked": self.count("linked"),
            "copied": self.count("copied"),
            "extended": self.count("extended"),
            "written_bytes": self.written_bytes,
            "removed": list(self.removed),
            "archived": list(self.archived),
            "low_water": known.low_water,
            "sequence": known.tail.sequence,
            "end": known.tail.end,
            "commit": known.tail.commit,
            "was_closed": known.was_closed,
            "unvouched": self.unvouched,
            "damage": self.damage,
            "is_first": self.is_first,
            "is_mended": self.is_mended,
            "fell_behind": self.fell_behind,
            "seconds": round(self.seconds, 6),
        }


class Backup:
    """The backup of one database in one directory. You make it with `open`, and run it as often as you like. Close it.

    with Backup.open("spool", "backup") as backup:
        report = backup.run()  # and later again: it brings only what is new
    """

    def __init__(self, source: SnapshotReader, place: BackupTarget, options: BackupOptions, *, links: bool) -> None:
        self._source = source
        self._place = place
        self._header: FileHeader | None = None  # of the last file, as it was looked at last
        self._is_damaged = False  # that file
        self._options = options
        self._links = links
        self._has_broker = place.manifest is not None and place.manifest.has_broker

    @classmethod
    def open(
        cls,
        spool: str | Path,
        directory: str | Path,
        options: BackupOptions | None = None,
        *,
        disk: Disk | None = None,
        onto: Disk | None = None,
    ) -> "Backup":
        """Lock the directory of the backup. It must be outside the database's directory.

        When it is missing, the call makes it.

        Raises NotThisBackup when the directory holds anything but a backup, and IsBackup when the spool is a backup.
        Raises RestoreUnfinished when a restore into the spool ended before it was done. Raises DatabaseLocked when
        another process has the backup, and DiskError. Raises TypeError or ValueError for a value that names no
        directory.
        """
        options, disk = options or BackupOptions(), disk or RealDisk()
        onto = onto or disk
        path, target = directory_of(spool, "spool"), directory_of(directory)
        check_apart(path, target)
        refuse_backup(disk, path)
        refuse_unfinished(disk, path)
        try:
            disk.list(path)
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure
        place = BackupTarget.open(onto, target, rebuilds=options.rereads, key=options.key)
        return cls(SnapshotReader(disk, path, options.key), place, options, links=options.links and onto is disk)

    def __enter__(self) -> "Backup":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._place.close()

    @property
    def _manifest(self) -> Manifest | None:
        """What the backup consists of now. None before the first backup was begun."""
        return self._place.manifest

    def run(self) -> BackupReport:
        """Bring the backup up to now.

        Raises NothingToBackUp, BehindItsBackup, NotReadBack, DiskError, NotThisDatabase and NewerFormat. Raises
        NotThisBackup when the backup is of another database. After each of these errors the previous backup is as good
        as it was.
        """
        began = self._options.seconds()
        with yielding():
            return self._run(self._settled(), began)

    def run_once(self) -> BackupReport:
        """Do the same without waiting for a frame that vouches. If nothing has changed, the call writes nothing."""
        began = self._options.seconds()
        return self._run(self._required(self._look()), began, is_repeated=True)

    def _run(self, snapshot: Snapshot, began: float, *, is_repeated: bool = False) -> BackupReport:
        before = self._place.manifest
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._place.check()
            self._place.begin(self._manifest_of(snapshot, ()))
            if before is not None and before.is_complete and not self._source.has(snapshot, before):
                tail = before.tail
                raise BehindItsBackup(self._source.directory, self._place.directory, tail.commit, tail.sequence)
            try:
                brought = self._bring(snapshot)
            except NotReadBack:
                if attempt > 1:
                    raise
                brought = None  # a repair may have replaced the file between the copy and the comparison
            if brought is not None:
                break
            snapshot = self._look() or snapshot
        else:
            raise DiskError(self._source.directory, OSError("its files go faster than they can be copied"), "back up")
        manifest = self._manifest_of(snapshot, brought)
        is_new = not is_repeated or before is None or replace(manifest, taken_at=before.taken_at) != before
        removed = self._place.publish(manifest) if is_new else []
        self._header = snapshot.header
        self._is_damaged = snapshot.files[-1].sequence != snapshot.tail.sequence or brought[-1].file.is_damaged
        damage = {str(DataFileName(one.file.sequence)): one.damage for one in brought if one.damage}
        return BackupReport(
            directory=self._place.directory,
            manifest=manifest,
            brought=tuple(brought),
            removed=tuple(removed),
            archived=tuple(self._place.take_archived()),
            damage=snapshot.damage | damage,
            unvouched=snapshot.unvouched,
            is_first=before is None or not before.is_complete,
            is_new=is_new,
            is_mended=self._place.is_mended,
            fell_behind=before is not None and before.is_complete and _has_skipped(before, snapshot),
            seconds=self._options.seconds() - began,
        )

    def _settled(self) -> Snapshot:
        """Return the database with all in it that was acknowledged before the call."""
        snapshot = self._look()
        first = _end_of(snapshot)
        waited = 0.0
        while waited < self._options.vouch_seconds and (snapshot is None or snapshot.is_open):
            if snapshot is not None and not snapshot.lost and (not snapshot.unvouched or _end_of(snapshot) > first):
                break
            self._options.wait(LOOK_SECONDS)
            waited += LOOK_SECONDS
            snapshot = self._look()
            first = first or _end_of(snapshot)
        return self._required(snapshot)

    def _required(self, snapshot: Snapshot | None) -> Snapshot:
        if snapshot is None:
            raise NothingToBackUp(f"{self._source.directory} has no commit that is vouched for: nothing to back up yet")
        return snapshot

    def _look(self) -> Snapshot | None:
        snapshot = self._source.snapshot()
        self._has_broker = self._has_broker or (snapshot is not None and snapshot.holds_key)
        return snapshot

    def _bring(self, snapshot: Snapshot) -> list[CopiedFile] | None:
        """Return the files of the snapshot, all in the backup now; None when one of them has gone."""
        total = sum(wanted.size for wanted in snapshot.files)
        done = 0
        brought = []
        for wanted in snapshot.files:
            one = self._place.bring(self._source.disk, wanted, links=self._links, rereads=self._options.rereads)
            if one is None:
                return None
            brought.append(one)
            done += wanted.size
            self._options.progress("back up", done, total)
        return brought

    def _manifest_of(self, snapshot: Snapshot, brought: "list[CopiedFile] | tuple[()]") -> Manifest:
        header = snapshot.header
        return Manifest(
            database=header.database,
            parent=header.parent,
            parent_sequence=header.parent_sequence,
            low_water=snapshot.low_water,
            tail=snapshot.tail,
            next_message=snapshot.next_message,
            next_commit=max(header.next_commit, snapshot.tail.commit + 1),
            owner=snapshot.owner,
            was_closed=snapshot.was_closed and not any(one.damage for one in brought),
            has_broker=self._has_broker,
            taken_at=self._options.clock(),
            source=f"{socket.gethostname()}:{self._source.directory}",
            files=tuple(one.file for one in brought),
        )


def back_up(
    spool: str | Path, directory: str | Path, options: BackupOptions | None = None, *, disk: Disk | None = None
) -> BackupReport:
    """Make the backup of a database in a directory, or bring it up to now. As `Backup.open` and `Backup.run`."""
    with Backup.open(spool, directory, options, disk=disk) as backup:
        return backup.run()


def check_apart(spool: Path, directory: Path) -> None:
    """Raise NotThisBackup where one of the two directories is in the other."""
    if not are_apart(spool, directory):
        raise NotThisBackup(
            f"the backup {directory} and the database {spool} are one in the other; give another directory"
        )


def _end_of(snapshot: Snapshot | None) -> tuple[int, ...]:
    """Return where what is vouched for ends: file and byte; nothing where there is nothing."""
    return () if snapshot is None else (snapshot.tail.sequence, snapshot.tail.end)


def _has_skipped(before: Manifest, snapshot: Snapshot) -> bool:
    """Say whether what the database has begins behind the end of the backup, with something left out in between."""
    first = snapshot.files[0].task.header if snapshot.files else None
    if first is None or snapshot.low_water <= before.tail.sequence:
        return False
    return (first.previous.sequence, first.previous.end) != (before.tail.sequence, before.tail.end)
