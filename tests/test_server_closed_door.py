"""STOMP while a store is being taken over."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from broker.server.closed_door import ClosedDoor
from tests.stomp_server import Wire

PARTNER = "host1:1971:TCP"


@pytest.fixture
def port() -> Iterator[int]:
    """A closed door, on a loop of its own."""
    loop, door = asyncio.new_event_loop(), ClosedDoor(PARTNER)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    (address,) = asyncio.run_coroutine_threadsafe(door.start("127.0.0.1", 0), loop).result()
    yield int(address.rpartition(":")[2])
    asyncio.run_coroutine_threadsafe(door.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_who_comes_during_a_takeover_is_told_to_come_again(port: int) -> None:
    wire = Wire(port, connects=False)
    wire.say("CONNECT", accept_version="1.2")
    told = wire.hear()
    assert told.command == "ERROR"
    assert told.headers["error-code"] == "00780624"
    assert told.headers["partner-broker-id"] == PARTNER
    with pytest.raises(EOFError):
        wire.hear()
    wire.close()


def test_who_says_anything_else_is_told_the_same(port: int) -> None:
    wire = Wire(port, connects=False)
    wire.socket.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)
    assert wire.error().startswith("00780624")
