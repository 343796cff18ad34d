"""How operations travel: in commits, and commits in writes.

Commits that go out together, with one write and one sync, have the same time: so their number tells
whether group commit is at work, also where each commit has one operation only.
"""

from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.answers import COMMITS, meanings_of
from oms_journal.analysis.fold.asked import MINUTE
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.latency import percentiles
from oms_journal.analysis.questions.times import between, bucket_of, seconds

SHARES = (0.5, 0.99)
COLUMNS = ("database", "sequence", "commit", "time", "moved", "length")  # that the question looks at
_FILE = ["database", "sequence"]


@answers(meanings_of(COMMITS))
def commits(operations: DataFrame, *, every: timedelta = MINUTE, exact: bool = False) -> DataFrame:
    """Return how operations came in commits, and commits in writes, in each bucket of time.

    Gaps go across data files and openings. If nobody commits, that time is a gap, whatever the reason. Percentiles are
    as in `lifecycle`. Raises ValueError for a width that is not valid.
    """
    writes = _with_gaps(_writes(operations))
    found = writes.groupBy("database", bucket_of("time", every).alias("bucket")).agg(
        F.count(F.lit(1)).alias("writes"),
        F.sum("commits").alias("commits"),
        F.sum("operations").alias("operations"),
        F.sum("moved").alias("moved"),
        F.sum("bytes").alias("bytes"),
        F.max("commits").alias("commits_per_write_max"),
        F.max("operations_max").alias("operations_per_commit_max"),
        F.max("bytes_max").alias("bytes_per_commit_max"),
        percentiles(F.col("gap"), SHARES, exact=exact).alias("gaps"),
        seconds(F.max("gap")).alias("gap_max_seconds"),
    )
    return found.withColumns(
        {
            "commits_per_write": F.col("commits") / F.col("writes"),
            "operations_per_commit": F.col("operations") / F.col("commits"),
            "bytes_per_commit": F.col("bytes") / F.col("commits"),
            "gap_p50_seconds": seconds(F.col("gaps")[0]),
            "gap_p99_seconds": seconds(F.col("gaps")[1]),
        }
    )


def _writes(operations: DataFrame) -> DataFrame:
    by_commit = operations.groupBy(*_FILE, "commit").agg(
        F.min("time").alias("time"),
        F.count(F.lit(1)).alias("operations"),
        F.count_if(F.coalesce("moved", F.lit(False))).alias("moved"),
        F.coalesce(F.sum("length"), F.lit(0)).alias("bytes"),
    )
    return by_commit.groupBy(*_FILE, "time").agg(
        F.min("commit").alias("first"),
        F.count(F.lit(1)).alias("commits"),
        F.sum("operations").alias("operations"),
        F.sum("moved").alias("moved"),
        F.sum("bytes").alias("bytes"),
        F.max("operations").alias("operations_max"),
        F.max("bytes").alias("bytes_max"),
    )


def _with_gaps(writes: DataFrame) -> DataFrame:
    """Add the microseconds since the write before.

    File by file, so that no task has to sort the writes of a whole database; the first write of a file
    looks back at the last one of the file before.
    """
    in_file = Window.partitionBy(*_FILE).orderBy("first")
    in_database = Window.partitionBy("database").orderBy("sequence")
    files = writes.groupBy(*_FILE).agg(F.min("first").alias("first"), F.max_by("time", "first").alias("last"))
    files = files.select(*_FILE, "first", F.lag("last").over(in_database).alias("before"))
    earlier = F.coalesce(F.lag("time").over(in_file), "before")
    return writes.join(F.broadcast(files), [*_FILE, "first"], "left").withColumn("gap", between(earlier, "time"))
