"""What a person sees on a terminal: tables that fit, a progress bar, nothing that moves the cursor."""

import io
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.cli import progress
from oms_journal.cli.progress import ProgressBar
from tests.support.cli_runner import command_line, environment


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with MessageDatabase.open(tmp_path / "spool") as db:
        db.add_many("orders", [b'{"note": "' + b"x" * 200 + b'"}'] * 5)
        db.add("a.queue.with.a.name." + "much.too.long." * 10, b"x")
        db.add("evil", b"a\x1b]0;title\x07\x1b[31m" + b"text " * 20)
    return tmp_path / "spool"


def on_terminal(spool: Path, *arguments: str, columns: int = 80) -> str:
    """Return what the command prints when its output is a terminal."""
    person, program = os.openpty()
    variables = environment(spool) | {"COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        command_line(*arguments), stdin=program, stdout=program, stderr=program, env=variables
    ) as process:
        os.close(program)
        printed = b"".join(_read_until_closed(person))
        process.wait(timeout=30)
    os.close(person)
    return printed.decode()


def _read_until_closed(descriptor: int) -> Iterator[bytes]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                data = os.read(descriptor, 1 << 16)
            except OSError:  # the last writer has closed the terminal
                return
            if not data:
                return
            yield data
    raise AssertionError("the command did not end")


@pytest.mark.whole
@pytest.mark.parametrize("arguments", [["list"], ["list", "orders"], ["stats"], ["explain"], ["verify"]], ids=" ".join)
def test_a_table_fits_eighty_columns_and_cuts_no_number(spool: Path, arguments: list[str]) -> None:
    text = on_terminal(spool, *arguments)

    lines = [_without_styles(line) for line in text.splitlines() if "spool" not in line]
    assert max(map(len, lines)) <= 80
    if arguments == ["list", "orders"]:
        assert all(line.split()[0].isdigit() for line in lines[2:])
        assert all("…" in line for line in lines[2:])


def _without_styles(text: str) -> str:
    return text.replace("\x1b[1m", "").replace("\x1b[0m", "")


@pytest.mark.whole
def test_a_payload_cannot_command_the_terminal(spool: Path) -> None:
    text = on_terminal(spool, "receive", "evil")

    assert "a\\x1b]0;title\\x07\\x1b[31mtext text" in text
    assert "\x1b" not in text


@pytest.mark.whole
def test_an_empty_queue_is_told_to_a_person(spool: Path) -> None:
    assert on_terminal(spool, "receive", "none").strip() == "oms: nothing in queue none"


def test_a_progress_bar_appears_when_it_takes_longer_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")

    with ProgressBar() as bar:
        bar("validate", 0, 100)
        bar("validate", 50, 100)
        bar("replay [bold]", 1, 0, detail="3 messages")

    shown = terminal.getvalue()
    assert "validate" in shown
    assert "replay [bold] 3 messages" in shown
    assert shown.rstrip("\r\n").endswith("\x1b[2K")


def test_a_moment_needs_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with ProgressBar() as bar:
        bar("validate", 1, 100)

    assert terminal.getvalue() == ""


def test_a_log_file_gets_no_progress_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)

    with ProgressBar() as bar:
        bar("validate", 1, 100)

    assert capsys.readouterr().err == ""


def test_threads_may_tell_one_bar_of_different_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C says what it waits for while another thread still tells how far it is."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar(is_long=True) as bar, ThreadPoolExecutor(4) as pool:
        told = [pool.submit(bar, stage, place, 1000) for place in range(300) for stage in ("ask", "stop")]
    assert [call.result() for call in told] == [None] * 600
