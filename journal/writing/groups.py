"""Forming a group: the drafts that go out with one write and one sync, as bytes.

A pure step: place and time come in, bytes and numbers come out. A group starts at the file's
alignment, its frames follow one another, and every frame says up to where the file was already
durable: as one group is in flight at a time, that is the end of the group before.
"""

from collections.abc import Sequence
from dataclasses import replace

from oms_journal.journal.disk import Buffer
from oms_journal.journal.format.frames import SEED_MASK, encode_frame_head
from oms_journal.journal.format.headers import align
from oms_journal.journal.format.plain import GROUP_FIELDS
from oms_journal.journal.format.records import NUMBER, padding
from oms_journal.journal.writing.draft import Draft, fill_values
from oms_journal.journal.writing.single import Frames, PlainAdds, WritePosition, form_plain
from oms_journal.journal.writing.unit import SentDraft, form_sent

JOIN_BYTES_MAX = 1 << 20  # up to here one copy is cheaper than a vectored write

AnyDraft = Draft | PlainAdds


class Group:
    """Frames that become durable together."""

    __slots__ = (
        "buffers", "drafts", "end", "heads", "next_commit", "next_message", "offset", "offsets", "padding", "plain",
        "sent", "sequence",
    )  # fmt: skip

    def __init__(self, drafts: Sequence[AnyDraft], place: WritePosition) -> None:
        self.drafts = drafts
        self.plain: Sequence[PlainAdds] = ()  # the drafts, when all of them are plain
        self.sent: Sequence[SentDraft] = ()  # likewise
        self.sequence = place.sequence
        self.padding = 0  # zeros between the group before and this one: they are there, and not written
        self.offset = place.offset  # where the buffers go
        self.buffers: Sequence[Buffer] = ()
        self.heads: Sequence[bytes] = ()  # header and records of each frame, in order
        self.offsets: Sequence[int] = ()  # of each frame
        self.end = place.offset
        self.next_message = place.next_message
        self.next_commit = place.next_commit


def form(place: WritePosition, drafts: Sequence[AnyDraft], *, time: int) -> Group:
    """Return the drafts as one group at the place, and write its numbers into them."""
    common = GROUP_FIELDS.pack(place.owner, place.synced, time)
    start = align(place.offset, place.alignment)
    at = place if start == place.offset else replace(place, offset=start)
    plain = [draft for draft in drafts if type(draft) is PlainAdds]
    group = Group(drafts, place)
    if len(plain) == len(drafts):
        group.plain = plain
        frames = form_plain(plain, at, common)
        count = len(frames.heads)
        group.next_message, group.next_commit = place.next_message + count, place.next_commit + count
    elif len(sent := [draft for draft in drafts if type(draft) is SentDraft]) == len(drafts):
        group.sent = sent
        frames = form_sent(sent, at, common)
        group.next_message, group.next_commit = place.next_message + len(sent), place.next_commit + len(sent)
    elif len(drafts) == 1:
        frames = _form_single(group, drafts[0], at, time)
    else:
        frames = _form_mixed(group, drafts, at, common)
    buffers = frames.buffers
    group.offset, group.padding = start, start - place.offset
    group.buffers = [b"".join(buffers)] if frames.end - start <= JOIN_BYTES_MAX else buffers
    group.heads, group.offsets, group.end = frames.heads, frames.offsets, frames.end
    return group


def _form_single(group: Group, draft: AnyDraft, place: WritePosition, time: int) -> Frames:
    """Return the frame of the only draft, which is not plain."""
    assert isinstance(draft, Draft)
    group.next_message, group.next_commit = _number_behind(draft, place), place.next_commit + 1
    return _form_draft(draft, place, time)


def _number_behind(draft: Draft, place: WritePosition) -> int:
    return max(place.next_message + draft.messages, draft.numbers_end)


def _form_draft(draft: Draft, place: WritePosition, time: int) -> Frames:
    draft.first = place.next_message
    head = _form(draft, place, time)
    buffers: list[Buffer] = [head, *draft.payload, padding(draft.payload_size)]
    return Frames([head], [place.offset], buffers, place.offset + draft.frame_size)


def _form_mixed(group: Group, drafts: Sequence[AnyDraft], place: WritePosition, common: bytes) -> Frames:
    """Return the frames of drafts of both kinds."""
    at = replace(place)
    heads: list[bytes] = []
    offsets: list[int] = []
    buffers: list[Buffer] = []
    _, _, time = GROUP_FIELDS.unpack(common)
    for draft in drafts:
        if isinstance(draft, PlainAdds):
            frames = form_plain((draft,), at, common)
            count = len(frames.heads)
            heads += frames.heads
            offsets += frames.offsets
            buffers += frames.buffers
            at.offset, at.next_message, at.next_commit = frames.end, at.next_message + count, at.next_commit + count
            continue
        draft.first = at.next_message
        head = _form(draft, at, time)
        heads.append(head)
        offsets.append(at.offset)
        buffers.append(head)
        buffers += draft.payload
        buffers.append(padding(draft.payload_size))
        at.offset += draft.frame_size
        at.next_message = _number_behind(draft, at)
        at.next_commit += 1
    group.next_message, group.next_commit = at.next_message, at.next_commit
    return Frames(heads, offsets, buffers, at.offset)


def _form(draft: Draft, place: WritePosition, time: int) -> bytes:
    """Return header and records of one frame; its numbers stand in the draft."""
    offset, commit = place.offset, place.next_commit
    draft.commit, draft.sequence, draft.offset, draft.time = commit, place.sequence, offset, time
    for at, distance in draft.fixups:
        NUMBER.pack_into(draft.records, at, draft.first + distance)
    if draft.value_fixups:
        fill_values(draft)
    fields = (draft.frame_size, commit, place.owner, place.synced, time, draft.operations, 0)
    return encode_frame_head(draft.records, (place.identity + offset) & SEED_MASK, *fields)
