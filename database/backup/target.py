"""The directory of a backup, while one is made: locked, and its manifest put last.

open     lock it; refuse what is not a backup; finish what was interrupted behind its manifest
begin    of this database, or refused; from here on nobody takes the directory for a database
bring    the files, one by one (`files.py`)
publish  the manifest, durable after all it names; then what took its place late, and what is not needed goes

Whether two directories are apart: what is done in the one then leaves the other alone.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from oms_journal.database.backup.files import CopiedFile, FileCopier, has
from oms_journal.database.backup.snapshot import FileToBackUp
from oms_journal.database.backup.verification import rebuilt
from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DirectoryGone, DiskError, ManifestDamaged, NotReadBack, NotThisBackup
from oms_journal.journal.format import manifest
from oms_journal.journal.format.headers import Ending
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.lock import DirectoryLock
from oms_journal.journal.names import DataFileName, UnfinishedName
from oms_journal.recovery.place import make_directory


class BackupTarget:
    """A directory that holds a backup, or will. Made by `open`; close it."""

    def __init__(
        self, disk: Disk, directory: Path, ownership: DirectoryLock, found: Manifest | None, *, is_mended: bool = False
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.manifest = found
        self.is_mended = is_mended  # one copy of its manifest was damaged
        self._ownership = ownership
        self._bringer = FileCopier(disk, directory)

    @classmethod
    def open(cls, disk: Disk, directory: Path, *, rebuilds: bool = False, key: bytes = b"") -> "BackupTarget":
        """Lock the directory, made where it is missing, and finish what an interrupted back-up was about to.

        NotThisBackup where it holds anything else, DatabaseLocked, DiskError, NewerFormat; ManifestDamaged, unless it
        `rebuilds` the manifest from the data files that are whole.
        """
        make_directory(disk, directory)
        try:
            entries = disk.list(directory)
        except OSError as failure:
            raise DiskError(directory, failure, "list") from failure
        found = _found(disk, directory, key, rebuilds=rebuilds)
        if found is None:
            _refuse_strangers(directory, entries)
        ownership = DirectoryLock.acquire(disk, directory)
        try:
            found = _found(disk, directory, key, rebuilds=rebuilds)
            is_mended = found is not None and bool(manifest.flaw(disk, directory))
            place = cls(disk, directory, ownership, found, is_mended=is_mended)
            if found is not None:
                settle(disk, directory, found)
                if is_mended and not rebuilds:
                    place.update(found)
            return place
        except BaseException:
            ownership.close()
            raise

    def check(self) -> None:
        """Raise DiskError where the directory is not there any more, or another one is in its place."""
        try:
            if self._ownership.is_ours():
                return
            failure = OSError("another process has it")
        except DirectoryGone:
            failure = OSError(
                errno.ENOENT, "it was removed, renamed or replaced, or is not mounted", str(self.directory)
            )
        except OSError as refused:
            failure = refused
        raise DiskError(self.directory, failure, "write the backup in")

    def begin(self, wanted: Manifest) -> None:
        """Make sure that the directory is this database's: from now on nobody takes it for a database."""
        if self.manifest is None:
            self.manifest = replace(wanted, files=(), tail=Ending())
            self._change("begin", lambda: manifest.write(self.disk, self.directory, self._known))
        elif self.manifest.database != wanted.database:
            raise NotThisBackup(
                f"{self.directory} is a backup of another database ({self.manifest.database.hex()}, "
                f"{self.manifest.source}); nothing was changed"
            )

    @property
    def _known(self) -> Manifest:
        assert self.manifest is not None
        return self.manifest

    def bring(self, source: Disk, wanted: FileToBackUp, *, links: bool, rereads: bool) -> CopiedFile | None:
        """Have a file of the database here, durable and read back; None when it has gone or changed meanwhile.

        DiskError; NotReadBack when what was written is not what is read.
        """
        old = self._known.file(wanted.sequence)
        if rereads and old is not None and not has(self.disk, self.directory / wanted.name, old):
            old = None
        return self._bringer.bring(source, wanted, old, links=links)

    def append(self, sequence: int, offset: int, data: bytes) -> None:
        """Write behind what the manifest knows of its last file, durably, and read it back. DiskError, NotReadBack."""
        self.check()
        path = self.directory / str(DataFileName(sequence))
        try:
            file = self.disk.open(path, writable=True)
            try:
                file.write(data, offset)
                if file.size() > offset + len(data):
                    file.truncate(offset + len(data))
                file.sync()
                found = file.read(len(data), offset)
            finally:
                file.close()
        except OSError as failure:
            raise DiskError(path, failure, "write") from failure
        if found != data:
            raise NotReadBack(f"{path} does not read back as it was written; the backup before is as it was")

    def update(self, wanted: Manifest) -> None:
        """Let the backup be what the manifest says, where no file has come or gone. DiskError."""
        self._change("finish", lambda: manifest.write(self.disk, self.directory, wanted))
        self.manifest = wanted

    def publish(self, wanted: Manifest) -> list[str]:
        """Let the backup be what the manifest says, and remove what it does not need; return the names. DiskError."""
        removed: list[str] = []

        def change() -> None:
            self.disk.sync_directory(self.directory)
            manifest.write(self.disk, self.directory, wanted)
            self.manifest = wanted
            for name in self._bringer.late:
                self.disk.rename(self.directory / names.unfinished(name), self.directory / name)
            self._bringer.late.clear()
            needed = {str(DataFileName(file.sequence)) for file in wanted.files}
            for entry in self.disk.list(self.directory):
                parsed = names.parse(entry)
                if isinstance(parsed, UnfinishedName) or (isinstance(parsed, DataFileName) and entry not in needed):
                    self.disk.unlink(self.directory / entry)
                    removed.append(entry)
            self.disk.sync_directory(self.directory)

        self._change("finish", change)
        return removed

    def _change(self, what: str, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as failure:
            raise DiskError(self.directory, failure, f"{what} the backup in") from failure

    def take_archived(self) -> list[str]:
        """Return the archives that were made since this was asked last."""
        taken, self._bringer.archived = self._bringer.archived, []
        return taken

    def close(self) -> None:
        """Let go of the directory."""
        self._ownership.close()


def _found(disk: Disk, directory: Path, key: bytes, *, rebuilds: bool) -> Manifest | None:
    """Return what the backup consists of; of one whose manifest is damaged, the data files that are whole."""
    try:
        return manifest.read(disk, directory)
    except ManifestDamaged:
        if not rebuilds:
            raise
    return rebuilt(disk, directory, key, whole_only=True)


def settle(disk: Disk, directory: Path, known: Manifest) -> None:
    """Let the files take their places that were made before the manifest and not renamed after it. DiskError."""
    try:
        changed = False
        for entry in disk.list(directory):
            if not isinstance(names.parse(entry), UnfinishedName):
                continue
            name = names.parse(entry.removesuffix(names.unfinished("")))
            file = known.file(name.sequence) if isinstance(name, DataFileName) else None
            path = directory / str(name)
            if file is not None and not has(disk, path, file) and has(disk, directory / entry, file):
                disk.rename(directory / entry, path)
                changed = True
        if changed:
            disk.sync_directory(directory)
    except OSError as failure:
        raise DiskError(directory, failure, "settle the backup in") from failure


def _refuse_strangers(directory: Path, entries: Sequence[str]) -> None:
    mine = {names.LOCK, names.unfinished(names.BACKUP)}
    strangers = [entry for entry in entries if entry not in mine]
    if strangers:
        raise NotThisBackup(
            f"{directory} is not empty and no backup (it holds {strangers[0]}); give a directory of its own; "
            "nothing was changed"
        )


def are_apart(one: Path, other: Path) -> bool:
    """Say whether neither directory is the other or lies in it, whatever links lead there."""
    one, other = one.resolve(), other.resolve()
    return not one.is_relative_to(other) and not other.is_relative_to(one)
