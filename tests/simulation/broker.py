"""The simulated world of the broker: its kernel on its store, on a disk that keeps what file systems keep.

Clients are random programs of its calls, and every answer is compared with that of a model written from the manuals.
"""

import contextlib

from tests.oracle_script import NUMBERS, Chance, Script, bounds
from tests.simulation.broker_edges import simulated_edges
from tests.simulation.broker_machine import Machine, MachineDesk
from tests.simulation.broker_play import CrashingPlay
from tests.simulation.broker_steps import CHORES, Crash, Do, Setting, random_steps
from tests.simulation.world import PromiseBroken, Seen
from tests.simulation.world import Script as Steps

NUMBER_BITS = 16


class BrokerWorld:
    """Calls, crashes and faults of one broker."""

    name = "broker"

    def script(self, seed: int) -> Steps:
        return random_steps(seed)

    def play(self, script: Steps, seen: Seen) -> None:
        setting = next((step for step in script if isinstance(step, Setting)), Setting())
        with simulated_edges() as edges, bounds(1, 3) if setting.is_forgetful else contextlib.nullcontext():
            machine = Machine(setting, edges, seen)
            play = CrashingPlay(MachineDesk(machine), seen)
            try:
                Playing(play).steps(script)
            except PromiseBroken:
                raise
            except AssertionError as failure:
                raise PromiseBroken(f"the broker does what its model does\n{failure}") from failure
            finally:
                seen.changes += machine.disk.steps


class Playing(Script):
    """The steps of this world, as the oracle's and a few more."""

    play: CrashingPlay

    def steps(self, script: Steps) -> None:
        self.begin()
        for step in script:
            self.play.seen.steps += 1
            self.play.lines.append(f"{step}")
            if isinstance(step, Do):
                self.do(step)
            elif isinstance(step, Crash):
                self.crash(step)
        self.finish()

    def do(self, step: Do) -> None:
        chance = _chance(step)
        if step.what in CHORES:
            self.play.chore(step.what)
        elif step.what in ONE_CALL:
            ask = getattr(self, step.what)(chance)
            if ask is not None:
                self.play.call_all([ask])
        else:
            getattr(self, step.what)(chance)

    def crash(self, step: Crash) -> None:
        if self._model.is_lost:
            return
        self.play.arm(step)
        self.do(step.during)
        self.play.crash_at_last()
        self._come_again(_chance(step.during))


ONE_CALL = ("send", "receive", "syncpoint", "answer", "end", "undo", "publish", "read", "control", "subscribe")


def _chance(step: Do) -> Chance:
    """Return the numbers that choose: as many as a step of the oracle has."""
    state, numbers = step.number, []
    for _ in range(NUMBERS):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        numbers.append(state >> (64 - NUMBER_BITS))
    return Chance(numbers)
