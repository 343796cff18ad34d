"""What a reader makes of a group before it is written: no file is to hold what no reader takes.

For tests, simulations and whoever sets OMS_CHECK=1. A draft is checked when it is made as well (`draft.py`), by plain
comparisons; here the bytes are decoded as a start would decode them, and every payload is hashed once more.
"""

from collections.abc import Iterator

from oms_journal.journal.format.frames import FRAME_SIZE, BadFrame, decode_frame
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import MOVED, PROPERTIES, BadRecord, Record, decode_properties, decode_records
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.walk import check_records
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.groups import Group
from oms_journal.journal.writing.single import PlainAdds, WritePosition


def unreadable(group: Group, place: WritePosition) -> tuple[int, str] | None:
    """Return the place of the group's first draft that a reader would not take, and why; None where it takes all.

    `place` is where the group goes: as it was when the group was formed.
    """
    commit, number = place.next_commit, place.next_message
    for index, offset, data in _frames(group):
        draft, first = group.drafts[index], number
        reason, number = _reason(data, offset, place, (commit, first))
        commit += 1
        if (
            not reason
            and not isinstance(draft, PlainAdds)
            and number != max(first + draft.shape.messages, draft.shape.numbers_end)
        ):
            reason = f"{number - first} messages where the draft says {draft.shape.messages}"
        if reason:
            return index, reason
    if (commit, number) != (group.next_commit, group.next_message):
        return len(group.drafts) - 1, f"the next message is {number}, and the group says {group.next_message}"
    return None


def _frames(group: Group) -> Iterator[tuple[int, int, bytes | memoryview]]:
    """Yield each frame's draft, its offset and its bytes."""
    ends = [*group.offsets[1:], group.end]
    owners = [index for index, draft in enumerate(group.drafts) for _ in range(_frame_count(draft))]
    buffers = iter(group.buffers)
    is_joined = len(group.buffers) == 1
    whole = memoryview(next(buffers)) if is_joined else memoryview(b"")
    for index, offset, end in zip(owners, group.offsets, ends, strict=True):
        if is_joined:
            yield index, offset, whole[offset - group.offsets[0] : end - group.offsets[0]]
            continue
        parts, size = [], 0
        while size < end - offset:
            parts.append(next(buffers))
            size += len(parts[-1])
        yield index, offset, b"".join(parts)


def _frame_count(draft: Draft) -> int:
    return len(draft.payloads) if isinstance(draft, PlainAdds) else 1


def _reason(data: bytes | memoryview, offset: int, place: WritePosition, expected: tuple[int, int]) -> tuple[str, int]:
    """Return why a reader would not take a frame, "" where it would; and the message number behind it."""
    commit, number = expected
    frame = decode_frame(data, offset, sequence=place.sequence, identity=place.identity, base=offset)
    if isinstance(frame, BadFrame):
        return frame.reason, number
    if frame.commit != commit or frame.length != len(data):
        return f"commit {frame.commit} of {frame.length} bytes, not {commit} of {len(data)}", number
    at = FRAME_SIZE + frame.meta
    try:
        records = list(decode_records(data[FRAME_SIZE:at]))
        check_records(frame, records, place.alignment, number)
        for record in records:
            if record.kind == Operation.ADD and not record.flags & MOVED:
                if record.number != number:
                    return f"message {record.number} where {number} comes next", number
                number += record.count
            elif record.kind == Operation.ADD:
                number = max(number, max(record.numbers) + 1)
            at = _check_payloads(data, at, record)
    except (BadRecord, ValueError) as failure:
        return str(failure), number
    if any(data[at:]):
        return "its padding is not zero", number
    return "", number


def _check_payloads(data: bytes | memoryview, at: int, record: Record) -> int:
    """Return where the payloads of a record end; BadRecord where one is not what the record says, ValueError."""
    sizes = record.sizes if record.kind == Operation.ADD else [record.count] * (record.kind == Operation.PUT)
    for index, size in enumerate(sizes):
        payload = bytes(data[at : at + size])
        if xxh3(payload) != record.checksum(index):
            raise BadRecord(f"payload {index} is not the one that its checksum was made of")
        if record.flags & PROPERTIES and record.kind == Operation.ADD:
            decode_properties(payload[: record.property_sizes[index]])
        at += size
    return at
