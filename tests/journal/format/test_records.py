"""The records of a frame: what a commit does comes back as it was said, and nothing unknown is let through."""

import random
import struct
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.journal.errors import InvalidName, LimitExceeded
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import (
    GAP_KIND,
    GROUP,
    MOVED,
    PRODUCER,
    PROPERTIES,
    RECORD,
    WHOLE_COMMIT,
    Added,
    BadRecord,
    Numbers,
    TermColumns,
    Terms,
    decode_properties,
    decode_records,
    decode_set,
    encode_drop,
    encode_gap,
    encode_properties,
    encode_put,
    encode_removal,
    encode_set,
)
from oms_journal.journal.operations import PROPERTIES_BYTES_MAX, Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from tests.support.sweeps import for_each

NAMES = st.binary(min_size=1, max_size=255)
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
SETS = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=60, unique=True).map(sorted)
RUNS = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=20)
TEXT = st.text(max_size=20)


def numbers(*values: int) -> Numbers:
    return np.array(values, np.uint64)


def added(draft: Draft) -> bytes:
    """Return the records of a draft as bytes."""
    return bytes(draft.records)


def one_add(given: Added) -> Draft:
    composer = CommitBuilder()
    composer.add(given)
    return composer.draft()


# Adding.


@given(queue=NAMES, payloads=PAYLOADS)
def test_plain_messages_come_back(queue: bytes, payloads: list[bytes]) -> None:
    draft = one_add(Added(queue=queue, payloads=payloads))
    struct.pack_into("<Q", draft.records, draft.shape.fixups[0][0], 77)

    (record,) = decode_records(added(draft))

    assert (record.kind, record.flags, record.name, record.count) == (Operation.ADD, 0, queue, len(payloads))
    assert list(record.sizes) == [len(payload) for payload in payloads]
    assert [record.message(index) for index in range(record.count)] == [77 + n for n in range(len(payloads))]
    assert [record.checksum(index) for index in range(record.count)] == [xxh3(payload) for payload in payloads]


@given(
    queue=NAMES,
    payloads=PAYLOADS,
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    producer=st.just(b"") | NAMES,
    is_moved=st.booleans(),
    is_whole=st.booleans(),
)
def test_messages_with_everything_come_back(
    queue: bytes, payloads: list[bytes], properties: dict[str, str], producer: bytes, is_moved: bool, is_whole: bool
) -> None:
    encoded = [encode_properties(properties)] * len(payloads)
    moved_numbers = [5 * n for n in range(len(payloads))] if is_moved else []
    flags = (MOVED if is_moved else 0) | (WHOLE_COMMIT if is_whole and producer and not is_moved else 0)
    given = Added(
        queue=queue,
        payloads=payloads,
        properties=encoded,
        producer=producer,
        flags=flags,
        numbers=moved_numbers,
        first_times=[-n for n in moved_numbers],
    )

    (record,) = decode_records(added(one_add(given)))

    assert record.flags == flags | PROPERTIES | (PRODUCER if producer else 0)
    assert (record.name, record.producer) == (queue, producer)
    assert list(record.numbers) == moved_numbers
    assert list(record.first_times) == [-n for n in moved_numbers]
    assert list(record.checksums) == [xxh3(encoded[0] + payload) for payload in payloads]
    assert list(record.property_sizes) == [len(encoded[0])] * len(payloads)
    assert list(record.sizes) == [len(encoded[0]) + len(payload) for payload in payloads]


TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.lists(
        st.tuples(TIMES, TIMES, st.integers(0, (1 << 32) - 1), st.just(b"") | TEXT.map(str.encode)),
        min_size=1,
        max_size=4,
    ),
    st.sets(st.sampled_from(TermColumns._fields)),
    st.sampled_from([0, MOVED]),
    st.booleans(),
)
def test_the_terms_of_messages_come_back(
    given: list[tuple[int, int, int, bytes]], wanted: set[str], moved: int, has_properties: bool
) -> None:
    payloads = [b"payload"] * len(given)
    columns = {
        name: [values[at] for values in given] if name in wanted else [] for at, name in enumerate(TermColumns._fields)
    }
    terms = TermColumns(**columns)  # type: ignore[arg-type]
    numbers = [7 + n for n in range(len(given))] if moved else []
    message = Added(
        queue=b"queue",
        payloads=payloads,
        properties=[b""] * len(given) if has_properties else None,
        producer=b"p",
        flags=moved,
        numbers=numbers,
        first_times=numbers,
        terms=terms,
    )

    (record,) = decode_records(added(one_add(message)))

    assert record.flags == PRODUCER | moved | PROPERTIES * has_properties | terms.flags()
    assert bool(record.flags & GROUP) == any(columns["groups"])
    assert (record.name, record.producer, record.checksum(0)) == (b"queue", b"p", xxh3(b"payload"))
    found = [record.terms.of(index) for index in range(len(given))]
    for name, column in zip(Terms._fields, TermColumns._fields, strict=True):
        expected = [value if value != b"" else None for value in columns[column]] or [None] * len(given)
        assert [getattr(one, name) for one in found] == expected


@given(key=NAMES, value=st.binary(max_size=300), is_moved=st.booleans())
def test_a_put_comes_back(key: bytes, value: bytes, is_moved: bool) -> None:
    (record,) = decode_records(encode_put(key, value, xxh3(value), moved=is_moved))

    assert (record.kind, record.name, record.count) == (Operation.PUT, key, len(value))
    assert record.checksum(0) == xxh3(value)
    assert bool(record.flags & MOVED) == is_moved


@given(NAMES)
def test_a_drop_and_a_gap_come_back(name: bytes) -> None:
    drop, gap = decode_records(encode_drop(name) + encode_gap(name, 1234))

    assert (drop.kind, drop.name) == (Operation.DROP, name)
    assert (gap.kind, gap.name, gap.number) == (GAP_KIND, name, 1234)


@given(queue=NAMES, removed=SETS, kind=st.sampled_from([Operation.DELIVER, Operation.DELETE]))
def test_a_removal_comes_back(queue: bytes, removed: list[int], kind: Operation) -> None:
    (record,) = decode_records(encode_removal(kind, queue, numbers(*removed)))

    assert (record.kind, record.name, record.count) == (kind, queue, len(removed))
    assert decode_set(record.number, record.count, record.set_bytes).tolist() == removed


@given(st.lists(st.sampled_from(["add", "put", "drop", "deliver", "gap"]), max_size=8))
def test_records_stand_one_behind_another_each_a_multiple_of_8(kinds: list[str]) -> None:
    makers = {
        "add": added(one_add(Added(queue=b"q", payloads=[b"x"]))),
        "put": encode_put(b"key", b"value", 1),
        "drop": encode_drop(b"some key"),
        "deliver": encode_removal(Operation.DELIVER, b"queue", numbers(1, 2, 5)),
        "gap": encode_gap(b"archive", 8),
    }
    data = b"".join(makers[kind] for kind in kinds)

    assert all(len(record) % 8 == 0 for record in makers.values())
    codes = {"add": 1, "put": 4, "drop": 5, "deliver": 2, "gap": 6}
    assert [record.kind for record in decode_records(data)] == [codes[kind] for kind in kinds]


# Sets of numbers.


@given(SETS)
def test_a_set_comes_back(removed: list[int]) -> None:
    assert decode_set(removed[0], len(removed), encode_set(numbers(*removed))).tolist() == removed


@given(RUNS)
def test_a_set_of_long_runs_and_gaps_comes_back(runs: list[tuple[int, int]]) -> None:
    removed: list[int] = []
    at = 1
    for length, gap in runs:
        removed += range(at, at + length)
        at += length + gap

    assert decode_set(1, len(removed), encode_set(numbers(*removed))).tolist() == removed


@pytest.mark.parametrize("number", [0, 1, 127, 128, 2**32, 2**62, 2**63 - 1])
def test_a_single_number_needs_no_bytes(number: int) -> None:
    assert encode_set(numbers(number)) == b""
    assert decode_set(number, 1, b"").tolist() == [number]


@pytest.mark.parametrize("count", [2, 127, 128, 1_000_000])
def test_a_run_needs_only_its_length(count: int) -> None:
    coded = encode_set(np.arange(9, 9 + count, dtype=np.uint64))

    assert len(coded) <= 3
    assert decode_set(9, count, coded).tolist() == list(range(9, 9 + count))


@pytest.mark.parametrize("queue_count", range(1, 13))
def test_a_message_of_interleaved_queues_costs_at_most_two_bytes(queue_count: int) -> None:
    """In turn, and in random order: the numbers of one queue among those of all."""
    in_turn = np.arange(1, 120_000, queue_count, dtype=np.uint64)
    chance = random.Random(queue_count)
    queue_of = [chance.randrange(queue_count) for _ in range(60_000)]
    at_random = numbers(*(number for number, queue in enumerate(queue_of) if queue == 0))

    for removed in (in_turn, at_random):
        coded = encode_set(removed)
        assert len(coded) <= 2 * len(removed)
        assert (decode_set(int(removed[0]), len(removed), coded) == removed).all()


def test_delivering_a_million_messages_costs_a_few_bytes() -> None:
    record = encode_removal(Operation.DELIVER, b"orders", np.arange(1, 1_000_001, dtype=np.uint64))

    assert len(record) <= 32


@pytest.mark.parametrize(
    ("first", "count", "coded", "wrong"),
    [
        (1, 2, b"", "no bytes for two numbers"),
        (1, 3, b"\x02", "fewer numbers than said"),
        (1, 1, b"\x02", "more numbers than said"),
        (1, 2, b"\x02\x01", "ends with a gap"),
        (1, 2, b"\x01\x01\x00\x01\x01", "an empty run"),
        (1, 1, b"\x80", "a number that is cut off"),
        (1, 1, b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "a number of eleven bytes"),
        (1, 2, b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01", "a number of 65 bits"),
        (1, 2, b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", "a gap around all numbers"),
        (2**63, 1, b"", "a number behind the last one"),
        (2**64 - 1, 1, b"\x01", "the highest of 64 bits"),
        (2**63 - 1, 2, b"\x02", "a run behind the last number"),
        (2**63 - 2, 2, b"\x01\x01\x01", "a gap behind the last number"),
        (2**63 - 2, 3, b"\x03", "a run across the last number"),
    ],
)
def test_a_set_that_is_none_is_refused(first: int, count: int, coded: bytes, wrong: str) -> None:
    with pytest.raises(BadRecord):
        decode_set(first, count, coded)


# What is unknown.


@for_each("kind", [0, *range(7, 256)])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(BadRecord):
        list(decode_records(RECORD.pack(kind, 0, 1, 0, 1, 1) + b"q".ljust(64, b"\0")))


ALLOWED: dict[int, int] = {Operation.ADD: 255, Operation.PUT: MOVED}


@for_each(("kind", "bit"), [*product(range(1, 7), range(8))])
def test_a_flag_that_a_kind_does_not_have_is_refused(kind: int, bit: int) -> None:
    flag = 1 << bit
    extra = 1 if flag & PRODUCER else 0
    data = RECORD.pack(kind, flag, 1, extra, 1, 0 if flag == MOVED else 1) + bytes(128)

    if flag & ALLOWED.get(kind, 0) and (kind, flag) not in {(Operation.ADD, WHOLE_COMMIT), (Operation.ADD, GROUP)}:
        assert next(decode_records(data)).flags == flag
    else:
        with pytest.raises(BadRecord):
            next(decode_records(data))


@pytest.mark.parametrize(
    ("head", "wrong"),
    [
        ((1, 0, 0, 0, 1, 1), "no queue"),
        ((4, 0, 0, 0, 1, 1), "no key"),
        ((1, PRODUCER, 1, 0, 1, 1), "no producer identifier, though it is said that there is one"),
        ((1, 0, 1, 1, 1, 1), "a producer identifier, though none is said to be there"),
        ((2, 0, 1, 1, 1, 1), "a producer identifier of a removal"),
        ((1, WHOLE_COMMIT, 1, 0, 1, 1), "a whole commit without a producer identifier"),
        ((1, PRODUCER | MOVED | WHOLE_COMMIT, 1, 1, 1, 0), "a moved message of a whole commit"),
        ((1, GROUP, 1, 0, 1, 1), "a group without a name"),
        ((1, 0, 1, 0, 0, 1), "an ADD of nothing"),
        ((2, 0, 1, 0, 0, 1), "a DELIVER of nothing"),
        ((3, 0, 1, 0, 0, 1), "a DELETE of nothing"),
    ],
)
def test_a_head_that_contradicts_itself_is_refused(head: tuple[int, ...], wrong: str) -> None:
    with pytest.raises(BadRecord):
        list(decode_records(RECORD.pack(*head) + bytes(128)))


@for_each("size", range(1, 88))
def test_a_record_that_ends_behind_its_frame_is_refused(size: int) -> None:
    data = added(one_add(Added(queue=b"queue", payloads=[b"a", b"b", b"c"], producer=b"producer", flags=WHOLE_COMMIT)))
    needed = len(data.rstrip(b"\0"))

    if size >= needed:
        assert len(list(decode_records(data[:size]))) == 1
    else:
        with pytest.raises(BadRecord):
            list(decode_records(data[:size]))


@pytest.mark.parametrize("count", [4, 2**16, 2**31, 2**32 - 1])
def test_a_count_beyond_the_frame_is_not_believed(count: int) -> None:
    data = RECORD.pack(Operation.ADD, 0, 1, 0, count, 1) + bytes(40)

    with pytest.raises(BadRecord):
        list(decode_records(data))


@given(st.binary(max_size=200))
def test_whatever_the_bytes_they_are_records_or_refused(data: bytes) -> None:
    try:
        found = list(decode_records(data))
    except BadRecord:
        return

    assert all(1 <= record.kind <= GAP_KIND for record in found)


# Properties.


@given(st.dictionaries(TEXT, TEXT, max_size=8))
def test_properties_come_back_in_their_order(properties: dict[str, str]) -> None:
    assert list(decode_properties(encode_properties(properties)).items()) == list(properties.items())


def test_properties_up_to_the_limit_are_accepted_and_one_byte_more_is_not() -> None:
    assert len(encode_properties({"k": "v" * 0xFFFB})) == PROPERTIES_BYTES_MAX

    for too_much in ({"k": "v" * 0xFFFC}, {"k": "v" * 0x10000}, {"k": "v" * 0xFFF0, "l": "w" * 8}):
        with pytest.raises(LimitExceeded):
            encode_properties(too_much)


@pytest.mark.parametrize("wrong", [{"k": 1}, {1: "v"}, {"k": None}, {"k": b"v"}, {"k": "\ud800"}, {"\udfff": "v"}])
def test_what_is_not_text_is_no_property(wrong: dict[str, str]) -> None:
    with pytest.raises((TypeError, InvalidName)):
        encode_properties(wrong)


@pytest.mark.parametrize("size", range(1, len(encode_properties({"key": "value", "ü": ""}))))
def test_properties_that_are_cut_off_are_refused(size: int) -> None:
    data = encode_properties({"key": "value", "ü": ""})
    first = len(encode_properties({"key": "value"}))

    if size == first:
        assert decode_properties(data[:size]) == {"key": "value"}
    else:
        with pytest.raises(ValueError):
            decode_properties(data[:size])


@given(st.binary(max_size=100))
def test_whatever_the_bytes_they_are_properties_or_refused(data: bytes) -> None:
    try:
        found = decode_properties(data)
    except ValueError:
        return

    assert all(isinstance(text, str) for pair in found.items() for text in pair)
