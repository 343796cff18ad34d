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

JOIN_BYTES_MAX = 1 << 20  # up to here one copy is cheaper than a vectored write


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


@dataclass(frozen=True, slots=True)
class Group:
    """Frames that become durable together."""

    drafts: Sequence[Draft]
    heads: Sequence[bytes]  # header and records of each draft's frame
    buffers: Sequence[Buffer]  # what to write, padding in front included
    offset: int  # where the buffers go
    end: int
    next_message: int
    next_commit: int


def group_size(place: Place, drafts: Sequence[Draft]) -> int:
    """Return how many bytes behind the place's offset the drafts will take."""
    start = align(place.offset, place.alignment)
    return start - place.offset + sum(draft.frame_size for draft in drafts)


def form(place: Place, drafts: Sequence[Draft], *, time: int) -> Group:
    """Return the drafts as one group at the place, and write its numbers into them."""
    offset = align(place.offset, place.alignment)
    buffers: list[Buffer] = [bytes(offset - place.offset)] if offset > place.offset else []
    heads: list[bytes] = []
    message, commit = place.next_message, place.next_commit
    identity, owner, synced, sequence = place.identity, place.owner, place.synced, place.sequence
    for draft in drafts:
        records = draft.records
        for at, distance in draft.fixups:
            NUMBER.pack_into(records, at, message + distance)
        size = draft.frame_size
        head = encode_frame_head(
            records, identity + offset & SEED_MASK, size, commit, owner, synced, time, draft.operations, 0
        )
        heads.append(head)
        buffers.append(head)
        buffers.extend(draft.payload)
        if draft.payload_size & 7:
            buffers.append(padding(draft.payload_size))
        draft.first = message
        draft.commit = commit
        draft.sequence = sequence
        draft.offset = offset
        draft.time = time
        message += draft.messages
        commit += 1
        offset += size
    if offset - place.offset <= JOIN_BYTES_MAX:
        buffers = [b"".join(buffers)]
    return Group(drafts, heads, buffers, place.offset, offset, message, commit)
