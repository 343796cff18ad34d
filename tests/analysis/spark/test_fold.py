"""The fold inside Spark: the same tables as without Spark, to the row, also question by question."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import DataFrame, SparkSession

from oms_journal.analysis import questions
from oms_journal.analysis.fold import engine, local
from oms_journal.analysis.fold.answers import ANSWERS, meanings_of
from oms_journal.analysis.fold.asked import Asked, micros
from oms_journal.analysis.fold.engine import T, Work
from oms_journal.analysis.fold.partial import folded
from oms_journal.analysis.questions import Journals
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.spark import fold
from oms_journal.analysis.spark.fold import Bounds
from oms_journal.analysis.storage import locate
from tests.support.journals.plain_rows import MICROSECOND, moment, plain_rows
from tests.support.journals.random_journal import QUEUES, RandomWriter

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


@pytest.mark.parametrize("turns", (1, 3))
def test_what_is_open_is_put_together_in_a_second_stage_above_a_bound(
    spark: SparkSession, paths: list[str], monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    partitions = plan(locate(paths), partition_bytes=1)
    monkeypatch.setattr(fold, "TURN_BYTES", sum(one.bytes for one in partitions) // turns)
    stages = counted_stages(monkeypatch)

    found = engine.told(
        fold.in_spark(spark, Bounds(border_bytes_max=1, part_bytes=500)), partitions, ASKED, micros(NOW)
    )

    assert found == local.answers(paths, ASKED, now=micros(NOW))
    assert len(stages) >= turns  # every job that folds messages
    assert max(stages) > 2


def counted_stages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every second stage adds how many parts it has."""
    parts: list[int] = []
    in_two_stages = fold._in_two_stages

    def counted(works: DataFrame, work: Work[T], count: int) -> pa.Table:
        parts.append(count)
        return in_two_stages(works, work, count)

    monkeypatch.setattr(fold, "_in_two_stages", counted)
    return parts


def test_no_second_stage_is_made_below_the_bound(
    spark: SparkSession, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "_in_two_stages", None)

    found = engine.told(fold.in_spark(spark), plan(locate(paths), partition_bytes=1), ASKED, micros(NOW))

    assert found["lifecycle"].num_rows


@pytest.mark.whole
def test_each_question_is_what_the_fold_answers(spark: SparkSession, paths: list[str]) -> None:
    journals = Journals(spark, paths)
    asked: dict[str, DataFrame] = {
        "lifecycle": questions.lifecycle(journals, now=NOW),
        "latency_histogram": questions.latency_histogram(journals),
        "latency_over_time": questions.latency_over_time(journals, every=EVERY),
        "counts": questions.counts(journals),
        "rate": questions.rate(journals, every=EVERY),
        "backlog": questions.backlog(journals, every=EVERY),
        "retention": questions.retention(journals, now=NOW),
        "commits": questions.commits(journals, every=EVERY),
        "duplicates": questions.duplicates(journals),
    }

    found = local.answers(paths, ASKED, now=micros(NOW))

    assert found.keys() - asked.keys() == {"files"}
    for name, frame in asked.items():
        assert plain_rows(frame.toArrow()) == plain_rows(found[name])
        assert questions.meanings(frame) == meanings_of(ANSWERS[name])


def test_a_question_has_a_period_and_queues_and_what_it_is_asked_with(spark: SparkSession, paths: list[str]) -> None:
    times = sorted(row["first_time"] for row in local.answers(paths, ASKED, now=0)["files"].to_pylist())
    since, until = (times[place * len(times) // 3] for place in (1, 2))
    journals = Journals(spark, paths[0], since=since, until=until, queues=QUEUES[:2])
    period: dict[str, Any] = {"since": micros(since), "until": micros(until), "queues": frozenset(QUEUES[:2])}
    asked: dict[str, tuple[DataFrame, Asked]] = {
        "latency_histogram": (questions.latency_histogram(journals, bins_a_decade=2), Asked(bins_a_decade=2, **period)),
        "rate": (questions.rate(journals, every=MICROSECOND), Asked(every=1, **period)),
        "duplicates": (questions.duplicates(journals, window=EVERY), Asked(window=ASKED.every, **period)),
        "retention": (
            questions.retention(journals, now=NOW, compact_share=0.9, data_file_bytes=1 << 30),
            Asked(compact_share=0.9, data_file_bytes=1 << 30, **period),
        ),
    }

    for name, (frame, wanted) in asked.items():
        assert plain_rows(frame.toArrow()) == plain_rows(local.answers(paths[:1], wanted, now=micros(NOW))[name])


def test_what_a_worker_cannot_read_is_told_in_our_words(spark: SparkSession, paths: list[str]) -> None:
    partitions = plan(locate(paths[:1]))
    [partition, *_] = partitions
    part = partition.parts[0]
    lost = replace(partition, parts=(replace(part, path=Path(part.path.parent, "x" * 300)),))

    with pytest.raises(Exception, match="DiskError"):
        list(fold.in_spark(spark)([lost], partial(folded, asked=ASKED, aside={})))


def test_a_question_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"lifecycle takes Journals\(spark, paths\), not list"):
        questions.lifecycle([])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write \['orders'\]"):
        Journals(None, "spool", queues="orders")  # type: ignore[arg-type]
