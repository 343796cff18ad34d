"""Walk the frames of a data file from its bytes: what is good, what is not. Changes nothing.

A bad place does not end the walk: the next good frame behind it is looked for at every multiple of
8, since what stands behind damage was promised too. Zeros before a group are its padding where the
frames on both sides are of neighbouring commits; else frames have stood there, and the range is bad
from its first zero on. A frame whose checksum is right and whose records nobody understands is both: one of the
frames, which vouches for others as they do, and a bad range that is as long as it. Which of the bad places are torn
and which are damaged is not decided here (`recovery/validation.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.frames import (
    FRAME_FLAGS,
    FRAME_SIZE,
    FRAME_WORDS,
    GAP,
    OPERATIONS_MAX,
    OWNER_WORD,
    SIZES_WORD,
    WORD_BYTES,
    BadFrame,
    FrameHeader,
    are_possible,
    decode_frame,
    words_of,
)
from oms_journal.journal.format.headers import FileHeader, align, xxh3
from oms_journal.journal.format.records import (
    MOVED,
    VALUE_HEAD_BYTES,
    BadRecord,
    Record,
    check_gap,
    check_record,
    decode_records,
)
from oms_journal.journal.operations import Operation


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
    has_gaps: bool = False
    end: int = 0  # behind the last frame

    def not_understood(self) -> set[int]:
        """Return the offsets of the frames whose records nobody understands."""
        return {bad.start for bad in self.bad_ranges if bad.is_frame}

    def vouched(self) -> int:
        """Return the highest offset that a good frame says was durable."""
        return max((frame.synced for frame in self.frames), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which part of which file to walk, and what every frame in it must have in common."""

    path: Path
    identity: int
    start: int
    limit: int  # frames at or behind this offset are not looked at
    alignment: int
    owner: int | None = None


def walk(data: bytes, span: Span) -> Walk:
    """Return every good frame between start and limit, and every range without one."""
    found = Walk(end=span.start)
    limit = min(span.limit, len(data))
    view = memoryview(data)[:limit]
    content_end = -1
    offset = span.start
    while offset < limit:
        frame = _following(view, offset, span, found)
        if isinstance(frame, FrameHeader):
            _take(found, data, frame)
            offset = frame.end
            continue
        if content_end < 0:
            content_end = _content_end(data[:limit])
        if content_end <= offset:
            break
        following = _next_frame(view, offset + WORD_BYTES, span)
        end = following if following is not None else min(limit, align(content_end, 8))
        found.bad_ranges.append(BadRange(offset, end, frame.reason))
        offset = end
    return found


def _following(view: memoryview, offset: int, span: Span, found: Walk) -> FrameHeader | BadFrame:
    """Return the frame that stands here, or behind the padding that does; why there is none where there is neither."""
    frame = decode_frame(view, offset, identity=span.identity)
    start = align(offset, span.alignment)
    if isinstance(frame, FrameHeader) or start == offset or start >= len(view) or any(view[offset:start]):
        return frame
    group = decode_frame(view, start, identity=span.identity)
    return group if isinstance(group, BadFrame) or _is_next(found, group) else frame


def _is_next(found: Walk, group: FrameHeader) -> bool:
    """Say whether nothing but padding can have stood between the frames so far and a group.

    The commits of a file are numbered one by one, so a number that is missing tells. A gap frame has none: it stands
    for all that was lost up to the next good frame.
    """
    if not found.frames:
        return True
    before = found.frames[-1]
    return bool((before.flags | group.flags) & GAP) or group.commit == before.commit + 1


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
    if span.owner is not None:
        plausible &= words[OWNER_WORD : OWNER_WORD + count] == np.uint64(span.owner)
    for candidate in np.flatnonzero(plausible).tolist():
        offset = start + WORD_BYTES * candidate
        if isinstance(decode_frame(view, offset, identity=span.identity), FrameHeader):
            return int(offset)
    return None


def _take(found: Walk, data: bytes, frame: FrameHeader) -> None:
    found.frames.append(frame)
    found.end = frame.end
    found.has_gaps = found.has_gaps or bool(frame.flags & GAP)
    try:
        records = _records_of(data, frame)
    except BadRecord as failure:
        reason = f"commit {frame.commit} is whole, and cannot be understood: {failure}"
        found.bad_ranges.append(BadRange(frame.offset, frame.end, reason, is_frame=True))
        found.builder.add_nothing(frame.offset, data[frame.offset : frame.offset + FRAME_SIZE])
        return
    value_heads: list[bytes] = []
    for record, index, payload in payloads(data, frame, records):
        if record.kind == Operation.PUT:
            value_heads.append(payload[:VALUE_HEAD_BYTES])
        if xxh3(payload) != record.checksum(index):
            found.bad_payloads.append(_bad_payload(record, index, frame.offset))
    found.builder.add(frame.offset, data[frame.offset : frame.offset + FRAME_SIZE + frame.meta], value_heads)


def _records_of(data: bytes, frame: FrameHeader) -> list[Record]:
    """Return the records of a frame, none of a gap's. BadRecord where they are not what this format version knows."""
    if frame.flags & ~FRAME_FLAGS:
        raise BadRecord(f"frame flags {frame.flags} are unknown to this format version")
    records = list(decode_records(data[frame.records]))
    if frame.flags & GAP:
        check_gap(frame.operations, records)
        return []
    check_records(frame, records)
    return records


def check_records(frame: FrameHeader, records: Sequence[Record]) -> None:
    """Raise BadRecord unless these can be the records of a commit, and speak of what the frame's header says."""
    operations = sum(record.count if record.kind <= Operation.DELETE else 1 for record in records)
    size = sum(sum(record.sizes) if record.kind != Operation.PUT else record.count for record in records)
    if operations != frame.operations or align(FRAME_SIZE + frame.meta + size, 8) != frame.length:
        raise BadRecord(f"{operations} operations and {size} bytes are not what the frame's header says")
    if operations > OPERATIONS_MAX:  # a set of a few bytes can say billions
        raise BadRecord(f"{operations} operations are more than a commit has")
    highest = -1
    for record in records:
        check_record(record)
        if record.kind == Operation.ADD and not record.flags & MOVED:
            if record.number <= highest:
                raise BadRecord("its messages' numbers do not ascend")
            highest = record.number + record.count - 1


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
        frame = decode_frame(data, at, identity=header.identity, base=base)
        if not isinstance(frame, FrameHeader):
            following = align(at, header.alignment)
            if following == at or any(data[at - base : following - base]):
                return found
            at = following
            continue
        found.append(frame)
        at = frame.end
