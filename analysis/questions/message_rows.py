"""Operations put together: one row a message, one row a key. The answers are as large as the journal.

A message is known by (database, number): a copy that compaction wrote is the same message, with the
time of its first ADD. Where the first data files have been cleaned away, some messages are known by
a moved copy only, and some only by their end.

Every figure of a message has a fixed width, and its queue is part of the key, so that Spark needs one
shuffle and one hash aggregation, and leaves out what nobody asks for. A text among the figures, as in
`messages_with_producers`, makes Spark sort all operations.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.questions.described import answers

ENGINE_KEYS = "\0"  # keys that begin so are the engine's own, and no question is about them
PAIR_BYTES = 4  # of the encoded properties: two sizes for each pair


_FIGURES = {
    "database": "identity of the database, 32 hexadecimal digits",
    "queue": "of the message",
    "message": "number of the message",
    "added": "time of its first ADD; null where no ADD is there",
    "delivered": "time of its DELIVER, null for none",
    "deleted": "time of its DELETE, null for none",
    "length": "bytes of the payload; null where no ADD is there",
    "stored": "bytes of payload and properties; of the payload alone where the operations do not tell the "
    "properties (columns `properties_length` or `properties`)",
    "hash": "XXH3-64 of the payload, as a signed number; null where no ADD is there",
    "sequence": "data file that holds its newest copy",
    "commit": "number of the commit that added it; null where only a moved copy is there",
}


@answers(_FIGURES)
def messages(operations: DataFrame) -> DataFrame:
    """Return one row a message: what is known of it."""
    return _by_message(operations)


@answers({**_FIGURES, "producer": "the producer's identifier, null for none"})
def messages_with_producers(operations: DataFrame) -> DataFrame:
    """Return one row a message, with its producer's identifier too."""
    return _by_message(operations, F.max("producer").alias("producer"))


def _by_message(operations: DataFrame, *more: Column) -> DataFrame:
    is_add = F.col("first_time").isNotNull()
    return (
        operations.where(F.col("message").isNotNull())
        .groupBy("database", "queue", "message")
        .agg(
            F.min("first_time").alias("added"),
            F.min(F.when(F.col("operation") == "DELIVER", F.col("time"))).alias("delivered"),
            F.min(F.when(F.col("operation") == "DELETE", F.col("time"))).alias("deleted"),
            F.max("length").alias("length"),
            F.max(_stored(operations)).alias("stored"),
            F.max("hash").alias("hash"),
            F.max(F.when(is_add, F.col("sequence"))).alias("sequence"),
            F.min(F.when(is_add & ~F.col("moved"), F.col("commit"))).alias("commit"),
            *more,
        )
    )


def is_undelivered() -> Column:
    """Say of a row of `messages` whether the message was added and has not ended."""
    return F.col("added").isNotNull() & F.col("delivered").isNull() & F.col("deleted").isNull()


def ended() -> Column:
    """Return when a message of `messages` was delivered or deleted; null while it is undelivered."""
    return F.coalesce("delivered", "deleted")


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "key": "the key",
        "sequence": "data file of the latest version",
        "offset": "of its frame, bytes",
        "operation": "PUT, or DROP: then the key is gone",
        "time": "of the commit: when it was put, dropped, or written again by compaction",
        "length": "bytes of the value; null for DROP",
        "hash": "XXH3-64 of the value, as a signed number; null for DROP",
    }
)
def latest_versions(operations: DataFrame) -> DataFrame:
    """Return one row a key of the application: its latest version. The answer leaves out the engine's own keys."""
    version = F.struct("sequence", "offset", "operation", "time", "length", "hash")
    on_keys = operations.where(F.col("key").isNotNull() & ~F.col("key").startswith(ENGINE_KEYS))
    return (
        on_keys.groupBy("database", "key").agg(F.max(version).alias("version")).select("database", "key", "version.*")
    )


def _stored(operations: DataFrame) -> Column:
    if "properties_length" in operations.columns:
        return F.col("length") + F.coalesce("properties_length", F.lit(0))
    if "properties" in operations.columns:
        sizes = F.transform(
            F.map_entries("properties"),
            lambda pair: F.lit(PAIR_BYTES) + F.octet_length(pair["key"]) + F.octet_length(pair["value"]),
        )
        total = F.aggregate(sizes, F.lit(0).cast("long"), lambda sum_, size: sum_ + size)
        return F.col("length") + F.coalesce(total, F.lit(0))
    return F.col("length")
