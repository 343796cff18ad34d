"""Writers that are killed, and killed again at their start, whose producers send again (`make resend` does it long)."""

from pathlib import Path

import pytest

from tests.resending import Broken, resend
from tests.simulation.faults.all_faults import FAULTS

RUNS = 3  # some 1 second


def test_what_is_sent_again_after_two_crashes_stands_once(tmp_path: Path) -> None:
    met = resend(tmp_path, RUNS, seed=1)

    assert met["runs"] == met["came to its end"] == RUNS
    assert met["identifiers sent again"] > 0


@pytest.mark.slow
def test_nor_is_it_lost_or_doubled_in_hundreds_of_runs(tmp_path: Path) -> None:
    assert resend(tmp_path, 500, seed=2)["runs"] == 500


@pytest.mark.parametrize(
    "name", ["the-duplicate-window-is-forgotten-at-a-restart", "a-frames-last-operation-is-not-replayed"]
)
def test_a_fault_made_on_purpose_is_found_by_it(tmp_path: Path, name: str) -> None:
    with FAULTS[name].made(), pytest.raises(Broken):
        resend(tmp_path, 20 * RUNS, seed=3)
