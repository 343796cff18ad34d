"""The few verbs the engine asks of a file system. Nothing else in the program calls one.

A `Disk` knows directories and names, a `DiskFile` the bytes of one file, a `LockFile` who owns a
directory. `RealDisk` is the operating system; a simulation is another implementation. Every verb
raises `OSError` as the system gave it: what it means is the caller's to decide.

What root makes in somebody's directory belongs to that owner, who must be able to go on with it.

Durability, from weak to strong: `write` reaches the page cache; `write_durably` and `sync` return
when the bytes (and what is needed to find them) would survive a power cut; a name is durable after
`sync_directory`.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
WRITE_BYTES_MAX = 1 << 30  # Linux writes at most 2 GiB - 4 KiB in one call
# What a link fails with where there can be none.
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)

Buffer = bytes | bytearray | memoryview


class DiskFile(Protocol):
    """One open file. Offsets and sizes are in bytes."""

    def write(self, data: Buffer, offset: int) -> None:
        """Write all of it, or raise. Not durable before `sync`."""

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write the buffers behind one another; return when they would survive a power cut."""

    def sync(self) -> None:
        """Return only when everything written so far would survive a power cut."""

    def read(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""

    def read_now(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes as far as they are there without waiting for a device; b"" where none are."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill the buffer as far as the file goes; return how many bytes."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Make the file `size` bytes long with space of its own behind every byte (ENOSPC else)."""

    def close(self) -> None: ...


class LockFile(Protocol):
    """The file that says who owns a directory, and its byte locks."""

    def read(self, size: int) -> bytes: ...

    def write(self, data: bytes, offset: int, *, durably: bool) -> None: ...

    def try_lock(self, byte: int) -> bool:
        """Take the exclusive lock on one byte, without waiting; False when somebody else has it."""

    def is_locked(self, byte: int) -> bool:
        """Say whether somebody else holds the lock on the byte."""

    def is_locked_anywhere(self) -> bool:
        """Say whether somebody else holds a lock on any byte."""

    def begins(self, line: bytes) -> bool | None:
        """Say whether it begins with the line; None where its path leads to this very file no longer.

        OSError where that cannot be seen.
        """

    def close(self) -> None:
        """Give up every lock taken through this file."""


class Disk(Protocol):
    """The verbs on names. A path's parent must exist."""

    def list(self, directory: Path) -> list[str]: ...

    def size(self, path: Path) -> int: ...

    def modified(self, path: Path) -> float:
        """Return when the file's bytes were last changed: seconds since 1970-01-01 UTC."""

    def make_directory(self, path: Path) -> None:
        """Make the directory and its parents, private to the user; durable on return."""

    def create(self, path: Path) -> DiskFile:
        """Create and open a file that must not exist yet (FileExistsError)."""

    def open(self, path: Path, *, writable: bool = False) -> DiskFile: ...

    def open_lock(self, path: Path) -> LockFile:
        """Open the lock file; create it when it is missing. It is never removed or replaced."""

    def rename(self, old: Path, new: Path) -> None: ...

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name, which must not be there yet (FileExistsError; EXDEV on another file system)."""

    def unlink(self, path: Path) -> None: ...

    def sync_directory(self, directory: Path) -> None:
        """Return when the directory's names would survive a power cut."""

    def free_bytes(self, directory: Path) -> int: ...


class RealDisk:
    """The operating system's file system."""

    def list(self, directory: Path) -> list[str]:
        return sorted(os.listdir(directory))

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified(self, path: Path) -> float:
        return path.stat().st_mtime

    def make_directory(self, path: Path) -> None:
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for made in reversed(missing):
            made.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            _give_to_owner_of(made.parent, lambda user, group, name=made: os.lchown(name, user, group))  # type: ignore[misc]
            self.sync_directory(made.parent)
        path.mkdir(exist_ok=True)  # FileExistsError where it is something else

    def create(self, path: Path) -> DiskFile:
        return RealFile(_created(path))

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        return RealFile(os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC))

    def open_lock(self, path: Path) -> LockFile:
        return RealLockFile(path)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_fully(descriptor)
        finally:
            with contextlib.suppress(OSError):  # it is synced
                os.close(descriptor)

    def free_bytes(self, directory: Path) -> int:
        numbers = os.statvfs(directory)
        return numbers.f_bavail * numbers.f_frsize


def _created(path: Path) -> int:
    """Create a file that must not exist yet; return its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    _give_to_owner_of(path.parent, lambda user, group: os.fchown(descriptor, user, group))
    return descriptor


def _give_to_owner_of(directory: Path, give: Callable[[int, int], None]) -> None:
    """Have root's new file or directory belong to the owner of the directory that it lies in.

    Only what was made just now is given away: whoever may write to the directory could have put a link there instead.
    """
    if os.geteuid():
        return
    with contextlib.suppress(OSError):  # a file system that knows no owners, or lets root give nothing away
        there = os.stat(directory)
        if there.st_uid:
            give(there.st_uid, there.st_gid)


def whose(failure: OSError, path: Path) -> str:
    """Return which file was refused and whose it is, where the system refused it by its owner; "" otherwise."""
    if failure.errno not in (errno.EACCES, errno.EPERM):
        return ""
    named = failure.filename if isinstance(failure.filename, str | os.PathLike) else path
    refused = Path(named).absolute()
    me = os.geteuid()
    for place in (refused, *refused.parents):
        try:
            found = os.stat(place)
        except OSError:
            continue  # what is not there, or cannot be seen, is refused by what it lies in
        if not os.access(place, os.R_OK | os.W_OK | (os.X_OK if place.is_dir() else 0)):
            if found.st_uid == me:
                return f"{place} is yours, and its permissions ({found.st_mode & 0o7777:04o}) do not let you"
            owner = f"{_user(found.st_uid)} and you are {_user(me)}"
            return f"{place} belongs to {owner}: have it given to you (chown {_name(me)}), or run as its owner"
        if place != refused:
            break
    return ""


def _user(number: int) -> str:
    name = _name(number)
    return f"uid {number}" if name == str(number) else f"{name} (uid {number})"


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def sync_fully(descriptor: int) -> None:
    """Sync data and metadata by the strongest call the system has."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync leaves the bytes in the drive's cache there
    else:
        os.fsync(descriptor)


def _let_go(owned: Iterator[int]) -> None:
    """Close the descriptor that the iterator has, once. It is gone whatever the system says, and its number is free.

    To take it out and to close it is one compiled call, which no signal's exception can cut in two: whoever was
    interrupted before it closes again, and whoever was interrupted behind it closes no other's file.
    What has to be durable was synced before, so that a failure here is about nothing that was promised.
    """
    with contextlib.suppress(OSError):
        for one in owned:
            str(one)
            os.close(one)


def sync_data(descriptor: int) -> None:
    """Sync the bytes and what is needed to find them again."""
    if sys.platform == "linux":
        os.fdatasync(descriptor)
    else:
        sync_fully(descriptor)


class _Owner:
    """Owns a descriptor until it is closed."""

    __slots__ = ("_descriptor", "_owned")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._owned = iter((descriptor,))

    def close(self) -> None:
        self._descriptor = -1
        _let_go(self._owned)

    def __del__(self) -> None:
        # A reader may still be at work on a file that a cache has let go of: the last one closes it. So is a file
        # closed whose opener was interrupted.
        if hasattr(self, "_owned"):  # not where an interrupt came before it was there
            self.close()


class RealFile(_Owner):
    """A file of the operating system."""

    __slots__ = ("_reads_now", "_writes_durably")

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._writes_durably = bool(_DSYNC)  # by one call
        self._reads_now = bool(_NOWAIT)

    def write(self, data: Buffer, offset: int) -> None:
        done = os.pwrite(self._descriptor, data, offset) if len(data) <= WRITE_BYTES_MAX else 0
        if done < len(data):
            view = memoryview(data)
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done : done + WRITE_BYTES_MAX], offset + done)

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        if self._writes_durably and len(buffers) == 1:
            try:
                written = os.pwritev(self._descriptor, buffers, offset, _DSYNC)
            except OSError as failure:
                if failure.errno != errno.EOPNOTSUPP:
                    raise
                written = 0  # this file system has no such call; nothing was written
                self._writes_durably = False
            if written == len(buffers[0]):
                return
            buffers, offset = (memoryview(buffers[0])[written:],), offset + written
        self._write_all(buffers, offset)
        sync_data(self._descriptor)

    def _write_all(self, buffers: Sequence[Buffer], offset: int) -> None:
        for buffer in buffers:
            self.write(buffer, offset)
            offset += len(buffer)

    def sync(self) -> None:
        sync_fully(self._descriptor)

    def read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        have = len(data)
        while have < size and (more := os.pread(self._descriptor, size - have, offset + have)):
            parts.append(more)
            have += len(more)
        return b"".join(parts)

    def read_now(self, size: int, offset: int) -> bytes:
        if not self._reads_now:
            return b""
        buffer = bytearray(size)
        try:
            count = os.preadv(self._descriptor, (buffer,), offset, _NOWAIT)
        except BlockingIOError:
            return b""  # the page is not in memory
        except OSError as failure:
            if failure.errno != errno.EOPNOTSUPP:
                raise
            self._reads_now = False  # this file system has no such call
            return b""
        return bytes(buffer if count == size else buffer[:count])

    def read_into(self, buffer: memoryview, offset: int) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, (buffer[done:],), offset + done)
            if not count:
                break
            done += count
        return done

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
            return
        zeros = bytes(1 << 20)
        for offset in range(self.size(), size, len(zeros)):
            self.write(zeros[: min(len(zeros), size - offset)], offset)


_DSYNC: int = getattr(os, "RWF_DSYNC", 0)  # one call that writes and syncs; Linux only
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)  # reads what is in memory, and waits for nothing; likewise

# Open-file-description locks: a plain POSIX lock vanishes when any descriptor of the file is closed
# in the process. (Numbers: fcntl.h of Linux, sys/fcntl.h of macOS; Python before 3.9 lacks the names.)
_OFD_GETLK: int | None = getattr(fcntl, "F_OFD_GETLK", 92 if sys.platform == "darwin" else None)
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", 90 if sys.platform == "darwin" else None)


class _Flock(ctypes.Structure):
    """struct flock, in the order of fields of the system we are on."""

    _fields_ = (
        [
            ("l_start", ctypes.c_int64),
            ("l_len", ctypes.c_int64),
            ("l_pid", ctypes.c_int32),
            ("l_type", ctypes.c_int16),
            ("l_whence", ctypes.c_int16),
        ]
        if sys.platform == "darwin"
        else [
            ("l_type", ctypes.c_int16),
            ("l_whence", ctypes.c_int16),
            ("l_start", ctypes.c_int64),
            ("l_len", ctypes.c_int64),
            ("l_pid", ctypes.c_int32),
        ]
    )


_IDENTITY = slice(stat.ST_INO, stat.ST_DEV + 1)  # of a file, in what the system says of it


class RealLockFile(_Owner):
    """`omsmsg.lock` and its byte locks, which live as long as this object's descriptor."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = self._begun(path)
        super().__init__(descriptor)
        self._identity = os.fstat(self._descriptor)[_IDENTITY]

    @staticmethod
    def _begun(path: Path) -> int:
        try:
            return _created(path)
        except FileExistsError:  # by another process, just now
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, 0)
        while len(data) < size and (more := os.pread(self._descriptor, size - len(data), len(data))):
            data += more
        return data

    def write(self, data: bytes, offset: int, *, durably: bool) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], offset + done)
        if durably:
            sync_fully(self._descriptor)

    def try_lock(self, byte: int) -> bool:
        wanted = _Flock(l_type=fcntl.F_WRLCK, l_whence=os.SEEK_SET, l_start=byte, l_len=1)
        try:
            if _OFD_SETLK is None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            else:
                fcntl.fcntl(self._descriptor, _OFD_SETLK, bytes(wanted))
        except OSError as failure:
            if failure.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def is_locked(self, byte: int) -> bool:
        return self._is_locked(byte, 1)

    def is_locked_anywhere(self) -> bool:
        return self._is_locked(0, 0)  # a length of 0 goes on for ever

    def _is_locked(self, start: int, length: int) -> bool:
        asked = _Flock(l_type=fcntl.F_WRLCK, l_whence=os.SEEK_SET, l_start=start, l_len=length)
        command = fcntl.F_GETLK if _OFD_GETLK is None else _OFD_GETLK
        answer = fcntl.fcntl(self._descriptor, command, bytes(asked))
        return bool(_Flock.from_buffer_copy(answer).l_type != fcntl.F_UNLCK)

    def begins(self, line: bytes) -> bool | None:
        try:
            if os.stat(self._path)[_IDENTITY] != self._identity:
                return None
        except (FileNotFoundError, NotADirectoryError):
            return None
        # A read may give less than is there.
        return os.pread(self._descriptor, len(line), 0) == line or self.read(len(line)) == line
