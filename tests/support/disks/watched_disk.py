"""The real disk, watched: counts the durable writes, and can hold them up, slow them down, or make them fail.

Everything is done by the operating system; what is added is only when, and whether.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oms_journal.journal.disk import Buffer, DiskFile, RealDisk

TIMEOUT_SECONDS = 60.0  # for what must happen; reached only where a test fails


class WatchedFile:
    """A file whose durable writes are the disk's to decide. The other verbs are the system's."""

    def __init__(self, disk: "WatchedDisk", path: Path, file: DiskFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self.write = file.write
        self.read = file.read
        self.read_now = file.read_now
        self.read_into = file.read_into
        self.size = file.size
        self.truncate = file.truncate
        self.reserve = file.reserve
        self.close = file.close

    def sync(self) -> None:
        self._disk.before_change()
        self._file.sync()

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        with self._disk.durable_write(self._path, offset):
            if self._disk.syncs:
                self._file.write_durably(buffers, offset)
            else:
                self._file.write(b"".join(buffers), offset)


class WatchedDisk(RealDisk):
    """The operating system's file system, with an eye on what is written durably."""

    def __init__(self) -> None:
        self.seconds = 0.0  # that a durable write takes longer than the device needs
        self.syncs = True  # False: as fast as no device is
        self.before_change: Callable[[], None] = lambda: None  # called before a file is synced or removed
        self.writes: list[tuple[str, int]] = []  # file and offset of every durable write, in order
        self.in_flight_max = 0
        self.failure: OSError | None = None  # raised by every durable write from now on
        self._in_flight = 0
        self._lock = threading.Lock()  # guards the counts
        self._gate = threading.Event()
        self._gate.set()
        self._arrived = threading.Event()

    def create(self, path: Path) -> DiskFile:
        return WatchedFile(self, path, super().create(path))

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = super().open(path, writable=writable)
        return WatchedFile(self, path, file) if writable else file

    def unlink(self, path: Path) -> None:
        self.before_change()
        super().unlink(path)

    @property
    def write_count(self) -> int:
        return len(self.writes)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold every durable write up until the block is left."""
        self._arrived.clear()
        self._gate.clear()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Let go of the durable writes that are held up."""
        self._gate.set()

    def wait_for_write(self) -> None:
        """Return when a durable write is held up: its bytes are written, and not yet durable."""
        assert self._arrived.wait(TIMEOUT_SECONDS), "no durable write came"

    @contextmanager
    def durable_write(self, path: Path, offset: int) -> Iterator[None]:
        """What a durable write is: the bytes are written within, then it takes until they are durable."""
        with self._lock:
            self.writes.append((path.name, offset))
            self._in_flight += 1
            self.in_flight_max = max(self.in_flight_max, self._in_flight)
        try:
            yield
            self._arrived.set()
            assert self._gate.wait(TIMEOUT_SECONDS), "a durable write was held up for ever"
            time.sleep(self.seconds)
            if self.failure is not None:
                raise self.failure
        finally:
            with self._lock:
                self._in_flight -= 1


class HandClock:
    """A clock that goes as it is told: microseconds since 1970-01-01 UTC. Every reading is one later."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


class CountingDisk(WatchedDisk):
    """The operating system's, with a count of the bytes that are read from files opened for reading."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = False
        self.bytes_read = 0

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = super().open(path, writable=writable)
        return file if writable else _CountedFile(self, path, file)


class _CountedFile(WatchedFile):
    def __init__(self, disk: CountingDisk, path: Path, file: DiskFile) -> None:
        super().__init__(disk, path, file)

        def counted(data: bytes) -> bytes:
            disk.bytes_read += len(data)
            return data

        def read_into(buffer: memoryview, offset: int) -> int:
            count = file.read_into(buffer, offset)
            disk.bytes_read += count
            return count

        self.read = lambda size, offset: counted(file.read(size, offset))
        self.read_now = lambda size, offset: counted(file.read_now(size, offset))
        self.read_into = read_into
