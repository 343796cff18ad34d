"""Compaction: what is moved is what it was, nothing is lost beside running commits, and damage is kept."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oms_journal import MessageDamaged, MessageDatabase
from oms_journal.database.compaction import PINS_BYTES_MAX
from oms_journal.journal.disk import DiskFile, RealDisk, RealFile
from oms_journal.journal.names import DataFileName
from tests.support.disks.small_files import SMALL, fill, open_small, sequences
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, HandClock


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with open_small(tmp_path / "spool") as opened:
        yield opened


def test_what_is_moved_is_what_it_was_but_for_its_place(tmp_path: Path) -> None:
    clock = HandClock()
    with open_small(tmp_path, clock=clock) as db:
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
            rest = [number for numbers_ in fill(db, 5).values() for number in numbers_]
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
    with open_small(tmp_path) as db:
        assert db.recovery.intact
        assert [message[:6] for message in db.undelivered()] == [message[:6] for message in before.values()]
        assert [db.read(number)[:6] for number in numbers] == [message[:6] for message in before.values()]
        assert (db.get("key"), db.get("other")) == (b"value", bytes(1000))


def test_one_undelivered_message_does_not_pin_the_rest(db: MessageDatabase) -> None:
    files = fill(db, 8)
    first, *_ = files[min(files)]
    db.deliver_many([number for numbers in files.values() for number in numbers if number != first])
    assert db.cleanup().deleted == ()
    report = db.cleanup(compact=True)

    assert (report.moved_messages, len(report.deleted)) == (1, 8)
    assert list(db.numbers()) == [first]


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_clean_up_by_itself_compacts_by_the_option(share: float, tmp_path: Path) -> None:
    with open_small(tmp_path, compact_share=share) as db:
        files = fill(db, 8)
        first, *_ = files[min(files)]
        db.deliver_many([number for numbers in files.values() for number in numbers if number != first])
        db._clean_up()
        assert (min(sequences(db)) > min(files)) is (share > 0)
        assert list(db.numbers()) == [first]


def test_large_messages_are_moved_too(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="1M", max_message_size="4M") as db:
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
    with open_small(tmp_path) as db:
        one, damaged, two = (db.add("q", word * 20) for word in (b"one", b"damaged", b"two"))
        db.deliver_many([number for numbers in fill(db, 5).values() for number in numbers])
        db._journal.seal_all()
        _damage(db, damaged)
        with pytest.raises(MessageDamaged) as raised:
            db.read(damaged)
        assert raised.value.number == damaged
        assert [message.number for message in db.undelivered("q")] == [one, two]
        assert [message.number for message in iter(lambda: db.take("q"), None)] == [one, two]
        assert db.undelivered_count() == 3, "it is still there, and can be removed"
        report = db.cleanup(compact=True)
        assert report.deleted == () and min(sequences(db)) == 1
        assert list(db.numbers()) == [one, damaged, two]
        assert db.delete(damaged)
        assert db.cleanup(compact=True).deleted
        assert [message.payload for message in db.undelivered()] == [b"one" * 20, b"two" * 20]


def test_a_damaged_value_is_never_compacted_away(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.put("k", b"a value that will be damaged".ljust(200))  # too long for the footer to have it, too
        db.deliver_many([number for numbers in fill(db, 5).values() for number in numbers])
        db._journal.seal_all()
        path = tmp_path / str(DataFileName(1))
        path.write_bytes(path.read_bytes().replace(b"a value that will", b"A value that will", 1))
        with pytest.raises(MessageDamaged, match=r"^omsmsg-\d+\.data at byte \d+: the value of key 'k'"):
            db.get("k")
        assert db.cleanup(compact=True).deleted == ()
        db.put("k", b"written anew")
        assert db.cleanup(compact=True).deleted
        assert db.get("k") == b"written anew"


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
    with open_small(tmp_path) as db:

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
    with open_small(tmp_path) as db:
        assert {key: db.get(key) for key in expected} == expected


@pytest.mark.whole
def test_messages_that_are_delivered_while_they_are_moved_stay_delivered(tmp_path: Path) -> None:
    live: dict[int, bytes] = {}
    with open_small(tmp_path) as db:

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
    with open_small(tmp_path) as db:
        assert db.recovery.intact
        assert {message.number: message.payload for message in db.undelivered()} == live


def test_a_clean_up_that_begins_before_the_first_commit_leaves_its_file_alone(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        old = [number for numbers in fill(db, 3).values() for number in numbers]
        db.deliver_many(old)
    with open_small(tmp_path) as db:
        state = db._cleanup._context.state
        added: list[int] = []

        def looking() -> object:
            found = state()
            if not added:
                added.append(db.add("q", b"first of this opening"))
            return found

        object.__setattr__(db._cleanup._context, "state", looking)
        db.cleanup(compact=True)
        assert [message.payload for message in db.undelivered()] == [b"first of this opening"]


@pytest.mark.whole
def test_a_reader_sees_every_message_once_while_they_are_moved(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
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


# In passing.


def pinned(directory: Path, value: bytes = b"small") -> tuple[int, ...]:
    """Make a directory of delivered messages whose first file is kept by a key and a message; return what waits."""
    with MessageDatabase.open(directory, max_data_file_size=SIZE, cleanup_interval=0) as db:
        db.put("old", value)
        number = db.add("pinning", b"x" * 100)
        for _ in range(12):
            db.deliver_many(db.add_many("q", [bytes(4000)] * 8))
    return (number,)


SIZE = 16 * SMALL


def test_a_start_moves_what_little_alone_keeps_old_files(tmp_path: Path) -> None:
    waiting = pinned(tmp_path)
    files = len(list(tmp_path.glob("*.data")))
    with MessageDatabase.open(tmp_path, max_data_file_size=SIZE, cleanup_interval=0) as db:
        report = db.cleaned_at_start
        assert (len(report.deleted), report.moved_messages, report.moved_keys) == (files, 1, 1)
        assert len(sequences(db)) == 1
        assert db.get("old") == b"small" and tuple(db.numbers("pinning")) == waiting
    with MessageDatabase.open(tmp_path, max_data_file_size=SIZE, cleanup_interval=0) as db:
        assert db.recovery.intact and db.cleaned_at_start.moved_keys == 0, "for so little no file is begun"
        assert db.get("old") == b"small" and tuple(db.numbers("pinning")) == waiting


def test_each_clean_up_moves_what_little_alone_keeps_old_files(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=SIZE, cleanup_interval=0) as db:
        db.put("old", b"small")
        for _ in range(20):
            db.deliver_many(db.add_many("q", [bytes(4000)] * 8))
        planned = db.cleanup(dry_run=True)
        report = db.cleanup()
        assert report.deleted == planned.deleted and len(report.deleted) > 4
        assert (report.moved_keys, db.get("old")) == (1, b"small")


@pytest.mark.parametrize("size", [40_000, 65_536])
def test_a_start_weighs_the_values_of_keys_before_it_moves_them(tmp_path: Path, size: int) -> None:
    """A large value that is alone in its file would be copied by each start, and nothing be gained."""
    named = {"max_data_file_size": "4M", "cleanup_interval": 0}
    with MessageDatabase.open(tmp_path, **named) as db:  # type: ignore[arg-type]
        db.put("large", bytes(size))
        db.deliver_many(db.add_many("q", [bytes(1000)] * 100))
    with MessageDatabase.open(tmp_path, **named) as db:  # type: ignore[arg-type]
        assert db.cleaned_at_start.moved_keys == 0
        assert len(db.get("large") or b"") == size


class CountedFile(RealFile):
    """A file of the operating system whose reads are counted."""

    disk: "CountedDisk"

    def read(self, size: int, offset: int) -> bytes:
        data = super().read(size, offset)
        self.disk.read_bytes += len(data)
        return data


class CountedDisk(RealDisk):
    """The operating system's file system; counts the bytes that are read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = CountedFile(os.open(path, os.O_RDWR if writable else os.O_RDONLY))
        file.disk = self
        return file


def test_no_clean_up_reads_more_values_than_it_moves_in_passing(tmp_path: Path) -> None:
    disk = CountedDisk()
    named: dict[str, Any] = {"max_data_file_size": "16M", "cleanup_interval": 0}
    with MessageDatabase.open(tmp_path, disk=disk, **named) as db:
        for start in range(0, 300, 100):
            with db.commit() as block:
                for number in range(start, start + 100):
                    block.put(f"k{number}", bytes(60_000))
        db.deliver_many(db.add_many("q", [bytes(1000)] * 100))
        before = disk.read_bytes
        report = db.cleanup(compact=False)
        assert report.moved_keys == 0, "18 MB are no trifle"
        assert disk.read_bytes - before <= PINS_BYTES_MAX + 2 * 65_536


def test_a_start_that_found_damage_moves_nothing_in_passing(tmp_path: Path) -> None:
    pinned(tmp_path)
    path = sorted(tmp_path.glob("*.data"))[3]
    data = bytearray(path.read_bytes())
    data[30_000] ^= 1
    path.write_bytes(data)
    with MessageDatabase.open(tmp_path, max_data_file_size=SIZE, cleanup_interval=0, validation="full") as db:
        assert db.recovery.lost
        assert db.cleaned_at_start.deleted == () and db.cleanup().deleted == ()
        assert db.cleanup(compact=True).moved_keys == 1, "an operator may order it"


def test_many_keys_are_moved_in_few_commits(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="64K") as db:
        with db.commit() as block:
            for number in range(400):
                block.put(f"k{number}", b"%d" % number)
        for _ in range(6):
            db.deliver_many(db.add_many("q", [bytes(4000)] * 40))
        commits = db._journal.last_commit
        report = db.cleanup(compact=True)
        assert report.moved_keys == 400
        assert db._journal.last_commit - commits < 10
        assert {key: db.get(key) for key in db.keys("k")} == {f"k{n}": b"%d" % n for n in range(400)}
