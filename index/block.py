"""A block of the index's table: messages of neighbouring numbers as columns.

    column     bytes  meaning
    offset     4      of the frame, divided by 8
    size       4      bytes of properties and payload, for the accounts
    queue      4      place of the queue's name
    is_live    1      still undelivered
    number     8      only in a sparse block; in a dense one the first number says all
    sequence   8      only where a message was moved to another file than its block's

A message costs 13 bytes in a dense block and 21 in a sparse one. The newest block grows by appending;
every other one is frozen into arrays.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from oms_journal.journal.errors import FormatError
from oms_journal.journal.names import DataFileName

OFFSET_UNIT = 8  # frames start at multiples of 8
FEW_ROWS = 64  # so many are looked at faster one by one than as arrays

_Kind = TypeVar("_Kind", bound=np.generic)
Ints = npt.NDArray[np.int64]
Narrow = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.uint64]
_NO_ROWS: Ints = np.empty(0, np.int64)


class Block:
    """Messages of ascending numbers."""

    __slots__ = ("first", "is_live", "last", "live", "numbers", "offsets", "queues", "sequence", "sequences", "sizes")

    def __init__(self, sequence: int, first: int) -> None:
        self.sequence = sequence
        self.first = first
        self.last = first - 1
        self.live = 0
        self.numbers: Numbers | None = None
        self.sequences: Numbers | None = None
        self.offsets: array[int] | npt.NDArray[np.uint32] = array("I")
        self.sizes: array[int] | npt.NDArray[np.uint32] = array("I")
        self.queues: array[int] | npt.NDArray[np.uint32] = array("I")
        self.is_live: bytearray | npt.NDArray[np.bool_] = bytearray()

    def row(self, number: int) -> int:
        """Return the number's row, -1 when it has none. The number is not below the first one."""
        if number > self.last:
            return -1
        if self.numbers is None:
            return number - self.first
        row = int(np.searchsorted(self.numbers, np.uint64(number)))
        return row if row < len(self.numbers) and int(self.numbers[row]) == number else -1

    def find(self, numbers: Numbers) -> Ints:
        """Return the rows of those of ascending numbers that are live. All are within the block's."""
        if self.numbers is None:
            rows = (numbers - np.uint64(self.first)).astype(np.int64)
        else:
            rows = np.searchsorted(self.numbers, numbers)
            inside = rows < len(self.numbers)
            rows, numbers = rows[inside], numbers[inside]
            rows = rows[self.numbers[rows] == numbers]
        found: Ints = rows[np.frombuffer(self.is_live, np.bool_)[rows]]
        return found

    def number(self, row: int) -> int:
        return self.first + row if self.numbers is None else int(self.numbers[row])

    def numbers_of(self, rows: Ints) -> Numbers:
        return rows.astype(np.uint64) + np.uint64(self.first) if self.numbers is None else self.numbers[rows]

    def sequence_of(self, row: int) -> int:
        return self.sequence if self.sequences is None else int(self.sequences[row])

    def copy_columns(self) -> None:
        """Let the columns grow again that somebody has a view of, as long as their last message says they are."""
        count = self.last - self.first + 1
        self.offsets, self.sizes, self.queues = self.offsets[:count], self.sizes[:count], self.queues[:count]
        self.is_live = self.is_live[:count]

    def freeze(self) -> None:
        """Turn the growing columns into arrays, without a copy."""
        if isinstance(self.offsets, array):
            self.offsets = np.frombuffer(self.offsets, np.uint32)
            self.sizes = np.frombuffer(self.sizes, np.uint32)
            self.queues = np.frombuffer(self.queues, np.uint32)
            self.is_live = np.frombuffer(self.is_live, np.bool_)

    def live_rows(self) -> Ints:
        """Return the rows of the live messages, in order."""
        found: Ints = np.flatnonzero(np.frombuffer(self.is_live, np.bool_))
        return found

    def pack(self) -> None:
        """Keep the live messages only, with their numbers."""
        self.freeze()
        rows = self.live_rows()
        if self.numbers is None:
            self.numbers = rows.astype(np.uint64) + np.uint64(self.first)
        else:
            self.numbers = self.numbers[rows]
        if self.sequences is not None:
            self.sequences = self.sequences[rows]
        assert isinstance(self.offsets, np.ndarray) and isinstance(self.sizes, np.ndarray)
        assert isinstance(self.queues, np.ndarray)
        self.offsets, self.sizes, self.queues = self.offsets[rows], self.sizes[rows], self.queues[rows]
        self.is_live = np.ones(len(rows), np.bool_)

    def move(self, row: int, sequence: int, offset: int) -> None:
        """Note where a message was written again."""
        self.freeze()
        if self.sequences is None:
            self.sequences = np.full(len(self.offsets), self.sequence, np.uint64)
        self.sequences[row] = sequence
        if not (offsets := np.frombuffer(self.offsets, np.uint32)).flags.writeable:
            offsets = offsets.copy()
        offsets[row] = offset >> 3
        self.offsets = offsets

    def merge(self, sequence: int, numbers: Numbers, columns: tuple[Ints, Ints, Ints]) -> None:
        """Put more live messages of one data file among those of the block."""
        if not len(numbers):
            return
        self.pack()
        assert self.numbers is not None
        if self.sequences is None:
            self.sequences = np.full(len(self.numbers), self.sequence, np.uint64)
        at = np.searchsorted(self.numbers, numbers)
        self.numbers = np.insert(self.numbers, at, numbers)
        self.sequences = np.insert(self.sequences, at, sequence)
        self.offsets = np.insert(np.frombuffer(self.offsets, np.uint32), at, columns[0] >> 3)
        self.sizes = np.insert(np.frombuffer(self.sizes, np.uint32), at, columns[1])
        self.queues = np.insert(np.frombuffer(self.queues, np.uint32), at, columns[2])
        self.is_live = np.ones(len(self.numbers), np.bool_)
        self.live = len(self.numbers)

    def select(self, queue: int | None, after: int, last: int) -> tuple[Ints, Ints, Ints] | None:
        """Return (numbers, sequences, offsets) of the live messages of a queue, or of all; None for none.

        Only of numbers above `after` and up to `last`.
        """
        rows = self._rows(queue, self._row_behind(after), self._row_behind(last))
        if not len(rows):
            return None
        numbers = rows + self.first if self.numbers is None else self.numbers[rows].astype(np.int64)
        offsets = np.frombuffer(self.offsets, np.uint32)[rows].astype(np.int64) * OFFSET_UNIT
        if self.sequences is None:
            return numbers, np.full(len(rows), self.sequence, np.int64), offsets
        return numbers, self.sequences[rows].astype(np.int64), offsets

    def first_numbers(self, queue: int, after: int, count: int) -> list[int]:
        """Return the numbers of the first so many live messages of a queue behind a number, in order."""
        low = self._row_behind(after)
        if (few := self._few_rows(queue, low)) is not None:
            return [self.number(row) for row in few[:count]]
        rows = self._rows(queue, low, len(self.offsets))[:count]
        found: list[int] = (rows + self.first if self.numbers is None else self.numbers[rows]).tolist()
        return found

    def count_from(self, queue: int, low: int) -> int:
        """Return how many live messages of a queue are in the rows from one on."""
        few = self._few_rows(queue, low)
        return len(self._rows(queue, low, len(self.offsets)) if few is None else few)

    def _few_rows(self, queue: int, low: int) -> list[int] | None:
        """Return what `_rows` does up to the last one, where these are so few that arrays would not pay."""
        end, queues, is_live = len(self.offsets), self.queues, self.is_live
        if end - low > FEW_ROWS:
            return None
        return [row for row in range(low, end) if is_live[row] and queues[row] == queue]

    def _row_behind(self, number: int) -> int:
        """Return the first row of a higher number; there may be none any more."""
        if self.numbers is None:
            return max(0, number + 1 - self.first)
        return int(np.searchsorted(self.numbers, np.uint64(number), "right"))

    def _rows(self, queue: int | None, low: int, high: int) -> Ints:
        """Return those of the rows from `low` up to `high` that are live and of a queue, or of any.

        Growing columns are copied, not lent: what an exception keeps of this call could not grow any more.
        """
        if low >= min(high, len(self.offsets)):
            return _NO_ROWS
        wanted = np.frombuffer(self.is_live[low:high], np.bool_)
        if queue is not None:
            wanted = wanted & (np.frombuffer(self.queues[low:high], np.uint32) == queue)
        found: Ints = np.flatnonzero(wanted) + low
        return found


def sparse_block(sequence: int, numbers: Numbers, columns: tuple[Ints, Ints, Ints]) -> Block:
    """Return a block of live messages with a number each."""
    block = Block(sequence, int(numbers[0]))
    block.last = int(numbers[-1])
    block.live = len(numbers)
    is_dense = block.last - block.first + 1 == len(numbers)
    block.numbers = None if is_dense else numbers.astype(np.uint64)
    block.offsets = (columns[0] >> 3).astype(np.uint32)
    block.sizes = columns[1].astype(np.uint32)
    block.queues = columns[2].astype(np.uint32)
    block.is_live = np.ones(len(numbers), np.bool_)
    return block


def number_before(blocks: Sequence[Block], queue: int, count: int) -> int:
    """Return a number that the only so many live messages of a queue are behind; looked for from the newest on."""
    for block in reversed(blocks):
        for rows in (FEW_ROWS, len(block.offsets)):
            low = max(0, len(block.offsets) - rows)
            found = block.count_from(queue, low)
            if found >= count:
                return block.number(low) - 1
        count -= found
    return 0


def distinct(values: "npt.NDArray[_Kind]") -> "npt.NDArray[_Kind]":
    """Return the different values, ascending. `np.unique` hashes, which is far slower for what is nearly sorted."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def check_ascends(block: Block, before: Sequence[Block]) -> None:
    """Raise FormatError of a block that does not stand behind all others, as every writer's do."""
    if before and block.first <= before[-1].last:
        earlier = DataFileName(before[-1].sequence)
        reason = f"its message numbers do not ascend behind those of {earlier}: one of both is another file's content"
        raise FormatError(Path(str(DataFileName(block.sequence))), 0, reason)
