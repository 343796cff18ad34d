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
    is_live    1      still undelivered
    number     8      only in a sparse block; in a dense one the first number says all
    sequence   8      only where a message was moved to another file than its block's

A message costs 13 bytes in a dense block and 21 in a sparse one. The newest block grows by appending;
every other one is frozen into arrays.

The names of the queues, and how much is undelivered in each.

A queue has a place as long as anything is undelivered in it, and usually longer: who adds to it may have asked
for its place already. What is empty is forgotten when somebody says so, and its place is given to another queue:
callers may make up a name for each answer that they wait for. Does not lock: its owner does.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

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
        self.files: dict[int, FileUse] = {}
        self.count = 0

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
        self.count += count
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
        self.count += 1
        self._queue_counts[queue] += 1
        self._queue_bytes[queue] += size
        use = self.files[sequence]
        use.live_messages += 1
        use.live_bytes += size

    def add_run(self, queue: int, first: int, sequence: int, offset: int, sizes: Sequence[int]) -> None:
        """Take in neighbouring messages of one queue that one frame holds."""
        count, total = len(sizes), sum(sizes)
        block = self._open_block(first, sequence)
        try:
            block.offsets.extend(array("I", [offset >> 3]) * count)  # type: ignore[union-attr]
            block.sizes.extend(array("I", sizes))  # type: ignore[union-attr]
            block.queues.extend(array("I", [queue]) * count)  # type: ignore[union-attr]
            block.is_live.extend(b"\1" * count)  # type: ignore[union-attr]
        except BufferError:  # somebody still looks at the columns, be it the traceback of an interrupted look
            block.copy_columns()
            return self.add_run(queue, first, sequence, offset, sizes)
        block.last = first + count - 1
        block.live += count
        self.count += count
        self._queue_counts[queue] += count
        self._queue_bytes[queue] += total
        use = self.files[sequence]
        use.live_messages += count
        use.live_bytes += total

    def _open_block(self, number: int, sequence: int) -> Block:
        """Return the block that the next message goes into."""
        if self._blocks:
            block = self._blocks[-1]
            if block.sequence == sequence and block.last + 1 == number and isinstance(block.offsets, array):
                return block
        assert not self._blocks or number > self._blocks[-1].last, "numbers ascend"
        block = Block(sequence, number)
        self._append(block)
        self.files.setdefault(sequence, FileUse())
        return block

    def _append(self, block: Block) -> None:
        """Put a block behind the last one, which grows no more."""
        self._blocks.append(block)
        self._firsts.append(block.first)
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

    def add_dense(self, sequence: int, first: int, columns: tuple[Narrow, Narrow, Narrow]) -> None:
        """Take in neighbouring numbers of one data file, as a footer has them: (offsets / 8, sizes, queues)."""
        block = Block(sequence, first)
        block.offsets, block.sizes, block.queues = columns
        block.last = first + len(block.offsets) - 1
        block.live = len(block.offsets)
        block.is_live = np.ones(block.live, np.bool_)
        check_ascends(block, self._blocks)
        self._append(block)
        self._account(sequence, columns[1], columns[2])

    def _account(self, sequence: int, sizes: Ints | Narrow, queues: Ints | Narrow, *, sign: int = 1) -> None:
        """Count messages that have come, or, with the sign -1, gone."""
        use = self.files.setdefault(sequence, FileUse())
        use.live_messages += sign * len(sizes)
        use.live_bytes += sign * int(sizes.sum())
        self.count += sign * len(sizes)
        if len(queues) and bool((queues == queues[0]).all()):
            self._queue_counts[int(queues[0])] += sign * len(sizes)
            self._queue_bytes[int(queues[0])] += sign * int(sizes.sum())
            return
        counts = np.bincount(queues)
        bytes_ = np.bincount(queues, weights=sizes)
        for queue in np.flatnonzero(counts).tolist():
            self._queue_counts[queue] += sign * int(counts[queue])
            self._queue_bytes[queue] += sign * int(bytes_[queue])

    def remove(self, number: int) -> MessageLocation | None:
        """Take out one message and return where it was; None when it is not undelivered."""
        found = self._locate(number)
        if found is None:
            return None
        block, row = found
        place = self._place(block, row)
        block.is_live[row] = 0
        block.live -= 1
        self.count -= 1
        self._queue_counts[place.queue] -= 1
        self._queue_bytes[place.queue] -= place.size
        use = self.files[place.sequence]
        use.live_messages -= 1
        use.live_bytes -= place.size
        if block.live * SPARSE_SHARE < len(block.offsets):
            self._shrink(block)
        return place

    def remove_many(self, numbers: Numbers) -> int:
        """Take out ascending numbers; return how many of them were undelivered."""
        if len(numbers) <= 4:
            return sum(self.remove(number) is not None for number in numbers.tolist())
        removed = 0
        for block, rows in self._parts(numbers):
            self._remove_rows(block, rows)
            removed += len(rows)
        for block in [block for block in self._blocks if block.live * SPARSE_SHARE < len(block.offsets)]:
            self._shrink(block)
        return removed

    def _parts(self, numbers: Numbers) -> Iterator[tuple[Block, Ints]]:
        """Yield the blocks that hold any of ascending numbers, and the rows of those that are live."""
        firsts = np.array(self._firsts, np.uint64)
        for index in distinct(np.searchsorted(firsts, numbers, "right")).tolist():
            if index:
                block = self._blocks[index - 1]
                low, high = np.searchsorted(numbers, np.array([block.first, block.last + 1], np.uint64))
                rows = block.find(numbers[low:high])
                if len(rows):
                    yield block, rows

    def _remove_rows(self, block: Block, rows: Ints) -> None:
        sizes = np.frombuffer(block.sizes, np.uint32)[rows].astype(np.int64)
        queues = np.frombuffer(block.queues, np.uint32)[rows]
        sequences = np.full(len(rows), block.sequence) if block.sequences is None else block.sequences[rows]
        for sequence in distinct(sequences).tolist():
            mine = sequences == sequence
            self._account(sequence, sizes[mine], queues[mine], sign=-1)
        np.frombuffer(block.is_live, np.bool_)[rows] = False
        block.live -= len(rows)

    def _shrink(self, block: Block) -> None:
        if not block.live:
            if block is self._blocks[-1]:
                return  # it may still grow, and its last number must not come again
            at = self._blocks.index(block)
            del self._blocks[at], self._firsts[at]
        elif not isinstance(block.offsets, array):
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
        self._account(sequence, columns[1], columns[2])

    def forget_file(self, sequence: int) -> None:
        """Forget the accounts of a file that is gone; nothing in it is live."""
        use = self.files.pop(sequence, None)
        assert use is None or not use.live_messages, "only files without live messages go"

    # Questions.

    def last_number(self) -> int:
        """Return the highest number taken in, 0 for none."""
        return self._blocks[-1].last if self._blocks else 0

    def find(self, number: int) -> MessageLocation | None:
        """Return where the message is; None when it is not undelivered."""
        found = self._locate(number)
        return None if found is None else self._place(*found)

    def queue_of(self, number: int) -> int | None:
        """Return the place of the message's queue; None when it is not undelivered."""
        found = self._locate(number)
        return None if found is None else int(found[0].queues[found[1]])

    def find_many(self, numbers: Numbers) -> tuple[Numbers, Ints]:
        """Return those of ascending numbers that are undelivered, and the places of their queues."""
        found, queues = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for block, rows in self._parts(numbers):
            found.append(block.numbers_of(rows))
            queues.append(np.frombuffer(block.queues, np.uint32)[rows].astype(np.int64))
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

    def batches(self, queue: str | None, after: int, last: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield (numbers, sequences, offsets) of undelivered messages in order, a block at a time.

        Of one queue or of all; only numbers above `after` and up to `last`. Between two batches the
        table may change.
        """
        while True:
            place = None if queue is None else self.queues.find(queue)  # another queue may have it by the next batch
            if queue is not None and (place is None or not self._queue_counts[place]):
                return
            index = max(0, bisect_right(self._firsts, after + 1) - 1)
            batch = None
            while index < len(self._blocks) and batch is None:
                block = self._blocks[index]
                batch = block.select(place, after, last) if block.last > after else None
                index += 1
            if batch is None:
                return
            after = int(batch[0][-1])
            yield batch

    def first_numbers(self, queue: str, after: int, count: int) -> tuple[list[int], int]:
        """Return the first undelivered of a queue behind a number, at most so many, and up to where these are all."""
        place = self.queues.find(queue)
        index = max(0, bisect_right(self._firsts, after + 1) - 1)
        while index < len(self._blocks) and place is not None and self._queue_counts[place]:
            block = self._blocks[index]
            found = block.first_numbers(place, after, count) if block.last > after else []
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
        assert self.count == sum(counts)
        assert {s: u for s, u in self.files.items() if u.live_messages} == files


def _pick(columns: tuple[Ints, Ints, Ints], rows: Ints) -> tuple[Ints, Ints, Ints]:
    return columns[0][rows], columns[1][rows], columns[2][rows]
