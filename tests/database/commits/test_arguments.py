"""What callers hand in: consumed and copied where it comes in, or refused with nothing changed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import (
    AsyncMessageDatabase,
    InvalidName,
    LimitExceeded,
    Message,
    MessageDatabase,
    NoSuchMessage,
    NotUndelivered,
    OutsideBlock,
)
from tests.support.journals.descriptions import hashed
from tests.support.journals.java_reader import java_reader, needs_java


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as database:
        yield database


class Odd(list[Any]):
    """A list that lies about its length, and looks empty."""

    def __len__(self) -> int:
        return 1 << 40

    def __bool__(self) -> bool:
        return False


class Twin(str):
    """A text that is equal to every other one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("other")


class Same(bytes):
    """Bytes that say they are others."""

    def __bytes__(self) -> bytes:
        return b"others"

    def __len__(self) -> int:
        return 1


ITERABLES: dict[str, Callable[[list[bytes]], Iterable[bytes]]] = {
    "generator": lambda items: (item for item in items),
    "map": lambda items: map(bytes, items),
    "iterator": iter,
    "tuple": tuple,
    "list": list,
    "dict's keys": lambda items: dict.fromkeys(items).keys(),
    "a list that lies": Odd,
}
PAYLOADS = [b"one", b"two", b"three"]


@pytest.mark.parametrize("kind", ITERABLES)
@pytest.mark.parametrize("named", [{}, {"producer_id": "p"}])
def test_many_are_added_from_any_iterable(db: MessageDatabase, kind: str, named: dict[str, str]) -> None:
    numbers = db.add_many("q", ITERABLES[kind](PAYLOADS), **named)  # type: ignore[arg-type]
    with db.commit() as block:
        block.add_many("q", ITERABLES[kind](PAYLOADS))

    assert [db.read(number).payload for number in numbers] == PAYLOADS
    assert [message.payload for message in db.undelivered("q")] == PAYLOADS * 2


@pytest.mark.parametrize("kind", ITERABLES)
def test_many_are_added_from_any_iterable_in_asyncio(tmp_path: Path, kind: str) -> None:
    async def play() -> list[bytes]:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            await db.add_many("q", ITERABLES[kind](PAYLOADS), properties=({"k": "v"} for _ in PAYLOADS))
            async with db.commit() as block:
                block.add_many("q", ITERABLES[kind](PAYLOADS))
            return [message.payload async for message in db.undelivered("q")]

    assert asyncio.run(play()) == PAYLOADS * 2


def test_an_open_file_is_added_line_by_line(db: MessageDatabase, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\nb\nc")
    with (tmp_path / "lines").open("rb") as lines:
        assert len(db.add_many("q", lines)) == 3
    assert [message.payload for message in db.undelivered("q")] == [b"a\n", b"b\n", b"c"]


@pytest.mark.parametrize("nothing", [[], (), iter(()), map(bytes, ()), Odd()])
def test_nothing_from_an_iterable_writes_nothing(db: MessageDatabase, nothing: Iterable[bytes]) -> None:
    assert db.add_many("q", nothing) == range(0)
    assert db.add_many("q", [], properties=[], producer_id="p") == range(0)
    assert db.deliver_many(iter(())) == db.delete_many(()) == 0
    assert db._journal.last_commit == 0


def test_a_generator_that_fails_half_way_writes_nothing(db: MessageDatabase) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise LookupError("of the caller")

    calls: list[Callable[[], object]] = [
        lambda: db.add_many("q", failing()),
        lambda: db.add_many("q", [b"x"], properties=failing()),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(LookupError, match="of the caller"):
            call()
    with db.commit() as block, pytest.raises(LookupError):
        block.add_many("q", failing())
    assert db._journal.last_commit == 0


def test_a_generator_may_call_the_database(db: MessageDatabase) -> None:
    db.add_many("in", PAYLOADS)

    def moved() -> Iterator[bytes]:
        while (message := db.take("in")) is not None:
            yield message.payload
            db.deliver(message)

    assert len(db.add_many("out", moved())) == 3
    assert [message.payload for message in db.undelivered()] == PAYLOADS


def test_an_endless_iterable_is_refused_before_it_fills_the_memory(db: MessageDatabase) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b""

    with pytest.raises(LimitExceeded, match="payloads has more than 1,000,000 items"):
        db.add_many("q", endless())
    assert db._journal.last_commit == 0


def _clear(batch: list[bytes]) -> None:
    batch.clear()


def _exchange(batch: list[bytes]) -> None:
    batch[:] = [b"exchanged" * 100] * len(batch)


@pytest.mark.parametrize("change", [_clear, _exchange])
@pytest.mark.parametrize("named", [{}, {"producer_id": "p"}, {"properties": [{"k": "v"}] * 3}])
def test_a_buffer_may_be_used_again_as_soon_as_a_call_was_made(
    tmp_path: Path, change: Callable[[list[bytes]], None], named: dict[str, Any]
) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            batch = list(PAYLOADS)
            adding = asyncio.create_task(db.add_many("q", batch, **named))
            change(batch)
            await adding

    asyncio.run(play())

    with MessageDatabase.open(tmp_path) as db:
        assert [message.payload for message in db.undelivered("q")] == PAYLOADS


def test_buffers_and_mappings_are_copied_when_the_call_is_made(tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            payload, many, value, properties = bytearray(b"add"), bytearray(b"many"), bytearray(b"value"), {"k": "v"}
            calls = [
                db.add("q", payload),
                db.add("q", memoryview(payload), properties=properties),
                db.add_many("q", [many, memoryview(many)]),
                db.put("key", value),
            ]
            for buffer in (payload, many, value):
                buffer[:] = b"x" * len(buffer)
            properties["k"] = "changed"
            await asyncio.gather(*calls)

    asyncio.run(play())

    with MessageDatabase.open(tmp_path) as db:
        assert sorted(message.payload for message in db.undelivered("q")) == [b"add", b"add", b"many", b"many"]
        assert [message.properties for message in db.undelivered("q")].count({"k": "v"}) == 1
        assert db.get("key") == b"value"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("named", [{"delay": 0}, {"expires": 3600.0}, {"group": "g"}, {"producer_id": "p"}])
def test_a_buffer_is_copied_before_a_clock_is_asked(tmp_path: Path, named: dict[str, Any], is_async: bool) -> None:
    """Whose clock it is may be the one who changes the buffer."""
    payload = bytearray(b"as it was")

    def clock() -> int:
        payload[:] = b"x" * len(payload)
        return time.time_ns() // 1000

    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path, clock=clock) as db:
            payload[:] = b"as it was"
            await db.add("q", payload, **named)

    if is_async:
        asyncio.run(play())
    else:
        with MessageDatabase.open(tmp_path, clock=clock) as db:
            payload[:] = b"as it was"
            db.add("q", payload, **named)

    with MessageDatabase.open(tmp_path) as db:
        assert [message.payload for message in db.undelivered("q")] == [b"as it was"]


def test_numbers_are_consumed_when_the_call_is_made(tmp_path: Path) -> None:
    async def play() -> int:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            numbers = list(await db.add_many("q", PAYLOADS))
            delivering = asyncio.create_task(db.deliver_many(numbers))
            numbers.clear()
            return await delivering

    assert asyncio.run(play()) == 3


def test_subclasses_count_for_what_they_hold(db: MessageDatabase) -> None:
    other = db.add("other", b"")
    number = db.add(Twin("mine"), Same(b"what it holds"), properties={Twin("k"): Twin("v")}, producer_id=Twin("p"))
    db.put(Twin("key"), Same(b"value"))

    assert db.read(number)[1:4] == ("mine", b"what it holds", {"k": "v"})
    assert db.read(number).producer_id == "p"
    assert db.get("key") == db.get(Twin("key")) == b"value"
    assert db.take(Twin("mine")) == db.read(number)
    assert [message.number for message in db.undelivered(Twin("other"))] == [other]


@pytest.mark.parametrize("verb", ["deliver", "delete", "release", "read"])
def test_a_message_names_itself(db: MessageDatabase, verb: str) -> None:
    db.add("q", b"x")
    message = db.take("q")

    assert message is not None
    assert getattr(db, verb)(message) == (message if verb == "read" else True)


def test_messages_name_themselves_where_many_are_removed(db: MessageDatabase) -> None:
    messages = [db.read(number) for number in db.add_many("q", PAYLOADS * 2)]

    assert db.deliver_many(iter(messages[:2])) == 2
    assert db.delete_many((messages[2], messages[3].number)) == 2
    with db.commit() as block:
        block.deliver(messages[4])
        block.delete_many([messages[5]])
    assert db.undelivered_count() == 0


NUMBERS_WRONG = [1.0, "1", None, True, b"1", [1], {}, Message("1", "q", b"", {}, 0, None, 1, 0)]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", NUMBERS_WRONG)
def test_what_names_no_message_is_refused_in_words(db: MessageDatabase, wrong: Any) -> None:
    number = db.add("q", b"x")
    for verb in (db.deliver, db.delete, db.release, db.read):
        with pytest.raises(TypeError, match=r"number.* must be a message number \(int\) or a Message, not"):
            verb(wrong)
    for many in (db.deliver_many, db.delete_many, db.unhold, db.discard_held):
        with pytest.raises(TypeError, match=r"numbers\[1\].* must be a message number"):
            many([number, wrong])
    with db.commit() as block:
        for removal in (block.deliver, block.delete):
            with pytest.raises(TypeError, match="must be a message number"):
                removal(wrong)
    assert list(db.numbers()) == [number]


@pytest.mark.parametrize("number", [0, -1, 99, 1 << 63, 1 << 64, 1 << 200])
def test_a_number_of_no_message_is_no_mistake_of_type(db: MessageDatabase, number: int) -> None:
    db.add("q", b"x")
    assert not db.deliver(number)
    assert not db.delete(number)
    assert not db.release(number)
    assert db.deliver_many([number, number]) == db.delete_many([number]) == db.discard_held([number]) == 0
    with pytest.raises(NoSuchMessage):
        db.read(number)
    with pytest.raises(NotUndelivered), db.commit() as block:
        block.deliver(number)
    assert db.undelivered_count() == 1


REFUSED: list[tuple[Callable[[MessageDatabase], object], str]] = [
    (lambda db: db.add_many("q", b"abc"), "payloads must be an iterable of payloads, not bytes b'abc'"),  # type: ignore[arg-type]
    (lambda db: db.add_many("q", "abc"), "payloads must be an iterable of payloads, not str 'abc'"),  # type: ignore[arg-type]
    (lambda db: db.add_many("q", {b"a": 1}), "payloads must be an iterable of payloads, not dict"),
    (lambda db: db.add_many("q", 5), "payloads must be an iterable of payloads, not int 5"),  # type: ignore[arg-type]
    (lambda db: db.add_many("q", [b"a", "b"]), r"payloads\[1\] must be bytes, bytearray or memoryview, not str 'b'"),  # type: ignore[list-item]
    (lambda db: db.add_many("q", [b"a"], properties=["a"]), r"properties\[0\] must map text to text"),  # type: ignore[list-item]
    (lambda db: db.add_many("q", [b"a"], properties={"a": "b"}), "properties of several messages"),  # type: ignore[dict-item]
    (lambda db: db.add("q", b"", properties=["a"]), "properties must map text to text"),  # type: ignore[arg-type]
    (lambda db: db.add("q", b"", properties={"a": 1}), "a value of properties must be text"),  # type: ignore[dict-item]
    (lambda db: db.add("q", b"", properties=""), "properties must map text to text"),  # type: ignore[arg-type]
    (lambda db: db.add("q", b"", producer_id=5), "producer_id must be text"),  # type: ignore[arg-type]
    (lambda db: db.deliver_many("12"), "numbers must be an iterable of message numbers or Messages, not str '12'"),  # type: ignore[arg-type]
    (lambda db: db.deliver_many(b"12"), "numbers must be an iterable of message numbers or Messages, not bytes"),
    (lambda db: db.deliver_many(5), "numbers must be an iterable"),  # type: ignore[arg-type]
    (lambda db: db.deliver_many(Message(1, "q", b"", {}, 0, None, 1, 0)), r"not a single Message: write \[message\]"),  # type: ignore[arg-type]
    (lambda db: db.take(None), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.take(5), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.undelivered(5), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.held(5), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.numbers(5), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.undelivered_count(b"q"), "queue must be text"),  # type: ignore[arg-type]
    (lambda db: db.keys(5), "prefix must be text"),  # type: ignore[arg-type]
    (lambda db: db.get(5), "key must be text"),  # type: ignore[arg-type]
    (lambda db: db.put("k", "v"), "value must be bytes"),  # type: ignore[arg-type]
    (lambda db: db.drop(None), "key must be text"),  # type: ignore[arg-type]
    (lambda db: db.cleanup(compact="no"), "compact must be True or False, not str 'no'"),  # type: ignore[arg-type]
    (lambda db: db.cleanup(dry_run=1), "dry_run must be True or False"),  # type: ignore[arg-type]
    (lambda db: db.commit(producer_id=5), "producer_id must be text"),  # type: ignore[arg-type]
    (lambda db: MessageDatabase(db.directory), r"write MessageDatabase.open\("),
    (lambda db: AsyncMessageDatabase("spool"), r"write AsyncMessageDatabase.open\("),  # type: ignore[arg-type]
    (lambda db: AsyncMessageDatabase.wrap("spool"), "database must be an open MessageDatabase"),  # type: ignore[arg-type]
    (lambda db: MessageDatabase.open(db.directory, options={}), "options must be an Options, not dict"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_a_wrong_type_is_refused_by_the_name_of_its_argument(
    db: MessageDatabase, call: Callable[[MessageDatabase], object], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        call(db)
    assert db._journal.last_commit == 0


def test_the_name_of_a_queue_that_cannot_be_is_refused_by_who_asks_too(db: MessageDatabase) -> None:
    calls: list[Callable[[str], object]] = [db.take, db.undelivered, db.held, db.numbers, db.undelivered_count]
    for call in calls:
        for wrong in ("", "q" * 256, "\ud800"):
            with pytest.raises(InvalidName, match="queue name"):
                call(wrong)


def test_a_released_memoryview_is_refused_in_words(db: MessageDatabase) -> None:
    view = memoryview(b"x")
    view.release()
    with pytest.raises(ValueError, match="payload is a memoryview that was released"):
        db.add("q", view)


def test_a_block_takes_nothing_before_it_is_entered_and_after_it_was_left(db: MessageDatabase) -> None:
    number = db.add("q", b"x")
    block = db.commit()
    calls: list[Callable[[], object]] = [
        lambda: block.add("q", b""),
        lambda: block.add_many("q", [b""]),
        lambda: block.deliver(number),
        lambda: block.delete_many([number]),
        lambda: block.put("k", b""),
        lambda: block.drop("k"),
    ]
    for call in calls:
        with pytest.raises(OutsideBlock, match="is not entered"):
            call()
    with block:
        block.add("q", b"y")
        with pytest.raises(OutsideBlock, match="entered before"):
            block.__enter__()
    for call in (*calls, block.__enter__):
        with pytest.raises(OutsideBlock):
            call()
    assert [message.payload for message in db.undelivered()] == [b"x", b"y"]


def test_a_block_that_an_exception_left_takes_nothing_more(db: MessageDatabase) -> None:
    with pytest.raises(LookupError), db.commit() as block:
        block.add("q", b"never")
        raise LookupError
    with pytest.raises(OutsideBlock, match="was left"):
        block.add("q", b"dropped")
    assert db.undelivered_count() == 0


def test_an_asyncio_block_takes_nothing_after_it_was_left(tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            async with db.commit() as block:
                block.add("q", b"x")
            with pytest.raises(OutsideBlock):
                block.add("q", b"dropped")

    asyncio.run(play())


def test_a_call_that_a_block_refuses_leaves_nothing_in_it(db: MessageDatabase) -> None:
    first, second = db.add_many("q", [b"1", b"2"])
    with db.commit() as block:
        with pytest.raises(NotUndelivered):
            block.deliver_many([first, 99])
        with pytest.raises(NotUndelivered):
            block.delete_many([second, second])
        with pytest.raises(TypeError):
            block.add_many("q", [b"3", "4"])  # type: ignore[list-item]
        block.put("k", b"v")
    assert list(db.numbers()) == [first, second]


def test_a_resend_answers_with_the_first_number_also_when_that_message_is_delivered(db: MessageDatabase) -> None:
    number = db.add("q", b"x", producer_id="p")
    assert db.deliver(number)

    assert db.add("q", b"x", producer_id="p") == number
    assert db.deliver(number) is False
    with pytest.raises(NotUndelivered), db.commit() as block:
        block.deliver(number)


@needs_java
def test_what_was_written_is_read_by_the_reader_in_java(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("q", (bytes([n]) for n in range(9)), properties=({"k": str(n)} for n in range(9)))
    read = java_reader().read(tmp_path)
    assert len(read["undelivered"]) == 9
    assert [one["payload"] for one in read["operations"]] == [hashed(bytes([n])) for n in range(9)]
    assert [one["properties"] for one in read["operations"]] == [{"k": str(n)} for n in range(9)]
