"""A disk on which bytes that cannot be read are zeros: only for `--unreadable-as-damaged`.

A read error is not damage: a cable, a controller or a network may be at fault, and the bytes come
back with it. Only when the operator says that they will not, a start goes on without them.
"""

from pathlib import Path

from journal.disk import Disk, DiskFile

BLOCK_BYTES = 4096


class ForgivingFile:
    """A file whose unreadable blocks read as zeros."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self.write = file.write
        self.write_durably = file.write_durably
        self.sync = file.sync
        self.size = file.size
        self.truncate = file.truncate
        self.reserve = file.reserve
        self.close = file.close

    def read(self, size: int, offset: int) -> bytes:
        try:
            return self._file.read(size, offset)
        except OSError:
            end = min(offset + size, self._file.size())
            return b"".join(self._block(at, min(BLOCK_BYTES, end - at)) for at in range(offset, end, BLOCK_BYTES))

    def _block(self, offset: int, size: int) -> bytes:
        try:
            return self._file.read(size, offset)
        except OSError:
            return bytes(size)

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
