"""Leases: a message is yours up to a moment, then it is the next one's; who comes too late changes nothing."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import (
    AsyncMessageDatabase,
    DatabaseClosed,
    LeaseEnded,
    Message,
    MessageDatabase,
    NotAttempted,
    NotUndelivered,
    Options,
)
from oms_journal.database.maintenance import Alarm
from oms_journal.index.returned import Return

LONG = 60.0


class Clock:
    """A clock that nobody sets but the test, in microseconds."""

    def __init__(self) -> None:
        self.now = 5_000_000

    def __call__(self) -> int:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * 1e6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[MessageDatabase]:
    options = Options(max_data_file_size=1 << 20, cleanup_interval=0, steady=clock)
    with MessageDatabase.open(tmp_path, options=options) as opened:
        yield opened


def leased(db: MessageDatabase, seconds: float = 10) -> Message:
    message = db.take("q", lease=seconds)
    assert message is not None
    return message


def is_free(db: MessageDatabase, clock: Clock) -> bool:
    """Say whether another caller gets the message now."""
    other = db.take(["q"])
    return other is not None


RECEIPTS: dict[str, Callable[[MessageDatabase, Message], object]] = {
    "deliver": lambda db, message: db.deliver(message),
    "delete": lambda db, message: db.delete(message),
    "deliver_many": lambda db, message: db.deliver_many([message]),
    "delete_many": lambda db, message: db.delete_many([message]),
    "release": lambda db, message: db.release(message),
    "extend": lambda db, message: db.extend(message, 5),
    "block": lambda db, message: deliver_in_block(db, message),
}


def deliver_in_block(db: MessageDatabase, message: Message) -> None:
    with db.commit() as commit:
        commit.add("answers", b"done")
        commit.deliver(message)


def test_a_message_is_handed_to_the_next_one_when_its_lease_ends_and_not_before(
    db: MessageDatabase, clock: Clock
) -> None:
    number = db.add("q", b"1")
    assert leased(db).number == number
    clock.pass_by(9.999_999)
    assert not is_free(db, clock)
    clock.pass_by(0.000_001)
    assert is_free(db, clock)


@pytest.mark.parametrize("who_has_it", ["nobody", "somebody"])
@pytest.mark.parametrize("does", RECEIPTS)
def test_a_receipt_whose_lease_has_ended_is_refused_and_changes_nothing(
    does: str, who_has_it: str, db: MessageDatabase, clock: Clock
) -> None:
    number = db.add("q", b"1")
    message = leased(db)
    clock.pass_by(10)
    other = leased(db, 30) if who_has_it == "somebody" else None
    with pytest.raises(LeaseEnded, match=f"message {number}") as refused:
        RECEIPTS[does](db, message)
    assert refused.value.number == number
    assert db.undelivered_count("q") == 1 and db.undelivered_count("answers") == 0
    if other is not None:
        assert [taken.number for taken in db.taken()] == [number]
        assert db.deliver(other)
        with pytest.raises(NotUndelivered if does == "block" else LeaseEnded):
            RECEIPTS[does](db, message)


@pytest.mark.parametrize("does", [does for does in RECEIPTS if does != "extend"])
def test_a_receipt_counts_as_long_as_its_lease_does(does: str, db: MessageDatabase, clock: Clock) -> None:
    db.add("q", b"1")
    message = leased(db)
    clock.pass_by(9)
    db.extend(message, 20)
    clock.pass_by(19.999)
    RECEIPTS[does](db, message)
    assert db.undelivered_count("q") == (1 if does == "release" else 0)
    assert not db.taken()


def test_a_number_asks_for_no_receipt(db: MessageDatabase, clock: Clock) -> None:
    number, other = db.add_many("q", [b"1", b"2"])
    message = leased(db)
    read = db.read(other)
    clock.pass_by(99)
    assert db.deliver(message.number) is True and db.deliver(number) is False
    assert db.deliver(read) is True, "a message that was read counts as its number"


def test_what_was_delivered_with_its_receipt_is_delivered_once(db: MessageDatabase) -> None:
    db.add("q", b"1")
    message = leased(db)
    assert [db.deliver(message), db.deliver(message), db.deliver_many([message])] == [True, False, 0]


def test_of_many_none_is_delivered_where_the_lease_of_one_has_ended(db: MessageDatabase, clock: Clock) -> None:
    db.add_many("q", [b"1", b"2", b"3"])
    early = leased(db)
    clock.pass_by(5)
    late = db.take_many("q", 2, lease=10)
    clock.pass_by(5)
    with pytest.raises(LeaseEnded):
        db.deliver_many([*late, early])
    with pytest.raises(LeaseEnded), db.commit() as commit:
        commit.deliver_many([*late, early])
    assert db.undelivered_count("q") == 3
    assert db.deliver_many(late) == 2


def test_a_lease_cannot_end_while_its_delivery_is_on_its_way(db: MessageDatabase, clock: Clock) -> None:
    db.add("q", b"1")
    message = leased(db)
    write, seen = db._group.commit, []

    def slow(draft: Any) -> None:
        clock.pass_by(3600)
        db._handing.look()
        seen.append([taken.number for taken in db.taken()])
        assert not is_free(db, clock)
        write(draft)

    db._group.commit = slow  # type: ignore[method-assign]
    assert db.deliver(message) is True
    db._group.commit = write  # type: ignore[method-assign]
    assert seen == [[message.number]]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_delivery_that_was_not_written_leaves_the_lease_as_it_was(
    is_over: bool, db: MessageDatabase, clock: Clock
) -> None:
    one, two = db.add_many("q", [b"1", b"2"])
    message = leased(db)

    def refused(_: Any) -> None:
        raise NotAttempted("it was not")

    write, db._group.commit = db._group.commit, refused  # type: ignore[assignment,method-assign]
    with pytest.raises(NotAttempted):
        db.deliver(message)
    db._group.commit = write  # type: ignore[method-assign]
    clock.pass_by(10 if is_over else 9)
    if is_over:
        with pytest.raises(LeaseEnded):
            db.deliver(message)
        assert leased(db).number == one
    else:
        with pytest.raises(NotUndelivered), db.commit() as commit:
            commit.deliver(message)
            commit.deliver(two)
            db.delete(two)
        assert db.deliver(message)


def test_the_end_of_a_lease_wakes_who_waits(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"1")
        began = time.monotonic()
        leased(db, 0.05)
        found = db.take("q", wait=LONG)
        assert found is not None and found.number == number
        assert time.monotonic() - began >= 0.05


def test_extending_by_less_ends_a_lease_earlier(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("q", b"1")
        message = leased(db, 3600)
        db.extend(message, 0.01)
        assert db.take("q", wait=LONG) is not None


def test_only_what_was_taken_with_a_lease_can_be_extended(db: MessageDatabase) -> None:
    number = db.add("q", b"1")
    message = db.take("q")
    with pytest.raises(ValueError, match="lease"):
        db.extend(message, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Message"):
        db.extend(number, 5)  # type: ignore[arg-type]
    db.add("q", b"2")
    with pytest.raises(ValueError, match=r"from 0\.001"):
        db.extend(leased(db), -1)


def test_what_is_taken_is_listed_with_who_has_it_and_for_how_long(db: MessageDatabase, clock: Clock) -> None:
    one, two, three = (db.add(queue, b"x") for queue in ("q", "q", "r"))
    db.take("q")
    leased(db, 10)
    db.take("r")
    clock.pass_by(4)
    plain, held = db.taken("q")
    assert (plain.number, plain.queue, plain.lease_seconds) == (one, "q", None)
    assert (held.number, held.lease_seconds) == (two, 6.0)
    assert plain.holder == threading.get_ident() and 0 <= plain.held_seconds < LONG
    assert [taken.number for taken in db.taken()] == [one, two, three]
    assert db.taken("nobody's") == []


def test_after_a_restart_nothing_is_leased(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"1")
        leased(db, 3600)
    with MessageDatabase.open(tmp_path) as db:
        assert leased(db).number == number


def test_moments_of_messages_that_are_gone_are_forgotten(db: MessageDatabase) -> None:
    for _ in range(30):
        db.add_many("q", [b"x"] * 100)
        assert db.deliver_many(db.take_many("q", 100, lease=3600)) == 100
    assert not db._consumers.leases and len(db._consumers._ends) < 1200


def test_closing_ends_the_thread_that_watches_leases(tmp_path: Path) -> None:
    others = set(threading.enumerate())

    def watching() -> bool:
        return any(thread.name == "oms-alarm" for thread in set(threading.enumerate()) - others)

    with MessageDatabase.open(tmp_path) as db:
        db.add("q", b"1")
        leased(db, 3600)
        end = time.monotonic() + LONG
        while not watching():
            assert time.monotonic() < end
            time.sleep(0.001)
    assert not watching()
    with pytest.raises(DatabaseClosed):
        db.taken()


def test_tasks_have_leases_too(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        options = Options(max_data_file_size=1 << 20, steady=clock)
        async with AsyncMessageDatabase.open(tmp_path, options=options) as db:
            await db.add_many("q", [b"1", b"2", b"3", b"4"])
            one, *more = [await db.take("q", lease=10), *await db.take_many("q", 2, lease=20)]
            assert one is not None
            named = [str(taken.holder) for taken in db.taken("q")]
            assert named == [asyncio.current_task().get_name()] * 3  # type: ignore[union-attr]
            clock.pass_by(10)
            for call in (db.deliver(one), db.delete(one), db.deliver_many([one, *more]), db.delete_many([one])):
                with pytest.raises(LeaseEnded):
                    await call
            with pytest.raises(LeaseEnded):
                async with db.commit() as commit:
                    commit.deliver(one)
            for refused in (lambda: db.extend(one, 5), lambda: db.release(one)):
                with pytest.raises(LeaseEnded):
                    refused()
            again = await db.take(("q",))
            assert again is not None and again.number == one.number
            db.extend(more[0], 100)
            assert await db.deliver_many(more) == 2
            assert db.undelivered_count("q") == 2

    asyncio.run(asyncio.wait_for(play(), LONG))


def test_a_delivery_of_a_cancelled_task_keeps_its_lease(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path, options=Options(steady=clock)) as db:
            await db.add("q", b"1")
            message = await db.take("q", lease=10)
            assert message is not None
            delivering = asyncio.create_task(db.deliver(message))
            await asyncio.sleep(0)
            delivering.cancel()
            clock.pass_by(3600)
            while db.undelivered_count():
                assert db._database.take(["q"]) is None, "its delivery is on its way"
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(play(), LONG))


@pytest.mark.parametrize("gone", ["deliver", "release"])
@pytest.mark.parametrize("several", [False, True])
def test_what_is_gone_before_its_caller_has_it_is_passed_over(
    gone: str, several: bool, db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = db.add_many("q", [b"1", b"2", b"3"])
    receipt = db._handing.receipt
    seen: list[Message] = []

    def late(message: Message, lease: int | None) -> Any:
        if message.number == numbers[1] and not seen:
            seen.append(message)
            assert getattr(db, gone)(numbers[1])
        return receipt(message, lease)

    monkeypatch.setattr(db._handing, "receipt", late)
    if several:
        found = [message.number for message in db.take_many("q", 3, lease=5)]
    else:
        found = [leased(db).number for _ in range(2)]
    assert seen
    if gone == "deliver":
        assert found == [numbers[0], numbers[2]]
    else:
        assert set(found) <= set(numbers)
    assert sorted(taken.number for taken in db.taken()) == sorted(found)


@pytest.mark.parametrize("how", ["deliver", "deliver_many", "block"])
def test_a_lease_ends_though_an_interrupt_came_before_its_delivery_was_on_its_way(
    how: str, db: MessageDatabase, clock: Clock
) -> None:
    number = db.add("q", b"1")
    message = leased(db)

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    write, db._group.commit = db._group.commit, interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        RECEIPTS[how](db, message)
    db._group.commit = write  # type: ignore[method-assign]
    clock.pass_by(60)
    assert db.take(["q"]) is None, "it may be on its way"
    clock.pass_by(5)
    again = db.take(["q"])
    assert again is not None and again.number == number


def test_many_leases_do_not_wake_the_thread_that_watches_them(tmp_path: Path) -> None:
    looks: list[None] = []
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("q", [b"x"] * 1000)
        look = db._handing._alarm._look
        db._handing._alarm._look = lambda: looks.append(None) or look()  # type: ignore[func-returns-value]
        for _ in range(1000):
            leased(db, 3600)
        assert db.take("q", wait=0.05) is None
    assert len(looks) <= 5, "one look is enough: no lease ends before the first one"


def test_who_asks_for_a_look_later_has_none_now() -> None:
    looked = threading.Event()
    moments = [0]
    alarm = Alarm(lambda: looked.set() or None, lambda: moments[0])  # type: ignore[func-returns-value]
    for moment in (9_000_000, 7_000_000, 8_000_000):
        alarm.set(moment)
    assert not looked.wait(0.05)
    moments[0] = 7_000_000
    alarm.set(6_000_000)
    assert looked.wait(LONG)
    looked.clear()
    alarm.set(9_000_000)
    assert not looked.wait(0.05)
    alarm.set(0)
    assert looked.wait(LONG)
    alarm.stop()


def test_a_look_while_the_database_is_closed_is_no_failure(
    db: MessageDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    db.add("q", b"1")
    db.release(leased(db))
    db.close()
    db._ledger.index.returned.changed[1] = None
    db._ledger.index.returned.entries[1] = Return(1)
    assert db._handing.look() is None
    assert not caplog.records


def test_what_goes_wrong_beside_the_commits_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    def broken() -> int:
        if looks.append(1) or len(looks) >= 3:  # type: ignore[func-returns-value]
            told.set()
        raise NotAttempted("an earlier commit failed")

    looks: list[int] = []
    alarm = Alarm(broken, lambda: 0)
    for _ in range(3):
        before = len(looks)
        alarm.set(0)
        while len(looks) == before:
            time.sleep(0.001)
    assert told.wait(LONG)
    alarm.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
