"""Forming a group: the drafts that go out with one write and one sync, as bytes.

A pure step: place and time come in, bytes and numbers come out. Frames follow one another, and every
frame says up to where the file was already durable: as one group is in flight at a time, that is the
end of the group before. The last frame is as long as it takes for the next group to begin at a multiple
of the file's alignment.
"""

from collections.abc import Sequence
from dataclasses import replace

from oms_journal.journal.disk import Buffer
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.frames import FRAME_BODY, FRAME_LENGTH_AT, LENGTH, SEED_MASK
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.format.plain import GROUP_FIELDS
from oms_journal.journal.format.records import NUMBER, RECORD_NUMBER_AT
from oms_journal.journal.writing.draft import Draft, fill_values
from oms_journal.journal.writing.single import PlainAdds, WritePosition, form_plain

JOIN_BYTES_MAX = 1 << 20  # up to here one copy is cheaper than a vectored write

_pack_number, _pack_body, _pack_checksum = NUMBER.pack_into, FRAME_BODY.pack, CHECKSUM.pack


class Group:
    """Frames that become durable together, and what became of the drafts that are not among them."""

    __slots__ = (
        "buffers", "drafts", "end", "heads", "next_commit", "next_message", "offsets", "padding", "refused", "rest",
        "sequence", "time", "weight",
    )  # fmt: skip

    drafts: Sequence[Draft]
    sequence: int  # of the data file
    time: int
    buffers: Sequence[Buffer]  # they go to the first offset
    heads: list[bytes]  # header and records of each frame, in order
    offsets: list[int]  # of each frame
    end: int
    next_message: int
    next_commit: int
    padding: int  # zeros by which the last frame is longer than what it holds needs
    weight: int  # of the drafts
    rest: Sequence[Draft]  # they wait for the next group
    refused: Sequence[tuple[Draft, JournalError]]  # without room


def form(place: WritePosition, drafts: Sequence[Draft], time: int, weight: int = 0) -> Group:
    """Return the drafts as one group at the place, and write its numbers into them."""
    group = Group()
    group.drafts = drafts
    group.sequence = place.sequence
    group.time = time
    group.weight = weight
    group.heads = heads = []
    group.offsets = offsets = []
    group.rest = group.refused = ()
    buffers: list[Buffer] = []
    message, commit, offset = place.next_message, place.next_commit, place.offset
    for draft in drafts:
        draft.first = message
        draft.offset = offset
        shape = draft.shape
        if shape.is_rare:
            if isinstance(draft, PlainAdds):
                at = replace(place, offset=offset, next_message=message, next_commit=commit)
                frames = form_plain(draft, at, GROUP_FIELDS.pack(place.identity, place.synced, time))
                draft.offsets, count = frames.offsets, len(frames.heads)
                heads += frames.heads
                offsets += frames.offsets
                buffers += frames.buffers
                offset, message, commit = frames.end, message + count, commit + count
                continue
            records = draft.records
            for at_byte, distance in shape.fixups:
                _pack_number(records, at_byte, message + distance)
            if shape.value_fixups:
                fill_values(draft)
            message = max(message, shape.numbers_end - shape.messages)
        else:
            records = draft.records
            if shape.messages:
                _pack_number(records, RECORD_NUMBER_AT, message)
        length = draft.frame_size
        offsets.append(offset)
        message += shape.messages
        body = (
            _pack_body(length, len(records), commit, place.identity, place.synced, time, shape.operations, 0) + records
        )
        head = _pack_checksum(xxh3(body, place.seed + offset & SEED_MASK)) + body
        heads.append(head)
        buffers.append(head)
        buffers += draft.payload
        offset += length
        commit += 1
    group.padding = padding = -offset % place.alignment
    if padding:  # frames end at multiples of the smallest one
        _lengthen_last(heads, buffers, place.seed + offsets[-1], padding)
        offset += padding
    group.end = offset
    group.next_message = message
    group.next_commit = commit
    group.buffers = [b"".join(buffers)] if weight <= JOIN_BYTES_MAX else buffers
    return group


def _lengthen_last(heads: list[bytes], buffers: list[Buffer], seed: int, more: int) -> None:
    """Make the last frame so many bytes longer."""
    head = heads[-1]
    body = bytearray(head[CHECKSUM.size :])
    (length,) = LENGTH.unpack_from(head, FRAME_LENGTH_AT)
    LENGTH.pack_into(body, FRAME_LENGTH_AT - CHECKSUM.size, length + more)
    longer = CHECKSUM.pack(xxh3(body, seed & SEED_MASK)) + body
    at = next(at for at in range(len(buffers) - 1, -1, -1) if buffers[at] is head)
    heads[-1] = buffers[at] = longer
    buffers.append(bytes(more))
