"""A commit as its caller hands it in: encoded as far as it can be before its numbers are known.

    what                  known when drafted      filled in when its group is formed
    records               all but the numbers     the number of each ADD's first message
    payloads              yes                     -
    frame header          length                  commit, owner, offset, synced, time, checksum

So the caller's thread does the work that can be done side by side, and the one thread that forms
the group does only what depends on the order.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oms_journal.journal.disk import Buffer
from oms_journal.journal.errors import LimitExceeded, UnreadableCommit
from oms_journal.journal.format.footer import HAS_MOVED, HAS_PRODUCER, HAS_PROPERTIES, HAS_SETS, ROW_BYTES_MAX
from oms_journal.journal.format.frames import FRAME_BYTES_MAX, FRAME_SIZE, OPERATIONS_MAX
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import (
    MOVED,
    NUMBER,
    RECORD,
    RECORD_NUMBER_AT,
    VALUE_HEAD_BYTES,
    Added,
    Numbers,
    encode_add,
    encode_drop,
    encode_put,
    encode_removal,
    padded,
    plain_columns,
)
from oms_journal.journal.operations import NAME_BYTES_MAX, Operation


class Waiter(Protocol):
    """Whoever waits for a draft's outcome."""

    def lead(self) -> None:
        """Take over the writing: the draft is first in the next group."""

    def tell(self) -> None:
        """The draft is settled: its answer or failure stands in it."""


class Draft:
    """One commit on its way into the journal.

    The caller fills the upper part and hands it over; from then on it belongs to the committer until
    the waiter is told. `effect` is what the layer above wants to find again when the draft is durable.
    """

    __slots__ = (
        "answer", "commit", "effect", "failure", "features", "first", "fixups", "footer_bytes", "frame_size",
        "has_add", "messages", "names", "numbers_end", "offset", "operations", "payload", "payload_size", "records",
        "rows", "sequence", "time", "value_fixups", "value_heads", "waiter", "weight",
    )  # fmt: skip

    def __init__(self) -> None:
        self.records = bytearray()
        self.payload: Sequence[Buffer] = ()
        self.payload_size = 0
        self.operations = 0
        self.messages = 0  # how many new numbers it takes
        self.numbers_end = 0  # behind the numbers that its messages bring with them: later ones are higher
        self.fixups: Sequence[tuple[int, int]] = ()  # where in the records a number goes, minus the first
        self.frame_size = FRAME_SIZE
        self.has_add = False
        self.value_heads: Sequence[bytes] = ()
        self.value_fixups: Sequence[ValueFixup] = ()
        self.names: Sequence[bytes] = ()
        self.rows = 0  # in the footer, and what else it makes longer there
        self.footer_bytes = 0
        self.weight = 0  # the most bytes it can take of a data file, footer included
        self.features = 0
        self.effect: object = None
        self.waiter: Waiter | None = None

        self.first = 0  # number of its first message
        self.commit = 0
        self.sequence = 0
        self.offset = 0
        self.time = 0
        self.answer: object = None
        self.failure: BaseException | None = None


class ValueFixup(NamedTuple):
    """A PUT whose value is told the numbers of the commit's messages when they are known."""

    record: int  # where in the records it stands
    place: int  # of the value in the payload
    head: int  # likewise in the value heads
    numbers: Sequence[tuple[int, int]]  # where in the value a number goes, minus the first


class CommitBuilder:
    """Builds the draft of a commit of several operations, in their order."""

    def __init__(self) -> None:
        self._draft = Draft()
        self._payload: list[Buffer] = []
        self._fixups: list[tuple[int, int]] = []
        self._value_fixups: list[ValueFixup] = []
        self._heads: list[bytes] = []
        self._names: list[bytes] = []
        self._said = 0  # bytes of payloads and values, by the records

    def add(self, added: Added) -> None:
        """Put messages of one queue behind what is there."""
        draft = self._draft
        count = len(added.payloads)
        _check_name(added.queue)
        if not count:
            raise UnreadableCommit("an addition of no message")
        if not added.flags & MOVED:
            self._fixups.append((len(draft.records) + RECORD_NUMBER_AT, draft.messages))
            draft.messages += count
        draft.records += encode_add(added)
        draft.has_add = draft.has_add or not added.flags & MOVED
        if added.properties is None:
            self._payload.extend(added.payloads)
        else:
            for pair in zip(added.properties, added.payloads, strict=True):
                self._payload.extend(pair)
        draft.features |= (
            (HAS_PRODUCER if added.producer else 0)
            | (HAS_PROPERTIES if added.properties is not None else 0)
            | (HAS_MOVED if added.flags & MOVED else 0)
        )
        self._count(added.queue, operations=count, blob=len(added.producer) + 1)
        draft.rows += count
        self._said += sum(map(len, added.payloads)) + sum(map(len, added.properties or ()))

    def remove(self, kind: Operation, queue: bytes, numbers: Numbers) -> None:
        """Deliver or delete ascending numbers of one queue."""
        _check_name(queue)
        if not len(numbers) or (len(numbers) > 1 and not (numbers[1:] > numbers[:-1]).all()):
            raise UnreadableCommit(f"a removal of {len(numbers)} messages that do not ascend")
        record = encode_removal(kind, queue, numbers)
        self._draft.records += record
        if len(numbers) > 1:
            self._draft.features |= HAS_SETS
        self._count(queue, operations=len(numbers), blob=len(record))
        self._draft.rows += 1

    def put(self, key: bytes, value: bytes, *, moved: bool = False, numbers_at: Sequence[tuple[int, int]] = ()) -> None:
        """Set a key; `numbers_at` says where in the value which of the commit's new numbers goes, from 0."""
        _check_name(key)
        if numbers_at:
            fixup = ValueFixup(len(self._draft.records), len(self._payload), len(self._heads), numbers_at)
            self._value_fixups.append(fixup)
        self._draft.records += encode_put(key, value, xxh3(value), moved=moved)
        if moved:
            self._draft.features |= HAS_MOVED
        self._payload.append(value)
        self._said += len(value)
        self._heads.append(value[:VALUE_HEAD_BYTES])
        self._count(key, operations=1, blob=len(self._heads[-1]))
        self._draft.rows += 1

    def drop(self, key: bytes) -> None:
        _check_name(key)
        self._draft.records += encode_drop(key)
        self._count(key, operations=1, blob=0)
        self._draft.rows += 1

    def _count(self, name: bytes, *, operations: int, blob: int) -> None:
        self._draft.operations += operations
        self._draft.footer_bytes += blob
        self._names.append(name)

    def draft(self) -> Draft:
        """Return the finished draft; LimitExceeded when the commit is over 1 GiB or a million operations."""
        draft = self._draft
        draft.payload, draft.fixups, draft.value_fixups = self._payload, self._fixups, self._value_fixups
        draft.value_heads, draft.names = self._heads, self._names
        draft.payload_size = sum(map(len, self._payload))
        if draft.payload_size != self._said:
            raise UnreadableCommit(f"{draft.payload_size} bytes of payloads where its records say {self._said}")
        draft.frame_size = FRAME_SIZE + len(draft.records) + draft.payload_size + (-draft.payload_size & 7)
        check_commit(draft.operations, draft.frame_size)
        draft.weight = (
            draft.frame_size
            + draft.rows * ROW_BYTES_MAX
            + draft.footer_bytes
            + sum(map(len, self._names))
            + len(self._names)
        )
        return draft


def _check_name(name: bytes) -> None:
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise UnreadableCommit(f"a name of {len(name)} bytes")


def draft_plain(queue: bytes, payloads: Sequence[bytes], sizes: Sequence[int]) -> Draft:
    """Return the draft of plain messages of one queue: what `CommitBuilder` makes of them, with less work.

    LimitExceeded when the commit is over 1 GiB or a million operations.
    """
    count, size = len(payloads), sum(sizes)
    if not count or count != len(sizes) or not 0 < len(queue) <= NAME_BYTES_MAX:
        raise UnreadableCommit(f"{count} messages with {len(sizes)} sizes, in a queue of {len(queue)} bytes")
    check_commit(count, size)
    columns = plain_columns(count).pack(*map(xxh3, payloads), *sizes)
    records = padded(RECORD.pack(Operation.ADD, 0, len(queue), 0, count, 0) + columns + queue)
    draft = Draft()
    draft.records = bytearray(records)
    draft.payload = payloads
    draft.payload_size = size
    draft.operations = draft.messages = draft.rows = count
    draft.fixups = ((RECORD_NUMBER_AT, 0),)
    draft.has_add = True
    draft.names = (queue,)
    draft.footer_bytes = 1
    draft.frame_size = FRAME_SIZE + len(records) + size + (-size & 7)
    check_commit(count, draft.frame_size)
    draft.weight = draft.frame_size + count * ROW_BYTES_MAX + len(queue) + 2
    return draft


def fill_values(draft: Draft) -> None:
    """Write the draft's numbers into the values that want them; each is a new value with a new checksum."""
    payload, heads = list(draft.payload), list(draft.value_heads)
    for fixup in draft.value_fixups:
        value = bytearray(payload[fixup.place])
        for at, distance in fixup.numbers:
            NUMBER.pack_into(value, at, draft.first + distance)
        payload[fixup.place] = bytes(value)
        heads[fixup.head] = bytes(value[:VALUE_HEAD_BYTES])
        NUMBER.pack_into(draft.records, fixup.record + RECORD_NUMBER_AT, xxh3(value))
    draft.payload, draft.value_heads = payload, heads


def check_commit(operations: int, size: int) -> None:
    """Raise LimitExceeded when a commit is over 1 GiB and 1 MiB or a million operations."""
    if operations > OPERATIONS_MAX:
        raise LimitExceeded(f"a commit of {operations} operations, at most {OPERATIONS_MAX} are allowed")
    if size > FRAME_BYTES_MAX:
        raise LimitExceeded(f"a commit of {size} bytes, at most {FRAME_BYTES_MAX} are allowed")
