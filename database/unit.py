"""Units of work on their way in: commits as a broker makes them, drafted with little work.

What a unit holds was checked by who made it, but for what only the database knows: limits of sizes, and whether
the messages that it removes are there. What is not of the common form goes the long way, through a commit block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from oms_journal.database.encode import Encoder
from oms_journal.database.ledger import IndexChanges, Ledger, Run
from oms_journal.journal.errors import NotUndelivered
from oms_journal.journal.format.records import NUMBER, Numbers
from oms_journal.journal.operations import NAME_BYTES_MAX, VALUE_BYTES_MAX, Operation
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.unit import NewRun, NewValue, RemovedRun, SentDraft, draft_unit

RUNS_MAX = 4  # removed ones; of more the numbers of a queue are gathered in one record


@dataclass(slots=True)
class Unit:
    """Messages to be added to one queue, ranges to be delivered and deleted, keys to be put and dropped, none twice."""

    queue: str
    payloads: Sequence[bytes]
    delivered: Sequence[range]
    deleted: Sequence[range]
    values: Sequence[NewValue]
    drops: Sequence[bytes]


class Numbered(Protocol):
    """A value with places for numbers of the commit's messages: offsets to places among them."""

    @property
    def value(self) -> bytes: ...

    @property
    def numbers_at(self) -> Mapping[int, int]: ...


def drafted_sent(encode: Encoder, queue: str, payload: bytes, key: bytes, numbered: Numbered) -> Draft | None:
    """Return the draft of a message and a value that has its number, None when it has to go a longer way."""
    template = encode.templates.get(queue) or encode.queue(queue)
    value, numbers_at = numbered.value, numbered.numbers_at
    size, width = len(payload), len(value)
    if type(payload) is not bytes or size > encode.message_bytes_max or type(value) is not bytes:
        return None
    if width > VALUE_BYTES_MAX or not 0 < len(key) <= NAME_BYTES_MAX or not key[0]:
        return None
    places = tuple(numbers_at.items())
    if not _are_first(places, width):
        return None
    draft = SentDraft(template, payload, key, value, places)
    draft.effect = IndexChanges((Run(template, (size,)),), None, True, (key,))
    return draft


@lru_cache(1024)
def _are_first(places: tuple[tuple[int, int], ...], width: int) -> bool:
    """Say whether all of these numbers are of the first message, and lie within a value of so many bytes."""
    return bool(places) and all(not place and 0 <= at <= width - NUMBER.size for at, place in places)


def drafted(unit: Unit, ledger: Ledger, encode: Encoder) -> Draft | None:
    """Return the draft of the unit's commit, None when it has to go the long way. NotUndelivered, LimitExceeded."""
    added: NewRun | None = None
    runs: Sequence[Run] = ()
    if unit.payloads:
        template = encode.templates.get(unit.queue) or encode.queue(unit.queue)
        payloads, sizes = unit.payloads, list(map(len, unit.payloads))
        if max(sizes) > encode.message_bytes_max or set(map(type, payloads)) != {bytes}:
            return None
        added, runs = NewRun(template, payloads, sizes), (Run(template, sizes),)
    for value in unit.values:
        if not _is_plain(value, len(unit.payloads)):
            return None
    for key in unit.drops:
        if not _is_key(key):
            return None
    removed: list[RemovedRun] = []
    if unit.delivered or unit.deleted:
        if len(unit.delivered) + len(unit.deleted) > RUNS_MAX:
            return None
        for kind, ranges in ((Operation.DELIVER, unit.delivered), (Operation.DELETE, unit.deleted)):
            for numbers in filter(None, ranges):
                queue = _queue_of(numbers, ledger)
                if queue is None:
                    return None
                removed.append(RemovedRun(kind, queue, numbers))
    draft = draft_unit(added, removed, unit.values, unit.drops)
    draft.effect = IndexChanges(
        runs,
        _numbers(removed) if removed else None,
        True,
        [value.key for value in unit.values],
        unit.drops,
    )
    return draft


def _is_plain(given: NewValue, count: int) -> bool:
    key, value, numbers_at = given
    size = len(value)
    if size > VALUE_BYTES_MAX or type(value) is not bytes or not _is_key(key):
        return False
    return not numbers_at or all(0 <= at <= size - NUMBER.size and 0 <= place < count for at, place in numbers_at)


def _is_key(key: bytes) -> bool:
    return 0 < len(key) <= NAME_BYTES_MAX and key[0] != 0


def _queue_of(numbers: range, ledger: Ledger) -> bytes | None:
    """Return the queue of neighbouring messages, None when they are not of one. NotUndelivered."""
    table = ledger.index.table
    with ledger.lock:
        first = table.queue_of(numbers[0])
        last = first if len(numbers) == 1 else table.queue_of(numbers[-1])
        if first is None or last is None:
            raise NotUndelivered(numbers[0] if first is None else numbers[-1])
        return table.queues.name(first).encode() if first == last and numbers.step == 1 else None


def _numbers(removed: Sequence[RemovedRun]) -> Numbers:
    """Return the numbers of all runs, ascending."""
    if len(removed) == 1:
        numbers = removed[0].numbers
        return np.arange(numbers.start, numbers.stop, dtype=np.uint64)
    every = np.concatenate([np.arange(run.numbers.start, run.numbers.stop, dtype=np.uint64) for run in removed])
    found = np.unique(every)
    if len(found) < len(every):
        raise NotUndelivered(int(found[np.unique(every, return_counts=True)[1] > 1][0]))
    return found
