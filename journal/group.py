"""Forming a group: the drafts that go out with one write and one sync, as bytes.

A pure step: place and time come in, bytes and numbers come out. A group starts at the file's
alignment, its frames follow one another, and every frame says up to where the file was already
durable: as one group is in flight at a time, that is the end of the group before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from journal.disk import Buffer
from journal.draft import NUMBER, Draft
from journal.format import SEED_MASK, align, encode_frame_head
from journal.records import padding
from journal.single import GROUP_FIELDS, PlainAdds, PlainFrames

JOIN_BYTES_MAX = 1 << 20  # up to here one copy is cheaper than a vectored write

AnyDraft = Draft | PlainAdds


@dataclass(slots=True)
class Place:
    """Where the next group goes, and which numbers come next. The committer's alone."""

    identity: int
    sequence: int
    owner: int
    alignment: int
    offset: int  # behind the last frame
    synced: int  # the file is durable up to here
    next_message: int
    next_commit: int


class Group:
    """Frames that become durable together."""

    __slots__ = (
        "buffers", "drafts", "end", "heads", "next_commit", "next_message", "offset", "offsets", "plain", "sequence",
    )  # fmt: skip

    def __init__(self, drafts: Sequence[AnyDraft], place: Place) -> None:
        self.drafts = drafts
        self.plain: Sequence[PlainAdds] = ()  # the drafts, when all of them are plain
        self.sequence = place.sequence
        self.offset = place.offset  # where the buffers go, padding in front included
        self.buffers: Sequence[Buffer] = ()
        self.heads: Sequence[bytes] = ()  # header and records of each frame, in order
        self.offsets: Sequence[int] = ()  # of each frame
        self.end = place.offset
        self.next_message = place.next_message
        self.next_commit = place.next_commit


def form(place: Place, drafts: Sequence[AnyDraft], *, time: int) -> Group:
    """Return the drafts as one group at the place, and write its numbers into them."""
    group = Group(drafts, place)
    offset = align(place.offset, place.alignment)
    frames = PlainFrames(place.identity, GROUP_FIELDS.pack(place.owner, place.synced, time))
    if offset > place.offset:
        frames.buffers.append(bytes(offset - place.offset))
    message, commit = place.next_message, place.next_commit
    plain: list[PlainAdds] = []
    for draft in drafts:
        draft.first = message
        if type(draft) is PlainAdds:
            offset = frames.form(draft, offset, commit)
            message += len(draft.payloads)
            commit += len(draft.payloads)
            plain.append(draft)
            continue
        assert isinstance(draft, Draft)
        head = _form(draft, place, offset, commit, time)
        frames.heads.append(head)
        frames.offsets.append(offset)
        frames.buffers += [head, *draft.payload, padding(draft.payload_size)]
        message += draft.messages
        commit += 1
        offset += draft.frame_size
    group.plain = plain if len(plain) == len(drafts) else ()
    is_small = offset - place.offset <= JOIN_BYTES_MAX
    group.buffers = [b"".join(frames.buffers)] if is_small else frames.buffers
    group.heads, group.offsets = frames.heads, frames.offsets
    group.end, group.next_message, group.next_commit = offset, message, commit
    return group


def _form(draft: Draft, place: Place, offset: int, commit: int, time: int) -> bytes:
    """Return header and records of one frame; its numbers stand in the draft."""
    draft.commit, draft.sequence, draft.offset, draft.time = commit, place.sequence, offset, time
    for at, distance in draft.fixups:
        NUMBER.pack_into(draft.records, at, draft.first + distance)
    fields = (draft.frame_size, commit, place.owner, place.synced, time, draft.operations, 0)
    return encode_frame_head(draft.records, (place.identity + offset) & SEED_MASK, *fields)
