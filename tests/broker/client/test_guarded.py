"""The Python client and `oms send` at a server with users and TLS: passwords, rights, certificates."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.codes import BrokerError, Code
from tests.api.moments import Cancel, cancelled
from tests.support.broker.embedded import bodies, refused
from tests.support.cli_runner import oms
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import Serving
from tests.support.sweeps import a_sample

ALICE = {"token": "PC1", "password": PASSWORDS["ALICE"]}
MINE = ("QUEUE", "ALICE", "-")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="module")
def serving(files: Files) -> Iterator[Serving]:
    with files.serve() as found:
        yield found


@pytest.fixture
def url(serving: Serving) -> str:
    return f"https://127.0.0.1:{serving.http_port}"


def test_who_knows_its_password_sends_and_receives_what_it_may(files: Files, url: str) -> None:
    with connect(url, ca_file=str(files.authority_file)) as broker, broker.session("ALICE", **ALICE) as alice:
        alice.register(MINE)
        alice.send(MINE, b"e4")
        assert bodies(alice) == [b"e4"]
        with refused(Code.USER_NOT_AUTHORIZED):
            alice.send(("QUEUE", "BOB", "-"), b"e4")
        last = alice.recover()
        assert last is None, "its only unit of work has left no status"


@a_sample(1)
@pytest.mark.parametrize("method", ["log_on", "receive_unit"])
def test_what_is_cancelled_is_taken_back_by_who_logged_on(files: Files, url: str, method: str) -> None:
    async def play(place: int) -> bool:
        async with connect_async(url, ca_file=str(files.authority_file)) as broker:
            first = broker.session("ALICE", token="PC2", password=PASSWORDS["ALICE"])
            await first.log_on()  # its connection is there for the next call: cancelled handshakes are the library's
            alice = broker.session("ALICE", **ALICE)
            call: Any = alice.log_on
            if method == "receive_unit":
                await alice.log_on()
                await alice.register(MINE)
                await alice.send(MINE, b"e4")
                call = alice.receive_unit
            try:
                await cancelled(call(), Cancel(place, "answered"))
            except asyncio.CancelledError:
                if method == "receive_unit":
                    unit = await alice.receive_unit()
                    assert unit is not None and (unit.first.body, unit.delivery_count) == (b"e4", 0)
                    await unit.commit()
                else:
                    await alice.log_on()
                    assert await alice.last() is None
                await alice.log_off()
                return True
            return False

    place = 1
    while asyncio.run(asyncio.wait_for(play(place), TIMEOUT_SECONDS)):
        place += 1
    assert place > 1


@pytest.mark.parametrize("password", ["wrong", ""])
def test_who_does_not_is_told_so_at_once(files: Files, url: str, password: str) -> None:
    with (
        connect(url, ca_file=str(files.authority_file)) as broker,
        pytest.raises(BrokerError) as failure,
        broker.session("BOB", password=password),
    ):
        pass
    assert failure.value.code is Code.PASSWORD_WRONG


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(url: str) -> None:
    with connect(url) as broker, pytest.raises(BrokerError, match="certificate") as failure:
        broker.session("ALICE", **ALICE).log_on()
    assert failure.value.code is Code.NOT_ACTIVE


def test_a_server_with_tls_is_not_spoken_to_without(url: str) -> None:
    with connect(url.replace("https", "http")) as broker, pytest.raises(BrokerError):
        broker.session("ALICE", **ALICE).log_on()


@pytest.mark.whole
def test_oms_logs_on_as_the_environment_says(files: Files, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMS_USER", "ALICE")
    monkeypatch.setenv("OMS_PASSWORD", PASSWORDS["ALICE"])
    monkeypatch.setenv("OMS_CA_FILE", str(files.authority_file))
    oms("send", "ALICE", "d4", "--broker", url)
    assert oms("receive", "ALICE", "--broker", url).stdout == "d4\n"
    monkeypatch.setenv("OMS_PASSWORD", "wrong")
    assert "00080003" in oms("receive", "ALICE", "--broker", url, code=1).stderr
