"""Random scripts of the world "engine"."""

import errno
import random
from collections.abc import Callable
from dataclasses import replace

from oms_journal.journal.format.headers import FRAMES_AT
from tests.simulation.engine.steps import (
    ROLLS,
    Add,
    AddMany,
    Block,
    CleanUp,
    Close,
    Death,
    Discard,
    Drop,
    EndAnywhere,
    Fail,
    Former,
    Group,
    LetGo,
    Look,
    Misplace,
    Pause,
    PowerCut,
    Purge,
    Put,
    Release,
    Remove,
    Reopen,
    Resend,
    Rot,
    Silence,
    Space,
    Take,
    Tend,
)
from tests.simulation.world import Script, Step

ALIGNMENTS = (8, 8, 8, 64, 512, 4096)
_FAILING = ("write", "write_durably", "sync", "create", "unlink", "sync_directory", "truncate", "rename", "reserve")


def script(seed: int) -> Script:
    """Return the script of a seed."""
    return _Writer(random.Random(seed)).script()


class _Writer:
    """Makes one script."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._alignment = chance.choice(ALIGNMENTS)
        self._is_harsh = self._alignment >= 512
        self._large = chance.choice((0, 0, 1, 3))  # of ten messages

    def script(self) -> Script:
        chance = self._chance
        steps: list[Step] = [self._reopen()]
        for _ in range(chance.randint(2, 7)):
            steps += [self._work() for _ in range(chance.randint(2, 14))]
            steps += self._trouble()
        steps += [self._work() for _ in range(3)]
        return steps + self._ending()

    def _seed(self) -> int:
        return self._chance.randrange(1 << 20)

    def _reopen(self) -> Reopen:
        chance = self._chance
        alignment = chance.choice([self._alignment, max(self._alignment, 512)])
        return Reopen(
            size=max(2 * alignment + 5632, chance.choice((7680, 7680, 9584, 12584))) if alignment > 64 else 7680,
            alignment=alignment,
            validation=chance.choice(("full", "full", "footers")),
            share=chance.choice((0.0, 0.25, 0.5)),
            retention=chance.random() < 0.2,
            policy=chance.choice(("salvage", "truncate", "truncate", "refuse", "refuse")),
            otherwise=chance.choice(("salvage", "truncate")),
            holds=chance.random() < 0.5,
            most=chance.choice((0, 0, 0, 3, 8, 20)),
        )

    def _work(self) -> Step:
        chance = self._chance
        makers: list[tuple[int, Callable[[], Step]]] = [
            (20, self._add),
            (6, self._add_many),
            (16, self._remove),
            (7, self._put),
            (3, lambda: Drop(chance.randrange(5))),
            (7, self._block),
            (7, self._group),
            (4, lambda: Resend(chance.randrange(50), chance.random() < 0.2)),
            (2, lambda: Take(chance.randrange(3))),
            (1, lambda: Purge(chance.randrange(3))),
            (1, lambda: Release(chance.randrange(10))),
            (2, self._decision),
            (9, Tend),
            (4, lambda: Silence(chance.choice((1.0, 1.0, 1.0, 600.0)))),
            (9, lambda: CleanUp(compact=chance.random() < 0.5, is_due=chance.random() < 0.3)),
            (2, Close),
            (2, self._reopen),
            (2, Look),
        ]
        weights = [weight for weight, _ in makers]
        ((_, make),) = chance.choices(makers, weights)
        return make()

    def _size(self) -> int:
        chance = self._chance
        if chance.randrange(10) < self._large:
            return chance.choice((600, 1200, 2600, 5000))
        return chance.choice((0, 1, 20, 60, 100, 200))

    def _add(self) -> Add:
        chance = self._chance
        properties = chance.choice((0, 0, 0, 1, 3))
        return Add(chance.randrange(3), self._size(), self._seed(), properties, chance.random() < 0.2)

    def _add_many(self) -> AddMany:
        sizes = tuple(self._size() for _ in range(self._chance.randint(1, 6)))
        return AddMany(self._chance.randrange(3), sizes, self._seed(), self._chance.random() < 0.2)

    def _remove(self) -> Remove:
        chance = self._chance
        count = chance.choice((1, 1, 2, 5, 12, 40))
        start = chance.choice((0, 0, chance.randrange(40)))
        places = range(start, start + count) if chance.random() < 0.7 else [chance.randrange(60) for _ in range(count)]
        return Remove(tuple(places), chance.random() < 0.7)

    def _put(self) -> Put:
        return Put(self._chance.randrange(5), self._chance.choice((0, 8, 50, 300)), self._seed())

    def _block(self) -> Block:
        makers: list[Callable[[], Add | Remove | Put | Drop]]
        makers = [self._add, self._remove, self._put, lambda: Drop(self._chance.randrange(5))]
        parts = tuple(self._chance.choice(makers)() for _ in range(self._chance.randint(1, 5)))
        return Block(parts, self._chance.random() < 0.3)

    def _group(self) -> Group:
        makers: list[Callable[[], Add | AddMany | Remove | Put | Block]]
        makers = [self._add, self._add, self._add_many, self._remove, self._put, self._block]
        return Group(tuple(self._chance.choice(makers)() for _ in range(self._chance.randint(2, 6))))

    def _decision(self) -> LetGo | Discard:
        chance = self._chance
        places = tuple(chance.randrange(30) for _ in range(chance.choice((1, 2, 5))))
        return chance.choice((LetGo(places), LetGo(is_all=True), Discard(places)))

    # What goes wrong.

    def _trouble(self) -> list[Step]:
        chance = self._chance
        makers = [
            (10, self._power_cut),
            (4, self._again_and_again),
            (3, self._death),
            (5, self._fault),
            (2, self._pause),
            (5, self._rot),
            (1, self._misdirected),
            (2, self._full_disk),
        ]
        ((_, make),) = chance.choices(makers, [weight for weight, _ in makers])
        return make()

    def _power_cut(self) -> list[Step]:
        cut = PowerCut(self._after(), self._seed(), self._is_harsh, self._chance.choice((0, 10, 40)))
        return [cut, *(self._work() for _ in range(self._chance.randint(1, 6)))]

    def _again_and_again(self) -> list[Step]:
        """The power goes during one start after another."""
        steps: list[Step] = []
        for _ in range(self._chance.randint(2, 4)):
            steps += [PowerCut(self._chance.randint(1, 25), self._seed(), self._is_harsh), self._work()]
        return steps

    def _death(self) -> list[Step]:
        return [Death(self._after()), *(self._work() for _ in range(self._chance.randint(1, 5)))]

    def _after(self) -> int:
        return self._chance.choice((1, 2, 3, 5, 8, 13, 20, 40))

    def _fault(self) -> list[Step]:
        chance = self._chance
        verb = chance.choice((*_FAILING, "write_durably", "sync"))
        is_short = verb in ("write", "write_durably") and chance.random() < 0.4
        code = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC, errno.EDQUOT))
        if chance.random() < 0.15:
            fault = Fail(chance.choice(_FAILING), chance.randint(1, 6), seconds=chance.choice((0.5, 5.0, 4000.0)))
        elif chance.random() < 0.15:
            fault = Fail(chance.choice(("read", "open", "list")), chance.randint(1, 12))
        else:
            fault = Fail(verb, chance.choice((1, 1, 2, 3, 6)), code, is_short)
        steps: list[Step] = [fault, *(self._work() for _ in range(chance.randint(1, 5)))]
        if chance.random() < 0.6:
            steps += [PowerCut(chance.randint(1, 6), self._seed(), self._is_harsh), self._work(), self._work()]
        return steps

    def _full_disk(self) -> list[Step]:
        """There is no more room, and later there is; the power may go meanwhile."""
        chance = self._chance
        steps: list[Step] = [Space(chance.choice((0, 2000, 9000, 30_000)))]
        steps += [self._work() for _ in range(chance.randint(2, 8))]
        if chance.random() < 0.5:
            steps += [PowerCut(self._after(), self._seed(), self._is_harsh), *(self._work() for _ in range(3))]
        return [*steps, Space()]

    def _rot(self) -> list[Step]:
        """Bytes rot between two openings, or while there is one; mostly few at a time."""
        chance = self._chance
        steps: list[Step] = [Close()] if chance.random() < 0.4 else []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            size = chance.choice((0, 0, 1, 8, 512, 512))
            steps.append(Rot(chance.randrange(20), round(chance.random(), 4), size, self._seed()))
        steps += [self._work() for _ in range(chance.randint(0, 4))]
        steps.append(PowerCut(0, self._seed()) if chance.random() < 0.7 else Close())
        return [*steps, *self._otherwise(), self._work()]

    def _otherwise(self) -> list[Step]:
        """Whoever starts next may go about it otherwise."""
        return [self._reopen()] if self._chance.random() < 0.6 else []

    def _misdirected(self) -> list[Step]:
        chance = self._chance
        fault = Fail("write_durably", chance.randint(1, 3), misdirected=1 + self._seed())
        works = [self._work() for _ in range(chance.randint(2, 6))]
        return [fault, *works, PowerCut(0, self._seed()), *self._otherwise(), self._work()]

    def _pause(self) -> list[Step]:
        chance = self._chance
        meanwhile = tuple(chance.choice((self._add, self._remove, self._put))() for _ in range(chance.randint(0, 6)))
        steps: list[Step] = [Pause(chance.choice((1, 1, 2, 2, 3, 5, 9)), meanwhile)]
        for _ in range(chance.randint(1, 5)):
            steps.append(self._work())
            if chance.random() < 0.7:
                steps.append(Former(chance.randrange(8)))
        return steps

    # What chance alone would hardly ever bring: one of these at the end of most scripts.

    def _ending(self) -> list[Step]:
        makers = (self._misplaced, self._misplaced, self._headless, self._told_as_failed, self._late, self._late)
        if self._chance.random() < 0.3:
            return [Space(), *self._ended_anywhere()]
        chosen = self._chance.choice((*makers, self._read_error, self._read_error, None, None, None))
        return [Space(), *(chosen or self._untold)()]

    def _misplaced(self) -> list[Step]:
        what = self._chance.choice(("gone", "gone", "emptied", "copied", "exchanged", "hidden"))
        where = Misplace(what, self._chance.randrange(20))
        return [self._add_many(), *self._otherwise(), where, *(self._work() for _ in range(3))]

    def _ended_anywhere(self) -> list[Step]:
        """A start that repairs what has rotted is ended at each of its changes; some of the messages are long."""
        chance = self._chance
        works: list[Step] = [self._add_many(), Remove((0, 3, 4)), Add(0, chance.choice((2600, 5000)), self._seed())]
        works += [self._work() for _ in range(chance.randint(0, 3))]
        steps: list[Step] = [*works, *([Close()] if chance.random() < 0.5 else []), PowerCut(0, self._seed())]
        for _ in range(chance.choice((1, 1, 2, 3))):
            steps.append(Rot(-1, round(chance.uniform(0.2, 0.7), 4), 0, self._seed()))
            steps.append(Rot(chance.randrange(20), round(chance.random(), 4), chance.choice((0, 8, 512)), self._seed()))
        return [*steps, replace(self._reopen(), holds=chance.random() < 0.7), EndAnywhere(self._seed()), Look()]

    def _untold(self) -> list[Step]:
        """A start that repairs what has rotted is ended, once or twice, before it can say what it has found."""
        chance = self._chance
        steps: list[Step] = [self._add_many(), chance.choice((PowerCut(0, self._seed()), Death(0), Close()))]
        for _ in range(chance.choice((1, 1, 2, 3))):
            steps.append(Rot(chance.randrange(20), round(chance.random(), 4), chance.choice((0, 8, 512)), self._seed()))
        for _ in range(chance.choice((1, 1, 2))):
            after = chance.randint(1, 25)
            steps += [*self._otherwise(), chance.choice((PowerCut(after, self._seed()), Death(after))), Look()]
        return [*steps, *self._otherwise(), Look(), self._decision(), Look()]

    def _headless(self) -> list[Step]:
        """Both copies of the newest file's header rot, before the file before it is sealed."""
        chance = self._chance
        adds = [Add(0, chance.choice((200, 600)), self._seed()) for _ in range(chance.randint(2, 14))]
        ends: list[Step] = [PowerCut(0, self._seed()), Death(0)]
        return [Close(), *adds, Rot(-1, 0.0, FRAMES_AT, self._seed()), chance.choice(ends), self._work()]

    def _told_as_failed(self) -> list[Step]:
        """A sync fails in the middle of a file, and the same process goes on: the frame reads back."""
        return [
            self._add(),
            self._add(),
            Fail("write_durably", self._chance.randint(1, 2)),
            *(self._add() for _ in "123"),
        ]

    def _late(self) -> list[Step]:
        """A process stands still while it makes a file, which comes to light under its successor."""
        chance = self._chance
        verb = chance.choice(("create", "create", "create", ""))
        steps: list[Step] = [Pause(1, (), verb, in_turn=bool(verb))]
        for _ in range(6):
            steps += [Add(0, chance.choice((600, 1200)), self._seed()), Tend()]
        for what in (ROLLS, chance.randrange(8), chance.randrange(8)):
            steps += [Former(what), self._work()]
        return [*steps, Add(0, 2600, 1), Add(0, 2600, 2), PowerCut(0, self._seed())]

    def _read_error(self) -> list[Step]:
        """A start cannot read something, once."""
        chance = self._chance
        fault = Fail(chance.choice(("read", "read", "open")), chance.randint(1, 12))
        return [PowerCut(0, self._seed()), fault, self._work(), self._work()]
