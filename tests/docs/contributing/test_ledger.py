"""The pages on durability held against what they tell of: the tests are there, the tables are those of the programs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from oms_journal.recovery.decision import TABLE, Action, Body, Head
from tests.recovery.crashes.test_table import written_rows
from tests.simulation.faults.all_faults import FAULTS
from tests.simulation.worlds import REAL
from tests.support.project import REPOSITORY
from tests.support.sweeps import for_each

DOCS = REPOSITORY / "docs"
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in (
    "contributing/ledger.md", "contributing/testing.md", "explanation/guarantees.md", "explanation/recovery.md",
)}  # fmt: skip
TEXT = PAGES["contributing/ledger.md"]
RECOVERY = PAGES["explanation/recovery.md"]
UNFINISHED = re.compile(r"FIGURE|TO[D]O|\?\?")


def rows_of(heading: str, text: str = TEXT) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    part = text.split(f"\n{heading}\n", 1)[1]
    part = re.split(r"\n#+ ", part, maxsplit=1)[0]
    return cells_of(part[part.index("\n|") + 1 :].split("\n\n", 1)[0])


def cells_of(table: str) -> list[list[str]]:
    """Return the cells of a table, without its head and its rule."""
    lines = table.splitlines()
    assert set(lines[1]) <= set("|- "), lines[1]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


FOUND = rows_of("## What was found")
ATTACKED = TEXT.split("\n## How it was attacked\n", 1)[1].split("\n## ", 1)[0]


@for_each(("what", "since", "by", "tests"), FOUND)
def test_what_was_found_has_its_test(what: str, since: str, by: str, tests: str) -> None:
    assert all((what, since, by))
    places = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", tests)
    assert places, tests
    for path, name in places:
        assert (REPOSITORY / path).is_file(), path
        if name:
            assert name in _functions(REPOSITORY / path), f"{path}::{name}"


@cache
def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_fault_made_on_purpose_is_told_with_when_it_was_found() -> None:
    rows = rows_of("## Faults made on purpose")
    told = {row[0]: row for row in rows}

    assert sorted(row[0] for row in rows) == sorted(FAULTS)
    runs = []
    for name, fault in FAULTS.items():
        assert fault.text in told[name][1], name
        if found := re.fullmatch(rf"(\d+) of at most {fault.budget}", told[name][2]):
            runs.append(int(found[1]))
            continue
        elsewhere = re.fullmatch(r"not in [\d,]+: `(tests/[\w/]+\.py)` finds it", told[name][2])
        assert elsewhere and (REPOSITORY / elsewhere[1]).is_file(), name
    assert f"{len(rows)} faults, {len(runs)} of them found within {min(runs)} to {max(runs)} runs" in TEXT


def played(world: str) -> str:
    """Return what is told of a world's last campaign."""
    return TEXT.split(f"<!-- simulate {world}:begin -->", 1)[1].split(f"<!-- simulate {world}:end -->", 1)[0]


def figure(told: str, what: str) -> int:
    (found,) = re.findall(rf"([\d,]+) {what}", told)
    return int(found.replace(",", ""))


def test_every_branch_of_recovery_is_told_with_how_often_it_was_met() -> None:
    for row in TABLE:
        (line,) = re.findall(rf"^\| {re.escape(row.decision.row)} +\| (.*)$", played("engine"), re.MULTILINE)
        assert re.match(r"[\d,]+ ", line), f"{row.decision.row}: never met"


def test_the_last_campaigns_crash_points_and_broken_runs_are_those_of_the_worlds() -> None:
    told = [played(name) for name in REAL]
    points, broken, runs = (sum(figure(each, what) for each in told) for what in (r"distinct crash", "broken", "runs"))

    assert f"{points:,} distinct crash points" in ATTACKED
    assert f"{broken:,} of {runs:,} runs broken" in ATTACKED


def test_the_page_on_recovery_has_the_decision_table() -> None:
    actions = {action: action.name.lower() for action in Action}

    told = [tuple(row) for row in rows_of("## The decision table", RECOVERY)]

    assert told == [(*seen, verdict.value, actions[action]) for *seen, verdict, action in written_rows()]


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ("| action | what oms does |", [action.name.lower() for action in Action]),
        ("| header | means |", [head.value for head in Head]),
        ("| body | means |", [body.value for body in Body]),
    ],
)
def test_the_page_on_recovery_explains_every_word_of_the_table(heads: str, words: list[str]) -> None:
    rows = cells_of(heads + RECOVERY.split(heads, 1)[1].split("\n\n", 1)[0])

    assert [row[0] for row in rows] == words
    assert all(row[1].endswith(".") for row in rows)


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_left_to_be_filled_in(page: str) -> None:
    assert not UNFINISHED.search(PAGES[page])


@pytest.mark.parametrize("page", PAGES)
def test_every_command_it_names_is_there(page: str) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")

    for target in set(re.findall(r"make ([\w-]+)", " ".join(re.findall(r"`make [^`]*|^make .*", PAGES[page], re.M)))):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
