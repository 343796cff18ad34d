"""The world "threads": several callers of one database at once, in every order that chance makes.

What the engine's other world does not have is at work here: group commit, with callers that queue up while others
write, and whatever else threads share. Files neither rot nor fill the disk; processes die, power goes and calls fail.
"""

import logging
import random
from collections.abc import Callable

from tests.simulation.threads.play import Run
from tests.simulation.threads.steps import (
    Add,
    Batch,
    Caller,
    CleanUp,
    Close,
    Death,
    Deliver,
    Fail,
    Look,
    Pair,
    PowerCut,
    Send,
    Take,
    Tend,
    Together,
    Work,
)
from tests.simulation.world import Script, Seen, Step


class ThreadsWorld:
    """One database, and callers that take turns."""

    name = "threads"

    def script(self, seed: int) -> Script:
        return _Writer(random.Random(seed)).script()

    def play(self, script: Script, seen: Seen) -> None:
        log = logging.getLogger("oms")
        before = log.level
        log.setLevel(logging.CRITICAL)  # it says of every fault that it is one
        try:
            Run(seen).play(script)
        finally:
            log.setLevel(before)


class _Writer:
    """Makes one script."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def script(self) -> Script:
        chance = self._chance
        steps: list[Step] = []
        for _ in range(chance.randint(2, 5)):
            steps += self._trouble()
            for _ in range(chance.randint(2, 5)):
                steps.append(Caller(tuple(self._work() for _ in range(chance.randint(1, 5)))))
            widely = chance.random() < 0.4
            shares = (0.02, 0.1, 0.3) if widely else (0.03, 0.1, 0.3, 0.7)
            steps.append(Together(chance.randrange(1 << 20), chance.choice(shares), widely))
        return steps

    def _trouble(self) -> list[Step]:
        """Return what goes wrong meanwhile; after a crash, often in the start that follows it too."""
        chance = self._chance
        kind = chance.choice(("", "", "close", "fail", "cut", "cut", "death", "twice", "twice"))
        after = chance.choice((3, 8, 13, 20, 30, 45, 70))
        match kind:
            case "close":
                return [Close()]
            case "fail":
                return [Fail(chance.choice(("write_durably", "write_durably", "sync", "create")), chance.randint(1, 4))]
            case "cut":
                return [PowerCut(after, self._seed())]
            case "death":
                return [Death(after)]
            case "twice":
                again = chance.choice((PowerCut(chance.randint(1, 12), self._seed()), Death(chance.randint(1, 12))))
                return [PowerCut(after, self._seed()), *self._senders(), again]
            case _:
                return []

    def _senders(self) -> list[Step]:
        callers = [Caller(tuple(self._send() for _ in range(3))) for _ in range(3)]
        return [*callers, Together(self._seed(), 0.1)]

    def _seed(self) -> int:
        return self._chance.randrange(1 << 20)

    def _send(self) -> Send:
        return Send(self._chance.randrange(8), 40)

    def _work(self) -> Work:
        chance = self._chance
        queue, size = chance.randrange(2), chance.choice((0, 20, 100, 300, 900))
        makers: list[tuple[int, Callable[[], Work]]] = [
            (12, lambda: Add(queue, size)),
            (6, self._send),
            (4, lambda: Pair(queue, size)),
            (4, lambda: Batch(queue, (20,) * chance.randint(2, 4))),
            (6, lambda: Deliver(chance.randrange(20))),
            (4, lambda: Take(queue, chance.random() < 0.7)),
            (2, Tend),
            (1, lambda: CleanUp(chance.random() < 0.5)),
            (1, Look),
        ]
        ((_, make),) = chance.choices(makers, [weight for weight, _ in makers])
        return make()
