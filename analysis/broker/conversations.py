"""Conversations of units of work: who talks with which service, how long, and what is open in them."""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.units import FAILED, WAITING
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.latency import SHARES, percentiles
from oms_journal.analysis.questions.times import age, between, seconds


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "conv_id": "identifier of the conversation, 16 hexadecimal digits",
        "service": "CLASS/SERVER/SERVICE",
        "client": "USER-ID; null where only answers to nobody known are there",
        "server": "USER-ID of the instance that has committed something of it; null for none",
        "units": "units of work from the client",
        "replies": "from the service",
        "messages": "of all of them",
        "bytes": "of these messages",
        "waiting": "units of work that wait for the service",
        "waiting_replies": "that wait for the client",
        "failed": "units of work that ended and were not processed",
        "attempts": "deliveries attempted in vain",
        "begun": "time of the commit of its first unit of work, else of its first message",
        "last": "when something changed last",
        "seconds": "from begun to last",
        "state": "how one side ended it, as its last unit of work says: EOC, EOC_CANCEL; OPEN where none says so",
        "reason": "return code that tells the partner why; null for none",
        "is_open": "something waits in it",
    }
)
def conversations(units: DataFrame) -> DataFrame:
    """Return one row a conversation, from the answer of `units_of_work`.

    The answer tells the end of a conversation if a unit of work of it was still to come when it ended.
    """
    is_reply, is_waiting = F.col("is_reply"), F.col("status").isin(*WAITING)
    has_ended = F.when(F.col("state") != "OPEN", F.coalesce("ended", "changed"))
    server = F.when(is_reply, F.col("sender")).when(F.col("status") == "PROCESSED", F.col("receiver"))
    return (
        units.groupBy("database", "conv_id", "service")
        .agg(
            F.max(F.when(is_reply, F.col("receiver")).otherwise(F.col("sender"))).alias("client"),
            F.max(server).alias("server"),
            F.count_if(~is_reply).alias("units"),
            F.count_if(is_reply).alias("replies"),
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.count_if(is_waiting & ~is_reply).alias("waiting"),
            F.count_if(is_waiting & is_reply).alias("waiting_replies"),
            F.count_if(F.col("status").isin(*FAILED)).alias("failed"),
            F.sum("attempts").alias("attempts"),
            F.min(F.coalesce("begun", "created")).alias("begun"),
            F.max(F.coalesce("ended", "changed")).alias("last"),
            F.max_by("state", has_ended).alias("state"),
            F.max_by("reason", has_ended).alias("reason"),
        )
        .withColumns(
            {
                "state": F.coalesce("state", F.lit("OPEN")),
                "seconds": seconds(between("begun", "last")),
                "is_open": F.col("waiting") + F.col("waiting_replies") > 0,
            }
        )
    )


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "service": "CLASS/SERVER/SERVICE",
        "conversations": "that left a trace in the store",
        "open": "something waits in them",
        "answered": "the service has answered in them",
        "ended": "one side has ended them, as a unit of work of theirs says",
        "cancelled": "of these, those that were ended with EOC_CANCEL",
        "units_mean": "units of work and answers in one, on average",
        "units_max": "the most in one",
        "p50_seconds": "from begun to last, of those in which nothing waits: half are not longer; null for none",
        "p90_seconds": "likewise, nine in ten",
        "p99_seconds": "likewise, 99 in a hundred",
        "max_seconds": "likewise, the longest",
        "oldest": "identifier of the open one that was begun first; null for none",
        "oldest_begun": "when that was",
        "oldest_age_seconds": "how long ago that is at `now`",
    }
)
def conversation_services(talks: DataFrame, *, now: datetime | None = None, exact: bool = False) -> DataFrame:
    """Return one row a service, from the answer of `conversations`."""
    both, is_ended = F.col("units") + F.col("replies"), F.col("state") != "OPEN"
    taken = F.when(~F.col("is_open"), F.col("seconds"))
    shares = {f"p{share * 100:.0f}_seconds": F.col("taken")[at] for at, share in enumerate(SHARES)}
    return (
        talks.groupBy("database", "service")
        .agg(
            F.count(F.lit(1)).alias("conversations"),
            F.count_if("is_open").alias("open"),
            F.count_if(F.col("replies") > 0).alias("answered"),
            F.count_if(is_ended).alias("ended"),
            F.count_if(F.col("state") == "EOC_CANCEL").alias("cancelled"),
            F.avg(both).alias("units_mean"),
            F.max(both).alias("units_max"),
            percentiles(taken, SHARES, exact=exact).alias("taken"),
            F.max(taken).alias("max_seconds"),
            F.min(F.when(F.col("is_open"), F.struct("begun", "conv_id"))).alias("oldest"),
        )
        .withColumns(
            {
                **shares,
                "oldest_begun": F.col("oldest.begun"),
                "oldest_age_seconds": age("oldest.begun", now),
                "oldest": F.col("oldest.conv_id"),
            }
        )
    )
