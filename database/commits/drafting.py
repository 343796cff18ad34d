"""Drafts from what callers say: what the database for threads and the one for asyncio have in common."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from oms_journal.database.arguments import Number, Payload, message_numbers, plain_bytes
from oms_journal.database.commits.added import AddedMany, added_numbers
from oms_journal.database.commits.block import CommitBlock, Operations, columns_of
from oms_journal.database.commits.encode import Encoder, NewMessage, properties_of_each
from oms_journal.database.commits.ledger import FEW, REMOVAL, IndexChanges, Ledger, Removed, TermsOfRun, removal_set
from oms_journal.index.readiness import Moment, NewTerms
from oms_journal.index.returned import key_of
from oms_journal.journal.errors import NotUndelivered
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import NUMBER, Added, Numbers
from oms_journal.journal.operations import NAME_BYTES_MAX, VALUE_BYTES_MAX, Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate, Run, one_add, one_removal

RANGES_MAX = 4  # removed by a unit; of more the numbers of a queue are gathered in one record
UnitValue = tuple[bytes, bytes, Sequence[tuple[int, int]]]  # key, value, where in it which message's number goes


@dataclass(slots=True)
class Unit:
    """A commit as a broker makes most of them, of what it has checked: nothing stands in it twice.

    Messages of one queue, ranges to be delivered and deleted, keys to be put and dropped.
    """

    queue: str
    payloads: Sequence[bytes]
    delivered: Sequence[range]
    deleted: Sequence[range]
    values: Sequence[UnitValue]
    drops: Sequence[bytes]


class Drafting:
    """Makes the drafts of one database's commits. Safe from any thread."""

    def __init__(self, ledger: Ledger, encode: Encoder, clock: Callable[[], int], moment: Callable[[], Moment]) -> None:
        self.encode = encode
        self.moment = moment
        self.ledger = ledger
        self._clock = clock

    def add(
        self,
        queue: str,
        payload: Payload,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        said: Callable[[], NewTerms | None] | None = None,
    ) -> Draft:
        """Return the draft of one message with all that belongs to it.

        What was handed in is copied before a clock is asked for the terms: what becomes of it then changes nothing.
        """
        encode = self.encode
        template = (encode.templates.get(queue) if queue.__class__ is str else None) or encode.queue(queue)
        if type(payload) is not bytes:
            payload = plain_bytes(payload, "payload")
        if properties is None and producer_id is None and said is None:
            if len(payload) > encode.message_bytes_max:
                encode.check_size(payload, b"")
            return one_add(template, payload)
        producer = b"" if producer_id is None else encode.producer(producer_id)
        encoded = b""
        if properties is not None:
            encoded = encode.properties(properties, "properties")
            encode.check_size(payload, encoded)
        elif len(payload) > encode.message_bytes_max:
            encode.check_size(payload, encoded)
        terms = said() if said is not None else None
        if terms is not None:
            draft = one_add(template, payload, encoded, producer, columns_of((terms,)))
            of_runs = (TermsOfRun(0, 1, template, terms),)
            identifiers = (((template.name, producer), 0, 1, xxh3(payload)),) if producer else ()
            draft.effect = IndexChanges(identifiers=identifiers, terms=of_runs, time=self._clock())
            return draft
        draft = one_add(template, payload, encoded, producer)
        if producer:
            identifiers = (((template.name, producer), 0, 1, xxh3(payload)),)
            draft.effect = IndexChanges(identifiers=identifiers, time=self._clock())
        return draft

    def add_many(
        self,
        queue: str,
        payloads: Iterable[Payload],
        properties: Iterable[Mapping[str, str] | None] | None,
        producer_id: str | None,
        said: Callable[[], NewTerms | None] = lambda: None,
    ) -> Draft | None:
        """Return the draft of several messages of one queue, which have the terms that are said; None for none.

        Both iterables are consumed here, before a clock is asked: what the caller does with them afterwards changes
        nothing.
        """
        template, producer = self.encode.queue(queue), self.encode.producer(producer_id)
        plain = self.encode.payloads(payloads)
        messages: list[NewMessage] | None = None
        if properties is not None:
            messages = self._encoded(template, plain, properties_of_each(properties, len(plain)))
        terms = said()
        if messages is None:
            if not producer and terms is None:
                return self.encode.draft_many(template, plain) if plain else None
            messages = self._encoded(template, plain, [None] * len(plain))
        if terms is not None:
            messages = [message._replace(terms=terms) for message in messages]
        return self.operations(Operations(messages=messages, producer=producer)) if messages else None

    def _encoded(
        self, template: QueueTemplate, payloads: Sequence[bytes], properties: Sequence[object]
    ) -> list[NewMessage]:
        return [
            self.encode.encoded(template, payload, one, f"properties[{place}]")
            for place, (payload, one) in enumerate(zip(payloads, properties, strict=True))
        ]

    def block(self, write: Callable[[Operations], AddedMany], producer_id: str | None) -> CommitBlock:
        """Return a block that gathers operations, to be entered."""
        return CommitBlock(self.encode, write, self.encode.producer(producer_id), self.moment)

    def gathering(self, producer_id: str | None, *, is_by_queue: bool = False) -> CommitBlock:
        """Return an entered block whose operations the layer above drafts itself.

        `is_by_queue`: the identifier stands for each queue's messages by themselves, in the order of the queues.
        """
        block = self.block(lambda _: added_numbers(None), producer_id).__enter__()
        block._operations.is_by_queue = is_by_queue
        return block

    def operations(self, operations: Operations) -> Draft:
        """Return the draft of gathered operations."""
        came_back = self.ledger.index.returned.entries
        if came_back:
            removed = chain.from_iterable(one.numbers for one in operations.removals)
            operations.values += [(key_of(number), None) for number in removed if number in came_back]
        return operations.compose(self._clock())

    def unit(self, unit: Unit) -> Draft | None:
        """Return the draft of a unit of work's commit; None for one that has to be gathered in a block.

        NotUndelivered, LimitExceeded.
        """
        builder, puts, drops = CommitBuilder(), [key for key, _, _ in unit.values], unit.drops
        removed = [*zip(repeat(Operation.DELIVER), unit.delivered), *zip(repeat(Operation.DELETE), unit.deleted)]
        if len(removed) > RANGES_MAX or not all(map(_is_key, chain(puts, drops))):
            return None
        if removed and self.ledger.index.returned.entries:
            return None  # what is known of them ends in the same commit
        runs: Sequence[Run] = ()
        if unit.payloads:
            template, payloads, sizes = self.encode.queue(unit.queue), unit.payloads, list(map(len, unit.payloads))
            if max(sizes) > self.encode.message_bytes_max or {*map(type, payloads)} != {bytes}:
                return None
            builder.add(Added(template.name, payloads))
            runs = ((template, sizes),)
        for kind, numbers in removed:
            if numbers:
                queue = self._queue_of(numbers)
                if queue is None:
                    return None
                builder.remove(kind, queue, numbers)
        for key, value, numbers_at in unit.values:
            if not _is_value(value, numbers_at, len(unit.payloads)):
                return None
            builder.put(key, value, numbers_at=numbers_at)
        for key in drops:
            builder.drop(key)
        draft = builder.draft()
        draft.runs, draft.shape.is_strict = runs, True
        draft.removed = _once([*chain.from_iterable(numbers for _, numbers in removed)]) if removed else None
        if puts or drops or removed:
            draft.effect = IndexChanges(puts, drops) if puts or drops else REMOVAL
        return draft

    def _queue_of(self, numbers: range) -> bytes | None:
        """Return the queue of neighbouring messages, None when they are not of one. NotUndelivered."""
        table = self.ledger.index.table
        with self.ledger.lock:
            first, last = table.queue_of(numbers[0]), table.queue_of(numbers[-1])
            if first is None or last is None:
                raise NotUndelivered(numbers[0] if first is None else numbers[-1])
            return table.queues.name(first).encode() if first == last and numbers.step == 1 else None

    def numbers(self, numbers: Iterable[Number]) -> list[int]:
        """Return the numbers of messages that a caller hands in."""
        return message_numbers(numbers)

    def removal(self, kind: Operation, numbers: Sequence[int], *, again: bool = False) -> Draft | None:
        """Return the draft that removes those of the numbers that are undelivered; None for none.

        What is taken is undelivered, unless a commit on its way removes it: `again` asks the index nonetheless.
        """
        ledger = self.ledger
        taken = {} if again else ledger.taken
        came_back = ledger.index.returned.entries
        if len(numbers) == 1 and not (came_back and numbers[0] in came_back):
            (number,) = numbers
            holding = taken.get(number)
            queue = holding[0] if holding else self._name_of(number)
            if queue is None:
                return None
            draft = one_removal(kind, self.encode.queue(queue), number)
            draft.effect = REMOVAL
            return draft
        queues = {holding and holding[0] for holding in {*map(taken.get, numbers)}}
        builder = CommitBuilder()
        if len(queues) == 1 and (name := queues.pop()) is not None:
            removed = removal_set(numbers)
            builder.remove(kind, self.encode.queue(name).name, removed)
        else:
            with ledger.lock:
                found = ledger.live(numbers)
            if not found:
                return None
            for of, mine in found.items():
                builder.remove(kind, of, mine)
            removed = removal_set(chain.from_iterable(mine.tolist() for mine in found.values()))
        drops = [key_of(number) for number in numbers if number in came_back] if came_back else ()
        for key in drops:
            builder.drop(key)
        draft = builder.draft()
        draft.removed = removed
        draft.effect = IndexChanges(drops=drops) if drops else REMOVAL
        return draft

    def purge(self, queue: str, numbers: Numbers) -> Draft | None:
        """Return the draft that deletes those of a queue's ascending numbers that are undelivered; None for none."""
        with self.ledger.lock:
            live, _ = self.ledger.index.table.find_many(numbers)
        if not len(live):
            return None
        removed = removal_set(live.tolist()) if len(live) <= FEW else live
        builder = CommitBuilder()
        builder.remove(Operation.DELETE, self.encode.queue(queue).name, removed)
        came_back = self.ledger.index.returned.entries
        drops = [key_of(number) for number in live.tolist() if number in came_back] if came_back else ()
        for key in drops:
            builder.drop(key)
        draft = builder.draft()
        draft.removed = removed
        draft.effect = IndexChanges(drops=drops) if drops else REMOVAL
        return draft

    def _name_of(self, number: int) -> str | None:
        """Return the queue of an undelivered message."""
        table = self.ledger.index.table
        with self.ledger.lock:
            place = table.queue_of(number)
            return None if place is None else table.queues.name(place)

    def has_key(self, key: str) -> bool:
        """Say whether the key is there."""
        with self.ledger.lock:
            return self.ledger.index.keyed.find(self.encode.key(key)) is not None


def _is_key(key: bytes) -> bool:
    return 0 < len(key) <= NAME_BYTES_MAX and key[0] != 0


def _is_value(value: bytes, numbers_at: Sequence[tuple[int, int]], count: int) -> bool:
    """Say whether it can be put, and has room where numbers of so many messages go."""
    size = len(value)
    if size > VALUE_BYTES_MAX or type(value) is not bytes:
        return False
    return not numbers_at or all(0 <= at <= size - NUMBER.size and 0 <= place < count for at, place in numbers_at)


def _once(numbers: Sequence[int]) -> Removed:
    """Return numbers in order. NotUndelivered where one stands there twice."""
    found = removal_set(numbers)
    if len(found) < len(numbers):
        raise NotUndelivered(next(number for number in numbers if numbers.count(number) > 1))
    return found


def removed_count(draft: Draft) -> int:
    """Return how many messages a draft removed."""
    assert isinstance(draft.answer, int)
    return draft.answer
