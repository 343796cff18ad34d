"""Plots as drawings of our own, which need no script, no library and no network.

A drawing is stretched to the window it is seen in; what is written beside it is text of the page, which keeps its
size. Whatever a pointer shows is said in the same words by the data that a figure carries for the page's script.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from oms_journal.analysis.report.drawing.markup import Html, data, joined, shortened, tag, visible
from oms_journal.analysis.report.drawing.measures import Measure, Upright
from oms_journal.analysis.report.drawing.scales import HEIGHT, SECOND, WIDTH, Axis, Buckets, Linear, Tick

_Value = TypeVar("_Value", float, float | None)
Bins = Sequence[tuple[float, float, int]]  # from, to, and how many are between

OTHERS = "other"  # the colour of all that have none of their own
FLOOR = 4.0  # of a bar, in the drawing's units: one message in a million is still seen
MARK_ABOVE = 3.0  # a bar, in the drawing's units
DASHES = 6  # kinds of lines
BARS_MAX = 240  # in one drawing: more are narrower than a narrow window's pixels


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn in one colour: a value for each bucket, None for no value. A colour is one of the page's classes.

    `queue` is whose it is, where somebody may choose one; one that `waits` is drawn only then.
    """

    label: str
    colour: str
    values: Sequence[float | None]
    queue: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Values over time."""

    title: str
    unit: str
    buckets: Buckets
    series: Sequence[Series]
    measure: Measure
    total: str = ""  # how the sum of a stack is called; none for lines


def stack(chart: Chart) -> Html:
    """Return the series on top of each other as a figure."""
    drawn = [[value or 0.0 for value in series.values] for series in _drawn(chart)]
    sums = [sum(values) for values in zip(*drawn, strict=True)]
    axis, ticks = chart.measure.axis(sums)
    below = [0.0] * chart.buckets.count
    shapes = []
    for series, values in zip(_drawn(chart), drawn, strict=True):
        above = [low + value for low, value in zip(below, values, strict=True)]
        shapes.append(tag("path", d=_area(axis, below, above), class_=f"area {series.colour}"))
        below = above
    return _figure(chart, ticks, shapes, "stack")


def lines(chart: Chart) -> Html:
    """Return the series as lines of their own as a figure. Those behind the first are dashed, each in its own way."""
    drawn = _drawn(chart)
    axis, ticks = chart.measure.axis([value for series in drawn for value in series.values if value is not None])
    dashes = _dashes(chart)
    shapes = [
        tag("path", d=_steps(axis, series.values), class_=f"line {series.colour} {dashes[series.label]}")
        for series in drawn
    ]
    return _figure(chart, ticks, shapes, "lines")


def _drawn(chart: Chart) -> list[Series]:
    return [series for series in chart.series if not series.waits]


def _dashes(chart: Chart) -> dict[str, str]:
    """Return the dashes of each label, which may be that of several queues."""
    labels = dict.fromkeys(series.label for series in chart.series)
    return {label: f"d{place % DASHES}" for place, label in enumerate(labels)}


def _figure(chart: Chart, ticks: Sequence[Tick], shapes: Sequence[Html], kind: str) -> Html:
    dashes = _dashes(chart) if kind == "lines" else {}
    drawn, pieces, measure = _drawn(chart), chart.buckets, chart.measure
    said = {
        "kind": kind,
        "start": pieces.start // SECOND,
        "width": pieces.width // SECOND,
        "count": pieces.count,
        "form": measure.form,
        "per": measure.per,
        "whole": measure.whole,
        "log": measure.is_log,
        "total": chart.total,
        "rows": [
            {
                "label": shortened(visible(series.label)),
                "colour": f"{series.colour} {dashes.get(series.label, '')}".rstrip(),
                "queue": None if series.queue is None else visible(series.queue),
                "waits": series.waits,
                "values": [None if value is None else _short(value) for value in series.values],
            }
            for series in chart.series
        ],
    }
    grid = "".join(f"M0 {_y(tick.at)}H{WIDTH:g}" for tick in ticks)
    drawing = _drawing(tag("path", d=grid, class_="grid"), *shapes)
    summary = f"{chart.title}, {chart.unit}, from {pieces.texts()[0]} UTC"
    entries = [(series.label, f"{series.colour} {dashes.get(series.label, '')}".rstrip()) for series in drawn]
    return tag(
        "figure",
        tag("figcaption", chart.title, " ", tag("span", chart.unit, class_="unit")),
        legend(entries, kind) if len(drawn) > 1 else "",
        framed(drawing, ticks, pieces.ticks(), summary),
        data(said),
        class_="chart",
    )


def _short(value: float) -> float:
    """Return a value with as many digits as are shown of it."""
    whole = round(value)
    return whole if whole == value else float(f"{value:.6g}")


def legend(entries: Sequence[tuple[str, str]], kind: str = "stack") -> Html:
    """Return what each colour means; of lines it shows the dashes too."""
    items = (tag("li", swatch(colour, kind), tag("bdi", shortened(visible(label)))) for label, colour in entries)
    return tag("ul", *items, class_="legend")


def swatch(colour: str, kind: str) -> Html:
    """Return a piece of a colour, or of a line."""
    if kind != "lines":
        return tag("span", class_=f"swatch {colour}")
    line = tag("path", d="M0 4H28", class_=f"line {colour}")
    return tag("svg", line, class_="sample", viewBox="0 0 28 8", aria_hidden="true", focusable="false")


def framed(drawing: Html, ups: Sequence[Tick], alongs: Sequence[Tick], summary: str) -> Html:
    """Return the drawing with what is written beside and below it."""
    beside = tag("div", *(tag("span", tick.text, style=f"bottom:{tick.at:.2%}") for tick in ups), class_="ups")
    below = tag(
        "div",
        *(
            tag("span", tick.text, style=f"left:{tick.at:.2%}", class_="minor" if tick.is_minor else None)
            for tick in alongs
        ),
        class_="alongs",
        aria_hidden="true",
    )
    plot = tag("div", drawing, class_="plot", tabindex=0, role="img", aria_label=summary)
    return tag("div", beside, plot, below, class_="frame")


def bars(
    parts: Sequence[Sequence[float]], colours: Sequence[str], marked: Sequence[bool], axis: Linear, places_min: int
) -> Html:
    """Return a bar for each place, its parts on top of each other, a mark above those that are marked."""
    count = len(marked)
    step = WIDTH / max(count, places_min)
    gap = step * 0.12 if count <= 120 else 0.0
    below = [0.0] * count
    shapes = []
    for values, colour in zip(parts, colours, strict=True):
        path = []
        for place, value in enumerate(values):
            low, high = HEIGHT * axis.at(below[place]), HEIGHT * axis.at(below[place] + value)
            if high > low:
                left, width = place * step + gap / 2, step - gap
                path.append(f"M{left:.1f} {HEIGHT - low:.2f}V{HEIGHT - high:.2f}h{width:.1f}V{HEIGHT - low:.2f}z")
            below[place] += value
        shapes.append(tag("path", d="".join(path), class_=f"area {colour}"))
    marks = "".join(
        f"M{place * step + gap / 2:.1f} {HEIGHT * (1 - axis.at(below[place])) - MARK_ABOVE:.1f}h{step - gap:.1f}"
        for place, is_marked in enumerate(marked)
        if is_marked
    )
    grid = "".join(f"M0 {_y(tick.at)}H{WIDTH:g}" for tick in axis.ticks)
    return _drawing(tag("path", d=grid, class_="grid"), *shapes, tag("path", d=marks, class_="mark"))


def distribution(bins: Bins, axis: Axis, marks: Sequence[float]) -> Html:
    """Return how often each bin of values occurs, with lines at the marks."""
    most = max((count for _, _, count in bins), default=1)
    path = []
    for low, high, count in sorted(bins):
        left, right = WIDTH * axis.at(low), WIDTH * axis.at(high)
        height = max(HEIGHT * count / most, FLOOR)
        path.append(f"M{left:.1f} {HEIGHT:g}v{-height:.1f}H{right:.1f}V{HEIGHT:g}z")
    grid = "".join(f"M{WIDTH * tick.at:.1f} 0V{HEIGHT:g}" for tick in axis.ticks())
    quantiles = "".join(f"M{WIDTH * axis.at(mark):.1f} 0V{HEIGHT:g}" for mark in marks)
    return _drawing(
        tag("path", d=grid, class_="grid"),
        tag("path", d="".join(path), class_="area c0"),
        tag("path", d=quantiles, class_="quantile"),
    )


def _drawing(*shapes: Html) -> Html:
    return tag(
        "svg",
        joined(*shapes),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        aria_hidden="true",
        focusable="false",
    )


def _y(share: float) -> str:
    return f"{HEIGHT * (1 - share):.2f}".rstrip("0").rstrip(".")


def _runs(values: Sequence[_Value]) -> list[tuple[int, _Value]]:
    """Return where a run of equal values ends, and the value."""
    runs: list[tuple[int, _Value]] = []
    end = 0
    for value, same in groupby(values):
        end += len(list(same))
        runs.append((end, value))
    return runs


def _steps(axis: Upright, values: Sequence[float | None]) -> str:
    """Return a line that goes on level from place to place, and is interrupted where there is no value."""
    step = WIDTH / len(values)
    pieces, start, before = [], 0, None
    for end, value in _runs(values):
        if value is not None:
            height = _y(axis.at(value))
            up = f"M{start * step:.1f} {height}" if before is None else f"V{height}"
            pieces.append(f"{up}H{end * step:.1f}")
        start, before = end, value
    return "".join(pieces)


def _area(axis: Upright, below: Sequence[float], above: Sequence[float]) -> str:
    """Return the outline between two rows of steps: there above, and back below."""
    step = WIDTH / len(above)
    back, start = [], len(below)
    for end, value in _runs(below[::-1]):
        back.append(f"V{_y(axis.at(value))}H{(start - end) * step:.1f}")
    return _steps(axis, above) + "".join(back) + "z"
