"""`oms send` and `oms receive` with --broker: units of work to and from a broker that is served."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import command_line, environment, invoked, oms
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import WebPlace
from tests.support.warm_starts import Process

BYTES = bytes(range(256)) * 100


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("cli") / "store") as found:
        yield found


@pytest.fixture
def at(place: WebPlace) -> tuple[str, str]:
    return "--broker", place.url


def test_what_one_sends_another_receives_once(at: tuple[str, str]) -> None:
    uowid = oms("send", "moves", "e4", *at).stdout.strip()
    got = oms("receive", "moves", *at)

    assert len(uowid) == 16 and got.stdout == "e4\n"
    assert oms("receive", "moves", *at, code=1).stdout == ""


def test_the_address_may_stand_in_the_environment_and_a_spool_directory_on_the_line_goes_before_it(
    place: WebPlace, tmp_path: Path
) -> None:
    spool = str(tmp_path / "spool")

    def done(*arguments: str, code: int = 0) -> str:
        found = invoked(*arguments, variables={"OMS_BROKER": place.url, "SPOOL_DIRECTORY": str(tmp_path / "other")})
        assert found.exit_code == code, found.stderr
        return found.stdout

    assert len(done("send", "moves", "by variable").strip()) == 16, "it is a UOWID"
    assert done("send", "moves", "into a directory", "--spool", spool) == "1\n"
    assert done("receive", "moves", "--spool", spool) == "into a directory\n"
    assert done("receive", "moves", "--peek", code=2) == ""
    assert done("receive", "moves") == "by variable\n"
    assert not (tmp_path / "other").exists()


def test_all_that_goes_with_a_message_is_in_its_json(at: tuple[str, str]) -> None:
    sent = json.loads(oms("send", "/service/A/B/C", "x", "-p", "k=v", "--json", *at).stdout)
    got = json.loads(oms("receive", "/service/A/B/C", "--json", *at).stdout)

    assert (sent["status"], sent["service"], sent["length"]) == ("ACCEPTED", "A/B/C", 1)
    assert {name: got[name] for name in ("uowid", "service", "properties", "uow_status", "payload")} == {
        "uowid": sent["uowid"],
        "service": "A/B/C",
        "properties": {"k": "v"},
        "uow_status": "RECV_ONLY",
        "payload": "eA==",
    }


def test_every_byte_of_standard_input_arrives(at: tuple[str, str]) -> None:
    oms("send", "bytes", *at, stdin=BYTES)

    assert oms("receive", "bytes", "--raw", *at).stdout_bytes == BYTES


def test_a_producers_repeat_is_there_once(at: tuple[str, str]) -> None:
    ids = {oms("send", "once", "x", "--producer-id", "p1", *at).stdout for _ in range(3)}

    assert len(ids) == 1
    assert oms("receive", "once", "--count", "9", *at).stdout == "x\n"


def test_so_many_messages_are_received_as_were_asked_for(at: tuple[str, str]) -> None:
    for number in range(5):
        oms("send", "many", str(number), *at)

    assert oms("receive", "many", "--count", "2", *at).stdout == "0\n1\n"
    assert oms("receive", "many", "--timeout", "0.2", *at).stdout == "2\n3\n4\n"


def test_who_follows_gets_what_comes_and_ctrl_c_loses_nothing(place: WebPlace, at: tuple[str, str]) -> None:
    command = command_line("receive", "later", "--follow", *at)
    child = Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True)
    try:
        assert child.stdout is not None
        for body in ("one", "two"):
            oms("send", "later", body, *at)
            assert child.stdout.readline() == f"{body}\n"
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=TIMEOUT_SECONDS)
        assert child.returncode == 130 and "interrupted" in told
    finally:
        child.kill()
        child.communicate()
    oms("send", "later", "three", *at)
    *again, last = oms("receive", "later", "--timeout", "0.5", *at).stdout.split()
    assert last == "three" and again in ([], ["two"]), "what was printed may come again, what was committed not"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("send", "/topic/NEWS", "x"), "no queue and no service"),
        (("send", "/nowhere", "x"), "destination"),
        (("send", "q" * 65, "x"), "64 bytes"),
        (("receive", "q", "--peek"), "--peek does not go with --broker"),
        (("receive", "q", "--batch", "2"), "--batch"),
        (("send", "q", "x", "--wait", "1"), "--wait"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(at: tuple[str, str], arguments: tuple[str, ...], said: str) -> None:
    assert said in oms(*arguments, *at, code=2).stderr


@pytest.mark.parametrize("url", ["127.0.0.1:1971", "ftp://x", "http://", "http://x/path"])
def test_an_address_that_is_none_is_wrong_usage(url: str) -> None:
    assert "http" in oms("send", "q", "x", "--broker", url, code=2).stderr


def test_a_broker_that_is_not_there_is_named_with_its_code() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    refused = oms("send", "q", "x", "--broker", f"http://127.0.0.1:{port}", "--json", code=4)

    said = json.loads(refused.stderr)
    assert said["error"] == "02150148" and str(port) in said["message"]


def test_the_user_is_who_the_environment_says(at: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMS_USER", "CAROL")
    oms("send", "who", "x", *at)

    assert json.loads(oms("receive", "who", "--json", *at).stdout)["sender"] == "CAROL"
