"""A start on damage that is ended before any of its changes: the next one finds, holds and tells what it would have.

And it gives no number again that somebody had: of what a start takes away, the next one sees nothing any more.
"""

import random
from collections.abc import Sequence

from oms_journal.journal import names
from oms_journal.recovery.report import Loss
from tests.simulation.engine.policy import Opener
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import State, Unattended, state_of
from tests.support.disks.faulty_disk import Killed, SimulatedDisk

ANYWHERE = "wherever a start on damage is ended, the next one finds, holds and tells the same"
NUMBERED = "wherever a start on damage is ended, the next one gives no number again"
PLACES_MAX = 24  # in one start
_SYNCED = 2  # changes from the rename on, until that is durable


def check_ended_anywhere(disk: SimulatedDisk, open_copy: Opener, open_otherwise: Opener, seed: int, given: int) -> None:
    """Play the start that comes on copies of the disk, where all is durable, each ended before another change of it.

    The power goes then, or only the process is gone. Of many changes some are tried. The next start may be of one who
    was not told to hold anything: what the first one was to hold it has noted, before it began to repair.
    `given` is the highest number that anybody had.
    """
    chance = random.Random(seed)
    whole = disk.restart()
    changes: list[str] = []
    whole.before_change = changes.append
    undisturbed = open_copy(whole)
    expected, lost = state_of(undisturbed), undisturbed.recovery.lost
    handed_over = max(_places(changes, names.FOUND), default=len(changes))
    hold_noted = min(_places(changes, names.HOLD), default=len(changes)) + _SYNCED
    places = range(1, len(changes) + 1)
    for at in chance.sample(places, min(PLACES_MAX, len(places))):
        ended = disk.restart()
        ended.kill_at = at
        try:
            open_copy(ended)
        except Killed as killed:
            where = f"{at}: {killed}"
        else:
            continue
        left = ended.restart() if chance.random() < 0.3 else ended.crash(seed + at)
        opener = open_otherwise if at >= hold_noted and chance.random() < 0.7 else open_copy
        again = _check(left, opener, expected, lost if at <= handed_over else (), where)
        following = again._journal.next_message
        if following <= given < undisturbed._journal.next_message:
            raise PromiseBroken(f"{NUMBERED}\nended at {where}\n{following}, of {given}\n{again.recovery}")


def _places(changes: Sequence[str], name: str) -> list[int]:
    """Return which of the changes are of the name itself, counted from 1."""
    return [at for at, change in enumerate(changes, start=1) if change.split()[-1] == name]


def _check(left: SimulatedDisk, open_copy: Opener, expected: State, lost: Sequence[Loss], where: str) -> Unattended:
    again = open_copy(left)
    found = state_of(again)
    if found != expected:
        raise PromiseBroken(f"{ANYWHERE}\nended at {where}\nfound {found}\nnot   {expected}\n{again.recovery}")
    told = {loss.name for loss in again.recovery.lost}
    if missing := {loss.name for loss in lost} - told:
        raise PromiseBroken(f"{ANYWHERE}\nended at {where}\n{missing} is not told: {again.recovery}")
    return again
