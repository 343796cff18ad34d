"""Plots as drawings of our own, which need no script, no library and no network.

A drawing is stretched to the window it is seen in; what is written beside it is text of the page, which keeps its
size. Whatever a pointer shows is said in the same words by the data that a figure carries for the page's script.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from oms_journal.analysis.report.drawing.markup import Html, data, joined, shortened, tag, visible
from oms_journal.analysis.report.drawing.scales import HEIGHT, WIDTH, Axis, Buckets, Linear, Tick, linear

Bins = Sequence[tuple[float, float, int]]  # from, to, and how many are between

OTHERS = "other"  # the colour of all that have none of their own
FLOOR = 4.0  # of a bar, in the drawing's units: one message in a million is still seen
MARK_ABOVE = 3.0  # a bar, in the drawing's units
BARS_MAX = 240  # in one drawing: more are narrower than a narrow window's pixels


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn in one colour: a value for each bucket. A colour is one of the page's classes."""

    label: str
    colour: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Values over time. `text` words a value for the pointer, `axis_text` beside the axis; `binary` is for bytes."""

    title: str
    unit: str
    buckets: Buckets
    series: Sequence[Series]
    text: Callable[[float], str]
    axis_text: Callable[[float], str]
    binary: bool = False
    whole: bool = False  # the values are counts of things
    total: str = ""  # how the sum of a stack is called; none for lines


def stack(chart: Chart) -> Html:
    """Return the series on top of each other as a figure."""
    sums = [sum(values) for values in zip(*(series.values for series in chart.series), strict=True)]
    axis = linear(max(sums, default=0), chart.axis_text, binary=chart.binary, whole=chart.whole)
    below = [0.0] * chart.buckets.count
    shapes = []
    for series in chart.series:
        above = [low + value for low, value in zip(below, series.values, strict=True)]
        shapes.append(tag("path", d=_area(axis, below, above), class_=f"area {series.colour}"))
        below = above
    return _figure(chart, axis, shapes, sums)


def lines(chart: Chart) -> Html:
    """Return the series as lines of their own as a figure."""
    largest = max((value for series in chart.series for value in series.values), default=0)
    axis = linear(largest, chart.axis_text, binary=chart.binary, whole=chart.whole)
    shapes = [tag("path", d=_steps(axis, series.values), class_=f"line {series.colour}") for series in chart.series]
    return _figure(chart, axis, shapes, None)


def _figure(chart: Chart, axis: Linear, shapes: Sequence[Html], sums: Sequence[float] | None) -> Html:
    said: dict[str, object] = {
        "heads": chart.buckets.texts(),
        "rows": [
            {
                "label": shortened(visible(series.label)),
                "colour": series.colour,
                "texts": [chart.text(value) if value else "" for value in series.values],
            }
            for series in chart.series
        ],
    }
    if sums is not None and chart.total and len(chart.series) > 1:
        said["total"] = {"label": chart.total, "texts": [chart.text(value) if value else "" for value in sums]}
    grid = "".join(f"M0 {_y(tick.at)}H{WIDTH:g}" for tick in axis.ticks)
    drawing = _drawing(tag("path", d=grid, class_="grid"), *shapes)
    summary = f"{chart.title}, {chart.unit}, from {chart.buckets.texts()[0]} UTC"
    return tag(
        "figure",
        tag("figcaption", chart.title, " ", tag("span", chart.unit, class_="unit")),
        legend([(series.label, series.colour) for series in chart.series]) if len(chart.series) > 1 else "",
        framed(drawing, axis.ticks, chart.buckets.ticks(), summary),
        data(said),
        class_="chart",
    )


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Return what each colour means."""
    items = (
        tag("li", tag("span", class_=f"swatch {colour}"), tag("bdi", shortened(visible(label))))
        for label, colour in entries
    )
    return tag("ul", *items, class_="legend")


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


def _runs(values: Sequence[float]) -> list[tuple[int, float]]:
    """Return where a run of equal values ends, and the value."""
    runs, end = [], 0
    for value, same in groupby(values):
        end += len(list(same))
        runs.append((end, value))
    return runs


def _steps(axis: Linear, values: Sequence[float]) -> str:
    step = WIDTH / len(values)
    pieces = [f"V{_y(axis.at(value))}H{end * step:.1f}" for end, value in _runs(values)]
    return f"M0 {_y(axis.at(values[0]))}" + "".join(pieces)


def _area(axis: Linear, below: Sequence[float], above: Sequence[float]) -> str:
    """Return the outline between two rows of steps: there above, and back below."""
    step = WIDTH / len(above)
    back, start = [], len(below)
    for end, value in _runs(below[::-1]):
        back.append(f"V{_y(axis.at(value))}H{(start - end) * step:.1f}")
    return _steps(axis, above) + "".join(back) + "z"
