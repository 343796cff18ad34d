"""One run of the world "engine": the steps of a script, one after another."""

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from database.options import Options
from database.reopening import Reopening
from journal.errors import (
    CommitFailed,
    DiskError,
    DiskFull,
    JournalError,
    NotAttempted,
    NotThisDatabase,
    TakenOver,
)
from journal.names import LOCK
from journal.reserve import NO_SPACE
from tests.crash_model import SPOOL, Unattended, state_of
from tests.faulty_bytes import SECTOR
from tests.faulty_disk import Fault, Killed, Kind, SimulatedDisk
from tests.simulation.engine_account import THERE, Account
from tests.simulation.engine_bounds import BOUNDED, NEEDED, check_files, check_kept, check_memory
from tests.simulation.engine_bounds import KEPT as KEPT_WHOLE
from tests.simulation.engine_rot import (
    FOUND,
    ONLY,
    REBUILT,
    REPORTED,
    RETURNED,
    check_found,
    check_rebuilt,
    hits,
    rotten_files,
)
from tests.simulation.engine_steps import (
    Add,
    AddMany,
    Block,
    CleanUp,
    Close,
    Death,
    Drop,
    Fail,
    Former,
    Group,
    Look,
    Pause,
    PowerCut,
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
from tests.simulation.engine_work import FENCED, Callers
from tests.simulation.world import PromiseBroken, Script, Seen, Step
from tests.watched_disk import HandClock

KEPT = Path("/kept")
OPENINGS_MAX = 6  # attempts while the disk fails
SAME = "a second start finds the same and changes nothing"
INTACT = "nothing is reported that did not happen"
TIDY = "no unfinished file is left over"
NEVER = 1 << 60  # commits between two looks of a tender that is a step

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
class Run:
    """The world of one script."""

    seen: Seen
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clock: HandClock = field(default_factory=HandClock)
    account: Account = field(default_factory=Account)
    opening: Reopen = field(default_factory=Reopen)
    database: Unattended | None = None
    former: Unattended | None = None
    armed: PowerCut | Death | None = None
    operation: str = "idle"
    faults: list[tuple[str, str]] = field(default_factory=list)  # since the last start, and what they hit
    alignment_min: int = 4096  # of all files so far
    starts: int = 0
    bits: random.Random = field(default_factory=lambda: random.Random(1))
    is_rotten: bool = False
    is_faulty: bool = False  # a call went wrong for this opening
    callers: Callers = field(init=False)
    _acting: Unattended | None = None  # whose step it is

    def __post_init__(self) -> None:
        self._tell_time()
        self.callers = Callers(self, self.account, self.clock, self.seen)

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
            self.is_rotten |= any(fault.kind is Kind.MISDIRECTED for fault in self.disk.failed)

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
            case Look() | Take() | Resend() if self.is_rotten:
                pass  # what can be read is known again after the next start
            case Close() | Reopen():
                self._close()
                if isinstance(step, Reopen):
                    self.opening = step
            case _:
                self._acting = self._opened()
                active = self._acting._journal.active_sequence or 0
                self._work(self._acting, step)
                self._check_bounds(self._acting, step, active)

    def _check_bounds(self, database: Unattended, step: Step, active: int) -> None:
        """Check what a database keeps, while nothing is wrong with it."""
        if database is not self.database or self.is_rotten or self.is_faulty or self.disk.faults or self.disk.space:
            return
        self.seen.checked[BOUNDED] += 1
        check_memory(database, len(self.callers.taken))
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
            case Remove():
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
            case Release(place):
                callers.release(database, place)
            case Look():
                callers.look(database)
            case _:
                self._tend(database, step)

    def _tend(self, database: Unattended, step: Any) -> None:
        """Do what the tender does in time."""
        match step:
            case Tend():
                database.tend()
            case Silence(seconds):
                self.clock.advance(seconds)
                database.vouch()
                database.tend()
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
            database.group.fence(failure)

    # Starts.

    def options(self) -> Options:
        opening = self.opening
        return Options(
            max_data_file_size=opening.size,
            group_alignment=opening.alignment,
            validation="full" if self.is_rotten else opening.validation,  # type: ignore[arg-type]
            compact_share=opening.share,
            retention_directory=KEPT if opening.retention else None,
            hold_suspects=opening.holds,
            cleanup_interval=0,
            clock=self.clock,
            chance=self.bits.getrandbits,
            sleep=lambda _: None,
        )

    def _opened(self) -> Unattended:
        if self.database is None:
            during, self.operation = self.operation, "recovery"
            self._start()
            self.operation = during
        assert self.database is not None
        return self.database

    def _start(self) -> None:
        """Open the database, in spite of what the disk does, and hold what is found against the account."""
        self.is_faulty = False
        rotten = rotten_files(self.disk) if self.is_rotten else {}
        before = self.disk.restart() if rotten else self.disk
        for attempt in range(OPENINGS_MAX):
            failed = len(self.disk.failed)
            try:
                self.database = self._open(self.disk)
                break
            except JournalError as failure:
                if isinstance(failure, NotThisDatabase) and rotten:
                    self._restore(rotten)
                    rotten = {}
                    continue
                if len(self.disk.failed) == failed and self.disk.space is None:
                    raise PromiseBroken(f"a start is refused only where the disk refuses\n{failure!r}") from failure
                self._note_faults()
                self.faults.append((f"refused: {type(failure).__name__}", "recovery"))
                if attempt >= OPENINGS_MAX // 2:
                    self.disk.faults.clear()
                    self.disk.space = None
        assert self.database is not None
        self._note_faults()
        self.callers.taken.clear()
        if rotten:
            self._check_rotten(before, rotten, self.database)
        else:
            self._check_start(self.database)

    def _check_rotten(self, before: SimulatedDisk, rotten: dict[str, list[tuple[int, int]]], found: Unattended) -> None:
        """Hold what was found in spite of rot against what the same disk without rot holds."""
        healed = before.healed()
        files = healed.restart()
        base = self._open(healed)
        self.account.settle(state_of(base))
        self.seen.checked[REBUILT] += 1
        store = check_rebuilt(files, base.recovery.files, self.account.state)
        hit = hits(store, rotten)
        for name in () if hit.is_unclear else (ONLY, REPORTED, RETURNED, FOUND):
            self.seen.checked[name] += 1
        if not hit.is_unclear:
            check_found(base, hit, store, found)
            counted = {report.name for report in found.recovery.files}
            if left := [name for name in rotten_files(self.disk) if name in counted]:
                raise PromiseBroken(f"{FOUND}\n{left}: {found.recovery}")
        self._enter_rows(found)
        self.account.found_damaged(state_of(found))
        self.is_rotten = bool(rotten_files(self.disk))

    def _restore(self, rotten: dict[str, list[tuple[int, int]]]) -> None:
        """Do what somebody has to do who finds a sector of one file in the place of another's header."""
        if not any(start < 768 for ranges in rotten.values() for start, _ in ranges):
            raise PromiseBroken(f"a start is refused only where the disk refuses\nno header has rotted: {rotten}")
        self.faults.append(("refused: NotThisDatabase", "recovery"))
        self.disk = self.disk.healed()
        self.is_rotten = False

    def _enter_rows(self, database: Unattended) -> None:
        """Enter which branches of recovery followed the faults since the start before."""
        rows = {file.row for file in database.recovery.files} - {"sealed"} or {"sealed"}
        for fault, operation in self.faults:
            for row in rows:
                self.seen.met[fault, operation, row] += 1
        self.faults.clear()

    def _open(self, disk: SimulatedDisk) -> Unattended:
        database = Unattended.open(SPOOL, disk=disk, options=self.options())
        assert isinstance(database, Unattended)
        database.patience = NEVER
        self.alignment_min = min(self.alignment_min, self.opening.alignment)
        return database

    def _check_start(self, database: Unattended) -> None:
        self._settle(database)
        self.account.is_disk_full = self.disk.space is not None

    def _settle(self, database: Unattended) -> None:
        report, found = database.recovery, state_of(database)
        self._enter_rows(database)
        self.seen.checked[INTACT] += 1
        if report.lost or report.suspects:
            raise PromiseBroken(f"{INTACT}\n{report}")
        self.seen.checked[THERE] += 1
        self.account.settle(found)
        self.seen.checked[TIDY] += 1
        left = [] if self.is_faulty else [name for name in self.disk.list(SPOOL) if name.endswith(".new")]
        if left:
            raise PromiseBroken(f"{TIDY}\n{left}")
        if self.opening.retention:
            self.seen.checked[KEPT_WHOLE] += 1
            check_kept(self.disk, KEPT)
        self.starts += 1
        if self.starts % 4 == 0:
            self._check_same()

    def _check_same(self) -> None:
        """Check that what a start has found is there for the next one too, after a power cut as well."""
        self.seen.checked[SAME] += 1
        copy = self.disk.restart()
        if self.starts % 8:
            copy = self.disk.crash(self.starts, is_harsh=self.alignment_min >= 512)
        again = self._open(copy)
        self._check_is_same(again)
        again.close()
        before = _files(copy)
        third = self._open(copy)
        self._check_is_same(third)
        changed = [name for name, data in _files(copy).items() if before.get(name) != data]
        if changed and not third.cleaned_at_start.deleted:
            raise PromiseBroken(f"{SAME}\n{changed} changed: {third.recovery}")
        self.seen.checked[REBUILT] += 1
        check_rebuilt(copy, third.recovery.files, self.account.state)

    def _check_is_same(self, again: Unattended) -> None:
        if not again.recovery.intact:
            raise PromiseBroken(f"{SAME}\n{again.recovery}")
        if state_of(again) != self.account.state:
            raise PromiseBroken(f"{SAME}\n{state_of(again)}\n{self.account.state}")

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
        if isinstance(step, PowerCut):
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
        self.seen.checked[THERE] += 1
        self.account.check(state_of(found))

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

    def _note_faults(self) -> None:
        """Enter the faults that came to pass, and the operation that they hit."""
        self.is_faulty |= bool(self.disk.failed)
        for fault in self.disk.failed:
            self.faults.append((_name(fault), self.operation))
            self.is_rotten |= fault.kind is Kind.MISDIRECTED
            self.account.is_disk_full |= fault.code in NO_SPACE
        self.disk.failed.clear()

    def _failed(self, failure: JournalError | OSError) -> None:
        """Go on after an error that a caller got; an error without a fault is one of the program's."""
        if self._acting is not None and self._acting is self.former:
            self.seen.checked[FENCED] += 1
            return  # it stood still in the middle, and has noticed
        self._note_faults()
        is_excused = self.is_faulty or self.disk.space is not None
        if not is_excused:
            raise failure
        if isinstance(failure, DiskFull | NotAttempted):
            self.account.pending = []
        if isinstance(failure, CommitFailed):
            self._let_go()
        elif self.database is None or isinstance(failure, OSError):
            self._end_process()
        elif isinstance(failure, DiskError):
            self.account.pending = []

    def _let_go(self) -> None:
        """Close what has failed; every other time the same process opens it again, and nothing in doubt comes back."""
        database, self.database = self.database, None
        assert database is not None
        if self.starts % 2:
            with contextlib.suppress(JournalError):
                database.close()
            self._end_process()
            return
        again = Reopening(database)
        self.operation = "recovery"
        for _ in range(OPENINGS_MAX):
            try:
                reopened = again.attempt()
                break
            except DiskError:
                self.disk.faults.clear()
                self.disk.space = None
        assert isinstance(reopened, Unattended)
        self.database = reopened
        self.database.patience = NEVER
        self._note_faults()
        self.callers.taken.clear()
        self.account.pending = []  # their callers were told that they had failed: none of it comes back
        self._check_start(self.database)

    def _end_process(self) -> None:
        self.database = self.former = None
        self.seen.changes += self.disk.steps
        self.disk = self.disk.restart()
        self.armed = None

    def _rot(self, step: Rot) -> None:
        """Change bytes of a data file under whoever uses it."""
        if SPOOL not in self.disk.directories():
            return
        names = [name for name, data in self.disk.contents(SPOOL).items() if name.endswith(".data") and any(data)]
        if not names:
            return
        path = SPOOL / names[step.file % len(names)]
        data = self.disk.content(path)
        start = int(step.place * len(data))
        if step.size == SECTOR:
            start = start // SECTOR * SECTOR
        chance = random.Random(step.seed)
        new = bytes([data[start] ^ 1 << step.seed % 8]) if not step.size else chance.randbytes(step.size)
        if step.size == SECTOR and step.seed % 3 == 0:
            new = bytes(SECTOR)
        self.disk.rot(path, new, start)
        self.is_rotten = True
        what = "bit rot" if not step.size else "sector rot" if step.size == SECTOR else "rotten bytes"
        is_sealed = data.endswith(b"1ATOOFSM")
        self.faults.append((f"{what} {'sealed' if is_sealed else 'active'}", "running" if self.database else "idle"))

    # Owners.

    def _arm_pause(self, step: Pause) -> None:
        at = self.disk.steps + step.after

        def take_over(_: str) -> None:
            if self.disk.steps < at or self.database is None or self.operation == "recovery":
                return
            self.disk.before_change = None
            self._take_over(step.meanwhile)

        self.disk.before_change = take_over

    def _take_over(self, meanwhile: Sequence[Step]) -> None:
        """Let another process open the directory while this one stands still in the middle of a change."""
        during, paused = self.operation, self.account.pending
        self.former, self.database = self.database, None
        self.disk.let_go_of_locks()
        self.faults.append(("paused owner", during))
        self.account.pending = list(paused)
        database = self._opened()
        for step in meanwhile:
            self.operation = "commit"
            self._work(database, step)
        self.operation = during

    def _let_former(self, what: int) -> None:
        """Let the process that stood still do something: none of its commits may be acknowledged."""
        former = self.former
        if former is None:
            return
        self.seen.checked[FENCED] += 1
        try:
            match what:
                case 0:
                    former.tend()
                    return
                case 1:
                    former.vouch()
                    return
                case 2:
                    former._journal.tend()
                    return
                case 3:
                    former.cleanup(compact=True)
                    return
                case 4:
                    self.former = None
                    former.close()
                    return
                case _:
                    number = former.add("q0", b"too late")
        except (JournalError, OSError):
            return
        raise PromiseBroken(f"{FENCED}\nmessage {number}")

    def _tell_time(self) -> None:
        self.disk.tell_time(lambda: self.clock.now / 1e6, self.clock.advance)


def _files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith((".data", ".archive"))}


def _name(fault: Fault) -> str:
    """Return what a fault is called in the tables."""
    if fault.kind is Kind.MISDIRECTED:
        return "misdirected write"
    if fault.kind is Kind.SLOW:
        return "slow call"
    if fault.code in NO_SPACE:
        return "full disk"
    if fault.kind is Kind.SHORT:
        return "short write"
    verb = {"write_durably": "write", "sync_directory": "sync of a directory"}.get(fault.verb, fault.verb)
    return f"failed {verb}"
