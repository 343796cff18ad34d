"""What is counted of messages, by queue: what became of them, their latencies, what came and went over time."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.fold.asked import BACKLOG, HISTOGRAM, LATENCY, LIFECYCLE, RATE, Asked
from oms_journal.analysis.fold.latencies import Latencies
from oms_journal.analysis.fold.quantiles import Sketch
from oms_journal.analysis.fold.tallies import Tally
from oms_journal.journal.operations import Operation

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

COUNTS = ("added", "added_before", "delivered", "deleted", "expired", "dead_lettered")
KINDS = len(Operation) + 1  # a group of a rate is KINDS × the queue, and the operation
LATENCY_END = 1 << 63
OF_LATENCIES = (LIFECYCLE, HISTOGRAM, LATENCY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Messages, a column a fact: all of them with an ADD or without, with an end or without. Microseconds, bytes."""

    queue: Numbers  # of any width
    added: Numbers | None = None
    ready: Numbers | None = None  # when it could first be handed out: due, or added
    length: Numbers | None = None  # of those with an ADD, where somebody asks for them
    ended: Numbers | None = None
    is_delivered: Mask | None = None
    is_expired: Mask | None = None  # of what was deleted; None for nothing
    is_dead_lettered: Mask | None = None  # likewise

    def where(self, mask: Mask) -> "Lives":
        """Return some of the messages."""
        if mask.all():
            return self
        return Lives(
            queue=self.queue[mask],
            added=None if self.added is None else self.added[mask],
            ready=None if self.ready is None else self.ready[mask],
            length=None if self.length is None else self.length[mask],
            ended=None if self.ended is None else self.ended[mask],
            is_delivered=None if self.is_delivered is None else self.is_delivered[mask],
            is_expired=None if self.is_expired is None else self.is_expired[mask],
            is_dead_lettered=None if self.is_dead_lettered is None else self.is_dead_lettered[mask],
        )


class Figures:
    """What is asked of messages, as far as they have been counted."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.counts: Numbers = np.zeros((len(COUNTS), 0), np.int64)
        self.latencies: dict[int, Sketch] = {}  # by queue
        self.bins: Numbers = np.zeros((0, len(edges(asked.bins_a_decade)) + 1), np.int64)  # by queue, and bin + 1
        self.latency = Latencies()  # by queue and bucket
        self.rate = Tally(2)  # operations, bytes
        self.backlog = Tally(3)  # messages, bytes, ends of messages that were there before

    @property
    def are_lengths_asked(self) -> bool:
        """Whether anything depends on how long messages are."""
        return self._asked.asks(RATE, BACKLOG)

    def count(self, lives: Lives) -> None:
        """Count messages whose end is known, or that have none: each once, and for all."""
        asked = self._asked
        if lives.ended is not None and asked.since is not None:
            lives = lives.where(lives.ended >= asked.since)
        if not len(lives.queue):
            return
        is_delivered = lives.is_delivered
        delivered = lives if is_delivered is None else lives.where(is_delivered)
        if asked.asks(LIFECYCLE):
            every = self._count(0 if lives.added is not None else 1, lives.queue)
            if is_delivered is not None:
                found = self._count(2, delivered.queue) if delivered is not lives else self._add(2, every)
                self._add(3, every - found)
            for row, is_so in ((4, lives.is_expired), (5, lives.is_dead_lettered)):
                if is_so is not None:
                    self._count(row, lives.queue[is_so])
        if asked.asks(*OF_LATENCIES) and is_delivered is not None and delivered.ready is not None:
            assert delivered.ended is not None
            took = delivered.ended - delivered.ready
            took = np.maximum(took, 0, out=took)
            if asked.asks(LATENCY):
                queues = delivered.queue.astype(np.int64, copy=False)
                self.latency.add(queues, delivered.ended // asked.every, took)
            self._count_latencies(delivered.queue, took)
        if asked.asks(RATE):
            self._count_rate(lives)
        if asked.asks(BACKLOG):
            self._count_backlog(lives)

    def merge(self, other: "Figures", queues: Numbers) -> None:
        """Take in the figures of what came later; `queues` says which of our queues each of its queues is."""
        counts = other.counts
        self.counts = _widened(self.counts, int(queues[: counts.shape[1]].max(initial=-1)) + 1)
        self.counts[:, queues[: counts.shape[1]]] += counts
        self.bins = _widened(self.bins.T, int(queues[: len(other.bins)].max(initial=-1)) + 1).T
        self.bins[queues[: len(other.bins)]] += other.bins
        for queue, sketch in other.latencies.items():
            self.latencies.setdefault(int(queues[queue]), Sketch()).merge(sketch)
        self.latency.merge(other.latency, queues)
        groups = (queues[:, None] * KINDS + np.arange(KINDS)).ravel()
        self.rate.merge(other.rate, groups)
        self.backlog.merge(other.backlog, queues)

    def _count(self, row: int, queues: Numbers) -> Numbers:
        """Count messages by queue, and return what was counted."""
        return self._add(row, np.bincount(queues, minlength=self.counts.shape[1]))

    def _add(self, row: int, found: Numbers) -> Numbers:
        self.counts = _widened(self.counts, len(found))
        self.counts[row, : len(found)] += found
        return found

    def _count_latencies(self, queues: Numbers, took: Numbers) -> None:
        if not len(queues):
            return
        if self._asked.asks(HISTOGRAM):
            place = np.searchsorted(edges(self._asked.bins_a_decade), took, "right")
            width = self.bins.shape[1]
            found = np.bincount(np.multiply(queues, width, dtype=np.int64) + place)
            self.bins = _widened(self.bins.T, -(-len(found) // width)).T
            found = np.append(found, np.zeros(-len(found) % width, np.int64)).reshape(-1, width)
            self.bins[: len(found)] += found
        if self._asked.asks(LIFECYCLE):
            for queue, values in by_group(queues, took):
                self.latencies.setdefault(queue, Sketch()).add(values)

    def _count_rate(self, lives: Lives) -> None:
        every, since = self._asked.every, self._asked.since
        groups = np.multiply(lives.queue, KINDS, dtype=np.int64)
        if lives.added is not None:
            assert lives.length is not None
            queues, added, length = groups, lives.added, lives.length
            if since is not None:
                is_in = added >= since
                queues, added, length = queues[is_in], added[is_in], length[is_in]
            self.rate.add(queues + int(Operation.ADD), added // every, (1, length))
        if lives.ended is not None:
            assert lives.is_delivered is not None
            kinds = np.where(lives.is_delivered, int(Operation.DELIVER), int(Operation.DELETE))
            size = 0 if lives.length is None else lives.length
            self.rate.add(groups + kinds, lives.ended // every, (1, size))

    def _count_backlog(self, lives: Lives) -> None:
        every, queues = self._asked.every, lives.queue.astype(np.int64, copy=False)
        if lives.added is not None:
            assert lives.length is not None
            self.backlog.add(queues, lives.added // every, (1, lives.length, 0))
        if lives.ended is not None:
            if lives.added is None or lives.length is None:
                self.backlog.add(queues, lives.ended // every, (-1, 0, 1))
            else:
                went = np.maximum(lives.added, lives.ended)
                self.backlog.add(queues, went // every, (-1, -lives.length, 0))


@lru_cache(maxsize=4)
def edges(bins_a_decade: int) -> Numbers:
    """Return the least whole number of microseconds in each bin, from bin 0 on, which begins at 1."""
    found: list[int] = []
    place = 0
    while True:
        least = round(10 ** (place / bins_a_decade))
        while least**bins_a_decade >= 10**place:
            least -= 1
        while least**bins_a_decade < 10**place:
            least += 1
        if least >= LATENCY_END:
            return np.array(found, np.int64)
        found.append(least)
        place += 1


def by_group(groups: Numbers, values: Numbers) -> list[tuple[int, Numbers]]:
    """Return the values of each group, in their order."""
    sizes = np.bincount(groups)
    found = np.flatnonzero(sizes)
    if len(found) == 1:
        return [(int(found[0]), values)]
    narrow = groups.astype(np.min_scalar_type(len(sizes)), copy=False)  # which numpy sorts by their digits
    values = values[np.argsort(narrow, kind="stable")]
    ends = np.cumsum(sizes[found])
    bounds = zip(found.tolist(), (ends - sizes[found]).tolist(), ends.tolist(), strict=True)
    return [(group, values[start:end].copy()) for group, start, end in bounds]


def _widened(counts: Numbers, columns: int) -> Numbers:
    """Return a table with at least so many columns, zeros in those that are new."""
    more = columns - counts.shape[1]
    return counts if more <= 0 else np.pad(counts, ((0, 0), (0, more)))
