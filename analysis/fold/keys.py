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

    The group is KINDS times the queue's number plus 1, 0 for keys, and the operation; there is one bucket.
    """
    of_messages, on_keys = operations.where(operations.kinds < Operation.PUT), of_application(operations, names)[0]
    queues = queue_of(operations.of("name", of_messages)) + 1
    places, groups = np.append(of_messages, on_keys), np.append(queues, np.zeros(len(on_keys), np.int64))
    kinds = operations.of("kind", places)
    sizes = np.where((kinds == Operation.ADD) | (kinds == Operation.PUT), operations.of("size", places), 0)
    moved = (operations.of("flags", places) & MOVED != 0).astype(np.int64)
    how_many = np.maximum(operations.of("count", places), 1)
    counts.add(groups * KINDS + kinds, np.zeros(len(places), np.int64), (how_many, moved, sizes))


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
