"""The first seeds of the simulated world "queues": each message is handed out when it may be, and is lost by nobody.

The first five are the sample.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import sampled

SEEDS = 30
AT_ONCE = 5


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 1))
def test_what_queues_promise_holds(first: int) -> None:
    assert_nothing_breaks(WORLDS["queues"], range(first, first + AT_ONCE))
