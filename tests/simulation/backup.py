"""The world "backup": the engine's world, with backups made beside all that happens in it, on a disk of their own.

Between the steps of the engine's world the database is backed up, while it is open, crashed or taken over, and the
backup's own process and machine end before any change, and its calls fail. After each of them the backup is read: it
holds exactly the state after the commit that its manifest names, and never an earlier one than before.
"""

import errno
import logging
import random
from dataclasses import dataclass, field

from database.backup import Backup, BackupOptions
from journal import manifest
from journal.errors import DiskError, NothingToBackUp
from tests.backup_model import BACKUP, backed_up
from tests.crash_model import SPOOL, State, Unattended
from tests.faulty_disk import Killed, SimulatedDisk
from tests.simulation.engine_play import Run
from tests.simulation.engine_script import script
from tests.simulation.engine_steps import *  # noqa: F403  # so that a script can be read back
from tests.simulation.engine_steps import Fail, Rot
from tests.simulation.world import PromiseBroken, Script, Seen, Step

SAME = "a backup holds exactly the state after the commit that it says it ends with"
ONWARD = "a backup never goes back, and what ends it leaves the one before or the new one"
_VERBS = ("write", "sync", "create", "rename", "sync_directory", "unlink", "truncate", "lock_write")


@dataclass(frozen=True, slots=True)
class Ship:
    """Make a backup. `kill_after` changes of its disk its machine ends, or its process; or the n-th call fails."""

    kill_after: int = 0
    seed: int = 0
    cuts_power: bool = True
    verb: str = ""
    nth: int = 0
    is_full: bool = False


@dataclass(slots=True)
class BackedUpRun(Run):
    """The engine's run, with a history of its states and a backup."""

    target: SimulatedDisk = field(default_factory=SimulatedDisk)
    history: list[tuple[int, State]] = field(default_factory=lambda: [(0, State())])
    starts_at: set[int] = field(default_factory=set)  # places in the history where a start entered what it found

    def _take(self, step: Step) -> None:
        if isinstance(step, Ship):
            if not self.is_rotten and SPOOL in self.disk.directories():
                self._ship(step)
            return
        Run._take(self, step)
        if self.database is not None:
            group = self.database.group
            known = group.acknowledged or self.database._journal._opening.next_commit - 1
            self.history.append((known, self.account.state))

    def _check_start(self, database: Unattended) -> None:
        Run._check_start(self, database)
        self.starts_at.add(len(self.history))
        self.history.append((database._journal._opening.next_commit - 1, self.account.state))

    def _ship(self, step: Ship) -> None:
        target = self.target
        before = manifest.read(target, BACKUP) if BACKUP in target.directories() else None
        if step.kill_after:
            target.kill_at = target.steps + step.kill_after
        if step.verb:
            target.fail(step.verb, step.nth, errno.ENOSPC if step.is_full else errno.EIO)
        # Nobody commits while it waits for a frame that vouches: a second look sees all that thirty would.
        options = BackupOptions(links=False, wait=lambda _: None, vouch_seconds=0.1, clock=self.clock)
        branch = "made"
        try:
            with Backup.open(SPOOL, BACKUP, options, disk=self.disk, onto=target) as backup:
                report = backup.run()
            if report.damage:
                raise PromiseBroken(f"{SAME}\nwhat is whole was said to be damaged: {report.damage}")
        except NothingToBackUp:
            branch = "nothing yet"
        except DiskError:
            if not target.failed:
                raise
            branch = "failed"
        except Killed:
            branch = "ended"
        self._enter(step, branch)
        self.target = target.crash(step.seed) if branch == "ended" and step.cuts_power else target.restart()
        self._check(before)

    def _enter(self, step: Ship, branch: str) -> None:
        fault = "none" if not (step.kill_after or step.verb) else f"failed {step.verb}" if step.verb else "ended"
        self.seen.met[f"{fault} of the backup's disk", "back-up", branch] += 1
        self.seen.changes += self.target.steps
        if branch == "ended":
            self.seen.crashes.add(self.target.digest(without="omsmsg.lock"))

    def _check(self, before: manifest.Manifest | None) -> None:
        if BACKUP not in self.target.directories() or manifest.read(self.target, BACKUP) is None:
            if before is not None:
                raise PromiseBroken(f"{ONWARD}\nit has gone: {before}")
            return
        found, state = backed_up(self.target, BACKUP)
        assert found is not None
        self.seen.checked[ONWARD] += 1
        was = before.tail if before is not None else found.tail
        if (found.tail.sequence, found.tail.commit) < (was.sequence, was.commit):
            raise PromiseBroken(f"{ONWARD}\n{before}\n{found}")
        if found.is_complete:
            allowed = self._allowed(found.tail.commit)
            self.seen.checked[SAME] += bool(allowed)
            if allowed and state not in allowed:
                raise PromiseBroken(f"{SAME}\n{found}\n{state}\n{allowed}")

    def _allowed(self, commit: int) -> list[State]:
        """Return what a backup may hold that ends with this commit; nothing where that is inside a step."""
        place = max(at for at, (number, _) in enumerate(self.history) if number <= commit)
        number, state = self.history[place]
        following = self.history[place + 1 : place + 2]
        if number == commit or not following or following[0][1] == state:
            return [state, self.account.state]
        if place + 1 in self.starts_at:
            return [state, following[0][1]]  # what was on its way, and a start has taken in
        return []


class BackupWorld:
    """A database, everything that can happen to it, and its backup."""

    name = "backup"

    def script(self, seed: int) -> Script:
        chance = random.Random(f"backup {seed}")
        steps: list[Step] = []
        for step in script(seed):
            if isinstance(step, Rot) or (isinstance(step, Fail) and step.misdirected):
                continue
            steps.append(step)
            if chance.random() < 0.4:
                steps.append(_ship(chance))
        return [*steps, Ship()]

    def play(self, script: Script, seen: Seen) -> None:
        log = logging.getLogger("oms")
        before = log.level
        log.setLevel(logging.CRITICAL)  # it says of every fault that it is one
        try:
            BackedUpRun(seen).play(script)
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
