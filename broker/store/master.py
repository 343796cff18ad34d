"""The master record of a store: of one more start, and made again where damage has taken it.

Identifiers are new as long as the count of starts goes up. After damage an older master record may be the latest that
can be read, or none; so the count goes up by as much as the number of times that the store was opened, which the store
knows for itself, and is never below that. Whose the store is stands in the checkpoints too; where no record tells it
any more, records of a broker are taken to be of the one that starts.

A store that was restored from a backup counts far from where the backup was, and so does every other one that is
restored from it: the original may be there, and go on, also where it had been closed and nothing needs to be held.

Identifiers of units of work, conversations and publications: 16 characters, none ever given twice.

"1", how often the store was started in 7 hexadecimal digits, and a count in 8. They ascend, over restarts too.
The all-numeric ones for conversations of messages begin with "0".
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.records import (
    CHECKPOINT,
    CheckpointName,
    CheckpointRecord,
    MasterRecord,
    RecordError,
    identifier,
)
from oms_journal.recovery.restoring import OWNERS_APART

STARTS_MAX = (1 << 28) - 1  # seven hexadecimal digits
COUNT_MAX = (1 << 32) - 1  # of identifiers in one start


class Identifiers:
    """The identifiers of one start. BrokerError when none are left."""

    def __init__(self, starts: int) -> None:
        if not 0 <= starts <= STARTS_MAX:
            raise BrokerError(Code.NO_NEW_UOWID, f"the store was started {starts} times: no identifiers are left")
        self._start = (1 << 28 | starts) << 32
        self._numeric = f"0{starts % 100_000:05}"
        self._count = 0
        self._numeric_count = 0

    @classmethod
    def without_store(cls, now: int) -> "Identifiers":
        """Return identifiers for a broker that nothing outlives."""
        return cls(now // 1_000_000 & STARTS_MAX)

    def next(self) -> str:
        """Return the next identifier."""
        return identifier(self.next_number())

    def next_number(self) -> int:
        """Return the next identifier as the number that it is in hexadecimal digits."""
        self._count = count = self._count + 1
        if count > COUNT_MAX:
            raise BrokerError(Code.NO_NEW_UOWID, "all identifiers of this start are used up: start the broker anew")
        return self._start + count

    def next_numeric(self) -> str:
        """Return the next identifier that has digits only."""
        self._numeric_count += 1
        return f"{self._numeric}{self._numeric_count:010}"


# What a restored store leaves out is more than the engine does of its owners' numbers, with which the count goes up
# at least. So many starts are left to the original, and among so many places one is drawn: two stores that are restored
# from one backup and started a hundred times each meet once in 20,000 times. It can be done some 80 times in a row.
RESTORED_STARTS = OWNERS_APART + (1 << 16)
PLACES = 1 << 22


class Opened(NamedTuple):
    """Which database a store is, and how often it was opened, this time included."""

    identity: str = ""  # 32 hexadecimal digits, others after a restore; "" where the driver knows none
    times: int = 0  # no opening has had a higher number, damage or not; 0 where nobody counts


def next_start(starts: int, since: int, opened: Opened, *, is_restored: bool) -> int:
    """Return the count of the start that follows the one that was counted `starts`.

    `since` is how often the store had been opened by then, 0 where that cannot be told. `is_restored` says that it is
    the first one since a restore.
    """
    openings = opened.times - since
    if is_restored:
        drawn = int(opened.identity[:16] or "0", 16) % PLACES
        left = max(0, STARTS_MAX - starts)
        openings = min(RESTORED_STARTS + drawn + openings % OWNERS_APART + 1, left // 2)  # near the end less
    return max(starts + max(1, openings), opened.times if opened.times <= STARTS_MAX else 0)


def noted(opened: Opened) -> bytes:
    """Return the note of what a store was when it was started."""
    return f"{opened.identity} {opened.times}".encode()


def as_noted(value: bytes) -> Opened:
    """Return what a note says, as far as it does."""
    identity, _, times = value.decode(errors="replace").partition(" ")
    return Opened(identity, int(times) if times.isdecimal() else 0)


def rebuild_master(checkpoints: Iterable[bytes], broker_id: str) -> MasterRecord:
    """Return a master record in the place of a lost one, from what checkpoints can be read."""
    found: list[CheckpointRecord] = []
    for value in checkpoints:
        with suppress(RecordError):
            found.append(CHECKPOINT.decode(value))
    newest = max(found, key=lambda checkpoint: checkpoint.starts, default=None)
    return MasterRecord(
        starts=0 if newest is None else newest.starts,
        created=next((checkpoint.time for checkpoint in found if checkpoint.name is CheckpointName.ETBC), 0),
        started=0 if newest is None else newest.time,
        broker_id=broker_id if newest is None else newest.broker_id,
    )
