"""Attempts, delays of what comes back, and dead letters: kept over a restart, and a message is never in two places."""

import asyncio
import contextlib
import errno
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oms_journal import (
    AsyncMessageDatabase,
    DiskError,
    DiskFull,
    InvalidName,
    Message,
    MessageDatabase,
    NoSuchMessage,
    NotUndelivered,
    Options,
    QueueFull,
)
from oms_journal.database import maintenance
from oms_journal.database.consumers import dead_letters
from oms_journal.database.consumers.consuming import Consuming, Taking
from oms_journal.index.returned import KEY_PREFIX, key_of
from oms_journal.journal import names
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.writing.draft import Draft
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.watched_disk import WatchedDisk

LONG = 60.0


@pytest.fixture(autouse=True)
def no_vouching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit come from the thread that vouches after a second: commits are counted here."""
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)


class Clock:
    """A clock that only the test sets, in microseconds."""

    def __init__(self, now: int = 5_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * 1e6)


class Place:
    """A directory that is opened again and again, with clocks that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wall, self.steady = Clock(1_700_000_000_000_000), Clock()

    def open(self, *, disk: Disk | None = None, **named: Any) -> MessageDatabase:
        options = Options(cleanup_interval=0, clock=self.wall, steady=self.steady, **named)
        return MessageDatabase.open(self.directory, options=options, disk=disk)

    def pass_by(self, seconds: float) -> None:
        self.wall.pass_by(seconds)
        self.steady.pass_by(seconds)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def db(place: Place) -> Iterator[MessageDatabase]:
    with place.open() as opened:
        yield opened


def take(db: MessageDatabase, **given: Any) -> Message:
    message = db.take("q", **given)
    assert message is not None
    return message


def settled(db: MessageDatabase) -> None:
    """Have done what the alarm's thread would do by now."""
    db._handing.look()


def keys(db: MessageDatabase) -> list[bytes]:
    return list(db._ledger.index.keyed.keys(KEY_PREFIX))


COMES_BACK: dict[str, Callable[[MessageDatabase, Place], object]] = {
    "release": lambda db, place: db.release(take(db)),
    "release by number": lambda db, place: db.release(take(db).number),
    "lease": lambda db, place: end_lease(db, place),
    "block": lambda db, place: fail_in_block(db),
    "loop": lambda db, place: leave_loop(db),
}


def end_lease(db: MessageDatabase, place: Place) -> None:
    take(db, lease=5)
    place.pass_by(5)
    settled(db)


def fail_in_block(db: MessageDatabase) -> None:
    with pytest.raises(KeyError), db.taking("q"):
        raise KeyError


def leave_loop(db: MessageDatabase) -> None:
    for _ in db.consume("q"):
        break


@pytest.mark.parametrize("how", COMES_BACK)
def test_each_time_that_a_message_comes_back_counts_and_a_restart_keeps_the_count(how: str, place: Place) -> None:
    with place.open() as db:
        db.add("q", b"1")
        for attempts in range(3):
            assert take(db).attempts == attempts
            db._handing.give_back([1])  # nobody has received it: that is no attempt
            COMES_BACK[how](db, place)
    with place.open() as db:
        assert [take(db).attempts, db.take("q")] == [3, None]


@pytest.mark.parametrize("how", COMES_BACK)
def test_every_call_that_hands_out_says_how_often_it_was_in_vain(how: str, db: MessageDatabase, place: Place) -> None:
    db.add_many("q", [b"1", b"2"])
    COMES_BACK[how](db, place)
    for message in db.consume("q"):
        assert message.attempts == 1
        break
    with db.taking("q") as blocked:
        assert blocked is not None and blocked.attempts == 2
        db.release(blocked)
    first, second = db.take_many("q", 2)
    assert (first.attempts, second.attempts) == (3, 0)


@pytest.mark.parametrize("ends", ["deliver", "delete", "deliver_many", "block"])
def test_what_is_known_of_a_message_ends_with_it_in_the_same_commit(ends: str, place: Place) -> None:
    with place.open() as db:
        number = db.add("q", b"1")
        db.add("q", b"2")
        db.release(take(db))
        db._returns.write()
        assert keys(db) == [key_of(number)]
        message, commits = take(db), db._group.acknowledged
        if ends == "block":
            with db.commit() as commit:
                commit.deliver(message)
        else:
            getattr(db, ends)([message] if "many" in ends else message)
        assert (keys(db), db._group.acknowledged) == ([], commits + 1)
        assert not db._ledger.index.returned.entries
    with place.open() as db:
        assert take(db).attempts == 0


def test_what_came_back_is_told_along_with_the_next_commit_by_one_sync(place: Place) -> None:
    disk = WatchedDisk()
    with place.open(disk=disk) as db:
        first, second = db.add_many("q", [b"1", b"2"])
        db.release(take(db), reason="not yet")
        before, writes = db._group.acknowledged, len(disk.writes)
        db.add("q", b"3")
        assert (keys(db), db._group.acknowledged, len(disk.writes)) == ([key_of(first)], before + 2, writes + 1)
        place.pass_by(1)
        settled(db)
        assert db._group.acknowledged == before + 2, "it is said: no commit of its own follows"
        db.release(take(db))
        assert db.deliver(second)
        assert db._group.acknowledged == before + 4, "it rides with a delivery too"
        killed(db)
    with place.open() as db:
        assert [(one.number, one.attempts) for one in db.take_many("q", 3)] == [(first, 2), (first + 2, 0)]


def test_a_call_that_is_refused_writes_nothing_of_what_came_back(place: Place) -> None:
    with place.open(max_messages=2) as db:
        db.add("q", b"1")
        db.add("q", b"2")
        db.release(take(db))
        before = db._group.acknowledged, db._journal.last_commit
        with pytest.raises(QueueFull):
            db.add("q", b"3")

        assert (db._group.acknowledged, db._journal.last_commit) == before
        db.add("other", b"4")
        assert keys(db), "it rides with the next one"


def killed(db: MessageDatabase) -> None:
    """Let go of a directory as a process does that is killed: nothing more is written."""
    db._maintenance.stop()
    db._handing._alarm.stop()
    db._abandon()


def test_what_came_back_of_a_message_is_not_told_with_the_commit_that_ends_it_nor_behind(db: MessageDatabase) -> None:
    db.add_many("q", [b"1", b"2"])
    db.release(take(db))
    before = db._group.acknowledged
    assert db.deliver(take(db))
    assert db._group.acknowledged == before + 1 and not keys(db)
    message, admit = take(db), db._ledger.admit

    def late(draft: Draft) -> bool:
        is_admitted = admit(draft)
        if draft.removed is not None:
            db.release(message.number)  # in the moment in which it is on its way out
        return is_admitted

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(db._ledger, "admit", late)
        assert db.deliver(message.number)
    db.add("q", b"3")
    assert not keys(db) and not db._ledger.index.returned.entries


@pytest.mark.parametrize("ends", ["deliver", "delete", "deliver_many", "purge", "block"])
@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_a_commit_drops_what_was_told_of_its_message_since_it_was_drafted(face: str, ends: str, place: Place) -> None:
    with place.open() as db:
        number = db.add("q", b"1")
        taken = take(db)
        _write, commit = db._group.commit, db._group.submit
        came_back: list[int] = []

        def comes_back() -> None:
            if not came_back:
                came_back.append(number)
                db.release(taken.number)
                db._returns.write()

        def write(draft: Draft) -> None:
            comes_back()
            _write(draft)

        def submit(drafts: Sequence[Draft]) -> bool:
            comes_back()
            return commit(drafts)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(db._group, "commit", write)
            patched.setattr(db._group, "submit", submit)
            if face == "threads":
                end(db, ends, number)
            else:
                asyncio.run(asyncio.wait_for(end_in_task(db, ends, number), LONG))
        assert came_back and not db.undelivered_count("q")
        assert not keys(db)


def end(db: MessageDatabase, ends: str, number: int) -> None:
    if ends == "block":
        with db.commit() as commit:
            commit.deliver(number)
    else:
        getattr(db, ends)({"purge": "q", "deliver_many": [number]}.get(ends, number))


async def end_in_task(database: MessageDatabase, ends: str, number: int) -> None:
    async with AsyncMessageDatabase.wrap(database) as db:
        if ends == "block":
            async with db.commit() as commit:
                commit.deliver(number)
        else:
            await getattr(db, ends)({"purge": "q", "deliver_many": [number]}.get(ends, number))


def test_what_came_back_is_told_later_where_there_is_no_room_for_it() -> None:
    disk = SimulatedDisk()
    with MessageDatabase.open("/spool", disk=disk, options=Options(cleanup_interval=0)) as db:
        number = db.add("q", b"1")
        db.release(take(db))
        form = db._journal.form

        def refusing(drafts: Sequence[Draft]) -> Any:
            last = drafts[-1]
            group = form(drafts[:-1])
            group.refused = [*group.refused, (last, DiskFull(Path("/spool"), OSError(errno.ENOSPC, ""), "write"))]
            return group

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(db._journal, "form", refusing)
            db.add("q", b"2")
        assert not keys(db)
        db.add("q", b"3")
        assert keys(db) == [key_of(number)]


def test_what_came_back_is_written_within_a_second_and_in_one_commit(db: MessageDatabase, place: Place) -> None:
    db.add_many("q", [b"x"] * 20)
    for message in db.take_many("q", 20):
        db.release(message)
    place.pass_by(0.999_999)
    before = db._group.acknowledged
    settled(db)
    assert not keys(db)
    place.pass_by(0.000_001)
    settled(db)
    assert len(keys(db)) == 20 and db._group.acknowledged == before + 1
    settled(db)
    assert db._group.acknowledged == before + 1, "what is written is not written again"


def test_a_message_that_is_given_back_with_a_delay_stays_away_so_long(db: MessageDatabase, place: Place) -> None:
    first, second = db.add_many("q", [b"1", b"2"])
    assert db.release(take(db), delay=10)
    assert take(db).number == second and db.take("q") is None
    assert [one.number for one in db.taken()] == [second], "nobody has what is away"
    assert db.release(first) is False
    place.pass_by(9.999_999)
    assert db.take(["q"]) is None
    place.pass_by(0.000_001)
    message = db.take(["q"])
    assert message is not None and (message.number, message.attempts) == (first, 1)


@pytest.mark.parametrize(("passes", "is_there"), [(3, False), (10, True), (99, True)])
def test_a_delay_goes_on_over_a_restart(passes: float, is_there: bool, place: Place) -> None:
    with place.open() as db:
        db.add("q", b"1")
        assert db.release(take(db), delay=10)
    place.wall.pass_by(passes)
    place.steady = Clock(77)  # another boot
    with place.open() as db:
        assert (db.take(["q"]) is not None) == is_there
        assert db.undelivered_count("q") == 1
        place.steady.pass_by(10)
        assert is_there or db.take(["q"]) is not None


def test_the_end_of_a_delay_wakes_who_waits(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("q", b"1")
        began = time.monotonic()
        db.release(take(db), delay=0.05)
        assert take(db, wait=LONG).attempts == 1
        assert time.monotonic() - began >= 0.05


def test_what_is_away_can_be_delivered_and_deleted_by_its_number(db: MessageDatabase, place: Place) -> None:
    one, two = db.add_many("q", [b"1", b"2"])
    for message in db.take_many("q", 2):
        db.release(message, delay=10)
    assert db.deliver(one) and db.delete(two)
    place.pass_by(10)
    assert db.take(["q"]) is None and not db._ledger.taken


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"delay": -1}, ValueError, "from 0"),
        ({"delay": float("nan")}, ValueError, "from 0"),
        ({"delay": "1"}, TypeError, "number of seconds"),
        ({"reason": 5}, TypeError, "reason must be text"),
    ],
)
def test_a_wrong_delay_or_reason_is_told_and_nothing_is_given_back(
    given: dict[str, Any], kind: type[Exception], says: str, db: MessageDatabase
) -> None:
    db.add("q", b"1")
    message = take(db)
    with pytest.raises(kind, match=says):
        db.release(message, **given)
    assert db.take("q") is None


# Dead letters.


def dead(place: Place, **named: Any) -> MessageDatabase:
    return place.open(max_attempts=3, dead_letter="dead", **named)


@pytest.mark.parametrize("how", COMES_BACK)
def test_a_message_that_came_back_too_often_moves_with_why_when_how_often_and_from_where(
    how: str, place: Place
) -> None:
    with dead(place) as db:
        number = db.add("q", b"payload", properties={"own": "kept"})
        for _ in range(3):
            COMES_BACK[how](db, place)
        settled(db)
        assert db.take("q") is None and db.queues() == {"dead": 1}
        moved = db.take("dead")
    assert moved is not None and moved.number > number and moved.payload == b"payload"
    assert moved.properties["own"] == "kept" and moved.attempts == 3
    assert moved.properties[dead_letters.QUEUE] == "q"
    assert moved.properties[dead_letters.ATTEMPTS] == "3"
    assert moved.properties[dead_letters.NUMBER] == str(number)
    assert moved.properties[dead_letters.TIME].startswith("2023-11-14T22:13:")
    assert moved.properties[dead_letters.REASON] == ("its lease ended" if how == "lease" else "")


def test_the_reason_of_the_last_release_is_told(place: Place) -> None:
    with dead(place) as db:
        db.add("q", b"1")
        for reason in ("first", "second", "no stock: \u2603" + "x" * 2000):
            db.release(take(db), reason=reason)
        settled(db)
        moved = db.take("dead")
    assert moved is not None
    assert moved.properties[dead_letters.REASON].startswith("no stock: \u2603x")
    assert len(moved.properties[dead_letters.REASON].encode()) <= 1000


@pytest.mark.parametrize("own", [65_000, 65_300, 65_400, 65_500, 65_530])
def test_a_message_whose_properties_leave_no_room_loses_none_of_them(own: int, place: Place) -> None:
    with dead(place) as db:
        db.add("q", b"1", properties={"k": "v" * (own - 5)})
        for _ in range(3):
            db.release(take(db), reason="r" * 900)
        settled(db)
        moved = db.take("dead")
    assert moved is not None and moved.properties["k"] == "v" * (own - 5)
    told = [name for name in dead_letters.RESERVED if name in moved.properties]
    assert told == list(dead_letters.RESERVED[: len(told)]), "the least telling are left out first"


def test_dead_letters_have_none_themselves(place: Place) -> None:
    with dead(place) as db:
        db.add("dead", b"1")
        for _ in range(5):
            message = db.take("dead")
            assert message is not None and db.release(message)
        settled(db)
        assert db.queues() == {"dead": 1}


def test_a_limit_that_was_lowered_counts_from_the_next_opening_on(place: Place) -> None:
    with place.open() as db:
        db.add_many("q", [b"1", b"2"])
        for _ in range(4):
            db.release(take(db))
    with dead(place) as db:
        settled(db)
        assert db.queues() == {"dead": 1, "q": 1}
        assert take(db).payload == b"2"


def test_who_waits_for_dead_letters_gets_one_when_it_is_moved(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_attempts=1, dead_letter="dead") as db:
        db.add("q", b"1")
        db.release(take(db), reason="why")
        moved = db.take("dead", wait=LONG)
        assert moved is not None and moved.properties[dead_letters.REASON] == "why"


def test_on_a_full_disk_a_message_stays_and_comes_again() -> None:
    wall, steady, disk = Clock(1_700_000_000_000_000), Clock(), SimulatedDisk()
    options = Options(
        cleanup_interval=0, clock=wall, steady=steady, max_attempts=1, dead_letter="dead", max_data_file_size=20_000
    )
    with MessageDatabase.open("/spool", disk=disk, options=options) as db:
        db._handing.is_attended = False
        number = db.add("q", bytes(9000))
        db._journal.maintain()
        disk.space = disk.used()
        with pytest.raises(DiskFull):
            for _ in range(20):
                db.add("other", bytes(5000))
        db.release(take(db))
        settled(db)
        assert db.queues()["q"] == 1 and "dead" not in db.queues()
        assert db.take(["q"]) is None, "it stays away for a while"
        disk.space = None
        db._journal.maintain()
        steady.pass_by(60)
        message = db.take(["q"])
        assert message is not None and (message.number, message.attempts) == (number, 1)
        db.release(message)
        settled(db)
        assert db.queues()["dead"] == 1


@pytest.mark.parametrize("how", ["take", "take_many", "lease", "consume"])
def test_a_dead_letter_that_comes_back_goes_on_counting_from_where_it_was(how: str, place: Place) -> None:
    with dead(place) as db:
        db.add("q", b"1")
        for _ in range(3):
            db.release(take(db))
        settled(db)
    with place.open() as db:
        for attempts in (3, 4, 5):
            if how == "consume":
                consuming = db.consume("dead")
                message = next(consuming)
                assert isinstance(consuming, Consuming)
                consuming.close()
            else:
                given = {"lease": 10.0} if how == "lease" else {}
                message = db.take_many("dead", 2)[0] if how == "take_many" else db.take("dead", **given)  # type: ignore
                assert message is not None
                db.release(message.number)
            assert message.attempts == attempts
        db._returns.write()
    with place.open() as db:
        found = db.take("dead")
        assert found is not None and found.attempts == 6


def test_dead_letters_go_back_to_the_end_of_their_queue_with_no_attempts(place: Place) -> None:
    with dead(place) as db:
        db.add("q", b"1", properties={"own": "kept"})
        for _ in range(3):
            db.release(take(db))
        settled(db)
        other = db.add("q", b"2")
        (letter,) = db.undelivered("dead")
        (again,) = db.requeue([letter])
        assert again > other and "dead" not in db.queues()
        assert [take(db).payload, (back := take(db)).payload] == [b"2", b"1"]
        assert (back.properties, back.attempts) == ({"own": "kept"}, 0)
        with pytest.raises(ValueError, match="is no dead letter"):
            db.requeue([other])
        with pytest.raises((NoSuchMessage, NotUndelivered)):
            db.requeue([letter])
        assert db.queues() == {"q": 2}
        assert db.requeue([]) == []


@pytest.mark.parametrize(
    ("named", "kind", "says"),
    [
        ({"max_attempts": 3}, ValueError, "without dead_letter"),
        ({"dead_letter": "dead"}, ValueError, "without max_attempts"),
        ({"max_attempts": 0, "dead_letter": "dead"}, ValueError, "max_attempts must be"),
        ({"max_attempts": 1.5, "dead_letter": "dead"}, ValueError, "max_attempts must be"),
        ({"max_attempts": True, "dead_letter": "dead"}, ValueError, "max_attempts must be"),
        ({"max_attempts": 3, "dead_letter": ""}, InvalidName, "empty"),
        ({"max_attempts": 3, "dead_letter": 5}, TypeError, "must be text"),
    ],
)
def test_dead_letters_that_are_half_said_are_refused_at_the_opening(
    named: dict[str, Any], kind: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=says):
        MessageDatabase.open(tmp_path / "spool", **named)
    assert not (tmp_path / "spool").exists()


def test_clean_up_carries_forward_what_is_known(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        number = db.add("q", b"kept")
        gone = db.add("q", b"gone")
        for message in db.take_many("q", 2):
            db.release(message, reason="r")
        db._returns.write()
        db.deliver(gone)
        db.deliver_many([db.add("other", bytes(900)) for _ in range(30)])
        assert db.cleanup(compact=True).deleted
        version = db._ledger.index.keyed.find(key_of(number))
        assert version is not None and version.sequence > 1
    with MessageDatabase.open(tmp_path) as db:
        message = take(db)
        assert (message.number, message.payload, message.attempts) == (number, b"kept", 1)
        assert keys(db) == [key_of(number)]


def test_tasks_count_delay_and_requeue_too(place: Place) -> None:
    async def play() -> None:
        options = Options(clock=place.wall, steady=place.steady, max_attempts=2, dead_letter="dead")
        async with AsyncMessageDatabase.open(place.directory, options=options) as db:
            await db.add("q", b"1")
            for attempts in range(2):
                message = await db.take(["q"])
                assert message is not None and message.attempts == attempts
                assert db.release(message, delay=5, reason="later")
                assert await db.take("q") is None
                place.pass_by(5)
            await asyncio.to_thread(db._database._handing.look)
            letter = await db.take("dead")
            assert letter is not None and letter.properties[dead_letters.REASON] == "later"
            (number,) = await db.requeue([letter])
            again = await db.take("q")
            assert again is not None and (again.number, again.attempts) == (number, 0)

    asyncio.run(asyncio.wait_for(play(), LONG))


def test_a_message_that_is_gone_before_its_taker_has_it_hides_no_other(
    db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = db.add_many("q", [b"1", b"2"])
    db.release(take(db))
    receipt = db._handing.receipt

    def late(message: Message, lease: int | None) -> Any:
        assert db.deliver(message.number)
        return receipt(message, lease)

    monkeypatch.setattr(db._handing, "receipt", late)
    assert take(db).number == first, "it was in the caller's hands, and somebody delivered it by its number"
    monkeypatch.undo()
    assert take(db).number == second


def test_giving_back_does_not_mind_that_it_is_written_meanwhile(
    db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.add("q", b"1")
    look_soon = db._handing._look_soon

    def late() -> None:
        db._returns.write()
        look_soon()

    monkeypatch.setattr(db._handing, "_look_soon", late)
    assert db.release(take(db))


def test_closing_after_a_failed_disk_lets_go_though_something_was_to_be_written() -> None:
    disk = SimulatedDisk()
    options = Options(cleanup_interval=0, max_attempts=3, dead_letter="dead")
    db = MessageDatabase.open("/spool", disk=disk, options=options)
    db._handing.is_attended = False
    db.add_many("q", [b"1", b"2"])
    db.release(take(db))
    assert take(db).payload == b"1"
    disk.fail_from("write_durably", 1, errno.EIO)
    with contextlib.suppress(DiskError):
        db.close()
    assert names.HAND not in disk.contents(Path("/spool")), "a close is no death"
    with MessageDatabase.open("/spool", disk=disk.restart(), options=options) as db:
        first, second = db.take_many("q", 2)
        assert (first.attempts <= 1, second.attempts) == (True, 0), "the commit of its release may be there"


def test_a_clock_that_was_set_back_delays_by_no_more_than_the_delay(place: Place) -> None:
    with place.open() as db:
        db.add("q", b"1")
        place.pass_by(3600)
        db.release(take(db), delay=10)
    place.wall.now -= 7200 * 1_000_000
    with place.open() as db:
        assert db.take(["q"]) is None
        place.steady.pass_by(10)
        assert db.take(["q"]) is not None


def test_a_start_opens_a_file_once_for_all_that_it_says_of_what_came_back(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("q", [b"x"] * 50)
        for message in db.take_many("q", 50):
            db.release(message)
    opened: list[Path] = []

    class Counting(RealDisk):
        def open(self, path: Path, *, writable: bool = False) -> Any:
            opened.append(path)
            return super().open(path, writable=writable)

    with MessageDatabase.open(tmp_path, disk=Counting()) as db:
        assert [message.attempts for message in db.take_many("q", 50)] == [1] * 50
    assert sum(path.suffix == ".data" for path in opened) < 20


@pytest.mark.parametrize("nth", range(1, 12))
def test_an_interrupt_while_a_block_takes_its_message_gives_it_back(nth: int, db: MessageDatabase) -> None:
    db.add("q", b"1")
    left = nth

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if event == "line" and frame.f_code is Taking.__enter__.__code__:
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return interrupt

    with contextlib.suppress(KeyboardInterrupt):
        block = db.taking("q")
        sys.settrace(interrupt)
        try:
            block.__enter__()
        finally:
            sys.settrace(None)
        block.__exit__(None, None, None)
        return
    sys.settrace(None)
    assert not db.taken("q")
    assert take(db).payload == b"1"


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_a_block_gives_back_what_could_not_be_delivered(
    face: str, db: MessageDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.add("q", b"1")
    refused = DiskFull(db.directory, OSError(errno.ENOSPC, ""), "remove messages")

    def refuse(drafts: Sequence[Draft]) -> Any:
        raise refused

    async def in_task() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            monkeypatch.setattr(wrapped, "deliver", refuse)
            async with wrapped.taking("q"):
                pass

    with pytest.raises(DiskFull), pytest.MonkeyPatch.context() as patched:
        patched.setattr(db, "deliver", refuse)
        if face == "threads":
            with db.taking("q"):
                pass
        else:
            asyncio.run(asyncio.wait_for(in_task(), LONG))
    assert take(db).attempts == 1


def test_a_wrong_time_to_extend_by_is_told_by_the_name_that_it_has_there(db: MessageDatabase) -> None:
    db.add("q", b"1")
    message = take(db, lease=5)
    for wrong, error in ((0, ValueError), ("soon", TypeError), (float("nan"), ValueError)):
        with pytest.raises(error, match=r"^seconds must be"):
            db.extend(message, wrong)  # type: ignore[arg-type]


def test_a_dead_letter_that_is_named_twice_goes_back_once(place: Place) -> None:
    with place.open(max_attempts=1, dead_letter="dead") as db:
        db.add("q", b"1")
        db.release(take(db))
        settled(db)
        letter = db.take("dead")
        assert letter is not None and len(db.requeue([letter, letter.number])) == 1
        assert db.queues() == {"q": 1}
