"""The first seeds of the simulated world "queues": each message is handed out when it may be, and is lost by nobody.

The first one each day.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import a_sample

SEEDS = 30


@a_sample(1, more=8)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_queues_promise_holds(seed: int) -> None:
    assert_nothing_breaks(WORLDS["queues"], seed)
