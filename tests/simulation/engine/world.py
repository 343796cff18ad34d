"""The world "engine": database, recovery, index and journal on a simulated disk and clock.

A script's steps are what callers do, what the maintenance does, and what goes wrong: power cuts and the death of the
process before any change of the disk, faults of any call, processes that stand still while another takes over.
After every start what is found is held against the account of what was promised.
"""

import logging

from tests.simulation.engine.play import Run
from tests.simulation.engine.script import script
from tests.simulation.world import Script, Seen


class EngineWorld:
    """One database, its callers, and everything that can happen to it."""

    name = "engine"

    def script(self, seed: int) -> Script:
        return script(seed)

    def play(self, script: Script, seen: Seen) -> None:
        log = logging.getLogger("oms")
        before = log.level
        log.setLevel(logging.CRITICAL)  # it says of every fault that it is one
        try:
            Run(seen).play(script)
        finally:
            log.setLevel(before)
