"""A unit of work that is given back ten times through a server, and what the server's own end counts for: nothing."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.client.connect import connect, connect_async
from tests.support.cli_runner import oms
from tests.support.servers.stomp_server import Serving, Wire
from tests.support.servers.two_brokers import Pair, asked, wait_for

LIMIT = 10  # MAX-DELIVERY-COUNT where nothing else is said
DEAD_LETTERS = "QUEUE/DEAD-LETTER/-"
Door = Callable[[Serving, str, str], list[int]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served") / "store") as found:
        yield found


def url(server: Serving) -> str:
    return f"http://127.0.0.1:{server.http_port}"


def hasten(server: Serving, uowid: str) -> None:
    """Let it be received at once, as an operator may: all delays together come to a minute."""
    order = {"command": "SET-UOW-STATUS", "object": "PSF", "option": "ACCEPTED", "uowid": uowid}
    assert asked(server.http_port, "/command", order)["code"] == 0


def by_http(server: Serving, service: str, uowid: str) -> list[int]:
    """Back it out ten times by POST /aci; return how often each answer said that it was given back before."""
    who = {"user_id": "EVE", "token": "H"}
    address = dict(zip(("server_class", "server_name", "service"), service.split("/"), strict=True))

    def call(function: str, option: str = "NONE", **fields: str) -> dict[str, Any]:
        answer = asked(server.http_port, "/aci", {"function": function, "option": option, **who, **fields})
        assert answer["error_code"] == "00000000", answer
        return answer

    call("LOGON")
    call("REGISTER", **address)
    counts = []
    for at in range(LIMIT):
        got = call("RECEIVE", "SYNC", conv_id="ANY", wait="10S", **address)
        counts.append(got.get("adcount", 0))
        call("SYNCPOINT", "BACKOUT", uowid=got["uowid"])
        if at < LIMIT - 1:
            hasten(server, uowid)
    return counts


def by_remote_client(server: Serving, service: str, uowid: str) -> list[int]:
    with connect(url(server)) as broker, broker.session("EVE", token="R") as eve:
        eve.register(service)
        counts = []
        for at in range(LIMIT):
            unit = eve.receive_unit(wait=10)
            assert unit is not None
            counts.append(unit.delivery_count)
            unit.backout()
            if at < LIMIT - 1:
                hasten(server, uowid)
        return counts


def by_remote_client_of_asyncio(server: Serving, service: str, uowid: str) -> list[int]:
    async def script() -> list[int]:
        async with connect_async(url(server)) as broker, broker.session("EVE", token="S") as eve:
            await eve.register(service)
            counts = []
            for at in range(LIMIT):
                unit = await eve.receive_unit(wait=10)
                assert unit is not None
                counts.append(unit.delivery_count)
                await unit.backout()
                if at < LIMIT - 1:
                    await asyncio.to_thread(hasten, server, uowid)
            return counts

    return asyncio.run(script())


DOORS: list[Door] = [by_http, by_remote_client, by_remote_client_of_asyncio]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_the_tenth_backout_makes_it_a_dead_letter_that_operators_see(server: Serving, door: Door) -> None:
    service = f"A/B/{door.__name__[-8:].upper()}"
    body = door.__name__.encode()
    with connect(url(server)) as broker, broker.session("ALICE", token="A") as alice:
        sent = alice.send(service, body, status_lifetimes=1)
        assert door(server, service, sent.uowid) == list(range(LIMIT))
        assert alice.query(sent.uowid).status.name == "CANCELLED"

    # What the console shows is what `/info` says.
    (service_row,) = asked(server.http_port, "/info/SERVICE?server_name=DEAD-LETTER")["rows"]
    assert service_row["waiting"] == 1
    (row,) = asked(server.http_port, "/info/PSF?server_name=DEAD-LETTER")["rows"]
    assert (row["status"], row["messages"]) == ("ACCEPTED", 1)
    shown = oms("info", "PSF", "server_name=DEAD-LETTER", "--broker", url(server)).stdout
    assert row["uowid"] in shown

    with connect(url(server)) as broker, broker.session("LOOKER", token="L") as looker:
        looker.register(DEAD_LETTERS)
        letter = looker.receive_unit()
        assert letter is not None and letter.first.body == body
        properties = letter.first.properties
        assert properties["dead-letter-uow"] == sent.uowid
        assert (properties["dead-letter-count"], properties["dead-letter-user"]) == ("10", "ALICE")
        letter.commit()
        assert looker.receive_unit() is None


# The end of a server.


def in_flight(port: int) -> Wire:
    """Return a connection that has three messages in flight."""
    wire = Wire(port)
    wire.say("SUBSCRIBE", destination="/queue/a", id="1", ack="client")
    for body in (b"0", b"1", b"2"):
        wire.say("SEND", body, destination="/queue/a")
    assert [wire.hear().body for _ in range(3)] == [b"0", b"1", b"2"]
    return wire


def counted(port: int) -> list[str]:
    """Return how often each of the three was given back."""
    wire = Wire(port)
    wire.say("SUBSCRIBE", destination="/queue/a", id="1", ack="client")
    found = [wire.hear().headers["delivery-count"] for _ in range(3)]
    wire.close()
    return found


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stops", "is killed"])
def test_a_server_that_ends_counts_no_attempt_for_what_was_in_flight(tmp_path: Path, number: signal.Signals) -> None:
    with Serving(tmp_path / "store") as server:
        wire = in_flight(server.port)
        server.stop(number)
        wire.close()
    with Serving(tmp_path / "store") as server:
        assert counted(server.port) == ["0", "0", "0"]


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stops", "is killed"])
def test_nor_does_one_that_is_taken_over(tmp_path: Path, number: signal.Signals) -> None:
    with Pair(tmp_path) as pair:
        first = pair.start(0, "STANDARD")
        second = pair.start(1, "STANDBY")
        wait_for(second, "handshake with", "done")
        wire = in_flight(first.port)
        first.stop(number)
        wire.close()
        assert second.hear_ports()
        assert counted(second.port) == ["0", "0", "0"]
