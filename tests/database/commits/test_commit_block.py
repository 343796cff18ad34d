"""Commits of several operations: written as a whole when the block is left, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, NotUndelivered


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as opened:
        yield opened


def _payloads(db: MessageDatabase, queue: str | None = None) -> list[bytes]:
    return [message.payload for message in db.undelivered(queue)]


def _values(db: MessageDatabase) -> dict[str, bytes | None]:
    keys = db.keys()
    return {key: db.get(key) for key in keys}


def test_a_block_is_written_as_a_whole_and_its_messages_have_neighbouring_numbers(db: MessageDatabase) -> None:
    old = db.add_many("in", [b"1", b"2", b"3"])
    with db.commit() as commit:
        commit.add("a", b"first")
        commit.deliver(old[0])
        commit.add_many("b", [b"second", b"third"])
        commit.put("k", b"1")
        commit.delete(old[1])
        commit.add("a", b"fourth", properties={"p": "q"})
        assert db.undelivered_count() == 3 and db.get("k") is None, "nothing happens before the block is left"

    assert list(commit.numbers) == [4, 5, 6, 7]
    assert _payloads(db) == [b"3", b"first", b"second", b"third", b"fourth"]
    places = {db.read(number)[-2:] for number in commit.numbers}
    assert len(places) == 1, "one commit is one frame"


def test_the_last_of_several_changes_to_a_key_counts(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.put("dropped", b"")
        with db.commit() as commit:
            for key, value in (("k", b"1"), ("l", b"x"), ("k", b"2"), ("k", b"3")):
                commit.put(key, value)
            commit.drop("l")
            commit.put("dropped", b"again")
            commit.drop("dropped")
            commit.drop("back")
            commit.put("back", b"again")
        found = _values(db)
    with MessageDatabase.open(tmp_path) as db:
        again = _values(db)

    assert found == again == {"k": b"3", "back": b"again"}


def test_a_block_that_is_left_by_an_exception_writes_nothing(db: MessageDatabase) -> None:
    with pytest.raises(RuntimeError), db.commit() as commit:
        commit.add("q", b"x")
        raise RuntimeError
    with db.commit():
        pass

    assert db.undelivered_count() == 0
    assert not list(db.directory.glob("*.data"))


def test_a_block_that_removes_what_is_gone_writes_nothing(db: MessageDatabase) -> None:
    one, two = db.add_many("q", [b"1", b"2"])
    db.deliver(one)
    with pytest.raises(NotUndelivered) as raised, db.commit() as commit:
        commit.add("q", b"never")
        commit.deliver(one)
    assert raised.value.number == one
    with pytest.raises(NotUndelivered), db.commit() as commit:
        commit.put("k", b"never")
        commit.deliver(two)
        db.delete(two)  # gone between the call and the end of the block
    with pytest.raises(NotUndelivered), db.commit() as commit:
        three = db.add("q", b"3")
        commit.deliver(three)
        commit.delete(three)

    assert _payloads(db) == [b"3"]
    assert not list(db.keys())


def test_many_messages_are_removed_in_one_block_and_one_that_is_gone_refuses_all(db: MessageDatabase) -> None:
    numbers = [*db.add_many("q", [b"x"] * 20_000), *db.add_many("other", [b"y"] * 2)]
    with db.commit() as commit:
        commit.deliver_many(numbers[1:])
        commit.delete_many(numbers[:1])
    assert db.undelivered_count() == 0

    kept = db.add_many("q", [b"x"] * 3)
    for again in ([*kept, numbers[0]], [kept[0], kept[0]], [0], [kept[-1] + 1]):
        with pytest.raises(NotUndelivered) as raised, db.commit() as commit:
            commit.put("k", b"never")
            commit.deliver_many(again)
        assert raised.value.number == again[-1]
    assert list(db.numbers()) == list(kept)
    assert not list(db.keys())
