"""The world "backup": the engine's world, with backups made beside all that happens in it, on a disk of their own.

Between the steps of the engine's world the database is backed up, while it is open, crashed or taken over, and the
backup's own process and machine end before any change, and its calls fail. The database's machine is lost at any
moment; another one goes on with what it restores from the backup, and somebody decides about what that holds back.
"""

import logging
import random

from tests.simulation.backup.restoring import Restoring
from tests.simulation.backup.steps import Restore, Ship
from tests.simulation.engine.script import script
from tests.simulation.engine.steps import *  # noqa: F403  # so that a script can be read back
from tests.simulation.engine.steps import Close, Discard, Fail, LetGo, Rot, Silence
from tests.simulation.world import Script, Seen, Step

_VERBS = ("write", "sync", "create", "rename", "sync_directory", "unlink", "truncate", "lock_write")


class BackupWorld:
    """A database, everything that can happen to it, its backup, and what is restored from that."""

    name = "backup"

    def script(self, seed: int) -> Script:
        chance = random.Random(f"backup {seed}")
        steps: list[Step] = []
        for step in script(seed):
            if isinstance(step, Rot) or (isinstance(step, Fail) and step.misdirected):
                continue
            steps.append(step)
            if chance.random() < 0.3:
                steps.append(_ship(chance))
            if chance.random() < 0.06:
                steps += _loss(chance)
            if chance.random() < 0.1:
                steps.append(_decision(chance))
        return [*steps, Ship(), *_loss(chance)]

    def play(self, script: Script, seen: Seen) -> None:
        log = logging.getLogger("oms")
        before = log.level
        log.setLevel(logging.CRITICAL)  # it says of every fault that it is one
        try:
            Restoring(seen).play(script)
        finally:
            log.setLevel(before)


def _ship(chance: random.Random) -> Ship:
    match chance.randrange(4):
        case 0:
            return Ship(
                kill_after=chance.randint(1, 40), seed=chance.randrange(1 << 20), cuts_power=chance.random() < 0.7
            )
        case 1:
            return Ship(verb=chance.choice(_VERBS), nth=chance.randint(1, 4), is_full=chance.random() < 0.5)
        case _:
            return Ship()


def _loss(chance: random.Random) -> list[Step]:
    """The machine is lost: just so, or when its database has ended well and was backed up; mostly once."""
    before: list[Step] = []
    how = chance.randrange(4)
    if how < 2:
        before = [Close() if how else Silence(), Ship()]
    return [*before, _restore(chance), *([_restore(chance)] if chance.random() < 0.2 else []), _decision(chance)]


def _restore(chance: random.Random) -> Restore:
    kills = tuple(chance.randint(1, 45) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    has_fault = chance.random() < 0.2
    return Restore(
        seed=chance.randrange(1 << 20),
        after=chance.choice((0, 0, 1, 2, 4, 9)),
        is_there=chance.random() < 0.4,
        kills=kills,
        cuts_power=chance.random() < 0.7,
        verb=chance.choice(_VERBS) if has_fault else "",
        nth=chance.randint(1, 6) if has_fault else 0,
        is_full=has_fault and chance.random() < 0.5,
    )


def _decision(chance: random.Random) -> LetGo | Discard:
    places = tuple(chance.randrange(30) for _ in range(chance.choice((1, 2, 5, 12))))
    match chance.randrange(5):
        case 0 | 1:
            return Discard(places)
        case 2:
            return LetGo(is_all=True)
        case _:
            return LetGo(places)
