"""What the page on lakes tells: the programs that read one read each operation once, as it lies."""

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from tests.analysis.export.lakes import cleaned, lake_rows, refreshed
from tests.support.disks.small_files import churn, fill, open_small

Counts = Counter[tuple[str | None, str]]  # operations by queue and operation, without moved copies


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with moved copies in it, with missing files, and with a file that is being written."""
    directory = tmp_path_factory.mktemp("recipes")
    with open_small(directory / "spool") as db:
        db.add_many("stays", [b"a", b"b"])
        cleaned(db, 2)
        refreshed(directory / "lake", directory / "spool")
        churn(db, 2)
        db.cleanup(compact=True)
        refreshed(directory / "lake", directory / "spool")
        fill(db, 1)
        db.put("state", b"x")
        db._vouch()
        found = refreshed(directory / "lake", directory / "spool")
    assert found.missing
    assert any(row["moved"] for row in lake_rows(directory / "lake"))
    return directory / "lake"


def expected(lake: Path) -> Counts:
    return Counter((row["queue"], row["operation"]) for row in lake_rows(lake) if not row["moved"])


def test_pandas_reads_the_directory(lake: Path) -> None:
    pandas = importlib.import_module("pandas")

    rows = pandas.read_parquet(lake, columns=["queue", "operation", "moved"])

    counts = rows[~rows["moved"]].groupby(["queue", "operation"], dropna=False).size()
    found: Counts = Counter(
        {(None if pandas.isna(queue) else queue, operation): count for (queue, operation), count in counts.items()}
    )
    assert found == expected(lake)


def test_pyarrow_reads_the_directory_and_only_what_a_filter_leaves(lake: Path) -> None:
    rows = ds.dataset(lake, format="parquet").to_table(columns=["queue", "operation"], filter=~ds.field("moved"))

    assert Counter((row["queue"], row["operation"]) for row in rows.to_pylist()) == expected(lake)


def test_spark_reads_the_pattern(lake: Path, spark: SparkSession) -> None:
    rows = spark.read.parquet(f"{lake}/*/*.parquet").where("not moved").groupBy("queue", "operation").count()

    assert Counter({(row["queue"], row["operation"]): row["count"] for row in rows.collect()}) == expected(lake)


def test_polars_reads_the_pattern(lake: Path) -> None:
    pl: Any = pytest.importorskip("polars", reason="not installed: pip install --group test")

    rows = pl.scan_parquet(f"{lake}/*/*.parquet").filter(~pl.col("moved"))

    counts = rows.group_by("queue", "operation").len().collect().rows()
    assert Counter({(queue, operation): count for queue, operation, count in counts}) == expected(lake)


def test_duckdb_reads_the_pattern(lake: Path) -> None:
    duckdb: Any = pytest.importorskip("duckdb", reason="not installed: pip install --group test")

    rows = duckdb.sql(
        f"select queue, operation, count(*) from '{lake}/*/*.parquet' where not moved group by all"
    ).fetchall()

    assert Counter({(queue, operation): count for queue, operation, count in rows}) == expected(lake)
