"""How long units of work stay in each status: every stay as a row, where the status is persistent."""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.records import has_flag, is_put, queue_of_record, starts, versions
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.times import between, seconds
from oms_journal.broker.records import Flag, RecordKind

_DROPPED = "dropped"  # stands for the status of what is not there any more


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "uowid": "identifier of the unit of work",
        "queue": "CLASS/SERVER/SERVICE, with /reply for its answers to clients",
        "status": "that it came into",
        "since": "when",
        "until": "when it left it, or was forgotten in it; null while it stays",
        "seconds": "from since to until; null while it stays",
    }
)
def uow_stays(keyed: DataFrame) -> DataFrame:
    """Return one row for each time that a unit of work with persistent status came into a status.

    If clean-up has removed the first records of a unit of work, the answer begins with its oldest record. It takes the
    first stay to begin with the last change that this record tells of. A restart writes no record of a unit of work.
    The answer takes it to end a stay in DELIVERED, and to begin one in ACCEPTED.
    """
    return (
        _with_restarts(_moments(keyed), keyed)
        .withColumn("before", F.lag("status").over(_in_order()))
        .where(~F.col("before").eqNullSafe(F.col("status")))
        .withColumn("until", F.lead("since").over(_in_order()))
        .where(F.col("status") != _DROPPED)
        .withColumn("seconds", seconds(between("since", "until")))
    )


def _moments(keyed: DataFrame) -> DataFrame:
    """Return a row for every record and DROP of a unit of work with persistent status, in no order.

    What compaction wrote again tells something only where the record itself is not there any more.
    """
    has_status = is_put() & has_flag(F.col("record.flags"), Flag.STATUS_PERSISTENT)
    return (
        versions(keyed, RecordKind.UOW, "status", "flags", "changed", "service")
        .where(has_status | (F.col("operation") == "DROP"))
        .select(
            "database",
            F.col("identifier").alias("uowid"),
            "place",
            F.when(has_status, F.col("record.status")).otherwise(F.lit(_DROPPED)).alias("status"),
            F.when(has_status, queue_of_record()).alias("queue"),
            F.when(has_status, F.col("record.changed")).otherwise(F.col("time")).alias("since"),
            "moved",
        )
        .withColumns(
            {
                "queue": F.last("queue", ignorenulls=True).over(_in_order()),  # a DROP comes behind a record
                "turn": F.row_number().over(_in_order()),
            }
        )
        .where(F.col("queue").isNotNull() & (~F.col("moved") | (F.col("turn") == 1)))
    )


def _with_restarts(moments: DataFrame, keyed: DataFrame) -> DataFrame:
    """Add a moment in ACCEPTED where the broker was started while the record said DELIVERED."""
    place, since, until = F.col("place"), F.col("since"), F.col("next")
    known = (
        starts(keyed).groupBy("database").agg(F.sort_array(F.collect_list(F.struct("place", "time"))).alias("starts"))
    )

    def is_within(start: Column) -> Column:
        is_behind = F.when(F.col("moved"), start["time"] > since).otherwise(start["place"] > place)
        return is_behind & (until.isNull() | (start["place"] < until))

    first = F.get(F.filter("starts", is_within), F.lit(0))
    here = _moment(place, F.col("status"), since)
    again = _moment(F.col("start.place"), F.lit("ACCEPTED"), F.col("start.time"))
    return (
        moments.withColumn("next", F.lead("place").over(_in_order()))
        .join(F.broadcast(known), "database", "left")
        .withColumn("start", F.when(F.col("status") == "DELIVERED", first))
        .select(
            "database",
            "uowid",
            "queue",
            F.inline(F.when(F.col("start").isNull(), F.array(here)).otherwise(F.array(here, again))),
        )
    )


def _moment(place: Column, status: Column, since: Column) -> Column:
    return F.struct(place.alias("place"), status.alias("status"), since.alias("since"))


def _in_order() -> WindowSpec:
    """Return a unit of work's rows in the order of the journal."""
    return Window.partitionBy("database", "uowid").orderBy("place")
