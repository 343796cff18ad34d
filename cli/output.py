"""Prints to standard output: JSON for programs, tables and lines for people.

Text that comes from a message, a queue's name or a file's name passes `printable` on its way to a
terminal. Sizes and ages are shortened for people only.

How things are worded for people: sizes, ages, times, payloads, and text that is safe to print.
"""

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

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


GAP = 2  # between columns
SHRUNK_MIN = 8  # characters left of a column in the narrowest window
WIDTH_UNBOUNDED = 10_000  # a table that goes into a file or a pipe is never folded


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. In a narrow window the one that shrinks is cut, one that wraps gets more lines."""

    title: str
    justify: Literal["left", "right"] = "left"
    shrinks: bool = False
    wraps: bool = False


def number_column(title: str) -> Column:
    return Column(title, "right")


def print_json(document: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=indent, default=_plain) + "\n")


def print_json_line(document: Mapping[str, Any]) -> None:
    """Print one line of NDJSON."""
    sys.stdout.write(json.dumps(document, default=_plain) + "\n")


def print_line(text: str = "") -> None:
    """Print one line of text, made harmless."""
    sys.stdout.write(printable(text) + "\n")


def print_lines(texts: Iterable[str]) -> None:
    """Print lines of text, made harmless."""
    sys.stdout.write("".join([printable(text) + "\n" for text in texts]))


def print_as_they_are(lines: Iterable[str]) -> None:
    """Print lines that are harmless, each with its line end."""
    sys.stdout.write("".join(lines))


def print_bytes(data: bytes) -> None:
    """Print bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def print_payload(payload: bytes, bytes_max: int | None = None) -> None:
    """Print a payload for a person: text line by line, anything else as a hexadecimal dump."""
    shown = payload if bytes_max is None else payload[:bytes_max]
    text = as_text(shown)
    lines = _hex_lines(shown) if text is None else text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for line in lines:
        print_line(line.replace("\t", "    "))
    if len(shown) < len(payload):
        print_line(f"… and {len(payload) - len(shown):,} bytes more; --raw prints all")


def _hex_lines(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{at:08x}  {row.hex(' '):47}  {text}"


class Notes:
    """How notes are printed: as JSON once the command line has asked for it. Set by `cli/main.py` alone."""

    as_json = False


def note(text: str) -> None:
    """Print one line on stderr that is worth knowing and no failure."""
    print(json.dumps({"note": text}) if Notes.as_json else f"oms: {printable(text)}", file=sys.stderr)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print the rows under their titles; nothing of a cell is markup."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Printing(Console):
        def on_broken_pipe(self) -> None:
            raise

    width = None if sys.stdout.isatty() else WIDTH_UNBOUNDED
    console = Printing(file=sys.stdout, width=width, highlight=False, emoji=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    cells = [[printable(cell) for cell in row] for row in rows]
    widest = [max(map(cell_len, texts)) for texts in zip([c.title for c in columns], *cells, strict=True)]
    fixed = sum(width for column, width in zip(columns, widest, strict=True) if not column.shrinks)
    room = max(console.width - fixed - GAP * (len(columns) - 1), SHRUNK_MIN)
    for column in columns:
        table.add_column(
            column.title,
            justify=column.justify,
            overflow="fold" if column.wraps else "ellipsis",
            no_wrap=not column.wraps,
            max_width=room if column.shrinks else None,
        )
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: times as ISO 8601 UTC, bytes as base64, paths and enums as text."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return str(value)
