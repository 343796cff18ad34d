"""One run of the world "threads": callers of one database that take turns, and what they find after a crash."""

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import oms_journal.journal.writing.group_commit
from oms_journal.journal.errors import JournalError, NoSuchMessage, NotAttempted
from oms_journal.journal.names import LOCK
from oms_journal.journal.writing.draft import Draft
from tests.database.backup.interleaved import CallsOf
from tests.simulation.coverage import fault_name
from tests.simulation.threads.account import Account, Attempt
from tests.simulation.threads.steps import (
    Add,
    Batch,
    Caller,
    CleanUp,
    Close,
    Death,
    Deliver,
    Fail,
    Look,
    Pair,
    PowerCut,
    Send,
    Take,
    Tend,
    Together,
    Work,
)
from tests.simulation.turns import AT_LOCKS, Stuck, Turns, locks_of
from tests.simulation.world import PromiseBroken, Script, Seen, Step
from tests.support.crashes.crash_model import Content, State, Unattended, open_unattended, state_of
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.watched_disk import HandClock

ANSWERED = "every caller gets its answer"
ONE = "one group is written at a time"
DURABLE = "what anybody sees would survive a power cut"
INTACT = "nothing is reported that did not happen"
NEVER = 1 << 60  # commits between two looks of a maintenance that is a step
_CLOSELY = (Path(oms_journal.journal.writing.group_commit.__file__),)


class _Watched(CallsOf):
    """A disk on which a thread's turn may end before and after each durable write; not two of them at a time."""

    def __init__(self, inner: Any, turns: Turns, under_way: list[int]) -> None:
        self._inner, self._turns, self._under_way = inner, turns, under_way

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._inner, verb)
        if verb in ("create", "open"):
            return lambda *values, **named: _Watched(inner(*values, **named), self._turns, self._under_way)
        if verb != "write_durably":
            return inner

        def write_durably(*values: Any) -> None:
            if self._under_way:
                raise PromiseBroken(f"{ONE}\nat {values[-1]}, while one is under way at {self._under_way}")
            self._under_way.append(values[-1])
            try:
                self._turns.may_end(AT_LOCKS)
                inner(*values)
                self._turns.may_end(AT_LOCKS)
            finally:
                self._under_way.clear()

        return write_durably


@dataclass(slots=True)
class Run:
    """The world of one script."""

    seen: Seen
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    account: Account = field(init=False)
    clock: HandClock = field(default_factory=HandClock)
    bits: random.Random = field(default_factory=lambda: random.Random(1))
    armed: PowerCut | Death | None = None
    callers: list[Caller] = field(default_factory=list)
    has_failed: bool = False  # a call of the disk, since the last start
    broken: list[PromiseBroken] = field(default_factory=list)  # noticed by a caller
    serial: int = 0
    database: Unattended | None = None
    closes: bool = False  # after the next time that the callers go on
    faults: list[tuple[str, str]] = field(default_factory=list)  # since the last start, and what they hit

    def __post_init__(self) -> None:
        self.account = Account(self.seen)

    def _opened(self, disk: Any) -> Unattended:
        return open_unattended(disk, group_alignment=8, clock=self.clock, chance=self.bits.getrandbits)

    def play(self, script: Script) -> None:
        for step in (*script, Together(0, 0.0), PowerCut(0, len(script)), Together(0, 0.0)):
            self.seen.steps += 1
            self._take(step)
        self._enter("running")

    def _enter(self, *rows: str) -> None:
        """Enter which branches of recovery followed the faults since the start before."""
        for fault, operation in self.faults:
            for row in rows:
                self.seen.met[fault, operation, row] += 1
        self.faults.clear()

    def _take(self, step: Step) -> None:
        match step:
            case Caller():
                self.callers.append(step)
            case PowerCut() | Death():
                self.armed = step
                self.disk.kill_at = self.disk.steps + max(1, step.after)
                if not step.after:
                    self._crash("idle")
            case Fail(verb, nth):
                self.disk.fail(verb, nth)
            case Close():
                self.closes = True
            case Together():
                self._go_on(step)
            case _:
                raise TypeError(f"no step of this world: {step!r}")

    # All of them at once.

    def _go_on(self, step: Together) -> None:
        callers, self.callers = self.callers, []
        turns = Turns(step.seed, step.share, closely=_CLOSELY, widely=step.widely)
        during = "recovery"
        try:
            with locks_of(turns):
                self._start(turns)
                during = "commit"
                self._together(turns, callers)
                during = "close"
                self._end()
        except Killed:
            self._crash(during)
        except (JournalError, OSError):
            if not self.disk.failed:
                raise
            self._end_process(during)
        self.closes = False

    def _start(self, turns: Turns) -> None:
        disk: Any = _Watched(self.disk, turns, [])
        self.database = self._opened(disk)
        self.database.patience = NEVER
        report, found = self.database.recovery, state_of(self.database)
        self._enter(*({file.row for file in report.files} - {"sealed"} or {"sealed"}))
        self.seen.checked[INTACT] += 1
        if report.lost or report.suspects:
            raise PromiseBroken(f"{INTACT}\n{report}")
        self.account.settle(found)

    def _together(self, turns: Turns, callers: list[Caller]) -> None:
        database = self.database
        assert database is not None
        self.broken.clear()
        for promise in (ANSWERED, ONE):
            self.seen.checked[promise] += bool(callers)
        try:
            turns.run([partial(self._call, database, caller) for caller in callers])
        except Stuck:
            raise PromiseBroken(f"{ANSWERED}\n{len(callers)} callers came to no end") from None
        finally:
            if self.broken:
                raise self.broken[0]
        if self.disk.is_dead:
            raise Killed("in one of the callers")

    def _end(self) -> None:
        """See what there is; close, or let the process end."""
        database = self.database
        assert database is not None
        if database._group.failure is None:
            self.account.settle(state_of(database))
            if self.closes:
                database.close()
        self._end_process("commit")

    def _end_process(self, during: str) -> None:
        self._note_failed(during)
        kill_in = None if self.disk.kill_at is None else self.disk.kill_at - self.disk.steps
        self.seen.changes += self.disk.steps
        self.disk, self.database = self.disk.restart(), None
        if kill_in is not None:
            self.disk.kill_at = self.disk.steps + kill_in

    def _crash(self, during: str) -> None:
        """Go on with what the end of the machine, or of the process, leaves."""
        step, self.armed = self.armed, None
        assert step is not None
        self._note_failed(during)
        self.seen.changes += self.disk.steps
        self.database = None
        if isinstance(step, PowerCut):
            self.disk = self.disk.crash(step.seed)
        else:
            self.disk = self.disk.restart()
        self.faults.append(("power cut" if isinstance(step, PowerCut) else "killed", during))
        self.seen.crashes.add(self.disk.digest(without=LOCK))

    def _note_failed(self, during: str) -> None:
        self.faults += [(fault_name(fault), during) for fault in self.disk.failed]
        self.disk.failed.clear()

    # What one of them does.

    def _call(self, database: Unattended, caller: Caller) -> None:
        try:
            for work in caller.works:
                self._work(database, work)
        except PromiseBroken as broken:
            self.broken.append(broken)
        except Killed:
            return
        except (JournalError, OSError):
            if not self.disk.failed and not self.disk.is_dead:
                raise

    def _work(self, database: Unattended, work: Work) -> None:
        match work:
            case Add(queue, size):
                content = self._content(f"q{queue}", size)
                self._commit(Attempt((content,)), lambda: [database.add(content.queue, content.payload)])
            case Send(identifier, size):
                self._send(database, f"order-{identifier}", size)
            case Pair(queue, size):
                self._pair(database, f"q{queue}", size)
            case Batch(queue, sizes):
                self._batch(database, [self._content(f"q{queue}", size) for size in sizes])
            case Deliver(place):
                live = self.account.live()
                if live:
                    self._deliver(database, live[place % len(live)])
            case Take(queue, delivers):
                message = database.take(f"q{queue}")
                if message is not None:
                    self._taken(database, message.number, delivers=delivers)
            case Tend():
                database.maintain()
                database.vouch()
            case CleanUp(compact):
                database.cleanup(compact=compact)
            case Look():
                self._look(database)

    def _content(self, queue: str, size: int) -> Content:
        self.serial += 1
        return Content(queue, b"%d:" % self.serial + random.Random(self.serial).randbytes(size))

    def _commit(self, attempt: Attempt, call: Callable[[], "list[int] | range"]) -> None:
        self.account.begin(attempt)
        try:
            numbers = call()
        except NotAttempted:
            self.account.refused(attempt)
            raise
        self.account.done(attempt, list(numbers))

    def _send(self, database: Unattended, identifier: str, size: int) -> None:
        content = Content("orders", f"{identifier}:".encode() + bytes(size))
        self._commit(
            Attempt((content,), identifier=identifier),
            lambda: [database.add("orders", content.payload, producer_id=identifier)],
        )

    def _pair(self, database: Unattended, queue: str, size: int) -> None:
        contents = (self._content(queue, size), self._content(queue, size))
        key = f"pair-{self.serial}"

        def commit() -> range:
            with database.commit() as block:
                for content in contents:
                    block.add(queue, content.payload)
                block.put(key, contents[0].payload)
            return block.numbers

        self._commit(Attempt(contents, key), commit)

    def _batch(self, database: Unattended, contents: list[Content]) -> None:
        drafts: list[Draft] = [database._drafting.add(each.queue, each.payload) for each in contents]
        attempts = [self.account.begin(Attempt((each,))) for each in contents]
        database._group.commit_many(drafts)
        failures = [draft.failure for draft in drafts]
        for attempt, draft in zip(attempts, drafts, strict=True):
            if draft.failure is None:
                self.account.done(attempt, [draft.first])
            elif isinstance(draft.failure, NotAttempted):
                self.account.refused(attempt)
        for failure in failures:
            if failure is not None:
                raise failure

    def _taken(self, database: Unattended, number: int, *, delivers: bool) -> None:
        if number not in self.account.messages:
            return  # its caller has not had its answer yet
        self.account.hand_out(number)
        if delivers:
            self._deliver(database, number)
        else:
            self.account.taken.discard(number)
            database.release(number)

    def _deliver(self, database: Unattended, number: int) -> None:
        self.account.begin_removal(number)
        is_mine: bool | None = None
        try:
            is_mine = database.deliver(number)
        except NotAttempted:
            is_mine = False
            raise
        finally:
            self.account.end_removal(number, is_mine=is_mine)

    def _look(self, database: Unattended) -> None:
        """Read all there is while the others go on: what was sure before is there, and would survive a power cut."""
        account = self.account
        leaving = {number for number, count in account.leaving.items() if count}
        sure, gone = set(account.live()) - leaving - account.doubtful, set(account.removed)
        found: dict[int, Content] = {}
        for number in list(database.numbers()):
            with contextlib.suppress(NoSuchMessage):  # it was removed meanwhile
                message = database.read(number)
                found[number] = Content(message.queue, message.payload)
        keys = {key: value for key in list(database.keys()) if (value := database.get(key)) is not None}
        sure -= account.removed | account.doubtful | account.leaving.keys()
        self.seen.checked[DURABLE] += 1
        account.check(State(found, account.keys | keys), sure=sure, gone=gone)  # some have come since they were read
        after = self.disk.crash(len(found))
        with self._opened(after) as again:
            there = set(again.numbers())
        lost = found.keys() - there - account.removed - account.doubtful - account.leaving.keys()
        if lost:
            raise PromiseBroken(f"{DURABLE}\n{sorted(lost)}{os.linesep}")
