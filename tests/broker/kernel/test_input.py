"""Wrong calls, repeats of a producer, and mistakes of the kernel itself: a code each, and nothing half done."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal.broker.block import BOTH, Function, Option, Request, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel import kernel as kernel_module
from oms_journal.broker.kernel.state.effects import Abandoned, Answer, Call, Durable, ForbidNew, Gone, Log, StoreBack
from oms_journal.broker.records import Status
from oms_journal.broker.store.master import COUNT_MAX
from tests.support.broker.kernel_desk import CHESS, Desk, Person, Said, attributes
from tests.support.sweeps import for_each, split

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE


# Units of work of somebody else.


@pytest.mark.parametrize(
    "option",
    [
        COMMIT,
        Option.BACKOUT,
        Option.CANCEL,
        Option.EOC,
        Option.EOCCANCEL,
        Option.DELETE,
        Option.QUERY,
        Option.SETUSTATUS,
    ],
)
@pytest.mark.parametrize("stage", ["sent", "committed", "received", "processed"])
def test_a_unit_of_work_of_somebody_else_is_nobody_elses(
    desk: Desk, white: Person, black: Person, option: Option, stage: str
) -> None:
    sent = white.send(b"x", SYNC, uwstatp=1)
    if stage != "sent":
        white.sync(COMMIT, sent.uowid)
    if stage in ("received", "processed"):
        black.receive()
    if stage == "processed":
        black.sync(COMMIT, sent.uowid)
    before = white.sync(Option.QUERY, sent.uowid)
    for eve in (Person(desk, "EVE", "PC1", caller=5), Person(desk, "WHITE", "PC9", caller=6)):
        assert eve.sync(option, sent.uowid).code is Code.NOT_THE_CREATOR
    assert white.sync(Option.QUERY, sent.uowid).reply == before.reply


def test_a_token_that_does_not_match_is_another_user(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"x", SYNC)
    other = Person(desk, "WHITE", "PC9", caller=6)
    assert other.sync(COMMIT, sent.uowid).code is Code.NOT_THE_CREATOR
    assert other.send(b"y", SYNC, sent.conv_id).code is Code.NO_CONVERSATION
    assert other.receive(sent.conv_id).code is Code.NO_CONVERSATION
    assert other.call(Function.EOC, conv_id=sent.conv_id).code is Code.NO_CONVERSATION


def test_unknown_units_of_work_and_conversations(white: Person, black: Person) -> None:
    for option in (COMMIT, Option.BACKOUT, Option.CANCEL, Option.EOC, Option.DELETE, Option.QUERY, Option.SETUSTATUS):
        assert white.sync(option, "1000000100009999").code is Code.UOW_NOT_FOUND
        assert white.sync(option).code is Code.UOWID_REQUIRED
    sent = white.send(b"x", SYNC)
    other = white.send(b"y")
    assert white.sync(COMMIT, sent.uowid, conv_id=other.conv_id).code is Code.UOW_NOT_FOUND
    assert white.sync(Option.QUERY, BOTH).code is Code.UOWID_REQUIRED
    assert white.sync(Option.LAST, conv_id="1000000100009999").code is Code.UOW_NOT_FOUND
    assert black.receive("1000000100009999").code is Code.NO_CONVERSATION
    assert white.send(b"x", SYNC, "1000000100009999").code is Code.NO_CONVERSATION
    assert white.send(b"x", NONE, "1000000100009999").code is Code.NO_CONVERSATION


def test_another_store_value_in_the_same_unit_of_work_is_refused(white: Person) -> None:
    sent = white.send(b"x", SYNC, store=Store.OFF)
    assert white.send(b"y", SYNC, sent.conv_id, store=Store.BROKER).code is Code.WRONG_UOW_TYPE
    assert white.send(b"y", SYNC, sent.conv_id, store=Store.OFF).code is Code.OK


def test_limits_of_conversations() -> None:
    from oms_journal.broker.attributes.attributes import parse_attributes

    text = "DEFAULTS=BROKER BROKER-ID=ETB001 MAX-UOWS=99 DEFERRED=YES NUM-CONVERSATION=3 DEFAULTS=SERVICE CLASS=GAME "
    desk = Desk(
        parse_attributes(f"{text} SERVER=CHESS SERVICE=BLACK CONV-LIMIT=2 CLASS=GAME SERVER=CHESS SERVICE=OTHER")
    )
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    sent = [white.send(b"x", store=Store.OFF), white.send(b"x", NONE)]
    assert white.send(b"x", store=Store.OFF).code is Code.CONVERSATION_LIMIT
    assert white.send(b"x", NONE).code is Code.CONVERSATION_LIMIT
    assert white.send(b"x", service="OTHER", store=Store.OFF).code is Code.OK
    assert white.send(b"x", service="OTHER", store=Store.OFF).code is Code.CONVERSATIONS_MAX
    white.call(Function.EOC, Option.CANCEL, conv_id=sent[1].conv_id)
    assert white.send(b"x", NONE).code is Code.OK


# Producers.


def test_a_repeat_of_a_producer_gets_the_first_uowid_and_adds_nothing(desk: Desk, white: Person, black: Person) -> None:
    first = white.send(b"x", producer="order 1")
    again = white.send(b"x", producer="order 1")
    assert (again.uowid, again.conv_id, again.status) == (first.uowid, first.conv_id, Status.ACCEPTED)
    assert len(desk.paper.messages) == 1
    black.receive()
    assert white.send(b"x", producer="order 1").status is Status.DELIVERED
    black.sync(COMMIT, first.uowid)
    again = white.send(b"x", producer="order 1")
    assert (again.code, again.uowid, again.status) == (Code.OK, first.uowid, Status.PROCESSED)
    assert desk.paper.messages == {}


@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
def test_a_repeat_while_the_first_is_on_its_way_shares_its_answer(desk: Desk, white: Person, store: Store) -> None:
    desk.is_slow = True
    fields = {"body": b"x", "conv_id": "NEW", "producer": "order 1", "store": store, "uwstatp": 1, **CHESS}
    handles = [white.start(Function.SEND, COMMIT, **fields) for _ in range(3)]
    desk.settle()
    assert len({desk.answers[handle].uowid for handle in handles}) == 1
    assert {desk.answers[handle].code for handle in handles} == {Code.OK}
    assert len(desk.paper.uows()) == 1


def test_after_a_failure_the_producer_may_send_again(desk: Desk, white: Person, black: Person) -> None:
    desk.is_slow = True
    fields = {"body": b"x", "conv_id": "NEW", "producer": "order 1", **CHESS}
    handles = [white.start(Function.SEND, COMMIT, **fields) for _ in range(2)]
    desk.fail(is_store_lost=False, is_refused=True)
    assert desk.answers[handles[0]].code is Code.UOW_NOT_PERSISTED
    desk.settle()
    assert desk.answers[handles[1]].code is Code.OK
    assert black.receive().body == b"x"


def test_a_repeat_of_many_messages_adds_none_of_them(desk: Desk, white: Person) -> None:
    def send() -> list[str]:
        first = white.send(b"1", SYNC, producer="batch 7")
        second = white.send(b"2", SYNC, first.conv_id, producer="batch 7")
        last = white.send(b"3", COMMIT, first.conv_id, producer="batch 7")
        return [first.uowid, second.uowid, last.uowid]

    once, twice = send(), send()
    assert once == twice
    assert len(desk.paper.messages) == 3


def _send_again(person: Person, bodies: list[bytes], commits: bool = True, conv_id: str = "NEW") -> list[Said]:
    """Send a unit of work as a session does: the identifier goes with the first message."""
    said = [person.send(bodies[0], SYNC, conv_id, producer="batch 7")]
    said += [person.send(body, SYNC, said[0].conv_id) for body in bodies[1:]]
    return [*said, person.sync(COMMIT, said[0].uowid)] if commits else said


@pytest.mark.parametrize("uwstatp", [1, 255])
@pytest.mark.parametrize("fate", ["waits", "delivered", "processed", "cancelled", "timed out", "conversation over"])
def test_a_resent_unit_is_one_unit_whatever_became_of_the_first(
    desk: Desk, white: Person, black: Person, fate: str, uwstatp: int
) -> None:
    terms = {"uwtime": "10S"} if fate == "timed out" else {}
    first = white.send(b"head", SYNC, producer="batch 7", uwstatp=uwstatp, **terms)
    white.send(b"line 1", SYNC, first.conv_id)
    white.sync(Option.EOC if fate == "conversation over" else COMMIT, first.uowid)
    if fate in ("delivered", "processed", "conversation over"):
        black.receive()
        black.receive(first.conv_id)
    if fate in ("processed", "conversation over"):
        black.sync(COMMIT, first.uowid)
    if fate == "cancelled":
        white.sync(Option.CANCEL, first.uowid)
    if fate == "timed out":
        desk.tick(30)
    before = dict(desk.paper.messages), desk.kernel.world.active_count, desk.kernel.world.talk_count
    said = _send_again(white, [b"head", b"line 1"])
    assert [(each.code, each.uowid, each.conv_id) for each in said] == [(Code.OK, first.uowid, first.conv_id)] * 3
    assert (dict(desk.paper.messages), desk.kernel.world.active_count, desk.kernel.world.talk_count) == before
    other = white.send(b"new", SYNC)
    assert other.code is Code.OK and other.uowid != first.uowid
    assert white.sync(COMMIT, other.uowid).status is Status.ACCEPTED


@pytest.mark.parametrize("uwstatp", [1, 255])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_unit_of_an_earlier_start_is_named_at_its_repeats_commit_or_not_at_all(
    desk: Desk, white: Person, black: Person, is_done: bool, uwstatp: int
) -> None:
    first = white.send(b"head", SYNC, producer="batch 7", uwstatp=uwstatp)
    white.send(b"line 1", SYNC, first.conv_id)
    white.sync(COMMIT, first.uowid)
    if is_done:
        black.receive()
        black.receive(first.conv_id)
        black.sync(COMMIT, first.uowid)
    desk = desk.restart()
    white = Person(desk, "WHITE", "PC1")
    before = dict(desk.paper.messages), desk.paper.uows(), desk.kernel.world.active_count
    is_known = not is_done or uwstatp == 1
    for _ in range(2):
        said = _send_again(white, [b"head", b"line 1"])
        assert {each.code for each in said} == {Code.OK}
        assert said[-1].uowid == (first.uowid if is_known else "")
        assert said[-1].status is (Status.PROCESSED if is_done else Status.ACCEPTED)
        assert not is_known or {each.uowid for each in said} == {first.uowid}
        refused = white.send(b"other", producer="batch 7")
        assert refused.code is Code.PRODUCER_REUSED
        which = first.uowid if is_known else "one that is complete and left no persistent status"
        assert f": {which}; nothing was added" in refused.reply.text
    assert (dict(desk.paper.messages), desk.paper.uows(), desk.kernel.world.active_count) == before


@pytest.mark.parametrize("bodies", [[b"head"], [b"head", b"line 2"], [b"line 1", b"head"], [b"head", b"line 1", b""]])
@pytest.mark.parametrize("restarts", [False, True])
def test_other_content_under_a_known_identifier_is_refused_and_logged_as_no_error(
    desk: Desk, white: Person, bodies: list[bytes], restarts: bool
) -> None:
    first = _send_again(white, [b"head", b"line 1"])[0]
    if restarts:
        desk = desk.restart()
        white = Person(desk, "WHITE", "PC1")
    said = _send_again(white, bodies)
    assert {each.code for each in said[:-1]} == {Code.OK}
    assert said[-1].code is Code.PRODUCER_REUSED
    assert white.sync(Option.BACKOUT, said[0].uowid).code is Code.OK
    assert white.sync(Option.QUERY, first.uowid).status is Status.ACCEPTED
    assert white.send(b"alone", producer="batch 7").code is Code.PRODUCER_REUSED
    assert len(desk.paper.messages) == 2
    assert not desk.logs
    assert _send_again(white, [b"head", b"line 1"])[-1].uowid == first.uowid


@pytest.mark.parametrize("restarts", [False, True])
def test_a_resent_unit_is_answered_where_a_new_one_would_be_refused(desk: Desk, white: Person, restarts: bool) -> None:
    first = _send_again(white, [b"head", b"line 1"])[0]
    if restarts:
        desk = desk.restart()
        white = Person(desk, "WHITE", "PC1")
    desk.give(ForbidNew())
    assert {(each.code, each.uowid) for each in _send_again(white, [b"head", b"line 1"])} == {(Code.OK, first.uowid)}
    assert white.send(b"x").code is Code.NO_NEW_UOWS


def test_the_last_call_of_a_unit_alone_is_answered_again(desk: Desk, white: Person) -> None:
    """A client that has lost the answer to it repeats this call, and not what came before."""
    first = white.send(b"1", SYNC, producer="batch 7")
    for _ in range(2):
        assert white.send(b"2", COMMIT, first.conv_id, producer="batch 7").uowid == first.uowid
    assert white.send(b"1", COMMIT, first.conv_id, producer="batch 7").code is Code.PRODUCER_REUSED
    assert len(desk.paper.messages) == 2


def test_a_repeat_is_given_up_with_its_session_or_backed_out(desk: Desk, white: Person) -> None:
    first = _send_again(white, [b"head", b"line 1"])[0]
    _send_again(white, [b"head"], commits=False)
    assert white.sync(Option.BACKOUT, first.uowid).code is Code.OK
    _send_again(white, [b"head"], commits=False)
    desk.give(Gone(1))
    white = Person(desk, "WHITE", "PC1")
    assert _send_again(white, [b"head", b"line 1"])[-1].uowid == first.uowid
    assert len(desk.paper.messages) == 2


def test_no_repeat_begins_where_another_unit_of_its_sender_is_open(desk: Desk, white: Person) -> None:
    first = _send_again(white, [b"head", b"line 1"])[0]
    other = white.send(b"more", SYNC, first.conv_id)
    assert white.send(b"head", SYNC, producer="batch 7").code is Code.WRONG_STATUS
    assert white.sync(COMMIT, other.uowid).status is Status.ACCEPTED
    assert _send_again(white, [b"head", b"line 1"])[-1].uowid == first.uowid


@pytest.mark.parametrize("option", [SYNC, COMMIT])
def test_while_the_first_is_open_on_the_same_connection_another_is_refused(white: Person, option: Option) -> None:
    first = white.send(b"x", SYNC, producer="batch 7")
    assert white.send(b"x", option, producer="batch 7").code is Code.WRONG_STATUS
    assert white.sync(COMMIT, first.uowid).status is Status.ACCEPTED
    assert white.send(b"x", producer="batch 7").uowid == first.uowid


@pytest.mark.parametrize("option", [SYNC, COMMIT])
@pytest.mark.parametrize("outcome", [COMMIT, Option.BACKOUT, "gone", "log off"])
def test_while_the_first_is_open_on_another_connection_the_second_waits_for_its_outcome(
    desk: Desk, option: Option, outcome: Option | str
) -> None:
    one, two = Person(desk, "WHITE", caller=11), Person(desk, "WHITE", caller=12)
    first = one.send(b"x", SYNC, producer="batch 7")
    handle = two.start(Function.SEND, option, body=b"x", conv_id="NEW", producer="batch 7", **CHESS)
    assert handle not in desk.answers
    if isinstance(outcome, Option):
        assert one.sync(outcome, first.uowid).code is Code.OK
    elif outcome == "gone":
        desk.give(Gone(11))
    else:
        one.call(Function.LOGOFF)
    said = desk.answers[handle]
    assert (said.code, said.uowid == first.uowid) == (Code.OK, outcome is COMMIT)
    if option is SYNC:
        assert two.sync(COMMIT, said.uowid).status is Status.ACCEPTED
    assert len(desk.paper.messages) == 1


def test_a_log_on_from_elsewhere_backs_the_open_first_out(desk: Desk, white: Person) -> None:
    first = white.send(b"x", SYNC, producer="batch 7")
    again = Person(desk, "WHITE", "PC1", caller=9)
    said = again.send(b"x", producer="batch 7")
    assert (said.code, said.uowid == first.uowid) == (Code.OK, False)
    assert len(desk.paper.messages) == 1


@pytest.mark.parametrize("count", [2, 3, 4])
def test_connections_that_would_wait_for_each_other_in_a_circle_are_told_so(desk: Desk, count: int) -> None:
    people = [Person(desk, "WHITE", caller=11 + at) for at in range(count)]
    firsts = [person.send(b"x", SYNC, producer=str(at)) for at, person in enumerate(people)]
    handles = [
        person.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", producer=str((at + 1) % count), **CHESS)
        for at, person in enumerate(people)
    ]
    assert [handle in desk.answers for handle in handles] == [False] * (count - 1) + [True]
    assert desk.answers[handles[-1]].code is Code.WRONG_STATUS
    assert people[-1].sync(COMMIT, firsts[-1].uowid).code is Code.OK
    assert desk.answers[handles[-2]].uowid == firsts[-1].uowid


@pytest.mark.parametrize("outcome", [COMMIT, Option.BACKOUT])
def test_who_no_longer_waits_for_the_first_sends_nothing(desk: Desk, outcome: Option) -> None:
    one, two = Person(desk, "WHITE", caller=11), Person(desk, "WHITE", caller=12)
    first = one.send(b"x", SYNC, producer="batch 7")
    handle = two.start(Function.SEND, COMMIT, body=b"x", conv_id="NEW", producer="batch 7", **CHESS)
    desk.give(Abandoned(handle))
    assert one.sync(outcome, first.uowid).code is Code.OK
    assert handle not in desk.answers
    assert len(desk.paper.messages) == (outcome is COMMIT)


def test_producers_are_told_apart_by_user_token_and_service(desk: Desk, white: Person) -> None:
    other = Person(desk, "WHITE", "PC2", caller=8)
    sent = [white.send(b"x", producer="p"), other.send(b"x", producer="p"), white.send(b"x", producer="p", service="W")]
    assert len({each.uowid for each in sent}) == 3


def test_what_was_backed_out_may_be_sent_again(white: Person, black: Person) -> None:
    first = white.send(b"x", SYNC, producer="p")
    white.sync(Option.BACKOUT, first.uowid)
    second = white.send(b"x", producer="p")
    assert second.uowid != first.uowid
    assert black.receive().uowid == second.uowid


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("has_status", [False, True])
def test_a_repeat_after_a_restart_adds_nothing(
    desk: Desk, white: Person, black: Person, is_done: bool, has_status: bool
) -> None:
    first = white.send(b"x", producer="p", uwstatp=1 if has_status else 255)
    if is_done:
        black.receive()
        black.sync(COMMIT, first.uowid)
    again = desk.restart()
    white = Person(again, "WHITE", "PC1")
    for option in (COMMIT, SYNC):
        said = white.send(b"x", option, producer="p", uwstatp=1 if has_status else 255)
        if option is SYNC and said.status is Status.RECEIVED:
            said = white.sync(COMMIT, said.uowid)
        assert said.code is Code.OK
        if not is_done or has_status:
            assert said.uowid == first.uowid
        assert said.status is (Status.PROCESSED if is_done else Status.ACCEPTED)
    assert len(again.paper.messages) == (not is_done)
    assert again.kernel.world.active_count == (not is_done)
    assert again.kernel.world.talk_count == (not is_done)
    assert len(again.paper.uows()) == (not is_done or has_status)


@pytest.mark.parametrize("uwstatp", [255, 1])
@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_both_with_a_repeat_commits_what_was_received(uwstatp: int, is_lost: bool, restarts: bool) -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    move = white.send(b"e4")
    black.receive()
    black.send(b"e5", SYNC, move.conv_id, producer="p", uwstatp=uwstatp)
    first = black.sync(COMMIT, BOTH)
    assert first.code is Code.OK
    other = white.send(b"d4", COMMIT, move.conv_id)
    if restarts:
        desk = desk.restart()
        white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
        black.register()
    assert black.receive("ANY").uowid == other.uowid
    black.send(b"e5", SYNC, move.conv_id, producer="p", uwstatp=uwstatp)
    desk.is_slow = True
    handle = black.start(Function.SYNCPOINT, COMMIT, uowid=BOTH)
    assert handle not in desk.answers, "what was received is not durable yet"
    if is_lost:
        desk.fail()
        desk.is_slow = False
        assert desk.answers[handle].code is Code.UOW_NOT_PERSISTED
        assert white.sync(Option.QUERY, other.uowid).status is Status.DELIVERED
        desk.give(StoreBack())
        assert black.sync(COMMIT, other.uowid).code is Code.OK
    else:
        desk.settle()
        assert (desk.answers[handle].code, desk.answers[handle].uowid) == (Code.OK, first.uowid)
    assert [message.payload for message in desk.paper.messages.values()] == [b"e5"]
    assert list(desk.paper.uows()) == [first.uowid]
    desk.is_slow = False
    assert white.receive(move.conv_id).body == b"e5"
    assert white.receive(move.conv_id).code is Code.END_OF_UOW


# What comes in wrong: a code each, and nothing is lost.


class Scene:
    """A unit of work at each stage, somebody else beside those whose they are, and all limits reached."""

    def __init__(self) -> None:
        self.desk = desk = Desk(attributes(max_uows="3", max_messages_in_uow="2", max_uow_message_length="10"))
        self.white, self.black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
        self.twin, self.eve = Person(desk, "BLACK", "PC3", caller=3), Person(desk, "EVE", "PC1", caller=4)
        self.other = Person(desk, "WHITE", "PC9", caller=5)
        self.black.register()
        self.done = self.white.send(b"done", uwstatp=2)
        self.black.sync(COMMIT, self.black.receive().uowid)
        self.received = self.white.send(b"received", uwstatp=2)
        self.black.receive()
        self.waiting = self.white.send(b"waiting")
        self.begun = self.white.send(b"begun 1", SYNC, uwstatp=2)
        self.white.send(b"begun 2", SYNC, self.begun.conv_id)
        self.message = self.white.send(b"message", NONE)
        self.twin.register()
        self.reader = Person(desk, "READER", "R", caller=6)
        self.reader.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
        self.news = Person(desk, "PAPER", "P", caller=7)
        said = self.news.call(Function.SEND_PUBLICATION, SYNC, publication_id="NEW", topic="NEWS", body=b"n")
        self.publication_id = said.reply.publication_id

    def state(self) -> object:
        world, units = self.desk.kernel.world, (self.done, self.received, self.waiting, self.begun)
        shown = [self.white.sync(Option.QUERY, each.uowid).reply for each in units]
        counts = (
            world.active_count,
            world.talk_count,
            len(world.units),
            world.kept_bytes,
            len(world.topics.publications),
        )
        return shown, counts, dict(self.desk.paper.messages), dict(self.desk.paper.keys), len(self.desk.paper.commits)

    def finish(self) -> None:
        """Do all that can still be done when nothing is lost."""
        black, white = self.black, self.white
        assert black.sync(COMMIT, self.received.uowid).code is Code.OK
        assert black.receive("NEW").body == b"waiting"
        assert black.sync(COMMIT, self.waiting.uowid).code is Code.OK
        assert white.sync(COMMIT, self.begun.uowid).code is Code.OK
        assert [black.receive("NEW").body, black.receive("OLD").body] == [b"begun 1", b"begun 2"]
        assert black.sync(COMMIT, self.begun.uowid).code is Code.OK
        assert black.receive("NEW", Option.MSG).body == b"message"
        self.news.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=self.publication_id)
        assert self.reader.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW").body == b"n"
        for each in (self.done, self.received, self.begun):
            assert white.sync(Option.QUERY, each.uowid).status is Status.PROCESSED


LONG_33, LONG_17 = "X" * 33, "X" * 17
OTHERS = (COMMIT, Option.BACKOUT, Option.CANCEL, Option.DELETE, Option.EOC, Option.EOCCANCEL, Option.SETUSTATUS)
STAGES = ("begun", "waiting", "received", "done")
Bad = Callable[[Scene], Said]


def _sync(who: str, option: Option, stage: str) -> Bad:
    def call(scene: Scene) -> Said:
        person: Person = getattr(scene, who)
        return person.sync(option, getattr(scene, stage).uowid, ustatus="mine")

    return call


BAD: dict[str, tuple[Bad, Code]] = {
    "a USER-ID too long": (lambda s: s.white.send(user_id=LONG_33), Code.INVALID_USER_ID),
    "a TOKEN too long": (lambda s: s.white.send(token=LONG_33), Code.OUT_OF_RANGE),
    "a CLASS too long": (lambda s: s.white.send(server_class=LONG_33), Code.INVALID_SERVICE_NAME),
    "a SERVICE too long": (lambda s: s.white.register(service=LONG_33), Code.INVALID_SERVICE_NAME),
    "a CONV-ID too long": (lambda s: s.white.send(conv_id=LONG_17), Code.OUT_OF_RANGE),
    "a UOWID too long": (lambda s: s.white.sync(COMMIT, LONG_17), Code.OUT_OF_RANGE),
    "a user status too long": (
        lambda s: s.white.sync(Option.SETUSTATUS, s.begun.uowid, ustatus=LONG_33),
        Code.OUT_OF_RANGE,
    ),
    "a TOPIC too long": (lambda s: s.reader.call(Function.SUBSCRIBE, topic="X" * 97), Code.OUT_OF_RANGE),
    "a PUBLICATION-ID too long": (
        lambda s: s.news.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=LONG_17),
        Code.OUT_OF_RANGE,
    ),
    "a control character in USER-ID": (lambda s: s.white.send(user_id="WH\0ITE"), Code.INVALID_USER_ID),
    "a control character in SERVICE": (lambda s: s.white.send(service="BL\nACK"), Code.INVALID_SERVICE_NAME),
    "a control character in the user status": (
        lambda s: s.white.send(b"x", SYNC, s.begun.conv_id, ustatus="\x1b[2J"),
        Code.INVALID_CHARACTER,
    ),
    "a pattern in SERVICE": (lambda s: s.white.send(service="B*"), Code.PATTERN_IN_NAME),
    "a reserved property": (
        lambda s: s.white.send(b"x", SYNC, s.begun.conv_id, properties={"broker-msgid": "00"}),
        Code.INVALID_CHARACTER,
    ),
    "a message too long": (lambda s: s.white.send(b"x" * 11, NONE, s.message.conv_id), Code.LENGTH_EXCEEDED),
    "a message too long for a unit of work": (
        lambda s: s.white.send(b"x" * 11, SYNC, s.begun.conv_id),
        Code.LENGTH_EXCEEDED,
    ),
    "a message too many": (lambda s: s.white.send(b"3", SYNC, s.begun.conv_id), Code.MAX_MESSAGES),
    "a message too many, with COMMIT": (lambda s: s.white.send(b"3", COMMIT, s.begun.conv_id), Code.MAX_MESSAGES),
    "a unit of work too many": (lambda s: s.white.send(b"x"), Code.MAX_UOWS),
    "a unit of work too many in a conversation": (
        lambda s: s.white.send(b"x", COMMIT, s.waiting.conv_id),
        Code.MAX_UOWS,
    ),
    **{
        f"{option.name} of somebody else's, {stage}": (_sync("eve", option, stage), Code.NOT_THE_CREATOR)
        for option in (*OTHERS, Option.QUERY)
        for stage in STAGES
    },
    **{
        f"{option.name} with another token, {stage}": (_sync("other", option, stage), Code.NOT_THE_CREATOR)
        for option in OTHERS
        for stage in STAGES
    },
    "SEND with another token": (lambda s: s.other.send(b"x", SYNC, s.begun.conv_id), Code.NO_CONVERSATION),
    "EOC with another token": (
        lambda s: s.other.call(Function.EOC, conv_id=s.begun.conv_id),
        Code.NO_CONVERSATION,
    ),
    "COMMIT of what its sender has not committed": (
        lambda s: s.black.sync(COMMIT, s.begun.uowid),
        Code.NOT_THE_CREATOR,
    ),
    "COMMIT by a server of what it has not received": (
        lambda s: s.black.sync(COMMIT, s.waiting.uowid),
        Code.NOT_THE_CREATOR,
    ),
    "COMMIT of what is not there": (lambda s: s.white.sync(COMMIT, "1000000100009999"), Code.UOW_NOT_FOUND),
    "COMMIT of what is complete": (lambda s: s.black.sync(COMMIT, s.done.uowid), Code.WRONG_STATUS),
    "COMMIT in another conversation": (
        lambda s: s.white.sync(COMMIT, s.begun.uowid, conv_id=s.waiting.conv_id),
        Code.UOW_NOT_FOUND,
    ),
    "COMMIT of both with one": (lambda s: s.white.sync(COMMIT, BOTH), Code.UOWS_NOT_FOUND),
    "BACKOUT of both": (lambda s: s.white.sync(Option.BACKOUT, BOTH), Code.UOWID_REQUIRED),
    "RECEIVE of what another server has": (lambda s: s.twin.receive(s.received.conv_id), Code.NO_CONVERSATION),
    "RECEIVE of what nobody has received yet, by its CONV-ID": (
        lambda s: s.twin.receive(s.waiting.conv_id),
        Code.NO_CONVERSATION,
    ),
    "RECEIVE of a new conversation by a client": (lambda s: s.eve.receive("NEW"), Code.RECEIVE_NEW_BY_CLIENT),
    "RECEIVE of any conversation by a client": (lambda s: s.eve.receive("ANY"), Code.RECEIVE_ANY_BY_CLIENT),
    "RECEIVE for no time": (lambda s: s.black.receive("NEW", wait="0S"), Code.INVALID_WAIT),
    "SEND that waits": (lambda s: s.white.send(b"x", SYNC, s.begun.conv_id, wait="YES"), Code.OPTION_WAIT),
    "a message in a conversation of units of work": (
        lambda s: s.white.send(b"x", NONE, s.waiting.conv_id),
        Code.MESSAGE_IN_UOW_CONVERSATION,
    ),
    "a unit of work in a conversation of messages": (
        lambda s: s.white.send(b"x", SYNC, s.message.conv_id),
        Code.UOW_IN_MESSAGE_CONVERSATION,
    ),
    "another STORE": (
        lambda s: s.white.send(b"x", SYNC, s.begun.conv_id, store=Store.OFF),
        Code.WRONG_UOW_TYPE,
    ),
    "a STORE that is none": (lambda s: s.white.send(store=7), Code.INVALID_STORE),
    "a UWSTATP out of range": (lambda s: s.white.send(uwstatp=256), Code.OUT_OF_RANGE),
    "a UWTIME that is none": (lambda s: s.white.send(uwtime="soon"), Code.INVALID_NUMBER),
    "a UWTIME of no time": (lambda s: s.white.send(uwtime="0S"), Code.OUT_OF_RANGE),
    "an option of another function": (lambda s: s.white.send(b"x", Option.QUERY), Code.FUNCTION_OPTION),
    "EOC over a unit of work that is not committed": (
        lambda s: s.white.call(Function.EOC, conv_id=s.begun.conv_id),
        Code.MUST_BACK_OUT,
    ),
    "EOC over a unit of work that is being received": (
        lambda s: s.black.call(Function.EOC, conv_id=s.received.conv_id),
        Code.MUST_BACK_OUT,
    ),
    "DEREGISTER over a unit of work that is being received": (
        lambda s: s.black.call(Function.DEREGISTER, **CHESS),
        Code.DEREGISTER_NOT_COMPLETE,
    ),
    "DEREGISTER by a client": (lambda s: s.white.call(Function.DEREGISTER, **CHESS), Code.DEREGISTER_BY_CLIENT),
    "another broker's id": (lambda s: s.white.send(broker_id="ETB999"), Code.INVALID_BROKER_ID),
    "a publication of somebody else": (
        lambda s: s.eve.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=s.publication_id),
        Code.NOT_THE_CREATOR,
    ),
    "an acknowledgement of what is not committed": (
        lambda s: s.reader.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=s.publication_id),
        Code.WRONG_STATUS,
    ),
    "RECEIVE_PUBLICATION by who has not subscribed": (
        lambda s: s.eve.call(Function.RECEIVE_PUBLICATION, topic="NEWS", publication_id="NEW"),
        Code.UOW_NOT_FOUND,
    ),
}


@for_each("what", BAD)
def test_what_comes_in_wrong_gets_its_code_and_nothing_is_lost(what: str) -> None:
    scene = Scene()
    call, code = BAD[what]
    before = scene.state()
    assert call(scene).code is code
    assert scene.state() == before
    scene.finish()


@pytest.mark.parametrize("first", ["black", "twin"])
@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("uwstatp", [255, 2])
def test_of_two_receivers_that_race_for_a_conversation_one_gets_it(first: str, is_slow: bool, uwstatp: int) -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", "PC1"), Person(desk, "BLACK", "PC2", caller=2)
    twin = Person(desk, "BLACK", "PC3", caller=3)
    for server in (black, twin):
        server.register()
    racers = [black, twin] if first == "black" else [twin, black]
    sent = white.send(b"one", uwstatp=uwstatp)
    desk.is_slow = is_slow
    handles = [each.start(Function.RECEIVE, SYNC, conv_id="NEW", **CHESS) for each in racers]
    desk.settle()
    won, lost = (desk.answers[handle] for handle in handles)
    assert (won.body, lost.code) == (b"one", Code.NO_CONVERSATION)
    assert lost.body is None and lost.conv_id == ""
    desk.is_slow = False
    assert racers[1].receive(sent.conv_id).code is Code.NO_CONVERSATION
    assert racers[1].sync(COMMIT, sent.uowid).code is Code.NOT_THE_CREATOR
    assert racers[0].sync(Option.BACKOUT, sent.uowid).code is Code.OK
    assert racers[1].receive("NEW").uowid == sent.uowid, "what one gives back the other may have"
    assert racers[1].sync(COMMIT, sent.uowid).code is Code.OK


@pytest.mark.parametrize("left", [0, 1])
def test_when_identifiers_are_used_up_nothing_is_begun(desk: Desk, white: Person, black: Person, left: int) -> None:
    sent = white.send(b"x")
    desk.kernel.world.identifiers._count = COUNT_MAX - left
    counts = (desk.kernel.world.active_count, desk.kernel.world.talk_count)
    assert white.send(b"y").code is Code.NO_NEW_UOWID
    assert white.call(Function.SUBSCRIBE, topic="NEWS").code is Code.NO_NEW_UOWID
    assert (desk.kernel.world.active_count, desk.kernel.world.talk_count) == counts
    assert black.receive().uowid == sent.uowid


# Anything at all.

WORDS = st.sampled_from(
    ["", "NEW", "OLD", "ANY", "NONE", "BOTH", "x", "1000000100000001", "1000000100000002", "ü", "*"]
)
REQUESTS = st.fixed_dictionaries(
    {
        "function": st.sampled_from([*Function, 0, 99]),
        "option": st.sampled_from([*Option, 77]),
        "api_version": st.integers(-1, 14),
        "user_id": st.sampled_from(["WHITE", "BLACK", "", "x" * 33]),
        "token": st.sampled_from(["T", ""]),
        "conv_id": WORDS,
        "uowid": WORDS,
        "publication_id": WORDS,
        "topic": st.sampled_from(["", "NEWS", "x" * 97]),
        "server_class": st.sampled_from(["GAME", "", "*", "x" * 33, "\n"]),
        "server_name": st.sampled_from(["CHESS", ""]),
        "service": st.sampled_from(["BLACK", ""]),
        "wait": st.sampled_from(["", "NO", "YES", "1S", "0S", "-1", "soon"]),
        "uwtime": st.sampled_from(["", "1S", "0S", "x", "999999999D"]),
        "uwstatp": st.integers(-1, 256),
        "uwstat_lifetime": st.sampled_from(["", "5S", "?"]),
        "store": st.sampled_from([*Store, 7]),
        "ustatus": st.sampled_from(["", "s", "s" * 33]),
        "error_code": st.sampled_from(["", "00740301", "x", "12345678"]),
        "properties": st.sampled_from([None, {"a": "b"}, {"broker-msgid": "x"}]),
        "body": st.sampled_from([b"", b"x"]),
    }
)


@pytest.mark.parametrize("count", split([100], [300]))
def test_any_call_is_answered_with_a_code_or_waits(count: int) -> None:
    some = st.lists(st.tuples(REQUESTS, st.integers(1, 3)), max_size=12)
    settings(max_examples=count, deadline=None)(given(some)(is_answered_or_waits))()


def is_answered_or_waits(calls: list[tuple[dict[str, Any], int]]) -> None:
    desk = Desk()
    for person in (Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)):
        person.register()
        person.send()
    for fields, caller in calls:
        handle = desk.start(fields.pop("function"), fields.pop("option"), caller=caller, **fields)
        waits = desk.kernel.world.parking.of_handle(handle) is not None
        assert waits or isinstance(desk.answers[handle].code, Code)


# Mistakes of the kernel itself.


class Mistake(Exception):
    """What should never happen."""


@pytest.mark.parametrize("function", [Function.SEND, Function.RECEIVE, Function.SYNCPOINT])
def test_a_mistake_of_the_kernel_is_answered_and_logged_and_has_changed_nothing(
    desk: Desk, white: Person, black: Person, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = white.send(b"x")
    before = white.sync(Option.QUERY, sent.uowid).reply

    def fails(*_: object) -> None:
        raise Mistake

    with monkeypatch.context() as patched:
        patched.setitem(kernel_module._FUNCTIONS, function, fails)
        request = Request(
            function=function, option=SYNC, user_id="WHITE", token="PC1", conv_id=sent.conv_id, uowid=sent.uowid
        )
        if function is Function.SYNCPOINT:
            request.option = Option.QUERY
        effects = desk.kernel.take(Call(request, 1, 999), 0)
    answers = [effect for effect in effects if isinstance(effect, Answer)]
    assert [each.reply.code for each in answers] == [kernel_module.INTERNAL_ERROR]
    assert any(isinstance(effect, Log) and "Mistake" in effect.text for effect in effects)
    assert white.sync(Option.QUERY, sent.uowid).reply == before


def test_a_mistake_outside_a_call_is_logged(desk: Desk, white: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise Mistake

    monkeypatch.setattr(kernel_module, "confirm", fails)
    effects = desk.kernel.take(Durable(1, 0), 0)
    assert len(effects) == 1 and isinstance(effects[0], Log) and "Mistake" in effects[0].text


def test_an_empty_set_of_attributes_still_answers() -> None:
    desk = Desk(attributes(max_uows="0"))
    anybody = Person(desk, "X", logs_on=False)
    assert anybody.call(Function.SET).code is Code.INVALID_FUNCTION
