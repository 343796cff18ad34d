"""Where the time goes: what became of the messages of each queue, and how long they waited."""

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import is_undelivered, messages
from oms_journal.analysis.questions.times import age, between, seconds

SHARES = (0.5, 0.9, 0.99)
RANKS = 10_000  # an approximate percentile is off by one in so many ranks at the most
BINS_A_DECADE = 8


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "queue": "of the messages",
        "added": "messages that were added; a copy that compaction made is not a second one",
        "added_before": "messages that ended, and were added in data files that are not there",
        "delivered": "messages that were delivered",
        "deleted": "messages that were removed undelivered",
        "undelivered": "messages that are there: added + added_before - delivered - deleted",
        "undelivered_bytes": "bytes of their payloads",
        "p50_seconds": "from ADD to DELIVER, half of the delivered messages are not slower; null where none is known",
        "p90_seconds": "likewise, nine in ten",
        "p99_seconds": "likewise, 99 in a hundred",
        "max_seconds": "likewise, the slowest",
        "oldest": "number of the oldest undelivered message, null for none",
        "oldest_added": "when it was added first",
        "oldest_age_seconds": "how long ago that is at `now`",
    }
)
def lifecycle(operations: DataFrame, *, now: datetime | None = None, exact: bool = False) -> DataFrame:
    """Return one row a queue: what became of its messages, and how long delivering them took.

    Percentiles are times that occurred. Their rank has an error of at most one in 10,000. With `exact` the answer takes
    memory for every different time. If a rank lies between two times, so does the percentile. Ages are reckoned up to
    `now`. By default that is the time at which the question is answered.
    """
    undelivered, latency = F.when(is_undelivered(), F.col("message")), _latency()
    was_deleted = F.col("delivered").isNull() & F.col("deleted").isNotNull()
    by_queue = (
        messages(operations)
        .groupBy("database", "queue")
        .agg(
            F.count("added").alias("added"),
            F.count_if(F.col("added").isNull()).alias("added_before"),
            F.count("delivered").alias("delivered"),
            F.count_if(was_deleted).alias("deleted"),
            F.count(undelivered).alias("undelivered"),
            F.coalesce(F.sum(F.when(is_undelivered(), F.col("length"))), F.lit(0)).alias("undelivered_bytes"),
            percentiles(latency, SHARES, exact=exact).alias("latency"),
            seconds(F.max(latency)).alias("max_seconds"),
            F.min(undelivered).alias("oldest"),
            F.min_by("added", undelivered).alias("oldest_added"),
        )
    )
    shares = {f"p{share * 100:.0f}_seconds": seconds(F.col("latency")[at]) for at, share in enumerate(SHARES)}
    return by_queue.withColumns({**shares, "oldest_age_seconds": age("oldest_added", now)})


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "queue": "of the messages",
        "bin": "number of the bin; null for messages that were delivered within a microsecond",
        "from_seconds": "from ADD to DELIVER: where the bin begins",
        "to_seconds": "where it ends, which is no longer in it",
        "messages": "delivered messages whose latency lies in the bin",
    }
)
def latency_histogram(operations: DataFrame, *, bins_a_decade: int = BINS_A_DECADE) -> DataFrame:
    """Return how many messages of each queue took how long from ADD to DELIVER, in bins of even width on a log axis.

    Bin *b* begins at 10^(b / bins_a_decade) microseconds. Empty bins are left out. Raises ValueError for no bins.
    """
    if bins_a_decade < 1:
        raise ValueError(f"a decade has at least one bin, not {bins_a_decade}")
    place = F.floor(F.log10(F.col("latency")) * F.lit(bins_a_decade))
    return (
        messages(operations)
        .select("database", "queue", _latency().alias("latency"))
        .where(F.col("latency").isNotNull())
        .groupBy("database", "queue", F.when(F.col("latency") > 0, place).alias("bin"))
        .agg(F.count(F.lit(1)).alias("messages"))
        .withColumns(
            {
                "from_seconds": F.coalesce(_edge(F.col("bin"), bins_a_decade), F.lit(0.0)),
                "to_seconds": F.coalesce(_edge(F.col("bin") + 1, bins_a_decade), F.lit(1e-6)),
            }
        )
    )


def percentiles(values: Column, shares: tuple[float, ...], *, exact: bool) -> Column:
    """Return the values at shares of the ranks, as an array; null where there are none."""
    wanted = F.array(*[F.lit(share) for share in shares])
    if exact:
        return F.percentile(values, wanted)
    return F.percentile_approx(values, wanted, F.lit(RANKS))


def _latency() -> Column:
    """Return a message's microseconds from ADD to DELIVER; null where one of them is not known."""
    return F.when(F.col("added").isNotNull() & F.col("delivered").isNotNull(), between("added", "delivered"))


def _edge(place: Column, bins_a_decade: int) -> Column:
    return F.pow(F.lit(10.0), place / F.lit(bins_a_decade)) / F.lit(1e6)
