"""Open files of a simulated disk, and its lock file."""

import errno
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from oms_journal.journal.disk import Buffer
from tests.support.disks.faulty_bytes import SECTOR, FileBytes
from tests.support.disks.faulty_calls import Calls, Fault, Kind, failure


class Device:
    """What all open files of a disk share."""

    def __init__(self, space: int | None, data_files: Callable[[], Iterable[FileBytes]]) -> None:
        self.space = space  # bytes of all files together, None: no limit
        self.calls = Calls()
        self.guard = threading.RLock()
        self.locks: dict[tuple[Path, int], SimulatedLock] = {}
        self.syncs_after_failure: list[str] = []  # files whose sync failed and was tried again
        self.writes_over_failure: list[str] = []  # files with a durable write to where a sync had failed
        self.clock: Callable[[], float] = lambda: 0.0  # seconds since 1970-01-01 UTC
        self.used: Callable[[], int]  # bytes
        self._data_files = data_files

    def take_space(self, file: FileBytes, start: int, end: int, path: Path) -> None:
        if self.space is not None and self.used() + file.new_space(start, end) > self.space:
            raise failure(errno.ENOSPC, path)

    def misdirect(self, file: FileBytes, before: bytes, offset: int, size: int, seed: int) -> None:
        """Have the sectors of a write lie elsewhere, in the same file or in another, and in their place what was."""
        start, end = offset // SECTOR * SECTOR, -(-(offset + size) // SECTOR) * SECTOR
        sectors = file.read(start, end)
        file.rot(before[start:end].ljust(len(sectors), b"\0"), start)
        chance = random.Random(seed)
        victims = sorted(self._data_files(), key=lambda one: (one.size, one.digest()))
        victim = chance.choice([one for one in victims if one.size] or [file])
        victim.rot(sectors, chance.randrange(-(-victim.size // SECTOR)) * SECTOR)


class SimulatedFile:
    """One open file of a simulated disk."""

    def __init__(self, device: Device, file: FileBytes, path: Path, *, writable: bool) -> None:
        self._device = device
        self._file = file
        self._path = path
        self._writable = writable
        self._is_open = True
        self._told = file.failed_syncs  # of the file's failed syncs, those that this one knows of
        self._had_failure = False

    def write(self, data: Buffer, offset: int) -> None:
        with self._device.guard:
            self._write(bytes(data), offset, self._begin("write"))

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        with self._device.guard:
            fault = self._begin("write_durably")
            if self._file.is_lost(offset, offset + len(data)):
                self._device.writes_over_failure.append(self._path.name)
            is_misdirected = fault is not None and fault.kind is Kind.MISDIRECTED
            before = self._file.read(0, self._file.size) if is_misdirected else b""
            self._write(data, offset, fault if fault is not None and fault.kind is Kind.SHORT else None)
            self._check_sync(None if is_misdirected else fault)
            self._device.calls.step("sync of write_durably", self._path)
            self._file.sync(offset, offset + len(data))
            if fault is not None and is_misdirected:
                self._device.misdirect(self._file, before, offset, len(data), fault.seed)

    def _write(self, data: bytes, offset: int, fault: Fault | None) -> None:
        assert self._writable, "opened for reading only"
        is_short = fault is not None and fault.kind is Kind.SHORT
        part = data[: max(1, len(data) // 2)] if is_short else data
        self._device.take_space(self._file, offset, offset + len(part), self._path)
        is_misdirected = fault is not None and fault.kind is Kind.MISDIRECTED
        before = self._file.read(0, self._file.size) if is_misdirected else b""
        self._file.write(part, offset)
        self._file.changed = self._device.clock()
        if fault is not None and is_short:
            raise failure(fault.code, self._path)
        if fault is not None and is_misdirected:
            self._device.misdirect(self._file, before, offset, len(data), fault.seed)

    def sync(self) -> None:
        with self._device.guard:
            self._check_sync(self._begin("sync"))
            self._file.sync()

    def _check_sync(self, fault: Fault | None) -> None:
        """Raise what a sync raises: a fault of its own, or another's on the same file."""
        if self._had_failure:
            self._device.syncs_after_failure.append(self._path.name)
        if fault is not None:
            self._file.lose_unsynced()
        if self._told < self._file.failed_syncs:
            self._told = self._file.failed_syncs
            self._had_failure = True
            raise failure(errno.EIO if fault is None else fault.code, self._path)

    def read(self, size: int, offset: int) -> bytes:
        with self._device.guard:
            self._begin("read")
            if self._file.is_unreadable(offset, offset + size):
                raise failure(errno.EIO, self._path)
            return self._file.read(offset, offset + size)

    def read_now(self, size: int, offset: int) -> bytes:
        return self.read(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.read(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._file.size

    def truncate(self, size: int) -> None:
        with self._device.guard:
            self._begin("truncate")
            self._file.resize(size)
            self._file.changed = self._device.clock()

    def reserve(self, size: int) -> None:
        with self._device.guard:
            self._begin("reserve")
            self._device.take_space(self._file, 0, size, self._path)
            self._file.allocate(size)

    def close(self) -> None:
        self._is_open = False

    def _begin(self, verb: str) -> Fault | None:
        assert self._is_open, "the file was closed"
        return self._device.calls.begin(verb, self._path)


class SimulatedLock:
    """The lock file; its locks end with the process, or when the test makes them look free."""

    def __init__(self, device: Device, file: FileBytes, path: Path) -> None:
        self._device = device
        self._file = file
        self._path = path

    def read(self, size: int) -> bytes:
        self._device.calls.check_alive()
        return self._file.read(0, size)

    def write(self, data: bytes, offset: int, *, durably: bool) -> None:
        with self._device.guard:
            self._device.calls.begin("lock_write", self._path)
            self._file.write(data, offset)
            if durably:
                self._device.calls.step("sync of lock_write", self._path)
                self._file.sync()

    def try_lock(self, byte: int) -> bool:
        with self._device.guard:
            return self._device.locks.setdefault((self._path, byte), self) is self

    def begins(self, line: bytes) -> bool | None:
        return self.read(len(line)) == line

    def is_locked(self, byte: int) -> bool:
        return self._device.locks.get((self._path, byte), self) is not self

    def is_locked_anywhere(self) -> bool:
        locks = self._device.locks.items()
        return any(path == self._path and holder is not self for (path, _), holder in locks)

    def close(self) -> None:
        locks = self._device.locks
        for place in [place for place, holder in locks.items() if holder is self]:
            del locks[place]
