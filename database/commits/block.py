"""A commit of several operations, gathered in a `with` block and written when it is left.

Adds keep their order, and their messages get neighbouring numbers. Removals are checked when the
commit is formed: when one of the messages is gone by then, nothing of the commit is written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

from oms_journal.database.arguments import MESSAGES, NUMBERS_MAX, Number, Payload, every, message_numbers, shown
from oms_journal.database.commits.added import AddedMany
from oms_journal.database.commits.encode import Encoder, NewMessage
from oms_journal.database.commits.ledger import REMOVAL, IndexChanges, TermsOfRun, removal_set
from oms_journal.database.commits.terms import Time, new_terms
from oms_journal.database.consumers.consumers import TakenMessage, receipts_of
from oms_journal.index.duplicates import Scope, digest
from oms_journal.index.readiness import Moment, NewTerms
from oms_journal.index.table import NUMBER_MAX
from oms_journal.journal.errors import DuplicateConflict, InvalidName, NotUndelivered, OutsideBlock
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import NUMBER, WHOLE_COMMIT, WITHOUT_TERMS, Added, TermColumns
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft, Run


class NewValue(NamedTuple):
    """A value to be put, and where in it numbers of the commit's messages go."""

    data: bytes
    numbers_at: Sequence[tuple[int, int]] = ()  # offset, place among the commit's messages


class Removal(NamedTuple):
    """Messages of one queue to be removed."""

    kind: Operation
    queue: bytes
    numbers: list[int]


@dataclass(slots=True)
class Operations:
    """What one commit does."""

    messages: list[NewMessage] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    values: list[tuple[bytes, NewValue | None]] = field(default_factory=list)  # None drops the key
    producer: bytes = b""  # one identifier for the whole commit
    is_by_queue: bool = False  # it stands for each queue's messages by themselves
    receipts: list[TakenMessage] = field(
        default_factory=list
    )  # of its removals, those that say in whose hands they are
    gone: list[int] = field(default_factory=list)  # removals that only a resend may have: the first has done them

    def is_empty(self) -> bool:
        return not (self.messages or self.removals or self.values or self.gone)

    def compose(self, now: int = 0) -> Draft:
        """Return the draft; LimitExceeded when it is too much for one commit."""
        composer = CommitBuilder()
        runs = self._compose_adds(composer)
        removed = list(self.gone)
        for (kind, queue), numbers in self._removals().items():
            composer.remove(kind, queue, removal_set(numbers))
            removed += numbers
        latest = dict(self.values)
        for key, value in latest.items():
            if value is None:
                composer.drop(key)
            else:
                self._check_numbers(value)
                composer.put(key, value.data, numbers_at=value.numbers_at)
        draft = composer.draft()
        draft.runs, draft.shape.is_strict = runs, True
        if removed:
            draft.removed = removal_set(removed)
        identifiers, terms = self._identifiers(), self._terms_of_runs()
        if latest or identifiers or terms:
            draft.effect = IndexChanges(
                puts=[key for key, value in latest.items() if value is not None],
                drops=[key for key, value in latest.items() if value is None],
                identifiers=identifiers,
                terms=terms,
                time=now,
            )
        elif removed:
            draft.effect = REMOVAL
        return draft

    def _removals(self) -> dict[tuple[Operation, bytes], list[int]]:
        """Return the numbers that go into one record each."""
        found: dict[tuple[Operation, bytes], list[int]] = {}
        for kind, queue, numbers in self.removals:
            found.setdefault((kind, queue), []).extend(numbers)
        return found

    def _check_numbers(self, value: NewValue) -> None:
        for at, place in value.numbers_at:
            if not 0 <= at <= len(value.data) - NUMBER.size or not 0 <= place < len(self.messages):
                raise ValueError(
                    f"numbers_at {{{at}: {place}}}: a number takes 8 bytes of the value, which has {len(value.data)}, "
                    f"and the commit adds {len(self.messages)} messages"
                )

    def _compose_adds(self, composer: CommitBuilder) -> list[Run]:
        runs: list[Run] = []
        for start, end in self._runs():
            part = self.messages[start:end]
            head = part[0]
            has_properties = any(message.properties for message in part)
            given = [message.terms for message in part if message.terms is not None]
            composer.add(
                Added(
                    queue=head.queue,
                    payloads=[message.payload for message in part],
                    properties=[message.properties for message in part] if has_properties else None,
                    producer=self.producer or head.producer,
                    flags=WHOLE_COMMIT if self.producer and not self.is_by_queue else 0,
                    terms=columns_of(given) if given else WITHOUT_TERMS,
                )
            )
            sizes = [len(message.payload) + len(message.properties) for message in part]
            runs.append((head.template, sizes))
        return runs

    def _terms_of_runs(self) -> list[TermsOfRun]:
        """Return the terms of the messages, those together that are the same."""
        found: list[TermsOfRun] = []
        for distance, message in enumerate(self.messages):
            if message.terms is None:
                continue
            before = found[-1] if found else None
            if (
                before is not None
                and before.terms is message.terms
                and before.queue is message.template
                and before.distance + before.messages == distance
            ):
                found[-1] = before._replace(messages=before.messages + 1)
            else:
                found.append(TermsOfRun(distance, 1, message.template, message.terms))
        return found

    def _runs(self) -> list[tuple[int, int]]:
        """Return where neighbouring messages can share a record."""
        runs = []
        start = 0
        for end in range(1, len(self.messages) + 1):
            if end < len(self.messages):
                a, b = self.messages[start], self.messages[end]
                if a.queue == b.queue and not a.producer and not b.producer and _are_alike(a.terms, b.terms):
                    continue
            runs.append((start, end))
            start = end
        return runs if self.messages else []

    def _identifiers(self) -> list[tuple[Scope, int, int, int]]:
        if self.is_by_queue:
            found = [
                (start, [xxh3(message.payload) for message in self.messages[start:end]]) for start, end in self._runs()
            ]
            return _once(
                [((self.messages[at].queue, self.producer), at, len(hashes), digest(hashes)) for at, hashes in found]
            )
        if self.producer and self.messages:
            hashes = [xxh3(message.payload) for message in self.messages]
            return [((self.messages[0].queue, self.producer), 0, len(hashes), digest(hashes))]
        return _once(
            [
                ((message.queue, message.producer), distance, 1, xxh3(message.payload))
                for distance, message in enumerate(self.messages)
                if message.producer
            ]
        )


def columns_of(given: Sequence[NewTerms]) -> TermColumns:
    """Return the terms of messages that share a record."""
    return TermColumns(
        due=[terms.due for terms in given if terms.due is not None],
        expiry=[terms.expiry for terms in given if terms.expiry is not None],
        groups=[terms.group for terms in given if terms.group is not None],
    )


def _are_alike(a: NewTerms | None, b: NewTerms | None) -> bool:
    """Say whether messages with these terms can share a record: it says of all or of none when it is due."""
    if a is None or b is None or a is b:
        return a is b
    return [value is None for value in a[:3]] == [value is None for value in b[:3]]


def _once(identifiers: list[tuple[Scope, int, int, int]]) -> list[tuple[Scope, int, int, int]]:
    """Return the identifiers, each of which stands once in a commit. DuplicateConflict."""
    if len({scope for scope, *_ in identifiers}) < len(identifiers):
        raise DuplicateConflict("a producer identifier stands twice in one commit; nothing was written")
    return identifiers


def _numbers_at(given: object) -> Sequence[tuple[int, int]]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(f"numbers_at must map offsets to places among the commit's messages, not {shown(given)}")
    pairs = tuple(given.items())
    for pair in pairs:
        if any(type(number) is not int for number in pair):
            raise TypeError(f"numbers_at must map int to int, not {shown(pair[0])} to {shown(pair[1])}")
    return pairs


class CommitBlock:
    """One commit of several operations. When you leave the `with` block without an exception, it is written.

    with MessageDatabase.open("spool") as db, db.commit() as commit:
        commit.add("orders", b"...")
        commit.add_many("orders", (b"...", b"..."))
        commit.put("state", b"...")

    Afterwards `numbers` holds the numbers of the added messages, in order. `is_repeat` says whether a known producer
    identifier came again: then nothing was written, and `numbers` are those of the first time.

    If a message that you remove is gone, leaving the block raises NotUndelivered. Then nothing of the commit is
    written, and the error says which message it was (`MessageDatabase.deliver` returns False there).

    You can enter the block once. It takes operations only while it is entered. It raises OutsideBlock for all others,
    since nothing would write them. A call that is refused puts nothing into the commit.
    """

    def __init__(
        self,
        encode: Encoder,
        write: Callable[[Operations], AddedMany],
        producer: bytes,
        moment: Callable[[], Moment],
    ) -> None:
        self._encode = encode
        self._moment = moment
        self._write = write
        self._is_entered = self._has_ended = False
        self._removed: set[int] = set()
        self._operations = Operations(producer=producer)
        self.numbers: range = range(0)
        self.is_repeat = False

    def add(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payload: Payload,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> None:
        """Add a message to the commit.

        `delay`, `at`, `expires` and `group` as MessageDatabase.add. A delay begins when you call this.

        Raises TypeError, ValueError, InvalidName and LimitExceeded.
        """
        if producer_id is not None and self._operations.producer:
            raise InvalidName("the commit has a producer identifier of its own, which covers its messages too")
        message = self._encode.message(queue, payload, properties, producer_id)
        terms = new_terms(self._moment, delay, at, expires, group)
        self._open.messages.append(message if terms is None else message._replace(terms=terms))

    def add_many(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payloads: Iterable[Payload],
        *,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> None:
        """Add all messages that an iterable gives to the commit.

        `delay`, `at`, `expires` and `group` are those of each of them, as MessageDatabase.add.

        Raises TypeError, ValueError, InvalidName and LimitExceeded.
        """
        template, plain = self._encode.queue(queue), self._encode.payloads(payloads)
        messages = [self._encode.encoded(template, payload, None, "properties") for payload in plain]
        terms = new_terms(self._moment, delay, at, expires, group)
        if terms is not None:
            messages = [message._replace(terms=terms) for message in messages]
        self._open.messages.extend(messages)

    def deliver(self, number: Number) -> None:
        """Deliver a message in the commit, named by its number or passed itself.

        Raises NotUndelivered when it is gone already. If the lease on a message that you pass has ended by the end of
        the block, the block raises LeaseEnded, and nothing of it is written.
        """
        self._remove(Operation.DELIVER, [number])

    def delete(self, number: Number) -> None:
        """Delete a message in the commit, named by its number or passed itself.

        Raises NotUndelivered when it is gone already.
        """
        self._remove(Operation.DELETE, [number])

    def deliver_many(self, numbers: Iterable[Number]) -> None:
        """Deliver messages in the commit. Raises NotUndelivered when one of them is gone already."""
        self._remove(Operation.DELIVER, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def delete_many(self, numbers: Iterable[Number]) -> None:
        """Delete messages in the commit. Raises NotUndelivered when one of them is gone already."""
        self._remove(Operation.DELETE, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def _remove(self, kind: Operation, given: Sequence[object]) -> None:
        numbers = message_numbers(given)
        operations, queues = self._open, self._encode.queues_of(numbers)
        found: dict[bytes, list[int]] = {}
        gone: list[int] = []
        seen: set[int] = set()
        for number in numbers:
            queue = queues.get(number)
            may_be_gone = bool(operations.producer) and 0 < number < NUMBER_MAX
            if number in self._removed or number in seen or (queue is None and not may_be_gone):
                raise NotUndelivered(number)
            seen.add(number)
            if queue is None:
                gone.append(number)  # refused on leaving, unless the identifier is known
            else:
                found.setdefault(queue, []).append(number)
        operations.receipts.extend(receipts_of(given))
        operations.gone.extend(gone)
        operations.removals.extend([Removal(kind, queue, mine) for queue, mine in found.items()])
        self._removed |= seen

    @property
    def _open(self) -> Operations:
        """The operations, to be added to; OutsideBlock."""
        if self._has_ended or not self._is_entered:
            when = (
                "was left: begin another one"
                if self._has_ended
                else "is not entered: write `with db.commit() as block`"
            )
            raise OutsideBlock(f"this commit block {when}; nothing was added to it")
        return self._operations

    def put(self, key: str, value: Payload, *, numbers_at: Mapping[int, int] | None = None) -> None:
        """Set a key in the commit.

        With `numbers_at` you have message numbers written into the value. It maps an offset in the value to a place
        among the commit's added messages, from 0. When the message's number is known, it is written at the offset as 8
        bytes, least significant first. If there is no such message, or no room in the value, leaving the block raises
        ValueError.
        """
        given = NewValue(self._encode.value(value), _numbers_at(numbers_at))
        self._open.values.append((self._encode.key(key), given))

    def drop(self, key: str) -> None:
        """Remove a key in the commit."""
        self._open.values.append((self._encode.key(key), None))

    def __enter__(self) -> "CommitBlock":
        if self._is_entered:
            raise OutsideBlock("this commit block was entered before; one block is one commit: begin another one")
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended = True  # on the first line: whatever interrupts the next, nothing more is taken
        if kind is None and not self._operations.is_empty():
            added = self._write(self._operations)
            self.numbers, self.is_repeat = added.numbers, added.is_repeat

    def _ended(self) -> Operations:
        """Return what was gathered. From now on the block gathers no more."""
        self._has_ended = True
        return self._operations
