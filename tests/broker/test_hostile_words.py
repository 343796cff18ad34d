"""What anybody may say to a server: refused in words, at once, and with nothing of it carried out."""

import json
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from starlette.datastructures import Headers

from oms_journal.broker import destinations, rules
from oms_journal.broker.admin.codes import CisRefused
from oms_journal.broker.admin.questions import Query
from oms_journal.broker.admin.subjects import question_of, subject_of
from oms_journal.broker.attributes.attributes import BUILT_IN, parse_attributes
from oms_journal.broker.block import Function, Option, Request
from oms_journal.broker.block_json import BadBlock, decode_answer, parse_json
from oms_journal.broker.drivers.sqlite_commit import SCHEMA
from oms_journal.broker.drivers.sqlite_contents import SqliteContents
from oms_journal.broker.migration.agreement import UNLOAD, LoadMark, StoreOffer, decode_mark, encode_mark, encode_offer
from oms_journal.broker.server.http.request_guard import session_secret
from oms_journal.broker.server.migration.exchange import ExchangeRefused, check_in, failure_in, hello_in, nonce_in
from oms_journal.broker.store.start import StoreError
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import for_each

DEEP = b"[" * 100_000
HELLO = {"version": "1", "platform": "p", "security": "s", "nonce": "0123456789abcdef", "port": 1}
OFFER = StoreOffer(version="1", mode=UNLOAD, driver="JOURNAL", place="/spool", host="h")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("words") / "store") as found:
        yield found


# Words of JSON, to every route that takes some; none needs a log-on where there are no users, and two never do.


BODIES: dict[str, bytes] = {
    "too deep": DEEP,
    "too deep in an object": b'{"a":' * 50_000,
    "infinity": b'{"last": Infinity, "wait": -Infinity, "count": NaN}',
    "half a character": json.dumps({**HELLO, "nonce": "\ud800" * 16, "security": "\ud800"}).encode(),
    "other types": json.dumps({**HELLO, "nonce": [1], "security": {}, "version": None}).encode(),
    "a number of many digits": b'{"function": ' + b"9" * 100_000 + b"}",
    "UTF-16": json.dumps(HELLO).encode("utf-16"),
    "no UTF-8": b'{"function": "\xff"}',
    "nothing": b"",
    "null": b"null",
    "a name twice behind very many": b"{" + b"".join(b'"%d":1,' % number for number in range(60_000)) + b'"0":1}',
}


@for_each("what", BODIES)
@for_each("path", ["/aci", "/login", "/command", "/peer/hello", "/peer/load/hello", "/peer/unload/x"])
def test_no_body_is_a_mistake_of_the_server(place: WebPlace, path: str, what: str) -> None:

    status, _, answer = place.ask("POST", path, BODIES[what], content_type="application/json")

    assert 400 <= status < 500, (status, answer)


@for_each("cursor", ["[" * 20_000, "[" * 900 + "]" * 900, "{}", "NaN", "1e999", '"\\ud800"', "[[],{}]"])
@for_each("subject", ["SERVICE", "PSF", "PARTICIPANT", "TOPIC", "CONVERSATION"])
def test_no_cursor_is_a_mistake_of_the_server(place: WebPlace, subject: str, cursor: str) -> None:
    status, _, answer = place.ask("GET", f"/info/{subject}?cursor={cursor.replace('[', '%5B').replace('{', '%7B')}")

    assert status in (200, 400), (status, answer)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "0000000019999", "00000000" + "9" * 5000, "٣", "1e3", "", " 5"])
def test_a_limit_is_from_1_to_1000(limit: str) -> None:
    with pytest.raises(CisRefused):
        question_of(subject_of("SERVICE"), [("limit", limit)])


def test_who_asks_with_very_many_stars_is_answered_at_once() -> None:
    """Each is a pattern that a regular expression would need longer for than the world has been there."""
    stars = "*a" * 15 + "*b"
    attributes = BUILT_IN + f"\nDEFAULTS=SERVICE\n CLASS={stars} SERVER=* SERVICE=*\nDEFAULTS=TOPIC\n TOPIC={stars}"

    assert not Query(selectors={"server_class": [stars]}).fits("server_class")("a" * 32)
    found = parse_attributes(attributes).service("a" * 32, "B", "C")
    assert found is not None and found.server_class == "*"


def test_a_cookie_of_very_many_backslashes_is_read_at_once() -> None:
    """A library that unquotes it scans all of it for each of them: seconds in which nobody else is answered."""
    for value in ('x="' + "\\\\" * 500_000 + '"', 'oms-session="' + "\\1" * 500_000, "=;" * 500_000):
        assert len(session_secret(Headers({"cookie": value}), "oms-session")) in (0, 1_000_001)
    assert session_secret(Headers({"cookie": "a=b; oms-session=SECRET ;x"}), "oms-session") == "SECRET"
    assert session_secret(Headers({"cookie": "oms-session=FIRST; oms-session=LAST"}), "oms-session") == "LAST"


def test_a_request_with_such_a_cookie_holds_up_nobody(place: WebPlace) -> None:
    cookie = 'oms-session="' + "\\\\" * 14_000 + '"'

    for _ in range(20):
        assert place.ask("POST", "/nothing", cookie=cookie)[0] == 403


# Between two brokers.

_MARK: dict[str, Any] = json.loads(encode_mark(LoadMark(OFFER, 1)))
_SUMMARY = {"Message": {"count": 1, "bytes": 1, "digest": "00"}}
WORDS: dict[str, bytes] = {
    "too deep": DEEP,
    "no object": b"[]",
    "a nonce that is no text": json.dumps({"nonce": 7, "text": "x", "offer": encode_offer(OFFER)}).encode(),
    "half a character": json.dumps({"nonce": "\ud800", "text": "x", "offer": encode_offer(OFFER)}).encode(),
    "endless counts": b'{"last": 1, "summary": {"a": {"count": 1e999, "bytes": 1, "digest": ""}}}',
    "a last number without end": json.dumps({"last": float("inf"), "summary": _SUMMARY}).encode(),
    "counts as text": b'{"last": 1, "summary": {"a": {"count": "7", "bytes": 1, "digest": ""}}}',
    "a summary that is a list": b'{"last": 1, "summary": [1]}',
}


@pytest.mark.parametrize("what", WORDS)
def test_what_no_partner_says_is_refused(what: str) -> None:
    for read in (hello_in, check_in, nonce_in, lambda body: failure_in(body, OFFER)):
        with pytest.raises(ExchangeRefused) as refused:
            read(WORDS[what])
        assert refused.value.status == 400


@pytest.mark.parametrize(
    "said",
    [
        {**_MARK, "begun": float("inf")},
        {**_MARK, "begun": 10**30},
        {**_MARK, "begun": -1},
        {**_MARK, "begun": "7"},
        {**_MARK, "summary": {"a": {"count": float("nan"), "bytes": 1, "digest": ""}}},
        {**_MARK, "offer": {**_MARK["offer"], "parts": 1.5}},
        [1],
    ],
    ids=range(7),
)
def test_a_mark_of_a_load_that_nobody_makes_is_told_of(said: Any) -> None:
    with pytest.raises(ValueError):
        decode_mark(json.dumps(said).encode())


@pytest.mark.parametrize(
    "said",
    [
        {"error_code": "00000000", "body": "!"},
        {"error_code": "00000000", "body": 7},
        {"error_code": "00000000", "body_text": ["x"]},
        {"error_code": "00000000", "body_text": "\ud800"},
        {"error_code": "00000000", "conv_stat": ["NEW"]},
        {"error_code": "00000000", "uow_status": {}},
        {"error_code": ["00000000"]},
        {"error_code": "00000000", "properties": {"a": 1}},
        {"error_code": "00000000", "properties": "x"},
    ],
    ids=range(9),
)
def test_what_no_broker_answers_is_no_answer(said: Any) -> None:
    with pytest.raises(BadBlock):
        decode_answer(said)


def test_a_name_said_twice_is_found_at_once_and_told_shortly() -> None:
    names = ",".join(f'"{number}":0' for number in range(200_000))

    with pytest.raises(BadBlock, match="said twice"):
        parse_json("{" + names + ',"7":0}')
    with pytest.raises(BadBlock) as bad:
        parse_json('{"' + "x" * 100_000 + '":0,"' + "x" * 100_000 + '":0}')
    assert len(str(bad.value)) < 200


# A store that somebody else has written to.


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO messages VALUES (1, x'ff', x'00', x'', 0, NULL)",
        "INSERT INTO messages VALUES (1, 'A/B/C', 'text', x'', 0, NULL)",
        "INSERT INTO messages VALUES (1, 'A/B/C', x'00', x'01', 0, NULL)",
        "INSERT INTO messages VALUES (1, 'A/B/C', x'00', x'', 'never', NULL)",
        "INSERT INTO messages VALUES (1, 'A/B/C', x'00', x'', 0, x'ff')",
        "INSERT INTO records VALUES (CAST('broker/clock' AS BLOB), 'text')",
        "INSERT INTO records VALUES (CAST('broker/clock' AS BLOB), 1000000000000)",
        "INSERT INTO records VALUES (x'62726f6b65722ffe', x'00')",
        "INSERT INTO producers VALUES (1, 'A/B/C', x'ff', 1, x'', 0)",
        "INSERT INTO producers VALUES (1, 'A/B/C', 'p', 1, 7, 0)",
        "INSERT INTO producers VALUES (1, 'A/B/C', 'p', 1.5, x'', 0)",
        "INSERT INTO counters VALUES (1, 1)",
        "DELETE FROM counters",
        "UPDATE counters SET next_number = 'many'",
    ],
    ids=range(14),
)
def test_a_row_that_no_broker_writes_is_told_of(statement: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for each in (*SCHEMA, statement):
        connection.execute(each)
    reading = SqliteContents(connection)

    with pytest.raises(StoreError):
        list(reading.messages())
        list(reading.records("broker/"))
        reading.record("broker/clock")
        list(reading.identifiers())
        reading.highest()
    connection.close()


# What is remembered of words, so that they need not be looked at twice.


def kept(say: Callable[[str], object]) -> int:
    """Return how many bytes stay after 200 words of 20,000 characters were said."""
    say("once")
    tracemalloc.start()
    try:
        for number in range(200):
            say(f"{number:020000}")
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["temp", "conversation", "topic"])
def test_a_long_destination_is_not_remembered(kind: str) -> None:
    assert kept(lambda name: destinations.parse_destination(f"/{kind}/{name}")) < 100_000


TEXTS = [
    field.name for field in fields(Request) if isinstance(getattr(Request(function=Function.SEND), field.name), str)
]


@pytest.mark.whole
@for_each("name", TEXTS)
def test_a_long_word_of_a_call_is_not_remembered(name: str) -> None:
    def say(word: str) -> None:
        said: dict[str, Any] = {"user_id": "ALICE", "conv_id": "NEW", name: word}
        request = Request(function=Function.SEND, option=Option.COMMIT, **said)
        rules.check(request, is_server=False, is_logged_on=True)

    assert kept(say) < 100_000
