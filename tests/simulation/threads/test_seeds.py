"""The first seeds of the simulated world with several callers: nothing that was promised is lost.

The first ten are the sample.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import sampled

SEEDS = 30  # about five seconds
AT_ONCE = 10


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 1))
def test_nothing_that_several_callers_were_promised_is_lost(first: int) -> None:
    assert_nothing_breaks(WORLDS["threads"], range(first, first + AT_ONCE))
