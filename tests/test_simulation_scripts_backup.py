"""Scripts of the world of backups that chance makes hardly ever."""

import pytest

from tests.simulation.backup_steps import Restore, Ship
from tests.simulation.engine_steps import Add, Close, LetGo
from tests.simulation.playing import play_script
from tests.simulation.world import Script
from tests.simulation.worlds import WORLDS


def _assert_nothing_breaks(script: Script) -> None:
    failure = play_script(WORLDS["backup"], script).failure
    assert failure is None, f"{failure.promise}\n{failure.found}"


@pytest.mark.parametrize("kill", range(1, 46))
def test_a_restore_that_is_killed_anywhere_is_unfinished_or_the_database(kill: int) -> None:
    """At its last call its note is removed, and not durably yet: after a power cut it is to be run again."""
    steps = [Add(0, 0, 0), Close(), Ship(0, 0, True), Restore(0, 0, True, (kill,), False), LetGo((25, 9), False)]
    _assert_nothing_breaks(steps)
