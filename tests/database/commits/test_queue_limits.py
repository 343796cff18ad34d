"""Queues that hold only so much: refused, waited for in turn, never more than the limit, and no room is lost."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oms_journal import (
    AsyncMessageDatabase,
    CommitFailed,
    DatabaseClosed,
    DiskFull,
    DuplicateConflict,
    LimitExceeded,
    MessageDatabase,
    NotUndelivered,
    QueueFull,
    QueueOptions,
)
from oms_journal.database.commits.limited import LimitedLedger
from tests.support.crashes.crash_model import open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk

LONG = TIMEOUT_SECONDS  # a wait that ends before its time, unless a wake-up is lost
THREE = {"q": QueueOptions(max_messages=3)}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    """A database whose queue "q" holds three messages."""
    with MessageDatabase.open(tmp_path, queues=THREE, cleanup_interval=0) as opened:
        yield opened


def fill(db: MessageDatabase, count: int = 3) -> list[int]:
    return [db.add("q", b"%d" % place) for place in range(count)]


def waiting(db: MessageDatabase, queue: str = "q") -> int:
    """Return how many callers wait for room in the queue."""
    assert isinstance(db._ledger, LimitedLedger)
    with db._ledger.lock:
        room = db._ledger.limits._rooms.get(queue)
        return 0 if room is None else len(room.line)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.001)


async def wait_until_async(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not is_so():
            await asyncio.sleep(0.001)


def assert_nothing_is_left(db: MessageDatabase) -> None:
    """Check that nothing is spoken for and nobody waits, when nobody is at work."""
    assert isinstance(db._ledger, LimitedLedger)
    assert (db._ledger.limits._rooms, db._ledger.limits._lined_up) == ({}, {})


# What is refused.


ADDS: dict[str, Callable[[MessageDatabase], Any]] = {
    "add": lambda db: db.add("q", b"x"),
    "add with properties": lambda db: db.add("q", b"x", properties={"a": "b"}),
    "add with an identifier": lambda db: db.add("q", b"x", producer_id="1"),
    "add_many": lambda db: db.add_many("q", [b"x"]),
    "add_many with properties": lambda db: db.add_many("q", [b"x"], properties=[{"a": "b"}]),
    "add, waiting for no time": lambda db: db.add("q", b"x", wait=0),
    "add_many, waiting for no time": lambda db: db.add_many("q", [b"x"], wait=0.0),
}


def _block(db: MessageDatabase) -> None:
    with db.commit() as block:
        block.add("q", b"x")
        block.add("other", b"x")


ADDS["a block"] = _block


@pytest.mark.parametrize("way", ADDS)
def test_a_full_queue_takes_nothing_and_the_error_has_the_facts(way: str, db: MessageDatabase) -> None:
    numbers = fill(db)
    for _ in range(2):
        with pytest.raises(QueueFull, match="queue 'q' is full: it may hold 3 messages, and has 3") as caught:
            ADDS[way](db)
    failure = caught.value
    assert (failure.queue, failure.limit, failure.count, failure.unit, failure.waiting) == ("q", 3, 3, "messages", 0)
    assert list(db.numbers()) == numbers
    assert db.add("other", b"x"), "another queue goes on"

    db.deliver(numbers[1])
    ADDS[way](db)

    assert db.undelivered_count("q") == 3
    assert_nothing_is_left(db)


TASKS: dict[str, Callable[[AsyncMessageDatabase], Any]] = {
    "add": lambda db: db.add("q", b"x"),
    "add with properties": lambda db: db.add("q", b"x", properties={"a": "b"}),
    "add_many": lambda db: db.add_many("q", [b"x"]),
    "add, waiting for no time": lambda db: db.add("q", b"x", wait=0),
}


@pytest.mark.parametrize("way", TASKS)
def test_a_full_queue_takes_nothing_from_tasks_either(way: str, db: MessageDatabase) -> None:
    async def main() -> list[object]:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            adds = [TASKS[way](wrapped) for _ in range(5)]
            return list(await asyncio.gather(*adds, wrapped.add("other", b"x"), return_exceptions=True))

    *answers, other = asyncio.run(main())

    assert [isinstance(answer, QueueFull) for answer in answers] == [False] * 3 + [True] * 2
    assert (db.undelivered_count("q"), db.undelivered_count("other"), isinstance(other, int)) == (3, 1, True)
    assert_nothing_is_left(db)


def test_what_counts_is_undelivered_taken_or_not(db: MessageDatabase) -> None:
    fill(db)
    message = db.take("q")
    assert message is not None
    with pytest.raises(QueueFull):
        db.add("q", b"x")
    db.deliver(message)
    fill(db, 1)


def test_bytes_are_those_of_payloads_and_properties(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, queues={"q": QueueOptions(max_bytes="1K")}) as db:
        db.add("q", bytes(500))
        db.add("q", b"", properties={"name": "x" * 300})
        has = db.stats().queues["q"].bytes
        db.add("q", bytes(1024 - has))
        with pytest.raises(QueueFull, match="may hold 1,024 bytes, and has 1,024") as caught:
            db.add("q", b"x")
        assert (caught.value.unit, caught.value.limit, caught.value.count) == ("bytes", 1024, 1024)
        db.add("q", b"")


@pytest.mark.parametrize(("count", "size", "refused"), [(2, 90, None), (3, 10, "messages"), (2, 91, "bytes")])
def test_both_limits_hold(count: int, size: int, refused: str | None, tmp_path: Path) -> None:
    options = QueueOptions(max_messages=3, max_bytes=190)
    with MessageDatabase.open(tmp_path, queues={"q": options}) as db:
        db.add("q", bytes(10))
        try:
            db.add_many("q", [bytes(size)] * count)
        except QueueFull as failure:
            assert failure.unit == refused
        else:
            assert refused is None


def test_a_limit_of_all_queues_holds_for_each_that_has_no_options_of_its_own(tmp_path: Path) -> None:
    queues = {"more": QueueOptions(max_messages=5), "any": QueueOptions()}
    with MessageDatabase.open(tmp_path, max_messages=2, max_bytes=100, queues=queues) as db:
        for queue, most in (("a", 2), ("b", 2), ("more", 5)):
            db.add_many(queue, [b"x"] * most)
            with pytest.raises(QueueFull):
                db.add(queue, b"x")
        with pytest.raises(LimitExceeded):
            db.add("c", bytes(101))
        db.add_many("any", [bytes(200)] * 50)


def test_without_limits_nothing_of_them_is_there(tmp_path: Path) -> None:
    given: list[dict[str, Any]] = [{}, {"queues": {}}, {"queues": {"q": QueueOptions()}}, {"max_messages": None}]
    for named in given:
        with MessageDatabase.open(tmp_path, **named) as db:
            assert not isinstance(db._ledger, LimitedLedger)
            db.add("q", b"x", wait=1)


@pytest.mark.parametrize("wait", [None, 0, LONG])
def test_what_never_fits_is_refused_at_once(wait: float | None, db: MessageDatabase) -> None:
    with pytest.raises(LimitExceeded, match="adds 4 messages to queue 'q', which may hold at most 3"):
        db.add_many("q", [b"x"] * 4, wait=wait)

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            with pytest.raises(LimitExceeded):
                await wrapped.add_many("q", [b"x"] * 4, wait=wait)

    asyncio.run(main())
    assert db.undelivered_count() == 0
    db.add_many("q", [b"x"] * 3)
    assert_nothing_is_left(db)


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("new", range(5))
def test_a_block_may_add_as_much_as_it_removes_and_as_there_is_room(gone: int, new: int, db: MessageDatabase) -> None:
    numbers = fill(db)
    before = db.undelivered_count()
    try:
        with db.commit() as block:
            block.deliver_many(numbers[:gone])
            for _ in range(new):
                block.add("q", b"new")
    except (QueueFull, LimitExceeded):
        assert new > gone
        assert db.undelivered_count() == before
    else:
        assert new <= gone
        assert db.undelivered_count() == 3 - gone + new
    assert_nothing_is_left(db)


def test_what_a_block_removes_elsewhere_makes_no_room(db: MessageDatabase) -> None:
    fill(db)
    other = db.add("other", b"x")
    with pytest.raises(QueueFull), db.commit() as block:
        block.deliver(other)
        block.add("q", b"x")
    assert db.undelivered_count("other") == 1


@pytest.mark.parametrize("way", ["removed twice", "another payload"])
def test_what_is_refused_for_another_reason_takes_no_room(way: str, db: MessageDatabase) -> None:
    (number,) = fill(db, 1)
    db.add("other", b"x", producer_id="1")
    for _ in range(5):
        with pytest.raises((NotUndelivered, DuplicateConflict)), db.commit() as block:
            block.add("q", b"x")
            if way == "removed twice":
                block.deliver(number)
                db.deliver(number)
            else:
                block.add("other", b"y", producer_id="1")
        number = number if way != "removed twice" else db.add("q", b"x")
    assert_nothing_is_left(db)
    fill(db, 2)


# Repeats.


@pytest.mark.parametrize("wait", [None, 0, LONG])
def test_a_resend_to_a_full_queue_is_answered(wait: float | None, db: MessageDatabase) -> None:
    first = db.add("q", b"a", producer_id="1")
    many = db.add_many("q", [b"a", b"b"], producer_id="2")

    async def main() -> Any:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            return await wrapped.add("q", b"a", producer_id="1", wait=wait)

    for again in (db.add("q", b"a", producer_id="1", wait=wait), asyncio.run(main())):
        assert (again, again.is_repeat) == (first, True)
    same = db.add_many("q", [b"a", b"b"], producer_id="2", wait=wait)
    assert (same, same.is_repeat) == (many, True)
    assert_nothing_is_left(db)


def test_of_those_that_wait_with_one_identifier_one_adds_and_the_room_of_the_others_is_passed_on(
    db: MessageDatabase,
) -> None:
    numbers = fill(db)
    with ThreadPoolExecutor(5) as pool:
        same = [pool.submit(db.add, "q", b"a", producer_id="1", wait=LONG) for _ in range(3)]
        wait_until(lambda: waiting(db) == 3)
        last = [pool.submit(db.add, "q", b"last", wait=LONG) for _ in range(2)]
        wait_until(lambda: waiting(db) == 5)
        db.deliver_many(numbers)
        answers = [one.result(LONG) for one in same]

        assert sorted(answer.is_repeat for answer in answers) == [False, True, True]
        assert len({int(answer) for answer in answers}) == 1
        assert all(one.result(LONG) for one in last)
    assert_nothing_is_left(db)


def test_a_resend_that_was_not_known_when_it_lined_up_is_answered_when_its_time_is_up(db: MessageDatabase) -> None:
    numbers = fill(db)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(db.add, "q", b"a", producer_id="1", wait=LONG)
        wait_until(lambda: waiting(db) == 1)
        again = pool.submit(db.add, "q", b"a", producer_id="1", wait=0.2)
        wait_until(lambda: waiting(db) == 2 or again.done())
        db.deliver(numbers[0])

        assert first.result(LONG) == again.result(LONG)
        assert again.result().is_repeat
    assert_nothing_is_left(db)


# Restarts.


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_after_a_restart_what_is_undelivered_counts(most: int, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        numbers = fill(db)
    with MessageDatabase.open(tmp_path, max_messages=most) as db:
        removed = 0
        while True:
            try:
                db.add("q", b"x")
                break
            except QueueFull as failure:
                assert failure.count == 3 - removed
                db.deliver(numbers[removed])
                removed += 1
        assert removed == max(0, 3 - most + 1)


# Waiting.


def test_who_waits_gets_the_room_that_a_delivery_leaves(db: MessageDatabase) -> None:
    number, *_ = fill(db)
    with ThreadPoolExecutor(1) as pool:
        added = pool.submit(db.add, "q", b"late", wait=LONG)
        wait_until(lambda: waiting(db) == 1)
        assert not added.done()
        db.deliver(number)
        assert db.read(added.result(LONG)).payload == b"late"
    assert_nothing_is_left(db)


@pytest.mark.parametrize("seconds", [0, 0.01, 0.05])
def test_who_waits_is_refused_when_the_time_is_up(seconds: float, db: MessageDatabase) -> None:
    fill(db)
    began = time.monotonic()
    with pytest.raises(QueueFull):
        db.add("q", b"x", wait=seconds)
    assert time.monotonic() - began >= seconds

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            with pytest.raises(QueueFull):
                await wrapped.add("q", b"x", wait=seconds)

    asyncio.run(main())
    assert_nothing_is_left(db)


@pytest.mark.parametrize("wait", [-1, -0.001, float("nan"), "1", True, object(), 1j])
def test_a_wait_is_a_number_of_seconds(wait: Any, db: MessageDatabase) -> None:
    async def main(verb: str, given: Any) -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            await getattr(wrapped, verb)("q", given, wait=wait)

    for verb, given in (("add", b"x"), ("add_many", [b"x"])):
        with pytest.raises((TypeError, ValueError), match="wait must be"):
            getattr(db, verb)("q", given, wait=wait)
        with pytest.raises((TypeError, ValueError), match="wait must be"):
            asyncio.run(main(verb, given))
    assert db.undelivered_count() == 0


def test_threads_and_tasks_get_room_in_the_order_in_which_they_came(db: MessageDatabase) -> None:
    numbers = fill(db)
    order: list[int] = []

    async def task(wrapped: AsyncMessageDatabase, place: int) -> None:
        await wrapped.add("q", b"%d" % place, wait=LONG)
        order.append(place)

    def thread(place: int) -> None:
        db.add("q", b"%d" % place, wait=LONG)
        order.append(place)

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            begun: list[Any] = []
            for place in range(8):
                if place % 2:
                    begun.append(asyncio.create_task(task(wrapped, place)))
                else:
                    begun.append(asyncio.get_running_loop().run_in_executor(pool, thread, place))
                await wait_until_async(lambda: waiting(db) == len(begun))
            for place in range(8):
                await wrapped.deliver(numbers[place])
                await wait_until_async(lambda: len(order) > place)  # noqa: B023
                numbers.append(list(db.numbers("q"))[-1])

    with ThreadPoolExecutor(8) as pool:
        asyncio.run(main())

    assert order == list(range(8))
    assert_nothing_is_left(db)


def test_nobody_overtakes_who_waits_for_more_room_than_there_is(db: MessageDatabase) -> None:
    numbers = fill(db)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(db.add_many, "q", [b"1", b"2"], wait=LONG)
        wait_until(lambda: waiting(db) == 1)
        db.deliver(numbers[0])
        with pytest.raises(QueueFull, match="and 1 callers wait for room") as caught:
            db.add("q", b"small")
        assert (caught.value.count, caught.value.waiting) == (2, 1)
        small = pool.submit(db.add, "q", b"small", wait=LONG)
        wait_until(lambda: waiting(db) == 2)
        db.deliver(numbers[1])
        assert large.result(LONG)
        assert not small.done()
        db.deliver(numbers[2])
        assert small.result(LONG) > large.result()[-1]
    assert_nothing_is_left(db)


@pytest.mark.parametrize("way", ["time", "cancelled"])
def test_who_gives_up_at_the_head_of_the_line_lets_the_next_one_in(way: str, db: MessageDatabase) -> None:
    numbers = fill(db)
    db.deliver(numbers[0])

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            wait = 0.2 if way == "time" else LONG
            large = asyncio.create_task(wrapped.add_many("q", [b"1", b"2"], wait=wait))
            await wait_until_async(lambda: waiting(db) == 1)
            small = asyncio.create_task(wrapped.add("q", b"small", wait=LONG))
            await wait_until_async(lambda: waiting(db) == 2 or large.done())
            if way == "cancelled":
                large.cancel()
            with pytest.raises((QueueFull, asyncio.CancelledError)):
                await large
            async with asyncio.timeout(LONG):
                assert await small

    asyncio.run(main())
    assert [message.payload for message in db.undelivered("q")][-1] == b"small"
    assert_nothing_is_left(db)


@pytest.mark.parametrize("turns", range(6))
def test_a_task_that_is_cancelled_around_its_turn_adds_whole_or_passes_the_room_on(
    turns: int, db: MessageDatabase
) -> None:
    numbers = fill(db)

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            first = asyncio.create_task(wrapped.add("q", b"first", wait=LONG))
            await wait_until_async(lambda: waiting(db) == 1)
            second = asyncio.create_task(wrapped.add("q", b"second", wait=LONG))
            await wait_until_async(lambda: waiting(db) == 2)
            removing = asyncio.create_task(wrapped.deliver(numbers[0]))
            while numbers[0] in set(db.numbers("q")):
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(first, removing, return_exceptions=True)
            async with asyncio.timeout(LONG):
                while waiting(db) and b"first" not in [message.payload for message in db.undelivered("q")]:
                    await asyncio.sleep(0.001)
            assert db.undelivered_count("q") <= 3
            db.purge("q")
            async with asyncio.timeout(LONG):
                await second

    asyncio.run(main())
    assert_nothing_is_left(db)


def test_close_ends_every_wait(tmp_path: Path) -> None:
    db = MessageDatabase.open(tmp_path, queues=THREE)
    fill(db)

    async def main(pool: ThreadPoolExecutor) -> list[object]:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            tasks = [asyncio.create_task(wrapped.add("q", b"task", wait=LONG)) for _ in range(3)]
            threads = [pool.submit(db.add, "q", b"thread", wait=LONG) for _ in range(3)]
            await wait_until_async(lambda: waiting(db) == 6)
            await asyncio.to_thread(db.close)
            found: list[object] = list(await asyncio.gather(*tasks, return_exceptions=True))
            return [*found, *(one.exception(LONG) for one in threads)]

    with ThreadPoolExecutor(3) as pool:
        failures = asyncio.run(main(pool))

    assert [type(failure) for failure in failures] == [DatabaseClosed] * 6
    with pytest.raises(DatabaseClosed):
        db.add("q", b"x", wait=LONG)


def test_a_database_that_failed_ends_every_wait(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with MessageDatabase.open(tmp_path, queues=THREE, disk=disk) as db, ThreadPoolExecutor(2) as pool:
        numbers = fill(db)
        waits = [pool.submit(db.add, "q", b"x", wait=LONG) for _ in range(2)]
        wait_until(lambda: waiting(db) == 2)
        disk.failure = OSError(5, "I/O error")
        with pytest.raises(CommitFailed):
            db.deliver(numbers[0])
        assert all(isinstance(one.exception(LONG), CommitFailed) for one in waits)
        disk.failure = None


def test_a_purge_wakes_as_many_as_it_makes_room_for(db: MessageDatabase) -> None:
    fill(db)
    with ThreadPoolExecutor(5) as pool:
        waits = [pool.submit(db.add, "q", b"late", wait=LONG) for _ in range(5)]
        wait_until(lambda: waiting(db) == 5)
        assert db.purge("q") == 3
        wait_until(lambda: sum(one.done() for one in waits) == 3)
        assert (db.undelivered_count("q"), waiting(db)) == (3, 2)
        db.purge("q")
        assert all(one.result(LONG) for one in waits)
    assert_nothing_is_left(db)


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_what_was_refused_stays_so_and_another_draft_is_written_in_its_turn(
    face: str, db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader may tell the waiter of a draft that it has settled once more, when its caller has gone on."""
    number, *_ = fill(db)
    handed_in: list[Any] = []
    commit, submit = db._group.commit, db._group.submit

    def committed(draft: Any) -> None:
        handed_in.append(draft)
        commit(draft)

    def submitted(drafts: Any) -> bool:
        handed_in.extend(drafts)
        return submit(drafts)

    monkeypatch.setattr(db._group, "commit", committed)
    monkeypatch.setattr(db._group, "submit", submitted)

    async def main() -> int:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            return await wrapped.add("q", b"late", wait=LONG)

    with ThreadPoolExecutor(1) as pool:
        added = pool.submit(lambda: db.add("q", b"late", wait=LONG) if face == "threads" else asyncio.run(main()))
        wait_until(lambda: waiting(db) == 1)
        refused = next(draft for draft in handed_in if draft.runs)  # the thread that vouches commits nothing
        wait_until(lambda: refused.failure is not None)  # it stands in line a moment before that is noted
        waiter, failure = refused.waiter, refused.failure
        db.deliver(number)
        assert db.read(added.result(LONG)).payload == b"late"

    assert isinstance(failure, QueueFull)
    assert (refused.waiter, refused.failure) == (waiter, failure)
    assert refused is not handed_in[-1] and handed_in[-1].answer is not None


def test_a_dead_letter_is_moved_to_a_full_queue_and_makes_room_in_its_own(tmp_path: Path) -> None:
    queues = {"q": QueueOptions(max_messages=2), "dead": QueueOptions(max_messages=1)}
    with MessageDatabase.open(tmp_path, queues=queues, max_attempts=1, dead_letter="dead") as db:
        fill(db, 2)
        with ThreadPoolExecutor(2) as pool:
            waits = [pool.submit(db.add, "q", b"late", wait=LONG) for _ in range(2)]
            wait_until(lambda: waiting(db) == 2)
            for message in db.take_many("q", 2):
                db.release(message)
            assert all(one.result(LONG) for one in waits)
        wait_until(lambda: db.undelivered_count("dead") == 2)
        letter = db.take("dead")
        assert letter is not None
        with pytest.raises(QueueFull):
            db.requeue([letter])
        db.purge("q")
        assert db.requeue([letter])


# Commits that are not written.


def test_a_commit_that_finds_no_space_gives_its_room_back() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk, queues=THREE) as db:
        fill(db, 1)
        disk.space = disk.used()
        refused = 0
        for _ in range(40):
            try:
                db.add("other", bytes(2000))
            except DiskFull:
                refused += 1
                with pytest.raises(DiskFull):
                    db.add("q", bytes(2000))
        assert refused > 3, "the disk was full"
        assert_nothing_is_left(db)
        disk.space = None
        db._journal.maintain()
        fill(db, 2)
        with pytest.raises(QueueFull):
            db.add("q", b"x")


def test_what_is_on_its_way_counts(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with MessageDatabase.open(tmp_path, queues=THREE, disk=disk) as db, ThreadPoolExecutor(6) as pool:
        db.add("other", b"the file is begun")
        with disk.held():
            held = pool.submit(db.add, "other", b"x")
            disk.wait_for_write()
            adds = [pool.submit(db.add, "q", b"x") for _ in range(5)]
            wait_until(lambda: len(db._group._queue) == 5)
        held.result(LONG)
        assert sorted(one.exception(LONG) is None for one in adds) == [False, False, True, True, True]
        assert db.undelivered_count("q") == 3
        assert_nothing_is_left(db)


@pytest.mark.parametrize("order", [("block", "add"), ("add", "block"), ("block", "block")], ids=" ".join)
def test_a_block_that_makes_its_own_room_leaves_that_of_who_is_written_with_it(
    order: tuple[str, str], tmp_path: Path
) -> None:
    """The block counts for nothing. Whichever goes out first, nothing of the other's is taken away."""
    disk = WatchedDisk()
    with MessageDatabase.open(tmp_path, queues=THREE, disk=disk) as db, ThreadPoolExecutor(3) as pool:
        numbers = fill(db, 2)
        exchanged = iter(numbers)

        def block() -> None:
            with db.commit() as commit:
                commit.deliver(next(exchanged))
                commit.add("q", b"x")

        made: dict[str, Callable[[], object]] = {"block": block, "add": lambda: db.add("q", b"x")}
        with disk.held():
            held = pool.submit(db.add, "other", b"x")
            disk.wait_for_write()
            both: list[Future[object]] = []
            for place, name in enumerate(order, 1):
                both.append(pool.submit(made[name]))
                wait_until(lambda place=place: len(db._group._queue) == place)  # type: ignore[misc]
        held.result(LONG)
        for one in both:
            one.result(LONG)
        assert db.undelivered_count("q") == 2 + order.count("add")
        assert_nothing_is_left(db)


# All of it at once.


class Watch:
    """Looks at every commit that becomes visible whether the queue holds more than it may."""

    def __init__(self, db: MessageDatabase, most: int) -> None:
        self.highest = 0
        ledger, apply = db._ledger, db._ledger.apply

        def watched(group: Any) -> None:
            apply(group)
            self.highest = max(self.highest, ledger.index.table.undelivered_count("q"))
            assert self.highest <= most

        ledger.apply = watched  # type: ignore[method-assign]


class Callers:
    """Threads and tasks that add to a queue of one database, wait for room, and deliver what is there."""

    ROUNDS = 15

    def __init__(self, db: MessageDatabase, seed: int, most: int) -> None:
        self.db, self.seed, self.most = db, seed, most
        self.added: list[int] = []
        self.delivered: list[int] = []
        self.is_over = threading.Event()

    def add(self, worker: int) -> None:
        """Add in a thread: a few at once, with an identifier now and then, and that a second time."""
        mine = random.Random(f"{self.seed} {worker}")
        for place in range(self.ROUNDS):
            payloads = [b"x"] * mine.randint(1, min(self.most, 3))
            producer = f"{worker} {place}" if mine.random() < 0.3 else None
            for _ in range(2 if producer and mine.random() < 0.5 else 1):
                numbers = self.db.add_many("q", payloads, producer_id=producer, wait=LONG)
            self.added.extend(numbers)

    def add_in_tasks(self, workers: int) -> None:
        async def main() -> None:
            async with AsyncMessageDatabase.wrap(self.db) as wrapped:
                await asyncio.gather(*(self._task(wrapped, worker) for worker in range(workers)))

        asyncio.run(main())

    async def _task(self, wrapped: AsyncMessageDatabase, worker: int) -> None:
        """Add in a task, and cancel an add now and then."""
        mine = random.Random(f"{self.seed} task {worker}")
        for _ in range(self.ROUNDS):
            adding = asyncio.create_task(wrapped.add("q", b"x", wait=LONG))
            if mine.random() < 0.8:
                self.added.append(await adding)
                continue
            for _ in range(mine.randrange(8)):
                await asyncio.sleep(0)
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)

    def deliver(self) -> None:
        while not self.is_over.is_set() or self.db.ready_count("q"):
            message = self.db.take("q")
            if message is not None:
                assert self.db.deliver(message)
                self.delivered.append(message.number)
            else:
                time.sleep(0.0005)


@pytest.mark.parametrize("seed", range(4))
def test_many_threads_and_tasks_never_go_above_the_limit_and_all_get_in(seed: int, tmp_path: Path) -> None:
    most = random.Random(seed).choice([1, 3, 7])
    with (
        MessageDatabase.open(tmp_path, queues={"q": QueueOptions(max_messages=most)}, cleanup_interval=0) as db,
        ThreadPoolExecutor(8) as pool,
    ):
        watch, callers = Watch(db, most), Callers(db, seed, most)
        consumers = [pool.submit(callers.deliver) for _ in range(2)]
        producers = [pool.submit(callers.add, worker) for worker in range(3)]
        producers.append(pool.submit(callers.add_in_tasks, 4))
        try:
            for producer in producers:
                producer.result(2 * LONG)
        finally:
            callers.is_over.set()
        for consumer in consumers:
            consumer.result(LONG)

        assert 0 < watch.highest <= most
        assert set(callers.added) <= set(callers.delivered)
        assert len(set(callers.delivered)) == len(callers.delivered)
        assert db.undelivered_count() == 0
        assert_nothing_is_left(db)
