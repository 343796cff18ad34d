"""`oms info`, `oms cmd` and `oms top` against a running server: tables, JSON, questions, terminals, and no server."""

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from typer.testing import Result

from oms_journal.cli.broker.operator import said_of
from oms_journal.cli.broker.top import Sample, rate_text, view
from tests.support.cli_runner import command_line, environment, oms
from tests.support.servers.guarded_server import PASSWORDS, Files, user
from tests.support.servers.stomp_server import Serving, Wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served") / "store") as found:
        yield found


def url(server: Serving) -> str:
    return f"http://127.0.0.1:{server.http_port}"


def ask(server: Serving, *words: str, code: int = 0) -> str:
    return oms(*words, "--broker", url(server), code=code).stdout


def ask_json(server: Serving, *words: str, code: int = 0) -> dict[str, Any]:
    return dict(json.loads(ask(server, *words, "--json", code=code)))


@pytest.fixture
def queue(server: Serving, request: pytest.FixtureRequest) -> str:
    """Return the name of a queue in which three units of work wait."""
    name = f"Q{crc32(request.node.name.encode())}"
    client = Wire(server.port)
    for at in range(3):
        client.say("SEND", f"message {at}".encode(), destination=f"/queue/{name}", receipt=str(at))
        assert client.hear().command == "RECEIPT"
    client.close()
    return name


def test_a_table_shows_what_is_picked(server: Serving, queue: str) -> None:
    text = ask(server, "info", "psf", f"queue={queue}")

    lines = text.splitlines()
    assert lines[0].split()[:4] == ["uowid", "conv", "id", "status"]
    assert sum("ACCEPTED" in line and f"QUEUE/{queue}/-" in line for line in lines) == 3


def test_json_is_the_servers_own_answer(server: Serving, queue: str) -> None:
    found = ask_json(server, "info", "PSF", f"server_name={queue}", "--limit", "2")

    assert (found["object"], found["count"], found["code"]) == ("PSF", 2, 0)
    assert found["next"] is not None
    everything = ask_json(server, "info", "PSF", f"server_name={queue}", "--all")
    assert everything["count"] == 3
    assert "the first 2; --all shows the rest" in ask(server, "info", "PSF", f"server_name={queue}", "-l", "2")


def test_every_object_is_shown_and_there_is_a_list_of_them(server: Serving, queue: str) -> None:
    listed = ask(server, "info")
    for name in ("BROKER", "SERVICE", "STATISTICS", "LATENCY", "FILES", "RESOURCE-USAGE", "TRANSPORT", "CONVERSATION"):
        assert name in listed
        assert ask(server, "info", name)
        assert ask(server, "info", name, "--columns", "all")
    assert "active uows" not in ask(server, "info", "BROKER"), "a single row is shown by its names"
    assert "active_uows" in ask(server, "info", "BROKER")


def test_nothing_found_exits_1_and_a_wrong_word_exits_2(server: Serving) -> None:
    assert ask(server, "info", "PSF", "uowid=0000000000000000", code=1) == "Nothing was found\n"
    for words in (["PSF", "colour=red"], ["DANCERS"], ["PSFADA"], ["PSF", "CLIENT"], ["PSF", "status=LOST"]):
        assert "oms:" in oms("info", *words, "--broker", url(server), code=2).stderr
    assert ask(server, "info", "BROKER", "--columns", "colour", code=2) == ""


def test_commands_are_listed_and_carried_out(server: Serving, queue: str) -> None:
    assert "SET-UOW-STATUS" in ask(server, "cmd")
    assert ask(server, "cmd", "no-operation") == "NO-OPERATION done\n"
    first, second, _ = (row["uowid"] for row in ask_json(server, "info", "PSF", f"server_name={queue}")["rows"])

    assert ask(server, "cmd", "set-uow-status", "cancelled", f"uowid={first}", "--yes")
    assert ask_json(server, "cmd", "purge", f"uowid={second}", "--yes")["affected"] == 1
    assert ask_json(server, "info", "PSF", f"server_name={queue}")["count"] == 1


@pytest.mark.whole
def test_a_command_that_destroys_is_not_given_without_asking(server: Serving, queue: str) -> None:
    uowid = ask_json(server, "info", "PSF", f"server_name={queue}")["rows"][0]["uowid"]

    refused = oms("cmd", "PURGE", f"uowid={uowid}", "--broker", url(server), code=2)
    assert "--yes" in refused.stderr
    said = on_terminal("cmd", "PURGE", f"uowid={uowid}", "--broker", url(server), types="n\n")
    assert f"PURGE {uowid}: remove a unit of work and its status?" in said
    assert "nothing was changed" in said
    assert ask_json(server, "info", "PSF", f"uowid={uowid}")["count"] == 1
    assert "PURGE done" in on_terminal("cmd", "PURGE", f"uowid={uowid}", "--broker", url(server), types="y\n")


def test_what_is_refused_says_both_codes(server: Serving) -> None:
    refused = oms("cmd", "PURGE", "uowid=1111111111111111", "--yes", "--broker", url(server), code=1)
    assert "not purged: there is none of uowid" in refused.stderr and "(00780305 UOW not found)" in refused.stderr
    failed = oms("cmd", "PURGE", "uowid=1", "--yes", "--json", "--broker", url(server), code=1)
    assert json.loads(failed.stderr)["error_code"] == "00780305"
    for words in (["DANCE"], ["START"], ["SHUTDOWN"], ["TRACE-ON", "LEVEL1", "LEVEL2"], ["PURGE", "client_id=x"]):
        oms("cmd", *words, "--yes", "--broker", url(server), code=1 if words == ["START"] else 2)


def test_without_a_server_the_command_says_so() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        for words in (["info", "BROKER"], ["cmd", "NO-OPERATION"], ["top", "--count", "1"]):
            assert f"no answer from {nobody}" in oms(*words, "--broker", nobody, code=4).stderr
    oms("info", "BROKER", "--broker", "ftp://x", code=2)


@pytest.mark.whole
def test_a_server_is_stopped_by_a_command(tmp_path: Path) -> None:
    with Serving(tmp_path / "store") as server:
        assert ask(server, "cmd", "SHUTDOWN", "BROKER", "--yes") == "SHUTDOWN done\n"
        assert server.child.wait(20) == 0
        assert any("SHUTDOWN" in text for text in server.texts())


def test_a_subscriber_that_is_to_quiesce_settles_what_it_has_and_is_then_told(server: Serving) -> None:
    shut = ("cmd", "SHUTDOWN", "SERVICE", "QUIESCE", "queue=shut", "--yes")
    client = Wire(server.port)
    client.say("SUBSCRIBE", destination="/queue/shut", id="1", ack="client-individual")
    client.say("SEND", b"first", destination="/queue/shut")
    message = client.hear()

    ask(server, *shut)
    client.say("SEND", b"second", destination="/queue/shut", receipt="1")
    assert client.hear().command == "RECEIPT"
    client.say("ACK", id=message.headers["ack"])

    assert client.error().startswith("00100051")
    waiting = ask_json(server, "info", "PSF", "queue=shut")["rows"]
    assert [row["status"] for row in waiting] == ["ACCEPTED"], "the first is done, the second was not begun"


def test_a_subscriber_that_is_shut_down_at_once_gives_back_what_it_has(server: Serving) -> None:
    client = Wire(server.port)
    client.say("SUBSCRIBE", destination="/queue/cut", id="1", ack="client-individual")
    client.say("SEND", b"first", destination="/queue/cut")
    client.hear()

    ask(server, "cmd", "SHUTDOWN", "SERVICE", "IMMED", "queue=cut", "--yes")

    assert client.error().startswith("00100050")
    assert [row["status"] for row in ask_json(server, "info", "PSF", "queue=cut")["rows"]] == ["ACCEPTED"]


# Users and rights.


@pytest.mark.whole
def test_a_server_with_users_is_asked_by_who_may(tmp_path: Path) -> None:
    users = [
        user("ALICE", send=["/queue/A"], receive=["/queue/A"], administer=["/queue/A"]),
        user("BOB", send=["*"]),
        user("ROOT", administer=["*"]),
    ]
    files = Files(tmp_path, users)
    with files.serve() as server:
        address = f"https://127.0.0.1:{server.http_port}"

        def asked(name: str, *words: str, code: int = 0) -> Result:
            who = ("--user", name, "--password", PASSWORDS[name]) if name else ()
            return oms(*words, "--broker", address, "--ca-file", str(files.authority_file), *who, code=code)

        assert "STANDARD" in asked("ROOT", "info", "BROKER").stdout
        assert "not authorised" in asked("BOB", "info", "BROKER", code=1).stderr.lower()
        assert "not authorised" in asked("ALICE", "cmd", "FORBID-NEWUOWMSGS", code=1).stderr.lower()
        assert asked("ALICE", "info", "SERVICE", code=1).stdout == "Nothing was found\n"
        assert asked("ROOT", "cmd", "FORBID-NEWUOWMSGS").stdout == "FORBID-NEWUOWMSGS done\n"
        asked("", "info", "BROKER", code=1)
        oms("info", "BROKER", "--broker", address, "--user", "ROOT", "--password", "x", code=4)
        assert any("command of ROOT at 127.0.0.1 done" in text for text in server.texts())
        assert not any(PASSWORDS["ROOT"] in text for text in server.texts())


# top.


def test_top_without_a_terminal_prints_one_view_after_the_other(server: Serving, queue: str) -> None:
    text = ask(server, "top", "--count", "2", "--interval", "0.2")

    assert text.count("commit times: p50") == 2
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith(f"QUEUE/{queue}"))
    assert row.split()[1:4] == ["0", "3", "0"]
    lines = ask(server, "top", "--count", "2", "--interval", "0.2", "--json").splitlines()
    assert [set(json.loads(line)) for line in lines] == [{"broker", "statistics", "latency", "services", "topics"}] * 2


@pytest.mark.whole
def test_top_on_a_dumb_terminal_moves_no_cursor(server: Serving) -> None:
    assert "\x1b" not in on_terminal("top", "-n", "1", "--broker", url(server), term="dumb")


@pytest.mark.whole
def test_top_on_a_terminal_draws_in_place_and_ends_with_ctrl_c(server: Serving) -> None:
    text = on_terminal("top", "-i", "0.2", "--broker", url(server), types="\x03", waits_for="commit times")

    assert text.startswith("\x1b[?1049h")
    assert text.rstrip().endswith("oms: interrupted")
    assert "\x1b[?25h\x1b[?1049l" in text


@pytest.mark.whole
def test_top_goes_on_while_the_server_is_away(tmp_path: Path) -> None:
    with Serving(tmp_path / "store") as server:
        command = command_line("top", "-i", "0.2", "--json", "--broker", url(server))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as watching:
            assert watching.stdout is not None
            assert b'"broker"' in watching.stdout.readline()
            server.stop()
            while b"no answer" not in (line := watching.stdout.readline()):
                assert line
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 130


BROKER = {
    "broker_id": "ETB001", "run_mode": "STANDARD", "uptime": 61.0, "partner": "", "refusal": None,
    "store_type": "JOURNAL", "store_connected": True, "free_bytes": 1 << 30, "new_uow_messages": False,
    "active_uows": 5, "statuses": 0, "conversations": 1, "participants": 2, "calls_waiting": 0,
}  # fmt: skip
SERVICE = {
    "server_class": "GAME", "server_name": "CHESS", "service": "BLACK", "servers": 1, "waiting": 3,
    "delivering": 1, "oldest_age": 90.0, "accepted": 10, "processed": 4, "given_back": 0,
}  # fmt: skip
COUNTED = {"calls": 10, "accepted": 10, "processed": 4, "commits": 20, "groups": 10}


def seen(moment: float, **more: int) -> Sample:
    topic = {"topic": "NEWS", "subscribers": 2, "publications": 3, "largest_lag": 1}
    statistics = {name: value + more.get(name, 0) for name, value in COUNTED.items()}
    service = SERVICE | {"accepted": 10 + more.get("accepted", 0)}
    return Sample(
        moment=moment,
        broker=BROKER,
        statistics=statistics,
        latency={"p50": 0.001, "p99": 0.002, "longest": 0.5},
        services=[service],
        topics=[topic],
    )


def test_a_view_shows_rates_between_two_looks() -> None:
    lines = view(seen(12.0, accepted=50, calls=9), seen(10.0))

    assert lines[0] == "ETB001  STANDARD  up 1 min"
    assert lines[1] == "store JOURNAL connected, 1.0 GiB free, NO NEW UNITS OF WORK"
    assert lines[3].startswith("per second: 4.5 calls, 25 accepted, 0 processed")
    assert lines[4] == "commit times: p50 1 ms  p99 2 ms  longest 500 ms"
    assert lines[7].split() == ["GAME/CHESS/BLACK", "1", "3", "1", "1", "min", "25", "0", "0"]
    assert lines[-1].split() == ["NEWS", "2", "3", "1"]
    assert "per second: - calls" in view(seen(12.0), None)[3]
    assert rate_text({"calls": 1}, {"calls": 9}, "calls", 1.0) == "-", "it was started again in between"


def test_a_standby_says_that_nobody_can_call() -> None:
    standby = Sample(
        moment=0.0,
        broker={"broker_id": "ETB001", "run_mode": "STANDBY", "uptime": 5, "partner": "", "refusal": "00780624 no"},
        statistics={},
        latency={},
        services=(),
        topics=(),
    )
    assert view(standby, None) == ["ETB001  STANDBY  up 5.0 s", "nobody can call now: 00780624 no"]


def test_words_are_told_from_what_they_pick() -> None:
    assert said_of(["PSF", "service=A/B/C", "User-Id=X", "token=", "queue=Q"]) == (
        ["PSF"],
        [
            ("server_class", "A"),
            ("server_name", "B"),
            ("service", "C"),
            ("user_id", "X"),
            ("token", ""),
            ("server_class", "QUEUE"),
            ("server_name", "Q"),
            ("service", "-"),
        ],
    )


def on_terminal(*arguments: str, types: str = "", waits_for: str = "", term: str = "xterm") -> str:
    """Return what the command prints on a terminal on which somebody types, once something is there to be read."""
    person, program = os.openpty()
    variables = environment() | {"COLUMNS": "120", "LINES": "30", "TERM": term}
    text = ""
    with subprocess.Popen(
        command_line(*arguments), stdin=program, stdout=program, stderr=program, env=variables, start_new_session=True
    ) as running:
        os.close(program)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if types and (waits_for in text if waits_for else text.rstrip().endswith("[y/N]:")):
                if types == "\x03":
                    running.send_signal(signal.SIGINT)
                else:
                    os.write(person, types.encode())
                types = ""
            if select.select([person], [], [], 0.05)[0]:
                try:
                    data = os.read(person, 1 << 16)
                except OSError:
                    break
                if not data:
                    break
                text += data.decode()
        running.wait(timeout=30)
    os.close(person)
    return text


@pytest.mark.whole
def test_a_password_is_asked_for_only_where_the_server_wants_one(server: Serving, tmp_path: Path) -> None:
    assert "ETB001" in ask(server, "info", "broker", "--user", "olga")  # anybody may look there
    with Files(tmp_path, has_tls=False).serve() as guarded:
        refused = oms("info", "broker", "--user", "ROOT", "--broker", url(guarded), code=2)
        assert "no terminal to ask for the password on: set OMS_PASSWORD" in refused.stderr
