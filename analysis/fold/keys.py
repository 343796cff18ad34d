"""What was done to the keys of the application: the latest version of each, and how much over time."""

from collections.abc import Callable

import numpy as np

from oms_journal.analysis.fold.figures import KINDS, Numbers
from oms_journal.analysis.fold.operations import Operations
from oms_journal.analysis.fold.tallies import Tally
from oms_journal.analysis.reading.columns import clamped
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.operations import ENGINE_PREFIX, Operation

Version = tuple[int, int, bool]  # of a key: sequence of its file, time in microseconds, and whether it is there
_ENGINE = ENGINE_PREFIX.encode()


def of_application(operations: Operations, names: list[bytes]) -> tuple[Numbers, Numbers]:
    """Return the places of what was done to keys, the engine's own left out, and which name each is."""
    places = operations.where(operations.kinds >= Operation.PUT)
    if not len(places):
        return places, places
    named = operations.of("name", places)
    is_ours = np.array([not name.startswith(_ENGINE) for name in names], np.bool_)[named]
    return places[is_ours], named[is_ours]


def count_keys(rate: Tally, operations: Operations, names: list[bytes], every: int) -> None:
    """Count what was done to keys, but for what compaction wrote again; the group is the operation."""
    places, _ = of_application(operations, names)
    places = places[operations.of("flags", places) & MOVED == 0]
    kinds = operations.of("kind", places)
    sizes = np.where(kinds == Operation.PUT, operations.of("size", places), 0)
    rate.add(kinds, clamped(operations.of("time", places)) // every, (1, sizes))


def count_operations(
    counts: Tally, operations: Operations, names: list[bytes], queue_of: Callable[[Numbers], Numbers]
) -> None:
    """Count operations by queue and kind, each by itself: nothing is matched with anything.

    The group is KINDS times the queue's number plus 1, 0 for keys, and the operation; there is one bucket. Rows are
    added up by name and operation first, and only these sums are looked at one by one.
    """
    cells = operations.column("name") * KINDS + operations.kinds
    rows = np.bincount(cells, minlength=len(names) * KINDS)
    how_many, flags = operations.column("count"), operations.column("flags")
    operations_count = rows
    if len(how_many) and how_many.max() > 1:
        operations_count = np.bincount(cells, np.maximum(how_many, 1), len(rows)).astype(np.int64)
    is_moved = flags & MOVED != 0
    moved = np.bincount(cells[is_moved], minlength=len(rows)) if is_moved.any() else np.zeros_like(rows)
    sizes = np.bincount(cells, operations.column("size"), len(rows)).astype(np.int64)
    is_engine = np.repeat([name.startswith(_ENGINE) for name in names], KINDS)
    found = np.flatnonzero(rows)
    named, kinds = found // KINDS, found % KINDS
    is_wanted = (kinds < Operation.PUT) | ~is_engine[found]
    found, named, kinds = found[is_wanted], named[is_wanted], kinds[is_wanted]
    groups, is_queue = np.zeros(len(found), np.int64), kinds < Operation.PUT
    groups[is_queue] = queue_of(named[is_queue]) + 1
    sizes = np.where((kinds == Operation.ADD) | (kinds == Operation.PUT), sizes[found], 0)
    counts.add(groups * KINDS + kinds, np.zeros(len(found), np.int64), (operations_count[found], moved[found], sizes))


def latest_versions(operations: Operations, names: list[bytes], sequence: int) -> dict[bytes, Version]:
    """Return the last thing that a file says of each key."""
    places, named = of_application(operations, names)
    if not len(places):
        return {}
    last = np.zeros(len(names), np.int64)
    np.maximum.at(last, named, np.arange(1, len(named) + 1))
    keys = np.flatnonzero(last)
    places = places[last[keys] - 1]
    times = clamped(operations.of("time", places)).tolist()
    is_put = (operations.of("kind", places) == Operation.PUT).tolist()
    return {
        names[key]: (sequence, time, is_there) for key, time, is_there in zip(keys.tolist(), times, is_put, strict=True)
    }
