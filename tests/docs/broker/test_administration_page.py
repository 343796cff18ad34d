"""The page on administration has every object with its columns, every command, every code, and what is refused."""

import re
from collections.abc import Iterator

import pytest

from oms_journal.broker.admin.codes import CommandCode
from oms_journal.broker.admin.commands import COMMANDS, IDENTIFIERS_MAX
from oms_journal.broker.admin.commands import REFUSED as REFUSED_COMMANDS
from oms_journal.broker.admin.subjects import ALIASES, SUBJECTS
from oms_journal.broker.admin.subjects import REFUSED as REFUSED_SUBJECTS
from oms_journal.broker.records import Status
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "administration.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]}


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def rows(section: str) -> Iterator[list[str]]:
    """Yield the cells of the rows of a section's table, without its head."""
    for line in SECTIONS[section].splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_object_has_a_section() -> None:
    assert set(SUBJECTS) <= SECTIONS.keys()


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_section_has_the_number_the_selectors_and_the_columns_of_its_object(name: str) -> None:
    subject, text = SUBJECTS[name], SECTIONS[name]
    columns = [column for row in rows(name) for column in named(row[0])]
    selectors = re.findall(r"Selectors: ([^.]+)\.", text)[0]

    assert columns == list(subject.columns)
    assert (named(selectors) or selectors) == (list(subject.selectors) or "none")
    assert (f"Number {subject.number}." if subject.number else "No number.") in text
    for alias in (alias for alias, of in ALIASES.items() if of == name):
        assert f"Also called {alias}." in text


def test_the_statuses_are_those_of_units_of_work() -> None:
    said = re.findall(r"`status` is one of ([A-Z, ]+)\.", SECTIONS["PSF"])[0]
    assert set(said.split(", ")) == {status.name for status in Status}


def test_every_command_has_a_row_for_each_of_its_objects() -> None:
    said = [row for row in rows("Command: `oms cmd`") if row[0] != "command"]
    known = [(command, target) for command in COMMANDS.values() for target in command.targets]

    assert [(named(row[0])[0], row[2]) for row in said] == [(command.name, target) for command, target in known]
    for (command, target), row in zip(known, said, strict=True):
        options = command.options_of(target)
        assert row[1] == (str(command.number) if command.number else "none")
        assert named(row[3]) == [option for option in options if option]
        assert ("none" in row[3]) is ("" in options and len(options) > 1)
        assert named(row[4]) == list(command.selectors_of(target))
        assert row[5] == ("yes" if command.destroys else "no")
    assert f"at most {IDENTIFIERS_MAX:,}" in PAGE


def test_every_code_has_a_row() -> None:
    assert [row for row in rows("Answers") if row[0] != "code"] == [[str(int(code)), code.text] for code in CommandCode]


def test_everything_that_is_refused_is_named() -> None:
    said = set()
    for cell, _ in rows("What is refused"):
        for group in cell.split(";"):
            words = group.replace(",", " ").split()
            last = words[-1].partition("-")[2]
            said |= {word + last if word.endswith("-") else word for word in words}

    assert said - {"commands", "and", "objects"} == {*REFUSED_COMMANDS, *REFUSED_SUBJECTS}
