"""What Spark's filters leave to be read: bounds that every row they let through keeps to.

No filter is taken over: Spark applies each of them again to the rows that come. So it is enough that a
bound follows from its filter, and a filter that nothing is known of only costs time.

    column                 filters                                        bound
    time, commit,          = <=> < <= > >= in, and their negations        since and until, a range
    sequence                                                              (of `in` from the lowest to the highest)
    operation              all, since there are only five of them         a set of operations
    queue                  = <=> in                                       a set of queues
    queue, message, key    all that a null does not pass                  the operations that have such a thing
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from oms_journal.analysis.reading.schema import TIME_MAX, TIME_MIN, Range, Wanted
from oms_journal.analysis.spark.options import micros

ON_MESSAGES = frozenset(("ADD", "DELIVER", "DELETE"))
ON_KEYS = frozenset(("PUT", "DROP"))
_EVERY = ON_MESSAGES | ON_KEYS
_HAVING = {"queue": ON_MESSAGES, "message": ON_MESSAGES, "key": ON_KEYS}  # which operations have such a thing
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_NOTHING = (1, 0)
_OPPOSITES: dict[type[Filter], type[Filter]] = {
    LessThan: GreaterThanOrEqual,
    LessThanOrEqual: GreaterThan,
    GreaterThan: LessThanOrEqual,
    GreaterThanOrEqual: LessThan,
    IsNull: IsNotNull,
    IsNotNull: IsNull,
}


def narrowed(wanted: Wanted, filters: Sequence[Filter]) -> Wanted:
    """Return what is left to be read of what is wanted: at least every row that passes all the filters."""
    for one in filters:
        wanted = _narrowed_by(wanted, _positive(one))
    return wanted


def _positive(one: Filter) -> Filter:
    """Return a comparison for a negated one. A null passes neither of the two."""
    if isinstance(one, Not) and type(one.child) in _OPPOSITES:
        child: Any = one.child
        opposite: Any = _OPPOSITES[type(child)]
        operands = (child.attribute,) if isinstance(child, IsNull | IsNotNull) else (child.attribute, child.value)
        found: Filter = opposite(*operands)
        return found
    return one


def _narrowed_by(wanted: Wanted, one: Filter) -> Wanted:
    subject: Any = one.child if isinstance(one, Not) else one
    column = ".".join(subject.attribute)
    if column == "operation":
        return _with_operations(wanted, frozenset(name for name in _EVERY if _passes(one, name)))
    if column == "time":
        return _with_time(wanted, _bounds(one))
    if column == "sequence":
        return replace(wanted, sequences=_both(wanted.sequences, _bounds(one)))
    if column == "commit":
        return replace(wanted, commits=_both(wanted.commits, _bounds(one)))
    if column in _HAVING:
        return _with_name(wanted, one, column)
    return wanted


# Columns of numbers and times.


def _bounds(one: Filter) -> Range | None:
    """Return the lowest and highest value that passes; None where the filter does not tell."""
    match one:
        case EqualTo(value=None) | IsNull() | EqualNullSafe(value=None):
            return _NOTHING  # these columns are never null
        case EqualTo(value=value) | EqualNullSafe(value=value):
            values: list[Any] = [value]
        case In(value=several):
            values = [value for value in several if value is not None]
        case GreaterThan(value=value) | GreaterThanOrEqual(value=value):
            number = _number(value)
            return None if number is None else (number + isinstance(one, GreaterThan), _INT64_MAX)
        case LessThan(value=value) | LessThanOrEqual(value=value):
            number = _number(value)
            return None if number is None else (_INT64_MIN, number - isinstance(one, LessThan))
        case _:
            return None
    numbers = [_number(value) for value in values]
    if not numbers:
        return _NOTHING
    known = [number for number in numbers if number is not None]
    return (min(known), max(known)) if len(known) == len(numbers) else None


def _number(value: object) -> int | None:
    if isinstance(value, datetime):
        return micros(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _both(one: Range | None, other: Range | None) -> Range | None:
    if one is None or other is None:
        return one or other
    lowest, highest = max(one[0], other[0]), min(one[1], other[1])
    return (lowest, highest) if lowest <= highest else _NOTHING


def _with_time(wanted: Wanted, bounds: Range | None) -> Wanted:
    """Times out of the range of a timestamp are shown as its ends, so a bound there is none."""
    if bounds is None:
        return wanted
    since = None if bounds[0] <= TIME_MIN else bounds[0]
    until = None if bounds[1] >= TIME_MAX else bounds[1] + 1
    return replace(
        wanted,
        since=max((time for time in (wanted.since, since) if time is not None), default=None),
        until=min((time for time in (wanted.until, until) if time is not None), default=None),
    )


# Columns of names.


def _with_operations(wanted: Wanted, operations: frozenset[str]) -> Wanted:
    known = _EVERY if wanted.operations is None else wanted.operations
    return replace(wanted, operations=known & operations)


def _with_name(wanted: Wanted, one: Filter, column: str) -> Wanted:
    """Return what a filter on a column leaves that is null for some operations."""
    match one:
        case IsNull() | EqualNullSafe(value=None):
            return _with_operations(wanted, _EVERY - _HAVING[column])
        case Not(child=EqualNullSafe()):
            return wanted  # a null may pass
        case EqualTo(value=str(name)) | EqualNullSafe(value=str(name)) if column == "queue":
            names = frozenset((name,))
        case In(value=several) if column == "queue":
            names = frozenset(name for name in several if name is not None)
        case _:
            return _with_operations(wanted, _HAVING[column])  # a null does not pass
    return replace(wanted, queues=names if wanted.queues is None else wanted.queues & names)


def _passes(one: Filter, text: str) -> bool:
    """Say whether a row with this text in the filter's column may pass; a filter that is not known lets it."""
    if isinstance(one, Not):
        return _verdict(one.child, text) is not True and not _meets_null(one.child)
    return _verdict(one, text) is not False


def _meets_null(one: Any) -> bool:
    """Say whether the filter compares with null, so that neither it nor its negation is true where it is not true."""
    value = getattr(one, "value", "")
    if isinstance(one, EqualNullSafe):
        return False
    return value is None or (isinstance(one, In) and None in value)


def _verdict(one: Filter, text: str) -> bool | None:
    """Return what the filter says of a text that is not null; None where it is not known."""
    match one:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return bool(text == value)
        case In(value=several):
            return text in several
        case IsNull():
            return False
        case IsNotNull():
            return True
        case StringStartsWith(value=value):
            return text.startswith(value)
        case StringEndsWith(value=value):
            return text.endswith(value)
        case StringContains(value=value):
            return value in text
        case _:
            return None
