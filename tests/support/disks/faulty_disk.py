"""A disk in memory that keeps what a file system keeps, and no more; the other implementation of `Disk`.

What reads see is the page cache; what would survive a power cut is kept apart:

    bytes     a sector (512 bytes) is durable after a sync of its file, or of the very write. Until then
              a power cut leaves any of the versions it had since, each sector by itself. A sector of which
              nothing was durable may be torn, be zeros, or show what its block held before: bytes of a file
              that was removed.
    lengths   likewise: as of the last sync, or any length since; what was never written is zeros.
    names     durable after a sync of their directory. Until then a power cut keeps any of the changes,
              or the first few of them; a rename inside a directory is one change, across two it is two.

A durable write is two changes: it may be cut in two. `crash` returns the disk as the next start finds it
after a power cut, `restart` after the death of the process alone. A test can have the n-th call of a verb
go wrong (`fail`, `fail_from`, `slow`, `misdirect`), limit the space (`space`), make bytes unreadable, have
them rot, and kill the process at the n-th change (`kill_at`). After a failed sync the page cache lies, as
Linux does: the bytes read back, no later sync writes them, and a power cut takes them.

With `is_harsh` a power cut may also leave zeros, garbage or a part of the write in a sector that holds what
was durable: what a journal whose groups are aligned to sectors has to survive.
"""

import contextlib
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

from tests.support.disks.faulty_bytes import FileBytes
from tests.support.disks.faulty_calls import CHANGES, VERBS, Fault, Killed, Kind, failure
from tests.support.disks.faulty_files import Device, SimulatedFile, SimulatedLock
from tests.support.disks.faulty_names import Copies, NameChange, Names, apply, surviving

__all__ = ["CHANGES", "VERBS", "Fault", "Killed", "Kind", "SimulatedDisk"]

STALE_FILES = 8  # removed files whose blocks may be used again


class SimulatedDisk:
    """The file system. Every path is one of its own; nothing of the real one is touched."""

    def __init__(self, *, space: int | None = None) -> None:
        self._device = Device(space, self._data_files)
        self._device.used = self.used
        self._guard = self._device.guard
        self._calls = self._device.calls
        self._directories: dict[Path, Names] = {}
        self._changes: list[NameChange] = []
        self._removed: list[FileBytes] = []  # the latest ones: their blocks are free, and hold what they held

    @property
    def space(self) -> int | None:
        """Bytes of all files together, None: no limit."""
        return self._device.space

    @space.setter
    def space(self, space: int | None) -> None:
        self._device.space = space

    @property
    def steps(self) -> int:
        """Changes so far."""
        return self._calls.steps

    @property
    def kill_at(self) -> int | None:
        """The change before which the process ends."""
        return self._calls.kill_at

    @kill_at.setter
    def kill_at(self, step: int | None) -> None:
        self._calls.kill_at = step

    @property
    def calls(self) -> Counter[str]:
        """How often each verb was called."""
        return self._calls.counts

    @property
    def faults(self) -> list[Fault]:
        """The faults that were asked for."""
        return self._calls.faults

    @property
    def failed(self) -> list[Fault]:
        """The faults that came to pass."""
        return self._calls.failed

    @property
    def is_dead(self) -> bool:
        return self._calls.is_dead

    @property
    def syncs_after_failure(self) -> list[str]:
        """Files whose sync failed and was tried again."""
        return self._device.syncs_after_failure

    @property
    def writes_over_failure(self) -> list[str]:
        """Files with a durable write to where a sync had failed."""
        return self._device.writes_over_failure

    @property
    def before_change(self) -> Callable[[str], None] | None:
        """Told what is about to change, while nothing of it is done yet."""
        return self._calls.before_change

    @before_change.setter
    def before_change(self, call: Callable[[str], None] | None) -> None:
        self._calls.before_change = call

    # What a test does with it.

    def tell_time(self, clock: Callable[[], float], pass_time: Callable[[float], None]) -> None:
        """Give the disk a clock (seconds since 1970-01-01 UTC), and what a slow call does to it."""
        self._device.clock, self._calls.pass_time = clock, pass_time

    def fail(self, verb: str, nth: int = 1, code: int = errno.EIO, *, is_short: bool = False) -> None:
        """Have the n-th call of the verb, counted from here on, raise this error."""
        self._calls.fail(Fault(verb, nth, code, Kind.SHORT if is_short else Kind.FAILS))

    def fail_from(self, verb: str, nth: int = 1, code: int = errno.EIO) -> None:
        """Have the n-th call of the verb and every later one raise this error."""
        self._calls.fail(Fault(verb, nth, code, stays=True))

    def slow(self, verb: str, nth: int, seconds: float) -> None:
        """Have the n-th call of the verb take this long."""
        self._calls.fail(Fault(verb, nth, kind=Kind.SLOW, seconds=seconds))

    def misdirect(self, verb: str, nth: int, seed: int) -> None:
        """Have the n-th write put its sectors elsewhere, into a data file, and report success."""
        self._calls.fail(Fault(verb, nth, kind=Kind.MISDIRECTED, seed=seed))

    def crash(self, seed: int, *, is_harsh: bool = False) -> "SimulatedDisk":
        """Return what a power cut leaves: chosen by the seed from all that could be left."""
        chance = random.Random(seed)
        with self._guard:
            after = self._empty()
            stale = [file.read(0, file.size) for file in self._removed]
            copies = Copies(lambda file: file.after_power_cut(chance, is_harsh=is_harsh, stale=stale))
            for path, directory in self._directories.items():
                kept = dict(directory.durable)
                after._directories[path] = Names(kept, kept)
            for change in surviving(self._changes, chance):
                apply(change.entries, after._directories[change.directory].now)
            for names in after._directories.values():
                names.now = copies.names(names.now)
                names.durable = dict(names.now)
            return after

    def restart(self) -> "SimulatedDisk":
        """Return what the death of the process leaves: everything, the page cache too, but no lock."""
        with self._guard:
            after = self._empty()
            copies = Copies()
            for path, directory in self._directories.items():
                after._directories[path] = Names(copies.names(directory.now), copies.names(directory.durable))
            for change in self._changes:
                entries = tuple((name, file and copies.of(file)) for name, file in change.entries)
                after._changes.append(NameChange(change.directory, entries))
            return after

    def _empty(self) -> "SimulatedDisk":
        """Return the same device without a file."""
        after = SimulatedDisk(space=self.space)
        after.tell_time(self._device.clock, self._calls.pass_time)
        after._removed = list(self._removed)
        return after

    def healed(self) -> "SimulatedDisk":
        """Return a copy on which nothing has rotted, and everything can be read."""
        after = self.restart()
        for _, file in after._files():
            file.heal()
        return after

    def digest(self, *, without: str = "") -> int:
        """Return a number of 64 bits that stands for all names and bytes; those of one name may be left out."""
        names = [
            f"{path}\0{0 if path.name == without else file.digest():x}"
            for path, file in sorted(self._files(), key=lambda pair: pair[0])
        ]
        return xxhash.xxh3_64_intdigest("\0".join(names).encode())

    def put(self, path: Path, data: bytes) -> None:
        """Have a durable file with these bytes, whatever was there."""
        directory = self._directories.setdefault(path.parent, Names())
        directory.now[path.name] = directory.durable[path.name] = FileBytes.durably(data)

    def content(self, path: Path) -> bytes:
        file = self._file(path)
        return file.read(0, file.size)

    def remove(self, path: Path) -> None:
        """Have the name gone, durably."""
        self._names(path.parent).now.pop(path.name, None)
        self._names(path.parent).durable.pop(path.name, None)

    def contents(self, directory: Path) -> dict[str, bytes]:
        """Return every file of the directory with its bytes."""
        return {name: file.read(0, file.size) for name, file in sorted(self._names(directory).now.items())}

    def directories(self) -> list[Path]:
        return sorted(self._directories)

    def make_unreadable(self, path: Path, start: int, end: int) -> None:
        """Have every read that touches these bytes fail."""
        self._file(path).unreadable.append((start, end))

    def rot(self, path: Path, data: bytes, offset: int) -> None:
        """Have these bytes read back at the offset, whatever was written there, until it is written again."""
        self._file(path).rot(data, offset)

    def rotten(self, path: Path) -> list[tuple[int, int]]:
        """Return the ranges of a file's bytes that read back otherwise than they were written."""
        return self._file(path).rotten()

    @contextlib.contextmanager
    def as_written(self) -> Iterator[None]:
        """Have everything read back as it was written, to whoever has it open too; nothing may be written meanwhile."""
        files = {id(file): file for _, file in self._files()}.values()
        rot = [(file, file.exchange_rot({})) for file in files]
        try:
            yield
        finally:
            for file, mine in rot:
                file.exchange_rot(mine)

    def let_go_of_locks(self) -> None:
        """Make every lock look free, as a network file system does after its lease."""
        self._device.locks.clear()

    def used(self) -> int:
        files = {id(file): file for _, file in self._files()}
        return sum(file.space() for file in files.values())

    # The verbs of `Disk`.

    def list(self, directory: Path) -> list[str]:
        with self._guard:
            self._calls.begin("list", directory)
            return sorted(self._names(directory).now)

    def size(self, path: Path) -> int:
        with self._guard:
            self._calls.check_alive()
            return self._file(path).size

    def modified(self, path: Path) -> float:
        with self._guard:
            self._calls.check_alive()
            return self._file(path).changed

    def make_directory(self, path: Path) -> None:
        with self._guard:
            if path not in self._directories:
                self._calls.begin("make_directory", path)
                self._directories[path] = Names()

    def create(self, path: Path) -> SimulatedFile:
        with self._guard:
            self._calls.begin("create", path)
            if path.name in self._names(path.parent).now:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            file = FileBytes()
            self._change(path.parent, (path.name, file))
            return SimulatedFile(self._device, file, path, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> SimulatedFile:
        with self._guard:
            self._calls.begin("open", path)
            return SimulatedFile(self._device, self._file(path), path, writable=writable)

    def open_lock(self, path: Path) -> SimulatedLock:
        with self._guard:
            if path.name not in self._names(path.parent).now:
                self._calls.begin("create", path)
                self._change(path.parent, (path.name, FileBytes()))
            return SimulatedLock(self._device, self._file(path), path)

    def rename(self, old: Path, new: Path) -> None:
        with self._guard:
            self._calls.begin("rename", old, new)
            file = self._file(old)
            if old.parent == new.parent:
                self._change(old.parent, (old.name, None), (new.name, file))
            else:
                self._change(new.parent, (new.name, file))
                self._change(old.parent, (old.name, None))

    def link(self, old: Path, new: Path) -> None:
        with self._guard:
            self._calls.begin("link", new)
            file = self._file(old)
            if new.name in self._names(new.parent).now:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
            self._change(new.parent, (new.name, file))

    def unlink(self, path: Path) -> None:
        with self._guard:
            self._calls.begin("unlink", path)
            file = self._file(path)
            self._change(path.parent, (path.name, None))
            if not any(other is file for _, other in self._files()):
                self._removed = [*self._removed[1 - STALE_FILES :], file]

    def sync_directory(self, directory: Path) -> None:
        with self._guard:
            self._calls.begin("sync_directory", directory)
            names = self._names(directory)
            names.durable = dict(names.now)
            self._changes = [change for change in self._changes if change.directory != directory]

    def free_bytes(self, directory: Path) -> int:
        with self._guard:
            self._names(directory)
            return (1 << 40) if self.space is None else max(0, self.space - self.used())

    # What the verbs have in common.

    def _names(self, directory: Path) -> Names:
        names = self._directories.get(directory)
        if names is None:
            raise failure(errno.ENOENT, directory)
        return names

    def _file(self, path: Path) -> FileBytes:
        file = self._names(path.parent).now.get(path.name)
        if file is None:
            raise failure(errno.ENOENT, path)
        return file

    def _files(self) -> Iterator[tuple[Path, FileBytes]]:
        for directory, names in self._directories.items():
            for name, file in names.now.items():
                yield directory / name, file

    def _data_files(self) -> Iterator[FileBytes]:
        return (file for path, file in self._files() if path.suffix == ".data")

    def _change(self, directory: Path, *entries: tuple[str, FileBytes | None]) -> None:
        apply(entries, self._names(directory).now)
        self._changes.append(NameChange(directory, entries))
