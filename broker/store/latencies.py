"""How long commits take: a histogram of groups, each of which is one write and one sync for all its commits.

Measured once a group, whatever is in it. The buckets grow by the square root of two, so that a percentile is told to
within a fifth.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SHORTEST = 32e-6  # seconds: the end of the first bucket
STEPS = 44  # from there, to a minute and a half
BOUNDS = tuple(SHORTEST * 2 ** (step / 2) for step in range(STEPS))  # the ends of the buckets but the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Groups that took longer than `from_` and at most `to` seconds; None: no bound."""

    from_: float
    to: float | None
    count: int


class Latencies:
    """The times of the groups since the start, seconds. Noted by one at a time, read by anybody."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.groups = 0
        self.commits = 0
        self.seconds = 0.0
        self.longest = 0.0

    def record(self, seconds: float, commits: int) -> None:
        """Count one group in."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.groups += 1
        self.commits += commits
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    def buckets(self) -> Sequence[Bucket]:
        """Return all buckets, the shortest first."""
        ends = [0.0, *BOUNDS]
        found = [
            Bucket(from_=low, to=high, count=count)
            for (low, high), count in zip(pairwise(ends), self.counts[:-1], strict=True)
        ]
        return [*found, Bucket(from_=BOUNDS[-1], to=None, count=self.counts[-1])]

    def percentile(self, share: float) -> float | None:
        """Return how long at most this share of the groups has taken, as far as the buckets tell; None for no group."""
        if not self.groups:
            return None
        wanted, counted = share * self.groups, 0
        for bucket in self.buckets():
            counted += bucket.count
            if counted >= wanted and bucket.count:
                return min(bucket.to if bucket.to is not None else self.longest, self.longest)
        return self.longest
