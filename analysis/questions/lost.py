"""What was lost: operations that archives hold, and the repaired files do not.

An archive is the copy of a data file from before its repair. What it still tells, by its frames or by
its footer, and the files that are in use do not say any more, is lost; whether that matters is seen
from what they say otherwise:

    lost             what the files in use say                              effect
    ADD              nothing, and no archive tells of the message's end     message lost
                     the message has an end, or an archive tells of one     already ended
    DELIVER, DELETE  the message is undelivered                             undelivered again
                     the message was ended once more                        ended twice
                     nothing of the message                                 none
    PUT, DROP        the key has another value, or is there or not though   older value
                     this was the last that was done to it
                     else                                                   none

What nobody can read any more is in the source's damage table, not here.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import ENGINE_KEYS

MESSAGE_LOST, ALREADY_ENDED = "message lost", "already ended"
UNDELIVERED_AGAIN, ENDED_TWICE = "undelivered again", "ended twice"
OLDER_VALUE, NONE = "older value", "none"
_THING = ["database", "of_message", "of_key"]
_COLUMNS = (
    *("operation", "queue", "message", "key", "time", "first_time", "length"),
    *("hash", "sequence", "offset", "owner", "commit"),
)


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "operation": "ADD, DELIVER, DELETE; PUT, DROP: on the application's keys",
        "queue": "of the message; null for PUT, DROP",
        "message": "number of the message; null for PUT, DROP",
        "key": "the key; null but for PUT, DROP",
        "effect": f"{MESSAGE_LOST}, {ALREADY_ENDED}, {UNDELIVERED_AGAIN}, {ENDED_TWICE}, {OLDER_VALUE}, {NONE}",
        "time": "of the commit",
        "first_time": "when the message was added first; null but for ADD",
        "length": "bytes of the payload or value; null for others",
        "sequence": "data file that it stood in",
        "offset": "of its frame, bytes",
        "owner": "number of the opening that wrote it",
        "commit": "number of the commit",
        "file": "name of the archive, the first of several that hold it; null where `archived` has no such column",
    }
)
def losses(operations: DataFrame, archived: DataFrame) -> DataFrame:
    """Return the operations that the archives hold and the files in use do not, a row each.

    `operations` are those of the files in use. `archived` are those of the archives. An archive of what a former owner
    wrote late tells of no loss. Leave it out: `journals.sources` tells which archives those are.

    A copy of a message in another place is the same message. The answer passes over archives of data files that
    clean-up has removed since. Those come before the first data file in use, and nothing in them is missed.
    """
    told = _marked(archived)
    near = _marked(operations).join(F.broadcast(told.select(*_THING).distinct()), _THING, "left_semi")
    both = told.withColumn("is_here", F.lit(False)).unionByName(near.withColumn("is_here", F.lit(True)))
    first = operations.groupBy("database").agg(F.min("sequence").alias("first"))
    return (
        _with_what_is_here(both)
        .where(~F.col("is_here") & ~F.col("is_kept") & (F.col("turn") == 1))
        .join(F.broadcast(first), "database", "left")
        .where(F.col("first").isNull() | (F.col("sequence") >= F.col("first")))
        .withColumn("effect", F.when(F.col("message").isNotNull(), _effect_on_message()).otherwise(_effect_on_key()))
    )


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "queue": "of the messages; null for operations on keys",
        "operation": "ADD, DELIVER, DELETE, PUT, DROP",
        "effect": "as in `losses`",
        "operations": "how many were lost",
        "bytes": "of their payloads or values",
        "first_time": "time of the first one's commit",
        "last_time": "time of the last one's commit",
    }
)
def losses_by_queue(lost: DataFrame) -> DataFrame:
    """Return how many operations of each queue were lost, from the answer of `losses`."""
    return lost.groupBy("database", "queue", "operation", "effect").agg(
        F.count(F.lit(1)).alias("operations"),
        F.coalesce(F.sum("length"), F.lit(0)).alias("bytes"),
        F.min("time").alias("first_time"),
        F.max("time").alias("last_time"),
    )


def _marked(operations: DataFrame) -> DataFrame:
    """Add what makes an operation the same one: an ADD is its message's, wherever it stands, others their commit's."""
    is_add = F.col("operation") == "ADD"
    is_ours = F.col("message").isNotNull() | ~F.col("key").startswith(ENGINE_KEYS)
    return operations.where(is_ours).select(
        "database",
        F.coalesce("message", F.lit(0)).alias("of_message"),
        F.coalesce("key", F.lit("")).alias("of_key"),
        F.when(is_add, 0).otherwise(F.col("owner")).alias("of_owner"),
        F.when(is_add, 0).otherwise(F.col("commit")).alias("of_commit"),
        *_COLUMNS,
        (F.col("file") if "file" in operations.columns else F.lit(None).cast("string")).alias("file"),
    )


def _with_what_is_here(both: DataFrame) -> DataFrame:
    """Say of each operation whether a file in use has it too, and what those files say of its message or key."""
    same = Window.partitionBy(*_THING, "operation", "of_owner", "of_commit")
    thing = Window.partitionBy(*_THING)
    is_here, is_end = F.col("is_here"), F.col("operation").isin("DELIVER", "DELETE")
    place, value = F.struct("sequence", "offset"), F.struct("operation", "hash", "length")
    return both.withColumns(
        {
            "has_add": F.bool_or(is_here & (F.col("operation") == "ADD")).over(thing),
            "has_end": F.bool_or(is_here & is_end).over(thing),
            "had_end": F.bool_or(is_end).over(thing),
            "is_last": F.max(place).over(thing) == place,
            "value_here": F.max_by(value, F.when(is_here, place)).over(thing),
            "is_kept": F.bool_or(is_here).over(same),
            "turn": F.row_number().over(same.orderBy("is_here", "sequence", "file", "offset")),
        }
    )


def _effect_on_message() -> Column:
    of_add = F.when(F.col("had_end"), ALREADY_ENDED).otherwise(MESSAGE_LOST)
    of_end = F.when(F.col("has_end"), ENDED_TWICE).when(F.col("has_add"), UNDELIVERED_AGAIN).otherwise(NONE)
    return F.when(F.col("operation") == "ADD", of_add).otherwise(of_end)


def _effect_on_key() -> Column:
    here = F.when(F.col("value_here.operation") == "PUT", F.struct("value_here.hash", "value_here.length"))
    there = F.when(F.col("operation") == "PUT", F.struct("hash", "length"))
    return F.when(F.col("is_last") & ~there.eqNullSafe(here), OLDER_VALUE).otherwise(NONE)
