"""The files of a backup, brought there one by one: linked or copied, made durable, read back.

A file is linked where the file system allows it and it is sealed, else copied; what is there already stays. The copy
of the file that is being written grows in place, behind what the manifest knows of it. So the backup
before is as good as it was until the new manifest is durable:

    found in the backup                          what is done
    sealed and whole                             kept, even where the database has lost it since; made anew where
                                                 more stands behind its end
    the beginning of the same file               the rest is written behind it
    other bytes under that name                  the file is made beside it, and takes its place after the manifest;
                                                 what was whole of the old one is archived first
    nothing, or what an interrupted one left     made beside its place, synced, read back, renamed
"""

import contextlib
import errno
from dataclasses import dataclass, replace
from pathlib import Path

import xxhash

from oms_journal.database.backup.snapshot import FileToBackUp
from oms_journal.journal import names
from oms_journal.journal.disk import NO_LINKS, Disk, DiskFile
from oms_journal.journal.errors import DiskError, NotReadBack
from oms_journal.journal.files import build, copy, pieces
from oms_journal.journal.format.manifest import BackupFile
from oms_journal.journal.names import ArchiveName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import examine


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file that is now in the backup's directory."""

    file: BackupFile
    how: str  # "kept", "linked", "copied" or "extended"
    bytes: int = 0  # that were written
    damage: str = ""


class FileCopier:
    """Brings the files of one backup. What is `late` takes its place once the manifest is durable."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self.disk = disk
        self.directory = directory
        self.late: list[str] = []
        self.archived: list[str] = []

    def bring(self, source: Disk, wanted: FileToBackUp, old: BackupFile | None, *, links: bool) -> CopiedFile | None:
        """Have a file of the database here, durable and read back; None when it has gone or changed meanwhile.

        `old` is what the backup has of it. DiskError; NotReadBack when what was written is not what is read.
        """
        try:
            return self._bring(source, wanted, old, links=links)
        except FileNotFoundError as failure:
            if failure.filename is not None and Path(failure.filename).parent == self.directory:
                raise DiskError(self.directory, failure, "write the backup in") from failure
            return None
        except OSError as failure:
            raise DiskError(self.directory, failure, f"write {wanted.name} of the backup in") from failure

    def _bring(self, source: Disk, wanted: FileToBackUp, old: BackupFile | None, *, links: bool) -> CopiedFile | None:
        path = self.directory / wanted.name
        size = _size(self.disk, path)
        if old is not None and old.identity == wanted.identity and size is not None and size >= old.size:
            is_same = old.size == wanted.size and old.is_sealed == wanted.is_sealed
            if not old.is_damaged and (old.is_sealed or is_same):
                if size > old.size and not old.is_sealed:
                    self._cut(path, old.size)
                elif size > old.size and is_same and not wanted.damage:  # never cut: it may be the database's by a link
                    return self._make(source, wanted, None, links=links)
                return CopiedFile(old, "kept")
            if old.is_damaged and is_same and _checksum(source, wanted.task.path, wanted.size) == old.checksum:
                return CopiedFile(old, "kept", damage=wanted.damage or "still as damaged as it was")
            if not old.is_sealed and wanted.size >= old.size:
                extended = self._extend(source, wanted, old)
                if extended is not None:
                    return extended
        if old is None and size == wanted.size and not links:
            checksum = _checksum(source, wanted.task.path, wanted.size)
            if checksum == _checksum(self.disk, path, wanted.size):
                _sync(self.disk, path)
                return self._verified(source, wanted, path, CopiedFile(_entry(wanted, checksum), "kept"))
        return self._make(source, wanted, old, links=links)

    def _cut(self, path: Path, size: int) -> None:
        """Remove what an interrupted back-up had written behind the end of its copy."""
        file = self.disk.open(path, writable=True)
        try:
            file.truncate(size)
            file.sync()
        finally:
            file.close()

    def _extend(self, source: Disk, wanted: FileToBackUp, old: BackupFile) -> CopiedFile | None:
        """Write what has come to a file since; None where its beginning is not what the backup has."""
        path = self.directory / wanted.name
        hasher = xxhash.xxh3_64()
        reading = source.open(wanted.task.path)
        try:
            for _, data in pieces(reading, 0, old.size):
                hasher.update(data)
            if hasher.intdigest() != old.checksum:  # as it does where the file is shorter
                return None
            writing = self.disk.open(path, writable=True)
            try:
                if not _copy_hashed(reading, writing, hasher, old.size, wanted.size):
                    return None
                if writing.size() > wanted.size:
                    writing.truncate(wanted.size)  # what an interrupted back-up had written behind it
                writing.sync()
            finally:
                writing.close()
        finally:
            reading.close()
        if _checksum(self.disk, path, wanted.size) != hasher.intdigest():
            return None  # what was there before has rotted: it is made anew
        brought = CopiedFile(_entry(wanted, hasher.intdigest()), "extended", wanted.size - old.size)
        return self._verified(source, wanted, path, brought)

    def _make(self, source: Disk, wanted: FileToBackUp, old: BackupFile | None, *, links: bool) -> CopiedFile | None:
        """Make a file beside its place, and give it its name, at once where the manifest knows of no other."""
        path = self.directory / wanted.name
        new = self.directory / names.unfinished(wanted.name)
        with contextlib.suppress(FileNotFoundError):
            self.disk.unlink(new)
        brought = None
        try:
            if links and wanted.is_sealed and not wanted.damage:
                brought = self._link(wanted, new)
            if brought is None:
                brought = self._copy(source, wanted, new)
            if brought is not None:
                brought = self._verified(source, wanted, new, brought)
        finally:
            if brought is None:
                with contextlib.suppress(OSError):
                    self.disk.unlink(new)
        if brought is None:
            return None
        if old is None:
            self.disk.rename(new, path)
        else:
            self._archive(old, path)
            self.late.append(wanted.name)
        return brought

    def _link(self, wanted: FileToBackUp, new: Path) -> CopiedFile | None:
        """Give the sealed file a second name here; None where the file system cannot."""
        try:
            self.disk.link(wanted.task.path, new)
        except OSError as failure:
            if failure.errno not in NO_LINKS:
                raise
            return None
        _sync(self.disk, new)  # its length may be in the cache alone
        if self.disk.size(new) != wanted.size:
            raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", str(wanted.task.path))
        return CopiedFile(_entry(wanted, _checksum(self.disk, new, wanted.size)), "linked")

    def _copy(self, source: Disk, wanted: FileToBackUp, new: Path) -> CopiedFile | None:
        hasher = xxhash.xxh3_64()
        reading = source.open(wanted.task.path)
        try:
            writing = self.disk.create(new)
            try:
                if not _copy_hashed(reading, writing, hasher, 0, wanted.size):
                    return None
                writing.sync()
            finally:
                writing.close()
        finally:
            reading.close()
        return CopiedFile(_entry(wanted, hasher.intdigest()), "copied", wanted.size)

    def _verified(self, source: Disk, wanted: FileToBackUp, path: Path, brought: CopiedFile) -> CopiedFile:
        """Return it with what validation says of it, read back; NotReadBack where the database's own file is better."""
        if _checksum(self.disk, path, brought.file.size) != brought.file.checksum:
            raise NotReadBack(f"{path} does not read back as it was written; the backup before is as it was")
        task = replace(wanted.task, path=path, named=wanted.ending, vouched_only=False, is_listed=True)
        found = examine(self.disk, task, full=True)
        if found.decision.verdict is Verdict.CLEAN:
            return brought
        original = examine(source, replace(wanted.task, vouched_only=wanted.task.named is None), full=True)
        if original.decision.verdict is not Verdict.DAMAGED:
            if original.header != wanted.task.header:
                raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", str(wanted.task.path))
            raise NotReadBack(f"{path}: {found.reason}; the database's own file is whole")
        return replace(brought, file=replace(brought.file, is_damaged=True), damage=original.reason)

    def _archive(self, old: BackupFile, path: Path) -> None:
        """Keep what the backup has of a file whose bytes in the database have changed, where it is whole."""
        if old.is_damaged or not has(self.disk, path, old):
            return
        parsed = [names.parse(entry) for entry in self.disk.list(self.directory)]
        versions = [one.version for one in parsed if isinstance(one, ArchiveName) and one.sequence == old.sequence]
        archive = str(ArchiveName(old.sequence, max(versions, default=0) + 1))
        reading = self.disk.open(path)
        try:
            build(self.disk, self.directory / archive, lambda file: copy(reading, file, 0, old.size))
        finally:
            reading.close()
        self.archived.append(archive)


def has(disk: Disk, path: Path, file: BackupFile) -> bool:
    """Say whether the file begins with the bytes that the manifest names."""
    size = _size(disk, path)
    return size is not None and size >= file.size and _checksum(disk, path, file.size) == file.checksum


def _entry(wanted: FileToBackUp, checksum: int) -> BackupFile:
    return BackupFile(
        sequence=wanted.sequence,
        identity=wanted.identity,
        size=wanted.size,
        checksum=checksum,
        is_sealed=wanted.is_sealed,
        is_damaged=bool(wanted.damage),
    )


def _size(disk: Disk, path: Path) -> int | None:
    try:
        return disk.size(path)
    except FileNotFoundError:
        return None


def _checksum(disk: Disk, path: Path, size: int) -> int:
    with DataFile(disk, path) as file:
        return file.checksum(size)


def _sync(disk: Disk, path: Path) -> None:
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _copy_hashed(source: DiskFile, target: DiskFile, hasher: "xxhash.xxh3_64", start: int, end: int) -> bool:
    """Copy the bytes from start to end and hash them; False when the source has not so many."""
    reached = start
    for at, data in pieces(source, start, end):
        target.write(data, at)
        hasher.update(data)
        reached = at + len(data)
    return reached == end
