"""The bytes of the socket: all that is sent comes back, and whatever else comes is refused."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal import (
    Added,
    AddedMany,
    DiskError,
    DiskFull,
    JournalError,
    OutcomeUnknown,
    QueueFull,
    TakenOver,
    UnreadableCommit,
)
from oms_journal.database.commits.added import Repeated
from oms_journal.database.commits.terms import AskedTerms
from oms_journal.database.door import protocol
from oms_journal.database.door.protocol import (
    ADD,
    ADD_MANY,
    ADDED,
    GREETING,
    HEADER,
    Front,
    Garbled,
    Greeting,
    decode_add,
    decode_add_many,
    decode_added,
    decode_failure,
    decode_greeting,
    encode_add,
    encode_add_many,
    encode_added,
    encode_failure,
)
from oms_journal.journal import errors
from oms_journal.journal.format.records import encode_properties

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
PROPERTIES = st.dictionaries(NAMES, NAMES, max_size=3)
ASKED = AskedTerms(delay=5, due=-6, life=7, expiry=8, group=b"g")
FRONT = Front(b"q", b"p", 1.5, ASKED)
MANY = encode_add_many(FRONT, [b"one", b"two"], [encode_properties({"a": "b"}), b""])
REQUESTS = [
    (decode_add, b"".join(encode_add(FRONT, b"payload", encode_properties({"a": "b"})))),
    (decode_add_many, b"".join(MANY)),
]
TIMES = st.none() | st.integers(1, 1_000_000_000_000_000)
TERMS = st.builds(AskedTerms, TIMES, TIMES, TIMES, TIMES, st.none() | NAMES.map(str.encode))


def body_of(frame: bytes) -> bytes:
    return frame[HEADER.size :]


@pytest.mark.parametrize(
    ("heading", "size"),
    [
        ("greeting", GREETING.size),
        ("header", HEADER.size),
        ("add", ADD.size),
        ("add many", ADD_MANY.size),
        ("added", ADDED.size),
    ],
)
def test_the_picture_has_the_widths_of_the_structs(heading: str, size: int) -> None:
    assert protocol.__doc__ is not None
    table = re.split(rf"^ {{4}}{heading} +bytes", protocol.__doc__, flags=re.MULTILINE)[1].split("\n\n")[0]

    assert sum(map(int, re.findall(r"^ {4}\w+ +(\d+) ", table, re.MULTILINE))) == size


@given(NAMES, st.binary(max_size=200), PROPERTIES, st.none() | NAMES, st.tuples(st.none() | st.floats(0), TERMS))
def test_one_message_comes_back(
    queue: str,
    payload: bytes,
    properties: dict[str, str],
    producer: str | None,
    asked: tuple[float | None, AskedTerms],
) -> None:
    body = encode_add(Front(queue.encode(), (producer or "").encode(), *asked), payload, encode_properties(properties))

    wait, terms = asked
    said = (wait, None if terms == AskedTerms() else terms)
    assert decode_add(b"".join(body)) == (queue, [payload], [properties] if properties else None, producer, *said)


@given(NAMES, st.lists(st.tuples(st.binary(max_size=50), PROPERTIES), min_size=1, max_size=5), st.none() | NAMES)
def test_several_messages_come_back(
    queue: str, messages: list[tuple[bytes, dict[str, str]]], producer: str | None
) -> None:
    payloads = [payload for payload, _ in messages]
    properties = [each for _, each in messages]
    front = Front(queue.encode(), (producer or "").encode(), 0.0, ASKED)
    body = encode_add_many(front, payloads, [encode_properties(each) for each in properties])

    assert decode_add_many(b"".join(body)) == (
        *(queue, payloads, properties if any(properties) else None, producer),
        *(0.0, ASKED),
    )


@pytest.mark.parametrize(
    "front",
    [
        Front(b"q", b"", -1.0),
        Front(b"q", b"", float("nan")),
        Front(b"q", b"", None, AskedTerms(delay=-1)),
        Front(b"q", b"", None, AskedTerms(life=0)),
        Front(b"q", b"", None, AskedTerms(due=1 << 62)),
        Front(b"q", b"", None, AskedTerms(group=b"\xff")),
    ],
)
def test_arguments_that_no_caller_can_give_are_refused(front: Front) -> None:
    with pytest.raises(Garbled):
        decode_add(b"".join(encode_add(front, b"x", b"")))


@pytest.mark.parametrize(("decode", "whole"), REQUESTS, ids=["one", "many"])
def test_a_request_that_is_cut_or_changed_anywhere_is_read_or_refused_and_nothing_else(
    decode: Callable[[bytes], object], whole: bytes
) -> None:
    for size in range(len(whole)):
        for body in (whole[:size], whole[:size] + bytes([whole[size] ^ 0xFF]) + whole[size + 1 :]):
            with contextlib.suppress(Garbled):
                decode(body)


@given(st.binary(max_size=100))
def test_garbage_is_refused_by_every_reader(data: bytes) -> None:
    for decode in (decode_add, decode_add_many, decode_added, decode_failure):
        with contextlib.suppress(Garbled):
            decode(data)
    with pytest.raises(Garbled):
        decode_greeting(data[: GREETING.size - 1].rjust(GREETING.size, b"\0"))


def test_a_request_of_many_whose_count_is_a_lie_asks_for_no_memory() -> None:
    with pytest.raises(Garbled):
        decode_add_many(ADD_MANY.pack(1, 0, 0, 0, 0xFFFF_FFFF) + b"q")


def test_a_greeting_comes_back() -> None:
    assert decode_greeting(Greeting(1, 2, 3).encode()) == (1, 2, 3)


ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, JournalError)]


@pytest.mark.parametrize("its", ERRORS)
def test_every_error_of_the_engine_comes_back_as_itself_with_its_text(its: type[JournalError]) -> None:
    back = decode_failure(body_of(encode_failure(its.__new__(its, "what is wrong, \udc80"))))

    assert type(back) is its
    assert back.args == ("what is wrong, \udc80",)
    assert str(back) == "what is wrong, \udc80"


def test_what_an_error_carries_comes_back() -> None:
    full = DiskFull(Path("/spool/file"), OSError(28, "No space left on device"), "add to", "make room")
    mistake = UnreadableCommit("a checksum is wrong")

    back, its = decode_failure(body_of(encode_failure(full))), decode_failure(body_of(encode_failure(mistake)))

    assert isinstance(back, DiskFull)
    assert isinstance(back, DiskError)
    assert (back.path, back.failure.errno, back.failure.strerror) == (full.path, 28, "No space left on device")
    assert str(back) == str(full)
    assert isinstance(its, UnreadableCommit)
    assert its.reason == "a checksum is wrong"
    assert str(decode_failure(body_of(encode_failure(TakenOver())))) == str(TakenOver())
    room = QueueFull("two words", limit=3, count=2, unit="bytes", waiting=1)
    again = decode_failure(body_of(encode_failure(room)))
    assert (type(again), vars(again), str(again)) == (QueueFull, vars(room), str(room))


@pytest.mark.parametrize("is_repeat", [False, True])
def test_numbers_come_back_and_whether_they_were_there(is_repeat: bool) -> None:
    one = decode_added(body_of(encode_added((Repeated if is_repeat else Added)(7))))
    many = decode_added(body_of(encode_added(AddedMany(range(7, 9), is_repeat=is_repeat))))
    assert ((one.numbers, one.is_repeat), (many.numbers, many.is_repeat)) == (
        (range(7, 8), is_repeat),
        (range(7, 9), is_repeat),
    )


def test_what_the_engine_raises_by_mistake_leaves_the_outcome_open() -> None:
    back = decode_failure(body_of(encode_failure(ZeroDivisionError("division by zero"))))

    assert isinstance(back, OutcomeUnknown)
    assert "ZeroDivisionError: division by zero" in str(back)
