"""A report by Spark: its workers fold the files, and answer what only Spark can."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.engine import Engine
from oms_journal.analysis.questions import meanings
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.watching import watched
from oms_journal.analysis.spark.complaints import in_one_line
from oms_journal.analysis.spark.fold import in_spark
from oms_journal.journal.errors import JournalError

_SAME_DISK = "give a directory that Spark's executors and this machine both see"


class TablesNotSeen(JournalError):
    """Spark has written a table where this machine does not find it, or not the whole of it."""


class OnSpark:
    """Makes tables in a session of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.fold: Engine = in_spark(spark)

    @contextmanager
    def asking(self, what: str, tell: Callable[[float], None]) -> Iterator[None]:
        """Tell while the block runs which share of it is about done; SparkCouldNot."""
        with in_one_line(f"cannot answer {what!r}"), watched(self.spark, tell):
            yield

    def write(self, name: str, answer: DataFrame, tables: Tables) -> tuple[int, Mapping[str, str]]:
        """Write an answer; return how many rows it has, and what its columns mean. TablesNotSeen, and Spark's own."""
        folder, observation = tables.directory / name, Observation()
        counted = answer.observe(observation, F.count(F.lit(1)).alias("rows"))
        with _times_as_micros(self.spark):
            counted.write.parquet(folder.absolute().as_uri())
        made = observation.get["rows"]
        _tidy(folder)
        seen = tables.count(name)
        if seen != made:
            raise TablesNotSeen(f"Spark wrote {made} rows of {name}, and {folder} has {seen}; {_SAME_DISK}")
        return seen, meanings(answer)


def _tidy(folder: Path) -> None:
    """Leave the Parquet files alone, under plain names; nothing where the folder is on another machine."""
    if not folder.exists():
        return
    files = sorted(folder.glob("part-*.parquet"))
    for entry in set(folder.iterdir()) - set(files):
        entry.unlink()
    for place, file in enumerate(files):
        file.rename(folder / f"part-{place:05}.parquet")


@contextmanager
def _times_as_micros(spark: SparkSession) -> Iterator[None]:
    """Let times be written as microseconds in UTC: Spark's own default is a form that others read as local time."""
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
