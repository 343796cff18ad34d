"""All that the kernel knows: who is there, what is under way, what waits, and what time it is.

What is asleep lies in `units`, as records: restored units of work that nobody has touched yet, those
that wait for a service without a server, and the persistent status of what is complete.
"""

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from oms_journal.broker.answers import Physical
from oms_journal.broker.attributes.attributes import Attributes, BrokerAttributes, ServiceAttributes
from oms_journal.broker.block import SERVICE_FIELDS, Reply, Request, ServiceName
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.durations import NO, YES, parse_wait
from oms_journal.broker.kernel.state.clock import Clocks
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.decision import Decision, DecisionMaker, JointDecision, Lockable
from oms_journal.broker.kernel.state.effects import Answer, Body, Call, Effect, Level, Log
from oms_journal.broker.kernel.state.participant import Participant, WaitingCall, WaitingCalls, name_of
from oms_journal.broker.kernel.state.producers import Producers
from oms_journal.broker.kernel.state.service import Rank, Service, WaitingConversations
from oms_journal.broker.kernel.state.topics import Topics
from oms_journal.broker.kernel.state.unit import Name, Owner, UnitOfWork
from oms_journal.broker.kernel.state.unit_states import POSTPONED
from oms_journal.broker.kernel.state.unused_names import UnusedNames, stays
from oms_journal.broker.kernel.tables.dormant_units import DormantUnits, Person
from oms_journal.broker.kernel.tables.hold import Hold
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.kernel.tables.remembered import Remembered
from oms_journal.broker.records import HeldRecord, PublicationRecord, SubscriptionRecord, identifier
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.master import Identifiers
from oms_journal.broker.store.report import ReportLine


@dataclass(frozen=True, slots=True)
class Line:
    """Conversations that wait for the servers of a service, for one of them, or for a client, the oldest first."""

    service: ServiceName
    to_client: bool
    is_withheld: bool  # what each of them would be received from first is held
    receiver: Person | None  # the server instance they are bound to, or the client; None for any server
    orders: "array[int]"  # number of the conversation's first message
    conversations: "array[int]"  # CONV-IDs


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What the store held, as the kernel goes on with it."""

    has_store: bool = True
    clock: int = 0  # the pseudo-clock as it was written last, microseconds
    highest: int = 0  # no message had a higher number
    units: DormantUnits = field(default_factory=DormantUnits)
    lines: Sequence[Line] = ()
    senders: Mapping[Person, int] = field(default_factory=dict)  # how many units of work of theirs wait
    subscriptions: Sequence[SubscriptionRecord] = ()
    publications: Sequence[PublicationRecord] = ()
    withheld: Hold = field(default_factory=Hold)  # units of work that are held
    held: Mapping[str, HeldRecord] = field(default_factory=dict)  # publications, by the subscription's identifier
    lost: Sequence[str] = ()  # keys whose values are damaged
    reported: Sequence[ReportLine] = ()  # records that the restart has dropped
    remembered: Remembered = field(default_factory=Remembered)  # producers' identifiers


ENDED_MAX = 10_000  # conversations that are over and whose partner can still be told why


def undefined(broker: BrokerAttributes, name: ServiceName) -> ServiceAttributes:
    """Return what holds for a service that no attribute defines: what the broker says for all."""
    values: dict[str, Any] = {field.name: getattr(broker, field.name, None) for field in fields(ServiceAttributes)}
    values |= zip(SERVICE_FIELDS, name, strict=True)
    return ServiceAttributes(**values)


class Ended:
    """A conversation that is over, and what either side is told."""

    __slots__ = ("client", "codes", "is_uow", "server", "service")

    def __init__(self, conversation: Conversation) -> None:
        self.service = conversation.service.name
        self.client = conversation.client
        self.server = conversation.server
        self.is_uow = conversation.is_uow
        self.codes = tuple(conversation.ended)

    def code_for(self, name: Name) -> Code | None:
        if name == self.server:
            return self.codes[SERVER]
        if name == self.client or (self.is_uow and name[:2] == self.client[:2]):
            return self.codes[CLIENT]
        return None


class Dues:
    """When something has to be looked at: the numbers of what is awake, in the order of a clock."""

    def __init__(self, clock: int) -> None:
        self.clock_written = clock  # the pseudo-clock, as the store knows it
        self.is_clock_pending = False  # it is being written
        self.is_ending = False  # units of work whose time is over are on their way out
        self.is_untold = False  # the store is to be told with the next tick what it has not heard of
        self.lasting = KeyedOrder()  # units of work on the pseudo-clock
        self.passing = KeyedOrder()  # those that no restart keeps, on the second count
        self.conversations = KeyedOrder()
        self.participants = KeyedOrder()
        self.received = 0  # units of work that are being received, and have a lifetime on the pseudo-clock


class World:
    """The kernel's state. Changed by an input at a time."""

    joint: JointDecision | None = None  # while calls are decided together
    late = 0  # microseconds since a tick has set the clocks

    def __init__(self, attributes: Attributes, restored: Restored, identifiers: Identifiers) -> None:
        self.attributes, self.identifiers = attributes, identifiers
        self.units, self.withheld = restored.units, restored.withheld  # asleep; held since a restore, asleep or not
        self.has_store = restored.has_store
        self.is_reporting = attributes.broker.pstore_report
        self.is_new_forbidden = not attributes.broker.new_uow_messages
        self.clocks = Clocks(persistent=restored.clock, is_connected=restored.has_store)
        self.now = 0  # microseconds since 1970 UTC; only shown

        self.owners: dict[tuple[str, str], Owner] = {}
        self.participants: dict[Name, Participant] = {}
        self.talks: dict[Name, dict[str, Conversation]] = {}  # that somebody, there or not, has a part in; none asleep
        self.connections: dict[Physical, dict[Name, Participant]] = {}  # who calls from there
        self.client_count = 0
        self.services: dict[ServiceName, Service] = {}
        self.conversations: dict[str, Conversation] = {}
        self.ended: OrderedDict[str, Ended] = OrderedDict()
        self.active: dict[str, UnitOfWork] = {}  # units of work that are awake, by UOWID
        self.active_count = 0  # with those that are asleep
        self.talk_count = 0  # conversations, likewise
        self.instances: dict[tuple[Name, ServiceName], WaitingConversations] = {}  # what waits for a server instance
        self.beginning: dict[str, Conversation] = {}  # those of the first, as long as they are on their way
        self.parking, self.unused = WaitingCalls(), UnusedNames()
        self.topics = Topics(attributes, self.unused, has_store=restored.has_store)

        self.dues = Dues(restored.clock)
        self.numbered: dict[int, Participant] = {}  # by client id
        self.commit_count = 0  # of units of work and messages that the store does not number
        self.highest = restored.highest  # the newest message number that is known to be durable
        self.kept_bytes = 0  # of messages that the store has as well

        self.ticket = 0
        self.pending: dict[int, Decision] = {}  # on their way to the store, by ticket

        self.unwritten: dict[str, Changes] = {}  # by UOWID: what the store has not heard of: it was not there, or full
        self.holds: dict[str, Lockable] = {}  # statuses that are being deleted, by UOWID

        self.refusals: Counter[Code] = Counter()  # calls that were refused since the start, by code
        self.notes: list[str] = []  # for the log, with the next effects
        self.effects: list[Effect] = []
        self.touched: deque[Conversation] = deque()  # may have something for who waits, or may go to sleep
        self.released: deque[Lockable] = deque()  # are no longer on their way to the store
        self.producers, self.remembered = Producers(self.released), restored.remembered
        self.quiescing = 0  # servers that deregister when their last conversation is done
        self.leaving: deque[DecisionMaker] = deque()  # wanted to go away, and can now
        self.stayed: deque[Participant] = deque()  # were going away, and are where they were unless they have gone

    @property
    def is_store_up(self) -> bool:
        return self.has_store and self.clocks.is_connected

    # Effects.

    def touch(self, conversation: Conversation) -> None:
        """Look at a conversation once the input is dealt with, if anything could come of it."""
        line = conversation.lines[SERVER]
        if (
            self.parking.calls
            or conversation.ended[SERVER] is not None
            or self.quiescing
            or (line and not isinstance(line[0], UnitOfWork))
        ):
            self.touched.append(conversation)

    def answer(self, handle: int, reply: Reply, bodies: tuple[Body, ...] = ()) -> None:
        self.effects.append(Answer(handle, reply, bodies))

    def refuse(self, handle: int, code: Code, text: str = "") -> None:
        self.refusals[code] += 1
        self.effects.append(Answer(handle, Reply(code=code, text=text or code.text)))

    def log(self, level: Level, text: str) -> None:
        self.effects.append(Log(level, text))

    # Who.

    def owner(self, user: str, token: str) -> Owner:
        """Return whose units of work they are."""
        found = self.owners.get((user, token))
        if found is None:
            found = self.owners[user, token] = Owner(user, token)
        return found

    def join(self, request: Request, caller: Physical) -> Participant:
        """Return the participant who calls, a new one if need be."""
        name = name_of(request.user_id, request.token, caller)
        found = self.participants.get(name)
        if found is None:
            self.client_count += 1
            found = Participant(name, self.owner(request.user_id, request.token), caller, self.client_count)
            found.used = self.present.volatile
            found.owner.members += 1
            found.talks = self.talks.setdefault(name, {})
            self.participants[name] = found
            self.connections.setdefault(caller, {})[name] = found
            self.numbered[found.client_id] = found
            self.arm_participant(found, self.attributes.broker.client_nonact)
        return found

    def move(self, participant: Participant, caller: Physical) -> None:
        """Let a participant be where it calls from now."""
        if participant.physical != caller:
            self._unplug(participant)
            participant.physical = caller
            self.connections.setdefault(caller, {})[participant.name] = participant

    def part(self, participant: Participant) -> None:
        """Know a participant no longer."""
        del self.participants[participant.name]
        del self.numbered[participant.client_id]
        self.arm_participant(participant, 0)
        self._unplug(participant)
        if not participant.talks:
            del self.talks[participant.name]
        participant.owner.members -= 1
        self.forget_idle(participant.owner)

    def _unplug(self, participant: Participant) -> None:
        there = self.connections[participant.physical]
        del there[participant.name]
        if not there:
            del self.connections[participant.physical]

    def forget_idle(self, owner: Owner) -> None:
        """Forget an owner that nobody is and of whom no unit of work lives."""
        name = (owner.user, owner.token)
        if owner.is_idle() and self.owners.get(name) is owner:  # and not who came again since
            del self.owners[name]

    # What.

    def service(self, name: ServiceName) -> Service:
        """Return a service that the attributes define. SERVICE_UNDEFINED, and INVALID_SERVICE_NAME for a blank part."""
        found = self.services.get(name)
        if found is None:
            if "" in name:
                text = "CLASS, SERVER and SERVICE have to be said"
                raise refuse(Code.INVALID_SERVICE_NAME, text)
            attributes = self.attributes.service(*name)
            if attributes is None:
                raise refuse(Code.SERVICE_UNDEFINED, "/".join(name))
            is_defined = (attributes.server_class, attributes.server_name, attributes.service) == name
            found = Service(name, attributes, is_lasting=stays(len(self.services), is_defined=is_defined))
            self.services[name] = found
            self.unused.see(found)
        return found

    def service_of_old(self, name: ServiceName) -> Service:
        """Return the service of what an earlier start has left, also when no attribute defines it any longer."""
        try:
            return self.service(name)
        except BrokerError:
            self.notes.append(f"the attributes define no service {'/'.join(name)}, and units of work wait for it")
            found = self.services[name] = Service(name, undefined(self.attributes.broker, name))
            return found

    def waiting_for(self, server: Name, service: Service) -> WaitingConversations:
        """Return where conversations wait that are bound to a server instance."""
        found = self.instances.get((server, service.name))
        if found is None:
            found = self.instances[server, service.name] = WaitingConversations()
        return found

    def enter(self, conversation: Conversation) -> None:
        """Let a conversation be known, that begins or is woken."""
        conv_id = conversation.conv_id
        self.conversations[conv_id] = conversation
        if conversation.is_uow:
            conversation.service.awake[conv_id] = conversation
        if conversation.service.attributes.conv_nonact:
            self.arm_conversation(conversation)
        for name in (conversation.client, conversation.server):
            if name is not None:
                self.talks.setdefault(name, {})[conv_id] = conversation

    def leave(self, conversation: Conversation) -> None:
        """Know a conversation no longer: it is over, or asleep."""
        del self.conversations[conversation.conv_id]
        if conversation.is_uow:
            del conversation.service.awake[conversation.conv_id]
        for name in (conversation.client, conversation.server):
            if name is not None:
                self.part_from(name, conversation)
        if conversation.due:
            self.dues.conversations.remove(conversation.due, conversation.number)
            conversation.due = 0

    def part_from(self, name: Name, conversation: Conversation) -> None:
        """Note that somebody, there or not, has no part in the conversation any longer."""
        talks = self.talks.get(name)
        if talks is None:
            return
        talks.pop(conversation.conv_id, None)
        if not talks and name not in self.participants:
            del self.talks[name]

    def come_back(self, participant: Participant, conversation: Conversation) -> None:
        """Let who has no token be the client whose connection is gone, or was another broker's."""
        if conversation.client != participant.name and conversation.client not in self.participants:
            self.part_from(conversation.client, conversation)
            conversation.client = participant.name
            participant.talks[conversation.conv_id] = conversation

    def after(self, number: int) -> int:
        """Return the newest message that was durable before a conversation without a number of its own."""
        return self.conversations[identifier(number)].after

    def rise(self, unit: UnitOfWork) -> None:
        """Let a unit of work be awake."""
        self.active[unit.uowid] = unit
        unit.owner.awake[unit.uowid] = unit

    def lie_down(self, unit: UnitOfWork) -> None:
        """Let it be so no longer: it is complete, or asleep."""
        del self.active[unit.uowid]
        del unit.owner.awake[unit.uowid]

    # The ends of lifetimes and delays.

    def arm(self, unit: UnitOfWork) -> None:
        """Let the unit's lifetime, or its delay, come to an end: the first of both, but POSTPONED waits."""
        due = unit.back or unit.ends
        if due > unit.ends > 0 and unit.status is not POSTPONED:
            due = unit.ends
        unit.due = 0 if unit.is_withheld else due
        if unit.due:
            self._dues_of(unit).add(unit.due, int(unit.uowid, 16))

    def disarm(self, unit: UnitOfWork) -> None:
        if unit.due:
            self._dues_of(unit).remove(unit.due, int(unit.uowid, 16))
            unit.due = 0

    def arm_conversation(self, conversation: Conversation) -> None:
        """Let the conversation be looked at when it may have been silent too long."""
        if conversation.due:
            self.dues.conversations.remove(conversation.due, conversation.number)
        nonact = conversation.service.attributes.conv_nonact
        conversation.due = conversation.used + nonact if nonact else 0
        if nonact:
            self.dues.conversations.add(conversation.due, conversation.number)

    def arm_participant(self, participant: Participant, nonact: int) -> None:
        """Let the participant be looked at when it may have been silent for so long; 0 for never."""
        if participant.due:
            self.dues.participants.remove(participant.due, participant.client_id)
        participant.due = participant.used + nonact if nonact else 0
        if nonact:
            self.dues.participants.add(participant.due, participant.client_id)

    def lives_on_clock(self) -> bool:
        """Say whether a lifetime runs on the pseudo-clock."""
        dues = self.dues
        return bool(dues.received or self.units.has_dues or len(dues.lasting) or len(self.topics.lasting))

    @property
    def present(self) -> Clocks:
        """What the clocks would say now, for what begins: a tick sets them only once in a while.

        What every call does adds `late` itself, which takes a tenth of the time.
        """
        late, clocks = self.late, self.clocks
        return Clocks(clocks.persistent + late, clocks.volatile + late) if late else clocks

    def clock_of(self, unit: UnitOfWork) -> int:
        """Return what time it is for the unit."""
        return self.clocks.persistent if unit.is_lasting else self.clocks.volatile

    def _dues_of(self, unit: UnitOfWork) -> KeyedOrder:
        return self.dues.lasting if unit.is_lasting else self.dues.passing


def park(world: World, call: Call, participant: Participant, ranks: Sequence[Rank], places: Sequence[Hashable]) -> bool:
    """Let the call wait as long as it says; False when it does not want to."""
    waiting = parse_wait(call.request.wait)
    if waiting is NO:
        return False
    parked = WaitingCall(call, participant, ranks, places)
    if waiting is YES:
        waiting = nonact_of(world, participant)
    assert isinstance(waiting, int), "NO and YES are done"
    parked.due = world.present.volatile + waiting if waiting else 0
    world.parking.add(parked)
    return True


def nonact_of(world: World, participant: Participant) -> int:
    """Return how long the participant may be inactive, 0 for ever."""
    times = [service.attributes.server_nonact for service in participant.services.values()]
    if not times:
        return world.attributes.broker.client_nonact
    return 0 if 0 in times else max(times)
