"""The ends of a broker's process and its successors: what they must find, and how it is held against what was promised.

A crash ends the process and perhaps the machine; a takeover leaves a broker that stood still, and goes on.
"""

import contextlib
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product

from oms_journal.broker.store.start import StartRefused, StoreUnavailable
from oms_journal.journal.errors import DatabaseLocked
from tests.simulation.broker import moving, ways
from tests.simulation.broker.machine import SETTINGS, MachineDesk
from tests.simulation.broker.promises import Promises
from tests.simulation.broker.steps import Crash, Move
from tests.simulation.world import PromiseBroken, Seen
from tests.support.broker.model import WITHOUT_STORE, Uow
from tests.support.broker.model_topics import NEVER
from tests.support.broker.oracle_desk import Said
from tests.support.broker.oracle_play import Play, State, Way, wrong
from tests.support.broker.words import Ask
from tests.support.disks.faulty_disk import Killed

ANSWERS = "every answer is the model's"
LEFT = "what was told is there after a crash, the rest whole or not at all"
AT_ONCE = Crash("killed", 0, 0)
STARTS_MAX = 3  # under faults, until it is tried without


class RestartingPlay(Play):
    """The broker and its model, from one process to the next."""

    desk: MachineDesk

    def __init__(self, desk: MachineDesk, seen: Seen) -> None:
        super().__init__(desk)
        self.seen = seen
        self.promises = Promises(seen)
        self.asks: dict[int, Ask] = {}  # that are not answered yet
        self.operation = "idle"  # what is under way
        self.crash: Crash | None = None  # that is to come
        self.has_crashed = False  # and nobody has come back since
        self.taking: MachineDesk | None = None  # that has just taken over
        self.paused: list[MachineDesk] = []  # brokers that were taken over, and go on
        self.services = SETTINGS[0][1]

    # Crashes.

    def arm(self, crash: Crash) -> None:
        """Let the process end before the n-th change from now on, or now."""
        if not crash.change:
            self.crash_now(crash)
            return
        self.crash = crash
        disk = self.desk.machine.disk
        disk.kill_at = disk.steps + crash.change

    def crash_now(self, crash: Crash) -> None:
        self.operation = "idle"
        self.lines.append(f"    {crash.ending}")
        self._go_down([ways.nothing], crash)

    def _ended(self, where: str) -> Crash:
        crash, self.crash = self.crash, None
        assert crash is not None
        self.lines.append(f"    {crash.ending}: {where}")
        return crash

    def _go_down(self, dead: Sequence[Way], crash: Crash) -> None:
        """The broker is no more: start another, whose state is what one of the ways leads to."""
        self._restart_models(dead, self.desk.answers)
        self.paused, self.taking = [], None
        self._start_until_it_lasts(crash)
        self._compare_start()

    def _compare_start(self) -> None:
        self._compare([ways.nothing])
        self._compare_store()
        with self._telling():
            self.promises.check(self.desk.store)
        self.seen.checked[LEFT] += 1

    def _restart_models(self, dead: Sequence[Way], heard: Mapping[int, Said], *, is_restored: bool = False) -> None:
        """Leave of the states those that answer as was heard, and restart them, perhaps on what a backup had."""
        self.has_crashed = True
        self.desk.answers = {}
        dead = self._with_unread(dead, may_fail=True)
        self._hear(heard)
        for ask in self.asks.values():
            self.promises.unheard(ask)
        self.asks = {}
        self.promises.restart()
        left: dict[str, State] = {}
        reports = []
        for state in self.states:
            for way, are_served in product(dead, (True, False) if state.model.waits else (True,)):
                after = copied(state)
                after.model.now, after.model.answers = self.desk.now, {}
                if not are_served:  # who waits gets what comes by a commit of its own
                    after.model.waits = []
                way(after)
                told = [wrong(after, after.model.answers.get(handle), said) for handle, said in heard.items()]
                if any(told):
                    reports.append(str(told))
                    continue
                left |= {repr(started): started for started in starts_of(after, is_restored=is_restored)}
        self._hold(bool(left), "what was answered before a crash was answered right", reports)
        self.states = list(left.values())

    def _start_until_it_lasts(self, crash: Crash) -> None:
        machine = self.desk.machine
        machine.end(crash.ending, crash.choice)
        for place, change in enumerate((*crash.again, *[None] * STARTS_MAX)):
            machine.disk.kill_at = change
            try:
                self.desk.start_on_what_is_left()
                self.desk.settle()
            except Killed as killed:
                self.lines.append(f"    again: {killed}")
                self._note(crash.ending, "killed again")
                machine.end(crash.ending, crash.choice + place + 1)
                self.operation = "recovery"
                continue
            except StartRefused as refused:
                self.lines.append(f"    refused: {refused}")
                self._note(crash.ending, f"refused: {type(refused.__cause__ or refused).__name__}")
                machine.end("killed", 0)
                machine.disk.space = None
                continue
            machine.disk.kill_at = None
            self._note(crash.ending, *(file.row for file in self.desk.database.recovery.files))
            self._note_faults(*(file.row for file in self.desk.database.recovery.files))
            return
        self._hold(False, "a broker can be started after a crash", [])

    # Takeovers.

    def arm_takeover(self, change: int) -> None:
        """Let this broker stand still before the n-th change from now on, or now, and a standby take over."""
        machine = self.desk.machine
        self.crash = machine.disk.kill_at = machine.disk.space = None
        machine.disk.faults.clear()
        machine.disk.before_change = None
        if not change:
            self.operation = "idle"
            self.taking = self.desk.taken_over()
            self._go_over([ways.nothing])
            return
        due = machine.disk.steps + change

        def stand_still(what: str) -> None:
            if machine.disk.steps == due:
                machine.disk.before_change = machine.disk.space = None
                machine.disk.faults.clear()
                self.lines.append(f"    stands still: {what}")
                try:
                    self.taking = self.desk.taken_over()
                except StartRefused as refused:  # it is opening its store again, and nobody passes it meanwhile
                    assert isinstance(refused.__cause__, DatabaseLocked) and not self.desk.store.is_connected
                    machine.edges.pid = self.desk.pid

        machine.disk.before_change = stand_still

    def _go_over(self, dead: Sequence[Way]) -> None:
        """A standby has taken over, and who stood still has gone on since: it may have refused what was written."""
        before, self.taking, taken = self.desk, None, self.taking
        assert taken is not None
        heard = {handle: said for handle, said in before.answers.items() if said.reply.code not in WITHOUT_STORE}
        self._restart_models(dead, heard)
        self.paused.append(before)
        self.desk = taken
        taken.settle()
        self._note("paused owner", *(file.row for file in taken.database.recovery.files))
        self._compare_start()

    def go_on_paused(self, what: str, ask: Ask | None) -> None:
        """Let the broker that was taken over last do something: nothing that it acknowledges needs the store."""
        if not self.paused:
            return
        old, edges = self.paused[-1], self.desk.machine.edges
        self.lines.append(f"paused: {what} {ask or ''}")
        durable, edges.pid = old.durable, old.pid
        disk = self.desk.machine.disk
        stand_still, disk.before_change = disk.before_change, None
        try:
            old.answers = {}
            if what == "connect":
                with contextlib.suppress(StoreUnavailable):
                    old.find()
            elif what == "close":
                self.paused.pop()
                old.stop()
            elif what == "tick":
                old.tick(1)
            elif ask is not None:
                self.handles += 1
                self._give(old, ask)
            else:
                old.look_after(what)
            old.settle()
        except Killed as killed:
            self._go_down([ways.nothing], self._ended(str(killed)))
            return
        finally:
            edges.pid, disk.before_change = self.desk.pid, stand_still
        self._hold(old.durable == durable, "a broker that was taken over acknowledges nothing", [what])

    # Moves.

    def _end(self, ending: str, choice: int, *, is_restored: bool = False) -> None:
        """Let the broker end, and no other begin, or one on what is restored from a backup."""
        machine = self.desk.machine
        machine.disk.kill_at = machine.disk.space = machine.disk.before_change = self.crash = None
        machine.disk.faults.clear()
        if ending == "closed":
            self.desk.stop()
        self._restart_models([ways.nothing], self.desk.answers, is_restored=is_restored)
        self.paused = []
        machine.end(ending, choice)

    def move(self, step: Move) -> None:
        """Let the broker end, and its store be moved, by movers that end too, until one comes to its end."""
        machine = self.desk.machine
        self._end(step.ending, step.choice)
        machine.recovered()
        target = machine.directory.with_name(f"{machine.directory.name}x")
        for change in (*step.changes, None):
            machine.disk.kill_at = None if change is None else machine.disk.steps + change
            try:
                moving.move(machine, target)
            except Killed as killed:
                self.lines.append(f"    the move ends: {killed}")
                self._note(step.ending, "killed again")
                machine.end("power cut", step.choice + (change or 0))
        machine.disk.kill_at = None
        loaded = machine.open(target)
        self._hold(not (found := moving.differences(machine, loaded)), "a store that was moved is a replica", found)
        loaded.close()
        machine.directory = target
        self._start_until_it_lasts(AT_ONCE)
        self._compare_start()

    def reconfigure(self, place: int) -> None:
        """Let the broker end, and start again with other attributes: they hold for what comes, and for what waits."""
        self._end("closed", 0)
        text, services = SETTINGS[place]
        self.desk.machine.attributes = self.desk.machine.attributes_of(text)
        self.services = services
        self._attribute()
        self._start_until_it_lasts(AT_ONCE)
        self._compare_start()

    def _attribute(self) -> None:
        """Let the attributes hold for all that the model knows."""
        for state in self.states:
            state.model.services = self.services
            for unit in state.model.uows.values():
                unit.terms = self.services[unit.service]

    def _note(self, fault: str, *branches: str) -> None:
        for branch in branches:
            self.seen.met[fault, self.operation, branch] += 1

    def _note_faults(self, *branches: str) -> None:
        failed = self.desk.machine.disk.failed
        for fault in failed:
            self._note(f"failed {fault.verb}", *branches)
        failed.clear()

    # Holding promises.

    def _hold(self, is_so: bool, promise: str, found: Sequence[str]) -> None:
        """Hold a promise against what was found."""
        self.seen.checked[promise] += 1
        if not is_so:
            raise PromiseBroken("\n".join([promise, *found, "", *self.lines]))

    def _given(self, ask: Ask) -> int:
        handle = super()._given(ask)
        self.asks[handle] = ask
        return handle

    def _hear(self, heard: Mapping[int, Said]) -> None:
        for handle, said in heard.items():
            ask = self.asks.pop(handle)
            with self._telling():
                self.promises.hear(ask, said)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Say of a promise that is broken in the block how it came to it."""
        try:
            yield
        except PromiseBroken as broken:
            raise PromiseBroken("\n".join([str(broken), "", *self.lines])) from None

    def _with_unread(self, usual: Sequence[Way], *, may_fail: bool) -> Sequence[Way]:
        """Return the ways in which the messages that could not be read are given back, if there are any."""
        unread = {handle: self.asks[handle] for handle in sorted(self.desk.unread) if handle in self.asks}
        self.desk.unread = set()
        if not unread:
            return usual
        self.lines.append(f"    could not be read: {[*unread]}")
        return [way for each in usual for way in ways.unreadable(each, unread, may_fail=may_fail)]

    def _compare(self, ways: Sequence[Way], unheard: int = 0, *, may_fail: bool = False) -> None:
        self.desk.settle()
        ways = self._with_unread(ways, may_fail=may_fail)
        if unheard in self.asks:
            self.promises.unheard(self.asks.pop(unheard))
        self._hear({handle: said for handle, said in self.desk.answers.items() if handle != unheard})
        super()._compare(ways, unheard)
        self.seen.checked[ANSWERS] += 1


def copied(state: State) -> State:
    copied: State = pickle.loads(pickle.dumps(state))
    return copied


def starts_of(state: State, *, is_restored: bool) -> Iterator[State]:
    """Yield what the next start may make of a state, perhaps on what a backup had of it."""
    for found in chain.from_iterable(map(_untold, (state, *_in_doubt(state)))):
        yield from _started(found, is_restored=is_restored)


def _started(state: State, *, is_restored: bool) -> Iterator[State]:
    """Yield what a start makes of a state. Whether a hold without anything in it is over nobody promises."""
    state.model.answers = {}
    is_held, was_held = any(state.model.held()), state.model.topics.held_since != NEVER
    if is_restored and was_held and not is_held:
        other = copied(state)
        other.model.restart(is_restored=True)
        yield other
    state.model.restart(is_restored=is_restored, goes_on=was_held)
    yield state


def _in_doubt(state: State) -> Iterable[State]:
    """Yield the states in which another process may find what was refused when the store was lost."""
    doubts, state.doubts = state.doubts, []
    for model in doubts:
        found = copied(state)
        found.model = model
        found.model.now = state.model.now
        found.model.numbers = state.model.numbers
        yield found


def _untold(state: State) -> Iterator[State]:
    """Yield the states in which another process may find what the store had no room for.

    Each unit of work is as it was before, or as it is by now: what was written since about it has taken that along.
    """
    untold, state.untold = state.untold, {}
    units = (state.model.stored or state.model).uows
    old = {number: before for number, (before, after) in untold.items() if _is_alike(units.get(number), after)}
    for is_found in product((False, True), repeat=len(old)):
        found = copied(state)
        units = (found.model.stored or found.model).uows
        units |= {number: unit for (number, unit), is_old in zip(old.items(), is_found, strict=True) if is_old}
        yield found


def _is_alike(unit: Uow | None, after: Uow) -> bool:
    """Say whether nothing has come to the unit since that is certainly written."""
    if unit is None:
        return False
    return (unit.adcount, unit.postpones, unit.ustatus) == (after.adcount, after.postpones, after.ustatus)
