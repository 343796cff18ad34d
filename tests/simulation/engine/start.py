"""How a run of the world "engine" opens its database, and what it holds each start against."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oms_journal.database.options import Options
from oms_journal.journal import names
from oms_journal.journal.errors import JournalError, NotThisDatabase, RecoveryRefused
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.reserve import NO_SPACE
from oms_journal.recovery.findings import noted
from oms_journal.recovery.report import Verdict
from tests.simulation.coverage import fault_name
from tests.simulation.engine.account import Account
from tests.simulation.engine.bounds import KEPT as KEPT_WHOLE
from tests.simulation.engine.bounds import check_kept
from tests.simulation.engine.held import HELD, LISTED, check_held_as_told, listed, perhaps_listed
from tests.simulation.engine.policy import (
    AS_FOUND,
    CUT,
    CUT_BRANCH,
    HELD_BRANCH,
    REFUSED,
    REFUSED_BRANCH,
    Opener,
    Rotten,
    Untold,
    check_as_found,
    check_nothing_repaired,
    check_refused,
    cuts,
)
from tests.simulation.engine.rot import (
    FOUND,
    ONLY,
    REBUILT,
    REPORTED,
    WHOLE_BYTES,
    Hit,
    check_found,
    check_readable,
    check_rebuilt,
    given_in,
    hits,
    never_begun,
    rotten_files,
    unrotted,
)
from tests.simulation.engine.steps import Death, PowerCut, Reopen
from tests.simulation.engine.work import Callers
from tests.simulation.world import PromiseBroken, Seen
from tests.support.crashes.crash_model import SPOOL, Unattended, state_of
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_disk import Kind, SimulatedDisk
from tests.support.disks.watched_disk import HandClock

KEPT = Path("/kept")
OPENINGS_MAX = 6  # attempts while the disk fails
DURABLE_LOOKS = 3  # power cuts that change nothing: all is durable
SAME = "a second start finds the same and changes nothing"
BIRTHS = ("torn at birth", "late")  # a file that was being prepared at a power cut, with what its blocks held
INTACT = "nothing is reported that did not happen"
TIDY = "no unfinished file is left over"
UNREFUSED = "a start is refused only where the disk refuses"
ARCHIVED = "the archives that a start reports are there"
NEVER = 1 << 60  # commits between two looks of a maintenance that is a step


@dataclass(slots=True)
class Starts:
    """The disk and the database of one run, whichever opening has it, and what was promised."""

    seen: Seen
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clock: HandClock = field(default_factory=HandClock)
    account: Account = field(init=False)
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
    damaged: int = 0  # messages that cannot be read: who takes one gets the next, and it stays taken
    refuses: bool = False  # the start that is being made, if it finds anything bad
    was_held: bool = False  # something, ever: since damage was found, or by a restore
    is_faulty: bool = False  # a call went wrong for this opening
    untold: Untold | None = None  # a start met rot, and did not live to say so
    callers: Callers = field(init=False)
    _acting: Unattended | None = None  # whose step it is

    def __post_init__(self) -> None:
        self._tell_time()
        self.account = Account(self.seen)
        self.callers = Callers(self, self.account, self.clock, self.seen)

    def _tell_time(self) -> None:
        self.disk.tell_time(lambda: self.clock.now / 1e6, self.clock.advance)

    # Starts.

    def options(self) -> Options:
        opening = self.opening
        return Options(
            max_data_file_size=opening.size,
            group_alignment=opening.alignment,
            validation="full" if self.is_rotten else opening.validation,  # type: ignore[arg-type]
            compact_share=opening.share,
            retention_directory=KEPT if opening.retention else None,
            policy="refuse" if self.refuses else self._repairs(),  # type: ignore[arg-type]
            hold_suspects=opening.holds,
            max_messages=opening.most or None,
            cleanup_interval=0,
            clock=self.clock,
            chance=self.bits.getrandbits,
            sleep=lambda _: None,
        )

    def _repairs(self) -> str:
        """Return how damage is repaired, if it is: what one start has begun another one goes on with."""
        if self.untold is not None and self.untold.policy:
            return self.untold.policy
        return self.opening.otherwise if self.opening.policy == "refuse" else self.opening.policy

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
        untold, rotten = self.untold, self._rotten()
        before = self.disk.restart() if rotten else self.disk
        if untold is not None:
            before, rotten = untold.before, untold.rotten
        if rotten:
            self.untold = untold or Untold(before, rotten)
            self.untold.begin(self.disk, holds=self.opening.holds)
        as_found = self.disk.restart() if rotten else None
        for attempt in range(OPENINGS_MAX):
            failed = len(self.disk.failed)
            self.seen.checked[UNREFUSED] += 1
            try:
                self.database = self._open_own()
                break
            except JournalError as failure:
                if isinstance(failure, NotThisDatabase) and rotten:
                    self._restore(rotten)
                    rotten, self.untold = {}, None
                    continue
                if len(self.disk.failed) == failed and self.disk.space is None:
                    raise PromiseBroken(f"{UNREFUSED}\n{failure!r}") from failure
                self._note_faults()
                if not rotten and (rotten := self._rotten()):
                    before = self.disk.restart()  # a write of this attempt went elsewhere: the next one finds it
                self.faults.append((f"refused: {type(failure).__name__}", "recovery"))
                if attempt >= OPENINGS_MAX // 2:
                    self.disk.faults.clear()
                    self.disk.space = None
        self._check_opened(before, rotten, self._open)
        if as_found is not None and not any(fault.kind is Kind.MISDIRECTED for fault in self.disk.failed):
            self.seen.checked[AS_FOUND] += 1
            check_as_found(as_found, self.disk, self._opened().recovery)
        self.untold = None

    def _open_own(self) -> Unattended:
        """Open the database itself; where its policy refuses, hold that against what was there, and give in."""
        if self.opening.policy == "refuse":
            before, self.refuses = self.disk.restart(), True
            try:
                found = self._open(self.disk)
                check_nothing_repaired(before, found.recovery)
                return found
            except RecoveryRefused as refused:
                self._check_refusal(before, refused)
            finally:
                self.refuses = False
        if self.untold is not None:
            self.untold.policy = self._repairs()
        return self._open(self.disk)

    def _check_refusal(
        self, before: SimulatedDisk, refused: RecoveryRefused, *, told_as_failed: Sequence[str] = ()
    ) -> None:
        for fault, operation in self.faults:
            self.seen.met[fault, operation, REFUSED_BRANCH] += 1
        if any(fault.kind is Kind.MISDIRECTED for fault in self.disk.failed):
            return  # its own write to the lock file has gone into another one, which is another one then
        self.seen.checked[REFUSED] += 1
        check_refused(before, self.disk, refused, told_as_failed, full=self.options().validation == "full")

    def _rotten(self) -> Rotten:
        return rotten_files(self.disk) if self.is_rotten else {}

    def _check_opened(self, before: SimulatedDisk, rotten: Rotten, open_healed: Opener) -> None:
        """Hold what an opening has found against the account, and against the disk `before` it where that had rotted.

        When a write of its clean-up went elsewhere, it had read everything by then, and promises no more than any
        running database does: nobody gets what has rotted, and the next start finds it.
        """
        found = self.database
        assert found is not None
        has_rotted = any(fault.kind is Kind.MISDIRECTED for fault in self.disk.failed)
        self._note_faults()
        self.callers.taken.clear()
        with unrotted(self.disk, found, is_wanted=has_rotted):
            if rotten:
                self._check_rotten(before, rotten, found, open_healed)
            else:
                self._check_start(found)
        self.account.check_next(found._journal.next_message)
        rotten_now = rotten_files(self.disk)
        counted = {report.name for report in found.recovery.files}
        self.seen.checked[FOUND] += bool(rotten_now)
        if left := [name for name in rotten_now if name in counted and {*rotten_now[name]} & {*rotten.get(name, ())}]:
            raise PromiseBroken(f"{FOUND}\n{left}: {found.recovery}")
        self.is_rotten = bool(rotten_now)
        if self.is_rotten:
            self._check_readable(found)

    def _check_readable(self, database: Unattended) -> None:
        self.seen.checked[WHOLE_BYTES] += 1
        check_readable(self.account.state, state_of(database))

    def _check_rotten(self, before: SimulatedDisk, rotten: Rotten, found: Unattended, open_healed: Opener) -> None:
        """Hold what was found in spite of rot against what the same disk without rot holds."""
        healed = before.healed()
        files = healed.restart()
        base = open_healed(healed)
        self.account.settle(state_of(base))
        self.seen.checked[REBUILT] += 1
        store = check_rebuilt(files, base.recovery.files, self.account.state)
        hit, unnoticed = hits(store, rotten, before.contents(SPOOL)), never_begun(store, rotten, found.recovery)
        if not hit.is_unclear:
            self._check_hit(hit, store, rotten, found)
        else:
            is_told = self.untold is None or not self.untold.is_through
            suspects = listed(found) if is_told else perhaps_listed(found, store, rotten)
            self._check_as_told(found, suspects, store.state(lost=unnoticed).held if unnoticed else frozenset())
        self._take_damaged(found)
        self.account.forget(given_in(unnoticed))

    def _check_hit(self, hit: Hit, store: Store, rotten: Rotten, found: Unattended) -> None:
        """Check that what was hit is gone, and as the policy says what stood behind it."""
        untold, is_held = self.untold, self._holds(found)
        must_tell = untold is None or not untold.is_through
        for name in (ONLY, REPORTED, LISTED, FOUND, HELD):
            self.seen.checked[name] += 1
        candidates = [hit]
        if (found.options.policy if untold is None else untold.policy) == "truncate":
            self.seen.checked[CUT] += 1
            candidates = [*cuts(hit, store, rotten, found.recovery, must_tell=must_tell)]
        for last, each in enumerate(candidates, start=1):
            try:
                check_found(each, store, found, must_tell=must_tell, is_held=is_held)
                return
            except PromiseBroken:
                if last == len(candidates):
                    raise

    def _holds(self, found: Unattended) -> Sequence[bool]:
        """Return whether what damage may have brought back is held: both where that cannot be told."""
        holds = found.options.hold_suspects
        return (holds,) if self.untold is None else self.untold.holding(holds=holds)

    def _check_as_told(self, found: Unattended, suspects: Sequence[Collection[int]], held: frozenset[int]) -> None:
        """Check what is held where only a report tells what is lost; `held`: also where nobody can have noticed."""
        self.seen.checked[HELD] += 1
        known = replace(self.account.state, held=self.account.state.held | held)
        check_held_as_told(known, state_of(found), suspects, self._holds(found), was_held=self.was_held)

    def _take_damaged(self, found: Unattended) -> None:
        """Take what is there in spite of damage for what is promised from now on."""
        state = state_of(found)
        self._enter_rows(found)
        self.was_held |= bool(state.held)
        self.account.found_damaged(state)
        self.damaged = self.callers.unreadable = found.undelivered_count() - len(state.messages)

    def _restore(self, rotten: Rotten) -> None:
        """Do what somebody has to do who finds a sector of one file in the place of another's header."""
        if not any(start < FRAMES_AT for ranges in rotten.values() for start, _ in ranges):
            raise PromiseBroken(f"{UNREFUSED}\nno header has rotted: {rotten}")
        self.faults.append(("refused: NotThisDatabase", "recovery"))
        self.disk = self.disk.healed()
        self.is_rotten = False

    def _enter_rows(self, database: Unattended) -> None:
        """Enter which branches of recovery followed the faults since the start before."""
        rows = {file.row for file in database.recovery.files} - {"sealed"} or {"sealed"}
        if any(loss.reason.startswith("cut at") for loss in database.recovery.lost):
            rows.add(CUT_BRANCH)
        if database.options.hold_suspects and database.recovery.suspects:
            rows.add(HELD_BRANCH)
        for fault, operation in self.faults:
            for row in rows:
                self.seen.met[fault, operation, row] += 1
        self.faults.clear()

    def _open(self, disk: SimulatedDisk) -> Unattended:
        is_shared = self.former is not None and disk is self.disk  # else no other process can be at work
        database = Unattended.open(SPOOL, disk=disk, options=replace(self.options(), is_shared=is_shared))
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
        self.account.settle(found)
        self.seen.checked[TIDY] += 1
        there = self.disk.list(SPOOL)
        left = [] if self.is_faulty else [name for name in there if name.endswith(".new")]
        if left:
            raise PromiseBroken(f"{TIDY}\n{left}")
        self.seen.checked[ARCHIVED] += 1
        if gone := set(report.archives).difference(there):
            raise PromiseBroken(f"{ARCHIVED}\n{gone}")
        if self.opening.retention:
            self.seen.checked[KEPT_WHOLE] += 1
            check_kept(self.disk, KEPT)
        self.starts += 1
        if self.starts % 4 == 0:
            self._check_same()

    def _check_same(self) -> None:
        """Check that what a start has found is there for the next one too, after a power cut as well."""
        self.seen.checked[SAME] += 1
        copy, is_cut = self.disk.restart(), bool(self.starts % 8)
        if is_cut:
            copy = self.disk.crash(self.starts, is_harsh=self.alignment_min >= 512)
        again = self._open(copy)  # a former owner may have made a file since, which is late
        self._check_is_same(again, BIRTHS if is_cut else ("late",), may_be_torn=self.is_faulty)
        again.close()
        files = copy.restart()  # as the third one finds them: its clean-up may move all that is left
        third = self._open(copy)
        self._check_is_same(third)
        before = _files(files)
        changed = [name for name, data in _files(copy).items() if before.get(name) != data]
        cleaned = third.cleaned_at_start
        if changed and not (cleaned.deleted or cleaned.moved):
            raise PromiseBroken(f"{SAME}\n{changed} changed: {third.recovery}")
        self.seen.checked[REBUILT] += 1
        check_rebuilt(files, third.recovery.files, self.account.state)

    def _check_is_same(self, again: Unattended, births: Sequence[str] = (), *, may_be_torn: bool = False) -> None:
        """Check what the next start finds; behind a call that failed in the clean-up of this one it may be torn."""
        report = again.recovery
        is_torn_only = not report.lost and all(file.verdict is not Verdict.DAMAGED for file in report.files)
        is_born_only = all(file.verdict is Verdict.CLEAN or file.row in births for file in report.files)
        if not report.intact and not (is_torn_only and (may_be_torn or is_born_only)):
            raise PromiseBroken(f"{SAME}\n{report}")
        if state_of(again) != self.account.state:
            raise PromiseBroken(f"{SAME}\n{state_of(again)}\n{self.account.state}")

    # Starts that have ended before they had said what they found.

    def _leave_untold(self, where: str) -> bool:
        """Note how far a start has come that met rot and has ended; say whether the power may go with it.

        Where some of what it began with was not durable, a power cut would take of that too, and nobody could tell
        what the next start has to find.
        """
        if self.untold is None:
            return True
        self.untold.end(self.disk, holds=self.opening.holds)
        is_last = where.startswith("sync_directory") and not rotten_files(self.disk)
        self.untold.is_through |= is_last and not noted(self.disk.restart(), SPOOL).tells
        left = (self.untold.before.crash(seed) for seed in range(DURABLE_LOOKS))
        whole = self.untold.before.digest(without=names.LOCK)
        return all(one.digest(without=names.LOCK) == whole for one in left)

    # Faults that came to pass.

    def _note_faults(self) -> None:
        """Enter the faults that came to pass, and the operation that they hit."""
        self.is_faulty |= bool(self.disk.failed)
        for fault in self.disk.failed:
            self.faults.append((fault_name(fault), self.operation))
            self.is_rotten |= fault.kind is Kind.MISDIRECTED
            self.account.is_disk_full |= fault.code in NO_SPACE
        self.disk.failed.clear()


def _files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith((".data", ".archive"))}
