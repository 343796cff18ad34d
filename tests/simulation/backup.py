"""The world "backup": the engine's world, with backups made beside all that happens in it, on a disk of their own.

Between the steps of the engine's world the database is backed up, while it is open, crashed or taken over, and the
backup's own process and machine end before any change, and its calls fail. After each of them the backup is read: it
holds exactly the state after the commit that its manifest names, and never an earlier one than before.
"""

import errno
import logging
import random
from dataclasses import dataclass, field, replace
from typing import TypeVar

from database.backup import Backup, BackupOptions
from journal import manifest
from journal.errors import BehindItsBackup, DiskError, NothingToBackUp
from journal.format import Previous
from tests.backup_model import BACKUP, backed_up
from tests.crash_model import SPOOL, State, Unattended
from tests.faulty_disk import Killed, SimulatedDisk
from tests.simulation.engine_account import Account
from tests.simulation.engine_play import Run
from tests.simulation.engine_script import script
from tests.simulation.engine_steps import *  # noqa: F403  # so that a script can be read back
from tests.simulation.engine_steps import Fail, Rot
from tests.simulation.world import PromiseBroken, Script, Seen, Step

SAME = "a backup holds exactly the state after the commit that it says it ends with"
ONWARD = "a backup never goes back, and what ends it leaves the one before or the new one"
_K = TypeVar("_K")
_V = TypeVar("_V")
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


def _changed(last: dict[_K, _V], before: dict[_K, _V], after: dict[_K, _V]) -> dict[_K, _V]:
    """Return the last ones with what was changed between the two others."""
    gone = before.keys() - after.keys()
    new = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {key: value for key, value in last.items() if key not in gone} | new


@dataclass(slots=True)
class _History:
    """The state after each commit that was seen, as the last damage has left it, or as it would be without."""

    states: list[tuple[int, State]]
    starts_at: set[int] = field(default_factory=set)  # places where a start entered what it found
    several_at: set[int] = field(default_factory=set)  # places that several commits have led to

    def enter(self, commit: int, before: State, after: State) -> None:
        """Enter that the account's state has become another one."""
        self.states.append((commit, self._now(before, after)))

    def _now(self, before: State, after: State) -> State:
        last = self.states[-1][1]
        messages = _changed(last.messages, before.messages, after.messages)
        return State(dict(sorted(messages.items())), _changed(last.keys, before.keys, after.keys))

    def allows(self, commit: int, found: State, before: State, account: Account) -> bool | None:
        """Say whether a backup may hold this that ends with this commit; None where that is inside a step.

        `before` is the account's state as it was entered last.
        """
        place = max(at for at, (number, _) in enumerate(self.states) if number <= commit)
        number, state = self.states[place]
        following = self.states[place + 1 : place + 2]
        now = self._now(before, account.state)
        if not following:  # what was on its way when a crash came may be there
            return found == state or replace(account, state=now).allows(found)
        if number == commit or (following[0][1] == state and place + 1 not in self.several_at):
            return found in (state, now)
        if place + 1 in self.starts_at:
            return found in (state, following[0][1])  # what was on its way, and a start has taken in
        return None


@dataclass(slots=True)
class BackedUpRun(Run):
    """The engine's run, with a history of its states and a backup."""

    target: SimulatedDisk = field(default_factory=SimulatedDisk)
    histories: list[_History] = field(default_factory=lambda: [_History([(0, State())])])
    entered: State = field(default_factory=State)
    commits: int = 0  # by when it was
    told: manifest.Manifest | None = None  # which backup is surely there
    checked: tuple[Previous, State] | None = None  # how the backup ended when it was read last, and what it held

    def _take(self, step: Step) -> None:
        if isinstance(step, Ship):
            if not self.is_rotten and SPOOL in self.disk.directories():
                self._ship(step)
            return
        Run._take(self, step)
        if self.database is not None:
            group = self.database.group
            self._note(group.acknowledged or self.database._journal._opening.next_commit - 1)

    def _check_start(self, database: Unattended) -> None:
        Run._check_start(self, database)
        for history in self.histories:
            history.starts_at.add(len(history.states))
        self._note(database._journal._opening.next_commit - 1)

    def _note(self, commit: int) -> None:
        is_several = self.account.commits > self.commits + 1
        for history in self.histories:
            if is_several:
                history.several_at.add(len(history.states))
            history.enter(commit, self.entered, self.account.state)
        self.entered, self.commits = self.account.state, self.account.commits

    def _go_on_with(self, found: Unattended) -> None:
        """Begin another history where damage was repaired; what a backup had of the lost file before, it has still."""
        Run._go_on_with(self, found)
        kept = self.histories if self.checked is not None else []
        self.entered = self.account.state
        self.histories = [_History([(0, self.entered)]), *kept]

    def _ship(self, step: Ship) -> None:
        target, failed = self.target, len(self.disk.failed)
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
        except BehindItsBackup:
            if len(self.histories) == 1:
                raise
            branch = "behind"  # the newest file was lost
        except DiskError:
            if not target.failed and len(self.disk.failed) == failed:
                raise
            branch = "failed"
        except Killed:
            branch = "ended"
        self._enter(step, branch)
        is_cut = branch == "ended" and step.cuts_power
        self.target = target.crash(step.seed) if is_cut else target.restart()
        found = manifest.read(self.target, BACKUP) if BACKUP in self.target.directories() else None
        self._check(found)
        if branch == "made" or is_cut:  # a failed one has told nobody that it is durable
            self.told = found

    def _enter(self, step: Ship, branch: str) -> None:
        fault = "none" if not (step.kill_after or step.verb) else f"failed {step.verb}" if step.verb else "ended"
        self.seen.met[f"{fault} of the backup's disk", "back-up", branch] += 1
        self.seen.changes += self.target.steps
        if branch == "ended":
            self.seen.crashes.add(self.target.digest(without="omsmsg.lock"))

    def _check(self, found: manifest.Manifest | None) -> None:
        self.seen.checked[ONWARD] += 1
        told = self.told.tail if self.told is not None else Previous()
        if (found is None and self.told is not None) or (
            found is not None and (found.tail.sequence, found.tail.commit) < (told.sequence, told.commit)
        ):
            raise PromiseBroken(f"{ONWARD}\n{self.told}\n{found}")
        if found is None:
            return
        _, state = backed_up(self.target, BACKUP)
        if found.is_complete:
            self._check_state(found, state)

    def _check_state(self, found: manifest.Manifest, state: State) -> None:
        if self.checked is not None and self.checked[0] == found.tail:
            answers: list[bool | None] = [state == self.checked[1]]
        else:
            commit, was = found.tail.commit, self.entered
            answers = [history.allows(commit, state, was, self.account) for history in self.histories]
        self.seen.checked[SAME] += None not in answers
        if not any(answer is not False for answer in answers):
            raise PromiseBroken(f"{SAME}\n{found}\n{state}\n{self.histories}")
        self.checked = found.tail, state


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
