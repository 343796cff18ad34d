"""The store's life as the kernel sees it: lost and back, full, closed to new work, and not there at all.

Behaviour told by EntireX 8.0, Concepts of Persistent Messaging (Persistent Store unavailable).
"""

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.restart.restore import without_store
from oms_journal.broker.kernel.state.effects import AllowNew, ForbidNew, StoreBack, StoreLost
from oms_journal.broker.records import RecordKind, Status
from oms_journal.broker.store.report import Action
from tests.support.broker.kernel_desk import CHESS, Desk, Fields, Person, attributes

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE


def test_without_the_store_what_is_not_persistent_goes_on(desk: Desk, white: Person, black: Person) -> None:
    desk.give(StoreLost("unmounted"))
    assert any("unmounted" in line for line in desk.logs), "details are in the log"
    sent = white.send(b"1", SYNC, store=Store.OFF)
    white.send(b"2", COMMIT, sent.conv_id)
    assert [black.receive().body, black.receive(sent.conv_id).body] == [b"1", b"2"]
    assert black.send(b"answer", SYNC, sent.conv_id, store=Store.OFF).code is Code.OK
    assert black.sync(COMMIT, BOTH).code is Code.OK
    assert white.receive(sent.conv_id).body == b"answer"
    assert white.send(b"message", NONE).code is Code.OK
    assert desk.paper.commits == []


def test_without_the_store_persistent_calls_are_refused_with_their_code(
    desk: Desk, white: Person, black: Person
) -> None:
    waiting = white.send(b"1", uwstatp=1)
    received = white.send(b"2")
    begun = white.send(b"3", SYNC)
    kept = white.send(b"4", SYNC, store=Store.OFF, uwstatp=1)
    black.receive("NEW")
    assert black.sync(Option.CANCEL, waiting.uowid).code is Code.OK
    black.receive("NEW")
    desk.give(StoreLost())
    unit, status = Code.UOW_NOT_PERSISTED, Code.STATUS_NOT_PERSISTED
    assert white.send(b"5").code is unit
    assert white.send(b"5", SYNC).code is unit
    assert white.send(b"5", store=Store.OFF, uwstatp=1).code is status
    assert white.send(b"5", SYNC, begun.conv_id).code is unit
    assert white.sync(COMMIT, begun.uowid).code is unit
    assert white.sync(COMMIT, kept.uowid).code is status
    assert black.sync(COMMIT, received.uowid).code is unit
    assert black.sync(Option.BACKOUT, received.uowid).code is unit
    assert white.sync(Option.SETUSTATUS, received.uowid, ustatus="x").code is unit
    assert white.sync(Option.DELETE, waiting.uowid).code is status
    assert white.sync(Option.QUERY, received.uowid).status is Status.DELIVERED, "nothing has changed"
    desk.give(StoreBack())
    for person, option, uowid in (
        (white, COMMIT, begun.uowid),
        (white, COMMIT, kept.uowid),
        (black, COMMIT, received.uowid),
        (white, Option.DELETE, waiting.uowid),
    ):
        assert person.sync(option, uowid).code is Code.OK


def test_without_the_store_a_receive_gets_what_is_not_persistent_though_others_wait_before_it(
    desk: Desk, white: Person, black: Person
) -> None:
    white.send(b"stored")
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    assert desk.answers[waiting].body == b"stored"
    white.send(b"stored too")
    desk.give(StoreLost())
    assert black.receive("NEW").code is Code.UOW_NOT_PERSISTED
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    assert waiting not in desk.answers
    white.send(b"passing", store=Store.OFF)
    assert desk.answers[waiting].body == b"passing"
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    desk.give(StoreBack())
    assert desk.answers[waiting].body == b"stored too"


def test_commits_at_the_moment_of_the_loss_are_backed_out_and_told(desk: Desk, white: Person, black: Person) -> None:
    desk.is_slow = True
    handles = [
        white.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", **CHESS),
        white.start(Function.SEND, COMMIT, body=b"y", conv_id="NEW", **CHESS),
    ]
    desk.fail()
    desk.fail()
    assert {desk.answers[handle].code for handle in handles} == {Code.UOW_NOT_PERSISTED}
    assert sum("the disk is gone" in line for line in desk.logs) == 1, "it is lost once"
    desk.is_slow = False
    assert white.send(b"x").code is Code.UOW_NOT_PERSISTED
    desk.give(StoreBack())
    assert white.send(b"x").code is Code.OK
    assert black.receive().body == b"x"
    assert black.receive().code is Code.NO_CONVERSATION


def test_who_goes_away_without_the_store_goes_and_the_store_hears_of_it_later(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"e4")
    black.receive()
    answer = black.send(b"e5", SYNC, sent.conv_id, uwstatp=3)
    desk.give(StoreLost())
    assert black.call(Function.LOGOFF).code is Code.UOW_NOT_PERSISTED
    black.gone()
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.ACCEPTED, 1)
    assert desk.paper.uows()[sent.uowid].adcount == 0
    assert desk.paper.uows()[answer.uowid].status is Status.RECEIVED
    desk.give(StoreBack())
    assert desk.paper.uows()[sent.uowid].adcount == 1
    assert desk.paper.uows()[answer.uowid].status is Status.BACKEDOUT


def test_a_full_store_takes_no_new_units_of_work_and_lets_the_others_go_on(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"1", uwstatp=1)
    desk.is_slow = True
    handle = white.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", **CHESS)
    desk.fail(is_store_lost=False)
    desk.is_slow = False
    assert desk.answers[handle].code is Code.NO_NEW_UOWS, "as all that follow"
    assert any("full" in line for line in desk.logs)
    assert white.send(b"2").code is Code.NO_NEW_UOWS
    assert white.send(b"2", store=Store.OFF, uwstatp=1).code is Code.NO_NEW_UOWS
    assert white.send(b"2", store=Store.OFF).code is Code.OK
    assert black.receive().body == b"1"
    assert black.sync(COMMIT, sent.uowid).code is Code.OK
    desk.give(AllowNew())
    assert white.send(b"2").code is Code.OK


@pytest.mark.parametrize("uwstatp", [0, 1])
def test_all_that_were_on_their_way_to_a_full_store_are_told_that_no_new_units_are_allowed(
    desk: Desk, white: Person, uwstatp: int
) -> None:
    begun = white.send(b"begun", SYNC)
    desk.is_slow = True
    handles = [
        white.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", uwstatp=uwstatp, **CHESS),
        white.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", **CHESS),
        white.start(Function.SYNCPOINT, COMMIT, uowid=begun.uowid),
        white.start(Function.SEND, SYNC, body=b"x", conv_id="NEW", uwstatp=1, **CHESS),
    ]
    for _ in handles:
        desk.fail(is_store_lost=False)
    assert {desk.answers[handle].code for handle in handles} == {Code.NO_NEW_UOWS}


def test_a_publication_that_a_full_store_has_no_room_for_is_told_that_no_new_ones_are_allowed(desk: Desk) -> None:
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    reader.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    desk.is_slow = True
    handle = paper.start(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", topic="NEWS", body=b"x")
    desk.fail(is_store_lost=False)
    assert desk.answers[handle].code is Code.NO_NEW_UOWS


def test_what_was_received_is_not_told_so_where_a_full_store_has_no_room_for_that(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"1")
    assert black.receive().body == b"1"
    desk.is_slow = True
    handle = black.start(Function.SYNCPOINT, COMMIT, uowid=sent.uowid)
    desk.fail(is_store_lost=False)
    assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED


def test_who_goes_away_while_the_store_is_full_goes_and_the_store_hears_of_it_once_there_is_room(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"e4")
    black.receive()
    answer = black.send(b"e5", SYNC, sent.conv_id, uwstatp=3)
    desk.is_slow = True
    black.gone()
    desk.fail(is_store_lost=False)
    desk.is_slow = False
    assert white.sync(Option.QUERY, sent.uowid).reply.adcount == 1, "it is gone whatever the store says"
    desk.tick()
    assert desk.paper.uows()[sent.uowid].adcount == 0, "nobody has said that there is room"
    desk.give(AllowNew())
    desk.tick()
    assert desk.paper.uows()[sent.uowid].adcount == 1
    assert desk.paper.uows()[answer.uowid].status is Status.BACKEDOUT
    written = len(desk.paper.commits)
    desk.give(AllowNew())
    desk.tick()
    assert len(desk.paper.commits) == written, "it is told once"


def test_what_the_store_has_not_heard_of_is_not_written_behind_what_is_on_its_way_about_the_same(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"e4")
    black.receive()
    desk.is_slow = True
    black.gone()
    desk.fail(is_store_lost=False)
    desk.give(AllowNew())
    white.start(Function.SYNCPOINT, Option.CANCEL, uowid=sent.uowid)
    desk.tick()
    desk.is_slow = False
    desk.settle()
    assert sent.uowid not in desk.paper.uows(), "it was cancelled"
    desk.tick()
    assert sent.uowid not in desk.paper.uows()
    assert not desk.kernel.world.unwritten


def test_publications_that_everybody_has_are_removed_once_there_is_room(desk: Desk) -> None:
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    reader.call(Function.SUBSCRIBE, topic="NEWS")
    paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"1", topic="NEWS")
    desk.is_slow = True
    reader.gone()
    desk.fail(is_store_lost=False)
    desk.is_slow = False
    assert len(desk.paper.messages) == 1
    desk.give(AllowNew())
    desk.tick()
    assert desk.paper.messages == {}


def test_no_new_units_of_work_lets_what_is_there_be_drained(desk: Desk, white: Person, black: Person) -> None:
    begun = white.send(b"begun", SYNC)
    white.send(b"waiting")
    desk.give(ForbidNew())
    assert white.send(b"new").code is Code.NO_NEW_UOWS
    assert white.send(b"more", SYNC, begun.conv_id).code is Code.NO_NEW_UOWS
    assert white.sync(COMMIT, begun.uowid).code is Code.OK, "it was begun before"
    for body in (b"waiting", b"begun"):
        got = black.receive()
        assert got.body == body
        assert black.sync(COMMIT, got.uowid).code is Code.OK
    assert desk.paper.messages == {}
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    reader.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    said = paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", topic="NEWS", body=b"x")
    assert said.code is Code.NO_NEW_UOWS


def test_new_units_of_work_can_be_forbidden_from_the_start() -> None:
    desk = Desk(attributes(new_uow_messages="NO"))
    white = Person(desk, "WHITE")
    assert white.send(b"x").code is Code.NO_NEW_UOWS
    desk.give(AllowNew())
    assert white.send(b"x").code is Code.OK


def test_durable_publish_and_subscribe_is_refused_without_the_store(desk: Desk) -> None:
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    topic: Fields = {"topic": "NEWS"}
    reader.call(Function.SUBSCRIBE, Option.DURABLE, **topic)
    first = paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"1", **topic)
    reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **topic)
    desk.give(StoreLost())
    refused = Code.DURABLE_WITHOUT_STORE
    assert paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"2", **topic).code is refused
    assert reader.call(Function.UNSUBSCRIBE, **topic).code is refused
    other = Person(desk, "OTHER", "O", caller=9)
    assert other.call(Function.SUBSCRIBE, Option.DURABLE, **topic).code is refused
    acknowledge = {"publication_id": first.reply.publication_id}
    assert reader.call(Function.CONTROL_PUBLICATION, COMMIT, **acknowledge).code is refused
    desk.give(StoreBack())
    assert reader.call(Function.CONTROL_PUBLICATION, COMMIT, **acknowledge).code is Code.OK


def test_publications_that_everybody_has_are_removed_when_the_store_is_back(desk: Desk) -> None:
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    reader.call(Function.SUBSCRIBE, topic="NEWS")
    paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"1", topic="NEWS")
    desk.give(StoreLost())
    reader.gone()
    assert len(desk.paper.messages) == 1
    desk.give(StoreBack())
    assert desk.paper.messages == {}


def test_publications_and_subscriptions_do_not_time_out_while_the_store_is_away() -> None:
    desk = Desk(attributes(publication_lifetime="60S", subscription_expiration="90S", client_nonact="UNLIM"))
    reader, paper = Person(desk, "READER", "R", caller=7), Person(desk, "PAPER", "P", caller=8)
    reader.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    said = paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"1", topic="NEWS")
    published = said.reply.publication_id
    desk.give(StoreLost())
    desk.tick(1000)
    asked = paper.call(Function.CONTROL_PUBLICATION, Option.QUERY, publication_id=published)
    assert asked.status is Status.ACCEPTED
    desk.give(StoreBack())
    desk.tick(59)
    assert reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS").body == b"1"
    reader.call(Function.CONTROL_PUBLICATION, Option.BACKOUT, publication_id=published)
    desk.tick(1)
    assert reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS").code is Code.NO_UOWS
    desk.tick(90)
    gone = reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS")
    assert gone.code is Code.UOW_NOT_FOUND, "nobody has used it for its time, counted without the loss"


@pytest.mark.parametrize("stage", ["begun", "waiting", "received"])
def test_what_belongs_to_persistent_units_of_work_is_kept_until_the_store_is_back(stage: str) -> None:
    desk = Desk(attributes(client_nonact="60S", server_nonact="UNLIM", conv_nonact="60S"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    sent = white.send(b"1", SYNC if stage == "begun" else COMMIT, uwstatp=1)
    if stage == "received":
        black.receive()
    desk.give(StoreLost())
    for _ in range(10):
        desk.tick(60)
    assert sent.conv_id in desk.kernel.world.conversations
    before = {"begun": Status.RECEIVED, "waiting": Status.ACCEPTED, "received": Status.DELIVERED}[stage]
    assert white.sync(Option.QUERY, sent.uowid).status is before
    desk.give(StoreBack())
    if stage == "begun":
        desk.tick(60)
        assert desk.paper.uows()[sent.uowid].status is Status.BACKEDOUT, "now its conversation has timed out"
    else:
        assert stage == "received" or black.receive().uowid == sent.uowid
        assert black.sync(COMMIT, sent.uowid).code is Code.OK


def test_a_broker_without_a_store_does_all_that_needs_none() -> None:
    desk = Desk(restored=without_store())
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    assert white.send(b"x").code is Code.UOW_NOT_PERSISTED
    assert white.send(b"x", store=Store.OFF, uwstatp=1).code is Code.STATUS_NOT_PERSISTED
    sent = white.send(b"x", store=Store.OFF, uwtime="10S")
    assert black.receive().body == b"x"
    black.sync(Option.BACKOUT, sent.uowid)
    desk.give(StoreBack())
    desk.tick(10)
    assert white.sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND
    assert white.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS").code is Code.DURABLE_WITHOUT_STORE
    assert white.call(Function.SUBSCRIBE, topic="NEWS").code is Code.OK
    assert black.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", topic="NEWS", body=b"n").code is Code.OK
    assert white.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS").body == b"n"


def test_an_answer_of_the_store_that_nobody_waits_for_is_logged(desk: Desk) -> None:
    from oms_journal.broker.kernel.state.effects import Durable, Failed

    desk.give(Durable(99, 0))
    desk.give(Failed(98, False, "x"))
    assert ["ticket 99" in desk.logs[0], "ticket 98" in desk.logs[1]] == [True, True]


def test_the_report_has_a_line_for_every_record_that_comes_and_goes() -> None:
    desk = Desk(attributes(pstore_report="YES"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    begun = white.send(b"four", SYNC)
    white.send(b"five5", COMMIT, begun.conv_id)
    status = white.send(b"x", SYNC, store=Store.OFF, uwstatp=1)
    black.receive()
    black.sync(COMMIT, begun.uowid)
    white.sync(Option.BACKOUT, status.uowid)
    white.sync(Option.DELETE, status.uowid)
    black.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    white.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", topic="NEWS", body=b"n")
    black.call(Function.UNSUBSCRIBE, topic="NEWS")
    lines = [(line.kind, line.action, line.elements) for line in desk.reports]
    uow, publication, subscription = RecordKind.UOW, RecordKind.PUBLICATION, RecordKind.SUBSCRIPTION
    created, deleted = Action.CREATED, Action.DELETED
    assert lines == [
        (uow, created, 2),
        (uow, created, 1),
        (uow, deleted, 0),
        (uow, deleted, 0),
        (subscription, created, 1),
        (publication, created, 1),
        (subscription, deleted, 0),
        (publication, deleted, 0),
    ]
    assert desk.reports[0].identifier == begun.uowid and desk.reports[0].length > 9
    assert {line.length for line in desk.reports if line.action is deleted} == {0}
