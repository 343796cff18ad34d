"""Backups beside all that happens in the engine's world: each holds exactly what its database had at its commit.

After every attempt the backup is read: it holds the state after the commit that its manifest names, never an earlier
one than before, and says of the database that it was closed where it was, and only there.
"""

import errno
from dataclasses import dataclass, field

from oms_journal.database.backup.backup import Backup, BackupOptions
from oms_journal.journal.errors import BehindItsBackup, DiskError, NothingToBackUp
from oms_journal.journal.format import manifest
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import DataFileName
from tests.simulation.backup.history import History
from tests.simulation.backup.steps import Ship
from tests.simulation.engine.account import Identified, Scope
from tests.simulation.engine.play import Run
from tests.simulation.world import PromiseBroken, Step
from tests.support.crashes.backup_model import BACKUP, backed_up
from tests.support.crashes.crash_model import SPOOL, Account, State, Unattended
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_disk import Killed, SimulatedDisk

SAME = "a backup holds exactly the state after the commit that it says it ends with"
ONWARD = "a backup never goes back, and what ends it leaves the one before or the new one"
CLOSED = "a backup says that its database was closed where it was, and only there"


@dataclass(slots=True, kw_only=True)
class Shipped:
    """What a backup was found to hold, what was true of its database then, and what became of that since."""

    manifest: Manifest
    state: State
    identified: dict[Scope, Identified]
    handed: set[int] = field(default_factory=set)  # of its messages: gone, or given to somebody, since
    is_tried: bool = False  # somebody began to open the database
    is_opened: bool = False  # and had it


@dataclass(slots=True)
class Shipping(Run):
    """The engine's run, with a history of its states and a backup."""

    target: SimulatedDisk = field(default_factory=SimulatedDisk)
    histories: list[History] = field(default_factory=lambda: [History([(0, State())])])
    entered: State = field(default_factory=State)
    commits: int = 0  # by when it was
    shipped: Shipped | None = None
    durable: Shipped | None = None  # the same, or an earlier one where a process ended before that was durable
    has_lost: bool = False  # the database has lost a file, of which the backup keeps what it has
    is_closed: bool = False  # the last opening has ended cleanly

    def _take(self, step: Step) -> None:
        if isinstance(step, Ship):
            if not self.is_rotten and SPOOL in self.disk.directories():
                self._ship(step)
            return
        Run._take(self, step)
        if self.database is not None:
            group = self.database._group
            self._note(group.acknowledged or self.database._journal._opening.next_commit - 1)

    def _start(self) -> None:
        self.is_closed = False
        known = [one for one in (self.shipped, self.durable) if one is not None]
        for one in known:
            one.is_tried = True
        Run._start(self)
        for one in known:
            one.is_opened = True

    def _close(self) -> None:
        is_open = self.database is not None
        Run._close(self)
        if is_open and self.database is None:
            self.is_closed = not self.is_faulty and not self.disk.failed and self.disk.space is None

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

    def _go_on_with(self, found: Unattended, *, is_told: bool) -> None:
        """Begin another history where damage was repaired; what a backup had of the lost file before, it has still."""
        Run._go_on_with(self, found, is_told=is_told)
        self.has_lost = True
        kept = self.histories if self.shipped is not None else []
        self.entered = self.account.state
        self.histories = [History([(0, self.entered)]), *kept]

    def _ship(self, step: Ship) -> None:
        target = self.target
        failed = len(self.disk.failed)
        if step.kill_after:
            target.kill_at = target.steps + step.kill_after
        if step.verb:
            target.fail(step.verb, step.nth, errno.ENOSPC if step.is_full else errno.EIO)
        branch = "made"
        try:
            with Backup.open(SPOOL, BACKUP, self._backup_options(), disk=self.disk, onto=target) as backup:
                report = backup.run()
            if report.damage:
                raise PromiseBroken(f"{SAME}\nwhat is whole was said to be damaged: {report.damage}")
        except NothingToBackUp:
            branch = "nothing yet"
        except BehindItsBackup:
            if not self.has_lost:
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
        self._check_backup(self.durable if is_cut else self.shipped)
        if is_cut or branch == "made":
            self.durable = self.shipped
        if branch == "made":
            self._check_closed(must=self.is_closed and self.former is None)

    def _backup_options(self) -> BackupOptions:
        """Nobody vouches while it waits: one look more is enough."""
        return BackupOptions(links=False, wait=lambda _: None, vouch_seconds=0.1, clock=self.clock)

    def _enter(self, step: Ship, branch: str) -> None:
        fault = "none" if not (step.kill_after or step.verb) else f"failed {step.verb}" if step.verb else "ended"
        self.seen.met[f"{fault} of the backup's disk", "back-up", branch] += 1
        self.seen.changes += self.target.steps
        if branch == "ended":
            self.seen.crashes.add(self.target.digest(without="omsmsg.lock"))

    # What is held against the run.

    def _check_backup(self, before: Shipped | None) -> None:
        """Check what the backup holds, and that it is not an earlier one than this."""
        found, state = None, State()
        if BACKUP in self.target.directories() and manifest.read(self.target, BACKUP) is not None:
            found, state = backed_up(self.target, BACKUP)
        if before is not None:
            self.seen.checked[ONWARD] += 1
            was = before.manifest.tail
            if found is None or (found.tail.sequence, found.tail.commit) < (was.sequence, was.commit):
                raise PromiseBroken(f"{ONWARD}\n{before.manifest}\n{found}")
        if found is None or not found.is_complete:
            return
        known = [one for one in (self.shipped, self.durable) if one is not None and one.manifest.tail == found.tail]
        if known:
            answers: list[bool | None] = [state == known[0].state]
        else:
            commit, account = found.tail.commit, self.account
            answers = [history.allows(commit, state, self.entered, account) for history in self.histories]
            if self.has_lost and True not in answers:
                answers = [state == self._rebuilt(found)]
        self.seen.checked[SAME] += None not in answers
        if not any(answer is not False for answer in answers):
            raise PromiseBroken(f"{SAME}\n{found}\n{state}\n{self.histories}")
        if known and known[0].manifest == found:
            self.shipped = known[0]
        else:
            self.shipped = Shipped(manifest=found, state=state, identified=dict(self.account.identified))
            self._check_closed()

    def _rebuilt(self, known: Manifest) -> State:
        """Return what the backup's files add up to, read by themselves: each the database's, or what it had before."""
        there, source = self.target.contents(BACKUP), self.disk.contents(SPOOL)
        files = {}
        for file in known.files:
            name = str(DataFileName(file.sequence))
            files[name] = there[name][: file.size]
            had = self.shipped.manifest.file(file.sequence) if self.shipped is not None else None
            if file != had and files[name] != source.get(name, b"")[: file.size]:
                raise PromiseBroken(f"{SAME}\n{name} is neither what it was nor what the database has")
        return Store(files, Account()).state()

    def _check_closed(self, *, must: bool = False) -> None:
        """Check what the backup says of its database that was taken just now."""
        assert self.shipped is not None
        self.seen.checked[CLOSED] += 1
        was_closed = self.shipped.manifest.was_closed
        has_more = not self.has_lost and not self.account.allows(self.shipped.state)
        if was_closed and (self.database is not None or has_more):
            raise PromiseBroken(f"{CLOSED}\nit is open, or has more: {self.shipped}\n{self.account.state}")
        if must and not was_closed:
            raise PromiseBroken(f"{CLOSED}\nit was closed: {self.shipped.manifest}")
