"""What became of each unit of work that left a trace in the store: one row a unit.

    unit of work is       leaves a trace
    persistent            from its sender's commit until it is complete: what became of it then is seen from
                          what became of its messages
    with persistent       from its first message on, with every status and when it came, also for a while
    status                beyond its end
    neither               none

A restart makes DELIVERED units of work ACCEPTED again without a word, and so does the answer here.
"""

import numpy as np
import pyarrow as pa

from oms_journal.analysis.broker.answers import UNITS_OF_WORK
from oms_journal.analysis.broker.columns import SERVICE
from oms_journal.analysis.broker.records import Trail, is_behind
from oms_journal.analysis.broker.scan import COMPLETE, Ends, Store, dropped
from oms_journal.analysis.fold.arrays import in_order, made, same, seconds, texts, together
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.messages import Columns
from oms_journal.broker.records import ConversationState, Flag, RecordKind, Status, identifier

REMOVED, GONE = "REMOVED", "GONE"  # as far as it is known of one without a persistent status
WAITING = ("ACCEPTED", "DELIVERED", "POSTPONED")  # committed, and not complete
FAILED = ("BACKEDOUT", "CANCELLED", "TIMEOUT", "DISCARDED", REMOVED, GONE)
NAMES = ["", *(Status(number).name if number in list(Status) else "" for number in range(1, max(Status) + 1))]
STATUSES = [*NAMES, REMOVED, GONE]  # by number
_NEVER = np.iinfo(np.int64).max


def units_of_work(store: Store) -> pa.Table:
    """Return one row a unit of work: what is known of it.

    If clean-up has let go of all of a unit of work but its end, the answer leaves it out.
    """
    found = [_of(database, trail, store.ends) for database, trail in store.records.in_order()]
    return together(UNITS_OF_WORK, [table for table in found if len(table)])


def queues_of(trail: Trail, services: Numbers, is_reply: Mask) -> pa.Array:
    """Return the queues that the messages of units of work go to; null where the service is not known."""
    names = [text for service in trail.names.texts for text in (service, f"{service}/reply")]
    return texts(names, np.where(services < 0, -1, 2 * services.astype(np.int64) + is_reply))


def flagged(records: Columns, flag: Flag) -> Mask:
    """Say of each record whether it has a flag."""
    found: Mask = (records["flags"] & np.uint8(flag)) != 0
    return found


def identifiers(values: Numbers) -> pa.Array:
    """Return numbers of heads as the identifiers that they stand for; null for none."""
    known, places = np.unique(values, return_inverse=True)
    return texts([identifier(number) or None for number in known.tolist()], places)


def said(known: list[str], places: Numbers) -> pa.Array:
    """Return texts by their places; null for empty ones."""
    return texts([text or None for text in known], places)


def _of(database: str | None, trail: Trail, ends: Ends) -> pa.Table:
    of_kind = trail.of(RecordKind.UOW)
    records = of_kind.records.rows()
    count = len(records["key"])
    if not count:
        return pa.table({})
    is_dropped, drops = dropped(records, of_kind.drops)
    is_complete = np.isin(records["status"], COMPLETE)
    is_reply, committed, changed = flagged(records, Flag.FROM_SERVER), records["committed"], records["changed"]
    received = _received(trail, count)
    ended = np.where(is_complete, changed, drops["time"])
    has_ended, has_committed, was_received = is_complete | is_dropped, committed != 0, received != _NEVER
    known = trail.names.texts
    is_timeout = records["status"] == Status.TIMEOUT
    table = made(
        UNITS_OF_WORK,
        {
            "database": same(database, count),
            "uowid": texts(of_kind.keys.texts, records["key"]),
            "conv_id": identifiers(records["conv_id"]),
            "queue": queues_of(trail, records[SERVICE], is_reply),
            "service": texts(known, records[SERVICE]),
            "is_reply": is_reply,
            "sender": texts(known, records["sender_user"]),
            "receiver": said(known, records["receiver_user"]),
            "is_persistent": flagged(records, Flag.PERSISTENT),
            "has_status": flagged(records, Flag.STATUS_PERSISTENT),
            "status": texts(
                STATUSES, _statuses(trail, records, ends.of(database, _first(records)), (is_dropped, drops))
            ),
            "user_status": said(known, records["ustatus"]),
            "attempts": records["adcount"].astype(np.int64) - is_timeout,
            **{name: records[name] for name in ("postpones", "messages", "lifetime")},
            "bytes": records["size"],
            "first_message": (_first(records), records["first"] != 0),
            "state": texts([state.name for state in ConversationState], records["state"]),
            "reason": _reasons(records["eoc_reason"]),
            "created": (records["created"], records["created"] != 0),
            "committed": (committed, has_committed),
            "begun": (records["begun"], records["begun"] != 0),
            "received": (received, was_received),
            "changed": (changed, changed != 0),
            "ended": (ended, has_ended & (~is_complete | (changed != 0))),
            "forgotten": (drops["time"], is_dropped),
            "seconds_to_receive": (seconds(committed, received), has_committed & was_received),
            "seconds_to_end": (seconds(committed, ended), has_committed & has_ended),
        },
    )
    return in_order(table, ("uowid",))


def _first(records: Columns) -> Numbers:
    return records["first"].astype(np.int64)


def _received(trail: Trail, count: int) -> Numbers:
    """Return when each unit of work, which are as many as their keys at most, was received first."""
    of_kind = trail.of(RecordKind.UOW)
    found = np.full(len(of_kind.keys.texts), _NEVER)
    for chunk in of_kind.moments:
        is_received = (chunk["status"] == Status.DELIVERED) & (chunk["changed"] != 0)
        np.minimum.at(found, chunk["key"][is_received], chunk["changed"][is_received])
    return found[of_kind.records.rows()["key"]]


def _statuses(trail: Trail, records: Columns, end: tuple[Mask, Columns], drop: tuple[Mask, Columns]) -> Numbers:
    """Return the number of each unit's status."""
    (is_ended, ends), (is_dropped, drops) = end, drop
    starts = trail.starts()
    has_restarted = np.zeros(len(records["key"]), np.bool_)
    if starts:
        last = starts[-1]
        place: Columns = {name: np.full(len(has_restarted), value) for name, value in last.place._asdict().items()}
        # The place of what compaction wrote again says nothing of when it was so.
        is_later = np.where(records["moved"], last.time > records["changed"], is_behind(place, records))
        has_restarted = (records["status"] == Status.DELIVERED) & is_later
    is_at_once = (ends["sequence"] == drops["sequence"]) & (ends["offset"] == drops["offset"])  # an erasure takes
    is_deleted = is_ended & ~ends["is_delivered"] & is_at_once  # a record and its messages one after the other
    found: Numbers = np.select(
        [
            np.isin(records["status"], COMPLETE),
            ~is_dropped & has_restarted,
            ~is_dropped,
            is_ended & ends["is_delivered"],
            is_deleted & (records["lifetime"] == 0),
            is_deleted,
        ],
        [
            records["status"].astype(np.int64),
            np.int64(Status.ACCEPTED),
            records["status"].astype(np.int64),
            np.int64(Status.PROCESSED),
            np.int64(Status.CANCELLED),
            np.int64(STATUSES.index(REMOVED)),
        ],
        np.int64(STATUSES.index(GONE)),
    )
    return found


def _reasons(codes: Numbers) -> pa.Array:
    known, places = np.unique(codes, return_inverse=True)
    return texts([f"0003{code:04}" if code else None for code in known.tolist()], places)
