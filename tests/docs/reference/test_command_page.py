"""The page on the command is what the program says, and every command, exit code and error has its row."""

import re

import typer

from oms_journal.cli.failures import ExitCode
from oms_journal.cli.main import app
from tests.docs.reference import commands
from tests.docs.reference.commands import PAGE, SUBJECTS, found, parts

TEXT = PAGE.read_text(encoding="utf-8")


def listed() -> set[str]:
    group = typer.main.get_command(app)
    return set(group.list_commands(None))  # type: ignore[attr-defined]


def test_every_command_stands_in_the_table_and_every_row_is_a_command() -> None:
    rows = set(re.findall(r"^\| \[`oms ([a-z-]+)", TEXT, re.MULTILINE))

    assert rows == listed() == {name for names in SUBJECTS.values() for name in names}


def test_what_is_between_marks_is_what_the_program_says() -> None:
    said = parts()
    differing = [name for name, part in said.items() if found(name) != part]
    assert said and not differing, "write them anew: python -m tests.docs.reference.commands"


def test_every_exit_code_has_a_row_with_what_to_do() -> None:
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| [^|]+ \|$", found("exit-codes"), re.MULTILINE)

    assert rows == [str(int(code)) for code in ExitCode]


def test_every_command_has_a_heading_with_its_arguments_and_options() -> None:
    headings = re.findall(r"^### oms (.+)$", TEXT, re.MULTILINE)

    assert sorted(headings) == sorted(commands.commands())
    assert TEXT.count("| option | does | default |") == len(headings)


def test_the_page_says_where_the_spool_directory_is_looked_for() -> None:
    head = TEXT.split("## Exit codes", maxsplit=1)[0]

    assert "`SPOOL_DIRECTORY`" in head and "`/var/opt/universal/spool/oms`" in head
