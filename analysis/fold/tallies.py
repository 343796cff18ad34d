"""Sums by a group and a bucket of time: what a rate and a backlog are made of. A row a pair that occurred."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

DENSE = 4  # times as many cells as values are still added up in a table
CELLS_MIN = 1 << 12
EXACT = 1 << 53  # sums of floating-point numbers are exact up to here


class Tally:
    """Sums of several values by (group, bucket). A group is a number from 0."""

    def __init__(self, sums: int) -> None:
        self._sums = sums
        self._chunks: list[tuple[Numbers, ...]] = []
        self._rows = 0
        self._rows_summed = 0

    def add(self, groups: Numbers, buckets: Numbers, values: Sequence[Numbers | int]) -> None:
        """Take in a value of each sum for each pair; a plain number is the same for all of them."""
        if len(groups):
            self._take(_summed(groups, buckets, values))

    def merge(self, other: "Tally", groups: Numbers) -> None:
        """Take in another tally; `groups` says which of ours each of its groups is."""
        for chunk in other._chunks:
            self._take((groups[chunk[0]], *chunk[1:]))

    def rows(self) -> tuple[Numbers, ...]:
        """Return groups, buckets, and their sums: sorted by group, then by bucket."""
        if not self._chunks:
            return tuple(np.empty(0, np.int64) for _ in range(2 + self._sums))
        if len(self._chunks) > 1:
            groups, buckets, *values = (np.concatenate(parts) for parts in zip(*self._chunks, strict=True))
            self._chunks = [_summed(groups, buckets, values)]
        self._rows = self._rows_summed = len(self._chunks[0][0])
        groups, buckets, *values = self._chunks[0]
        order = np.lexsort((buckets, groups))
        return tuple(each[order] for each in (groups, buckets, *values))

    def _take(self, chunk: tuple[Numbers, ...]) -> None:
        self._chunks.append(chunk)
        self._rows += len(chunk[0])
        if self._rows > 2 * self._rows_summed + CELLS_MIN:
            self.rows()


def _summed(groups: Numbers, buckets: Numbers, values: Sequence[Numbers | int]) -> tuple[Numbers, ...]:
    """Return each pair once, with its sums."""
    first, last = int(buckets.min()), int(buckets.max())
    span, count = last - first + 1, int(groups.max()) + 1
    if span * count <= max(DENSE * len(groups), CELLS_MIN) and all(_is_small(each, len(groups)) for each in values):
        keys = groups * span + (buckets - first)
        counts = np.bincount(keys, minlength=span * count)
        found = np.flatnonzero(counts)
        sums = [_sums_in(keys, counts, each)[found] for each in values]
        return found // span, found % span + first, *sums
    order = np.lexsort((buckets, groups))
    groups, buckets = groups[order], buckets[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (buckets[1:] != buckets[:-1])))
    counts = np.diff(np.append(starts, len(groups)))
    sums = [counts * each if isinstance(each, int) else np.add.reduceat(each[order], starts) for each in values]
    return groups[starts], buckets[starts], *sums


def _is_small(values: Numbers | int, count: int) -> bool:
    return isinstance(values, int) or int(np.abs(values).max()) * count < EXACT


def _sums_in(keys: Numbers, counts: Numbers, values: Numbers | int) -> Numbers:
    if isinstance(values, int):
        return counts * values
    return np.bincount(keys, values, len(counts)).astype(np.int64)
