"""What comes of a unit of work that is given back: when it is received again, how often, and where it ends."""

from collections.abc import Iterator

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.block import Function, Option, Reception, Request, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import (
    AllowNew,
    Call,
    Expect,
    ForbidNew,
    Gone,
    SetStatus,
    ShutParticipant,
    ShutServer,
    StoreBack,
    StoreLost,
)
from oms_journal.broker.kernel.state.redelivery import DEAD_LETTERS
from oms_journal.broker.records import Flag, Status
from tests.support.broker.kernel_desk import CHESS, Desk, Fields, Person, Said, attributes

COMMIT, BACKOUT, SYNC, EOC = Option.COMMIT, Option.BACKOUT, Option.SYNC, Option.EOC
ADDRESS: Fields = dict(zip(("server_class", "server_name", "service"), DEAD_LETTERS, strict=True))
STORES = pytest.mark.parametrize("store", [Store.BROKER, Store.OFF], ids=["persistent", "not persistent"])
LASTING = {"client_nonact": "UNLIM", "server_nonact": "UNLIM", "conv_nonact": "UNLIM"}
OPERATOR = 900_000
DELAYS = [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60]


def people(desk: Desk) -> tuple[Person, Person]:
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    black.register()
    return white, black


def desk_of(limit: int | str = 3, **given: str) -> Desk:
    return Desk(attributes(max_delivery_count=str(limit), **LASTING, **given))


def tried(black: Person, uowid: str, times: int = 1) -> Said:
    """Let the unit be received and backed out so often, and a minute pass before each; return the last answer."""
    said = Said(black.call(Function.VERSION).reply)
    for _ in range(times):
        black.desk.tick(60)
        assert black.receive("ANY").uowid == uowid
        said = black.sync(BACKOUT, uowid)
    return said


def lost(desk: Desk, black: Person, count: int = 1) -> list[Said]:
    """Let the receiver take so many units, and its connection be lost; return what it got."""
    got = [black.receive("NEW") for _ in range(count)]
    black.gone()
    assert black.call(Function.LOGON).code is Code.OK
    black.register()
    return got


def dead_letters(desk: Desk) -> list[Said]:
    """Receive and return all that there is among the dead letters."""
    looker = Person(desk, "LOOKER", "PC9", caller=9)
    assert looker.call(Function.REGISTER, **ADDRESS).code is Code.OK
    return list(_received(looker))


def _received(looker: Person) -> Iterator[Said]:
    while (got := looker.call(Function.RECEIVE, SYNC, conv_id="ANY", **ADDRESS)).code is Code.OK:
        yield got
        while got.status not in (Reception.RECV_LAST, Reception.RECV_ONLY):
            got = looker.receive(got.conv_id)
            yield got
        looker.sync(COMMIT, got.uowid)


# The delay.


@STORES
def test_the_first_backout_puts_it_back_at_once_and_from_the_second_on_the_delay_grows(store: Store) -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send(store=store)
    for delay in DELAYS:
        got = black.receive("NEW")
        said = black.sync(BACKOUT, got.uowid)
        assert (said.status, said.reply.adcount) == (Status.ACCEPTED, got.reply.adcount + 1)
        if delay:
            desk.tick(delay - 0.001)
            assert black.receive("NEW").code is Code.NO_CONVERSATION
            assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
            desk.tick(0.001)
    assert black.receive("NEW").uowid == sent.uowid


def test_who_waits_gets_it_when_the_delay_is_over_and_the_kernel_says_when_that_is() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send(store=Store.OFF)
    tried(black, sent.uowid)
    black.receive("NEW")
    desk.go_on(0.5)  # a delay begins when it does, and not with the last tick
    backout = Request(function=Function.SYNCPOINT, option=BACKOUT, uowid=sent.uowid, user_id="BLACK", token="PC2")
    effects = desk.give(Call(backout, 2, 1_000_000))
    assert [each.microseconds for each in effects if isinstance(each, Expect)] == [100_000]
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="1H", **CHESS)
    desk.tick(0.599)
    assert waiting not in desk.answers
    desk.tick(0.001)
    assert desk.answers[waiting].uowid == sent.uowid


def test_the_client_waits_for_an_answer_that_it_has_given_back_likewise() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send()
    black.receive("NEW")
    black.sync(COMMIT, sent.uowid)
    answer = black.send(b"e5", COMMIT, sent.conv_id)
    for _ in range(2):
        assert white.receive(sent.conv_id).body == b"e5"
        white.sync(BACKOUT, answer.uowid)
    assert white.receive(sent.conv_id).code is Code.NO_UOWS
    waiting = white.start(Function.RECEIVE, SYNC, conv_id=sent.conv_id, wait="1H")
    desk.tick(0.1)
    assert desk.answers[waiting].body == b"e5"


def test_what_waits_for_its_redelivery_holds_up_its_conversation_and_no_other() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    first = white.send(b"1")
    white.send(b"1b", COMMIT, first.conv_id)
    white.send(b"2")
    tried(black, first.uowid, 2)
    assert [black.receive("NEW").body, black.receive("NEW").code] == [b"2", Code.NO_CONVERSATION]
    desk.tick(0.1)
    assert black.receive("NEW").body == b"1"


@STORES
def test_its_lifetime_goes_on_meanwhile_and_its_sender_may_cancel_it(store: Store) -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send(uwtime="5M", uwstatp=1, store=store)
    other = white.send(uwtime="5M", uwstatp=1, store=store)
    for each in (sent, other):
        for _ in range(2):
            assert black.receive("NEW").uowid == each.uowid
            black.sync(BACKOUT, each.uowid)
    assert white.sync(Option.CANCEL, other.uowid).status is Status.CANCELLED
    desk.tick(299.5)
    black.receive("NEW")
    black.sync(BACKOUT, sent.uowid)
    desk.tick(0.1)
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    desk.tick(0.4)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.TIMEOUT


def test_an_operator_lets_it_be_received_at_once() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send()
    tried(black, sent.uowid, 3)
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    desk.give(SetStatus(2_000_000, sent.uowid, Status.ACCEPTED))
    assert desk.answers[2_000_000].code is Code.OK
    assert black.receive("NEW").uowid == sent.uowid


@STORES
def test_without_a_limit_at_all_it_comes_at_once_and_for_ever_as_the_manual_has_it(store: Store) -> None:
    """EntireX, Using Persistence and Units of Work: BACKOUT makes it available again, and counts."""
    desk = desk_of(0, postpone_attempts="3")
    white, black = people(desk)
    sent = white.send(store=store)
    for count in range(1, 101):
        assert black.receive("NEW").uowid == sent.uowid
        said = black.sync(BACKOUT, sent.uowid)
        assert (said.status, said.reply.adcount) == (Status.ACCEPTED, count)
    assert desk.logs == []


# A restart.


def test_what_is_left_of_a_delay_is_waited_for_after_a_restart_and_downtime_does_not_count() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send()
    tried(black, sent.uowid, 8)  # 6.4 seconds
    desk.tick(3)
    desk.now += 3_600_000_000
    again = desk.restart()
    black = people(again)[1]
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="1H", **CHESS)
    again.tick(3.3)
    assert waiting not in again.answers
    again.tick(0.1)
    got = again.answers[waiting]
    assert (got.uowid, got.reply.adcount) == (sent.uowid, 8)


def test_a_delay_goes_on_while_nobody_looks_whatever_is_restarted_then() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send(uwtime="1H")
    tried(black, sent.uowid, 9)  # 12.8 seconds
    for _ in range(13):
        desk = desk.restart()
        desk.tick()
    desk.tick()
    assert desk.kernel.world.active == {}, "nobody has woken it"
    assert people(desk.restart())[1].receive("NEW").uowid == sent.uowid


def test_a_delay_that_was_over_before_the_restart_is_over_after_it() -> None:
    desk = desk_of("UNLIM")
    white, black = people(desk)
    sent = white.send()
    tried(black, sent.uowid, 4)
    desk.tick(60)
    white.send()  # with it the pseudo-clock is written
    assert people(desk.restart())[1].receive("NEW").uowid == sent.uowid


@pytest.mark.parametrize("is_done", [True, False])
def test_a_restart_in_the_middle_of_a_move_finds_it_in_one_place_and_once(is_done: bool) -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send(b"a", SYNC)
    white.send(b"b", COMMIT, sent.conv_id)
    black.receive("NEW")
    desk.is_slow = True
    black.start(Function.SYNCPOINT, BACKOUT, uowid=sent.uowid)
    if is_done:
        desk.settle()
    again = desk.restart()
    black = people(again)[1]
    assert [got.body for got in dead_letters(again)] == ([b"a", b"b"] if is_done else [])
    got = black.receive("NEW")
    assert (got.code, got.reply.adcount) == ((Code.NO_CONVERSATION, 0) if is_done else (Code.OK, 0))


# Dead letters.


@STORES
@pytest.mark.parametrize("has_status", [False, True])
def test_what_was_given_back_too_often_is_a_dead_letter_at_once_and_as_a_whole(store: Store, has_status: bool) -> None:
    desk = desk_of(3)
    white, black = people(desk)
    sent = white.send(b"a", SYNC, store=store, uwstatp=9 if has_status else 0, properties={"k": "v"}, uwtime="1D")
    white.send(b"b", EOC, sent.conv_id, ustatus="mine", msgid=b"7")
    assert tried(black, sent.uowid, 2).status is Status.ACCEPTED
    said = tried(black, sent.uowid)

    assert (said.status, said.reply.adcount) == (Status.CANCELLED, 3)
    query = white.sync(Option.QUERY, sent.uowid)
    assert query.code is (Code.OK if has_status else Code.UOW_NOT_FOUND)
    assert (query.status, query.reply.adcount) == ((Status.CANCELLED, 3) if has_status else (None, 0))
    assert white.sync(Option.LAST).uowid == (sent.uowid if has_status else ""), "a dead letter is not its sender's"
    (line,) = [line for line in desk.logs if "dead letter" in line]
    assert sent.uowid in line and "GAME/CHESS/BLACK" in line
    first, second = dead_letters(desk)
    marks = {"dead-letter-from": "/service/GAME/CHESS/BLACK", "dead-letter-uow": sent.uowid}
    marks |= {"dead-letter-count": "3", "dead-letter-user": "WHITE"}
    assert (first.body, first.properties) == (b"a", {"k": "v"} | marks)
    assert (second.body, second.properties, second.reply.msgid) == (b"b", marks, b"7")
    assert (first.reply.ustatus, first.reply.adcount) == ("mine", 0)
    assert desk.paper.messages == {} and desk.kernel.world.conversations == {}
    assert black.receive("NEW").code is Code.NO_CONVERSATION


def test_a_dead_letter_that_only_the_store_has_is_read_from_there() -> None:
    desk = desk_of(1)
    white, _ = people(desk)
    sent = white.send(b"a" * 1000, SYNC, properties={"k": "v"})
    white.send(b"b", EOC, sent.conv_id)
    again = desk.restart()
    tried(people(again)[1], sent.uowid)
    first, second = dead_letters(again)
    assert (first.body, second.body) == (b"a" * 1000, b"b")
    assert first.properties is not None and first.properties["k"] == "v"


def test_a_dead_letter_lives_for_ever_and_is_none_again() -> None:
    desk = desk_of(1, uwtime="1M")
    white, black = people(desk)
    sent = white.send(uwtime="1H")
    tried(black, sent.uowid)
    again = desk.restart()
    again.tick(1_000_000)
    looker = Person(again, "LOOKER", "PC9", caller=9)
    looker.call(Function.REGISTER, **ADDRESS)
    for count in range(5):
        got = looker.call(Function.RECEIVE, SYNC, conv_id="ANY", **ADDRESS)
        assert (got.body, got.reply.adcount) == (b"e4", count)
        assert looker.sync(BACKOUT, got.uowid).status is Status.ACCEPTED
        again.tick(60)
    (record,) = again.paper.uows().values()
    assert record.sender_user == "" and Flag.PERSISTENT in record.flags


def test_an_answer_that_its_client_gives_back_too_often_is_a_dead_letter_too() -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send()
    black.receive("NEW")
    black.sync(COMMIT, sent.uowid)
    answers = [black.send(body, COMMIT, sent.conv_id) for body in (b"1", b"2")]
    assert white.receive(sent.conv_id).body == b"1"
    assert white.sync(BACKOUT, answers[0].uowid).status is Status.CANCELLED
    assert white.receive(sent.conv_id).body == b"2", "the conversation goes on"
    assert [got.body for got in dead_letters(desk)] == [b"1"]


def test_a_waiting_receiver_of_dead_letters_gets_it() -> None:
    desk = desk_of(1)
    white, black = people(desk)
    looker = Person(desk, "LOOKER", "PC9", caller=9)
    looker.call(Function.REGISTER, **ADDRESS)
    waiting = looker.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="1H", **ADDRESS)
    tried(black, white.send(b"x").uowid)
    assert desk.answers[waiting].body == b"x"


def test_dead_letters_are_there_whatever_the_attributes_define_and_allow() -> None:
    text = "DEFAULTS=BROKER STORE=BROKER DEFERRED=YES MAX-UOWS=1 MAX-DELIVERY-COUNT=1 NUM-CONVERSATION=1\n"
    desk = Desk(parse_attributes(text + "DEFAULTS=SERVICE CLASS=GAME SERVER=CHESS SERVICE=BLACK", broker_id=""))
    white, black = people(desk)
    sent = white.send(b"1")
    black.receive("NEW")
    assert black.sync(BACKOUT, sent.uowid).status is Status.CANCELLED
    assert [got.body for got in dead_letters(desk.restart())] == [b"1"]


@pytest.mark.parametrize("times", [1, 2], ids=["only with marks", "in no way"])
def test_what_the_store_does_not_take_as_a_dead_letter_is_given_back_and_tried_again(times: int) -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send(option=EOC)
    black.receive("NEW")
    desk.is_slow = True
    handle = black.start(Function.SYNCPOINT, BACKOUT, uowid=sent.uowid)
    for _ in range(times):
        assert handle not in desk.answers
        desk.fail(is_store_lost=False, is_refused=True)
    desk.settle()
    desk.is_slow = False
    said = desk.answers[handle]
    assert (said.status, said.reply.adcount) == (Status.CANCELLED if times == 1 else Status.ACCEPTED, 1)
    if times == 2:
        assert desk.paper.uows()[sent.uowid].adcount == 1
        assert tried(black, sent.uowid).status is Status.CANCELLED
    (letter,) = dead_letters(desk)
    assert (letter.body, bool(letter.properties)) == (b"e4", times == 2)
    assert desk.kernel.world.active_count == desk.kernel.world.talk_count == 0


def test_a_full_store_has_it_given_back_and_moved_once_there_is_room() -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send()
    desk.give(ForbidNew())
    assert [tried(black, sent.uowid).status for _ in range(3)] == [Status.ACCEPTED] * 3
    desk.give(AllowNew())
    assert tried(black, sent.uowid).status is Status.CANCELLED


def test_while_the_store_is_away_nothing_is_given_back_and_afterwards_it_is() -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send()
    black.receive("NEW")
    desk.give(StoreLost("gone"))
    assert black.sync(BACKOUT, sent.uowid).code is Code.UOW_NOT_PERSISTED
    desk.give(StoreBack())
    assert black.sync(BACKOUT, sent.uowid).status is Status.CANCELLED


# A lost connection.


@STORES
def test_a_lost_connection_counts_for_the_first_of_what_it_had_and_for_nothing_else(store: Store) -> None:
    desk = desk_of(3)
    white, black = people(desk)
    sent = [white.send(b"%d" % number, store=store) for number in range(50)]
    for _ in range(2):
        lost(desk, black, 50)
        desk.tick(60)
    assert [black.receive("NEW").reply.adcount for _ in sent] == [2] + [0] * 49
    black.sync(COMMIT, sent[0].uowid)
    black.gone()
    looker = Person(desk, "BLACK", "PC2", caller=3)
    looker.register()
    assert [looker.receive("NEW").reply.adcount for _ in sent[1:]] == [1] + [0] * 48


def test_a_connection_that_the_broker_has_ended_counts_for_nothing() -> None:
    desk = desk_of(3)
    white, black = people(desk)
    for _ in range(3):
        white.send(b"x")
        black.receive("NEW")
    desk.give(Gone(2, is_untried=True))
    assert [record.adcount for record in desk.paper.uows().values()] == [0, 0, 0]
    looker = Person(desk, "BLACK", "PC2", caller=3)
    looker.register()
    assert [looker.receive("NEW").reply.adcount for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("is_server", [True, False])
def test_whom_an_operator_shuts_down_counts_for_nothing(is_server: bool) -> None:
    desk = desk_of(1)
    white, black = people(desk)
    for _ in range(3):
        white.send(b"x")
        black.receive("NEW")
    client_id = desk.kernel.world.participants["BLACK", "PC2", 0].client_id
    service = (CHESS["server_class"], CHESS["server_name"], CHESS["service"])
    desk.give(
        ShutServer(OPERATOR, client_id, service, True) if is_server else ShutParticipant(OPERATOR, client_id, True)
    )
    assert desk.answers.pop(OPERATOR).code is Code.OK
    assert [record.adcount for record in desk.paper.uows().values()] == [0, 0, 0]
    assert dead_letters(desk) == []


def test_publications_count_no_attempt_either_of_whom_the_broker_or_an_operator_ends() -> None:
    desk = desk_of(3)
    white, black = people(desk)
    black.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    white.call(Function.SEND_PUBLICATION, COMMIT, topic="NEWS", publication_id="NEW", body=b"x")
    for turn in range(5):
        assert black.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW").body == b"x", turn
        client_id = desk.kernel.world.participants["BLACK", "PC2", 0].client_id
        desk.give(Gone(2, is_untried=True) if turn % 2 else ShutParticipant(OPERATOR + turn, client_id, True))
        black.call(Function.LOGON)
        black.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")


def test_a_lost_connection_counts_for_the_first_of_each_service() -> None:
    desk = desk_of(3)
    white, black = people(desk)
    other = {**CHESS, "service": "WHITE"}
    black.call(Function.REGISTER, **other)
    for names in (CHESS, other):
        for _ in range(2):
            assert white.call(Function.SEND, COMMIT, conv_id="NEW", body=b"x", **names).code is Code.OK
    for names in (CHESS, other, CHESS, other):
        assert black.call(Function.RECEIVE, SYNC, conv_id="NEW", **names).code is Code.OK
    black.gone()
    assert sorted(record.adcount for record in desk.paper.uows().values()) == [0, 0, 1, 1]


def test_the_loss_that_reaches_the_limit_moves_the_first_with_it_and_nothing_else() -> None:
    desk = desk_of(10)
    white, black = people(desk)
    sent = [white.send(b"%d" % number) for number in range(50)]
    for _ in range(10):
        got = lost(desk, black, 50)
        assert [each.uowid for each in got] == [each.uowid for each in sent]
        desk.tick(60)
    assert [each.body for each in dead_letters(desk)] == [b"0"]
    assert [black.receive("NEW").body for _ in range(49)] == [b"%d" % number for number in range(1, 50)]


@pytest.mark.parametrize("option", [Option.NONE, Option.IMMED])
def test_who_leaves_in_order_gives_back_likewise(option: Option) -> None:
    desk = desk_of(1)
    white, black = people(desk)
    for _ in range(2):
        white.send(option=EOC)
        black.receive("NEW")
    if option is Option.IMMED:
        assert black.call(Function.DEREGISTER, Option.NONE, **CHESS).code is Code.DEREGISTER_NOT_COMPLETE
        assert black.call(Function.DEREGISTER, option, **CHESS).code is Code.OK
    else:
        assert black.call(Function.LOGOFF).code is Code.OK
    assert len(dead_letters(desk)) == 1
    world = desk.kernel.world
    assert (world.active_count, world.talk_count) == (1, 1)


@pytest.mark.parametrize("way", ["logs off", "is lost"])
def test_what_the_store_does_not_take_keeps_nobody_from_leaving(way: str) -> None:
    desk = desk_of(1)
    white, black = people(desk)
    sent = white.send(option=EOC)
    black.receive("NEW")
    desk.is_slow = True
    handle = black.start(Function.LOGOFF) if way == "logs off" else 0
    if way == "is lost":
        black.gone()
    for _ in range(2):
        desk.fail(is_store_lost=False, is_refused=True)
    desk.settle()
    desk.is_slow = False
    if handle:
        assert desk.answers[handle].code is Code.OK
    assert desk.paper.uows()[sent.uowid].adcount == 1
    black = Person(desk, "BLACK", "PC2", caller=4)
    black.register()
    assert tried(black, sent.uowid).status is Status.CANCELLED
    assert len(dead_letters(desk)) == 1
    assert desk.kernel.world.active_count == desk.kernel.world.talk_count == 0


def test_a_transaction_that_gives_back_too_often_moves_it_with_all_the_rest() -> None:
    desk = desk_of(1)
    white, black = people(desk)
    poison, good = white.send(b"poison"), white.send(b"good")
    black.receive("NEW")
    black.receive("NEW")
    answer = black.send(b"new", SYNC)
    parts = [
        Request(function=Function.SYNCPOINT, option=option, uowid=uowid, user_id="BLACK", token="PC2")
        for option, uowid in ((COMMIT, good.uowid), (BACKOUT, poison.uowid), (COMMIT, answer.uowid))
    ]
    assert black.sync(COMMIT, "BOTH", parts=parts).code is Code.OK
    assert [each.body for each in dead_letters(desk)] == [b"poison"]
    assert [black.receive("NEW").body, black.receive("NEW").code] == [b"new", Code.NO_CONVERSATION]
