"""How long units of work stay in each status: every stay as a row, where the status is persistent."""

import numpy as np
import pyarrow as pa

from oms_journal.analysis.broker.answers import UOW_STAYS
from oms_journal.analysis.broker.columns import SERVICE
from oms_journal.analysis.broker.records import DROPPED, Start, Trail, is_behind
from oms_journal.analysis.broker.scan import Store
from oms_journal.analysis.broker.units import STATUSES, flagged, queues_of
from oms_journal.analysis.fold.arrays import in_order, made, same, seconds, texts, together
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.messages import Columns, some
from oms_journal.broker.records import Flag, RecordKind, Status


def uow_stays(store: Store) -> pa.Table:
    """Return one row for each time that a unit of work with persistent status came into a status.

    If clean-up has removed the first records of a unit of work, the answer begins with its oldest record. It takes the
    first stay to begin with the last change that this record tells of. A restart writes no record of a unit of work.
    The answer takes it to end a stay in DELIVERED, and to begin one in ACCEPTED.
    """
    found = [_of(database, trail) for database, trail in store.records.in_order()]
    return together(UOW_STAYS, [table for table in found if len(table)])


def _of(database: str | None, trail: Trail) -> pa.Table:
    of_kind = trail.of(RecordKind.UOW)
    if not of_kind.moments:
        return pa.table({})
    every = {name: np.concatenate([chunk[name] for chunk in of_kind.moments]) for name in of_kind.moments[0]}
    moments = _with_restarts(_told(every), trail.starts())
    keys, status = moments["key"], moments["status"]
    is_change = np.append(True, (keys[1:] != keys[:-1]) | (status[1:] != status[:-1]))[: len(keys)]
    moments = some(moments, is_change)
    keys, since = moments["key"], moments["changed"]
    has_next = np.append(keys[1:] == keys[:-1], False)[: len(keys)]
    until = np.append(since[1:], 0)[: len(since)]
    is_stay = moments["status"] != DROPPED
    moments, has_next, since, until = some(moments, is_stay), has_next[is_stay], since[is_stay], until[is_stay]
    table = made(
        UOW_STAYS,
        {
            "database": same(database, len(since)),
            "uowid": texts(of_kind.keys.texts, moments["key"]),
            "queue": queues_of(trail, moments[SERVICE], flagged(moments, Flag.FROM_SERVER)),
            "status": texts(STATUSES, moments["status"]),
            "since": (since, since != 0),
            "until": (until, has_next),
            "seconds": (seconds(since, until), has_next),
        },
    )
    return in_order(table, ("uowid", "since"))


def _told(every: Columns) -> Columns:
    """Return what tells of stays, in the order of the journal, unit by unit.

    What compaction wrote again tells something only where the record itself is not there any more. A DROP tells
    something of units of work of which a record is there.
    """
    every = some(every, flagged(every, Flag.STATUS_PERSISTENT))
    every = some(every, np.lexsort((every["offset"], every["sequence"], every["key"])))
    is_record, keys = every["status"] != DROPPED, every["key"]
    begins = _begins(keys)
    last = np.maximum.accumulate(np.where(is_record, np.arange(len(keys)), -1))  # the record that a row goes by
    first = np.maximum.accumulate(np.where(begins, np.arange(len(keys)), 0))
    has_record = last >= first
    for name in (SERVICE, "flags"):
        every[name] = every[name][last]
    return some(every, has_record & (~every["moved"] | begins))


def _begins(keys: Numbers) -> Mask:
    found = np.ones(len(keys), np.bool_)
    found[1:] = keys[1:] != keys[:-1]
    return found


def _with_restarts(moments: Columns, starts: list[Start]) -> Columns:
    """Return the moments with one in ACCEPTED behind each in DELIVERED during which the broker was started."""
    count = len(moments["key"])
    following = np.append(moments["key"][1:] == moments["key"][:-1], False)[:count]
    after = {name: np.append(moments[name][1:], 0)[:count] for name in ("sequence", "offset")}
    is_left = moments["status"] == Status.DELIVERED  # and no start has been found yet
    rows, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in starts:
        place: Columns = {name: np.full(count, value) for name, value in start.place._asdict().items()}
        is_later = np.where(moments["moved"], start.time > moments["changed"], is_behind(place, moments))
        found = np.flatnonzero(is_left & is_later & (~following | is_behind(after, place)))
        is_left[found] = False
        rows.append(found)
        times.append(np.full(len(found), start.time))
    again = np.concatenate(rows)
    both = {name: np.concatenate((values, values[again])) for name, values in moments.items()}
    both["status"][count:] = Status.ACCEPTED
    both["changed"][count:] = np.concatenate(times)
    return some(both, np.argsort(np.append(np.arange(count), again), kind="stable"))
