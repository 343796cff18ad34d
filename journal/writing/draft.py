"""A commit as its caller hands it in: encoded as far as it can be before its numbers are known.

    what                  known when drafted      filled in when its group is formed
    records               all but the numbers     the number of each ADD's first message
    payloads              yes                     -
    frame header          length                  commit, owner, offset, synced, time, checksum

So the caller's thread does the work that can be done side by side, and the one thread that forms
the group does only what depends on the order.
"""

from collections.abc import Sequence
from itertools import chain
from operator import lt
from typing import NamedTuple, Protocol

import numpy as np

from oms_journal.journal.disk import Buffer
from oms_journal.journal.errors import LimitExceeded, UnreadableCommit
from oms_journal.journal.format.footer import (
    HAS_MOVED,
    HAS_PRODUCER,
    HAS_PROPERTIES,
    HAS_SETS,
    HAS_TERMS,
    ROW_BYTES_MAX,
    TERM_BYTES_MAX,
)
from oms_journal.journal.format.frames import COMMIT_BYTES_MAX, FRAME_SIZE, OPERATIONS_MAX
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.plain import PLAIN_NAME_AT, packer, plain_record, queue_fields
from oms_journal.journal.format.records import (
    MOVED,
    NUMBER,
    RECORD_NUMBER_AT,
    VALUE_HEAD_BYTES,
    WITHOUT_TERMS,
    Added,
    Numbers,
    TermColumns,
    encode_add,
    encode_drop,
    encode_put,
    encode_removal,
    encode_single,
    padding,
    single_removal,
)
from oms_journal.journal.operations import NAME_BYTES_MAX, Operation


class Waiter(Protocol):
    """Whoever waits for a draft's outcome."""

    def lead(self) -> None:
        """Take over the writing: the draft is first in the next group."""

    def tell(self) -> None:
        """The draft is settled: its answer or failure stands in it."""


_ONE_FIXUP = [(RECORD_NUMBER_AT, 0)]


class Shape:
    """What a commit consists of: all that its frame, its file's footer and the accounts must know besides its bytes.

    Most drafts of one message share that of their queue. What is preset is what a draft of one plain message has.
    """

    __slots__ = (
        "features", "fixups", "footer_bytes", "has_add", "is_rare", "is_strict", "messages", "names", "numbers_end",
        "operations", "payload_hashes", "rows", "value_fixups", "value_heads",
    )  # fmt: skip

    def __init__(self, names: Sequence[bytes], features: int = 0, identifier_bytes: int = 0) -> None:
        self.names = names
        self.operations = 1
        self.messages = 1  # how many new numbers it takes
        # Where in the records a number goes, minus the first.
        self.fixups: Sequence[tuple[int, int]] = _ONE_FIXUP
        self.has_add = True
        self.rows = 1  # in the footer, and what else it makes longer there
        self.footer_bytes = 1 + identifier_bytes
        self.features = features | HAS_PRODUCER if identifier_bytes else features
        self.is_rare = bool(self.features)  # or it has any of the next four, or other numbers in its records
        self.numbers_end = 0  # behind the numbers that its messages bring with them: later ones are higher
        self.value_heads: Sequence[bytes] = ()
        self.value_fixups: Sequence[ValueFixup] = ()
        self.payload_hashes: Sequence[int] = ()  # of its messages with properties: XXH3 of the payload alone
        self.is_strict = False  # a message to be removed that is gone fails the commit; else it is composed anew


class QueueTemplate:
    """What all that is written about one queue has in common.

    `pack` makes the header, without its checksum, and the record of a frame that adds one plain message from: length,
    `meta`, commit, the group's fields, `kind`, message number, checksum of the payload, its size, `tail`. `record`
    makes the record alone from `before`, message number, checksum, size and `tail`.
    """

    __slots__ = (
        "before", "bound", "head_size", "identified", "kind", "meta", "name", "names", "pack", "place", "record",
        "removals", "rounded", "shape", "tail", "weight",
    )  # fmt: skip

    def __init__(self, name: bytes, place: int) -> None:
        self.meta, self.kind, self.tail = queue_fields(name)
        self.name = name
        self.names = (name,)
        self.shape = Shape(self.names)
        self.identified: dict[int, Shape] = {}  # likewise with an identifier of so many bytes
        self.place = place  # what the layer above calls the queue, until it calls it otherwise
        self.pack = packer(len(self.tail))
        self.before, self.record = plain_record(self.kind, len(self.tail))
        self.head_size = PLAIN_NAME_AT + len(self.tail)
        self.rounded = self.head_size + 7  # so that a frame ends at a multiple of 8
        self.weight = ROW_BYTES_MAX + len(name) + 2  # what one operation can make a footer longer by
        self.bound = self.head_size + 8 + self.weight  # bytes of a data file for one message, besides its payload
        self.removals = {kind: _Removal(self, kind) for kind in (Operation.DELIVER, Operation.DELETE)}

    def with_identifier(self, size: int) -> Shape:
        """Return the shape of a plain message with an identifier of so many bytes."""
        return self.identified.setdefault(size, Shape(self.names, 0, size))


class _Removal:
    """What the drafts have in common that remove one message of a queue."""

    __slots__ = ("before", "behind", "frame_size", "shape", "weight")

    def __init__(self, queue: QueueTemplate, kind: Operation) -> None:
        self.before, self.behind = single_removal(kind, queue.name)  # of the number in the record
        self.shape = shape = Shape(queue.names)
        shape.has_add, shape.messages, shape.fixups = False, 0, ()
        shape.footer_bytes = size = len(self.before) + NUMBER.size + len(self.behind)
        self.frame_size = FRAME_SIZE + size
        self.weight = FRAME_SIZE + 2 * size + queue.weight - 1


Run = tuple[QueueTemplate, Sequence[int]]  # neighbouring messages of one queue that a commit adds, and their sizes


class ValueFixup(NamedTuple):
    """A PUT whose value is told the numbers of the commit's messages when they are known."""

    record: int  # where in the records it stands
    place: int  # of the value in the payload
    head: int  # likewise in the value heads
    numbers: Sequence[tuple[int, int]]  # where in the value a number goes, minus the first


class Draft:
    """One commit on its way into the journal.

    The caller fills it and hands it over; from then on it belongs to the committer until the waiter is told. `runs` and
    `removed` are what the layer above wants to find again of messages when the draft is durable, `effect` is all else.
    """

    __slots__ = (
        "answer", "effect", "failure", "first", "frame_size", "offset", "payload", "records", "removed", "runs",
        "shape", "waiter", "weight",
    )  # fmt: skip

    shape: Shape
    records: bytearray
    payload: Sequence[Buffer]  # of messages and values, and what a frame has behind it, up to a multiple of 8
    frame_size: int
    weight: int  # the most bytes it can take of a data file, footer included
    runs: Sequence[Run]  # what it adds
    removed: Sequence[int] | Numbers | None  # ascending; then there is an effect
    effect: object  # not None where the draft has to be admitted
    waiter: Waiter | None

    offset: int  # of its frame
    first: int  # number of its first message; of a repeat, of the first one's
    answer: object
    failure: BaseException | None


PADDINGS = tuple(map(padding, range(8)))


def one_add(
    queue: QueueTemplate,
    payload: bytes,
    properties: bytes = b"",
    producer: bytes = b"",
    terms: TermColumns | None = None,
) -> Draft:
    """Return the draft of one message, which nobody had before: what `CommitBuilder` makes of it, with less work."""
    draft = Draft()
    size = len(payload)
    if properties or producer or terms:
        draft.records = records = bytearray(encode_single(queue.name, payload, properties, producer, terms))
        extra = len(producer)
        if properties or terms:
            features = HAS_PROPERTIES if properties else 0
            draft.shape = shape = Shape(queue.names, features if terms is None else features | terms.flags(), extra)
            draft.payload = (payload,)
            if properties:
                shape.payload_hashes = (xxh3(payload),)
                draft.payload = (properties, payload)
                size += len(properties)
            if terms is not None:
                shape.footer_bytes += sum([len(group) + 1 for group in terms.groups])
                extra = shape.footer_bytes - 1 + (TERM_BYTES_MAX if shape.features & HAS_TERMS else 0)
        else:
            draft.shape = queue.identified.get(extra) or queue.with_identifier(extra)
            draft.payload = (payload,)
        draft.frame_size = frame_size = FRAME_SIZE + 7 + len(records) + size & -8
        draft.weight = frame_size + queue.weight + extra
    else:
        draft.shape = queue.shape
        draft.records = bytearray(queue.record(queue.before, 0, xxh3(payload), size, queue.tail))
        draft.payload = (payload,)
        draft.frame_size = frame_size = queue.rounded + size & -8
        draft.weight = frame_size + queue.weight
    if size & 7:
        draft.payload = (*draft.payload, PADDINGS[size & 7])
    draft.runs = ((queue, (size,)),)
    draft.removed = draft.effect = draft.waiter = draft.answer = draft.failure = None
    return draft


def one_removal(kind: Operation, queue: QueueTemplate, number: int) -> Draft:
    """Return the draft that removes one message: likewise."""
    draft, made = Draft(), queue.removals[kind]
    draft.shape, draft.frame_size, draft.weight = made.shape, made.frame_size, made.weight
    draft.records = bytearray(made.before + NUMBER.pack(number) + made.behind)
    draft.payload = draft.runs = ()
    draft.removed = (number,)
    draft.effect = draft.waiter = draft.answer = draft.failure = None
    return draft


class CommitBuilder:
    """Builds the draft of a commit of several operations, in their order."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._shape = shape = Shape(self._names)
        shape.operations = shape.messages = shape.rows = shape.footer_bytes = 0
        shape.has_add = False
        self._records = bytearray()
        self._payload: list[Buffer] = []
        self._fixups: list[tuple[int, int]] = []
        self._value_fixups: list[ValueFixup] = []
        self._heads: list[bytes] = []
        self._payload_hashes: list[int] = []
        self._said = 0  # bytes of payloads and values, by the records

    def add(self, added: Added) -> None:
        """Put messages of one queue behind what is there."""
        shape, payloads, properties, terms = self._shape, added.payloads, added.properties, added.terms
        count = len(payloads)
        _check_name(added.queue)
        if not count:
            raise UnreadableCommit("an addition of no message")
        blob = len(added.producer) + 1
        if terms is not WITHOUT_TERMS:
            _check_terms(added)
            shape.features |= terms.flags()
            blob += sum([len(group) + 1 for group in terms.groups])
        if added.flags & MOVED:
            shape.features |= HAS_MOVED
        else:
            self._fixups.append((len(self._records) + RECORD_NUMBER_AT, shape.messages))
            shape.messages += count
            shape.has_add = True
        self._records += encode_add(added)
        self._said += sum(added.sizes or map(len, payloads))
        if properties is None:
            self._payload.extend(payloads)
        else:
            self._payload.extend(chain.from_iterable(zip(properties, payloads, strict=True)))
            self._payload_hashes += map(xxh3, payloads)
            self._said += sum(map(len, properties))
            shape.features |= HAS_PROPERTIES
        if added.producer:
            shape.features |= HAS_PRODUCER
        shape.operations += count
        shape.rows += count
        shape.footer_bytes += blob
        self._names.append(added.queue)

    def remove(self, kind: Operation, queue: bytes, numbers: Sequence[int] | Numbers) -> None:
        """Deliver or delete ascending numbers of one queue."""
        _check_name(queue)
        count = len(numbers)
        if not count or (count > 1 and not _ascend(numbers)):
            raise UnreadableCommit(f"a removal of {count} messages that do not ascend")
        record = encode_removal(kind, queue, numbers)
        shape = self._shape
        self._records += record
        if count > 1:
            shape.features |= HAS_SETS
        shape.operations += count
        shape.rows += 1
        shape.footer_bytes += len(record)
        self._names.append(queue)

    def put(self, key: bytes, value: bytes, *, moved: bool = False, numbers_at: Sequence[tuple[int, int]] = ()) -> None:
        """Set a key; `numbers_at` says where in the value which of the commit's new numbers goes, from 0."""
        _check_name(key)
        shape, checksum, head = self._shape, 0, value[:VALUE_HEAD_BYTES]
        if numbers_at:  # the checksum comes with the numbers
            fixup = ValueFixup(len(self._records), len(self._payload), len(self._heads), numbers_at)
            self._value_fixups.append(fixup)
        else:
            checksum = xxh3(value)
        self._records += encode_put(key, value, checksum, moved=moved)
        if moved:
            shape.features |= HAS_MOVED
        self._payload.append(value)
        self._said += len(value)
        self._heads.append(head)
        shape.operations += 1
        shape.rows += 1
        shape.footer_bytes += len(head)
        self._names.append(key)

    def drop(self, key: bytes) -> None:
        _check_name(key)
        shape = self._shape
        self._records += encode_drop(key)
        shape.operations += 1
        shape.rows += 1
        self._names.append(key)

    def draft(self) -> Draft:
        """Return the finished draft; LimitExceeded when the commit is over 1 GiB or a million operations."""
        draft, shape = Draft(), self._shape
        shape.fixups, shape.value_fixups, shape.value_heads = self._fixups, self._value_fixups, self._heads
        shape.payload_hashes = self._payload_hashes
        shape.is_rare = bool(shape.features or self._heads) or self._fixups != _ONE_FIXUP[: shape.messages]
        size = sum(map(len, self._payload))
        if size != self._said:
            raise UnreadableCommit(f"{size} bytes of payloads where its records say {self._said}")
        draft.shape, draft.records = shape, self._records
        draft.payload = [*self._payload, PADDINGS[size & 7]] if size & 7 else self._payload
        draft.frame_size = FRAME_SIZE + len(self._records) + size + (-size & 7)
        check_commit(shape.operations, draft.frame_size)
        row_bytes = ROW_BYTES_MAX + TERM_BYTES_MAX if shape.features & HAS_TERMS else ROW_BYTES_MAX
        names = sum(map(len, self._names)) + len(self._names)
        draft.weight = draft.frame_size + shape.rows * row_bytes + shape.footer_bytes + names
        draft.runs = ()
        draft.removed = draft.effect = draft.waiter = draft.answer = draft.failure = None
        return draft


def _check_name(name: bytes) -> None:
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise UnreadableCommit(f"a name of {len(name)} bytes")


def _ascend(numbers: Sequence[int] | Numbers) -> bool:
    if isinstance(numbers, np.ndarray):
        return bool((numbers[1:] > numbers[:-1]).all())
    return all(map(lt, numbers, numbers[1:]))


def _check_terms(added: Added) -> None:
    """Raise UnreadableCommit where the terms are not those of each message, or a group is none."""
    for column in added.terms:
        if column and len(column) != len(added.payloads):
            raise UnreadableCommit(f"terms of {len(column)} messages where {len(added.payloads)} are added")
    if any(len(group) > NAME_BYTES_MAX for group in added.terms.groups):
        raise UnreadableCommit("a group with a name that is too long")


def fill_values(draft: Draft) -> None:
    """Write the draft's numbers into the values that want them; each is a new value with a new checksum."""
    shape = draft.shape
    payload, heads = list(draft.payload), list(shape.value_heads)
    for record, place, head, numbers in shape.value_fixups:
        value = bytearray(payload[place])
        for at, distance in numbers:
            NUMBER.pack_into(value, at, draft.first + distance)
        payload[place] = filled = bytes(value)
        heads[head] = filled[:VALUE_HEAD_BYTES]
        NUMBER.pack_into(draft.records, record + RECORD_NUMBER_AT, xxh3(filled))
    draft.payload, shape.value_heads = payload, heads


def check_commit(operations: int, size: int) -> None:
    """Raise LimitExceeded when a commit is over 1 GiB and 1020 KiB or a million operations."""
    if operations > OPERATIONS_MAX:
        raise LimitExceeded(f"a commit of {operations} operations, at most {OPERATIONS_MAX} are allowed")
    if size > COMMIT_BYTES_MAX:
        raise LimitExceeded(f"a commit of {size} bytes, at most {COMMIT_BYTES_MAX} are allowed")
