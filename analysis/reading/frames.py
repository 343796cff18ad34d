"""The frames of a file that has no footer yet and seems whole, without their payloads: what reading a journal
that is being written costs most.

Only what looks as it must is taken; for anything else there is the walk, which says what is wrong. A file that was
repaired has a footer: where it has not, that is gone.
"""

from dataclasses import dataclass

from oms_journal.analysis.reading.parts import FilePart
from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader, decode_frame
from oms_journal.journal.format.headers import FRAMES_AT, FileHeader


@dataclass(frozen=True, slots=True)
class Scan:
    """Every frame of a file, and how far they say that it was durable."""

    builder: ContentsBuilder
    end: int  # behind the last frame
    vouched: int
    last_commit: int
    owner: int


def scan(data: bytes, part: FilePart, header: FileHeader) -> Scan | None:
    """Return a file's frames, each verified but for its payloads; None where a place in it is not as it must be."""
    limit = len(data) if part.named is None else part.named.end
    view = memoryview(data)[:limit]
    builder = ContentsBuilder()
    offset = end = FRAMES_AT
    vouched = last_commit = 0
    while offset < limit:
        frame = decode_frame(view, offset, sequence=header.sequence, identity=header.identity)
        if not isinstance(frame, FrameHeader):
            break
        if frame.flags:
            return None
        builder.add_one(offset, data[offset : offset + FRAME_SIZE + frame.meta])
        vouched = max(vouched, frame.synced)
        last_commit = frame.commit
        offset = end = frame.end
    if data.count(0, end, limit) != max(limit - end, 0):
        return None
    if part.named is None:
        return Scan(builder, end, vouched, last_commit, header.owner) if vouched else None
    ending = (header.identity, end, last_commit, builder.chain())
    if ending != (part.named.identity, part.named.end, part.named.commit, part.named.chain):
        return None
    return Scan(builder, end, end, last_commit, header.owner)
