"""The one table, for a terminal and for the page on benchmarks, and the same as JSON."""

from collections.abc import Sequence
from pathlib import Path

from bench.measure import BUSY, Row

HEADS = ("what", "to reach", "measured (lowest to highest)", "raw limit", "ours", "met")


def cells(row: Row) -> tuple[str, ...]:
    """Return the row's cells, in the order of the heads."""
    bound = "" if row.bound is None else f"{'≤' if row.is_most else '≥'} {_number(row.bound)}{row.unit}"
    if not row.measured:
        return row.what, bound, row.note, row.raw, row.ours, ""
    low, high = _number(min(row.measured)), _number(max(row.measured))
    measured = f"{_number(row.median)}{row.unit} ({low} to {high})"
    met = {None: "", True: "yes", False: "NO"}[row.is_met]
    busy = BUSY if row.is_too_busy else ""
    return row.what, bound, measured, row.raw, row.ours, ", ".join(filter(None, (met, busy)))


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def text(rows: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    lines = [HEADS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def markdown(rows: Sequence[Row], machine: Sequence[str]) -> str:
    """Return the machine's description and the table as Markdown."""
    lines = [HEADS, ("---",) * len(HEADS), *map(cells, rows)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    described = "\n".join(f"- {line}" for line in machine)
    notes = "\n".join(f"- {row.what}: {row.note}" for row in rows if row.note and row.measured)
    return "\n\n".join(part for part in (described, table, notes) if part)


def as_dict(row: Row) -> dict[str, object]:
    """Return the row's values, JSON-ready."""
    return {
        "name": row.name,
        "what": row.what,
        "measured": list(row.measured),
        "median": row.median if row.measured else None,
        "unit": row.unit.strip(),
        "bound": row.bound,
        "is_most": row.is_most,
        "is_met": row.is_met,
        "is_too_busy": row.is_too_busy,
        "raw": row.raw,
        "ours": row.ours,
        "note": row.note,
    }


def markers(part: str) -> tuple[str, str]:
    """Return the lines of a page between which a part's table stands."""
    return f"<!-- bench:{part}:begin -->", f"<!-- bench:{part}:end -->"


def has_place(page: Path, part: str) -> bool:
    """Say whether the page has the markers of a part."""
    return markers(part)[0] in page.read_text(encoding="utf-8")


def rewrite(page: Path, part: str, table: str) -> None:
    """Put a part's table between its markers in the page; ValueError when it has none."""
    old = page.read_text(encoding="utf-8")
    first, last = markers(part)
    begin, end = old.find(first), old.find(last)
    if not 0 <= begin < end:
        raise ValueError(f"{page} has no line {first} with a line {last} behind it")
    new = f"{old[: begin + len(first)]}\n\n{table}\n\n{old[end:]}"
    page.write_text(new, encoding="utf-8")
