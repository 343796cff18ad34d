"""Where a value lies on a plot's axis, and which values are written beside it."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.wording import microseconds

WIDTH = 1000.0  # of a drawing, in its own units; it is stretched to the page
HEIGHT = 100.0
TICKS_MAX = 5
LABELS_MAX = 8
SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000  # microseconds
STEPS = (  # round pieces of time; none is shorter than a second, so that rates by the second mean something
    *(SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(HOUR * count for count in (1, 2, 3, 6, 12)),
    *(DAY * count for count in (1, 2, 7, 14, 30, 90, 365)),
)
DURATION_TICKS = (
    *(10.0**exponent for exponent in range(-6, 2)),
    *(60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0, 30 * 86400.0, 365 * 86400.0),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = microseconds(datetime.min.replace(tzinfo=UTC))
_LAST = microseconds(datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Tick:
    """A value written beside an axis; `at` is the share of its length. A minor one makes room in a narrow window."""

    at: float
    text: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal pieces of time: where the first begins and how long each is, in microseconds."""

    start: int
    width: int
    count: int

    def ticks(self) -> list[Tick]:
        """Return round times, the date where a day begins."""
        span = self.width * self.count
        step = next((step for step in STEPS if span <= LABELS_MAX * step), -(-span // LABELS_MAX // DAY) * DAY)
        first = -(-self.start // step) * step
        times = list(range(first, self.start + span + 1, step))
        days = [time for time in times if time % DAY == 0]
        major = set(days if len(days) > 1 else times)
        if len(major) > LABELS_MAX // 2:
            major = set(sorted(major)[::2])
        return [Tick((time - self.start) / span, _time_text(time, step), time not in major) for time in times]

    def texts(self) -> list[str]:
        """Return how each bucket's beginning reads."""
        form = "%Y-%m-%d %H:%M" if self.width % MINUTE == 0 and self.start % MINUTE == 0 else "%Y-%m-%d %H:%M:%S"
        return [_datetime(self.start + place * self.width).strftime(form) for place in range(self.count)]


def buckets(first: int, last: int, count_max: int) -> Buckets:
    """Return at most so many buckets over all times from the first to the last, in microseconds.

    They begin at whole multiples of a round width since 1970.
    """
    centuries = -(-(last - first + 1) // (count_max - 1))
    for width in (*STEPS, centuries):
        start = first // width * width
        count = (last - start) // width + 1
        if count <= count_max:
            return Buckets(start, width, count)
    raise AssertionError("so wide that the first and the last bucket are enough to be cut")


def _datetime(time: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(max(time, _FIRST), _LAST))


def _time_text(time: int, step: int) -> str:
    moment = _datetime(time)
    if step >= 90 * DAY:
        return moment.strftime("%Y-%m-%d")
    if time % DAY == 0:
        return f"{moment:%b} {moment.day}"
    return moment.strftime("%H:%M" if step >= MINUTE else "%H:%M:%S")


@dataclass(frozen=True, slots=True)
class Linear:
    """An axis from 0 up to at least the largest value."""

    top: float
    ticks: Sequence[Tick]

    def at(self, value: float) -> float:
        """Return the share of the axis below the value."""
        return min(max(value / self.top, 0.0), 1.0)


def linear(largest: float, text: Callable[[float], str], *, binary: bool = False, whole: bool = False) -> Linear:
    """Return an axis for values up to the largest, with round numbers: `binary` ones of bytes, or `whole` ones."""
    largest = largest if largest > 0 else 1.0
    scale = 1024.0 ** math.floor(math.log(largest, 1024)) if binary and largest >= 1 else 1.0
    wanted = max(largest / scale / (TICKS_MAX - 1), sys.float_info.min)  # the least has no part
    decade = 10.0 ** math.floor(math.log10(wanted))
    step = scale * next(decade * digit for digit in (1, 2, 5, 10) if decade * digit >= wanted * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    count = math.ceil(largest / step * (1 - 1e-9))
    ticks = [Tick(place / count, text(place * step)) for place in range(count + 1)]
    return Linear(step * count, ticks)


class Axis(Protocol):
    """Where a value lies on an axis along a drawing, and what is written beside it."""

    def at(self, value: float, /) -> float:
        """Return the share of the axis below the value; what lies outside is put at its ends."""

    def ticks(self) -> list[Tick]:
        """Return round values, few enough to stand side by side."""


@dataclass(frozen=True, slots=True)
class Span:
    """An axis from one value to another, which may be below 0; a tick stands at every whole multiple of a step."""

    low: float
    high: float
    step: float
    text: Callable[[float], str]

    def at(self, value: float) -> float:
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def ticks(self) -> list[Tick]:
        places = range(math.ceil(self.low / self.step), math.floor(self.high / self.step) + 1)
        return [Tick(self.at(place * self.step), self.text(place * self.step)) for place in places]


@dataclass(frozen=True, slots=True)
class Durations:
    """A logarithmic axis of durations, from and to in seconds."""

    low: float
    high: float

    def at(self, seconds: float) -> float:
        """Return the share of the axis below the duration; what lies outside is put at its ends."""
        if seconds <= self.low:
            return 0.0
        return min(math.log(seconds / self.low) / math.log(self.high / self.low), 1.0)

    def ticks(self) -> list[Tick]:
        """Return round durations, few enough to stand side by side."""
        inside = [seconds for seconds in DURATION_TICKS if self.low * 0.999 <= seconds <= self.high * 1.001]
        every = -(-len(inside) // TICKS_MAX) or 1
        return [Tick(self.at(seconds), wording.duration(seconds)) for seconds in inside[::every]]
