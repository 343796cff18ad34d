"""The fold inside Spark: the same tables as without Spark, to the row, and as the questions give."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.analysis.fold import engine, local
from oms_journal.analysis.fold.answers import ANSWERS, meanings_of
from oms_journal.analysis.fold.asked import Asked, micros
from oms_journal.analysis.fold.partial import folded
from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.spark import fold
from oms_journal.analysis.storage import locate
from oms_journal.journal.operations import ENGINE_PREFIX
from tests.support.journals.plain_rows import MICROSECOND, answer, assert_same_rows, moment, plain_rows
from tests.support.journals.random_journal import RandomWriter

EVERY = timedelta(seconds=40)
ASKED = Asked(every=EVERY // MICROSECOND)
SEEDS = range(3)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return journals of several databases, one with what clean-up has moved away."""
    folder = tmp_path_factory.mktemp("folded")
    found = []
    for seed in SEEDS:
        writer = RandomWriter(folder / f"spool-{seed}", seed, retention=folder / "retention" if seed else None)
        writer.write()
        found.append(str(writer.spool))
    return [*found, str(folder / "retention")]


NOW = moment(1_800_000_000_000_000)


def test_spark_and_this_machine_give_the_same_tables_to_the_row(spark: SparkSession, paths: list[str]) -> None:
    here = local.answers(paths, ASKED, now=micros(NOW))

    found = fold.answers(spark, paths, ASKED, now=micros(NOW))

    assert found.keys() == here.keys() == set(ANSWERS)
    for name, frame in found.items():
        table = frame.toArrow()
        assert plain_rows(table) == plain_rows(here[name])
        assert table.schema.equals(here[name].schema)
        assert questions.meanings(frame) == meanings_of(ANSWERS[name])


def test_partitions_come_together_in_their_order_however_many_jobs_fold_them(
    spark: SparkSession, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = plan(locate(paths), partition_bytes=1)
    monkeypatch.setattr(fold, "TURN_BYTES", sum(one.bytes for one in partitions) // 3)

    found = engine.told(fold.in_spark(spark), partitions, ASKED, micros(NOW))

    assert found == local.answers(paths, ASKED, now=micros(NOW))


@pytest.mark.whole
def test_the_questions_give_the_same_answers(spark: SparkSession, paths: list[str]) -> None:
    columns = schema.ddl((*schema.default_columns(), "properties_length"))
    operations = spark.read.format("omsjournal").schema(columns).load(paths).cache()
    files = spark.read.format("omsjournal").option("table", "files").load(paths)
    asked: dict[str, DataFrame] = {
        "files": files,
        "counts": counts(operations),
        "lifecycle": questions.lifecycle(operations, now=NOW),
        "latency_histogram": questions.latency_histogram(operations),
        "rate": questions.rate(operations, every=EVERY),
        "backlog": questions.backlog(operations, every=EVERY),
        "retention": questions.retention(operations, files, now=NOW),
        "commits": questions.commits(operations, every=EVERY),
        "duplicates": questions.duplicates(operations),
    }

    found = local.answers(paths, ASKED, now=micros(NOW))

    assert found.keys() - asked.keys() == {"latency_over_time"}
    found["lifecycle"] = found["lifecycle"].drop_columns(["expired", "dead_lettered"])
    for name, frame in asked.items():
        assert found[name].schema.names == frame.columns
        assert_same_rows(plain_rows(found[name]), answer(frame))
    operations.unpersist()


def counts(operations: DataFrame) -> DataFrame:
    """Return how many operations of each kind each queue has, and the keys."""
    ours = operations.where(F.col("key").isNull() | ~F.col("key").startswith(ENGINE_PREFIX))
    return ours.groupBy("database", "queue", "operation").agg(
        F.count(F.lit(1)).alias("operations"),
        F.count_if("moved").alias("moved"),
        F.coalesce(F.sum("length"), F.lit(0)).alias("bytes"),
    )


def test_what_a_worker_cannot_read_is_told_in_our_words(spark: SparkSession, paths: list[str]) -> None:
    partitions = plan(locate(paths[:1]))
    [partition, *_] = partitions
    part = partition.parts[0]
    lost = replace(partition, parts=(replace(part, path=Path(part.path.parent, "x" * 300)),))

    with pytest.raises(Exception, match="DiskError"):
        list(fold.in_spark(spark)([lost], partial(folded, asked=ASKED, aside={})))
