"""A value that is told the numbers of the messages of its own commit."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal import AsyncMessageDatabase, MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.dump import dump


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0, max_data_file_size="64K") as opened:
        yield opened


def number_at(value: bytes | None, at: int) -> int:
    assert value is not None
    return int.from_bytes(value[at : at + 8], "little")


def test_the_value_names_the_numbers_that_the_messages_get(db: MessageDatabase) -> None:
    db.add_many("other", [b"x"] * 5)
    with db.commit() as commit:
        commit.add("q", b"first")
        commit.put("unit", b"<" + bytes(16) + b">" * 200, numbers_at={1: 0, 9: 2})
        commit.add_many("r", [b"second", b"third"])

    value = db.get("unit")
    assert (number_at(value, 1), number_at(value, 9)) == (commit.numbers[0], commit.numbers[2])
    assert value is not None
    assert value[:1] + value[17:] == b"<" + b">" * 200


def test_the_caller_s_mapping_is_taken_as_it_is_when_it_is_given(db: MessageDatabase) -> None:
    with db.commit() as commit:
        commit.add_many("q", [b"first", b"second"])
        places = {0: 1}
        commit.put("unit", bytes(8), numbers_at=places)
        places[0] = 0

    assert number_at(db.get("unit"), 0) == commit.numbers[1]


def test_it_is_there_after_a_restart_and_in_the_footer_and_verified(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db, db.commit() as commit:
        commit.put("unit", bytes(8), numbers_at={0: 1})
        commit.add_many("q", [b"one", b"two"])
    with MessageDatabase.open(tmp_path) as db:
        assert number_at(db.get("unit"), 0) == commit.numbers[1]
        assert [m.number for m in db.undelivered("q")] == list(commit.numbers)
    operations = [one for one in dump(RealDisk(), [tmp_path]) if isinstance(one, DumpedOperation)]
    assert not any(one.damaged for one in operations)
    assert [number_at(one.payload, 0) for one in operations if one.operation == "PUT"] == [commit.numbers[1]]


@pytest.mark.parametrize("numbers_at", [{0: 1}, {1: 0}, {-1: 0}, {0: -1}, {8: 0}])
def test_a_number_without_a_message_or_without_room_is_refused_and_nothing_is_written(
    db: MessageDatabase, numbers_at: dict[int, int]
) -> None:
    with pytest.raises(ValueError, match="numbers_at"), db.commit() as commit:
        commit.put("unit", bytes(8), numbers_at=numbers_at)
        commit.add("q", b"one")
    assert db.get("unit") is None
    assert db.undelivered_count() == 0


def test_many_callers_at_once_each_get_their_own_numbers(db: MessageDatabase) -> None:
    def write(caller: int) -> None:
        for turn in range(20):
            with db.commit() as commit:
                commit.add_many(f"q{caller}", [b"x"] * (1 + turn % 3))
                commit.put(f"key-{caller}", bytes(8), numbers_at={0: 0})
            assert number_at(db.get(f"key-{caller}"), 0) == commit.numbers[0]

    async def tasks() -> None:
        async with AsyncMessageDatabase.wrap(db) as loop:
            for turn in range(20):
                async with loop.commit() as commit:
                    commit.add("a", b"x")
                    commit.put(f"async-{turn}", bytes(8), numbers_at={0: 0})
                assert number_at(await loop.get(f"async-{turn}"), 0) == commit.numbers[0]

    threads = [threading.Thread(target=write, args=(caller,)) for caller in range(6)]
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join()
    assert len(list(db.keys("async-"))) == 20
    assert db.undelivered_count() == sum(db.queues().values()) == 6 * 39 + 20
