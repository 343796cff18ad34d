"""A toy of a world, with a bug that the runner has to find and to make short: tests of the runner play it.

A counter is written to a file in memory, and synced now and then; a power cut leaves what was synced. The bug
is asked for by name: a sync after exactly three additions since the last one is forgotten.
"""

import os
import random
from dataclasses import dataclass

from tests.simulation.world import PromiseBroken, Script, Seen, Step


@dataclass(frozen=True, slots=True)
class Add:
    amount: int


@dataclass(frozen=True, slots=True)
class Sync:
    pass


@dataclass(frozen=True, slots=True)
class PowerCut:
    note: str = "plain"


class ToyWorld:
    """A sum that must survive; `bug` is one of forgets, raises, hangs, dies, or none."""

    def __init__(self, bug: str = "none") -> None:
        self.name = "toy" if bug == "none" else f"toy-{bug}"
        self._bug = bug

    def script(self, seed: int) -> Script:
        chance = random.Random(seed)
        steps: list[Step] = []
        for _ in range(chance.randint(20, 60)):
            match chance.randrange(8):
                case 0:
                    steps.append(PowerCut(chance.choice(("plain", "it's (odd) # text"))))
                case 1 | 2:
                    steps.append(Sync())
                case _:
                    steps.append(Add(chance.randint(1, 1000)))
        return steps

    def play(self, script: Script, seen: Seen) -> None:
        total, promised, durable, additions = 0, 0, 0, 0
        for step in script:
            seen.steps += 1
            match step:
                case Add(amount):
                    total, additions = total + amount, additions + 1
                case Sync():
                    seen.changes += 1
                    promised = total
                    if additions != 3 or self._bug == "none":
                        durable = total
                    else:
                        self._break()
                    additions = 0
                case PowerCut(note):
                    seen.met["power cut", "commit" if additions else "idle", "torn" if additions else "sealed"] += 1
                    seen.crashes.add(hash((durable, note == "plain")))
                    seen.checked["what was synced is there"] += 1
                    if durable != promised:
                        raise PromiseBroken(f"what was synced is there\n{durable} was found, {promised} was promised")
                    total, additions = durable, 0
                case _:
                    raise TypeError(f"no step of this world: {step!r}")

    def _break(self) -> None:
        match self._bug:
            case "raises":
                raise ZeroDivisionError("as asked for")
            case "hangs":
                while True:
                    pass
            case "dies":
                os._exit(3)
            case _:
                pass  # the sync is forgotten
