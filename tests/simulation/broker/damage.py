"""The end of a world: what its disk holds is damaged, and the next broker must say what it has lost by that.

What was promised and is not there must lie where a loss was reported, and what lies nowhere near one must be there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import PUBLICATIONS, SUBSCRIPTIONS, UOWS
from oms_journal.broker.store.start import PersistentStore as StorePort
from oms_journal.broker.store.start import StartRefused
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.report import RecoveryReport, Verdict
from tests.simulation.broker.holding import HoldingPlay
from tests.simulation.broker.machine import MachineDesk
from tests.simulation.broker.promises import AnyRecord, Promises, bodies_in, news_in, numbers_of, units_in
from tests.simulation.broker.steps import Astray, Rot
from tests.support.broker.oracle_play import State
from tests.support.crashes.crash_model import Unattended
from tests.support.disks.faulty_disk import Kind

STATES_MAX = 400  # of the model: a campaign's runs have had up to 96, and the more there are the slower a run is
NOT_OTHERS = "damage never shows one message for another"
UNCHANGED = "a start that refuses damage changes no data file"
HELD = "what damage may have brought back is held back where that was asked for"
REPORTED = "what damage has destroyed is reported, and nothing else is lost"


class Over(Exception):
    """The world has ended in damage, and was looked at, or may be what too many are: nothing more can be said of it."""


class Place(NamedTuple):
    """A frame of a data file."""

    name: str
    offset: int


Places = Mapping[str, Sequence[Place]]  # by identifier of a unit of work or publication: what it consists of


class DamagedPlay(HoldingPlay):
    """A play whose disk may come to harm, once, at its end."""

    astray: Astray | None = None  # a write that is to come

    def _followed(self, states: list[State]) -> list[State]:
        """Return all that fit: each may be the one. The play is over where they are too many, and that is counted."""
        if len(states) > STATES_MAX:
            self._note("too many ways that it may have gone", "running")
            raise Over
        return states

    def damage(self, step: Rot) -> None:
        """Let the broker end, damage what it leaves, and see what the next one is able to say of that."""
        machine, former = self.desk.machine, self.desk
        self._end(step.ending, step.choice)
        places = places_of(former, self.promises.units)
        for time in range(step.times):
            self.lines.append(f"    {machine.rot(step.kind, step.choice + time)}")
        machine.holds = step.holds
        is_started = step.policy == "refuse" and not self._is_refused()
        fault = f"{step.kind} rot, {step.ending}"
        self._check_damage(fault, places, is_vouched=step.ending == "closed", is_started=is_started)

    def _is_refused(self) -> bool:
        """Start a broker that is to refuse damage; say whether it has done that."""
        machine = self.desk.machine
        machine.policy, before = "refuse", self._data_files()
        try:
            self.desk.start_on_what_is_left()
            self.desk.settle()
        except StartRefused as refused:
            self.lines.append(f"    refused: {refused}")
            self._hold(self._data_files() == before, UNCHANGED, [f"{refused}"])
            machine.end("killed", 0)
            return True
        finally:
            machine.policy = "salvage"
        lost = self.desk.database.recovery.lost
        self._hold(not lost, "a start that refuses damage does not go on with it", [f"{lost}"])
        return False

    def _data_files(self) -> Mapping[str, bytes]:
        files = self.desk.machine.disk.contents(self.desk.machine.directory)
        return {name: data for name, data in files.items() if name.endswith(".data")}

    def misdirect(self, step: Astray) -> None:
        """Let a write go elsewhere; nothing else goes wrong from now on."""
        disk = self.desk.machine.disk
        self.crash = disk.kill_at = disk.before_change = None
        disk.faults.clear()
        disk.failed.clear()
        disk.misdirect("write_durably", step.nth, step.choice)
        self.astray = step

    def _end_astray(self) -> None:
        """If the write has gone elsewhere, let the broker end, and see what the next one is able to say of that.

        What was answered since is not the model's: messages may be unreadable already.
        """
        machine, step = self.desk.machine, self.astray
        if step is None or not any(fault.kind is Kind.MISDIRECTED for fault in machine.disk.failed):
            return
        self.lines.append("    a write has gone elsewhere")
        self._hear(self.desk.answers)
        for ask in self.asks.values():
            self.promises.unheard(ask)
        self.promises.restart()
        if step.ending == "closed":
            self.desk.stop()
        else:
            self.desk.look_after("vouch")  # what nothing vouches for may be missing without a word
        machine.end(step.ending, step.choice)
        places = places_of(self.desk, self.promises.units)
        self._check_damage(f"misdirected write, {step.ending}", places, is_vouched=True, is_started=False)
        raise Over

    def _check_damage(self, fault: str, places: Places, *, is_vouched: bool, is_started: bool) -> None:
        """Start a broker on what is damaged: what is lost is reported, and no start but the first has to say so."""
        machine = self.desk.machine
        try:
            if not is_started:
                self.desk.start_on_what_is_left()
                self.desk.settle()
        except StartRefused as refused:
            self.lines.append(f"    refused: {refused} {refused.__cause__}")
            self._note(fault, f"refused: {type(refused.__cause__ or refused).__name__}")
            return
        told = [*self.promises.units, *(unit.conv_id for unit in self.promises.units.values()), *self.promises.news]
        self._hold(
            max(told, default="") < self.desk.begun.identifiers.next(), "no identifier comes again after damage", []
        )
        report = self.desk.database.recovery
        self._note(fault, *(file.row for file in report.files))
        with self._telling():
            check_damaged(self.promises, self.desk.store, Told(report, places, is_vouched=is_vouched))
        if machine.holds:
            self._check_held(report)
        found = list(self.desk.store.messages())
        self.desk.stop()
        machine.end("killed", 0)
        again = machine.open()
        self._hold(again._database.recovery.intact, "the next start after damage finds none", [])
        self._hold(list(again.messages()) == found, "the next start after damage finds the same messages", [])

    def _check_held(self, report: RecoveryReport) -> None:
        """Hold against the broker that it keeps back what the damage may have brought back."""
        free = not_held(self.desk, report)
        self._hold(not free, HELD, free)


def not_held(desk: MachineDesk, report: RecoveryReport) -> list[str]:
    """Return the units of work that wait with a message that was reported as suspect, and that are not held."""
    world = desk.kernel.world
    suspects = [range(one.first, one.last + 1) for one in report.suspects if one.kind == "message"]
    free = []
    for uowid, stored in units_in(desk.store).items():
        unit, record = world.active.get(uowid), world.units.find(uowid)
        is_held = unit.is_withheld if unit is not None else record is not None and world.withheld.has(record)
        if not is_held and any(number in one for number in numbers_of(stored) for one in suspects):
            free.append(uowid)
    return free


def places_of(desk: MachineDesk, uowids: Iterable[str]) -> Places:
    """Return where the store had what the broker knew: these units of work, and publications with subscriptions."""
    world, database = desk.kernel.world, desk.database
    places = {uowid: [*_places(database, [UOWS + uowid], _numbers(world, uowid))] for uowid in uowids}
    readers = [SUBSCRIPTIONS + identifier for identifier in world.topics.subscriptions]
    for identifier, publication in world.topics.publications.items():
        keys = [PUBLICATIONS + identifier, *readers]
        places[identifier] = [*_places(database, keys, publication.numbers())]
    return places


def _numbers(world: World, uowid: str) -> range:
    """Return the numbers of its messages in the store; one that was never committed, or is complete, has none."""
    unit, record = world.active.get(uowid), world.units.find(uowid)
    if unit is not None:
        return unit.numbers() if unit.first else range(0)
    return numbers_of(record)


def _places(database: Unattended, keys: Sequence[str], numbers: range) -> Iterator[Place]:
    index = database._ledger.index
    for found in (*map(index.table.find, numbers), *(index.keyed.find(key.encode()) for key in keys)):
        if found is not None:
            yield Place(str(DataFileName(found.sequence)), found.offset)


class Told:
    """What a start has reported of what the store had."""

    def __init__(self, report: RecoveryReport, places: Places, *, is_vouched: bool) -> None:
        self.report = report
        self._places = places
        self._is_vouched = is_vouched  # nothing may have been cut as torn
        self._ends = {file.name: file.good_end for file in report.files if file.verdict is Verdict.TORN}

    def lost(self, identifier: str) -> bool:
        """Say whether something that the unit of work or publication consists of was reported as lost."""
        places = self._places.get(identifier)
        return bool(self.report.lost) if places is None else any(map(self._is_lost, places))

    def _is_lost(self, place: Place) -> bool:
        losses = [loss for loss in self.report.lost if loss.name == place.name]
        if any(loss.start <= place.offset < max(loss.end, loss.start + 1) for loss in losses):
            return True
        return not self._is_vouched and place.offset >= self._ends.get(place.name, 1 << 60)


def check_damaged(promises: Promises, store: StorePort, told: Told) -> None:
    """Hold what was promised against a store that was damaged, and what its start has reported of that."""
    units, news = units_in(store), news_in(store)
    wanted: list[tuple[str, list[bytes], AnyRecord | None]] = []
    wanted += [(uowid, unit.bodies, units.get(uowid)) for uowid, unit in promises.certain_units()]
    wanted += [(identifier, one.bodies, news.get(identifier)) for identifier, one in promises.certain_news()]
    for identifier, bodies, record in wanted:
        found = bodies_in(store, record)
        is_told = found == bodies or told.lost(identifier)
        promises.hold(is_told, REPORTED, f"{identifier} is {record} with {found}: {told.report}")
        of_others = [body for body in found if body is not None and body not in bodies]
        promises.hold(not of_others, NOT_OTHERS, f"{identifier} holds {of_others} and not {bodies}")
