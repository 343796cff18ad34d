"""Units of work by service: what became of them, how long they waited, where they are, what was tried in vain.

From the tables of the units of work and of their stays; `now` in microseconds since 1970.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.broker.answers import UOW_ATTEMPTS, UOW_FAILURES, UOW_SERVICES, UOW_STATUSES
from oms_journal.analysis.broker.units import FAILED, WAITING
from oms_journal.analysis.fold.answers import schema_of
from oms_journal.analysis.fold.arrays import Floats, floats, is_any, made, mask, numbers, ranks, seconds, there, whole
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.groups import Groups
from oms_journal.analysis.reading.schema import Micros

SHARES = ("p50_seconds", "p90_seconds", "p99_seconds")
_BY_QUEUE = ("database", "queue")
_COUNTED = {
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


def uow_services(units: pa.Table, *, now: Micros, exact: bool = False) -> pa.Table:
    """Return one row a queue of a service. With `exact` a percentile may lie between two times."""
    groups, attempts = Groups(units, _BY_QUEUE), numbers(units["attempts"])
    is_waiting, is_done = is_any(units["status"], WAITING), is_any(units["status"], ("PROCESSED",))
    committed, names = numbers(units["committed"]), ranks(units["uowid"])
    taken, was_taken = floats(units["seconds_to_end"]), is_done & there(units["seconds_to_end"])
    waited, was_received = floats(units["seconds_to_receive"]), there(units["seconds_to_receive"])
    oldest = groups.first([committed, names], is_waiting)
    since = groups.taken("committed", oldest)
    received = groups.shares(waited, was_received, (0.5, 0.99), exact=exact)
    return made(
        UOW_SERVICES,
        {
            **{name: groups.named(name) for name in _BY_QUEUE},
            "units": groups.counted(),
            "messages": groups.summed(numbers(units["messages"])),
            "bytes": groups.summed(numbers(units["bytes"])),
            "with_status": groups.counted(mask(units["has_status"])),
            "waiting": groups.counted(is_waiting),
            **{name: groups.counted(is_any(units["status"], (status,))) for name, status in _COUNTED.items()},
            "attempts": groups.summed(attempts),
            "tried_again": groups.counted(attempts > 0),
            "attempts_max": groups.highest(attempts),
            **quantiles(groups, taken, was_taken, exact=exact),
            "receive_p50_seconds": received[0],
            "receive_p99_seconds": received[1],
            "oldest": groups.taken("uowid", oldest),
            "oldest_committed": since,
            "oldest_age_seconds": age(since, now),
        },
    )


def uow_statuses(units: pa.Table, stays: pa.Table, *, exact: bool = False) -> pa.Table:
    """Return one row a queue and status.

    Only with a persistent status you know how long units of work stay in it. Without one, a unit that waits and a unit
    that a receiver has are both ACCEPTED.
    """
    keys, count = ("database", "queue", "status"), len(units)
    both = pa.concat_tables([each.select(keys) for each in (units, stays)])
    groups, is_unit = Groups(both, keys), np.arange(len(both)) < count
    has_left = np.append(np.zeros(count, np.bool_), there(stays["seconds"]))
    stayed = np.append(np.zeros(count), floats(stays["seconds"]))
    changed = _padded(numbers(pc.coalesce(whole(units["ended"]), whole(units["changed"]))), len(stays))
    was_changed = is_unit & (changed != 0)
    table = made(
        UOW_STATUSES,
        {
            **{name: groups.named(name) for name in keys},
            "units": groups.counted(is_unit),
            **{name: groups.summed(_padded(numbers(units[name]), len(stays))) for name in ("messages", "bytes")},
            "first_changed": groups.lowest(changed, was_changed),
            "last_changed": groups.highest(changed, was_changed),
            "stays": groups.counted(has_left),
            **quantiles(groups, stayed, has_left, exact=exact),
        },
    )
    return table.filter(pc.or_(pc.greater(table["units"], 0), pc.greater(table["stays"], 0)))


def uow_attempts(units: pa.Table) -> pa.Table:
    """Return how many units of work of each queue had how many deliveries in vain.

    A receiver's backout counts as one. So does the end of a lifetime.
    """
    keys = (*_BY_QUEUE, "attempts")
    groups = Groups(units, keys)
    return made(
        UOW_ATTEMPTS,
        {
            **{name: groups.named(name) for name in keys},
            "units": groups.counted(),
            "waiting": groups.counted(is_any(units["status"], WAITING)),
            "processed": groups.counted(is_any(units["status"], ("PROCESSED",))),
            "failed": groups.counted(is_any(units["status"], FAILED)),
            "postpones": groups.summed(numbers(units["postpones"])),
        },
    )


def uow_failures(units: pa.Table) -> pa.Table:
    """Return the units of work that ended and were not processed."""
    failed = units.filter(pa.array(is_any(units["status"], FAILED)))
    return failed.select(list(UOW_FAILURES)).cast(schema_of(UOW_FAILURES))


def quantiles(groups: Groups, values: Floats, mask_: Mask, *, exact: bool) -> dict[str, tuple[Floats, Mask]]:
    """Return the columns of three shares and of the longest."""
    found = dict(zip(SHARES, groups.shares(values, mask_, exact=exact), strict=True))
    return found | {"max_seconds": groups.longest(values, mask_)}


def age(since: pa.Array, now: Micros) -> tuple[Floats, Mask]:
    """Return how many seconds ago times were; 0 for one in the future, nothing where there is none."""
    times = numbers(since)
    return seconds(times, np.full(len(times), now)), there(since)


def _padded(values: Numbers, count: int) -> Numbers:
    return np.append(values, np.zeros(count, np.int64))
