"""The world "queues": what producers and consumers of queues do, with leases, terms, attempts and dead letters.

The database is the one of the world "engine", on a simulated disk with two clocks: one that nobody sets, and one that
jumps. The power goes, and the process dies, before any change of the disk. What is handed out is held against a simple
model at each call, and what a start finds against what the model allows.
"""

import logging

from tests.simulation.queues.play import Run
from tests.simulation.queues.script import script
from tests.simulation.world import Script, Seen


class QueuesWorld:
    """One database, its queues, and what the clocks and the end of a process do to them."""

    name = "queues"

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
