"""DURABILITY.md held against what it tells of: its tests are there, its tables are those of the programs."""

import ast
import re
from pathlib import Path

import pytest

from oms_journal.recovery.decision import TABLE
from tests.simulation.faults import FAULTS
from tests.simulation.worlds import REAL
from tests.support.project import REPOSITORY

TEXT = (REPOSITORY / "DURABILITY.md").read_text(encoding="utf-8")
UNFINISHED = re.compile(r"FIGURE|TO[D]O|\?\?")


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of the tables below a heading, without their heads."""
    part = TEXT.split(f"\n{heading}\n", 1)[1]
    part = re.split(r"\n#+ ", part, maxsplit=1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    rule = next(at for at, line in enumerate(lines) if set(line) <= set("|- "))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[rule + 1 :]]


FOUND = rows_of("## What was found")


@pytest.mark.parametrize("row", FOUND, ids=lambda row: re.sub(r"\W+", "-", row[0])[:60])
def test_what_was_found_has_its_test(row: list[str]) -> None:
    what, since, by, tests = row

    assert all((what, since, by))
    places = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", tests)
    assert places, tests
    for path, name in places:
        assert (REPOSITORY / path).is_file(), path
        if name:
            assert name in _functions(REPOSITORY / path), f"{path}::{name}"


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_fault_made_on_purpose_is_told_with_when_it_was_found() -> None:
    rows = rows_of("### Faults made on purpose")
    told = {row[0]: row for row in rows}

    assert sorted(row[0] for row in rows) == sorted(FAULTS)
    for name, fault in FAULTS.items():
        assert re.fullmatch(rf"\d+ of at most {fault.budget}", told[name][2]), name
        assert fault.text in told[name][1], name
    runs = [int(row[2].split()[0]) for row in rows]
    assert f"{len(rows)} faults, each found within {min(runs)} to {max(runs)} runs" in TEXT


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

    assert f"{points:,} distinct crash points" in TEXT.split("### What happens", maxsplit=1)[0]
    assert f"{broken:,} of {runs:,} runs broken" in TEXT.split("### What happens", maxsplit=1)[0]


def test_nothing_is_left_to_be_filled_in() -> None:
    assert not UNFINISHED.search(TEXT)


def test_every_command_it_names_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")

    for target in set(re.findall(r"`make ([\w-]+)", TEXT)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
