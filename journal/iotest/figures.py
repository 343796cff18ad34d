"""From many single latencies to the few figures that are looked at. Pure; knows no clock and no file.

Latencies come in as whole nanoseconds, as the clock gave them; figures are in seconds. Each measurement
is made in rounds that alternate with the others, so that a noisy moment hits all of them: the rate is
the median of the rounds' rates, the percentiles are those of all rounds together.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NANOSECONDS = 1_000_000_000
P999_COUNT_MIN = 1000  # with fewer the 99.9th percentile is the slowest one under another name


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many latencies were from `low` to below `high`, in seconds."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Timing:
    """How long single calls took, in seconds, and how many of them went through a second."""

    count: int
    rate: float
    rates: tuple[float, ...]  # of the rounds, in their order; `rate` is their median
    p50: float
    p99: float
    p999: float | None  # None: too few were measured to tell
    max: float
    histogram: tuple[Bucket, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def timing(rounds: Sequence[Sequence[int]]) -> Timing:
    """Return the figures of latencies in nanoseconds. Some round must have one."""
    measured = [latencies for latencies in rounds if latencies]
    assert measured, "nothing was measured"
    ordered = sorted(took for latencies in measured for took in latencies)
    rates = tuple(len(latencies) * NANOSECONDS / max(sum(latencies), 1) for latencies in measured)
    has_tail = len(ordered) >= P999_COUNT_MIN
    return Timing(
        count=len(ordered),
        rate=statistics.median(rates),
        rates=rates,
        p50=percentile(ordered, 500) / NANOSECONDS,
        p99=percentile(ordered, 990) / NANOSECONDS,
        p999=percentile(ordered, 999) / NANOSECONDS if has_tail else None,
        max=ordered[-1] / NANOSECONDS,
        histogram=histogram(ordered),
    )


def percentile(ordered: Sequence[int], permille: int) -> int:
    """Return the smallest of the values that at least `permille` of 1000 of them do not exceed."""
    rank = -(-len(ordered) * permille // 1000)  # rounded up, in whole numbers: no 0.999 that is a little more
    return ordered[max(rank, 1) - 1]


def histogram(latencies: Sequence[int]) -> tuple[Bucket, ...]:
    """Return the counts by powers of two microseconds, from the first that occurs to the last, gaps as 0."""
    counts = Counter(_power(took) for took in latencies)
    return tuple(
        Bucket(low=_microseconds(power), high=_microseconds(power + 1), count=counts[power])
        for power in range(min(counts), max(counts) + 1)
    )


def _power(nanoseconds: int) -> int:
    """Return -1 below one microsecond, else the power of two microseconds at or below."""
    return (nanoseconds // 1000).bit_length() - 1


def _microseconds(power: int) -> float:
    return 0.0 if power < 0 else (1 << power) / 1_000_000


def median_ratio(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Return how our rate compares with theirs: the median of the ratios of rounds made side by side."""
    ratios = [
        (len(mine) * max(sum(other), 1)) / (len(other) * max(sum(mine), 1))
        for mine, other in zip(ours, theirs, strict=True)
        if mine and other
    ]
    return statistics.median(ratios)
