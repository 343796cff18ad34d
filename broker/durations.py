"""How long: durations as callers and attributes write them, and when a lifetime is over.

A duration is a number and S, M, H or D; without a letter it is seconds. Everything here is
microseconds, as the time that the kernel is told.
"""

import re
from enum import Enum
from typing import Final

MICROSECONDS = 1_000_000  # of a second
_UNITS = {"": 1, "S": 1, "M": 60, "H": 3600, "D": 86400}
_DURATION = re.compile(r"([0-9]{1,40})([SMHD]?)", re.IGNORECASE)
_WAIT = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)([SMHD]?)", re.IGNORECASE)
_QUOTED_MAX = 40  # characters of a text in an error
NEVER = 0  # a lifetime without an end, and when it is over

YEAR_SECONDS = 366 * 86400
DURATION_MAX = 100 * YEAR_SECONDS * MICROSECONDS  # a status of it times 254 still fits a record


def parse_duration(text: str) -> int:
    """Return a duration: "30S", "5M", "12H", "1D", "90". ValueError for anything else, and above a hundred years."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        said = (repr(text) if len(text) <= _QUOTED_MAX else f"{text[:_QUOTED_MAX]!r}…") if text else "an empty text"
        raise ValueError(f"{said} is not a duration; write a number and S, M, H or D, as in 30S")
    found = int(match[1]) * _UNITS[match[2].upper()] * MICROSECONDS
    if found > DURATION_MAX:
        raise ValueError(f"{text} is more than a hundred years; write a shorter time, as in 30D")
    return found


def duration_text(microseconds: int) -> str:
    """Return the duration as it is written, in its largest whole unit."""
    seconds = microseconds // MICROSECONDS
    unit = next(unit for unit in "DHMS" if seconds % _UNITS[unit] == 0 and (seconds or unit == "S"))
    return f"{seconds // _UNITS[unit]}{unit}"


class WaitWord(Enum):
    """What WAIT says beside a time."""

    NO = "NO"
    YES = "YES"  # as long as the participant may be inactive


NO: Final = WaitWord.NO
YES: Final = WaitWord.YES


def parse_wait(text: str) -> WaitWord | int:
    """Return what WAIT says; nothing said is NO. ValueError for what says nothing, and for no time at all.

    A time may have a fraction, which no lifetime has.
    """
    match text.strip().upper():
        case "" | "NO":
            return NO
        case "YES":
            return YES
        case other:
            found = _WAIT.fullmatch(other)
    if found is None:
        raise ValueError(f"WAIT is NO, YES or a time as in 30S, not {text!r}")
    microseconds = round(float(found[1]) * _UNITS[found[2]] * MICROSECONDS)
    if not 0 < microseconds <= DURATION_MAX:
        raise ValueError(f"WAIT={text} is not a time to wait for")
    return microseconds


def status_lifetime(multiple: int, lifetime: int, explicit: int) -> int:
    """Return how long a persistent status is kept after completion: the multiple and what is given explicitly.

    NEVER where a multiple is asked of a lifetime that has no end.
    """
    if multiple and lifetime == NEVER:
        return NEVER
    return multiple * lifetime + explicit


def ends(clock: int, lifetime: int) -> int:
    """Return when on the clock a lifetime that begins now is over."""
    return NEVER if lifetime == NEVER else clock + lifetime
