"""How sizes, times, counts and durations read for a person."""

from collections.abc import Sequence
from datetime import UTC, datetime

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LONG_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def size(count: float) -> str:
    """Return a number of bytes."""
    for unit in _SIZES:
        if count < 1023.95 or unit == _SIZES[-1]:
            return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes every size")


def short_size(count: float) -> str:
    """Return a number of bytes for an axis, where the numbers are round."""
    return size(count).replace(".0 ", " ")


def number(value: float) -> str:
    """Return a number, whole where it is whole or large."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2g}"


def short_number(value: float) -> str:
    """Return a number in at most five characters or so, for an axis or a tile."""
    for scale, unit in _COUNTS:
        if abs(value) >= 0.9995 * scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Return the number with the right form of the noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def averaged(value: float, thing: str) -> str:
    """Return a mean with the right form of the noun: what reads as 1 is one."""
    return f"{number(value)} {thing}{'' if number(value) == '1' else 's'}"


def share(part: float, whole: float) -> str:
    """Return a part in percent; neither 0 % nor 100 % where it is only nearly so."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == int(percent) else f"{percent:.1f} %"


def duration(seconds: float | None) -> str:
    """Return a duration in its one or two largest units; None is an unknown one."""
    if seconds is None:
        return "—"
    if seconds < 0:
        return "−" + duration(-seconds)
    if seconds < 59.95:
        return _short_duration(seconds)
    seconds = round(seconds)
    for at, (span, unit) in enumerate(_LONG_UNITS):
        if seconds >= span:
            whole, rest = divmod(seconds, span)
            smaller = _LONG_UNITS[at + 1] if at + 1 < len(_LONG_UNITS) else (1, "")
            part = rest // smaller[0]
            return f"{whole:,} {unit} {part} {smaller[1]}" if part else f"{whole:,} {unit}"
    raise AssertionError("a minute or more has a unit")


def short_duration(seconds: float | None) -> str:
    """Return a duration in one unit, for a tile or an axis."""
    if seconds is None or abs(seconds) < 59.95:
        return duration(seconds)
    span, unit = next((span, unit) for span, unit in _LONG_UNITS if abs(seconds) >= span)
    return f"{seconds / span:.3g} {unit}" if abs(seconds) < 10 * span else f"{seconds / span:,.0f} {unit}"


def _short_duration(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    for scale, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def moment(time: datetime) -> str:
    """Return a time to the second, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def microseconds(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    since = time.astimezone(UTC) - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def listed(things: Sequence[str], most: int = 3) -> str:
    """Return the things as a list in a sentence; of many only the first, and how many more."""
    if len(things) > most:
        things = [*things[: most - 1], f"{len(things) - most + 1:,} more"]
    return things[0] if len(things) == 1 else ", ".join(things[:-1]) + " and " + things[-1]
