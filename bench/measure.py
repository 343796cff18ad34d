"""How a figure is taken: what is raw and what is ours by turns, in one run, several rounds.

A round is a few short slices of each, taken in turn, so that a machine that gets slower or busier
gets so for both. What is reported of a row is the median of the rounds' ratios, and the lowest and
the highest of them. The first round warms up and is dropped.

Where the raw side waits for the disk, a run counts only if that side varied little from round to round. Otherwise
the machine was too busy, and the row is run again.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

SETTLE_SECONDS = 0.03  # for what either side still does beside, before it is the other's turn
VARIATION_MOST = 0.30  # of a raw side within a run: between its best and its worst round, to its median
BUSY = "machine too busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured where, and how long."""

    directory: Path  # a scratch directory on the file system to be measured
    method: str  # the raw loop's, the faster one here
    rounds: int = 9
    slices: int = 4  # of each side in a round
    slice_seconds: float = 0.25
    runs: int = 5  # of a row at most, until the machine is quiet enough
    data_bytes: int = 1_000_000_000  # of the data set that is reopened
    message_counts: Sequence[int] = (1_000_000, 5_000_000)  # of the index that is weighed
    slope_counts: tuple[int, int] = (1_000_000, 4_000_000)  # between which one more message is weighed
    beside_bytes: int = 200_000_000  # of the data set that is cleaned up beside callers
    beside_messages: int = 50_000  # of another queue, and ten times as many
    identifiers: int = 100_000  # of producers, in a full duplicate window
    index_messages: int = 10_000_000  # in the largest index that messages are taken from
    operations: int = 10_000_000  # in the journals that Spark is asked about

    def quick(self) -> "Settings":
        """Return settings for a look that takes a minute or two; its figures scatter."""
        return replace(
            self,
            rounds=3,
            slices=2,
            slice_seconds=0.1,
            runs=1,
            data_bytes=100_000_000,
            message_counts=(200_000,),
            slope_counts=(200_000, 800_000),
            beside_bytes=60_000_000,
            index_messages=1_000_000,
            operations=1_000_000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `bound` is what to reach: at least, or with `is_most` at most."""

    name: str
    what: str
    measured: Sequence[float]  # one value a round; none where the note says why nothing was measured
    unit: str = ""  # of the measured value; a plain ratio has none
    bound: float | None = None
    is_most: bool = False
    raw: str = ""
    ours: str = ""
    note: str = ""
    is_too_busy: bool = False  # in each run: the row is missed, whatever its median

    @property
    def median(self) -> float:
        return statistics.median(self.measured)

    @property
    def is_met(self) -> bool | None:
        """Whether the median reaches the bound; None where there is no bound or nothing was measured."""
        if self.bound is None or not self.measured:
            return None
        if self.is_too_busy:
            return False
        return self.median <= self.bound if self.is_most else self.median >= self.bound


@dataclass(slots=True)
class Alternation:
    """What the rounds of one row gave: the raw side and ours."""

    raw: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Ours in relation to the raw one, each round."""
        return [ours / raw for raw, ours in zip(self.raw, self.ours, strict=True)]

    @property
    def inverse(self) -> list[float]:
        """The raw one in relation to ours: for times, where less is better."""
        return [raw / ours for raw, ours in zip(self.raw, self.ours, strict=True)]

    @property
    def is_too_busy(self) -> bool:
        """Whether the raw side varied too much for a figure."""
        return variation(self.raw) > VARIATION_MOST


Rate = Callable[[float], float]  # runs so many seconds, returns how many a second


def alternate(settings: Settings, sides: Sequence[Rate]) -> list[list[float]]:
    """Take any number of rates by turns; return the rates of each side, one a round."""
    found: list[list[float]] = [[] for _ in sides]
    for number in range(settings.rounds + 1):
        rates: list[list[float]] = [[] for _ in sides]
        for _ in range(settings.slices):
            for side, run in zip(rates, sides, strict=True):
                side.append(run(settings.slice_seconds))
                time.sleep(SETTLE_SECONDS)
        if number:
            for values, side in zip(found, rates, strict=True):
                values.append(statistics.fmean(side))
    return found


def alternate_quietly(settings: Settings, sides: Sequence[Rate]) -> list[list[float]]:
    """Take rates by turns until the first side varied little; return the quietest run when none was quiet."""
    runs: list[list[list[float]]] = []
    for number in range(1, settings.runs + 1):
        runs.append(alternate(settings, sides))
        varied = variation(runs[-1][0])
        if varied <= VARIATION_MOST:
            return runs[-1]
        told = f"{BUSY}: the raw side varied by {varied:.0%} in run {number} of at most {settings.runs}"
        print(told, file=sys.stderr, flush=True)
    return min(runs, key=lambda run: variation(run[0]))


def alternate_rates(settings: Settings, raw: Rate, ours: Rate) -> Alternation:
    """Take the two rates by turns."""
    return Alternation(*alternate(settings, (raw, ours)))


def quiet_rates(settings: Settings, raw: Rate, ours: Rate) -> Alternation:
    """Take the two rates by turns, again while the raw one varies too much."""
    return Alternation(*alternate_quietly(settings, (raw, ours)))


def alternate_times(rounds: int, raw: Callable[[], float], ours: Callable[[], float]) -> Alternation:
    """Take the two durations by turns."""
    found = Alternation()
    for number in range(rounds + 1):
        taken = raw(), ours()
        if number:
            found.raw.append(taken[0])
            found.ours.append(taken[1])
    return found


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def variation(values: Sequence[float]) -> float:
    """Return how far the best and the worst value lie apart, to the median."""
    return (max(values) - min(values)) / statistics.median(values)


def rate_text(values: Sequence[float], what: str) -> str:
    """Return the median of rates, for the eye."""
    return f"{statistics.median(values):,.0f} {what}"


def time_text(values: Sequence[float]) -> str:
    """Return the median of durations, given in seconds, for the eye."""
    middle = statistics.median(values)
    if middle >= 1:
        return f"{middle:.2f} s"
    return f"{middle * 1e3:.3g} ms" if middle >= 1e-3 else f"{middle * 1e6:.0f} µs"
