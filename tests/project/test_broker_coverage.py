"""The table of what the manuals say: every statement has its module and its test, and both are there."""

import ast
from functools import cache

import pytest

from tests.support.journals.format_tables import markdown_tables
from tests.support.project import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "contributing" / "coverage.md").read_text(encoding="utf-8")
NETWORK, OPEN = "with the network", "-"
TABLES = markdown_tables(DOCUMENT)
HEADINGS = ("statement", "seed and section", "module", "test")
ROWS = [row for table in TABLES if table[0] == HEADINGS for row in table[1:]]
DONE = [row for row in ROWS if row[3] != NETWORK]


@cache
def functions(file: str) -> set[str]:
    """Return the names of the test functions of a file, none where there is no such file."""
    path = REPOSITORY / "tests" / f"{file}.py"
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    return name.startswith("test_") and name in functions(file)


def test_the_tables_are_read_whole() -> None:
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("|")]

    assert len(lines) == sum(len(table) + 1 for table in TABLES)
    assert all(len(row) == len(HEADINGS) for row in ROWS)
    assert len(ROWS) > 250


@pytest.mark.parametrize("key", ["U", "C", "S", "A", "D"])
def test_every_source_is_named_and_has_its_statements(key: str) -> None:
    sources = next({row[0]: row[1] for row in table[1:]} for table in TABLES if table[0] == ("key", "source"))
    sections = {row[1] for row in ROWS}

    assert sources.keys() == {section.partition(", ")[0] for section in sections}
    assert any(section.startswith(f"{key}, ") for section in sections)


def test_a_row_is_open_for_the_network_only() -> None:
    assert [row for row in ROWS if not row[3]] == []
    assert [row for row in DONE if row[2] in ("", OPEN) or row[3] == OPEN] == []
    assert [row for row in ROWS if row[3] == NETWORK and row[2] != OPEN] == []


def test_every_module_that_a_row_names_is_there() -> None:
    named = {module for row in DONE for module in row[2].split(", ")}

    assert {module for module in named if not (REPOSITORY / f"{module}.py").exists()} == set()


def test_every_test_that_a_row_names_is_there() -> None:
    named = {test for row in DONE for test in row[3].split()}

    assert {test for test in named if not is_there(test)} == set()


def test_what_is_different_says_why() -> None:
    for statement, *_ in ROWS:
        _, is_different, reason = statement.partition("*Different:*")
        assert not is_different or len(reason.split()) > 4, statement


def test_no_statement_stands_twice() -> None:
    statements = [(row[0], row[1]) for row in ROWS]

    assert len(set(statements)) == len(statements)


def test_every_room_of_the_kernel_is_named() -> None:
    """A room that no row names does something that nobody has told it to."""
    named = {module for row in DONE for module in row[2].split(", ")}
    source = (REPOSITORY / "broker" / "kernel" / "kernel.py").read_text(encoding="utf-8")
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module}
    rooms = {name.removeprefix("oms_journal.").replace(".", "/") for name in imported if ".broker." in name}

    assert len(rooms) > 20
    assert rooms - named == set()
