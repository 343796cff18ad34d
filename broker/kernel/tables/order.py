"""Numbers in the order of a key, 16 bytes an entry: conversations by age, units of work by the end of their lifetime.

Most entries come with the highest key and go with the lowest. Entries lie in blocks of two columns,
keys and numbers, ascending by the key and then by the number; no entry is there twice.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

BLOCK_ENTRIES_MAX = 512


class KeyedOrder:
    """Numbers, each under a key, ascending."""

    __slots__ = ("_count", "_firsts", "_highest", "_keys", "_numbers")

    def __init__(self, keys: "array[int] | None" = None, numbers: "array[int] | None" = None) -> None:
        """Begin with ascending keys and their numbers, or with nothing."""
        self._count = 0
        self._keys: list[array[int]] = []
        self._numbers: list[array[int]] = []
        self._firsts: list[tuple[int, int]] = []  # the lowest entry of each block
        self._highest = -1  # no key is above it
        if keys and numbers:
            self._fill(keys, numbers)

    def _fill(self, keys: "array[int]", numbers: "array[int]") -> None:
        starts = range(0, len(keys), BLOCK_ENTRIES_MAX)
        self._count = len(keys)
        self._keys = [keys[at : at + BLOCK_ENTRIES_MAX] for at in starts]
        self._numbers = [numbers[at : at + BLOCK_ENTRIES_MAX] for at in starts]
        self._firsts = [(keys[at], numbers[at]) for at in starts]
        self._highest = keys[-1]

    def __len__(self) -> int:
        return self._count

    def add(self, key: int, number: int) -> None:
        """Enter a number under a key."""
        if key > self._highest:
            self._highest = key
            if self._keys and len(keys := self._keys[-1]) < BLOCK_ENTRIES_MAX:
                keys.append(key)
                self._numbers[-1].append(number)
                self._count += 1
                return
        self._add(key, number)

    def _add(self, key: int, number: int) -> None:
        if self._keys:
            keys, numbers = self._keys[-1], self._numbers[-1]
            if key < keys[-1] or (key == keys[-1] and number <= numbers[-1]):
                self._insert(key, number)
                return
            if len(keys) < BLOCK_ENTRIES_MAX:
                keys.append(key)
                numbers.append(number)
                self._count += 1
                return
        self._keys.append(array("Q", (key,)))
        self._numbers.append(array("Q", (number,)))
        self._firsts.append((key, number))
        self._count += 1

    def _insert(self, key: int, number: int) -> None:
        at = max(0, bisect_right(self._firsts, (key, number)) - 1)
        keys, numbers = self._keys[at], self._numbers[at]
        place = _place(keys, numbers, key, number)
        assert place == len(keys) or (keys[place], numbers[place]) != (key, number), "an entry is made once"
        keys.insert(place, key)
        numbers.insert(place, number)
        self._count += 1
        self._firsts[at] = (keys[0], numbers[0])
        if len(keys) > BLOCK_ENTRIES_MAX:
            half = len(keys) // 2
            self._keys[at : at + 1] = [keys[:half], keys[half:]]
            self._numbers[at : at + 1] = [numbers[:half], numbers[half:]]
            self._firsts[at : at + 1] = [(keys[0], numbers[0]), (keys[half], numbers[half])]

    def remove(self, key: int, number: int) -> bool:
        """Take an entry out; False when it is not there."""
        entry = (key, number)
        at = bisect_right(self._firsts, entry) - 1
        if at < 0:
            return False
        keys, numbers = self._keys[at], self._numbers[at]
        place = 0
        if self._firsts[at] != entry:
            place = _place(keys, numbers, key, number)
            if place == len(keys) or keys[place] != key or numbers[place] != number:
                return False
        self._count -= 1
        del keys[place], numbers[place]
        if not keys:
            del self._keys[at], self._numbers[at], self._firsts[at]
            return True
        if not place:
            self._firsts[at] = (keys[0], numbers[0])
        if len(keys) < BLOCK_ENTRIES_MAX // 8:
            self._merge(at)
        return True

    def _merge(self, at: int) -> None:
        """Let a block that has become small join its successor, if that is small too."""
        if at + 1 < len(self._keys) and len(self._keys[at + 1]) < BLOCK_ENTRIES_MAX // 2:
            for columns in (self._keys, self._numbers):
                columns[at].extend(columns[at + 1])
                del columns[at + 1]
            del self._firsts[at + 1]

    def first(self) -> tuple[int, int] | None:
        """Return the lowest key and its number."""
        return self._firsts[0] if self._firsts else None

    def of(self, key: int) -> list[int]:
        """Return the numbers under exactly this key, ascending."""
        found: list[int] = []
        at = max(0, bisect_left(self._firsts, (key, 0)) - 1)
        for keys, numbers in zip(self._keys[at:], self._numbers[at:], strict=True):
            if keys[0] > key:
                break
            found += numbers[bisect_left(keys, key) : bisect_right(keys, key)]
        return found

    def up_to(self, key: int) -> Iterator[tuple[int, int]]:
        """Yield the entries up to this key. Do not change the order meanwhile."""
        for entry in self:
            if entry[0] > key:
                return
            yield entry

    def behind(self, key: int) -> Iterator[tuple[int, int]]:
        """Yield the entries with higher keys. Do not change the order meanwhile."""
        at = max(0, bisect_right(self._firsts, (key, (1 << 64) - 1)) - 1)
        for keys, numbers in zip(self._keys[at:], self._numbers[at:], strict=True):
            start = bisect_right(keys, key)
            yield from zip(keys[start:], numbers[start:], strict=True)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield keys and numbers, ascending. Do not change the order meanwhile."""
        for keys, numbers in zip(self._keys, self._numbers, strict=True):
            yield from zip(keys, numbers, strict=True)


def _place(keys: "array[int]", numbers: "array[int]", key: int, number: int) -> int:
    """Return where in a block the entry is, or would be."""
    place = bisect_left(keys, key)
    if place == len(keys) or keys[place] != key or numbers[place] >= number:
        return place
    return bisect_left(numbers, number, place, bisect_right(keys, key, place))
