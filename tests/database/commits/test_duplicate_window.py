"""Resends under a producer identifier, through the whole database: restarts, clean-ups, crashes, bounds."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DuplicateConflict, MessageDatabase, NotUndelivered
from oms_journal.database.options import Options
from oms_journal.index.duplicates import SET_MICROSECONDS
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.dump import dump
from tests.support.disks.watched_disk import HandClock
from tests.support.sweeps import a_sample

SMALL = 7680


def _fill(db: MessageDatabase, files: int = 4) -> None:
    """Fill so many files with what is delivered at once."""
    db.deliver_many([db.add("filling", bytes(900)) for _ in range(4 * files)])


def _close(db: MessageDatabase, directory: Path) -> Path:
    db.close()
    return directory


def _crash(db: MessageDatabase, directory: Path) -> Path:
    """Return a copy of the directory as a killed process would leave it."""
    copy = directory.with_name(directory.name + "+")
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("omsmsg.reserve", "*.new"))
    db.close()
    return copy


def test_a_resend_is_answered_with_the_first_number_and_adds_nothing(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"order", producer_id="4711")
        assert db.add("q", b"order", producer_id="4711") == number
        assert db.add("q", b"order", properties={"try": "2"}, producer_id="4711") == number, "its payload counts"
        assert db.add("r", b"order", producer_id="4711") != number, "another queue, another identifier"
        assert db.add("q", b"order") != number
        db.deliver(number)
        assert db.add("q", b"order", producer_id="4711") == number, "also when it was delivered long since"
        assert db.undelivered_count("q") == 1


def test_each_message_of_a_commit_has_its_identifier_wherever_it_is_read(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL, cleanup_interval=0) as db:
        with db.commit(producer_id="whole") as commit:
            commit.add("q", b"1", properties={"a": "1"})
            commit.add("r", b"2")
            commit.add("q", b"3")
        _fill(db)
        for moves in (False, True):
            if moves:
                assert db.cleanup(compact=True).moved_messages == 3
            assert {db.read(number).producer_id for number in commit.numbers} == {"whole"}
            told = [one for one in dump(RealDisk(), [tmp_path]) if isinstance(one, DumpedOperation)]
            mine = [one.producer for one in told if one.operation == "ADD" and one.message in commit.numbers]
            assert mine == ["whole"] * len(mine) != []
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL) as db:
        assert {message.producer_id for message in map(db.read, commit.numbers)} == {"whole"}


@a_sample(2)
@pytest.mark.parametrize("end", [_close, _crash])
@pytest.mark.parametrize("cleans_up", [False, True])
def test_what_was_sent_is_known_after_a_restart(
    end: Callable[[MessageDatabase, Path], Path], cleans_up: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "spool"
    db = MessageDatabase.open(directory, max_data_file_size=SMALL, cleanup_interval=0)
    number = db.add("q", b"order", producer_id="one")
    many = db.add_many("q", [b"a", b"b"], producer_id="many")
    with db.commit(producer_id="whole") as commit:
        commit.add("q", b"x")
        commit.add("r", b"y")
        commit.deliver(number)
        commit.put("k", b"v")
    with db.commit() as several:
        several.add("q", b"1", producer_id="1")
        several.add("r", b"2", producer_id="2")
    db.deliver_many(db.numbers())
    _fill(db)
    if cleans_up:
        assert len(db.cleanup(compact=True).deleted) >= 3, "the files that they stand in are gone"
    for _ in range(3):
        directory = end(db, directory)
        db = MessageDatabase.open(directory, max_data_file_size=SMALL, cleanup_interval=0)
        highest = db.add("later", b"x")
        assert db.add("q", b"order", producer_id="one") == number
        assert db.add_many("q", [b"a", b"b"], producer_id="many") == many
        with db.commit(producer_id="whole") as again:
            again.add("q", b"x")
            again.add("r", b"y")
            again.deliver(number)
            again.put("k", b"v")
        assert again.numbers == commit.numbers
        with db.commit() as again:
            again.add("q", b"1", producer_id="1")
            again.add("r", b"2", producer_id="2")
        assert again.numbers == several.numbers
        with pytest.raises(DuplicateConflict):
            db.add("q", b"another", producer_id="one")
        assert db.undelivered_count() == db.undelivered_count("later")
        assert db.add("later", b"y") == highest + 1
        if cleans_up:
            _fill(db)
            assert db.cleanup(compact=True).deleted
    db.close()


def test_an_identifier_is_forgotten_when_it_is_too_old(tmp_path: Path) -> None:
    clock = HandClock()
    first = 0
    for turn in range(3):
        with MessageDatabase.open(tmp_path, clock=clock, duplicate_age="1h") as db:
            if not turn:
                first = db.add("q", b"order", producer_id="4711")
            assert db.add("q", b"order", producer_id="4711") == first
            with pytest.raises(DuplicateConflict):
                db.add("q", b"other", producer_id="4711")
        clock.advance(1700)
    clock.advance(3600)
    with MessageDatabase.open(tmp_path, clock=clock, duplicate_age="1h") as db:
        second = db.add("q", b"other", producer_id="4711")
        assert second > first
    with MessageDatabase.open(tmp_path, clock=clock, duplicate_age="1h") as db:
        assert db.add("q", b"other", producer_id="4711") == second, "the later one is known now"


def test_a_clock_that_jumps_back_forgets_no_identifier(tmp_path: Path) -> None:
    clock = HandClock()
    with MessageDatabase.open(tmp_path, clock=clock, duplicate_age="1m") as db:
        number = db.add("q", b"order", producer_id="4711")
        clock.advance(-100_000)
        assert db.add("q", b"order", producer_id="4711") == number
    with MessageDatabase.open(tmp_path, clock=clock, duplicate_age="1m") as db:
        assert db.add("q", b"order", producer_id="4711") == number


@pytest.mark.parametrize("cleans_up", [False, True])
def test_a_clock_that_was_wrong_and_is_put_right_forgets_no_identifier_of_seconds_ago(
    cleans_up: bool, tmp_path: Path
) -> None:
    clock, steady = HandClock(), HandClock(0)

    def both(seconds: float) -> None:
        clock.advance(seconds)
        steady.advance(seconds)

    options = Options(duplicate_age=60, clock=clock, steady=steady, max_data_file_size=SMALL, cleanup_interval=0)
    with MessageDatabase.open(tmp_path, options=options) as db:
        before = db.add("q", b"before", producer_id="before")
        clock.advance(-86_400)
        both(5)
        wrong = db.add("q", b"order", producer_id="4711")
        both(5)
        clock.advance(86_400)
        assert db.add("q", b"order", producer_id="4711") == wrong
        assert db.add("q", b"before", producer_id="before") == before
        if cleans_up:
            db.deliver_many(db.numbers())
            _fill(db)
            db.deliver_many(db.numbers())
            assert db.cleanup().deleted
        db._maintain()  # as the maintenance does within a second
        assert not db._ledger.index.duplicates.is_set
    both(20)
    with MessageDatabase.open(tmp_path, options=options) as db:
        assert db.add("q", b"order", producer_id="4711") == wrong, "also after a start, from the files"
        assert db.add("q", b"before", producer_id="before") == before
        both(31)
        assert db.add("q", b"before", producer_id="before") > before, "and no longer than it should"
        both(5)
        assert db.add("q", b"order", producer_id="4711") > wrong


def test_the_system_clock_has_one_beside_it_that_nobody_sets() -> None:
    first = Options()._ahead()
    second = Options()._ahead()
    assert first is not None and second is not None
    assert abs(second - first) < SET_MICROSECONDS
    assert Options(clock=HandClock())._ahead() is None


@pytest.mark.parametrize("cleans_up", [False, True])
def test_only_the_last_so_many_identifiers_are_known(cleans_up: bool, tmp_path: Path) -> None:
    options = {"duplicate_count": 10, "max_data_file_size": SMALL, "cleanup_interval": 0}
    with MessageDatabase.open(tmp_path, **options) as db:  # type: ignore[arg-type]
        first = {index: db.add("q", b"%d" % index, producer_id=str(index)) for index in range(30)}
        db.deliver_many(db.numbers())
        _fill(db)
        if cleans_up:
            assert db.cleanup().deleted
    for _ in range(2):
        with MessageDatabase.open(tmp_path, **options) as db:  # type: ignore[arg-type]
            for index in range(20, 30):
                assert db.add("q", b"%d" % index, producer_id=str(index)) == first[index]
            assert db.undelivered_count() == 0
            if cleans_up:
                _fill(db)
                db.cleanup()
    with MessageDatabase.open(tmp_path, **options) as db:  # type: ignore[arg-type]
        assert db.add("q", b"19", producer_id="19") > first[29]


def test_a_window_of_nothing_knows_no_identifier(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, duplicate_count=0) as db:
        assert [db.add("q", b"x", producer_id="4711") for _ in range(3)] == [1, 2, 3]


@pytest.mark.whole
def test_more_identifiers_than_fit_under_one_key_get_over_a_clean_up(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size="64K", cleanup_interval=0) as db:
        first = {}
        for index in range(1000):
            identifier = f"{index:05}".ljust(100, "x")
            first[identifier] = db.add("q", b"x", producer_id=identifier)
        db.deliver_many(db.numbers())
        _fill(db, 40)
        assert db.cleanup().deleted
        assert not list(db.keys())
    with MessageDatabase.open(tmp_path, max_data_file_size="64K", cleanup_interval=0) as db:
        assert {identifier: db.add("q", b"x", producer_id=identifier) for identifier in first} == first
        _fill(db, 40)
        assert db.cleanup().deleted
    with MessageDatabase.open(tmp_path) as db:
        assert {identifier: db.add("q", b"x", producer_id=identifier) for identifier in first} == first


def test_what_is_too_old_is_not_carried_forward_for_ever(tmp_path: Path) -> None:
    clock = HandClock()
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL, clock=clock, cleanup_interval=0) as db:
        for index in range(50):
            db.add("q", b"x", producer_id=str(index))
        db.deliver_many(db.numbers())
        _fill(db)
        db.cleanup()
        assert len(db._ledger.index.duplicates) == 50
        clock.advance(4000)
        _fill(db)
        db.cleanup()
        assert len(db._ledger.index.duplicates) == 0
    with MessageDatabase.open(tmp_path, clock=clock) as db:
        assert len(db._ledger.index.duplicates) == 0


def test_a_conflict_in_a_block_writes_nothing_of_it(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        known = db.add("q", b"known", producer_id="1")
        with pytest.raises(DuplicateConflict), db.commit() as commit:
            commit.add("q", b"known", producer_id="1")
            commit.add("q", b"new", producer_id="2")
            commit.put("k", b"v")
        assert list(db.numbers()) == [known]
        assert db.get("k") is None


def test_a_resent_commit_may_remove_what_its_first_has_removed(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        request = db.add("requests", b"?")

        def answer(producer_id: str | None, reply: bytes = b"!") -> range:
            with db.commit(producer_id=producer_id) as commit:
                commit.deliver(request)
                commit.add("replies", reply)
            return commit.numbers

        first = answer("unit 1")
        assert answer("unit 1") == first
        with pytest.raises(NotUndelivered):
            answer(None)
        with pytest.raises(NotUndelivered):
            answer("unit 2")
        with pytest.raises(DuplicateConflict):
            answer("unit 1", b"?!")
        assert db.queues() == {"replies": 1}
