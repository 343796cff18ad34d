"""Walking a file: what is good is found, whatever stands between it, and nothing else is."""

import random
from itertools import count

import pytest

from oms_journal.journal.format.frames import FRAME_SIZE, GAP, FrameHeader, encode_frame_head, seed_of
from oms_journal.journal.format.headers import FRAMES_AT, align, xxh3
from oms_journal.journal.format.records import RECORD, encode_drop, encode_gap, encode_put
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.walk import BadRange, Span, Walk, walk
from tests.support.sweeps import Share, for_each, in_two_sizes

IDENTITY = 0xFFFF_FFFF_FFFF_F000
START = FRAMES_AT
SEQUENCE = 1


def span(data: bytes, *, alignment: int = 8, limit: int | None = None, start: int = START) -> Span:
    return Span(
        sequence=SEQUENCE,
        identity=IDENTITY,
        start=start,
        limit=len(data) if limit is None else limit,
        alignment=alignment,
    )


def frame(
    offset: int,
    *,
    records: bytes = b"",
    payload: bytes = b"",
    operations: int = 0,
    flags: int = 0,
    commit: int = 5,
    to: int = 8,
) -> bytes:
    length = align(offset + FRAME_SIZE + len(records) + len(payload), to) - offset
    fields = (length, commit, IDENTITY, START, 9, operations, flags)
    data = encode_frame_head(records, seed_of(SEQUENCE) + offset, *fields) + payload
    return data.ljust(length, b"\0")


def put(offset: int, value: bytes, *, commit: int = 5, to: int = 8) -> bytes:
    records = encode_put(b"key", value, xxh3(value))
    return frame(offset, records=records, payload=value, operations=1, commit=commit, to=to)


def build(sizes: list[int], *, alignment: int = 8, group: int = 1) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a file with one PUT for each size, in groups of so many, and where the frames stand."""
    data = bytearray(START)
    places = []
    for size, number in zip(sizes, count(1), strict=False):
        start = len(data)
        is_last = number % group == 0 or number == len(sizes)
        data += put(start, bytes([number % 255 + 1]) * size, commit=number, to=alignment if is_last else 8)
        places.append((start, len(data)))
    return bytes(data), places


def found_places(found: Walk) -> list[tuple[int, int]]:
    return [(one.offset, one.end) for one in found.frames]


SIZES = [0, 5, 100, 3, 64, 7, 48, 1, 200]


@for_each("alignment", [8 << n for n in range(10)])
@for_each("group", [1, 3])
@for_each("tail", [0, 8, 4096])
def test_every_frame_is_found_at_any_alignment_which_nobody_need_know(alignment: int, group: int, tail: int) -> None:
    data, places = build([8 * n for n in range(70)], alignment=alignment, group=group)
    data += bytes(tail)

    found = walk(data, span(data, alignment=4096))

    assert found_places(found) == places
    assert found.bad_ranges == []
    assert found.end == places[-1][1]


def test_a_file_cut_anywhere_keeps_every_whole_frame() -> None:
    data, places = build(SIZES)
    for cut in range(START, len(data) + 1):
        found = walk(data[:cut], span(data[:cut]))

        whole = [place for place in places if place[1] <= cut]
        assert found_places(found) == whole, cut
        assert found.end == max((end for _, end in whole), default=START)
        assert len(found.bad_ranges) == (cut > found.end)


@in_two_sizes
def test_a_flipped_bit_costs_at_most_the_frame_it_is_in(share: Share) -> None:
    data, places = build(SIZES)
    for bit in share.every(22, range(8 * START, 8 * len(data))):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (mine,) = [place for place in places if place[0] <= bit // 8 < place[1]]

        found = walk(bytes(damaged), span(data))

        if found_places(found) == places:  # in the value, which its own checksum tells, or in the padding behind it
            in_value = bool(found.bad_payloads)
            assert [bad.frame for bad in found.bad_payloads] == [mine[0]] * in_value, bit
            assert in_value or bit // 8 >= mine[1] - 7, bit
        else:
            assert found_places(found) == [place for place in places if place != mine], bit
            assert [(bad.start, bad.end) for bad in found.bad_ranges] == [mine], bit


@for_each("first", range(len(SIZES)))
@for_each("bad_count", [1, 2, 4])
@for_each("alignment", [8, 64])
@for_each("filling", [0, 0xFF])
def test_good_frames_behind_a_bad_place_are_found(first: int, bad_count: int, alignment: int, filling: int) -> None:
    data, places = build(SIZES, alignment=alignment)
    bad = places[first : first + bad_count]
    damaged = bytearray(data)
    damaged[bad[0][0] : bad[-1][1]] = bytes([filling]) * (bad[-1][1] - bad[0][0])

    found = walk(bytes(damaged), span(data, alignment=alignment))

    assert found_places(found) == [place for place in places if place not in bad]
    is_last = bad[-1] == places[-1]
    if is_last and not filling:
        assert found.bad_ranges == []  # nothing says that something was there
    else:
        assert [(one.start, one.end) for one in found.bad_ranges] == [(bad[0][0], bad[-1][1])]


@pytest.mark.whole
@for_each("alignment", [8, 64, 512, 4096])
@for_each("group", [1, 2, 5])
@for_each("size", [0, 1, 8, 200])
def test_zeros_in_the_place_of_any_frames_but_the_last_are_a_bad_range(alignment: int, group: int, size: int) -> None:
    data, places = build([size] * 12, alignment=alignment, group=group)
    for first in range(len(places) - 1):
        for last in range(first, len(places) - 1):
            damaged = bytearray(data)
            damaged[places[first][0] : places[last][1]] = bytes(places[last][1] - places[first][0])

            found = walk(bytes(damaged), span(data, alignment=alignment))

            assert found_places(found) == places[:first] + places[last + 1 :]
            assert [(one.start, one.end) for one in found.bad_ranges] == [(places[first][0], places[last][1])]


@pytest.mark.parametrize("size", [1, 8, 64])
def test_a_frame_of_which_only_the_beginning_is_zeros_is_bad_from_there(size: int) -> None:
    data, places = build([100, 100, 0, 33], alignment=64, group=3)
    start, end = places[1]
    damaged = bytearray(data)
    damaged[start : start + size] = bytes(size)

    found = walk(bytes(damaged), span(data, alignment=64))

    assert found_places(found) == [place for place in places if place != (start, end)]
    assert [(one.start, one.end) for one in found.bad_ranges] == [(start, end)]


@for_each("size", range(8, FRAME_SIZE, 8))
def test_a_bad_range_has_room_for_the_gap_frame_that_it_may_become(size: int) -> None:
    """What stands nearer than a frame is long was written by nobody, be it a good frame."""
    data = bytes(START) + b"x" * size
    data += put(len(data), b"near")
    behind = len(data)
    data += put(behind, b"further")

    found = walk(data, span(data))

    assert found_places(found) == [(behind, len(data))]
    assert [(one.start, one.end) for one in found.bad_ranges] == [(START, behind)]


def test_random_bytes_hold_no_frames() -> None:
    chance = random.Random(1)
    for _ in range(50):
        data = bytes(START) + chance.randbytes(chance.randrange(4096))
        found = walk(data, span(data))

        assert found.frames == []
        assert found.end == START


def test_a_frame_that_was_copied_is_not_found() -> None:
    """Into a message, behind the end, over another frame: its place is part of its checksum."""
    data, places = build(SIZES)
    first = data[slice(*places[2])]
    message = put(len(data), first * 3, commit=len(SIZES) + 1)
    behind = data + message + first + first

    found = walk(behind, span(behind))

    assert found_places(found) == [*places, (len(data), len(data) + len(message))]
    assert [(bad.start, bad.end) for bad in found.bad_ranges] == [(len(data) + len(message), len(behind))]


def test_what_lies_behind_the_limit_is_not_looked_at() -> None:
    data, places = build(SIZES)
    for limit in range(START, len(data) + 1, 8):
        found = walk(data, span(data, limit=limit))

        assert found_places(found) == [place for place in places if place[1] <= limit]


@pytest.mark.parametrize("flags", [2, 3, 1 << 31])
def test_a_frame_with_a_flag_we_do_not_know_is_one_of_the_frames_and_a_bad_range(flags: int) -> None:
    data = bytes(START) + frame(START, flags=flags)

    check_not_understood(data)


def check_not_understood(data: bytes) -> None:
    """Check that the first frame costs itself: it is followed by a good one, and vouches for what is before it."""
    (one,) = walk(data, span(data)).frames
    data += put(len(data), b"good", commit=6)

    found = walk(data, span(data))

    assert found_places(found) == [(START, one.end), (one.end, len(data))]
    assert [(bad.start, bad.end, bad.is_frame) for bad in found.bad_ranges] == [(START, one.end, True)]
    assert "cannot be understood" in found.bad_ranges[0].reason
    assert found.not_understood() == {START}
    assert found.vouched() == START
    contents = found.builder.build(found.end)
    assert contents.columns["kind"].tolist() == [Operation.PUT]
    assert contents.chain == xxh3(data[START : START + 8] + data[one.end : one.end + 8])
    assert (contents.frame_count, contents.last_commit) == (2, 6)


@pytest.mark.parametrize(
    ("records", "payload", "operations"),
    [
        (RECORD.pack(9, 0, 1, 0, 1, 1) + b"q".ljust(8, b"\0"), b"", 1),
        (encode_drop(b"key"), b"", 2),
        (encode_drop(b"key"), b"", 0),
        (encode_drop(b"key"), b"and bytes that nobody speaks of", 1),
        (encode_put(b"key", b"value", 1), b"", 1),
        (encode_put(b"key", b"value", 1), b"too many bytes", 1),
        (b"\0" * 8, b"", 1),
    ],
)
def test_a_frame_that_contradicts_itself_though_it_is_whole_is_one_of_the_frames_and_a_bad_range(
    records: bytes, payload: bytes, operations: int
) -> None:
    check_not_understood(bytes(START) + frame(START, records=records, payload=payload, operations=operations))


@pytest.mark.parametrize("length", [64, 120, 4096])
def test_a_gap_frame_is_good_and_holds_nothing(length: int) -> None:
    record = encode_gap(b"omsmsg-0000000001-v0001.archive", length) if length >= 120 else b""
    gap = frame(START, records=record, payload=bytes(length - FRAME_SIZE - len(record)), flags=GAP)
    data = bytes(START) + gap + put(START + length, b"behind")

    found = walk(data, span(data))

    assert found.bad_ranges == []
    assert found.has_gaps
    assert [one.flags for one in found.frames] == [GAP, 0]
    contents = found.builder.build(found.end)
    assert contents.columns["kind"].tolist() == [Operation.PUT]


def test_the_highest_offset_that_a_frame_says_was_durable_is_vouched_for() -> None:
    data, places = build(SIZES)
    found = walk(data, span(data))

    assert found.vouched() == max(one.synced for one in found.frames) == START
    assert Walk().vouched() == 0
    assert all(isinstance(one, FrameHeader) for one in found.frames)
    assert places


def test_a_bad_range_at_the_end_ends_with_its_last_byte_that_is_not_zero() -> None:
    data, places = build(SIZES)
    torn = data + put(len(data), b"torn" * 20)[:70] + bytes(500)

    found = walk(torn, span(torn))

    assert found.bad_ranges == [BadRange(places[-1][1], align(len(torn.rstrip(b"\0")), 8), found.bad_ranges[0].reason)]
