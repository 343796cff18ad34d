"""How a figure is taken: what is raw and what is ours by turns, in one run, several rounds.

A round is a few short slices of each, taken in turn, so that a machine that gets slower or busier
gets so for both. What is reported of a row is the median of the rounds' ratios, and the lowest and
the highest of them. The first round warms up and is dropped.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

SETTLE_SECONDS = 0.03  # for what either side still does beside, before it is the other's turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured where, and how long."""

    directory: Path  # a scratch directory on the file system to be measured
    method: str  # the raw loop's, the faster one here
    rounds: int = 7
    slices: int = 4  # of each side in a round
    slice_seconds: float = 0.25
    data_bytes: int = 1_000_000_000  # of the data set that is reopened
    message_counts: Sequence[int] = (1_000_000, 5_000_000)  # of the index that is weighed
    beside_bytes: int = 200_000_000  # of the data set that is cleaned up beside callers
    beside_messages: int = 50_000  # of another queue, and ten times as many
    identifiers: int = 100_000  # of producers, in a full duplicate window
    operations: int = 10_000_000  # in the journals that Spark is asked about

    def quick(self) -> "Settings":
        """Return settings for a look that takes a minute or two; its figures scatter."""
        return replace(
            self,
            rounds=3,
            slices=2,
            slice_seconds=0.1,
            data_bytes=100_000_000,
            message_counts=(200_000,),
            beside_bytes=60_000_000,
            operations=1_000_000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `bound` is what to reach: at least, or with `is_most` at most."""

    name: str
    what: str
    measured: Sequence[float]  # one value a round
    unit: str = ""  # of the measured value; a plain ratio has none
    bound: float | None = None
    is_most: bool = False
    raw: str = ""
    ours: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.measured)

    @property
    def is_met(self) -> bool | None:
        """Whether the median reaches the bound; None where there is none."""
        if self.bound is None:
            return None
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


Rate = Callable[[float], float]  # runs so many seconds, returns how many a second


def alternate_rates(settings: Settings, raw: Rate, ours: Rate) -> Alternation:
    """Take the two rates by turns."""
    found = Alternation()
    for number in range(settings.rounds + 1):
        rates: tuple[list[float], list[float]] = ([], [])
        for _ in range(settings.slices):
            for side, run in enumerate((raw, ours)):
                rates[side].append(run(settings.slice_seconds))
                time.sleep(SETTLE_SECONDS)
        if number:
            found.raw.append(statistics.fmean(rates[0]))
            found.ours.append(statistics.fmean(rates[1]))
    return found


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


def rate_text(values: Sequence[float], what: str) -> str:
    """Return the median of rates, for the eye."""
    return f"{statistics.median(values):,.0f} {what}"


def time_text(values: Sequence[float]) -> str:
    """Return the median of durations, given in seconds, for the eye."""
    middle = statistics.median(values)
    if middle >= 1:
        return f"{middle:.2f} s"
    return f"{middle * 1e3:.3g} ms" if middle >= 1e-3 else f"{middle * 1e6:.0f} µs"
