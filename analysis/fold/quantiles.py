"""The quantiles of many numbers in little memory, mergeable, and the same each time.

Values are kept in levels: on level *l* each stands for 2^l. To halve a level is to sort it, to let every second
value go one level up, and to drop the others: the rank of any number is off by at most 2^l more. Where the upper
ones of two stay, ranks become too low, and where the lower ones stay, too high: the side with the smaller error so
far is taken. A sketch adds up what its halvings can have done, those of merged sketches included, and halves a
level only if no rank is off by more than one in RANKS of its values afterwards. So the promise holds however
values came together.

    values in it           bytes
    up to 16,384           8 each
    a million              about 600 KB
    thirty million         about 2.6 MB
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

RANKS = 10_000  # a quantile's rank is off by at most one in so many
HALVED_VALUES = 1 << 14  # so many at least: it is as large an error for a few


class Sketch:
    """Numbers, of which quantiles will be asked."""

    __slots__ = ("_levels", "_sizes", "count", "errors", "highest")

    def __init__(self) -> None:
        self._levels: list[list[Numbers]] = [[]]
        self._sizes: list[int] = [0]
        self.count = 0
        self.highest: int | None = None
        self.errors = (0, 0)  # so many ranks too low, and too high, at the most

    def add(self, values: Numbers) -> None:
        """Take in values; they are the sketch's own from now on."""
        if not len(values):
            return
        highest = int(values.max())
        self.highest = highest if self.highest is None else max(self.highest, highest)
        self.count += len(values)
        self._put(0, [values])
        self._shrink()

    def merge(self, other: "Sketch") -> None:
        """Take in the values of another sketch."""
        if other.highest is None:
            return
        self.highest = other.highest if self.highest is None else max(self.highest, other.highest)
        self.count += other.count
        self.errors = (self.errors[0] + other.errors[0], self.errors[1] + other.errors[1])
        for level, chunks in enumerate(other._levels):
            self._put(level, chunks)
        self._shrink()

    @property
    def error(self) -> int:
        """How many ranks a quantile may be off, at the most."""
        return max(self.errors)

    @property
    def kept(self) -> int:
        """How many values are kept."""
        return sum(self._sizes)

    def quantiles(self, shares: Sequence[float]) -> list[int | None]:
        """Return the value at each share of the ranks: one that occurred, or None where there is none."""
        if not self.count:
            return [None] * len(shares)
        values = np.concatenate([chunk for chunks in self._levels for chunk in chunks])
        weights = np.concatenate([np.full(size, 1 << level, np.int64) for level, size in enumerate(self._sizes)])
        order = np.argsort(values)
        ends = np.cumsum(weights[order])
        ranks = [max(ceil(share * self.count), 1) for share in shares]
        places = np.minimum(np.searchsorted(ends, ranks), len(values) - 1)
        return [int(values[order[place]]) for place in places.tolist()]

    def _put(self, level: int, chunks: Sequence[Numbers]) -> None:
        while len(self._levels) <= level:
            self._levels.append([])
            self._sizes.append(0)
        self._levels[level] += chunks
        self._sizes[level] += sum(map(len, chunks))

    def _shrink(self) -> None:
        """Halve the level from which most goes for its error, again and again, as long as the promise holds."""
        while True:
            large = [level for level, size in enumerate(self._sizes) if size >= HALVED_VALUES]
            if not large:
                return
            level = max(large, key=lambda level: self._sizes[level] >> level)
            if min(self.errors) + (1 << level) > self.count // RANKS:
                return
            self._halve(level)

    def _halve(self, level: int) -> None:
        values = np.sort(np.concatenate(self._levels[level]))
        odd = len(values) & 1  # the highest one stays then
        self._levels[level], self._sizes[level] = [values[len(values) - odd :].copy()][:odd], odd
        low, high = self.errors
        is_upper = low <= high
        self.errors = (low + (1 << level), high) if is_upper else (low, high + (1 << level))
        self._put(level + 1, [values[int(is_upper) : len(values) - odd : 2].copy()])
