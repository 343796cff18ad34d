"""Seeds of the world "backup", of which each has found something once: the backup is what its database promised."""

import pytest

from tests.simulated_seeds import assert_nothing_breaks
from tests.simulation.worlds import WORLDS


@pytest.mark.parametrize("seed", [2, 1003])
def test_a_backup_holds_what_its_database_promised(seed: int) -> None:
    assert_nothing_breaks(WORLDS["backup"], range(seed, seed + 1))
