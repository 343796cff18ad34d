"""Scripts of the broker's world that chance makes hardly ever."""

import errno

import pytest

from tests.simulation.broker import damage
from tests.simulation.broker.holding import FREED, REPEATED
from tests.simulation.broker.steps import Crash, Do, Fail, Move, Reconfigure, Restore, Room, Setting, TakeOver
from tests.simulation.playing import play_script
from tests.simulation.world import Script, Seen
from tests.simulation.worlds import WORLDS

HELD = [Do("circulate", 0), Do("exchange", 0), Restore("killed", 0)]  # an answer, and a publication for one of two


def _played(script: Script) -> Seen:
    played = play_script(WORLDS["broker"], script)
    assert played.failure is None, f"{played.failure.promise}\n{played.failure.found}"
    return played.seen


def test_who_receives_without_the_store_is_told_so_or_that_there_is_nothing_where_something_is_postponed() -> None:
    _played(
        [
            Reconfigure(1),
            Do("send", 0),
            Do("exchange", 740088164),
            Reconfigure(0),
            Do("exchange", 0),
            Fail("write_durably", 1, errno.EIO),
            Do("exchange", 0),
        ]
    )


def test_a_machine_may_end_when_a_standby_has_just_taken_over() -> None:
    crash = Crash("power cut", 29, 0, (9, 9))
    _played([Do("go_on", 0), TakeOver(2), Do("syncpoint", 0), TakeOver(3), crash, Do("compact", 0)])


def test_who_was_not_answered_repeats_and_is_told_what_a_receiver_has_had_since() -> None:
    _played([TakeOver(2), Do("repeat", 0), Do("exchange", 0), Do("repeat", 0)])


@pytest.mark.whole
@pytest.mark.parametrize("ending", ["power cut", "killed"])
@pytest.mark.parametrize("order", ["release_queue", "discard_queue"])
@pytest.mark.parametrize("change", range(1, 5))
def test_what_is_decided_about_all_that_is_held_is_completed_by_a_repetition(
    ending: str, order: str, change: int
) -> None:
    seen = _played([*HELD, Crash(ending, change, change), Do(order, 0)])

    assert seen.checked[REPEATED] and seen.checked[FREED]
    operation = order.removesuffix("_queue")
    assert any(met[:2] == (ending, operation) for met in seen.met)


@pytest.mark.whole
@pytest.mark.parametrize("change", range(1, 12))
def test_a_first_start_that_is_killed_anywhere_holds_the_same(change: int) -> None:
    _played([*HELD[:-1], Restore("killed", 0, (change,)), Do("release", 0), Do("discard", 1)])


def test_who_goes_away_while_the_disk_is_full_goes_and_the_store_hears_of_it_once_there_is_room() -> None:
    seen = _played(
        [
            Crash("killed", 1, 0),
            Room(5881),
            Do("send", 1),
            Do("all_at_once", 146194866),
            Room(14000),
            Do("acknowledge", 0),
            Do("send", 3134551482),
            Do("all_at_once", 0),
            Crash("power cut", 0, 0),
            Do("go_on", 0),
            Do("exchange", 0),
            Do("exchange", 1),
            Crash("killed", 0, 0, (11,)),
            Do("all_at_once", 200940815),
            Do("send", 933060571),
            Do("exchange", 0),
            Do("go", 0),
        ]
    )

    assert any(met[0] == "full disk" for met in seen.met)


def test_the_first_file_of_a_moved_and_restored_store_may_show_a_file_of_the_one_that_was_moved() -> None:
    steps = [Do("circulate", 0), Do("lose_or_find", 0), Do("lose_or_find", 0), Do("compact", 0)]
    _played([*steps, Move("killed", 0, (27, 33)), Restore("power cut", 3720132089, (15,))])


def test_a_play_is_over_where_it_may_have_gone_more_ways_than_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [Do("circulate", 0), Crash("killed", 1, 0), Do("subscribe", 3), Do("publish", 1), Do("send", 1)]
    doubt = "too many ways that it may have gone"
    assert doubt not in {fault for fault, _, _ in _played(script).met}
    monkeypatch.setattr(damage, "STATES_MAX", 1)
    assert doubt in {fault for fault, _, _ in _played(script).met}


def test_of_what_ends_with_one_tick_in_one_conversation_a_crash_may_leave_some() -> None:
    began = [Do("come_or_go", 1), Do("send", 54345720), Do("syncpoint", 872327953), Do("come_or_go", 0)]
    _played([*began, Do("send", 3964439518), Crash("power cut", 2, 0), Do("pass_time", 375579140)])


def test_of_several_reasons_for_a_refusal_any_may_be_told() -> None:
    began = [Do("send", 1), Do("all_at_once", 0), Fail("write_durably", 1, 0), Room(0), Do("send", 0)]
    _played([*began, Do("hesitate", 0), Do("lose_or_find", 0), Do("repeat", 0), Do("go_on", 0)])


def test_what_a_database_keeps_whose_opening_has_failed_goes_with_it() -> None:
    began = [Setting(65536, 1, 1, is_forgetful=False), Crash("power cut", 0, 0), Do("circulate", 0)]
    sent = [Do("hesitate", 83549962), Do("send", 3589312430), Do("exchange", 230368438), Do("send", 1)]
    _played([*began, *sent, Fail("write_durably", 4, 0), Do("exchange", 0), Do("compact", 0)])


def test_who_waited_is_served_before_a_store_that_is_found_has_heard_of_who_has_gone() -> None:
    began = [Do("hesitate", 0), Do("lose_or_find", 0), Crash("power cut", 1, 0, (20, 20)), Do("go", 97611509)]
    _played([*began, Do("wait", 0), Do("lose_or_find", 0)])


@pytest.mark.whole
def test_what_is_backed_out_twice_is_a_dead_letter_whatever_ends_the_process() -> None:
    moved = [Reconfigure(2), Do("refuse", 0), Do("refuse", 0)]
    for change in range(1, 6):
        _played([*moved[:2], Crash("power cut", change, 0), *moved[1:]])
