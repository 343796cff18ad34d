"""What is asked, and what is answered: selectors, a limit and a cursor go in, a page of rows comes out.

An answer is made in steps. Between two of them others have their turn, so that a question about 100,000 units of work
holds up no commit; what comes or goes meanwhile may be in the answer or not.
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.conversations.dormancy import IDENTIFIER
from oms_journal.broker.patterns import matches
from oms_journal.broker.records import Status

LIMIT_DEFAULT = 100
SHOWN_MAX = 40  # characters of what was said, in an error
LIMIT_MAX = 1000
STEP_ROWS = 25  # made between two pauses: about a millisecond
STEP_LOOKS = 500  # that were looked at and not wanted count a part of a row

Row = Mapping[str, Any]
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked of a subject: rows that fit all selectors, from behind the cursor on, at most so many.

    Rows that who asks may not see are as if they were not there: no cursor and no total tells of them.
    """

    selectors: Mapping[str, Sequence[str]] = field(default_factory=dict)  # any of the values
    limit: int = LIMIT_DEFAULT
    cursor: str = ""
    may_see: Callable[[Row], bool] | None = None  # None: everything

    def one(self, name: str) -> str | None:
        """Return the only value of a selector, which has no wildcard; None where it says nothing, or more."""
        values = self.selectors.get(name, ())
        return values[0] if len(values) == 1 and "*" not in values[0] else None

    def fits(self, name: str) -> Callable[[str], bool]:
        """Return whether a text fits a selector; `*` stands for any characters."""
        values = self.selectors.get(name)
        if values is None:
            return _everything
        if not any("*" in value for value in values):
            return frozenset(values).__contains__
        return partial(matches, values)

    def statuses(self) -> frozenset[Status] | None:
        """Return the statuses that are asked for, None for any. CisRefused."""
        said = self.selectors.get("status")
        if said is None:
            return None
        known = tuple(status.name for status in Status)
        wrong = sorted(set(map(str.upper, said)) - set(known))
        if wrong:
            raise CisRefused(
                CommandCode.INVALID_SELECTOR, f"status={wrong[0][:SHOWN_MAX]!r} is none of {', '.join(known)}"
            )
        return frozenset(Status[each.upper()] for each in said)

    def sees(self, row: Row) -> bool:
        """Return whether who asks may see a row."""
        return self.may_see is None or self.may_see(row)

    def total(self, count: int | None) -> int | None:
        """Return how many rows there are in all, None where who asks may see only some."""
        return count if self.may_see is None else None

    def after(self) -> Any:
        """Return the key of the last row of the page before, None for the first page. CisRefused."""
        if not self.cursor:
            return None
        try:
            return _as_key(json.loads(self.cursor))
        except (ValueError, RecursionError):
            raise CisRefused(
                CommandCode.INVALID_SELECTOR,
                "the cursor is none that an answer has said; take `next` of a page as it is",
            ) from None

    def after_identifier(self) -> str:
        """Return the identifier that is the cursor, "" for the first page. CisRefused."""
        found = self.after()
        if found is None:
            return ""
        if not isinstance(found, str) or not IDENTIFIER.fullmatch(found):
            raise CisRefused(
                CommandCode.INVALID_SELECTOR,
                "the cursor is one of another information object; take `next` of a page of this one",
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows; `total` is how many there are in all, None where nobody has counted."""

    rows: Sequence[Row]
    total: int | None = None
    next: str | None = None  # the cursor of the next page
    summary: Row | None = None


T = TypeVar("T")
Columns = Mapping[str, Callable[[T], object]]  # of a subject, in their order: the name, and how to get it


def row_of(columns: Columns[T], at: T) -> Row:
    """Return the row of one thing: `at` is what the columns are read from."""
    return {name: read(at) for name, read in columns.items()}


PageSteps = Generator[None, None, Page]
K = TypeVar("K", bound=Hashable)


def run_steps(steps: PageSteps) -> Page:
    """Return what the steps come to, where nobody else has to have a turn between two of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Page = end.value
            return found


async def run_steps_async(steps: PageSteps) -> Page:
    """Return what the steps come to; between two of them the loop has as much time for others as the step has taken."""
    while True:
        began = time.perf_counter()
        try:
            next(steps)
        except StopIteration as end:
            found: Page = end.value
            return found
        await asyncio.sleep(time.perf_counter() - began)


def page_of(
    question: Query,
    keys: Iterable[K],
    row: Callable[[K], Row | None],
    *,
    total: int | None = None,
) -> PageSteps:
    """Return the page of the rows that `row` makes of keys, in their order; None is no row that is wanted."""
    after = question.after()
    try:
        ordered: list[Any] = sorted([key for key in keys if after is None or key > after])
    except TypeError:
        raise CisRefused(
            CommandCode.INVALID_SELECTOR,
            "the cursor is one of another information object; take `next` of a page of this one",
        ) from None
    rows: list[Row] = []
    effort, last = 0, None
    for key in ordered:
        made = row(key)
        effort += 1
        if made is not None and question.sees(made):
            if len(rows) == question.limit:
                return Page(rows=rows, total=question.total(total), next=cursor_of(last))
            rows.append(made)
            last = key
            effort += STEP_LOOKS // STEP_ROWS
        if effort >= STEP_LOOKS:
            effort = 0
            yield
    return Page(rows=rows, total=question.total(total))


def cursor_of(key: object) -> str:
    """Return the cursor behind the row with this key."""
    return json.dumps(key, separators=(",", ":"))


def _as_key(found: Any) -> Any:
    """Return a key that JSON has held: text, whole numbers, and lists of them. ValueError."""
    if isinstance(found, list):
        return tuple(map(_as_key, found))
    if found is not None and type(found) not in (str, int):
        raise ValueError("no key has that")
    return found


def _everything(_: str) -> bool:
    return True


# How times and durations are told.


def time_of(microseconds: int) -> str | None:
    """Return a time as ISO 8601 in UTC, to the millisecond; None for 0."""
    if not microseconds:
        return None
    moment = _BEGINNING + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def seconds_of(microseconds: int | None) -> float | None:
    """Return a duration as seconds; None for 0, which has no end."""
    return None if not microseconds else microseconds / MICROSECONDS


def left_of(ends: int, clock: int) -> float | None:
    """Return how many seconds are left until then on a clock; None for never."""
    return None if not ends else max(ends - clock, 0) / MICROSECONDS
