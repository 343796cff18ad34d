"""A slow disk is an event: a commit that waits too long is told while it waits, and every wait is counted."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseView, MessageDatabase, OutcomeUnknown
from oms_journal.database.maintenance import SlowSyncs
from oms_journal.database.stats import SyncBucket, sync_stats
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk

LIMIT = 0.01  # seconds


class Heard:
    """What was told, one after another; raises something itself where it is told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.seconds: list[float] = []
        self._failure = failure
        self._came = threading.Semaphore(0)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._came.release()
        if self._failure is not None:
            raise self._failure

    def wait(self) -> None:
        assert self._came.acquire(timeout=TIMEOUT_SECONDS), "nothing was told"


def _one(db: MessageDatabase) -> None:
    db.add("q", b"x")


def _several(db: MessageDatabase) -> None:
    with db.commit() as block:
        block.add("q", b"x")
        block.put("key", b"value")


@pytest.mark.parametrize("write", [_one, _several], ids=["one message", "a commit of several"])
def test_it_is_told_while_the_commit_waits_and_once_for_each(
    tmp_path: Path, write: Callable[[MessageDatabase], None]
) -> None:
    disk, heard, waits = WatchedDisk(), Heard(), []

    def slow(seconds: float) -> None:
        waits.append(db._group.waiting_since)
        heard(seconds)

    with MessageDatabase.open(tmp_path, disk=disk, slow_sync=LIMIT, on_slow_sync=slow) as db:
        write(db)
        held = []
        for _ in range(2):
            with disk.held():
                waiting = threading.Thread(target=write, args=(db,))
                waiting.start()
                disk.wait_for_write()
                held.append(db._group.waiting_since)
                while held[-1] not in waits:  # what the device was slow at by itself is told too
                    heard.wait()
                assert waiting.is_alive()
            waiting.join()
        syncs = db.stats().syncs
    assert [waits.count(since) for since in held] == [1, 1]
    assert min(heard.seconds) >= LIMIT
    assert syncs is not None and 2 <= syncs.slow <= len(heard.seconds)


def test_the_tasks_of_an_event_loop_are_told_too(tmp_path: Path) -> None:
    disk, heard = WatchedDisk(), Heard()

    async def write() -> None:
        async with AsyncMessageDatabase.open(tmp_path, disk=disk, slow_sync=LIMIT, on_slow_sync=heard) as db:
            with disk.held():
                adding = asyncio.ensure_future(db.add("q", b"x"))
                await asyncio.to_thread(heard.wait)
                assert not adding.done()
            assert await adding == 1

    asyncio.run(write())
    assert heard.seconds


def test_what_the_callback_raises_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, heard = WatchedDisk(), Heard(ValueError("mine"))
    with MessageDatabase.open(tmp_path, disk=disk, slow_sync=LIMIT, on_slow_sync=heard) as db:
        for number in (1, 2):
            with disk.held():
                waiting = threading.Thread(target=db.add, args=("q", b"x"))
                waiting.start()
                heard.wait()
            waiting.join()
            assert db.undelivered_count() == number
    messages = [record.getMessage() for record in caplog.records if record.name == "oms.database"]
    assert messages.count("on_slow_sync failed") == len(heard.seconds) >= 2
    assert [text for text in messages if text.startswith(f"the disk is slow: a commit in {tmp_path} has waited")]


def test_without_a_callback_the_log_has_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, logged = WatchedDisk(), threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING and "the disk is slow" in record.getMessage():
                logged.set()

    log, listening = logging.getLogger("oms.database"), Listening()
    log.addHandler(listening)
    try:
        with MessageDatabase.open(tmp_path, disk=disk, slow_sync=LIMIT) as db, disk.held():
            waiting = threading.Thread(target=db.add, args=("q", b"x"))
            waiting.start()
            assert logged.wait(TIMEOUT_SECONDS)
            assert waiting.is_alive()
            disk.release()
            waiting.join()
    finally:
        log.removeHandler(listening)


def test_none_is_missed_and_none_is_told_twice() -> None:
    since, heard = 0.0, Heard()
    slow = SlowSyncs(1.0, lambda: since, "spool", heard)
    assert slow.look(10.0) == 1.0, "nothing waits"

    since = 10.25  # and a quarter of a second later something does
    assert slow.look(11.0) == 0.25
    assert heard.seconds == []
    assert slow.look(11.25) == 1.0
    assert heard.seconds == [1.0]
    assert slow.look(12.25) == slow.look(99.0) == 1.0

    since = 99.5  # the next one
    assert slow.look(100.0) == 0.5
    assert slow.look(100.75) == 1.0
    assert heard.seconds == [1.0, 1.25]
    assert slow.count == 2


@pytest.mark.parametrize(("limit", "is_watched"), [(0, False), ("1m", True)])
def test_it_can_be_switched_off(limit: float | str, is_watched: bool, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, slow_sync=limit) as db:
        db.add("q", b"x")
        db._maintenance._start()  # returns when the threads have begun
        names = {thread.name for thread in db._maintenance._threads}
    assert names == {"oms-renewal", "oms-maintenance"} | ({"oms-watch"} if is_watched else set())


def test_after_a_failed_sync_nothing_is_waited_for(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with MessageDatabase.open(tmp_path, disk=disk) as db:
        db.add("q", b"x")
        disk.failure = OSError(5, "broken")
        with pytest.raises(OutcomeUnknown):
            db.add("q", b"y")
        assert db._group.waiting_since == 0.0


def test_every_group_is_counted_by_how_long_it_waited(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with MessageDatabase.open(tmp_path, disk=disk) as db:
        for _ in range(5):
            db.add("q", b"x")
        db.add_many("q", [b"x"] * 10)
        db.put("key", b"value")
        syncs = db.stats().syncs
        assert syncs is not None
        assert syncs.count == sum(bucket.count for bucket in syncs.buckets) >= 7
        bound = sum(bucket.seconds * bucket.count for bucket in syncs.buckets)
        assert bound / 2 - 1e-6 * syncs.count <= syncs.seconds <= bound + 1e-6 * syncs.count
        with DatabaseView.open(tmp_path) as view:
            assert view.stats().syncs is None, "only who has the database open knows"
        assert isinstance(db.stats().as_dict()["syncs"], dict)


def test_the_buckets_end_with_powers_of_two_of_microseconds() -> None:
    counts = [0] * 64
    for microseconds in (0, 1, 2, 3, 4, 1023, 1024, 3_600_000_000):
        counts[microseconds.bit_length()] += 1

    found = sync_stats(counts, 3600.002057, 1)

    ends = [(1, 1), (2, 1), (4, 2), (8, 1), (1024, 1), (2048, 1), (1 << 32, 1)]
    assert found.buckets == tuple(SyncBucket(seconds=end / 1e6, count=count) for end, count in ends)
    assert (found.count, found.slow) == (8, 1)
