"""The runner of the simulation: it finds a toy's known bug, makes it short, and comes to an end whatever happens."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.commands import Settings, play_file, simulate
from tests.simulation.coverage import ROWS, gaps, tables, write_section
from tests.simulation.playing import play_script, play_seed
from tests.simulation.scripts import NotAScript, parsed, text_of, world_of
from tests.simulation.shrinking import shrink
from tests.simulation.toy import Add, PowerCut, Sync, ToyWorld
from tests.simulation.world import PromiseBroken, Script, Seen
from tests.simulation.worlds import WORLDS
from tests.support.project import REPOSITORY
from tests.support.sweeps import a_sample

TOY_NAMES = ("toy", "toy-forgets")
FORGETS = ToyWorld("forgets")


def _settings(world: str, out: io.StringIO, folder: Path, **named: object) -> Settings:
    return Settings(out=out, worlds=[WORLDS[world]], processes=2, failures=folder, **named)  # type: ignore[arg-type]


def _failing_seed() -> int:
    return next(seed for seed in range(1000) if play_seed(FORGETS, seed).failure is not None)


def test_a_failing_seed_is_found_told_shrunk_and_its_script_fails_again(tmp_path: Path) -> None:
    out = io.StringIO()

    status = simulate(_settings("toy-forgets", out, tmp_path), range(60))

    said = out.getvalue()
    assert status == 1
    seed = int(re.findall(r"--world toy-forgets --replay (\d+)", said)[0])
    assert f"toy-forgets, seed {seed}: what was synced is there\n" in said
    assert re.search(r"\d+ was found, \d+ was promised", said)
    assert "5 steps are enough" in said
    file = tmp_path / f"toy-forgets-{seed}.script"
    assert f"--script {file}" in said
    failed = int(re.findall(r"; (\d+) failed", said)[-1])
    others = re.findall(r"^toy-forgets, seed (\d+), too: what was synced is there$", said, re.MULTILINE)
    assert failed > 1 and len({*others, str(seed)}) == failed
    again = io.StringIO()
    assert play_file(_settings("toy", again, tmp_path), file, None) == 1
    assert "what was synced is there" in again.getvalue()
    assert main(["--world", "toy-forgets", "--replay", str(seed)]) == 1


def test_a_shrunk_script_has_nothing_that_can_go() -> None:
    script = FORGETS.script(_failing_seed())
    failure = play_script(FORGETS, script).failure
    assert failure is not None

    shrunk = shrink(FORGETS, script, failure.kind, seconds=20, clock=time.monotonic)

    assert shrunk.is_minimal
    assert [type(step) for step in shrunk.script] == [Add, Add, Add, Sync, PowerCut]
    for left_out in range(len(shrunk.script)):
        shorter = [step for place, step in enumerate(shrunk.script) if place != left_out]
        assert play_script(FORGETS, shorter).failure is None
    assert sorted(step.amount for step in shrunk.script if isinstance(step, Add)) == [0, 0, 1]


def test_what_fails_without_a_step_is_shrunk_to_none() -> None:
    class Broken(ToyWorld):
        def play(self, script: Script, seen: Seen) -> None:
            raise PromiseBroken("there is a world")

    shrunk = shrink(Broken(), FORGETS.script(1), "there is a world", seconds=20, clock=time.monotonic)

    assert shrunk.script == () and shrunk.is_minimal


def test_shrinking_ends_when_the_time_is_over_with_the_shortest_so_far() -> None:
    script = FORGETS.script(_failing_seed())
    failure = play_script(FORGETS, script).failure
    assert failure is not None
    ticks = iter(range(1000))

    shrunk = shrink(FORGETS, script, failure.kind, seconds=12, clock=lambda: float(next(ticks)))

    assert not shrunk.is_minimal
    assert shrunk.plays < 12
    assert 5 <= len(shrunk.script) <= len(script)
    assert play_script(FORGETS, shrunk.script).failure is not None


def test_an_exception_that_comes_out_is_a_failure_and_shrunk(tmp_path: Path) -> None:
    out = io.StringIO()

    assert simulate(_settings("toy-raises", out, tmp_path), range(40)) == 1

    assert "no ZeroDivisionError leaves tests.simulation.toy.ToyWorld._break" in out.getvalue()
    assert "4 steps are enough" in out.getvalue()


@a_sample(1)
@pytest.mark.parametrize(("world", "found"), [("toy-hangs", "longer than 0.5 s"), ("toy-dies", "ended with status 3")])
def test_a_run_that_does_not_end_is_a_failure_and_the_others_go_on(world: str, found: str, tmp_path: Path) -> None:
    out = io.StringIO()

    assert simulate(_settings(world, out, tmp_path, seconds=0.5), range(12)) == 1

    assert "a run comes to its end" in out.getvalue()
    assert found in out.getvalue()
    assert "12 of 12 runs" in out.getvalue()


def test_what_breaks_nothing_ends_with_status_0_and_says_what_was_met(tmp_path: Path) -> None:
    out, table = io.StringIO(), tmp_path / "table.md"

    assert simulate(_settings("toy", out, tmp_path, table=table), range(30)) == 0

    assert re.search(r"30 of 30 runs .* disk changes, \d+ distinct crash points; 0 failed", out.getvalue())
    assert "never met: missing," in out.getvalue()
    assert re.search(r"\| power cut \| commit +\| +\d+ +\| torn \d+ \|", table.read_text())
    assert simulate(_settings("toy", out, tmp_path, gaps_fail=True), range(3)) == 1


def test_a_campaign_is_written_between_its_worlds_markers_and_nowhere_else(tmp_path: Path) -> None:
    document = tmp_path / "ledger.md"
    of = {name: f"<!-- simulate {name}:begin -->\nan older one\n<!-- simulate {name}:end -->\n" for name in TOY_NAMES}
    document.write_text("before\n" + "between\n".join(of.values()) + "after\n")

    assert simulate(_settings("toy", io.StringIO(), tmp_path, ledger=document), range(30)) == 0
    first = document.read_text()
    assert simulate(_settings("toy-forgets", io.StringIO(), tmp_path, ledger=document), range(60)) == 1
    second = document.read_text()

    assert first.startswith('before\n<!-- simulate toy:begin -->\nWorld "toy": 30 runs, ')
    assert first.endswith(f"|\n<!-- simulate toy:end -->\nbetween\n{of['toy-forgets']}after\n")
    assert re.search(r"^World .* distinct crash points, 0 broken, ", first, re.MULTILINE)
    assert re.search(r"^\| torn \| \d+ \| power cut \d+ \| commit \d+ \|$", first, re.MULTILINE)
    assert second.startswith(first.split("between\n", maxsplit=1)[0])
    assert re.search(r"distinct crash points, [1-9]\d* broken, ", second)
    document.write_text("no markers")
    with pytest.raises(ValueError, match="has no"):
        write_section(document, "toy", ["x"])


@pytest.mark.whole
def test_an_interrupt_ends_the_campaign_and_still_says_what_was_met() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--world", "toy", "--seeds", "1000000"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "of 1,000,000 runs" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
        said = process.stdout.read()
        complaints = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted" in said
    assert "| power cut" in said
    assert complaints == ""


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--world", "none"], ["--script", "no such file"]])
def test_wrong_arguments_end_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status == 2
    assert capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize("name", WORLDS)
def test_a_script_is_read_back_as_it_was_written(name: str) -> None:
    world = WORLDS[name]
    for seed in range(20):
        script = world.script(seed)
        text = text_of(world, script, [f"seed {seed}\nof two lines"])

        assert world_of(text) == name
        assert list(parsed(world, text)) == list(script)


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').system('true')",
        "print(1)",
        "Add(print(1))",
        "Add(amount=__name__)",
        "Add(**{'amount': 1})",
        "Add(1, 2)",
        "Add(1); Add(2)",
        "ToyWorld()",
        "1",
        "Add(",
    ],
)
def test_a_script_runs_nothing_but_steps(line: str) -> None:
    with pytest.raises(NotAScript, match="line 2"):
        parsed(FORGETS, f"# world: toy-forgets\n{line}\n")


def test_the_table_names_every_branch_that_was_met_and_every_gap() -> None:
    seen = Seen()
    for number, row in enumerate(ROWS[1:]):
        seen.met[f"fault {number}", "commit", row] += number + 1

    lines = "\n".join(tables(seen))

    assert gaps(seen) == [ROWS[0]]
    assert all(re.search(rf"\| fault {number} +\| commit +\| {number + 1} ", lines) for number in range(len(ROWS) - 1))
    assert re.search(rf"\| {ROWS[0]} +\| never ", lines)
