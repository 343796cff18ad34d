"""A disk in memory that keeps what a file system keeps, and no more; the other implementation of `Disk`.

What reads see is the page cache; what would survive a power cut is kept apart:

    bytes     a sector (512 bytes) is durable after a sync of its file, or of the very write. Until then
              a power cut leaves any of the versions it had since, each sector by itself.
    lengths   likewise: as of the last sync, or any length since; a sector never written is zeros.
    names     durable after a sync of their directory. Until then a power cut keeps any of the changes,
              or the first few of them; a rename inside a directory is one change, across two it is two.

A durable write is two changes: it may be cut in two. `crash` returns the disk as the next start finds it
after a power cut, `restart` after the death of the
process alone. A test can have the n-th call of a verb fail (`fail`), limit the space (`space`), make
bytes unreadable, and kill the process at the n-th change (`kill_at`). After a failed sync the page
cache lies, as Linux does: the bytes read back, no later sync writes them, and a power cut takes them.

With `is_harsh` a power cut may also leave garbage in a sector that was being written: what a journal
whose groups are aligned to sectors has to survive.
"""

import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from journal.disk import Buffer
from tests.faulty_bytes import FileBytes
from tests.faulty_names import NameChange, Names, apply, copied, copy_of, surviving

CHANGES = frozenset(
    [
        "create",
        "write",
        "write_durably",
        "sync",
        "truncate",
        "reserve",
        "rename",
        "unlink",
        "sync_directory",
        "make_directory",
        "lock_write",
    ]
)
VERBS = CHANGES | {"read", "open", "list"}


class Killed(BaseException):
    """The process ended here: no verb works any more, as none would."""


@dataclass(slots=True)
class Fault:
    """The n-th call of a verb fails: with nothing done, or with a part of it, or with all of it undone."""

    verb: str
    nth: int
    code: int = errno.EIO
    is_short: bool = False  # of a write: the first sectors are written, then it fails
    stays: bool = False  # every later call fails too


class SimulatedDisk:
    """The file system. Every path is one of its own; nothing of the real one is touched."""

    def __init__(self, *, space: int | None = None) -> None:
        self.space = space  # bytes of all files together, None: no limit
        self.steps = 0  # changes so far
        self.kill_at: int | None = None  # before this change the process ends
        self.calls: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.failed: list[Fault] = []  # those that came to pass
        self.syncs_after_failure: list[str] = []  # files whose sync failed and was tried again
        self.is_dead = False
        self.before_change: Callable[[str], None] | None = None  # told what, while nothing is done of it yet
        self._directories: dict[Path, Names] = {}
        self._changes: list[NameChange] = []
        self._locks: dict[tuple[Path, int], SimulatedLock] = {}
        self._guard = threading.RLock()

    # What a test does with it.

    def fail(self, verb: str, nth: int = 1, code: int = errno.EIO, *, is_short: bool = False) -> None:
        """Have the n-th call of the verb, counted from here on, raise this error."""
        assert verb in VERBS
        self.faults.append(Fault(verb, self.calls[verb] + nth, code, is_short))

    def fail_from(self, verb: str, nth: int = 1, code: int = errno.EIO) -> None:
        """Have the n-th call of the verb and every later one raise this error."""
        self.faults.append(Fault(verb, self.calls[verb] + nth, code, stays=True))

    def crash(self, seed: int, *, is_harsh: bool = False) -> "SimulatedDisk":
        """Return what a power cut leaves: chosen by the seed from all that could be left."""
        chance = random.Random(seed)
        with self._guard:
            after = SimulatedDisk(space=self.space)
            copies: dict[int, FileBytes] = {}
            for path, directory in self._directories.items():
                kept = dict(directory.durable)
                after._directories[path] = Names(kept, kept)
            for change in surviving(self._changes, chance):
                apply(change.entries, after._directories[change.directory].now)
            for names in after._directories.values():
                for name, file in names.now.items():
                    if file.number not in copies:
                        copies[file.number] = file.after_power_cut(chance, is_harsh=is_harsh)
                    names.now[name] = copies[file.number]
                names.durable = dict(names.now)
            return after

    def restart(self) -> "SimulatedDisk":
        """Return what the death of the process leaves: everything, the page cache too, but no lock."""
        with self._guard:
            after = SimulatedDisk(space=self.space)
            copies: dict[int, FileBytes] = {}
            for path, directory in self._directories.items():
                after._directories[path] = Names(copied(directory.now, copies), copied(directory.durable, copies))
            for change in self._changes:
                entries = tuple((name, file and copy_of(file, copies)) for name, file in change.entries)
                after._changes.append(NameChange(change.directory, entries))
            return after

    def put(self, path: Path, data: bytes) -> None:
        """Have a durable file with these bytes, whatever was there."""
        directory = self._directories.setdefault(path.parent, Names())
        directory.now[path.name] = directory.durable[path.name] = FileBytes.durably(data)

    def content(self, path: Path) -> bytes:
        return bytes(self._file(path).data)

    def remove(self, path: Path) -> None:
        """Have the name gone, durably."""
        self._names(path.parent).now.pop(path.name, None)
        self._names(path.parent).durable.pop(path.name, None)

    def contents(self, directory: Path) -> dict[str, bytes]:
        """Return every file of the directory with its bytes."""
        return {name: bytes(file.data) for name, file in sorted(self._names(directory).now.items())}

    def make_unreadable(self, path: Path, start: int, end: int) -> None:
        """Have every read that touches these bytes fail."""
        self._file(path).unreadable.append((start, end))

    def let_go_of_locks(self) -> None:
        """Make every lock look free, as a network file system does after its lease."""
        self._locks.clear()

    def used(self) -> int:
        files = {file.number: file for names in self._directories.values() for file in names.now.values()}
        return sum(file.space() for file in files.values())

    # The verbs of `Disk`.

    def list(self, directory: Path) -> list[str]:
        with self._guard:
            self._begin("list", directory)
            return sorted(self._names(directory).now)

    def size(self, path: Path) -> int:
        with self._guard:
            self._check_alive()
            return len(self._file(path).data)

    def make_directory(self, path: Path) -> None:
        with self._guard:
            if path not in self._directories:
                self._begin("make_directory", path)
                self._directories[path] = Names()

    def create(self, path: Path) -> "SimulatedFile":
        with self._guard:
            self._begin("create", path)
            if path.name in self._names(path.parent).now:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            file = FileBytes()
            self._change(path.parent, (path.name, file))
            return SimulatedFile(self, file, path, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> "SimulatedFile":
        with self._guard:
            self._begin("open", path)
            return SimulatedFile(self, self._file(path), path, writable=writable)

    def open_lock(self, path: Path) -> "SimulatedLock":
        with self._guard:
            if path.name not in self._names(path.parent).now:
                self._begin("create", path)
                self._change(path.parent, (path.name, FileBytes()))
            return SimulatedLock(self, self._file(path), path)

    def rename(self, old: Path, new: Path) -> None:
        with self._guard:
            self._begin("rename", old, new)
            file = self._file(old)
            if old.parent == new.parent:
                self._change(old.parent, (old.name, None), (new.name, file))
            else:
                self._change(new.parent, (new.name, file))
                self._change(old.parent, (old.name, None))

    def unlink(self, path: Path) -> None:
        with self._guard:
            self._begin("unlink", path)
            self._file(path)
            self._change(path.parent, (path.name, None))

    def sync_directory(self, directory: Path) -> None:
        with self._guard:
            self._begin("sync_directory", directory)
            names = self._names(directory)
            names.durable = dict(names.now)
            self._changes = [change for change in self._changes if change.directory != directory]

    def free_bytes(self, directory: Path) -> int:
        with self._guard:
            self._names(directory)
            return (1 << 40) if self.space is None else max(0, self.space - self.used())

    # What the verbs have in common.

    def _begin(self, verb: str, *paths: Path) -> Fault | None:
        """Count a call; raise what the test asked for. A fault that does a part first is returned."""
        self._check_alive()
        self.calls[verb] += 1
        if verb in CHANGES:
            self._step(f"{verb} {' '.join(path.name for path in paths)}")
        for fault in self.faults:
            if fault.verb == verb and (fault.nth == self.calls[verb] or (fault.stays and fault.nth < self.calls[verb])):
                self.failed.append(fault)
                if fault.is_short or verb in ("sync", "write_durably"):
                    return fault
                raise _failure(fault.code, paths[0])
        return None

    def _step(self, what: str) -> None:
        """Count a change; the machine may stop here."""
        self.steps += 1
        if self.before_change is not None:
            self.before_change(what)
        if self.steps == self.kill_at:
            self.is_dead = True
            raise Killed(what)

    def _check_alive(self) -> None:
        if self.is_dead:
            raise Killed("the process has ended")

    def _names(self, directory: Path) -> Names:
        if directory not in self._directories:
            raise _failure(errno.ENOENT, directory)
        return self._directories[directory]

    def _file(self, path: Path) -> FileBytes:
        file = self._names(path.parent).now.get(path.name)
        if file is None:
            raise _failure(errno.ENOENT, path)
        return file

    def _change(self, directory: Path, *entries: tuple[str, FileBytes | None]) -> None:
        apply(entries, self._names(directory).now)
        self._changes.append(NameChange(directory, entries))

    def _take_space(self, file: FileBytes, start: int, end: int, path: Path) -> None:
        if self.space is not None and self.used() + file.new_space(start, end) > self.space:
            raise _failure(errno.ENOSPC, path)


class SimulatedFile:
    """One open file of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, file: FileBytes, path: Path, *, writable: bool) -> None:
        self._disk = disk
        self._file = file
        self._path = path
        self._writable = writable
        self._is_open = True
        self._told = file.failed_syncs  # of the file's failed syncs, those that this one knows of
        self._had_failure = False

    def write(self, data: Buffer, offset: int) -> None:
        with self._disk._guard:
            fault = self._begin("write")
            self._write(bytes(data), offset, fault)

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        with self._disk._guard:
            fault = self._begin("write_durably")
            self._write(data, offset, fault if fault is not None and fault.is_short else None)
            self._check_sync(fault)
            self._disk._step(f"sync of write_durably {self._path.name}")
            self._file.sync(offset, offset + len(data))

    def _write(self, data: bytes, offset: int, fault: Fault | None) -> None:
        assert self._writable, "opened for reading only"
        part = data if fault is None else data[: max(1, len(data) // 2)]
        self._disk._take_space(self._file, offset, offset + len(part), self._path)
        self._file.write(part, offset)
        if fault is not None:
            raise _failure(fault.code, self._path)

    def sync(self) -> None:
        with self._disk._guard:
            self._check_sync(self._begin("sync"))
            self._file.sync()

    def _check_sync(self, fault: Fault | None) -> None:
        """Raise what a sync raises: a fault of its own, or another's on the same file."""
        if self._had_failure:
            self._disk.syncs_after_failure.append(self._path.name)
        if fault is not None:
            self._file.lose_unsynced()
        if self._told < self._file.failed_syncs:
            self._told = self._file.failed_syncs
            self._had_failure = True
            raise _failure(errno.EIO if fault is None else fault.code, self._path)

    def read(self, size: int, offset: int) -> bytes:
        with self._disk._guard:
            self._begin("read")
            if self._file.is_unreadable(offset, offset + size):
                raise _failure(errno.EIO, self._path)
            return bytes(self._file.data[offset : offset + size])

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.read(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return len(self._file.data)

    def truncate(self, size: int) -> None:
        with self._disk._guard:
            self._begin("truncate")
            self._file.resize(size)

    def reserve(self, size: int) -> None:
        with self._disk._guard:
            self._begin("reserve")
            self._disk._take_space(self._file, 0, size, self._path)
            self._file.allocate(size)

    def close(self) -> None:
        self._is_open = False

    def _begin(self, verb: str) -> Fault | None:
        assert self._is_open, "the file was closed"
        return self._disk._begin(verb, self._path)


class SimulatedLock:
    """The lock file; its locks end with the process, or when the test makes them look free."""

    def __init__(self, disk: SimulatedDisk, file: FileBytes, path: Path) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def read(self, size: int) -> bytes:
        self._disk._check_alive()
        return bytes(self._file.data[:size])

    def write(self, data: bytes, offset: int, *, durably: bool) -> None:
        with self._disk._guard:
            self._disk._begin("lock_write", self._path)
            self._file.write(data, offset)
            if durably:
                self._file.sync()

    def try_lock(self, byte: int) -> bool:
        with self._disk._guard:
            return self._disk._locks.setdefault((self._path, byte), self) is self

    def is_locked(self, byte: int) -> bool:
        return self._disk._locks.get((self._path, byte), self) is not self

    def close(self) -> None:
        locks = self._disk._locks
        for place in [place for place, holder in locks.items() if holder is self]:
            del locks[place]


def _failure(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
