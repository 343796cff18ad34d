"""Tables of the page: sorted by a click on a heading, of a bounded length, with what is left out said."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, joined, name, tag, visible
from oms_journal.analysis.report.tables import Row

ROWS_MAX = 100  # that the page shows of a table
_NO_SCALE = Html("")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what stands in a cell, and what its rows are sorted by.

    Numbers stand at the right. A wide column has room for a drawing, whose scale is its foot.
    """

    title: str
    cell: Callable[[Row], str]
    key: Callable[[Row], float | str | None]
    hint: str = ""
    is_number: bool = False
    is_wide: bool = False
    foot: Html = _NO_SCALE


def number_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of numbers that are names: they are written without commas."""
    return _shown(title, field, hint, str)


def count_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of counts; 0 is left empty, so that what is there is seen."""
    return _shown(title, field, hint, lambda count: f"{count:,}" if count else "")


def size_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of bytes."""
    return _shown(title, field, hint, lambda count: wording.size(count) if count else "")


def duration_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of seconds."""
    return _shown(title, field, hint, wording.duration)


def time_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of times, which the page says are UTC."""
    return Column(
        title,
        lambda row: "" if row[field] is None else wording.moment(row[field]).removesuffix(" UTC"),
        lambda row: None if row[field] is None else wording.microseconds(row[field]),
        hint,
        is_number=True,
    )


def name_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of names that people gave."""
    return Column(title, lambda row: name(row[field]), lambda row: row[field], hint)


def text_column(title: str, field: str, hint: str = "") -> Column:
    """Return a column of our own words."""
    return Column(title, lambda row: row[field] or "", lambda row: row[field], hint)


def _shown(title: str, field: str, hint: str, text: Callable[[Any], str]) -> Column:
    """Return a column of numbers; an unknown one is empty."""
    return Column(
        title, lambda row: "" if row[field] is None else text(row[field]), lambda row: row[field], hint, is_number=True
    )


def listing(label: str, columns: Sequence[Column], rows: Sequence[Row], *, table: str, count: int = 0) -> Html:
    """Return the first rows as a table in a box that scrolls by itself; `table` is where those that are left out are.

    `count` is how many there are, where the rows themselves are the first ones of more.
    """
    if not rows:
        return Html("")
    first = rows[:ROWS_MAX]
    headings = tag("tr", *map(_heading, columns))
    body = tag("tbody", *(_line(columns, row) for row in first))
    shown = tag("table", tag("caption", label), tag("thead", headings), body, class_="sortable")
    box = tag("div", shown, class_="scroll", role="region", tabindex=0, aria_label=label)
    left_out = max(count, len(rows)) - len(first)
    if left_out <= 0:
        return box
    more = joined(f"… and {left_out:,} more: the table ", tag("code", table), " has them all.")
    return joined(box, tag("p", more, class_="more"))


def _heading(column: Column) -> Html:
    button = tag("button", column.title, type="button", title=column.hint or None)
    return tag("th", button, column.foot, scope="col", class_=_class(column))


def _line(columns: Sequence[Column], row: Row) -> Html:
    """Return a row; where it is of a queue, the page's script finds it by that."""
    queue = visible(row.get("label", row["queue"]) or "") if "queue" in row else None
    return tag("tr", *(_cell(column, row) for column in columns), data_queue=queue)


def _cell(column: Column, row: Row) -> Html:
    key = column.key(row)
    return tag("td", column.cell(row), class_=_class(column), data_key="" if key is None else key)


def _class(column: Column) -> str | None:
    return "number" if column.is_number else "wide" if column.is_wide else None
