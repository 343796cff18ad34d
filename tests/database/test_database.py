"""The message database as programs use it: every documented name, and what each promises."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import oms_journal
from oms_journal import (
    AsyncMessageDatabase,
    DatabaseClosed,
    DatabaseLocked,
    InvalidName,
    JournalError,
    Message,
    MessageDatabase,
    NoSuchMessage,
    Options,
)
from oms_journal.journal import errors, names
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import HandClock


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size=MODEST, cleanup_interval=0) as opened:
        yield opened


def _payloads(db: MessageDatabase, queue: str | None = None) -> list[bytes]:
    return [message.payload for message in db.undelivered(queue)]


def _data_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.data"))


# The names that scripts and other programs build on.


def test_the_documented_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with MessageDatabase.open("spool", max_data_file_size="25M") as db:
        number = db.add("orders", b"...", properties={"k": "v"}, producer_id="order-4711")
        numbers = db.add_many("orders", [b"...", b"..."])
        with db.commit() as commit:
            commit.add("orders", b"...")
            commit.deliver(number)
            commit.put("key", b"value")
        assert (number, list(numbers), list(commit.numbers)) == (1, [2, 3], [4])
        for message in db.undelivered("orders"):
            assert (message.queue, message.payload, message.properties) == ("orders", b"...", {})
            assert message.added_at.tzinfo is UTC
            db.deliver(message.number)
        number = db.add("orders", b"last")
        assert db.read(number).payload == b"last"
        assert db.get("key") == b"value"
        assert db.drop("key")
        assert db.delete(number)
        db.cleanup(compact=True)
        assert db.stats().undelivered == 0

    async def main() -> int:
        async with AsyncMessageDatabase.open("spool") as db:
            return await db.add("orders", b"...")

    assert asyncio.run(main()) == 6


def test_every_name_that_the_package_offers_is_there_and_every_error_is_one_of_ours() -> None:
    for name in oms_journal.__all__:
        assert hasattr(oms_journal, name)
    tree = {
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, JournalError) and thing.__module__ == errors.__name__
    }
    assert tree <= set(oms_journal.__all__)


def test_a_message_comes_back_as_it_was_given(tmp_path: Path) -> None:
    clock = HandClock()
    properties = {"type": "order", "": "empty name", "ключ": "значение", "nul": "\0", "line": "a\nb"}
    with MessageDatabase.open(tmp_path, clock=clock) as db:
        before = clock.now
        number = db.add("orders", b"payload", properties=properties, producer_id="order-4711")
        after = clock.now
        message = db.read(number)
    with MessageDatabase.open(tmp_path) as db:
        again = db.read(number)

    assert message == again == next(iter([message]))
    assert isinstance(message, Message)
    assert message[:4] == (number, "orders", b"payload", properties)
    assert list(message.properties) == list(properties), "in the order they were given"
    assert before < message.added_us <= after
    assert message.added_at == datetime.fromtimestamp(message.added_us // 1_000_000, UTC).replace(
        microsecond=message.added_us % 1_000_000
    )
    assert message.producer_id == "order-4711"
    assert message.sequence == 1 and message.offset % 8 == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_payload_may_be_any_buffer_and_is_taken_as_it_is_now(
    db: MessageDatabase, kind: Callable[[bytes], Any]
) -> None:
    buffer: Any = bytearray(b"now")
    with db.commit() as commit:
        commit.add("q", buffer)
        buffer[:] = b"???"
    db.add("q", kind(b"single"))
    db.add_many("q", [kind(b"many"), b"bytes"])
    db.put("key", kind(b"value"))

    assert _payloads(db) == [b"now", b"single", b"many", b"bytes"]
    assert db.get("key") == b"value"


@pytest.mark.parametrize("wrong", ["text", 7, None, ["list"]])
def test_what_is_not_bytes_is_refused_and_nothing_is_written(db: MessageDatabase, wrong: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: db.add("q", wrong),
        lambda: db.add("q", wrong, properties={"k": "v"}),
        lambda: db.add_many("q", [b"x", wrong]),
        lambda: db.put("k", wrong),
        lambda: db.commit().add("q", wrong),
    ]
    for call in calls:
        with pytest.raises(
            TypeError, match=r"must be bytes, bytearray or memoryview, not|payloads must be an iterable"
        ):
            call()
    assert db.undelivered_count() == 0 and not list(db.keys())


def test_properties_for_each_of_many_messages(db: MessageDatabase) -> None:
    numbers = db.add_many("q", [b"1", b"2", b"3"], properties=[{"a": "1"}, None, {}])

    assert [db.read(number).properties for number in numbers] == [{"a": "1"}, {}, {}]
    for count in (0, 1, 4):
        with pytest.raises(ValueError, match=f"payloads has 3 items and properties has {count}"):
            db.add_many("q", [b"1", b"2", b"3"], properties=[{}] * count)
    assert db.add_many("q", []) == range(0)
    assert db.undelivered_count() == 3


def test_removing_says_whether_there_was_something_to_remove_and_else_writes_nothing(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        numbers = db.add_many("q", [b"x"] * 10)
        assert db.deliver(1) is True
        assert db.delete(2) is True
        assert db.deliver_many([2, 3, 3, 4]) == 2, "a number given twice counts once"
        assert db.delete_many(iter(numbers)) == 6
    before = _data_bytes(tmp_path)
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        for number in (1, 0, -1, 11, 1 << 63, 1 << 64, 1 << 70):
            assert db.deliver(number) is False
            assert db.delete(number) is False
            with pytest.raises(NoSuchMessage) as raised:
                db.read(number)
            assert raised.value.number == number
            assert isinstance(raised.value, KeyError)
        assert db.deliver_many([]) == db.delete_many([1, 2]) == 0
        assert db.drop("no such key") is False
    assert _data_bytes(tmp_path) == before, "an opening without a commit leaves no file"


def test_keys_are_walked_by_prefix_in_order(db: MessageDatabase) -> None:
    for key in ("b", "a/2", "a/1", "a", "ä", "a0"):
        db.put(key, key.encode())
    db.put("a", b"newer")
    db.drop("a/2")

    assert list(db.keys()) == ["a", "a/1", "a0", "b", "ä"]
    assert list(db.keys("a/")) == ["a/1"]
    assert list(db.keys("x")) == []
    assert db.get("a") == b"newer"
    assert db.get("a/2") is None


def test_what_is_asked_for_is_a_picture_of_the_moment_of_asking(db: MessageDatabase) -> None:
    db.add_many("q", [b"%d" % index for index in range(3000)])
    db.put("k", b"")
    messages, numbers, keys = db.undelivered("q"), db.numbers("q"), db.keys()
    later = db.add("q", b"later")
    db.put("l", b"")
    first = next(messages)
    db.deliver(2999)
    seen = [first.number, *(message.number for message in messages)]

    assert later not in seen and later not in list(numbers)
    assert list(keys) == ["k"]
    assert seen == sorted(seen) and seen[:2] == [1, 2]
    assert set(seen) | {2999} == set(range(1, 3001)), "what was delivered meanwhile may come or not"
    assert db.undelivered_count() == 3000, "asking reserves nothing"


def test_messages_of_a_queue_and_of_all_come_in_the_order_of_their_numbers(db: MessageDatabase) -> None:
    for index in range(200):
        db.add(f"queue {index % 7}", b"%d" % index)

    assert _payloads(db) == [b"%d" % index for index in range(200)]
    for queue in range(7):
        assert _payloads(db, f"queue {queue}") == [b"%d" % index for index in range(queue, 200, 7)]
        assert list(db.numbers(f"queue {queue}")) == list(range(queue + 1, 201, 7))
    assert list(db.numbers()) == list(range(1, 201))
    assert db.queues() == {f"queue {queue}": len(range(queue, 200, 7)) for queue in range(7)}
    assert _payloads(db, "nobody's") == []


# Opening and closing.


def test_a_directory_is_made_with_its_parents_and_private(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "a" / "b") as db:
        assert db.directory == tmp_path / "a" / "b"
        db.add("q", b"x")
        modes = {path.name: path.stat().st_mode & 0o777 for path in [db.directory, *db.directory.iterdir()]}

    assert modes.pop("b") == 0o700
    assert set(modes.values()) == {0o600}


def test_a_second_opener_is_told_who_has_it(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        with pytest.raises(DatabaseLocked) as raised:
            MessageDatabase.open(tmp_path)
        db.add("q", b"not disturbed")
    assert raised.value.pid == os.getpid()
    assert raised.value.host == socket.gethostname()
    assert str(os.getpid()) in str(raised.value)
    with MessageDatabase.open(tmp_path) as db:
        assert _payloads(db) == [b"not disturbed"]


def test_a_closed_database_refuses_everything(db: MessageDatabase) -> None:
    number = db.add("q", b"x")
    db.put("k", b"v")
    block = db.commit().__enter__()
    block.add("q", b"too late")
    db.close()
    db.close()
    calls: list[Callable[[], object]] = [
        lambda: db.add("q", b"x"),
        lambda: db.add_many("q", [b"x"]),
        lambda: db.deliver(number),
        lambda: db.delete_many([number]),
        lambda: db.deliver(999),
        lambda: db.put("k", b""),
        lambda: db.drop("k"),
        lambda: db.drop("l"),
        lambda: block.__exit__(None, None, None),
        lambda: db.read(number),
        lambda: db.get("k"),
        lambda: list(db.keys()),
        lambda: list(db.undelivered()),
        lambda: list(db.numbers()),
        lambda: db.undelivered_count(),
        lambda: db.queues(),
        lambda: db.take("q"),
        lambda: db.release(number),
        lambda: db.cleanup(),
        lambda: db.stats(),
        lambda: db.explain(),
    ]
    for call in calls:
        with pytest.raises(DatabaseClosed):
            call()
    assert db.recovery.undelivered == 0, "the report of its opening can be read for ever"


def test_numbers_go_on_after_a_close(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(5):
        with MessageDatabase.open(tmp_path) as db:
            assert db.recovery.undelivered == len(given)
            given += [db.add("q", b"x"), *db.add_many("q", [b"y"] * 3)]

    assert given == list(range(1, 21))


def test_numbers_of_messages_that_are_gone_with_their_files_are_not_given_again(tmp_path: Path) -> None:
    highest = 0
    for _ in range(4):
        with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
            numbers = db.add_many("q", [b"x" * 900] * 12)
            assert numbers[0] > highest
            highest = numbers[-1]
            db.deliver_many(numbers)
            db.cleanup(compact=True)


def _maintenance_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "oms-maintenance"}


def test_an_opening_that_only_reads_leaves_the_data_files_alone(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"x")
        db.put("k", b"v")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.data")}
    others = _maintenance_threads()  # another test's database may still be there
    for _ in range(3):
        with MessageDatabase.open(tmp_path) as db:
            assert (db.read(number).payload, db.get("k")) == (b"x", b"v")
            assert _maintenance_threads() <= others, "an opening that only looks costs no thread"

    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.data")} == before
    strangers = {path.name for path in tmp_path.iterdir()} - {*before, names.LOCK, names.INDEX, names.RESERVE}
    assert not strangers


def test_the_report_of_an_opening_is_json(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("q", b"x")
    with MessageDatabase.open(tmp_path) as db:
        report = json.loads(json.dumps(db.recovery.as_dict()))

    assert report["undelivered"] == 1
    assert report["intact"] is True
    assert [file["verdict"] for file in report["files"]] == ["clean"]


def test_options_may_be_given_as_a_value_or_by_name_but_are_checked_either_way(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, options=Options.of(max_message_size=5)) as db, pytest.raises(JournalError):
        db.add("q", b"123456")
    with pytest.raises(ValueError, match="max_data_file_size"):
        MessageDatabase.open(tmp_path, options=Options(max_data_file_size=1))
    with pytest.raises(ValueError, match="max_data_file_size"):
        MessageDatabase.open(tmp_path, max_data_file_size=1)
    with pytest.raises(ValueError, match="not both"):
        MessageDatabase.open(tmp_path, options=Options(), max_data_file_size="1M")


@pytest.mark.parametrize(
    ("wrong", "refusal"), [(b"bytes", TypeError), (7, TypeError), (None, TypeError), ("", InvalidName)]
)
def test_a_name_that_is_no_text_is_refused_where_it_is_given(
    db: MessageDatabase, wrong: Any, refusal: type[Exception]
) -> None:
    for call in (lambda: db.add(wrong, b""), lambda: db.put(wrong, b""), lambda: db.get(wrong), lambda: db.take(wrong)):
        with pytest.raises(refusal):
            call()
