"""What an add answers: the number, or numbers, and whether they were there already; in threads and in asyncio."""

import asyncio
import copy
import json
import pickle
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oms_journal import Added, AddedMany, AsyncMessageDatabase, CommitBlock, MessageDatabase

IDENTIFIER = {"producer_id": "order-1"}


def add(db: MessageDatabase, **named: Any) -> Any:
    return db.add("q", b"a", **named)


def add_described(db: MessageDatabase, **named: Any) -> Any:
    return db.add("q", b"a", properties={"kind": "order"}, **named)


def add_many(db: MessageDatabase, **named: Any) -> Any:
    return db.add_many("q", [b"a", b"b"], **named)


def commit(db: MessageDatabase, **named: Any) -> Any:
    with db.commit(**named) as block:
        block.add("q", b"a")
        block.add("r", b"b")
    return block


def in_tasks(call: Callable[[AsyncMessageDatabase], Any]) -> Callable[..., Any]:
    def called(db: MessageDatabase, **named: Any) -> Any:
        async def main() -> Any:
            async with AsyncMessageDatabase.wrap(db) as wrapped:
                return await call(wrapped, **named)

        return asyncio.run(main())

    return called


async def _commit(db: AsyncMessageDatabase, **named: Any) -> CommitBlock:
    async with db.commit(**named) as block:
        block.add("q", b"a")
        block.add("r", b"b")
    return block


WAYS = {
    "add": add,
    "add with properties": add_described,
    "add_many": add_many,
    "a block": commit,
    "add in a task": in_tasks(lambda db, **named: db.add("q", b"a", **named)),
    "add with properties in a task": in_tasks(
        lambda db, **named: db.add("q", b"a", properties={"kind": "order"}, **named)
    ),
    "add_many in a task": in_tasks(lambda db, **named: db.add_many("q", [b"a", b"b"], **named)),
    "a block in a task": in_tasks(_commit),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_known_identifier_is_told_as_a_repeat_and_nothing_else_is(way: str, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        told = [WAYS[way](db, **named).is_repeat for named in ({}, {}, IDENTIFIER, IDENTIFIER, {}, IDENTIFIER)]

    with MessageDatabase.open(tmp_path) as db:
        after_a_restart = WAYS[way](db, **IDENTIFIER).is_repeat

    assert (told, after_a_restart) == ([False, False, False, True, False, True], True)


@pytest.mark.parametrize("way", WAYS)
def test_a_repeat_has_the_numbers_of_the_first_time(way: str, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        first, again = (WAYS[way](db, **IDENTIFIER) for _ in range(2))

        if isinstance(first, CommitBlock):
            first, again = first.numbers, again.numbers
        assert first == again
        assert list(db.numbers()) == ([first] if isinstance(first, Added) else list(first))


def test_one_of_many_threads_that_send_the_same_is_told_that_it_added(tmp_path: Path) -> None:
    answers: list[Added] = []
    with MessageDatabase.open(tmp_path) as db:
        threads = [threading.Thread(target=lambda: answers.append(add(db, **IDENTIFIER))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(set(answers)) == 1
    assert sorted(answer.is_repeat for answer in answers) == [False] + [True] * 15


def test_one_of_many_tasks_that_send_the_same_is_told_that_it_added(tmp_path: Path) -> None:
    async def main() -> list[Added]:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            return list(await asyncio.gather(*(db.add("q", b"a", producer_id="order-1") for _ in range(16))))

    answers = asyncio.run(main())

    assert [answer.is_repeat for answer in answers] == [False] + [True] * 15


def answered(tmp_path: Path) -> tuple[Added, Added]:
    with MessageDatabase.open(tmp_path) as db:
        return add(db, **IDENTIFIER), add(db, **IDENTIFIER)


def test_what_add_answers_is_used_as_a_number_everywhere(tmp_path: Path) -> None:
    for number in answered(tmp_path):
        assert number == 1 and hash(number) == hash(1) and {number: "a"}[1] == "a"  # type: ignore[index]
        assert type(number + 1) is int and range(3)[number] == 1
        assert (str(number), repr(number), f"{number:03}") == ("1", "1", "001")
        assert json.dumps({"number": number}) == '{"number": 1}'
        assert struct.pack("<Q", number) == struct.pack("<Q", 1)
        assert np.array([number]).dtype == np.array([1]).dtype


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_add_answers_keeps_what_it_says_through_pickle_and_copy(protocol: int, tmp_path: Path) -> None:
    for number in answered(tmp_path):
        for same in (pickle.loads(pickle.dumps(number, protocol)), copy.copy(number), copy.deepcopy(number)):
            assert (type(same), same, same.is_repeat) == (type(number), number, number.is_repeat)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_add_many_answers_keeps_what_it_says_through_pickle(protocol: int) -> None:
    for is_repeat in (False, True):
        same = pickle.loads(pickle.dumps(AddedMany(range(5, 8), is_repeat), protocol))

        assert (same, same.is_repeat) == (range(5, 8), is_repeat)


def test_what_add_many_answers_is_used_as_the_range_of_its_numbers() -> None:
    numbers, plain = AddedMany(range(5, 8)), range(5, 8)

    assert numbers == plain and plain == numbers and numbers == AddedMany(plain, True) and hash(numbers) == hash(plain)
    assert numbers != range(5, 9) and numbers != [5, 6, 7]
    assert (list(numbers), list(reversed(numbers)), len(numbers)) == ([5, 6, 7], [7, 6, 5], 3)
    assert (numbers[0], numbers[-1], numbers[1:], numbers.start, numbers.stop) == (5, 7, range(6, 8), 5, 8)
    assert 6 in numbers and 8 not in numbers and numbers.index(6) == 1 and numbers.count(9) == 0
    assert not AddedMany(range(0)) and not AddedMany(range(0)).is_repeat


def test_what_an_add_answered_is_taken_as_a_number_by_every_verb(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        one, many = add(db), add_many(db)
        assert db.read(one).number == one
        assert db.deliver_many(many) == 2
        assert db.take("q") is not None and db.release(one)
        with db.commit() as block:
            block.deliver(one)
        assert db.delete_many([one, *many]) == 0

        again = [add(db, **IDENTIFIER), add(db, **IDENTIFIER), add(db)]
        assert db.deliver_many(again) == 2
        assert db.delete(again[0]) is False


def test_nobody_changes_what_an_add_has_answered(tmp_path: Path) -> None:
    for number in answered(tmp_path):
        with pytest.raises(AttributeError):
            number.is_repeat = not number.is_repeat
        assert not hasattr(number, "__dict__")
