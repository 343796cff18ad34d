"""What was added twice: under one producer identifier, or with one payload within a while.

The database refuses a repeated identifier within its duplicate window; what is found here came later
than that, or from a producer without identifiers. A copy that compaction made is no duplicate.
"""

from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.answers import DUPLICATES, meanings_of
from oms_journal.analysis.fold.asked import HOUR
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import messages
from oms_journal.analysis.questions.times import MICROSECOND, micros

_DIGEST_BITS = (1 << 40) - 1  # of each hash, so that the hashes of 2^23 messages add up without overflow
_SCOPE = ("database", "queue", "producer")
_PAYLOAD = ("hash", "length", "database", "queue")  # what is sorted by first tells most apart
ADDED_COLUMNS = ("operation", *_SCOPE, "message", "commit", "first_time", "moved", "hash")  # what `added` needs


@answers(meanings_of(DUPLICATES))
def duplicates(operations: DataFrame, *, window: timedelta = HOUR, added: DataFrame | None = None) -> DataFrame:
    """Return what was added more than once: a row for each identifier, and a row for each run of equal payloads.

    Messages of one queue with the same payload hash and length are a run, as long as each came at most `window` after
    the one before. Messages of one commit share its identifier. That alone makes no duplicates. `added` are the ADDs
    alone. If they were loaded with fewer columns (`ADDED_COLUMNS`), the answer is faster.
    """
    adds = operations if added is None else added
    return _by_producer(adds).unionByName(_by_payload(operations, window), allowMissingColumns=True)


def _by_producer(operations: DataFrame) -> DataFrame:
    by_anyone = operations.where((F.col("operation") == "ADD") & F.col("producer").isNotNull())
    by_message = by_anyone.groupBy(*_SCOPE, "message").agg(
        F.min(F.when(~F.col("moved"), F.col("commit"))).alias("commit"),
        F.min("first_time").alias("added"),
        F.max("hash").alias("hash"),
    )
    # Of a commit whose file has been cleaned away, moved copies tell only the time.
    gone = F.when(F.col("commit").isNull(), F.col("added")).alias("gone")
    by_commit = by_message.groupBy(*_SCOPE, "commit", gone).agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum(F.col("hash").bitwiseAND(F.lit(_DIGEST_BITS))).alias("digest"),
        F.min("message").alias("first_message"),
        F.max("message").alias("last_message"),
        F.min("added").alias("first_time"),
        F.max("added").alias("last_time"),
    )
    # Texts and structures among the figures would make Spark sort; numbers do not.
    is_same = [F.min(name) == F.max(name) for name in ("messages", "digest")]
    found = by_commit.groupBy(*_SCOPE).agg(
        F.sum("messages").alias("messages"),
        F.count(F.lit(1)).alias("commits"),
        (is_same[0] & is_same[1]).alias("same_payloads"),
        F.min("first_message").alias("first_message"),
        F.max("last_message").alias("last_message"),
        F.min("first_time").alias("first_time"),
        F.max("last_time").alias("last_time"),
    )
    return found.where(F.col("commits") > 1).withColumn("kind", F.lit("producer"))


def _by_payload(operations: DataFrame, window: timedelta) -> DataFrame:
    known = messages(operations).where(F.col("added").isNotNull())
    # Nearly every payload is there once only, and is left out before anything has to be sorted.
    again = known.groupBy("hash").agg(F.count(F.lit(1)).alias("times")).where(F.col("times") > 1)
    in_order = Window.partitionBy(*_PAYLOAD).orderBy("added", "message")
    gap = micros("added") - micros(F.lag("added").over(in_order))
    begins = (gap.isNull() | (gap > window // MICROSECOND)).cast("long")
    in_runs = (
        known.join(again, "hash", "left_semi")
        .select(*_PAYLOAD, "message", "added", begins.alias("begins"))
        .select(*_PAYLOAD, "message", "added", F.sum("begins").over(in_order).alias("run"))
    )
    found = in_runs.groupBy(*_PAYLOAD, "run").agg(
        F.count(F.lit(1)).alias("messages"),
        F.min("message").alias("first_message"),
        F.max("message").alias("last_message"),
        F.min("added").alias("first_time"),
        F.max("added").alias("last_time"),
    )
    return found.where(F.col("messages") > 1).withColumns({"kind": F.lit("payload"), "same_payloads": F.lit(True)})
