"""Walk the frames of a data file from its bytes: what is good, what is not. Changes nothing.

Frames follow one another without a gap. A bad place does not end the walk: the next good frame behind it is looked for
at every multiple of 8, since what stands behind damage was promised too. A frame whose checksum is right and whose
records nobody understands is both: one of the frames, which vouches for others as they do, and a bad range that is as
long as it. Which of the bad places are torn and which are damaged is not decided here (`recovery/validation.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.frames import (
    FRAME_FLAGS,
    FRAME_SIZE,
    FRAME_WORDS,
    GAP,
    IDENTITY_WORD,
    OPERATIONS_MAX,
    SIZES_WORD,
    WORD_BYTES,
    BadFrame,
    FrameHeader,
    are_possible,
    decode_frame,
    words_of,
)
from oms_journal.journal.format.headers import ALIGNMENT_MAX, FRAMES_AT, NUMBERS_END, FileHeader, align, xxh3
from oms_journal.journal.format.invariants import FrameOrder
from oms_journal.journal.format.records import (
    MOVED,
    PROPERTIES,
    RECORD,
    RECORD_PARTS_AT,
    SET_SIZE,
    SINGLE,
    VALUE_HEAD_BYTES,
    BadRecord,
    Record,
    check_gap,
    check_record,
    check_whole,
    decode_records,
)
from oms_journal.journal.operations import Operation

_REMOVAL_NAME_AT = RECORD_PARTS_AT + SET_SIZE.size  # in the record of a removal of one message


@dataclass(frozen=True, slots=True)
class BadRange:
    """Bytes that are no frames, from `start` up to the next good frame or the end; or one frame that says nothing."""

    start: int
    end: int
    reason: str
    is_frame: bool = False  # a whole frame, by its checksum, whose records are none of this format version

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class BadPayload:
    """One message or value in a good frame whose own bytes do not match their checksum."""

    frame: int  # offset of the frame
    operation: Operation
    name: bytes
    number: int  # of the message; 0 for a value


@dataclass(slots=True)
class Walk:
    """What a walk found."""

    frames: list[FrameHeader] = field(default_factory=list)  # by their checksums
    bad_ranges: list[BadRange] = field(default_factory=list)
    bad_payloads: list[BadPayload] = field(default_factory=list)
    builder: ContentsBuilder = field(default_factory=ContentsBuilder)
    names: set[bytes] = field(default_factory=set)  # queues that were seen, and are UTF-8
    has_gaps: bool = False
    end: int = 0  # behind the last frame
    order: FrameOrder = field(default_factory=FrameOrder)  # what the next frame has to say

    def not_understood(self) -> set[int]:
        """Return the offsets of the frames whose records nobody understands."""
        return {bad.start for bad in self.bad_ranges if bad.is_frame}

    def vouched(self) -> int:
        """Return the highest offset that a good frame says was durable."""
        return max((frame.synced for frame in self.frames if frame.synced <= frame.offset), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which part of which file to walk, and what every frame in it must have in common."""

    sequence: int
    identity: int
    limit: int  # frames at or behind this offset are not looked at
    start: int = FRAMES_AT
    alignment: int = ALIGNMENT_MAX  # behind the payloads of a frame there are fewer zeros than this
    header: FileHeader | None = None  # of the file, where it is known: which numbers its frames begin with
    floor: int = 0  # no message is added with a lower number: files before this one have those

    def order(self) -> FrameOrder:
        """Return what the first frame has to say."""
        return FrameOrder.behind(self.header if self.start == FRAMES_AT else None, floor=self.floor)


def walk(data: bytes, span: Span) -> Walk:
    """Return every good frame between start and limit, and every range without one."""
    found = Walk(end=span.start, order=span.order())
    limit = min(span.limit, len(data))
    view = memoryview(data)[:limit]
    content_end = -1
    offset = span.start
    while offset < limit:
        frame = _frame_at(view, offset, span)
        if isinstance(frame, FrameHeader):
            _take(found, data, frame, span.alignment)
            offset = frame.end
            continue
        if content_end < 0:
            content_end = _content_end(data[:limit])
        if content_end <= offset:
            break
        following = _next_frame(view, offset + FRAME_SIZE, span)  # what stood here took as much
        end = following if following is not None else min(limit, align(content_end, 8))
        found.bad_ranges.append(BadRange(offset, end, frame.reason))
        found.order.pass_over(end - offset)
        offset = end
    return found


def _frame_at(view: memoryview, offset: int, span: Span) -> FrameHeader | BadFrame:
    return decode_frame(view, offset, sequence=span.sequence, identity=span.identity)


def _content_end(data: bytes) -> int:
    """Return the first offset behind which there are only zeros."""
    return len(data.rstrip(b"\0"))


def _next_frame(view: memoryview, start: int, span: Span) -> int | None:
    """Return the offset of the first good frame at or behind `start`."""
    words = words_of(view, start)
    count = len(words) - FRAME_WORDS + 1
    if count <= 0:
        return None
    plausible = are_possible(words[SIZES_WORD : SIZES_WORD + count])
    plausible &= words[IDENTITY_WORD : IDENTITY_WORD + count] == np.uint64(span.identity)
    for candidate in np.flatnonzero(plausible).tolist():
        offset = start + WORD_BYTES * candidate
        if isinstance(_frame_at(view, offset, span), FrameHeader):
            return int(offset)
    return None


def _take(found: Walk, data: bytes, frame: FrameHeader, alignment: int) -> None:
    found.frames.append(frame)
    found.end = frame.end
    order = found.order
    is_next = frame.commit == order.commit and frame.synced <= frame.offset and not (order.spare or order.other)
    if is_next and _take_single(found, data, frame, alignment):
        order.commit = frame.commit + 1
        return
    found.has_gaps = found.has_gaps or bool(frame.flags & GAP)
    try:
        order.take(frame)
        if not is_next and _take_single(found, data, frame, alignment):
            return
        records = _records_of(data, frame, alignment, order)
    except BadRecord as failure:
        reason = f"commit {frame.commit} is whole, and cannot be understood: {failure}"
        found.bad_ranges.append(BadRange(frame.offset, frame.end, reason, is_frame=True))
        commit = frame.commit if order.commit is None or frame.flags & GAP else order.commit - 1
        found.builder.add_nothing(frame.offset, data[frame.offset : frame.offset + FRAME_SIZE], commit)
        return
    value_heads: list[bytes] = []
    payload_hashes: list[int] = []
    for record, index, payload in payloads(data, frame, records):
        is_bad = xxh3(payload) != record.checksum(index)
        if record.kind == Operation.PUT:
            value_heads.append(payload[:VALUE_HEAD_BYTES])
        elif record.flags & PROPERTIES:
            payload_hashes.append(0 if is_bad else xxh3(payload[record.property_sizes[index] :]))
        if is_bad:
            found.bad_payloads.append(_bad_payload(record, index, frame.offset))
    head = data[frame.offset : frame.offset + FRAME_SIZE + frame.meta]
    found.builder.add(frame.offset, head, value_heads, payload_hashes)


def _take_single(found: Walk, data: bytes, frame: FrameHeader, alignment: int) -> bool:
    """Take in a frame that adds one plain message or removes one, as most do; return whether it is such a frame.

    It does what is done for any other frame, without a value for each record.
    """
    if frame.operations != 1 or frame.flags or frame.meta < _REMOVAL_NAME_AT:
        return False
    at, size, name_at = frame.offset + FRAME_SIZE, 0, _REMOVAL_NAME_AT
    kind, flags, name_size, extra, count, number = RECORD.unpack_from(data, at)
    if kind == Operation.ADD and frame.meta >= SINGLE.size:
        *_, checksum, size = SINGLE.unpack_from(data, at)
        name_at = SINGLE.size
    elif kind not in (Operation.DELIVER, Operation.DELETE) or any(data[at + RECORD_PARTS_AT : at + name_at]):
        return False  # another record, or a coded set
    if flags or extra or count != 1 or not name_size or number >= NUMBERS_END:
        return False
    if kind == Operation.ADD and number < found.order.message:
        return False
    meta = align(name_at + name_size, 8)
    if meta != frame.meta or not 0 <= frame.length - FRAME_SIZE - meta - size < alignment:
        return False
    name = data[at + name_at : at + name_at + name_size]
    if name not in found.names:
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
        found.names.add(name)
    if kind == Operation.ADD:
        found.order.message = number + 1
        if xxh3(data[at + meta : at + meta + size]) != checksum:
            found.bad_payloads.append(BadPayload(frame.offset, Operation.ADD, name, number))
    found.builder.add_one(frame.offset, data[frame.offset : at + meta])
    return True


def _records_of(data: bytes, frame: FrameHeader, alignment: int, order: FrameOrder) -> list[Record]:
    """Return the records of a frame, none of a gap's. BadRecord where they are not what this format version knows."""
    if frame.flags & ~FRAME_FLAGS:
        raise BadRecord(f"frame flags {frame.flags} are unknown to this format version")
    records = list(decode_records(data[frame.records]))
    if frame.flags & GAP:
        check_gap(frame.operations, records)
        return []
    order.message = check_records(frame, records, alignment, order.message)
    return records


def check_records(frame: FrameHeader, records: Sequence[Record], alignment: int, lowest: int = 0) -> int:
    """Raise BadRecord unless these can be the records of a commit, and speak of what the frame's header says.

    The messages that it adds have numbers from the lowest one on; return the lowest one for what is behind it.
    """
    operations = sum(record.count if record.kind <= Operation.DELETE else 1 for record in records)
    size = sum(sum(record.sizes) if record.kind != Operation.PUT else record.count for record in records)
    rest = frame.length - FRAME_SIZE - frame.meta - size
    if operations != frame.operations or not 0 <= rest < alignment:
        raise BadRecord(f"{operations} operations and {size} bytes are not what the frame's header says")
    if operations > OPERATIONS_MAX:  # a set of a few bytes can say billions
        raise BadRecord(f"{operations} operations are more than a commit has")
    if len(records) > 1:
        check_whole([one for one in records if one.kind == Operation.ADD and not one.flags & MOVED])
    for record in records:
        check_record(record)
        if record.kind == Operation.ADD and not record.flags & MOVED:
            if record.number < lowest:
                raise BadRecord(f"message {record.number} is added where numbers from {lowest} on come next")
            lowest = record.number + record.count
    return lowest


def payloads(
    data: bytes | memoryview, frame: FrameHeader, records: Sequence[Record]
) -> Iterator[tuple[Record, int, bytes]]:
    """Yield (record, place in the record, bytes) for every message and value of a frame, unverified.

    `data` are the bytes of the file, the whole frame among them.
    """
    at = frame.offset + FRAME_SIZE + frame.meta
    for record in records:
        sizes: Sequence[int] = ()
        if record.kind == Operation.ADD:
            sizes = record.sizes
        elif record.kind == Operation.PUT:
            sizes = (record.count,)
        for index, size in enumerate(sizes):
            yield record, index, bytes(data[at : at + size])
            at += size


def _bad_payload(record: Record, index: int, frame: int) -> BadPayload:
    number = record.message(index) if record.kind == Operation.ADD else 0
    return BadPayload(frame, Operation(record.kind), record.name, number)


def good_frames(data: bytes, base: int, header: FileHeader, start: int) -> list[FrameHeader]:
    """Return the good frames from `start` on, up to the first place that holds none; `data` begins at `base`."""
    found: list[FrameHeader] = []
    at = start
    while True:
        frame = decode_frame(data, at, sequence=header.sequence, identity=header.identity, base=base)
        if not isinstance(frame, FrameHeader):
            return found
        found.append(frame)
        at = frame.end
