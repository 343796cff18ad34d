"""The commonest commits: one message each, without properties or producer identifier.

They are drafted and formed with as little work as Python allows, since with many callers on a fast
device that work is the limit. All that the frames of one queue have in common is packed once, and
the commits of many callers travel as columns. The bytes are those of `frames.py` and `records.py`:
every message is a commit, with a frame, of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import add
from typing import NamedTuple

from oms_journal.journal.disk import Buffer
from oms_journal.journal.format.footer import ROW_BYTES_MAX
from oms_journal.journal.format.frames import SEED_MASK
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.format.plain import GROUP_FIELDS, PLAIN_NAME_AT, packer, queue_fields
from oms_journal.journal.format.records import padding
from oms_journal.journal.writing.draft import Waiter

_PADDING = tuple(padding(size) for size in range(8))


class QueueTemplate:
    """What the frames that add one plain message to one queue have in common.

    `pack` makes a frame's header, without its checksum, and its record from: length, `meta`, commit,
    the group's fields, `kind`, message number, checksum of the payload, its size, `tail`.
    """

    __slots__ = ("bound", "head_size", "kind", "meta", "name", "pack", "place", "tail")

    def __init__(self, name: bytes, place: int) -> None:
        self.meta, self.kind, self.tail = queue_fields(name)
        self.name = name
        self.place = place  # what the layer above calls the queue, until it calls it otherwise
        self.pack = packer(len(self.tail))
        self.head_size = PLAIN_NAME_AT + len(self.tail)
        self.bound = self.head_size + 8 + ROW_BYTES_MAX + len(name) + 1


@dataclass(slots=True)
class WritePosition:
    """Where the next group goes, and which numbers come next. The committer's alone."""

    identity: int
    sequence: int
    owner: int
    alignment: int
    offset: int  # behind the last frame
    synced: int  # the file is durable up to here
    next_message: int
    next_commit: int


class PlainAdds:
    """A draft, like `draft.Draft`, that stands for as many commits as it has messages."""

    __slots__ = ("answer", "failure", "first", "payloads", "queues", "waiter", "weight")
    has_add = True

    def __init__(self, queues: list[QueueTemplate], payloads: list[bytes], weight: int) -> None:
        self.queues = queues
        self.payloads = payloads
        self.weight = weight  # the most bytes they can take of a data file, footer included
        self.first = 0  # number of the first message
        self.waiter: Waiter | None = None
        self.answer: object = None
        self.failure: BaseException | None = None

    @property
    def frame_size(self) -> int:
        """How many bytes the frames take."""
        sizes = [-len(payload) // 8 * -8 for payload in self.payloads]
        return sum(sizes) + sum([queue.head_size for queue in self.queues])


class Frames(NamedTuple):
    """The frames of plain messages."""

    heads: list[bytes]  # header and record of each frame
    offsets: list[int]  # of each frame
    buffers: list[Buffer]  # the frames' bytes, in order
    end: int  # behind the last one


def form_plain(drafts: Sequence[PlainAdds], place: WritePosition, common: bytes) -> Frames:
    """Return one frame a message, from the place on; the drafts' first numbers are written into them.

    `common` are the GROUP_FIELDS.
    """
    if len(drafts) == 1:
        queues, payloads = drafts[0].queues, drafts[0].payloads
    else:
        queues = [queue for draft in drafts for queue in draft.queues]
        payloads = [payload for draft in drafts for payload in draft.payloads]
    message = place.next_message
    for draft in drafts:
        draft.first = message
        message += len(draft.payloads)
    if queues.count(queues[0]) == len(queues):
        return _form_same(queues[0], payloads, place, common)
    return _form_mixed(queues, payloads, place, common)


def _form_same(queue: QueueTemplate, payloads: Sequence[bytes], place: WritePosition, common: bytes) -> Frames:
    """Return the frames of messages of one queue, column by column: this is what every message costs."""
    count, first, commit, start = len(payloads), place.next_message, place.next_commit, place.offset
    sizes = list(map(len, payloads))
    if sizes.count(sizes[0]) == count:
        size = sizes[0]
        rest = -size & 7
        length = queue.head_size + size + rest
        end = start + count * length
        lengths: Iterable[int] = repeat(length)
        offsets = list(range(start, end, length))
        paddings = [_PADDING[size & 7]] * count if rest else None
    else:
        lengths = [queue.head_size + size + (-size & 7) for size in sizes]
        offsets = list(accumulate(lengths, initial=start))
        end = offsets.pop()
        paddings = [_PADDING[size & 7] for size in sizes]
    numbers = range(first, first + count), map(xxh3, payloads), sizes, repeat(queue.tail)
    commits = range(commit, commit + count)
    bodies = list(map(queue.pack, lengths, repeat(queue.meta), commits, repeat(common), repeat(queue.kind), *numbers))
    identity = place.identity
    checksums = map(xxh3, bodies, [(identity + offset) & SEED_MASK for offset in offsets])
    heads = list(map(add, map(CHECKSUM.pack, checksums), bodies))
    step = 2 if paddings is None else 3
    buffers: list[Buffer] = [b""] * (step * count)
    buffers[0::step] = heads
    buffers[1::step] = payloads
    if paddings is not None:
        buffers[2::step] = paddings
    return Frames(heads, offsets, buffers, end)


def _form_mixed(
    queues: Sequence[QueueTemplate], payloads: Sequence[bytes], place: WritePosition, common: bytes
) -> Frames:
    """Return the frames of messages of several queues: one loop without a call of our own."""
    heads: list[bytes] = []
    offsets: list[int] = []
    buffers: list[Buffer] = []
    identity, offset, message, commit = place.identity, place.offset, place.next_message, place.next_commit
    checksum, hashed, mask, paddings = CHECKSUM.pack, xxh3, SEED_MASK, _PADDING
    for queue, payload in zip(queues, payloads, strict=True):
        size = len(payload)
        rest = size & 7
        length = queue.head_size + size + (8 - rest if rest else 0)
        body = queue.pack(length, queue.meta, commit, common, queue.kind, message, hashed(payload), size, queue.tail)
        head = checksum(hashed(body, (identity + offset) & mask)) + body
        offsets.append(offset)
        heads.append(head)
        buffers.append(head)
        buffers.append(payload)
        if rest:
            buffers.append(paddings[rest])
        message += 1
        commit += 1
        offset += length
    return Frames(heads, offsets, buffers, offset)


def form_one(adds: PlainAdds, place: WritePosition, time: int) -> tuple[bytes, bytes]:
    """Return header and record of the one message's frame, and the whole frame: `form_plain` without its columns."""
    queue, payload = adds.queues[0], adds.payloads[0]
    size = len(payload)
    rest = -size & 7
    common = GROUP_FIELDS.pack(place.owner, place.synced, time)
    length, commit, message = queue.head_size + size + rest, place.next_commit, place.next_message
    body = queue.pack(length, queue.meta, commit, common, queue.kind, message, xxh3(payload), size, queue.tail)
    head = CHECKSUM.pack(xxh3(body, (place.identity + place.offset) & SEED_MASK)) + body
    return head, head + payload if not rest else b"".join((head, payload, bytes(rest)))


def plain_columns(drafts: Sequence[PlainAdds]) -> tuple[list[int], list[int]]:
    """Return the sizes and the queues' places of all messages."""
    if len(drafts) == 1:
        return list(map(len, drafts[0].payloads)), [queue.place for queue in drafts[0].queues]
    sizes = [len(payload) for draft in drafts for payload in draft.payloads]
    return sizes, [queue.place for draft in drafts for queue in draft.queues]
