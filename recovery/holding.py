"""The intention to hold back what damage may have brought back: written before the repair, kept until it is done.

A repaired file is clean for the next start. So that a start that is killed between the repair and the
commit that holds the messages is not the end of it, `omsmsg.hold` says from before the first repair
until that commit is durable: hold what is undelivered in the data files up to this sequence.
"""

from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.files import MakeRoom, put_in_place, read_whole
from oms_journal.journal.format.headers import xxh3

_SIZE = 16  # the sequence and the checksum of its 8 bytes


def intend(disk: Disk, directory: Path, sequence: int, make_room: MakeRoom = lambda _: False) -> None:
    """Note, durably, what is to be held; an earlier intention that goes further stays. DiskError, FormatError."""
    wanted = max(sequence, intended(disk, directory))
    data = wanted.to_bytes(8, "little")
    path = directory / names.HOLD
    try:
        put_in_place(disk, path, data + xxh3(data).to_bytes(8, "little"), durably=True, make_room=make_room)
    except OSError as failure:
        raise DiskError(path, failure, "write") from failure


def intended(disk: Disk, directory: Path) -> int:
    """Return the highest sequence of what is to be held, 0 for nothing. DiskError, FormatError."""
    path = directory / names.HOLD
    data = read_whole(disk, path)
    if data is None:
        return 0
    if len(data) != _SIZE or xxh3(data[:8]) != int.from_bytes(data[8:], "little"):
        raise FormatError(path, 0, "its checksum does not match; remove it to go on without holding anything")
    return int.from_bytes(data[:8], "little")


def done(disk: Disk, directory: Path) -> None:
    """Forget the intention: what it says is durable."""
    path = directory / names.HOLD
    try:
        disk.unlink(path)
        disk.sync_directory(directory)
    except FileNotFoundError:
        return
    except OSError as failure:
        raise DiskError(path, failure, "remove") from failure
