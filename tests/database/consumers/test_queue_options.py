"""Attempts and dead letters of single queues, and what has expired that goes there and is not deleted."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import (
    AsyncMessageDatabase,
    DiskFull,
    InvalidName,
    LeaseEnded,
    Message,
    MessageDatabase,
    Options,
    QueueFull,
    QueueOptions,
)
from oms_journal.database.consumers import dead_letters
from oms_journal.journal import names
from tests.support.disks.faulty_disk import SimulatedDisk

LONG = 60.0
START = 1_700_000_000_000_000
EXPIRED = QueueOptions(dead_letter="late", expired_to_dead_letter=True)


class Place:
    """A directory that is opened again and again, with clocks that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wall, self.steady = START, 5_000_000

    def options(self, **named: Any) -> Options:
        return Options(cleanup_interval=0, clock=lambda: self.wall, steady=lambda: self.steady, **named)

    def open(self, **named: Any) -> MessageDatabase:
        return unattended(MessageDatabase.open(self.directory, options=self.options(**named)))

    def pass_by(self, seconds: float) -> None:
        self.wall += round(seconds * 1e6)
        self.steady += round(seconds * 1e6)


def unattended(db: MessageDatabase) -> MessageDatabase:
    """Have no thread do by itself what the test does."""
    db._handing.is_attended = False
    db._maintenance.has_expired = db._maintenance.needs_vouching = lambda: False
    return db


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def db(place: Place) -> Iterator[MessageDatabase]:
    with place.open(queues={"q": EXPIRED}) as opened:
        yield opened


def come_back(db: MessageDatabase, queue: str, times: int) -> None:
    for _ in range(times):
        message = db.take(queue)
        assert message is not None and db.release(message, reason="in vain")
    db._handing.look()  # as the alarm's thread would by now


def end_expired(db: MessageDatabase) -> None:
    """Have done what the maintenance does every few seconds."""
    if db._has_expired():
        db._end_expired()


def told(message: Message | None) -> tuple[str, str, str]:
    """Return from where a message is a dead letter, how often it came back and why it is one."""
    assert message is not None
    said = message.properties
    return said[dead_letters.QUEUE], said[dead_letters.ATTEMPTS], said[dead_letters.REASON]


# Attempts of one queue.


def test_a_queue_has_attempts_and_dead_letters_of_its_own(place: Place) -> None:
    queues = {
        "own": QueueOptions(max_attempts=1, dead_letter="own-dead"),
        "attempts": QueueOptions(max_attempts=1),
        "elsewhere": QueueOptions(dead_letter="elsewhere-dead"),
        "limit": QueueOptions(max_messages=5),
    }
    with place.open(max_attempts=2, dead_letter="dead", queues=queues) as db:
        for queue in (*queues, "other"):
            db.add(queue, queue.encode())
            come_back(db, queue, 1)
        assert db.queues() == {"own-dead": 1, "dead": 1, "elsewhere": 1, "limit": 1, "other": 1}
        for queue in ("elsewhere", "limit", "other"):
            come_back(db, queue, 1)
        assert db.queues() == {"own-dead": 1, "elsewhere-dead": 1, "dead": 3}
        assert told(db.take("own-dead")) == ("own", "1", "in vain")


def test_where_one_queue_alone_has_attempts_all_others_come_again(place: Place) -> None:
    with place.open(queues={"q": QueueOptions(max_attempts=1, dead_letter="dead")}) as db:
        for queue in ("q", "other"):
            db.add(queue, b"1")
            come_back(db, queue, 1)
        assert db.queues() == {"dead": 1, "other": 1}
        come_back(db, "other", 20)
        come_back(db, "dead", 20)
        assert db.queues() == {"dead": 1, "other": 1}


def test_queues_may_share_the_dead_letters_that_the_database_names(place: Place) -> None:
    with place.open(dead_letter="dead", queues={"q": QueueOptions(max_attempts=1)}) as db:
        for queue in ("q", "other"):
            db.add(queue, b"1")
            come_back(db, queue, 1)
        assert db.queues() == {"dead": 1, "other": 1}


def test_the_dead_letters_of_a_queue_have_none_though_the_database_has_some(place: Place) -> None:
    queues = {"q": QueueOptions(dead_letter="q-dead"), "q-dead": QueueOptions(max_messages=1)}
    with place.open(max_attempts=1, dead_letter="dead", queues=queues) as db:
        db.add("q-dead", b"1")
        come_back(db, "q-dead", 3)
        db.add("q", b"2")
        come_back(db, "q", 1)
        assert db.queues() == {"q-dead": 2}, "its limit refuses no dead letter"


def test_a_message_that_kills_its_process_counts_where_a_queue_alone_has_attempts() -> None:
    disk = SimulatedDisk()
    options = Options(cleanup_interval=0, queues={"q": QueueOptions(max_attempts=1, dead_letter="dead")})
    db = unattended(MessageDatabase.open("/spool", disk=disk, options=options))
    db.add("q", b"kills")
    assert db.take("q") is not None and names.HAND in disk.contents(Path("/spool"))
    db._abandon()
    with MessageDatabase.open("/spool", disk=disk.restart(), options=options) as again:
        again._handing.look()
        assert again.queues() == {"dead": 1}


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"max_attempts": 0}, ValueError, "max_attempts must be"),
        ({"max_attempts": 1.5}, ValueError, "max_attempts must be"),
        ({"max_attempts": True}, ValueError, "max_attempts must be"),
        ({"dead_letter": ""}, InvalidName, "empty"),
        ({"dead_letter": 5}, TypeError, "must be text"),
        ({"expired_to_dead_letter": 1}, TypeError, "expired_to_dead_letter must be True or False"),
    ],
)
def test_an_option_of_a_queue_that_cannot_be_is_refused_where_it_is_made(
    given: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        QueueOptions(**given)


@pytest.mark.parametrize(
    ("named", "queues", "says"),
    [
        ({}, {"q": {"max_attempts": 3}}, r"queues\['q'\] has max_attempts without dead_letter: name the queue"),
        ({}, {"q": {"dead_letter": "d"}}, r"queues\['q'\] has dead_letter without max_attempts: say how often"),
        ({}, {"q": {"expired_to_dead_letter": True}}, r"queues\['q'\] has expired_to_dead_letter without dead_letter"),
        ({"dead_letter": "d"}, {"q": {"max_messages": 3}}, "dead_letter is given without max_attempts"),
        ({"dead_letter": "d"}, {"q": {"max_attempts": 3, "dead_letter": "e"}}, "dead_letter is given without"),
        ({}, {"q": {"max_attempts": 3, "dead_letter": "q"}}, r"queues\['q'\] has dead_letter 'q', the queue itself"),
        (
            {"max_attempts": 3, "dead_letter": "d"},
            {"d": {"max_attempts": 5}},
            r"queues\['d'\] has max_attempts, and takes dead letters of others: it has none itself",
        ),
        (
            {},
            {"q": {"max_attempts": 3, "dead_letter": "d"}, "d": {"dead_letter": "e", "expired_to_dead_letter": True}},
            r"queues\['d'\] has dead_letter, and takes dead letters of others: it has none itself",
        ),
        (
            {"max_attempts": 3, "dead_letter": "d"},
            {"d": {"expired_to_dead_letter": True}},
            r"queues\['d'\] has expired_to_dead_letter, and takes dead letters of others",
        ),
    ],
)
def test_options_of_queues_that_do_not_go_together_are_refused_at_the_opening(
    named: dict[str, Any], queues: dict[str, dict[str, Any]], says: str, tmp_path: Path
) -> None:
    given = {name: QueueOptions(**options) for name, options in queues.items()}
    with pytest.raises(ValueError, match=says):
        MessageDatabase.open(tmp_path / "spool", queues=given, **named)
    with pytest.raises(ValueError, match=says):
        AsyncMessageDatabase.open(tmp_path / "spool", queues=given, **named)
    assert not (tmp_path / "spool").exists()


# What has expired.


def test_what_has_expired_moves_to_the_dead_letters_where_its_queue_says_so(place: Place) -> None:
    queues = {"q": QueueOptions(max_attempts=3, dead_letter="late", expired_to_dead_letter=True)}
    with place.open(queues=queues) as db:
        number = db.add("q", b"over", properties={"own": "kept"}, expires=10)
        again = db.add("q", b"again", expires=10, group="g")
        db.add("q", b"stays", delay=1)
        db.add("other", b"deleted", expires=10)
        assert len(db.take_many("q", 2)) == 2
        assert db.release(number, reason="first") and db.release(again)
        place.pass_by(10)
        commits = db._group.acknowledged
        end_expired(db)
        assert db._group.acknowledged == commits + 3, (
            "one that deletes, with what came back beside it, and one that moves"
        )
        assert db.queues() == {"late": 2, "q": 1}
        letter, other = db.take_many("late", 5)
        assert told(letter) == ("q", "1", "expired") == told(other)
        assert letter.properties["own"] == "kept" and letter.properties[dead_letters.NUMBER] == str(number)
        assert letter.number > again and (letter.payload, other.payload) == (b"over", b"again")
        assert letter.attempts == 1
        commits = db._group.acknowledged
        end_expired(db)
        assert db._group.acknowledged == commits
        place.pass_by(99)
        (back,) = db.requeue([letter])
        assert db.read(back).payload == b"over" and db.undelivered_count("q") == 2, "it has no expiry any more"
    with place.open() as db:
        assert db.queues() == {"late": 1, "q": 2}


def test_a_message_in_hand_moves_when_it_comes_back_and_not_before(db: MessageDatabase, place: Place) -> None:
    db.add_many("q", [b"kept", b"released", b"lease"], expires=10)
    kept, released, leased = *db.take_many("q", 2), db.take("q", lease=20)
    assert leased is not None
    place.pass_by(10)
    end_expired(db)
    assert db.queues() == {"q": 3}
    db.release(released)
    end_expired(db)
    assert db.queues() == {"q": 2, "late": 1} and db.deliver(kept)
    place.pass_by(10)
    db._handing.look()
    end_expired(db)
    assert db.queues() == {"late": 2}
    with pytest.raises(LeaseEnded):
        db.deliver(leased)
    assert [letter.payload for letter in db.take_many("late", 5)] == [b"released", b"lease"]


def test_a_message_that_came_back_too_often_is_a_dead_letter_for_that(place: Place) -> None:
    queues = {"q": QueueOptions(max_attempts=1, dead_letter="late", expired_to_dead_letter=True)}
    with place.open(queues=queues) as db:
        db.add("q", b"1", expires=10)
        message = db.take("q")
        place.pass_by(10)
        assert message is not None and db.release(message, reason="in vain")
        end_expired(db)
        db._handing.look()
        assert db.queues() == {"late": 1} and told(db.take("late")) == ("q", "1", "in vain")


def test_a_message_that_stays_away_moves_from_there(db: MessageDatabase, place: Place) -> None:
    db.add("q", b"1", expires=10)
    message = db.take("q")
    assert message is not None and db.release(message, delay=100)
    place.pass_by(10)
    end_expired(db)
    assert db.queues() == {"late": 1} and not db._ledger.taken


@pytest.mark.parametrize(
    ("name", "value", "commits"), [("database.EXPIRED_MAX", 4, 3), ("consumers.returns.EXPIRED_BYTES_MAX", 2500, 4)]
)
def test_many_that_expired_move_in_few_commits(
    name: str, value: int, commits: int, db: MessageDatabase, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"oms_journal.database.{name}", value)
    db.add_many("q", [bytes(1000)] * 10, expires=10)
    place.pass_by(10)
    before = db._group.acknowledged
    end_expired(db)
    assert db.queues() == {"late": 10} and db._group.acknowledged - before == commits


def test_who_waits_for_dead_letters_gets_what_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.database.maintenance.VOUCH_SECONDS", 0.01)
    with MessageDatabase.open(tmp_path, queues={"q": EXPIRED}) as db:
        db.add("q", b"1", expires=0.01)
        letter = db.take("late", wait=LONG)
        assert told(letter) == ("q", "0", "expired")


def test_what_expired_while_the_database_was_closed_moves_too(place: Place) -> None:
    with place.open() as db:
        db.add("q", b"1", expires=10)
    place.pass_by(10)
    with place.open(queues={"q": EXPIRED}) as db:
        end_expired(db)
        assert db.queues() == {"late": 1}


def test_on_a_full_disk_it_stays_and_comes_again_and_all_else_is_deleted() -> None:
    disk, place = SimulatedDisk(), Place(Path("/spool"))
    options = place.options(queues={"q": EXPIRED}, max_data_file_size=20_000)
    with unattended(MessageDatabase.open("/spool", disk=disk, options=options)) as db:
        number = db.add("q", bytes(9000), expires=10)
        db.add_many("other", [b"1", b"2"], expires=10)
        db._journal.maintain()
        disk.space = disk.used()
        with pytest.raises(DiskFull):
            for _ in range(20):
                db.add("filling", bytes(5000))
        place.pass_by(10)
        for _ in range(2):
            with pytest.raises(DiskFull):
                end_expired(db)
            assert "late" not in db.queues() and db.read(number).payload == bytes(9000)
            assert db._ledger.index.table.find(number + 1) is None, "what is deleted needs no room"
        disk.space = None
        db._journal.maintain()
        end_expired(db)
        assert db.queues()["late"] == 1


def test_what_is_removed_while_it_is_to_be_moved_is_in_no_dead_letters(
    db: MessageDatabase, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, moved = db.add_many("q", [b"1", b"2"], expires=10)
    place.pass_by(10)
    write = db._returns._write

    def late(draft: Any) -> object:
        monkeypatch.undo()
        assert db.delete(gone)
        return write(draft)

    monkeypatch.setattr(db._returns, "_write", late)
    end_expired(db)
    end_expired(db)
    assert db.queues() == {"late": 1} and db.take("late").payload == b"2"  # type: ignore[union-attr]
    assert moved


def test_tasks_find_what_has_expired_in_the_dead_letters(place: Place) -> None:
    async def play() -> None:
        options = place.options(queues={"q": EXPIRED})
        async with AsyncMessageDatabase.open(place.directory, options=options) as db:
            unattended(db._database)
            number = await db.add("q", b"1", expires=10)
            waits = asyncio.create_task(db.take("late", wait=LONG))
            place.pass_by(10)
            assert await db.take("q") is None
            await asyncio.to_thread(end_expired, db._database)
            letter = await waits
            assert told(letter) == ("q", "0", "expired")
            assert letter is not None and letter.properties[dead_letters.NUMBER] == str(number)
            (back,) = await db.requeue([letter])
            assert [one.number async for one in db.undelivered("q")] == [back]

    asyncio.run(asyncio.wait_for(play(), LONG))


# What has expired counts no more.


def test_what_has_expired_counts_against_no_limit_before_it_is_deleted(place: Place) -> None:
    with place.open(queues={"q": QueueOptions(max_messages=3), "b": QueueOptions(max_bytes=10)}) as db:
        db.add("q", b"stays")
        over = db.add_many("q", [b"1", b"2"], expires=10)
        db.add("b", bytes(10), expires=10)
        place.pass_by(10)
        assert db.add_many("q", [b"3", b"4"]) and db.add("b", bytes(10))
        for queue in ("q", "b"):
            with pytest.raises(QueueFull):
                db.add(queue, bytes(5))
        with pytest.raises(QueueFull), db.commit() as commit:
            commit.delete(over[0])
            commit.add("q", b"in its place")
        end_expired(db)
        with pytest.raises(QueueFull):
            db.add("q", b"5")
        assert db.undelivered_count("q") == 3


def test_a_queue_has_no_bytes_of_what_has_expired(db: MessageDatabase, place: Place) -> None:
    db.add("q", bytes(100))
    db.add_many("q", [bytes(7), bytes(8)], expires=10)
    gone = db.add("q", bytes(9), expires=10)
    db.add("other", bytes(50), expires=10)
    place.pass_by(10)
    assert db.queues() == {"q": 1}
    assert {name: (one.undelivered, one.bytes) for name, one in db.stats().queues.items()} == {"q": (1, 100)}
    assert db.delete(gone) and db.stats().queues["q"].bytes == 100
    end_expired(db)
    assert {name: one.bytes for name, one in db.stats().queues.items()} == {
        "q": 100,
        "late": db.stats().queues["late"].bytes,
    }
    assert not (db._ledger.index.terms and db._ledger.index.terms.expired_bytes)
