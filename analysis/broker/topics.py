"""Publish and subscribe: what became of publications, and how far each durable subscriber is behind.

`now` in microseconds since 1970.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.broker.answers import PUBLICATIONS, SUBSCRIBERS, TOPICS
from oms_journal.analysis.broker.records import Trail
from oms_journal.analysis.broker.scan import Ends, Store, dropped
from oms_journal.analysis.broker.services import quantiles
from oms_journal.analysis.broker.units import GONE, STATUSES, identifiers, said
from oms_journal.analysis.fold.arrays import (
    floats,
    in_order,
    is_any,
    made,
    numbers,
    ranks,
    same,
    seconds,
    texts,
    there,
    together,
    whole,
)
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.groups import Groups
from oms_journal.analysis.reading.schema import Micros
from oms_journal.broker.records import RecordKind, Status

_LONG_MAX = (1 << 63) - 1
_KEYS = ("database", "topic")
_NOBODY = np.iinfo(np.int64).max


def publications(store: Store) -> pa.Table:
    """Return one row a publication that the store had.

    The store has a publication if it had a subscriber at its commit.
    """
    found = [_published(database, trail, store.ends) for database, trail in store.records.in_order()]
    return together(PUBLICATIONS, [table for table in found if len(table)])


def subscribers(store: Store, published: pa.Table, *, now: Micros) -> pa.Table:
    """Return one row a durable subscription: how far it is behind, from the table of the publications.

    Nobody waits any more for a publication that has timed out. A subscription that has ended is not behind. Ages are
    reckoned up to `now`.
    """
    waiting = published.filter(pc.is_null(published["ended"]))
    found = [_subscribed(database, trail, waiting, now) for database, trail in store.records.in_order()]
    return together(SUBSCRIBERS, [table for table in found if len(table)])


def topics(published: pa.Table, subscribed: pa.Table, *, now: Micros, exact: bool = False) -> pa.Table:
    """Return one row a topic with stored publications or durable subscribers.

    From the tables of the publications and of the subscribers. The store does not have others than durable subscribers.
    """
    count, more = len(published), len(subscribed)
    both = pa.concat_tables([each.select(_KEYS) for each in (published, subscribed)])
    groups = Groups(both, _KEYS)
    is_publication = np.arange(len(both)) < count

    def of_publications(values: npt.NDArray[np.int64], rest: int = 0) -> Numbers:
        return np.append(values, np.full(more, rest, np.int64))

    def where(values: Mask) -> Mask:
        return np.append(values, np.zeros(more, np.bool_))

    def of_subscribers(values: Mask) -> Mask:
        return np.append(np.zeros(count, np.bool_), values)

    is_waiting, is_done = ~there(published["ended"]), is_any(published["status"], ("PROCESSED",))
    taken = np.append(floats(published["seconds_to_end"]), np.zeros(more))
    committed = of_publications(numbers(published["committed"]))
    oldest = groups.lowest(committed, where(is_waiting & there(published["committed"])))
    is_there, lags = ~there(subscribed["ended"]), numbers(subscribed["lag_publications"])
    lag_seconds = np.append(np.zeros(count), floats(subscribed["lag_seconds"]))
    farthest = groups.highest(np.append(np.zeros(count, np.int64), lags), of_subscribers(is_there))
    return made(
        TOPICS,
        {
            **{name: groups.named(name) for name in _KEYS},
            "publications": groups.counted(is_publication),
            **{name: groups.summed(of_publications(numbers(published[name]))) for name in ("messages", "bytes")},
            "publishers": groups.distinct(of_publications(ranks(published["publisher"]), -1)),
            "waiting": groups.counted(where(is_waiting)),
            "waiting_bytes": groups.summed(of_publications(numbers(published["bytes"])), where(is_waiting)),
            "processed": groups.counted(where(is_done)),
            "timed_out": groups.counted(where(is_any(published["status"], ("TIMEOUT",)))),
            "gone": groups.counted(where(is_any(published["status"], (GONE,)))),
            **quantiles(groups, taken, where(is_done & there(published["seconds_to_end"])), exact=exact),
            "oldest_committed": oldest,
            "oldest_age_seconds": (seconds(oldest[0], np.full(groups.count, now)), oldest[1]),
            "subscribers": groups.counted(of_subscribers(is_there)),
            "subscribers_behind": groups.counted(of_subscribers(is_there & (lags > 0))),
            "lag_publications_max": np.where(farthest[1], farthest[0], 0),
            "lag_seconds_max": groups.longest(lag_seconds, of_subscribers(is_there))[0],
            "subscribers_ended": groups.counted(of_subscribers(~is_there)),
        },
    )


def _published(database: str | None, trail: Trail, ends: Ends) -> pa.Table:
    of_kind = trail.of(RecordKind.PUBLICATION)
    records = of_kind.records.rows()
    count = len(records["key"])
    if not count:
        return pa.table({})
    is_dropped, drops = dropped(records, of_kind.drops)
    first, committed = records["first"].astype(np.int64), records["committed"]
    is_ended, last = ends.of(database, first)
    is_at_once = (last["sequence"] == drops["sequence"]) & (last["offset"] == drops["offset"])
    status = np.select(
        [~is_dropped, is_ended & last["is_delivered"], is_ended & is_at_once],
        [records["status"].astype(np.int64), np.int64(Status.PROCESSED), np.int64(Status.TIMEOUT)],
        np.int64(STATUSES.index(GONE)),
    )
    known = trail.names.texts
    table = made(
        PUBLICATIONS,
        {
            "database": same(database, count),
            "publication_id": texts(of_kind.keys.texts, records["key"]),
            "topic": texts(known, records["topic"]),
            "publisher": texts(known, records["user"]),
            "status": texts(STATUSES, status),
            "user_status": said(known, records["ustatus"]),
            "messages": records["messages"],
            "bytes": records["size"],
            "lifetime": records["lifetime"],
            "first_message": first,
            "created": (records["created"], records["created"] != 0),
            "committed": (committed, committed != 0),
            "ended": (drops["time"], is_dropped),
            "seconds_to_end": (seconds(committed, drops["time"]), is_dropped & (committed != 0)),
        },
    )
    return in_order(table, ("publication_id",))


def _subscribed(database: str | None, trail: Trail, waiting: pa.Table, now: Micros) -> pa.Table:
    of_kind = trail.of(RecordKind.SUBSCRIPTION)
    records = of_kind.records.rows()
    count = len(records["key"])
    if not count:
        return pa.table({})
    is_dropped, drops = dropped(records, of_kind.drops)
    lags, since = _lags(trail, np.where(is_dropped, -1, records["topic"]), _of_database(waiting, database))
    known, active, is_behind = trail.names.texts, records["active"], lags[0] > 0
    commits = np.bincount(of_kind.commits["key"], minlength=len(of_kind.keys.texts))
    table = made(
        SUBSCRIBERS,
        {
            "database": same(database, count),
            "subscription_id": texts(of_kind.keys.texts, records["key"]),
            "topic": texts(known, records["topic"]),
            "user": texts(known, records["user"]),
            "token": said(known, records["token"]),
            "subscribed": (records["subscribed"], records["subscribed"] != 0),
            "active": (active, active != 0),
            "ended": (drops["time"], is_dropped),
            "expiration": records["expiration"],
            "acknowledgements": commits[records["key"]],
            "last_acknowledged": identifiers(records["last_committed"]),
            "position": records["position"],
            "lag_publications": lags[0],
            "lag_messages": lags[1],
            "lag_bytes": lags[2],
            "lag_since": (since, is_behind),
            "lag_seconds": np.where(is_behind, seconds(since, np.full(count, now)), 0.0),
            "idle_seconds": (seconds(active, np.full(count, now)), ~is_dropped & (active != 0)),
        },
    )
    return in_order(table, ("subscription_id",))


def _of_database(waiting: pa.Table, database: str | None) -> pa.Table:
    column = waiting["database"]
    return waiting.filter(pc.is_null(column) if database is None else pc.equal(column, database))


def _lags(trail: Trail, topics_: Numbers, waiting: pa.Table) -> tuple[list[Numbers], Numbers]:
    """Return for each subscription to a topic, -1 for none, what it is still to acknowledge, and since when.

    How many publications, how many messages and bytes of theirs, and the earliest commit.
    """
    records = trail.of(RecordKind.SUBSCRIPTION).records.rows()
    places = {text: place for place, text in enumerate(trail.names.texts)}
    topic = np.array([places.get(text, -2) for text in whole(waiting["topic"]).to_pylist()], np.int64)
    first, messages, size, committed = (
        numbers(waiting[name]) for name in ("first_message", "messages", "bytes", "committed")
    )
    lags, since = [np.zeros(len(topics_), np.int64) for _ in range(3)], np.full(len(topics_), _NOBODY)
    for place, (wanted, position) in enumerate(
        zip(topics_.tolist(), records["position"].astype(np.int64).tolist(), strict=True)
    ):
        rows = np.flatnonzero((topic == wanted) & (first > position))
        rows = rows[~_is_in(records["acknowledged"][place], first[rows])]
        for lag, found in zip(lags, (len(rows), messages[rows].sum(), size[rows].sum()), strict=True):
            lag[place] = found
        if len(rows):
            since[place] = committed[rows].min()
    return lags, since


def _is_in(acknowledged: Numbers, wanted: Numbers) -> Mask:
    """Say whether numbers are in one of the ranges: their ends, with 2^63 added, are negative (broker-records.md)."""
    if not len(acknowledged):
        return np.zeros(len(wanted), np.bool_)
    ends = acknowledged & _LONG_MAX
    places = np.searchsorted(ends, wanted)
    following = acknowledged[np.minimum(places, len(ends) - 1)]
    found: Mask = (places < len(ends)) & ((following < 0) | (following == wanted))
    return found
