"""What the values of a drawing are: how they are worded, and on which axis they stand.

The page's script words and draws the same values when somebody chooses some of them: what is here is in `page.js` too.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.scales import Durations, Tick, linear

_AXIS_TEXTS: Mapping[str, Callable[[float], str]] = {
    "number": wording.short_number,
    "size": wording.short_size,
    "duration": wording.short_duration,
}
SHORTEST = 1e-6  # seconds: the journal's times are no finer


class Upright(Protocol):
    """An axis beside a drawing."""

    def at(self, value: float, /) -> float:
        """Return the share of the axis below the value."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Numbers, sizes in bytes, or durations in seconds; `per` stands behind the words. `whole` ones are counts."""

    form: str
    per: str = ""
    whole: bool = False
    is_log: bool = False

    def axis(self, values: Iterable[float]) -> tuple[Upright, Sequence[Tick]]:
        """Return an axis for the values, and what is written beside it."""
        if self.is_log:
            durations = decades(values)
            return durations, durations.ticks()
        axis = linear(max(values, default=0), _AXIS_TEXTS[self.form], binary=self.form == "size", whole=self.whole)
        return axis, axis.ticks


COUNTS = Measure("number", whole=True)
NUMBERS = Measure("number")
RATES = Measure("number", "/s")
SIZE_RATES = Measure("size", "/s")
SECONDS = Measure("duration")
LATENCIES = Measure("duration", is_log=True)


def decades(values: Iterable[float]) -> Durations:
    """Return a logarithmic axis of whole decades over all durations; what is shorter than a microsecond stands at 0."""
    known = [max(value, SHORTEST) for value in values] or [1.0]
    low, high = (math.log10(value) for value in (min(known), max(known)))
    first, last = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    return Durations(10.0**first, 10.0 ** max(last, first + 1))
