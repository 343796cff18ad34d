"""`oms queue serve`: real processes that add, are killed, and begin again; nothing acknowledged is lost or doubled."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, NotServed, QueueClient, connect_queue
from oms_journal.database.door.address import listening
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.sweeps import split
from tests.support.warm_starts import Process

PRODUCERS, MESSAGES = 4, 150
# A producer: each message until it is acknowledged, with its identifier, and a line for each.
PRODUCER = textwrap.dedent("""
    import sys, time
    from oms_journal import NotServed, OutcomeUnknown, connect_queue

    path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    db = connect_queue(path, wait=60)
    for place in range(count):
        name = f"{who}-{place}"
        while True:
            try:
                print(name, db.add("orders", name.encode(), producer_id=name), flush=True)
                break
            except (NotServed, OutcomeUnknown):
                time.sleep(0.01)
""")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@contextmanager
def serving(spool: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command in a process, from the moment that it serves; kill it at the end if it is still there."""
    process = Process(
        command_line("queue", "serve", str(spool), *options),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline(), process.stderr.read()
            yield process
        finally:
            process.kill()


def producing(path: Path, who: str, count: int = MESSAGES) -> "subprocess.Popen[str]":
    return Process(
        [sys.executable, "-c", PRODUCER, str(path), who, str(count)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def payloads(spool: Path) -> dict[int, str]:
    with MessageDatabase.open(spool) as db:
        return {message.number: message.payload.decode() for message in db.undelivered("orders")}


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.whole
def test_four_producers_one_killed_and_a_server_killed_lose_nothing_and_double_nothing(spool: Path) -> None:
    path = spool / "queue.sock"
    with ExitStack() as stack:
        with serving(spool) as first:
            producers = [stack.enter_context(producing(path, f"p{number}")) for number in range(PRODUCERS)]
            heard = [producer.stdout.readline() for producer in producers if producer.stdout is not None]
            assert all(heard)
            producers[0].kill()
            first.kill()
            first.wait()
        with serving(spool) as second:
            again = stack.enter_context(producing(path, "p0"))  # the same identifiers, from the beginning
            everything = [
                "".join((line, process.communicate()[0])) for line, process in zip(heard, producers, strict=True)
            ]
            everything.append(again.communicate()[0])
            assert [process.returncode for process in [*producers[1:], again]] == [0] * PRODUCERS
            second.terminate()
            assert second.wait() == 0

    acknowledged = dict(line.split() for text in everything for line in text.splitlines() if len(line.split()) == 2)
    found = payloads(spool)
    assert Counter(found.values()) == Counter(
        f"p{who}-{place}" for who in range(PRODUCERS) for place in range(MESSAGES)
    )
    assert {name: found[int(number)] for name, number in acknowledged.items()} == {name: name for name in acknowledged}


@pytest.mark.parametrize("number", split([signal.SIGTERM], [signal.SIGINT, signal.SIGHUP]), ids=lambda one: one.name)
def test_a_signal_ends_it_cleanly_while_others_add(number: signal.Signals, spool: Path) -> None:
    with serving(spool) as server, producing(spool / "queue.sock", "p", 100_000) as producer:
        assert producer.stdout is not None
        assert producer.stdout.readline()
        server.send_signal(number)
        assert server.wait() == 0
        assert server.stderr is not None
        assert server.stderr.read() == ""
        assert not (spool / "queue.sock").exists()
        producer.kill()
        told = [line.split() for line in producer.stdout.read().splitlines()]

    found = payloads(spool)
    assert all(found[int(number)] == name for name, number in (each for each in told if len(each) == 2))


def test_behind_nohup_it_serves_on_when_the_terminal_is_closed(spool: Path) -> None:
    words = ["nohup", *command_line("queue", "serve", str(spool))]
    with subprocess.Popen(
        words, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("serving ")
            server.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0.3)
            with connect_queue(spool / "queue.sock") as db:
                assert db.add("orders", b"x") == 1
            server.terminate()
            assert server.wait(TIMEOUT_SECONDS) == 0
        finally:
            server.kill()


@pytest.mark.whole
def test_it_says_where_it_serves(spool: Path, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.sock"
    with serving(spool, "--socket", str(path)) as server:
        with connect_queue(path) as db:
            assert db.add("orders", b"x") == 1
        server.terminate()
        assert server.wait() == 0


@pytest.mark.whole
def test_programs_are_told_in_json(spool: Path) -> None:
    process = Process(
        command_line("queue", "serve", "--json"), env=environment(spool), stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"serving": str(spool / "queue.sock")}
        process.terminate()
        assert process.wait() == 0


@pytest.mark.whole
def test_systemd_is_told_that_it_is_ready_and_that_it_stops(spool: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT_SECONDS)
        process = Process(
            command_line("queue", "serve", str(spool)),
            env={**environment(), "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.PIPE,
        )
        with process:
            assert b"READY=1" in manager.recv(1000)
            process.terminate()
            assert b"STOPPING=1" in manager.recv(1000)


def test_a_spool_that_another_process_has_is_refused(spool: Path) -> None:
    with MessageDatabase.open(spool):
        told = oms("queue", "serve", str(spool), code=3).stderr

    assert "is in use by process" in told


def test_a_socket_that_another_process_serves_is_refused(spool: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    listener, _ = listening(path)
    with listener:
        told = oms("queue", "serve", str(spool), "--socket", str(path), code=4).stderr

    assert "another process serves it" in told


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["serve"], 2, "SPOOL"),
        (["serve", "{file}"], 2, "not a directory"),
        (["serve", "{spool}", "--socket", "/" + "x" * 120], 2, "at most"),
        (["serve", "{spool}", "--socket", ""], 2, "--socket"),
        (["serve", "{spool}", "--socket", "{file}"], 4, "not a socket"),
        (["serve", "{spool}", "--socket", "{file}.d/q.sock"], 4, "no directory"),
        (["serve", "{spool}", "--max-message-size", "many"], 2, "--max-message-size"),
        (["serve", "{other}"], 2, "--create"),
        (["take"], 2, "take"),
    ],
    ids=lambda one: " ".join(one)[:40] if isinstance(one, list) else None,
)
def test_a_wrong_call_is_refused_and_leaves_no_socket(words: list[str], code: int, named: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not ours")
    places = {name: tmp_path / name for name in ("file", "spool", "other")}

    told = oms("queue", *(word.format(**places) for word in words), code=code).stderr

    assert named in told
    assert not list(tmp_path.rglob("*.sock"))
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.whole
def test_a_server_whose_directory_is_taken_away_ends_and_says_so(spool: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    with serving(spool, "--socket", str(path)) as server, connect_queue(path) as db:
        db.add("orders", b"x")
        spool.rename(tmp_path / "moved")
        with pytest.raises(Exception, match=r"."):
            for _ in range(1000):
                db.add("orders", b"x")
        assert server.wait() == 4
        assert server.stderr is not None
        assert "oms: " in server.stderr.read()
        with pytest.raises(NotServed):
            db.add("orders", b"x")


@pytest.mark.whole
def test_a_client_that_is_stopped_disturbs_no_other(spool: Path) -> None:
    path = spool / "queue.sock"
    with serving(spool), producing(path, "p", 100_000) as producer, connect_queue(path) as db:
        assert producer.stdout is not None
        assert producer.stdout.readline()
        os.kill(producer.pid, signal.SIGSTOP)
        try:
            assert len({db.add("orders", b"x") for _ in range(20)}) == 20
        finally:
            producer.kill()


@pytest.mark.whole
def test_what_was_collected_is_received_afterwards(spool: Path) -> None:
    with serving(spool) as server:
        with connect_queue(spool / "queue.sock") as db:
            assert isinstance(db, QueueClient)
            db.add_many("orders", [b"one", b"two"])
        server.terminate()
        server.wait()

    assert oms("receive", "orders", spool=spool).stdout == "one\n"
    assert oms_json("stats", spool=spool)["undelivered"] == 1
