"""What comes and goes over time, and what piles up.

Time is cut into buckets of one width that begin at whole multiples of it since 1970 UTC. Where
nothing happened there is no row.
"""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.answers import BACKLOG, RATE, meanings_of
from oms_journal.analysis.fold.asked import MINUTE
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import ended, messages, of_keys
from oms_journal.analysis.questions.times import bucket_of, moment


@answers(meanings_of(RATE))
def rate(
    operations: DataFrame,
    *,
    every: timedelta = MINUTE,
    since: datetime | None = None,
    keys: DataFrame | None = None,
) -> DataFrame:
    """Return the operations and bytes of each queue in each bucket of time.

    A message that only a moved copy tells of counts at the time of its first ADD. The answer leaves out what was before
    `since`. If a message was added before `since` and went after it, its bytes are known only if the operations reach
    back to its ADD. `keys` are the operations on keys alone. If you loaded those by themselves, pass them: it is
    faster. Raises ValueError for a width that is not valid.
    """
    events = messages(operations).select(
        "database",
        "queue",
        "length",
        F.inline(
            F.array(
                _event("operation", "ADD", F.col("added")),
                _event("operation", "DELIVER", F.col("delivered")),
                _event("operation", "DELETE", F.when(F.col("delivered").isNull(), F.col("deleted"))),
            )
        ),
    )
    on_keys = of_keys(operations if keys is None else keys).where(~F.coalesce("moved", F.lit(False)))
    every_event = events.where(F.col("time").isNotNull()).unionByName(
        on_keys.select("database", F.lit(None).cast("string").alias("queue"), "length", "operation", "time")
    )
    if since is not None:
        every_event = every_event.where(F.col("time") >= moment(since))
    return (
        every_event.groupBy("database", bucket_of("time", every).alias("bucket"), "queue", "operation")
        .agg(F.count(F.lit(1)).alias("operations"), F.coalesce(F.sum("length"), F.lit(0)).alias("bytes"))
    )  # fmt: skip


@answers(meanings_of(BACKLOG))
def backlog(operations: DataFrame, *, every: timedelta = MINUTE) -> DataFrame:
    """Return how many messages of each queue are undelivered, a row for each bucket in which one came or went.

    Between two rows it stays as the earlier one says. If the ADD of a message has been cleaned away, the message counts
    from the first row of its queue until its end. Raises ValueError for a width that is not valid.
    """
    went = F.when(ended().isNotNull(), F.greatest("added", ended()))  # passes over an unknown ADD
    came_and_went = F.array(_event("change", 1, F.col("added")), _event("change", -1, went))
    changes = (
        messages(operations)
        .select("database", "queue", "length", F.inline(came_and_went))
        .where(F.col("time").isNotNull())
        .groupBy("database", "queue", bucket_of("time", every).alias("bucket"))
        .agg(
            F.sum("change").alias("messages"),
            F.coalesce(F.sum(F.col("change") * F.col("length")), F.lit(0)).alias("bytes"),
            F.count_if((F.col("change") < 0) & F.col("length").isNull()).alias("before"),
        )
    )
    of_queue = Window.partitionBy("database", "queue")
    so_far = of_queue.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return changes.select(
        "database",
        "bucket",
        "queue",
        (F.sum("before").over(of_queue) + F.sum("messages").over(so_far)).alias("undelivered"),
        F.sum("bytes").over(so_far).alias("undelivered_bytes"),
    )


def _event(name: str, value: str | int, time: Column) -> Column:
    return F.struct(F.lit(value).alias(name), time.alias("time"))
