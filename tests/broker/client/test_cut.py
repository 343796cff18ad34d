"""Calls over HTTP that are cancelled at each await, or interrupted: taken back alone, and whatever else goes on.

The sample interrupts at a part of the places, the rest at all others.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.records import Status
from tests.api.moments import Cancel, Interrupt, cancelled, watched
from tests.callers.faces import Signalled
from tests.callers.wire import Wire
from tests.support.broker.embedded import SERVICE
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import Share, a_sample, in_three_sizes, sampled

AWAITS_MAX = 60  # of one call
OTHER = "GAME/CHESS/BLITZ"
LIMIT = 2
PLACES_MAX, PARTS = 4000, 4  # of one call, tried in so many tests


@pytest.fixture
def place(tmp_path: Path) -> Iterator[WebPlace]:
    with WebPlace(tmp_path / "store", max_delivery_count=LIMIT) as found:
        yield found


@pytest.fixture
def wire(place: WebPlace) -> Iterator[Wire]:
    with closing(Wire(place.port)) as found:
        yield found


class Table:
    """A session with a unit of work that it sends and one that it receives, which a cut call has nothing to do with."""

    received: Any
    sent: Any
    unit: Any  # of a script
    sending: "asyncio.Task[Any]"

    async def begin(self, broker: Any) -> None:
        self.bob, self.alice = broker.session("BOB", token="S1"), broker.session("ALICE", token="PC1")
        for session in (self.bob, self.alice):
            await session.log_on()
            await session.register(OTHER)
        await self.alice.send(OTHER, b"given")
        self.received = await self.bob.receive_unit(OTHER)
        await self.bob.register(SERVICE)
        self.sent = self.bob.unit_of_work(OTHER)
        await self.sent.send(b"begun")

    async def check(self) -> None:
        """Both units of work are there, as they were."""
        assert [message.body async for message in self.received] == [b"given"]
        assert (await self.received.commit()).status is Status.PROCESSED
        assert (await self.sent.commit()).status is Status.ACCEPTED
        unit = await self.alice.receive_unit(OTHER)
        assert [message.body async for message in unit] == [b"begun"]
        await unit.commit()

    async def all(self) -> list[list[bytes]]:
        """Return what comes now, unit by unit; none of it was tried before."""
        found = []
        while (unit := await self.bob.receive_unit(SERVICE)) is not None:
            assert unit.delivery_count == 0
            found.append([message.body async for message in unit])
            await unit.commit()
        return found


def at_each_await(
    url: str,
    script: Callable[[Table], Awaitable[Callable[[], Any]]],
    check: Callable[[Table, bool], Awaitable[None]],
    when: str,
) -> None:
    """Cancel what the script prepares at each of its awaits, and check what is left."""

    async def play(place: int) -> bool:
        async with connect_async(url) as broker:
            table = Table()
            await table.begin(broker)
            call = await script(table)
            was_cancelled = False
            try:
                await cancelled(call(), Cancel(place, when, 2))
            except asyncio.CancelledError:
                was_cancelled = True
            await check(table, was_cancelled)
            await table.check()
            for session in (table.bob, table.alice):
                await session.log_off()
            return was_cancelled

    for number in range(1, AWAITS_MAX):
        if not asyncio.run(asyncio.wait_for(play(number), TIMEOUT_SECONDS)):
            assert number > 1
            return
    raise AssertionError(f"more than {AWAITS_MAX} awaits")


any_moment = pytest.mark.parametrize("when", ["begun", "later", "answered"])


@a_sample(1)
@any_moment
def test_a_receive_that_is_cancelled_leaves_the_unit_whole_and_untried(wire: Wire, when: str) -> None:
    async def script(table: Table) -> Callable[[], Any]:
        async with table.alice.unit_of_work(SERVICE) as unit:
            await unit.send(b"head")
            await unit.send(b"line")
        return lambda: table.bob.receive_unit(SERVICE)

    async def check(table: Table, was_cancelled: bool) -> None:
        if was_cancelled:
            assert await table.all() == [[b"head", b"line"]]

    at_each_await(wire.url, script, check, when)


@pytest.mark.whole
@any_moment
def test_a_receive_that_waits_and_is_cancelled_takes_nothing_with_it(wire: Wire, when: str) -> None:
    async def script(table: Table) -> Callable[[], Any]:
        table.sending = asyncio.create_task(table.alice.send(SERVICE, b"x"))
        return lambda: table.bob.receive_unit(SERVICE, wait=10)

    async def check(table: Table, was_cancelled: bool) -> None:
        await table.sending
        if was_cancelled:
            assert await table.all() == [[b"x"]]

    at_each_await(wire.url, script, check, when)


@pytest.mark.whole
@any_moment
def test_a_send_that_is_cancelled_is_there_whole_or_not_at_all_and_in_its_turn(wire: Wire, when: str) -> None:
    async def script(table: Table) -> Callable[[], Any]:
        return lambda: table.alice.send(SERVICE, b"1")

    async def check(table: Table, was_cancelled: bool) -> None:
        await table.alice.send(SERVICE, b"2")
        found = await table.all()
        assert found == [[b"1"], [b"2"]] or (was_cancelled and found == [[b"2"]])

    at_each_await(wire.url, script, check, when)


@pytest.mark.whole
@any_moment
def test_a_commit_that_is_cancelled_is_done_or_not_as_the_status_says(wire: Wire, when: str) -> None:
    async def script(table: Table) -> Callable[[], Any]:
        unit = table.unit = table.alice.unit_of_work(SERVICE, status_lifetime="1H")
        await unit.send(b"1")
        return lambda: unit.commit()

    async def check(table: Table, was_cancelled: bool) -> None:
        status = (await table.unit.query()).status
        assert status is Status.ACCEPTED or (was_cancelled and status is Status.RECEIVED)
        assert await table.all() == ([[b"1"]] if status is Status.ACCEPTED else [])

    at_each_await(wire.url, script, check, when)


def test_what_a_cancelled_call_has_received_another_session_has_at_once(wire: Wire) -> None:
    """Nothing is asked of the session that was cancelled."""

    async def play() -> None:
        async with connect_async(wire.url) as broker:
            table = Table()
            await table.begin(broker)
            carol = broker.session("CAROL", token="S2")
            await carol.log_on()
            await carol.register(SERVICE)
            await table.alice.send(SERVICE, b"x")
            wire.marker, wire.holds = b'"RECEIVE"', True
            receiving = asyncio.ensure_future(table.bob.receive_unit(SERVICE))
            assert await asyncio.to_thread(wire.arrived.wait, TIMEOUT_SECONDS)
            receiving.cancel()
            with suppress(asyncio.CancelledError):
                await receiving
            wire.holds = False
            wire.go_on.set()
            unit = await carol.receive_unit(SERVICE, wait=TIMEOUT_SECONDS)
            assert unit is not None and (unit.first.body, unit.delivery_count) == (b"x", 0)
            await unit.commit()
            await table.check()

    asyncio.run(asyncio.wait_for(play(), 2 * TIMEOUT_SECONDS))


def test_what_an_interrupted_call_has_received_comes_again_and_all_else_goes_on(wire: Wire) -> None:
    """Ctrl-C while the answer is on its way."""
    with (
        connect(wire.url) as broker,
        broker.session("BOB", token="S1") as bob,
        broker.session("ALICE", token="PC1") as alice,
    ):
        bob.register(SERVICE)
        unit = bob.unit_of_work(SERVICE)
        unit.send(b"begun")
        alice.send(SERVICE, b"x")
        wire.marker, wire.holds = b'"RECEIVE"', True

        def interrupt() -> None:
            assert wire.arrived.wait(TIMEOUT_SECONDS)
            wire.holds = False
            signal.pthread_kill(main, signal.SIGINT)

        main, thread = threading.get_ident(), threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            bob.receive_unit(wait=30)
        thread.join(TIMEOUT_SECONDS)
        wire.go_on.set()

        received = bob.receive_unit()
        assert received is not None and (received.first.body, received.delivery_count) == (b"x", 0)
        received.commit()
        assert unit.commit().status is Status.ACCEPTED


@pytest.mark.whole
@pytest.mark.parametrize("start", sampled(range(PARTS), 1))
def test_an_interrupt_at_any_place_leaves_a_client_that_goes_on(place: WebPlace, start: int) -> None:
    with (
        connect(place.url) as broker,
        broker.session("BOB", token="S1") as bob,
        broker.session("ALICE", token="PC1") as alice,
    ):
        bob.register(SERVICE)
        for number in range(1 + start, PLACES_MAX, PARTS):
            alice.send(SERVICE, b"%d" % number)
            interrupt = Signalled(Interrupt(number))
            with suppress(KeyboardInterrupt), watched(), interrupt:
                bob.receive_unit()
            if not interrupt.is_done:
                return
            unit = bob.receive_unit()
            assert unit is not None and (unit.first.body, unit.delivery_count) == (b"%d" % number, 0), interrupt.where
            unit.commit()
    raise AssertionError(f"more than {PLACES_MAX} places")


@pytest.mark.whole
@in_three_sizes
def test_an_interrupt_of_a_call_takes_back_nothing_of_the_call_before(place: WebPlace, share: Share) -> None:
    with (
        connect(place.url) as broker,
        broker.session("BOB", token="S1") as bob,
        broker.session("ALICE", token="PC1") as alice,
    ):
        bob.register(SERVICE)
        alice.send(SERVICE, b"x")
        unit = bob.receive_unit()
        assert unit is not None
        for number in share.every(3, range(1, PLACES_MAX)):
            alice.send(SERVICE, b"y")
            begun = bob.receive_unit(SERVICE)
            assert begun is not None
            interrupt = Signalled(Interrupt(number))
            with suppress(KeyboardInterrupt), watched(), interrupt:
                bob.last()
            assert begun.commit().status is Status.PROCESSED, interrupt.where
            if not interrupt.is_done:
                break
        assert unit.commit().status is Status.PROCESSED


def test_a_client_that_waits_and_whose_connection_breaks_goes_on_waiting(wire: Wire, place: WebPlace) -> None:
    with (
        connect(wire.url) as broker,
        broker.session("BOB", token="S1") as bob,
        broker.session("ALICE", token="PC1") as alice,
    ):
        bob.register(SERVICE)
        unit = bob.unit_of_work(SERVICE)
        unit.send(b"begun")

        def cut() -> None:
            while not waits(place):
                threading.Event().wait(0.005)
            wire.break_all()
            while not waits(place):
                threading.Event().wait(0.005)
            alice.send(SERVICE, b"x")

        cutting = threading.Thread(target=cut)
        cutting.start()
        received = bob.receive_unit(wait=TIMEOUT_SECONDS)
        cutting.join(TIMEOUT_SECONDS)
        assert received is not None and (received.first.body, received.delivery_count) == (b"x", 0)
        received.commit()
        assert unit.commit().status is Status.ACCEPTED


def waits(place: WebPlace) -> int:
    async def count() -> int:
        assert place.broker._tasks is not None
        return len(place.broker._tasks.world.parking)

    return place.run(count())
