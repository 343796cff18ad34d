"""A failing script made short: steps are taken away as long as the same kind of failure stays.

Delta debugging: halves first, then ever smaller pieces, until no single step can go. Then the numbers in the
steps that are left are made small, as far as the failure stays. The time is limited; what is found by then is
what is returned.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.playing import play_script
from tests.simulation.world import Script, Step, World


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The shortest script that was found."""

    script: tuple[Step, ...]
    plays: int
    is_minimal: bool  # no step can go; else the time was over


class _OutOfTime(Exception):
    """What was found so far must do."""


class _Shrinking:
    def __init__(self, world: World, script: Script, kind: str, end: float, clock: Callable[[], float]) -> None:
        self._world, self._kind, self._clock = world, kind, clock
        self._end = end
        self.plays = 0
        self.best = tuple(script)

    def fails(self, script: Script) -> bool:
        """Say whether the script fails in the same way; if it does it is the best so far."""
        left = self._end - self._clock()
        if left <= 0:
            raise _OutOfTime
        self.plays += 1
        failure = play_script(self._world, script, seconds=min(left + 1, 10)).failure
        if failure is None or failure.kind != self._kind:
            return False
        self.best = tuple(script)
        return True

    def take_steps_away(self) -> None:
        size = len(self.best) // 2
        while size >= 1:
            start, before = 0, len(self.best)
            while start < len(self.best):
                if not self.fails(self.best[:start] + self.best[start + size :]):
                    start += size
            if len(self.best) == before or size > 1:
                size //= 2

    def make_numbers_small(self) -> None:
        for place in range(len(self.best)):
            for name in _numbers(self.best[place]):
                for small in (0, 1, getattr(self.best[place], name) // 16):
                    step = self.best[place]
                    if small < getattr(step, name):
                        smaller = dataclasses.replace(step, **{name: small})  # type: ignore[type-var]
                        if self.fails((*self.best[:place], smaller, *self.best[place + 1 :])):
                            break


def shrink(world: World, script: Script, kind: str, *, seconds: float, clock: Callable[[], float]) -> Shrunk:
    """Return a short script that fails in the same way. One that does not fail (any more) is returned as it is."""
    shrinking = _Shrinking(world, script, kind, clock() + seconds, clock)
    is_minimal = False
    try:
        if shrinking.fails(script):
            shrinking.take_steps_away()
            is_minimal = True
            shrinking.make_numbers_small()
    except _OutOfTime:
        pass
    return Shrunk(shrinking.best, shrinking.plays, is_minimal)


def _numbers(step: Step) -> list[str]:
    """Return the names of the step's parts that are numbers."""
    assert dataclasses.is_dataclass(step), "a step is a dataclass"
    return [part.name for part in dataclasses.fields(step) if type(getattr(step, part.name)) is int and part.init]
