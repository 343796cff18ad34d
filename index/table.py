"""Which messages are undelivered, and where: columns, not objects.

Messages are kept in blocks of neighbouring numbers (`block.py`), one block per data file as it was
written. A block becomes sparse when fewer than a quarter of its messages are live, and goes when none
is. Numbers ascend through the blocks, so a message is found by bisection, and the undelivered of a
queue come out in order by one pass over the columns. The table does not lock: its owner does.

A block of the index's table: messages of neighbouring numbers as columns.

    column     bytes  meaning
    offset     4      of the frame, divided by 8
    size       4      bytes of properties and payload, for the accounts
    queue      4      place of the queue's name
    is_live    1      0 when it is gone, 1 while it may be handed out, else bits: `LIVE` and those below it
    number     8      only in a sparse block; in a dense one the first number says all
    sequence   8      only where a message was moved to another file than its block's

The newest block grows by appending: a message costs 13 bytes in it. Every other one is frozen. There the first three
columns have as few bytes as their values need, and none where these lie on a line (`Line`): most blocks are of one
queue, and of small messages, so that one costs 7 bytes, and 1 where all are of one size.

The names of the queues, and how much is undelivered in each.

A queue has a place as long as anything is undelivered in it, and usually longer: who adds to it may have asked
for its place already. What is empty is forgotten when somebody says so, and its place is given to another queue:
callers may make up a name for each answer that they wait for. Does not lock: its owner does.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

from oms_journal.journal.errors import FormatError
from oms_journal.journal.names import DataFileName

FORGOTTEN = -1  # instead of a place: ask for it again


class Queues:
    """Names by place, and the accounts of what is undelivered."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._names: list[str] = []  # by place; of a place that is free, what it was
        self._free: list[int] = []
        self.counts: list[int] = []  # messages, by place
        self.bytes: list[int] = []  # theirs, by place

    def __len__(self) -> int:
        """Return how many have a place."""
        return len(self._places)

    def place(self, name: str) -> int:
        """Return the queue's place; a new queue gets one."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = self._new(name)
        return place

    def _new(self, name: str) -> int:
        if self._free:
            place = self._free.pop()
            self._names[place] = name
            return place
        place = len(self._names)
        del self.counts[place:], self.bytes[place:]  # what an interrupt has left of another one
        self.counts.append(0)
        self.bytes.append(0)
        self._names.append(name)  # last: it says how many there are
        return place

    def find(self, name: str) -> int | None:
        """Return the queue's place, None when it has none."""
        return self._places.get(name)

    def name(self, place: int) -> str:
        return self._names[place]

    def used(self) -> dict[str, tuple[int, int]]:
        """Return (undelivered messages, their bytes) of every queue that has any."""
        return {
            name: (self.counts[place], self.bytes[place]) for name, place in self._places.items() if self.counts[place]
        }

    def empty(self) -> list[str]:
        """Return the names of the queues in which nothing is undelivered."""
        return [name for name, place in self._places.items() if not self.counts[place]]

    def forget(self, names: Iterable[str]) -> None:
        """Take their places from queues in which nothing is undelivered."""
        for name in names:
            self._free.append(self._places.pop(name))


class Line:
    """A column whose values go up by the same step from row to row: read like an array, in no memory."""

    __slots__ = ("count", "first", "step")

    def __init__(self, first: int, step: int, count: int) -> None:
        self.first = first
        self.step = step
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any) -> Any:
        """Return the value of a row; of a slice or of several rows an array."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.count))
        return self.first + self.step * rows


Column = Union[Line, npt.NDArray[Any], "array[int]"]  # the last of a growing block


def compact(values: npt.NDArray[Any]) -> Line | npt.NDArray[Any]:
    """Return values, at least one and none below 0, as a column in little memory."""
    first, last, count = int(values[0]), int(values[-1]), len(values)
    step = (last - first) // max(count - 1, 1)
    if step >= 0 and first + step * (count - 1) == last and (count < 3 or (np.diff(values) == step).all()):
        return Line(first, step, count)
    return values.astype(np.min_scalar_type(int(values.max())))


def values_of(column: Column) -> Line | npt.NDArray[Any]:
    """Return a column to be asked for several rows."""
    return np.frombuffer(column, np.uint32) if isinstance(column, array) else column


# What `is_live` says of a message that was added on terms.
LIVE = 1  # undelivered; every other one says more of such a message
NOT_DUE = 2
BEHIND = 4  # another one of its group
EXPIRED = 8
LATE = 16  # it expires when its taker gives it back
GROUPED = 32
TIMED = 64  # it stands in a schedule
APART = NOT_DUE | BEHIND | EXPIRED  # not handed out
OFFSET_UNIT = 8  # frames start at multiples of 8
FEW_ROWS = 64  # so many are looked at faster one by one than as arrays

_new = tuple.__new__  # of a NamedTuple whose fields are all there, without a call of ours

_Kind = TypeVar("_Kind", bound=np.generic)
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]
_NO_ROWS: Ints = np.empty(0, np.int64)


class Block:
    """Messages of ascending numbers."""

    __slots__ = (
        "first", "is_growing", "is_live", "last", "live", "numbers", "offsets", "queues", "sequence", "sequences",
        "sizes", "use",
    )  # fmt: skip
    use: "FileUse"  # of its file, while it grows

    def __init__(self, sequence: int, first: int) -> None:
        self.sequence = sequence
        self.is_growing = False
        self.first = first
        self.last = first - 1
        self.live = 0
        self.numbers: Numbers | None = None
        self.sequences: Numbers | None = None
        self.offsets: Column = array("I")
        self.sizes: Column = array("I")
        self.queues: Column = array("I")
        self.is_live: bytearray | npt.NDArray[np.uint8] = bytearray()

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
        found: Ints = rows[np.frombuffer(self.is_live, np.uint8)[rows] != 0]
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
        """Let the columns grow no more, and take little memory."""
        if self.is_growing:
            columns = [compact(values_of(column)[:]) for column in (self.offsets, self.sizes, self.queues)]
            is_live = np.frombuffer(self.is_live, np.uint8)
            # No call in between: who is interrupted leaves a block that grows, or one that does not.
            self.offsets, self.sizes, self.queues, self.is_live, self.is_growing = *columns, is_live, False

    def live_rows(self) -> Ints:
        """Return the rows of the live messages, in order."""
        found: Ints = np.flatnonzero(np.frombuffer(self.is_live, np.uint8) != 0)
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
        if len(rows):
            columns = [compact(values_of(column)[rows]) for column in (self.offsets, self.sizes, self.queues)]
            self.offsets, self.sizes, self.queues = columns
        self.is_live = np.frombuffer(self.is_live, np.uint8)[rows]

    def move(self, row: int, sequence: int, offset: int) -> None:
        """Note where a message was written again."""
        self.freeze()
        if self.sequences is None:
            self.sequences = np.full(len(self.offsets), self.sequence, np.uint64)
        self.sequences[row] = sequence
        if not isinstance(self.offsets, np.ndarray) or self.offsets.dtype != np.uint32:
            self.offsets = values_of(self.offsets)[:].astype(np.uint32)  # of its own, and wide enough for any
        self.offsets[row] = offset >> 3

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
        self.offsets = np.insert(values_of(self.offsets)[:].astype(np.uint32), at, columns[0] >> 3)
        self.sizes = np.insert(values_of(self.sizes)[:].astype(np.uint32), at, columns[1])
        self.queues = np.insert(values_of(self.queues)[:].astype(np.uint32), at, columns[2])
        self.is_live = np.insert(np.frombuffer(self.is_live, np.uint8), at, LIVE)
        self.live = len(self.numbers)

    def select(self, queue: int | None, after: int, last: int, without: int = 0) -> tuple[Ints, Ints, Ints] | None:
        """Return (numbers, sequences, offsets) of the live messages of a queue, or of all; None for none.

        Only of numbers above `after` and up to `last`, and none that has one of the bits `without`.
        """
        rows = self._rows(queue, self._row_behind(after), self._row_behind(last), without)
        if not len(rows):
            return None
        numbers = rows + self.first if self.numbers is None else self.numbers[rows].astype(np.int64)
        offsets = values_of(self.offsets)[rows].astype(np.int64) * OFFSET_UNIT
        if self.sequences is None:
            return numbers, np.full(len(rows), self.sequence, np.int64), offsets
        return numbers, self.sequences[rows].astype(np.int64), offsets

    def first_numbers(self, queue: int, after: int, count: int, without: int = 0) -> list[int]:
        """Return the numbers of the first so many live messages of a queue behind a number, in order.

        Those are left out that have one of the bits `without`.
        """
        low, end, first = self._row_behind(after), len(self.offsets), self.first
        if end - low <= FEW_ROWS and self.numbers is None and not without:
            queues, is_live = self.queues, self.is_live
            return [first + row for row in range(low, end) if is_live[row] and queues[row] == queue][:count]
        rows = self._rows(queue, low, end, without)[:count]
        found: list[int] = (rows + self.first if self.numbers is None else self.numbers[rows]).tolist()
        return found

    def count_from(self, queue: int, low: int) -> int:
        """Return how many live messages of a queue are in the rows from one on."""
        end, queues, is_live = len(self.offsets), self.queues, self.is_live
        if end - low > FEW_ROWS:
            return len(self._rows(queue, low, end))
        return [queues[row] for row in range(low, end) if is_live[row]].count(queue)

    def _row_behind(self, number: int) -> int:
        """Return the first row of a higher number; there may be none any more."""
        if self.numbers is None:
            return max(0, number + 1 - self.first)
        return int(np.searchsorted(self.numbers, np.uint64(number), "right"))

    def _rows(self, queue: int | None, low: int, high: int, without: int = 0) -> Ints:
        """Return those of the rows from `low` up to `high` that are live and of a queue, or of any.

        Growing columns are copied, not lent: what an exception keeps of this call could not grow any more.
        """
        if low >= min(high, len(self.offsets)):
            return _NO_ROWS
        wanted = np.frombuffer(self.is_live[low:high], np.uint8) & (LIVE | without) == LIVE
        if queue is not None:
            wanted = wanted & (values_of(self.queues[low:high]) == queue)
        found: Ints = np.flatnonzero(wanted) + low
        return found


def sparse_block(sequence: int, numbers: Numbers, columns: tuple[Ints, Ints, Ints]) -> Block:
    """Return a block of live messages with a number each."""
    block = Block(sequence, int(numbers[0]))
    block.last = int(numbers[-1])
    block.live = len(numbers)
    is_dense = block.last - block.first + 1 == len(numbers)
    block.numbers = None if is_dense else numbers.astype(np.uint64)
    block.offsets, block.sizes, block.queues = compact(columns[0] >> 3), compact(columns[1]), compact(columns[2])
    block.is_live = np.ones(len(numbers), np.uint8)
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


NUMBER_MAX = 1 << 62  # no message's number is as high
SPARSE_SHARE = 4  # a block is packed when fewer than one in this many of its messages is live

_ONES = b"\1" * 64


class MessageLocation(NamedTuple):
    """Where an undelivered message is."""

    number: int
    queue: int
    sequence: int
    offset: int
    size: int


@dataclass(slots=True)
class FileUse:
    """What of one data file is still needed."""

    live_messages: int = 0
    live_bytes: int = 0


class Table:
    """The undelivered messages of a database."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._firsts: list[int] = []  # of the blocks, for bisection
        self.queues = Queues()
        self._queue_counts = self.queues.counts
        self._queue_bytes = self.queues.bytes
        self._newest = Block(0, 0)  # the last of them, where there is any
        self.files: dict[int, FileUse] = {}

    @property
    def count(self) -> int:
        """How many messages are undelivered."""
        return sum(self._queue_counts)

    def undelivered_count(self, queue: str) -> int:
        """Return how many messages of the queue are undelivered."""
        place = self.queues.find(queue)
        return 0 if place is None else self.queues.counts[place]

    # Changes.

    def add_singles(
        self, first: int, sequence: int, columns: tuple[Sequence[int], Sequence[int], Sequence[int]]
    ) -> None:
        """Take in messages of neighbouring numbers, each with its own frame: (offsets, sizes, queues)."""
        offsets, sizes, queues = columns
        count, total = len(sizes), sum(sizes)
        block = self._open_block(first, sequence)
        try:
            block.offsets.extend([offset >> 3 for offset in offsets])  # type: ignore[union-attr]
            block.sizes.extend(sizes)  # type: ignore[union-attr]
            block.queues.extend(queues)  # type: ignore[union-attr]
            block.is_live.extend(_ONES[:count] if count <= len(_ONES) else b"\1" * count)  # type: ignore[union-attr]
        except BufferError:  # somebody still looks at the columns, be it the traceback of an interrupted look
            block.copy_columns()
            return self.add_singles(first, sequence, columns)
        block.last = first + count - 1
        block.live += count
        if queues.count(queues[0]) == count:
            self._queue_counts[queues[0]] += count
            self._queue_bytes[queues[0]] += total
        else:
            for queue, size in zip(queues, sizes, strict=True):
                self._queue_counts[queue] += 1
                self._queue_bytes[queue] += size
        use = self.files[sequence]
        use.live_messages += count
        use.live_bytes += total

    def add_one(self, queue: int, number: int, sequence: int, offset: int, size: int) -> None:
        """Take in one message that has its own frame."""
        block = self._newest
        if block.last + 1 != number or block.sequence != sequence or not block.is_growing:
            block = self._open_block(number, sequence)
        try:
            block.offsets.append(offset >> 3)  # type: ignore[union-attr]
            block.sizes.append(size)  # type: ignore[union-attr]
            block.queues.append(queue)  # type: ignore[union-attr]
            block.is_live.append(1)  # type: ignore[union-attr]
        except BufferError:  # somebody still looks at the columns, be it the traceback of an interrupted look
            block.copy_columns()
            return self.add_one(queue, number, sequence, offset, size)
        block.last = number
        block.live += 1
        self._queue_counts[queue] += 1
        self._queue_bytes[queue] += size
        use = block.use
        use.live_messages += 1
        use.live_bytes += size

    def add_run(self, queue: int, first: int, sequence: int, offset: int, sizes: Sequence[int]) -> None:
        """Take in neighbouring messages of one queue that one frame holds."""
        count, total = len(sizes), sum(sizes)
        block = self._open_block(first, sequence)
        try:
            block.offsets.extend(array("I", [offset >> 3]) * count)  # type: ignore[union-attr]
            block.sizes.extend(sizes if isinstance(sizes, array) else array("I", sizes))  # type: ignore[union-attr]
            block.queues.extend(array("I", [queue]) * count)  # type: ignore[union-attr]
            block.is_live.extend(b"\1" * count)  # type: ignore[union-attr]
        except BufferError:  # somebody still looks at the columns, be it the traceback of an interrupted look
            block.copy_columns()
            return self.add_run(queue, first, sequence, offset, sizes)
        block.last = first + count - 1
        block.live += count
        self._queue_counts[queue] += count
        self._queue_bytes[queue] += total
        use = self.files[sequence]
        use.live_messages += count
        use.live_bytes += total

    def _open_block(self, number: int, sequence: int) -> Block:
        """Return the block that the next message goes into."""
        block = self._newest
        if block.last + 1 == number and block.sequence == sequence and block.is_growing:
            return block
        assert number > block.last, "numbers ascend"
        block = Block(sequence, number)
        block.is_growing = True
        self._append(block)
        block.use = self.files.setdefault(sequence, FileUse())
        return block

    def _append(self, block: Block) -> None:
        """Put a block behind the last one, which grows no more."""
        self._blocks.append(block)
        self._firsts.append(block.first)
        self._newest = block
        if len(self._blocks) > 1:
            full = self._blocks[-2]
            full.freeze()
            if full.live * SPARSE_SHARE < len(full.offsets):
                self._shrink(full)

    def add_columns(self, sequence: int, numbers: Numbers, columns: tuple[Ints, Ints, Ints]) -> None:
        """Take in the messages of one data file in bulk: ascending numbers, (offsets, sizes, queues)."""
        if not len(numbers):
            return
        block = sparse_block(sequence, numbers, columns)
        check_ascends(block, self._blocks)
        self._append(block)
        self._account(sequence, columns[1], columns[2])

    def add_dense(self, sequence: int, first: int, columns: tuple[Column, Column, Column]) -> None:
        """Take in neighbouring numbers of one data file, as a footer has them: (offsets / 8, sizes, queues)."""
        block = Block(sequence, first)
        block.offsets, block.sizes, block.queues = columns
        block.last = first + len(block.offsets) - 1
        block.live = len(block.offsets)
        block.is_live = np.ones(block.live, np.uint8)
        check_ascends(block, self._blocks)
        self._append(block)
        self._account(sequence, values_of(columns[1])[:], values_of(columns[2])[:])

    def _account(self, sequence: int, sizes: npt.NDArray[Any], queues: npt.NDArray[Any], *, sign: int = 1) -> None:
        """Count messages that have come, or, with the sign -1, gone."""
        use = self.files.setdefault(sequence, FileUse())
        use.live_messages += sign * len(sizes)
        use.live_bytes += sign * int(sizes.sum())
        if len(queues) and bool((queues == queues[0]).all()):
            self._queue_counts[int(queues[0])] += sign * len(sizes)
            self._queue_bytes[int(queues[0])] += sign * int(sizes.sum())
            return
        counts = np.bincount(queues)
        bytes_ = np.bincount(queues, weights=sizes)
        for queue in np.flatnonzero(counts).tolist():
            self._queue_counts[queue] += sign * int(counts[queue])
            self._queue_bytes[queue] += sign * int(bytes_[queue])

    def remove(self, number: int) -> bool:
        """Take out one message; False when it is not undelivered. As `find`, without a call of ours."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return False
        block = self._blocks[index]
        row = number - block.first if block.numbers is None else block.row(number)
        if number > block.last or row < 0 or not block.is_live[row]:
            return False
        queue, size = int(block.queues[row]), int(block.sizes[row])
        use = self.files[block.sequence if block.sequences is None else int(block.sequences[row])]
        block.is_live[row] = 0
        block.live -= 1
        self._queue_counts[queue] -= 1
        self._queue_bytes[queue] -= size
        use.live_messages -= 1
        use.live_bytes -= size
        if block.live * SPARSE_SHARE < len(block.offsets):
            self._shrink(block)
        return True

    def remove_many(self, numbers: Sequence[int] | Numbers) -> int:
        """Take out ascending numbers; return how many of them were undelivered."""
        if len(numbers) == 1:
            return int(self.remove(int(numbers[0])))
        if (run := self._run(numbers)) is not None and run[0].sequences is None:
            self._remove_run(*run)
            return len(numbers)
        removed = 0
        for block, rows in self._parts(np.asarray(numbers, np.uint64)):
            self._remove_rows(block, rows)
            removed += len(rows)
        for block in [block for block in self._blocks if block.live * SPARSE_SHARE < len(block.offsets)]:
            self._shrink(block)
        return removed

    def are_live(self, numbers: Sequence[int] | Numbers) -> bool:
        """Say whether all of ascending numbers are undelivered."""
        if len(numbers) > 1 and self._run(numbers) is not None:
            return True
        return None not in map(self.queue_of, numbers)

    def _run(self, numbers: Sequence[int] | Numbers) -> tuple[Block, int, int] | None:
        """Return block and rows of ascending numbers that follow one another there, all live; None for any others."""
        if not len(numbers):
            return None
        first, end = int(numbers[0]), int(numbers[-1]) + 1
        index = bisect_right(self._firsts, first) - 1
        if end - first != len(numbers) or index < 0:
            return None
        block = self._blocks[index]
        if block.numbers is not None or end > block.last + 1:
            return None
        low, high = first - block.first, end - block.first
        return (block, low, high) if 0 not in block.is_live[low:high] else None

    def _remove_run(self, block: Block, low: int, high: int) -> None:
        """Take out live messages of neighbouring rows."""
        queues, sizes, count = block.queues[low:high].tolist(), block.sizes[low:high].tolist(), high - low
        use, total = self.files[block.sequence], sum(sizes)
        if queues.count(queues[0]) == count:
            self._queue_counts[queues[0]] -= count
            self._queue_bytes[queues[0]] -= total
        else:
            for queue, size in zip(queues, sizes, strict=True):
                self._queue_counts[queue] -= 1
                self._queue_bytes[queue] -= size
        use.live_messages -= count
        use.live_bytes -= total
        np.frombuffer(block.is_live, np.uint8)[low:high] = 0
        block.live -= count
        if block.live * SPARSE_SHARE < len(block.offsets):
            self._shrink(block)

    def _parts(self, numbers: Numbers) -> Iterator[tuple[Block, Ints]]:
        """Yield the blocks that hold any of ascending numbers, and the rows of those that are live."""
        at = 0
        while at < len(numbers):
            index = bisect_right(self._firsts, int(numbers[at]))
            before, at = at, len(numbers)
            if index < len(self._firsts):
                at = bisect_left(numbers, self._firsts[index], before)
            if index:
                block = self._blocks[index - 1]
                rows = block.find(numbers[before : bisect_right(numbers, block.last, before, at)])
                if len(rows):
                    yield block, rows

    def _remove_rows(self, block: Block, rows: Ints) -> None:
        sizes, queues = values_of(block.sizes)[rows].astype(np.int64), values_of(block.queues)[rows]
        sequences = np.full(len(rows), block.sequence) if block.sequences is None else block.sequences[rows]
        for sequence in distinct(sequences).tolist():
            mine = sequences == sequence
            self._account(sequence, sizes[mine], queues[mine], sign=-1)
        np.frombuffer(block.is_live, np.uint8)[rows] = 0
        block.live -= len(rows)

    def _shrink(self, block: Block) -> None:
        if not block.live:
            if block is self._newest:
                return  # it may still grow, and its last number must not come again
            at = self._blocks.index(block)
            del self._blocks[at], self._firsts[at]
        elif not block.is_growing:
            block.pack()

    def move(self, number: int, sequence: int, offset: int) -> bool:
        """Note that a message was written again elsewhere; False when it is not undelivered."""
        found = self._locate(number)
        if found is None:
            return False
        block, row = found
        old = self._place(block, row)
        block.move(row, sequence, offset)
        self.files[old.sequence].live_messages -= 1
        self.files[old.sequence].live_bytes -= old.size
        use = self.files.setdefault(sequence, FileUse())
        use.live_messages += 1
        use.live_bytes += old.size
        return True

    def insert_columns(self, sequence: int, numbers: Numbers, columns: tuple[Ints, Ints, Ints]) -> None:
        """Take in moved messages whose first file is gone: ascending numbers, lower than others in the table."""
        places = np.searchsorted(np.array(self._firsts, np.uint64), numbers, "right").astype(np.int64) - 1
        for index in distinct(places)[::-1].tolist():
            mine = np.flatnonzero(places == index)
            if index >= 0:
                inside = mine[numbers[mine] <= np.uint64(self._blocks[index].last)]
                self._blocks[index].merge(sequence, numbers[inside], _pick(columns, inside))
                mine = mine[len(inside) :]
            if len(mine):
                block = sparse_block(sequence, numbers[mine], _pick(columns, mine))
                self._blocks.insert(index + 1, block)
                self._firsts.insert(index + 1, block.first)
        self._newest = self._blocks[-1]
        self._account(sequence, columns[1], columns[2])

    def forget_file(self, sequence: int) -> None:
        """Forget the accounts of a file that is gone; nothing in it is live."""
        use = self.files.pop(sequence, None)
        assert use is None or not use.live_messages, "only files without live messages go"

    # Questions.

    def last_number(self) -> int:
        """Return the highest number taken in, 0 for none."""
        return max(0, self._newest.last)

    def find(self, number: int) -> MessageLocation | None:
        """Return where the message is; None when it is not undelivered. Each take asks it: without a call of ours."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return None
        block = self._blocks[index]
        row = number - block.first if block.numbers is None else block.row(number)
        if number > block.last or row < 0 or not block.is_live[row]:
            return None
        sequence = block.sequence if block.sequences is None else int(block.sequences[row])
        offset, size = int(block.offsets[row]) * OFFSET_UNIT, int(block.sizes[row])
        return _new(MessageLocation, (number, int(block.queues[row]), sequence, offset, size))

    def find_ready(self, number: int) -> MessageLocation | None:
        """Return where the message is; None when it is not undelivered, or stands apart. Likewise without a call."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return None
        block = self._blocks[index]
        row = number - block.first if block.numbers is None else block.row(number)
        if number > block.last or row < 0 or block.is_live[row] & (LIVE | APART) != LIVE:
            return None
        sequence = block.sequence if block.sequences is None else int(block.sequences[row])
        offset, size = int(block.offsets[row]) * OFFSET_UNIT, int(block.sizes[row])
        return tuple.__new__(MessageLocation, (number, int(block.queues[row]), sequence, offset, size))

    def find_places(self, numbers: Sequence[int]) -> list[MessageLocation]:
        """Return where those of ascending numbers are that are undelivered, in order."""
        if (run := self._run(numbers)) is not None and run[0].sequences is None:
            block, low, high = run
            queues, units, sizes = (column[low:high].tolist() for column in (block.queues, block.offsets, block.sizes))
            of_run = zip(numbers, queues, repeat(block.sequence), map(OFFSET_UNIT.__mul__, units), sizes, strict=False)
            return [*map(_new, repeat(MessageLocation), of_run)]  # one of them is endless
        found: list[MessageLocation] = []
        for block, rows in self._parts(np.array(numbers, np.uint64)):
            sequences = repeat(block.sequence) if block.sequences is None else block.sequences[rows].tolist()
            offsets = values_of(block.offsets)[rows].astype(np.int64) * OFFSET_UNIT
            queues, sizes = values_of(block.queues)[rows], values_of(block.sizes)[rows]
            columns = block.numbers_of(rows).tolist(), queues.tolist(), sequences, offsets.tolist(), sizes.tolist()
            found += map(_new, repeat(MessageLocation), zip(*columns, strict=False))  # likewise
        return found

    def queue_of(self, number: int) -> int | None:
        """Return the place of the message's queue; None when it is not undelivered."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return None
        block = self._blocks[index]
        row = number - block.first if block.numbers is None else block.row(number)
        return int(block.queues[row]) if number <= block.last and row >= 0 and block.is_live[row] else None

    def state_of(self, number: int) -> int:
        """Return the bits of an undelivered message, 0 when it is not undelivered."""
        found = self._locate(number)
        return 0 if found is None else int(found[0].is_live[found[1]])

    def change(self, number: int, put: int = 0, take: int = 0) -> tuple[int, int] | None:
        """Put bits to a message, and take others from it; return its queue's place, and its bits before.

        None when it is not undelivered.
        """
        found = self._locate(number)
        if found is None:
            return None
        block, row = found
        before = int(block.is_live[row])
        block.is_live[row] = before & ~take | put
        return int(block.queues[row]), before

    def mark(self, numbers: Numbers, put: int = 0, take: int = 0) -> tuple[Numbers, Ints, Ints]:
        """Do the same of ascending numbers; return those that are undelivered, and as above."""
        found, queues, bits = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block, rows in self._parts(numbers):
            found.append(block.numbers_of(rows))
            queues.append(values_of(block.queues)[rows].astype(np.int64))
            states = np.frombuffer(block.is_live, np.uint8)
            bits.append(states[rows].astype(np.int64))
            if put or take:
                states[rows] = states[rows] & ~np.uint8(take) | np.uint8(put)
        return np.concatenate(found), np.concatenate(queues), np.concatenate(bits)

    def find_many(self, numbers: Numbers) -> tuple[Numbers, Ints]:
        """Return those of ascending numbers that are undelivered, and the places of their queues."""
        found, queues = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for block, rows in self._parts(numbers):
            found.append(block.numbers_of(rows))
            queues.append(values_of(block.queues)[rows].astype(np.int64))
        return np.concatenate(found), np.concatenate(queues)

    def _locate(self, number: int) -> tuple[Block, int] | None:
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return None
        block = self._blocks[index]
        row = block.row(number)
        return (block, row) if row >= 0 and block.is_live[row] else None

    def _place(self, block: Block, row: int) -> MessageLocation:
        return MessageLocation(
            block.number(row),
            int(block.queues[row]),
            block.sequence_of(row),
            int(block.offsets[row]) * OFFSET_UNIT,
            int(block.sizes[row]),
        )

    def batches(self, queue: str | None, after: int, last: int, without: int = 0) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield (numbers, sequences, offsets) of undelivered messages in order, a block at a time.

        Of one queue or of all; only numbers above `after` and up to `last`, and none that has one of the bits
        `without`. Between two batches the table may change.
        """
        while True:
            place = None if queue is None else self.queues.find(queue)  # another queue may have it by the next batch
            if queue is not None and (place is None or not self._queue_counts[place]):
                return
            index = max(0, bisect_right(self._firsts, after + 1) - 1)
            batch = None
            while index < len(self._blocks) and batch is None:
                block = self._blocks[index]
                batch = block.select(place, after, last, without) if block.last > after else None
                index += 1
            if batch is None:
                return
            after = int(batch[0][-1])
            yield batch

    def first_numbers(self, queue: str, after: int, count: int, without: int = 0) -> tuple[list[int], int]:
        """Return the first undelivered of a queue behind a number, at most so many, and up to where these are all.

        Those are left out that have one of the bits `without`.
        """
        place = self.queues.find(queue)
        index = max(0, bisect_right(self._firsts, after + 1) - 1)
        while index < len(self._blocks) and place is not None and self._queue_counts[place]:
            block = self._blocks[index]
            found = block.first_numbers(place, after, count, without) if block.last > after else []
            if found:
                return found, found[-1] if len(found) == count else block.last
            index += 1
        return [], max(after, self.last_number())

    def number_before(self, queue: str) -> int:
        """Return a number that all undelivered of the queue are behind, close to the first where these are new."""
        place = self.queues.find(queue)
        return self.last_number() if place is None else number_before(self._blocks, place, self._queue_counts[place])

    def in_file(self, sequence: int) -> Iterator[MessageLocation]:
        """Yield the live messages that lie in one data file, in order."""
        for block in list(self._blocks):
            if block.sequence == sequence or block.sequences is not None:
                rows = block.live_rows()
                if block.sequences is not None:
                    rows = rows[block.sequences[rows] == sequence]
                for row in rows.tolist():
                    yield self._place(block, row)

    def check(self) -> None:
        """Assert every invariant; for tests."""
        counts = [0] * len(self._queue_counts)
        files: dict[int, FileUse] = {}
        previous = -1
        for block, first in zip(self._blocks, self._firsts, strict=True):
            assert block.first == first > previous
            rows = block.live_rows().tolist()
            assert len(rows) == block.live
            for row in rows:
                place = self._place(block, row)
                assert previous < place.number <= block.last
                previous = place.number
                counts[place.queue] += 1
                use = files.setdefault(place.sequence, FileUse())
                use.live_messages += 1
                use.live_bytes += place.size
            previous = block.last
        assert counts == self._queue_counts
        assert {s: u for s, u in self.files.items() if u.live_messages} == files


def _pick(columns: tuple[Ints, Ints, Ints], rows: Ints) -> tuple[Ints, Ints, Ints]:
    return columns[0][rows], columns[1][rows], columns[2][rows]
