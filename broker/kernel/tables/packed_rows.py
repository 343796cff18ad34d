"""Rows of equal width under ascending keys, kept small: what a million records that nobody touches lie in.

Rows lie in blocks. What is the same in all rows of a block is kept once, byte by byte, and what differs as one
matrix of bytes; neighbouring records differ in few bytes. New rows gather beside the blocks and are packed when they
have become many, each into the block where its key belongs. Texts of a row, which have no width, lie behind one
another.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ROWS_MAX = 1024
LOOSE_ROWS_MAX = 4096
EMPTY_SHARE = 4  # a block with fewer live rows than one in so many is packed anew

Matrix = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]


class Block:
    """Some rows, packed. Rows can be taken out; nothing is put in."""

    __slots__ = ("_data", "_keys", "_places", "_template", "_text_ends", "_texts", "first", "is_live", "live")

    def __init__(self, keys: Keys, rows: Matrix, texts: Sequence[bytes]) -> None:
        """Pack rows with ascending keys."""
        self.first = int(keys[0])
        above = keys - keys[0]
        self._keys = above.astype(np.min_scalar_type(int(above[-1])))
        self._template = rows[0].copy()
        self._places = np.flatnonzero((rows != rows[0]).any(axis=0)).astype(
            np.uint8 if rows.shape[1] <= 256 else np.uint16
        )
        self._data = np.ascontiguousarray(rows[:, self._places])
        is_same = texts.count(texts[0]) == len(texts)
        self._texts = texts[0] if is_same else b"".join(texts)
        self._text_ends = None if is_same else np.cumsum(list(map(len, texts)), dtype=np.uint32)
        self.live = len(keys)
        self.is_live = bytearray(b"\1" * len(keys))

    @property
    def last(self) -> int:
        """The highest key it was packed with."""
        return self.first + int(self._keys[-1])

    def place(self, key: int) -> int:
        """Return where the key's row is, -1 where there is none."""
        above = key - self.first
        if above < 0 or above > self._keys[-1]:
            return -1
        place = int(self._keys.searchsorted(self._keys.dtype.type(above)))
        return place if self._keys[place] == above and self.is_live[place] else -1

    def row(self, place: int) -> tuple[bytes, bytes]:
        """Return a row and its texts."""
        found = self._template.copy()
        found[self._places] = self._data[place]
        return found.tobytes(), self.text(place)

    def text(self, place: int) -> bytes:
        if self._text_ends is None:
            return self._texts
        start = int(self._text_ends[place - 1]) if place else 0
        return self._texts[start : int(self._text_ends[place])]

    def column(self, number: slice) -> Keys:
        """Return the number that stands at this place, of every row; one for all where they are the same."""
        places = self._places.astype(np.int64)
        mine = np.flatnonzero((places >= number.start) & (places < number.stop))
        found = np.zeros((len(self.is_live) if len(mine) else 1, 8), np.uint8)
        found[:, : number.stop - number.start] = self._template[number]
        if len(mine):
            found[:, places[mine] - number.start] = self._data[:, mine]
        return found.reshape(-1).view(np.dtype("<u8"))

    def highest(self, number: slice, wanted: Keys) -> int | None:
        """Return the highest key of a live row whose number at this place is wanted."""
        is_wanted = np.isin(self.column(number), wanted)
        if not is_wanted.any():
            return None
        live = np.flatnonzero(np.frombuffer(self.is_live, np.bool_) & is_wanted)
        return self.first + int(self._keys[live[-1]]) if len(live) else None

    def behind(self, key: int, columns: Sequence[tuple[slice, Keys]]) -> list[int]:
        """Return where the live rows are with higher keys that have, in each column, one of its numbers."""
        is_wanted = np.frombuffer(self.is_live, np.bool_).copy()
        if key >= self.first:
            is_wanted[
                : int(self._keys.searchsorted(self._keys.dtype.type(min(key, self.last) - self.first), "right"))
            ] = 0
        for number, wanted in columns:
            is_wanted &= np.isin(self.column(number), wanted)
        found: list[int] = np.flatnonzero(is_wanted).tolist()
        return found

    def live_columns(self, key: int, columns: Sequence[slice]) -> list[Keys]:
        """Return these numbers of the live rows with higher keys."""
        live = np.array(self.behind(key, ()), np.intp)
        found = (self.column(number) for number in columns)
        return [np.full(len(live), each[0]) if len(each) == 1 else each[live] for each in found]

    def key(self, place: int) -> int:
        return self.first + int(self._keys[place])

    def rows(self) -> tuple[Keys, Matrix, list[bytes]]:
        """Return the live rows with their keys and texts."""
        live = np.flatnonzero(np.frombuffer(self.is_live, np.bool_))
        found = np.tile(self._template, (len(live), 1))
        found[:, self._places] = self._data[live]
        return (
            self._keys[live].astype(np.uint64) + np.uint64(self.first),
            found,
            [self.text(at) for at in live.tolist()],
        )


class PackedRows:
    """Rows under their keys. `encode` makes rows and their texts of what was added. Does not lock: its owner does."""

    def __init__(self, encode: Callable[[list[Any]], tuple[Matrix, list[bytes]]]) -> None:
        self._encode = encode
        self._blocks: list[Block] = []
        self._firsts: list[int] = []
        self._loose: dict[int, Any] = {}  # added, and not packed yet
        self._packed = 0  # live rows in the blocks

    def __len__(self) -> int:
        return self._packed + len(self._loose)

    def fill(self, keys: Keys, rows: Callable[[slice], Matrix], texts: Mapping[int, bytes], usual: bytes) -> None:
        """Begin with rows in the order of their keys; `texts` are those of the rows that have not the usual one.

        `rows` is asked for a part at a time, since all of them at once would take much memory.
        """
        assert not len(self), "only what is empty is filled"
        odd = sorted(texts)
        for start in range(0, len(keys), BLOCK_ROWS_MAX):
            end = min(start + BLOCK_ROWS_MAX, len(keys))
            mine = [usual] * (end - start)
            for at in odd[bisect_left(odd, start) : bisect_left(odd, end)]:
                mine[at - start] = texts[at]
            self._append(Block(keys[start:end], rows(slice(start, end)), mine))

    def _append(self, block: Block) -> None:
        self._blocks.append(block)
        self._firsts.append(block.first)
        self._packed += block.live

    def add(self, key: int, thing: Any) -> None:
        """Take in a row under a key that has none."""
        self._loose[key] = thing
        if len(self._loose) >= LOOSE_ROWS_MAX:
            self._pack()

    def find(self, key: int) -> Any:
        """Return what was added, or the row and texts that it was packed as; None for no such key."""
        found = self._loose.get(key)
        if found is not None:
            return found
        located = self._locate(key)
        return None if located is None else self._blocks[located[0]].row(located[1])

    def take(self, key: int) -> Any:
        """Return what `find` does, and take it out."""
        found = self._loose.pop(key, None)
        if found is not None:
            return found
        located = self._locate(key)
        if located is None:
            return None
        at, place = located
        block = self._blocks[at]
        found = block.row(place)
        block.is_live[place] = 0
        block.live -= 1
        self._packed -= 1
        if not block.live:
            del self._blocks[at], self._firsts[at]
        elif block.live * EMPTY_SHARE < len(block.is_live):
            self._blocks[at] = Block(*block.rows())
            self._firsts[at] = self._blocks[at].first
        return found

    def _locate(self, key: int) -> tuple[int, int] | None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return None
        place = self._blocks[at].place(key)
        return None if place < 0 else (at, place)

    def highest(self, number: slice, wanted: Iterable[int], is_wanted: Callable[[Any], bool]) -> int | None:
        """Return the highest key of a row that has one of these numbers at this place, up to 8 bytes of it.

        `is_wanted` says it of what is not packed yet.
        """
        loose = max((key for key, thing in self._loose.items() if is_wanted(thing)), default=None)
        numbers = np.array(sorted(wanted), np.uint64)
        for block in reversed(self._blocks) if len(numbers) else ():
            if loose is not None and loose > block.last:
                return loose
            found = block.highest(number, numbers)
            if found is not None:
                return max(found, loose or 0)
        return loose

    def behind(
        self, key: int, columns: Sequence[tuple[slice, Collection[int]]], limit: int
    ) -> tuple[list[Any], int | None]:
        """Return rows with higher keys, in order, and up to which key has been looked, None: to the end.

        Of packed ones those that have, in each column, one of its numbers; of the others all. One block is looked at,
        and as many rows are made as the limit says.
        """
        numbers = [(part, np.array(sorted(values), np.uint64)) for part, values in columns]
        at = max(bisect_right(self._firsts, key) - 1, 0)
        while at < len(self._blocks) and self._blocks[at].last <= key:
            at += 1
        reached, rows = None, []
        if at < len(self._blocks):
            block = self._blocks[at]
            places = block.behind(key, numbers)
            if len(places) > limit:
                del places[limit:]
                reached = block.key(places[-1])
            elif at + 1 < len(self._blocks):
                reached = block.last
            rows = [(block.key(place), block.row(place)) for place in places]
        loose = sorted([each for each in self._loose if each > key and (reached is None or each <= reached)])
        if len(loose) > limit:
            del loose[limit:]
            reached = loose[-1]
            rows = [row for row in rows if row[0] <= reached]
        rows = sorted([*rows, *((each, self._loose[each]) for each in loose)], key=lambda row: row[0])
        return [row for _, row in rows], reached

    def columns_behind(self, key: int, columns: Sequence[slice]) -> tuple[list[Keys], int | None]:
        """Return these numbers of the packed rows of one block with higher keys, and the highest of them; else None."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        while at < len(self._blocks) and self._blocks[at].last <= key:
            at += 1
        if at == len(self._blocks):
            return [np.empty(0, np.uint64) for _ in columns], None
        return self._blocks[at].live_columns(key, columns), self._blocks[at].last

    def loose(self) -> list[Any]:
        """Return what was added and is not packed."""
        return list(self._loose.values())

    def _pack(self) -> None:
        """Put the loose rows into the blocks where they belong."""
        keys = sorted(self._loose)
        rows, texts = self._encode([self._loose[key] for key in keys])
        self._loose.clear()
        new = np.array(keys, np.uint64)
        # Each block takes what lies between its first key and the next one's; the first takes what lies before it.
        targets = np.maximum(np.searchsorted(np.array(self._firsts, np.uint64), new, "right"), 1) - 1
        bounds = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), len(keys)]
        for low, high in reversed(list(pairwise(bounds))):
            self._merge(int(targets[low]), new[low:high], rows[low:high], texts[low:high])

    def _merge(self, at: int, keys: Keys, rows: Matrix, texts: list[bytes]) -> None:
        """Pack rows anew together with those of a block; where there is none they are the first."""
        if at < len(self._blocks):
            block = self._blocks[at]
            is_behind = int(keys[0]) > block.last
            if not (is_behind and len(block.is_live) >= BLOCK_ROWS_MAX // 2):
                old_keys, old_rows, old_texts = block.rows()
                keys, rows, texts = (
                    np.concatenate((old_keys, keys)),
                    np.concatenate((old_rows, rows)),
                    old_texts + texts,
                )
                order = np.argsort(keys, kind="stable")
                keys, rows, texts = keys[order], rows[order], [texts[place] for place in order.tolist()]
                self._packed -= block.live
                del self._blocks[at], self._firsts[at]
            else:
                at += 1
        blocks = []
        for start in range(0, len(keys), BLOCK_ROWS_MAX):
            part = slice(start, start + BLOCK_ROWS_MAX)
            blocks.append(Block(keys[part], rows[part], texts[part]))
        self._blocks[at:at] = blocks
        self._firsts[at:at] = [block.first for block in blocks]
        self._packed += sum(block.live for block in blocks)
