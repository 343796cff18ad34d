"""What an operator does to units of work: PURGE and SET-UOW-STATUS, in every status, asleep, and on its way."""

import pytest

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Purge, SetStatus, StoreLost
from oms_journal.broker.kernel.state.unit_states import GONE, VARIATIONS, Event, Variation, after
from oms_journal.broker.records import Status
from tests.broker.kernel.units.test_square import REACHED, Game
from tests.support.broker.kernel_desk import CHESS, Desk, Person, Said, attributes
from tests.support.sweeps import for_each

SYNC, COMMIT = Option.SYNC, Option.COMMIT
OPERATOR = 900_000  # whom the answers belong to
EVENTS = {Status.ACCEPTED: Event.ACCEPT, Status.CANCELLED: Event.STOP}


def order(desk: Desk, command: Purge | SetStatus) -> Said:
    """Return what an operator is answered."""
    desk.give(command)
    return desk.answers.pop(OPERATOR)


def purge(desk: Desk, uowid: str) -> Said:
    return order(desk, Purge(OPERATOR, uowid))


def set_status(desk: Desk, uowid: str, status: Status) -> Said:
    return order(desk, SetStatus(OPERATOR, uowid, status))


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_a_purge_leaves_no_trace(status: Status, variation: Variation, is_reply: bool) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    is_there = game.status() is not None
    said = purge(game.desk, game.uowid)
    assert said.code is (Code.OK if is_there else Code.UOW_NOT_FOUND)
    assert game.status() is None
    for said in (game.by_sender(COMMIT), game.by_receiver(COMMIT), purge(game.desk, game.uowid)):
        assert said.code is Code.UOW_NOT_FOUND
    world = game.desk.kernel.world
    assert (game.desk.paper.messages, game.desk.paper.uows()) == ({}, {})
    assert (world.active_count, len(world.units), world.active) == (0, 0, {})
    game.sent = None
    said = game.send()
    assert game.sender.sync(COMMIT, said.uowid).code is Code.OK, "whoever it was goes on"
    assert game.receive().uowid == said.uowid


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("to", [Status.ACCEPTED, Status.CANCELLED])
@for_each("status", REACHED)
def test_an_operator_moves_what_waits_and_nothing_else(
    status: Status, to: Status, variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    before = game.status()
    expected = after(status, EVENTS[to], variation)
    said = set_status(game.desk, game.uowid, to)
    if isinstance(expected, Code):
        assert said.code is expected
        assert game.status() is before
        return
    assert (said.code, said.status) == (Code.OK, to)
    assert game.status() is (None if expected is GONE else expected)
    got = game.receive()
    assert (got.uowid == game.uowid) == (to is Status.ACCEPTED)
    assert game.desk.kernel.world.active_count == (to is Status.ACCEPTED)


@pytest.mark.parametrize("uwstatp", [255, 2])
def test_what_an_operator_has_moved_stays_there_over_a_restart(uwstatp: int) -> None:
    desk = Desk(attributes(max_delivery_count="1", postpone_attempts="1", postpone_delay="1H"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    sent = [white.send(b"%d" % at, uwstatp=uwstatp) for at in range(2)]
    for each in sent:
        black.receive("NEW")
        assert black.sync(Option.BACKOUT, each.uowid).status is Status.POSTPONED
    set_status(desk, sent[0].uowid, Status.ACCEPTED)
    set_status(desk, sent[1].uowid, Status.CANCELLED)
    again = desk.restart()
    white, black = Person(again, "WHITE", "T"), Person(again, "BLACK", "T", caller=2)
    black.register()
    assert black.receive("NEW").uowid == sent[0].uowid
    assert white.sync(Option.QUERY, sent[1].uowid).status is (Status.CANCELLED if uwstatp == 2 else None)


def test_a_status_that_no_operator_gives_is_refused(desk: Desk) -> None:
    sent = Person(desk, "WHITE", "T").send(b"x")
    for status in set(Status) - {Status.ACCEPTED, Status.CANCELLED}:
        assert set_status(desk, sent.uowid, status).code is Code.WRONG_STATUS
    for uowid in ("", "x", "1000000100009999"):
        assert purge(desk, uowid).code is Code.UOW_NOT_FOUND
        assert set_status(desk, uowid, Status.ACCEPTED).code is Code.UOW_NOT_FOUND


def test_what_sleeps_is_purged_and_moved_like_what_does_not(desk: Desk) -> None:
    white = Person(desk, "WHITE", "T")
    sent = [white.send(b"%d" % at) for at in range(4)]
    more = white.send(b"0b", COMMIT, sent[0].conv_id)
    assert desk.kernel.world.active.keys() <= {sent[0].uowid, more.uowid}
    assert purge(desk, sent[0].uowid).code is Code.OK
    assert purge(desk, sent[1].uowid).code is Code.OK
    assert set_status(desk, sent[2].uowid, Status.CANCELLED).code is Code.OK
    black = Person(desk, "BLACK", "T", caller=2)
    black.register()
    assert {black.receive("NEW").body for _ in range(2)} == {b"0b", b"3"}
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    assert sorted(message.payload for message in desk.paper.messages.values()) == [b"0b", b"3"]


def test_who_receives_what_is_purged_is_told_that_it_is_gone_and_goes_on(desk: Desk) -> None:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    sent = white.send(b"a", SYNC)
    white.send(b"b", COMMIT, sent.conv_id)
    next_one = white.send(b"next", COMMIT, sent.conv_id)
    black.receive()
    purge(desk, sent.uowid)
    assert black.sync(COMMIT, sent.uowid).code is Code.UOW_NOT_FOUND
    assert black.receive(sent.conv_id).uowid == next_one.uowid
    assert black.sync(COMMIT, next_one.uowid).code is Code.OK
    assert black.call(Function.DEREGISTER, **CHESS).code is Code.OK


def test_an_operator_waits_for_what_is_on_its_way(desk: Desk) -> None:
    white = Person(desk, "WHITE", "T")
    sent = white.send(b"x", SYNC)
    desk.is_slow = True
    commit = white.start(Function.SYNCPOINT, COMMIT, uowid=sent.uowid)
    desk.give(Purge(OPERATOR, sent.uowid))
    assert not {commit, OPERATOR} & desk.answers.keys()
    desk.settle(1)
    assert desk.answers[commit].status is Status.ACCEPTED
    desk.settle()
    assert desk.answers[OPERATOR].code is Code.OK
    assert desk.paper.messages == {}


def test_a_purge_that_fails_leaves_everything_as_it_was(desk: Desk) -> None:
    white = Person(desk, "WHITE", "T")
    sent, passing = white.send(b"x", uwstatp=1), white.send(b"y", store=Store.OFF)
    desk.is_slow = True
    desk.give(Purge(OPERATOR, sent.uowid))
    desk.fail(is_store_lost=False, is_refused=True)
    assert desk.answers.pop(OPERATOR).code is Code.UOW_NOT_PERSISTED
    desk.is_slow = False
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    desk.give(StoreLost())
    assert purge(desk, sent.uowid).code is Code.UOW_NOT_PERSISTED
    assert set_status(desk, sent.uowid, Status.CANCELLED).code is Code.UOW_NOT_PERSISTED
    assert purge(desk, passing.uowid).code is Code.OK
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
