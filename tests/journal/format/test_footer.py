"""Footers: columns come back as they were, and a footer that is not whole is none."""

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format import footer
from oms_journal.journal.format.contents import COLUMNS, DAMAGED, Contents, ContentsBuilder, Ranges, empty_columns
from oms_journal.journal.format.footer import (
    ENTRY,
    SUMMARY,
    TRAILER,
    BadFooter,
    FooterColumns,
    Summary,
    decode_contents,
    decode_summary,
    encode_footer,
    trailer_size,
)
from oms_journal.journal.format.headers import (
    ALIGNMENT_MIN,
    CHECKSUM,
    FRAMES_AT,
    HEADER_SIZE,
    FileHeader,
    encode_headers,
    xxh3,
)
from oms_journal.journal.format.records import (
    ATTEMPTS,
    DUE,
    EXPIRY,
    GROUP,
    MOVED,
    TERMS,
    Added,
    TermColumns,
    encode_properties,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.writing.draft import CommitBuilder
from oms_journal.journal.writing.log import Journal, JournalSettings, Opening
from tests.support.sweeps import a_sample

HEADER = FileHeader(
    database=b"d" * 16, identity=0x1234, sequence=1, owner=1, next_message=1, next_commit=1, low_water=1, created=1
)
END = 8192
DIRECTORY = SUMMARY.size + HEADER_SIZE


@st.composite
def contents(draw: st.DrawFn) -> Contents:
    """Return contents whose columns have as little to do with each other as may be."""
    row_count = draw(st.integers(0, 12))
    columns = empty_columns()
    for name, kind in COLUMNS.items():
        shape = draw(st.sampled_from(["any", "small", "same", "steps"]))
        if shape == "steps":
            info = np.iinfo(f"<{kind}")
            start, step = draw(st.integers(info.min, info.max)), draw(st.integers(0, 300))
            values = [
                (start + step * row - info.min) % (info.max - info.min + 1) + info.min for row in range(row_count)
            ]
            columns[name] = np.array(values, f"<{kind}")
        elif shape == "same":
            columns[name] = np.full(row_count, draw(st.integers(0, 100)), f"<{kind}")
        else:
            elements = st.integers(0, 100) if shape == "small" else None
            columns[name] = draw(arrays(f"<{kind}", row_count, elements=elements))
    columns["kind"] = np.full(row_count, Operation.ADD, "<u1")  # whose numbers mean nothing to the ranges
    for name in ("number", "offset", "commit"):
        columns[name] = columns[name] // np.uint64(2)  # no file comes near 2^63 of anything
    texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=63).map(str.encode)
    names, producers = draw(st.lists(texts, min_size=1, max_size=4)), draw(st.lists(texts, max_size=4))
    for name, bound in (("name", len(names)), ("producer", len(producers) + 1), ("offset", END)):
        columns[name] = (columns[name] % bound).astype(columns[name].dtype)
    groups = draw(st.lists(texts, max_size=4))
    columns["group"] = (columns["group"] % (len(groups) + 1)).astype("<u4")
    columns["flags"] = columns["flags"] % (2 * DAMAGED)
    for name, flag in (("due", DUE), ("expiry", EXPIRY), ("attempts", ATTEMPTS), ("group", GROUP)):
        columns[name] = np.where(columns["flags"] & flag, columns[name], 0).astype(f"<{COLUMNS[name]}")
    return Contents(
        columns=columns,
        names=names,
        producers=producers,
        groups=groups,
        sets=draw(st.binary(max_size=20)),
        value_heads=draw(st.binary(max_size=20)),
        frame_count=draw(st.integers(0, 2**63)),
        end=END,
        last_commit=draw(st.integers(0, 2**64 - 1)),
        chain=draw(st.integers(0, 2**64 - 1)),
        has_gaps=draw(st.booleans()),
    )


def small() -> Contents:
    """Return the contents of three messages."""
    builder = ContentsBuilder()
    columns = builder.build(END).columns
    rows = {name: np.arange(3, dtype=f"<{kind}") for name, kind in COLUMNS.items()}
    rows["kind"], rows["flags"] = np.full(3, Operation.ADD, "<u1"), np.full(3, TERMS, "<u2")
    rows["hash"] = np.array([5, 2**63, 7], "<u8")
    rows["time"] = np.array([-3, 70_000, 5], "<i8")
    assert columns.keys() == rows.keys()
    names = [b"queue", b"b", b"c"]
    return Contents(columns=rows, names=names, producers=names, groups=names, end=END, frame_count=3, last_commit=2)


@given(contents(), st.integers(0, 2**64 - 1), st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)))
def test_contents_come_back_from_a_footer(given: Contents, checksum: int, successor: tuple[int, int]) -> None:
    data = encode_footer(given, HEADER, checksum, successor)
    summary = decode_summary(data, identity=HEADER.identity)

    assert isinstance(summary, Summary)
    assert (summary.size, summary.rows, summary.end) == (len(data), len(given), END)
    assert (summary.header, summary.file_checksum) == (HEADER, checksum)
    assert (summary.successor, summary.successor_identity) == successor
    found = decode_contents(data, summary)
    for name, kind in COLUMNS.items():
        assert found.columns[name].dtype == np.dtype(f"<{kind}")
        assert found.columns[name].tolist() == given.columns[name].tolist(), name
    same = (
        "names",
        "producers",
        "groups",
        "sets",
        "value_heads",
        "frame_count",
        "end",
        "last_commit",
        "chain",
        "has_gaps",
    )
    assert {name: getattr(found, name) for name in same} == {name: getattr(given, name) for name in same}


@pytest.mark.whole
@given(contents())
def test_a_footer_and_its_columns_are_multiples_of_8(given: Contents) -> None:
    data = encode_footer(given, HEADER, 0, (0, 0))

    assert len(data) % 8 == 0
    assert trailer_size(data) == len(data)


def test_a_footer_with_any_bit_flipped_is_refused() -> None:
    whole = encode_footer(small(), HEADER, 7, (2, 9))
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        if trailer_size(bytes(data)) == len(data):
            assert isinstance(decode_summary(bytes(data), identity=HEADER.identity), BadFooter), bit


def test_a_footer_that_is_cut_off_anywhere_is_refused() -> None:
    data = encode_footer(small(), HEADER, 7, (2, 9))

    for size in range(len(data)):
        assert trailer_size(data[:size]) is None
        assert isinstance(decode_summary(data[-size:] if size else b"", identity=None), BadFooter)


def test_a_footer_of_another_file_is_refused() -> None:
    data = encode_footer(small(), HEADER, 7, (2, 9))

    assert isinstance(decode_summary(data, identity=None), Summary)
    assert isinstance(decode_summary(data, identity=HEADER.identity + 1), BadFooter)


@pytest.mark.parametrize("size", [0, 31, 32, 471, 1 << 20, 2**63, 2**64 - 1])
def test_the_size_in_a_trailer_is_not_believed_beyond_the_file(size: int, tmp_path: Path) -> None:
    path = tmp_path / "omsmsg-0000000001.data"
    body = encode_headers(HEADER) + bytes(END - FRAMES_AT)
    path.write_bytes(body + bytes(1000) + struct.pack("<QQQ8s", 0, 0, size, footer.TRAILER_MAGIC))

    with DataFile(RealDisk(), path) as file:
        assert isinstance(file.footer(identity=HEADER.identity), BadFooter)


def changed(change: Callable[[bytearray], None]) -> bytes:
    """Return a footer with something else in it, its checksum right."""
    data = bytearray(encode_footer(small(), HEADER, 7, (2, 9)))
    change(data)
    checked = bytes(data[: len(data) - TRAILER.size + CHECKSUM.size])
    data[len(checked) : len(checked) + 8] = CHECKSUM.pack(xxh3(checked, HEADER.identity))
    return bytes(data)


def entry(place: int, at: int, value: int) -> Callable[[bytearray], None]:
    """Return what sets one byte of one entry of the directory."""

    def change(data: bytearray) -> None:
        data[DIRECTORY + place * ENTRY.size + at] = value

    return change


def flags(data: bytearray) -> None:
    data[SUMMARY.size - 1] |= 0x80


NEWER = [
    pytest.param(flags, id="flags"),
    *(pytest.param(entry(3, 1, width), id=f"width {width}") for width in (3, 5, 16, 254, 255)),
    *(pytest.param(entry(18, 1, width), id=f"width {width} of bytes") for width in (0, 1, 8, 254)),
    *(pytest.param(entry(place, 0, 99), id=f"without column {place + 1}") for place in range(22)),
    pytest.param(entry(12, 24, 16), id="size of a column that is not its rows'"),
    pytest.param(entry(13, 31, 255), id="size of a column beyond the footer"),
]


@pytest.mark.parametrize("change", NEWER)
def test_a_whole_footer_that_says_what_its_version_does_not_know_is_a_bad_one(
    change: Callable[[bytearray], None], tmp_path: Path
) -> None:
    data = changed(change)
    path = tmp_path / "omsmsg-0000000001.data"
    path.write_bytes(encode_headers(HEADER) + bytes(END - FRAMES_AT) + data)

    found = decode_summary(data, identity=HEADER.identity)

    assert isinstance(found, BadFooter)
    assert not found.is_newer
    with DataFile(RealDisk(), path) as file:
        assert file.footer(identity=HEADER.identity) == found


def test_a_column_with_an_id_of_a_later_program_is_left_alone() -> None:
    given = small()
    data = encode_footer(given, HEADER, 7, (2, 9))
    directory_end = DIRECTORY + 22 * ENTRY.size
    more = ENTRY.pack(77, 7, 1, 2, 3)
    fields = list(SUMMARY.unpack_from(data))
    fields[1] += len(more) + 8
    fields[9] += 1
    body = SUMMARY.pack(*fields) + data[SUMMARY.size : directory_end] + more + data[directory_end : -TRAILER.size]
    checked = body + b"new\0\0\0\0\0" + CHECKSUM.pack(7)
    longer = checked + struct.pack("<QQ8s", xxh3(checked, HEADER.identity), fields[1], footer.TRAILER_MAGIC)

    summary = decode_summary(longer, identity=HEADER.identity)

    assert isinstance(summary, Summary)
    found = decode_contents(longer, summary)
    assert {name: found.columns[name].tolist() for name in COLUMNS} == {
        name: given.columns[name].tolist() for name in COLUMNS
    }


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([], 0),
        ([7], 0),
        ([7, 7, 7], 0),
        ([7, 9, 11, 13], 0),
        ([2**64 - 1, 1, 3], 0),
        ([9, 7, 5], 0),
        ([7, 9, 12], 1),
        ([10**18, 10**18 + 255, 10**18], 1),
        ([0, 256, 0], 2),
        ([5, 5 + 65536, 5], 4),
        ([0, 2**32, 0], 8),
        ([0, 2**64 - 1, 0], 8),
    ],
)
def test_a_column_takes_as_few_bytes_as_its_values_need(values: list[int], width: int) -> None:
    given = replace(small(), columns={**small().columns, "hash": np.array(values, "<u8")})
    filled = {name: np.resize(column, len(values)) for name, column in given.columns.items() if name != "hash"}
    given = replace(given, columns={**filled, "hash": given.columns["hash"]})

    data = encode_footer(given, HEADER, 0, (0, 0))

    number, found, *_, size = ENTRY.unpack_from(data, DIRECTORY + 12 * ENTRY.size)
    assert (number, found, size) == (13, width, width * len(values))
    summary = decode_summary(data, identity=None)
    assert isinstance(summary, Summary)
    assert decode_contents(data, summary).columns["hash"].tolist() == values


def journal(directory: Path, size: int, *, alignment: int = ALIGNMENT_MIN) -> Journal:
    identities, clock = count(1), count(1_767_225_600_000_000, 10**10)  # hours between commits
    settings = JournalSettings(
        random_identity=lambda: next(identities),
        clock=lambda: next(clock),
        data_file_bytes_max=size,
        alignment=alignment,
    )
    return Journal(RealDisk(), directory, Opening(database=b"d" * 16, owner=1, next_message=2**40), settings)


@a_sample(1)
@pytest.mark.parametrize("alignment", [8, 64, 512])
@pytest.mark.parametrize("seed", range(4))
def test_a_sealed_file_obeys_its_limit_whatever_is_in_it(seed: int, alignment: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    limit = 8192
    writing = journal(tmp_path, limit, alignment=alignment)
    for number in range(120):
        composer = CommitBuilder()
        _compose(composer, chance, number)
        writing.write(writing.form([composer.draft()]))
    writing.close(seal=True)

    sizes = [path.stat().st_size for path in tmp_path.glob("*.data")]

    assert len(sizes) > 3
    assert max(sizes) <= limit
    assert sum(sizes) / len(sizes) > limit // 2


def _compose(composer: CommitBuilder, chance: random.Random, number: int) -> None:
    queue = f"queue {chance.randrange(40)}".encode()
    payloads = [chance.randbytes(chance.randrange(30)) for _ in range(chance.randrange(1, 5))]
    match chance.randrange(6):
        case 0:
            composer.add(Added(queue=queue, payloads=payloads))
        case 1:
            properties = [encode_properties({"k": "v"}) for _ in payloads]
            composer.add(Added(queue=queue, payloads=payloads, properties=properties, producer=f"p{number}".encode()))
        case 2 if chance.random() < 0.5:
            terms = TermColumns(
                due=[chance.getrandbits(60) for _ in payloads],
                expiry=[chance.getrandbits(60) for _ in payloads] if chance.random() < 0.5 else (),
                attempts=[chance.getrandbits(32) for _ in payloads] if chance.random() < 0.5 else (),
                groups=[b"group %d" % chance.getrandbits(20) for _ in payloads] if chance.random() < 0.5 else (),
            )
            composer.add(Added(queue=queue, payloads=payloads, terms=terms))
        case 2:
            numbers = [chance.randrange(2**40) for _ in payloads]
            composer.add(Added(queue=queue, payloads=payloads, flags=MOVED, numbers=numbers, first_times=numbers))
        case 3:
            removed = np.array(sorted(chance.sample(range(2**40), 5)), np.uint64)
            composer.remove(chance.choice([Operation.DELIVER, Operation.DELETE]), queue, removed)
        case 4:
            composer.put(queue, chance.randbytes(chance.randrange(300)), moved=chance.random() < 0.5)
        case _:
            composer.drop(queue)


def test_the_ranges_tell_what_a_file_holds(tmp_path: Path) -> None:
    writing = journal(tmp_path, 1 << 20)
    composer = CommitBuilder()
    composer.add(Added(queue=b"q", payloads=[b"a", b"b"]))
    composer.add(Added(queue=b"q", payloads=[b"c"], flags=MOVED, numbers=[5], first_times=[-44]))
    composer.remove(Operation.DELIVER, b"q", np.array([7, 8, 900], np.uint64))
    composer.remove(Operation.DELETE, b"q", np.array([3], np.uint64))
    writing.write(writing.form([composer.draft()]))
    writing.close(seal=True)

    with DataFile(RealDisk(), next(tmp_path.glob("*.data"))) as file:
        found = file.footer(identity=1)

    assert isinstance(found, Footer)
    time = 1_767_225_600_000_000 + 10**10
    assert found.summary.ranges == Ranges(
        time=(time, time),
        added=(5, 2**40 + 1),
        removed=(3, 900),
        commit=(1, 1),
        offset=(FRAMES_AT, FRAMES_AT),
        first_time=(-44, time),
    )


def test_a_footer_of_nothing_has_empty_ranges() -> None:
    data = encode_footer(Contents(columns=empty_columns(), end=END), HEADER, 0, (0, 0))

    summary = decode_summary(data, identity=None)

    assert isinstance(summary, Summary)
    assert summary.ranges == Ranges()


def numbers_of(column: npt.NDArray[np.int64]) -> list[int]:
    return [int(value) for value in column]


def test_the_first_time_stands_only_where_a_message_was_moved(tmp_path: Path) -> None:
    writing = journal(tmp_path, 1 << 20)
    for flags_, numbers in ((0, ()), (MOVED, (5,)), (0, ())):
        composer = CommitBuilder()
        composer.add(Added(queue=b"q", payloads=[b"a"], flags=flags_, numbers=numbers, first_times=[-9] * len(numbers)))
        writing.write(writing.form([composer.draft()]))
    writing.close(seal=True)

    with DataFile(RealDisk(), next(tmp_path.glob("*.data"))) as file:
        found = file.footer(identity=1)

    assert isinstance(found, Footer)
    assert numbers_of(found.contents().columns["first_time"]) == [0, -9, 0]


@given(
    st.lists(st.integers(0, 2**32 - 1), max_size=6)
    | st.builds(lambda base, step, n: [base + step * row for row in range(n)],
                st.integers(10**6, 10**9), st.integers(-1000, 5 * 10**8), st.integers(0, 6)),
    st.sampled_from([1, 8]),
)  # fmt: skip
def test_a_column_read_narrowly_has_the_same_values(values: list[int], unit: int) -> None:
    given = small()
    filled: dict[str, npt.NDArray[Any]] = {name: np.resize(c, len(values)) for name, c in given.columns.items()}
    filled["number"] = np.array(values, np.uint64) * np.uint64(unit)
    data = encode_footer(replace(given, columns=filled), HEADER, 0, (0, 0))
    summary = decode_summary(data, identity=None)
    assert isinstance(summary, Summary)

    columns = decode_contents(data, summary).columns

    assert isinstance(columns, FooterColumns)
    assert columns.narrow("number", unit).tolist() == values


@given(contents(), st.randoms(use_true_random=False))
def test_a_part_of_a_column_has_the_values_that_the_whole_column_has_there(
    given: Contents, chance: random.Random
) -> None:
    data = encode_footer(given, HEADER, 0, (0, 0))
    summary = decode_summary(data, identity=None)
    assert isinstance(summary, Summary)
    found, count = decode_contents(data, summary), len(given)
    start, stop = sorted(chance.randrange(count + 1) for _ in range(2))
    mask = np.array([chance.random() < 0.5 for _ in range(count)], np.bool_)
    places = np.array([chance.randrange(count) for _ in range(chance.randrange(5) if count else 0)], np.int64)

    for name in COLUMNS:
        for rows in (slice(start, stop), mask, places):
            part = found.part(name, rows)
            assert part.tolist() == given.columns[name][rows].tolist()
            assert part.dtype == given.columns[name].dtype


def test_a_footer_that_was_checked_is_not_decoded_again(tmp_path: Path) -> None:
    writing = journal(tmp_path, 1 << 20)
    composer = CommitBuilder()
    composer.add(Added(queue=b"q", payloads=[b"a"]))
    writing.write(writing.form([composer.draft()]))
    writing.close(seal=True)

    with DataFile(RealDisk(), next(tmp_path.glob("*.data"))) as file:
        found = file.footer(identity=1)

    assert isinstance(found, Footer)
    checked = found.checked()
    assert isinstance(checked, Footer)
    assert checked.contents() is checked.contents()
