"""How latencies spread in each queue and bucket of time: quantiles in little memory, mergeable, many groups at once.

A group is a queue and a bucket. Its values are kept in levels, as those of `quantiles.py` are: on level *l* each stands
for 2^l. To halve a level of a group is to sort it, to let every second value go one level up, and to drop the others.
What that can have done to the ranks is added up for each group, and said in the answer. A level is halved only if no
rank of its group is off by more than one in RANKS of its values afterwards.

A value that is kept takes 13 bytes, a group 48. A group keeps its first 2,000 values as they are, and some thousands of
a million. More than VALUES_MAX values of all groups, 27 MB, are kept only where the promise cannot be made smaller: it
is halved until they are few enough, or it is one in RANKS_MIN, with which a group keeps about 30 values of a million.
While they are put together they take twice as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

RANKS = 1_000  # a quantile's rank is off by at most one in so many
RANKS_MIN = 8  # likewise, where there are very many groups
VALUES_MAX = 1 << 21  # kept of all groups; beyond, ranks become less certain
NARROW = 1 << 16  # so many groups at most are numbers of two bytes
CHUNK_MIN = 1 << 16  # values that are not put together with others at once


@dataclass(slots=True)
class _Chunk:
    """Groups, a row each, and the values of these groups, a row each."""

    queue: Numbers
    bucket: Numbers
    count: Numbers
    highest: Numbers
    low: Numbers  # so many ranks too low, and too high, at the most
    high: Numbers
    group: npt.NDArray[np.int32]  # of a value: the row of its group
    level: npt.NDArray[np.uint8]
    value: Numbers


@dataclass(frozen=True, slots=True)
class Spread:
    """The groups, sorted by queue and bucket: how many values, quantiles (a row each share), and the highest value."""

    queue: Numbers
    bucket: Numbers
    count: Numbers
    quantiles: Numbers
    highest: Numbers
    error: Numbers  # how many ranks a quantile may be off, at the most


class Latencies:
    """Values by (queue, bucket), of which quantiles will be asked."""

    def __init__(self, ranks: int = RANKS, values_max: int = VALUES_MAX) -> None:
        self._ranks = ranks
        self._values_max = values_max
        self._chunks: list[_Chunk] = []
        self._kept = 0
        self._kept_settled = 0

    @property
    def kept(self) -> int:
        """How many values are kept."""
        return self._kept

    def add(self, queues: Numbers, buckets: Numbers, values: Numbers) -> None:
        """Take in a value for each pair."""
        if not len(values):
            return
        first = int(buckets.min())
        span = int(buckets.max()) - first + 1
        if span * (int(queues.max()) + 1) <= NARROW:
            order = _stable_order(queues * span + (buckets - first))
        else:
            order = np.lexsort((buckets, queues))
        queues, buckets, values = queues[order], buckets[order], values[order]
        starts = _begins(queues, buckets)
        counts = np.diff(np.append(starts, len(values)))
        nothing = np.zeros(len(starts), np.int64)
        self._take(
            _Chunk(
                queue=queues[starts],
                bucket=buckets[starts],
                count=counts,
                highest=np.maximum.reduceat(values, starts),
                low=nothing,
                high=nothing.copy(),
                group=np.repeat(np.arange(len(starts), dtype=np.int32), counts),
                level=np.zeros(len(values), np.uint8),
                value=values,
            )
        )

    def merge(self, other: "Latencies", queues: Numbers) -> None:
        """Take in others, which must not be used any more; `queues` says which of our queues each of theirs is."""
        self._ranks = min(self._ranks, other._ranks)
        for chunk in other._chunks:
            chunk.queue = queues[chunk.queue]
            self._take(chunk)

    def spread(self, shares: Sequence[float]) -> Spread:
        """Return the quantiles of each group: values that occurred."""
        if not self._chunks:
            nothing = np.empty(0, np.int64)
            return Spread(nothing, nothing, nothing, np.empty((len(shares), 0), np.int64), nothing, nothing)
        self._settle()
        [chunk] = self._chunks
        order = _order(chunk.group, chunk.value)
        values, groups = chunk.value[order], chunk.group[order]
        ends = np.cumsum(np.int64(1) << chunk.level[order].astype(np.int64))
        starts = _begins(groups)
        lasts = np.append(starts[1:], len(groups)) - 1
        before = np.append(0, ends)[starts]
        found = []
        for share in shares:
            ranks = np.maximum(np.ceil(share * chunk.count).astype(np.int64), 1)
            found.append(values[np.minimum(np.searchsorted(ends, before + ranks), lasts)])
        error = np.maximum(chunk.low, chunk.high)
        return Spread(chunk.queue, chunk.bucket, chunk.count, np.array(found), chunk.highest, error)

    def _take(self, chunk: _Chunk) -> None:
        self._chunks.append(chunk)
        self._kept += len(chunk.value)
        if self._kept > 2 * self._kept_settled + CHUNK_MIN:
            self._settle()

    def _settle(self) -> None:
        """Put all chunks together, and let go of what the promise allows."""
        chunk = self._chunks[0] if len(self._chunks) == 1 else _together(self._chunks)
        _halve(chunk, self._ranks)
        while len(chunk.value) > self._values_max and self._ranks > RANKS_MIN:
            self._ranks = max(self._ranks // 2, RANKS_MIN)
            _halve(chunk, self._ranks)
        self._chunks = [chunk]
        self._kept = self._kept_settled = len(chunk.value)


def _stable_order(groups: Numbers | npt.NDArray[np.int32]) -> Numbers:
    """Return the order by group, rows of one group as they are; few groups are sorted by their digits."""
    narrow = groups.astype(np.uint16) if int(groups.max(initial=0)) < NARROW else groups
    return np.argsort(narrow, kind="stable")


def _order(groups: npt.NDArray[np.int32], values: Numbers) -> Numbers:
    """Return the order by group, and by value within a group."""
    by_value = np.argsort(values)
    found: Numbers = by_value[_stable_order(groups[by_value])]
    return found


def _sorted(groups: npt.NDArray[np.int32], values: Numbers) -> tuple[npt.NDArray[np.int32], Numbers]:
    """Return groups and values in the order by group, and by value within a group; no value is below 0."""
    span = int(values.max(initial=0)) + 1
    if (int(groups.max(initial=0)) + 1) * span < 1 << 63:
        keys = groups * np.int64(span) + values
        keys.sort()
        groups, values = np.divmod(keys, span)
        return groups.astype(np.int32), values
    order = _order(groups, values)
    return groups[order], values[order]


def _begins(*keys: Numbers | npt.NDArray[np.int32]) -> Numbers:
    """Return where a group begins, of rows that are sorted by these keys."""
    is_new = np.any([np.append(True, key[1:] != key[:-1]) for key in keys], axis=0)
    return np.flatnonzero(is_new)


def _together(chunks: Sequence[_Chunk]) -> _Chunk:
    """Return the groups of all chunks, each once."""
    queue, bucket, count, highest, low, high = (
        np.concatenate([getattr(chunk, name) for chunk in chunks])
        for name in ("queue", "bucket", "count", "highest", "low", "high")
    )
    order = np.lexsort((bucket, queue))
    starts = _begins(queue[order], bucket[order])
    places = np.empty(len(order), np.int32)  # of each group of a chunk, among those of all
    places[order] = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(np.append(starts, len(order))))
    offsets = np.cumsum([0, *(len(chunk.queue) for chunk in chunks)])
    return _Chunk(
        queue=queue[order][starts],
        bucket=bucket[order][starts],
        count=np.add.reduceat(count[order], starts),
        highest=np.maximum.reduceat(highest[order], starts),
        low=np.add.reduceat(low[order], starts),
        high=np.add.reduceat(high[order], starts),
        group=np.concatenate(
            [
                places[offset : offset + len(chunk.queue)][chunk.group]
                for offset, chunk in zip(offsets, chunks, strict=False)
            ]
        ),
        level=np.concatenate([chunk.level for chunk in chunks]),
        value=np.concatenate([chunk.value for chunk in chunks]),
    )


def _halve(chunk: _Chunk, ranks: int) -> None:
    """Halve levels, the lower ones first, of every group as far as the promise allows."""
    is_there = np.ones(len(chunk.value), np.bool_)
    level = 0
    while level <= int(chunk.level.max(initial=0)):
        rows = np.flatnonzero((chunk.level == level) & is_there)
        sizes = np.bincount(chunk.group[rows], minlength=len(chunk.queue))
        is_allowed = np.minimum(chunk.low, chunk.high) + (1 << level) <= chunk.count // ranks
        is_halved = is_allowed & (sizes >= 2 * ranks)
        if is_halved.any():
            rows = rows[is_halved[chunk.group[rows]]]
            groups, chunk.value[rows] = _sorted(chunk.group[rows], chunk.value[rows])
            chunk.group[rows] = groups  # any row of the level may have any of its values
            starts = _begins(groups)
            counts = np.diff(np.append(starts, len(rows)))
            places = np.arange(len(rows)) - np.repeat(starts, counts)
            is_upper = chunk.low <= chunk.high
            is_paired = places < np.repeat(counts - counts % 2, counts)  # without the highest one of an odd number
            goes_up = (places % 2 == 1) == is_upper[groups]
            chunk.level[rows[is_paired & goes_up]] += 1
            is_there[rows[is_paired & ~goes_up]] = False
            chunk.low[is_halved & is_upper] += 1 << level
            chunk.high[is_halved & ~is_upper] += 1 << level
        level += 1
    if not is_there.all():
        chunk.group, chunk.level, chunk.value = chunk.group[is_there], chunk.level[is_there], chunk.value[is_there]
