"""What is asked of operations, on journals that random operations wrote, is what plain loops over `dump` answer.

What is asked of journals the fold answers: see its tests.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.analysis.reading import schema
from tests.support.journals import plain_answers as plain
from tests.support.journals.plain_rows import Row, answer, assert_same, database_of, frame, rows_in
from tests.support.journals.random_journal import RandomWriter, damage

pytestmark = pytest.mark.whole

SEEDS = range(4)
KEPT = ", without what was moved away"
SALVAGED = (2, 3)  # seeds of journals of which every good frame is kept, not only those before a bad one


@dataclass(frozen=True, slots=True)
class Loaded:
    """Journals of several databases: with what clean-up has moved away, and, as other databases, without."""

    rows: list[Row]
    operations: DataFrame


@pytest.fixture(scope="module")
def journals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    directory = tmp_path_factory.mktemp("journals")
    rows: list[Row] = []
    spools: list[Path] = []
    for seed in SEEDS:
        spool = directory / f"spool-{seed}"
        RandomWriter(spool, seed, retention=directory / "retention").write()
        kept = rows_in(spool)
        rows += [*rows_in(directory / "retention" / database_of(spool)), *kept]
        rows += [replace(row, database=f"{row.database}{KEPT}") for row in kept]
        spools.append(spool)
    known = plain.known_messages(rows).values()
    assert any(row.moved for row in rows)
    assert any(one.added is None for one in known), "some are known by their end only"
    assert any(one.added and one.commit is None for one in known), "some are known by a moved copy only"
    renamed = loaded(spark, *spools).withColumn("database", F.concat("database", F.lit(KEPT)))
    return Loaded(rows, loaded(spark, *spools, directory / "retention").unionByName(renamed).cache())


def loaded(spark: SparkSession, *paths: Path) -> DataFrame:
    """Return the operations as the source reads them."""
    columns = schema.ddl((*schema.default_columns(), "file", "properties_length"))
    return spark.read.format("omsjournal").schema(columns).load([str(path) for path in paths])


@pytest.mark.parametrize("with_producers", [False, True])
def test_messages(journals: Loaded, with_producers: bool) -> None:
    asked = questions.messages_with_producers if with_producers else questions.messages

    found = asked(journals.operations)

    of_adds = ("length", "stored", "hash", "sequence", *(("producer",) if with_producers else ()))
    expected = [
        {
            "database": database,
            "queue": one.queue,
            "message": message,
            **{name: getattr(one, name) for name in ("added", "delivered", "deleted", "commit")},
            **{name: None if one.added is None else getattr(one, name) for name in of_adds},
        }
        for (database, message), one in plain.known_messages(journals.rows).items()
    ]
    assert_same(found, expected)


def test_latest_versions(journals: Loaded) -> None:
    found = questions.latest_versions(journals.operations)

    assert_same(
        found, [{name: getattr(row, name) for name in found.columns} for row in plain.latest(journals.rows).values()]
    )
    assert {row["operation"] for row in answer(found)} == {"PUT", "DROP"}


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


def test_a_comparison_finds_what_differs_and_nothing_else(spark: SparkSession, journals: Loaded) -> None:
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
