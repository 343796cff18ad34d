"""Scripts of the world of backups that chance makes hardly ever."""

import pytest

from tests.simulation.backup.steps import Restore, Ship
from tests.simulation.engine.steps import (
    Add,
    AddMany,
    CleanUp,
    Close,
    Death,
    Group,
    LetGo,
    Look,
    Misplace,
    PowerCut,
    Put,
    Remove,
    Reopen,
)
from tests.simulation.playing import play_script
from tests.simulation.world import Script
from tests.simulation.worlds import WORLDS
from tests.support.sweeps import a_sample


def _assert_nothing_breaks(script: Script) -> None:
    failure = play_script(WORLDS["backup"], script).failure
    assert failure is None, f"{failure.promise}\n{failure.found}"


@a_sample(10)
@pytest.mark.parametrize("kill", range(1, 46))
def test_a_restore_that_is_killed_anywhere_is_unfinished_or_the_database(kill: int) -> None:
    """At its last call its note is removed, and not durably yet: after a power cut it is to be run again."""
    steps = [Add(0, 0, 0), Close(), Ship(0, 0, True), Restore(0, 0, True, (kill,), False), LetGo((25, 9), False)]
    _assert_nothing_breaks(steps)


@a_sample(8)
@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_a_commit_that_was_on_its_way_when_the_power_went_may_be_in_the_backup(after: int, seed: int) -> None:
    """Nobody was told of it; a clean-up that may have come before it makes a backup take it. So nothing went on."""
    adds = [Reopen(7680, 64), Add(0, 2600, 0), Add(0, 600, 1), Remove((0,), delivers=True), CleanUp(compact=True)]
    _assert_nothing_breaks([*adds, PowerCut(after, seed), Add(0, 0, 2), Ship(), Restore(0, 0, True)])


@pytest.mark.parametrize("after", [11, 13])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_killed_start_has_taken_in_and_a_backup_has_was_handed_out_to_nobody(after: int, seed: int) -> None:
    """It has sealed the file, and so nobody can have had the database since: the backup is of one that was closed."""
    adds = [Reopen(7680, 512), Add(0, 60, 0), PowerCut(2, seed), Add(0, 0, 2)]
    _assert_nothing_breaks([*adds, Death(after), Look(), Ship(), Restore(0, 0, True)])


@pytest.mark.whole
@pytest.mark.parametrize("what", ["gone", "emptied"])
@pytest.mark.parametrize("file", range(6))
def test_whichever_file_of_a_database_that_was_restored_twice_is_lost_it_is_told(what: str, file: int) -> None:
    again = [Ship(), Restore(0, 0, False)]
    adds = [Add(0, 2600, seed) for seed in range(3)]
    _assert_nothing_breaks([*adds, Close(), *again, *again, Add(0, 1, 3), Misplace(what, file)])


@pytest.mark.whole
@pytest.mark.parametrize("let_go", [LetGo(is_all=True), LetGo((1, 3))], ids=["all", "some"])
@pytest.mark.parametrize("what", ["gone", "emptied"])
@pytest.mark.parametrize("file", range(4))
def test_what_a_restore_has_held_may_be_held_again_where_what_let_it_go_is_lost(
    let_go: LetGo, what: str, file: int
) -> None:
    """With the newest file the mark of a clean-up is lost: only the report tells what is lost with it."""
    several = AddMany(2, (200, 0, 60, 100, 200), 3), Add(0, 1, 4), AddMany(2, (0, 60, 100, 0, 20, 0), 5)
    adds = Group((Add(0, 1, 1), Put(4, 0, 2), *several))
    work = [Add(0, 0, 6), Close(), Remove((0,), delivers=True), CleanUp(compact=True)]
    _assert_nothing_breaks([adds, Ship(), Restore(0), *work, let_go, Misplace(what, file)])
