"""What is on its way to the store: nobody sees it, calls about it wait, and a failure leaves the old state.

A call is durable first, visible second, told third.
"""

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Abandoned, Answer, Commit, ShutParticipant, ShutServer, StoreBack
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import CHESS, Desk, Person

SYNC, COMMIT = Option.SYNC, Option.COMMIT
OPERATOR = 900_000


def start_send(person: Person, option: Option = COMMIT, conv_id: str = "NEW", **fields: object) -> int:
    return person.start(Function.SEND, option, body=b"e4", conv_id=conv_id, **CHESS, **fields)


def test_a_commit_is_answered_and_seen_when_it_is_durable_and_not_before(
    desk: Desk, white: Person, black: Person
) -> None:
    desk.is_slow = True
    handle = start_send(white)
    assert handle not in desk.answers
    assert black.receive().code is Code.NO_CONVERSATION
    assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    desk.settle()
    assert desk.answers[handle].status is Status.ACCEPTED
    assert black.receive().body == b"e4"


def test_a_receiver_that_waits_is_served_by_the_commit_and_not_before(desk: Desk, white: Person, black: Person) -> None:
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    desk.is_slow = True
    start_send(white)
    assert waiting not in desk.answers
    desk.settle()
    assert desk.answers[waiting].body == b"e4"


def test_a_commit_that_fails_leaves_the_unit_of_work_as_it_was(desk: Desk, white: Person, black: Person) -> None:
    begun = white.send(b"1", SYNC)
    desk.is_slow = True
    handle = white.start(Function.SYNCPOINT, COMMIT, uowid=begun.uowid)
    desk.fail(is_refused=True, is_store_lost=False)
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
    assert "the disk is gone" in desk.answers[handle].reply.text
    assert white.sync(Option.QUERY, begun.uowid).status is Status.RECEIVED
    assert black.receive().code is Code.NO_CONVERSATION
    desk.is_slow = False
    assert white.sync(COMMIT, begun.uowid).code is Code.OK
    assert black.receive().body == b"1"


def test_a_send_with_commit_that_fails_leaves_nothing(desk: Desk, white: Person, black: Person) -> None:
    desk.is_slow = True
    handle = start_send(white)
    desk.fail()
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
    desk.give(StoreBack())
    assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    world = desk.kernel.world
    assert (world.active, world.conversations, world.active_count, world.talk_count) == ({}, {}, 0, 0)


@pytest.mark.parametrize("option", [COMMIT, Option.BACKOUT, Option.CANCEL])
def test_what_the_receiver_does_is_undone_when_it_fails(
    desk: Desk, white: Person, black: Person, option: Option
) -> None:
    sent = white.send(b"1", uwstatp=3)
    black.receive()
    desk.is_slow = True
    handle = black.start(Function.SYNCPOINT, option, uowid=sent.uowid)
    desk.fail()
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.DELIVERED, 0)
    desk.give(StoreBack())
    desk.is_slow = False
    assert black.sync(option, sent.uowid).code is Code.OK


def test_a_delivery_with_persistent_status_is_handed_out_when_it_is_durable(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"1", uwstatp=3)
    desk.is_slow = True
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS)
    assert handle not in desk.answers
    desk.fail()
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    desk.give(StoreBack())
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS)
    desk.settle()
    assert desk.answers[handle].body == b"1"


def test_calls_about_what_is_pending_wait_and_go_on_in_their_order(desk: Desk, white: Person, black: Person) -> None:
    first = white.send(b"1")
    desk.is_slow = True
    second = start_send(white, conv_id=first.conv_id)
    handles = [
        start_send(white, conv_id=first.conv_id),
        white.start(Function.SYNCPOINT, Option.QUERY, uowid=first.uowid),
        black.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS),
    ]
    assert not any(handle in desk.answers for handle in (second, *handles))
    desk.settle(1)
    assert desk.answers[second].status is Status.ACCEPTED
    assert not any(handle in desk.answers for handle in handles), "the next one is on its way"
    desk.settle()
    assert desk.answers[handles[0]].status is Status.ACCEPTED
    assert desk.answers[handles[1]].status is Status.ACCEPTED
    assert desk.answers[handles[2]].body == b"1"


def test_two_servers_racing_while_the_delivery_is_pending_get_it_once(desk: Desk, white: Person, black: Person) -> None:
    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    white.send(b"1", uwstatp=3)
    desk.is_slow = True
    handles = [each.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS) for each in (black, twin)]
    desk.settle()
    assert [desk.answers[handle].code for handle in handles] == [Code.OK, Code.NO_CONVERSATION]


def test_both_fails_as_a_whole(desk: Desk, white: Person, black: Person) -> None:
    move = white.send(b"e4")
    black.receive()
    answer = black.send(b"e5", SYNC, move.conv_id)
    desk.is_slow = True
    handle = black.start(Function.SYNCPOINT, COMMIT, uowid=BOTH)
    assert len(desk.commits) == 1
    desk.fail()
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
    assert white.sync(Option.QUERY, move.uowid).status is Status.DELIVERED
    assert black.sync(Option.QUERY, answer.uowid).status is Status.RECEIVED
    desk.give(StoreBack())
    desk.is_slow = False
    assert black.sync(COMMIT, BOTH).code is Code.OK
    assert white.receive(move.conv_id).body == b"e5"


def test_limits_hold_for_what_is_on_its_way(desk: Desk) -> None:
    from tests.support.broker.kernel_desk import attributes

    desk = Desk(attributes(max_uows="2"))
    white = Person(desk, "WHITE")
    desk.is_slow = True
    handles = [start_send(white) for _ in range(3)]
    assert desk.answers[handles[2]].code is Code.MAX_UOWS
    desk.fail(is_store_lost=False, is_refused=True)
    again = start_send(white)
    desk.settle()
    assert [desk.answers[handle].code for handle in (handles[1], again)] == [Code.OK, Code.OK]


def test_who_logs_off_while_a_commit_is_pending_leaves_when_it_has_arrived(
    desk: Desk, white: Person, black: Person
) -> None:
    desk.is_slow = True
    sent = start_send(white)
    leaving = white.start(Function.LOGOFF)
    assert leaving not in desk.answers
    desk.settle()
    assert (desk.answers[sent].code, desk.answers[leaving].code) == (Code.OK, Code.OK)
    assert black.receive().body == b"e4"


def test_a_lost_connection_backs_out_what_was_on_its_way_to_be_begun(desk: Desk, white: Person) -> None:
    desk.is_slow = True
    start_send(white, SYNC, uwstatp=3)
    white.gone()
    desk.settle()
    desk.is_slow = False
    again = Person(desk, "WHITE", "PC1", caller=9)
    assert again.sync(Option.LAST).status is Status.BACKEDOUT


@pytest.mark.parametrize("is_lost", [True, False], ids=["its connection lost", "still connected"])
def test_all_who_wait_for_what_a_participant_has_on_its_way_are_answered(
    desk: Desk, white: Person, *, is_lost: bool
) -> None:
    desk.is_slow = True
    sent = start_send(white)
    if is_lost:
        white.gone()
    logons = [Person(desk, "WHITE", "PC1", caller=caller, logs_on=False).start(Function.LOGON) for caller in (7, 8, 9)]
    assert not desk.answers.keys() & {sent, *logons}
    desk.settle()
    assert [desk.answers[handle].code for handle in (sent, *logons)] == [Code.OK] * 4
    assert Person(desk, "WHITE", "PC1", caller=9, logs_on=False).sync(Option.LAST).status is Status.ACCEPTED


def leave(way: str, desk: Desk, person: Person) -> None:
    """Let somebody who serves CHESS go in that way."""
    client_id = desk.kernel.world.participants["BLACK", "PC2", 0].client_id
    match way:
        case "logs off":
            person.start(Function.LOGOFF)
        case "deregisters":
            person.start(Function.DEREGISTER, Option.IMMED, **CHESS)
        case "is elsewhere":
            Person(desk, "BLACK", "PC2", caller=77, logs_on=False).start(Function.LOGON)
        case "is shut down":
            desk.give(ShutParticipant(OPERATOR, client_id, is_immediate=True))
        case "serves no more":
            desk.give(ShutServer(OPERATOR, client_id, ("GAME", "CHESS", "BLACK"), is_immediate=True))
        case _:
            person.gone()


LEAVING = ["logs off", "deregisters", "is elsewhere", "is shut down", "serves no more", "is lost"]


def wait_for(person: Person, conv_id: str = "ANY") -> int:
    return person.start(Function.RECEIVE, SYNC, conv_id=conv_id, wait="YES", **CHESS)


def receive_all(person: Person) -> list[bytes | None]:
    """Return what somebody can receive, and back out nothing of it."""
    said = [person.receive("NEW") for _ in range(5)]
    return [each.body for each in said if each.code is Code.OK]


@pytest.mark.parametrize("way", LEAVING)
def test_who_is_going_away_is_handed_out_nothing_more(desk: Desk, white: Person, black: Person, way: str) -> None:
    white.send(b"1")
    black.receive()
    waiting = wait_for(black)
    desk.is_slow = True
    white.start(Function.SEND, COMMIT, body=b"2", conv_id="NEW", **CHESS)
    leave(way, desk, black)
    desk.settle(1)
    assert waiting not in desk.answers
    desk.settle()
    desk.is_slow = False
    assert waiting not in desk.answers or desk.answers[waiting].code is not Code.OK
    other = Person(desk, "OTHER", "O", caller=9)
    other.register()
    assert receive_all(other) == [b"1", b"2"]


@pytest.mark.parametrize("way", LEAVING[:-1])
def test_who_cannot_go_away_is_handed_out_what_came_meanwhile(
    desk: Desk, white: Person, black: Person, way: str
) -> None:
    assert white.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS").code is Code.OK
    assert black.call(Function.SUBSCRIBE, topic="NEWS").code is Code.OK
    talk = white.send(b"1", Option.NONE).conv_id
    assert black.receive("NEW", Option.NONE).conv_id == talk
    sent = white.send(b"2")
    black.receive()
    waiting = [wait_for(black), wait_for(black)]
    waiting.append(black.start(Function.RECEIVE, Option.NONE, conv_id=talk, wait="YES"))
    waiting.append(black.start(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW", wait="YES"))
    desk.is_slow = True
    leave(way, desk, black)
    for body in (b"3", b"4"):
        white.start(Function.SEND, COMMIT, body=body, conv_id="NEW", **CHESS)
    white.send(b"5", Option.NONE, talk)
    white.start(Function.SEND_PUBLICATION, COMMIT, topic="NEWS", publication_id="NEW", body=b"6")
    asked = black.start(Function.SYNCPOINT, Option.QUERY, uowid=sent.uowid)
    leaving = desk.commits.popleft()
    desk.settle()
    assert not desk.answers.keys() & {asked, *waiting}
    desk.commits.append(leaving)
    desk.fail(is_store_lost=False, is_refused=True)
    assert [desk.answers[handle].body for handle in waiting] == [b"3", b"4", b"5", b"6"]
    assert desk.answers[asked].code is not Code.LOGON_REQUIRED, "it is where it was"


@pytest.mark.parametrize("way", LEAVING)
def test_a_call_of_who_is_going_away_waits_for_what_comes_of_that(
    desk: Desk, white: Person, black: Person, way: str
) -> None:
    white.send(b"1")
    black.receive()
    white.send(b"2")
    desk.is_slow = True
    leave(way, desk, black)
    calls = [black.start(Function.RECEIVE, SYNC, conv_id="ANY", **CHESS), start_send(black, SYNC)]
    assert not desk.answers.keys() & set(calls)
    desk.settle()
    desk.is_slow = False
    assert all(desk.answers[handle].code is not Code.OK for handle in calls[: 1 if way in SENDS_ON else 2])
    other = Person(desk, "OTHER", "O", caller=9)
    other.register()
    assert receive_all(other) == [b"1", b"2"]


SENDS_ON = ("deregisters", "serves no more")  # no server any more, and a client all the same


@pytest.mark.parametrize("way", LEAVING)
def test_what_is_on_its_way_to_a_server_that_goes_is_given_back_as_well(
    desk: Desk, white: Person, black: Person, way: str
) -> None:
    white.send(b"1", uwstatp=3)
    desk.is_slow = True
    receiving = black.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS)
    leave(way, desk, black)
    desk.settle()
    desk.is_slow = False
    assert desk.answers[receiving].body == b"1"
    other = Person(desk, "OTHER", "O", caller=9)
    other.register()
    assert receive_all(other) == [b"1"]


def test_a_call_that_is_abandoned_while_it_waits_is_not_carried_out(desk: Desk, white: Person, black: Person) -> None:
    first = white.send(b"1")
    desk.is_slow = True
    start_send(white, conv_id=first.conv_id)
    waiting = start_send(white, conv_id=first.conv_id)
    desk.give(Abandoned(waiting))
    desk.settle()
    assert waiting not in desk.answers
    assert len(desk.paper.messages) == 2


def test_a_receive_that_is_abandoned_gets_nothing(desk: Desk, white: Person, black: Person) -> None:
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    desk.give(Abandoned(waiting))
    white.send(b"1")
    assert waiting not in desk.answers
    assert black.receive().body == b"1"


def test_a_deleted_status_is_gone_when_it_is_durable(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"1", uwstatp=3)
    black.receive()
    black.sync(COMMIT, sent.uowid)
    desk.is_slow = True
    handle = white.start(Function.SYNCPOINT, Option.DELETE, uowid=sent.uowid)
    asked = white.start(Function.SYNCPOINT, Option.QUERY, uowid=sent.uowid)
    desk.fail(is_store_lost=False, is_refused=True)
    assert desk.answers[handle].code is Code.STATUS_NOT_PERSISTED
    assert desk.answers[asked].status is Status.PROCESSED
    handle = white.start(Function.SYNCPOINT, Option.DELETE, uowid=sent.uowid)
    asked = white.start(Function.SYNCPOINT, Option.QUERY, uowid=sent.uowid)
    desk.settle()
    assert (desk.answers[handle].code, desk.answers[asked].code) == (Code.OK, Code.UOW_NOT_FOUND)


def test_what_is_not_persistent_never_goes_to_the_store(desk: Desk, white: Person, black: Person) -> None:
    desk.is_slow = True
    effects = []
    sent = white.send(b"1", SYNC, store=Store.OFF)
    white.send(b"2", SYNC, sent.conv_id)
    effects += desk.give(_call(desk, white, COMMIT, sent.uowid))
    black.receive()
    black.receive(sent.conv_id)
    black.sync(COMMIT, sent.uowid)
    white.call(Function.EOC, conv_id=sent.conv_id)
    assert not desk.commits
    assert not any(isinstance(effect, Commit) for effect in effects) and isinstance(effects[0], Answer)


def _call(desk: Desk, person: Person, option: Option, uowid: str):  # type: ignore[no-untyped-def]
    from oms_journal.broker.block import Request
    from oms_journal.broker.kernel.state.effects import Call

    request = Request(function=Function.SYNCPOINT, option=option, user_id="WHITE", token="PC1", uowid=uowid)
    return Call(request, 1, 10_000)
