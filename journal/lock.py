"""Who owns a directory: the lock file, its numbers, and the check before every acknowledgement.

`omsmsg.lock` holds four lines of fixed places, and the witness of the data files (`journal/format/lockfile.py`):

    owner 00000000000000000012 <XXH3>     the current owner's number
    pid 4711 host orders-1                who that is, padded to 128 bytes
    alive 00000000000000000012 000000042  a count that this owner raises every few seconds
          every 000003000 ms              how often
    owner 00000000000000000012 <XXH3>     the first line once more, in a sector of its own

The copy is durable before the first line is written, and the first line before the copy is: a power cut in the
middle of either write, or of a sign of life, leaves one of the two whole.

Where neither line is whole and nobody holds a lock on any byte of the file, it is taken as lost: a machine stopped
during the very first opening, or bytes have rotted. The numbers begin anew, and the start raises its own above those
of all data files. While somebody holds a lock nobody opens the directory.

The owner with number n holds a lock on byte n of the file, until its process ends. An opening reads
n, finds byte n free, locks byte n+1 without waiting, sees that the file still says n, and writes n+1
durably; only then does it look at the journal. A process that was stopped and comes back finds
another number in the file after its sync and before it tells anyone. The file is never removed and
never replaced, or two openings could lock two files.

A takeover may pass an owner whose byte is still locked, when its count has stood still for long enough:
a machine that stands still keeps its locks. An owner that has not begun to count is never passed, since
it may be repairing files, and what it does then no later check of its own would stop.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, LockFile
from oms_journal.journal.errors import DatabaseLocked, DirectoryGone, DiskError, FormatError, TakenOver
from oms_journal.journal.files import exists
from oms_journal.journal.format.lockfile import (
    COPY_AT,
    LINES_SIZE,
    LOCK_FILE_SIZE,
    OWNER_LINE_SIZE,
    WITNESS_AT,
    Witness,
    encode_owner,
    encode_witness,
    owner_said,
    witness_said,
)

_HOLDER_AT = OWNER_LINE_SIZE
_HOLDER_SIZE = 128
_ALIVE = "alive {:020} {:09} every {:09} ms\n"
_ALIVE_AT = _HOLDER_AT + _HOLDER_SIZE
_DIGITS_MAX = 20
LOCK_BYTE_BASE = 1 << 32  # the locked bytes lie behind any content of the file
ATTEMPTS_MAX = 100
RENEW_SECONDS = 3.0  # the seed's passive servers look as often
RENEWALS_MISSED = 3  # an owner that has missed so many is silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What the lock file says of the owner, and whether that opening is still there."""

    number: int
    pid: int = 0
    host: str = ""
    is_open: bool = False
    count: int = 0  # how often it has shown that it is alive; 0: it is still opening the directory
    renew_seconds: float = RENEW_SECONDS  # how often it does

    @property
    def silent_seconds(self) -> float:
        """After how long without a new count it may be called silent."""
        return RENEWALS_MISSED * self.renew_seconds


def read_holder(disk: Disk, directory: Path) -> Holder | None:
    """Return who owns the directory, or None when nobody does that the file knows of. Changes nothing.

    FormatError where the file does not say it, and somebody has a lock on it. DiskError.
    """
    path = directory / names.LOCK
    if not exists(disk, path):
        return None  # opening it would make it
    try:
        lock = disk.open_lock(path)
        try:
            holder = _holder(lock)
            if holder.is_open and not holder.number and lock.read(LINES_SIZE).strip(b"\0"):
                raise FormatError(path, 0, "it does not say who owns the directory, and a process has that open")
            return holder if holder.number else None
        finally:
            lock.close()
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure


def last_owner(disk: Disk, directory: Path) -> int:
    """Return the highest owner's number that the lock file knows of, 0 where it cannot be asked. Takes no lock."""
    return owner_said(_content(disk, directory)) or 0


def read_witness(disk: Disk, directory: Path) -> Witness | None:
    """Return what the lock file says must be there, None where it says nothing. Takes no lock."""
    return witness_said(_content(disk, directory))


def _content(disk: Disk, directory: Path) -> bytes:
    """Return the bytes of the lock file, none where it cannot be read."""
    try:
        file = disk.open(directory / names.LOCK)
        try:
            return file.read(LOCK_FILE_SIZE, 0)
        finally:
            file.close()
    except OSError:
        return b""


def _holder(lock: LockFile) -> Holder:
    data = lock.read(LINES_SIZE)
    number = owner_said(data)
    if number is None:
        return Holder(number=0, is_open=lock.is_locked_anywhere())
    words = data[_HOLDER_AT:_ALIVE_AT].decode("utf-8", "replace").split()
    said = dict(zip(words[0::2], words[1::2], strict=False))
    alive = data[_ALIVE_AT:COPY_AT].decode("utf-8", "replace").split()
    is_its = len(alive) > 2 and _number(alive[1]) == number  # and not a former owner's, come back
    return Holder(
        number=number,
        pid=_number(said.get("pid", "0")),
        host=said.get("host", ""),
        is_open=lock.is_locked(LOCK_BYTE_BASE + number),
        count=_number(alive[2]) if is_its else 0,
        renew_seconds=_number(alive[4]) / 1000 if is_its and len(alive) > 4 else RENEW_SECONDS,
    )


def _number(text: str) -> int:
    """Return what a text of digits says, 0 for anything else, and for more than anybody has written."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else 0


def is_silent(seen: Holder, now: Holder) -> bool:
    """Say whether an owner that was seen a while ago has not counted on since. Who is still opening is not silent."""
    return now.number == seen.number and now.count == seen.count > 0


class DirectoryLock:
    """The lock of one opening, from `acquire` to `close`."""

    def __init__(self, lock: LockFile, path: Path, number: int, renew_seconds: float) -> None:
        self.number = number
        self._lock = lock
        self._path = path
        self._again: Callable[[], LockFile] | None = None  # opens the lock file anew, where others share it
        self._line = encode_owner(number)
        self._alive_count = 0
        self._renew_seconds = renew_seconds

    @classmethod
    def acquire(
        cls,
        disk: Disk,
        directory: Path,
        *,
        passing: Holder | None = None,
        is_shared: bool = False,
        renew_seconds: float = RENEW_SECONDS,
    ) -> "DirectoryLock":
        """Become the owner; DatabaseLocked, with pid and host, when somebody else is.

        `passing` is an owner that was silent for long enough: its lock does not count, as long as it stays silent.
        Where the directory `is_shared` with another host, nothing is believed that this one has in its cache. The
        owner says in the file how often it will renew.
        """
        path = directory / names.LOCK
        try:
            lock = disk.open_lock(path)
        except OSError as failure:
            raise DiskError(path, failure, "open") from failure
        try:
            number = _claim(lock, path, passing)
            disk.sync_directory(directory)
        except OSError as failure:
            lock.close()
            raise DiskError(path, failure, "lock") from failure
        except BaseException:
            lock.close()
            raise
        owner = cls(lock, path, number, renew_seconds)
        if is_shared:
            owner._again = lambda: disk.open_lock(path)
        return owner

    def raise_to(self, number: int) -> None:
        """Take a higher number, where the data files know of one: the lock file was lost once. DiskError."""
        line = encode_owner(number)
        try:
            if not self._lock.try_lock(LOCK_BYTE_BASE + number):
                raise DatabaseLocked(self._path, pid=0, host="")  # it has the number, and has not said who it is
            _write_owner(self._lock, line)
        except OSError as failure:
            raise DiskError(self._path, failure, "write") from failure
        self.number = number
        self._line = line

    def is_ours(self) -> bool:
        """Say whether no other opening has taken the directory over. DirectoryGone, OSError."""
        is_it = self._lock.begins(self._line)
        if is_it is None:
            raise DirectoryGone(self._path.parent)
        if self._again is None:
            return is_it
        lock = self._again()  # a network file system asks its server when a file is opened, and else not always
        try:
            return lock.read(OWNER_LINE_SIZE) == self._line
        finally:
            lock.close()

    def is_surely_ours(self) -> bool:
        """Say the same; False where it cannot be found out."""
        try:
            return self.is_ours()
        except (DirectoryGone, OSError):
            return False

    def renew(self) -> None:
        """Show that this owner is alive. Writes only its own line, never the owner's number.

        TakenOver, DirectoryGone, OSError.
        """
        if not self.is_ours():
            raise TakenOver
        self._alive_count += 1
        line = _ALIVE.format(self.number, self._alive_count, round(self._renew_seconds * 1000))
        self._lock.write(line.encode(), _ALIVE_AT, durably=self._again is not None)

    def witness(self, witness: Witness) -> None:
        """Say durably which file must be there from now on. OSError."""
        self._lock.write(encode_witness(witness), WITNESS_AT, durably=True)

    def witness_end(self, witness: Witness) -> None:
        """Say durably how the last file ends, unless that stands there already. DiskError."""
        try:
            said = witness_said(self._lock.read(LOCK_FILE_SIZE))
            if said is None or replace(said, owner=witness.owner) != witness:
                self.witness(witness)
        except OSError as failure:
            raise DiskError(self._path, failure, "write") from failure

    def forget_witness(self) -> None:
        """Say durably that nothing must be there. DiskError."""
        try:
            self._lock.write(bytes(LOCK_FILE_SIZE - WITNESS_AT), WITNESS_AT, durably=True)
        except OSError as failure:
            raise DiskError(self._path, failure, "write") from failure

    def close(self) -> None:
        self._lock.close()


def _claim(lock: LockFile, path: Path, passing: Holder | None) -> int:
    for _ in range(ATTEMPTS_MAX):
        holder = _holder(lock)
        mine = holder.number + 1
        is_held = holder.is_open and not (passing is not None and is_silent(passing, holder))
        if is_held:
            raise DatabaseLocked(path, pid=holder.pid, host=holder.host)
        if not lock.try_lock(LOCK_BYTE_BASE + mine):  # who has that byte has not written yet who it is
            raise DatabaseLocked(path, pid=0, host="")
        again = _holder(lock)
        if again.number != holder.number:
            continue
        if not holder.number and again.is_open:  # whose number nobody knows
            raise DatabaseLocked(path, pid=0, host="")
        if not holder.number or len(lock.read(LOCK_FILE_SIZE)) < LOCK_FILE_SIZE:
            # A file without an owner's line witnesses nothing, whatever its blocks held before. And there is room for
            # the witness from now on, however full the disk is when the first data file is begun.
            lock.write(bytes(LOCK_FILE_SIZE - WITNESS_AT), WITNESS_AT, durably=True)
        if holder.number:
            # Its last sign of life may be on its way to the disk, in the sector of the first line: before the
            # copy is touched, that one is whole and durable.
            lock.write(encode_owner(holder.number), 0, durably=True)
        who = f"pid {os.getpid()} host {socket.gethostname()[:64]}"
        lines = who.ljust(_HOLDER_SIZE - 1) + "\n" + _ALIVE.format(mine, 0, 0)
        _write_owner(lock, encode_owner(mine), lines.encode())
        return mine
    raise DatabaseLocked(path, pid=0, host="")  # several begin at once, again and again


def _write_owner(lock: LockFile, line: bytes, others: bytes = b"") -> None:
    """Write the owner's line, durably: its copy first, so that one of the two is always whole."""
    lock.write(line, COPY_AT, durably=True)
    lock.write(line + others, 0, durably=True)
