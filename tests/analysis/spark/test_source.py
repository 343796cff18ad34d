"""The batch source: a load reads what `dump` shows, whatever the paths, the options and the state of the files."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oms_journal import MessageDatabase
from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.damage import DamageFound
from oms_journal.analysis.reading.schema import UnknownColumn
from oms_journal.analysis.spark.options import BadOption
from oms_journal.analysis.storage import NoFileSystem, NoJournal
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError, NewerFormat, NotThisDatabase
from oms_journal.journal.format.headers import HEADER_COPIES, HEADER_SIZE, HEADERS_SIZE
from oms_journal.journal.format.records import TermColumns
from oms_journal.journal.names import ArchiveName
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.dump import dump
from tests.support.disks.small_files import open_small
from tests.support.journals.on_terms import add_on_terms
from tests.support.journals.plain_rows import database_of, moment, rows_in
from tests.support.journals.random_journal import RandomWriter, damage
from tests.support.journals.source_calls import DEFAULT, Rows, batches, dumped, in_order, load, plain, reader, rows_of
from tests.support.sweeps import a_sample

SEEDS = range(3)
ODD = 'it\'s "odd"\n\t<b>& ½ 🎈 \\ $%[*]{a,b}'


@dataclass(frozen=True, slots=True)
class Journals:
    """Journals of several databases, and where clean-up has moved their old files."""

    spools: tuple[Path, ...]
    retention: Path
    rows: Rows

    @property
    def paths(self) -> tuple[Path, ...]:
        return (*self.spools, self.retention)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    directory = tmp_path_factory.mktemp("journals")
    retention = directory / "retention"
    spools = tuple(directory / f"spool-{seed}" for seed in SEEDS)
    for seed, spool in zip(SEEDS, spools, strict=True):
        RandomWriter(spool, seed, retention=retention).write(openings=2, steps=60)
    rows = dumped(*spools, *retention.iterdir())
    assert any(row["moved"] for row in rows) and len({row["sequence"] for row in rows}) > 10
    return Journals(spools, retention, rows)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A small journal with several data files, all of them sealed."""
    RandomWriter(tmp_path / "spool", 7).write(openings=1, steps=40, cleans=False)
    return tmp_path / "spool"


def data_files(spool: Path) -> list[Path]:
    return sorted(spool.glob("*.data"))


# What is read.


@pytest.mark.whole
def test_a_load_reads_what_dump_shows(journals: Journals, spark: SparkSession) -> None:
    found = spark.read.format("omsjournal").load([str(path) for path in journals.paths])

    assert tuple(found.columns) == DEFAULT
    assert in_order(plain(found.toArrow())) == in_order(journals.rows)
    assert found.count() == len(journals.rows)


def test_columns_say_what_they_mean(journals: Journals, spark: SparkSession) -> None:
    found = spark.read.format("omsjournal").load(str(journals.spools[0]))
    comments = {field.name: field.metadata["comment"] for field in found.schema.fields}

    assert comments == {column.name: column.meaning for column in schema.OPERATIONS if not column.option}
    found.createOrReplaceTempView("described")
    described = {row["col_name"]: row["comment"] for row in spark.sql("DESCRIBE described").collect()}
    assert described == comments


def test_a_schema_chooses_the_columns_and_their_order(journals: Journals, spark: SparkSession) -> None:
    chosen = "queue string, message bigint, file string"
    found = spark.read.format("omsjournal").schema(chosen).load(str(journals.spools[0]))
    expected = [(row.queue, row.message, row.file) for row in rows_in(journals.spools[0])]

    assert sorted(map(tuple, found.collect()), key=str) == sorted(expected, key=str)


def test_a_view_can_be_made_in_sql(journals: Journals, spark: SparkSession) -> None:
    paths = json.dumps([str(path) for path in journals.paths]).replace("'", "\\'")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW journals USING omsjournal OPTIONS (path '{paths}', operation 'ADD')")
    counts = spark.sql("SELECT queue, count(*) FROM journals WHERE NOT moved GROUP BY queue").collect()

    added = [row["queue"] for row in journals.rows if row["operation"] == "ADD" and not row["moved"]]
    assert dict(map(tuple, counts)) == {queue: added.count(queue) for queue in set(added)}


@pytest.mark.parametrize("ways", ["list", "glob", "root"])
def test_several_journals_are_read_together(journals: Journals, ways: str, tmp_path: Path) -> None:
    paths: dict[str, tuple[Path | str, ...]] = {
        "list": journals.paths,
        "glob": (f"{journals.spools[0].parent}/spool-*", journals.retention),
        "root": (*journals.spools, f"{journals.retention}/*"),
    }

    assert in_order(load(*paths[ways])) == in_order(journals.rows)


def test_single_files_and_archives_are_read_when_they_are_named(spool: Path) -> None:
    first, second, *_ = data_files(spool)
    archive = spool / str(ArchiveName(1, 1))
    shutil.copy(first, archive)

    assert in_order(load(first)) == in_order(dumped(first))
    assert in_order(load(first, second)) == in_order(dumped(first, second))
    assert {row["file"] for row in load(spool, file=True)} == {path.name for path in data_files(spool)}
    assert [row | {"file": first.name} for row in load(archive, file=True)] == load(first, file=True)


def test_properties_and_payloads_are_there_when_asked_for(spool: Path) -> None:
    shown = [one for one in dump(RealDisk(), [spool]) if isinstance(one, DumpedOperation)]
    found = load(spool, properties=True, payload=True)
    columns = ("payload", "message", "properties")

    assert [row["payload"] for row in found] == [one.payload for one in shown]
    assert [row["properties"] for row in found] == [one.properties for one in shown]
    assert any(one.properties for one in shown) and any(one.payload for one in shown)
    assert load(spool, columns=columns) == [{name: row[name] for name in columns} for row in found]


@pytest.mark.whole
def test_one_dataframe_serves_several_filters(journals: Journals, spark: SparkSession) -> None:
    everything = spark.read.format("omsjournal").load([str(path) for path in journals.paths])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        adds, delivers = (everything.where(f"operation = '{name}'") for name in ("ADD", "DELIVER"))
        counts = [adds.count(), everything.count(), delivers.union(adds).count(), adds.count()]
        pairs = adds.join(delivers.select("database", "message"), ["database", "message"], "left_semi").count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")

    ended = {(row["database"], row["message"]) for row in journals.rows if row["operation"] == "DELIVER"}
    added = [(row["database"], row["message"]) for row in journals.rows if row["operation"] == "ADD"]
    assert counts == [len(added), len(journals.rows), len(added) + len(ended), len(added)]
    assert pairs == sum(message in ended for message in added)


# What the options leave out.

_MIDDLE = 0.5


def _time_in(rows: Rows, place: float) -> int:
    times = sorted(row["time"] for row in rows)
    return int(times[int(place * (len(times) - 1))])


@a_sample(3)
@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        ({"queue": "orders"}, lambda row: row["queue"] == "orders"),
        ({"queues": json.dumps(["orders", "Grüße: 'quoted'\n<b>"])}, lambda row: row["queue"] not in (None, "bills")),
        ({"queues": '["bills"]', "queue": "none"}, lambda row: row["queue"] == "bills"),
        ({"operation": "add, Deliver"}, lambda row: row["operation"] in ("ADD", "DELIVER")),
        ({"operation": "PUT", "queue": "orders"}, lambda row: False),
        ({"fromSequence": 3}, lambda row: row["sequence"] >= 3),
        ({"toSequence": 4, "fromSequence": 2}, lambda row: 2 <= row["sequence"] <= 4),
        ({"toSequence": 0}, lambda row: False),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_options_leave_out_what_they_say(
    journals: Journals, options: dict[str, Any], keeps: Callable[[dict[str, Any]], bool]
) -> None:
    assert in_order(load(*journals.paths, **options)) == in_order(row for row in journals.rows if keeps(row))


def test_since_is_included_and_until_is_not(journals: Journals) -> None:
    first, last = _time_in(journals.rows, 0.3), _time_in(journals.rows, 0.6)
    expected = in_order(row for row in journals.rows if first <= row["time"] < last)
    since, until = moment(first).isoformat(), moment(last).strftime("%Y-%m-%d %H:%M:%S.%f")

    assert 0 < len(expected) < len(journals.rows)
    assert in_order(load(*journals.paths, since=since, until=until)) == expected
    berlin = moment(first).astimezone().isoformat().replace("+00:00", "Z")
    assert in_order(load(*journals.paths, since=berlin, until=until)) == expected
    assert len(reader(*journals.paths, since=since, until=since, maxPartitionBytes=1).partitions()) < len(
        reader(*journals.paths, maxPartitionBytes=1).partitions()
    ), "whole files are left out"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quene": "orders"}, "no option 'quene'"),
        ({"since": "yesterday"}, "since='yesterday'"),
        ({"operation": "ADD,MOVE"}, "operation='ADD,MOVE'"),
        ({"queues": "orders"}, "queues='orders'"),
        ({"fromSequence": "-1"}, "fromSequence='-1'"),
        ({"properties": "yes"}, "it is true or false"),
        ({"mode": "DROPMALFORMED"}, "PERMISSIVE, FAILFAST"),
        ({"table": "messages"}, "operations, damage, files"),
        ({"table": "files", "queue": "orders"}, "queue is about operations"),
        ({"maxFilesPerTrigger": "2", "maxOperationsPerTrigger": "2"}, "exclude each other"),
        ({"maxFilesPerTrigger": "0"}, "a number from 1"),
    ],
)
def test_an_option_that_cannot_be_is_refused(spool: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        load(spool, **options)


def test_a_column_that_cannot_be_is_refused(spool: Path, spark: SparkSession) -> None:
    for columns, says in (("nonsense string", "no column 'nonsense'"), ("message string", "is bigint, not string")):
        with pytest.raises(PySparkException, match=f"{UnknownColumn.__name__}: .*{says}"):
            spark.read.format("omsjournal").schema(columns).load(str(spool)).collect()


# Paths and files that are not as they should be.


def test_paths_without_a_journal_are_errors(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    for path in (tmp_path, tmp_path / "none", tmp_path / "notes.txt", tmp_path / "*.data"):
        with pytest.raises(NoJournal):
            load(path)
    with pytest.raises(NoFileSystem):
        load("nonsense://bucket/spool")
    with pytest.raises(BadOption):
        load()
    with pytest.raises(PySparkException, match=r"NoJournal: .*does not exist"):
        spark.read.format("omsjournal").load(str(tmp_path / "none"))


@pytest.mark.whole
def test_an_empty_journal_has_no_rows(tmp_path: Path, spark: SparkSession) -> None:
    MessageDatabase.open(tmp_path).close()

    assert load(tmp_path) == load(tmp_path, table="damage") == load(tmp_path, table="files") == []
    assert spark.read.format("omsjournal").load(str(tmp_path)).count() == 0


def test_a_journal_of_one_operation_has_one_row(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("orders", b"hello")
    found = load(tmp_path)

    assert found == dumped(tmp_path)
    assert [(row["operation"], row["queue"], row["message"], row["length"]) for row in found] == [
        ("ADD", "orders", 1, 5)
    ]


def test_odd_names_and_payloads_that_are_no_text_come_as_they_are(tmp_path: Path, spark: SparkSession) -> None:
    payload = bytes(range(256))
    with MessageDatabase.open(tmp_path) as db:
        db.add(ODD, payload, properties={ODD: ODD}, producer_id=ODD)
        db.put(ODD, payload)
    found = spark.read.format("omsjournal").options(properties=True, payload=True, queue=ODD).load(str(tmp_path))

    assert [(row["queue"], row["producer"], row["payload"], row["properties"]) for row in found.collect()] == [
        (ODD, ODD, bytearray(payload), {ODD: ODD})
    ]
    assert [row["key"] for row in load(tmp_path, operation="PUT")] == [ODD]


def test_a_newer_format_is_refused(spool: Path, spark: SparkSession) -> None:
    path = data_files(spool)[1]
    _write_version(path, 3)

    with pytest.raises(NewerFormat):
        load(spool)
    with pytest.raises(PySparkException, match=rf"NewerFormat: {path.name} at byte 0: format version 3"):
        spark.read.format("omsjournal").load(str(spool)).count()


def _write_version(path: Path, version: int) -> None:
    """Make a file seem to be of another version of the format."""
    from oms_journal.journal.format.headers import CHECKSUM, xxh3

    data = bytearray(path.read_bytes())
    for at in HEADER_COPIES:
        data[at + 8 : at + 12] = version.to_bytes(4, "little")
        body = bytes(data[at : at + HEADER_SIZE - CHECKSUM.size])
        data[at + len(body) : at + HEADER_SIZE] = CHECKSUM.pack(xxh3(body))
    path.write_bytes(data)


def test_files_of_two_databases_in_one_directory_are_refused(spool: Path, journals: Journals) -> None:
    other = data_files(journals.spools[0])[-1]
    assert not (spool / other.name).exists()
    shutil.copy(other, spool / other.name)

    with pytest.raises(NotThisDatabase):
        load(spool)


# Files that change between planning and reading, or that are damaged.


def test_a_file_that_has_gone_since_it_was_planned_is_told(spool: Path) -> None:
    gone, *others = data_files(spool)
    made, failing = reader(spool), reader(spool, mode="FAILFAST")
    table = reader(spool, table="damage")
    partitions, damage_partitions = made.partitions(), table.partitions()
    gone.unlink()

    assert in_order(rows_of(batches(made, partitions))) == in_order(dumped(*others))
    with pytest.raises(DamageFound, match=f"{gone.name}.*removed"):
        rows_of(batches(failing, partitions))
    told = rows_of(batches(table, damage_partitions), table="damage")
    assert [(row["file"], row["kind"]) for row in told] == [(gone.name, "gone")]


def test_a_file_that_was_moved_to_the_retention_directory_is_read_there(spool: Path, tmp_path: Path) -> None:
    expected = in_order(dumped(spool))
    moved = data_files(spool)[0]
    folder = tmp_path / "retention" / database_of(moved)
    folder.mkdir(parents=True)
    made = reader(spool, tmp_path / "retention", mode="FAILFAST")
    partitions = made.partitions()
    moved.rename(folder / moved.name)

    assert in_order(rows_of(batches(made, partitions))) == expected


def test_a_file_that_is_cut_while_it_is_read_gives_what_is_left_of_it(spool: Path) -> None:
    path = data_files(spool)[0]
    rows = dumped(path)
    made = reader(path.parent, toSequence=1)
    partitions = made.partitions()
    middle = rows[len(rows) // 2]["offset"]
    with path.open("r+b") as file:
        file.truncate(middle)
    kept = [row for row in rows if row["offset"] < middle]

    assert in_order(rows_of(batches(made, partitions))) == in_order(kept)
    assert 0 < len(kept) < len(rows)
    told = load(spool, table="damage")
    assert [(row["file"], row["start"], row["kind"]) for row in told] == [(path.name, middle, "damaged")]


def test_terms_are_there_when_asked_for(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.add("q", b"without")
        terms = TermColumns(due=(1,), attempts=(3,), groups=(b"g",))
        add_on_terms(db, "q", [b"with"], terms)

    without, with_them = in_order(load(tmp_path, terms=True))

    assert [without[name] for name in ("due", "expiry", "attempts", "group")] == [None] * 4
    assert [with_them[name] for name in ("expiry", "attempts", "group")] == [None, 3, "g"]
    assert load(tmp_path, columns=("due",)) == [{"due": None}, {"due": with_them["due"]}]
    assert with_them["due"] is not None and "due" not in load(tmp_path)[0]


def test_payloads_of_a_file_that_goes_while_it_is_read_are_not_made_up(spool: Path) -> None:
    path = data_files(spool)[0]
    made = reader(path, payload=True, properties=True)
    found = batches(made, made.partitions())
    path.unlink()

    assert rows_of(found) == []


def test_damage_is_left_out_and_told_or_it_is_an_error(spool: Path, spark: SparkSession) -> None:
    path = data_files(spool)[0]
    expected = in_order(dumped(spool))
    damage(path, place=0.5)
    permissive = spark.read.format("omsjournal").load(str(spool))
    failing = spark.read.format("omsjournal").option("mode", "failfast").load(str(spool))

    assert in_order(plain(permissive.toArrow())) == expected, "its footer tells what is in the file"
    told = spark.read.format("omsjournal").option("table", "damage").load(str(spool)).collect()
    assert [(row["file"], row["kind"]) for row in told] == [(path.name, "damaged")]
    assert load(spool, table="damage", verify=False) == []
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 8)
    with pytest.raises(PySparkException, match=f"DamageFound: {path.name} at byte"):
        failing.count()
    assert in_order(load(spool)) == in_order(dumped(spool)) != expected, "it is walked where its footer is bad"


def test_a_missing_file_is_told_or_it_is_an_error(spool: Path) -> None:
    data_files(spool)[1].unlink()

    assert in_order(load(spool)) == in_order(dumped(spool))
    assert [(row["sequence"], row["kind"]) for row in load(spool, table="damage")] == [(2, "missing")]
    with pytest.raises(DamageFound, match="missing"):
        load(spool, mode="FAILFAST")


@a_sample(3)
@pytest.mark.parametrize("seed", range(8))
def test_failfast_refuses_what_the_damage_table_tells_of(seed: int, spool: Path) -> None:
    chance = random.Random(seed)
    path = chance.choice(data_files(spool))
    whole = path.read_bytes()
    for verify in ("true", "false"):
        data = bytearray(whole)
        data[chance.randrange(HEADERS_SIZE, len(data.rstrip(b"\0")))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        told = load(spool, table="damage", verify=verify)
        assert told or verify == "false"
        if told:
            with pytest.raises(DamageFound):
                load(spool, mode="FAILFAST", verify=verify)
        else:
            assert len(load(spool, mode="FAILFAST", verify=verify)) == len(dumped(spool))


def test_a_payload_that_is_damaged_in_a_sealed_file_is_refused_though_no_payload_is_read(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("orders", b"the very payload")
    [path] = data_files(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"the very payload", b"the very payloaD"))

    assert [row["message"] for row in load(tmp_path)] == [1]
    assert [row["kind"] for row in load(tmp_path, table="damage")] == ["damaged"]
    with pytest.raises(DamageFound):
        load(tmp_path, mode="FAILFAST")
    assert [row["message"] for row in load(tmp_path, mode="FAILFAST", verify="false")] == [1]


def test_the_table_of_files_has_a_row_for_each(spool: Path, spark: SparkSession) -> None:
    found = spark.read.format("omsjournal").option("table", "files").load(str(spool)).collect()
    rows = rows_in(spool)

    assert [(row["file"], row["bytes"], row["rows"], row["sealed"]) for row in sorted(found)] == [
        (path.name, path.stat().st_size, sum(row.file == path.name for row in rows), True) for path in data_files(spool)
    ]


# A database that somebody has open.


def test_a_running_database_is_read_as_far_as_it_is_durable(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        for number in range(1, 10):
            db.add("orders", b"x" * number)
            found = [row["message"] for row in load(tmp_path, mode="FAILFAST")]
            assert found in ([*range(1, number)], [*range(1, number + 1)])
        files = load(tmp_path, table="files")
        assert [(row["rows"], row["sealed"]) for row in files] == [(len(found), False)]
        assert load(tmp_path, table="damage") == []
    assert [row["message"] for row in load(tmp_path)] == [*range(1, 10)]


def test_errors_of_ours_are_errors_of_the_journal() -> None:
    for error in (BadOption, DamageFound, UnknownColumn, NoJournal, NoFileSystem):
        assert issubclass(error, JournalError)
