"""A machine is lost at any moment, and another one goes on with what the backup has.

A restore is begun again until it is through, whatever ends it. Then the run goes on with what it has made, held
against what was shipped, and against what the lost database had promised and handed out after that.
"""

import errno
from dataclasses import dataclass, field, replace
from itertools import count

from oms_journal.database.backup.backup import Backup
from oms_journal.database.backup.restore import RestoreOptions, RestoreReport, restore
from oms_journal.journal import names
from oms_journal.journal.errors import DiskError, NotThisBackup, RestoreUnfinished
from oms_journal.journal.format.headers import xxh3
from tests.simulation.backup.apart import APART, Lost, check_apart
from tests.simulation.backup.history import History
from tests.simulation.backup.shipping import Shipped, Shipping
from tests.simulation.backup.steps import Restore, Ship
from tests.simulation.engine.steps import Death, PowerCut
from tests.simulation.world import PromiseBroken, Step
from tests.support.crashes.backup_model import BACKUP
from tests.support.crashes.crash_model import SPOOL, State, Unattended, state_of
from tests.support.crashes.restored import NEW
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.mounted_disk import Mounted

RESTORED = "all that was shipped is there after a restore, whole"
HELD = "a restore holds what may have been delivered since, and nothing else"
TWICE = "what a lost database has handed out is not handed out again by itself"
UNFINISHED = "a restore is there as a whole, or says that it is unfinished"
PARTED = "a restored database is another one, and names the one it is from"
OTHERS = "a backup is of one database"


@dataclass(slots=True)
class Restoring(Shipping):
    """The run of a database and its backup, and of what is made from that."""

    losing: Restore | None = None
    identity: bytes = b""  # that the last restore has given
    ancestors: set[bytes] = field(default_factory=set)
    spare: tuple[SimulatedDisk, Shipped] | None = None  # the former database's, until the new one has a backup

    def _take(self, step: Step) -> None:
        if isinstance(step, Restore):
            self._lose_machine(step)
        else:
            Shipping._take(self, step)

    def _arm(self, step: PowerCut | Death) -> None:
        self.losing = None
        Shipping._arm(self, step)

    def _crash(self, where: str) -> None:
        step, self.losing = self.losing, None
        if step is None:
            Shipping._crash(self, where)
        else:
            self._replace_machine(step, self._operation_at(where))

    def _lose_machine(self, step: Restore) -> None:
        if self.is_rotten or (self.shipped is None and self.spare is None):
            return
        if not step.after:
            self._replace_machine(step, "idle")
            return
        self.armed, self.losing = None, step
        self.disk.kill_at = self.disk.steps + step.after

    def _ship(self, step: Ship) -> None:
        shipped = self.shipped
        if self.identity and shipped is not None and shipped.manifest.database != self.identity:
            self._check_refused(shipped)
            self.spare, self.target = (self.target, shipped), SimulatedDisk()
            self.shipped = self.durable = None
        Shipping._ship(self, step)

    def _check_refused(self, shipped: Shipped) -> None:
        """Check that what was restored is not backed up over what it was restored from."""
        self.seen.checked[OTHERS] += 1
        before = self.target.contents(BACKUP)
        try:
            with Backup.open(SPOOL, BACKUP, self._backup_options(), disk=self.disk, onto=self.target) as backup:
                backup.run()
        except NotThisBackup:
            if {**self.target.contents(BACKUP), names.LOCK: b""} == {**before, names.LOCK: b""}:
                return
        except DiskError:
            if self.disk.failed:
                return
            raise
        raise PromiseBroken(f"{OTHERS}\n{shipped.manifest} was changed")

    @property
    def _known(self) -> Shipped:
        assert self.shipped is not None
        return self.shipped

    # Restoring.

    def _replace_machine(self, step: Restore, operation: str) -> None:
        """Lose the machine, and go on with a database from the backup."""
        if self.shipped is None and self.spare is not None:
            self.target, self.shipped = self.spare
            self.durable = self.shipped
            self.shipped.is_tried = self.shipped.is_opened = True  # what was made from it before is lost too
        before = self.disk
        left = before.crash(step.seed) if step.after else before.restart()
        lost = Lost(left, self.account.highest, self.identity)
        shipped = self._known
        missing = shipped.state.messages.keys() - self.account.state.messages.keys()
        # Numbers above the highest were on their way to be added: nobody was given them.
        missing = {number for number in missing if number <= self.account.highest}
        if not self.has_lost:  # else there are messages that nobody was given
            shipped.handed.update(missing)
        if self.database is not None:  # else nobody has what was handed out any more
            shipped.handed.update(shipped.state.messages.keys() & self.callers.taken)
        self.seen.changes += before.steps
        sees_original = step.is_there and self.identity in (b"", shipped.manifest.database)
        new, report = self._made(step, lost)
        self.seen.met["lost machine", operation, "restored"] += 1
        found = self._check_made(step, new, report, sees_original=sees_original)
        if not self.has_lost:  # else the backup has a whole file where the lost one had a repaired one
            self.seen.checked[APART] += 1
            check_apart(lost, new, found, shipped.manifest, self._open)
        self._continue_with(new, found)

    def _made(self, step: Restore, lost: Lost) -> tuple[SimulatedDisk, RestoreReport | None]:
        """Return the new machine's disk with the database, and what the last attempt said; None where it was ended."""
        new = SimulatedDisk()
        new.tell_time(lambda: self.clock.now / 1e6, self.clock.advance)
        if step.verb:
            new.fail(step.verb, step.nth, errno.ENOSPC if step.is_full else errno.EIO)
        kills, options = [*step.kills], self._restore_options(step)
        while True:
            new.kill_at = new.steps + kills.pop(0) if kills else None
            mounts = {BACKUP: (self.target, BACKUP), NEW: (new, SPOOL)}
            if step.is_there:
                mounts[SPOOL] = (lost.disk, SPOOL)
            branch = "made"
            try:
                return new, restore(BACKUP, NEW, options, disk=Mounted(mounts))
            except DiskError:
                if not new.failed:
                    raise
                branch = f"failed {new.failed[0].verb}"
                new = new.restart()
            except Killed:
                branch = "ended"
                self.seen.changes += new.steps
                new = new.crash(step.seed + new.steps) if step.cuts_power else new.restart()
                self.seen.crashes.add(new.digest(without=names.LOCK))
                if self._is_whole(new):
                    return new, None
            finally:
                self.seen.met[f"{branch} of the new disk", "restore", "again" if branch != "made" else "made"] += 1

    def _restore_options(self, step: Restore) -> RestoreOptions:
        numbers = count(step.seed << 32)
        return RestoreOptions(
            data_file_bytes_max=self.opening.size,
            clock=self.clock,
            new_identity=lambda: b"".join(
                xxh3(each, next(numbers)).to_bytes(8, "little") for each in (self.identity, b"restored")
            ),
        )

    def _is_whole(self, disk: SimulatedDisk) -> bool:
        """Say whether a restore that was ended was through."""
        self.seen.checked[UNFINISHED] += 1
        entries = set(disk.list(SPOOL)) if SPOOL in disk.directories() else set()
        if names.RESTORE not in entries:
            return not entries <= {names.LOCK, names.unfinished(names.RESTORE)}
        copy = disk.restart()
        try:
            found = self._open(copy)
        except RestoreUnfinished:
            if copy.digest() != disk.digest():
                raise PromiseBroken(f"{UNFINISHED}\nthe directory was changed") from None
            return False
        raise PromiseBroken(f"{UNFINISHED}\nit was opened: {found.recovery}")

    # What is held against the run.

    def _check_made(
        self, step: Restore, new: SimulatedDisk, report: RestoreReport | None, *, sees_original: bool
    ) -> State:
        found = self._open(new.restart())
        state = state_of(found)
        # One that was ended at its last call has promised nobody yet that its note is gone for good.
        again = self._open(new.restart() if report is None else new.crash(step.seed))
        if state_of(again) != state or not found.recovery.intact or not again.recovery.intact:
            raise PromiseBroken(f"{RESTORED}\n{state}\nand after a power cut {state_of(again)}: {again.recovery}")
        self.seen.checked[RESTORED] += 1
        if replace(state, held=self._known.state.held) != self._known.state:
            raise PromiseBroken(f"{RESTORED}\nshipped {self._known}\nfound {state}")
        self._check_held(state, sees_original=sees_original)
        self._check_parted(found)
        if report is not None:
            self._check_report(state, report, sees_original=sees_original)
        return state

    def _check_held(self, found: State, *, sees_original: bool) -> None:
        """Check what is held: all, unless the database had ended and is seen untouched; else what was held already."""
        shipped = self._known
        self.seen.checked[HELD] += 1
        every = frozenset(shipped.state.messages)
        is_untouched = shipped.manifest.was_closed and sees_original and not shipped.is_opened
        allowed = {shipped.state.held} if is_untouched else {every}
        if shipped.is_tried:
            allowed.add(every)  # of an opening that failed nobody can tell what it did
        if found.held not in allowed:
            raise PromiseBroken(f"{HELD}\nfound {sorted(found.held)}\nallowed {allowed}\n{shipped.manifest}")
        self.seen.checked[TWICE] += 1
        if again := shipped.handed & found.messages.keys() - found.held:
            raise PromiseBroken(f"{TWICE}\n{sorted(again)}\n{shipped.manifest}")

    def _check_parted(self, found: Unattended) -> None:
        self.seen.checked[PARTED] += 1
        opening, parent = found._journal._opening, self._known.manifest.database
        self.ancestors |= {parent, self.identity}
        if opening.database in self.ancestors or opening.parent != parent:
            raise PromiseBroken(f"{PARTED}\n{opening}\nfrom {parent.hex()}")
        self.identity = opening.database

    def _check_report(self, found: State, report: RestoreReport, *, sees_original: bool) -> None:
        told = (report.database, report.parent, report.undelivered, report.held, report.intact)
        parent = self._known.manifest.database.hex()
        if told != (self.identity.hex(), parent, len(found.messages), len(found.held), True):
            raise PromiseBroken(f"{RESTORED}\n{report}\n{found}")
        if self._known.manifest.was_closed:
            allowed = {self._known.is_opened, self._known.is_tried} if sees_original else {None}
            if report.went_on not in allowed:
                raise PromiseBroken(f"{HELD}\n{report} but went on {allowed}")

    def _check_start(self, database: Unattended) -> None:
        Shipping._check_start(self, database)
        if self.identity and database._journal._opening.database != self.identity:
            raise PromiseBroken(f"{PARTED}\n{database._journal._opening} is not {self.identity.hex()} any more")

    def _continue_with(self, disk: SimulatedDisk, found: State) -> None:
        """Let what was restored be the run's database: promised is what was shipped."""
        known, account = self._known.manifest, self.account
        account.spent.update(number for number in account.given if number >= known.next_message)
        account.given.clear()
        away = max(0, self.clock.now - known.taken_at)
        account.identified = {
            scope: replace(one, time=one.time + away)
            for scope, one in self._known.identified.items()
            if one.first < known.next_message
        }
        account.state, account.highest = found, known.next_message - 1
        account.pending, account.taken_in, account.is_disk_full = [], [], False
        self.callers.taken.clear()
        self.faults.clear()
        disk.kill_at = None
        disk.failed.clear()
        self.disk, self.database, self.former, self.armed = disk, None, None, None
        self.is_faulty, self.damaged = False, 0
        self._known.is_tried = self.is_closed = True
        self.has_lost = False
        self.was_held |= bool(found.held)
        self.histories, self.entered, self.commits = [History([(0, found)])], found, account.commits
