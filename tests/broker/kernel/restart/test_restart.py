"""Restarts, and what sleeps: every row of both restart tables over real calls, bindings, order, deferred services.

Behaviour told by EntireX, Using Persistence and Units of Work (Recovery Processing).
"""

import gc
import tracemalloc

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.block import BOTH, ConvStat, Function, Option, Request, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.conversations import dormancy
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.table import after_restart
from oms_journal.broker.kernel.state.effects import Answer, Call, Commit, Durable, Stored
from oms_journal.broker.kernel.state.unit_states import VARIATIONS, Variation
from oms_journal.broker.kernel.state.world import Restored
from oms_journal.broker.kernel.tables import packed_rows
from oms_journal.broker.records import Status
from oms_journal.broker.store.master import Identifiers
from tests.broker.kernel.units.test_square import REACHED, Game
from tests.support.broker.kernel_desk import CHESS, T0, Desk, Fields, Person, attributes
from tests.support.sweeps import for_each

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE
DEREGISTER = Function.DEREGISTER


def people(desk: Desk, *, is_served: bool = True) -> tuple[Person, Person]:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    if is_served:
        black.register()
    return white, black


# The tables.


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_a_restart_leaves_what_the_tables_say(status: Status, variation: Variation, is_reply: bool) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    expected = after_restart(status, variation)

    again = game.desk.restart()
    white, black = people(again)
    sender, receiver = (black, white) if is_reply else (white, black)
    asked = sender.sync(Option.QUERY, game.uowid)
    assert asked.status is expected.status
    assert (asked.code is Code.OK) == (expected.status is not None)
    got = receiver.receive(game.conv_id if is_reply else "ANY")
    assert (got.code is Code.OK) == (expected.status is Status.ACCEPTED)
    if got.code is Code.OK:
        stat = ConvStat.OLD if is_reply else ConvStat.NEW
        assert (got.uowid, got.body, got.reply.conv_stat) == (game.uowid, b"x", stat)
        assert receiver.sync(COMMIT, game.uowid).code is Code.OK
        assert again.paper.messages == {}
    assert again.kernel.world.active_count == (expected.status is Status.POSTPONED)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_what_was_discarded_stays_discarded(variation: Variation) -> None:
    game = Game(variation)
    game.bring_to(Status.ACCEPTED)
    twice = game.desk.restart().restart()
    white, _ = people(twice)
    said = white.sync(Option.QUERY, game.uowid)
    expected = {(True, True): Status.ACCEPTED, (True, False): Status.ACCEPTED, (False, True): Status.DISCARDED}
    assert said.status is expected.get(tuple(variation))  # type: ignore[arg-type]
    if said.status is Status.DISCARDED:
        assert white.sync(Option.CANCEL, game.uowid).code is Code.WRONG_STATUS
        assert white.sync(Option.DELETE, game.uowid).code is Code.OK
        assert twice.paper.uows() == {}


# Conversations.


def test_a_conversation_whose_first_unit_was_not_committed_is_everybodys_after_a_restart() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"1")
    white.send(b"2", COMMIT, first.conv_id)
    black.receive()
    again = desk.restart()
    twin = Person(again, "TWIN", "T", caller=5)
    twin.register()
    assert twin.receive("NEW").body == b"1"


@pytest.mark.parametrize("uwstatp", [255, 2])
@pytest.mark.parametrize("answers", [False, True])
def test_a_conversation_that_was_begun_is_the_instances_after_a_restart(uwstatp: int, answers: bool) -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"1", uwstatp=uwstatp)
    white.send(b"2", COMMIT, first.conv_id, uwstatp=uwstatp)
    received = black.receive()
    if answers:
        black.send(b"answer", SYNC, first.conv_id, uwstatp=uwstatp)
    assert black.sync(COMMIT, BOTH if answers else received.uowid).code is Code.OK
    black.receive(first.conv_id)
    again = desk.restart()
    twin = Person(again, "TWIN", "T", caller=5)
    twin.register()
    white, black = people(again)
    assert twin.receive("ANY").code is Code.NO_CONVERSATION
    assert twin.receive(first.conv_id).code is Code.NO_CONVERSATION
    assert black.receive("NEW").code is Code.NO_CONVERSATION, "NEW misses what is assigned"
    assert black.receive("ANY").body == b"2"
    assert white.receive(first.conv_id).body == (b"answer" if answers else None)


def test_a_binding_without_token_is_dropped_at_a_restart() -> None:
    desk = Desk()
    white, _ = people(desk, is_served=False)
    black = Person(desk, "BLACK", caller=9)
    black.register()
    first = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)
    white.send(b"2", COMMIT, first.conv_id)
    again = desk.restart()
    twin = Person(again, "TWIN", "T", caller=5)
    twin.register()
    assert twin.receive("NEW").body == b"2"


def test_old_conversations_come_before_new_ones_after_a_restart() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"old 1")
    black.sync(COMMIT, black.receive().uowid)
    new = white.send(b"new")
    white.send(b"old 2", COMMIT, first.conv_id)
    again = desk.restart()
    _, black = people(again)
    got = [black.receive("ANY"), black.receive("ANY")]
    assert [each.body for each in got] == [b"old 2", b"new"]
    assert got[1].uowid == new.uowid


def test_the_order_of_first_commits_survives_a_restart() -> None:
    desk = Desk()
    white, black = people(desk)
    begun = [white.send(b"%d" % at, SYNC) for at in range(5)]
    for at in (3, 0, 4, 1, 2):
        white.sync(COMMIT, begun[at].uowid)
    white.send(b"later", COMMIT, begun[4].conv_id)
    black.receive()
    again = desk.restart()
    white, black = people(again)
    white.send(b"new")
    assert [black.receive("NEW").body for _ in range(6)] == [b"3", b"0", b"4", b"1", b"2", b"new"]


def test_the_end_of_a_conversation_survives_a_restart() -> None:
    desk = Desk()
    white, _ = people(desk, is_served=False)
    begun = white.send(b"1", SYNC)
    white.sync(Option.EOCCANCEL, begun.uowid)
    again = desk.restart()
    white, black = people(again)
    assert white.send(b"2", SYNC, begun.conv_id).code is Code.AFTER_EOC
    assert black.receive().body == b"1"
    black.sync(COMMIT, begun.uowid)
    assert black.receive(begun.conv_id).code is Code.PARTNER_CANCELLED


def test_a_conversation_is_restored_if_a_status_of_it_is() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"1", uwstatp=3)
    black.sync(COMMIT, black.receive().uowid)
    other = white.send(b"2")
    black.sync(COMMIT, black.receive().uowid)
    again = desk.restart()
    white, black = people(again)
    assert white.send(b"3", COMMIT, other.conv_id).code is Code.NO_CONVERSATION
    assert white.send(b"4", COMMIT, first.conv_id).code is Code.OK
    assert black.receive("ANY").body == b"4", "it is bound to the instance"
    assert black.send(b"answer", COMMIT, first.conv_id).code is Code.OK
    assert white.receive(first.conv_id).body == b"answer"


def test_answers_of_a_server_wait_for_the_client_over_a_restart() -> None:
    desk = Desk()
    white, black = people(desk)
    move = white.send(b"e4", uwstatp=1)
    black.receive()
    answer = black.send(b"e5", SYNC, move.conv_id, uwstatp=1)
    black.sync(COMMIT, BOTH)
    again = desk.restart()
    white, black = people(again)
    assert black.sync(Option.LAST).uowid == answer.uowid
    last = white.sync(Option.LAST)
    assert (last.uowid, last.status, last.conv_id) == (move.uowid, Status.PROCESSED, move.conv_id)
    assert white.receive(last.conv_id).body == b"e5"
    assert white.send(b"Nf3", SYNC, last.conv_id).code is Code.OK
    assert white.sync(COMMIT, BOTH).code is Code.OK
    assert black.receive("ANY").body == b"Nf3"


def test_identifiers_go_on_over_a_restart() -> None:
    desk = Desk()
    white, _ = people(desk)
    first = white.send(b"1")
    white, _ = people(desk.restart())
    second = white.send(b"2")
    assert len({first.uowid, first.conv_id, second.uowid, second.conv_id}) == 4
    assert white.sync(Option.LAST).uowid == second.uowid


def test_lifetimes_go_on_where_the_clock_was_written_last() -> None:
    game_attributes = attributes(client_nonact="UNLIM", server_nonact="UNLIM", conv_nonact="UNLIM")
    desk = Desk(game_attributes)
    white, black = people(desk)
    sent = white.send(b"x", uwtime="100S", uwstatp=1)
    done = white.send(b"y", uwtime="30S", uwstatp=2)
    black.receive()
    black.receive()
    black.sync(COMMIT, done.uowid)
    desk.tick(40)
    desk.now += 10**15
    again = desk.restart()
    white, _ = people(again)
    again.tick(19)
    assert white.sync(Option.QUERY, done.uowid).status is Status.PROCESSED
    again.tick(1)
    assert white.sync(Option.QUERY, done.uowid).code is Code.UOW_NOT_FOUND
    again.tick(39)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    again.tick(1)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.TIMEOUT


def test_user_status_and_attempted_deliveries_survive_a_restart_without_persistent_status_too() -> None:
    desk = Desk()
    white, black = people(desk)
    sent = white.send(b"x", uwstatp=255)
    black.receive()
    black.sync(Option.BACKOUT, sent.uowid)
    black.receive()
    black.sync(Option.SETUSTATUS, sent.uowid, ustatus="half done")
    white, black = people(desk.restart())
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.ustatus, asked.reply.adcount) == (Status.ACCEPTED, "half done", 1)
    got = black.receive()
    assert (got.reply.ustatus, got.reply.adcount) == ("half done", 1)


def test_what_is_not_persistent_is_lost_by_a_restart() -> None:
    desk = Desk()
    white, black = people(desk)
    message = white.send(b"message", NONE)
    passing = white.send(b"passing", store=Store.OFF)
    other = white.send(b"waits", NONE)
    black.receive("NEW", NONE)
    assert desk.paper.commits == []
    white, black = people(desk.restart())
    assert white.sync(Option.QUERY, passing.uowid).code is Code.UOW_NOT_FOUND
    for conv_id in (message.conv_id, other.conv_id, passing.conv_id):
        assert white.receive(conv_id, Option.ANY).code is Code.NO_CONVERSATION
    assert black.receive("ANY", Option.ANY).code is Code.NO_CONVERSATION


@pytest.mark.parametrize(
    ("of_broker", "of_service", "code"),
    [
        ("MAX-UOWS=3", "MAX-UOWS=9", Code.MAX_UOWS),
        ("MAX-UOWS=9", "MAX-UOWS=3", Code.MAX_UOWS),
        ("MAX-UOWS=9 NUM-CONVERSATION=3", "", Code.CONVERSATIONS_MAX),
        ("MAX-UOWS=9", "CONV-LIMIT=3", Code.CONVERSATION_LIMIT),
    ],
)
def test_limits_count_what_was_restored(of_broker: str, of_service: str, code: Code) -> None:
    text = f"DEFAULTS=BROKER BROKER-ID=E PSTORE=WARM STORE=BROKER {of_broker} DEFAULTS=SERVICE "
    desk = Desk(parse_attributes(f"{text} CLASS=GAME SERVER=CHESS SERVICE=BLACK {of_service}"))
    white, black = people(desk)
    for _ in range(3):
        assert white.send(b"x").code is Code.OK
    again = desk.restart()
    white, black = people(again)
    assert white.send(b"x").code is code
    got = black.receive()
    black.sync(COMMIT, got.uowid)
    white.call(Function.EOC, conv_id=got.conv_id)
    black.receive(got.conv_id)
    assert [white.send(b"x").code, white.send(b"x").code] == [Code.OK, code]


def test_no_participant_times_out_while_its_restored_unit_of_work_lives() -> None:
    desk = Desk(attributes(client_nonact="60S"))
    white, _ = people(desk)
    sent = white.send(b"x")
    again = desk.restart()
    white, _ = people(again, is_served=False)
    again.tick(60)
    again.tick(60)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    white.sync(Option.CANCEL, sent.uowid)
    again.tick(120)
    assert white.sync(Option.LAST).code is Code.LOGON_REQUIRED


def test_a_service_that_is_defined_no_longer_keeps_what_waits_for_it() -> None:
    from oms_journal.broker.attributes.attributes import parse_attributes

    desk = Desk()
    white, _ = people(desk, is_served=False)
    sent = white.send(b"x")
    again = desk.restart(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=HOT MAX-UOWS=9 DEFAULTS=SERVICE CLASS=A SERVER=A SERVICE=A"
        )
    )
    white, black = people(again)
    assert "no service GAME/CHESS/BLACK" in again.logs[0]
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    assert black.receive().body == b"x"


# Sleep.


def test_messages_for_a_deferred_service_do_not_stay_in_memory_and_those_of_a_registered_one_may() -> None:
    desk = Desk()
    white, black = people(desk, is_served=False)
    sent = white.send(b"asleep")
    world = desk.kernel.world
    assert (world.active, world.conversations, world.kept_bytes) == ({}, {}, 0)
    assert world.units.find(sent.uowid) is not None
    black.register()
    white.send(b"awake")
    assert world.kept_bytes == 5
    call = black.desk.kernel.take
    request = Request(function=Function.RECEIVE, option=SYNC, conv_id="NEW", user_id="BLACK", token="T", **CHESS)
    bodies = [call(Call(request, 2, 50 + at), 0)[0] for at in range(2)]
    assert all(isinstance(body, Answer) for body in bodies)
    assert bodies[0].bodies == (Stored(1),) and bodies[1].bodies == (b"awake",)  # type: ignore[union-attr]


@pytest.mark.whole
def test_a_unit_of_work_that_waits_for_a_deferred_service_takes_less_than_300_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed_rows, "LOOSE_ROWS_MAX", 1024)  # of a million, 4096 rows at the end do not count
    kernel = Kernel(attributes(), Restored(), Identifiers(1))
    who: Fields = {"user_id": "WHITE", "token": "T"}
    kernel.take(Call(Request(function=Function.LOGON, **who), 1, 1), 0)
    said: Fields = {"conv_id": "NEW", "uwtime": "1H", "uwstatp": 4, **who, **CHESS}

    def send(numbers: range) -> int:
        for number in numbers:
            request = Request(function=Function.SEND, option=COMMIT, body=bytes(256), ustatus=f"order {number}", **said)
            (commit,) = kernel.take(Call(request, 1, number), T0 + number)
            assert isinstance(commit, Commit)
            kernel.take(Durable(commit.ticket, number), T0 + number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = send(range(1, 1025))
        taken = (send(range(1025, 3073)) - before) / 2048
    finally:
        tracemalloc.stop()
    assert len(kernel.world.units) == 3072 and kernel.world.active == {}
    assert taken < 300, taken


def test_what_waits_goes_to_sleep_when_the_last_server_leaves() -> None:
    desk = Desk()
    white, black = people(desk)
    sent = [white.send(b"%d" % at) for at in range(3)]
    more = white.send(b"0b", COMMIT, sent[0].conv_id)
    passing = white.send(b"passing", store=Store.OFF)
    world = desk.kernel.world
    assert len(world.active) == 5
    black.call(DEREGISTER, **CHESS)
    assert list(world.active) == [passing.uowid] and world.kept_bytes == 0
    assert set(world.conversations) == {sent[0].conv_id, passing.conv_id}
    black.register()
    got = [black.receive("NEW").body for _ in range(4)]
    assert got == [b"0", b"1", b"2", b"passing"]
    black.sync(COMMIT, sent[0].uowid)
    assert black.receive("OLD").uowid == more.uowid


def test_beyond_a_bound_what_waits_sleeps_though_there_is_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dormancy, "AWAKE_MAX", 10)
    desk = Desk()
    white, black = people(desk)
    world = desk.kernel.world
    for at in range(30):
        white.send(b"%d" % at)
    assert len(world.active) == 10
    first = white.send(b"long", store=Store.BROKER)
    for at in range(30):
        white.send(b"%d" % at, COMMIT, first.conv_id)
    assert len(world.active) <= 20
    assert [black.receive("NEW").body for _ in range(30)] == [b"%d" % at for at in range(30)]
    got = black.receive("NEW")
    for at in range(30):
        black.sync(COMMIT, got.uowid)
        got = black.receive(first.conv_id)
        assert got.body == b"%d" % at


def test_kept_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from oms_journal.broker.kernel.units import transitions

    monkeypatch.setattr(transitions, "KEPT_BYTES_MAX", 100)
    desk = Desk()
    white, black = people(desk)
    for _ in range(20):
        white.send(b"x" * 30)
        assert desk.kernel.world.kept_bytes <= 100
    for _ in range(20):
        assert black.receive("NEW").body == b"x" * 30
    assert desk.kernel.world.kept_bytes == 90


def test_a_sleeping_conversation_wakes_for_another_unit_of_work_and_keeps_its_place() -> None:
    desk = Desk()
    white, black = people(desk, is_served=False)
    first, other = white.send(b"1"), white.send(b"2")
    white.send(b"1b", COMMIT, first.conv_id)
    assert white.sync(Option.QUERY, other.uowid).status is Status.ACCEPTED
    assert white.sync(Option.SETUSTATUS, first.uowid, ustatus="mark").code is Code.OK
    black.register()
    got = black.receive("NEW")
    assert (got.body, got.reply.ustatus) == (b"1", "mark")
    assert black.receive("NEW").body == b"2"


def test_cancelling_and_ending_what_sleeps() -> None:
    desk = Desk()
    white, black = people(desk, is_served=False)
    sent = [white.send(b"%d" % at) for at in range(4)]
    assert white.sync(Option.CANCEL, sent[1].uowid).status is Status.CANCELLED
    assert white.call(Function.EOC, conv_id=sent[2].conv_id).code is Code.OK
    assert white.call(Function.EOC, conv_id="00000000FFFFFFFF").code is Code.NO_CONVERSATION
    black.register()
    assert [black.receive("NEW").body for _ in range(3)] == [b"0", b"2", b"3"]
    black.sync(COMMIT, sent[2].uowid)
    assert black.receive(sent[2].conv_id).code is Code.PARTNER_FINISHED


@pytest.mark.parametrize("text", ["", "x", "0" * 16, "F" * 16, "zzzzzzzzzzzzzzzz", "1000_0001_0000_0", " " * 16])
def test_identifiers_that_are_none_find_nothing(text: str) -> None:
    desk = Desk()
    white, _ = people(desk, is_served=False)
    white.send(b"x")
    if text.strip():
        assert white.sync(Option.QUERY, text).code is Code.UOW_NOT_FOUND
        assert white.send(b"x", SYNC, text).code is Code.NO_CONVERSATION
    else:
        assert white.sync(Option.QUERY, text).code is not Code.OK


# Publish and subscribe.


def test_durable_subscriptions_go_on_after_a_restart() -> None:
    desk = Desk()
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    passing = Person(desk, "PASSING", "X", caller=3)
    topic: Fields = {"topic": "NEWS"}
    reader.call(Function.SUBSCRIBE, Option.DURABLE, **topic)
    passing.call(Function.SUBSCRIBE, **topic)
    said = [
        paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=b"%d" % at, **topic) for at in range(4)
    ]
    for at in (0, 2):
        got = None
        while got is None or got.reply.publication_id != said[at].reply.publication_id:
            got = reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **topic)
        reader.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=got.reply.publication_id)
    again = desk.restart()
    reader, paper = Person(again, "READER", "R", caller=2), Person(again, "PAPER", "P", caller=1)
    left = [reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **topic).body for _ in range(2)]
    assert left == [b"1", b"3"]
    assert reader.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **topic).code is Code.NO_UOWS
    assert len(again.paper.messages) == 2, "what only a subscriber was to have that is gone is withdrawn"
    last = paper.call(Function.CONTROL_PUBLICATION, Option.LAST, **topic)
    assert last.reply.publication_id == said[3].reply.publication_id
    for at in (1, 3):
        publication_id = said[at].reply.publication_id
        assert reader.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=publication_id).code is Code.OK
    assert again.paper.messages == {}


def test_what_a_topic_has_stored_comes_before_what_it_stores_no_longer() -> None:
    terms = "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=WARM SUBSCRIBER-STORE=PSTORE SUBSCRIPTION-EXPIRATION=9D "
    stored, no_longer = (
        parse_attributes(terms + "DEFAULTS=TOPIC TOPIC=NEWS ALLOW-DURABLE=YES " + more) for more in ("", "STORE=OFF")
    )
    topic: Fields = {"topic": "NEWS"}

    def publish(on: Desk, *bodies: bytes) -> None:
        paper = Person(on, "PAPER", "P")
        for body in bodies:
            said = paper.call(Function.SEND_PUBLICATION, COMMIT, publication_id="NEW", body=body, **topic)
            assert said.code is Code.OK

    def heard(person: Person) -> list[bytes | None]:
        return [person.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **topic).body for _ in range(6)]

    desk = Desk(stored)
    Person(desk, "READER", "R", caller=2).call(Function.SUBSCRIBE, Option.DURABLE, **topic)
    publish(desk, b"1", b"2", b"3")
    again = desk.restart(no_longer)
    late = Person(again, "LATE", "L", caller=3)
    late.call(Function.SUBSCRIBE, **topic)
    publish(again, b"4", b"5")
    assert heard(Person(again, "READER", "R", caller=2)) == [b"1", b"2", b"3", b"4", b"5", None]
    assert heard(late) == [b"4", b"5", None, None, None, None]
