"""The first seeds of the simulated world "backup": a backup holds what its database promised.

The first one each day.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import a_sample

SEEDS = 16


@a_sample(1, more=4)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_backup_holds_what_its_database_promised(seed: int) -> None:
    assert_nothing_breaks(WORLDS["backup"], seed)
