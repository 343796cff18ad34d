"""How values spread, as a small drawing in each row of a table, with one scale for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oms_journal.analysis.report.drawing.markup import Html, tag
from oms_journal.analysis.report.drawing.plots import Bins, distribution
from oms_journal.analysis.report.drawing.scales import Axis, Tick
from oms_journal.analysis.report.sections.listing import Column
from oms_journal.analysis.report.tables import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What is drawn of a row: `marks` are values at which a line stands, `said` says them in words."""

    bins: Bins
    marks: Sequence[float]
    said: str


def spread_column(
    title: str, axis: Axis, spread: Callable[[Row], Spread], key: Callable[[Row], float | None]
) -> Column:
    """Return a column of drawings; the axis is its foot, and rows are sorted by the key."""

    def cell(row: Row) -> Html:
        found = spread(row)
        drawing = distribution(found.bins, axis, found.marks)
        return tag("div", drawing, class_="spread", role="img", aria_label=found.said, title=found.said)

    return Column(title, cell, key, is_wide=True, foot=_scale(axis.ticks()))


def _scale(ticks: Sequence[Tick]) -> Html:
    return tag("div", *(tag("span", tick.text, style=f"left:{tick.at:.2%}") for tick in ticks), class_="scale")
