"""The simulated world of the broker: its kernel on its store, on a disk that keeps what file systems keep.

Clients are random programs of its calls, and every answer is compared with that of a model written from the manuals.
"""

import contextlib

from tests.simulation.broker.damage import Over
from tests.simulation.broker.edges import simulated_edges
from tests.simulation.broker.machine import Machine, MachineDesk
from tests.simulation.broker.play import CrashingPlay
from tests.simulation.broker.sense import SENSIBLE, Sensible
from tests.simulation.broker.steps import (
    CHORES,
    Astray,
    BackUp,
    Crash,
    Do,
    Fail,
    GoOn,
    Move,
    Reconfigure,
    Restore,
    Room,
    Rot,
    Setting,
    TakeOver,
    random_steps,
)
from tests.simulation.world import PromiseBroken, Seen, Step
from tests.simulation.world import Script as Steps
from tests.support.broker.oracle_script import NUMBERS, Chance, bounds
from tests.support.disks.faulty_disk import SimulatedDisk

NUMBER_BITS = 16
LIKE_ITS_MODEL = "the broker does what its model does"


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
            except Over:
                pass
            except PromiseBroken:
                raise
            except AssertionError as failure:
                raise PromiseBroken(f"{LIKE_ITS_MODEL}\n{failure}") from failure
            finally:
                seen.changes += machine.disk.steps


class Playing(Sensible):
    """The steps of this world, as the oracle's and a few more."""

    play: CrashingPlay

    def steps(self, script: Steps) -> None:
        self.begin()
        for step in script:
            self.play.seen.steps += 1
            self.play.seen.checked[LIKE_ITS_MODEL] += 1
            self.play.lines.append(f"{step}")
            if isinstance(step, Do):
                self.do(step)
            elif not (self._model.is_lost or self.play.astray):
                self._go_wrong(step)
            elif isinstance(step, Crash | Room | Rot | GoOn) and not self.play.astray:
                self._go_wrong(step)  # what needs no store
            self.play.check_memory()
            if self.play.has_crashed:
                self.play.has_crashed = False
                self.begin()
        self.finish()

    def _go_wrong(self, step: Step) -> None:
        match step:
            case Crash():
                self.play.arm(step)
            case Fail():
                self.fail_at(step)
            case Room():
                self.leave_room(step)
            case Rot():
                self.play.damage(step)
                raise Over
            case Astray():
                self.play.misdirect(step)
            case Move():
                self.play.move(step)
            case BackUp():
                self.play.chore("vouch")
                self.play.back_up()
            case Restore():
                self.play.restore(step)
            case Reconfigure():
                self.play.reconfigure(step.place)
            case TakeOver():
                self.play.arm_takeover(step.change)
            case GoOn():
                ask = self.a_call(_chance(step)) if step.what == "call" else None
                self.play.go_on_paused(step.what, ask)
            case _:
                assert isinstance(step, Setting), f"no step of this world: {step!r}"

    def do(self, step: Do) -> None:
        chance = _chance(step)
        self.play.operation = OPERATIONS.get(step.what, "commit")
        if step.what in CHORES:
            self.play.chore(step.what)
        elif step.what in ONE_CALL:
            ask = getattr(self, step.what)(chance)
            if ask is not None:
                self.play.call_all([ask])
        elif step.what != "wait" or not self._disk.faults:
            getattr(self, step.what)(chance)

    @property
    def _disk(self) -> SimulatedDisk:
        return self.play.desk.machine.disk

    def fail_at(self, step: Fail) -> None:
        """Let a call of the disk fail, once nobody waits: what they get is written by itself."""
        if self._model.waits:
            self.play.tick(WAIT_MAX)
        if step.stays:
            self._disk.fail_from(step.verb, step.nth, step.code)
        else:
            self._disk.fail(step.verb, step.nth, step.code, is_short=step.is_short)

    def leave_room(self, step: Room) -> None:
        if step.spare is None:
            self._disk.space = None
            self.play.forbid(is_forbidden=False)
        else:
            if self._model.waits:
                self.play.tick(WAIT_MAX)
            if self.play.desk.store.is_connected:
                self.play.chore("tend")  # what a full disk leaves to be done takes room that was kept
            room = self._disk.used() + step.spare
            # Nobody else takes what was given up from the reserve: it would be spent without a commit.
            self._disk.space = room if self._disk.space is None else max(room, self._disk.space)
        self.play.look_at_room()

    def _come_again(self, chance: Chance) -> None:
        """Who is there is let in after the step."""

    def finish(self) -> None:
        self.play.crash = self._disk.kill_at = self._disk.space = None
        self._disk.before_change = None
        self._disk.faults.clear()
        self.play.forbid(is_forbidden=False)
        if self.play.is_restored:
            self.release_all()
        super().finish()


WAIT_MAX = 100
OPERATIONS = {
    "clean_up": "clean-up",
    "compact": "compaction",
    "vouch": "idle",
    "lose_or_find": "connect",
    "release": "release",
    "release_queue": "release",
    "compare_queue": "compare",
    "discard": "discard",
    "discard_queue": "discard",
}
ONE_CALL = (
    "send",
    "receive",
    "syncpoint",
    "answer",
    "end",
    "undo",
    "publish",
    "read",
    "control",
    "subscribe",
    *SENSIBLE,
)


def _chance(step: Do | GoOn) -> Chance:
    """Return the numbers that choose: as many as a step of the oracle has."""
    state, numbers = step.number, []
    for _ in range(NUMBERS):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        numbers.append(state >> (64 - NUMBER_BITS))
    return Chance(numbers)
