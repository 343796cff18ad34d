"""Event loops that end with commits under way: nobody waits for ever, and threads go on."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oms_journal import AsyncMessageDatabase, CommitFailed, DatabaseClosed, MessageDatabase
from oms_journal.journal.errors import JournalError
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def db(tmp_path: Path, disk: WatchedDisk) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", disk=disk, max_data_file_size=MODEST, cleanup_interval=0) as database:
        yield database


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _goes_on(db: MessageDatabase) -> None:
    """Check that threads can commit, whatever became of the loop."""
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(db.add, "after", b"x") for _ in range(8)]:
            assert future.result(TIMEOUT_SECONDS) > 0


def test_a_loop_that_is_closed_with_commits_under_way_leaves_threads_unharmed(
    db: MessageDatabase, disk: WatchedDisk
) -> None:
    loop = asyncio.new_event_loop()
    adb = AsyncMessageDatabase.wrap(db)
    loop.run_until_complete(adb.__aenter__())
    with ThreadPoolExecutor(8) as pool:
        with disk.held():
            first = pool.submit(db.add, "q", b"held up")
            disk.wait_for_write()
            tasks = [loop.create_task(adb.add("q", b"task")) for _ in range(3)]
            loop.run_until_complete(_turns())
            threads = [pool.submit(db.add, "q", b"thread") for _ in range(3)]
            while len(db._group._queue) < 4:
                pass
            for task in tasks:
                task.cancel()
            loop.run_until_complete(_turns())
            loop.close()
        assert first.result(TIMEOUT_SECONDS) == 1
        for future in threads:
            assert future.result(TIMEOUT_SECONDS) > 0
    _goes_on(db)


@pytest.mark.parametrize("turns", range(8))
def test_a_loop_that_stops_at_any_turn_leaves_threads_unharmed(
    turns: int, db: MessageDatabase, disk: WatchedDisk
) -> None:
    """The loop stops and is never closed: what it was told meanwhile, nobody hears."""
    loop = asyncio.new_event_loop()
    adb = AsyncMessageDatabase.wrap(db)
    loop.run_until_complete(adb.__aenter__())
    with ThreadPoolExecutor(4) as pool:
        with disk.held():
            first = pool.submit(db.add, "q", b"held up")
            disk.wait_for_write()
            tasks = [loop.create_task(adb.add("q", b"task")) for _ in range(3)]
            loop.run_until_complete(_turns(turns))
        first.result(TIMEOUT_SECONDS)
        if turns % 2:
            loop.run_until_complete(_turns(turns))
        for task in tasks:
            task.cancel()
        loop.run_until_complete(_turns(3))
        loop.close()
    _goes_on(db)


@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize("turns", range(6))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_leaving_the_block_while_tasks_commit_hangs_nobody(
    turns: int, is_wrapped: bool, tmp_path: Path, disk: WatchedDisk
) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
    answers: list[object] = []

    async def add(adb: AsyncMessageDatabase) -> None:
        try:
            while True:
                answers.append(await adb.add("q", b"x"))
        except (DatabaseClosed, CommitFailed, JournalError):
            pass

    async def main() -> None:
        disk.seconds = 0.002
        side = AsyncMessageDatabase.wrap(db) if is_wrapped else AsyncMessageDatabase(lambda: db, owns=True)
        async with side as adb:
            tasks = [asyncio.create_task(add(adb)) for _ in range(3)]
            await _turns(turns)
        for task in tasks:
            await _turns(3)
            task.cancel()
        await asyncio.wait(tasks, timeout=TIMEOUT_SECONDS)
        assert all(task.done() for task in tasks)

    asyncio.run(main())
    if is_wrapped:
        _goes_on(db)
    db.close()
    with MessageDatabase.open(tmp_path) as again:
        assert set(answers) <= set(again.numbers("q"))


def test_a_database_that_is_awaited_is_open_until_it_is_closed(tmp_path: Path) -> None:
    async def play() -> None:
        db = await AsyncMessageDatabase.open(tmp_path / "spool")
        assert await db.add("q", b"x") == 1
        assert await db is db
        async with db as entered:  # which closes it
            assert entered is db
            assert await db.add("q", b"y") == 2
        with pytest.raises(DatabaseClosed):
            await db.add("q", b"z")
        again = await AsyncMessageDatabase.open(tmp_path / "spool")
        assert again.undelivered_count("q") == 2
        await again.close()

    asyncio.run(asyncio.wait_for(play(), TIMEOUT_SECONDS))
