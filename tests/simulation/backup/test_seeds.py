"""The first seeds of the simulated world "backup": a backup holds what its database promised.

The first two are the sample.
"""

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.simulated_seeds import assert_nothing_breaks
from tests.support.sweeps import sampled

SEEDS = 16  # about twelve seconds of the processor
AT_ONCE = 2


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 1))
def test_a_backup_holds_what_its_database_promised(first: int) -> None:
    assert_nothing_breaks(WORLDS["backup"], range(first, first + AT_ONCE))
