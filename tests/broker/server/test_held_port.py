"""A port that is held before anybody listens there."""

import asyncio
import socket

import pytest

from oms_journal.broker.server.runtime.listeners import HeldPort


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 20)


def held_at(port: int) -> HeldPort:
    return asyncio.run(HeldPort.hold("127.0.0.1", port))


def number(held: HeldPort) -> int:
    return int(held.addresses[0].rpartition(":")[2])


@pytest.fixture(params=["chosen", "named", "used before"])
def held(request: pytest.FixtureRequest) -> HeldPort:
    """A port that the system has chosen, one by its number, and one with a connection that has just ended."""
    if request.param == "chosen":
        return held_at(0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if request.param == "used before":
            with connect(port) as client:
                listening.accept()[0].close()
                assert client.recv(1) == b""
    return held_at(port)


def test_it_refuses_who_connects_but_while_it_is_lent(held: HeldPort) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            connect(number(held))
        (lent,) = held.lend()
        with lent:
            lent.listen()
            with connect(number(held)):
                lent.accept()[0].close()
        held.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(number(held))
    held.close()


@pytest.mark.parametrize("allows", [0, 1])
def test_nobody_else_has_it(held: HeldPort, allows: int) -> None:
    for host in ("127.0.0.1", ""):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, allows)
            other.bind((host, number(held)))
    with pytest.raises(OSError, match="in use"):
        held_at(number(held))
    held.close()


def test_what_was_lent_stays_when_it_is_let_go(held: HeldPort) -> None:
    (lent,) = held.lend()
    with lent:
        lent.listen()
        held.close()
        connect(number(held)).close()
    with pytest.raises(ConnectionRefusedError):
        connect(number(held))


def test_a_port_that_somebody_listens_at_is_not_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(OSError, match="in use"):
        held_at(listening.getsockname()[1])
