"""The commits that a broker makes most: messages of one queue, a few keys, runs of removed messages.

What `draft.CommitBuilder` makes of them, byte for byte, with less work: with many callers on a fast device that work is
the limit.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oms_journal.journal.disk import Buffer
from oms_journal.journal.errors import UnreadableCommit
from oms_journal.journal.format.footer import HAS_SETS, ROW_BYTES_MAX
from oms_journal.journal.format.frames import FRAME_BODY, FRAME_SIZE, SEED_MASK
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.format.plain import GROUP_FIELDS
from oms_journal.journal.format.records import (
    NUMBER,
    RECORD,
    RECORD_NUMBER_AT,
    SET_SIZE,
    SINGLE,
    VALUE_HEAD_BYTES,
    encode_run,
    plain_columns,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import Draft, ValueFixup, check_commit
from oms_journal.journal.writing.single import Frames, QueueTemplate, WritePosition

_PADDING = tuple(bytes(size) for size in range(8))
_FIRST = ((RECORD_NUMBER_AT, 0),)


NumberPlaces = Sequence[tuple[int, int]]  # where in a value a number of an added message goes: offset, and place from 0


class NewRun(NamedTuple):
    """Messages to be added to one queue, without properties or producer identifier."""

    queue: QueueTemplate
    payloads: Sequence[bytes]
    sizes: Sequence[int]


class RemovedRun(NamedTuple):
    """Messages of one queue to be removed, whose numbers follow one another."""

    kind: Operation
    queue: bytes
    numbers: range


class NewValue(NamedTuple):
    """A value of a key."""

    key: bytes
    value: bytes
    numbers_at: NumberPlaces


def draft_unit(
    added: NewRun | None, removed: Sequence[RemovedRun], values: Sequence[NewValue], drops: Sequence[bytes]
) -> Draft:
    """Return the draft of one commit; LimitExceeded when it is over 1 GiB or a million operations."""
    draft = Draft()
    records: list[bytes] = []
    payload: list[Buffer] = []
    names: list[bytes] = []
    operations = footer = 0
    _check(added, removed)
    if added is not None:
        records.append(_add_record(added))
        payload.extend(added.payloads)
        names.append(added.queue.name)
        operations = draft.messages = draft.rows = len(added.sizes)
        footer = 1
        draft.fixups = _FIRST
        draft.has_add = True
    for run in removed:
        record = _removal_record(run)
        records.append(record)
        names.append(run.queue)
        operations += len(run.numbers)
        footer += len(record)
        if len(run.numbers) > 1:
            draft.features |= HAS_SETS
    if values:
        footer += _add_values(draft, values, records, payload)
        names += [value.key for value in values]
    for key in drops:
        record = RECORD.pack(Operation.DROP, 0, len(key), 0, 0, 0) + key
        records.append(record + _PADDING[-len(record) & 7])
        names.append(key)
    keys = len(values) + len(drops)
    draft.records = bytearray().join(records)
    draft.payload, draft.payload_size, draft.names = payload, sum(map(len, payload)), names
    draft.operations = operations + keys
    draft.rows += len(removed) + keys
    draft.footer_bytes = footer
    draft.frame_size = FRAME_SIZE + len(draft.records) + draft.payload_size + (-draft.payload_size & 7)
    check_commit(draft.operations, draft.frame_size)
    draft.weight = draft.frame_size + draft.rows * ROW_BYTES_MAX + footer + sum(map(len, names)) + len(names)
    return draft


def _check(added: NewRun | None, removed: Sequence[RemovedRun]) -> None:
    """Raise UnreadableCommit for a record that no reader would take."""
    if added is not None and not len(added.payloads) == len(added.sizes) > 0:
        raise UnreadableCommit(f"an addition of {len(added.payloads)} messages with {len(added.sizes)} sizes")
    for run in removed:
        if not run.numbers or run.numbers.step != 1:
            raise UnreadableCommit(f"a removal of the numbers {run.numbers}")


def _add_values(draft: Draft, values: Sequence[NewValue], records: list[bytes], payload: list[Buffer]) -> int:
    """Put the values behind what is there; return how many bytes of them the footer has."""
    heads: list[bytes] = []
    fixups: list[ValueFixup] = []
    size = sum(map(len, records))
    for key, value, numbers_at in values:
        checksum = 0
        if numbers_at:
            fixups.append(ValueFixup(size, len(payload), len(heads), numbers_at))  # its checksum comes with the numbers
        else:
            checksum = xxh3(value)
        record = RECORD.pack(Operation.PUT, 0, len(key), 0, len(value), checksum) + key
        record += _PADDING[-len(record) & 7]
        size += len(record)
        records.append(record)
        payload.append(value)
        heads.append(value[:VALUE_HEAD_BYTES])
    draft.value_heads, draft.value_fixups = heads, fixups
    return sum(map(len, heads))


class SentDraft(Draft):
    """The draft of one message and one value that has its number, the commonest of all: as `draft_unit` makes it."""

    __slots__ = ("queue",)

    # The same of all of them.
    operations = rows = 2
    messages = 1
    numbers_end = features = 0
    fixups = _FIRST
    has_add = True

    def __init__(
        self, queue: QueueTemplate, payload: bytes, key: bytes, value: bytes, numbers_at: NumberPlaces
    ) -> None:
        """Everything that Draft has, each once."""
        name, head = queue.name, value[:VALUE_HEAD_BYTES]
        self.queue = queue
        add = SINGLE.pack(Operation.ADD, 0, len(name), 0, 1, 0, xxh3(payload), len(payload)) + queue.tail
        put = RECORD.pack(Operation.PUT, 0, len(key), 0, len(value), 0) + key
        self.records = records = bytearray(b"".join((add, put, _PADDING[-len(put) & 7])))
        self.payload = (payload, value)
        self.payload_size = size = len(payload) + len(value)
        self.names = (name, key)
        self.value_heads = (head,)
        self.value_fixups = (ValueFixup(len(add), 1, 0, numbers_at),)
        self.footer_bytes = footer = 1 + len(head)
        self.frame_size = frame_size = FRAME_SIZE + len(records) + size + (-size & 7)
        self.weight = frame_size + 2 * ROW_BYTES_MAX + footer + len(name) + len(key) + 2
        self.effect = self.waiter = self.answer = self.failure = None
        self.first = self.commit = self.sequence = self.offset = self.time = 0


def form_sent(drafts: Sequence[SentDraft], place: WritePosition, common: bytes) -> Frames:
    """Return one frame a draft, from the place on, with the numbers in them: what `group.form` makes of each.

    `common` are the GROUP_FIELDS.
    """
    heads: list[bytes] = []
    offsets: list[int] = []
    buffers: list[Buffer] = []
    number, commit, offset, identity = place.next_message, place.next_commit, place.offset, place.identity
    owner, synced, time = GROUP_FIELDS.unpack(common)
    put_number = NUMBER.pack_into
    for draft in drafts:
        (payload, empty), ((record, _, _, numbers_at),), records = draft.payload, draft.value_fixups, draft.records
        filled = bytearray(empty)
        for at, _ in numbers_at:
            put_number(filled, at, number)
        value = bytes(filled)
        put_number(records, RECORD_NUMBER_AT, number)
        put_number(records, record + RECORD_NUMBER_AT, xxh3(value))
        draft.first, draft.commit, draft.sequence, draft.offset, draft.time = (
            number,
            commit,
            place.sequence,
            offset,
            time,
        )
        draft.value_heads = (value[:VALUE_HEAD_BYTES],)
        body = FRAME_BODY.pack(draft.frame_size, len(records), commit, owner, synced, time, 2, 0) + records
        head = CHECKSUM.pack(xxh3(body, (identity + offset) & SEED_MASK)) + body
        heads.append(head)
        offsets.append(offset)
        buffers += (head, payload, value, _PADDING[-draft.payload_size & 7])
        number += 1
        commit += 1
        offset += draft.frame_size
    return Frames(heads, offsets, buffers, offset)


def _add_record(added: NewRun) -> bytes:
    queue, payloads, sizes = added
    count = len(sizes)
    if count == 1:
        return SINGLE.pack(Operation.ADD, 0, len(queue.name), 0, 1, 0, xxh3(payloads[0]), sizes[0]) + queue.tail
    head = RECORD.pack(Operation.ADD, 0, len(queue.name), 0, count, 0)
    record = head + plain_columns(count).pack(*map(xxh3, payloads), *sizes) + queue.name
    return record + _PADDING[-len(record) & 7]


def _removal_record(run: RemovedRun) -> bytes:
    kind, queue, numbers = run
    coded = encode_run(len(numbers))
    head = RECORD.pack(kind, 0, len(queue), 0, len(numbers), numbers.start)
    record = b"".join((head, SET_SIZE.pack(len(coded)), coded, queue))
    return record + _PADDING[-len(record) & 7]
