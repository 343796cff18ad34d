"""What became of each unit of work that left a trace in the store: one row a unit.

    unit of work is       leaves a trace
    persistent            from its sender's commit until it is complete: what became of it then is seen from
                          what became of its messages
    with persistent       from its first message on, with every status and when it came, also for a while
    status                beyond its end
    neither               none

A restart makes DELIVERED units of work ACCEPTED again without a word, and so does the answer here.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.records import (
    has_flag,
    identifier,
    is_put,
    latest,
    queue_of_record,
    starts,
    versions,
    with_end,
)
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.times import between, seconds
from oms_journal.broker.records import Flag, RecordKind

COMPLETE = ("BACKEDOUT", "PROCESSED", "CANCELLED", "TIMEOUT", "DISCARDED")
REMOVED, GONE = "REMOVED", "GONE"  # as far as it is known of one without a persistent status
WAITING = ("ACCEPTED", "DELIVERED", "POSTPONED")  # committed, and not complete
FAILED = ("BACKEDOUT", "CANCELLED", "TIMEOUT", "DISCARDED", REMOVED, GONE)


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "uowid": "its identifier, 16 hexadecimal digits",
        "conv_id": "of its conversation, likewise",
        "queue": "that its messages go to: CLASS/SERVER/SERVICE, with /reply for an answer to a client",
        "service": "CLASS/SERVER/SERVICE",
        "is_reply": "it is an answer of the service to a client",
        "sender": "USER-ID",
        "receiver": "USER-ID of who has acquired the conversation, or is its client; null for nobody yet",
        "is_persistent": "its messages are kept until it is complete",
        "has_status": "its status is persistent",
        "status": "the last one known: RECEIVED (not committed), ACCEPTED, DELIVERED, POSTPONED, PROCESSED, BACKEDOUT, "
        "CANCELLED, TIMEOUT, DISCARDED; without a persistent status also REMOVED: cancelled or timed out, and GONE: "
        "erased with the store, or purged",
        "user_status": "what sender or receiver said of it last; null for nothing",
        "attempts": "deliveries attempted in vain: ADCOUNT, without the one that a time-out adds",
        "postpones": "how often it was put off",
        "messages": "how many messages it has",
        "bytes": "of all its messages",
        "lifetime": "seconds; 0 for no end",
        "first_message": "number of its first message; null where none is stored",
        "state": "OPEN, or how its sender ended the conversation with it: EOC, EOC_CANCEL",
        "reason": "return code, 8 digits, that tells the partner why the conversation ended; null for none",
        "created": "time of its first message",
        "committed": "time of its sender's commit; null before",
        "begun": "time of the commit of its conversation's first unit of work; null before",
        "received": "when a receiver had it first; null where none had, or the status is not persistent",
        "changed": "when its record changed last",
        "ended": "when it was complete; null before",
        "forgotten": "when its record was dropped; null while it is there",
        "seconds_to_receive": "from committed to received",
        "seconds_to_end": "from committed to ended",
    }
)
def units_of_work(keyed: DataFrame, operations: DataFrame) -> DataFrame:
    """Return one row a unit of work: what is known of it.

    `keyed` are the operations on keys with their values (column `payload`). `operations` are those on messages. If
    clean-up has let go of all of a unit of work but its end, the answer leaves it out.
    """
    is_received = is_put() & (F.col("record.status") == "DELIVERED")
    received = F.min(F.when(is_received, F.col("record.changed"))).alias("received")
    known = latest(versions(keyed, RecordKind.UOW), received).withColumnRenamed("identifier", "uowid")
    return (
        with_end(known, operations, _is_complete())
        .join(F.broadcast(_last_start(keyed)), "database", "left")
        .withColumn("status", _status())
        .withColumns(_fields())
        .withColumn("ended", _ended())
        .withColumns(
            {
                "seconds_to_receive": seconds(between("committed", "received")),
                "seconds_to_end": seconds(between("committed", "ended")),
            }
        )
    )


def _is_complete() -> Column:
    return F.col("record.status").isin(*COMPLETE)


def _last_start(keyed: DataFrame) -> DataFrame:
    """Return for each database where its journal tells of the last start."""
    return starts(keyed).groupBy("database").agg(F.max(F.struct("place", "time")).alias("start"))


def _status() -> Column:
    status, end = F.col("record.status"), F.col("end.operation")
    is_at_once = F.col("end.place") == F.col("drop.place")  # with its record; an erasure takes them one after the other
    # The place of what compaction wrote again says nothing of when it was so.
    is_behind = F.when(F.col("moved"), F.col("start.time") > F.col("record.changed")).otherwise(
        F.col("start.place") > F.col("written")
    )
    has_restarted = (status == "DELIVERED") & is_behind
    return (
        F.when(_is_complete(), status)
        .when(F.col("drop").isNull(), F.when(has_restarted, F.lit("ACCEPTED")).otherwise(status))
        .when(end == "DELIVER", F.lit("PROCESSED"))
        .when((end == "DELETE") & is_at_once & (F.col("record.lifetime") == 0), F.lit("CANCELLED"))
        .when((end == "DELETE") & is_at_once, F.lit(REMOVED))
        .otherwise(F.lit(GONE))
    )


def _fields() -> dict[str, Column]:
    flags, code = F.col("record.flags"), F.col("record.eoc_reason")
    return {
        "conv_id": identifier("record.conv_id"),
        "service": F.col("record.service"),
        "queue": queue_of_record(),
        "is_reply": has_flag(flags, Flag.FROM_SERVER),
        "sender": F.col("record.sender_user"),
        "receiver": _said("record.receiver_user"),
        "is_persistent": has_flag(flags, Flag.PERSISTENT),
        "has_status": has_flag(flags, Flag.STATUS_PERSISTENT),
        "user_status": _said("record.ustatus"),
        "attempts": F.col("record.adcount") - (F.col("record.status") == "TIMEOUT").cast("int"),
        "postpones": F.col("record.postpones"),
        "messages": F.col("record.messages"),
        "bytes": F.col("record.size"),
        "lifetime": F.col("record.lifetime"),
        "first_message": F.when(F.col("record.first") != 0, F.col("record.first")),
        "state": F.col("record.state"),
        "reason": F.when(code != 0, F.concat(F.lit("0003"), F.lpad(code.cast("string"), 4, "0"))),
        "created": F.col("record.created"),
        "committed": F.col("record.committed"),
        "begun": F.col("record.begun"),
        "changed": F.col("record.changed"),
        "forgotten": F.col("drop.time"),
    }


def _ended() -> Column:
    return F.when(_is_complete(), F.col("record.changed")).otherwise(F.col("drop.time"))


def _said(name: str) -> Column:
    return F.when(F.col(name) != "", F.col(name))
