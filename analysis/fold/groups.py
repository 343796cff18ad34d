"""The rows of a table put together by some of its columns: counts, sums, extremes and quantiles of each group."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oms_journal.analysis.fold.arrays import Floats, ranks, whole
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.reading.columns import longs

SHARES = (0.5, 0.9, 0.99)
Found = tuple[Numbers, Mask]  # a value of each group, and whether there is one
_HIGHEST, _LOWEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class Groups:
    """Groups of rows with the same values in some columns, in the order of these; null comes first.

    A mask chooses the rows that count. Values are those of the table's rows.
    """

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        keys = [ranks(table[name]) for name in names]
        self._table = table
        self._order: Numbers = np.lexsort(keys[::-1]).astype(np.int64) if len(table) else np.empty(0, np.int64)
        begins = np.zeros(len(table), np.bool_)
        begins[:1] = True
        for key in keys:
            ordered = key[self._order]
            begins[1:] |= ordered[1:] != ordered[:-1]
        self._starts = np.flatnonzero(begins)
        self.count = len(self._starts)
        self.of_row = np.empty(len(table), np.int64)  # which group each row is in
        self.of_row[self._order] = np.cumsum(begins) - 1

    def named(self, name: str) -> pa.Array:
        """Return a column that all rows of a group have the same value in."""
        return self.taken(name, self._order[self._starts])

    def taken(self, name: str, rows: Numbers) -> pa.Array:
        """Return the values of a column in these rows, one a group; null where the row is -1."""
        column = whole(self._table[name])
        is_there = rows >= 0
        if is_there.all():
            return column.take(longs(rows, pa.int64()))
        padded = pa.concat_arrays([column, pa.nulls(1, column.type)])
        return padded.take(longs(np.where(is_there, rows, len(column)), pa.int64()))

    def counted(self, mask: Mask | None = None) -> Numbers:
        """Return how many rows each group has."""
        rows = self.of_row if mask is None else self.of_row[mask]
        return np.bincount(rows, minlength=self.count).astype(np.int64)

    def summed(self, values: Numbers, mask: Mask | None = None) -> Numbers:
        """Return the sums."""
        if not self.count:
            return np.empty(0, np.int64)
        counted = values if mask is None else np.where(mask, values, 0)
        found: Numbers = np.add.reduceat(counted[self._order].astype(np.int64), self._starts)
        return found

    def lowest(self, values: Numbers, mask: Mask | None = None) -> Found:
        """Return the least value."""
        if not self.count:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        counted = values if mask is None else np.where(mask, values, _HIGHEST)
        found: Numbers = np.minimum.reduceat(counted[self._order], self._starts)
        return found, self.counted(mask) > 0

    def highest(self, values: Numbers, mask: Mask | None = None) -> Found:
        """Return the greatest value."""
        if not self.count:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        counted = values if mask is None else np.where(mask, values, _LOWEST)
        found: Numbers = np.maximum.reduceat(counted[self._order], self._starts)
        return found, self.counted(mask) > 0

    def longest(self, values: Floats, mask: Mask) -> tuple[Floats, Mask]:
        """Return the greatest of numbers with a fraction, none below 0."""
        if not self.count:
            return np.empty(0), np.empty(0, np.bool_)
        found: Floats = np.maximum.reduceat(np.where(mask, values, 0.0)[self._order], self._starts)
        return found, self.counted(mask) > 0

    def first(self, by: Sequence[Numbers], mask: Mask | None = None) -> Numbers:
        """Return the row that comes first by these values; -1 where a group has none."""
        rows = np.arange(len(self.of_row)) if mask is None else np.flatnonzero(mask)
        found = np.full(self.count, -1, np.int64)
        order = rows[np.lexsort((*(each[rows] for each in reversed(by)), self.of_row[rows]))]
        begins = np.append(True, np.diff(self.of_row[order]) != 0)[: len(order)]
        found[self.of_row[order[begins]]] = order[begins]
        return found

    def last(self, by: Sequence[Numbers], mask: Mask | None = None) -> Numbers:
        """Return the row that comes last by these values; -1 where a group has none."""
        return self.first([-each for each in by], mask)

    def distinct(self, codes: Numbers) -> Numbers:
        """Return how many different values there are; negative ones do not count."""
        pairs = np.unique(np.stack([self.of_row, codes])[:, codes >= 0], axis=1)
        return np.bincount(pairs[0], minlength=self.count).astype(np.int64)

    def shares(
        self, values: Floats, mask: Mask, shares: Sequence[float] = SHARES, *, exact: bool = False
    ) -> list[tuple[Floats, Mask]]:
        """Return for each share of the ranks the value there, one that occurred; with `exact` also one between two."""
        rows = np.flatnonzero(mask)
        ordered = values[rows[np.lexsort((values[rows], self.of_row[rows]))]]
        counts = self.counted(mask)
        starts, is_there = np.cumsum(counts) - counts, counts > 0
        padded = np.append(ordered, 0.0)  # so that the place of an empty group is one

        def at(places: Numbers) -> Floats:
            taken: Floats = padded[np.where(is_there, starts + places, len(ordered))]
            return taken

        found = []
        for share in shares:
            if exact:
                rank = share * np.maximum(counts - 1, 0)
                low = rank.astype(np.int64)
                part = rank - low
                found.append(
                    (at(low) * (1 - part) + at(np.minimum(low + 1, np.maximum(counts - 1, 0))) * part, is_there)
                )
            else:
                found.append((at(np.maximum(np.ceil(share * counts).astype(np.int64), 1) - 1), is_there))
        return found
