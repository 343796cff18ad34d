"""Which publications of a topic a subscription is done with out of turn, as ranges: any number takes little room.

A range goes from the number of one publication to that of another. All publications of the topic in between are in it,
and so are numbers that are of something else, or of publications that are gone. Imports nothing of the broker.

What is written is the first number of each range and, where it has more than one, the last with `UP_TO` added.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

UP_TO = 1 << 63  # message numbers are smaller
NUMBERS_MAX = 8000  # that are written: eight bytes each of a value of 64 KiB, and some room for what else is in it


class Ordered(Protocol):
    """The publications of a topic, by their orders."""

    def keys(self) -> Sequence[int]: ...

    def bisect_right(self, order: int) -> int: ...


class Ranges:
    """Orders of publications. Never changed."""

    __slots__ = ("_ends", "_starts", "size")

    def __init__(self, starts: Sequence[int] = (), ends: Sequence[int] = ()) -> None:
        """Ranges from each of the starts to the end in its place; they ascend, and none touches the next."""
        self._starts = starts
        self._ends = ends
        self.size = len(starts) + sum(map(int.__lt__, starts, ends))  # numbers that are written of it

    @staticmethod
    def read(numbers: Iterable[int]) -> "Ranges":
        """Return what was written, also one number for each publication, in any order."""
        starts: list[int] = []
        ends: list[int] = []
        for number in sorted(numbers, key=lambda each: each % UP_TO):
            if number < UP_TO:
                starts.append(number)
                ends.append(number)
            elif ends:
                ends[-1] = number - UP_TO
        return Ranges(starts, ends)

    def numbers(self) -> tuple[int, ...]:
        """Return what is written of it."""
        found: list[int] = []
        for start, end in zip(self._starts, self._ends, strict=True):
            found += (start,) if start == end else (start, UP_TO + end)
        return tuple(found)

    @property
    def last(self) -> int:
        """The greatest order in it; 0 where there is none."""
        return self._ends[-1] if self._ends else 0

    def __contains__(self, order: int) -> bool:
        return self.end_of(order) > 0

    def end_of(self, order: int) -> int:
        """Return the end of the range that the order is in; 0 where it is in none."""
        at = bisect_right(self._starts, order) - 1
        return self._ends[at] if at >= 0 and self._ends[at] >= order else 0

    def count(self, publications: Ordered) -> int:
        """Return how many of the publications are in it."""
        bounds = zip(self._starts, self._ends, strict=True)
        return sum(publications.bisect_right(end) - publications.bisect_right(start - 1) for start, end in bounds)

    def adding(self, orders: Iterable[int], publications: Ordered) -> "Ranges":
        """Return it with these of the publications as well. It takes at most one number more for each."""
        starts, ends = list(self._starts), list(self._ends)
        for order in orders:
            at = bisect_right(starts, order)  # the range behind it
            if at and ends[at - 1] >= order:
                continue
            begins = at if not at or _is_any(publications, ends[at - 1], order) else at - 1
            goes_on = at < len(starts) and not _is_any(publications, order, starts[at])
            start = order if begins == at else starts[begins]
            end = ends[at] if goes_on else order
            starts[begins : at + goes_on] = [start]
            ends[begins : at + goes_on] = [end]
        return Ranges(starts, ends)

    def behind(self, position: int) -> "Ranges":
        """Return what of it is behind a position."""
        at = bisect_right(self._ends, position)
        starts = list(self._starts[at:])
        if starts:
            starts[0] = max(starts[0], position + 1)
        return Ranges(starts, self._ends[at:])

    def without(self, others: "Ranges") -> "Ranges":
        """Return it without what begins its ranges and is of others as well: with no more ranges than it has."""
        starts = [max(start, others.end_of(start) + 1) for start in self._starts]
        left = [(start, end) for start, end in zip(starts, self._ends, strict=True) if start <= end]
        return Ranges([start for start, _ in left], [end for _, end in left])

    def reached(self, position: int, publications: Ordered) -> int:
        """Return up to where all is done with, where all up to the position is, and what is in here."""
        for start, end in zip(self._starts, self._ends, strict=True):
            if end > position:
                if _is_any(publications, position, start):
                    break
                position = end
        return position

    def joined(self, publications: Ordered) -> "Ranges":
        """Return it with one range where several have no other publication between them."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in zip(self._starts, self._ends, strict=True):
            if ends and not _is_any(publications, ends[-1], start):
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return Ranges(starts, ends)


NONE = Ranges()


def _is_any(publications: Ordered, low: int, high: int) -> bool:
    """Say whether there is a publication between the two orders."""
    at, keys = publications.bisect_right(low), publications.keys()
    return at < len(keys) and keys[at] < high
