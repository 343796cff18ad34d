"""Publish and subscribe: what became of publications, and how far each durable subscriber is behind."""

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.records import identifier, is_put, latest, versions, with_end
from oms_journal.analysis.broker.units import GONE
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.latency import SHARES, percentiles
from oms_journal.analysis.questions.times import age, between, seconds
from oms_journal.broker.records import RecordKind

_LONG_MAX = (1 << 63) - 1
_DATABASE = {"database": "identity of the database, 32 hexadecimal digits"}


@answers(
    {
        **_DATABASE,
        "publication_id": "its identifier, 16 hexadecimal digits",
        "topic": "TOPIC",
        "publisher": "USER-ID",
        "status": "ACCEPTED: a subscriber is still to have it; PROCESSED: all have it; TIMEOUT: its lifetime was over; "
        "GONE: erased with the store",
        "user_status": "what the publisher said of it last; null for nothing",
        "messages": "how many messages it has",
        "bytes": "of all its messages",
        "lifetime": "seconds; 0 for no end",
        "first_message": "number of its first message",
        "created": "time of its first message",
        "committed": "time of the publisher's commit",
        "ended": "when the store forgot it; null while it is there",
        "seconds_to_end": "from committed to ended",
    }
)
def publications(keyed: DataFrame, operations: DataFrame) -> DataFrame:
    """Return one row a publication that the store had.

    The store has a publication if it had a subscriber at its commit. `keyed` are the operations on keys with their
    values (column `payload`). `operations` are those on messages.
    """
    known = latest(versions(keyed, RecordKind.PUBLICATION)).withColumnRenamed("identifier", "publication_id")
    names = ("status", "topic", "messages", "lifetime", "created", "committed")
    return (
        with_end(known, operations, F.lit(False))
        .withColumns({name: F.col(f"record.{name}") for name in names})
        .withColumns(
            {
                "status": _status(),
                "publisher": F.col("record.user"),
                "user_status": F.when(F.col("record.ustatus") != "", F.col("record.ustatus")),
                "bytes": F.col("record.size"),
                "first_message": F.col("record.first"),
                "ended": F.col("drop.time"),
            }
        )
        .withColumn("seconds_to_end", seconds(between("committed", "ended")))
    )


def _status() -> Column:
    end, is_at_once = F.col("end.operation"), F.col("end.place") == F.col("drop.place")
    return (
        F.when(F.col("drop").isNull(), F.col("record.status"))
        .when(end == "DELIVER", F.lit("PROCESSED"))
        .when((end == "DELETE") & is_at_once, F.lit("TIMEOUT"))
        .otherwise(F.lit(GONE))
    )


@answers(
    {
        **_DATABASE,
        "subscription_id": "its identifier, 16 hexadecimal digits",
        "topic": "TOPIC",
        "user": "USER-ID of the subscriber",
        "token": "TOKEN; null for none",
        "subscribed": "when it subscribed",
        "active": "when it did something last, as far as its record says",
        "ended": "when it ended: unsubscribed, expired, or erased with the store; null while it is there",
        "expiration": "seconds without activity after which it ends; 0 for no end",
        "acknowledgements": "commits of the subscriber that the journal tells of",
        "last_acknowledged": "identifier of the publication that it acknowledged last; null for none",
        "position": "publications whose first message has at most this number are done with, or were before its time",
        "lag_publications": "publications that it is still to acknowledge",
        "lag_messages": "messages of these",
        "lag_bytes": "bytes of these messages",
        "lag_since": "time of the commit of the oldest of them; null for none",
        "lag_seconds": "how long ago that is at `now`; 0 for none",
        "idle_seconds": "how long ago `active` is at `now`",
    }
)
def subscribers(keyed: DataFrame, published: DataFrame, *, now: datetime | None = None) -> DataFrame:
    """Return one row a durable subscription: how far it is behind, from the answer of `publications`.

    Nobody waits any more for a publication that has timed out. A subscription that has ended is not behind. Ages are
    reckoned up to `now`. By default that is the time at which the question is answered.
    """
    committed = F.col("record.last_committed")
    done = F.count_distinct(F.when(is_put() & (committed != 0), committed)).alias("acknowledgements")
    names = ("topic", "user", "subscribed", "active", "expiration", "position")
    known = (
        latest(versions(keyed, RecordKind.SUBSCRIPTION), done)
        .withColumnRenamed("identifier", "subscription_id")
        .withColumns({name: F.col(f"record.{name}") for name in names})
        .withColumns(
            {
                "token": F.when(F.col("record.token") != "", F.col("record.token")),
                "ended": F.col("drop.time"),
                "last_acknowledged": identifier("record.last_committed"),
            }
        )
    )
    counts = ("lag_publications", "lag_messages", "lag_bytes")
    return (
        known.join(_lags(known, published), ["database", "subscription_id"], "left")
        .withColumns({name: F.coalesce(name, F.lit(0)) for name in counts})
        .withColumns(
            {
                "lag_seconds": F.coalesce(age("lag_since", now), F.lit(0.0)),
                "idle_seconds": F.when(F.col("ended").isNull(), age("active", now)),
            }
        )
    )


def _is_in(numbers: str, number: Column) -> Column:
    """Say whether a number is in one of the ranges: their ends, with 2^63 added, are negative (broker-records.md)."""
    next_ = F.get(F.filter(numbers, lambda each: each.bitwiseAND(_LONG_MAX) >= number), F.lit(0))
    return F.coalesce((next_ < 0) | (next_ == number), F.lit(False))


def _lags(known: DataFrame, published: DataFrame) -> DataFrame:
    """Return for each subscription that is there what it is still to acknowledge."""
    there = known.where(F.col("ended").isNull()).select(
        "database", "topic", "subscription_id", "position", F.col("record.acknowledged").alias("done")
    )
    waiting = published.where(F.col("ended").isNull()).select(
        "database", "topic", "first_message", "messages", "bytes", "committed"
    )
    is_behind = (F.col("first_message") > F.col("position")) & ~_is_in("done", F.col("first_message"))
    return (
        waiting.join(there, ["database", "topic"])
        .where(is_behind)
        .groupBy("database", "subscription_id")
        .agg(
            F.count(F.lit(1)).alias("lag_publications"),
            F.sum("messages").alias("lag_messages"),
            F.sum("bytes").alias("lag_bytes"),
            F.min("committed").alias("lag_since"),
        )
    )


@answers(
    {
        **_DATABASE,
        "topic": "TOPIC",
        "publications": "that the store had",
        "messages": "of these",
        "bytes": "of these messages",
        "publishers": "USER-IDs that have published, approximately",
        "waiting": "publications that a subscriber is still to have",
        "waiting_bytes": "of their messages",
        "processed": "that every subscriber has acknowledged",
        "timed_out": "whose lifetime was over before",
        "gone": "that were erased with the store",
        "p50_seconds": "from commit until all subscribers had acknowledged: half are not slower; null for none",
        "p90_seconds": "likewise, nine in ten",
        "p99_seconds": "likewise, 99 in a hundred",
        "max_seconds": "likewise, the slowest",
        "oldest_committed": "commit of the oldest one that waits; null for none",
        "oldest_age_seconds": "how long ago that is at `now`",
        "subscribers": "durable subscriptions that are there",
        "subscribers_behind": "of these, those with something to acknowledge",
        "lag_publications_max": "the most that one of them is still to acknowledge",
        "lag_seconds_max": "the longest that one of them is behind",
        "subscribers_ended": "durable subscriptions that were there and ended",
    }
)
def topics(
    published: DataFrame, subscribed: DataFrame, *, now: datetime | None = None, exact: bool = False
) -> DataFrame:
    """Return one row a topic with stored publications or durable subscribers.

    `published` is the answer of `publications`, `subscribed` that of `subscribers`. The store does not have subscribers
    that are not durable.
    """
    status = F.col("status")
    is_waiting = F.col("ended").isNull()
    taken = F.when(status == "PROCESSED", F.col("seconds_to_end"))
    by_topic = published.groupBy("database", "topic").agg(
        F.count(F.lit(1)).alias("publications"),
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.approx_count_distinct("publisher").alias("publishers"),
        F.count_if(is_waiting).alias("waiting"),
        F.sum(F.when(is_waiting, F.col("bytes"))).alias("waiting_bytes"),
        F.count_if(status == "PROCESSED").alias("processed"),
        F.count_if(status == "TIMEOUT").alias("timed_out"),
        F.count_if(status == GONE).alias("gone"),
        percentiles(taken, SHARES, exact=exact).alias("taken"),
        F.max(taken).alias("max_seconds"),
        F.min(F.when(is_waiting, F.col("committed"))).alias("oldest_committed"),
    )
    is_there = F.col("ended").isNull()
    by_subscribers = subscribed.groupBy("database", "topic").agg(
        F.count_if(is_there).alias("subscribers"),
        F.count_if(is_there & (F.col("lag_publications") > 0)).alias("subscribers_behind"),
        F.max(F.when(is_there, F.col("lag_publications"))).alias("lag_publications_max"),
        F.max(F.when(is_there, F.col("lag_seconds"))).alias("lag_seconds_max"),
        F.count_if(~is_there).alias("subscribers_ended"),
    )
    shares = {f"p{share * 100:.0f}_seconds": F.col("taken")[at] for at, share in enumerate(SHARES)}
    return by_topic.join(by_subscribers, ["database", "topic"], "full").withColumns(
        {
            **{name: F.coalesce(name, F.lit(0)) for name in _COUNTS},
            "lag_seconds_max": F.coalesce("lag_seconds_max", F.lit(0.0)),
            **shares,
            "oldest_age_seconds": age("oldest_committed", now),
        }
    )


_COUNTS = (
    *("publications", "messages", "bytes", "publishers", "waiting", "waiting_bytes", "processed", "timed_out", "gone"),
    *("subscribers", "subscribers_behind", "lag_publications_max", "subscribers_ended"),
)
