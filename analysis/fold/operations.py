"""The operations of one file as the fold takes them: ADDs and ends of messages, and what was done to keys."""

from collections.abc import Callable

import numpy as np

from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.messages import Columns
from oms_journal.analysis.reading.columns import Rows, clamped, part_of
from oms_journal.analysis.reading.removals import RemovalSets
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.records import DUE, MOVED
from oms_journal.journal.operations import Operation


class Operations:
    """Some rows of a file's contents; a column is decoded when it is asked for, and only for the rows that have it."""

    def __init__(self, contents: Contents, rows: Rows) -> None:
        self._contents = contents
        self._rows = rows
        self.kinds = self.column("kind")

    def column(self, name: str) -> Numbers:
        """Return a column."""
        return part_of(self._contents, name, self._rows)

    def where(self, mask: Mask) -> Numbers:
        """Return the places in the contents of the rows that a mask chooses."""
        places = np.flatnonzero(mask)
        if not isinstance(self._rows, slice):
            return self._rows[places]
        return places + self._rows.start if self._rows.start else places

    def adds(self, sequence: int, queue_of: Callable[[Numbers], Numbers]) -> Columns:
        """Return the ADDs; `queue_of` says which queue each name is."""
        places = self.where(self.kinds == Operation.ADD)
        flags, added = self.of("flags", places), clamped(self.of("time", places))
        is_copy = flags & MOVED != 0
        if is_copy.any():
            added = np.where(is_copy, clamped(self.of("first_time", places)), added)
        ready = added
        is_delayed = flags & DUE != 0
        if is_delayed.any():
            ready = np.where(is_delayed, np.maximum(added, clamped(self.of("due", places))), added)
        return {
            "number": self.of("number", places),
            "queue": queue_of(self.of("name", places)),
            "added": added,
            "ready": ready,
            "length": self.of("size", places),
            "properties": self.of("properties", places),
            "sequence": np.full(len(places), sequence, np.int64),
            "is_copy": is_copy,
        }

    def ends(self, queue_of: Callable[[Numbers], Numbers]) -> Columns:
        """Return the DELIVERs and DELETEs, a row a message; BadRecord where a set is not what its row says."""
        is_end = (self.kinds == Operation.DELIVER) | (self.kinds == Operation.DELETE)
        places, kinds = self.where(is_end), self.kinds[is_end].astype(np.uint8)
        queues, times = queue_of(self.of("name", places)), clamped(self.of("time", places))
        if not self._contents.sets:
            return {"number": self.of("number", places), "queue": queues, "time": times, "kind": kinds}
        counts = self.of("count", places)
        numbers = RemovalSets(self._contents).numbers(places, counts)
        columns = {"queue": queues, "time": times, "kind": kinds}
        return {"number": numbers, **{name: np.repeat(column, counts) for name, column in columns.items()}}

    def of(self, name: str, places: Numbers) -> Numbers:
        """Return a column at these places of the contents."""
        return part_of(self._contents, name, places)
