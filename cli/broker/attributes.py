"""`oms attributes`: checks an attribute file, and shows the values that count."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from oms_journal.broker.attributes.attributes import Attributes, Shown, built_in, read_attributes
from oms_journal.broker.attributes.example import example_of
from oms_journal.broker.attributes.text import AttributesInvalid
from oms_journal.cli import options, output
from oms_journal.cli.failures import Usage

FAULTS_SHOWN = 20  # to a person; --json has all

FileToCheck = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        envvar="ETB_ATTR",
        help="The attribute file; without one the built-in defaults are shown.",
        show_default=False,
    ),
]


Example = Annotated[
    bool, typer.Option("--example", help="Print a file to begin with, every attribute at its default; no FILE is read.")
]


def attributes(file: FileToCheck = None, example: Example = False, as_json: options.AsJson = False) -> None:
    """Check a broker's attribute file, show the values that count.

    oms names file, line and attribute of everything that is wrong, and exits 2. Of each value it says which line gives
    it. The other values are defaults. If an attribute is missing, so that the broker would not store or not take
    something, oms warns you.

    The defaults are those of EntireX. With DEFAULT-VALUES=OMS they are those of a start without a file.
    """
    if example:
        for line in example_of(built_in()).splitlines():
            output.print_line(line)
        return
    try:
        found = built_in() if file is None else read_attributes(file)
    except AttributesInvalid as invalid:
        raise failure_of(invalid, as_json=as_json) from None
    if as_json:
        shown = [each._asdict() for each in found.effective_values()]
        told = {"warnings": found.warnings(), "differences": found.differences()}
        output.print_json({"file": found.file, "attributes": shown, **told})
    else:
        _print(found, said_in="built-in" if file is None else "line {}")


def failure_of(
    invalid: AttributesInvalid, *, as_json: bool, options_of: Mapping[str, str] = MappingProxyType({})
) -> Usage:
    """Return what ends the command: the one fault, or how many were told before it.

    `options_of` are the options of the command line that give attributes: what stands in no line is told as theirs.
    """
    faults = invalid.faults
    texts = [
        f"{options_of[each.keyword]}: {each.reason}" if not each.line and each.keyword in options_of else str(each)
        for each in faults
    ]
    if len(faults) > 1 and not as_json:
        for told in texts[:FAULTS_SHOWN]:
            output.note(told)
        if len(faults) > FAULTS_SHOWN:
            output.note(f"and {len(faults) - FAULTS_SHOWN:,} more")
    text = texts[0] if len(faults) == 1 else f"{faults[0].file}: {len(faults)} faults, nothing can be started"
    return Usage(text, faults=[fault._asdict() | {"code": fault.code.value} for fault in faults])


def _print(found: Attributes, *, said_in: str) -> None:
    scopes: dict[tuple[str, str], list[Shown]] = {}
    for shown in found.effective_values():
        scopes.setdefault((shown.section, shown.definition), []).append(shown)
    columns = (output.Column("attribute"), output.Column("value", shrinks=True), output.Column("from"))
    for (section, definition), rows in scopes.items():
        output.print_line(f"{section} {definition}".rstrip())
        sources = (said_in.format(row.line) if row.line else "default" for row in rows)
        cells = ((row.keyword, row.value, source) for row, source in zip(rows, sources, strict=True))
        output.print_table(columns, cells)
        output.print_line()
    if found.differences():
        output.print_line(
            f"Other values than without a file, which DEFAULT-VALUES=OMS has: {', '.join(found.differences())}."
        )
    for warning in found.warnings():
        output.note(warning)
    output.print_line(f"{found.file}: nothing is wrong.")
