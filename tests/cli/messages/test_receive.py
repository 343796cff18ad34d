"""`oms receive`: in order, printed before delivered, waiting, and readers that go away."""

import base64
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.cli_runner import command_line, environment, oms, oms_json, oms_lines
from tests.support.disks.small_files import MODEST
from tests.support.warm_starts import Process


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size=MODEST) as db:
        db.add_many("q", [b"one", b"two", b"three"])
        db.add("other", b"four")
    return tmp_path / "spool"


def waiting(spool: Path) -> int:
    count: int = oms_json("stats", spool=spool)["undelivered"]
    return count


def test_one_message_is_received_at_a_time_in_order(spool: Path) -> None:
    assert [oms("receive", "q", spool=spool).stdout for _ in range(3)] == ["one\n", "two\n", "three\n"]
    assert oms("receive", "q", spool=spool, code=1).stdout == ""
    assert waiting(spool) == 1


@pytest.mark.parametrize("batch", ["1", "2", "100"])
def test_as_many_as_asked_for_are_received(spool: Path, batch: str) -> None:
    assert oms("receive", "q", "--count", "2", "--batch", batch, spool=spool).stdout == "one\ntwo\n"
    assert oms("receive", "q", "--count", "9", "--batch", batch, spool=spool).stdout == "three\n"


def test_raw_prints_the_bytes_and_nothing_else(spool: Path) -> None:
    payload = bytes(range(256))
    oms("send", "binary", spool=spool, stdin=payload)

    assert oms("receive", "binary", "--raw", spool=spool).stdout_bytes == payload


def test_json_has_all_that_is_known_of_a_message(spool: Path) -> None:
    first, second = oms_lines("receive", "q", "--count", "2", spool=spool)

    assert set(first) == {
        "number", "queue", "added_at", "producer_id", "properties", "length", "sequence", "offset", "payload"
    }  # fmt: skip
    assert base64.b64decode(first["payload"]) == b"one"
    assert second["number"] == first["number"] + 1


def test_a_peek_delivers_nothing_and_needs_no_lock(spool: Path) -> None:
    with MessageDatabase.open(spool):
        assert oms("receive", "q", "--peek", "--count", "2", spool=spool).stdout == "one\ntwo\n"
    assert waiting(spool) == 4
    oms("receive", "none", "--peek", spool=spool, code=1)


def test_a_locked_database_is_told_apart(spool: Path) -> None:
    with MessageDatabase.open(spool):
        result = oms("receive", "q", spool=spool, code=3)

        assert f"in use by process {os.getpid()}" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert json.loads(oms("receive", "q", "--json", spool=spool, code=3).stderr)["error"] == "DatabaseLocked"
        assert "`oms cmd CLEANUP` asks a running `oms serve` for it" in oms("cleanup", spool=spool, code=3).stderr
        for command in (["send", "q", "x"], ["delete", "1", "--yes"], ["cleanup"], ["recover"]):
            oms(*command, spool=spool, code=3)


@pytest.mark.whole
def test_a_command_can_wait_for_the_lock(spool: Path) -> None:
    with MessageDatabase.open(spool):
        process = started(spool, "receive", "q", "--wait", "30")
        time.sleep(1)
    output, errors = process.communicate(timeout=30)

    assert (output, errors, process.returncode) == (b"one\n", b"", 0)


def started(spool: Path, *arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    return Process(
        command_line(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(spool),
    )


def test_waiting_ends_when_nothing_came_for_so_long(spool: Path) -> None:
    assert oms("receive", "q", "--timeout", "0.3", spool=spool).stdout == "one\ntwo\nthree\n"
    assert oms("receive", "q", "--timeout", "0.3", spool=spool, code=1).stdout == ""


@pytest.mark.whole
def test_a_follower_gets_what_others_send_meanwhile(spool: Path) -> None:
    follower = started(spool, "receive", "q", "--follow", "--count", "5")
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(3)] == [b"one\n", b"two\n", b"three\n"]

    oms("send", "q", "four", "--wait", "10", spool=spool)
    assert follower.stdout.readline() == b"four\n"
    oms("send", "q", "five", "--wait", "10", spool=spool)
    output, errors = follower.communicate(timeout=30)

    assert (output, follower.returncode) == (b"five\n", 0)
    assert all(b"waiting for it" in line for line in errors.splitlines()), "others may have the lock for a moment"
    assert waiting(spool) == 1


@pytest.mark.whole
def test_a_follower_waits_for_a_process_that_has_the_lock(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        follower = started(spool, "receive", "new", "--follow", "--count", "1")
        db.add("new", b"hello")
        assert follower.stderr is not None
        told = follower.stderr.readline()
    output, errors = follower.communicate(timeout=30)

    assert output == b"hello\n"
    assert b"waiting for it" in told
    assert errors == b""


@pytest.mark.whole
def test_ctrl_c_ends_a_follower_with_one_line(spool: Path) -> None:
    follower = started(spool, "receive", "q", "--follow")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=30)

    assert follower.returncode == 130
    assert errors == b"oms: interrupted\n"


@pytest.mark.whole
@pytest.mark.parametrize("arguments", [["receive", "many", "--count", "50000", "--batch", "100"], ["dump", "--json"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(spool: Path, arguments: list[str]) -> None:
    with MessageDatabase.open(spool) as db:
        db.add_many("many", [b"x" * 100] * 50_000)
    process = started(spool, *arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141
    process.stderr.close()


def test_what_could_not_be_printed_is_not_delivered(spool: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    process = started(spool, "receive", "q", "--count", "3", stdout=writing)
    os.close(writing)
    process.communicate(timeout=30)

    assert process.returncode == 141
    assert waiting(spool) == 4
