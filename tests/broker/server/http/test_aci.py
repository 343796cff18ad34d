"""The control block over HTTP: every field there and back, who a caller is, waiting, and who hangs up."""

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import FIELDS, ConvStat, Function, Option, Reply, Request, Store, Way
from oms_journal.broker.block_json import decode_answer, decode_request, encode_answer, encode_request, parse_json
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from oms_journal.broker.server.http import sessions
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import ALICE, BOB, SERVICE, WebPlace, answer, brief, head
from tests.support.sweeps import for_each


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("aci") / "store") as found:
        yield found


@pytest.fixture
def bob(place: WebPlace) -> Iterator[str]:
    """A server that has received all there was."""
    place.call("LOGON", **BOB)
    place.call("REGISTER", **BOB, **SERVICE)
    ask = {**BOB, "conv_id": "ANY", "wait": "0.5S"}  # what was given back may come a little later
    while (found := place.call("RECEIVE", "SYNC", **ask))["error_code"] == "00000000":
        place.call("SYNCPOINT", "COMMIT", **BOB, uowid=found["uowid"])
    yield "BOB"
    place.call("LOGOFF", **BOB)


def until(is_so: Callable[[], Any]) -> Any:
    """Wait until it is so; return what it says."""
    ends = time.monotonic() + TIMEOUT_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < ends, "it never was so"
        time.sleep(0.01)
    return found


def sent(place: WebPlace, body: str, **said: Any) -> dict[str, Any]:
    place.call("LOGON", **ALICE)
    found = place.call("SEND", "COMMIT", **ALICE, conv_id="NEW", body_text=body, **SERVICE, **said)
    assert found["uow_status"] == "ACCEPTED", found
    return found


# The block as JSON, as values.

FULL = Request(
    function=Function.SEND,
    option=Option.COMMIT,
    api_version=9,
    broker_id="ETB001",
    user_id="ÄLICE",
    token="T",
    password="p",
    security_token=b"\x00\xff",
    server_class="A",
    server_name="B",
    service="C",
    conv_id="NEW",
    wait="5S",
    uowid="BOTH",
    ustatus="half",
    store=Store.BROKER,
    uwtime="1D",
    uwstatp=3,
    uwstat_lifetime="2H",
    topic="NEWS",
    publication_id="1",
    msgtype="M",
    msgid=b"id",
    user_data=b"data",
    locale="de",
    force_logon="Y",
    receive_length=7,
    errtext_length=9,
    error_code="00001234",
    body=bytes(range(256)),
    properties={"a": "1", "": "…"},
    producer="p1",
)


def test_every_field_of_a_request_comes_back_from_its_json() -> None:
    block = json.loads(json.dumps(encode_request(FULL)))

    assert decode_request(block) == (FULL, False)
    spoken = {field.attribute for field in FIELDS.values() if field.attribute and field.way is not Way.OUT}
    assert spoken <= set(block) | {"api_type"}
    assert decode_request({"function": "LOGON"})[0] == Request(function=Function.LOGON)


@pytest.mark.parametrize("status", [*Status, None])
def test_every_field_of_a_reply_comes_back_from_its_json(status: Status | None) -> None:
    reply = Reply(
        code=Code.TRUNCATED,
        text="cut",
        security_token=b"1",
        server_class="A",
        server_name="B",
        service="C",
        conv_id="1",
        conv_stat=ConvStat.OLD,
        uowid="2",
        uow_status=status,
        ustatus="u",
        store=Store.OFF,
        adcount=2,
        client_uid="c",
        client_id=3,
        commit_time="t",
        topic="N",
        publication_id="3",
        msgtype="m",
        msgid=b"2",
        user_data=b"3",
        return_length=4,
        partner_broker_id="H:1:TCP",
        versions="v",
    )
    whole = Answered(reply, b"\xff\x00", {"p": "v"})

    assert decode_answer(json.loads(json.dumps(encode_answer(whole)))) == whole
    assert decode_answer(encode_answer(Answered(Reply()))) == Answered(Reply())
    assert decode_answer({"error_code": "00080001"}).reply.text == Code.SECURITY_NOT_ACTIVE.text
    text = Answered(Reply(), "é".encode())
    assert (
        encode_answer(text, as_text=True)["body_text"] == "é"
        and decode_answer(encode_answer(text, as_text=True)) == text
    )
    assert encode_answer(whole, as_text=True)["body"] == "/wA=", "what is no text stays base64"


BROKEN = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"function": "\xff"}',
    "no object": b"[]",
    "a number": b"7",
    "null": b"null",
    "no function": b"{}",
    "an unknown function": b'{"function": "DANCE"}',
    "a function as a number": b'{"function": 1}',
    "a function in small letters": b'{"function": "logon"}',
    "an unknown field": b'{"function": "LOGON", "user": "X"}',
    "parts": b'{"function": "LOGON", "parts": []}',
    "a field twice": b'{"function": "LOGON", "token": "1", "token": "2"}',
    "a text that is a number": b'{"function": "LOGON", "user_id": 7}',
    "a text that is null": b'{"function": "LOGON", "user_id": null}',
    "a number that is a text": b'{"function": "LOGON", "api_version": "7"}',
    "a number that is true": b'{"function": "LOGON", "api_version": true}',
    "a fraction": b'{"function": "LOGON", "api_version": 1.5}',
    "a negative number": b'{"function": "LOGON", "api_version": -1}',
    "a huge number": b'{"function": "LOGON", "api_version": 2147483648}',
    "a number of many digits": b'{"function": "LOGON", "api_version": ' + b"9" * 10_000 + b"}",
    "NaN": b'{"function": "LOGON", "api_version": NaN}',
    "no base64": b'{"function": "SEND", "body": "*"}',
    "base64 beyond ASCII": '{"function": "SEND", "body": "éé=="}'.encode(),
    "half of base64": b'{"function": "SEND", "body": "eA"}',
    "two messages": b'{"function": "SEND", "body": "eA==", "body_text": "x"}',
    "properties in a list": b'{"function": "SEND", "properties": ["a"]}',
    "a property that is a number": b'{"function": "SEND", "properties": {"a": 1}}',
    "half a character": b'{"function": "LOGON", "user_id": "\\ud800"}',
    "half a character in a property": b'{"function": "SEND", "properties": {"\\udfff": ""}}',
    "as_text as a text": b'{"function": "RECEIVE", "as_text": "yes"}',
    "deep nesting": b"[" * 100_000,
    "deep objects": b'{"function":' * 100_000,
}


@for_each("name", list(BROKEN))
def test_what_is_no_control_block_is_refused_in_words_and_nothing_happens(place: WebPlace, name: str) -> None:
    status, said = place.say(BROKEN[name])

    assert status == 400 and said["status"] == 400 and said["error"] and len(said["error"]) < 500
    assert parse_json(b'{"function": "LOGON"}') == {"function": "LOGON"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("user_id", "x" * 10_000), ("user_id", "a\x00b"), ("wait", "soon"), ("uwtime", "-1"), ("api_version", 99)],
)
def test_what_the_broker_refuses_is_an_answer_with_its_code(place: WebPlace, field: str, value: Any) -> None:
    found = place.call("LOGON", **({"user_id": "ALICE"} | {field: value}))

    assert found["error_code"].startswith("0020") and found["error_text"]


# Who a caller is.


def test_a_token_finds_its_caller_without_a_session_header(place: WebPlace, bob: str) -> None:
    uow = sent(place, "e4")
    got = place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", as_text=True)

    assert (got["body_text"], got["uowid"], got["client_uid"]) == ("e4", uow["uowid"], "ALICE")
    done = place.call("SYNCPOINT", "COMMIT", **BOB, uowid=got["uowid"])
    assert done["uow_status"] == "PROCESSED"


def test_without_a_token_the_session_header_is_who_it_is(place: WebPlace) -> None:
    block = json.dumps({"function": "LOGON", "user_id": "CAROL"}).encode()
    _, headers, _ = place.ask("POST", "/aci", block, content_type="application/json")
    session = headers["broker-session"]
    last = {"user_id": "CAROL"}

    assert place.call("SYNCPOINT", "LAST", session=session, **last)["error_code"] == Code.UOW_NOT_FOUND.value
    assert place.call("SYNCPOINT", "LAST", **last)["error_code"] == Code.LOGON_REQUIRED.value
    assert place.call("LOGOFF", session=session, **last)["error_code"] == Code.OK.value
    assert place.call("SYNCPOINT", "LAST", session=session, **last)["error_code"] == Code.LOGON_REQUIRED.value


def test_a_session_that_is_over_is_begun_anew_by_logon_only(place: WebPlace) -> None:
    assert place.call("LOGON", session="x" * 24, user_id="DAVE")["error_code"] == Code.OK.value
    for function in ("SEND", "RECEIVE", "REGISTER", "VERSION"):
        found = place.call(function, session="x" * 24, user_id="DAVE")
        assert found["error_code"] == Code.LOGON_REQUIRED.value and "over" in found["error_text"]


def test_logon_of_the_same_token_takes_back_what_was_under_way(place: WebPlace, bob: str) -> None:
    uow = sent(place, "once more")
    assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")["uowid"] == uow["uowid"]

    place.call("LOGON", **BOB)
    assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")["error_code"] == Code.RECEIVE_ANY_BY_CLIENT.value
    place.call("REGISTER", **BOB, **SERVICE)

    again = place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")
    assert (again["uowid"], again["adcount"], again["uow_status"]) == (uow["uowid"], 1, "RECV_ONLY")


def test_delete_ends_a_session_and_gives_back_what_it_was_receiving(place: WebPlace, bob: str) -> None:
    uow = sent(place, "given back")
    _, headers, _ = place.ask("POST", "/aci", b'{"function":"LOGON","user_id":"EVE"}', content_type="application/json")
    session = headers["broker-session"]
    place.call("REGISTER", session=session, user_id="EVE", **SERVICE)
    assert place.call("RECEIVE", "SYNC", session=session, user_id="EVE", conv_id="ANY")["uowid"] == uow["uowid"]
    assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")["error_code"] != "00000000"

    assert place.ask("DELETE", "/aci", Broker_Session=session)[0] == 204

    assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", wait="5S")["uowid"] == uow["uowid"]
    assert place.ask("DELETE", "/aci", Broker_Session=session)[0] == 404


# The message in the block.


def test_a_long_message_of_bytes_goes_there_and_back(place: WebPlace, bob: str) -> None:
    body = base64.b64encode(bytes(range(256)) * 12_000).decode()
    place.call("LOGON", **ALICE)
    assert place.call("SEND", "COMMIT", **ALICE, **SERVICE, conv_id="NEW", body=body)["uow_status"] == "ACCEPTED"

    found = place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")

    assert (found["body"], found["return_length"]) == (body, 256 * 12_000)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=B", ""])
def test_a_body_of_another_type_is_refused(place: WebPlace, kind: str) -> None:
    assert place.say(b'{"function":"LOGON"}', content_type=kind)[0] == 415


def test_a_path_or_a_method_that_is_not_there_is_answered_in_json(place: WebPlace) -> None:
    status, headers, said = place.ask("PUT", "/aci")
    assert (status, headers["allow"], json.loads(said)["status"]) == (405, "DELETE, POST", 405)
    status, headers, said = place.ask("GET", "/nowhere")
    assert (status, headers["content-type"], json.loads(said)["status"]) == (404, "application/json", 404)


# Waiting.


def receiving(place: WebPlace) -> socket.socket:
    """Return a connection on which a RECEIVE was asked for."""
    body = json.dumps({"function": "RECEIVE", "option": "SYNC", "conv_id": "ANY", "wait": "20S", **BOB}).encode()
    raw = place.connect()
    raw.sendall(head(body) + body)
    return raw


def waiting(place: WebPlace) -> socket.socket:
    """Return a connection on which a RECEIVE waits."""
    before = len(place.broker._tasks._slots)  # type: ignore[union-attr]
    raw = receiving(place)
    until(lambda: len(place.broker._tasks._slots) > before)  # type: ignore[union-attr]
    return raw


def test_a_receive_waits_until_there_is_something(place: WebPlace, bob: str) -> None:
    with closing(waiting(place)) as raw:
        uow = sent(place, "at last")
        status, got = answer(raw)

    assert status == 200 and got["uowid"] == uow["uowid"]


def test_who_hangs_up_while_waiting_takes_nothing_with_it(place: WebPlace, bob: str) -> None:
    for count in range(10):
        waiting(place).close()
        until(lambda: not place.broker._tasks._slots)  # type: ignore[union-attr]
        uow = sent(place, str(count))
        got = place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", wait="5S")
        assert (got["uowid"], got.get("adcount", 0)) == (uow["uowid"], 0)
        place.call("SYNCPOINT", "COMMIT", **BOB, uowid=got["uowid"])


def test_who_hangs_up_in_any_moment_of_a_delivery_loses_no_unit_of_work(place: WebPlace, bob: str) -> None:
    uows = []
    for count in range(20):
        raw = receiving(place)
        if count % 2:
            raw.close()
            uows.append(sent(place, "x")["uowid"])
        else:
            uows.append(sent(place, "x")["uowid"])
            raw.close()  # it may be answered already
    place.call("LOGON", **BOB)  # what was answered to nobody is taken back
    place.call("REGISTER", **BOB, **SERVICE)
    got = set()
    while (found := place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", wait="200"))["error_code"] == "00000000":
        got.add(found["uowid"])
        place.call("SYNCPOINT", "COMMIT", **BOB, uowid=found["uowid"])
        if len(got) == len(uows):
            break

    assert got == set(uows)


def test_a_longer_wait_than_the_bound_is_answered_then(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", limits=brief(wait_seconds=0.05)) as place:
        place.call("LOGON", **BOB)
        place.call("REGISTER", **BOB, **SERVICE)
        for wait in ("60S", "YES"):
            assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY", wait=wait)["error_code"] == "00740074"
        assert not place.broker._tasks._slots  # type: ignore[union-attr]


def test_a_server_that_stops_answers_who_waits(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store") as place:
        place.call("LOGON", **BOB)
        place.call("REGISTER", **BOB, **SERVICE)
        with closing(waiting(place)) as raw:
            place.end()
            assert answer(raw)[1]["error_code"] == Code.NOT_ACTIVE.value


def test_without_a_broker_every_call_is_answered_why(place: WebPlace) -> None:
    broker, place.served.broker = place.served.broker, None
    try:
        for code in (Code.NOT_ACTIVE, Code.NOT_OPERATIONAL):
            place.served.refusal = code
            assert place.call("LOGON", **ALICE)["error_code"] == code.value
    finally:
        place.served.broker, place.served.refusal = broker, Code.NOT_ACTIVE
    assert place.call("LOGON", **ALICE)["error_code"] == "00000000"


# Sessions that nobody uses any more.


@pytest.mark.whole
def test_a_silent_session_ends_after_client_nonact_and_gives_back_its_unit_of_work(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", client_nonact="1S", server_nonact="1H") as place:
        place.call("LOGON", **BOB)
        place.call("REGISTER", **BOB, **SERVICE)
        uow = sent(place, "x")
        assert place.call("RECEIVE", "SYNC", **BOB, conv_id="ANY")["uowid"] == uow["uowid"]
        status = {**ALICE, "uowid": uow["uowid"]}

        def is_back() -> bool:
            place.call("LOGON", **ALICE)
            return bool(place.call("SYNCPOINT", "QUERY", **status)["uow_status"] == "ACCEPTED")

        until(is_back)


def test_of_too_many_sessions_those_with_a_single_call_go_first(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", limits=brief(sessions=8)) as place:
        place.call("LOGON", **ALICE)
        place.call("SYNCPOINT", "LAST", **ALICE)
        for _ in range(50):
            assert place.call("VERSION")["error_code"] == "00000000"
        assert place.call("SYNCPOINT", "LAST", **ALICE)["error_code"] == Code.UOW_NOT_FOUND.value


def full_of(place: WebPlace, user: str, count: int) -> None:
    """Let a user have so many sessions that are used."""
    for token in range(count):
        place.call("LOGON", user_id=user, token=str(token))
        place.call("SYNCPOINT", "LAST", user_id=user, token=str(token))


def test_who_has_most_of_too_many_sessions_is_refused_one_more_and_loses_one_for_others(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", limits=brief(sessions=8)) as place:
        full_of(place, "MALLORY", 8)
        status, said = place.say(b'{"function": "LOGON", "user_id": "MALLORY", "token": "one more"}')
        assert (status, "8 sessions" in said["error"]) == (503, True)

        for user in ("U0", "U1", "U2"):
            assert place.call("LOGON", user_id=user, token="T")["error_code"] == "00000000"
        status, _ = place.say(b'{"function": "LOGON", "user_id": "MALLORY", "token": "one more"}')
        assert status == 503, "not for a session that somebody has just begun"
        for user in ("U0", "U1", "U2"):
            found = place.call("SYNCPOINT", "LAST", user_id=user, token="T")
            assert found["error_code"] == Code.UOW_NOT_FOUND.value, "it goes on with its session"
        codes = [place.call("SYNCPOINT", "LAST", user_id="MALLORY", token=str(token)) for token in range(3, 8)]
        assert {each["error_code"] for each in codes} == {Code.UOW_NOT_FOUND.value}, "those used longest ago have gone"


def test_who_has_most_has_no_call_under_way_taken_away(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", limits=brief(sessions=3)) as place:
        place.call("LOGON", **BOB)
        place.call("REGISTER", **BOB, **SERVICE)
        with closing(waiting(place)):
            until(lambda: place.broker._tasks._slots)  # type: ignore[union-attr]
            full_of(place, "BOB", 2)
            for user in ("U0", "U1"):
                assert place.call("LOGON", user_id=user, token="T")["error_code"] == "00000000"
            assert place.broker._tasks._slots  # type: ignore[union-attr]


def test_after_a_while_a_session_with_a_single_call_makes_room_for_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebPlace(tmp_path / "store", limits=brief(sessions=8)) as place:
        place.call("VERSION")
        full_of(place, "U", 7)
        one_more = b'{"function": "LOGON", "user_id": "U", "token": "one more"}'
        assert place.say(one_more)[0] == 503
        monkeypatch.setattr(sessions, "_SILENT_SECONDS", 0.0)
        assert place.say(one_more)[0] == 200


def test_a_session_has_so_many_calls_under_way_and_no_more(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store", limits=brief(calls=2)) as place:
        place.call("LOGON", **BOB)
        place.call("REGISTER", **BOB, **SERVICE)
        with closing(waiting(place)), closing(waiting(place)):
            status, said = place.say(json.dumps({"function": "VERSION", **BOB}).encode())
            assert (status, "2 calls" in said["error"]) == (503, True)
            with suppress(TimeoutError):
                assert place.call("VERSION")["error_code"] == "00000000", "another session's"


def test_base64_is_what_python_reads_as_base64() -> None:
    assert decode_request({"function": "SEND", "body": base64.b64encode(b"\xff").decode()})[0].body == b"\xff"
