"""Scripts of the engine's simulated world that the checker once judged wrongly, or that chance makes hardly ever."""

import pytest

from tests.simulation.engine_steps import Add, CleanUp, Death, Misplace, Remove, Silence, Tend
from tests.simulation.playing import play_script
from tests.simulation.world import Script
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
