"""SHUTDOWN of servers, participants and conversations, and subscriptions on behalf of users, in every situation."""

from typing import Any

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import (
    Command,
    ShutConversation,
    ShutParticipant,
    ShutServer,
    StoreLost,
    SubscribeFor,
    UnsubscribeFor,
)
from oms_journal.broker.kernel.state.unit_states import VARIATIONS, Variation
from oms_journal.broker.records import Status
from tests.broker.kernel.units.test_square import REACHED, Game
from tests.support.broker.kernel_desk import Desk, Person, Said
from tests.support.sweeps import for_each

SYNC, COMMIT = Option.SYNC, Option.COMMIT
OPERATOR = 900_000
BLACK = ("GAME", "CHESS", "BLACK")


def order(desk: Desk, command: Command) -> Said:
    """Return what an operator is answered."""
    desk.give(command)
    return desk.answers.pop(OPERATOR)


def client_id(person: Person) -> int:
    user, token, caller = person.who["user_id"], person.who["token"], person.who["caller"]
    name = (user, token, 0) if token else (user, "", caller)
    return person.desk.kernel.world.participants[name].client_id


def shut_server(person: Person, *, is_immediate: bool) -> Said:
    return order(person.desk, ShutServer(OPERATOR, client_id(person), BLACK, is_immediate))


def shut_participant(person: Person, *, is_immediate: bool) -> Said:
    return order(person.desk, ShutParticipant(OPERATOR, client_id(person), is_immediate))


def shut_conversation(desk: Desk, conv_id: str, *, is_immediate: bool) -> Said:
    return order(desk, ShutConversation(OPERATOR, conv_id, is_immediate))


def served() -> tuple[Desk, Person, Person]:
    desk = Desk()
    alice, carl = Person(desk, "ALICE", "A"), Person(desk, "CARL", "C", caller=2)
    assert carl.register().code is Code.OK
    return desk, alice, carl


def test_a_server_that_is_to_quiesce_goes_on_with_what_it_has_and_gets_nothing_new() -> None:
    desk, alice, carl = served()
    first = alice.send()
    got = carl.receive()
    waiting = carl.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", server_class="GAME", server_name="CHESS")

    assert shut_server(carl, is_immediate=False).code is Code.OK

    assert desk.answers[waiting].code is Code.SHUTDOWN_QUIESCE
    alice.send(b"d4")
    assert carl.receive(wait="YES").code is Code.SHUTDOWN_QUIESCE
    assert carl.sync(COMMIT, got.uowid).code is Code.OK
    assert carl.receive().code is Code.RECEIVE_NEW_BY_CLIENT, "its last conversation is done"
    assert got.uowid == first.uowid
    assert carl.register().code is Code.OK, "it may come again"
    assert carl.receive().body == b"d4"


def test_a_server_that_is_shut_down_at_once_gives_back_what_it_was_receiving() -> None:
    desk, alice, carl = served()
    sent = alice.send()
    carl.receive()
    waiting = carl.start(Function.RECEIVE, SYNC, conv_id="ANY", wait="YES")

    assert shut_server(carl, is_immediate=True).code is Code.OK

    assert desk.answers[waiting].code is Code.SHUTDOWN_IMMED
    assert carl.receive().code is Code.RECEIVE_NEW_BY_CLIENT
    assert alice.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    dora = Person(desk, "DORA", "D", caller=3)
    dora.register()
    assert dora.receive().uowid == sent.uowid


def test_only_calls_that_nothing_else_can_satisfy_are_told_of_a_shutdown() -> None:
    desk, alice, carl = served()
    carl.register(service="WHITE")
    alice.send()
    carl.receive()
    waiting = carl.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES")

    assert shut_server(carl, is_immediate=False).code is Code.OK

    assert waiting not in desk.answers
    alice.send(b"for white", service="WHITE")
    assert desk.answers[waiting].body == b"for white"


def test_a_participant_that_is_shut_down_at_once_is_gone() -> None:
    desk, alice, carl = served()
    sent = alice.send(option=SYNC)
    waiting = alice.start(Function.RECEIVE, SYNC, conv_id=sent.conv_id, wait="YES")

    assert shut_participant(alice, is_immediate=True).code is Code.OK

    assert desk.answers[waiting].code is Code.SHUTDOWN_IMMED
    assert ("ALICE", "A", 0) not in desk.kernel.world.participants
    assert not desk.kernel.world.active
    assert alice.sync(Option.LAST).code is Code.LOGON_REQUIRED
    assert shut_participant(carl, is_immediate=True).code is Code.OK
    assert not desk.kernel.world.services[BLACK].servers


def test_a_client_cannot_be_asked_to_finish() -> None:
    desk, alice, carl = served()
    carl.register(service="WHITE")

    assert shut_participant(alice, is_immediate=False).code is Code.SERVICE_NOT_REGISTERED
    assert shut_participant(carl, is_immediate=False).code is Code.OK

    assert not any(service.servers for service in desk.kernel.world.services.values())
    assert order(desk, ShutParticipant(OPERATOR, 99, True)).code is Code.USER_UNKNOWN
    assert order(desk, ShutServer(OPERATOR, 99, BLACK, True)).code is Code.SERVICE_NOT_REGISTERED


def test_a_conversation_that_is_to_quiesce_takes_nothing_new_and_gives_what_waits_over_a_restart_too() -> None:
    desk, alice, carl = served()
    sent = alice.send()
    alice.send(conv_id=sent.conv_id)
    begun = alice.send(option=SYNC, conv_id=sent.conv_id)

    assert shut_conversation(desk, sent.conv_id, is_immediate=True).code is Code.UNREAD_UOW
    assert shut_conversation(desk, sent.conv_id, is_immediate=False).code is Code.OK

    assert alice.send(conv_id=sent.conv_id).code is Code.PARTNER_FINISHED
    assert alice.sync(COMMIT, begun.uowid).code is Code.UOW_NOT_FOUND
    desk = desk.restart()
    carl = Person(desk, "CARL", "C", caller=2)
    carl.register()
    for _ in range(2):
        got = carl.receive(conv_id="ANY")
        assert carl.sync(COMMIT, got.uowid).code is Code.OK
    assert carl.receive(conv_id=sent.conv_id).code is Code.PARTNER_FINISHED
    assert not desk.kernel.world.talk_count


def test_a_conversation_with_nothing_left_is_over_for_both_at_once() -> None:
    desk, alice, carl = served()
    sent = alice.send()
    got = carl.receive()
    carl.sync(COMMIT, got.uowid)
    waiting = alice.start(Function.RECEIVE, SYNC, conv_id=sent.conv_id, wait="YES")

    assert shut_conversation(desk, sent.conv_id, is_immediate=True).code is Code.OK

    assert desk.answers[waiting].code is Code.PARTNER_CANCELLED
    assert carl.receive(conv_id=sent.conv_id).code is Code.PARTNER_CANCELLED
    assert shut_conversation(desk, sent.conv_id, is_immediate=True).code is Code.NO_CONVERSATION


def test_messages_of_a_conversation_that_is_shut_down_at_once_are_dropped() -> None:
    desk, alice, carl = served()
    names: dict[str, Any] = {"server_class": "GAME", "server_name": "CHESS", "service": "BLACK"}
    sent = alice.call(Function.SEND, conv_id="NEW", body=b"hi", wait="NO", **names)

    assert shut_conversation(desk, sent.conv_id, is_immediate=True).code is Code.OK

    assert carl.call(Function.RECEIVE, conv_id="NEW", wait="NO").code is Code.NO_CONVERSATION


@pytest.mark.whole
@for_each("is_immediate", [False, True])
@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
@for_each("what", ["server", "sender", "receiver", "conversation"])
def test_a_shutdown_in_any_situation_leaves_a_unit_of_work_whole_or_backed_out(
    what: str, status: Status, variation: Variation, is_reply: bool, is_immediate: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    desk, world = game.desk, game.desk.kernel.world
    server = next(iter(world.services[BLACK].servers), None)
    people = {"sender": game.sender, "receiver": game.receiver}
    if what == "server" and server is not None:
        order(desk, ShutServer(OPERATOR, world.participants[server].client_id, BLACK, is_immediate))
    elif what == "conversation":
        shut_conversation(desk, game.conv_id, is_immediate=is_immediate)
    elif what in people:
        shut_participant(people[what], is_immediate=is_immediate)
    for unit in world.active.values():
        assert unit.status in (Status.ACCEPTED, Status.POSTPONED, Status.DELIVERED, Status.RECEIVED)
    if is_immediate and what == "receiver":
        assert not any(unit.status is Status.DELIVERED for unit in world.active.values())
    if is_immediate and what == "sender":
        assert not any(unit.status is Status.RECEIVED for unit in world.active.values())
    desk.tick(10)
    again = desk.restart()
    assert len(again.kernel.world.units) >= 0


def test_a_shutdown_waits_for_what_is_on_its_way_to_the_store() -> None:
    desk, alice, carl = served()
    sent = alice.send()
    got = carl.receive()
    desk.is_slow = True
    committing = carl.start(Function.SYNCPOINT, COMMIT, uowid=got.uowid)

    desk.give(ShutServer(OPERATOR, client_id(carl), BLACK, True))
    desk.give(ShutConversation(OPERATOR + 1, sent.conv_id, True))
    desk.give(ShutParticipant(OPERATOR + 2, client_id(alice), True))
    assert OPERATOR not in desk.answers

    desk.settle()
    assert [desk.answers[each].code for each in (committing, OPERATOR, OPERATOR + 1, OPERATOR + 2)] == [Code.OK] * 4
    assert not desk.kernel.world.services[BLACK].servers


def test_without_the_store_a_shutdown_of_who_is_sending_is_refused() -> None:
    desk, alice, _ = served()
    alice.send(option=SYNC, uwstatp=1, uwtime="1D")
    desk.give(StoreLost("gone"))

    said = shut_participant(alice, is_immediate=True)

    assert said.code in (Code.UOW_NOT_PERSISTED, Code.STATUS_NOT_PERSISTED)
    assert ("ALICE", "A", 0) in desk.kernel.world.participants


def test_an_operator_subscribes_a_user_who_is_not_there() -> None:
    desk = Desk()
    alice = Person(desk, "ALICE", "A")

    assert order(desk, SubscribeFor(OPERATOR, "NEWS", "CARL", "C")).code is Code.OK
    assert order(desk, SubscribeFor(OPERATOR, "NEWS", "CARL", "C")).code is Code.OK, "it has"
    alice.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", topic="NEWS", body=b"rain")

    desk = desk.restart()
    carl = Person(desk, "CARL", "C", caller=2)
    got = carl.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS", wait="NO")
    assert got.body == b"rain"
    assert order(desk, UnsubscribeFor(OPERATOR, "NEWS", "CARL", "C")).code is Code.OK
    assert order(desk, UnsubscribeFor(OPERATOR, "NEWS", "CARL", "C")).code is Code.UOW_NOT_FOUND
    assert not desk.kernel.world.topics.publications
    assert not desk.restart().kernel.world.topics.subscriptions


def test_subscriptions_on_behalf_of_a_user_need_the_store_and_a_topic() -> None:
    desk = Desk()
    desk.give(StoreLost("gone"))

    assert order(desk, SubscribeFor(OPERATOR, "NEWS", "CARL", "")).code is Code.DURABLE_WITHOUT_STORE
    assert not desk.kernel.world.topics.topics["NEWS"].coming
