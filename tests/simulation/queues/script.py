"""Random scripts of the world "queues"."""

import random
from collections.abc import Callable

from tests.simulation.queues.steps import (
    Add,
    AddInTurn,
    CleanUp,
    Death,
    DeleteExpired,
    Deliver,
    Exchange,
    Extend,
    Fail,
    Former,
    GiveUp,
    GoOn,
    Jump,
    Look,
    Pass,
    PowerCut,
    Release,
    Reopen,
    Requeue,
    Take,
    TakeFor,
    TakeInTurn,
    TakeOver,
)
from tests.simulation.world import Script, Step

SECONDS = (0.5, 2.0, 5.0, 20.0, 60.0)
QUEUES = 2  # and that of the dead letters
DEAD = QUEUES  # its place


def script(seed: int) -> Script:
    """Return the script of a seed."""
    return _Writer(random.Random(seed)).script()


class _Writer:
    """Makes one script."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._has_groups = chance.random() < 0.6
        self._has_times = chance.random() < 0.7
        self._has_limits = chance.random() < 0.5
        self._has_waits = chance.random() < 0.6

    def script(self) -> Script:
        chance = self._chance
        steps: list[Step] = [self._reopen()]
        for _ in range(chance.randint(2, 6)):
            steps += [self._work() for _ in range(chance.randint(4, 25))]
            steps += self._trouble()
        return [*steps, *(self._work() for _ in range(6)), Look()]

    def _reopen(self) -> Reopen:
        chance = self._chance
        messages, size = (chance.choice((0, 2, 4)), chance.choice((0, 800, 1600))) if self._has_limits else (0, 0)
        return Reopen(chance.choice((0, 1, 2, 2, 3)), chance.choice((7680, 12584)), messages, size)

    def _work(self) -> Step:
        chance = self._chance
        place = chance.randrange(50)
        makers: list[tuple[int, Callable[[], Step]]] = [
            (16, self._add),
            (18, self._take),
            (4, self._take_for),
            (8, self._deliver),
            (9, lambda: Release(place, chance.choice((0.0, 0.0, *SECONDS)), chance.random() < 0.3)),
            (3, lambda: Extend(place, chance.choice(SECONDS))),
            (3, lambda: Exchange(place, chance.randrange(QUEUES))),
            (2, lambda: Requeue(place)),
            (12, lambda: Pass(chance.choice(SECONDS))),
            (3, lambda: Jump(chance.choice((-1, 1)) * chance.choice((1.0, *SECONDS, 3600.0)))),
            (3, DeleteExpired),
            (3, lambda: CleanUp(chance.random() < 0.6)),
            (2, Look),
            (1, self._reopen),
            (8 * self._has_waits, self._take_in_turn),
            (5 * (self._has_waits and self._has_limits), self._add_in_turn),
            (3 * self._has_waits, lambda: GiveUp(place)),
            (4 * self._has_waits, GoOn),
        ]
        ((_, make),) = chance.choices(makers, [weight for weight, _ in makers])
        return make()

    def _add(self) -> Add:
        chance = self._chance
        delay = at = expires = expires_at = 0.0
        if self._has_times and chance.random() < 0.4:
            delay, at = chance.choice(((chance.choice(SECONDS), 0.0), (0.0, chance.choice(SECONDS))))
        if self._has_times and chance.random() < 0.3:
            wait = max(delay, at)
            later = wait + chance.choice(SECONDS)
            expires, expires_at = chance.choice(((later, 0.0), (0.0, later)))
        group = chance.randrange(3) if self._has_groups else 0
        count = chance.choice((1, 1, 1, 2, 4))
        size = chance.choice((0, 20, 200, 600))
        return Add(chance.randrange(QUEUES), count, size, delay, at, expires, expires_at, group)

    def _take(self) -> Take:
        chance = self._chance
        lease = chance.choice((0.0, *SECONDS))
        count, is_of_any = chance.choice(((1, False), (1, False), (1, True), (3, False)))
        return Take(chance.choice((0, 0, 0, 1, 1, DEAD)), lease, count, is_of_any)

    def _take_for(self) -> TakeFor:
        chance = self._chance
        lease = chance.choice((0.0, 20.0))
        return TakeFor(chance.randrange(QUEUES), lease, chance.random() < 0.5, chance.random() < 0.6)

    def _take_in_turn(self) -> TakeInTurn:
        chance = self._chance
        count, is_of_any = chance.choice(((1, False), (1, False), (1, True), (3, False)))
        queue, wait, lease = chance.choice((0, 0, 1, DEAD)), chance.choice(SECONDS), chance.choice((0.0, *SECONDS))
        return TakeInTurn(queue, wait, lease, count, is_of_any, chance.random() < 0.3)

    def _add_in_turn(self) -> AddInTurn:
        chance = self._chance
        count, size = chance.choice((1, 1, 2, 3)), chance.choice((0, 200, 600))
        return AddInTurn(chance.randrange(QUEUES), chance.choice(SECONDS), count, size, chance.random() < 0.3)

    def _deliver(self) -> Deliver:
        chance = self._chance
        seconds = chance.choice((0.0, 0.0, *SECONDS))
        return Deliver(chance.randrange(50), chance.random() < 0.3, seconds)

    # What goes wrong.

    def _trouble(self) -> list[Step]:
        chance = self._chance
        makers = [
            (5, self._power_cut),
            (6, self._death),
            (2, self._death_in_hand),
            (2, self._fault),
            (2, self._close),
            (3, self._take_over),
        ]
        ((_, make),) = chance.choices(makers, [weight for weight, _ in makers])
        return [*make(), *([self._reopen()] if chance.random() < 0.3 else [])]

    def _power_cut(self) -> list[Step]:
        chance = self._chance
        cut = PowerCut(self._after(), chance.randrange(1 << 20), chance.choice((0, 5, 20)))
        return [cut, *self._works()]

    def _death(self) -> list[Step]:
        return [Death(self._after()), *self._works()]

    def _death_in_hand(self) -> list[Step]:
        """One process after the other dies with messages in hand."""
        steps: list[Step] = []
        for _ in range(self._chance.randint(2, 5)):
            takes = [
                Take(queue, 0.0, self._chance.choice((1, 1, 3))) for queue in self._chance.choice(((0,), (1,), (1, 0)))
            ]
            steps += [*takes, *([self._work()] if self._chance.random() < 0.4 else []), Death(0)]
        return steps

    def _fault(self) -> list[Step]:
        fault = Fail(
            self._chance.choice(("write_durably", "write_durably", "sync", "write")), self._chance.randint(1, 4)
        )
        return [fault, *self._works()]

    def _take_over(self) -> list[Step]:
        """Another process takes the directory over, and this one goes on beside it."""
        steps = [TakeOver(self._after()), *self._works()]
        for _ in range(self._chance.randint(0, 5)):
            steps += [Former(self._chance.randrange(9)), *self._works()]
        return steps

    def _close(self) -> list[Step]:
        """A clean end, and perhaps the power goes behind it."""
        again = self._reopen()
        return [again, PowerCut(0, self._chance.randrange(1 << 20))] if self._chance.random() < 0.5 else [again]

    def _works(self) -> list[Step]:
        return [self._work() for _ in range(self._chance.randint(1, 8))]

    def _after(self) -> int:
        return self._chance.choice((0, 1, 2, 3, 5, 8, 13, 20))
