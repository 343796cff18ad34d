"""How things are worded for people: sizes, ages, times, payloads, and text that is safe to print."""

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def printable(text: str) -> str:
    """Return the text with everything escaped that a terminal would act upon."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def iso(moment: datetime) -> str:
    """Return the time as ISO 8601 UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_microseconds(microseconds: int) -> str:
    """Return a time in microseconds since 1970 as ISO 8601 UTC; years a calendar cannot hold as a number."""
    try:
        seconds, rest = divmod(microseconds, 1_000_000)
        return iso(datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest))
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"


def to_the_second(moment: datetime) -> str:
    """Return the time as a person reads it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def size_text(size: float) -> str:
    """Return a number of bytes as a person reads it."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes every size")


def age_text(seconds: float | None) -> str:
    """Return a duration as a person reads it, in its two largest units; None is an unknown one."""
    if seconds is None:
        return "?"
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Return the number with the right form of the noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def preview(payload: bytes, width: int) -> str:
    """Return the beginning of a payload: as text where it is text, else as hexadecimal digits."""
    if text := as_text(payload[: 4 * width]):
        shown = printable(text)
        return shown if len(shown) <= width and len(payload) <= 4 * width else shown[: width - 1] + "…"
    if not payload:
        return ""
    shown = "0x" + payload[: max(width // 2 - 2, 1)].hex()
    return shown if 2 + 2 * len(payload) <= len(shown) else shown[: width - 1] + "…"


def as_text(data: bytes) -> str | None:
    """Return the bytes as text when they are UTF-8 (the last character may be cut) and no binary."""
    text = data.decode("utf-8", "replace")
    if text.rstrip("�").count("�") or len(text) - len(text.rstrip("�")) > 1:
        return None
    text = text.rstrip("�")
    odd = sum(not (c.isprintable() or c in "\t\r\n") for c in text)
    return text if odd * 10 <= len(text) else None
