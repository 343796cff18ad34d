"""A disk whose files remember which of their bytes could not be read: only for `--unreadable-as-damaged`.

A read error is not damage: a cable, a controller or a network may be at fault, and the bytes come
back with it. Only when the operator says that they will not, a start goes on without them. In their place
stands a mark, which is neither a frame nor zeros: what nobody can read does not prove that nothing was written.
"""

from collections.abc import Sequence
from pathlib import Path

from oms_journal.journal.disk import Disk, DiskFile

BLOCK_BYTES = 4096
MARK = b"no read!"  # in the place of every 8 bytes that cannot be read
_MARKED = MARK * (BLOCK_BYTES // len(MARK))


class ForgivingFile:
    """A file whose unreadable blocks read as marks."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self._unreadable: set[int] = set()  # where the blocks begin that were asked for, and could not be read
        self.write = file.write
        self.write_durably = file.write_durably
        self.sync = file.sync
        self.size = file.size
        self.truncate = file.truncate
        self.reserve = file.reserve
        self.close = file.close

    @property
    def unreadable(self) -> Sequence[tuple[int, int]]:
        """The ranges of bytes that were asked for, and could not be read."""
        size = self._file.size()
        return [(at, min(at + BLOCK_BYTES, size)) for at in sorted(self._unreadable)]

    def read(self, size: int, offset: int) -> bytes:
        try:
            return self._file.read(size, offset)
        except OSError:
            end = min(offset + size, self._file.size())
            first = offset // BLOCK_BYTES * BLOCK_BYTES
            return b"".join(self._part(at, max(at, offset), end) for at in range(first, end, BLOCK_BYTES))

    def _part(self, block: int, start: int, end: int) -> bytes:
        """Return what is wanted of one block."""
        end = min(block + BLOCK_BYTES, end)
        try:
            return self._file.read(end - start, start)
        except OSError:
            self._unreadable.add(block)
            return _MARKED[start - block : end - block]

    def read_now(self, size: int, offset: int) -> bytes:
        return self._file.read_now(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        try:
            return self._file.read_into(buffer, offset)
        except OSError:
            data = self.read(len(buffer), offset)
            buffer[: len(data)] = data
            return len(data)


class ForgivingDisk:
    """A disk that opens files which forgive."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.list = disk.list
        self.size = disk.size
        self.modified = disk.modified
        self.make_directory = disk.make_directory
        self.open_lock = disk.open_lock
        self.rename = disk.rename
        self.link = disk.link
        self.unlink = disk.unlink
        self.sync_directory = disk.sync_directory
        self.free_bytes = disk.free_bytes

    def create(self, path: Path) -> DiskFile:
        return ForgivingFile(self._disk.create(path))

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        return ForgivingFile(self._disk.open(path, writable=writable))


def unreadable_in(file: DiskFile) -> Sequence[tuple[int, int]]:
    """Return the ranges of what was read of the file so far, and is nothing but marks."""
    return file.unreadable if isinstance(file, ForgivingFile) else ()
