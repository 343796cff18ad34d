"""What is held since a store was restored: listed as the model has it, and handed out to nobody before its release."""

from collections.abc import Sequence
from dataclasses import dataclass

from oms_journal.broker.admin.hold import CommitPeriod, held_publications, held_uows
from oms_journal.broker.admin.questions import Query, run_steps
from oms_journal.broker.kernel.restart.hold import HeldItem, Records, held_in
from oms_journal.broker.store.start import StoreUnavailable
from tests.simulation.broker.promises import Promises, Reader
from tests.simulation.broker.restarts import RestartingPlay, copied, starts_of
from tests.simulation.broker.steps import Crash, Restore
from tests.support.broker.oracle_play import State
from tests.support.broker.words import Ask

LISTED = "what is held is listed, the oldest first, and nothing else"
REPEATED = "what an order that was cut off has left is decided by its repetition"
FREED = "nothing is held any more once all of it was released"


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What was so of a broker when its store was backed up."""

    states: Sequence[State]
    promises: Promises
    asks: Sequence[Ask]  # that were not answered


class HoldingPlay(RestartingPlay):
    """A play whose machine may be lost, and replaced by one that holds what may have been delivered."""

    is_restored = False
    backed_up: BackedUp | None = None

    def back_up(self) -> None:
        """Let the running broker's store be backed up, and remember what was so."""
        if self.desk.machine.back_up():
            self.lines.append("    backed up")
            states = [copied(state) for state in self.states]
            self.backed_up = BackedUp(states, self.promises.copied(), [*self.asks.values()])

    def restore(self, step: Restore) -> None:
        """Let the broker end, and another one begin with what a backup has of its store."""
        machine, older = self.desk.machine, self.backed_up if step.is_older else None
        self.operation, self.is_restored = "restore" if older is None else "restore of an older state", True
        self._end(step.ending, step.choice, is_restored=older is None)
        if older is None:
            machine.recovered()
        else:
            self._go_back(older)
        self.promises.hold_back()
        machine.replace(is_older=older is not None)
        ending = "killed" if step.ending == "closed" else step.ending  # who was closed is not there to be closed again
        self._start_until_it_lasts(Crash(ending, 0, step.choice, step.again))
        self._compare_start()

    def _go_back(self, older: BackedUp) -> None:
        """Let all be as the backup has it; what clients were told since by the broker that is lost, they know."""
        lost, self.promises = self.promises, older.promises.copied()
        for ask in older.asks:
            self.promises.unheard(ask)
        self.promises.restart()
        self.promises.follow(lost)
        numbers, left = self.first.model.numbers, dict[str, State]()
        for state in map(copied, older.states):
            state.model.now, state.model.numbers = self.desk.now, numbers  # nothing else is called so from now on
            left |= {repr(started): started for started in starts_of(state, is_restored=True)}
        self.states = [copied(state) for state in left.values()]
        self._attribute()

    def _compare_start(self) -> None:
        super()._compare_start()
        self.compare_held()

    def compare_held(self) -> None:
        """Compare what is held with what the store's records and the broker say of it."""
        if not self.desk.store.is_connected:
            return
        store, world = self.desk.store, self.desk.kernel.world
        try:
            held = held_in(Records(store.record, lambda prefix: (key for key, _ in store.records(prefix))))
        except StoreUnavailable:  # a call of the disk that was to fail has done so
            return
        fit = [state for state in self.states if self._is_held(state, held)]
        self._hold(bool(fit), LISTED, [f"listed: {held}", f"expected: {self.first.model.held()}"])
        self.states = fit
        units = sum(not one.subscription_id for one in held)
        counted = (world.withheld.unit_count, world.withheld.publications)
        self._hold(counted == (units, len(held) - units), LISTED, [f"counted: {counted}", f"listed: {held}"])

    def _is_held(self, state: State, held: Sequence[HeldItem]) -> bool:
        """Say whether that is what a state holds; what nobody has heard of is found to be what it is by its place."""
        uows, publications = state.model.held()
        units = [one.identifier for one in held if not one.subscription_id]
        places = {number: state.model.uows[number].place for number in uows}
        if len(units) != len(uows):
            return False
        ordered = sorted(uows, key=places.__getitem__)
        if not all(state.uows.is_the(number, uowid) for number, uowid in zip(ordered, units, strict=True)):
            return False
        return self._news_of(state, held) == publications

    def _news_of(self, state: State, held: Sequence[HeldItem]) -> set[tuple[int, str, str]] | None:
        """Return the publications that are listed, in a state's numbers; None where they are not those it holds."""
        topics, subscriptions = state.model.topics, self.desk.kernel.world.topics.subscriptions
        listed = {one.identifier: one.first for one in held if one.subscription_id}
        numbers = sorted({number for number, _, _ in topics.held()}, key=lambda one: topics.publications[one].place)
        in_order = sorted(listed, key=listed.__getitem__)
        if len(numbers) != len(in_order):
            return None
        known = state.publications
        if not all(known.is_the(number, one) for number, one in zip(numbers, in_order, strict=True)):
            return None
        owners = {one: subscriptions[one].owner for one in {each.subscription_id for each in held} if one}
        return {
            (known.numbers[one.identifier], owners[one.subscription_id].user, owners[one.subscription_id].token)
            for one in held
            if one.subscription_id
        }

    def check_nothing_held(self) -> None:
        """Hold that all orders to release everything have left nothing."""
        self.compare_held()
        self._hold(not any(self.first.model.held()), FREED, [f"{self.first.model.held()}"])

    def check_decided(self, queue: str) -> None:
        """Hold, where the store and its disk refuse nothing, that orders about all of a queue have left nothing."""
        disk = self.desk.machine.disk
        if self.desk.store.is_connected and disk.space is None and not disk.faults:
            left = self.look_at_held(queue)
            self._hold(not any(left), REPEATED, [f"left of {queue or 'all'}: {left}"])

    def look_at_held(self, queue: str) -> tuple[list[str], list[tuple[str, Reader]]]:
        """Return what an operator is told of a service or topic, "" for all: units of work, and topics with readers."""
        self.compare_held()
        world, named = self.desk.kernel.world, {"service": [queue]} if queue else {}
        units = run_steps(held_uows(world, Query(selectors={"held": ["yes"], **named}), CommitPeriod()))
        topics = {"topic": [queue]} if queue else {}
        news = run_steps(held_publications(world, Query(selectors=topics), CommitPeriod()))
        owners = world.topics.subscriptions
        readers = []
        for row in news.rows:
            owner = owners[row["subscription_id"]].owner
            readers.append((row["topic"], (owner.user, owner.token)))
        return [row["uowid"] for row in units.rows], readers
