"""Scripts of the engine's simulated world that the checker once judged wrongly, or that chance makes hardly ever."""

import pytest

from tests.faulty_bytes import SECTOR
from tests.simulation.engine_steps import (
    Add,
    AddMany,
    CleanUp,
    Close,
    Death,
    Fail,
    Look,
    Misplace,
    PowerCut,
    Remove,
    Reopen,
    Rot,
    Silence,
    Space,
    Tend,
)
from tests.simulation.playing import play_script
from tests.simulation.world import Script, Step
from tests.simulation.worlds import WORLDS


def _assert_nothing_breaks(script: Script) -> None:
    failure = play_script(WORLDS["engine"], script).failure
    assert failure is None, f"{failure.promise}\n{failure.found}"


@pytest.mark.parametrize("what", ["gone", "emptied"])
@pytest.mark.parametrize("after", range(1, 11))
def test_a_file_that_a_killed_clean_up_was_to_remove_is_missed_by_nobody(what: str, after: int) -> None:
    """Once the mark is durable, each file below it may go, be there, or be anything."""
    adds = [Add(0, 2600, seed) for seed in range(3)]
    clean_up = [Tend(), adds[2], Silence(1.0), Death(after), CleanUp(compact=False)]
    _assert_nothing_breaks([*adds[:2], Remove((0, 1), delivers=True), *clean_up, Misplace(what, 0)])


@pytest.mark.parametrize("end", ["killed", "power cut"])
@pytest.mark.parametrize("after", range(1, 25))
def test_what_a_start_has_found_that_was_ended_is_told_by_the_next_one(end: str, after: int) -> None:
    """The rot has gone with the repair: what must be found is known from before it."""
    work = [AddMany(1, (0, 1, 100, 20), 0), Silence(1.0), Remove((0,), delivers=True), AddMany(0, (300, 300), 1)]
    rot = [Rot(0, 0.26, SECTOR, 1), Rot(1, 0.26, 0, 1)]
    cut = PowerCut(after, 3) if end == "power cut" else Death(after)
    _assert_nothing_breaks([*work, Add(2, 3000, 2), Add(2, 600, 3), Close(), *rot, cut, Look(), Look()])


@pytest.mark.parametrize("end", [Close(), Reopen()], ids=["closed", "opened anew"])
@pytest.mark.parametrize("verb", ["write", "sync", "truncate"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_what_could_not_be_sealed_when_it_was_closed_is_opened_again(verb: str, nth: int, end: Step) -> None:
    """The caller is told; the directory is let go of all the same, and all that was acknowledged is there."""
    work = [AddMany(0, (2600, 60), 0), Fail(verb, nth), end]
    _assert_nothing_breaks([*work, Remove((1,), delivers=False), Add(0, 8, 1), Look()])


@pytest.mark.parametrize("end", [Close(), Reopen()], ids=["closed", "opened anew"])
def test_what_found_no_room_when_it_was_closed_is_opened_again(end: Step) -> None:
    work = [AddMany(0, (2600, 60), 0), Space(0), end, Space(None)]
    _assert_nothing_breaks([*work, Remove((1,), delivers=False), Add(0, 8, 1), Look()])


@pytest.mark.parametrize("end", ["killed", "power cut"])
def test_what_a_start_was_to_hold_that_was_ended_is_held_by_one_that_was_not_to_hold_anything(
    end: str,
) -> None:
    """Also where the mark of clean-up has rotted: what is lost then is only told by the report, if anybody has that."""
    work = [Add(0, 2600, 1), Add(0, 2600, 2), Add(1, 20, 3), Silence(1.0), Remove((0,), delivers=True)]
    work += [CleanUp(compact=False), Add(1, 20, 4), Silence(1.0), Close(), Rot(1, 0.25, SECTOR, 1)]
    for after in range(1, 65):  # a start that comes to its end among them
        cut = PowerCut(after, 0) if end == "power cut" else Death(after)
        _assert_nothing_breaks([*work, Reopen(holds=True), cut, Look(), Reopen(), Look()])


@pytest.mark.parametrize("end", ["killed", "power cut"])
@pytest.mark.parametrize("after", range(1, 45))
def test_what_was_torn_and_a_start_has_dropped_that_was_ended_is_told_by_one_that_would_not_have(
    end: str, after: int
) -> None:
    """There is nothing left that it might refuse."""
    torn = [Reopen(alignment=512), AddMany(0, (100, 0, 60), 0), PowerCut(0, 0), Rot(0, 0.2847, 0, 0)]
    cut = PowerCut(after, 0) if end == "power cut" else Death(after)
    _assert_nothing_breaks([*torn, cut, Look(), Reopen(policy="refuse")])
