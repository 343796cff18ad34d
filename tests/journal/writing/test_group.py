"""Forming a group: whichever way a commit was drafted, its bytes are the same, and each frame is a good one."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.journal.format.frames import FrameHeader, decode_frame
from oms_journal.journal.format.headers import align, xxh3
from oms_journal.journal.format.records import (
    WITHOUT_TERMS,
    Added,
    TermColumns,
    decode_records,
    encode_properties,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.walk import payloads
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate, Shape, one_add, one_removal
from oms_journal.journal.writing.groups import Group, form
from oms_journal.journal.writing.single import PlainAdds, WritePosition

PLACE = WritePosition(
    identity=2**64 - 5, sequence=3, alignment=8, offset=4096, synced=2000, next_message=1000, next_commit=40
)
TIME = -77
QUEUES = st.binary(min_size=1, max_size=255)
MESSAGES = st.lists(st.tuples(QUEUES, st.binary(max_size=70)), min_size=1, max_size=8)
ALIGNMENTS = st.sampled_from([8 << n for n in range(10)])


def composed(queue: bytes, *given: bytes) -> Draft:
    composer = CommitBuilder()
    composer.add(Added(queue=queue, payloads=given))
    return composer.draft()


def plain(messages: list[tuple[bytes, bytes]]) -> PlainAdds:
    templates = [QueueTemplate(queue, place) for place, (queue, _) in enumerate(messages)]
    return PlainAdds(templates, [payload for _, payload in messages], 0)


def removal() -> Draft:
    composer = CommitBuilder()
    composer.remove(Operation.DELIVER, b"queue", np.array([1, 2, 9], np.uint64))
    return composer.draft()


def written(group: Group) -> bytes:
    return b"".join(bytes(buffer) for buffer in group.buffers)


def frames_of(group: Group, place: WritePosition) -> list[FrameHeader]:
    """Return the group's frames as a reader finds them."""
    data, found = written(group), []
    at = place.offset
    while at < group.offsets[0] + len(data):
        frame = decode_frame(data, at, sequence=place.sequence, identity=place.identity, base=group.offsets[0])
        assert isinstance(frame, FrameHeader), frame
        found.append(frame)
        at = frame.end
    return found


@given(MESSAGES, ALIGNMENTS, st.integers(0, 600).map(lambda n: 4096 + 8 * n))
def test_plain_messages_have_the_same_bytes_whichever_way_they_were_drafted(
    messages: list[tuple[bytes, bytes]], alignment: int, offset: int
) -> None:
    place = replace(PLACE, alignment=alignment, offset=offset)
    one_by_one = [plain([message]) for message in messages]
    slowly: list[Draft] = [composed(*message) for message in messages]
    mixed: list[Draft] = [plain([m]) if n % 2 else composed(*m) for n, m in enumerate(messages)]

    groups = [form(place, drafts, time=TIME) for drafts in ([plain(messages)], one_by_one, slowly, mixed)]

    assert len({written(group) for group in groups}) == 1
    assert len({(group.end, group.next_message, group.next_commit) for group in groups}) == 1
    assert len({tuple(group.offsets) for group in groups}) == 1
    assert len({tuple(bytes(head) for head in group.heads) for group in groups}) == 1


PROPERTIES = st.sampled_from([b"", encode_properties({"key": "value"}), encode_properties({"k": "v" * 99, "": ""})])
PRODUCERS = st.binary(max_size=255)
ANY_TIME = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=1)
GROUPS = st.lists(st.binary(min_size=1, max_size=255), max_size=1)
TERMS = st.one_of(
    st.just(WITHOUT_TERMS), st.builds(TermColumns, due=ANY_TIME, expiry=ANY_TIME, groups=GROUPS, attempts=st.just(()))
)
# All that the layers below and above take from a draft before its numbers are known.
FIELDS = ("records", "frame_size", "weight", "effect")


def fields(draft: Draft) -> dict[str, object]:
    found = {name: getattr(draft, name) for name in FIELDS}
    found |= {name: getattr(draft.shape, name) for name in Shape.__slots__}
    found["payload"] = [part for part in draft.payload if part]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


@given(QUEUES, st.binary(max_size=70), PROPERTIES, PRODUCERS, TERMS)
def test_a_draft_of_one_message_is_the_one_that_a_builder_makes(
    queue: bytes, payload: bytes, properties: bytes, producer: bytes, terms: TermColumns
) -> None:
    builder = CommitBuilder()
    builder.add(Added(queue, [payload], [properties] if properties else None, producer, terms=terms))
    built, drafted = builder.draft(), one_add(QueueTemplate(queue, 0), payload, properties, producer, terms)

    assert fields(drafted) == fields(built)
    assert written(form(PLACE, [drafted], time=TIME)) == written(form(PLACE, [built], time=TIME))


@given(QUEUES, st.integers(1, 2**63 - 1), st.sampled_from([Operation.DELIVER, Operation.DELETE]))
def test_a_draft_that_removes_one_message_is_the_one_that_a_builder_makes(
    queue: bytes, number: int, kind: Operation
) -> None:
    builder = CommitBuilder()
    builder.remove(kind, queue, [number])
    built, drafted = builder.draft(), one_removal(kind, QueueTemplate(queue, 0), number)

    assert fields(drafted) == fields(built)
    assert written(form(PLACE, [drafted], time=TIME)) == written(form(PLACE, [built], time=TIME))


@given(MESSAGES, ALIGNMENTS, st.booleans())
def test_every_frame_of_a_group_is_good_and_they_follow_one_another(
    messages: list[tuple[bytes, bytes]], alignment: int, has_removal: bool
) -> None:
    place = replace(PLACE, alignment=alignment, offset=PLACE.offset + 8)
    drafts: list[Draft] = [plain(messages), *([removal()] if has_removal else []), composed(b"q", b"a", b"b")]

    group = form(place, drafts, time=TIME)

    frames = frames_of(group, place)
    assert [frame.offset for frame in frames] == list(group.offsets)
    assert group.offsets[0] == place.offset
    # The last frame is as long as it takes: the next group shares no sector with this one.
    assert group.end == align(group.end - group.padding, alignment) == place.offset + len(written(group))
    assert [frame.commit for frame in frames] == list(range(40, 40 + len(frames)))
    assert {(frame.identity, frame.synced, frame.time, frame.flags) for frame in frames} == {
        (PLACE.identity, 2000, TIME, 0)
    }
    assert (group.end, group.next_commit) == (frames[-1].end, 40 + len(frames))
    assert group.next_message == 1000 + len(messages) + 2


@given(MESSAGES)
def test_the_messages_come_back_from_the_bytes_with_the_numbers_their_callers_are_told(
    messages: list[tuple[bytes, bytes]],
) -> None:
    drafts: list[Draft] = [plain(messages), composed(b"last", *(payload for _, payload in messages))]
    group = form(PLACE, drafts, time=TIME)
    data = bytes(PLACE.offset) + written(group)

    found = []
    for frame in frames_of(group, PLACE):
        records = list(decode_records(data[frame.records]))
        for record, index, payload in payloads(data, frame, records):
            assert xxh3(payload) == record.checksum(index)
            found.append((record.message(index), record.name, payload))

    expected = [*messages, *((b"last", payload) for _, payload in messages)]
    assert found == [(1000 + n, queue, payload) for n, (queue, payload) in enumerate(expected)]
    assert [draft.first for draft in drafts] == [1000, 1000 + len(messages)]


def test_a_group_of_more_than_a_mebibyte_has_the_same_bytes_uncopied() -> None:
    messages = [(b"queue", bytes([n]) * 300_001) for n in range(5)]

    group = form(PLACE, [plain(messages)], time=TIME, weight=5 * 300_001)

    assert len(group.buffers) > 1
    assert written(group) == b"".join(
        written(form(replace(PLACE, offset=offset, next_message=1000 + n, next_commit=40 + n), [plain([m])], time=TIME))
        for n, (offset, m) in enumerate(zip(group.offsets, messages, strict=True))
    )


def test_an_empty_commit_is_a_frame_that_only_vouches() -> None:
    group = form(PLACE, [CommitBuilder().draft()], time=TIME)

    (frame,) = frames_of(group, PLACE)

    assert (frame.length, frame.meta, frame.operations, frame.synced) == (56, 0, 0, PLACE.synced)
    assert group.next_message == PLACE.next_message
