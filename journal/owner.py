"""Who owns a directory: the lock file, its numbers, and the check before every acknowledgement.

`omsmsg.lock` holds three lines of fixed places:

    owner 00000000000000000012            the current owner's number
    pid 4711 host orders-1                who that is, padded to 128 bytes
    alive 00000000000000000012 000000042  a count that this owner raises every few seconds

The owner with number n holds a lock on byte n of the file, until its process ends. An opening reads
n, finds byte n free, locks byte n+1 without waiting, sees that the file still says n, and writes n+1
durably; only then does it look at the journal. A process that was stopped and comes back finds
another number in the file after its sync and before it tells anyone. The file is never removed and
never replaced, or two openings could lock two files.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from journal import names
from journal.disk import Disk, LockFile
from journal.errors import DatabaseLocked, DiskError, JournalError

_OWNER = "owner {:020}\n"
OWNER_LINE_SIZE = len(_OWNER.format(0))
_HOLDER_SIZE = 128
_ALIVE = "alive {:020} {:09}\n"
_ALIVE_AT = OWNER_LINE_SIZE + _HOLDER_SIZE
_READ_SIZE = 4096
LOCK_BYTE_BASE = 1 << 32  # the locked bytes lie behind any content of the file
ATTEMPTS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What the lock file says of the owner, and whether that opening is still there."""

    number: int
    pid: int = 0
    host: str = ""
    is_open: bool = False


def read_holder(disk: Disk, directory: Path) -> Holder | None:
    """Return who owns the directory, or None when nobody ever opened it. Changes nothing."""
    path = directory / names.LOCK
    try:
        disk.size(path)
        lock = disk.open_lock(path)
    except OSError:
        return None
    try:
        return _holder(lock, path)
    finally:
        lock.close()


def _holder(lock: LockFile, path: Path) -> Holder:
    content = lock.read(_READ_SIZE).decode("utf-8", "replace")
    if not content.strip("\0 \n"):
        return Holder(number=0)
    line = content[:OWNER_LINE_SIZE]
    number = line[len("owner ") :].strip()
    if not line.startswith("owner ") or not number.isdecimal():
        raise JournalError(f"{path} does not say who owns the directory; nothing was changed")
    words = content[OWNER_LINE_SIZE:_ALIVE_AT].split()
    said = dict(zip(words[0::2], words[1::2], strict=False))
    pid = said.get("pid", "0")
    return Holder(
        number=int(number),
        pid=int(pid) if pid.isdecimal() else 0,
        host=said.get("host", ""),
        is_open=lock.is_locked(LOCK_BYTE_BASE + int(number)),
    )


class Ownership:
    """The lock of one opening, from `acquire` to `close`."""

    def __init__(self, lock: LockFile, number: int) -> None:
        self.number = number
        self._lock = lock
        self._line = _OWNER.format(number).encode()
        self._alive_count = 0

    @classmethod
    def acquire(cls, disk: Disk, directory: Path) -> "Ownership":
        """Become the owner; DatabaseLocked, with pid and host, when somebody else is."""
        path = directory / names.LOCK
        try:
            lock = disk.open_lock(path)
        except OSError as failure:
            raise DiskError(path, failure, "open") from failure
        try:
            number = _claim(lock, path)
            disk.sync_directory(directory)
        except OSError as failure:
            lock.close()
            raise DiskError(path, failure, "lock") from failure
        except BaseException:
            lock.close()
            raise
        return cls(lock, number)

    def raise_to(self, number: int) -> None:
        """Take a higher number, where the data files know of one: the lock file was lost once."""
        if not self._lock.try_lock(LOCK_BYTE_BASE + number):
            raise JournalError(f"another process holds owner number {number}; close it and try again")
        line = _OWNER.format(number)
        self._lock.write(line.encode(), 0, durably=True)
        self.number = number
        self._line = line.encode()

    def is_ours(self) -> bool:
        """Say whether no other opening has taken the directory over."""
        return self._lock.read(OWNER_LINE_SIZE) == self._line

    def renew(self) -> None:
        """Show that this owner is alive. Writes only its own line, never the owner's number."""
        self._alive_count += 1
        self._lock.write(_ALIVE.format(self.number, self._alive_count).encode(), _ALIVE_AT, durably=False)

    def close(self) -> None:
        self._lock.close()


def _claim(lock: LockFile, path: Path) -> int:
    for _ in range(ATTEMPTS_MAX):
        holder = _holder(lock, path)
        mine = holder.number + 1
        if holder.is_open or not lock.try_lock(LOCK_BYTE_BASE + mine):
            raise DatabaseLocked(path, pid=holder.pid, host=holder.host)
        if _holder(lock, path).number != holder.number:
            continue
        who = f"pid {os.getpid()} host {socket.gethostname()[:64]}"
        line = _OWNER.format(mine) + who.ljust(_HOLDER_SIZE - 1) + "\n" + _ALIVE.format(mine, 0)
        lock.write(line.encode(), 0, durably=True)
        return mine
    raise JournalError(f"{path} changes faster than it can be locked; try again")
