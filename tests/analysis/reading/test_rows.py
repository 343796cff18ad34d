"""The rows that the analysis makes of columns are the operations that `dump` finds frame by frame."""

import random
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from oms_journal.analysis.reading import columns, rows, schema
from oms_journal.analysis.reading.columns import Numbers, part_of, texts
from oms_journal.analysis.reading.damage import DamageFound, refuse
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.analysis.reading.removals import expanded
from oms_journal.analysis.reading.schema import TIME_MAX, TIME_MIN, UnknownColumn, Wanted
from oms_journal.journal.disk import DiskFile, RealDisk, RealFile
from oms_journal.journal.format.contents import Contents, Places
from oms_journal.journal.format.footer import TRAILER
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import BadRecord, TermColumns, decode_set, encode_set
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, require_header
from tests.support.disks.small_files import fill, open_small
from tests.support.journals.analysed import (
    ALL,
    EVERY,
    Row,
    analysed,
    batches_of,
    comparable,
    damages,
    dumped,
    files_table,
    only,
    planned,
)
from tests.support.journals.golden_files import NAMES, add, journal, make, write
from tests.support.journals.on_terms import add_on_terms
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import RandomWriter
from tests.support.journals.source_calls import struct
from tests.support.sweeps import a_sample


def _agree(*paths: Path) -> list[Row]:
    """Check that the analysis and `dump` find the same, and return it."""
    found = analysed(*paths, report=refuse)
    assert comparable(found) == comparable(dumped(*paths))
    return found


@a_sample(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_journals_are_read_as_dump_reads_them(seed: int, tmp_path: Path) -> None:
    writer = RandomWriter(tmp_path / "spool", seed, retention=tmp_path / "retained")
    writer.write(openings=2, steps=60, group_alignment=8 if seed % 2 else 512)
    _agree(tmp_path / "spool")
    with writer.open(max_data_file_size=100_000) as db:
        for turn in range(30):
            db.add("orders", bytes(turn), properties={"turn": str(turn)} if turn % 2 else {})
            db.put("key", bytes(turn))
        before = comparable(dumped(tmp_path / "spool"))
        running = comparable(analysed(tmp_path / "spool", report=refuse))
        behind = comparable(dumped(tmp_path / "spool"))
    closed = comparable(_agree(tmp_path / "spool"))

    assert before == running[: len(before)]  # the last group may come to be known as durable at any moment
    assert running == behind[: len(running)]
    assert behind == closed[: len(behind)]


@pytest.mark.parametrize("name", NAMES)
def test_files_with_everything_that_the_format_has_are_read_as_dump_reads_them(name: str, tmp_path: Path) -> None:
    make(tmp_path, name)

    found = analysed(tmp_path, report=lambda _: None)

    assert comparable(found) == comparable(dumped(tmp_path))
    assert found


def test_a_key_that_compaction_has_moved_says_so(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.put("key", b"value")
        number = db.add("q", b"stays", properties={"a": "b"}, producer_id="p")
        db.deliver_many([each for numbers in fill(db, 2).values() for each in numbers])
        assert db.cleanup(compact=True).moved_keys
        db.add("q", b"vouches")
        found = [row for row in analysed(tmp_path) if row["key"] == "key" or row["message"] == number]

    assert [(row["operation"], row["moved"]) for row in found] == [("ADD", True), ("PUT", True)]
    assert found[0]["first_time"] < found[0]["time"]
    assert found[0]["producer"] == "p"
    assert found[0]["properties"] == {"a": "b"}


def test_a_journal_of_one_operation_has_one_row(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        number = db.add("q", b"only")

    [row] = _agree(tmp_path)

    assert (row["message"], row["payload"], row["properties"], row["properties_length"]) == (number, b"only", {}, 0)


def test_a_journal_in_which_nothing_was_written_has_no_rows(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool"):
        assert analysed(tmp_path / "spool") == []
    (tmp_path / "spool" / "omsmsg-0000000001.data").write_bytes(b"")
    (tmp_path / "spool" / "omsmsg-0000000002.data").write_bytes(bytes(100_000))

    assert analysed(tmp_path / "spool", report=refuse) == []
    assert damages(tmp_path / "spool") == []
    assert files_table(tmp_path / "spool") == []


@pytest.mark.parametrize("sealed", [True, False])
def test_odd_names_and_payloads_arrive_as_they_are(sealed: bool, tmp_path: Path) -> None:
    names = ["'quoted' \"twice\"\n<b>\\", "\u0000", " ", "é" * 127, "🙂", "a\r\nb\tc", "NULL"]
    with open_small(tmp_path, max_data_file_size="1M") as db:
        for name in names:
            db.add(name, b"\xff\x00\xfe" + name.encode(), properties={name: name, "": ""}, producer_id=name)
        for name in names[2:]:
            db.put(name, b"\x80" * 300)
            db.drop(name)
        if not sealed:
            db.add("q", b"vouches")
            found = _agree(tmp_path)
    if sealed:
        found = _agree(tmp_path)

    adds = [row for row in found if row["operation"] == "ADD" and row["queue"] != "q"]
    assert [row["queue"] for row in adds] == [row["producer"] for row in adds] == names
    assert [row["properties"] for row in adds] == [{name: name, "": ""} for name in names]
    assert {row["key"] for row in found if row["operation"] == "DROP"} == set(names[2:])


def test_a_name_that_is_no_text_costs_the_frame_that_it_is_in(tmp_path: Path) -> None:
    """No writer of ours makes them, and no reader believes them."""
    writing = journal(tmp_path)
    write(writing, add("größe".encode(), b"y"))
    write(writing, add(b"\xff\xfe", b"x"))
    write(writing, add(b"nothing vouches for it", b"z"))
    writing.close(seal=True)

    assert [row["queue"] for row in analysed(tmp_path)] == ["größe"]
    assert texts([b"\xff", b"", b"a"]).to_pylist() == ["\\xff", "", "a"]


@pytest.mark.parametrize("micros", [-(1 << 62), TIME_MIN - 1, TIME_MIN, 0, TIME_MAX, TIME_MAX + 1, 1 << 62])
def test_times_that_spark_cannot_show_are_the_nearest_that_it_can(micros: int, tmp_path: Path) -> None:
    with open_small(tmp_path, clock=lambda: micros) as db:
        number = db.add("q", b"x")
        db.deliver_many([each for numbers in fill(db, 2).values() for each in numbers])
        db.cleanup(compact=True)
    shown = min(max(micros, TIME_MIN), TIME_MAX)

    found = analysed(tmp_path, report=refuse)

    assert {row["time"] for row in found} == {shown}
    assert {row["first_time"] for row in found if row["message"] == number} == {shown}
    assert {(row["first_time"], row["last_time"]) for row in files_table(tmp_path)} <= {(shown, shown)}
    for since, until in ((shown, None), (None, shown + 1), (shown, shown + 1)):
        assert analysed(tmp_path, wanted=replace(ALL, since=since, until=until)) == found
    for since, until in ((shown + 1, None), (None, shown)):
        assert analysed(tmp_path, wanted=replace(ALL, since=since, until=until)) == []


# Which columns, and how many rows at once.


@pytest.mark.parametrize("table", sorted(schema.TABLES))
def test_a_batch_has_the_types_that_spark_takes(table: str) -> None:
    names = [column.name for column in schema.TABLES[table]]

    assert schema.arrow_schema(names, table).equals(to_arrow_schema(struct(names, table), timezone="UTC"))


def test_columns_come_in_the_order_in_which_they_are_wanted_and_no_others(tmp_path: Path) -> None:
    RandomWriter(tmp_path, 4).write(openings=1, steps=40)
    every = analysed(tmp_path)
    chance = random.Random(4)
    for count in (1, 2, 5, len(EVERY)):
        names = chance.sample(EVERY, count)
        assert analysed(tmp_path, wanted=only(names)) == [{name: row[name] for name in names} for row in every]
    for name in EVERY:
        assert analysed(tmp_path, wanted=only([name])) == [{name: row[name]} for row in every]


def test_a_column_that_the_table_does_not_have_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownColumn, match="the table 'operations' has no column 'colour'; it has database, sequence"):
        schema.arrow_schema(["queue", "colour"])


def test_the_default_columns_are_those_that_cost_little() -> None:
    assert schema.default_columns() == Wanted().columns == EVERY[:15]
    assert schema.default_columns("operations", ["payload"])[15:] == ("payload",)
    assert schema.default_columns("operations", ["file"])[15:] == ("file",)
    assert schema.default_columns("operations", ["properties", "payload"])[15:] == ("properties", "payload")
    assert schema.default_columns("operations", ["terms"])[15:] == TERM_NAMES


def test_rows_of_many_columns_share_what_is_the_same_in_all_of_them(tmp_path: Path) -> None:
    """What travels is bounded: a batch of ADDs to one queue takes little more than its numbers."""
    with open_small(tmp_path, max_data_file_size="10M") as db:
        db.add_many("orders", [b"x"] * 40_000)

    batches = batches_of(planned(tmp_path, wanted=Wanted()), Wanted())

    assert [batch.num_rows for batch in batches] == [rows.BATCH_ROWS, 40_000 - rows.BATCH_ROWS]
    assert sum(batch.nbytes for batch in batches) / 40_000 < 145


def test_a_set_of_a_million_numbers_comes_in_small_batches(tmp_path: Path) -> None:
    """Every number is there once, in order, though the file has only one row for them all."""
    gone = np.delete(np.arange(1, 1_000_002, dtype=np.uint64), 500)
    writing = journal(tmp_path)
    write(writing, add(b"q", b"before"))
    write(writing, lambda composer: composer.remove(Operation.DELIVER, b"q", gone))
    write(writing, add(b"q", b"behind"))
    writing.close(seal=True)
    wanted = only(["message", "operation", "payload"])

    batches = batches_of(planned(tmp_path, wanted=wanted), wanted)

    assert max(batch.num_rows for batch in batches) <= rows.BATCH_ROWS
    numbers = np.concatenate([batch["message"].to_numpy(zero_copy_only=False) for batch in batches])
    assert np.array_equal(numbers[1:-1], gone)
    assert [batches[0]["payload"][0].as_py(), batches[-1]["payload"][-1].as_py()] == [b"before", b"behind"]


def test_batches_with_payloads_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_BYTES", 10_000)
    sizes = [0, 9_000, 900, 101, 30_000, 1, 1, 10_000, 5]
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.add_many("q", [bytes([turn]) * size for turn, size in enumerate(sizes)])
    wanted = only(["length", "payload"])

    batches = batches_of(planned(tmp_path, wanted=wanted), wanted)

    assert [batch["length"].to_pylist() for batch in batches] == [
        [0, 9_000, 900],
        [101],
        [30_000],
        [1, 1],
        [10_000],
        [5],
    ]
    assert [len(value) for batch in batches for value in batch["payload"].to_pylist()] == sizes


def test_a_worker_holds_one_file_at_a_time(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="300K") as db:
        while len(list(tmp_path.glob("*.data"))) < 12:
            db.add_many("q", [bytes(2000)] * 20)
    [partition, *_] = planned(tmp_path, partition_bytes=1 << 30)
    wanted = only(EVERY)

    def peak(parts: Sequence[FilePart]) -> int:
        tracemalloc.start()
        for part in parts:
            for batch in rows.batches(RealDisk(), part, wanted):
                assert batch.num_rows
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert len(partition.parts) >= 9
    few = peak(partition.parts[:2])
    assert few < 6 * max(part.bytes for part in partition.parts), "bytes as they are read, and as they go to Spark"
    assert peak(partition.parts) < 1.2 * few


_SETS = st.lists(st.sets(st.integers(0, 1 << 62), min_size=1, max_size=30).map(sorted), min_size=1, max_size=20)


def _expanded(sets: Sequence[Sequence[int]]) -> list[int]:
    coded = [encode_set(np.array(each, np.uint64)) for each in sets]
    firsts = np.array([each[0] for each in sets], np.int64)
    counts, sizes = np.array([len(each) for each in sets]), np.array([len(each) for each in coded])
    found: list[int] = expanded(firsts, counts, sizes, np.frombuffer(b"".join(coded), np.uint8)).tolist()
    return found


@pytest.mark.whole
@given(_SETS | st.lists(st.sets(st.integers(0, 300), min_size=2, max_size=100).map(sorted), min_size=1, max_size=9))
def test_many_sets_at_once_hold_what_each_holds_alone(sets: list[list[int]]) -> None:
    sets = [each for each in sets if len(each) > 1] or [[1, 2]]
    assert _expanded(sets) == [number for each in sets for number in each]
    alone = [decode_set(each[0], len(each), encode_set(np.array(each, np.uint64))) for each in sets]
    assert _expanded(sets) == np.concatenate(alone).tolist()


@pytest.mark.parametrize(
    ("coded", "counts"),
    [
        (b"\x05", [4]),
        (b"\x05\x01", [5]),
        (b"\x85", [5]),
        (b"\x02\x01\x00", [2]),
        (b"\x80" * 10 + b"\x01", [1]),
        (b"\x02\x02", [2, 3]),
    ],
)
def test_a_set_that_does_not_hold_what_it_says_is_refused(coded: bytes, counts: list[int]) -> None:
    sizes = [len(coded) // len(counts)] * len(counts)

    with pytest.raises(BadRecord):
        expanded(np.zeros(len(counts), np.int64), np.array(counts), np.array(sizes), np.frombuffer(coded, np.uint8))


# Payloads and properties that do not match.


def _spoil(path: Path, what: bytes, instead: bytes) -> None:
    """Change bytes of the frames, and leave the footer as it is."""
    data = path.read_bytes()
    assert what in data
    path.write_bytes(data.replace(what, instead, 1))


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("frames", ["one each", "one for all"])
def test_a_payload_that_does_not_match_is_null_and_said_to_be_bad(frames: str, sealed: bool, tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="1M") as db:
        if frames == "one each":
            for letter in ("a", "b", "c"):
                db.add("q", letter.encode() * 20, properties={"name": letter.upper() * 9})
            db.put("key", b"d" * 20)
        else:
            with db.commit() as commit:
                for letter in ("a", "b", "c"):
                    commit.add("q", letter.encode() * 20, properties={"name": letter.upper() * 9})
                commit.put("key", b"d" * 20)
        db.add("q", b"behind")
    [path] = tmp_path.glob("*.data")
    if not sealed:
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(b"OMSFOOT2")] + bytes(500))
    expected = analysed(tmp_path)
    for what in (b"b" * 20, b"d" * 20):
        _spoil(path, what, b"x" * 20)
    _spoil(path, b"C" * 9, b"x" * 9)
    heard: list[Damage] = []

    found = analysed(tmp_path, report=heard.append)

    for row in expected[1:3]:  # without a footer nothing but the bytes themselves tells the hash of their payload
        row["hash"] = row["hash"] if sealed else None
    hidden = [{**row, "payload": None, "properties": None} for row in expected]
    assert [{**row, "payload": None, "properties": None} for row in found] == hidden
    assert [row["payload"] for row in found] == [b"a" * 20, None, b"c" * 20 if sealed else None, None, b"behind"]
    assert [row["properties"] for row in found] == [{"name": "A" * 9}, None, None, None, {}]
    words = ["message 2 of queue 'q'", "message 3 of queue 'q'", "the value of key 'key'"]
    assert [one.reason for one in heard] == [f"{each} does not match its checksum" for each in words]
    assert {one.kind for one in heard} == {"damaged"}
    assert [row["reason"] for row in damages(tmp_path)] == [one.reason for one in heard]
    with pytest.raises(DamageFound, match="message 2 of queue 'q' does not match its checksum"):
        analysed(tmp_path, report=refuse)
    assert [row["message"] for row in analysed(tmp_path, wanted=only(["message"]), report=refuse)] == [1, 2, 3, None, 4]


def test_what_is_lost_of_properties_costs_no_payload_and_the_other_way_round(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.add("q", b"p" * 20, properties={"name": "v" * 9})
        db.add("q", b"behind")
    [path] = tmp_path.glob("*.data")
    _spoil(path, b"v" * 9, b"x" * 9)

    assert [row["payload"] for row in analysed(tmp_path, wanted=only(["payload"]), report=refuse)] == [
        b"p" * 20,
        b"behind",
    ]
    found = analysed(tmp_path, wanted=only(["properties"]), report=lambda _: None)
    assert [row["properties"] for row in found] == [None, {}]


def test_payloads_of_few_rows_are_read_without_the_rest_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_small(tmp_path, max_data_file_size="10M") as db:
        for turn in range(50):
            db.add("rare" if turn % 25 == 0 else "often", bytes([turn]) * 100_000, properties={"turn": str(turn)})
    [partition] = planned(tmp_path)
    wanted = only(["payload", "properties"], queues=frozenset(("rare",)))
    reads: list[int] = []
    disk = _Counting(reads)

    found = [row for part in partition.parts for batch in rows.batches(disk, part, wanted) for row in batch.to_pylist()]

    assert [row["payload"][:1] for row in found] == [bytes([0]), bytes([25])]
    assert sum(reads) < 400_000


class _Counting(RealDisk):
    """The real disk, that notes how many bytes are read."""

    def __init__(self, reads: list[int]) -> None:
        self._reads = reads

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = super().open(path, writable=writable)
        assert isinstance(file, RealFile)
        return _CountingFile(file, self._reads)  # type: ignore[return-value]


class _CountingFile:
    def __init__(self, file: RealFile, reads: list[int]) -> None:
        self._file = file
        self._reads = reads
        self.size = file.size
        self.close = file.close

    def read(self, size: int, offset: int) -> bytes:
        self._reads.append(size)
        return self._file.read(size, offset)


def test_a_file_that_is_cut_while_its_payloads_are_read_yields_what_is_left(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="10M") as db:
        numbers = [db.add("q", bytes([turn]) * 100_000) for turn in range(20)]
    [partition] = planned(tmp_path)
    heard: list[Damage] = []
    [part] = partition.parts
    batches = rows.batches(RealDisk(), part, only(["message", "payload"]), heard.append)
    found: list[Row] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BATCH_BYTES", 300_000)
        for turn, batch in enumerate(batches):
            found += batch.to_pylist()
            if turn == 0:
                part.path.write_bytes(part.path.read_bytes()[:1_050_000])

    assert [row["message"] for row in found] == numbers
    good = [row["payload"] is not None for row in found]
    assert good == sorted(good, reverse=True)
    assert 3 <= good.count(True) < 20
    assert len(heard) == good.count(False)


def test_of_a_footer_with_a_set_that_is_not_as_it_says_the_frames_are_read(tmp_path: Path) -> None:
    writing = journal(tmp_path)
    write(writing, lambda composer: composer.remove(Operation.DELIVER, b"q", np.array([5, 7], np.uint64)))
    writing.close(seal=True)
    [path] = tmp_path.glob("*.data")

    data = bytearray(path.read_bytes())
    start = data.rindex(b"OMSFOOT2")
    at = data.rindex(b"\x01\x01\x01")
    assert at > start
    data[at : at + 3] = b"\x01\x01\x02"
    checksum = xxh3(bytes(data[start : -TRAILER.size + 8]), _identity(path))
    data[-TRAILER.size + 8 : -TRAILER.size + 16] = checksum.to_bytes(8, "little")
    path.write_bytes(data)

    heard: list[Damage] = []
    assert [row["message"] for row in analysed(tmp_path, report=heard.append)] == [5, 7]
    assert ["does not hold as many numbers as it says" in one.reason for one in heard] == [True]


def _identity(path: Path) -> int:
    with DataFile(RealDisk(), path) as file:
        return require_header(file).identity


def test_the_table_of_files_tells_what_each_holds(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 3)
        db.deliver_many(list(db.numbers()))
        db.put("k", b"v")
        db._journal.seal_all()
        rows_before = analysed(tmp_path)
        found = files_table(tmp_path)
        facts = {fact.name: fact for fact in db.explain()}
        sizes = {path.name: path.stat().st_size for path in tmp_path.glob("*.data")}

    assert [row["file"] for row in found] == sorted(facts)
    for row in found:
        mine = [each for each in rows_before if each["file"] == row["file"]]
        assert row["rows"] == len(mine)
        assert (row["first_time"], row["last_time"]) == (mine[0]["time"], mine[-1]["time"])
        assert row["sealed"] == (row["file"] != max(facts))
        if row["sealed"]:
            assert row["bytes"] == sizes[row["file"]]
        else:
            assert 0 < row["bytes"] <= facts[row["file"]].bytes
        assert (row["database"], row["retained"]) == (database_of(tmp_path), False)


def test_a_batch_of_nothing_but_nulls_is_arrow_all_the_same(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.put("k", b"v")
        db.drop("k")
    wanted = only(["message", "queue", "first_time", "producer", "properties", "properties_length"])

    [batch] = batches_of(planned(tmp_path, wanted=wanted), wanted)

    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [dict.fromkeys(wanted.columns)] * 2


# Terms.

TERM_NAMES = ("due", "expiry", "attempts", "group")


def _write_on_terms(directory: Path, *, is_closed: bool) -> Path:
    """Write messages with each set of terms, others between them; return the directory, closed or as it was open."""
    db = open_small(directory / "spool")
    db.add("q", b"without")
    for chosen in range(16):
        terms = TermColumns(
            due=(1, -(10**15), 2**62) if chosen & 1 else (),
            expiry=(2**40, 0, -(2**62)) if chosen & 2 else (),
            attempts=(0, 1, 2**32 - 1) if chosen & 4 else (),
            groups=(b"", "größe".encode(), b"g" * 255) if chosen & 8 else (),
        )
        numbers = add_on_terms(db, "q", [b"a", b"b", b"c"], terms)
        db.deliver(numbers[0])
        db.put("key", b"value")
    left = directory / "left"
    left.mkdir()
    for path in (directory / "spool").glob("*.data"):
        (left / path.name).write_bytes(path.read_bytes())
    db.close()
    return directory / "spool" if is_closed else left


@pytest.mark.parametrize("is_closed", [True, False], ids=["by the footer", "frame by frame"])
def test_terms_are_columns_and_null_where_a_message_has_none(is_closed: bool, tmp_path: Path) -> None:
    found = _agree(_write_on_terms(tmp_path, is_closed=is_closed))

    shown = {tuple(row[name] for name in TERM_NAMES) for row in found if row["operation"] == "ADD"}
    assert {name for row in shown for name, value in zip(TERM_NAMES, row, strict=True) if value is not None} == {
        *TERM_NAMES
    }
    assert (1, 2**40, 0, None) in shown, "an empty name is no group"
    assert (TIME_MAX, TIME_MIN, 2**32 - 1, "g" * 255) in shown, "the nearest times that Spark can show"
    others = [row for row in found if row["operation"] != "ADD"]
    assert {row["operation"] for row in others} == {"DELIVER", "PUT"}
    assert all(row[name] is None for row in others for name in TERM_NAMES)


def test_only_the_columns_of_terms_that_are_asked_for_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = _write_on_terms(tmp_path, is_closed=True)
    asked: set[str] = set()

    def noted(contents: Contents, name: str, rows: Places) -> Numbers:
        asked.add(name)
        return part_of(contents, name, rows)

    monkeypatch.setattr(columns, "part_of", noted)
    for wanted in (("message",), ("message", "due"), ("group",)):
        asked.clear()
        batches_of(planned(directory, wanted=only(wanted)), only(wanted))
        assert asked & {*TERM_NAMES} == {*wanted} & {*TERM_NAMES}
