"""The campaign on the callers of the broker: `tests/support/attack.py` with its scripts, its sweeps and its faults."""

from tests.callers.faces import FACES
from tests.callers.faults import FAULTS
from tests.callers.play import play
from tests.callers.steps import scripts
from tests.callers.sweep import sweep
from tests.support.attack import Campaign

CAMPAIGN = Campaign(
    name="callers",
    of="the callers of the broker",
    faces=FACES,
    scripts=scripts,
    play=play,
    sweep=sweep,
    faults=FAULTS,
    scripts_of_seed=50,
)
