"""Whatever is wrong is refused with words for people: the argument, what was expected, and what came."""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli_runner import command_line, environment, invoked
from tests.support.disks.small_files import open_small
from tests.support.sweeps import a_sample, sampled
from tests.support.wrong_inputs import CALLS, COMMANDS, Call, Command, faults_of

PLACES = ("none", "empty", "file", "binary", "other", "spool", "out")
BEGIN = ("send", "load")  # commands that begin a database where there is none


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the paths that a row may name; the working directory is another one."""
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    for name in ("OMS_BROKER", "OMS_USER", "OMS_PASSWORD", "ETB_ATTR"):
        monkeypatch.delenv(name, raising=False)
    found = {name: tmp_path / name for name in PLACES}
    found["empty"].mkdir()
    found["other"].mkdir()
    (found["other"] / "notes.txt").write_text("not ours")
    found["file"].write_text("one,two\nthree\nfour five six\n")
    found["binary"].write_bytes(b"\xff\xfe\x00\x80")
    return {name: str(path) for name, path in found.items()}


@a_sample(20)
@pytest.mark.parametrize("row", COMMANDS, ids=str)
def test_a_wrong_command_line_is_refused_in_words_for_people(row: Command, places: dict[str, str]) -> None:
    if any("{spool}" in word for word in row.line):
        with open_small(Path(places["spool"])):
            pass
    before = _below(places)
    words = [word.format(**places) for word in row.line]

    elsewhere = {"SPOOL_DIRECTORY": places["spool"]} if row.line[0] in BEGIN else {}  # than this machine's own one
    result = invoked(*words, stdin=row.stdin, variables={"COLUMNS": "80", **elsewhere, **row.variables})

    named = tuple(text.format(**places) for text in row.named)
    assert result.exit_code == row.code, f"{result.stdout}\n{result.stderr}"
    assert result.stdout == ""
    assert all(line.startswith("oms: ") for line in result.stderr.splitlines()), result.stderr
    assert faults_of(result.stderr, named) == [], result.stderr
    assert _below(places) == before, "what is refused has changed nothing"


def _below(places: dict[str, str]) -> set[Path]:
    """Return every path that there is, but for those of a database, which an opening may change."""
    above = Path(places["none"]).parent
    return {path for path in above.rglob("*") if not path.is_relative_to(above / "spool")}


@a_sample(24)
@pytest.mark.parametrize("row", CALLS, ids=str)
def test_a_wrong_call_is_refused_in_words_for_people(row: Call, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        with pytest.raises(row.raises) as refused:
            row.call(db, tmp_path / "more")

        assert faults_of(str(refused.value), row.named) == [], str(refused.value)
        assert db.add("q", b"goes on") == 1
        assert db.undelivered_count() == 1


def test_the_table_has_a_row_for_every_command() -> None:
    from oms_journal.cli.main import app

    described = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    groups = {group.name for group in app.registered_groups}
    assert described | groups - {None} <= {word for row in COMMANDS for word in row.line[:1]} | {"oms"}
    assert len(COMMANDS) + len(CALLS) >= 80


@a_sample(2)
@pytest.mark.parametrize("line", ["list", "stats --json", "--help", "send q text", "receive q"])
def test_an_output_that_is_closed_is_refused_before_anything_is_done(line: str, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        db.add("q", b"waits")

    result = _shell(f"exec {shlex.join(command_line(*line.split()))} >&-", tmp_path)

    assert result.returncode == 2
    assert faults_of(result.stderr, ("standard output", "closed")) == []
    with open_small(tmp_path / "spool") as db:
        assert [message.payload for message in db.undelivered("q")] == [b"waits"]


FULL = ["list", "list q", "stats", "stats --json", "verify", "dump", "explain"]


@pytest.mark.whole
@pytest.mark.parametrize("line", sampled(FULL, 3, kind=lambda line: line.endswith("--json")))
def test_an_output_that_is_full_is_told(line: str, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        db.add("q", b"x")

    result = _shell(f"exec {shlex.join(command_line(*line.split()))} > /dev/full", tmp_path)

    assert result.returncode == 4
    assert faults_of(result.stderr, ("output", "No space left")) == []


@pytest.mark.whole
def test_an_output_whose_reader_has_gone_ends_the_command_without_a_word(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        db.add_many("q", [bytes(500)] * 400)

    result = _shell(
        f"{shlex.join(command_line('list', 'q', '--limit', '0'))} | true; exit ${{PIPESTATUS[0]}}", tmp_path
    )

    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.whole
@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_command_does_without_what_was_closed_at_its_start(closed: str, tmp_path: Path) -> None:
    sent = _shell(f"exec {shlex.join(command_line('send', 'q', 'text'))} {closed}", tmp_path)
    empty = _shell(f"exec {shlex.join(command_line('send', 'q'))} {closed}", tmp_path)

    assert (sent.returncode, sent.stdout) == (0, "1\n")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr == "" or faults_of(empty.stderr, ("standard input", "--empty")) == []


@a_sample(1)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["show", b"\xff"], 2),
        (["verify", "--spool", b"/none/\xff"], 2),
        (["dump", b"/none/\xff"], 2),
        (["load", b"/none/\xff", "-q", "q"], 2),
        (["attributes", b"/none/\xff"], 2),
        (["send", b"q\xff", "text"], 2),
        (["recover", "--policy", b"\xff"], 2),
        (["send", "q", "text", "--property", b"\xff"], 2),
        ([b"\xff"], 2),
    ],
)
def test_what_is_not_utf_8_is_told_in_characters_that_can_be_shown(
    line: list[str | bytes], code: int, tmp_path: Path
) -> None:
    words = [*map(os.fsencode, command_line()), *map(os.fsencode, line)]
    result = subprocess.run(
        words,
        env=environment(tmp_path / "spool"),
        capture_output=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert (result.returncode, result.stdout) == (code, b"")
    assert faults_of(result.stderr.decode(), ("\\udcff",)) == []


@pytest.mark.whole
def test_ctrl_c_is_one_word(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool"):
        pass
    with subprocess.Popen(
        command_line("receive", "q", "--follow"), env=environment(tmp_path / "spool"), stderr=subprocess.PIPE, text=True
    ) as process:
        before = (tmp_path / "spool" / "omsmsg.lock").read_bytes()
        while (tmp_path / "spool" / "omsmsg.lock").read_bytes() == before and process.poll() is None:
            time.sleep(0.01)  # until it is at work
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    # A program that hears it while it runs the text of an exec() ends by the signal; a shell shows 130 of both.
    assert process.returncode in (130, -signal.SIGINT)
    assert said == "oms: interrupted\n"


def _shell(line: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", line],
        env=environment(directory / "spool"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
