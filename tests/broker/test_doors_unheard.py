"""An answer that nobody heard: its unit of work is handed out again at once, and no attempt counts; at every door."""

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.client.connect import connect_async
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.embedded.threads import ThreadDispatcher
from oms_journal.broker.sessions.requests import RequestFactory
from tests.support.broker.embedded import SERVICE
from tests.support.broker.kernel_desk import Desk, Person, attributes
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import ALICE, BOB, WebPlace, head
from tests.support.servers.web_place import SERVICE as CHESS

LIMIT = 2
TIMES = 5  # more than it takes to be a dead letter


def test_it_is_no_attempt_for_the_kernel_and_nothing_is_waited_for() -> None:
    desk = Desk(attributes(max_delivery_count=str(LIMIT)))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    white.send(b"x")
    for _ in range(TIMES):
        got = black.receive("ANY")
        assert (got.body, got.reply.adcount) == (b"x", 0)
        assert black.sync(Option.BACKOUT, got.uowid, is_untried=True).reply.adcount == 0
    assert black.sync(Option.BACKOUT, black.receive("ANY").uowid).reply.adcount == 1


def test_it_is_none_of_a_publication_either() -> None:
    desk = Desk(attributes(max_delivery_count=str(LIMIT)))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.call(Function.SUBSCRIBE, topic="NEWS")
    white.call(Function.SEND_PUBLICATION, Option.COMMIT, topic="NEWS", publication_id="NEW", body=b"x")
    for _ in range(TIMES):
        got = black.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW")
        assert got.body == b"x"
        number = got.reply.publication_id
        black.call(Function.CONTROL_PUBLICATION, Option.BACKOUT, publication_id=number, is_untried=True)


def played(directory: Path, script: Callable[[AsyncBroker], Any]) -> None:
    async def main() -> None:
        async with AsyncBroker.open(directory, max_delivery_count=LIMIT) as broker:
            await script(broker)

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_SECONDS))


@pytest.mark.parametrize("is_persistent", [True, False])
def test_a_task_that_is_cancelled_counts_none(tmp_path: Path, is_persistent: bool) -> None:
    async def script(broker: AsyncBroker) -> None:
        async with broker.session("BOB", token="B") as bob, broker.session("ALICE", token="A") as alice:
            await bob.register(SERVICE)
            for _ in range(TIMES):
                receiving = asyncio.create_task(bob.receive_unit(wait=True))
                await asyncio.sleep(0)
                await alice.send(SERVICE, b"x", persistent=is_persistent)  # answers it before its task runs again
                receiving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await receiving
                unit = await bob.receive_unit(wait=True)
                assert unit is not None and (unit.first.body, unit.delivery_count) == (b"x", 0)
                await unit.commit()

    played(tmp_path, script)


def test_who_calls_it_off_without_a_task_counts_none(tmp_path: Path) -> None:
    """As a STOMP connection does whose client has gone."""

    async def script(broker: AsyncBroker) -> None:
        async with broker.session("BOB", token="B") as bob, broker.session("ALICE", token="A") as alice:
            await bob.register(SERVICE)
            await alice.send(SERVICE, b"x")
            request = RequestFactory("BOB", "B", {}).receive(SERVICE, None, None, which="ANY", option=Option.SYNC)
            for _ in range(TIMES):
                broker._ask(request, caller=bob._caller, then=lambda _: None).cancel()
            unit = await bob.receive_unit(wait=True)
            assert unit is not None and unit.delivery_count == 0

    played(tmp_path, script)


def test_a_thread_that_is_interrupted_counts_none(tmp_path: Path) -> None:
    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is ThreadDispatcher._begin.__code__:
            signal.raise_signal(signal.SIGINT)

    with (
        Broker.open(tmp_path, max_delivery_count=LIMIT) as broker,
        broker.session("BOB", token="B") as bob,
        broker.session("ALICE", token="A") as alice,
    ):
        bob.register(SERVICE)
        alice.send(SERVICE, b"x")
        for _ in range(TIMES):
            sys.setprofile(interrupt)
            try:
                with pytest.raises(KeyboardInterrupt):
                    bob.receive_unit()
            finally:
                sys.setprofile(None)
        unit = bob.receive_unit()
        assert unit is not None and (unit.first.body, unit.delivery_count) == (b"x", 0)


# Over HTTP: the answer, and that the client has gone, come to the server in the same turn of its loop.


class Turn:
    """A turn of a server's loop that does not end while the block lasts."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._began, self._ends = threading.Event(), threading.Event()

    def _wait(self) -> None:
        self._began.set()
        self._ends.wait(TIMEOUT_SECONDS)

    def __enter__(self) -> None:
        self._place.loop.call_soon_threadsafe(self._wait)
        assert self._began.wait(TIMEOUT_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._ends.set()


def waiting_count(place: WebPlace) -> int:
    async def count() -> int:
        assert place.broker._tasks is not None
        return len(place.broker._tasks.world.parking)

    return place.run(count())


async def until_waits(place: WebPlace) -> None:
    while not await asyncio.to_thread(waiting_count, place):
        await asyncio.sleep(0.002)


@pytest.fixture
def place(tmp_path: Path) -> Any:
    with WebPlace(tmp_path, max_delivery_count=LIMIT) as found:
        found.call("LOGON", **ALICE)
        found.call("LOGON", **BOB)
        found.call("REGISTER", **BOB, **CHESS)
        yield found


def test_a_long_poll_whose_client_has_gone_counts_none(place: WebPlace) -> None:
    block = {"function": "RECEIVE", "option": "SYNC", "conv_id": "ANY", "wait": "60S", **BOB}
    ask = json.dumps(block).encode()
    send = {"function": "SEND", "option": "COMMIT", "conv_id": "NEW", "body_text": "x", "store": "OFF"}
    said = json.dumps(send | ALICE | CHESS).encode()
    for _ in range(TIMES):
        poll, sender = place.connect(), place.connect()
        poll.sendall(head(ask) + ask)
        asyncio.run(asyncio.wait_for(until_waits(place), TIMEOUT_SECONDS))
        with Turn(place):
            sender.sendall(head(said) + said)
            poll.close()
        sender.recv(1)
        sender.close()
        got = place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", wait="10S")
        assert (got["uow_status"], got.get("adcount", 0)) == ("RECV_ONLY", 0)
        place.call("SYNCPOINT", "COMMIT", **BOB, uowid=got["uowid"])


def test_a_call_of_a_remote_client_that_is_cancelled_counts_none(place: WebPlace) -> None:
    async def script() -> None:
        async with connect_async(place.url) as broker, broker.session("EVE", token="E") as eve:
            await eve.register("GAME/CHESS/BLACK")
            for _ in range(TIMES):
                receiving = asyncio.create_task(eve.receive_unit(wait=60))
                await asyncio.wait_for(until_waits(place), TIMEOUT_SECONDS)
                with Turn(place):
                    sending = asyncio.create_task(asyncio.to_thread(sent, place))
                    receiving.cancel()
                    with suppress(asyncio.CancelledError):
                        await receiving
                await sending
                unit = await eve.receive_unit(wait=10)
                assert unit is not None and unit.delivery_count == 0
                await unit.commit()

    asyncio.run(asyncio.wait_for(script(), TIMEOUT_SECONDS))


def sent(place: WebPlace) -> None:
    place.call("SEND", "COMMIT", **ALICE, **CHESS, conv_id="NEW", body_text="x", store="OFF")
