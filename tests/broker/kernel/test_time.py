"""Time: lifetimes on the pseudo-clock, statuses, waits, non-activity of participants and conversations."""

import pytest

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Commit, StoreBack, StoreLost, Tick
from oms_journal.broker.records import CLOCK, CLOCK_KEY, Status
from tests.support.broker.kernel_desk import CHESS, SECOND, Desk, Person, attributes
from tests.support.sweeps import a_sample, for_each

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE
LONG = {"client_nonact": "UNLIM", "server_nonact": "UNLIM", "conv_nonact": "UNLIM"}


def people(desk: Desk) -> tuple[Person, Person]:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    return white, black


@pytest.mark.parametrize(("uwtime", "seconds"), [("10S", 10), ("2M", 120), ("3H", 10800), ("1D", 86400)])
@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
def test_the_lifetime_is_what_uwtime_says(uwtime: str, seconds: int, store: Store) -> None:
    desk = Desk(attributes(**LONG))
    white, _ = people(desk)
    sent = white.send(b"x", uwtime=uwtime, uwstatp=1, store=store)
    desk.tick(seconds - 1)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    desk.tick(1)
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.TIMEOUT, 1)
    assert desk.paper.messages == {}


LATE = [0.0, 0.03, 0.5, 0.999]  # seconds between the last tick and what begins


@for_each("late", LATE)
@for_each("option", [SYNC, COMMIT, Option.EOC])
@for_each("store", [Store.OFF, Store.BROKER])
def test_no_lifetime_is_over_before_its_time_wherever_between_two_ticks_it_begins(
    store: Store, option: Option, late: float
) -> None:
    desk = Desk(attributes(**LONG))
    white, _ = people(desk)
    desk.go_on(late)
    sent = white.send(b"x", option, uwtime="1S", uwstatp=2, store=store)
    if option is SYNC:
        white.sync(COMMIT, sent.uowid)
    desk.tick(late + 0.999)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED
    desk.go_on(0.001)
    desk.tick(0.001)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.TIMEOUT


@pytest.mark.parametrize("late", LATE)
def test_no_status_is_forgotten_before_its_time(late: float) -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    sent = white.send(b"x", uwtime="60S", uwstatp=1)
    black.receive()
    desk.go_on(late)
    black.sync(COMMIT, sent.uowid)
    desk.tick(late + 59.999)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.PROCESSED
    desk.tick(0.001)
    assert white.sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND


@pytest.mark.parametrize("late", LATE)
def test_no_wait_is_over_before_its_time(late: float) -> None:
    desk = Desk(attributes(**LONG))
    people(desk)
    desk.go_on(late)
    handle = desk.start(Function.RECEIVE, SYNC, caller=2, user_id="BLACK", token="T", conv_id="ANY", wait="1S", **CHESS)
    desk.tick(late + 0.999)
    assert handle not in desk.answers
    desk.tick(0.001)
    assert desk.answers[handle].code is Code.WAIT_TIMED_OUT


@pytest.mark.parametrize("late", LATE)
def test_nobody_is_taken_for_silent_before_the_time(late: float) -> None:
    desk = Desk(attributes(client_nonact="10S"))
    white = Person(desk, "WHITE", "T")
    desk.go_on(late)
    white.sync(Option.LAST, "")
    desk.tick(late + 9.999)
    assert "WHITE" in {name[0] for name in desk.kernel.world.participants}


def test_the_lifetime_begins_with_the_creation_and_runs_out_in_accepted_only() -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    begun = white.send(b"x", SYNC, uwtime="60S", uwstatp=1)
    desk.tick(100)
    assert white.sync(Option.QUERY, begun.uowid).status is Status.RECEIVED
    white.sync(COMMIT, begun.uowid)
    desk.tick(1)
    assert white.sync(Option.QUERY, begun.uowid).status is Status.TIMEOUT

    sent = white.send(b"y", uwtime="60S", uwstatp=1)
    black.receive()
    desk.tick(100)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.DELIVERED


@pytest.mark.parametrize("uwstatp", [1, 255])
@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
def test_what_is_backed_out_past_its_lifetime_times_out_at_once(store: Store, uwstatp: int) -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    sent = white.send(b"x", uwtime="60S", uwstatp=uwstatp, store=store)
    black.receive()
    desk.tick(60)
    assert black.sync(Option.BACKOUT, sent.uowid).status is Status.TIMEOUT
    assert black.receive().code is Code.NO_CONVERSATION
    asked = white.sync(Option.QUERY, sent.uowid)
    assert asked.status is (Status.TIMEOUT if uwstatp == 1 else None)
    assert desk.paper.messages == {}


def test_the_status_lives_for_a_multiple_of_the_lifetime_from_completion() -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    sent = white.send(b"x", uwtime="5M", uwstatp=4)
    desk.tick(200)
    black.sync(COMMIT, black.receive().uowid)
    desk.tick(20 * 60 - 1)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.PROCESSED
    desk.tick(1)
    assert white.sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND
    assert desk.paper.uows() == {}


@pytest.mark.parametrize(
    ("uwstatp", "explicit", "seconds"), [(2, "", 20), (2, "5S", 25), (0, "7S", 7), (254, "", 2540)]
)
def test_the_status_lifetime_is_the_multiple_and_what_is_given_explicitly(
    uwstatp: int, explicit: str, seconds: int
) -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    sent = white.send(b"x", uwtime="10S", uwstatp=uwstatp, uwstat_lifetime=explicit)
    black.sync(COMMIT, black.receive().uowid)
    desk.tick(seconds - 1)
    assert white.sync(Option.QUERY, sent.uowid).code is Code.OK
    desk.tick(1)
    assert white.sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND


def test_a_status_of_a_unit_of_work_without_an_end_stays_until_it_is_deleted() -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    sent = white.send(b"x", uwstatp=1)
    black.sync(COMMIT, black.receive().uowid)
    desk.tick(10**9)
    assert white.sync(Option.QUERY, sent.uowid).status is Status.PROCESSED


def test_the_pseudo_clock_stands_still_while_the_store_is_away_and_the_second_count_does_not() -> None:
    desk = Desk(attributes(**LONG))
    white, _ = people(desk)
    kept = white.send(b"x", uwtime="60S")
    passing = white.send(b"y", uwtime="60S", store=Store.OFF)
    desk.give(StoreLost("unplugged"))
    desk.tick(1000)
    assert white.sync(Option.QUERY, kept.uowid).status is Status.ACCEPTED
    assert white.sync(Option.QUERY, passing.uowid).code is Code.UOW_NOT_FOUND
    desk.give(StoreBack())
    desk.tick(59)
    assert white.sync(Option.QUERY, kept.uowid).status is Status.ACCEPTED
    desk.tick(1)
    assert white.sync(Option.QUERY, kept.uowid).code is Code.UOW_NOT_FOUND


def test_the_pseudo_clock_is_written_while_something_lives_on_it_and_only_then() -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)

    def written() -> int | None:
        value = desk.paper.keys.pop(CLOCK_KEY, None)
        return None if value is None else CLOCK.decode(value).clock

    desk.tick(5)
    assert written() is None
    white.send(b"no end")
    white.send(b"not persistent", uwtime="60S", store=Store.OFF)
    desk.tick(5)
    assert written() is None
    sent = white.send(b"x", uwtime="60S", uwstatp=1)
    desk.tick(5)
    assert written() == 15 * SECOND
    black.call(Function.DEREGISTER, **CHESS)
    other = white.send(b"asleep", uwtime="30S")
    white.sync(Option.CANCEL, sent.uowid)
    desk.tick(5)
    assert written() == 20 * SECOND
    white.sync(Option.CANCEL, other.uowid)
    white.sync(Option.DELETE, sent.uowid)
    desk.tick(5)
    assert written() is None


def test_a_delay_that_begins_when_nothing_lived_on_the_clock_is_no_longer_after_a_restart() -> None:
    desk = Desk(attributes(**LONG, max_delivery_count="1", postpone_attempts="1", postpone_delay="60S"))
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    desk.tick(10_000)
    white.send(b"1")
    assert black.sync(Option.BACKOUT, black.receive().uowid).status is Status.POSTPONED
    again = desk.restart()
    black = Person(again, "BLACK", "T", caller=2)
    black.register()
    again.tick(59)
    assert black.receive().code is Code.NO_CONVERSATION
    again.tick(1)
    assert black.receive().body == b"1"


def test_a_tick_while_the_clock_is_being_written_does_not_write_it_again() -> None:
    desk = Desk(attributes(**LONG))
    white, _ = people(desk)
    white.send(b"x", uwtime="1H")
    desk.is_slow = True
    effects = [effect for _ in range(3) for effect in desk.give(Tick(SECOND))]
    assert sum(isinstance(effect, Commit) for effect in effects) == 1


@a_sample(2)
@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
@pytest.mark.parametrize("uwstatp", [255, 1])
def test_many_units_of_work_time_out_in_commits_of_bounded_size(is_served: bool, store: Store, uwstatp: int) -> None:
    desk = Desk(attributes(**LONG))
    white, black = people(desk)
    if not is_served:
        black.call(Function.DEREGISTER, **CHESS)
    count = 2500
    for at in range(count):
        assert white.send(b"%d" % at, uwtime="60S", store=store, uwstatp=uwstatp).code is Code.OK
    late = white.send(b"late", uwtime="61S", store=store, uwstatp=uwstatp)
    desk.paper.commits.clear()
    desk.tick(60)
    world = desk.kernel.world
    assert world.active_count == 1
    assert max((len(each.drops) + len(each.puts) for each in desk.paper.commits), default=0) <= 1000
    assert len(desk.paper.messages) == (store is Store.BROKER)
    black.register()
    assert black.receive().uowid == late.uowid
    if uwstatp == 1:
        desk.tick(60)
        assert len(desk.paper.uows()) == 1


def test_what_times_out_is_not_looked_for_among_what_does_not() -> None:
    desk = Desk(attributes(**LONG))
    white, _ = people(desk)
    for _ in range(300):
        white.send(b"x", uwtime="1H", store=Store.OFF)
    seen = []
    order = desk.kernel.world.dues.passing
    for entry in order.up_to(desk.kernel.world.clocks.volatile + 60 * SECOND):
        seen.append(entry)
    assert seen == []


# Postponing.


def test_what_was_tried_too_often_is_put_off_for_a_while_and_then_a_dead_letter() -> None:
    desk = Desk(attributes(max_delivery_count="2", postpone_attempts="2", postpone_delay="30S", **LONG))
    white, black = people(desk)
    sent = white.send(b"poison", uwstatp=1)
    statuses = []
    for _ in range(4):
        assert black.receive("NEW").uowid == sent.uowid
        statuses.append(black.sync(Option.BACKOUT, sent.uowid).status)
        if statuses[-1] is Status.POSTPONED:
            assert black.receive("NEW").code is Code.NO_CONVERSATION
            assert desk.paper.uows()[sent.uowid].status is Status.POSTPONED
            desk.tick(29)
            assert black.receive("NEW").code is Code.NO_CONVERSATION
            desk.tick(1)
    accepted, postponed = Status.ACCEPTED, Status.POSTPONED
    assert statuses == [accepted, postponed, postponed, Status.CANCELLED]
    record = desk.paper.uows()[sent.uowid]
    assert (record.status, record.adcount, record.postpones) == (Status.CANCELLED, 4, 2)
    assert [message.queue for message in desk.paper.messages.values()] == ["QUEUE/DEAD-LETTER/-"]


@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
def test_what_is_put_off_can_be_cancelled_and_times_out_when_its_delay_is_over(store: Store) -> None:
    desk = Desk(attributes(max_delivery_count="1", postpone_attempts="9", postpone_delay="30S", **LONG))
    white, black = people(desk)
    first, second = (white.send(b"x", uwtime="20S", uwstatp=9, store=store) for _ in range(2))
    for sent in (first, second):
        black.receive("NEW")
        assert black.sync(Option.BACKOUT, sent.uowid).status is Status.POSTPONED
    assert white.sync(Option.CANCEL, first.uowid).status is Status.CANCELLED
    desk.tick(25)
    assert white.sync(Option.QUERY, second.uowid).status is Status.POSTPONED
    desk.tick(5)
    assert white.sync(Option.QUERY, second.uowid).status is Status.TIMEOUT


def test_a_unit_of_work_that_is_put_off_holds_up_its_conversation_and_no_other() -> None:
    desk = Desk(attributes(max_delivery_count="1", postpone_attempts="1", postpone_delay="30S", **LONG))
    white, black = people(desk)
    first = white.send(b"1")
    white.send(b"1b", COMMIT, first.conv_id)
    white.send(b"2")
    black.receive("NEW")
    black.sync(Option.BACKOUT, first.uowid)
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    assert desk.answers[waiting].body == b"2"
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="60S", **CHESS)
    desk.tick(30)
    assert desk.answers[waiting].body == b"1"


# Non-activity.


def test_a_silent_client_is_forgotten_and_its_conversations_end() -> None:
    desk = Desk(attributes(client_nonact="10M", conv_nonact="UNLIM", server_nonact="UNLIM"))
    white, black = people(desk)
    sent = white.send(b"1", NONE)
    black.receive("NEW", NONE)
    desk.tick(599)
    assert black.receive(sent.conv_id, NONE).code is Code.NO_MESSAGE
    desk.tick(1)
    assert black.receive(sent.conv_id, NONE).code is Code.PARTNER_TIMED_OUT
    assert white.sync(Option.LAST).code is Code.LOGON_REQUIRED


def test_a_silent_server_is_deregistered() -> None:
    desk = Desk(attributes(client_nonact="UNLIM", conv_nonact="UNLIM", server_nonact="3M"))
    white, black = people(desk)
    sent = white.send(b"1", NONE)
    black.receive("NEW", NONE)
    desk.tick(180)
    assert white.receive(sent.conv_id, NONE).code is Code.PARTNER_TIMED_OUT
    assert white.send(b"1", NONE).code is Code.SERVICE_NOT_REGISTERED


def test_who_calls_is_not_silent_and_neither_is_who_waits() -> None:
    desk = Desk(attributes(client_nonact="60S", server_nonact="60S", conv_nonact="UNLIM"))
    white, black = people(desk)
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="10M", **CHESS)
    for _ in range(5):
        desk.tick(50)
        assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    assert waiting not in desk.answers
    white.send(b"x")
    assert desk.answers[waiting].body == b"x"


@pytest.mark.parametrize("status", [Status.RECEIVED, Status.ACCEPTED, Status.DELIVERED])
def test_no_participant_times_out_while_its_unit_of_work_lives(status: Status) -> None:
    desk = Desk(attributes(client_nonact="60S", server_nonact="60S", conv_nonact="UNLIM"))
    white, black = people(desk)
    sent = white.send(b"x", SYNC if status is Status.RECEIVED else COMMIT)
    if status is Status.DELIVERED:
        black.receive()
    for _ in range(10):
        desk.tick(60)
    assert white.sync(Option.QUERY, sent.uowid).status is status
    assert (black.sync(Option.LAST).code is Code.UOW_NOT_FOUND) == (status is Status.DELIVERED)
    white.sync(Option.BACKOUT if status is Status.RECEIVED else Option.CANCEL, sent.uowid)
    if status is Status.DELIVERED:
        black.sync(COMMIT, sent.uowid)
    desk.tick(120)
    assert white.sync(Option.LAST).code is Code.LOGON_REQUIRED


def test_a_silent_conversation_ends_for_both() -> None:
    desk = Desk(attributes(client_nonact="UNLIM", server_nonact="UNLIM", conv_nonact="2M"))
    white, black = people(desk)
    sent = white.send(b"1", NONE)
    black.receive("NEW", NONE)
    desk.tick(100)
    white.send(b"2", NONE, sent.conv_id)
    desk.tick(100)
    assert black.receive(sent.conv_id, NONE).body == b"2"
    waiting = white.start(Function.RECEIVE, NONE, conv_id=sent.conv_id, wait="1H")
    desk.tick(120)
    assert desk.answers[waiting].code is Code.CONVERSATION_TIMED_OUT
    assert black.receive(sent.conv_id, NONE).code is Code.CONVERSATION_TIMED_OUT
    assert white.send(b"3", NONE, sent.conv_id).code is Code.CONVERSATION_TIMED_OUT


@pytest.mark.parametrize("is_received", [True, False])
def test_a_conversation_with_a_unit_of_work_that_waits_or_is_received_does_not_end(is_received: bool) -> None:
    desk = Desk(attributes(client_nonact="UNLIM", server_nonact="UNLIM", conv_nonact="2M"))
    white, black = people(desk)
    sent = white.send(b"1")
    if is_received:
        black.receive()
    for _ in range(5):
        desk.tick(120)
    assert white.send(b"it goes on", SYNC, sent.conv_id).code is Code.OK
    white.sync(Option.BACKOUT, white.sync(Option.LAST).uowid)
    if not is_received:
        assert black.receive().body == b"1"
    assert black.sync(COMMIT, sent.uowid).code is Code.OK
    desk.tick(240)
    assert white.send(b"2", COMMIT, sent.conv_id).code is Code.CONVERSATION_TIMED_OUT
