"""The first seeds of the engine's simulated world: nothing that was promised is lost.

The first three are the sample.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import sampled

SEEDS = 30  # about a quarter of a minute
AT_ONCE = 3


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 1))
def test_nothing_that_was_promised_is_lost(first: int) -> None:
    assert_nothing_breaks(WORLDS["engine"], range(first, first + AT_ONCE))
