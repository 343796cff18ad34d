"""What one can ask a database, open for writing or only for reading: the same answers from the same index."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.reading import Files, Find, Wanted, read_many, read_one, read_value
from oms_journal.index.table import EXPIRED, NUMBER_MAX, MessageLocation, Numbers
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, MessageDamaged
from oms_journal.journal.format.frames import BadFrame
from oms_journal.journal.reading.message import Message

_log = logging.getLogger("oms.database")
BATCH_MESSAGES = 1024  # places taken from the index at once
READ_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """A database to be asked."""

    disk: Disk
    directory: Path
    ledger: Ledger
    files: Files
    active: int | None  # sequence of the file being written, or to be written first; None in a view
    active_bytes: int
    owner: int
    now: int
    next_message: int = 0  # the lowest number that the next message can get
    database: bytes = b""  # its identity, where it is open for writing
    compact_share: float = 0.25
    data_file_bytes_max: int = 25 << 20


def find(ledger: Ledger, number: int) -> MessageLocation | None:
    """Return where an undelivered message is."""
    with ledger.lock:
        return ledger.index.table.find(number)


def get(ledger: Ledger, files: Files, key: bytes) -> bytes | None:
    """Return the latest value of a key."""
    for attempt in range(READ_ATTEMPTS_MAX):
        with ledger.lock:
            version = ledger.index.keyed.find(key)
        if version is None:
            return None
        try:
            value = read_value(files, key, version.sequence, version.offset)
        except FileNotFoundError as failure:
            files.forget(version.sequence)
            if attempt == READ_ATTEMPTS_MAX - 1:
                raise DiskError(Path(str(failure.filename)), failure, "read") from failure
            continue
        if isinstance(value, BadFrame):
            path = files.path(version.sequence)
            raise MessageDamaged(0, path, value.offset, f"the value of key {key.decode()!r}: {value.reason}")
        return value
    raise AssertionError("the last attempt returns or raises")


def keys(ledger: Ledger, prefix: str) -> Iterator[str]:
    """Return the callers' keys with a prefix, as they are now, in order."""
    with ledger.lock:
        found = [key for key in ledger.index.keyed.keys(prefix.encode()) if not key.startswith(b"\0")]
    return (key.decode() for key in found)


def queues(ledger: Ledger) -> dict[str, int]:
    """Return how many messages are undelivered in every queue that has any."""
    with ledger.lock:
        return {name: count for name, (count, _) in ledger.index.undelivered().items()}


def undelivered_count(ledger: Ledger, queue: str | None) -> int:
    with ledger.lock:
        return ledger.index.undelivered_count(queue)


def oldest_age(
    ledger: Ledger, files: Files, queue: str, clock: Callable[[], int], find_again: Find | None = None
) -> float | None:
    """Return how many seconds ago the oldest undelivered message was added that can be read; None for none."""
    after = -1
    while True:
        with ledger.lock:
            table = ledger.index.table
            first, _ = table.first_numbers(queue, table.number_before(queue) if after < 0 else after, 1)
        if not first:
            return None
        (after,) = first
        found = read_one(files, after, find_again or (lambda number: find(ledger, number)))
        if isinstance(found, Message):
            return max(0.0, (clock() - found.added_us) / 1e6)
        if found is not None:
            _log.error("%s", found)


def undelivered_numbers(ledger: Ledger, queue: str) -> Numbers:
    """Return the numbers of a queue's undelivered messages, held back or not, as they are now, in order."""
    with ledger.lock:
        found = [batch[0] for batch in ledger.index.table.batches(queue, 0, NUMBER_MAX)]
    return np.concatenate([np.empty(0, np.int64), *found]).astype(np.uint64)


def undelivered(
    ledger: Ledger,
    files: Files,
    queue: str | None,
    find_again: Find | None = None,
    *,
    held: bool = False,
) -> Iterator[Message]:
    """Return undelivered messages in order: those that are there now, as they are when they are reached.

    `find_again` says where a message is whose file has gone meanwhile; with `held` only what is held
    back is returned, without it only what is not.
    """
    places = places_of(ledger, queue, held=held)
    return _readable(files, places, find_again or (lambda number: find(ledger, number)))


def _readable(files: Files, batches: Iterator[Wanted], find_again: Find) -> Iterator[Message]:
    for found in read_many(files, batches, find_again):
        if isinstance(found, MessageDamaged):
            _log.error("%s", found)
        else:
            yield found


def numbers(ledger: Ledger, queue: str | None, *, held: bool = False) -> Iterator[int]:
    """Return the numbers of undelivered messages in order, those held back or the others: as they are now."""
    return (number for batch in places_of(ledger, queue, held=held) for number in batch[0].tolist())


def is_held(ledger: Ledger, number: int) -> bool:
    """Say whether an undelivered message is held back."""
    with ledger.lock:
        return ledger.index.table.find(number) is not None and bool(ledger.index.held.mask([number])[0])


def held_count(ledger: Ledger, queue: str | None = None) -> int:
    """Return how many undelivered messages of a queue, or of all, are held back."""
    return sum(len(batch[0]) for batch in places_of(ledger, queue, held=True)) if ledger.index.held else 0


def places_of(ledger: Ledger, queue: str | None, *, held: bool = False) -> Iterator[Wanted]:
    """Return batches of the places of the messages that are there now, each looked up just before it is needed."""
    with ledger.lock:
        last = ledger.index.highest_number()
    return _places_up_to(ledger, queue, last, held=held)


def _places_up_to(ledger: Ledger, queue: str | None, last: int, *, held: bool) -> Iterator[Wanted]:
    after = 0
    while True:
        with ledger.lock:
            block = next(ledger.index.table.batches(queue, after, last, EXPIRED), None)
            if block is None:
                return
            after = int(block[0][-1])
            if ledger.index.held or held:
                chosen = ledger.index.held.mask(block[0]) == held
                block = block[0][chosen], block[1][chosen], block[2][chosen]
        for start in range(0, len(block[0]), BATCH_MESSAGES):
            part = slice(start, start + BATCH_MESSAGES)
            yield block[0][part], block[1][part], block[2][part]
