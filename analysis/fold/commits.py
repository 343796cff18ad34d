"""How operations came in commits, and commits in writes, by bucket of time.

Commits of one file with the same time went out together. The gap from one write to the next goes across files: so a
part knows when its first write was, and its last one.
"""

from dataclasses import dataclass, field

import numpy as np

from oms_journal.analysis.fold.figures import Numbers
from oms_journal.analysis.fold.operations import Operations
from oms_journal.analysis.fold.quantiles import Sketch
from oms_journal.analysis.reading.columns import clamped
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.operations import Operation

SUMS = ("writes", "commits", "operations", "moved", "bytes")
HIGHEST = ("commits_per_write_max", "operations_per_commit_max", "bytes_per_commit_max")


@dataclass(slots=True)
class Bucket:
    """What was written in one bucket: SUMS, HIGHEST, and the gaps before the writes, in microseconds."""

    sums: Numbers = field(default_factory=lambda: np.zeros(len(SUMS), np.int64))
    highest: Numbers = field(default_factory=lambda: np.zeros(len(HIGHEST), np.int64))
    gaps: Sketch = field(default_factory=Sketch)


class Commits:
    """The writes of some files of one database."""

    def __init__(self, every: int) -> None:
        self._every = every
        self.buckets: dict[int, Bucket] = {}  # by number: time // every
        self._first: int | None = None  # time of the first write
        self._last = 0

    def take(self, operations: Operations) -> None:
        """Take in the operations of one file. Nothing was taken in before."""
        commits, times = operations.column("commit"), clamped(operations.column("time"))
        if not len(commits):
            return
        kinds, counts = operations.kinds, np.maximum(operations.column("count"), 1)
        is_moved = operations.column("flags") & MOVED != 0
        sizes = np.where((kinds == Operation.ADD) | (kinds == Operation.PUT), operations.column("size"), 0)
        starts = np.flatnonzero(np.append(True, commits[1:] != commits[:-1]))
        count, size, moved = (np.add.reduceat(each, starts) for each in (counts, sizes, is_moved.astype(np.int64)))
        write, times = _writes(times[starts])
        by_write = np.argsort(write, kind="stable") if (write[1:] < write[:-1]).any() else slice(None)
        firsts = np.flatnonzero(np.append(True, np.diff(write[by_write]) != 0))
        of_writes = [np.diff(np.append(firsts, len(starts)))]
        of_writes += [np.add.reduceat(each[by_write], firsts) for each in (count, moved, size)]
        highest = [of_writes[0], *(np.maximum.reduceat(each[by_write], firsts) for each in (count, size))]
        gaps = np.append(-1, np.maximum(np.diff(times), 0))  # none before the first
        numbers = times // self._every
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, gaps = numbers[order], gaps[order]
            of_writes, highest = ([each[order] for each in columns] for columns in (of_writes, highest))
        begins = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        sums = [np.diff(np.append(begins, len(numbers))), *(np.add.reduceat(each, begins) for each in of_writes)]
        most = [np.maximum.reduceat(each, begins) for each in highest]
        for place, mine in enumerate(np.split(gaps, begins[1:])):
            bucket = self.buckets[int(numbers[begins[place]])] = Bucket()
            bucket.sums += [each[place] for each in sums]
            bucket.highest += [each[place] for each in most]
            bucket.gaps.add(mine[mine >= 0])
        self._first, self._last = int(times[0]), int(times[-1])

    def merge(self, later: "Commits") -> None:
        """Take in what comes behind."""
        if later._first is None:
            return
        if self._first is not None:
            gap = np.array([max(0, later._first - self._last)], np.int64)
            later.buckets[later._first // self._every].gaps.add(gap)
        else:
            self._first = later._first
        self._last = later._last
        for number, other in later.buckets.items():
            bucket = self.buckets.setdefault(number, Bucket())
            bucket.sums += other.sums
            np.maximum(bucket.highest, other.highest, out=bucket.highest)
            bucket.gaps.merge(other.gaps)


def _writes(times: Numbers) -> tuple[Numbers, Numbers]:
    """Return which write each commit is in, and the times of the writes, in the order of their first commits."""
    if (times[1:] >= times[:-1]).all():
        begins = np.append(True, times[1:] != times[:-1])
        return np.cumsum(begins) - 1, times[begins]
    distinct, firsts, which = np.unique(times, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order))
    return turn[which], distinct[order]
