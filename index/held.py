"""Messages that are held back: they may have been delivered already, and a person looks first.

What damage has destroyed may hold the deliveries of older messages, which then are undelivered again; and a
database that was restored from a backup does not know what was delivered since. Where to hand those out once more
is worse than to wait, they are held: ranges of message numbers, kept under keys of the engine, that reading in
order and taking pass over until somebody releases or discards them. Numbers never come again, so that a
range may cover numbers that are gone.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from oms_journal.journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX

KEY_PREFIX = f"{ENGINE_PREFIX}held/".encode()
_PAIR_BYTES = 16  # first and last number, each 8 bytes, least significant first
_PAIRS_MAX = VALUE_BYTES_MAX // _PAIR_BYTES

NumberRanges = Sequence[tuple[int, int]]  # both ends included


class Held:
    """The ranges, ascending and apart. Does not lock: its owner does."""

    def __init__(self, ranges: NumberRanges = ()) -> None:
        self._pairs = np.array(joined(ranges), np.uint64).reshape(-1, 2)

    def __bool__(self) -> bool:
        return bool(len(self._pairs))

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges, both ends included."""
        return [(first, last) for first, last in self._pairs.tolist()]

    def mask(self, numbers: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Say of each number whether it is held."""
        wanted = np.asarray(numbers, np.uint64)
        if not self:
            return np.zeros(len(wanted), np.bool_)
        at = np.searchsorted(self._pairs[:, 0], wanted, "right") - 1
        held: npt.NDArray[np.bool_] = (at >= 0) & (wanted <= self._pairs[at, 1])
        return held

    def add(self, ranges: NumberRanges) -> None:
        """Hold these numbers too."""
        self._pairs = np.array(joined([*self.ranges(), *ranges]), np.uint64).reshape(-1, 2)

    def values(self) -> dict[bytes, bytes]:
        """Return the ranges as values under keys of the engine."""
        parts = range(0, len(self._pairs), _PAIRS_MAX)
        return {
            KEY_PREFIX + f"{place:06}".encode(): self._pairs[start : start + _PAIRS_MAX].astype("<u8").tobytes()
            for place, start in enumerate(parts)
        }

    def load(self, values: Iterable[bytes]) -> None:
        """Take in what `values` gave."""
        whole = (value[: len(value) // _PAIR_BYTES * _PAIR_BYTES] for value in values)
        pairs = np.frombuffer(b"".join(whole), "<u8").reshape(-1, 2)
        self.add([(first, last) for first, last in pairs.tolist()])


def joined(ranges: NumberRanges) -> list[tuple[int, int]]:
    """Return the ranges ascending, those joined that overlap or touch."""
    apart: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if apart and first <= apart[-1][1] + 1:
            apart[-1] = (apart[-1][0], max(apart[-1][1], last))
        else:
            apart.append((first, last))
    return apart
