"""Which messages are undelivered, and where: columns, not objects.

Messages are kept in blocks of neighbouring numbers (`block.py`), one block per data file as it was
written. A block becomes sparse when fewer than a quarter of its messages are live, and goes when none
is. Numbers ascend through the blocks, so a message is found by bisection, and the undelivered of a
queue come out in order by one pass over the columns. The table does not lock: its owner does.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oms_journal.index.block import (
    OFFSET_UNIT,
    Block,
    Ints,
    Narrow,
    Numbers,
    check_ascends,
    distinct,
    number_before,
    sparse_block,
)
from oms_journal.index.queues import Queues

NUMBER_MAX = 1 << 62  # no message's number is as high
SPARSE_SHARE = 4  # a block is packed when fewer than one in this many of its messages is live

_ONES = b"\1" * 64


class Place(NamedTuple):
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

    def remove(self, number: int) -> Place | None:
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

    def find(self, number: int) -> Place | None:
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

    def _place(self, block: Block, row: int) -> Place:
        return Place(
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

    def in_file(self, sequence: int) -> Iterator[Place]:
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
