"""What callers say of when a message may be handed out: checked, and as times of the two clocks.

    said                          in the journal         goes by, until the next start
    delay, in seconds             due                    the steady clock
    at, a point in time           due                    the wall clock
    expires, in seconds           expiry                 the steady clock
    expires, a point in time      expiry                 the wall clock
    group, a name                 group                  -

The journal has the wall clock's time of each.
"""

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from oms_journal.database.arguments import plain_text, shown
from oms_journal.index.readiness import MICROSECONDS, Moment, NewTerms
from oms_journal.journal.operations import NAME_BYTES_MAX, encode_name
from oms_journal.journal.reading.message import EPOCH

SECONDS_MAX = 1_000_000_000.0  # of a delay, some 31 years
TIME_MAX = 253_402_300_800.0  # the end of the year 9999, in seconds since 1970
_LONGEST = int(SECONDS_MAX) * MICROSECONDS
_MICROSECOND = timedelta(microseconds=1)

Time = float | datetime  # seconds since 1970-01-01 UTC, or with a time zone


class AskedTerms(NamedTuple):
    """What a caller says, checked, and none of it as of now yet. Microseconds; points in time since 1970-01-01 UTC."""

    delay: int | None = None
    due: int | None = None
    life: int | None = None
    expiry: int | None = None
    group: bytes | None = None

    @property
    def are_possible(self) -> bool:
        """Whether `asked_terms` could give them."""
        times = (-TIME_MAX * MICROSECONDS, 2 * TIME_MAX * MICROSECONDS)
        bounds = ((0, _LONGEST), times, (1, _LONGEST), times, (1, NAME_BYTES_MAX))
        values = (*self[:4], None if self.group is None else len(self.group))
        return all(value is None or low <= value <= high for value, (low, high) in zip(values, bounds, strict=True))


def new_terms(
    moment: Callable[[], Moment],
    delay: float | None,
    at: Time | None,
    expires: Time | None,
    group: str | None,
) -> NewTerms | None:
    """Return the terms that a caller gives, as of now; None for none. TypeError, ValueError, InvalidName."""
    if delay is None and at is None and expires is None and group is None:
        return None
    asked = asked_terms(delay, at, expires, group)
    return terms_as_of(moment(), asked)


def asked_terms(delay: float | None, at: Time | None, expires: Time | None, group: str | None) -> AskedTerms:
    """Return what a caller says, checked as far as it can be without a clock. TypeError, ValueError, InvalidName."""
    name = None if group is None else encode_name(plain_text(group, "group"), "group")
    if delay is not None and at is not None:
        raise ValueError("give delay or at, not both: each says when the message is due")
    wait = None if delay is None else _microseconds(delay, "delay", least=0.0)
    due = None if at is None else _time(at, "at")
    life, expiry = None, None
    if isinstance(expires, datetime):
        expiry = _time(expires, "expires")
    elif expires is not None:
        life = _microseconds(expires, "expires", least=1 / MICROSECONDS)
    return AskedTerms(wait, due, life, expiry, name)


def terms_as_of(now: Moment, asked: AskedTerms) -> NewTerms | None:
    """Return the terms that a caller has asked for, as of now; None for none. ValueError."""
    wait, due, life, expiry, name = asked
    if wait:
        due = now.wall + wait
    if life is not None:
        expiry = now.wall + life
    if due is not None and expiry is not None and expiry <= due:
        raise ValueError("the message would expire before it is due; give a later expires, or an earlier delay or at")
    if due is None and expiry is None and name is None:
        return None
    return NewTerms(
        due=due,
        expiry=expiry,
        group=name,
        steady_due=now.steady + wait if wait else None,
        steady_expiry=None if life is None else now.steady + life,
    )


def _microseconds(value: object, what: str, *, least: float) -> int:
    """Return a duration that is given in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds, not {shown(value)}")
    if not least <= value <= SECONDS_MAX:
        raise ValueError(f"{what} must be from {least:g} to {SECONDS_MAX:.0f} seconds, not {shown(value)}")
    return math.ceil(value * MICROSECONDS)


def _time(value: object, what: str) -> int:
    """Return a point in time as microseconds since 1970-01-01 UTC."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueError(f"{what} must have a time zone, as in datetime.now(UTC); {value} has none")
        return (value - EPOCH) // _MICROSECOND
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a datetime, or seconds since 1970-01-01 UTC, not {shown(value)}")
    if not 0 <= value <= TIME_MAX:
        raise ValueError(f"{what} must be from 0 to {TIME_MAX:.0f} seconds since 1970-01-01 UTC, not {shown(value)}")
    return math.ceil(value * MICROSECONDS)
