"""Numbers found among other numbers, many at once, and sets of them."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE: Numbers = np.empty(0, np.int64)
DENSE = 4  # times as many places as numbers still make a table
TABLE_BITS = 22  # of a table that says where nothing is to be looked for: 4 MiB
SEARCHED = 8  # fewer than one in so many are looked for faster than a table is made


def are_ascending(numbers: Numbers) -> bool:
    """Say whether every number is higher than the one before."""
    return bool((numbers[1:] > numbers[:-1]).all())


def places_among(ascending: Numbers, wanted: Numbers) -> Numbers:
    """Return where each wanted number stands among strictly ascending ones; -1 where it does not."""
    if not len(ascending) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    first, count = int(ascending[0]), len(ascending)
    span = int(ascending[-1]) - first + 1
    if span == count:  # they follow one another
        places = wanted - first
        is_out = places.view(np.uint64) >= np.uint64(span)
        if is_out.any():
            places[is_out] = -1
        return places
    if span > DENSE * count or SEARCHED * len(wanted) < count:
        places = np.searchsorted(ascending, wanted)
        places[places == count] = 0
        return np.where(ascending[places] == wanted, places, -1)
    table = np.full(span + 1, -1, np.int64)  # the last one is for whatever is out of it
    table[ascending - first] = np.arange(count)
    at = wanted - first
    at[at.view(np.uint64) >= np.uint64(span)] = span
    return table[at]


def are_among(cells: npt.NDArray[np.uint32], wanted: npt.NDArray[np.uint32], bits: int) -> Mask:
    """Say of each cell, a number of so many bits, whether it is one of the wanted ones, which ascend.

    Most are not, and a small table of their highest bits says so: it stays in the processor's cache.
    """
    shift = max(bits - TABLE_BITS, 0)
    table = np.zeros(1 << (bits - shift), np.bool_)
    table[wanted >> np.uint32(shift)] = True
    found: Mask = table[cells >> np.uint32(shift)]
    rows = np.flatnonzero(found)
    if len(rows):
        places = np.searchsorted(wanted, cells[rows])
        places[places == len(wanted)] = 0
        found[rows] = wanted[places] == cells[rows]
    return found


def repeated(numbers: Numbers) -> Numbers:
    """Return the numbers that are there more than once."""
    if len(numbers) < 2 or are_ascending(numbers):
        return NONE
    ordered = np.sort(numbers)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


class NumberSet:
    """A set of numbers, as ranges: what is set aside, and what the ADDs of files reach over."""

    __slots__ = ("ends", "starts")

    def __init__(self, starts: Numbers = NONE, ends: Numbers = NONE) -> None:
        self.starts = starts  # ascending
        self.ends = ends  # included

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]], numbers: Numbers = NONE) -> "NumberSet":
        """Return the set of all numbers in some ranges, both ends included, and of some others."""
        pairs = sorted(ranges)
        starts = np.concatenate((np.array([start for start, _ in pairs], np.int64), numbers))
        ends = np.concatenate((np.array([end for _, end in pairs], np.int64), numbers))
        if not len(starts):
            return cls()
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        begins = np.append(True, starts[1:] > ends[:-1] + 1)
        return cls(starts[begins], ends[np.append(begins[1:], True)])

    def __bool__(self) -> bool:
        return bool(len(self.starts))

    def __or__(self, other: "NumberSet") -> "NumberSet":
        pairs = [*self.pairs(), *other.pairs()]
        return NumberSet.of(pairs)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the ranges."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def has(self, numbers: Numbers) -> Mask:
        """Say of each number whether it is in the set."""
        if not len(self.starts) or not len(numbers):
            return np.zeros(len(numbers), np.bool_)
        places = np.searchsorted(self.starts, numbers, "right") - 1
        found: Mask = (places >= 0) & (numbers <= self.ends[places])
        return found
