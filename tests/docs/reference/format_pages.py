"""The tables and the example of the pages on the format: python -m tests.docs.reference.format_pages writes them.

A table of a page that is one of a module's docstring is written as it stands there. The table of verdicts is that of
`recovery/decision.py`, and the example is the smallest golden file, with short fields joined on a line.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path

from oms_journal.recovery import decision
from oms_journal.recovery.decision import TABLE, Row
from tests.support.journals.format_tables import PAGES, Rows, as_markdown, docstring_tables, markdown_tables
from tests.support.journals.golden_files import GOLDEN
from tests.support.project import REPOSITORY

BYTES, READING, _ = PAGES
SMALLEST = GOLDEN / "v2-smallest.hex"
FORMAT = sorted(path.stem for path in (REPOSITORY / "journal" / "format").glob("[!_]*.py"))
MODULES = (*(f"journal.format.{module}" for module in FORMAT), "journal.names", "journal.operations", "database.lookup")
LINE_WORDS = 24  # of the example: so many bytes, or counts of zeros, stand on one line


def verdicts() -> Rows:
    """Return the table of `recovery/decision.py`."""
    heads = ("row", "header", "body", "footer", "followed", "verdict", "action")
    return [heads, *(_verdict(row) for row in TABLE)]


def _verdict(row: Row) -> tuple[str, ...]:
    followed = "-"
    if len(row.followed) == 1:
        followed = "yes" if True in row.followed else "no"
    if row.ends_as_named == {False}:
        followed = "otherwise"
    found = row.decision
    seen = (_any_of(row.heads, decision.Head), _any_of(row.bodies, decision.Body), _any_of(row.feet, decision.Foot))
    return found.row, *seen, followed, found.verdict.value, found.action.name.lower()


def _any_of(values: Iterable[Enum], kind: type[Enum]) -> str:
    wanted = set(values)
    return "-" if len(wanted) == len(kind) else ", ".join(value.value for value in kind if value in wanted)


def example() -> str:
    """Return the smallest golden file with its fields joined to lines, and its second header named only."""
    return "\n".join(_joined(SMALLEST.read_text(encoding="utf-8").splitlines()))


def _joined(lines: Iterable[str]) -> Iterator[str]:
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    for line in lines:
        if line.startswith("#"):
            sections.append((line, []))
        else:
            data, _, comment = line.partition("#")
            sections[-1][1].append((data.strip(), comment.strip()))
    first = sections[0][1]
    for title, fields in sections:
        if title != sections[0][0] and fields == first[: len(fields)] and title.endswith("header"):
            yield f"{title}: the 256 bytes that stand at 0, again"
            continue
        yield title
        for data, comment in _on_lines(_entries(fields) if title.endswith("directory") else fields):
            yield f"{data:{3 * LINE_WORDS}} # {comment}"


def _entries(fields: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the entries of a footer's directory, each from its two lines, with runs of zeros as `00 *COUNT`."""
    for (begin, said), (end, more) in _pairs(fields):
        data = re.sub(r"00( 00){3,}", lambda run: f"00 *{len(run[0]) // 3 + 1}", f"{begin} {end}")
        comment = f"{said}, {more}"
        yield data, comment.replace(", base 0", "").replace(", step 0", "").replace(", size 0", "")


def _pairs(fields: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    return zip(fields[0::2], fields[1::2], strict=True)


def _on_lines(fields: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (bytes, comment), as many fields together as a line holds."""
    held: list[tuple[str, str]] = []
    for data, comment in fields:
        if held and sum(len(part.split()) for part in (data, *(part for part, _ in held))) > LINE_WORDS:
            yield " ".join(part for part, _ in held), "; ".join(said for _, said in held)
            held = []
        held.append((data, comment))
    if held:
        yield " ".join(part for part, _ in held), "; ".join(said for _, said in held)


def written(page: Path, text: str) -> str:
    """Return a page's text with its tables and its example as they should be."""
    for rows in (rows for module in MODULES for rows in docstring_tables(f"oms_journal.{module}")):
        text = _with_table(text, rows)
    parts = {"verdicts": as_markdown(verdicts()).strip()} if page == READING else {}
    if page == BYTES:
        parts["dump"] = f"```text\n{example()}\n```"
    for name, part in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{part}\n{end}{rest.split(end, 1)[1]}"
    return text


def _with_table(text: str, rows: Rows) -> str:
    """Return the text with the table that has most of these fields as the module has it; as it was without one."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    alike = [(_likeness(markdown_tables(block)[0], rows), block) for block in blocks]
    likeness, block = max(alike, default=(0.0, ""))
    return text.replace(block, as_markdown(rows)) if likeness > 1 / 2 else text


def _likeness(found: Rows, wanted: Rows) -> float:
    theirs, ours = ({row[0] for row in rows if row[0]} for rows in (found, wanted))
    if found[0] != wanted[0]:
        return 0.0
    return len(theirs & ours) / len(theirs | ours)


def main() -> None:
    for page in PAGES:
        page.write_text(written(page, page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
