"""Waiting for messages: in turn, threads and tasks together, and nothing is lost when somebody gives up."""

import asyncio
import functools
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseClosed, InvalidName, Message, MessageDatabase
from oms_journal.database.consumers import handing
from oms_journal.database.consumers.consumers import Waiter
from oms_journal.journal.errors import NotAttempted
from tests.support.disks.small_files import MODEST

LONG = 60.0


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST, cleanup_interval=0) as opened:
        yield opened


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(70) as started:
        yield started


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.0005)


def waiting(db: MessageDatabase, queue: str = "q") -> int:
    return len(db._consumers.waiting.get(queue, ()))


def waiters(
    db: MessageDatabase, pool: ThreadPoolExecutor, count: int, queue: Any = "q"
) -> list[Future[Message | None]]:
    """Return calls that wait, in the order in which they began."""
    line = queue if isinstance(queue, str) else queue[0]

    def stands(count: int) -> bool:
        return waiting(db, line) == count

    begun, calls = waiting(db, line), []
    for place in range(count):
        calls.append(pool.submit(db.take, queue, wait=LONG))
        until(functools.partial(stands, begun + place + 1))
    return calls


def got(call: Future[Message | None]) -> bytes | None:
    message = call.result(LONG)
    return None if message is None else message.payload


@pytest.mark.parametrize(
    "bring",
    [
        lambda db: [db.add("q", b"%d" % each) for each in range(4)],
        lambda db: db.add_many("q", [b"%d" % each for each in range(4)]),
        lambda db: db.add_many("q", [b"%d" % each for each in range(4)], properties=[{"k": "v"}] * 4),
    ],
    ids=["one by one", "in one commit", "with properties"],
)
def test_who_has_waited_longest_is_served_first(
    bring: Callable[[MessageDatabase], object], db: MessageDatabase, pool: ThreadPoolExecutor
) -> None:
    calls = waiters(db, pool, 4)
    bring(db)
    assert [got(call) for call in calls] == [b"0", b"1", b"2", b"3"]
    assert not db._consumers.waiting and db.take("q") is None


def test_one_message_wakes_one_of_those_who_wait(db: MessageDatabase, pool: ThreadPoolExecutor) -> None:
    calls = waiters(db, pool, 3)
    db.add("q", b"1")
    assert got(calls[0]) == b"1"
    assert waiting(db) == 2 and not any(call.done() for call in calls[1:])
    db.add("other", b"2")
    db.add_many("q", [b"3", b"4"])
    assert [got(call) for call in calls[1:]] == [b"3", b"4"]


def test_a_message_that_comes_back_goes_to_who_has_waited_longest(
    db: MessageDatabase, pool: ThreadPoolExecutor
) -> None:
    numbers = db.add_many("q", [b"1", b"2"])
    assert [message.number for message in db.take_many("q", 2)] == list(numbers)
    first, second = waiters(db, pool, 2)
    db.release(numbers[1])
    assert got(first) == b"2"
    db._handing.give_back([numbers[0]])
    assert got(second) == b"1"


def test_nobody_overtakes_who_waits(db: MessageDatabase, pool: ThreadPoolExecutor) -> None:
    (first,) = waiters(db, pool, 1)
    number = db.add("q", b"1")
    assert db.take("q") is None, "it was handed to who waited, in the commit that brought it"
    message = first.result(LONG)
    assert message is not None and message.number == number


def test_a_wait_that_is_over_returns_nothing_and_takes_nothing(db: MessageDatabase) -> None:
    assert db.take("q", wait=0.001) is None
    assert db.take_many("q", 3, wait=0.001) == []
    assert not db._consumers.waiting
    number = db.add("q", b"1")
    message = db.take("q", wait=LONG)
    assert message is not None and message.number == number, "what is there is not waited for"


def test_of_several_queues_the_first_that_has_a_message_is_taken_from(
    db: MessageDatabase, pool: ThreadPoolExecutor
) -> None:
    db.add("low", b"low")
    db.add("high", b"high")
    order = ("high", "middle", "low")
    found = [db.take(order) for _ in range(3)]
    assert [message and message.payload for message in found] == [b"high", b"low", None]
    (call,) = waiters(db, pool, 1, order)
    db.add("middle", b"middle")
    assert got(call) == b"middle"
    assert not db._consumers.waiting, "it waits in none of the others any more"


@pytest.mark.parametrize("ends", ["close", "with block"])
def test_closing_ends_every_wait(ends: str, tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    db = MessageDatabase.open(tmp_path)
    calls: list[Future[Any]] = [*waiters(db, pool, 2), pool.submit(db.take_many, "q", 5, wait=math.inf)]
    iterated = pool.submit(lambda: [message.payload for message in db.consume("q")])
    until(lambda: waiting(db) == 4)
    if ends == "close":
        db.close()
    else:
        with db:
            pass
    for call in calls:
        with pytest.raises(DatabaseClosed):
            call.result(LONG)
    assert iterated.result(LONG) == [], "going through a queue ends without an error"
    with pytest.raises(DatabaseClosed):
        db.take("q", wait=1)


def test_many_are_what_is_there_and_one_at_least(db: MessageDatabase, pool: ThreadPoolExecutor) -> None:
    db.add_many("q", [b"1", b"2"])
    assert [message.payload for message in db.take_many("q", 5, wait=LONG)] == [b"1", b"2"]
    call = pool.submit(db.take_many, "q", 5, wait=LONG)
    until(lambda: waiting(db) == 1)
    db.add_many("q", [b"3", b"4", b"5"])
    assert [message.payload for message in call.result(LONG)][:1] == [b"3"]


@pytest.mark.parametrize(
    ("queue", "given", "kind", "says"),
    [
        ("q", {"wait": -1}, ValueError, "at least 0"),
        ("q", {"wait": math.nan}, ValueError, "at least 0"),
        ("q", {"wait": "1"}, TypeError, "number of seconds"),
        ("q", {"wait": None}, TypeError, "number of seconds"),
        ("q", {"wait": True}, TypeError, "number of seconds"),
        ("q", {"wait": 10**400}, ValueError, "too large"),
        ("q", {"lease": 10**400}, ValueError, "too large"),
        ("q", {"lease": 0}, ValueError, "from 0.001"),
        ("q", {"lease": math.inf}, ValueError, "from 0.001"),
        ("q", {"lease": math.nan}, ValueError, "from 0.001"),
        ("q", {"lease": "5"}, TypeError, "number of seconds"),
        ((), {}, ValueError, "at least one queue"),
        (("q", 1), {}, TypeError, "queue must be text"),
        (("q", ""), {}, InvalidName, "empty"),
        (b"q", {}, TypeError, "queue must be text"),
        ({"q": 1}, {}, TypeError, "queue must be text"),
        (5, {}, TypeError, "queue must be text"),
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_taken(
    queue: Any, given: dict[str, Any], kind: type[Exception], says: str, db: MessageDatabase
) -> None:
    db.add("q", b"1")
    calls: list[Callable[[], object]] = [lambda: db.take(queue, **given)]
    if isinstance(queue, str):
        calls.append(lambda: db.take_many(queue, 2, **given))
    calls.append(lambda: db.taking(queue, **given))
    for call in calls:
        with pytest.raises(kind, match=says):
            call()
    assert not db.taken() and not db._consumers.waiting


# Going through a queue, and taking for a block.


def test_what_the_body_has_not_settled_is_given_back_when_it_goes_on(db: MessageDatabase) -> None:
    db.add_many("q", [b"%d" % each for each in range(4)])
    seen = []
    for message in db.consume("q"):
        seen.append(message.payload)
        if len(seen) == 6:
            break
        if message.payload in (b"1", b"2"):
            db.deliver(message)
    assert seen == [b"0", b"0", b"0", b"0", b"0", b"0"], "the oldest comes again, since nobody has delivered it"
    assert not db.taken()


@pytest.mark.parametrize("leaves", ["break", "return", "exception"])
def test_leaving_the_loop_gives_the_message_back_at_once(leaves: str, db: MessageDatabase) -> None:
    db.add("q", b"1")

    def body() -> None:
        for message in db.consume("q"):
            assert [one.number for one in db.taken("q")] == [message.number]
            if leaves == "break":
                break
            if leaves == "return":
                return
            raise KeyError

    if leaves == "exception":
        with pytest.raises(KeyError):
            body()
    else:
        body()
    assert not db.taken()
    assert db.take("q") is not None


def test_what_the_body_has_released_is_not_taken_from_who_has_it_then(db: MessageDatabase) -> None:
    db.add_many("q", [b"1", b"2"])
    for message in db.consume("q"):
        if message.payload == b"2":
            break
        db.release(message)
        other = db.take("q")
        assert other is not None and other.number == message.number
    (taken,) = db.taken("q")
    assert other is not None and taken.number == other.number, "the loop gave back its own only"


def test_a_block_delivers_at_its_end_and_gives_back_on_an_exception(db: MessageDatabase) -> None:
    number = db.add("q", b"1")
    with pytest.raises(KeyError), db.taking("q") as message:
        assert message is not None and message.number == number
        raise KeyError
    assert db.undelivered_count("q") == 1 and not db.taken()
    with db.taking("q", wait=1) as message:
        assert message is not None
    assert db.undelivered_count("q") == 0
    with db.taking("q") as message:
        assert message is None


@pytest.mark.parametrize("does", ["deliver", "delete", "release", "number"])
def test_a_block_leaves_alone_what_its_body_has_settled(does: str, db: MessageDatabase) -> None:
    db.add("q", b"1")
    with db.taking("q") as message:
        assert message is not None
        if does == "number":
            db.deliver(message.number)
        else:
            getattr(db, does)(message)
    assert db.undelivered_count("q") == (1 if does == "release" else 0)


def test_a_loop_that_a_collector_finds_where_the_lock_is_held_hangs_nobody(
    db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing, "COLLECTOR_SECONDS", 0.01)
    db.add("q", b"1")
    loop = db.consume("q")
    assert next(loop).attempts == 0
    with db._ledger.lock:
        del loop

    assert db.take("q") is not None


@pytest.mark.parametrize("is_leased", [True, False])
@pytest.mark.parametrize("what", [NotAttempted, KeyboardInterrupt])
def test_a_block_whose_delivery_fails_gives_its_message_back(
    what: type[BaseException], db: MessageDatabase, monkeypatch: pytest.MonkeyPatch, *, is_leased: bool
) -> None:
    def fails(*_: object) -> None:
        raise what("no")

    db.add("q", b"1")
    with pytest.raises(what), db.taking("q", lease=LONG if is_leased else None) as message:
        assert message is not None
        monkeypatch.setattr(db, "_write", fails)
    monkeypatch.undo()
    assert not db.taken()
    assert (again := db.take("q")) is not None and again.attempts == 1


def test_a_block_whose_delivery_may_be_on_its_way_keeps_its_message_until_that_is_known(
    db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    now = [0]
    monkeypatch.setattr(db._handing, "steady", lambda: now[0])
    db.add("q", b"1")
    is_idle, db._consumers.is_idle = db._consumers.is_idle, lambda: False
    with pytest.raises(KeyboardInterrupt), db.taking("q"):
        monkeypatch.setattr(db, "_write", fails)
    db._handing.look()
    assert db.take("q") is None

    db._consumers.is_idle, now[0] = is_idle, 10_000_000
    db._handing.look()
    now[0] = 20_000_000
    db._handing.look()

    assert db.take("q") is not None


def test_a_block_that_nobody_leaves_any_more_gives_its_message_back(db: MessageDatabase) -> None:
    """As where an interrupt comes when the end of the block is about to begin."""
    db.add("q", b"1")
    block = db.taking("q")
    assert block.__enter__() is not None

    del block

    assert db.take("q") is not None


@pytest.mark.parametrize("queue", ["", "q" * 256, ["q", ""]])
def test_a_name_that_nothing_can_have_is_told_before_a_loop_or_a_block_begins(queue: Any, db: MessageDatabase) -> None:
    for call in (db.consume, db.taking):
        with pytest.raises(InvalidName):
            call(queue)


def test_a_block_takes_once(db: MessageDatabase) -> None:
    block = db.taking("q")
    with block:
        pass
    with pytest.raises(Exception, match="takes one message"), block:
        pass


# Tasks.


def run(tmp_path: Path, play: Callable[[AsyncMessageDatabase], Any]) -> Any:
    async def all_of_it() -> Any:
        async with AsyncMessageDatabase.open(tmp_path, max_data_file_size=MODEST) as db:
            return await play(db)

    return asyncio.run(asyncio.wait_for(all_of_it(), LONG))


async def tasks_waiting(db: AsyncMessageDatabase, count: int) -> list[asyncio.Task[Message | None]]:
    tasks = []
    for place in range(count):
        tasks.append(asyncio.create_task(db.take("q", wait=LONG)))
        while waiting(db._database) != place + 1:
            await asyncio.sleep(0)
    return tasks


def test_tasks_are_served_in_turn(tmp_path: Path) -> None:
    async def play(db: AsyncMessageDatabase) -> None:
        tasks = await tasks_waiting(db, 4)
        await db.add("q", b"0")
        await db.add_many("q", [b"1", b"2"])
        await db.add("q", b"3", properties={"k": "v"})
        found = await asyncio.gather(*tasks)
        assert [message and message.payload for message in found] == [b"0", b"1", b"2", b"3"]
        assert await db.take("q", wait=0.001) is None
        assert await db.take_many("q", 3, wait=0.001) == []

    run(tmp_path, play)


@pytest.mark.parametrize("turns", range(5))
def test_a_task_that_is_cancelled_while_it_is_served_passes_the_message_on(tmp_path: Path, turns: int) -> None:
    async def play(db: AsyncMessageDatabase) -> None:
        for _ in range(20):
            first, second = await tasks_waiting(db, 2)
            adding = asyncio.create_task(db.add("q", b"1"))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            (found,) = await asyncio.gather(first, return_exceptions=True)
            if isinstance(found, Message):
                await db.add("q", b"2")
            message = await second
            assert message is not None
            await adding
            assert await db.deliver_many([one for one in (found, message) if isinstance(one, Message)]) >= 1
            assert not db.undelivered_count() and not db.taken()

    run(tmp_path, play)


def test_threads_and_tasks_wait_in_one_line(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with MessageDatabase.open(tmp_path) as opened:

        async def play() -> list[bytes | None]:
            async with AsyncMessageDatabase.wrap(opened) as db:
                calls: list[Any] = []
                for place in range(6):
                    if place % 2:
                        calls.append(asyncio.create_task(db.take("q", wait=LONG)))
                    else:
                        calls.append(asyncio.wrap_future(pool.submit(opened.take, "q", wait=LONG)))
                    while waiting(opened) != place + 1:
                        await asyncio.sleep(0.0005)
                await asyncio.to_thread(lambda: [opened.add("q", b"%d" % each) for each in range(6)])
                return [message.payload for message in await asyncio.gather(*calls)]

        assert asyncio.run(asyncio.wait_for(play(), LONG)) == [b"%d" % each for each in range(6)]


def test_closing_ends_the_waits_of_tasks(tmp_path: Path) -> None:
    async def play() -> list[Any]:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            tasks = [
                asyncio.ensure_future(each) for each in (db.take("q", wait=math.inf), db.take_many("q", 2, wait=9e9))
            ]

            async def through() -> list[Message]:
                return [message async for message in db.consume("q")]

            tasks.append(asyncio.ensure_future(through()))
            while waiting(db._database) != 3:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks, return_exceptions=True)

    one, many, through = asyncio.run(asyncio.wait_for(play(), LONG))
    assert isinstance(one, DatabaseClosed) and isinstance(many, DatabaseClosed) and through == []


@pytest.mark.parametrize("leaves", ["break", "return", "exception", "cancel"])
def test_leaving_the_loop_of_a_task_gives_the_message_back_at_once(leaves: str, tmp_path: Path) -> None:
    async def body(db: AsyncMessageDatabase) -> None:
        async for _ in db.consume("q"):
            if leaves == "break":
                break
            if leaves == "return":
                return
            if leaves == "cancel":
                await asyncio.sleep(LONG)
            raise KeyError

    async def play(db: AsyncMessageDatabase) -> None:
        await db.add("q", b"1")
        task = asyncio.create_task(body(db))
        while leaves == "cancel" and not db.taken():
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        if leaves == "cancel":
            task.cancel()
        await asyncio.wait([task])
        if leaves == "exception":
            assert isinstance(task.exception(), KeyError)
        del task
        assert not db.taken()

    run(tmp_path, play)


def test_a_block_of_a_task_delivers_or_gives_back(tmp_path: Path) -> None:
    async def play(db: AsyncMessageDatabase) -> None:
        await db.add("q", b"1")
        with pytest.raises(KeyError):
            async with db.taking("q", wait=1) as message:
                assert message is not None
                raise KeyError
        assert not db.taken()
        async with db.taking("q", wait=1, lease=30) as message:
            assert message is not None
        assert not db.undelivered_count()
        async with db.taking("q") as message:
            assert message is None

    run(tmp_path, play)


def test_nothing_is_lost_or_handed_out_twice_among_many_who_wait_and_give_up(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """Threads and tasks wait for short times, so that giving up and being served meet, while others add and release."""
    count, chance = 400, random.Random(7)
    done: list[int] = []
    is_over = threading.Event()

    def consume(seed: int) -> None:
        mine = random.Random(seed)
        while not is_over.is_set():
            message = opened.take("q", wait=mine.choice((0, 0.0002, 0.002, 0.05)), lease=mine.choice((None, 20)))
            if message is None:
                continue
            if mine.random() < 0.2:
                assert opened.release(message)
            else:
                assert opened.deliver(message)
                done.append(message.number)

    async def tasks() -> None:
        async def consume(seed: int) -> None:
            mine = random.Random(seed)
            while not is_over.is_set():
                taking = asyncio.create_task(db.take("q", wait=mine.choice((0.0002, 0.002, 0.05))))
                if mine.random() < 0.3:
                    await asyncio.sleep(mine.choice((0, 0.0002)))
                    taking.cancel()
                (message,) = await asyncio.gather(taking, return_exceptions=True)
                if isinstance(message, Message):
                    assert await db.deliver(message)
                    done.append(message.number)

        async with AsyncMessageDatabase.wrap(opened) as db:
            await asyncio.gather(*(consume(100 + each) for each in range(6)))

    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST, cleanup_interval=0) as opened:
        calls: list[Future[None]] = [pool.submit(consume, each) for each in range(6)]
        calls.append(pool.submit(asyncio.run, tasks()))
        numbers: list[int] = []
        while len(numbers) < count:
            numbers += opened.add_many("q", [b"x"] * chance.randint(1, 5))
            time.sleep(chance.choice((0, 0.0005)))
        until(lambda: not opened.undelivered_count())
        is_over.set()
        for call in calls:
            call.result(LONG)
        assert sorted(done) == numbers
        assert not opened.taken() and not opened._consumers.waiting


def test_thousands_who_wait_on_a_loop_that_is_gone_hold_up_no_commit(db: MessageDatabase) -> None:
    class Gone(Waiter):
        def wake(self) -> bool:
            return False

    for _ in range(5000):
        db._consumers.wait(Gone(("q",), "nobody"))
    number = db.add("q", b"1")
    assert not db._consumers.waiting
    message = db.take("q")
    assert message is not None and message.number == number


def test_an_interrupt_while_a_loop_gives_back_leaves_the_message_with_nobody(db: MessageDatabase) -> None:
    number = db.add("q", b"1")
    through = db.consume("q")
    assert next(through).number == number
    look = db._handing._look_soon
    db._handing._look_soon = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        through.close()  # type: ignore[attr-defined]
    db._handing._look_soon = look  # type: ignore[method-assign]
    message = db.take("q")
    assert message is not None and message.number == number
    del through
    assert [taken.number for taken in db.taken()] == [number], "it is not given back once more"


def interrupted() -> None:
    raise KeyboardInterrupt
