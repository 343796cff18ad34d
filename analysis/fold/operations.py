"""The operations of one file as the fold takes them: ADDs and ends of messages, and what was done to keys.

Of the application's keys it is the latest version of each, and how much was done to them over time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.fold.figures import KINDS, Mask, Numbers
from oms_journal.analysis.fold.messages import DEAD_LETTERED, NEVER, Columns
from oms_journal.analysis.fold.tallies import Tally
from oms_journal.analysis.reading.columns import clamped, part_of
from oms_journal.analysis.reading.removals import RemovalSets
from oms_journal.journal.format.contents import Contents, Places
from oms_journal.journal.format.records import ATTEMPTS, DUE, EXPIRY, MOVED
from oms_journal.journal.operations import ENGINE_PREFIX, Operation

Version = tuple[int, int, bool]  # of a key: sequence of its file, time in microseconds, and whether it is there
_ENGINE = ENGINE_PREFIX.encode()


class Operations:
    """Some rows of a file's contents; a column is decoded when it is asked for, and only for the rows that have it."""

    def __init__(self, contents: Contents, rows: slice | Numbers) -> None:
        self._contents = contents
        self._rows = rows
        self.kinds = self.narrow("kind")

    def column(self, name: str) -> Numbers:
        """Return a column as signed 64-bit numbers."""
        return part_of(self._contents, name, self._rows)

    def narrow(self, name: str) -> Numbers:
        """Return a column as narrow as the contents have it; unsigned, but for times."""
        return self._contents.part(name, self._rows)

    def where(self, mask: Mask) -> Numbers:
        """Return the places in the contents of the rows that a mask chooses."""
        places = np.flatnonzero(mask)
        if not isinstance(self._rows, slice):
            return self._rows[places]
        return places + self._rows.start if self._rows.start else places

    def adds(self, sequence: int, queue_of: Callable[[Numbers], Numbers]) -> Columns:
        """Return the ADDs; `queue_of` says which queue each name is. A column of one value takes no memory."""
        is_add = self.kinds == Operation.ADD
        rows = is_add if len(is_add) == len(self._contents) else self.where(is_add)
        flags, added = self.narrow_of("flags", rows), clamped(self.of("time", rows))
        is_copy = flags & MOVED != 0
        if is_copy.any():
            added = np.where(is_copy, clamped(self.of("first_time", rows)), added)
        ready = added
        is_delayed = flags & DUE != 0
        if is_delayed.any():
            ready = np.where(is_delayed, np.maximum(added, clamped(self.of("due", rows))), added)
        is_expiring, expiry = flags & EXPIRY != 0, np.broadcast_to(np.int64(NEVER), len(flags))
        if is_expiring.any():
            expiry = np.where(is_expiring, clamped(self.of("expiry", rows)), expiry)
        return {
            "number": self.of("number", rows),
            "queue": queue_of(self.narrow_of("name", rows)),
            "added": added,
            "ready": ready,
            "expiry": expiry,
            "length": self.narrow_of("size", rows),
            "properties": self.narrow_of("properties", rows),
            "sequence": np.broadcast_to(np.int64(sequence), len(flags)),
            "is_copy": is_copy,
        }

    def ends(self, queue_of: Callable[[Numbers], Numbers]) -> Columns:
        """Return the DELIVERs and DELETEs, a row a message; BadRecord where a set is not what its row says."""
        is_end = (self.kinds == Operation.DELIVER) | (self.kinds == Operation.DELETE)
        places, kinds = self.where(is_end), self.kinds[is_end].astype(np.uint8)
        self._mark_dead_lettered(places, kinds)
        queues, times = queue_of(self.narrow_of("name", places)), clamped(self.of("time", places))
        if not self._contents.sets:
            return {"number": self.of("number", places), "queue": queues, "time": times, "kind": kinds}
        counts = self.of("count", places)
        numbers = RemovalSets(self._contents).numbers(places, counts)
        columns = {"queue": queues, "time": times, "kind": kinds}
        return {"number": numbers, **{name: np.repeat(column, counts) for name, column in columns.items()}}

    def _mark_dead_lettered(self, places: Numbers, kinds: npt.NDArray[np.uint8]) -> None:
        """Mark the DELETEs of commits that add dead letters: of all that writes ADDs, no other tells of attempts.

        These ADDs are looked for in all of the file: their queue may be none of those that are chosen.
        """
        is_delete = kinds == Operation.DELETE
        if not is_delete.any():
            return
        flags, of_all = (self.narrow_of(name, slice(0, len(self._contents))) for name in ("flags", "kind"))
        letters = np.flatnonzero((of_all == Operation.ADD) & (flags & (ATTEMPTS | MOVED) == ATTEMPTS))
        if len(letters):
            is_moved = np.isin(self.of("commit", places), self.of("commit", letters))
            kinds[is_delete & is_moved] = DEAD_LETTERED

    def of(self, name: str, places: Places) -> Numbers:
        """Return a column at these places of the contents, as signed 64-bit numbers."""
        return part_of(self._contents, name, places)

    def narrow_of(self, name: str, places: Places) -> Numbers:
        """Return a column at these places of the contents, as narrow as they have it."""
        return self._contents.part(name, places)


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

    The group is KINDS times the queue's number plus 1, 0 for keys, and the operation; there is one bucket. Rows that
    follow one another with the same name and operation are added up first, then these sums by name and operation, and
    only what comes of that is looked at one by one.
    """
    named, kinds = operations.narrow("name"), operations.kinds
    starts = np.flatnonzero(_begins(named) | _begins(kinds))
    cells = named[starts].astype(np.int64) * KINDS + kinds[starts]
    how_many, is_moved = operations.narrow("count"), operations.narrow("flags") & MOVED != 0
    many = np.flatnonzero(how_many > 1)  # in a set
    more = np.bincount(np.searchsorted(starts, many, "right") - 1, how_many[many] - 1.0, len(starts))

    def summed(values: npt.NDArray[Any]) -> Numbers:
        return np.bincount(cells, values, len(names) * KINDS).astype(np.int64)

    def of_runs(column: npt.NDArray[Any]) -> Numbers:
        found: Numbers = np.add.reduceat(column, starts, dtype=np.int64)
        return found

    lengths = np.diff(np.append(starts, len(kinds)))
    rows, operations_count = summed(lengths), summed(lengths + more)
    moved = summed(of_runs(is_moved)) if is_moved.any() else np.zeros_like(rows)
    sizes = summed(of_runs(operations.narrow("size")))
    is_engine = np.repeat(np.array([name.startswith(_ENGINE) for name in names], np.bool_), KINDS)
    found = np.flatnonzero(rows)
    named, kinds = found // KINDS, found % KINDS
    is_wanted = (kinds < Operation.PUT) | ~is_engine[found]
    found, named, kinds = found[is_wanted], named[is_wanted], kinds[is_wanted]
    groups, is_queue = np.zeros(len(found), np.int64), kinds < Operation.PUT
    groups[is_queue] = queue_of(named[is_queue])
    groups[is_queue] += 1
    sizes = np.where((kinds == Operation.ADD) | (kinds == Operation.PUT), sizes[found], 0)
    counts.add(groups * KINDS + kinds, np.zeros(len(found), np.int64), (operations_count[found], moved[found], sizes))


def _begins(values: Numbers) -> Mask:
    """Say of each value whether it is another than the one before."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


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
