"""Group commit for threads: callers that come while the disk is busy share the next sync."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from oms_journal import (
    Added,
    CommitFailed,
    DatabaseClosed,
    MessageDatabase,
    NotAttempted,
    NotUndelivered,
    OutcomeUnknown,
)
from oms_journal.journal.writing.group_commit import GroupCommit
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def db(tmp_path: Path, disk: WatchedDisk) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", disk=disk, max_data_file_size=MODEST, cleanup_interval=0) as database:
        yield database


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as executor:
        yield executor


def _queued(db: MessageDatabase) -> int:
    return len(db._group._queue)


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.001)


def _hold(pool: ThreadPoolExecutor, db: MessageDatabase, disk: WatchedDisk, size: int = 7) -> "Future[Added]":
    """Return a commit that is being written, and held up."""
    first = pool.submit(db.add, "first", bytes(size))
    disk.wait_for_write()
    return first


@pytest.mark.parametrize("count", [1, 2, 16, 63])
def test_all_that_come_while_the_disk_is_busy_share_one_sync(
    count: int, db: MessageDatabase, disk: WatchedDisk, pool: ThreadPoolExecutor
) -> None:
    with disk.held():
        first = _hold(pool, db, disk)
        rest = [pool.submit(db.add, "rest", bytes([index])) for index in range(count)]
        _wait_until(lambda: _queued(db) == count)
        before = disk.write_count
    numbers = [first.result(), *(future.result() for future in rest)]

    assert disk.write_count == before + 1
    assert sorted(numbers) == list(range(1, count + 2)), "every caller has a number of its own"
    assert disk.in_flight_max == 1


def test_every_kind_of_commit_shares_the_sync(db: MessageDatabase, disk: WatchedDisk, pool: ThreadPoolExecutor) -> None:
    one, two, three = db.add_many("q", [b"1", b"2", b"3"])
    db.put("dropped", b"")

    def block() -> None:
        with db.commit() as commit:
            commit.add("q", b"in a block")
            commit.delete(two)
            commit.put("other", b"value")

    calls: list[Callable[[], object]] = [
        lambda: db.add("q", b"plain"),
        lambda: db.add("q", b"more", properties={"k": "v"}, producer_id="p"),
        lambda: db.add_many("q", [b"a", b"b"]),
        lambda: db.deliver(one),
        lambda: db.put("key", b"value"),
        lambda: db.drop("dropped"),
        block,
    ]
    with disk.held():
        _hold(pool, db, disk)
        futures = []
        for waiting, call in enumerate(calls, start=1):
            futures.append(pool.submit(call))
            _wait_until(lambda waiting=waiting: _queued(db) == waiting)  # type: ignore[misc]
        before = disk.write_count
    for future in futures:
        future.result()

    assert disk.write_count == before + 1
    assert [message.payload for message in db.undelivered("q")] == [b"3", b"plain", b"more", b"a", b"b", b"in a block"]
    assert (list(db.keys()), three) == (["key", "other"], 3)


@pytest.mark.whole
def test_many_threads_need_far_fewer_syncs_than_commits(
    db: MessageDatabase, disk: WatchedDisk, pool: ThreadPoolExecutor
) -> None:
    disk.seconds = 0.002
    before = disk.write_count
    numbers = list(pool.map(lambda index: db.add("q", b"%d" % index), range(640)))

    assert sorted(numbers) == list(range(1, 641))
    assert disk.write_count - before < 640 / 5
    assert disk.in_flight_max == 1, "never two writes at once: a good frame proves the ones before it"


def test_the_order_of_numbers_is_the_order_of_commits_and_of_the_file(
    tmp_path: Path, disk: WatchedDisk, pool: ThreadPoolExecutor
) -> None:
    with MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=16_384, cleanup_interval=0) as db:
        answers = list(pool.map(lambda index: (db.add(f"queue {index % 5}", b"%d" % index), b"%d" % index), range(900)))
        messages = list(db.undelivered())

    assert [(message.number, message.payload) for message in messages] == sorted(answers)
    places = [(message.sequence, message.offset) for message in messages]
    assert places == sorted(places)
    assert len(set(places)) == 900, "every message has a frame of its own"
    assert [message.added_us for message in messages] == sorted(message.added_us for message in messages)
    per_file = {name: [at for file, at in disk.writes if file == name] for name, _ in disk.writes}
    assert all(offsets == sorted(offsets) for offsets in per_file.values())
    assert disk.in_flight_max == 1


def test_what_one_caller_has_been_told_another_can_see(
    db: MessageDatabase, pool: ThreadPoolExecutor, disk: WatchedDisk
) -> None:
    disk.seconds = 0.0005

    def produce_and_consume(index: int) -> bool:
        number = db.add(f"queue {index}", b"x")
        assert db.read(number).queue == f"queue {index}"
        assert db.deliver(number)
        return db.deliver(number)

    assert not any(pool.map(produce_and_consume, range(200)))
    assert db.undelivered_count() == 0


def test_of_many_threads_that_remove_the_same_messages_each_is_removed_by_one(
    db: MessageDatabase, pool: ThreadPoolExecutor
) -> None:
    numbers = list(db.add_many("q", [b"x"] * 200))
    singly = pool.map(lambda index: db.deliver(numbers[index % 100]), range(400))
    together = pool.map(lambda index: db.delete_many(numbers[100 + index % 7 :]), range(20))

    assert sum(singly) == 100
    assert sum(together) == 100
    assert db.undelivered_count() == 0


def test_of_many_blocks_that_remove_the_same_message_one_is_written(
    db: MessageDatabase, pool: ThreadPoolExecutor
) -> None:
    number = db.add("in", b"x")

    def answer(index: int) -> bool:
        try:
            with db.commit() as commit:
                commit.deliver(number)
                commit.add("out", b"%d" % index)
        except NotUndelivered:
            return False
        return True

    assert sum(pool.map(answer, range(64))) == 1
    assert db.queues() == {"out": 1}


def test_many_resends_at_once_add_one_message(db: MessageDatabase, pool: ThreadPoolExecutor) -> None:
    numbers = set(pool.map(lambda _: db.add("q", b"order", producer_id="4711"), range(200)))

    assert len(numbers) == 1
    assert db.undelivered_count() == 1


def test_a_failed_write_is_told_to_all_of_its_group_and_to_all_that_wait(
    tmp_path: Path, disk: WatchedDisk, pool: ThreadPoolExecutor
) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
    kept = db.add("q", b"durable")
    with disk.held():
        first = _hold(pool, db, disk)
        rest = [pool.submit(db.add, "q", b"waiting") for _ in range(10)]
        _wait_until(lambda: _queued(db) == 10)
        disk.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(OutcomeUnknown, match="close the database and open it again"):
        first.result(TIMEOUT_SECONDS)
    for future in rest:
        with pytest.raises(NotAttempted):
            future.result(TIMEOUT_SECONDS)
    disk.failure = None
    with pytest.raises(NotAttempted):
        db.add("q", b"later")
    assert [message.number for message in db.undelivered()] == [kept], "what is durable can be read"
    db.close()
    with MessageDatabase.open(tmp_path) as again:
        assert kept in list(again.numbers("q"))
        again.add("q", b"goes on")


def test_closing_waits_for_nobody_and_loses_nothing_it_answered(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    disk = WatchedDisk()
    for round_number in range(5):
        db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
        begun = db.undelivered_count()
        answered: list[int] = []

        def add(db: MessageDatabase = db, answered: list[int] = answered) -> None:
            try:
                while True:
                    answered.append(db.add("q", b"x"))
            except (DatabaseClosed, CommitFailed):
                pass

        futures = [pool.submit(add) for _ in range(16)]
        _wait_until(lambda answered=answered, least=100 * (round_number + 1): len(answered) >= least)  # type: ignore[misc]
        db.close()
        for future in futures:
            future.result(TIMEOUT_SECONDS)
        with MessageDatabase.open(tmp_path) as again:
            there = set(again.numbers("q"))
        assert set(answered) <= there
        assert len(there) - begun - len(answered) <= 16, "at most one commit of each thread is there unanswered"


def test_after_closing_nothing_is_written(tmp_path: Path, disk: WatchedDisk, pool: ThreadPoolExecutor) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
    with disk.held():
        first = _hold(pool, db, disk)
        waiting = [pool.submit(db.add, "q", b"waiting") for _ in range(5)]
        _wait_until(lambda: _queued(db) == 5)
        closing = pool.submit(db.close)
        _wait_until(lambda: db._is_closed)
    closing.result(TIMEOUT_SECONDS)
    written = disk.write_count
    answers = [future for future in (first, *waiting) if future.exception(TIMEOUT_SECONDS) is None]
    failures = {type(future.exception()) for future in (first, *waiting)} - {type(None)}

    assert failures <= {DatabaseClosed, NotAttempted, OutcomeUnknown}
    assert disk.write_count == written
    with MessageDatabase.open(tmp_path) as again:
        assert again.recovery.intact, again.recovery
        assert {future.result() for future in answers} <= set(again.numbers())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_commit_that_is_under_way_while_the_database_closes_is_not_written_over(
    is_first: bool, tmp_path: Path, disk: WatchedDisk, pool: ThreadPoolExecutor
) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
    if not is_first:
        db.add("first", b"")
        db._vouch()  # as after a second of silence
    answered = threading.Event()

    def let_the_commit_be_answered() -> None:
        disk.before_change = lambda: None
        disk.release()
        answered.wait(1)

    with disk.held():
        under_way = _hold(pool, db, disk, size=10_000)
        under_way.add_done_callback(lambda _: answered.set())
        # A close that seals or removes the last file before the commit is over, comes here first.
        disk.before_change = let_the_commit_be_answered
        closing = pool.submit(db.close)
        _wait_until(lambda: db._is_closed)
        disk._gate.wait(0.2)
    closing.result(TIMEOUT_SECONDS)

    with MessageDatabase.open(tmp_path) as again:
        assert again.recovery.intact, again.recovery
        if under_way.exception() is None:
            assert under_way.result() in list(again.numbers())


def test_a_commit_that_was_past_the_door_when_the_database_closed_writes_nothing(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    db = MessageDatabase.open(tmp_path, disk=disk, max_data_file_size=MODEST, cleanup_interval=0)
    db.add("q", b"x")
    late = db._drafting.add("q", b"late")
    db.close()
    before = sorted(path.name for path in tmp_path.iterdir()), disk.write_count
    db._group.commit(late)

    assert isinstance(late.failure, DatabaseClosed | NotAttempted)
    assert (sorted(path.name for path in tmp_path.iterdir()), disk.write_count) == before


def test_who_queues_up_leads_or_hands_on_has_the_lock(db: MessageDatabase) -> None:
    unguarded: list[str] = []

    class Watched(GroupCommit):
        def __getattribute__(self, name: str) -> object:
            if name in ("_queue", "_leading") and not self._lock.locked():
                unguarded.append(name)
            return super().__getattribute__(name)

    db._group.__class__ = Watched
    db.add("q", b"alone")
    db._group.commit_many([db._drafting.add("q", payload) for payload in (b"one", b"two")])
    db._group.__class__ = GroupCommit

    assert [message.payload for message in db.undelivered("q")] == [b"alone", b"one", b"two"]
    assert unguarded == []
