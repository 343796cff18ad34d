"""The ways of making an append durable, each as what it does to an open file.

    space        before the append                     a sync writes
    growing      the file ends here                    data, new length, new blocks
    fallocated   blocks are reserved, nothing written  data, and that the blocks are now written
    zero-filled  blocks hold zeros                     data only

    sync                by
    fdatasync, fsync    a second call
    F_FULLFSYNC         a second call; on macOS the only one that reaches the medium
    O_DSYNC             how the file was opened
    RWF_DSYNC           a flag of the write itself
    O_DIRECT            how the file was opened (O_DSYNC too): past the page cache, in whole blocks of 4 KiB

Beside `journal/disk` the only module that calls these, since it is there to compare them.

The one directory a measurement writes in: made under a name nobody else uses, locked, removed.

left over        its lock   what is done
with a lock file  free       removed: its run was killed
with a lock file  taken      left alone: another measurement is running
empty             -          removed
anything else     -          left alone, and named
"""

import contextlib
import errno
import fcntl
import mmap
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter_ns

from oms_journal.journal.disk import FILE_MODE, LockFile, RealDisk
from oms_journal.journal.errors import DiskError

BLOCK = 4096  # what O_DIRECT writes in; at least the logical block of every device we know
ZEROS_SIZE = 1 << 20
READ_SIZE = 1 << 20
_NOT_HERE = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Space(StrEnum):
    """What the file has at the place of the append."""

    GROWING = "growing"
    FALLOCATED = "fallocated"
    ZERO_FILLED = "zero-filled"


class Sync(StrEnum):
    """By which call the append is durable."""

    NONE = "no sync"
    FDATASYNC = "fdatasync"
    FSYNC = "fsync"
    FULLFSYNC = "F_FULLFSYNC"
    O_DSYNC = "O_DSYNC"
    RWF_DSYNC = "RWF_DSYNC"
    DIRECT = "O_DIRECT"


@dataclass(frozen=True, slots=True)
class Method:
    """One way of making an append durable."""

    space: Space
    sync: Sync

    @property
    def name(self) -> str:
        return f"{self.space} + {self.sync}"

    @property
    def is_durable(self) -> bool:
        """Say whether it promises to survive a power cut; on macOS fsync ends in the drive's cache."""
        if self.sync is Sync.NONE:
            return False
        return sys.platform != "darwin" or self.sync is Sync.FULLFSYNC

    def written_size(self, size: int) -> int:
        """Return how many bytes are written for an append of `size` bytes."""
        return -(-size // BLOCK) * BLOCK if self.sync is Sync.DIRECT else size


# What the journal uses is the first of them that the system has.
METHODS = (
    Method(Space.ZERO_FILLED, Sync.RWF_DSYNC),
    Method(Space.ZERO_FILLED, Sync.FDATASYNC),
    Method(Space.ZERO_FILLED, Sync.FULLFSYNC),
    Method(Space.ZERO_FILLED, Sync.O_DSYNC),
    Method(Space.ZERO_FILLED, Sync.DIRECT),
    Method(Space.FALLOCATED, Sync.FDATASYNC),
    Method(Space.GROWING, Sync.FDATASYNC),
    Method(Space.GROWING, Sync.FSYNC),
    Method(Space.GROWING, Sync.FULLFSYNC),
)
UNSYNCED = Method(Space.ZERO_FILLED, Sync.NONE)  # what a sync is compared with
FLUSHED = Method(Space.ZERO_FILLED, Sync.FDATASYNC)  # a sync of its own call: the device must see it as a flush


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    if os.pwrite(descriptor, data, offset) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a short write is how a disk begins to be full


def _write_fdatasync(descriptor: int, data: memoryview, offset: int) -> None:
    _write(descriptor, data, offset)
    os.fdatasync(descriptor)


def _write_fsync(descriptor: int, data: memoryview, offset: int) -> None:
    _write(descriptor, data, offset)
    os.fsync(descriptor)


def _write_fullfsync(descriptor: int, data: memoryview, offset: int) -> None:
    _write(descriptor, data, offset)
    fcntl.fcntl(descriptor, _number("F_FULLFSYNC"))


def _write_rwf_dsync(descriptor: int, data: memoryview, offset: int) -> None:
    if os.pwritev(descriptor, (data,), offset, os.RWF_DSYNC) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True, slots=True)
class _Way:
    """How a kind of sync is done: names the system must have, flags of the opening, the call."""

    write: Callable[[int, memoryview, int], None]
    needs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


_WAYS = {
    Sync.NONE: _Way(_write),
    Sync.FDATASYNC: _Way(_write_fdatasync, needs=("fdatasync",)),
    Sync.FSYNC: _Way(_write_fsync),
    Sync.FULLFSYNC: _Way(_write_fullfsync, needs=("F_FULLFSYNC",)),
    Sync.O_DSYNC: _Way(_write, needs=("O_DSYNC",), flags=("O_DSYNC",)),
    Sync.RWF_DSYNC: _Way(_write_rwf_dsync, needs=("pwritev", "RWF_DSYNC")),
    Sync.DIRECT: _Way(_write, needs=("O_DIRECT", "O_DSYNC"), flags=("O_DIRECT", "O_DSYNC")),
}


def _has(name: str) -> bool:
    return hasattr(os, name) or hasattr(fcntl, name)


def _number(name: str) -> int:
    value: int = getattr(os, name, None) or getattr(fcntl, name)
    return value


def lacking(method: Method) -> str | None:
    """Return which call of the method this system does not have; None when it has them all."""
    needs = _WAYS[method.sync].needs + (("posix_fallocate",) if method.space is Space.FALLOCATED else ())
    return next((name for name in needs if not _has(name)), None)


def journal_method() -> Method:
    """Return what `oms_journal.journal.disk` does on this system."""
    return next(method for method in METHODS if method.is_durable and not lacking(method))


@dataclass(frozen=True, slots=True)
class NotHere:
    """A method that does not work in this directory, and why."""

    method: Method
    reason: str


class Target:
    """A file that is appended to by one method, begun anew when it is full. `close` it."""

    def __init__(self, method: Method, path: Path, capacity: int) -> None:
        assert capacity % BLOCK == 0, "O_DIRECT writes whole blocks"
        way = _WAYS[method.sync]
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        for name in way.flags:
            flags |= _number(name)
        self.method = method
        self._capacity = capacity
        self._write = way.write
        self._offset = 0
        self._descriptor = os.open(path, flags, FILE_MODE)
        try:
            if method.space is Space.ZERO_FILLED:
                self._fill()
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Append at the start of the file from here on, in the state the method's space asks for."""
        self._offset = 0
        if self.method.space is Space.ZERO_FILLED:
            return  # a block that was written over is as good as one of zeros
        os.ftruncate(self._descriptor, 0)
        if self.method.space is Space.FALLOCATED:
            os.posix_fallocate(self._descriptor, 0, self._capacity)
        os.fsync(self._descriptor)

    def _fill(self) -> None:
        zeros = memoryview(mmap.mmap(-1, ZEROS_SIZE))
        for offset in range(0, self._capacity, ZEROS_SIZE):
            _write(self._descriptor, zeros[: min(ZEROS_SIZE, self._capacity - offset)], offset)
        os.fsync(self._descriptor)

    def append(self, data: memoryview) -> int:
        """Append the data by the method; return the nanoseconds it took, making room not counted."""
        if self._offset + len(data) > self._capacity:
            self.begin()
        began = perf_counter_ns()
        self._write(self._descriptor, data, self._offset)
        took = perf_counter_ns() - began
        self._offset += len(data)
        return took

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_target(method: Method, path: Path, capacity: int) -> Target | NotHere:
    """Return the method's file, or why the method does not work here."""
    if missing := lacking(method):
        return NotHere(method, f"this system has no {missing}")
    try:
        target = Target(method, path, capacity)
    except OSError as failure:
        return _not_here(method, failure)
    try:
        target.append(payload(method, 1))
    except OSError as failure:
        target.close()
        return _not_here(method, failure)
    return target


def _not_here(method: Method, failure: OSError) -> NotHere:
    if failure.errno not in _NOT_HERE:
        raise failure
    return NotHere(method, f"refused by the file system: {failure.strerror}")


def payload(method: Method, size: int) -> memoryview:
    """Return the bytes that the method writes for an append of `size` bytes: aligned, nothing to compress."""
    written = method.written_size(size)
    view = memoryview(mmap.mmap(-1, written))
    view[:] = os.urandom(written)
    return view


def read_through(path: Path, *, drop_cached: bool) -> tuple[int, bool]:
    """Read the file once from start to end; return the nanoseconds, and whether the page cache was emptied of it."""
    buffer = memoryview(bytearray(READ_SIZE))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        dropped = drop_cached and _drop_cached(descriptor)
        began = perf_counter_ns()
        while os.readv(descriptor, (buffer,)):
            pass
        return perf_counter_ns() - began, dropped
    finally:
        os.close(descriptor)


def _drop_cached(descriptor: int) -> bool:
    if _has("posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    if _has("F_NOCACHE"):
        fcntl.fcntl(descriptor, _number("F_NOCACHE"), 1)
        return True
    return False


PREFIX = "oms-io-test-scratch-"
LOCK = "oms-io-test.lock"
LOCK_BYTE = 0
ATTEMPTS = 3
_NAME = re.compile(re.escape(PREFIX) + r"\w{8}")


@dataclass(frozen=True, slots=True)
class Scratch:
    """The directory to write in, and what was found of earlier measurements, in sentences."""

    path: Path
    notes: tuple[str, ...]


@contextmanager
def scratch(directory: Path) -> Iterator[Scratch]:
    """Make the scratch directory; remove it with all that is in it at the end, however that comes."""
    notes = tuple(_clear(directory))
    path, lock = _make(directory)
    try:
        yield Scratch(path, notes)
    finally:
        lock.close()  # first: some network file systems keep a removed file that is open under another name
        _remove(path)


def _make(directory: Path) -> tuple[Path, LockFile]:
    for _ in range(ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
        try:
            lock = RealDisk().open_lock(path / LOCK)
            with contextlib.suppress(OSError):  # a file system without locks
                lock.try_lock(LOCK_BYTE)
        except BaseException as failure:
            _remove(path)
            if isinstance(failure, FileNotFoundError):
                continue  # another measurement cleared it away before it had its lock
            raise
        if (path / LOCK).exists():
            return path, lock
        lock.close()
    raise FileNotFoundError(errno.ENOENT, "scratch directories are removed as soon as they are made", str(directory))


def _remove(path: Path) -> None:
    """Remove the directory. A second Ctrl-C does not stop it."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:  # another measurement, just started, is clearing it away too
        shutil.rmtree(path, ignore_errors=True)
    except OSError as failure:
        raise DiskError(path, failure, "remove") from failure
    except KeyboardInterrupt:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _clear(directory: Path) -> Iterator[str]:
    """Remove what killed measurements left; yield what there is to say."""
    for path in sorted(directory.iterdir()):
        if _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield _cleared(path)


def _cleared(path: Path) -> str:
    try:
        if not (path / LOCK).is_file():
            path.rmdir()
            return f"removed {path.name}, which a killed measurement had left"
        if _is_running(path):
            return f"{path.name} belongs to a measurement that is running here: the two disturb each other"
        shutil.rmtree(path)
    except OSError as failure:
        return f"{path.name} was left by an earlier measurement: remove it by hand ({failure.strerror})"
    return f"removed {path.name}, which a killed measurement had left"


def _is_running(path: Path) -> bool:
    lock = RealDisk().open_lock(path / LOCK)
    try:
        return lock.is_locked(LOCK_BYTE)
    finally:
        lock.close()
