"""What a simulated world is to those who run it: a script made from a seed, and a play of that script.

A script is a sequence of steps; a step is a frozen value whose `repr` a person can read, and Python can read
back. Everything that happens by chance while a step is played comes from numbers in the step itself. So one
seed is one run, the same everywhere, and a script from which steps were taken away still means what it says:
that is how a failure becomes short. A step that makes no sense any more (its message was never sent) does nothing.

No thread, no sleep, and no clock but the world's own is at work; what threads do is tested by real processes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


class PromiseBroken(AssertionError):
    """Something was promised, and is not so. The first line says which promise, the rest what was found."""


class Step(Protocol):
    """One thing that happens: a frozen dataclass of plain values."""

    def __repr__(self) -> str: ...


Script = Sequence[Step]


@dataclass(slots=True)
class Seen:
    """What the plays have met: to be counted, and to show what was never met."""

    steps: int = 0
    changes: int = 0  # of the disks: calls that change something
    crashes: set[int] = field(default_factory=set)  # digests of what a crash left, each counted once
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # fault, operation it hit, branch of recovery
    checked: Counter[str] = field(default_factory=Counter)  # promises, by name: how often each was held against a run

    def add(self, other: "Seen") -> None:
        """Take in what another run has met."""
        self.steps += other.steps
        self.changes += other.changes
        self.crashes |= other.crashes
        self.met += other.met
        self.checked += other.checked


class World(Protocol):
    """One kind of simulation."""

    name: str

    def script(self, seed: int) -> Script:
        """Return what happens in the run of this seed."""

    def play(self, script: Script, seen: Seen) -> None:
        """Play the script in a new world; PromiseBroken, or any other exception that the programs under test let out.

        `seen` is filled as it goes, so that it tells of a failed run too.
        """
