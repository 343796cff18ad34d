"""SEND to `/aci`: control blocks over STOMP, at the kernel's desk and through a server."""

import json
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.server.stomp.block_calls import CALLS
from oms_journal.broker.server.stomp.frames import V10, V11, V12, Frame
from tests.support.servers.stomp_desk import Connection, StompDesk
from tests.support.servers.stomp_server import Serving, connected
from tests.support.sweeps import for_each

QUEUE = "/queue/moves"


def call(connection: Connection, block: dict[str, Any] | bytes, **headers: str) -> None:
    body = block if isinstance(block, bytes) else json.dumps(block).encode()
    connection.send("/aci", body, reply_to="/temp/a", **headers)


def asked(connection: Connection, block: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Say a control block, and return the one answer."""
    call(connection, block, **headers)
    (message,) = connection.messages()
    assert (message.headers["destination"], message.headers["content-type"]) == ("/aci", "application/json")
    found: dict[str, Any] = json.loads(message.body)
    return found


def sent(connection: Connection, **headers: str) -> Frame:
    """Send a unit of work; return its receipt."""
    connection.send(QUEUE, b"e4", receipt="sent", **headers)
    (receipt,) = [frame for frame in connection.heard if frame.command == "RECEIPT"]
    connection.receipts()
    return receipt


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_the_status_of_what_was_sent_can_be_asked_for(version: str) -> None:
    alice = StompDesk().connect(version=version)
    unit = sent(alice).headers["uow-id"]

    by_name = asked(alice, {"function": "SYNCPOINT", "option": "QUERY", "uowid": unit}, correlation_id="c")
    last = asked(alice, {"function": "SYNCPOINT", "option": "LAST"})

    assert (by_name["error_code"], by_name["uow_status"], by_name["uowid"]) == ("00000000", "ACCEPTED", unit)
    assert last["uowid"] == unit


def test_the_answer_says_what_it_answers_and_goes_to_the_subscription_of_its_label() -> None:
    alice = StompDesk().connect()
    alice.subscribe("/temp/a", "mine")

    call(alice, {"function": "VERSION"}, correlation_id="number 7", receipt="done")

    message, receipt = alice.heard
    assert [message.headers[name] for name in ("subscription", "correlation-id")] == ["mine", "number 7"]
    assert (receipt.command, receipt.headers["receipt-id"]) == ("RECEIPT", "done")
    assert "ack" not in message.headers, "nothing is to be acknowledged"


def test_without_a_subscription_the_label_is_its_id_and_without_reply_to_there_is_only_the_receipt() -> None:
    alice = StompDesk().connect()
    call(alice, {"function": "VERSION"})
    (message,) = alice.messages()
    assert message.headers["subscription"] == "/temp/a"

    alice.send("/aci", b'{"function": "VERSION"}', receipt="r")
    assert [frame.command for frame in alice.heard] == ["RECEIPT"]


def test_a_call_waits_for_what_was_begun_before_it() -> None:
    alice = StompDesk().connect()
    alice.stomp.desk.is_slow = True
    alice.begin("SEND", b"e4", destination=QUEUE, receipt="1")
    alice.begin(
        "SEND", json.dumps({"function": "SYNCPOINT", "option": "LAST"}).encode(), destination="/aci", reply_to="/temp/a"
    )
    alice.begin("SEND", b"d4", destination=QUEUE, receipt="2")
    alice.stomp.turn()
    assert alice.heard == [], "the unit of work is not durable"

    while alice.stomp.desk.commits:
        alice.stomp.desk.settle(1)
        alice.stomp.turn()

    assert alice.commands() == ["RECEIPT", "MESSAGE", "RECEIPT"]
    assert json.loads(alice.heard[1].body)["uow_status"] == "ACCEPTED"


def test_what_the_broker_refuses_is_an_answer_and_the_connection_goes_on() -> None:
    alice = StompDesk().connect()

    refused = asked(alice, {"function": "SYNCPOINT", "option": "QUERY", "uowid": "4711"})

    assert refused["error_code"] == "00780305"
    assert asked(alice, {"function": "VERSION"})["error_code"] == "00000000"


def test_a_sender_takes_back_what_nobody_has_received() -> None:
    stomp = StompDesk()
    alice, bob = stomp.connect(), stomp.connect("BOB")
    unit = sent(alice).headers["uow-id"]

    assert asked(alice, {"function": "SYNCPOINT", "option": "CANCEL", "uowid": unit})["error_code"] == "00000000"
    bob.subscribe(QUEUE)

    assert bob.messages() == []


def test_a_conversation_is_ended() -> None:
    stomp = StompDesk()
    alice, bob = stomp.connect(), stomp.connect("BOB")
    conversation = sent(alice, conversation="NEW").headers["conversation"]
    bob.subscribe(QUEUE)
    assert asked(alice, {"function": "EOC", "conv_id": conversation})["error_code"] == "00000000"

    alice.send(f"/conversation/{conversation}")

    assert alice.error() == "00200004 No function is possible after EOC"


REFUSED = [
    (function, option)
    for function in Function
    for option in (Option.NONE, Option.COMMIT, Option.BACKOUT, Option.SYNC, Option.QUERY)
    if option not in CALLS.get(function, ())
]


@for_each(("function", "option"), REFUSED)
def test_what_has_a_frame_is_refused_and_changes_nothing(function: Function, option: Option) -> None:
    alice = StompDesk().connect()
    commits = len(alice.stomp.desk.paper.commits)

    call(alice, {"function": function.name, "option": option.name, "conv_id": "NEW", "body_text": "e4"})

    assert "STOMP has frames for it" in alice.error()
    assert len(alice.stomp.desk.paper.commits) == commits


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"", "not JSON"),
        (b"[]", "is an object"),
        (b'{"function": "VERSION", "colour": 1}', "no field"),
        (b'{"function": "VERSION", "user_id": "BOB"}', "USER-ID is that of the connection"),
        (b'{"function": "VERSION", "token": "T9"}', "TOKEN is that of the connection"),
    ],
)
def test_a_wrong_control_block_is_an_error_that_says_why(block: bytes, why: str) -> None:
    alice = StompDesk().connect()

    call(alice, block)

    assert why in alice.error()


@pytest.mark.parametrize("reply_to", ["/queue/answers", "/temp/", "label"])
def test_answers_go_to_temporary_destinations_only(reply_to: str) -> None:
    alice = StompDesk().connect()

    alice.send("/aci", b'{"function": "VERSION"}', reply_to=reply_to)

    assert "reply-to names /temp/LABEL" in alice.error()


def test_a_control_block_is_in_no_transaction() -> None:
    alice = StompDesk().connect()
    alice.take("BEGIN", transaction="t")

    call(alice, {"function": "VERSION"}, transaction="t")

    assert "in no transaction" in alice.error()


# Through a server.


@pytest.mark.whole
def test_stomp_py_asks_what_became_of_what_it_has_sent(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        connection, heard = connected(server.port)
        connection.send("/queue/asked", "e4", receipt="1")
        heard.wait(lambda: heard.receipts == ["1"])
        connection.subscribe("/temp/answers", id="a", ack="auto")

        block = json.dumps({"function": "SYNCPOINT", "option": "LAST"})
        connection.send("/aci", block, headers={"reply-to": "/temp/answers", "correlation-id": "q"})

        assert json.loads(heard.bodies(1)[0])["uow_status"] == "ACCEPTED"
        assert heard.messages[0].headers["correlation-id"] == "q"
        connection.disconnect()
