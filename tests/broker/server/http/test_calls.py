"""Calls over HTTP with an identifier: repeated they do nothing twice, and each can be taken back alone."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.codes import Code
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import ALICE, BOB, SERVICE, WebPlace, answer, brief, head

DONE, DOUBT = Code.OK.value, Code.TRANSPORT_TIMED_OUT.value
EMPTY = {Code.NO_UOWS.value, Code.NO_CONVERSATION.value, Code.WAIT_TIMED_OUT.value}
KEPT_BYTES = 1000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[WebPlace]:
    with WebPlace(tmp_path / "store", limits=brief(kept_bytes=KEPT_BYTES), max_delivery_count=2) as found:
        for who in (ALICE, BOB):
            assert said(found, "LOGON", "NONE", who)["error_code"] == DONE
        assert said(found, "REGISTER", "NONE", BOB, SERVICE)["error_code"] == DONE
        yield found


def block(function: str, option: str, who: dict[str, str], fields: dict[str, Any] | None = None) -> bytes:
    return json.dumps({"function": function, "option": option, **who, **(fields or {}), "as_text": True}).encode()


def said(
    place: WebPlace, function: str, option: str, who: dict[str, str], fields: Any = None, call: str = ""
) -> dict[str, Any]:
    """Return the answer to a call with this identifier."""
    named = {"Broker_Call": call} if call else {}
    status, found = place.say(block(function, option, who, fields), **named)
    assert status == 200, found
    return dict(found)


def send(place: WebPlace, body: str, call: str = "", **fields: Any) -> dict[str, Any]:
    more = {"conv_id": "NEW", "body_text": body, **SERVICE, **fields}
    return said(place, "SEND", "COMMIT", ALICE, more, call)


def receive(place: WebPlace, call: str = "", **fields: Any) -> dict[str, Any]:
    return said(place, "RECEIVE", "SYNC", BOB, {"conv_id": "ANY", **fields}, call)


def session_of(place: WebPlace, who: dict[str, str]) -> str:
    _, headers, _ = place.ask("POST", "/aci", block("VERSION", "NONE", who), content_type="application/json")
    return headers["broker-session"]


def take_back(place: WebPlace, who: dict[str, str], call: str) -> tuple[int, dict[str, Any]]:
    status, _, found = place.ask("DELETE", "/aci", broker_session=session_of(place, who), broker_call=call)
    return status, json.loads(found) if found else {}


def waiting_count(place: WebPlace) -> int:
    async def count() -> int:
        assert place.broker._tasks is not None
        return len(place.broker._tasks.world.parking)

    return place.run(count())


def until_waits(place: WebPlace, count: int = 1) -> None:
    for _ in range(int(TIMEOUT_SECONDS / 0.005)):
        if waiting_count(place) == count:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"{waiting_count(place)} calls wait, not {count}")


def poll(place: WebPlace, call: str) -> Any:
    """Return a connection on which a RECEIVE waits."""
    raw, ask = place.connect(), block("RECEIVE", "SYNC", BOB, {"conv_id": "ANY", "wait": "60S"})
    raw.sendall(head(ask, extra=f"Broker-Call: {call}\r\n") + ask)
    return raw


# Repeated.


def test_a_send_that_is_repeated_is_there_once_and_answered_the_same(place: WebPlace) -> None:
    assert send(place, "x", "1") == send(place, "x", "1")
    assert send(place, "x", "2")["uowid"] != send(place, "x", "1")["uowid"]

    assert [receive(place).get("body_text") for _ in range(3)] == ["x", "x", None]


def test_a_receive_that_is_repeated_gets_the_same_message_and_the_next_one_the_next(place: WebPlace) -> None:
    send(place, "1")
    send(place, "2")
    first = receive(place, "a")
    assert first["body_text"] == "1" and receive(place, "a") == first
    assert receive(place, "b")["body_text"] == "2"
    assert receive(place, "a") == first


def test_the_answer_names_its_call_and_one_without_an_identifier_has_none(place: WebPlace) -> None:
    for named in ({"broker_call": "x7"}, {}):
        _, headers, _ = place.ask(
            "POST", "/aci", block("VERSION", "NONE", ALICE), content_type="application/json", **named
        )
        assert headers.get("broker-call") == named.get("broker_call")


def test_the_identifier_of_another_call_is_refused_and_does_nothing(place: WebPlace) -> None:
    send(place, "x", "1")
    status, refused = place.say(
        block("SEND", "COMMIT", ALICE, {"conv_id": "NEW", "body_text": "y", **SERVICE}), Broker_Call="1"
    )
    assert status == 409 and "another call" in refused["error"]
    assert [receive(place).get("body_text") for _ in range(2)] == ["x", None]


@pytest.mark.parametrize("name", ["x" * 65, "ü", "a b"])
def test_an_identifier_is_short_and_of_ascii(place: WebPlace, name: str) -> None:
    raw, ask = place.connect(), block("VERSION", "NONE", ALICE)
    raw.sendall(head(ask, extra=f"Broker-Call: {name}\r\n") + ask)
    status, refused = answer(raw)
    raw.close()
    assert status == 400 and "64 characters" in refused["error"]


def test_two_requests_of_a_call_that_waits_get_the_same_answer(place: WebPlace) -> None:
    first, second = poll(place, "a"), poll(place, "a")
    until_waits(place)
    send(place, "x")
    found = [answer(each)[1] for each in (first, second)]
    assert found[0] == found[1] and found[0]["body_text"] == "x"
    for each in (first, second):
        each.close()


def test_who_comes_again_gets_what_the_connection_that_is_lost_had_waited_for(place: WebPlace) -> None:
    first = poll(place, "a")
    until_waits(place)
    second = poll(place, "a")
    first.close()
    send(place, "x")
    found = answer(second)[1]
    second.close()
    assert (found["body_text"], found.get("adcount", 0)) == ("x", 0)
    third = poll(place, "b")
    until_waits(place)
    third.close()
    until_waits(place, 0)
    send(place, "y")
    assert receive(place, "b", wait="60S")["body_text"] == "y"


def test_messages_are_kept_within_bounds_and_what_is_kept_no_longer_is_handed_out_again(place: WebPlace) -> None:
    send(place, "1" * KEPT_BYTES)
    send(place, "2" * KEPT_BYTES)
    receive(place, "a")
    assert receive(place, "b")["body_text"] == "2" * KEPT_BYTES
    again = receive(place, "a")
    assert (again["body_text"], again.get("adcount", 0)) == ("1" * KEPT_BYTES, 0)


def test_a_plain_message_that_is_kept_no_longer_is_told_of(place: WebPlace) -> None:
    for body in ("1" * KEPT_BYTES, "2" * KEPT_BYTES):
        said(place, "SEND", "NONE", ALICE, {"conv_id": "NEW", "body_text": body, **SERVICE})
    for call in ("a", "b"):
        assert said(place, "RECEIVE", "MSG", BOB, {"conv_id": "NEW"}, call)["error_code"] == DONE
    again = said(place, "RECEIVE", "MSG", BOB, {"conv_id": "NEW"}, "a")
    assert again["error_code"] == DOUBT and "kept no longer" in again["error_text"]


# Taken back.


def test_what_a_call_received_is_handed_out_again_at_once_and_counts_no_attempt(place: WebPlace) -> None:
    send(place, "x")
    for number in range(5):  # more often than makes a dead letter
        found = receive(place, f"{number}")
        assert (found["body_text"], found.get("adcount", 0)) == ("x", 0)
        assert take_back(place, BOB, f"{number}") == (204, {})
    assert receive(place, "4")["error_code"] == DOUBT, "it was taken back"


def test_only_that_call_is_taken_back(place: WebPlace) -> None:
    send(place, "1")
    send(place, "2")
    first = receive(place, "a")
    unit = said(place, "SEND", "SYNC", BOB, {"conv_id": first["conv_id"], "body_text": "e5"}, "b")
    assert receive(place, "c")["body_text"] == "2"
    assert take_back(place, BOB, "c") == (204, {})

    assert said(place, "SYNCPOINT", "COMMIT", BOB, {"uowid": unit["uowid"]})["error_code"] == DONE
    assert said(place, "SYNCPOINT", "COMMIT", BOB, {"uowid": first["uowid"]})["error_code"] == DONE
    assert receive(place)["body_text"] == "2"


def test_what_was_taken_back_before_it_came_is_not_carried_out(place: WebPlace) -> None:
    assert take_back(place, ALICE, "1") == (204, {})
    assert send(place, "x", "1")["error_code"] == DOUBT
    assert receive(place)["error_code"] in EMPTY


def test_what_was_committed_stands_and_its_answer_is_told(place: WebPlace) -> None:
    sent = send(place, "x", "1")
    for _ in range(2):
        assert take_back(place, ALICE, "1") == (200, sent)
    assert receive(place)["body_text"] == "x"


def test_a_unit_that_was_begun_is_backed_out(place: WebPlace) -> None:
    began = said(place, "SEND", "SYNC", ALICE, {"conv_id": "NEW", "body_text": "x", **SERVICE}, "1")
    assert take_back(place, ALICE, "1") == (204, {})
    assert said(place, "SYNCPOINT", "COMMIT", ALICE, {"uowid": began["uowid"]})["error_code"] != DONE


def test_a_call_that_waits_waits_no_longer(place: WebPlace) -> None:
    raw = poll(place, "a")
    until_waits(place)
    assert take_back(place, BOB, "a") == (204, {})
    assert waiting_count(place) == 0
    assert answer(raw)[1]["error_code"] == DOUBT
    raw.close()
    send(place, "x")
    found = receive(place)
    assert (found["body_text"], found.get("adcount", 0)) == ("x", 0)


def test_there_is_nothing_to_take_back_without_a_session(place: WebPlace) -> None:
    status, _, _ = place.ask("DELETE", "/aci", broker_session="none", broker_call="1")
    assert status == 404


@pytest.mark.parametrize("said_so", [True, "x"])
def test_no_client_says_that_an_attempt_does_not_count(place: WebPlace, said_so: Any) -> None:
    send(place, "x")
    fields = {"uowid": receive(place)["uowid"], "is_untried": said_so}
    status, refused = place.say(block("SYNCPOINT", "BACKOUT", BOB, fields))
    assert status == 400 and "is_untried" in refused["error"]


# A call that begins a session.


def begin(place: WebPlace, call: str) -> tuple[str, dict[str, Any]]:
    """Return the session and the answer of a LOGON that asks for one of its own."""
    named = {"broker_session": "new", "broker_call": call, "content_type": "application/json"}
    _, headers, found = place.ask("POST", "/aci", block("LOGON", "NONE", {"user_id": "CAROL", "token": "T"}), **named)
    return headers.get("broker-session", ""), json.loads(found)


def test_a_logon_that_is_repeated_is_answered_with_the_same_session(place: WebPlace) -> None:
    session, found = begin(place, "a")
    assert begin(place, "a") == (session, found)
    assert begin(place, "b")[0] not in ("", session)


def test_a_session_is_over_whose_beginning_is_taken_back_and_does_not_begin_later(place: WebPlace) -> None:
    session, _ = begin(place, "a")
    for call in ("a", "b"):
        status, _, _ = place.ask("DELETE", "/aci", broker_session="new", broker_call=call)
        assert status == 204
    assert place.ask("DELETE", "/aci", broker_session=session)[0] == 404
    for call in ("a", "b"):
        session, refused = begin(place, call)
        assert session == "" and refused["error_code"] == DOUBT
