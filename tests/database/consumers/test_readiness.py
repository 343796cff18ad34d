"""Delays, expiry and groups in a database: over starts, clean-up and clocks that are set, for threads and tasks."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseView, InvalidName, MessageDatabase, QueueFull, QueueOptions
from oms_journal.database import maintenance
from oms_journal.database.bulk.loading import load
from oms_journal.database.consumers.waiting import ThreadWaiter
from oms_journal.database.options import Options
from oms_journal.index import live
from oms_journal.journal.reading.message import EPOCH

SMALL = 7680
SECOND = 1_000_000


@dataclass
class Clocks:
    """A wall clock and one that nobody sets, in microseconds."""

    wall: int = 1_700_000_000 * SECOND
    steady: int = 5 * SECOND

    def go_on(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)
        self.steady += int(seconds * SECOND)

    def options(self, **named: Any) -> Options:
        return Options(cleanup_interval=0, clock=lambda: self.wall, steady=lambda: self.steady, **named)

    def open(self, directory: Path, **named: Any) -> MessageDatabase:
        return MessageDatabase.open(directory, options=self.options(**named))

    def at(self, seconds: float) -> datetime:
        """Return the time that the wall clock shows in so many seconds."""
        return EPOCH + timedelta(microseconds=self.wall + int(seconds * SECOND))


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def db(tmp_path: Path, clocks: Clocks) -> Iterator[MessageDatabase]:
    with clocks.open(tmp_path) as opened:
        yield opened


def _take(db: MessageDatabase, queue: str = "q") -> int | None:
    message = db.take(queue)
    return None if message is None else message.number


Given = Callable[[Clocks, float], dict[str, Any]]
DUE: dict[str, Given] = {
    "delay": lambda clocks, seconds: {"delay": seconds},
    "at": lambda clocks, seconds: {"at": clocks.at(seconds)},
    "at in seconds": lambda clocks, seconds: {"at": clocks.wall / SECOND + seconds},
}
OVER: dict[str, Given] = {
    "in seconds": lambda clocks, seconds: {"expires": seconds},
    "at a time": lambda clocks, seconds: {"expires": clocks.at(seconds)},
}


@pytest.mark.parametrize("way", DUE)
def test_a_message_is_handed_out_when_it_is_due_and_counts_before(
    way: str, db: MessageDatabase, clocks: Clocks
) -> None:
    later = db.add("q", b"later", **DUE[way](clocks, 10))
    number = db.add("q", b"now")

    assert [_take(db), _take(db)] == [number, None]
    assert (db.undelivered_count("q"), db.queues()) == (2, {"q": 2})
    assert [message.number for message in db.undelivered("q")] == [later, number]
    clocks.go_on(9.9)
    assert _take(db) is None
    clocks.go_on(0.1)
    assert _take(db) == later


@pytest.mark.parametrize("remove", ["deliver", "delete"])
def test_a_delayed_message_can_be_ended_by_its_number(remove: str, db: MessageDatabase, clocks: Clocks) -> None:
    number = db.add("q", b"", delay=10)

    assert getattr(db, remove)(number)
    clocks.go_on(20)
    assert _take(db) is None and db.undelivered_count() == 0


@pytest.mark.parametrize("way", OVER)
def test_a_message_that_expires_counts_no_more_and_is_not_handed_out(
    way: str, db: MessageDatabase, clocks: Clocks
) -> None:
    db.add("q", b"over", **OVER[way](clocks, 10))
    number = db.add("q", b"stays")
    clocks.go_on(10)

    assert db.undelivered_count() == db.undelivered_count("q") == db.stats().undelivered == 1
    assert db.queues() == {"q": 1}
    assert [message.number for message in db.undelivered()] == list(db.numbers("q")) == [number]
    assert [_take(db), _take(db)] == [number, None]


def test_what_has_expired_takes_no_room_though_nothing_has_deleted_it_yet(tmp_path: Path, clocks: Clocks) -> None:
    with clocks.open(tmp_path, queues={"q": QueueOptions(max_messages=2)}) as db:
        db.add("q", b"stays")
        db.add("q", b"over", expires=10)
        with pytest.raises(QueueFull):
            db.add("q", b"")
        clocks.go_on(11)
        assert db.add("q", b"")
        with pytest.raises(QueueFull):
            db.add("q", b"")


def test_a_queue_of_which_everything_expired_is_none(db: MessageDatabase, clocks: Clocks) -> None:
    db.add_many("q", [b"1", b"2"], expires=1)
    clocks.go_on(1)

    assert db.queues() == {} == db.stats().queues and db.undelivered_count("q") == 0


def test_a_message_in_hand_does_not_expire_until_it_comes_back(db: MessageDatabase, clocks: Clocks) -> None:
    kept, back = db.add_many("q", [b"kept", b"back"], expires=10)
    assert [_take(db), _take(db)] == [kept, back]
    clocks.go_on(11)

    assert db.undelivered_count("q") == 2
    assert db.release(back)
    assert db.undelivered_count("q") == 1 and _take(db) is None
    assert db.deliver(kept)
    assert db.undelivered_count("q") == 0


def test_what_has_expired_is_deleted_in_one_commit(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 0.01)
    with clocks.open(tmp_path) as db:
        db.add_many("q", [b"%d" % n for n in range(100)], expires=1)
        number = db.add("q", b"stays")
        commits = db._group.acknowledged
        clocks.go_on(1)
        table, done = db._state().ledger.index.table, threading.Event()
        for _ in range(1000):
            if table.count == 1:
                break
            done.wait(0.01)
        assert table.count == 1 and list(db.numbers()) == [number]
        assert db._state().ledger.index.terms is None
        assert db._group.acknowledged - commits <= 2  # the deletion, and one that vouches for it
    clocks.wall -= 100 * SECOND
    with clocks.open(tmp_path) as db:
        assert list(db.numbers()) == [number]


def test_messages_of_one_group_are_handed_out_one_after_another(db: MessageDatabase, clocks: Clocks) -> None:
    first, second, third = (db.add("q", b"", group="a") for _ in range(3))
    other = db.add("q", b"", group="b")
    elsewhere = db.add("r", b"", group="a")

    assert [_take(db), _take(db), _take(db)] == [first, other, None]
    assert _take(db, "r") == elsewhere, "a group is one of its queue"
    assert db.release(first) and _take(db) == first
    assert db.deliver(first) and _take(db) == second
    assert db.delete(third) and db.deliver(second) and _take(db) is None
    assert db.add("q", b"", group="a") == _take(db)


def test_a_group_waits_for_a_message_that_is_not_due(db: MessageDatabase, clocks: Clocks) -> None:
    first, second = db.add("q", b"", group="a", delay=10), db.add("q", b"", group="a")

    assert _take(db) is None
    clocks.go_on(10)
    assert [_take(db), _take(db)] == [first, None]
    db.deliver(first)
    assert _take(db) == second


def test_a_group_goes_on_behind_a_message_that_expired(db: MessageDatabase, clocks: Clocks) -> None:
    first, second = db.add("q", b"", group="a", expires=10), db.add("q", b"", group="a")
    assert first < second and _take(db) == first and db.release(first)
    clocks.go_on(10)

    assert _take(db) == second


def test_take_many_gives_at_most_one_of_each_group(db: MessageDatabase) -> None:
    db.add_many("q", [b"1", b"2", b"3"], group="a")
    db.add_many("q", [b"4", b"5"], group="b")
    db.add("q", b"6")

    assert [message.payload for message in db.take_many("q", 100)] == [b"1", b"4", b"6"]


def test_a_commit_block_adds_on_terms(db: MessageDatabase, clocks: Clocks) -> None:
    with db.commit() as commit:
        commit.add("q", b"later", delay=10)
        commit.add("q", b"now")
        commit.add("q", b"first", group="a", expires=5)
        commit.add("q", b"second", group="a")
        commit.add_many("r", [b"1", b"2"], at=clocks.at(10), group="c")

    assert [message.payload for message in db.take_many("q", 9)] == [b"now", b"first"]
    assert db.take("r") is None
    clocks.go_on(10)
    db.release(commit.numbers[2])
    assert [message.payload for message in db.take_many("q", 9)] == [b"later", b"second"]
    assert [message.payload for message in db.take_many("r", 9)] == [b"1"]


def test_terms_are_kept_over_a_start_and_a_compaction(tmp_path: Path, clocks: Clocks) -> None:
    with clocks.open(tmp_path, max_data_file_size=SMALL) as db:
        first, second = db.add("q", b"", group="a", delay=10), db.add("q", b"", group="a")
        over = db.add("q", b"", expires=10)
        db.deliver_many([db.add("filling", bytes(900)) for _ in range(16)])
        assert db.cleanup(compact=True).moved_messages == 3
    for _ in range(2):
        clocks.go_on(4)
        with clocks.open(tmp_path, max_data_file_size=SMALL) as db:
            assert [_take(db), _take(db)] == [over, None]
            assert list(db.numbers()) == [first, second, over]
        with DatabaseView.open(tmp_path) as view:  # by the clock of the machine all of it is long over
            assert list(view.numbers()) == [first, second] and view.queues() == {"q": 2}
    clocks.go_on(2)
    with clocks.open(tmp_path, max_data_file_size=SMALL) as db:
        assert [_take(db), _take(db)] == [first, None]
        assert list(db.numbers()) == [first, second]


def test_a_start_that_reads_more_terms_than_it_keeps_forgets_those_of_messages_that_are_gone(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ROWS_KEPT", 3)
    with clocks.open(tmp_path, max_data_file_size=SMALL) as db:
        numbers: list[int] = []
        for place in range(40):
            numbers += db.add_many("q", [bytes(300)] * 2, delay=place, group=f"g{place}")
            if place % 4:
                db.deliver(numbers.pop(-2))
                db.delete_many(numbers[-1:] if place % 4 == 1 else [])
        left = list(db.numbers())
    assert len(list(tmp_path.glob("*.data"))) > 1
    clocks.go_on(40)
    with clocks.open(tmp_path, max_data_file_size=SMALL) as db:
        assert list(db.numbers()) == left
        firsts = [number for number in left if number - 1 not in left or number % 2]
        assert [message.number for message in db.take_many("q", 100)] == firsts


@pytest.mark.parametrize("seconds", [-1000, 1000])
def test_a_clock_that_is_set_while_it_runs_changes_points_in_time_alone(
    seconds: int, db: MessageDatabase, clocks: Clocks
) -> None:
    delayed, at = db.add("q", b"", delay=10), db.add("q", b"", at=clocks.at(10))
    clocks.wall += seconds * SECOND

    assert _take(db) == (at if seconds > 0 else None)
    clocks.go_on(10)
    assert [_take(db), _take(db)] == [delayed, None]
    clocks.go_on(1000)
    assert _take(db) == (None if seconds > 0 else at)


@pytest.mark.parametrize("way", DUE)
def test_a_clock_set_back_over_a_start_delays_by_no_more_than_that(way: str, tmp_path: Path, clocks: Clocks) -> None:
    with clocks.open(tmp_path) as db:
        number = db.add("q", b"", **DUE[way](clocks, 10))
        clocks.go_on(10)
        db.add("r", b"the newest commit")
    clocks.wall -= 5 * SECOND
    with clocks.open(tmp_path) as db:
        assert _take(db) == number, "the journal proves that it was due"
        db.release(number)
        later = db.add("q", b"", delay=10)
    clocks.wall -= 1000 * SECOND
    with clocks.open(tmp_path) as db:
        assert [_take(db), _take(db)] == [number, None]
        clocks.go_on(1010)
        assert _take(db) == later


@pytest.mark.parametrize("way", OVER)
def test_what_expired_before_the_newest_commit_stays_so_when_the_clock_is_set_back_over_a_start(
    way: str, tmp_path: Path, clocks: Clocks
) -> None:
    with clocks.open(tmp_path) as db:
        db.add("q", b"over", **OVER[way](clocks, 10))
        later = db.add("q", b"later", **OVER[way](clocks, 30))
        clocks.go_on(20)
        assert _take(db) == later
        db.add("other", b"the newest commit")
    clocks.wall -= 3600 * SECOND
    with clocks.open(tmp_path) as db:
        assert list(db.numbers("q")) == [later]
        assert (_take(db), _take(db)) == (later, None)


def test_a_clock_set_forward_over_a_start_brings_messages_early(tmp_path: Path, clocks: Clocks) -> None:
    with clocks.open(tmp_path) as db:
        number, over = db.add("q", b"", delay=1000), db.add("q", b"", expires=1000)
        assert over
    clocks.wall += 1000 * SECOND
    with clocks.open(tmp_path) as db:
        assert [_take(db), _take(db)] == [number, None]


def test_messages_that_are_loaded_wait_as_they_did(tmp_path: Path, clocks: Clocks) -> None:
    with clocks.open(tmp_path / "one") as db:
        first = db.add("q", b"", delay=10, group="a")
        db.add("q", b"", group="a")
        db.add("q", b"", expires=5)
        messages = list(db.undelivered())
    with clocks.open(tmp_path / "other") as db:
        load(db, messages, {})
        assert _take(db) == messages[2].number
        db.release(messages[2].number)
        clocks.go_on(10)
        assert [_take(db), _take(db)] == [first, None] and db.undelivered_count() == 2


def test_who_waits_gets_a_message_when_it_is_due(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db, ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(db.take, "q", wait=60) for _ in range(3)]
        while sum(map(len, db._state().ledger.consumers.waiting.values())) < 3:
            sleep(0.001)
        early = db.add("q", b"", delay=0.2)
        later = db.add("q", b"", at=datetime.now(UTC) + timedelta(seconds=0.1))
        first, second = db.add("q", b"", group="a"), db.add("q", b"", group="a")
        done = [waits.pop(0).result(), *[wait.result() for wait in waits]]
        assert {one.number for one in done if one} == {early, later, first}
        assert db.deliver(first)
        assert _take(db) == second


@pytest.mark.parametrize("late", [0.0, 0.019, 0.020, 1.0])
def test_what_has_just_become_due_waits_behind_what_is_there_and_for_no_longer(
    late: float, db: MessageDatabase, clocks: Clocks
) -> None:
    due, first, second = db.add("q", b"", delay=1), db.add("q", b""), db.add("q", b"")
    assert _take(db) == first
    clocks.go_on(1 + late)
    assert [_take(db), _take(db), _take(db)] == ([second, due, None] if late < 0.020 else [due, second, None])


def test_what_has_just_become_due_is_there_where_all_else_is_somebody_elses(
    db: MessageDatabase, clocks: Clocks
) -> None:
    due, first, second = db.add("q", b"", delay=1), db.add("q", b""), db.add("q", b"")
    assert _take(db) == first
    clocks.go_on(1)
    db.delete(second)
    assert [_take(db), _take(db)] == [due, None]


def test_what_has_just_expired_is_nobodys_whatever_else_is_there(db: MessageDatabase, clocks: Clocks) -> None:
    _, over, last = db.add("q", b""), db.add("q", b"", expires=1), db.add("q", b"")
    assert _take(db)
    clocks.go_on(1)
    assert [_take(db), _take(db)] == [last, None]
    assert over not in db.numbers()


def test_those_who_wait_are_served_on_time_and_20_ms_late_at_most_where_many_messages_are_due(
    db: MessageDatabase, clocks: Clocks
) -> None:
    handing, consumers, began = db._handing, db._state().ledger.consumers, clocks.steady
    handing.is_attended = False
    numbers = [db.add("q", b"", delay=delay) for delay in (1.0, 1.001, 1.002, 3.0)]

    def look() -> tuple[int | None, int | None]:
        """Return what one who waits is handed by a look at this moment, and when it is looked again."""
        waiter = ThreadWaiter(("q",))
        consumers.wait(waiter)
        moment = handing.look()
        consumers.leave(waiter)
        return waiter.place and waiter.place.number, moment

    assert look() == (None, began + SECOND)
    clocks.go_on(0.999)
    assert look() == (None, began + SECOND + 19_000), "a look was a moment ago"
    clocks.go_on(0.020)
    assert [look()[0] for _ in range(3)] == numbers[:3]
    assert look() == (None, began + 3 * SECOND)
    clocks.go_on(1.981)
    assert look()[0] == numbers[3]


def test_a_task_that_waits_gets_a_message_when_it_is_due(tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            waiting = asyncio.create_task(db.take("q", wait=60))
            await asyncio.sleep(0)
            number = await db.add("q", b"", delay=0.1)
            found = await waiting
            assert found is not None and found.number == number

    asyncio.run(play())


def test_who_waits_for_a_group_is_woken_by_the_end_of_its_first_message(db: MessageDatabase) -> None:
    first, second = db.add("q", b"", group="a"), db.add("q", b"", group="a")
    assert _take(db) == first
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(db.take, "q", wait=60)
        while not db._state().ledger.consumers.waiting:
            sleep(0.001)
        db.deliver(first)
        found = waiting.result()
    assert found is not None and found.number == second


def test_a_message_that_stays_away_expires_there_and_its_group_goes_on(db: MessageDatabase, clocks: Clocks) -> None:
    first, second = db.add("q", b"", group="a", expires=10), db.add("q", b"", group="a")
    assert _take(db) == first
    db.release(first, delay=100)
    clocks.go_on(9)
    assert _take(db) is None, "a group waits for a message that was given back with a delay"
    clocks.go_on(1)
    assert _take(db) == second and db.undelivered_count() == 1
    clocks.go_on(200)
    assert _take(db) is None


def test_what_expired_in_hand_and_is_put_off_expires_at_once_and_its_group_goes_on(
    db: MessageDatabase, clocks: Clocks
) -> None:
    first = db.add("q", b"1", group="g", expires=10)
    second = db.add("q", b"2", group="g")
    assert _take(db) == first
    clocks.go_on(20)
    assert _take(db) is None
    assert db.release(first, delay=3600)
    assert _take(db) == second
    assert list(db.numbers("q")) == [second]


def test_a_repeat_is_answered_whatever_its_terms(db: MessageDatabase, clocks: Clocks) -> None:
    number = db.add("q", b"", producer_id="p", delay=10)

    assert db.add("q", b"", producer_id="p", delay=20) == number
    assert db.add("q", b"", producer_id="p") == number
    assert db.undelivered_count() == 1 and _take(db) is None
    clocks.go_on(10)
    assert _take(db) == number


def test_tasks_add_on_terms_as_threads_do(tmp_path: Path, clocks: Clocks) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path, options=clocks.options()) as db:
            later = await db.add("q", b"", delay=10)
            first, second = await db.add_many("q", [b"1", b"2"], group="a")
            over = await db.add("q", b"", expires=clocks.at(5))
            async with db.commit() as commit:
                commit.add("q", b"", at=clocks.at(20))
            found = await db.take_many("q", 9)
            assert [message.number for message in found] == [first, over]
            assert db.release(over)
            await db.deliver(first)
            clocks.go_on(10)
            assert db.undelivered_count() == 3
            assert [message.number for message in await db.take_many("q", 9)] == [later, second]
            clocks.go_on(10)
            last = await db.take("q")
            assert last is not None and last.number == commit.numbers[0]

    asyncio.run(play())


def test_threads_that_take_one_group_never_have_two_of_it(tmp_path: Path) -> None:
    in_hand, worst = [0] * 4, [0] * 4
    seen: list[int] = []
    lock = threading.Lock()
    with MessageDatabase.open(tmp_path) as db:
        for place in range(160):
            db.add("q", b"%d" % (place % 4), group=f"g{place % 4}")

        def work() -> None:
            while db.undelivered_count("q"):
                if (message := db.take("q")) is None:
                    continue
                group = int(message.payload)
                with lock:
                    in_hand[group] += 1
                    worst[group] = max(worst[group], in_hand[group])
                    seen.append(message.number)
                with lock:
                    in_hand[group] -= 1
                db.deliver(message)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert worst == [1] * 4
    for group in range(4):
        mine = [number for number in seen if number % 4 == (group + 1) % 4]
        assert mine == sorted(mine) and len(mine) == 40


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"delay": -1}, ValueError),
    ({"delay": float("nan")}, ValueError),
    ({"delay": 1e10}, ValueError),
    ({"delay": "1"}, TypeError),
    ({"delay": True}, TypeError),
    ({"delay": 1, "at": 1}, ValueError),
    ({"at": datetime(2030, 1, 1)}, ValueError),  # noqa: DTZ001 - without a zone it is no point in time
    ({"at": "tomorrow"}, TypeError),
    ({"at": -1}, ValueError),
    ({"at": 1e12}, ValueError),
    ({"expires": 0}, ValueError),
    ({"expires": "1"}, TypeError),
    ({"expires": datetime(2030, 1, 1)}, ValueError),  # noqa: DTZ001
    ({"expires": 5, "delay": 5}, ValueError),
    ({"group": ""}, InvalidName),
    ({"group": "g" * 256}, InvalidName),
    ({"group": b"g"}, TypeError),
]


@pytest.mark.parametrize(("given", "failure"), WRONG)
def test_terms_that_cannot_be_are_refused_and_nothing_is_added(
    given: dict[str, Any], failure: type[Exception], db: MessageDatabase
) -> None:
    with pytest.raises(failure):
        db.add("q", b"", **given)
    with pytest.raises(failure):
        db.add_many("q", [b""], **given)
    with db.commit() as commit, pytest.raises(failure):
        commit.add("q", b"", **given)
    with db.commit() as commit, pytest.raises(failure):
        commit.add_many("q", [b""], **given)
    assert db.undelivered_count() == 0


def test_a_time_of_any_zone_is_the_same_moment(db: MessageDatabase, clocks: Clocks) -> None:
    at = clocks.at(10)
    for offset in (-11, 0, 14):
        db.add("q", b"", at=at.astimezone(tz=datetime.now(UTC).astimezone().tzinfo), group=f"g{offset}")
    clocks.go_on(10)

    assert len(db.take_many("q", 9)) == 3


def test_no_delay_at_all_makes_a_plain_message(db: MessageDatabase) -> None:
    number = db.add("q", b"", delay=0)

    assert db._state().ledger.index.terms is None and _take(db) == number
