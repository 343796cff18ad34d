"""A play of the oracle in which anything may fail and the broker's process may end anywhere.

What was told is so afterwards. A call that nobody was told of is done as a whole, or was never made: the model goes
every way that was promised (`broker_ways`), and what the next broker's store holds and answers says which it was.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oms_journal.broker.block import Function, Option
from oms_journal.broker.store.start import StoreUnavailable
from tests.simulation.broker import ways
from tests.simulation.broker.bounds import FEW, check_compacted, check_kernel
from tests.simulation.broker.damage import DamagedPlay
from tests.simulation.broker.machine import KEPT
from tests.simulation.broker.restarts import AT_ONCE
from tests.simulation.engine.bounds import BOUNDED, NEEDED, check_files, check_kept, check_memory
from tests.simulation.engine.bounds import KEPT as KEPT_WHOLE
from tests.support.broker.oracle_play import State, Way
from tests.support.broker.words import Ask, Order, Person
from tests.support.disks.faulty_disk import Killed

MARKED = "no new units of work are taken once the disk has less room than the mark"
LENGTH_STEP, LENGTH_MAX = 379, 1200  # bytes of messages


class CrashingPlay(DamagedPlay):
    """What is done to the broker and its model, and which ways they may go."""

    @property
    def _is_lost(self) -> bool:
        return self.first.model.is_lost

    def ask(self, who: Person, function: Function | Order, option: Option = Option.NONE, **fields: Any) -> Ask:
        """Return a call as the oracle makes it; messages are longer, so that a write can be torn."""
        body = fields.get("body", b"")
        if body.isdigit():
            fields["body"] = body + b"." * (int(body) * LENGTH_STEP % LENGTH_MAX)
        return super().ask(who, function, option, **fields)

    # What is done.

    def call_all(self, asks: Sequence[Ask]) -> None:
        handles: list[int] = []
        self._act(
            lambda: handles.extend(self._given(ask) for ask in asks),
            lambda: ways.in_any_order(handles, asks),
            lambda: ways.some_of_them(handles, asks),
            lambda: ways.lost_among(handles, asks),
            lambda: ways.full_among(handles, asks),
        )

    def call_and_go(self, ask: Ask) -> None:
        connection, handles = ask.who.connection, [self.handles + 1]
        call, go = ways.called(handles, [ask], [0]), ways.gone(connection)
        whole = [_both(call, go), _both(go, call)]

        def act() -> None:
            self._given(ask)
            self.lines.append(f"    gone {connection}")
            self.desk.gone(connection)

        self._act(
            act,
            lambda: whole,
            lambda: (ways.nothing, call, go, *whole),
            lambda: (
                [_both(call, lost) for lost in ways.lost_around(go)]
                + [_both(lost, go) for lost in ways.lost_among(handles, [ask])]
            ),
            lambda: [_both(full, left) for full in ways.full_among(handles, [ask]) for left in ways.full_around(go)],
            unheard=handles[0],
        )

    def gone(self, connection: int) -> None:
        self.lines.append(f"gone {connection}")
        self._do(lambda: self.desk.gone(connection), ways.gone(connection))

    def tick(self, seconds: int) -> None:
        self.lines.append(f"tick {seconds}")
        now = self.desk.now + seconds * 1_000_000
        passed = ways.passed(seconds, now)
        self._act(
            lambda: self.desk.tick(seconds),
            lambda: [passed],
            lambda: (
                ways.nothing,
                passed,
                ways.passed_unwritten(seconds, now),
                ways.clock_written(seconds, now),
                *ways.passed_partly(seconds, now),
            ),
            lambda: ways.lost_in_time(seconds, now),
            lambda: ways.full_in_time(seconds, now),
        )

    def chore(self, what: str) -> None:
        """Let the store be looked after."""
        if not self.desk.store.is_connected:
            return
        self.lines.append(what)
        active = self._active()
        self._do(lambda: self.desk.look_after(what), ways.nothing)
        self._check_files(what, active)

    def look_at_room(self) -> None:
        """Let the broker look whether its disk has less room than the mark."""
        desk = self.desk
        mark, disk = desk.machine.setting.min_free, desk.machine.disk
        if not (mark and desk.store.is_connected) or disk.is_dead:
            return
        was_short, desk.is_short = desk.is_short, disk.free_bytes(desk.machine.directory) < mark
        is_told = desk.running.room() is not None
        self._hold(is_told == (desk.is_short and not was_short), MARKED, [f"told: {is_told}"])
        if is_told:
            self.forbid(is_forbidden=True)

    def _active(self) -> int:
        return self.desk.database._state().active or 0

    def _check_files(self, what: str, active: int) -> None:
        """Hold against a chore that nothing has disturbed which files it has left."""
        disk = self.desk.machine.disk
        is_disturbed = self.has_crashed or not self.desk.store.is_connected or disk.space is not None
        if is_disturbed or disk.faults or disk.kill_at is not None or disk.before_change is not None:
            return
        with self._telling():
            if self.desk.machine.setting.keeps_files:
                self.seen.checked[KEPT_WHOLE] += 1
                check_kept(disk, KEPT)
            if what in ("clean_up", "compact"):
                self.seen.checked[NEEDED] += 1
                check_files(disk, self.desk.database, active)
            if what == "compact":
                self.seen.checked[FEW] += 1
                check_compacted(self.desk.database, active)

    def check_memory(self) -> None:
        """Hold against the broker what it keeps in memory between two steps."""
        self.seen.checked[BOUNDED] += 1
        with self._telling():
            check_kernel(self.desk.kernel, len(self.first.model.waits))
            is_over = (
                self.desk.database._group.failure is not None
            )  # its opening: it is let go of with all that it keeps
            if self.desk.store.is_connected and not is_over:
                check_memory(self.desk.database, 0)

    def lose(self) -> None:
        self.lines.append("the store is lost")
        self.desk.lose()
        self._compare([lambda state: state.model.lose()])

    def find(self) -> None:
        self.lines.append("the store is found")
        self.desk.machine.disk.before_change = None  # who is opening the store is not passed

        def connect() -> None:
            try:
                self.desk.find()
            except StoreUnavailable:
                disk = self.desk.machine.disk
                disk.space = None
                disk.faults.clear()
                self.desk.find()
            self.desk.machine.disk.faults.clear()  # what the store is told now is told once

        there = (ways.found, ways.found_with_clock)
        dead = (ways.nothing, ways.found_untold, *there)
        self._act(connect, lambda: there, lambda: dead, lambda: there, lambda: there)
        if not self.has_crashed:
            self.tick(0)  # the pseudo-clock may have gone on when it could not be written

    def restart(self, *, is_killed: bool) -> None:
        if is_killed:
            self.crash_now(AT_ONCE)
            return
        self.lines.append("restarted")
        try:
            self.desk.stop()
            if self.taking is not None:
                self._go_over([ways.nothing])
                return
            end = AT_ONCE
        except Killed as killed:
            end = self._ended(str(killed))
        self._go_down([ways.nothing], end)

    def _do(self, act: Callable[[], None], way: Way) -> None:
        """Do what nobody is answered."""
        self._act(
            act,
            lambda: [way],
            lambda: (ways.nothing, way),
            lambda: ways.lost_around(way),
            lambda: ways.full_around(way),
        )

    def _act(
        self,
        act: Callable[[], object],
        whole: Callable[[], Sequence[Way]],
        dead: Callable[[], Iterable[Way]],
        lost: Callable[[], Iterable[Way]],
        full: Callable[[], Iterable[Way]],
        *,
        unheard: int = 0,
    ) -> None:
        """Do it; then the model goes one of the ways for what has become of it."""
        was_lost, was_forbidden = self._is_lost, self.desk.kernel.world.is_new_forbidden
        try:
            act()
            self.desk.settle()
            self._end_astray()
            if self.taking is not None:
                self._go_over(list(dead()))
                return
        except Killed as killed:
            is_full = self._has_no_room(was_forbidden=was_forbidden)
            is_lost = not was_lost and not self.desk.store.is_connected
            also = (*(full() if is_full else ()), *(lost() if is_lost else ()))
            self._go_down([*dead(), *also], self._ended(str(killed)))
            return
        if not was_lost and not self.desk.store.is_connected:
            self.lines.append("    the store is lost by a fault")
            self._note_faults("running")
            self._compare(list(lost()), unheard, may_fail=True)
        elif self._has_no_room(was_forbidden=was_forbidden):
            self.lines.append("    the disk is full")
            self.seen.met["full disk", self.operation, "running"] += 1
            self._compare([*whole(), *full()], unheard, may_fail=True)
        else:
            self._compare(whole(), unheard)

    def _has_no_room(self, *, was_forbidden: bool) -> bool:
        """Say whether something was refused since the disk is full."""
        if self.desk.machine.disk.space is None:
            return False
        is_refused = any(said.reply.code in ways.NOT_TAKEN for said in self.desk.answers.values())
        return is_refused or (self.desk.kernel.world.is_new_forbidden and not was_forbidden)


def _both(one: Way, other: Way) -> Way:
    def way(state: State) -> None:
        one(state)
        other(state)

    return way
