"""The ends of lifetimes: units of work that nobody has received in time, and statuses nobody needs any longer.

Only what is ACCEPTED times out. What sleeps is not woken for it. What the store knows goes out in
commits of bounded size, one after the other, as long as anything is due.
"""

from itertools import islice

from oms_journal.broker.durations import MICROSECONDS, ends, status_lifetime
from oms_journal.broker.kernel.conversations.dormancy import unit
from oms_journal.broker.kernel.conversations.places import replace
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import Decision, Lockable
from oms_journal.broker.kernel.state.service import End, Rank
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import is_persistent, key, put_of_unit, record_of, service_of_record
from oms_journal.broker.kernel.state.unit_states import COMPLETE, Event
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.kernel.units.transitions import Completion, complete, completion_by
from oms_journal.broker.records import Flag, Status, UowRecord, identifier
from oms_journal.broker.store.changes import Changes, merge

ENDED_AT_ONCE = 250  # units of work and statuses in one commit: who calls meanwhile waits for some 10 ms


def end_lifetimes(world: World) -> None:
    """End what is due."""
    for number in [number for _, number in world.dues.passing.up_to(world.clocks.volatile)]:
        found = world.active[identifier(number)]
        talk = world.conversations[found.conv_id]
        if found.back and found.back <= world.clocks.volatile:
            accept_again(world, talk, found)
        if found.due and found.due <= world.clocks.volatile and not talk.is_pending:
            complete(world, talk, completion_by(world, talk, found, Event.LIFETIME_OVER))
    if world.is_store_up and not world.dues.is_ending:
        _end_lasting(world)


class ExpiryBatch:
    """What is ended in one commit."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held: list[Lockable] = []
        self.closings: list[tuple[Conversation, Completion]] = []  # of those that are awake
        self.accepted: list[tuple[Conversation, UnitOfWork]] = []  # whose delay is over
        self.asleep: list[DormantExpiry] = []
        self.changes: list[Changes] = []

    def take_awake(self, found: UnitOfWork) -> None:
        talk = self.world.conversations[found.conv_id]
        if talk.is_pending or talk in self.held:
            return
        self.held.append(talk)
        if found.status is Status.POSTPONED:
            self.accepted.append((talk, found))
            if found.has_status:
                accepted = record_of(found, talk, Status.ACCEPTED)
                self.changes.append(Changes(puts=[put_of_unit(accepted._replace(back=0, changed=self.world.now))]))
            return
        done = completion_by(self.world, talk, found, Event.LIFETIME_OVER)
        self.closings.append((talk, done))
        self.changes.append(done.changes)

    def take_asleep(self, uowid: str) -> None:
        world = self.world
        record = world.units.find(uowid)
        assert record is not None, "what is due is asleep"
        if uowid in world.holds or record.conv_id in world.holds:
            return
        is_waiting = record.status not in COMPLETE
        if is_waiting and not _is_alone(world, record):
            found = unit(world, uowid)
            assert isinstance(found, UnitOfWork), "what waits can be woken"
            self.take_awake(found)
            return
        sleeper = DormantExpiry(world, record)
        self.held.append(sleeper.held)
        self.asleep.append(sleeper)
        self.changes.append(sleeper.changes)

    def apply(self, _: int) -> None:
        for talk, done in self.closings:
            complete(self.world, talk, done)
        for talk, found in self.accepted:
            accept_again(self.world, talk, found)
        for sleeper in self.asleep:
            sleeper.apply()
        self.world.dues.is_ending = False
        if self.closings or self.accepted or self.asleep:
            end_lifetimes(self.world)

    def undo(self) -> None:
        for sleeper in self.asleep:
            sleeper.undo()
        self.world.dues.is_ending = False


def _end_lasting(world: World) -> None:
    clock = world.clocks.persistent
    _end_delays(world, clock)
    ending = ExpiryBatch(world)
    for _, number in list(islice(world.dues.lasting.up_to(clock), ENDED_AT_ONCE)):
        ending.take_awake(world.active[identifier(number)])
    room = ENDED_AT_ONCE - len(ending.held)
    for uowid in world.units.overdue(clock, room) if room else ():
        ending.take_asleep(uowid)
    if not ending.held:
        return
    world.dues.is_ending = True
    decide(world, merge(ending.changes), Decision(ending.apply, ending.held, undo=ending.undo))


def _end_delays(world: World, clock: int) -> None:
    """Let units of work be received again whose delay is over. Nothing is written: their records say when it was."""
    for number in [number for _, number in world.dues.lasting.up_to(clock)]:
        found = world.active[identifier(number)]
        if found.status is Status.ACCEPTED and 0 < found.back <= clock:
            accept_again(world, world.conversations[found.conv_id], found)
    for uowid in world.units.overdue(clock, ENDED_AT_ONCE):
        record = world.units.find(uowid)
        assert record is not None, "what is due is asleep"
        is_held = uowid in world.holds or record.conv_id in world.holds
        if record.status is Status.ACCEPTED and 0 < record.back <= clock and not is_held:
            world.units.take(uowid)  # it sleeps on
            world.units.add(record._replace(back=0))


def accept_again(world: World, talk: Conversation, found: UnitOfWork) -> None:
    """Let a unit of work that was put off, or whose delay is over, be received again."""
    world.disarm(found)
    found.status = Status.ACCEPTED
    found.back = 0
    world.arm(found)
    replace(world, talk)
    world.touch(talk)


def _is_alone(world: World, record: UowRecord) -> bool:
    """The unit of work sleeps, and all of its conversation with it."""
    if record.status is not Status.ACCEPTED or record.conv_id in world.conversations:
        return False
    return not record.flags & (Flag.FROM_SERVER | Flag.BOUND) and len(world.units.of_conversation(record.conv_id)) == 1


class DormantExpiry:
    """A record that comes to its end without being woken: a status, or the only unit of work of a conversation."""

    __slots__ = ("_key", "_left", "_record", "_world", "changes", "held")

    def __init__(self, world: World, record: UowRecord) -> None:
        self._world = world
        self._record = record
        self._left: UowRecord | None = None  # the status that is kept of it
        self._key = 0  # its conversation's place among those that wait
        self.held = Lockable()
        world.holds[record.uowid] = self.held
        if record.status in COMPLETE:
            self.changes = Changes(drops=[key(record.uowid)])
            return
        world.holds[record.conv_id] = self.held
        self._key = record.conversation or record.first
        self._order().remove(self._key, int(record.conv_id, 16))
        numbers = [range(record.first, record.first + record.messages)] if is_persistent(record) else []
        if record.flags & Flag.STATUS_PERSISTENT:
            self._left = self._timed_out()
            self.changes = Changes(puts=[put_of_unit(self._left)], deleted=numbers)
        else:
            self.changes = Changes(drops=[key(record.uowid)], deleted=numbers)

    def _timed_out(self) -> UowRecord:
        record, world = self._record, self._world
        lifetime = status_lifetime(
            record.uwstatp, record.lifetime * MICROSECONDS, record.status_lifetime * MICROSECONDS
        )
        return record._replace(
            status=Status.TIMEOUT,
            adcount=record.adcount + 1,
            changed=world.now,
            ends=ends(world.clocks.persistent, lifetime),
        )

    def _order(self) -> KeyedOrder:
        return self._world.service_of_old(service_of_record(self._record)).waiting.orders[Rank.STORED]

    def apply(self) -> None:
        """Forget the record, but for the status."""
        world, record = self._world, self._record
        self._release()
        world.units.take(record.uowid)
        if record.status in COMPLETE:
            return
        if self._left is not None:
            world.units.add(self._left)
        owner = world.owner(record.sender_user, record.sender_token)
        owner.live -= 1
        world.forget_idle(owner)
        service = world.service_of_old(service_of_record(record))
        service.units -= 1
        service.completed[End.TIMED_OUT] += 1
        world.active_count -= 1
        service.conversations -= 1
        world.talk_count -= 1
        world.unused.see(service)

    def undo(self) -> None:
        """Let it be as it was."""
        self._release()
        if self._key:
            self._order().add(self._key, int(self._record.conv_id, 16))

    def _release(self) -> None:
        self._world.holds.pop(self._record.uowid, None)
        self._world.holds.pop(self._record.conv_id, None)
