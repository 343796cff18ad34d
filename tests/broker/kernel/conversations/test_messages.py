"""Conversations of plain messages, waits, and the end of conversations."""

from typing import Any

import pytest

from oms_journal.broker.block import ConvStat, Function, Option, Reception, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import CHESS, Desk, Fields, Person, attributes

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE


@pytest.fixture
def client(desk: Desk) -> Person:
    return Person(desk, "CLIENT", caller=1, logs_on=False)


@pytest.fixture
def server(desk: Desk) -> Person:
    server = Person(desk, "SERVER", caller=2, logs_on=False)
    assert server.register().code is Code.OK
    return server


def ask(person: Person, conv_id: str = "NEW", **fields: Any) -> int:
    names = CHESS if conv_id in ("NEW", "NONE") else {}
    return person.start(Function.SEND, **{"body": b"ask", "conv_id": conv_id, "wait": "10S", **names, **fields})


# Messages.


def test_a_conversation_of_messages_needs_no_logon_and_no_store(desk: Desk, client: Person, server: Person) -> None:
    sent = client.send(b"1", NONE)
    client.send(b"2", NONE, sent.conv_id)
    got = [server.receive("NEW", NONE), server.receive(sent.conv_id, NONE)]
    assert [each.body for each in got] == [b"1", b"2"]
    assert [each.reply.conv_stat for each in got] == [ConvStat.NEW, ConvStat.OLD]
    assert {each.status for each in got} == {Reception.RECV_NONE}
    assert got[0].reply.client_uid == "CLIENT"
    server.send(b"answer", NONE, sent.conv_id)
    assert client.receive(sent.conv_id, NONE).body == b"answer"
    assert client.receive(sent.conv_id, NONE).code is Code.NO_MESSAGE
    assert desk.paper.commits == []


def test_a_send_that_waits_gets_the_answer(desk: Desk, client: Person, server: Person) -> None:
    handle = ask(client)
    got = server.receive("NEW", NONE)
    server.send(b"answer", NONE, got.conv_id)
    assert desk.answers[handle].body == b"answer"
    handle = ask(client, got.conv_id)
    desk.tick(10)
    assert desk.answers[handle].code is Code.WAIT_TIMED_OUT
    assert server.receive("OLD", NONE).body == b"ask", "the conversation goes on"


def test_one_message_and_one_answer(desk: Desk, client: Person, server: Person) -> None:
    handle = ask(client, "NONE")
    got = server.receive("NEW", NONE)
    assert got.reply.conv_stat is ConvStat.NONE
    assert server.send(b"answer", NONE, got.conv_id).code is Code.OK
    assert desk.answers[handle].body == b"answer"
    assert server.send(b"more", NONE, got.conv_id).code is Code.NO_CONVERSATION


def test_one_message_without_an_answer_ends_when_it_is_received(client: Person, server: Person) -> None:
    client.send(b"tell", NONE, "NONE")
    got = server.receive("NEW", NONE)
    assert got.body == b"tell"
    assert server.send(b"answer", NONE, got.conv_id).code is Code.NO_CONVERSATION


def test_the_answer_to_one_message_comes_too_late(desk: Desk, client: Person, server: Person) -> None:
    handle = ask(client, "NONE")
    got = server.receive("NEW", NONE)
    desk.tick(10)
    assert desk.answers[handle].code is Code.WAIT_TIMED_OUT
    assert server.send(b"answer", NONE, got.conv_id).code is Code.NO_CONVERSATION


def test_undo_takes_back_what_the_partner_has_not_received(client: Person, server: Person) -> None:
    sent = client.send(b"1", NONE)
    for body in (b"2", b"3", b"4"):
        client.send(body, NONE, sent.conv_id)
    assert server.receive("NEW", NONE).body == b"1"
    assert client.call(Function.UNDO, Option.LAST, conv_id=sent.conv_id).code is Code.OK
    assert server.receive(sent.conv_id, NONE).body == b"2"
    assert client.call(Function.UNDO, conv_id=sent.conv_id).code is Code.OK
    assert server.receive(sent.conv_id, NONE).code is Code.NO_MESSAGE
    assert client.call(Function.UNDO, Option.LAST, conv_id=sent.conv_id).code is Code.LAST_MESSAGE_NOT_FOUND
    assert client.call(Function.UNDO, conv_id="1000000100000099").code is Code.NO_CONVERSATION


def test_undo_before_anybody_has_received_leaves_nothing_to_receive(client: Person, server: Person) -> None:
    sent = client.send(b"1", NONE)
    client.call(Function.UNDO, conv_id=sent.conv_id)
    assert server.receive("NEW", NONE).code is Code.NO_CONVERSATION
    client.send(b"2", NONE, sent.conv_id)
    assert server.receive("NEW", NONE).body == b"2"


def test_reply_error_is_the_partners_answer(desk: Desk, client: Person, server: Person) -> None:
    handle = ask(client)
    got = server.receive("NEW", NONE)
    code = Code.RESOURCE_NOT_ALLOWED
    assert server.call(Function.REPLY_ERROR, conv_id=got.conv_id, error_code=code.value, body=b"why").code is Code.OK
    assert (desk.answers[handle].code, desk.answers[handle].body) == (code, b"why")
    assert server.call(Function.REPLY_ERROR, conv_id=got.conv_id).code is Code.ERROR_CODE_MISSING
    said = server.call(Function.REPLY_ERROR, conv_id=got.conv_id, error_code="99999999")
    assert said.code is Code.ERROR_CODE_INVALID


def test_what_goes_beside_a_message_arrives_with_it(desk: Desk) -> None:
    white, black = Person(desk, "WHITE"), Person(desk, "BLACK", caller=2)
    black.register()
    beside: Fields = {"properties": {"type": "move"}, "msgtype": "M", "msgid": b"\x00\x01", "user_data": b"\xffdata"}
    white.send(b"stored", **beside)
    white.send(b"plain", NONE, **beside)
    for option in (SYNC, NONE):
        got = black.receive("NEW", option)
        assert got.properties == {"type": "move"}
        assert (got.reply.msgtype, got.reply.msgid, got.reply.user_data) == ("M", b"\x00\x01", b"\xffdata")
    assert white.send(b"x", properties={"broker-msgid": "zz"}).code is Code.INVALID_CHARACTER


# Identifiers.


def test_identifiers_of_units_of_work_are_alphanumeric_and_in_three_cases_all_numeric(desk: Desk) -> None:
    none = Desk(attributes(max_uows="0"))
    from oms_journal.broker.attributes.attributes import parse_attributes

    some = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 MAX-UOWS=9 DEFAULTS=SERVICE "
            "CLASS=GAME SERVER=CHESS SERVICE=BLACK MAX-UOWS=0"
        )
    )
    for each, api_version, is_numeric in ((desk, 9, False), (desk, 2, True), (none, 9, True), (some, 9, True)):
        server = Person(each, "SERVER", caller=2, logs_on=False)
        server.register()
        sent = Person(each, "CLIENT", logs_on=False).send(b"1", NONE, api_version=api_version)
        assert sent.conv_id.startswith("0") == is_numeric
        assert not is_numeric or sent.conv_id.isdecimal()
        assert server.receive("NEW", NONE).conv_id == sent.conv_id


# The end of a conversation.


@pytest.mark.parametrize(
    ("option", "told", "is_received"),
    [(NONE, Code.PARTNER_FINISHED, True), (Option.CANCEL, Code.PARTNER_CANCELLED, False)],
)
def test_eoc_is_told_when_nothing_is_left_and_cancel_drops_what_is(
    client: Person, server: Person, option: Option, told: Code, is_received: bool
) -> None:
    sent = client.send(b"1", NONE)
    server.receive("NEW", NONE)
    client.send(b"2", NONE, sent.conv_id)
    assert client.call(Function.EOC, option, conv_id=sent.conv_id).code is Code.OK
    if is_received:
        assert server.receive(sent.conv_id, NONE).body == b"2"
    assert server.receive(sent.conv_id, NONE).code is told
    assert server.send(b"answer", NONE, sent.conv_id).code is told
    assert client.receive(sent.conv_id, NONE).code is Code.AFTER_EOC
    assert client.call(Function.EOC, conv_id=sent.conv_id).code is Code.AFTER_EOC
    assert Person(client.desk, "EVE", caller=8, logs_on=False).receive(sent.conv_id, NONE).code is Code.NO_CONVERSATION


def test_who_waits_for_a_message_is_told_of_the_end(desk: Desk, client: Person, server: Person) -> None:
    sent = client.send(b"1", NONE)
    server.receive("NEW", NONE)
    handle = server.start(Function.RECEIVE, NONE, conv_id=sent.conv_id, wait="YES")
    client.call(Function.EOC, conv_id=sent.conv_id)
    assert desk.answers[handle].code is Code.PARTNER_FINISHED


def test_eoc_of_units_of_work_asks_for_what_is_unfinished(desk: Desk) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    begun = white.send(b"e4", SYNC)
    assert white.call(Function.EOC, conv_id=begun.conv_id).code is Code.MUST_BACK_OUT
    white.sync(COMMIT, begun.uowid)
    black.receive()
    assert black.call(Function.EOC, conv_id=begun.conv_id).code is Code.MUST_BACK_OUT
    answer = black.send(b"e5", SYNC, begun.conv_id)
    assert black.sync(Option.EOC, answer.uowid).code is Code.MUST_BACK_OUT
    black.sync(COMMIT, begun.uowid)
    black.sync(COMMIT, answer.uowid)
    assert white.call(Function.EOC, conv_id=begun.conv_id).code is Code.UNREAD_UOW
    reply = white.send(b"Nf3", SYNC, begun.conv_id)
    assert white.sync(Option.EOC, reply.uowid).code is Code.UNREAD_UOW
    white.sync(Option.BACKOUT, reply.uowid)
    white.receive(begun.conv_id)
    white.sync(COMMIT, answer.uowid)
    assert white.call(Function.EOC, conv_id=begun.conv_id).code is Code.OK
    assert black.receive(begun.conv_id).code is Code.PARTNER_FINISHED
    assert desk.kernel.world.conversations == {}


@pytest.mark.parametrize(
    ("option", "reason", "told"),
    [(NONE, 5, Code.PARTNER_FINISHED), (Option.CANCEL, 11, Code.PARTNER_CANCELLED)],
)
def test_the_end_of_a_conversation_is_written_to_the_record_of_what_waits_last(
    desk: Desk, option: Option, reason: int, told: Code
) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    first = white.send(b"1")
    second = white.send(b"2", COMMIT, first.conv_id)
    assert white.call(Function.EOC, option, conv_id=first.conv_id).code is Code.OK
    records = desk.paper.uows()
    assert (records[second.uowid].state, records[second.uowid].eoc_reason) == (1 if option is NONE else 2, reason)
    black.register()
    for body in (b"1", b"2"):
        got = black.receive("ANY")
        assert got.body == body, "a committed unit of work is not dropped"
        black.sync(COMMIT, got.uowid)
    assert black.receive(first.conv_id).code is told


# Waiting.


def test_a_receive_waits_for_what_its_words_say(desk: Desk) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    first = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)

    def wait_for(conv_id: str, option: Option = SYNC) -> int:
        return black.start(Function.RECEIVE, option, conv_id=conv_id, wait="60S", **CHESS)

    new, old = wait_for("NEW"), wait_for("OLD")
    white.send(b"2", COMMIT, first.conv_id)
    assert old in desk.answers and new not in desk.answers
    black.sync(COMMIT, desk.answers[old].uowid)
    white.send(b"3")
    assert desk.answers[new].body == b"3"

    messages, either = wait_for("NEW", Option.MSG), wait_for("ANY", Option.ANY)
    white.send(b"4")
    assert either in desk.answers and messages not in desk.answers
    white.send(b"5", NONE)
    assert desk.answers[messages].body == b"5"

    named = wait_for(first.conv_id)
    white.send(b"6")
    assert named not in desk.answers
    white.send(b"7", COMMIT, first.conv_id)
    assert desk.answers[named].body == b"7"


def test_who_waits_first_is_served_first(desk: Desk) -> None:
    servers = [Person(desk, "BLACK", f"T{at}", caller=10 + at) for at in range(3)]
    for server in servers:
        server.register()
    waiting = [server.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS) for server in servers]
    white = Person(desk, "WHITE", "T")
    for at in range(3):
        white.send(b"%d" % at)
    assert [desk.answers[handle].body for handle in waiting] == [b"0", b"1", b"2"]


def test_a_client_waits_for_the_servers_unit_of_work(desk: Desk) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    move = white.send(b"e4")
    handle = white.start(Function.RECEIVE, SYNC, conv_id=move.conv_id, wait="YES")
    black.receive()
    answer = black.send(b"e5", SYNC, move.conv_id)
    assert handle not in desk.answers
    black.sync(COMMIT, answer.uowid)
    assert desk.answers[handle].body == b"e5"
    assert white.sync(Option.QUERY, answer.uowid).status is Status.DELIVERED


@pytest.mark.parametrize(("wait", "seconds"), [("1S", 1), ("90", 90), ("2M", 120), ("YES", 300)])
def test_a_wait_ends_after_its_time_and_yes_after_that_of_inactivity(desk: Desk, wait: str, seconds: int) -> None:
    black = Person(desk, "BLACK", "T", caller=2)
    black.register()
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait=wait, **CHESS)
    desk.tick(seconds - 0.5)
    assert handle not in desk.answers
    desk.tick(0.5)
    assert desk.answers[handle].code is Code.WAIT_TIMED_OUT
    assert black.receive().code is Code.NO_CONVERSATION, "the participant goes on"


def test_a_server_of_several_services_receives_from_all_when_it_names_none(desk: Desk) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    for service in ("A", "B"):
        black.register(service=service)
    white.send(b"b", service="B")
    white.send(b"a", service="A")
    blank: Fields = {"server_class": "", "server_name": "", "service": ""}
    assert {black.receive("NEW", **blank).body for _ in range(2)} == {b"a", b"b"}
    assert black.receive("NEW", service="C").code is Code.RECEIVE_NEW_BY_CLIENT
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES")
    white.send(b"again", service="B")
    assert desk.answers[handle].body == b"again"


def test_an_input_that_is_a_mistake_of_the_caller_is_answered_and_changes_nothing(desk: Desk) -> None:
    effects = desk.kernel.take(Call(Request(function=99, option=99), 1, 1), 0)  # type: ignore[arg-type]
    assert [effect.reply.code for effect in effects] == [Code.INVALID_FUNCTION]  # type: ignore[union-attr]
