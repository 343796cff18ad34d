"""A unit of work that its receiver always backs out: the same at every door of a broker that runs."""

import asyncio
import gc
import time
from pathlib import Path

import pytest

from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel.state.redelivery import DEAD_LETTERS
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status

SERVICE = "A/B/C"
LIMIT = 4  # with it 0.3 seconds of delays


def test_through_the_embedded_broker_it_comes_so_often_and_is_then_a_dead_letter(tmp_path: Path) -> None:
    with Broker.open(tmp_path, max_delivery_count=LIMIT) as broker:
        alice, bob = broker.session("ALICE", token="A"), broker.session("BOB", token="B")
        alice.log_on()
        bob.log_on()
        alice.send(SERVICE, b"poison")
        bob.register(SERVICE)
        counts = []
        began = time.monotonic()
        for _ in range(LIMIT):
            unit = bob.receive_unit(wait=30)
            assert unit is not None
            counts.append(unit.delivery_count)
            unit.backout()
        assert counts == list(range(LIMIT))
        assert time.monotonic() - began >= 0.3, "0.1 and 0.2 seconds"
        assert bob.receive_unit() is None
        bob.register(DEAD_LETTERS)
        letter = bob.receive_unit()
        assert letter is not None
        assert (letter.first.body, letter.first.properties["dead-letter-from"]) == (b"poison", "/service/A/B/C")
        letter.commit()


def test_an_embedded_broker_that_is_opened_again_has_the_dead_letter(tmp_path: Path) -> None:
    with Broker.open(tmp_path, max_delivery_count=1) as broker:
        alice, bob = broker.session("ALICE", token="A"), broker.session("BOB", token="B")
        alice.log_on()
        bob.log_on()
        with alice.unit_of_work(SERVICE) as sent:
            sent.send(b"1", properties={"k": "v"})
            sent.send(b"2" * 100_000)
    with Broker.open(tmp_path, max_delivery_count=1) as broker:  # that reads them in its store
        bob = broker.session("BOB", token="B")
        bob.log_on()
        bob.register(SERVICE)
        unit = bob.receive_unit()
        assert unit is not None
        unit.backout()
    with Broker.open(tmp_path) as broker:
        bob = broker.session("BOB", token="B")
        bob.log_on()
        bob.register(DEAD_LETTERS)
        letter = bob.receive_unit()
        assert letter is not None
        assert [message.body for message in letter] == [b"1", b"2" * 100_000]
        assert letter.first.properties["k"] == "v"


def test_in_asyncio_it_comes_so_often_and_is_then_a_dead_letter(tmp_path: Path) -> None:
    async def script() -> None:
        async with AsyncBroker.open(tmp_path, max_delivery_count=LIMIT) as broker:
            alice, bob = broker.session("ALICE", token="A"), broker.session("BOB", token="B")
            await alice.log_on()
            await bob.log_on()
            await alice.send(SERVICE, b"poison")
            await bob.register(SERVICE)
            began = asyncio.get_running_loop().time()
            for count in range(LIMIT):
                unit = await bob.receive_unit(wait=30)
                assert unit is not None and unit.delivery_count == count
                await unit.backout()
            assert asyncio.get_running_loop().time() - began >= 0.3
            assert await bob.receive_unit() is None
            await bob.register(DEAD_LETTERS)
            letter = await bob.receive_unit()
            assert letter is not None and letter.first.body == b"poison"

    asyncio.run(script())


@pytest.mark.whole
def test_a_closed_broker_is_not_kept_for_the_delay_of_what_was_given_back(tmp_path: Path) -> None:
    async def script() -> None:
        async with AsyncBroker.open(tmp_path, max_delivery_count=1, postpone_attempts=1, postpone_delay="1D") as broker:
            alice, bob = broker.session("ALICE", token="A"), broker.session("BOB", token="B")
            await alice.log_on()
            await bob.log_on()
            await alice.send(SERVICE, b"later")
            await bob.register(SERVICE)
            unit = await bob.receive_unit()
            assert unit is not None
            assert (await unit.backout()).status is Status.POSTPONED

    before = _worlds()

    async def last() -> None:
        await script()
        async with asyncio.timeout(60):  # while the loop goes on
            while _worlds() > before:
                await asyncio.sleep(0.01)  # its thread ends

    asyncio.run(last())


def _worlds() -> int:
    """Return how many kernels there are in this process."""
    gc.collect()
    return sum(isinstance(each, World) for each in gc.get_objects())
