"""One run of the world "queues": the steps of a script, one after another, each held against the model."""

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any

import xxhash

from oms_journal.database.options import Options, QueueOptions
from oms_journal.journal import names
from oms_journal.journal.errors import CommitFailed, JournalError, LeaseEnded, LimitExceeded, QueueFull
from oms_journal.journal.reading.message import EPOCH, Message
from tests.simulation.coverage import fault_name
from tests.simulation.queues.callers import sleeping_here
from tests.simulation.queues.model import (
    QUEUE_OF_DEAD,
    Change,
    Clocks,
    Hand,
    Item,
    Limit,
    Model,
    Terms,
    Told,
    after_death,
)
from tests.simulation.queues.script import QUEUES
from tests.simulation.queues.steps import (
    Add,
    AddInTurn,
    CleanUp,
    Death,
    DeleteExpired,
    Deliver,
    Exchange,
    Extend,
    Fail,
    Former,
    GiveUp,
    GoOn,
    Jump,
    Look,
    Pass,
    PowerCut,
    Release,
    Reopen,
    Requeue,
    Take,
    TakeFor,
    TakeInTurn,
    TakeOver,
)
from tests.simulation.queues.waiting import LIMITED, Waiting
from tests.simulation.world import PromiseBroken, Script, Seen, Step
from tests.support.crashes.crash_model import SPOOL, Unattended
from tests.support.disks.faulty_disk import Killed, SimulatedDisk

HANDED = "take hands out the first message that is due, has its group's turn, and is in nobody's hands"
LISTED = "what is undelivered is what was acknowledged, and has not expired"
COUNTED = "a message says how often it came back, and no more"
LEASED = "a receipt counts as long as its lease, and not longer"
STANDS = "a start finds each acknowledged message once, in one queue, under its number"
ATOMIC = "what is moved is in exactly one of both queues"
KNOWN = "a start knows what was written of messages that came back, and what was in hand at a death"
NOTED = "what is in hand stands in omsmsg.hand"
MANNERLY = "after a clean end nothing is counted, and all that came back is known"
FENCED = "nothing of a former owner is acknowledged, and it spoils nothing of the new one"
TIMED = "a start takes the wall clock for no earlier than the newest commit"

COMMITS = ("add", "exchange", "deliver")  # in which another process may take over
ANY = tuple(f"q{place}" for place in range(QUEUES))
SECOND = 1_000_000


class _Raised(Exception):
    """What leaves a block that takes a message."""


@dataclass(slots=True)
class Run:
    """The world of one script."""

    seen: Seen
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clocks: Clocks = field(default_factory=Clocks)
    model: Model = field(init=False)
    opening: Reopen = field(default_factory=Reopen)
    database: Unattended | None = None
    pending: list[Change] = field(default_factory=list)
    armed: PowerCut | Death | None = None
    operation: str = "idle"
    bits: Iterator[int] = field(default_factory=lambda: count(1))
    end: str = "new"  # how the last process ended: "new", "clean", "killed", "power cut", "failed"
    owner: int = 0  # of the last opening that was made
    counting: int = 0  # owner of the last one that counts attempts, and came through
    starts_ended: int = 0  # since then, before they were through
    notes: list[tuple[int, list[int]]] = field(default_factory=list)  # what each of these found of who was in hand
    broken: PromiseBroken | None = (
        None  # while a commit was on its way, whose writer has made an error of its own of it
    )
    former: Unattended | None = None  # the process that had the directory before, and lives
    overtaken: list[Change] | None = None  # what it had on its way when it stood still in this step
    waiting: Waiting = field(init=False)
    is_note_lost: bool = False  # what is in hand could not be noted for this opening
    wall_max: int = 0
    wall_written: int = 0  # when the newest commit that was acknowledged was begun, or before
    wall_begun: int = 0  # of the step that is done

    def __post_init__(self) -> None:
        self.model = Model(self.clocks)
        self.waiting = Waiting(self.seen, self.model, self._committing)
        self.waiting.check_handed, self.waiting.enter_hand = self._check_handed, self._enter_hand
        self.disk.tell_time(lambda: self.clocks.wall / 1e6, lambda _: None)

    def play(self, script: Script) -> None:
        with sleeping_here(lambda: self.clocks.steady):
            try:
                self._play(script)
            finally:
                self.waiting.abandon()

    def _play(self, script: Script) -> None:
        for step in script:
            self.seen.steps += 1
            self._take(step)
        self.armed = None
        self.disk.before_change = self.disk.kill_at = None
        self.disk.faults.clear()
        for last in (PowerCut(0, len(script)), Look(), Pass(100.0), Look()):
            self._take(last)
        self.seen.changes += self.disk.steps

    def _take(self, step: Step) -> None:
        self.operation = type(step).__name__.lower()
        self.wall_begun = self.clocks.wall
        self.wall_max = max(self.wall_max, self.clocks.wall)
        try:
            self._do(step)
            if self.database is not None and self.overtaken is None:
                self.waiting.settle(is_exact=isinstance(step, Add | Release), hurries=isinstance(step, GoOn))
        except Killed as where:
            self._crash(str(where))
        except (JournalError, OSError):
            has_failed = self.database is not None and self.database._group.failure is not None
            if self.overtaken is None and not self.disk.failed and not has_failed:
                raise
            try:
                if self.overtaken is None or self.database is None:
                    self._fail()
            except Killed as where:
                self._crash(str(where))
        if self.overtaken is not None:
            self.waiting.abandon()
        self.overtaken = None
        self.is_note_lost |= bool(self.disk.failed)  # all other calls tell their callers
        self.disk.failed.clear()

    def _do(self, step: Step) -> None:
        match step:
            case PowerCut() | Death():
                self.armed = step
                self.disk.kill_at = self.disk.steps + step.after
                if not step.after:
                    raise Killed("now")
            case Fail():
                self.disk.fail(step.verb, step.nth, step.code)
            case Jump(seconds):
                self.clocks.wall += round(seconds * SECOND)
                if self.database is not None:
                    self._catch_up(self.database)
                    if self.model.waits:
                        self._look_in_time(self.database)
            case TakeOver(after):
                if not after:
                    self._take_over()
                else:
                    self._arm_takeover(after)
            case Reopen():
                self._close()
                self.opening = step
            case _:
                self._work(self._opened(), step)

    # Openings, and their ends.

    def _options(self) -> Options:
        opening = self.opening
        most = opening.attempts_max
        limited = {
            ANY[0]: QueueOptions(max_messages=opening.messages_max) if opening.messages_max else None,
            ANY[1]: QueueOptions(max_bytes=opening.bytes_max) if opening.bytes_max else None,
            QUEUE_OF_DEAD: QueueOptions(max_messages=1) if opening.messages_max else None,  # which refuses no move
        }
        return Options(
            max_data_file_size=opening.size,
            cleanup_interval=0,
            clock=lambda: self.clocks.wall,
            steady=lambda: self.clocks.steady,
            max_attempts=most or None,
            dead_letter=QUEUE_OF_DEAD if most else None,
            queues={queue: given for queue, given in limited.items() if given is not None},
            is_shared=self.former is not None,  # else no other process can be at work
            chance=lambda bits: next(self.bits) % (1 << bits),
            sleep=lambda _: None,
        )

    def _opened(self) -> Unattended:
        if self.database is None:
            during, self.operation = self.operation, "recovery"
            noted = self._noted()
            self.notes.append(noted)
            self.starts_ended += 1
            database = self._open(self.disk)
            self.starts_ended -= 1
            self._check_start(self.model, database, noted)
            for row in {file.row for file in database.recovery.files}:
                self.seen.met[self.end, during, row] += 1
            self.pending, self.notes, self.starts_ended, self.is_note_lost = [], [], 0, False
            self.database, self.operation = database, during
            self._has_begun(database)
            self.wall_written = min(self.wall_written, self.clocks.wall)  # as with any clean-up
        return self.database

    def _has_begun(self, database: Unattended) -> None:
        self.owner = database._ownership.number
        if self.opening.attempts_max:
            self.counting = self.owner

    def _open(self, disk: SimulatedDisk) -> Unattended:
        database = Unattended.open(SPOOL, disk=disk, options=self._options())
        assert isinstance(database, Unattended)
        return database

    def _close(self) -> None:
        database = self.database
        if database is None:
            return
        self.pending = [Change()]
        self.database = None
        self._has_begun(database)
        self.end = "killed"  # where it is, meanwhile
        database.close()
        self.waiting.end()
        self._acknowledge(())
        self.end = "clean"

    def _fail(self) -> None:
        """Let the process close what has failed; another one opens it."""
        faults = [fault_name(fault) for fault in self.disk.failed]
        self.disk.failed.clear()
        self.disk.faults.clear()
        database, self.database, self.former = self.database, None, None
        if database is not None:
            self.pending.append(Change())
            self.end = "killed"
            with contextlib.suppress(JournalError):
                database.close()
        self.waiting.abandon()
        self.end = "failed"
        self.disk.before_change = None
        for fault in faults:
            self.seen.met[fault, self.operation, "running"] += 1
        self.disk, self.armed = self._restarted(), None

    def _restarted(self) -> SimulatedDisk:
        self.seen.changes += self.disk.steps
        return self.disk.restart()

    # Another process.

    def _take_over(self) -> None:
        """Let another process open the directory while this one lives."""
        if self.database is None:
            return
        if self.overtaken is None:  # else it stands in a call of the disk, which theirs would wait for
            self.waiting.abandon()  # in the process that they are of, which lives on without them
        self.former, self.database, self.end = self.database, None, "taken over"
        self.disk.let_go_of_locks()
        self.seen.met["paused owner", self.operation, "running"] += 1
        self._opened()

    def _arm_takeover(self, after: int) -> None:
        """Have another process take over while this one stands before a change of a commit."""
        at = self.disk.steps + after

        def take_over(what: str) -> None:
            if self.disk.steps < at or self.database is None or self.operation not in COMMITS:
                return
            self.disk.before_change = None
            self.overtaken = list(self.pending)
            self._take_over()

        self.disk.before_change = take_over

    def _let_former(self, what: int) -> None:
        """Let the process that had the directory before do something: nothing durable comes of it."""
        former = self.former
        if former is None:
            return
        self.seen.checked[FENCED] += 1
        done: object = None
        with contextlib.suppress(JournalError, OSError):
            done = self._done_by(former, what)
        if done:
            raise PromiseBroken(f"{FENCED}\nit was told {done}, of {what}")
        self._check_noted(self.disk)

    def _done_by(self, former: Unattended, what: int) -> object:
        """Do it, and return what counts as an acknowledgement."""
        mine = list(former._ledger.taken)
        match what:
            case 0 | 1:
                former.take(ANY[what], lease=20.0)
            case 2 if mine:
                return former.deliver(mine[0])
            case 3 if mine:
                former.release(mine[-1])
            case 4:
                has_news = bool(former._ledger.index.returned.changed)
                former._returns.write()
                return has_news
            case 5:
                self.former = None
                former.close()
            case 6:
                former.cleanup(compact=True)
            case 7:
                former.vouch()
            case _:
                return former.add(ANY[0], b"too late")
        return None

    def _check_overtaken(self, numbers: Sequence[int]) -> None:
        """Check that a commit that was acknowledged though another process took over is there for that one."""
        assert self.overtaken is not None
        self.seen.checked[FENCED] += 1
        given = iter(numbers)
        for change in self.overtaken:
            new = [(item.name, next(given)) for item in change.added]
            are_there = all(name in self.model.items and self.model.items[name].number == n for name, n in new)
            if not are_there or any(name in self.model.items for name in change.removed):
                raise PromiseBroken(f"{FENCED}\n{change} was acknowledged, with {numbers}")

    def _crash(self, where: str) -> None:
        """Go on with what the end of the machine, or of the process, leaves."""
        step, self.armed = self.armed, None
        assert step is not None
        before, was_open = self.disk, self.database is not None
        if self.database is not None:
            self.database._handing.abandon()  # what is left of a loop gives nothing back any more
        self.waiting.abandon()
        self.database = self.former = None
        self.seen.changes += before.steps
        is_idle = where == "now"
        if was_open and is_idle and isinstance(step, Death):
            self._check_noted(before)
        if was_open or self.end != "clean":
            self.end = "power cut" if isinstance(step, PowerCut) else "killed"
        if isinstance(step, PowerCut):
            for other in range(step.others):
                self._look_at(before.crash(step.seed + 1 + other))
            self.disk = before.crash(step.seed)
        else:
            self.disk = before.restart()
        self.disk.before_change = None
        self.seen.met["power cut" if isinstance(step, PowerCut) else "killed", self.operation, "running"] += 1
        self.seen.crashes.add(self.disk.digest(without=names.LOCK))

    def _look_at(self, disk: SimulatedDisk) -> None:
        """Look at another thing that the power cut may have left."""
        digest = disk.digest(without=names.LOCK)
        if digest in self.seen.crashes:
            return
        self.seen.crashes.add(digest)
        noted = _noted(disk)
        self._check_start(deepcopy(self.model), self._open(disk), noted)

    # What a start finds.

    def _noted(self) -> tuple[int, list[int]]:
        return _noted(self.disk)

    def _check_noted(self, disk: SimulatedDisk) -> None:
        """Check what an opening that dies, between two calls, has left word of."""
        if not self.model.attempts_max or self.is_note_lost:
            return
        self.seen.checked[NOTED] += 1
        owner, found = _noted(disk)
        there = {item.number for item in self.model.items.values()}
        found = [number for number in found if number in there]  # what is gone counts nothing, and stays noted
        held = [item.number for item in self.model.in_hand()]
        if (found if owner == self.owner else []) != held:
            raise PromiseBroken(f"{NOTED}\nin hand are {held}, the file of owner {owner} has {found}")

    def _check_start(self, model: Model, database: Unattended, noted: tuple[int, list[int]]) -> None:
        """Hold what a start has found against the model, and go on with it."""
        self.seen.checked[ATOMIC] += 1
        found, newest = _all_of(database), database._ledger.index.newest_time
        self.seen.checked[TIMED] += 1
        if not self.wall_written <= newest <= max(self.wall_max, self.clocks.wall) and newest:
            raise PromiseBroken(f"{TIMED}\n{newest} is not from {self.wall_written} to {self.wall_max}")
        before = {item.name: (item.written, item.told) for item in model.items.values()}
        self._settle(model, found)
        self.seen.checked[STANDS] += 1
        expected = {item.name: (item.number, item.queue) for item in model.items.values()}
        if expected != {name: place[:2] for name, place in found.items()}:
            raise PromiseBroken(f"{STANDS}\nfound {found}\nnot   {expected}\non its way {self.pending}")
        told = self._check_told(model, database, before, noted)
        model.attempts_max = self.opening.attempts_max
        model.limits = {ANY[0]: Limit(messages=self.opening.messages_max), ANY[1]: Limit(bytes=self.opening.bytes_max)}
        model.begin(told, newest)
        model.catch_up()
        self._check_listed(model, database)

    def _settle(self, model: Model, found: "dict[int, tuple[int, str, int]]") -> None:
        """Take in of what was on its way what has happened, each commit as a whole."""
        for item in list(model.items.values()):
            if item.may_be_deleted and item.name not in found:
                del model.items[item.name]
        highest = model.highest
        for each in self.pending:
            change = replace(each, tells=False)
            signs = [item.name in found for item in change.added]
            signs += [name not in found for name in change.removed]
            signs += [name in found and found[name][1] == queue for name, queue in change.moved.items()]
            if any(signs) and not all(signs):
                raise PromiseBroken(f"{ATOMIC if change.moved else STANDS}\n{change} is there by halves: {found}")
            if any(signs):
                new = [found[item.name][0] for item in change.added] + [found[name][0] for name in change.moved]
                if min(new, default=highest + 1) <= highest:
                    raise PromiseBroken(f"{STANDS}\n{change} has {new}, after {highest}")
                model.apply(deepcopy(change), new)

    def _check_told(
        self,
        model: Model,
        database: Unattended,
        before: "dict[int, tuple[Told, Told]]",
        noted: tuple[int, list[int]],
    ) -> dict[int, Told]:
        """Check what a start knows of messages that came back, and return it."""
        self.seen.checked[MANNERLY if self.end == "clean" else KNOWN] += 1
        entries = database._ledger.index.returned.entries
        numbers = {item.number: item.name for item in model.items.values()}
        found = {numbers[one]: Told(*entry) for one, entry in entries.items() if one in numbers}
        there = {name: told for name, told in before.items() if model.items.get(name) is not None}
        moved = {name for change in self.pending for name in change.moved}
        written = {name: told[0] for name, told in there.items() if name not in moved}
        told_now = {name: told[1] for name, told in there.items() if name not in moved}
        allowed = [written]
        if any(change.tells for change in self.pending):
            allowed.append(told_now)
        written |= {name: there[name][0] for name in moved if name in there and not self._is_moved(model, name)}
        told_now |= {name: there[name][1] for name in moved if name in there and not self._is_moved(model, name)}
        owner, in_hand = noted
        names_in_hand = [numbers[number] for number in in_hand if number in numbers]
        if self.opening.attempts_max:
            # A start that died may have counted what it found, and have removed the file or not.
            notes = [noted, *(self.notes if self.starts_ended else ())]
            died = [
                after_death(each, [numbers[number] for number in found_in_hand if number in numbers])
                for each in allowed
                for whose, found_in_hand in notes
                if whose
            ]
            # The blocks of a file that was counted and removed may come back with a power cut, in the next one's place.
            allowed = died if owner and owner >= self.counting else [*allowed, *died]
        spoken = [_spoken(each) for each in allowed]
        if any(change.is_partly_told for change in self.pending):
            names_told = {name for each in (found, *spoken) for name in each}
            is_known = all(found.get(name) in [each.get(name) for each in spoken] for name in names_told)
        else:
            is_known = _spoken(found) in spoken
        if not is_known:
            promise = MANNERLY if self.end == "clean" else KNOWN
            what = f"after it was {self.end}, in hand by the file of {owner} ({self.owner}): {names_in_hand}"
            raise PromiseBroken(f"{promise}\nfound {found}\nnot   {spoken}\n{what}")
        return found

    def _is_moved(self, model: Model, name: int) -> bool:
        return any(model.items[name].queue == change.moved.get(name) for change in self.pending if name in change.moved)

    def _check_listed(self, model: Model, database: Unattended) -> None:
        self.seen.checked[LISTED] += 1
        for queue in (*ANY, QUEUE_OF_DEAD):
            found = {message.number: message.payload for message in database.undelivered(queue)}
            expected = {item.number: item.payload for item in model.listed(queue)}
            if found != expected or database.undelivered_count(queue) != len(expected):
                raise PromiseBroken(f"{LISTED}\n{queue} has {sorted(found)}, not {sorted(expected)}")

    # Commits.

    def _acknowledge(self, numbers: Sequence[int]) -> None:
        """Enter that what was on its way has happened."""
        if self.overtaken is not None:
            self._check_overtaken(numbers)
            return
        given = iter(numbers)
        for change in self.pending:
            self.waiting.is_room_due |= bool(change.removed or change.moved)
            self.model.apply(change, [next(given) for _ in (*change.added, *change.moved)])
            if change.added or change.removed or change.moved:
                self.wall_written = self.wall_begun
        self.pending = []

    @contextlib.contextmanager
    def _committing(self, change: Change) -> Iterator[list[int]]:
        """Have a commit on its way in the block, which puts the numbers that are new into the list."""
        self.pending = [change]
        numbers: list[int] = []
        yield numbers
        if len(numbers) < len(change.added) + len(change.moved):  # it was refused, or waits
            assert not numbers, f"{numbers} for {change}"
            self.pending = []
        else:
            self._acknowledge(numbers)

    # What callers do.

    def _work(self, database: Unattended, step: Step) -> None:
        match step:
            case Add():
                self._add(database, step)
            case Take():
                self._hand_out(database, step)
            case TakeFor():
                self._take_for(database, step)
            case TakeInTurn() | AddInTurn() | GiveUp() | GoOn():
                self._wait(database, step)
            case Former(what):
                self._let_former(what)
            case Extend() | Deliver() | Release() | Exchange():
                if (item := self._held(step.place)) is not None:
                    self._settle_one(database, item, step)
            case Requeue(place):
                self._requeue(database, place)
            case _:
                self._tend(database, step)

    def _wait(self, database: Unattended, step: Step) -> None:
        """Have a caller wait, or interrupt one that does."""
        match step:
            case TakeInTurn(queue):
                self.waiting.take(database, step, ANY if step.is_of_any else (self._name(queue),))
            case AddInTurn(queue):
                items = [self.model.add(f"q{queue}", bytes(step.size), Terms()) for _ in range(step.count)]
                self.waiting.add(database, step, f"q{queue}", items)
            case GiveUp(place):
                self.waiting.give_up(place)
            case _:
                """Slow callers go on at the end of the step."""

    @staticmethod
    def _name(queue: int) -> str:
        return QUEUE_OF_DEAD if queue == QUEUES else f"q{queue}"

    def _settle_one(self, database: Unattended, item: Item, step: Extend | Deliver | Release | Exchange) -> None:
        """Do something with a message that is in hand."""
        match step:
            case Extend(_, seconds):
                self._extend(database, item, seconds)
            case Deliver():
                self._deliver(database, item, step)
            case Release():
                self._release(database, item, step)
            case Exchange(_, queue):
                self._exchange(database, item, f"q{queue}")

    def _tend(self, database: Unattended, step: Step) -> None:
        """Do what time brings, and look."""
        match step:
            case Pass(seconds):
                self.clocks.advance(seconds)
                self.wall_max = max(self.wall_max, self.clocks.wall)
                self._catch_up(database)
                self._look_in_time(database)
                self.waiting.settle()
                self.waiting.look()
            case DeleteExpired():
                self._end_expired(database)
            case CleanUp(compact):
                self.wall_written = min(self.wall_written, self.clocks.wall)  # the newest file may be its own
                with self._committing(Change(is_partly_told=True)):
                    database.cleanup(compact=compact)  # which writes again what the files that go say
                    database._returns.write()
            case Look():
                self._look(database)
            case _:
                raise TypeError(f"no step of this world: {step!r}")

    def _add(self, database: Unattended, step: Add) -> None:
        now, wall = self.clocks.steady, self.clocks.wall
        delay, at, life, end = (round(s * SECOND) for s in (step.delay, step.at, step.expires, step.expires_at))
        terms = Terms(
            due=wall + (delay or at) if delay or at else None,
            expiry=wall + (life or end) if life or end else None,
            steady_due=now + delay if delay else None,
            steady_expiry=now + life if life else None,
            group=step.group,
        )
        queue, size = f"q{step.queue}", bytes(step.size)
        given: dict[str, Any] = {
            "delay": step.delay or None,
            "at": (wall + at) / SECOND if at else None,
            "expires": step.expires or (EPOCH + timedelta(microseconds=wall + end) if end else None),
            "group": f"g{step.group}" if step.group else None,
        }
        items = [self.model.add(queue, size, terms) for _ in range(step.count)]
        refusal = None
        self.seen.checked[LIMITED] += 1
        expected = self._refusal_of(queue, items)
        with self._committing(Change(added=items)) as numbers:
            try:
                if step.count == 1:
                    numbers.append(int(database.add(queue, items[0].payload, **given)))
                else:
                    numbers += database.add_many(queue, [item.payload for item in items], **given)
            except (QueueFull, LimitExceeded) as failure:
                refusal = type(failure)
        if refusal is not expected:
            raise PromiseBroken(f"{LIMITED}\n{len(items)} of {queue} got {numbers}, {refusal}, and not {expected}")

    def _refusal_of(self, queue: str, items: Sequence[Item]) -> type[JournalError] | None:
        """Return what an add that does not wait is refused with, None where there is room."""
        if self.model.is_over_limit(queue, len(items), sum(len(item.payload) for item in items)):
            return LimitExceeded
        return None if self.model.has_room(queue, items) else QueueFull

    def _hand_out(self, database: Unattended, step: Take) -> None:
        queue = self._name(step.queue)
        queues = ANY if step.is_of_any else (queue,)
        lease = step.lease or None
        if step.count > 1:
            found = database.take_many(queue, step.count, lease=lease)
            for one in found:
                self._check_handed(queue, one, lease)
            if len(found) < step.count:
                self._check_handed(queue, None, lease)
            return
        if lease is not None or step.is_of_any:
            self.model.advance()
        message = database.take(queues if step.is_of_any else queue, lease=lease)
        for each in queues:
            mine = message if message is not None and message.queue == each else None
            self._check_handed(each, mine, lease)
            if mine is not None:
                break

    def _check_handed(self, queue: str, message: Message | None, lease: float | None) -> Item | None:
        """Check what was handed out, and note in whose hands it is."""
        self.seen.checked[HANDED] += 1
        if (why := self.model.why_not(queue, None if message is None else message.number)) is not None:
            raise PromiseBroken(f"{HANDED}\n{why}")
        if message is None:
            return None
        item = self.model.items[int(message.payload[:8])]
        self._enter_hand(item, message, lease)
        return item

    def _enter_hand(self, item: Item, message: Message, lease: float | None) -> None:
        """Check what a message says of itself, and note in whose hands it is."""
        if (message.payload, message.queue, message.number) != (item.payload, item.queue, item.number):
            raise PromiseBroken(f"{HANDED}\n{message} is not {item}")
        self.seen.checked[COUNTED] += 1
        if message.attempts != item.attempts:
            raise PromiseBroken(f"{COUNTED}\n{message} came back {message.attempts} times, and not as {item} says")
        until = None if lease is None else self.clocks.steady + round(lease * SECOND)
        item.hand = Hand(message, until)

    def _take_for(self, database: Unattended, step: TakeFor) -> None:
        queue, lease = f"q{step.queue}", step.lease or None
        self.model.advance()
        if step.is_loop:
            if not self.model.free(queue) or self.model.why_not(queue, None) is None:
                return  # it would wait
            going = iter(database.consume(queue, lease=lease))
            one = next(going)
            item = self._check_handed(queue, one, lease)
            assert item is not None
            if not step.is_left:
                with self._committing(Change(removed=[item.name])):
                    database.deliver(one)
            going.close()  # type: ignore[attr-defined]
            if step.is_left:
                self.model.come_back(item, "")
            return
        item = None
        try:
            with database.taking(queue, lease=lease) as message:
                item = self._check_handed(queue, message, lease)
                if item is not None:
                    self.pending = [Change(removed=[item.name])]
                if step.is_left:
                    self.pending = []
                    raise _Raised
        except _Raised:
            if item is not None:
                self.model.come_back(item, "")
        self._acknowledge(())

    def _held(self, place: int) -> Item | None:
        held = [item for item in self.model.in_hand() if item.hand is not None and item.hand.receipt is not None]
        return held[place % len(held)] if held else None

    def _is_over(self, item: Item) -> bool:
        """Say whether the lease on a message is over, though nobody has looked."""
        return item.hand is not None and item.hand.until is not None and item.hand.until <= self.clocks.steady

    def _check_refused(self, item: Item, call: Callable[[], object], *, may_be_over: bool = True) -> bool:
        """Check that a receipt counts as long as its lease does; return whether it did. The call is made."""
        self.seen.checked[LEASED] += 1
        try:
            call()
        except LeaseEnded:
            if not (may_be_over and self._is_over(item)):
                raise PromiseBroken(f"{LEASED}\nit was refused: {item}") from None
            return False
        if may_be_over and self._is_over(item):
            raise PromiseBroken(f"{LEASED}\nit was taken though the lease has ended: {item}")
        return True

    def _extend(self, database: Unattended, item: Item, seconds: float) -> None:
        assert item.hand is not None
        receipt = item.hand.receipt
        if item.hand.until is None:
            return
        if self._check_refused(item, lambda: database.extend(receipt, seconds)):  # type: ignore[arg-type]
            item.hand = Hand(receipt, self.clocks.steady + round(seconds * SECOND))

    def _deliver(self, database: Unattended, item: Item, step: Deliver) -> None:
        """Deliver a message. Its lease may end meanwhile: it is nobody else's all the same."""
        assert item.hand is not None
        given = item.number if step.is_by_number else item.hand.receipt
        has_lease = item.hand.until is not None and not step.is_by_number
        self.pending = [Change(removed=[item.name])]
        is_over = has_lease and self._is_over(item)
        is_free = self.armed is None and not self.disk.faults and self.disk.before_change is None
        if has_lease and not is_over and step.seconds and is_free:
            self.disk.before_change = lambda what: self._let_pass(database, item, step.seconds)
        try:
            is_taken = self._check_refused(item, lambda: database.deliver(given), may_be_over=is_over)  # type: ignore[arg-type]
        finally:
            if is_free:
                self.disk.before_change = None
            if self.broken is not None:
                raise self.broken
        if is_taken:
            self._acknowledge(())
        else:
            self.pending = []

    def _let_pass(self, database: Unattended, item: Item, seconds: float) -> None:
        """Let time go by while a commit is on its way, and somebody ask for the next message."""
        self.disk.before_change = None
        (change,) = self.pending
        self.model.tell()  # what came back up to here is in that commit, and no later one is
        self.pending = [replace(change, tells=False)]
        self.clocks.advance(seconds)
        self.wall_max = max(self.wall_max, self.clocks.wall)
        self._catch_up(database)
        hand, item.hand = item.hand, Hand(item.hand.receipt, None)  # type: ignore[union-attr]
        self.model.advance()
        try:
            message = database.take(item.queue, lease=20.0)
            self.waiting.note(is_exact=False)
            self._check_handed(item.queue, message, 20.0)
        except PromiseBroken as broken:
            self.broken = broken
            raise
        item.hand = hand

    def _release(self, database: Unattended, item: Item, step: Release) -> None:
        assert item.hand is not None
        receipt, has_lease = item.hand.receipt, item.hand.until is not None and not step.is_by_number
        given = item.number if step.is_by_number else receipt
        reason = f"for {item.name}"
        call: Callable[[], object] = lambda: database.release(given, delay=step.delay, reason=reason)  # type: ignore[arg-type]  # noqa: E731
        if self._check_refused(item, call, may_be_over=has_lease):
            self.model.come_back(item, reason, round(step.delay * SECOND))

    def _exchange(self, database: Unattended, item: Item, queue: str) -> None:
        assert item.hand is not None
        receipt, new = item.hand.receipt, self.model.add(queue, b"", Terms())
        has_lease = item.hand.until is not None
        self.pending = [Change(added=[new], removed=[item.name])]
        numbers: list[int] = []
        fits = self.model.has_room(queue, [new], [item])

        def commit() -> None:
            with contextlib.suppress(QueueFull):
                with database.commit() as block:
                    block.deliver(receipt)  # type: ignore[arg-type]
                    block.add(queue, new.payload)
                numbers.extend(block.numbers)

        if self._check_refused(item, commit, may_be_over=has_lease):
            self._check_fits(fits, numbers, f"an exchange of {item} for {new}")
        else:
            self.pending = []

    def _check_fits(self, fits: bool, numbers: Sequence[int], what: str) -> None:
        """Check that a block was refused where there was no room, and only there."""
        self.seen.checked[LIMITED] += 1
        if fits != bool(numbers):
            raise PromiseBroken(f"{LIMITED}\n{what} got {list(numbers)}, though {fits=}")
        if numbers:
            self._acknowledge(numbers)
        else:
            self.pending = []

    def _requeue(self, database: Unattended, place: int) -> None:
        dead = self.model.listed(QUEUE_OF_DEAD)
        if not dead:
            return
        item = dead[place % len(dead)]
        origin = database.read(item.number).properties["dead-letter.queue"]
        self.pending, numbers = [Change(moved={item.name: origin})], []
        fits = self.model.has_room(origin, [item])
        with contextlib.suppress(QueueFull):
            numbers = database.requeue([item.number])
        self._check_fits(fits, numbers, f"{item}, which goes back,")

    # What time brings.

    def _catch_up(self, database: Unattended) -> None:
        """Have the database look at the clocks, so that it and the model do it at the same moment."""
        found = database.undelivered_count()
        self.model.catch_up()
        expected = sum(not item.is_expired for item in self.model.items.values())
        if found != expected:
            raise PromiseBroken(f"{LISTED}\n{found} are undelivered, and not {expected}")

    def _look_in_time(self, database: Unattended) -> None:
        """Do what a thread does when time brings something."""
        self.model.advance()
        dead = [item for item in self.model.items.values() if item.is_dead]
        self.pending = [Change(moved={item.name: QUEUE_OF_DEAD}) for item in dead]
        self.pending.append(Change())
        self._look_and_settle(database)

    def _look_and_settle(self, database: Unattended) -> None:
        """Let the database do it, and enter what became of what was on its way."""
        database._handing.look()
        database._returns.write()
        if self.disk.failed and database._group.failure is not None:
            raise CommitFailed
        places = {int(message.payload[:8]): message.number for message in database.undelivered(QUEUE_OF_DEAD)}
        moved = [name for change in self.pending for name in change.moved]
        if gone := [name for name in moved if name not in places]:
            raise PromiseBroken(f"{ATOMIC}\n{gone} were not moved to the dead letters")
        told = [name for name, item in self.model.items.items() if name not in moved and not item.is_told]
        if database._ledger.index.returned.changed:
            raise PromiseBroken(f"{KNOWN}\n{told} were not written")
        by_number = sorted(moved, key=places.__getitem__)
        self.pending = [Change(moved={name: QUEUE_OF_DEAD}) for name in by_number] + self.pending[len(moved) :]
        self._acknowledge([places[name] for name in by_number])

    def _end_expired(self, database: Unattended) -> None:
        over = [item for item in self.model.items.values() if item.is_expired]
        for item in over:
            item.may_be_deleted = True
        if database._has_expired():
            with self._committing(Change()):
                database._end_expired()
        for item in over:
            del self.model.items[item.name]

    def _look(self, database: Unattended) -> None:
        self._check_listed(self.model, database)
        self.model.advance()
        for queue in (*ANY, QUEUE_OF_DEAD):
            ready, free = database.ready_count(queue), self.model.free(queue)
            suspects = sum(item.told.is_suspect for item in free)
            if not len(free) - suspects <= ready <= len(free):
                raise PromiseBroken(f"{HANDED}\n{ready} of {queue} are ready, and not {free}")
        found = [taken.number for taken in database.taken()]
        held = [item.number for item in self.model.in_hand()]
        if found != held:
            raise PromiseBroken(f"{LEASED}\ntaken are {found}, and not {held}")


def _spoken(told: dict[int, Told]) -> dict[int, Told]:
    return {name: one for name, one in sorted(told.items()) if one != Told()}


def _all_of(database: Unattended) -> dict[int, tuple[int, str, int]]:
    """Return number, queue and length of every message that is there, expired or not, by name; each is there once."""
    table = database._ledger.index.table
    found: dict[int, tuple[int, str, int]] = {}
    for numbers, _, _ in table.batches(None, 0, (1 << 64) - 1):
        for number in numbers.tolist():
            message = database.read(number)
            name = int(message.payload[:8])
            if name in found:
                raise PromiseBroken(f"{ATOMIC}\n{name} is there twice: {found[name]} and {message}")
            found[name] = (number, message.queue, len(message.payload))
    return found


def _noted(disk: SimulatedDisk) -> tuple[int, list[int]]:
    """Return whose `omsmsg.hand` there is, and which numbers stand in it: the file is read here by itself."""
    if SPOOL not in disk.directories():
        return 0, []
    data = disk.contents(SPOOL).get(names.HAND, b"")
    if data[:8] != b"OMSHAND\1" or len(data) < 16:
        return 0, []
    (owner,) = struct.unpack_from("<Q", data, 8)
    found = []
    for place in range((len(data) - 16) // 16):
        number, proof = struct.unpack_from("<QQ", data, 16 + 16 * place)
        expected = xxhash.xxh3_64_intdigest(struct.pack("<QQ", number, place), owner)
        if number and proof == expected:
            found.append(number)
    return owner, sorted(found)
