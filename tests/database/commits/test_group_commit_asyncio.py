"""Group commit on an event loop: tasks share syncs, among themselves and with threads, and the loop never stalls."""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from oms_journal import Added, AsyncMessageDatabase, DatabaseClosed, MessageDatabase, NotAttempted, OutcomeUnknown
from oms_journal.database import maintenance
from oms_journal.database.asynchronous import FAST_COUNT, LoopCommit
from oms_journal.journal.errors import JournalError
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk

T = TypeVar("T")


@pytest.fixture(autouse=True)
def no_vouching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit come from the thread that vouches after a second: commits are counted here."""
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def db(tmp_path: Path, disk: WatchedDisk) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", disk=disk, max_data_file_size=MODEST, cleanup_interval=0) as database:
        yield database


def _run(main: Callable[[AsyncMessageDatabase], Coroutine[Any, Any, T]], db: MessageDatabase) -> T:
    """Run a coroutine with the asyncio side of the database; no test waits for ever."""

    async def entered() -> T:
        async with asyncio.timeout(TIMEOUT_SECONDS), AsyncMessageDatabase.wrap(db) as adb:
            return await main(adb)

    return asyncio.run(entered())


def _side(adb: AsyncMessageDatabase) -> LoopCommit:
    assert adb._commits is not None
    return adb._commits


async def _write_held_up(disk: WatchedDisk) -> None:
    await asyncio.to_thread(disk.wait_for_write)


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _until_fast(adb: AsyncMessageDatabase, disk: WatchedDisk) -> None:
    disk.syncs = False  # whatever device the tests run on
    while not _side(adb)._pace.is_fast:
        await adb.add("warm", b"up")


@pytest.mark.parametrize("count", [1, 2, 16, 64])
@pytest.mark.parametrize("is_fast", [False, True])
def test_what_tasks_commit_in_one_turn_of_the_loop_shares_one_sync(
    count: int, is_fast: bool, db: MessageDatabase, disk: WatchedDisk
) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        if is_fast:
            await _until_fast(adb, disk)
        before = disk.write_count
        numbers = await asyncio.gather(*(adb.add("q", bytes([index])) for index in range(count)))
        assert disk.write_count == before + 1
        assert numbers == list(range(numbers[0], numbers[0] + count)), "in the order of their calls"
        assert [message.payload for message in db.undelivered("q")] == [bytes([index]) for index in range(count)]

    _run(main, db)


@pytest.mark.parametrize("is_fast", [False, True])
def test_every_verb_does_what_it_does_for_threads(is_fast: bool, db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        if is_fast:
            await _until_fast(adb, disk)
        before = disk.write_count
        plain, rich, many, _, again = await asyncio.gather(
            adb.add("q", b"plain"),
            adb.add("q", b"rich", properties={"k": "v"}, producer_id="4711"),
            adb.add_many("q", [b"a", b"b", b"c"], properties=[None, {"b": "2"}, {}]),
            adb.put("key", b"value"),
            adb.add("q", b"rich", producer_id="4711"),
        )
        assert disk.write_count == before + 1, "mixed kinds share a sync too"
        assert again == rich == plain + 1
        assert list(many) == [plain + 2, plain + 3, plain + 4]
        assert (await adb.read(many[1])).properties == {"b": "2"}
        assert await adb.get("key") == b"value"
        async with adb.commit(producer_id="whole") as commit:
            commit.deliver(plain)
            commit.add("r", b"answer")
            commit.put("other", b"")
        first = commit.numbers
        async with adb.commit(producer_id="whole") as commit:
            commit.deliver(plain)
            commit.add("r", b"answer")
            commit.put("other", b"")
        assert commit.numbers == first
        assert [message.payload async for message in adb.undelivered("q")] == [b"rich", b"a", b"b", b"c"]
        assert adb.queues() == {"q": 4, "r": 1} | ({"warm": db.undelivered_count("warm")} if is_fast else {})
        assert await adb.keys() == ["key", "other"]
        answers = await asyncio.gather(adb.deliver(rich), adb.deliver(rich), adb.delete(many[0]), adb.delete(plain))
        assert list(answers) == [True, False, True, False]
        assert await adb.deliver_many(many) == 2
        assert await adb.delete_many(many) == 0
        assert (await adb.drop("key"), await adb.drop("key")) == (True, False)
        taken = await adb.take("r")
        assert taken is not None and await adb.take("r") is None
        assert adb.release(taken.number) and not adb.release(taken.number)
        assert adb.undelivered_count("r") == (await adb.stats()).queues["r"].undelivered == 1
        assert (await adb.cleanup(dry_run=True)).dry_run
        assert len(await adb.explain()) == 1
        assert await adb.add_many("q", []) == range(0)

    _run(main, db)


def test_a_block_left_by_an_exception_writes_nothing(db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        with pytest.raises(RuntimeError, match="on purpose"):
            async with adb.commit() as commit:
                commit.add("q", b"never")
                raise RuntimeError("on purpose")
        async with adb.commit():
            pass
        assert disk.write_count == 0

    _run(main, db)


def test_threads_and_tasks_share_syncs(db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(20) as pool:
            with disk.held():
                first = loop.run_in_executor(pool, db.add, "q", b"thread")
                await _write_held_up(disk)
                threads = [loop.run_in_executor(pool, db.add, "q", b"thread") for _ in range(9)]
                tasks = [asyncio.create_task(adb.add("q", b"task")) for _ in range(9)]
                while len(db._group._queue) < 10:  # nine threads, and one draft of nine plain messages
                    await asyncio.sleep(0.001)
                before = disk.write_count
            numbers = await asyncio.gather(first, *threads, *tasks)
        assert disk.write_count == before + 1
        assert sorted(numbers) == list(range(1, 20))

    _run(main, db)


def test_threads_and_tasks_at_once_lose_nothing_and_never_write_twice_at_a_time(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    answered: list[tuple[int, bytes]] = []

    def from_thread(db: MessageDatabase, index: int) -> None:
        for turn in range(40):
            payload = b"thread %d/%d" % (index, turn)
            answered.append((db.add("q", payload), payload))

    async def from_task(adb: AsyncMessageDatabase, index: int) -> None:
        for turn in range(40):
            payload = b"task %d/%d" % (index, turn)
            answered.append((await adb.add("q", payload), payload))
            if turn == 20:
                disk.seconds = 0.006 if index == 0 else disk.seconds  # slow for a while: off the loop, and back
            if turn == 25:
                disk.seconds = 0

    async def main(db: MessageDatabase) -> None:
        async with AsyncMessageDatabase.wrap(db) as adb:
            threads = [asyncio.to_thread(from_thread, db, index) for index in range(4)]
            await asyncio.gather(*threads, *(from_task(adb, index) for index in range(12)))

    with MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=16_384, cleanup_interval=0) as db:
        asyncio.run(main(db))
    assert disk.in_flight_max == 1
    with MessageDatabase.open(tmp_path) as again:
        assert [(message.number, message.payload) for message in again.undelivered()] == sorted(answered)
        assert len(answered) == 40 * 16


def test_cancelling_one_task_disturbs_no_other(db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        with disk.held():
            first = asyncio.create_task(adb.add("q", b"held up"))
            await _write_held_up(disk)
            queued = [asyncio.create_task(adb.add("q", bytes([index]))) for index in range(10)]
            block = asyncio.create_task(adb.add("q", b"block", properties={"k": "v"}))
            await _turns()
            for task in (first, queued[3], queued[4], block):
                task.cancel()
        results = await asyncio.gather(first, *queued, block, return_exceptions=True)
        cancelled = [index for index, result in enumerate(results) if isinstance(result, asyncio.CancelledError)]
        assert cancelled == [0, 4, 5, 11]
        payloads = {message.number: message.payload for message in db.undelivered()}
        for index, task in enumerate(queued):
            if index not in (3, 4):
                assert payloads[task.result()] == bytes([index])
        assert await adb.add("q", b"goes on") == max(payloads) + 1

    _run(main, db)


def test_cancelling_everybody_leaves_a_database_that_goes_on(db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        for _ in range(30):
            tasks = [asyncio.create_task(adb.add("q", b"x")) for _ in range(5)]
            await _turns(1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        number = await adb.add("q", b"last")
        assert db.read(number).payload == b"last"

    _run(main, db)


def test_a_failed_write_is_told_to_every_task(tmp_path: Path, disk: WatchedDisk) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)

    async def main(adb: AsyncMessageDatabase) -> None:
        disk.failure = OSError(errno.EIO, os.strerror(errno.EIO))
        results = await asyncio.gather(
            adb.add("q", b"1"), adb.add("q", b"2"), adb.put("k", b"v"), return_exceptions=True
        )
        assert {type(result) for result in results} == {OutcomeUnknown}
        disk.failure = None
        with pytest.raises(NotAttempted, match="open it again"):
            await adb.add("q", b"3")

    _run(main, db)
    db.close()
    with MessageDatabase.open(tmp_path) as again:
        assert again.undelivered_count() in (0, 2)


@pytest.mark.parametrize("is_fast", [False, True])
def test_after_closing_every_task_is_refused(is_fast: bool, tmp_path: Path, disk: WatchedDisk) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            adb = AsyncMessageDatabase.open(tmp_path, disk=disk)
            async with adb:
                number = await adb.add("q", b"x")
                if is_fast:
                    await _until_fast(adb, disk)
            calls: list[Awaitable[object]] = [
                adb.add("q", b"x"),
                adb.add("q", b"x", producer_id="p"),
                adb.deliver(number),
                adb.put("k", b"v"),
                adb.read(number),
                adb.take("q"),
            ]
            for call in calls:
                with pytest.raises(DatabaseClosed):
                    await call

    asyncio.run(main())


async def _closing_while_it_writes(
    adb: AsyncMessageDatabase, disk: WatchedDisk
) -> tuple["asyncio.Task[Added]", "asyncio.Task[None]"]:
    """Return an `add` that a disk holds up, and the `close` that waits for it."""
    adding = asyncio.create_task(adb.add("q", b"x"))
    await _write_held_up(disk)
    closing = asyncio.create_task(adb.close())
    await _turns()
    return adding, closing


def writers() -> list[str]:
    """Return the threads that write for an event loop."""
    return [each.name for each in threading.enumerate() if each.name.startswith("oms-commit")]


def test_a_close_that_is_cancelled_ends_its_thread_all_the_same(tmp_path: Path, disk: WatchedDisk) -> None:
    async def main() -> None:
        adb = await AsyncMessageDatabase.open(tmp_path, disk=disk)
        with disk.held():
            adding, closing = await _closing_while_it_writes(adb, disk)
            closing.cancel()
            await _turns()
        await asyncio.wait((closing,))
        assert closing.cancelled()
        assert not writers()
        assert await adding

    asyncio.run(main())


def test_a_closed_side_has_ended_its_thread(db: MessageDatabase, disk: WatchedDisk) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        with disk.held():
            adding, closing = await _closing_while_it_writes(adb, disk)
            assert writers(), "it still writes"
            assert not closing.done()
        await closing
        assert not writers()
        assert db.read(await adding).payload == b"x"

    _run(main, db)


def test_a_side_closes_though_the_loop_has_no_thread_to_spare(db: MessageDatabase) -> None:
    goes_on = threading.Event()

    async def main(adb: AsyncMessageDatabase) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        waiting = loop.run_in_executor(None, goes_on.wait, TIMEOUT_SECONDS)
        await adb.add("q", b"x")
        await adb.close()
        assert not waiting.done()
        goes_on.set()
        await waiting

    _run(main, db)


def test_a_close_that_is_cancelled_leaves_what_others_wait_for_to_be_written(
    db: MessageDatabase, disk: WatchedDisk
) -> None:
    async def main(adb: AsyncMessageDatabase) -> None:
        with disk.held():
            adding, closing = await _closing_while_it_writes(adb, disk)
            closing.cancel()
            await asyncio.wait((closing,))
            assert closing.cancelled()
        assert db.read(await adding).payload == b"x"
        await adb.close()

    _run(main, db)


def test_a_database_that_was_not_entered_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        adb = AsyncMessageDatabase.open(tmp_path)
        with pytest.raises(JournalError, match="async with"):
            await adb.add("q", b"x")
        with pytest.raises(JournalError, match="async with"):
            await adb.get("k")

    asyncio.run(main())
    assert not list(tmp_path.iterdir()), "nothing is opened before it is entered"


# Slow and fast devices.


class Ticker:
    """Counts the turns that an event loop finds time for."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


def test_a_slow_device_does_not_stall_the_loop(db: MessageDatabase, disk: WatchedDisk) -> None:
    disk.seconds = 0.02

    async def main(adb: AsyncMessageDatabase) -> None:
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        for index in range(FAST_COUNT + 5):
            before = ticker.count
            await adb.add("q", bytes([index]))
            # Written on the loop, the loop would turn a handful of times in these 20 milliseconds.
            assert ticker.count - before > 20
            assert not _side(adb)._pace.is_fast
        ticking.cancel()

    _run(main, db)


def test_a_device_that_proves_fast_is_written_on_the_loop_until_it_is_slow(
    db: MessageDatabase, disk: WatchedDisk
) -> None:
    threads: list[str] = []
    write = disk.durable_write

    def noted(path: Path, offset: int) -> Any:
        threads.append(threading.current_thread().name)
        return write(path, offset)

    disk.durable_write = noted  # type: ignore[method-assign]

    async def main(adb: AsyncMessageDatabase) -> None:
        await adb.add("q", b"an opening begins with the thread")
        assert threads == ["oms-commit_0"]
        await _until_fast(adb, disk)
        threads.clear()
        await adb.add("q", b"fast")
        assert threads == ["MainThread"]
        disk.seconds = 0.02
        await adb.add("q", b"one slow sync on the loop")
        assert not _side(adb)._pace.is_fast
        threads.clear()
        await adb.add("q", b"slow")
        assert threads == ["oms-commit_0"]
        disk.seconds = 0
        await _until_fast(adb, disk)
        threads.clear()
        await adb.add("q", b"fast again")
        assert threads == ["MainThread"]

    _run(main, db)
