"""A play of the oracle in which the broker's process may end anywhere, and what may be left is what was promised.

What was told before the end is so afterwards. A call that nobody was told of is done as a whole, or was never made:
the model goes both ways, and what the next broker's store holds and answers says which it was.
"""

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

from broker.block import Function, Option
from journal.errors import JournalError
from tests.broker_words import Ask, Person
from tests.faulty_disk import Killed
from tests.oracle_play import Play, State, Way, wrong
from tests.simulation.broker_machine import MachineDesk
from tests.simulation.broker_steps import Crash
from tests.simulation.world import PromiseBroken, Seen

ANSWERS = "every answer is the model's"
LEFT = "what was told is there after a crash, the rest whole or not at all"
IDLE = "idle"
LENGTH_STEP, LENGTH_MAX = 379, 1200  # bytes of messages


class CrashingPlay(Play):
    """The broker and its model, through crashes."""

    states_max = 60
    desk: MachineDesk

    def __init__(self, desk: MachineDesk, seen: Seen) -> None:
        super().__init__(desk)
        self.seen = seen
        self.crash: Crash | None = None  # that is to come
        self.has_crashed = False  # and nobody has come back since

    def ask(self, who: Person, function: Function, option: Option = Option.NONE, **fields: Any) -> Ask:
        """Return a call as the oracle makes it; messages are longer, so that a write can be torn."""
        body = fields.get("body", b"")
        if body.isdigit():
            fields["body"] = body + b"." * (int(body) * LENGTH_STEP % LENGTH_MAX)
        return super().ask(who, function, option, **fields)

    # What a crash may come in.

    def call_all(self, asks: Sequence[Ask]) -> None:
        handles: list[int] = []

        def call() -> None:
            handles.extend(self._given(ask) for ask in asks)

        if self._is_through(call, lambda: _in_part(handles, asks)):
            self._compare([_of(handles, asks, order) for order in permutations(range(len(asks)))])

    def call_and_go(self, ask: Ask) -> None:
        connection = ask.who.connection
        handles: list[int] = []

        def go(state: State) -> None:
            state.model.gone(connection)

        def call_and_go() -> None:
            handles.append(self._given(ask))
            self.lines.append(f"    gone {connection}")
            self.desk.gone(connection)

        def ways() -> Iterator[Way]:
            call = _of(handles, [ask], [0])
            yield from (_nothing, call, go, _both(call, go), _both(go, call))

        if self._is_through(call_and_go, ways):
            call = _of(handles, [ask], [0])
            self._compare([_both(call, go), _both(go, call)], unheard=handles[0])

    def gone(self, connection: int) -> None:
        self.lines.append(f"gone {connection}")
        self._do(lambda: self.desk.gone(connection), lambda state: state.model.gone(connection))

    def tick(self, seconds: int) -> None:
        self.lines.append(f"tick {seconds}")

        def tick() -> None:
            self.desk.tick(seconds)
            for state in self.states:
                state.model.now = self.desk.now

        def whole(state: State) -> None:
            state.model.tick(seconds)

        if self._is_through(tick, lambda: (_nothing, whole, *_cut_short(whole, seconds))):
            self._compare([whole])

    def chore(self, what: str) -> None:
        """Let the store be looked after."""
        if not self.desk.store.is_connected:
            return
        self.lines.append(what)

        def look_after() -> None:
            database = self.desk.database
            with contextlib.suppress(JournalError):  # as the tender does: a fault beside the commits fails none
                database.vouch() if what == "vouch" else database.cleanup(compact=what == "compact")

        self._do(look_after, _nothing)

    def _do(self, act: Callable[[], None], way: Way) -> None:
        if self._is_through(act, lambda: (_nothing, way)):
            self._compare([way])

    def _is_through(self, act: Callable[[], None], ways: Callable[[], Sequence[Way] | Iterator[Way]]) -> bool:
        """Do it; where the broker ends meanwhile start another, whose state is what one of the ways leads to."""
        try:
            act()
            self.desk.settle()
        except Killed as killed:
            self._die(list(ways()), str(killed))
            return False
        return True

    # Crashes.

    def arm(self, crash: Crash) -> None:
        """Let the next change but so many be the end."""
        self.crash = crash
        self.desk.machine.disk.kill_at = self.desk.machine.disk.steps + crash.change

    def crash_at_last(self) -> None:
        """Let it come now, when it has not come yet."""
        if self.crash is not None:
            self.desk.machine.disk.kill_at = None
            self._die([_nothing], IDLE)

    def _die(self, ways: Sequence[Way], where: str) -> None:
        crash, self.crash, self.has_crashed = self.crash, None, True
        assert crash is not None
        self.lines.append(f"    {crash.ending}: {where}")
        heard, self.desk.answers = self.desk.answers, {}
        left: dict[str, State] = {}
        reports = []
        for state in self.states:
            for way, are_served in product(ways, (True, False) if state.model.waits else (True,)):
                after: State = pickle.loads(pickle.dumps(state))
                after.model.now, after.model.answers = self.desk.now, {}
                if not are_served:  # who waits gets what comes by a commit of its own
                    after.model.waits = []
                way(after)
                told = [wrong(after, after.model.answers.get(handle), said) for handle, said in heard.items()]
                if any(told):
                    reports.append(str(told))
                    continue
                after.model.answers = {}
                after.model.restart()
                left.setdefault(repr(after), after)
        self._hold(bool(left), "what was answered before a crash was answered right", reports)
        self.states = list(left.values())
        self._start_until_it_lasts(crash, where)
        self._compare([_nothing])
        self._compare_store()
        self.seen.checked[LEFT] += 1

    def _start_until_it_lasts(self, crash: Crash, where: str) -> None:
        machine = self.desk.machine
        machine.end(crash.ending, crash.choice)
        for place, change in enumerate((*crash.again, None)):
            machine.disk.kill_at = change
            try:
                self.desk.start_on_what_is_left()
                self.desk.settle()
            except Killed as killed:
                self.lines.append(f"    again: {killed}")
                self._note(crash.ending, where, "killed again")
                machine.end(crash.ending, crash.choice + place + 1)
                where = "recovery"
                continue
            machine.disk.kill_at = None
            self._note(crash.ending, where, *(file.row for file in self.desk.database.recovery.files))
            return

    def _note(self, fault: str, where: str, *branches: str) -> None:
        for branch in branches:
            self.seen.met[fault, where.split(" ")[0], branch] += 1

    def _hold(self, is_so: bool, promise: str, found: Sequence[str]) -> None:
        """Hold a promise against what was found."""
        self.seen.checked[promise] += 1
        if not is_so:
            raise PromiseBroken("\n".join([promise, *found, "", *self.lines]))

    def _compare(self, ways: Sequence[Way], unheard: int = 0) -> None:
        super()._compare(ways, unheard)
        self.seen.checked[ANSWERS] += 1


def _nothing(_: State) -> None:
    pass


def _both(one: Way, other: Way) -> Way:
    def way(state: State) -> None:
        one(state)
        other(state)

    return way


def _cut_short(tick: Way, seconds: int) -> tuple[Way, Way]:
    """Return the ways in which nothing of a tick is written, or its pseudo-clock only: that goes first."""

    def without_store(state: State) -> None:
        model = state.model
        model.is_lost = model.topics.is_lost = True
        tick(state)
        model.is_lost = model.topics.is_lost = False

    def clock_only(state: State) -> None:
        without_store(state)
        state.model.clock += seconds
        state.model.topics.clock = state.model.clock

    return without_store, clock_only


def _of(handles: Sequence[int], asks: Sequence[Ask], order: Sequence[int]) -> Way:
    """Return the way in which these of the calls are carried out, in this order."""

    def way(state: State) -> None:
        for at in order:
            state.model.call(handles[at], state.in_its_words(asks[at]))

    return way


def _in_part(handles: Sequence[int], asks: Sequence[Ask]) -> Iterator[Way]:
    """Yield the ways in which some of the calls are carried out, in any order."""
    for order in permutations(range(len(asks))):
        for done in product((False, True), repeat=len(asks)):
            yield _of(handles, asks, [at for at in order if done[at]])
