"""`lake.operations`: journals as a DataFrame, by way of a Parquet data set that is brought up to date first."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oms_journal.analysis import lake
from oms_journal.analysis.reading.schema import ddl
from tests.analysis.export.lakes import cleaned, lake_files, source_rows
from tests.support.disks.small_files import fill, open_small
from tests.support.journals.random_journal import RandomWriter


def test_the_rows_are_those_of_the_source_and_those_of_the_moment(spark: SparkSession, tmp_path: Path) -> None:
    spool, cache = tmp_path / "spool", str(tmp_path / "cache")
    with open_small(spool) as db:
        assert lake.operations(spark, str(spool), cache).count() == 0
        fill(db, 2)
        first = lake.operations(spark, str(spool), cache)
        assert first.count() == len(source_rows(spool)) > 2
        db.add_many("other", [b"x"] * 20)
        db._vouch()
        counts = lake.operations(spark, [str(spool)], cache).groupBy("queue").count().collect()

        assert {row["queue"]: row["count"] for row in counts}["other"] == 20


@pytest.mark.whole
def test_all_columns_are_as_the_source_has_them(spark: SparkSession, tmp_path: Path) -> None:
    spool, cache = tmp_path / "spool", str(tmp_path / "cache")
    RandomWriter(spool, 5).write(openings=2, steps=40, cleans=False)
    columns = ("database", "commit", "operation", "message", "queue", "key", "time", "first_time", "properties", "hash")

    found = lake.operations(spark, str(spool), cache, columns=columns)

    assert found.schema == spark.createDataFrame([], ddl(columns)).schema
    source = spark.read.format("omsjournal").option("properties", "true").load(str(spool)).select(*columns)
    order = ["commit", "operation", "message", "key"]
    assert found.orderBy(order).collect() == source.orderBy(order).collect()


def test_what_clean_up_has_deleted_is_in_the_answer(spark: SparkSession, tmp_path: Path) -> None:
    spool, cache = tmp_path / "spool", str(tmp_path / "cache")
    with open_small(spool) as db:
        fill(db, 3)
        before = lake.operations(spark, str(spool), cache).count()
        db.deliver_many(list(db.numbers()))
        cleaned(db, 1)
        after = lake.operations(spark, str(spool), cache)

        assert len(source_rows(spool)) < before <= after.where("operation = 'ADD'").count()
    assert len(lake_files(Path(cache))) > 3


@pytest.mark.whole
def test_another_journal_in_the_same_cache_is_not_in_the_answer(spark: SparkSession, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    for name in ("one", "two"):
        with open_small(tmp_path / name) as db:
            db.add_many(name, [b"x"] * 3)
    both = lake.operations(spark, [str(tmp_path / "one"), str(tmp_path / "two")], cache)

    assert both.count() == 6
    assert {row["queue"] for row in lake.operations(spark, str(tmp_path / "one"), cache).collect()} == {"one"}


def test_the_public_names_are_told() -> None:
    assert lake.__all__ == ["operations"]
    with pytest.raises(AttributeError):
        _ = lake.nothing  # type: ignore[attr-defined]
