"""A commit of several operations, gathered in a `with` block and written when it is left.

Adds keep their order, and their messages get neighbouring numbers. Removals are checked when the
commit is formed: when one of the messages is gone by then, nothing of the commit is written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

import numpy as np

from database.encode import Encoder, NewMessage
from database.ledger import Effect, Run
from index.duplicates import Scope, digest
from journal.draft import NUMBER, Added, Composer, Draft
from journal.errors import DuplicateConflict, InvalidName, NotUndelivered
from journal.format import xxh3
from journal.operations import Operation
from journal.records import WHOLE_COMMIT, Numbers


class NewValue(NamedTuple):
    """A value to be put, and where in it numbers of the commit's messages go."""

    data: bytes
    numbers_at: Sequence[tuple[int, int]] = ()  # offset, place among the commit's messages


@dataclass(slots=True)
class Operations:
    """What one commit does."""

    messages: list[NewMessage] = field(default_factory=list)
    removals: dict[tuple[Operation, bytes], list[int]] = field(default_factory=dict)
    values: list[tuple[bytes, NewValue | None]] = field(default_factory=list)  # None drops the key
    producer: bytes = b""  # one identifier for the whole commit
    gone: list[int] = field(default_factory=list)  # removals that only a resend may have: the first has done them

    def is_empty(self) -> bool:
        return not (self.messages or self.removals or self.values or self.gone)

    def removed(self) -> list[int]:
        """Return the numbers of the messages that it delivers or deletes."""
        return [number for numbers in self.removals.values() for number in numbers]

    def compose(self) -> Draft:
        """Return the draft; LimitExceeded when it is too much for one commit."""
        composer = Composer()
        runs = self._compose_adds(composer)
        removed = list(self.gone)
        for (kind, queue), numbers in self.removals.items():
            composer.remove(kind, queue, _ascending(numbers))
            removed += numbers
        latest = dict(self.values)
        for key, value in latest.items():
            if value is None:
                composer.drop(key)
            else:
                self._check_numbers(value)
                composer.put(key, value.data, numbers_at=value.numbers_at)
        draft = composer.draft()
        draft.effect = Effect(
            runs=runs,
            removed=_ascending(removed) if removed else None,
            is_strict=True,
            puts=[key for key, value in latest.items() if value is not None],
            drops=[key for key, value in latest.items() if value is None],
            identifiers=self._identifiers(),
        )
        return draft

    def _check_numbers(self, value: NewValue) -> None:
        for at, place in value.numbers_at:
            if not 0 <= at <= len(value.data) - NUMBER.size or not 0 <= place < len(self.messages):
                raise ValueError(
                    f"numbers_at {{{at}: {place}}}: a number takes 8 bytes of the value, which has {len(value.data)}, "
                    f"and the commit adds {len(self.messages)} messages"
                )

    def _compose_adds(self, composer: Composer) -> list[Run]:
        runs = []
        for start, end in self._runs():
            part = self.messages[start:end]
            head = part[0]
            has_properties = any(message.properties for message in part)
            is_whole = bool(self.producer) and not start
            composer.add(
                Added(
                    queue=head.queue,
                    payloads=[message.payload for message in part],
                    properties=[message.properties for message in part] if has_properties else None,
                    producer=self.producer if is_whole else head.producer,
                    flags=WHOLE_COMMIT if is_whole else 0,
                )
            )
            sizes = [len(message.payload) + len(message.properties) for message in part]
            runs.append(Run(head.template, sizes))
        return runs

    def _runs(self) -> list[tuple[int, int]]:
        """Return where neighbouring messages can share a record."""
        runs = []
        start = 0
        for end in range(1, len(self.messages) + 1):
            if end < len(self.messages):
                a, b = self.messages[start], self.messages[end]
                if a.queue == b.queue and not a.producer and not b.producer:
                    continue
            runs.append((start, end))
            start = end
        return runs if self.messages else []

    def _identifiers(self) -> list[tuple[Scope, int, int, int]]:
        if self.producer and self.messages:
            hashes = [xxh3(message.payload) for message in self.messages]
            return [((self.messages[0].queue, self.producer), 0, len(hashes), digest(hashes))]
        found = [
            ((message.queue, message.producer), distance, 1, xxh3(message.payload))
            for distance, message in enumerate(self.messages)
            if message.producer
        ]
        if len({scope for scope, *_ in found}) < len(found):
            raise DuplicateConflict("a producer identifier stands twice in one commit; nothing was written")
        return found


def _ascending(numbers: Sequence[int]) -> Numbers:
    return np.array(sorted(set(numbers)), np.uint64)


class CommitBlock:
    """One commit of several operations, written when the `with` block is left without an exception.

    Afterwards `numbers` are those of the added messages, in order; for a repeat of a known producer
    identifier, the first answer's. NotUndelivered on leaving when a removed message is gone.
    """

    def __init__(self, encode: Encoder, write: Callable[[Operations], range], producer: bytes) -> None:
        self._encode = encode
        self._write = write
        self._removed: set[int] = set()
        self.operations = Operations(producer=producer)
        self.numbers: range = range(0)

    def add(
        self,
        queue: str,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
    ) -> None:
        """Add a message to the commit."""
        if producer_id is not None and self.operations.producer:
            raise InvalidName("the commit has a producer identifier of its own, which covers its messages too")
        self.operations.messages.append(self._encode.message(queue, payload, properties, producer_id))

    def add_many(self, queue: str, payloads: Sequence[bytes]) -> None:
        """Add messages to the commit."""
        for payload in payloads:
            self.add(queue, payload)

    def deliver(self, number: int) -> None:
        """Deliver a message in the commit; NotUndelivered when it is gone already."""
        self._remove(Operation.DELIVER, number)

    def delete(self, number: int) -> None:
        """Delete a message in the commit; NotUndelivered when it is gone already."""
        self._remove(Operation.DELETE, number)

    def deliver_many(self, numbers: Iterable[int]) -> None:
        """Deliver messages in the commit; NotUndelivered when one of them is gone already."""
        self._remove(Operation.DELIVER, *numbers)

    def delete_many(self, numbers: Iterable[int]) -> None:
        """Delete messages in the commit; NotUndelivered when one of them is gone already."""
        self._remove(Operation.DELETE, *numbers)

    def _remove(self, kind: Operation, *numbers: int) -> None:
        queues = self._encode.queues_of(numbers)
        for number in numbers:
            queue = queues.get(number)
            if number in self._removed or (queue is None and not self.operations.producer):
                raise NotUndelivered(number)
            self._removed.add(number)
            if queue is None:
                self.operations.gone.append(number)  # refused on leaving, unless the identifier is known
            else:
                self.operations.removals.setdefault((kind, queue), []).append(number)

    def put(self, key: str, value: bytes, *, numbers_at: Mapping[int, int] | None = None) -> None:
        """Set a key in the commit.

        `numbers_at` maps offsets in the value to places among the commit's added messages, from 0: there
        the message's number is written as 8 bytes, least significant first, once it is known. ValueError
        on leaving the block where there is no such message, or no room in the value.
        """
        given = NewValue(self._encode.value(value), tuple((numbers_at or {}).items()))
        self.operations.values.append((self._encode.key(key), given))

    def drop(self, key: str) -> None:
        """Remove a key in the commit."""
        self.operations.values.append((self._encode.key(key), None))

    def __enter__(self) -> "CommitBlock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.operations.is_empty():
            self.numbers = self._write(self.operations)
