"""The tables that describe the format: in the docstrings of the modules, and in the pages of docs/reference/format.

A docstring's table is an indented block whose first line names the columns; a cell begins where its
column's name does, and a line that only goes on has nothing in front of its last cell.
"""

import importlib
import inspect
import re
from collections.abc import Iterator

from tests.support.project import REPOSITORY

Rows = list[tuple[str, ...]]

PAGES = tuple(REPOSITORY / "docs" / "reference" / "format" / f"{page}.md" for page in ("bytes", "reading", "opening"))
_HEADINGS = {"field", "file", "kind", "column", "part", "id", "operation"}  # what a table's first column is called


def docstring_tables(module: str) -> list[Rows]:
    """Return the tables in a module's docstring, each with its line of column names first."""
    document = inspect.getdoc(importlib.import_module(module)) or ""
    blocks = re.findall(r"(?:^ {4}\S.*\n(?: {4}.*\n)*)", document + "\n", re.MULTILINE)
    return [_docstring_table(block) for block in blocks if block.split()[0] in _HEADINGS]


def _docstring_table(block: str) -> Rows:
    head, *lines = [line[4:].rstrip() for line in block.splitlines()]
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+(?: \S+)*", head)]
    ends = [*starts[1:], None]
    rows: Rows = [tuple(head[start:end].strip() for start, end in zip(starts, ends, strict=True))]
    for line in lines:
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if any(cells[:-1]):
            rows.append(tuple(cells))
        else:
            rows[-1] = (*rows[-1][:-1], f"{rows[-1][-1]} {cells[-1]}")
    return rows


def markdown_tables(text: str) -> list[Rows]:
    """Return the tables of a Markdown text, without their markup."""
    found: list[Rows] = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = [line.strip().strip("|") for line in block.splitlines()]
        rows = [tuple(_plain(cell) for cell in line.split(" | ")) for line in lines]
        found.append([rows[0], *rows[2:]])
    return found


def _plain(cell: str) -> str:
    return cell.strip().replace("**", "")


def as_markdown(rows: Rows) -> str:
    """Return a table as the pages of docs/reference/format show it."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]) + "\n"


def widths(rows: Rows) -> Iterator[tuple[str, int]]:
    """Yield (field, bytes) of a table whose second column is a number of bytes."""
    for field, size, *_ in rows[1:]:
        yield field, int(size)
