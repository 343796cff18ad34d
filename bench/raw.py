"""The raw limits: what the system calls alone can do with the same bytes.

`RawJournal` does to files what the journal does to them, and nothing else: it writes a buffer over
zeros and syncs it, fills the next file with zeros in a thread once a quarter of this one is used, and
goes on there when this one is full. It has no checksums, no index, no footers, no locks.
"""

import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import xxhash

from oms_journal.journal.writing.segment import SYNC_BYTES, ZEROS

FILE_BYTES = 25 << 20
NEXT_SHARE = 4  # the next file is filled once a quarter of this one is used, as in journal/writing/log.py
READ_BYTES = (256 << 10, 1 << 20, 4 << 20)  # chunks that reading and hashing is tried with

Write = Callable[[int, bytes, int], object]


def write_dsync(descriptor: int, data: bytes, offset: int) -> None:
    """Write and sync in one call, where the system has it."""
    os.pwritev(descriptor, (data,), offset, os.RWF_DSYNC)


def write_fdatasync(descriptor: int, data: bytes, offset: int) -> None:
    """Write, then sync the data."""
    os.pwrite(descriptor, data, offset)
    os.fdatasync(descriptor)


METHODS: dict[str, Write] = {
    **({"pwritev(RWF_DSYNC)": write_dsync} if hasattr(os, "RWF_DSYNC") else {}),
    "pwrite + fdatasync": write_fdatasync,
}


class RawJournal:
    """Files written one after the other, each filled with zeros before it is needed."""

    def __init__(self, directory: Path, write: Write, *, file_bytes: int = FILE_BYTES) -> None:
        self._directory = directory
        self._write = write
        self._file_bytes = file_bytes
        self._count = 0
        self._next: int | None = None
        self._filler: threading.Thread | None = None
        directory.mkdir(parents=True)
        self._descriptor = self._filled()
        self._offset = 0
        self._old: list[int] = []

    def _filled(self) -> int:
        """Return a new file full of zeros, its name and its bytes durable."""
        self._count += 1
        path = self._directory / f"{self._count:010}.raw"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        for start in range(0, self._file_bytes, SYNC_BYTES):
            end = min(start + SYNC_BYTES, self._file_bytes)
            for at in range(start, end, len(ZEROS)):
                os.pwrite(descriptor, ZEROS[: min(len(ZEROS), end - at)], at)
            os.fsync(descriptor)
        names = os.open(self._directory, os.O_RDONLY)
        os.fsync(names)
        os.close(names)
        return descriptor

    def _fill_next(self) -> None:
        for descriptor in self._old:
            os.close(descriptor)
        self._old.clear()
        self._next = self._filled()

    def _roll(self) -> None:
        if self._filler is not None:
            self._filler.join()
            self._filler = None
        self._old.append(self._descriptor)
        self._descriptor = self._next if self._next is not None else self._filled()
        self._next = None
        self._offset = 0

    def append(self, data: bytes) -> None:
        """Make the bytes durable behind the last ones."""
        offset = self._offset
        end = offset + len(data)
        if end > self._file_bytes:
            self._roll()
            offset, end = 0, len(data)
        self._write(self._descriptor, data, offset)
        self._offset = end
        if self._filler is None and end * NEXT_SHARE > self._file_bytes:
            self._filler = threading.Thread(target=self._fill_next)
            self._filler.start()

    def run(self, data: bytes, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
        """Append the same bytes for so long, by a clock in seconds; return how many times a second."""
        append = self.append
        count = 0
        began = clock()
        end = began + seconds
        while (now := clock()) < end:
            for _ in range(16):
                append(data)
            count += 16
        return count / (now - began)

    def settle(self) -> None:
        """Return when the next file is ready, if one is being filled."""
        if self._filler is not None:
            self._filler.join()

    def close(self) -> None:
        """Let go of the files and remove them."""
        self.settle()
        for descriptor in (self._descriptor, self._next, *self._old):
            if descriptor is not None:
                os.close(descriptor)
        for path in self._directory.iterdir():
            path.unlink()
        self._directory.rmdir()


def sync_seconds(directory: Path, *, size: int = 352, rounds: int = 5, seconds: float = 0.1) -> dict[str, float]:
    """Return what one write with its sync takes by each method, in seconds: medians of alternated rounds."""
    taken: dict[str, list[float]] = {name: [] for name in METHODS}
    for number in range(rounds):
        for name, write in METHODS.items():
            raw = RawJournal(directory / f"{number}-{list(METHODS).index(name)}", write, file_bytes=4 << 20)
            taken[name].append(1 / raw.run(bytes(size), seconds))
            raw.close()
    return {name: statistics.median(found) for name, found in taken.items()}


def read_and_hash(paths: list[Path], chunk: int) -> float:
    """Read the files and hash every byte (xxh3), in one thread; return the seconds it took."""
    buffer = bytearray(chunk)
    view = memoryview(buffer)
    began = time.perf_counter()
    for path in paths:
        hasher = xxhash.xxh3_64()
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(view):
                hasher.update(view[:count])
        hasher.intdigest()
    return time.perf_counter() - began
