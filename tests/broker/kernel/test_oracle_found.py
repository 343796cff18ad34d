"""What the oracle has found wrong once, each as the few calls that show it."""

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import StoreBack, StoreLost
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import CHESS, Desk, Fields, Person, attributes

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE


@pytest.mark.parametrize("token", ["PC1", ""])
@pytest.mark.parametrize("restarts", [False, True])
def test_who_came_back_to_a_conversation_gives_back_what_it_was_receiving_when_it_goes_again(
    token: str, restarts: bool
) -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", token), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    move = white.send(b"e4")
    white.call(Function.LOGOFF)
    black.receive()
    answer = black.send(b"e5", SYNC, move.conv_id)
    black.sync(COMMIT, BOTH)
    if restarts:
        desk = desk.restart()
        black = Person(desk, "BLACK", "PC2", caller=2)
    white = Person(desk, "WHITE", token, caller=10)
    assert white.receive(move.conv_id).body == b"e5"
    reply = white.send(b"Nf3", SYNC, move.conv_id, uwstatp=1)
    white.gone()
    asked = black.sync(Option.QUERY, answer.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.ACCEPTED, 1)
    white = Person(desk, "WHITE", token, caller=11)
    assert white.sync(Option.QUERY, reply.uowid).status is Status.BACKEDOUT
    assert white.receive(move.conv_id).body == b"e5"


def test_a_server_that_came_back_to_its_conversation_gives_back_what_it_was_receiving(
    desk: Desk, white: Person, black: Person
) -> None:
    first = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)
    second = white.send(b"2", COMMIT, first.conv_id)
    black.call(Function.LOGOFF)
    black = Person(desk, "BLACK", "PC2", caller=20)
    black.register()
    assert black.receive("OLD").uowid == second.uowid
    black.gone()
    assert white.sync(Option.QUERY, second.uowid).status is Status.ACCEPTED


# The pseudo-clock.


@pytest.mark.parametrize("option", [COMMIT, SYNC])
def test_a_lifetime_that_begins_after_a_time_without_any_ends_in_time_over_a_crash(option: Option) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", conv_nonact="UNLIM", server_nonact="UNLIM"))
    desk.tick(1000)
    white = Person(desk, "WHITE", "PC1")
    sent = white.send(b"x", option, uwtime="20S", uwstatp=1)
    white.sync(COMMIT, sent.uowid)
    again = desk.restart()
    again.tick(20)
    assert Person(again, "WHITE", "PC1").sync(Option.QUERY, sent.uowid).status is Status.TIMEOUT


def test_a_lifetime_goes_on_while_its_unit_of_work_is_received_over_a_crash_too() -> None:
    desk = Desk(attributes(client_nonact="UNLIM", conv_nonact="UNLIM", server_nonact="UNLIM"))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    sent = white.send(b"x", uwtime="20S")
    black.receive()
    desk.tick(1000)
    again = desk.restart()
    again.tick(1)
    assert Person(again, "WHITE", "PC1").sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND
    assert again.paper.messages == {}


def test_the_pseudo_clock_is_written_while_only_publications_or_subscriptions_live_on_it() -> None:
    desk = Desk(
        attributes(
            publication_lifetime="100S",
            subscription_expiration="1000S",
            client_nonact="UNLIM",
            subscriber_nonact="UNLIM",
        )
    )
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    reader.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    paper.call(Function.SEND_PUBLICATION, COMMIT, topic="NEWS", publication_id="NEW", body=b"x")
    desk.tick(90)
    again = desk.restart()
    again.tick(10)
    assert again.paper.messages == {}
    again.tick(880)
    again = again.restart()
    again.tick(20)
    reader = Person(again, "READER", "R", caller=2)
    said = reader.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW")
    assert said.code is Code.UOW_NOT_FOUND, "the subscription has expired"


def test_last_is_found_among_several_that_a_restart_has_brought_back() -> None:
    desk = Desk()
    white = Person(desk, "WHITE", "PC1")
    sent = [white.send(b"%d" % at) for at in range(3)]
    again = desk.restart()
    white = Person(again, "WHITE", "PC1")
    assert white.sync(Option.LAST).uowid == sent[2].uowid
    assert white.sync(Option.LAST, conv_id=sent[1].conv_id).uowid == sent[1].uowid
    assert Person(again, "NOBODY", "PC1", caller=3).sync(Option.LAST).code is Code.UOW_NOT_FOUND


def test_a_backout_past_the_lifetime_leaves_the_conversation_to_every_server(white: Person, black: Person) -> None:
    twin = Person(white.desk, "BLACK", "PC3", caller=3)
    twin.register()
    first = white.send(b"1", uwtime="20S")
    white.send(b"2", COMMIT, first.conv_id)
    black.receive()
    white.desk.tick(20)
    assert black.sync(Option.BACKOUT, first.uowid).status is Status.TIMEOUT
    assert twin.receive("NEW").body == b"2"


@pytest.mark.parametrize("option", [COMMIT, Option.BACKOUT, Option.CANCEL])
@pytest.mark.parametrize("seconds", [0, 20])
def test_the_user_status_said_with_any_syncpoint_is_answered_and_kept(
    white: Person, black: Person, option: Option, seconds: int
) -> None:
    sent = white.send(b"x", uwtime="20S", uwstatp=9)
    black.receive()
    white.desk.tick(seconds)
    assert black.sync(option, sent.uowid, ustatus="said").reply.ustatus == "said"
    assert white.sync(Option.QUERY, sent.uowid).reply.ustatus == "said"


def test_a_restored_conversation_whose_first_unit_of_work_was_lost_is_one_servers_only() -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    first = white.send(b"lost", store=Store.OFF)
    black.receive()
    black.send(b"answer", COMMIT, first.conv_id)
    black.sync(Option.BACKOUT, first.uowid)
    for body in (b"1", b"2"):
        white.send(body, COMMIT, first.conv_id)
    desk = desk.restart()
    black, twin = Person(desk, "BLACK", "PC2", caller=2), Person(desk, "BLACK", "PC3", caller=3)
    black.register()
    twin.register()
    got = twin.receive("NEW")
    assert got.body == b"1"
    twin.sync(COMMIT, got.uowid)
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    assert twin.receive("OLD").body == b"2"


def test_nothing_is_left_of_a_conversation_that_its_server_has_ended_when_its_client_goes(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"ask", NONE)
    black.receive("NEW", NONE)
    black.send(b"answer", NONE, sent.conv_id)
    assert black.call(Function.EOC, conv_id=sent.conv_id).code is Code.OK
    white.gone()
    assert black.receive("OLD", NONE).code is Code.NO_CONVERSATION
    assert desk.kernel.world.conversations == {}


# Without the store.


@pytest.mark.parametrize("uwstatp", [2, 255])
def test_who_goes_away_without_the_store_leaves_nothing_in_it_that_nobody_has(uwstatp: int) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", conv_nonact="UNLIM", server_nonact="UNLIM"))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    sent = white.send(b"x", uwtime="20S", uwstatp=uwstatp)
    black.receive()
    desk.tick(40)
    desk.give(StoreLost())
    black.gone()
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.ACCEPTED, 1), "nothing times out without the store"
    desk.give(StoreBack())
    assert desk.paper.uows()[sent.uowid].adcount == 1
    desk.tick(1)
    assert desk.paper.messages == {}
    assert white.sync(Option.QUERY, sent.uowid).status is (Status.TIMEOUT if uwstatp == 2 else None)


@pytest.mark.parametrize("uwstatp", [2, 255])
def test_a_store_that_fails_when_somebody_goes_away_hears_all_of_it_later(uwstatp: int) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", conv_nonact="UNLIM", server_nonact="UNLIM"))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    sent = white.send(b"x", uwtime="20S", uwstatp=uwstatp)
    begun = white.send(b"y", SYNC)
    black.receive()
    desk.tick(40)
    desk.is_slow = True
    black.gone()
    desk.fail()
    desk.is_slow = False
    white.gone()
    desk.give(StoreBack())
    desk.tick(1)
    assert desk.paper.messages == {}
    assert desk.paper.uows().keys() == ({sent.uowid} if uwstatp == 2 else set())
    assert begun.uowid not in desk.paper.uows()


# At once.


def test_a_conversation_of_which_something_is_on_its_way_to_the_store_keeps_its_place(
    desk: Desk, white: Person, black: Person
) -> None:
    first = white.send(b"1")
    white.send(b"2")
    desk.is_slow = True
    white.start(Function.SYNCPOINT, Option.SETUSTATUS, uowid=first.uowid, ustatus="said")
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS)
    assert handle not in desk.answers
    desk.settle()
    assert desk.answers[handle].body == b"1"


def test_who_waits_when_the_store_comes_back_gets_what_comes_first(desk: Desk, white: Person, black: Person) -> None:
    first, second = white.send(b"1"), white.send(b"2")
    desk.give(StoreLost())
    white.start(Function.RECEIVE, SYNC, conv_id=second.conv_id, wait="60S")
    handle = black.start(Function.RECEIVE, SYNC, conv_id="ANY", wait="60S", **CHESS)
    desk.give(StoreBack())
    assert desk.answers[handle].uowid == first.uowid


# Non-activity.


@pytest.mark.parametrize("option", [NONE, COMMIT])
def test_a_conversation_that_a_server_has_just_received_from_is_not_silent(option: Option) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", server_nonact="UNLIM", conv_nonact="120S"))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    white.send(b"ask", option)
    desk.tick(119)
    got = black.receive("NEW", Option.ANY)
    if option is COMMIT:
        black.sync(Option.CANCEL, got.uowid)
    desk.tick(119)
    assert black.send(b"answer", option, got.conv_id).code is Code.OK


def test_a_subscription_that_is_not_durable_ends_when_its_subscriber_is_silent_for_too_long() -> None:
    desk = Desk(attributes(client_nonact="UNLIM", subscriber_nonact="10M"))
    reader, other = Person(desk, "READER", "R", caller=2), Person(desk, "OTHER", "R", caller=3)
    for person in (reader, other):
        person.call(Function.SUBSCRIBE, topic="NEWS")
    waiting = other.start(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW", wait="1H")
    desk.tick(599)
    assert reader.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW").code is Code.NO_UOWS
    desk.tick(599)
    assert reader.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW").code is Code.NO_UOWS
    desk.tick(600)
    said = reader.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW")
    assert said.code is Code.UOW_NOT_FOUND
    assert waiting not in desk.answers, "who waits is not silent"


def test_who_waits_for_old_conversations_of_a_service_it_leaves_is_told(desk: Desk, black: Person) -> None:
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="OLD", wait="YES", **CHESS)
    black.call(Function.DEREGISTER, **CHESS)
    assert desk.answers[waiting].code is Code.SERVICE_NOT_REGISTERED


# Which conversation.


def test_a_server_of_several_services_gets_the_oldest_conversation_of_any_of_them(white: Person, black: Person) -> None:
    black.register(service="BLITZ")
    for at, service in enumerate(("BLITZ", "BLACK", "BLITZ", "BLACK")):
        white.send(b"%d" % at, store=(Store.OFF, Store.BROKER)[at // 2], service=service)
    blank: Fields = {"server_class": "", "server_name": "", "service": ""}
    assert [black.receive("ANY", **blank).body for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_what_is_wrong_with_old_conversations_is_told_of_those_of_the_service_that_is_named(
    white: Person, black: Person
) -> None:
    black.register(service="BLITZ")
    white.send(b"1", service="BLITZ")
    black.receive("NEW", service="BLITZ")
    assert black.receive("OLD").code is Code.NO_CONVERSATION
    assert black.receive("OLD", service="BLITZ").code is Code.END_OF_UOW


def test_a_conversation_that_was_restored_with_a_status_only_has_its_place_by_its_next_commit() -> None:
    desk = Desk()
    white = Person(desk, "WHITE", "PC1")
    old = white.send(b"never committed", SYNC, uwstatp=3)
    desk = desk.restart()
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    white.send(b"first", store=Store.OFF)
    white.send(b"second", COMMIT, old.conv_id, store=Store.OFF)
    assert [black.receive("NEW").body, black.receive("NEW").body] == [b"first", b"second"]


def test_without_the_store_a_server_is_told_what_kind_of_unit_of_work_it_cannot_have(
    desk: Desk, white: Person, black: Person
) -> None:
    white.send(b"1", store=Store.OFF, uwstatp=2)
    desk.give(StoreLost())
    assert black.receive("NEW").code is Code.UOW_NOT_PERSISTED, "and not that nothing is there"


# Whose conversation.


@pytest.mark.parametrize("ways", ["one after the other", "both", "not committed"])
def test_the_server_whose_answer_waits_has_the_conversation_after_a_restart_too(ways: str) -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    move = white.send(b"e4", store=Store.OFF if ways == "not committed" else Store.BROKER)
    black.receive()
    if ways == "both":
        black.send(b"e5", SYNC, move.conv_id)
        black.sync(COMMIT, BOTH)
    else:
        answer = black.send(b"e5", SYNC if ways == "not committed" else COMMIT, move.conv_id, uwstatp=2)
        black.sync(COMMIT, move.uowid)
        if ways == "not committed":
            black.sync(COMMIT, answer.uowid)
    desk = desk.restart()
    white, twin = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    assert white.receive(move.conv_id).body == b"e5"
    white.send(b"Nf3", COMMIT, move.conv_id)
    assert twin.receive("ANY").code is Code.NO_CONVERSATION
    black = Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    assert black.receive("OLD").body == b"Nf3"


def test_a_status_does_not_bind_a_conversation_to_an_instance_without_token_that_nobody_is_any_more() -> None:
    desk = Desk()
    white, red = Person(desk, "WHITE", "PC1"), Person(desk, "RED", caller=9)
    red.register()
    first = white.send(b"1", uwstatp=3)
    red.sync(COMMIT, red.receive().uowid)
    desk = desk.restart()
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    white.send(b"2", COMMIT, first.conv_id)
    assert black.receive("NEW").body == b"2"


# The end of a conversation.


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", ["EOC", "SYNCPOINT"])
def test_the_end_of_a_conversation_is_known_though_what_was_committed_last_is_cancelled(
    restarts: bool, way: str
) -> None:
    desk = Desk()
    white = Person(desk, "WHITE", "PC1")
    first = white.send(b"1")
    last = white.send(b"2", SYNC, first.conv_id)
    if way == "EOC":
        white.sync(COMMIT, last.uowid)
        white.call(Function.EOC, conv_id=first.conv_id)
    else:
        white.sync(Option.EOC, last.uowid)
    white.sync(Option.CANCEL, last.uowid)
    if restarts:
        desk = desk.restart()
        white = Person(desk, "WHITE", "PC1")
    assert white.send(b"3", SYNC, first.conv_id).code is Code.AFTER_EOC
    black = Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    black.sync(COMMIT, black.receive().uowid)
    assert black.receive(first.conv_id).code is Code.PARTNER_FINISHED


def test_what_is_put_off_stays_so_when_its_conversation_ends_and_the_broker_is_restarted() -> None:
    desk = Desk(attributes(max_delivery_count="1", postpone_attempts="1", postpone_delay="30S"))
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    sent = white.send(b"1")
    black.receive()
    assert black.sync(Option.BACKOUT, sent.uowid).status is Status.POSTPONED
    white.call(Function.EOC, conv_id=sent.conv_id)
    desk = desk.restart()
    assert Person(desk, "WHITE", "PC1").sync(Option.QUERY, sent.uowid).status is Status.POSTPONED
