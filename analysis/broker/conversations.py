"""Conversations of units of work: who talks with which service, how long, and what is open in them.

From the table of the units of work; `now` in microseconds since 1970.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.broker.answers import CONVERSATION_SERVICES, CONVERSATIONS
from oms_journal.analysis.broker.services import age, quantiles
from oms_journal.analysis.broker.units import FAILED, WAITING
from oms_journal.analysis.fold.arrays import floats, is_any, made, mask, numbers, ranks, seconds, there, whole
from oms_journal.analysis.fold.figures import Mask
from oms_journal.analysis.fold.groups import Groups
from oms_journal.analysis.reading.schema import Micros

_KEYS = ("database", "conv_id", "service")
_BY_SERVICE = ("database", "service")


def conversations(units: pa.Table) -> pa.Table:
    """Return one row a conversation.

    The answer tells the end of a conversation if a unit of work of it was still to come when it ended.
    """
    groups, is_reply = Groups(units, _KEYS), mask(units["is_reply"])
    is_waiting, is_done = is_any(units["status"], WAITING), is_any(units["status"], ("PROCESSED",))
    changed = pc.coalesce(whole(units["ended"]), whole(units["changed"]))
    begun = pc.coalesce(whole(units["begun"]), whole(units["created"]))
    first, was_begun = groups.lowest(numbers(begun), there(begun))
    last, was_changed = groups.highest(numbers(changed), there(changed))
    is_over = ~is_any(units["state"], ("OPEN",)) & there(changed)
    end = groups.last([numbers(changed), ranks(units["uowid"])], is_over)
    people = pa.table({"who": whole(units["sender"]), "else": whole(units["receiver"])})
    client = pc.if_else(pa.array(is_reply), people["else"], people["who"])
    server = pc.if_else(pa.array(is_reply), people["who"], people["else"])
    waiting, replies = groups.counted(is_waiting & ~is_reply), groups.counted(is_waiting & is_reply)
    return made(
        CONVERSATIONS,
        {
            **{name: groups.named(name) for name in _KEYS},
            "client": _highest(groups, client, np.ones(len(units), np.bool_)),
            "server": _highest(groups, server, is_reply | is_done),
            "units": groups.counted(~is_reply),
            "replies": groups.counted(is_reply),
            **{name: groups.summed(numbers(units[name])) for name in ("messages", "bytes", "attempts")},
            "waiting": waiting,
            "waiting_replies": replies,
            "failed": groups.counted(is_any(units["status"], FAILED)),
            "begun": (first, was_begun),
            "last": (last, was_changed),
            "seconds": (seconds(first, last), was_begun & was_changed),
            "state": pc.fill_null(groups.taken("state", end), "OPEN"),
            "reason": groups.taken("reason", end),
            "is_open": waiting + replies > 0,
        },
    )


def conversation_services(talks: pa.Table, *, now: Micros, exact: bool = False) -> pa.Table:
    """Return one row a service, from the table of the conversations."""
    groups, is_open = Groups(talks, _BY_SERVICE), mask(talks["is_open"])
    both = numbers(talks["units"]) + numbers(talks["replies"])
    oldest = groups.first([ranks(talks["begun"]), ranks(talks["conv_id"])], is_open)
    since, count = groups.taken("begun", oldest), groups.counted()
    return made(
        CONVERSATION_SERVICES,
        {
            **{name: groups.named(name) for name in _BY_SERVICE},
            "conversations": count,
            "open": groups.counted(is_open),
            "answered": groups.counted(numbers(talks["replies"]) > 0),
            "ended": groups.counted(~is_any(talks["state"], ("OPEN",))),
            "cancelled": groups.counted(is_any(talks["state"], ("EOC_CANCEL",))),
            "units_mean": groups.summed(both) / np.maximum(count, 1),
            "units_max": groups.highest(both),
            **quantiles(groups, floats(talks["seconds"]), ~is_open & there(talks["seconds"]), exact=exact),
            "oldest": groups.taken("conv_id", oldest),
            "oldest_begun": since,
            "oldest_age_seconds": age(since, now),
        },
    )


def _highest(groups: Groups, names: pa.ChunkedArray, rows: Mask) -> pa.Array:
    """Return the last text by the alphabet of each group; null where there is none."""
    names = whole(names)
    found = groups.last([ranks(names)], rows & there(names))
    padded = pa.concat_arrays([names, pa.nulls(1, names.type)])
    return padded.take(pa.array(np.where(found < 0, len(names), found)))
