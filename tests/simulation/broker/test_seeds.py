"""The first seeds of the broker's simulated world: nothing that was promised is lost.

The first two are the sample.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import sampled

SEEDS = 20  # about a quarter of a minute
AT_ONCE = 2


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 1))
def test_nothing_that_was_promised_is_lost(first: int) -> None:
    assert_nothing_breaks(WORLDS["broker"], range(first, first + AT_ONCE))
