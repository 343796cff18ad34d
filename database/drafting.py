"""Drafts from what callers say: what the database for threads and the one for asyncio have in common."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from oms_journal.database.arguments import Number, Payload, every, message_numbers, shown
from oms_journal.database.block import CommitBlock, Operations
from oms_journal.database.encode import Encoder
from oms_journal.database.ledger import IndexChanges, Ledger
from oms_journal.database.unit import Numbered, Unit, drafted, drafted_sent
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft


class Drafting:
    """Makes the drafts of one database's commits. Safe from any thread."""

    def __init__(self, ledger: Ledger, encode: Encoder, clock: Callable[[], int]) -> None:
        self.encode = encode
        self._ledger = ledger
        self._clock = clock

    def add(self, queue: str, payload: Payload, properties: Mapping[str, str] | None, producer_id: str | None) -> Draft:
        """Return the draft of one message with all that belongs to it."""
        return self.operations(Operations(messages=[self.encode.message(queue, payload, properties, producer_id)]))

    def add_many(
        self,
        queue: str,
        payloads: Iterable[Payload],
        properties: Iterable[Mapping[str, str] | None] | None,
        producer_id: str | None,
    ) -> Draft | None:
        """Return the draft of several messages of one queue; None for none.

        Both iterables are consumed here: what the caller does with them afterwards changes nothing.
        """
        template, producer = self.encode.queue(queue), self.encode.producer(producer_id)
        plain = self.encode.payloads(payloads)
        if properties is None and not producer:
            return self.encode.draft_many(template, plain) if plain else None
        if isinstance(properties, Mapping):
            raise TypeError(
                f"properties of several messages are an iterable of one mapping each, not {shown(properties)}"
            )
        given = (
            [None] * len(plain) if properties is None else every(properties, "properties", "mappings, one a message")
        )
        if len(given) != len(plain):
            raise ValueError(
                f"payloads has {len(plain)} items and properties has {len(given)}; give one for each message"
            )
        messages = [
            self.encode.encoded(template, payload, one, f"properties[{place}]")
            for place, (payload, one) in enumerate(zip(plain, given, strict=True))
        ]
        return self.operations(Operations(messages=messages, producer=producer)) if messages else None

    def block(self, write: Callable[[Operations], range], producer_id: str | None) -> CommitBlock:
        """Return a block that gathers operations, to be entered."""
        return CommitBlock(self.encode, write, self.encode.producer(producer_id))

    def gathering(self, producer_id: str | None, *, is_by_queue: bool = False) -> CommitBlock:
        """Return an entered block whose operations the layer above drafts itself.

        `is_by_queue`: the identifier stands for each queue's messages by themselves, in the order of the queues.
        """
        block = self.block(lambda _: range(0), producer_id).__enter__()
        block.operations.is_by_queue = is_by_queue
        return block

    def operations(self, operations: Operations) -> Draft:
        """Return the draft of gathered operations."""
        draft = operations.compose()
        draft.time = self._clock()  # the duplicate window is asked as of now
        return draft

    def unit(self, unit: Unit) -> Draft | None:
        """Return the draft of a unit of work's commit, None when it is to be gathered in a block."""
        return drafted(unit, self._ledger, self.encode)

    def sent(self, queue: str, payload: bytes, key: bytes, value: Numbered) -> Draft | None:
        """Return the draft of the commonest unit: one message, one value that has its number; None as `unit`."""
        return drafted_sent(self.encode, queue, payload, key, value)

    def numbers(self, numbers: Iterable[Number]) -> list[int]:
        """Return the numbers of messages that a caller hands in."""
        return message_numbers(numbers)

    def removal(self, kind: Operation, numbers: Sequence[int]) -> Draft | None:
        """Return the draft that removes those of the numbers that are undelivered; None for none."""
        with self._ledger.lock:
            queues = self._ledger.live(numbers)
        if not queues:
            return None
        composer = CommitBuilder()
        for queue, mine in queues.items():
            composer.remove(kind, queue, mine)
        draft = composer.draft()
        draft.effect = IndexChanges(removed=np.sort(np.concatenate(list(queues.values()))))
        return draft

    def has_key(self, key: str) -> bool:
        """Say whether the key is there."""
        with self._ledger.lock:
            return self._ledger.index.keyed.find(self.encode.key(key)) is not None


def first_number(draft: Draft) -> int:
    """Return the number of a draft's only message, or the first answer's for a repeat."""
    return number_range(draft).start


def first_of(draft: Draft) -> int:
    """Return the number of a draft's first message, or the first answer's for a repeat."""
    return draft.first if type(draft.answer) is not range else draft.answer.start


def number_range(draft: Draft) -> range:
    """Return the numbers of a draft's messages, or the first answer's for a repeat."""
    answer = draft.answer
    return answer if isinstance(answer, range) else range(draft.first, draft.first + draft.messages)


def removed_count(draft: Draft) -> int:
    """Return how many messages a draft removed."""
    assert isinstance(draft.answer, int)
    return draft.answer
