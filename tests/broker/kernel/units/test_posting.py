"""A unit of work that one call begins and commits: to everybody it is what several calls would have made of it."""

from typing import Any

import pytest

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.conversations import dormancy
from oms_journal.broker.kernel.conversations.dormancy import conversation, unit
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.records import UowRecord
from tests.support.broker.kernel_desk import CHESS, Desk, Fields, Person, attributes
from tests.support.sweeps import for_each

SYNC, COMMIT, BACKOUT, EOC = Option.SYNC, Option.COMMIT, Option.BACKOUT, Option.EOC
TERMS: list[Fields] = [
    {},
    {"ustatus": "half way"},
    {"uwtime": "5M"},
    {"uwstatp": 3, "uwtime": "1H"},
    {"uwstat_lifetime": "1D"},
    {"properties": {"colour": "white"}, "msgtype": "move", "user_data": b"\0\1"},
]
ENDS = {COMMIT: COMMIT, EOC: EOC}  # of SEND, and the SYNCPOINT that does the same


def sent(desk: Desk, white: Person, end: Option, terms: Fields, *, at_once: bool) -> str:
    if at_once:
        return white.send(b"e4", end, **terms).uowid
    begun = white.send(b"e4", SYNC, **terms)
    assert white.sync(ENDS[end], begun.uowid).code is Code.OK
    return begun.uowid


def played(end: Option, terms: Fields, *, at_once: bool, is_served: bool, restarts: bool) -> list[Any]:
    """Return all that can be seen of a unit of work, from its commit to its end."""
    desk = Desk(attributes(pstore_report="NO"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    if is_served:
        black.register()
    uowid = sent(desk, white, end, terms, at_once=at_once)
    seen: list[Any] = [dict(desk.paper.keys), desk.paper.messages, white.sync(Option.QUERY, uowid)]
    world = desk.kernel.world
    if not restarts:
        seen += [world.active_count, world.talk_count, world.kept_bytes, world.highest, dict(world.units.counts())]
        chess = world.service(("GAME", "CHESS", "BLACK"))
        seen += [sorted(world.active), sorted(world.conversations), len(chess.waiting)]
        seen += [chess.units, chess.conversations, chess.sending, chess.delivering, chess.accepted]
    else:
        desk = desk.restart()
        white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    got = black.receive("NEW")
    seen += [got, white.sync(Option.QUERY, uowid), white.sync(Option.LAST)]
    seen += [black.sync(BACKOUT, uowid), black.receive("NEW"), black.send(b"e5", COMMIT, got.conv_id)]
    seen += [black.sync(COMMIT, uowid), white.receive(got.conv_id), white.send(b"d4", COMMIT, got.conv_id)]
    seen += [white.sync(Option.QUERY, uowid), dict(desk.paper.keys)]
    desk.tick(24 * 3600 + 1)
    return [*seen, white.sync(Option.QUERY, uowid)]


@for_each("restarts", [False, True])
@for_each("is_served", [False, True])
@for_each("terms", TERMS)
@for_each("end", ENDS)
def test_send_with_commit_is_seen_by_all_as_send_and_syncpoint(
    end: Option, terms: Fields, is_served: bool, restarts: bool
) -> None:
    one, two = (played(end, terms, at_once=at, is_served=is_served, restarts=restarts) for at in (True, False))
    assert one == two


def test_it_sleeps_where_nobody_would_have_it_soon_and_is_awake_where_a_server_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dormancy, "AWAKE_MAX", 2)
    desk = Desk()
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    world = desk.kernel.world
    first = white.send().uowid
    assert not world.active
    black.register()
    others = [white.send(b"%d" % at, ustatus="u").uowid for at in range(3)]
    assert list(world.active) == others[:1], "two wait"
    record = world.units.find(others[2])
    assert isinstance(record, UowRecord) and (record.ustatus, record.messages, record.size) == ("u", 1, 1)
    assert (record.first, record.conversation) == (4, 4), "the numbers that the store has given"
    woken = unit(world, others[2])
    assert isinstance(woken, UnitOfWork) and woken.first == 4
    assert [black.receive("NEW").uowid for _ in range(4)] == [first, *others]
    assert conversation(world, white.sync(Option.QUERY, others[1]).conv_id) is not None


def test_a_server_that_waits_gets_it_though_many_are_postponed_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dormancy, "AWAKE_MAX", 1)
    desk = Desk(attributes(max_delivery_count="1", postpone_attempts="5", postpone_delay="1H"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    for at in range(3):
        white.send(b"%d" % at)
    for _ in range(3):
        assert black.sync(BACKOUT, black.receive("NEW").uowid).code is Code.OK
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="1D", **CHESS)
    white.send(b"new")
    assert desk.answers[waiting].body == b"new"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)
def test_a_store_that_says_no_leaves_no_trace_of_it(end: Option) -> None:
    desk = Desk(attributes(max_uows="1", num_conversation="1"))
    white = Person(desk, "WHITE", "T")
    desk.is_slow = True
    handle = white.start(Function.SEND, end, conv_id="NEW", body=b"x", **CHESS)
    assert white.call(Function.SEND, end, conv_id="NEW", body=b"x", **CHESS).code in (
        Code.MAX_UOWS,
        Code.CONVERSATIONS_MAX,
    ), "it counts while it is on its way"
    desk.fail(is_store_lost=False)
    assert desk.answers[handle].code is Code.NO_NEW_UOWS
    world = desk.kernel.world
    assert (world.active_count, world.talk_count, len(world.units), world.active) == (0, 0, 0, {})
    assert world.service(("GAME", "CHESS", "BLACK")).units == 0
    desk.kernel.world.is_new_forbidden = False
    desk.is_slow = False
    assert white.send(b"y", end).code is Code.OK


def test_who_has_sent_it_cannot_log_off_before_it_is_durable() -> None:
    desk = Desk()
    white = Person(desk, "WHITE", "T")
    desk.is_slow = True
    sending = white.start(Function.SEND, COMMIT, conv_id="NEW", body=b"x", **CHESS)
    leaving = white.start(Function.LOGOFF)
    assert leaving not in desk.answers
    desk.settle()
    assert desk.answers[sending].code is desk.answers[leaving].code is Code.OK


@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
def test_a_conversation_that_has_just_begun_was_not_silent_for_long(store: Store) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", server_nonact="UNLIM", conv_nonact="2M"))
    white = Person(desk, "WHITE", "T")
    desk.tick(3600)
    begun = white.send(b"e4", SYNC, store=store)
    desk.tick(60)
    assert white.sync(COMMIT, begun.uowid).code is Code.OK
