"""A message is read out of its frame and verified: each byte of it, however long it is."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal.journal.errors import MessageDamaged
from oms_journal.journal.format.records import Added, TermColumns, encode_properties
from oms_journal.journal.reading.message import (
    RUN_MESSAGES_MAX,
    WINDOW_BYTES,
    FrameReader,
    Message,
    MessageOnTerms,
    Source,
    single_message,
)
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import PlainAdds, WritePosition
from tests.support.disks.faulty_disk import SimulatedDisk

PATH = Path("/spool/omsmsg-0000000003.data")
PLACE = WritePosition(identity=5, sequence=3, alignment=8, offset=4096, synced=2000, next_message=1000, next_commit=40)
PAYLOAD = bytes(range(251)) * 20


def _plain() -> Draft:
    return PlainAdds([QueueTemplate(b"queue", 0)], [PAYLOAD], 0)


def _composed() -> Draft:
    builder = CommitBuilder()
    builder.add(Added(queue=b"queue", payloads=[PAYLOAD]))
    return builder.draft()


def _read(disk: SimulatedDisk) -> Message | MessageDamaged:
    source = Source(disk.open(PATH), PATH, PLACE.identity, PLACE.sequence)
    (found,) = FrameReader(source).messages([(PLACE.next_message, PLACE.offset)])
    return found


@pytest.mark.parametrize("draft", [_plain, _composed])
def test_whichever_byte_of_a_message_is_wrong_it_is_damaged(draft: Callable[[], Draft]) -> None:
    group = form(PLACE, [draft()], time=1)
    data = bytes(PLACE.offset) + b"".join(bytes(buffer) for buffer in group.buffers)
    start = data.index(PAYLOAD)
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.put(PATH, data)

    found = _read(disk)
    assert isinstance(found, Message) and found.payload == PAYLOAD
    for place in (*range(start, start + len(PAYLOAD), 97), start + len(PAYLOAD) - 1):
        disk.put(PATH, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert isinstance(_read(disk), MessageDamaged), place - start


@pytest.mark.parametrize("has_producer", [False, True])
@pytest.mark.parametrize("has_properties", [False, True])
@pytest.mark.parametrize("terms", list(itertools.product([False, True], repeat=4)))
def test_a_message_with_any_terms_is_read_alone_as_out_of_its_frame_and_never_where_a_byte_is_wrong(
    terms: tuple[bool, ...], has_properties: bool, has_producer: bool
) -> None:
    due, expiry, attempts, group = terms
    builder = CommitBuilder()
    builder.add(
        Added(
            queue=b"queue",
            payloads=[b"a payload"],
            properties=[encode_properties({"kind": "order"})] if has_properties else None,
            producer=b"order-1" if has_producer else b"",
            terms=TermColumns(
                due=[7] if due else (),
                expiry=[8] if expiry else (),
                attempts=[9] if attempts else (),
                groups=[b"customer"] if group else (),
            ),
        )
    )
    data = b"".join(bytes(buffer) for buffer in form(PLACE, [builder.draft()], time=1).buffers)
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.put(PATH, bytes(PLACE.offset) + data)
    source = Source(disk.open(PATH), PATH, PLACE.identity, PLACE.sequence)
    (whole,) = FrameReader(source).messages([(PLACE.next_message, PLACE.offset)])
    assert isinstance(whole, Message)
    size = len(b"a payload") + (len(encode_properties({"kind": "order"})) if has_properties else 0)
    place = PLACE.next_message, PLACE.offset, size

    alone = single_message(source, data, place)
    assert alone == whole
    assert type(alone) is type(whole)
    assert not isinstance(alone, MessageOnTerms) or alone._terms == whole._terms  # type: ignore[attr-defined]
    end = data.index(b"a payload") + len(b"a payload")
    for at in range(end):
        wrong = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert single_message(source, wrong, place) in (None, alone), at  # its last frame's bytes may stand for none
        assert single_message(source, data[:at], place) is None, at


SIZES = {
    "small": [7] * 300,
    "more than are cut out of one read": [3] * (RUN_MESSAGES_MAX + 50),
    "empty among others": [0, 5, 0, 0, 9, 0],
    "together more than a read": [WINDOW_BYTES // 5] * 23,
    "one longer than a read": [50, WINDOW_BYTES + 1, 60, 70, WINDOW_BYTES + 1, WINDOW_BYTES, 80],
    "one shorter and one longer": [WINDOW_BYTES - 1, 2, 1, WINDOW_BYTES - 1, 1],
}


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_messages_of_commits_are_read_together_as_each_by_itself(sizes: list[int], is_damaged: bool) -> None:
    rng = random.Random(len(sizes))
    payloads = [rng.randbytes(size) for size in sizes]
    builder, other = CommitBuilder(), CommitBuilder()
    builder.add(Added(queue=b"queue", payloads=payloads))
    other.add(Added(queue=b"other", payloads=payloads[:5]))
    data = bytearray(PLACE.offset)
    group = form(PLACE, [_plain(), builder.draft(), other.draft(), _plain()], time=1)
    data += b"".join(bytes(buffer) for buffer in group.buffers)
    if is_damaged:
        data[group.offsets[2] - 20 - sizes[-1] // 2] ^= 1  # of the last payloads, or of the padding
        data[group.offsets[1] + len(group.heads[1]) + sum(sizes[:3]) + sizes[3] // 2] ^= 1
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.put(PATH, bytes(data))
    source = Source(disk.open(PATH), PATH, PLACE.identity, PLACE.sequence)
    offsets = [group.offsets[0], *[group.offsets[1]] * len(sizes), *[group.offsets[2]] * 5, group.offsets[3]]
    every = list(enumerate(offsets, PLACE.next_message))
    nobody = (every[0][0] - 1, group.offsets[1])
    halves = rng.sample(every, len(every) // 2)
    for wanted in (every, every[2:], every[1 : len(sizes)], sorted(halves), halves, every[::-1], [*every[:4], nobody]):
        one_by_one = [next(FrameReader(source).messages([each])) for each in wanted]
        together = list(FrameReader(source).messages(wanted))
        assert list(map(_said, together)) == list(map(_said, one_by_one))
        assert len({id(one.properties) for one in together if isinstance(one, Message)}) == len(
            [one for one in together if isinstance(one, Message)]
        )
    whole = [each for each in map(_said, FrameReader(source).messages(every)) if isinstance(each, Message)]
    assert is_damaged == (len(whole) < len(every))


def _said(found: Message | MessageDamaged) -> object:
    return found if isinstance(found, Message) else str(found)
