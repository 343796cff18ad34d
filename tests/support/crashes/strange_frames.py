"""Frames that a broken writer makes: their checksums are right, and no reader understands what they say.

They are written through the real journal, at their place in the file and with the next commit's number, but past every
check of what a commit may be: `write_unchecked` is the one place that leaves them out.
"""

from dataclasses import dataclass

from oms_journal.journal.format.footer import ROW_BYTES_MAX
from oms_journal.journal.format.frames import FRAME_SIZE, encode_frame_head
from oms_journal.journal.format.headers import align, xxh3
from oms_journal.journal.format.records import (
    DUE,
    EXPIRY,
    GAP_KIND,
    GROUP,
    MOVED,
    PRODUCER,
    PROPERTIES,
    RECORD,
    RECORD_NUMBER_AT,
    SET_SIZE,
    WHOLE_COMMIT,
    padded,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder
from oms_journal.journal.writing.groups import Group
from oms_journal.journal.writing.log import Journal


@dataclass(frozen=True, slots=True)
class Strange:
    """What stands in a frame, and what its header says of it."""

    records: bytes
    operations: int = 1
    payload: bytes = b""
    flags: int = 0
    value_heads: tuple[bytes, ...] = ()  # for the footer of a file that gets one
    payload_hashes: tuple[int, ...] = ()  # likewise
    commit: int = 0  # so much higher its commit number is than the one that comes next, modulo 2^64
    synced: int = 0  # likewise how much of the file it says is durable
    messages: int = 0  # so many numbers are used up; the first one is written into the first record


def write_unchecked(journal: Journal, strange: Strange) -> int:
    """Write the frame durably, and return its offset."""
    place = journal._place
    assert place is not None, "the journal has a file by now"
    draft, group_at = CommitBuilder().draft(), place.offset
    draft.records = bytearray(strange.records)
    if strange.messages:
        draft.records[RECORD_NUMBER_AT : RECORD_NUMBER_AT + 8] = place.next_message.to_bytes(8, "little")
    size = FRAME_SIZE + len(draft.records) + len(strange.payload)
    draft.payload, draft.frame_size = (strange.payload,), align(size, place.alignment)
    draft.weight, shape = draft.frame_size + ROW_BYTES_MAX, draft.shape
    shape.operations, shape.rows, shape.is_rare = strange.operations, 1, True
    shape.value_heads, shape.payload_hashes = strange.value_heads, strange.payload_hashes
    commit, synced = (place.next_commit + strange.commit) % (1 << 64), place.synced + strange.synced
    fields = (draft.frame_size, commit, place.identity, synced, 1, strange.operations, strange.flags)
    head = encode_frame_head(bytes(draft.records), place.seed + group_at, *fields)
    group = Group()
    group.drafts, group.sequence, group.weight, group.padding = [draft], place.sequence, 0, 0
    group.end = group_at + draft.frame_size
    group.buffers = [(head + strange.payload).ljust(draft.frame_size, b"\0")]
    group.heads, group.offsets = [head], [group_at]
    group.next_message, group.next_commit = place.next_message + strange.messages, place.next_commit + 1
    journal.write(group)
    return group_at


def _head(kind: int, flags: int = 0, name: int = 1, extra: int = 0, count: int = 1, number: int = 0) -> bytes:
    return RECORD.pack(kind, flags, name, extra, count, number)


def _sum(data: bytes) -> bytes:
    return xxh3(data).to_bytes(8, "little")


def _size(size: int) -> bytes:
    return size.to_bytes(4, "little")


def _add(**named: int) -> bytes:
    """Return the record of the message `m` in the queue `q`."""
    return padded(_head(Operation.ADD, **named) + _sum(b"m") + _size(1) + b"q")


def _of(producer: bytes, number: int, flags: int = 0) -> bytes:
    """Return the record of the message `m` in the queue `q`, added under an identifier."""
    head = _head(Operation.ADD, PRODUCER | flags, extra=len(producer), number=number)
    return padded(head + _sum(b"m") + _size(1) + b"q" + producer)


def _in_group(group: bytes, *, size: int | None = None) -> bytes:
    said = len(group) if size is None else size
    return padded(_head(Operation.ADD, GROUP) + _sum(b"m") + _size(1) + bytes([said]) + b"q" + group)


def _with_properties(size: int, of_properties: int) -> bytes:
    columns = _sum(b"m" * size) + _size(size) + _size(of_properties)
    return padded(_head(Operation.ADD, PROPERTIES) + columns + b"q")


def _removal(count: int, coded: bytes, number: int = 1, size: int | None = None) -> bytes:
    said = SET_SIZE.pack(len(coded) if size is None else size)
    return padded(_head(Operation.DELIVER, count=count, number=number) + said + coded + b"q")


def _put(key: bytes = b"k", size: int = 1, flags: int = 0) -> bytes:
    return padded(_head(Operation.PUT, flags, len(key), count=size, number=xxh3(b"v")) + key)


def single_add(*, payload: bytes, flags: int = 0, is_right: bool = False) -> Strange:
    """Return a frame that is right but for its payload: its checksum is that of another, or its properties are none."""
    sums = _sum(payload) if is_right else _sum(b"m")
    columns = sums + _size(len(payload)) + (_size(2) if flags & PROPERTIES else b"")
    records = padded(_head(Operation.ADD, flags) + columns + b"q")
    hashes = (xxh3(payload[2:]),) if flags & PROPERTIES else ()
    return Strange(records, payload=payload, payload_hashes=hashes, messages=1)


def put_of(key: bytes, value: bytes) -> Strange:
    """Return a frame that puts another value than its checksum is of."""
    return Strange(
        padded(_head(Operation.PUT, 0, len(key), count=len(value), number=1) + key), payload=value, value_heads=(value,)
    )


STRANGE = {
    "an ADD of no message": Strange(_add(count=0), operations=0),
    "an ADD of no message that uses a number up": Strange(_add(count=0), operations=0, messages=1),
    "an ADD of two of which one is there": Strange(_add(count=2), operations=2, payload=b"m", messages=2),
    "an ADD of billions": Strange(_add(count=0xFFFFFFFF), operations=0xFFFFFFFF, payload=b"m", messages=1),
    "an unknown kind": Strange(_add().replace(b"\1", b"\x09", 1), payload=b"m", messages=1),
    "kind 0": Strange(bytes(24)),
    "flags of a record without what they speak of": Strange(_add(flags=EXPIRY), payload=b"m", messages=1),
    "unknown flags of a key": Strange(_put(flags=DUE), payload=b"v"),
    "terms of a removal": Strange(padded(_head(Operation.DELIVER, DUE) + bytes(4) + b"q")),
    "a group that is no text": Strange(_in_group(b"\xff"), payload=b"m", messages=1),
    "a group without a name": Strange(_in_group(b""), payload=b"m", messages=1),
    "a group that is longer than the frame": Strange(_in_group(b"g", size=200), payload=b"m", messages=1),
    "flags of another kind": Strange(_put(flags=PRODUCER), payload=b"v"),
    "an identifier without its flag": Strange(_add(extra=1), payload=b"m", messages=1),
    "a flag without its identifier": Strange(_add(flags=PRODUCER), payload=b"m", messages=1),
    "a whole commit without an identifier": Strange(_add(flags=WHOLE_COMMIT), payload=b"m", messages=1),
    "a moved message of a whole commit": Strange(
        padded(
            _head(Operation.ADD, PRODUCER | MOVED | WHOLE_COMMIT, extra=1, number=0)
            + _sum(b"m")
            + bytes([9, 0, 0, 0, 0, 0, 0, 0])
            + bytes(8)
            + _size(1)
            + b"qp"
        ),
        payload=b"m",
    ),
    "a whole commit and a message beside it": Strange(
        _of(b"p", 4, WHOLE_COMMIT) + _add(number=5), operations=2, payload=b"mm"
    ),
    "a message and a whole commit behind it": Strange(
        _add(number=4) + _of(b"p", 5, WHOLE_COMMIT), operations=2, payload=b"mm"
    ),
    "a whole commit of two producers": Strange(
        _of(b"p", 4, WHOLE_COMMIT) + _of(b"r", 5, WHOLE_COMMIT), operations=2, payload=b"mm"
    ),
    "unknown flags of the frame": Strange(_add(), payload=b"m", flags=2, messages=1),
    "a gap of nobody's": Strange(padded(_head(GAP_KIND, count=0, number=8) + b"a"), operations=0),
    "a gap frame that does something": Strange(_put(), payload=b"v", flags=1),
    "a payload that is missing": Strange(_add(), messages=1),
    "a payload that is too long": Strange(_add(), payload=b"more than the eight bytes", messages=1),
    "a message of another size": Strange(
        padded(_head(Operation.ADD) + _sum(b"m") + _size(99) + b"q"), payload=b"m", messages=1
    ),
    "properties longer than their message": Strange(_with_properties(1, 9), payload=b"m", messages=1),
    "no name": Strange(padded(_head(Operation.ADD, name=0) + _sum(b"m") + _size(1)), payload=b"m", messages=1),
    "a queue that is no text": Strange(_add().replace(b"q", b"\xff"), payload=b"m", messages=1),
    "a key that is no text": Strange(_put(b"\xff\xfe"), payload=b"v"),
    "a name that is longer than the frame": Strange(_add(name=200), payload=b"m", messages=1),
    "a value of another size": Strange(_put(size=90), payload=b"v"),
    "a removal of no message": Strange(_removal(0, b""), operations=0),
    "a set of other numbers than it says": Strange(_removal(5, b"\x04"), operations=5),
    "a set that is cut off": Strange(_removal(2, b"\x81"), operations=2),
    "a set that ends with a gap": Strange(_removal(2, b"\x02\x03"), operations=2),
    "a set that is longer than the frame": Strange(_removal(2, b"\x02", size=4000), operations=2),
    "a removal behind the last number": Strange(_removal(1, b"", 1 << 63)),
    "a set of billions": Strange(_removal(0xFFFFFFFF, b"\xff\xff\xff\xff\x0f"), operations=0xFFFFFFFF),
    "a message behind the last number": Strange(_add(number=1 << 63), payload=b"m"),
    "a moved message behind the last number": Strange(
        padded(_head(Operation.ADD, MOVED) + _sum(b"m") + b"\xff" * 8 + bytes(8) + _size(1) + b"q"), payload=b"m"
    ),
    "fewer operations than its header says": Strange(_add(), operations=2, payload=b"m", messages=1),
    "more operations than its header says": Strange(_add(), operations=0, payload=b"m", messages=1),
    "a good record, and another behind it that is none": Strange(_add() + bytes(16), payload=b"m", messages=1),
    "a DROP with a count": Strange(padded(_head(Operation.DROP, count=1) + b"k")),
    "a DROP with a number": Strange(padded(_head(Operation.DROP, count=0, number=1) + b"k")),
    "a moved message with two numbers": Strange(
        padded(_head(Operation.ADD, MOVED, number=1) + _sum(b"m") + bytes([9, *bytes(15)]) + _size(1) + b"q"),
        payload=b"m",
    ),
    "a gap frame with a count": Strange(padded(_head(GAP_KIND, count=1) + b"a"), operations=0, flags=1),
    "a number of before": Strange(_add(number=0), payload=b"m"),
    "several numbers of before": Strange(_add(number=0) + _add(number=1 << 40), operations=2, payload=b"mm"),
    "the commit number of before": Strange(_add(), payload=b"m", messages=1, commit=-1),
    "a commit number that is not the next": Strange(_add(), payload=b"m", messages=1, commit=1),
    "a commit number far ahead": Strange(_add(), payload=b"m", messages=1, commit=1 << 40),
    "the last commit number": Strange(_add(), payload=b"m", messages=1, commit=(1 << 63) - 2),
    "a commit number behind the last": Strange(_put(), payload=b"v", value_heads=(b"v",), commit=-3),
    "no operation, and a commit number of no one": Strange(b"", operations=0, commit=-2),
    "more that is durable than the file had": Strange(_add(), payload=b"m", messages=1, synced=1 << 40),
    "messages that go back": Strange(_add(number=5) + _add(number=4), operations=2, payload=b"mm"),
}
