"""Every question, on journals that random operations wrote, answers what plain loops over `dump` answer.

Each day the tests of the fold ask them, and those by hand.
"""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.analysis.questions.repeats import ADDED_COLUMNS
from oms_journal.analysis.questions.shared_commits import COLUMNS as COMMITS_COLUMNS
from oms_journal.analysis.reading import schema
from oms_journal.database.stats import FileExplanation, Pin
from oms_journal.journal.format.frames import FRAME_SIZE
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.writing.draft import CommitBuilder
from tests.support.journals import plain_answers as plain
from tests.support.journals.plain_rows import (
    MICROSECOND,
    File,
    Row,
    answer,
    assert_same,
    database_of,
    files_in,
    frame,
    moment,
    rows_in,
)
from tests.support.journals.random_journal import SMALL, RandomWriter, damage

pytestmark = pytest.mark.whole

SEEDS = range(4)
KEPT = ", without what was moved away"
SALVAGED = (2, 3)  # seeds of journals of which every good frame is kept, not only those before a bad one
SHARE = 0.6  # of a run of files, needed at the most, so that compaction takes it
TOLD = ("active", "bytes", "live_bytes", "live_messages", "live_keys", "needed", "pins_files", "freed_by_compact")
EVERY = timedelta(seconds=40)


@dataclass(frozen=True, slots=True)
class Journals:
    """Journals of several databases: with what clean-up has moved away, and, as other databases, without."""

    rows: list[Row]
    files: list[File]
    now: int
    paths: tuple[Path, ...]
    operations: DataFrame


@pytest.fixture(scope="module")
def journals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Journals:
    directory = tmp_path_factory.mktemp("journals")
    rows: list[Row] = []
    files: list[File] = []
    spools: list[Path] = []
    now = 0
    for seed in SEEDS:
        spool = directory / f"spool-{seed}"
        writer = RandomWriter(spool, seed, retention=directory / "retention")
        writer.write()
        kept = rows_in(spool)
        rows += [*rows_in(directory / "retention" / database_of(spool)), *kept]
        rows += [replace(row, database=f"{row.database}{KEPT}") for row in kept]
        files += files_in(spool)
        spools.append(spool)
        now = max(now, writer.clock.now)
    known = plain.known_messages(rows).values()
    assert any(row.moved for row in rows)
    assert any(one.added is None for one in known), "some are known by their end only"
    assert any(one.added and one.commit is None for one in known), "some are known by a moved copy only"
    paths = (*spools, directory / "retention")
    renamed = loaded(spark, *spools).withColumn("database", F.concat("database", F.lit(KEPT)))
    operations = loaded(spark, *paths).unionByName(renamed).cache()
    return Journals(rows, files, now + 10**9, paths, operations)


def loaded(spark: SparkSession, *paths: Path) -> DataFrame:
    """Return the operations as the source reads them."""
    columns = schema.ddl((*schema.default_columns(), "file", "properties_length"))
    return spark.read.format("omsjournal").schema(columns).load([str(path) for path in paths])


def loaded_files(spark: SparkSession, *paths: Path) -> DataFrame:
    """Return the data files as the source tells of them."""
    return spark.read.format("omsjournal").option("table", "files").load([str(path) for path in paths])


@pytest.mark.parametrize("exact", [False, True])
def test_lifecycle(journals: Journals, exact: bool) -> None:
    found = questions.lifecycle(journals.operations, now=moment(journals.now), exact=exact)

    assert_same(found, plain.lifecycle(journals.rows, now=journals.now, exact=exact))


def test_latency_histogram(journals: Journals) -> None:
    found = questions.latency_histogram(journals.operations)

    assert_same(found, plain.latency_histogram(journals.rows, bins_a_decade=8))


def test_rate(journals: Journals) -> None:
    assert_same(questions.rate(journals.operations, every=EVERY), plain.rate(journals.rows, every=EVERY // MICROSECOND))


def test_rate_since_a_time_has_what_came_and_went_from_then_on_with_all_its_bytes(journals: Journals) -> None:
    times = sorted(row.time for row in journals.rows)
    since = times[len(times) // 2]
    before, after = (plain.rate(journals.rows, every=1, since=bound) for bound in (None, since))

    found = questions.rate(journals.operations, every=MICROSECOND, since=moment(since))

    assert_same(found, after)
    assert 0 < len(after) < len(before)
    assert min(row["bucket"] for row in answer(found)) >= since


def test_what_was_loaded_by_itself_gives_the_same_answers(spark: SparkSession, journals: Journals) -> None:
    files = loaded_files(spark, *journals.paths)
    is_key, is_add = F.col("operation").isin("PUT", "DROP"), F.col("operation") == "ADD"
    keys = journals.operations.where(is_key)
    added = journals.operations.where(is_add).select(*ADDED_COLUMNS)
    messages = journals.operations.where(~is_key)

    assert_same(questions.rate(messages, every=EVERY, keys=keys), plain.rate(journals.rows, every=EVERY // MICROSECOND))
    assert_same(
        questions.retention(messages, files, now=moment(journals.now), keys=keys),
        plain.retention(journals.rows, journals.files, now=journals.now),
    )
    assert_same(
        questions.duplicates(messages, window=EVERY, added=added),
        plain.duplicates(journals.rows, window=EVERY // MICROSECOND),
    )
    assert_same(
        questions.commits(journals.operations.select(*COMMITS_COLUMNS), every=EVERY, exact=True),
        plain.commits(journals.rows, every=EVERY // MICROSECOND, exact=True),
    )


def test_backlog(journals: Journals) -> None:
    found = questions.backlog(journals.operations, every=EVERY)

    assert_same(found, plain.backlog(journals.rows, every=EVERY // MICROSECOND))


def test_commits(journals: Journals) -> None:
    found = questions.commits(journals.operations, every=EVERY, exact=True)

    assert_same(found, plain.commits(journals.rows, every=EVERY // MICROSECOND, exact=True))


def test_duplicates(journals: Journals) -> None:
    found = questions.duplicates(journals.operations, window=EVERY)

    assert_same(found, plain.duplicates(journals.rows, window=EVERY // MICROSECOND))
    assert {row["kind"] for row in answer(found)} == {"producer", "payload"}


def test_retention(spark: SparkSession, journals: Journals) -> None:
    files = loaded_files(spark, *journals.paths)

    found = questions.retention(journals.operations, files, now=moment(journals.now))

    assert_same(found, plain.retention(journals.rows, journals.files, now=journals.now))
    assert files.count() > len(journals.files), "what was moved away is told of, and on another disk"


def _as_vouched(each: FileExplanation) -> FileExplanation:
    """Return what a reader beside the database sees: all but the frame that vouches for the others.

    Where it is the first of its file, the lock file vouches for it.
    """
    is_first = each.bytes == FRAMES_AT + FRAME_SIZE
    return replace(each, bytes=each.bytes - FRAME_SIZE) if each.active and not is_first else each


def test_retention_agrees_with_what_the_databases_say(spark: SparkSession, tmp_path: Path) -> None:
    told: dict[tuple[str, int], FileExplanation] = {}
    now: dict[str, int] = {}
    with ExitStack() as are_open:
        for seed in SEEDS:
            spool = tmp_path / str(seed)
            writer = RandomWriter(spool, seed)
            writer.write(openings=2, steps=200)
            db = are_open.enter_context(writer.open(compact_share=SHARE))
            while db.stats().files < 12:
                db.deliver(db.add("q", bytes(1500)))
            db._write(CommitBuilder().draft())  # vouches for what was committed last
            db._journal.seal_all()  # cuts what is full to its length
            told |= {(database_of(spool), each.sequence): _as_vouched(each) for each in db.explain()}
            now[database_of(spool)] = writer.clock.now
        latest = max(now.values())

        found = questions.retention(
            loaded(spark, tmp_path / "*"),
            loaded_files(spark, tmp_path / "*"),
            now=moment(latest),
            compact_share=SHARE,
            data_file_bytes=SMALL,
        )
        asked = {(row["database"], row["sequence"]): row for row in answer(found)}

    assert asked.keys() == told.keys()
    assert {each.pinned_by and each.pinned_by.kind for each in told.values()} == {None, "message", "key"}
    for at, each in told.items():
        row, pin = asked[at], each.pinned_by or Pin(sequence=0, kind="")
        assert [row[name] for name in TOLD] == [getattr(each, name) for name in TOLD]
        assert (row["file"], row["pinned_by"] or "") == (each.name, pin.kind)
        assert (row["pin_message"], row["pin_queue"], row["pin_key"]) == (pin.number, pin.queue, pin.key)
        if pin.age is not None:
            assert row["pin_age_seconds"] == pytest.approx(pin.age + (latest - now[at[0]]) / 1e6)


def test_a_journal_and_its_compacted_copy_compare_as_the_same(spark: SparkSession, tmp_path: Path) -> None:
    spool, copy = tmp_path / "spool", tmp_path / "copy"
    RandomWriter(spool, 5).write()
    shutil.copytree(spool, copy)
    with RandomWriter(copy, 0).open() as db:
        for queue in ("x", "y"):
            db.deliver_many(db.add_many(queue, [bytes(5500)]))
        db.cleanup(compact=True)
    before, after = rows_in(spool), rows_in(copy)
    assert {row.sequence for row in before} - {row.sequence for row in after}, "some of its files are gone"

    here, there = loaded(spark, spool), loaded(spark, copy)

    assert answer(questions.comparison(here, there, undelivered_only=True)) == []
    assert_same(questions.comparison(here, there), plain.comparison(before, after))


def _changed(row: Row) -> Row | None:
    """Return the operation as another journal may have it that is not the same."""
    number = row.message or 0
    if row.hash is not None and number % 9 == 1:
        return replace(row, hash=row.hash + 1)
    if row.producer is not None and number % 4 == 1:
        return replace(row, producer="other")
    return None if (number % 7 == 1 and row.operation != "ADD") or number % 11 == 1 or row.key == "state" else row


def test_a_comparison_finds_what_differs_and_nothing_else(spark: SparkSession, journals: Journals) -> None:
    database = journals.rows[0].database
    here = [row for row in journals.rows if row.database == database]
    there = [
        replace(row, database="restored", sequence=row.sequence + 7, owner=9, offset=2 * row.offset, file="f")
        for row in here
    ]
    changed = [other for row in there if (other := _changed(row)) is not None]

    same = questions.comparison(frame(spark, here), frame(spark, there), match_databases=False)
    found = questions.comparison(frame(spark, here), frame(spark, changed), match_databases=False)

    assert answer(same) == []
    assert_same(found, plain.comparison(here, changed, match_databases=False))
    assert {fact for row in answer(found) for fact in row["facts"]} == {"hash", "producer", "end", "end_time"}


def test_losses(spark: SparkSession, tmp_path: Path) -> None:
    archived: list[Row] = []
    rows: list[Row] = []
    for seed in SEEDS:
        spool = tmp_path / f"spool-{seed}"
        writer = RandomWriter(spool, seed)
        writer.write(openings=2)
        files = [path for path in sorted(spool.glob("*.data")) if rows_in(path)]
        for path in files[1::2]:
            # The archive's footer goes on telling what the spoilt frame held.
            archived += [replace(row, file=f"{path.stem}-v0001.archive") for row in rows_in(path)]
            damage(path, place=0.3)
        policy = "salvage" if seed in SALVAGED else "truncate"
        writer.write(openings=1, steps=30, cleans=seed == 1, policy=policy)
        rows += rows_in(spool)
    expected = plain.losses(rows, archived)
    assert {effect for _, effect in expected} >= {"message lost", "undelivered again", "none"}

    found = questions.losses(loaded(spark, tmp_path / "*"), loaded(spark, tmp_path / "*" / "*.archive"))

    names = [field for field in found.columns if field != "effect"]
    assert_same(found, [{**{name: getattr(row, name) for name in names}, "effect": effect} for row, effect in expected])
