"""Units of work by service: what became of them, how long they waited, where they are, what was tried in vain."""

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.units import FAILED, WAITING
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.latency import SHARES, percentiles
from oms_journal.analysis.questions.times import age

_NAMES = [f"p{share * 100:.0f}_seconds" for share in SHARES]
_KEYS = {
    "database": "identity of the database, 32 hexadecimal digits",
    "queue": "CLASS/SERVER/SERVICE, with /reply for its answers to clients",
}


@answers(
    {
        **_KEYS,
        "units": "units of work that left a trace in the store",
        "messages": "that they have",
        "bytes": "of these messages",
        "with_status": "units of work whose status is persistent",
        "uncommitted": "units of work that their sender has not committed",
        "waiting": "that are committed and not complete",
        "postponed": "of these, those that are put off",
        "processed": "that their receiver has committed",
        "backed_out": "that their sender has backed out; told only where the status is persistent",
        "cancelled": "that sender or receiver has cancelled",
        "timed_out": "whose lifetime was over; told only where the status is persistent",
        "discarded": "that were not persistent, and did not survive a restart",
        "removed": "that were cancelled or timed out, which of both is not told without a persistent status",
        "gone": "that were erased with the store, or purged",
        "attempts": "deliveries attempted in vain, of all of them",
        "tried_again": "units of work with such a delivery",
        "attempts_max": "the most of one unit of work",
        "p50_seconds": "from their sender's commit to their receiver's, half of the processed are not slower",
        "p90_seconds": "likewise, nine in ten",
        "p99_seconds": "likewise, 99 in a hundred",
        "max_seconds": "likewise, the slowest",
        "receive_p50_seconds": "from their sender's commit to the first receipt, half are not slower; null where no "
        "status is persistent",
        "receive_p99_seconds": "likewise, 99 in a hundred",
        "oldest": "identifier of the waiting unit of work that was committed first; null for none",
        "oldest_committed": "when that was",
        "oldest_age_seconds": "how long ago that is at `now`",
    }
)
def uow_services(units: DataFrame, *, now: datetime | None = None, exact: bool = False) -> DataFrame:
    """Return one row a queue of a service, from the answer of `units_of_work`.

    The percentiles are as in `lifecycle`. Ages are reckoned up to `now`. By default that is the time at which the
    question is answered.
    """
    status = F.col("status")
    is_waiting = status.isin(*WAITING)
    taken = F.when(status == "PROCESSED", F.col("seconds_to_end"))
    counted = {
        "uncommitted": "RECEIVED",
        "postponed": "POSTPONED",
        "processed": "PROCESSED",
        "backed_out": "BACKEDOUT",
        "cancelled": "CANCELLED",
        "timed_out": "TIMEOUT",
        "discarded": "DISCARDED",
        "removed": "REMOVED",
        "gone": "GONE",
    }
    oldest = F.min(F.when(is_waiting, F.struct("committed", "uowid")))
    return (
        units.groupBy("database", "queue")
        .agg(
            F.count(F.lit(1)).alias("units"),
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.count_if("has_status").alias("with_status"),
            F.count_if(is_waiting).alias("waiting"),
            *[F.count_if(status == wanted).alias(name) for name, wanted in counted.items()],
            F.sum("attempts").alias("attempts"),
            F.count_if(F.col("attempts") > 0).alias("tried_again"),
            F.max("attempts").alias("attempts_max"),
            percentiles(taken, SHARES, exact=exact).alias("taken"),
            F.max(taken).alias("max_seconds"),
            percentiles(F.col("seconds_to_receive"), (0.5, 0.99), exact=exact).alias("received"),
            oldest.alias("oldest"),
        )
        .withColumns(
            {
                **{name: F.col("taken")[at] for at, name in enumerate(_NAMES)},
                "receive_p50_seconds": F.col("received")[0],
                "receive_p99_seconds": F.col("received")[1],
                "oldest_committed": F.col("oldest.committed"),
                "oldest_age_seconds": age("oldest.committed", now),
                "oldest": F.col("oldest.uowid"),
            }
        )
    )


@answers(
    {
        **_KEYS,
        "status": "as in `units_of_work`",
        "units": "units of work that are in it, or ended so",
        "messages": "that they have",
        "bytes": "of these messages",
        "first_changed": "the earliest time at which one of them changed last",
        "last_changed": "the latest one",
        "stays": "how often a unit of work whose status is persistent came into it and left it, or was forgotten in it",
        "p50_seconds": "how long it stayed, half of the times not longer; null where no status is persistent",
        "p90_seconds": "likewise, nine in ten",
        "p99_seconds": "likewise, 99 in a hundred",
        "max_seconds": "likewise, the longest",
    }
)
def uow_statuses(units: DataFrame, stays: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return one row a queue and status, from the answers of `units_of_work` and `uow_stays`.

    Only with a persistent status you know how long units of work stay in it. Without one, a unit that waits and a unit
    that a receiver has are both ACCEPTED.
    """
    keys = ["database", "queue", "status"]
    now_in = units.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("units"),
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min(_changed()).alias("first_changed"),
        F.max(_changed()).alias("last_changed"),
    )
    stayed = stays.where(F.col("seconds").isNotNull()).groupBy(*keys)
    were_in = stayed.agg(
        F.count(F.lit(1)).alias("stays"),
        percentiles(F.col("seconds"), SHARES, exact=exact).alias("stayed"),
        F.max("seconds").alias("max_seconds"),
    )
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("units", "messages", "bytes", "stays")}
    shares = {name: F.col("stayed")[at] for at, name in enumerate(_NAMES)}
    return now_in.join(were_in, keys, "full").withColumns({**counts, **shares})


def _changed() -> Column:
    return F.coalesce("ended", "changed")


@answers(
    {
        **_KEYS,
        "attempts": "deliveries attempted in vain",
        "units": "units of work with so many",
        "waiting": "of these, those that wait",
        "processed": "that were processed after all",
        "failed": "that ended otherwise",
        "postpones": "how often they were put off, all together",
    }
)
def uow_attempts(units: DataFrame) -> DataFrame:
    """Return how many units of work of each queue had how many deliveries in vain, from the answer of `units_of_work`.

    A receiver's backout counts as one. So does the end of a lifetime.
    """
    status = F.col("status")
    return units.groupBy("database", "queue", "attempts").agg(
        F.count(F.lit(1)).alias("units"),
        F.count_if(status.isin(*WAITING)).alias("waiting"),
        F.count_if(status == "PROCESSED").alias("processed"),
        F.count_if(status.isin(*FAILED)).alias("failed"),
        F.sum("postpones").alias("postpones"),
    )


_OF_FAILURES = {
    **_KEYS,
    "uowid": "identifier of the unit of work",
    "conv_id": "of its conversation",
    "status": "BACKEDOUT, CANCELLED, TIMEOUT, DISCARDED, REMOVED, GONE: as in `units_of_work`",
    "sender": "USER-ID",
    "receiver": "USER-ID, null for nobody",
    "attempts": "deliveries attempted in vain",
    "messages": "that it had",
    "bytes": "of these messages",
    "created": "time of its first message",
    "committed": "time of its sender's commit; null where there was none",
    "ended": "when it came to its end",
    "seconds_to_end": "from committed to ended",
    "user_status": "what sender or receiver said of it last; null for nothing",
    "reason": "return code that tells the partner why the conversation ended; null for none",
}


@answers(_OF_FAILURES)
def uow_failures(units: DataFrame) -> DataFrame:
    """Return the units of work that ended and were not processed, from the answer of `units_of_work`."""
    return units.where(F.col("status").isin(*FAILED)).select(*_OF_FAILURES)
