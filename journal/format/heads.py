"""Many heads in little memory: what those of one length have in common is kept once.

A head is a frame's header with its records, or the beginning of a value. An active file has some ten thousand of them,
and its footer wants them all. Those of one queue differ in numbers, times and checksums, which is a third of their
bytes or less. As objects of their own they took more than all the rest of a waiting unit of work.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PACK_COUNT = 1024  # heads that are packed together: that takes some 50 microseconds
ALIKE_MIN = 64  # of one length among them, or they are left as they are
ALIKE_BYTES_MAX = 512  # of one; of longer ones most are checksums and sizes, which differ


@dataclass(frozen=True, slots=True)
class _Alike:
    """Heads of one length."""

    places: Sequence[int]  # of each among those that were packed together
    first: bytes
    differing: npt.NDArray[np.intp]  # the bytes in which any of them is not as the first
    columns: npt.NDArray[np.uint8]  # those bytes, a row for each

    def all(self) -> Iterator[bytes]:
        size = len(self.first)
        data = np.tile(np.frombuffer(self.first, np.uint8), (len(self.places), 1))
        data[:, self.differing] = self.columns
        joined = data.tobytes()
        return (joined[at : at + size] for at in range(0, len(joined), size))


@dataclass(frozen=True, slots=True)
class _Packed:
    """Heads that came one behind the other."""

    count: int
    alike: Sequence[_Alike]
    others: Sequence[tuple[int, bytes]]  # with their places

    def all(self) -> list[bytes]:
        heads = [b""] * self.count
        for place, head in self.others:
            heads[place] = head
        for alike in self.alike:
            if len(alike.places) == self.count:
                return list(alike.all())
            for place, head in zip(alike.places, alike.all(), strict=True):
                heads[place] = head
        return heads


class Heads:
    """Heads in the order in which they came."""

    __slots__ = ("_packed", "loose")

    def __init__(self) -> None:
        self.loose: list[bytes] = []  # the last of them; more are put behind these
        self._packed: list[_Packed] = []

    def pack(self, count: int) -> None:
        """Pack the first of the loose ones."""
        self._packed.append(_packed(self.loose[:count]))
        del self.loose[:count]

    def all(self) -> list[bytes]:
        """Return them, each an object of its own."""
        heads = [head for packed in self._packed for head in packed.all()]
        heads += self.loose
        return heads


def _packed(heads: Sequence[bytes]) -> _Packed:
    count, lengths = len(heads), list(map(len, heads))
    if 0 < lengths[0] <= ALIKE_BYTES_MAX and lengths.count(lengths[0]) == count:
        return _Packed(count, [_alike(range(count), heads)], ())
    sizes = np.array(lengths)
    totals = np.bincount(np.minimum(sizes, ALIKE_BYTES_MAX + 1), minlength=ALIKE_BYTES_MAX + 2)
    is_common = totals >= ALIKE_MIN
    is_common[[0, ALIKE_BYTES_MAX + 1]] = False
    alike = []
    for size in np.flatnonzero(is_common).tolist():
        places = np.flatnonzero(sizes == size)
        alike.append(_alike(array("I", places.tolist()), [heads[place] for place in places.tolist()]))
    others = np.flatnonzero(~is_common[np.minimum(sizes, ALIKE_BYTES_MAX + 1)])
    return _Packed(count, alike, [(place, heads[place]) for place in others.tolist()])


def _alike(places: Sequence[int], heads: Sequence[bytes]) -> _Alike:
    first, data = heads[0], np.frombuffer(b"".join(heads), np.uint8)
    size = len(first)
    differences = data[size:] ^ data[:-size]  # of each from the one before it
    while len(differences) > size:  # half of them are laid over the others: a reduction would go row by row
        half = (len(differences) // size + 1) // 2 * size
        differences[: len(differences) - half] |= differences[half:]
        differences = differences[:half]
    differing = np.flatnonzero(differences)
    return _Alike(places, first, differing, data.reshape(len(heads), size).take(differing, axis=1))
