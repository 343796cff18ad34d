"""File headers and frames: what is good comes back as it was, and nothing else is taken for good."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.journal.format.frames import (
    FRAME_BYTES_MAX,
    FRAME_SIZE,
    BadFrame,
    FrameHeader,
    decode_frame,
    encode_frame_head,
    seed_of,
)
from oms_journal.journal.format.headers import (
    CHECKSUM,
    FRAMES_AT,
    HEADER_COPIES,
    HEADER_SIZE,
    HEADERS_SIZE,
    MAGIC_OF_VERSION_1,
    NUMBERS_END,
    WRITTEN_BY_VERSION_1,
    BadHeader,
    Ending,
    FileHeader,
    align,
    decode_header,
    encode_header,
    encode_headers,
    xxh3,
)
from tests.support.sweeps import for_each

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
ID = st.binary(min_size=16, max_size=16)
HEADER = FileHeader(
    database=b"database" * 2, identity=0x1234, sequence=3, owner=7, next_message=100, next_commit=50, low_water=2,
    created=1_767_225_600_000_000, previous=Ending(sequence=2, identity=0x99, end=4096, commit=49, chain=0xABC),
)  # fmt: skip
IDENTITY = 0xFEDC_BA98_7654_3210  # high enough for identity + offset to pass 2^64
RECORDS = b"records of this frame..."
PAYLOAD = b"payload!"
OFFSET = 4608
SEQUENCE = 9_876_543_210


def frame(
    offset: int = OFFSET, identity: int = IDENTITY, *, records: bytes = RECORDS, payload: bytes = PAYLOAD
) -> bytes:
    """Return a frame whose records mean nothing."""
    length = FRAME_SIZE + len(records) + len(payload)
    return encode_frame_head(records, seed_of(SEQUENCE) + offset, length, 5, identity, 4400, -6, 3, 0) + payload


def decode(
    data: bytes, offset: int = OFFSET, *, identity: int | None = IDENTITY, sequence: int = SEQUENCE
) -> FrameHeader | BadFrame:
    """Return what stands at the offset when these are the file's bytes from the offset on."""
    return decode_frame(data, offset, sequence=sequence, identity=identity, base=offset)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@given(
    st.builds(
        FileHeader, database=ID, parent=ID, parent_sequence=U64, identity=U64, sequence=U64, owner=U64,
        next_message=U64, next_commit=U64, low_water=U64, created=I64,
        alignment=st.sampled_from([8 << n for n in range(10)]),
        previous=st.builds(Ending, sequence=U64, identity=U64, end=U64, commit=U64, chain=U64),
    )
)  # fmt: skip
def test_a_header_comes_back_as_it_was_unless_its_numbers_are_of_no_writer(header: FileHeader) -> None:
    numbers = header.next_message, header.next_commit, header.previous.commit
    if max(numbers) > NUMBERS_END or header.previous.sequence >= header.sequence:
        assert isinstance(decode_header(encode_header(header)), BadHeader)
        header = replace(header, next_message=NUMBERS_END, next_commit=1, sequence=9, previous=Ending(sequence=8))
    assert decode_header(encode_header(header)) == header


def test_a_header_with_any_bit_flipped_is_rotted() -> None:
    data = encode_header(HEADER)
    found = [decode_header(flipped(data, bit)) for bit in range(8 * len(data))]

    assert [bit for bit, one in enumerate(found) if not isinstance(one, BadHeader) or one.version is not None] == []


def test_a_header_that_is_cut_off_is_refused() -> None:
    data = encode_header(HEADER)

    assert all(isinstance(decode_header(data[:size]), BadHeader) for size in range(len(data)))


@pytest.mark.parametrize("copy", HEADER_COPIES)
@pytest.mark.parametrize("alignment", [8, 64, 512, 4096])
def test_the_copies_of_a_header_lie_in_different_blocks_and_the_first_frame_at_one_place(
    copy: int, alignment: int
) -> None:
    header = replace(HEADER, alignment=alignment)
    data = encode_headers(header)

    assert decode_header(data[copy : copy + HEADER_SIZE]) == header
    assert len({place // 4096 for place in HEADER_COPIES}) == len(HEADER_COPIES)
    assert len(data) == FRAMES_AT == HEADERS_SIZE


def rewritten(field: slice, value: bytes) -> bytes:
    """Return a header with other bytes in one field, its checksum right."""
    body = bytearray(encode_header(HEADER)[:-8])
    body[field] = value
    return bytes(body) + CHECKSUM.pack(xxh3(bytes(body)))


VERSION_FIELD, SIZE_FIELD, ALIGNMENT_FIELD, FLAGS_FIELD = slice(8, 12), slice(12, 16), slice(112, 116), slice(116, 120)


@for_each(
    ("field", "value"),
    [(VERSION_FIELD, n) for n in (0, 1, 3, 255, 2**32 - 1)]
    + [(SIZE_FIELD, n) for n in (0, 255, 257, 512)]
    + [(ALIGNMENT_FIELD, n) for n in (0, 1, 4, 7, 9, 24, 8192, 2**31)]
    + [(FLAGS_FIELD, 1 << n) for n in range(32)],
)
def test_a_whole_header_that_says_what_we_do_not_know_is_told_from_a_rotted_one(field: slice, value: int) -> None:
    found = decode_header(rewritten(field, struct.pack("<I", value)))

    assert isinstance(found, BadHeader)
    assert found.version is not None


@for_each("bit", range(8 * 8, 8 * HEADER_SIZE))
def test_a_header_of_version_1_is_known_by_its_magic_wherever_it_has_rotted(bit: int) -> None:
    data = flipped(MAGIC_OF_VERSION_1 + encode_header(HEADER)[8:], bit)

    assert decode_header(data) == BadHeader(WRITTEN_BY_VERSION_1, 1)


def test_a_rotted_header_says_nothing_of_its_version() -> None:
    assert decode_header(flipped(encode_header(HEADER), 8 * VERSION_FIELD.start)) == BadHeader(
        "the header's checksum does not match"
    )


@given(
    records=st.binary(max_size=64).map(lambda data: data.ljust(align(len(data), 8), b"\0")),
    payload=st.binary(max_size=64).map(lambda data: data.ljust(align(len(data), 8), b"\0")),
    offset=st.integers(0, 2**40).map(lambda n: 8 * n),
    sequence=st.integers(1, 9_999_999_999),
    numbers=st.tuples(U64, U64, U64, I64, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
)
def test_a_frame_comes_back_as_it_was(
    records: bytes, payload: bytes, offset: int, sequence: int, numbers: tuple[int, ...]
) -> None:
    length = FRAME_SIZE + len(records) + len(payload)
    data = encode_frame_head(records, seed_of(sequence) + offset, length, *numbers) + payload

    found = decode(data, offset, identity=numbers[1], sequence=sequence)

    assert isinstance(found, FrameHeader)
    assert (found.offset, found.length, found.meta, found.end) == (offset, length, len(records), offset + length)
    assert (found.commit, found.identity, found.synced, found.time, found.operations, found.flags) == numbers
    assert decode(data, offset, identity=None, sequence=sequence) == found
    assert data[slice(found.records.start - offset, found.records.stop - offset)] == records


def test_a_frame_with_any_bit_of_its_header_or_records_flipped_is_refused() -> None:
    data = frame()
    found = [decode(flipped(data, bit)) for bit in range(8 * (FRAME_SIZE + len(RECORDS)))]

    assert [bit for bit, one in enumerate(found) if not isinstance(one, BadFrame)] == []


def test_a_frame_that_is_cut_off_anywhere_is_refused() -> None:
    data = frame()

    assert all(isinstance(decode(data[:size]), BadFrame) for size in range(len(data)))


@pytest.mark.parametrize("offset", [0, 8, 512, 4352, OFFSET - 8, OFFSET + 8, OFFSET + 4096, 2**32 + OFFSET])
def test_a_frame_copied_to_another_offset_is_no_frame(offset: int) -> None:
    assert isinstance(decode(frame(), offset), BadFrame)


@for_each("bit", range(64))
def test_a_frame_of_another_file_is_no_frame_though_that_had_the_same_name(bit: int) -> None:
    assert isinstance(decode(frame(), identity=IDENTITY ^ 1 << bit), BadFrame)


@for_each("other", [*range(SEQUENCE - 50, SEQUENCE), *range(SEQUENCE + 1, SEQUENCE + 50), 1, 9_999_999_999])
def test_a_frame_copied_into_another_file_is_no_frame_whosever_that_may_be(other: int) -> None:
    """Blocks that a removed file has left at the same offset: nothing of the other file need be known."""
    assert isinstance(decode(frame(), identity=None, sequence=other), BadFrame)


def test_no_two_places_of_neighbouring_files_have_the_same_seed() -> None:
    places = [(sequence, offset) for sequence in range(1, 400) for offset in range(4352, 4352 + 8 * 400, 8)]

    assert len({(seed_of(sequence) + offset) % 2**64 for sequence, offset in places}) == len(places)


def test_a_frame_inside_a_message_is_no_frame() -> None:
    inner = frame(OFFSET)
    outer = frame(OFFSET, payload=inner)
    start = OFFSET + len(outer) - len(inner)

    assert isinstance(decode(outer), FrameHeader)
    assert isinstance(decode_frame(outer, start, sequence=SEQUENCE, identity=None, base=OFFSET), BadFrame)


@given(length=st.integers(0, 2**32 - 1), meta=st.integers(0, 2**32 - 1))
def test_no_length_is_believed_before_the_checksum_has_proved_it(length: int, meta: int) -> None:
    data = struct.pack("<QIIQQQqII", 0, length, meta, 5, IDENTITY, 900, -6, 3, 0) + bytes(100)

    assert isinstance(decode(data), BadFrame)


@pytest.mark.parametrize("length", [FRAME_SIZE - 8, FRAME_SIZE + 1, FRAME_BYTES_MAX + 8, 2**32 - 8])
def test_a_length_that_cannot_be_is_refused_though_the_checksum_is_right(length: int) -> None:
    data = encode_frame_head(b"", seed_of(SEQUENCE) + OFFSET, length, 5, IDENTITY, 900, -6, 0, 0)

    assert isinstance(decode(data + bytes(64)), BadFrame)


def test_a_frame_may_not_end_behind_the_file() -> None:
    data = frame()
    head = data[: -len(PAYLOAD)]
    end = OFFSET + len(data)

    assert isinstance(
        decode_frame(head, OFFSET, sequence=SEQUENCE, identity=IDENTITY, base=OFFSET, limit=end), FrameHeader
    )
    assert isinstance(
        decode_frame(head, OFFSET, sequence=SEQUENCE, identity=IDENTITY, base=OFFSET, limit=end - 1), BadFrame
    )
    assert isinstance(decode(head), BadFrame)


def test_zeros_are_never_a_frame() -> None:
    found = decode(bytes(4096))

    assert isinstance(found, BadFrame)
    assert found.is_zero


@given(st.binary(max_size=200))
def test_whatever_the_bytes_they_are_no_frame_by_chance(data: bytes) -> None:
    assert isinstance(decode(data), BadFrame)


@given(st.integers(0, 2**40), st.sampled_from([8 << n for n in range(10)]))
def test_align_gives_the_first_multiple_at_or_behind(offset: int, alignment: int) -> None:
    aligned = align(offset, alignment)

    assert aligned % alignment == 0
    assert 0 <= aligned - offset < alignment
