"""The embedded broker among the tasks of a loop: one turn, one sync; cancellation loses nothing; loops that end."""

import asyncio
import inspect
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from oms_journal.broker.answers import Answered
from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.open import journal_options
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.embedded.loop import TURNS_MAX
from oms_journal.broker.sessions import async_parts, session_parts
from oms_journal.broker.sessions.async_sessions import AsyncSession
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import PersistentStore
from tests.support.broker.embedded import SERVICE, bodies, refused
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk

Script = Callable[[AsyncBroker, WatchedDisk], Coroutine[Any, Any, None]]


@pytest.mark.parametrize(
    "kind", [Session, AsyncSession, session_parts.Subscription, async_parts.AsyncSubscription], ids=lambda k: k.__name__
)
def test_what_may_return_none_in_place_of_a_context_manager_says_so(kind: type) -> None:
    leave, word = ("__aexit__", "async with") if kind.__name__.startswith("Async") else ("__exit__", "with")
    verbs = [
        verb
        for _, verb in inspect.getmembers(kind, inspect.isfunction)
        if any(hasattr(each, leave) for each in get_args(get_type_hints(verb).get("return")))
        and NoneType in get_args(get_type_hints(verb)["return"])
    ]

    assert verbs
    for verb in verbs:
        assert f"None is no context manager: look before `{word}`" in (verb.__doc__ or ""), verb.__name__


def played(directory: Path, script: Script, **given: Any) -> None:
    """Open a broker on a watched disk and let the script play with it."""
    disk = WatchedDisk()

    def open_store(attributes: Attributes, *, creates: bool) -> PersistentStore:
        return JournalStore.open(directory, journal_options(attributes), disk=disk, creates=creates)

    given = {"msg_cleanup_interval": "0", "max_data_file_size": MODEST} | given

    async def main() -> None:
        async with AsyncBroker.open(open_store=open_store, **given) as broker:
            await script(broker, disk)

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_SECONDS))


@asynccontextmanager
async def server(broker: AsyncBroker, user: str = "BOB", token: str = "S1") -> AsyncIterator[AsyncSession]:
    async with broker.session(user, token=token) as session:
        await session.register(SERVICE)
        yield session


async def everything(session: AsyncSession, **how: Any) -> list[bytes]:
    found = []
    async for unit in session.receive_units(**how):
        async with unit:
            found += [message.body async for message in unit]
    return found


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def make_fast(broker: AsyncBroker) -> None:
    """Let the loop commit by itself."""
    assert broker._tasks is not None
    async with broker.session("WARM") as warm:
        while not broker._tasks._pace.is_fast:
            await warm.cancel((await warm.send(SERVICE, b"warm")).uowid)


@pytest.mark.parametrize("is_fast", [False, True])
def test_what_the_tasks_of_one_turn_send_goes_out_with_one_sync(tmp_path: Path, is_fast: bool) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        sessions = [broker.session("ALICE", token=f"T{n}") for n in range(64)]
        await asyncio.gather(*(session.log_on() for session in sessions))
        await make_fast(broker) if is_fast else await sessions[0].send(SERVICE, b"first")
        before = disk.write_count
        sent = await asyncio.gather(*(session.send(SERVICE, b"x") for session in sessions))
        assert len({status.uowid for status in sent}) == 64
        assert disk.write_count - before == 1

    played(tmp_path, script)


def test_who_was_answered_together_and_comes_again_a_turn_apart_shares_one_sync(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        sessions = [broker.session("ALICE", token=f"T{n}") for n in range(8)]
        await asyncio.gather(*(session.log_on() for session in sessions))
        await make_fast(broker)

        async def send(session: AsyncSession, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await session.send(SERVICE, b"x")

        await asyncio.gather(*(send(session, 0) for session in sessions))
        before = disk.write_count
        await asyncio.gather(*(send(session, turns) for turns, session in enumerate(sessions)))
        assert disk.write_count - before == 1
        await send(sessions[0], 0)
        assert disk.write_count - before == 2, "nobody waits for those who do not come"

    played(tmp_path, script)


def test_a_group_does_not_wait_for_ever_though_every_turn_brings_more(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        sessions = [broker.session("ALICE", token=f"T{n}") for n in range(3 * TURNS_MAX)]
        await asyncio.gather(*(session.log_on() for session in sessions))
        await make_fast(broker)
        await asyncio.gather(*(session.send(SERVICE, b"x") for session in sessions))
        before = disk.write_count

        async def send(session: AsyncSession, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await session.send(SERVICE, b"x")

        await asyncio.gather(*(send(session, turns) for turns, session in enumerate(sessions)))
        assert 2 <= disk.write_count - before <= 4

    played(tmp_path, script)


def test_a_loop_goes_on_while_a_slow_device_is_at_work(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            with disk.held():
                slow = asyncio.create_task(alice.send(SERVICE, b"slow"))
                await asyncio.to_thread(disk.wait_for_write)
                async with broker.session("CAROL") as carol:
                    await carol.send(SERVICE, b"quick", persistent=False)
                unit = await bob.receive_unit()
                assert unit is not None and unit.first.body == b"quick"
                await unit.commit()
                assert await bob.receive_unit() is None
                assert not slow.done()
            await slow
            assert await everything(bob) == [b"slow"]

    played(tmp_path, script)


def test_a_device_that_becomes_slow_is_left_to_a_thread_again(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        assert broker._tasks is not None
        await make_fast(broker)
        disk.seconds = 0.02
        async with broker.session("ALICE") as alice:
            await alice.send(SERVICE, b"x")
            assert not broker._tasks._pace.is_fast
            with disk.held():
                sending = asyncio.create_task(alice.send(SERVICE, b"y"))
                await asyncio.to_thread(disk.wait_for_write)
                assert not sending.done()
            await sending

    played(tmp_path, script)


def test_non_persistent_work_needs_no_disk_and_no_turn_of_the_loop(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        await make_fast(broker)
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            before, turned = disk.write_count, list[int]()
            asyncio.get_running_loop().call_soon(turned.append, 1)
            for _ in range(100):
                await alice.send(SERVICE, b"x", persistent=False)
                unit = await bob.receive_unit()
                assert unit is not None
                await unit.commit()
            assert disk.write_count == before and not turned

    played(tmp_path, script)


def test_full_cycles_and_both_take_the_durable_commits_that_they_must(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            sent = await alice.send(SERVICE, b"first")
            before = disk.write_count
            async for unit in bob.receive_units():
                await unit.answer(b"answer")
                await unit.commit()
            assert disk.write_count - before == 1
            for _ in range(10):
                await alice.send(SERVICE, b"x")
            assert len(await everything(bob)) == 10
            assert disk.write_count - before == 1 + 20
            assert await everything(alice, conv_id=sent.conv_id) == [b"answer"]

    played(tmp_path, script)


# Cancellation.


def test_a_receive_that_is_cancelled_while_it_waits_gets_nothing(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        assert broker._tasks is not None
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            for _ in range(10):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(bob.receive_unit(wait=True), 0.005)
            assert not broker._tasks._slots
            await alice.send(SERVICE, b"x")
            assert await everything(bob) == [b"x"]

    played(tmp_path, script)


@pytest.mark.parametrize("status_lifetimes", [0, 1])
@pytest.mark.parametrize("turns", range(6))
def test_a_receive_that_is_cancelled_at_any_turn_loses_no_unit_of_work(
    tmp_path: Path, turns: int, status_lifetimes: int
) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            receiving = asyncio.create_task(bob.receive_unit(wait=30))
            await asyncio.sleep(0)
            sending = asyncio.create_task(alice.send(SERVICE, b"x", lifetime=60, status_lifetimes=status_lifetimes))
            await until(lambda: disk.write_count)
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            (found,) = await asyncio.gather(receiving, return_exceptions=True)
            await sending
            if isinstance(found, asyncio.CancelledError):
                found = await bob.receive_unit(wait=5)
            assert not isinstance(found, BaseException) and found is not None and found.first.body == b"x"

    played(tmp_path, script)


def test_an_answer_that_came_before_the_cancellation_is_given_back(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            receiving = asyncio.create_task(bob.receive_unit(wait=30))
            await asyncio.sleep(0)
            await alice.send(SERVICE, b"x", persistent=False)  # answers bob's call, whose task has not run since
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
            unit = await bob.receive_unit()
            assert unit is not None and (unit.first.body, unit.delivery_count) == (b"x", 0)

    played(tmp_path, script)


def test_a_publication_that_was_handed_out_and_not_seen_is_given_back(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with broker.session("BOB") as bob, broker.session("ALICE") as alice:
            news = await bob.subscribe("NEWS")
            receiving = asyncio.create_task(news.receive(wait=30))
            await asyncio.sleep(0)
            publishing = asyncio.create_task(alice.publish("NEWS", b"x"))
            await publishing
            if not receiving.done():
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)
                publication = await news.receive()
                assert publication is not None and publication.first.body == b"x"

    played(tmp_path, script, subscriber_store="NO", store="OFF")


def test_a_unit_of_work_whose_beginning_nobody_heard_of_is_dropped(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with broker.session("ALICE", token="A") as alice:
            await alice.send(SERVICE, b"first")
            with disk.held():
                uow = alice.unit_of_work(SERVICE, lifetime=60, status_lifetimes=1)
                sending = asyncio.create_task(uow.send(b"x"))  # its status is written
                await asyncio.to_thread(disk.wait_for_write)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                assert not uow.is_open
            while True:
                last = await alice.last()
                assert last is not None
                if last.status.name == "BACKEDOUT":
                    break
                await asyncio.sleep(0.001)

    played(tmp_path, script)


def test_a_commit_whose_caller_is_cancelled_happens_or_not_and_disturbs_nobody(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        sessions = [broker.session("ALICE", token=f"T{n}") for n in range(8)]
        await asyncio.gather(*(session.log_on() for session in sessions))
        async with server(broker) as bob:
            await sessions[0].send(SERVICE, b"first")
            with disk.held():
                sending = [asyncio.create_task(session.send(SERVICE, b"x")) for session in sessions]
                await asyncio.to_thread(disk.wait_for_write)
                for task in sending[::2]:
                    task.cancel()
                await asyncio.sleep(0)
            done = await asyncio.gather(*sending, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in done] == [True, False] * 4
            found = await everything(bob)
            assert 4 <= found.count(b"x") <= 8

    played(tmp_path, script)


def test_a_block_that_is_cancelled_backs_out(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:

            async def send_for_ever() -> None:
                async with alice.unit_of_work(SERVICE) as uow:
                    while True:
                        await uow.send(b"never")
                        await asyncio.sleep(0)

            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(send_for_ever(), 0.01)
            assert await everything(bob) == []
            await alice.send(SERVICE, b"y")

            async def receive_for_ever() -> None:
                async for unit in bob.receive_units():
                    async with unit:
                        await asyncio.sleep(60)

            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(receive_for_ever(), 0.01)
            assert await everything(bob) == [b"y"]

    played(tmp_path, script)


def test_many_receivers_race_with_cancellations_and_every_unit_of_work_goes_to_one(tmp_path: Path) -> None:
    count = 300
    found: list[bytes] = []

    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async def receive(token: str) -> None:
            async with server(broker, "BOB", token) as bob:
                while len(found) < count:
                    try:
                        unit = await asyncio.wait_for(bob.receive_unit(wait=30), 0.003)
                    except TimeoutError:
                        continue
                    assert unit is not None
                    await unit.commit()
                    found.append(unit.first.body)

        async def send(token: str) -> None:
            async with broker.session("ALICE", token=token) as alice:
                for number in range(count // 3):
                    await alice.send(SERVICE, b"%s %d" % (token.encode(), number), persistent=bool(number % 2))
                    await asyncio.sleep(0.0005)

        await asyncio.gather(*(receive(f"S{n}") for n in range(4)), *(send(f"A{n}") for n in range(3)))

    played(tmp_path, script, max_delivery_count="UNLIM")
    assert sorted(found) == sorted(b"A%d %d" % (sender, number) for sender in range(3) for number in range(count // 3))


def test_a_call_without_a_task_is_answered_later_or_taken_back(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE", token="A") as alice:
            told: list[Answered] = []
            receive = bob._speaker.receive(None, None, True, option=Option.SYNC)
            broker._ask(bob._speaker.request(Function.VERSION), caller=bob._caller, then=told.append)
            assert not told, "never before the call returns"
            await until(lambda: told)
            taken_back = broker._ask(receive, caller=bob._caller, then=told.append)
            taken_back.cancel()
            await alice.send(SERVICE, b"1")
            broker._ask(receive, caller=bob._caller, then=told.append)
            await until(lambda: len(told) == 2)
            assert told[1].body == b"1"
            await alice.send(SERVICE, b"2")
            unheard = broker._ask(receive, caller=bob._caller, then=told.append)
            unheard.cancel()
            unit = await bob.receive_unit(wait=5)
            assert unit is not None and (unit.first.body, unit.delivery_count) == (b"2", 0)
            assert len(told) == 2

    played(tmp_path, script)


# The end.


def test_a_close_lets_go_of_who_waits_and_lets_arrive_what_is_on_its_way(tmp_path: Path) -> None:
    sent: list[str] = []

    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob, broker.session("ALICE") as alice:
            await alice.send(SERVICE, b"x")
            assert await everything(bob) == [b"x"]
            waiting = asyncio.create_task(bob.receive_unit(conv_id=None, wait=True, which="OLD"))
            with disk.held():
                sending = asyncio.create_task(alice.send(SERVICE, b"y"))
                await asyncio.to_thread(disk.wait_for_write)
                closing = asyncio.create_task(broker.close())
                await asyncio.sleep(0.01)
                closing.cancel()
            sent.append((await sending).uowid)
            with refused(Code.NOT_ACTIVE):
                await waiting
            await broker.close()
            with refused(Code.NOT_ACTIVE):
                await alice.send(SERVICE, b"z")

    played(tmp_path, script)
    with Broker.open(tmp_path) as again, again.session("BOB") as bob:
        bob.register(SERVICE)
        assert [unit.uowid for unit in bob.receive_units()] == sent


def test_an_opening_that_is_cancelled_lets_go_of_the_directory(tmp_path: Path) -> None:
    async def main() -> None:
        opening = asyncio.create_task(AsyncBroker.open(tmp_path).__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(main())
    with Broker.open(tmp_path) as broker:
        assert broker.is_store_connected


def test_a_broker_is_entered_before_it_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        broker = AsyncBroker.open(tmp_path)
        session = broker.session("ALICE")
        with refused(Code.NOT_ACTIVE):
            await session.log_on()
        assert not broker.is_store_connected
        await broker.close()

    asyncio.run(main())


def test_an_interrupt_cancels_the_main_task_and_the_broker_closes_well(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncBroker.open(tmp_path) as broker, server(broker) as bob, broker.session("ALICE") as alice:
            await alice.send(SERVICE, b"x")
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
            unit = await bob.receive_unit()
            assert unit is not None
            await bob.receive_unit(wait=True)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    with Broker.open(tmp_path) as again, again.session("BOB", token="S1") as bob:
        bob.register(SERVICE)
        assert bodies(bob) == [b"x"]


def test_a_wait_ends_when_it_said(tmp_path: Path) -> None:
    async def script(broker: AsyncBroker, disk: WatchedDisk) -> None:
        async with server(broker) as bob:
            began = time.monotonic()
            times = [0.2, 0.05, 0.1]

            async def wait(token: int) -> float:
                async with server(broker, "CAROL", f"T{token}") as carol:
                    assert await carol.receive_unit(wait=times[token]) is None
                    return time.monotonic() - began

            took = await asyncio.gather(*(wait(token) for token in range(3)))
            assert all(each >= time for each, time in zip(took, times, strict=True))
            assert sorted(took) == [took[1], took[2], took[0]]
            assert await bob.receive_unit() is None

    played(tmp_path, script)


def test_a_loop_that_ends_with_a_commit_under_way_ends_quietly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody closes the broker: it is as if the process had died, but for the lock."""
    disk = WatchedDisk()

    def open_store(attributes: Attributes, *, creates: bool) -> PersistentStore:
        return JournalStore.open(tmp_path, journal_options(attributes), disk=disk, creates=creates)

    loop = asyncio.new_event_loop()
    broker = AsyncBroker.open(open_store=open_store)
    loop.run_until_complete(broker.__aenter__())
    assert broker._tasks is not None and broker._running is not None
    alice = broker.session("ALICE", token="A")
    loop.run_until_complete(alice.log_on())
    with disk.held():
        sending = loop.create_task(alice.send(SERVICE, b"x"))
        loop.run_until_complete(asyncio.sleep(0.01))
        disk.wait_for_write()
        sending.cancel()
        loop.run_until_complete(asyncio.gather(sending, return_exceptions=True))
        loop.close()
    broker._tasks._thread.shutdown(wait=True)
    broker._running.close()
    assert not caplog.records
    with Broker.open(tmp_path) as again, again.session("BOB") as bob:
        bob.register(SERVICE)
        assert bodies(bob) == [b"x"]
