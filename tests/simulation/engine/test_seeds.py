"""The first seeds of the engine's simulated world: nothing that was promised is lost.

The first one each day.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import a_sample

SEEDS = 30


@a_sample(1, more=9)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_was_promised_is_lost(seed: int) -> None:
    assert_nothing_breaks(WORLDS["engine"], seed)
