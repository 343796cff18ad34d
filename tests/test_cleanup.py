"""Clean-up and compaction: what goes, what never does, and that nothing is lost beside running commits."""

import contextlib
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from database import CommitFailed, DiskError, MessageDamaged, MessageDatabase
from database.cleanup import IDLE_BYTES
from journal.names import DataFileName
from tests.watched_disk import TIMEOUT_SECONDS, HandClock, WatchedDisk

SMALL = 4096


def _open(directory: Path, **named: object) -> MessageDatabase:
    options = {"max_data_file_size": SMALL, "cleanup_interval": 0, "compact_share": 0} | named
    return MessageDatabase.open(directory, **options)  # type: ignore[arg-type]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with _open(tmp_path / "spool") as opened:
        yield opened


def _sequences(db: MessageDatabase) -> list[int]:
    """Return the data files that hold anything, and no prepared one."""
    return [fact.sequence for fact in db.explain()]


def _fill(db: MessageDatabase, files: int) -> dict[int, list[int]]:
    """Fill so many files; return the numbers of the messages in each."""
    found: dict[int, list[int]] = {}
    while len(found) <= files:
        number = db.add("q", bytes(700))
        found.setdefault(db.read(number).sequence, []).append(number)
    return found


def _roll(db: MessageDatabase) -> None:
    """Let what comes next stand in a new file."""
    db._journal.roll_at_next_commit()


# What goes.


@pytest.mark.parametrize(
    "needed", list(product([False, True], repeat=4)), ids=lambda n: "".join("-x"[each] for each in n)
)
def test_only_the_leading_run_of_files_that_hold_nothing_needed_goes(
    needed: tuple[bool, ...], db: MessageDatabase
) -> None:
    files = _fill(db, 4)
    sequences = sorted(files)
    for sequence, is_needed in zip(sequences, needed, strict=False):
        db.deliver_many(files[sequence][1:] if is_needed else files[sequence])
    planned = db.cleanup(dry_run=True)
    assert _sequences(db)[: len(sequences)] == sequences, "a dry run changes nothing"
    report = db.cleanup()

    first_needed = next((sequence for sequence, is_needed in zip(sequences, needed, strict=False) if is_needed), None)
    gone = [sequence for sequence in sequences[:4] if first_needed is None or sequence < first_needed]
    assert report.deleted == planned.deleted == tuple(str(DataFileName(sequence)) for sequence in gone)
    assert not set(gone) & set(_sequences(db))
    assert report.freed_bytes == planned.freed_bytes
    for sequence, is_needed in zip(sequences, needed, strict=False):
        assert [n for n in db.numbers() if n in files[sequence]] == (files[sequence][:1] if is_needed else [])


def test_what_a_clean_up_frees_is_what_the_directory_loses(db: MessageDatabase) -> None:
    files = _fill(db, 5)
    db.deliver_many([number for numbers in files.values() for number in numbers])
    db._journal.seal_all()
    sizes = {path.name: path.stat().st_size for path in db.directory.glob("*.data")}
    report = db.cleanup()

    assert len(report.deleted) == 5
    assert report.freed_bytes == sum(sizes[name] for name in report.deleted)
    assert db.cleanup() == type(report)(), "there is nothing more to do"


def test_a_removal_stays_as_long_as_what_it_removes(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        kept = db.add("q", b"pins the first file")
        gone = [db.add("q", bytes(700)) for _ in range(20)]
        db.deliver_many(gone)
        _roll(db)
        db.add("q", b"later")
        db.cleanup()
    with _open(tmp_path) as db:
        assert db.undelivered_count() == 2
        assert db.read(kept).sequence == 1


def test_a_key_keeps_its_file_and_a_newer_version_lets_it_go(db: MessageDatabase) -> None:
    db.put("k", b"old")
    files = _fill(db, 3)
    db.deliver_many([number for numbers in files.values() for number in numbers])
    assert db.cleanup().deleted == ()
    db.put("k", b"new")
    assert len(db.cleanup().deleted) >= 3
    assert db.get("k") == b"new"


def test_a_start_lets_go_of_what_is_dead(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        files = _fill(db, 6)
        db.deliver_many([number for numbers in files.values() for number in numbers])
    before = len(list(tmp_path.glob("*.data")))
    with _open(tmp_path) as db:
        assert len(list(tmp_path.glob("*.data"))) < before - 4
        assert db.add("q", b"x") > max(max(numbers) for numbers in files.values())


def test_a_file_whose_loss_was_meant_is_not_missed(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        files = _fill(db, 5)
        db.deliver_many([number for numbers in files.values() for number in numbers])
        db.cleanup()
    for _ in range(3):
        with _open(tmp_path) as db:
            assert db.recovery.intact, db.recovery


def test_the_tender_cleans_up_by_itself(tmp_path: Path) -> None:
    with _open(tmp_path, cleanup_interval=0.01) as db:
        files = _fill(db, 3)
        db.deliver_many([number for numbers in files.values() for number in numbers])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while min(_sequences(db)) <= max(files) - 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# The active file.


@pytest.mark.parametrize("size", [100, IDLE_BYTES + 1000])
def test_an_idle_active_file_goes_when_it_is_worth_it(size: int, tmp_path: Path) -> None:
    with _open(tmp_path, max_data_file_size="1M") as db:
        db.deliver(db.add("q", bytes(size)))
        planned = db.cleanup(dry_run=True)
        report = db.cleanup()
        assert report.deleted == planned.deleted == ((str(DataFileName(1)),) if size > IDLE_BYTES else ())
        number = db.add("q", b"after")
        assert db.read(number).sequence == (2 if size > IDLE_BYTES else 1)
        assert db.cleanup().deleted == ()
    with _open(tmp_path) as db:
        assert db.recovery.intact, db.recovery
        assert [message.payload for message in db.undelivered()] == [b"after"]


@pytest.mark.parametrize("compact", [False, True])
def test_an_active_file_that_is_needed_stays(compact: bool, tmp_path: Path) -> None:
    with _open(tmp_path, max_data_file_size="1M") as db:
        db.deliver(db.add("q", bytes(100_000)))
        db.put("k", b"v")
        assert db.cleanup(compact=compact).deleted == ()
        assert db.get("k") == b"v"


def test_what_comes_into_an_idle_file_while_it_is_about_to_go_keeps_it(tmp_path: Path) -> None:
    """A commit is added at every step of a clean-up that has found the active file idle."""
    for step in range(12):
        disk = WatchedDisk()
        with _open(tmp_path / str(step), max_data_file_size="1M", disk=disk) as db:
            db.deliver(db.add("q", bytes(50_000)))
            late: list[int] = []
            countdown = iter(range(step, -1, -1))
            look, write = db._cleanup._context.look, db._cleanup._context.write

            def add_at_the_step(db: MessageDatabase = db, late: list[int] = late) -> None:
                if next(countdown, -1) == 0:  # noqa: B023
                    late.append(db.add("q", b"late"))

            def looking() -> object:
                add_at_the_step()
                found = look()  # noqa: B023
                add_at_the_step()
                return found

            def writing(draft: object) -> None:
                add_at_the_step()
                write(draft)  # type: ignore[arg-type]  # noqa: B023
                add_at_the_step()

            object.__setattr__(db._cleanup._context, "look", looking)
            object.__setattr__(db._cleanup._context, "write", writing)
            db.cleanup()
            db.add("q", b"last")
        with _open(tmp_path / str(step)) as db:
            assert db.recovery.intact, (step, db.recovery)
            assert [message.payload for message in db.undelivered()] == [b"late"] * len(late) + [b"last"]


# Compaction.


def test_what_is_moved_is_what_it_was_but_for_its_place(tmp_path: Path) -> None:
    clock = HandClock()
    with _open(tmp_path, clock=clock) as db:
        numbers = [
            db.add("q", b"plain"),
            db.add("r", b"rich", properties={"k": "v", "": "ß"}, producer_id="4711"),
            *db.add_many("q", [b"many", b"", b"more"]),
            *db.add_many("r", [b"1", b"2"], properties=[{"a": "b"}, None]),
        ]
        with db.commit(producer_id="whole") as commit:
            commit.add("s", b"whole")
            commit.add("q", b"large" * 500)
            commit.put("key", b"value")
        numbers += commit.numbers
        db.put("other", bytes(1000))
        before = {message.number: message for message in db.undelivered()}
        for _ in range(4):  # moved, and what was moved is moved again
            clock.advance(1000)
            rest = [number for numbers_ in _fill(db, 5).values() for number in numbers_]
            db.deliver_many(rest)
            report = db.cleanup(compact=True)
            assert report.moved_messages == len(numbers)
            assert report.moved_keys == 2
            assert report.deleted
            after = {message.number: message for message in db.undelivered() if message.number in before}
            assert list(after) == numbers, "in the old order"
            assert [message[:6] for message in after.values()] == [message[:6] for message in before.values()]
            assert min(message.sequence for message in after.values()) > max(m.sequence for m in before.values())
            before = after
        assert (db.get("key"), db.get("other")) == (b"value", bytes(1000))
    with _open(tmp_path) as db:
        assert db.recovery.intact
        assert [message[:6] for message in db.undelivered()] == [message[:6] for message in before.values()]
        assert [db.read(number)[:6] for number in numbers] == [message[:6] for message in before.values()]
        assert (db.get("key"), db.get("other")) == (b"value", bytes(1000))


def test_one_undelivered_message_does_not_pin_the_rest(db: MessageDatabase) -> None:
    files = _fill(db, 8)
    first, *_ = files[min(files)]
    db.deliver_many([number for numbers in files.values() for number in numbers if number != first])
    assert db.cleanup().deleted == ()
    report = db.cleanup(compact=True)

    assert (report.moved_messages, len(report.deleted)) == (1, 8)
    assert list(db.numbers()) == [first]


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_clean_up_by_itself_compacts_by_the_option(share: float, tmp_path: Path) -> None:
    with _open(tmp_path, compact_share=share) as db:
        files = _fill(db, 8)
        first, *_ = files[min(files)]
        db.deliver_many([number for numbers in files.values() for number in numbers if number != first])
        db._clean_up()
        assert (min(_sequences(db)) > min(files)) is (share > 0)
        assert list(db.numbers()) == [first]


def test_large_messages_are_moved_too(tmp_path: Path) -> None:
    with _open(tmp_path, max_data_file_size="1M", max_message_size="4M") as db:
        kept = {db.add("q", bytes([index]) * 3_000_000): index for index in range(3)}
        db.deliver_many([db.add("q", bytes(900_000)) for _ in range(30)])
        assert db.cleanup(compact=True).moved_messages == 3
        assert {number: db.read(number).payload[0] for number in kept} == kept
        assert [len(message.payload) for message in db.undelivered()] == [3_000_000] * 3


def _damage(db: MessageDatabase, number: int) -> None:
    message = db.read(number)
    path = db.directory / str(DataFileName(message.sequence))
    data = bytearray(path.read_bytes())
    at = data.index(message.payload)
    data[at] ^= 1
    path.write_bytes(data)


def test_a_damaged_message_is_told_passed_over_and_never_compacted_away(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        one, damaged, two = (db.add("q", word * 20) for word in (b"one", b"damaged", b"two"))
        db.deliver_many([number for numbers in _fill(db, 5).values() for number in numbers])
        db._journal.seal_all()
        _damage(db, damaged)
        with pytest.raises(MessageDamaged) as raised:
            db.read(damaged)
        assert raised.value.number == damaged
        assert [message.number for message in db.undelivered("q")] == [one, two]
        assert [message.number for message in iter(lambda: db.take("q"), None)] == [one, two]
        assert db.undelivered_count() == 3, "it is still there, and can be removed"
        report = db.cleanup(compact=True)
        assert report.deleted == () and min(_sequences(db)) == 1
        assert list(db.numbers()) == [one, damaged, two]
        assert db.delete(damaged)
        assert db.cleanup(compact=True).deleted
        assert [message.payload for message in db.undelivered()] == [b"one" * 20, b"two" * 20]


def test_a_damaged_value_is_never_compacted_away(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        db.put("k", b"a value that will be damaged")
        db.deliver_many([number for numbers in _fill(db, 5).values() for number in numbers])
        db._journal.seal_all()
        path = tmp_path / str(DataFileName(1))
        path.write_bytes(path.read_bytes().replace(b"a value that will", b"A value that will", 1))
        with pytest.raises(MessageDamaged, match="value of key 'k'"):
            db.get("k")
        assert db.cleanup(compact=True).deleted == ()
        db.put("k", b"written anew")
        assert db.cleanup(compact=True).deleted
        assert db.get("k") == b"written anew"


# Faults and crashes between the steps.


@pytest.mark.parametrize("step", range(9))
def test_a_clean_up_that_stops_anywhere_loses_nothing_and_is_done_again(step: int, tmp_path: Path) -> None:
    disk = WatchedDisk()
    db = _open(tmp_path / "spool", disk=disk)
    kept = [db.add("q", b"kept %d" % index, producer_id=str(index)) for index in range(3)]
    db.put("k", b"v")
    db.deliver_many([number for numbers in _fill(db, 6).values() for number in numbers])
    countdown = iter(range(step, -1, -1))

    def refuse() -> None:
        if threading.current_thread() is threading.main_thread() and next(countdown, -1) == 0:
            raise OSError(5, "Input/output error")

    disk.before_change = refuse
    with contextlib.suppress(DiskError, CommitFailed):
        db.cleanup(compact=True)
    disk.before_change = lambda: None
    crashed = tmp_path / "crashed"
    shutil.copytree(db.directory, crashed, ignore=shutil.ignore_patterns("omsmsg.reserve"))
    with contextlib.suppress(CommitFailed):
        db.cleanup(compact=True)
    db.close()
    for directory in (tmp_path / "spool", crashed):
        for _ in range(2):
            with _open(directory) as again:
                assert not again.recovery.lost, again.recovery
                assert list(again.numbers()) == kept
                assert again.get("k") == b"v"
                assert [again.add("q", b"kept %d" % index, producer_id=str(index)) for index in range(3)] == kept
                again.cleanup(compact=True)


# Beside running commits.


def _beside(work: Callable[[random.Random, Callable[[], bool]], None], db: MessageDatabase) -> None:
    """Run work in threads while clean-ups follow one another, until some of them have moved something."""
    done = threading.Event()
    moves = 0
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, random.Random(seed), done.is_set) for seed in range(4)]
        while moves < 5 and time.monotonic() < deadline:
            report = db.cleanup(compact=True)
            moves += bool(report.moved_messages or report.moved_keys)
        done.set()
        for future in futures:
            future.result(TIMEOUT_SECONDS)


def test_values_that_change_while_they_are_moved_keep_their_last_version(tmp_path: Path) -> None:
    expected: dict[str, bytes | None] = {}
    with _open(tmp_path) as db:

        def work(chance: random.Random, is_done: Callable[[], bool]) -> None:
            mine = str(chance.random())
            while not is_done():
                key = f"{mine}/{chance.randrange(5)}"
                if chance.random() < 0.2:
                    db.drop(key)
                    expected[key] = None
                else:
                    value = chance.randbytes(chance.choice([5, 500]))
                    db.put(key, value)
                    expected[key] = value
                assert db.get(key) == expected[key]

        _beside(work, db)
        assert {key: db.get(key) for key in expected} == expected
    with _open(tmp_path) as db:
        assert {key: db.get(key) for key in expected} == expected


def test_messages_that_are_delivered_while_they_are_moved_stay_delivered(tmp_path: Path) -> None:
    live: dict[int, bytes] = {}
    with _open(tmp_path) as db:

        def work(chance: random.Random, is_done: Callable[[], bool]) -> None:
            mine: list[int] = []
            while not is_done():
                payload = chance.randbytes(chance.choice([5, 500]))
                mine.append(db.add("q", payload))
                live[mine[-1]] = payload
                if len(mine) > 10:
                    number = mine.pop(chance.randrange(10))
                    assert db.read(number).payload == live[number]
                    assert db.deliver(number)
                    del live[number]

        _beside(work, db)
        assert {message.number: message.payload for message in db.undelivered()} == live
        db._ledger.index.table.check()
    with _open(tmp_path) as db:
        assert db.recovery.intact
        assert {message.number: message.payload for message in db.undelivered()} == live


def test_a_clean_up_that_begins_before_the_first_commit_leaves_its_file_alone(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        old = [number for numbers in _fill(db, 3).values() for number in numbers]
        db.deliver_many(old)
    with _open(tmp_path) as db:
        look = db._cleanup._context.look
        added: list[int] = []

        def looking() -> object:
            found = look()
            if not added:
                added.append(db.add("q", b"first of this opening"))
            return found

        object.__setattr__(db._cleanup._context, "look", looking)
        db.cleanup(compact=True)
        assert [message.payload for message in db.undelivered()] == [b"first of this opening"]


def test_a_reader_sees_every_message_once_while_they_are_moved(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        kept = list(db.add_many("kept", [b"%d" % index for index in range(40)]))

        def read(_: random.Random, is_done: Callable[[], bool]) -> None:
            while not is_done():
                assert [message.number for message in db.undelivered("kept")] == kept

        def churn(chance: random.Random, is_done: Callable[[], bool]) -> None:
            if chance.random() < 0.5:
                return read(chance, is_done)
            while not is_done():
                db.deliver_many([db.add("q", bytes(700)) for _ in range(8)])
            return None

        _beside(churn, db)
        assert db.read(kept[0]).sequence > 1, "they were moved"
