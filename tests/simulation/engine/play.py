"""One run of the world "engine": the steps of a script, one after another."""

import random
from dataclasses import dataclass, replace
from typing import Any

from oms_journal.journal.errors import (
    DatabaseLocked,
    DiskError,
    JournalError,
    TakenOver,
)
from oms_journal.journal.names import LOCK
from tests.simulation.engine.bounds import BOUNDED, NEEDED, WITNESSED, check_files, check_memory, check_witnessed
from tests.simulation.engine.ended import ANYWHERE, NUMBERED, check_ended_anywhere
from tests.simulation.engine.owners import Owning
from tests.simulation.engine.start import INTACT
from tests.simulation.engine.steps import (
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
from tests.simulation.world import PromiseBroken, Script, Step
from tests.support.crashes.crash_model import SPOOL, Unattended, state_of
from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import Killed, Kind, SimulatedDisk

ALONE = "nobody opens a directory that another opening has"
ROOM = "a commit is written where the disk has durably made room, and nowhere else"

_OPERATIONS = {
    CleanUp: "clean-up",
    Tend: "seal",
    Silence: "vouch",
    Close: "close",
    Reopen: "close",
    Former: "late write",
}
_ROLLING = ("create", "write ", "sync ", "sync_directory", "unlink")


@dataclass(slots=True)
class Run(Owning):
    """The world of one script."""

    def play(self, script: Script) -> None:
        for step in script:
            self.seen.steps += 1
            self._take(step)
        self.armed = None
        self.disk.before_change = None
        self.disk.space = None
        self._take(PowerCut(0, len(script)))
        self._take(Look())
        self.seen.changes += self.disk.steps
        for fault, operation in self.faults:
            self.seen.met[fault, operation, "running"] += 1

    def _take(self, step: Step) -> None:
        kind = type(step)
        self.operation = _OPERATIONS.get(kind, "commit")
        self._acting = None
        try:
            self._do(step)
        except Killed as where:
            self._crash(str(where))
        except (JournalError, OSError) as failure:
            self._go_on(failure)
        finally:
            self._check_room()
            self.is_rotten |= any(fault.kind is Kind.MISDIRECTED for fault in self.disk.failed)

    def _check_room(self) -> None:
        """Check that no commit stands where the disk has said that it has made no room."""
        self.seen.checked[ROOM] += 1
        if self.disk.writes_over_failure:
            raise PromiseBroken(f"{ROOM}\n{self.disk.writes_over_failure}")

    def _go_on(self, failure: JournalError | OSError) -> None:
        try:
            self._failed(failure)
        except Killed as where:
            self._crash(str(where))

    def _do(self, step: Step) -> None:
        match step:
            case PowerCut() | Death():
                self._arm(step)
            case Fail():
                self._arm_fault(step)
            case Space(left):
                self.disk.space = None if left is None else self.disk.used() + left
                self.account.is_disk_full |= left is not None
            case Pause():
                self._arm_pause(step)
            case Former(what):
                self._let_former(what)
            case Rot():
                self._rot(step)
            case Misplace():
                self._misplace(step)
            case EndAnywhere(seed):
                self._end_anywhere(seed)
            case Close() | Reopen():
                self._close()
                if isinstance(step, Reopen):
                    self.opening = step
            case _:
                self._acting = self._opened()
                if self.is_rotten and isinstance(step, Look | Take | Resend):
                    self._check_readable(self._acting)  # what can be read is known again after the next start
                    return
                active = self._acting._journal.active_sequence or 0
                self._work(self._acting, step)
                self._check_bounds(self._acting, step, active)

    def _check_bounds(self, database: Unattended, step: Step, active: int) -> None:
        """Check what a database keeps, while nothing is wrong with it."""
        if database is not self.database or self.is_rotten or self.is_faulty or self.disk.faults or self.disk.space:
            return
        self.seen.checked[BOUNDED] += 1
        check_memory(database, len(self.callers.taken) + self.damaged)
        self.seen.checked[WITNESSED] += 1
        check_witnessed(self.disk, database)
        if isinstance(step, CleanUp) and self.disk.kill_at is None and self.disk.before_change is None:
            self.seen.checked[NEEDED] += 1
            check_files(self.disk, database, active)

    def _work(self, database: Unattended, step: Any) -> None:
        callers = self.callers
        match step:
            case Add():
                callers.add(database, step)
            case AddMany():
                callers.add_many(database, step)
            case Remove() | Purge():
                callers.remove(database, step)
            case Put():
                callers.put(database, step)
            case Drop():
                callers.drop(database, step)
            case Block():
                callers.block(database, step)
            case Group():
                callers.group(database, step)
            case Resend():
                callers.resend(database, step)
            case Take(queue):
                callers.take(database, queue)
            case Release() | LetGo() | Discard():
                callers.decide(database, step)
            case Look():
                callers.look(database)
                self._check_alone()
            case _:
                self._tend(database, step)

    def _check_alone(self) -> None:
        self.seen.checked[ALONE] += 1
        try:
            Unattended.open(SPOOL, disk=self.disk, options=self.options())
        except (DatabaseLocked, DiskError):  # or the disk fails, as it was asked to
            return
        raise PromiseBroken(ALONE)

    def _tend(self, database: Unattended, step: Any) -> None:
        """Do what the maintenance does in time."""
        match step:
            case Tend():
                database.maintain()
            case Silence(seconds):
                self.clock.advance(seconds)
                database.vouch()
                database.maintain()
                database.look_for_room()
                self._renew(database)
            case CleanUp(is_due=True):
                database._clean_up()
            case CleanUp(compact=compact):
                self.operation = "compaction" if compact else "clean-up"
                database.cleanup(compact=compact)
            case _:
                raise TypeError(f"no step of this world: {step!r}")

    def _renew(self, database: Unattended) -> None:
        try:
            database._ownership.renew()
        except TakenOver as failure:
            database._group.fence(failure)

    def _close(self) -> None:
        if self.database is not None:
            self._acting = self.database
            self.database.close()
            if self._acting is self.database:
                self.database = None

    # Crashes.

    def _arm(self, step: PowerCut | Death) -> None:
        self.armed = step
        self.disk.kill_at = self.disk.steps + step.after
        if not step.after:
            raise Killed("now")

    def _crash(self, where: str) -> None:
        """Go on with what the end of the machine, or of the process, leaves."""
        step, self.armed = self.armed, None
        assert step is not None
        self._note_faults()
        operation = self._operation_at(where)
        before, self.database, self.former = self.disk, None, None
        self.seen.changes += before.steps
        may_be_cut = self._leave_untold(where)
        if isinstance(step, PowerCut) and may_be_cut:
            is_harsh = step.is_harsh and self.alignment_min >= 512
            for other in range(0 if self.is_rotten else step.others):
                self._look_at(before.crash(step.seed + 1 + other, is_harsh=is_harsh))
            self.disk = before.crash(step.seed, is_harsh=is_harsh)
            self.faults.append(("power cut", operation))
        else:
            self.disk = before.restart()
            self.faults.append(("killed", operation))
        self.seen.crashes.add(self.disk.digest(without=LOCK))

    def _look_at(self, disk: SimulatedDisk) -> None:
        """Look at another thing that the power cut may have left."""
        digest = disk.digest(without=LOCK)
        if digest in self.seen.crashes:
            return
        self.seen.crashes.add(digest)
        found = self._open(disk)
        self.seen.checked[INTACT] += 1
        if found.recovery.lost or found.recovery.suspects:
            raise PromiseBroken(f"{INTACT}\n{found.recovery}")
        self.account.check(state_of(found))

    def _end_anywhere(self, seed: int) -> None:
        """Look at the start that comes as it would be ended anywhere, where nothing but rot is wrong."""
        is_alone = self.database is None and self.untold is None and self.former is None
        if not is_alone or not self.is_rotten or self.disk.faults or self.disk.space is not None:
            return
        for promise in (ANYWHERE, NUMBERED):
            self.seen.checked[promise] += 1
        check_ended_anywhere(self.disk, self._open, self._open_otherwise, seed, self.account.highest)

    def _open_otherwise(self, disk: SimulatedDisk) -> Unattended:
        """Open it as who was not told to hold back anything."""
        asked, self.opening = self.opening, replace(self.opening, holds=False)
        try:
            return self._open(disk)
        finally:
            self.opening = asked

    def _operation_at(self, where: str) -> str:
        if self.operation == "commit" and where.startswith(_ROLLING):
            return "roll"
        return "idle" if where == "now" else self.operation

    # Faults.

    def _arm_fault(self, step: Fail) -> None:
        if step.seconds:
            self.disk.slow(step.verb, step.nth, step.seconds)
        elif step.misdirected:
            self.disk.misdirect(step.verb, step.nth, step.misdirected)
        else:
            self.disk.fail(step.verb, step.nth, step.code, is_short=step.is_short)

    def _rot(self, step: Rot) -> None:
        """Change bytes of a data file under whoever uses it."""
        if SPOOL not in self.disk.directories() or self.untold is not None:
            return
        names = [name for name, data in self.disk.contents(SPOOL).items() if name.endswith(".data") and any(data)]
        if not names:
            return
        path = SPOOL / names[step.file % len(names)]
        data = self.disk.content(path)
        start = min(int(step.place * len(data)), len(data) - 1)
        if step.size == SECTOR:
            start = start // SECTOR * SECTOR
        chance = random.Random(step.seed)
        new = bytes([data[start] ^ 1 << step.seed % 8]) if not step.size else chance.randbytes(step.size)
        if step.size == SECTOR and step.seed % 3 == 0:
            new = bytes(SECTOR)
        self.disk.rot(path, new, start)
        self.is_rotten = True
        what = "bit rot" if not step.size else "sector rot" if step.size == SECTOR else "rotten bytes"
        is_sealed = data.endswith(b"2ATOOFSM")
        self.faults.append((f"{what} {'sealed' if is_sealed else 'active'}", "running" if self.database else "idle"))
