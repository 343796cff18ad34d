"""Coming and going: LOGON, LOGOFF, REGISTER, DEREGISTER, and connections that are lost.

Who goes away leaves nothing half done: what it was sending is backed out, what it was receiving is
given back, conversations of messages end. Its committed units of work, and what is bound to it by
USER-ID and TOKEN, wait until it comes again; without TOKEN nobody can come again, and what was bound to
the connection is everybody's.

What is taken back is fixed when it is decided. So until that is durable who goes is handed out nothing more, and what
it calls waits: a unit of work that it got in between would be nobody's afterwards.

    DEREGISTER  conversations of messages     units of work that it is sending or receiving
    none        end                           refuse it
    IMMED       end                           are backed out
    QUIESCE     go on; no new ones            go on
"""

from collections.abc import Callable, Iterable

from oms_journal.broker.block import Option, Reply, ServiceName
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.conversations.dormancy import sleep_unserved
from oms_journal.broker.kernel.conversations.ending import end_side
from oms_journal.broker.kernel.conversations.places import release_conversation
from oms_journal.broker.kernel.state.conversation import Conversation, Side
from oms_journal.broker.kernel.state.decision import Busy, Decision, Lockable
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.participant import Participant, with_instance
from oms_journal.broker.kernel.state.service import Rank, Registration, Service
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import Name, UnitOfWork
from oms_journal.broker.kernel.state.unit_states import Event
from oms_journal.broker.kernel.state.world import World, nonact_of
from oms_journal.broker.kernel.topics.delivery import change_connection, leave_topics
from oms_journal.broker.kernel.topics.publish import drop_all_uncommitted
from oms_journal.broker.kernel.units.dead_letters import MOVED_BYTES_MAX
from oms_journal.broker.kernel.units.receive import services_of
from oms_journal.broker.kernel.units.receiver import Backout
from oms_journal.broker.kernel.units.transitions import Completion, complete, completion_by
from oms_journal.broker.records import identifier
from oms_journal.broker.store.changes import Changes, merge


def log_on(world: World, call: Call, participant: Participant) -> None:
    """Let a participant use units of work and topics, from where it is now.

    What it is acknowledging at another place is first acknowledged there: given back it would be acknowledged twice.
    """
    if participant.physical != call.caller and participant.pending:
        participant.later.append(call)
        return

    def apply() -> None:
        if participant.physical != call.caller:
            for parked in list(participant.parked.values()):
                world.parking.remove(parked)
                world.refuse(parked.call.handle, Code.NEW_LOCATION)
            drop_all_uncommitted(world, participant)
            change_connection(world, participant)
        participant.has_logged_on = True
        world.move(participant, call.caller)
        world.answer(call.handle, Reply(client_id=participant.client_id))

    if participant.physical == call.caller:
        apply()
        return
    leaving = Departure(world, participant, participant.talks.values())
    leaving.then(apply, call.handle)


def log_off(world: World, call: Call, participant: Participant) -> None:
    """Let a participant go."""
    if participant.pending:
        participant.later.append(call)
        return

    def apply() -> None:
        depart(world, participant, Code.PARTNER_LOGGED_OFF)
        world.answer(call.handle, Reply())

    Departure(world, participant, participant.talks.values()).then(apply, call.handle)


def drop_participant(
    world: World, participant: Participant, code: Code = Code.PARTNER_LOGGED_OFF, *, is_untried: bool = False
) -> None:
    """Let a participant go whose connection is lost, or who was silent too long; nothing can keep it.

    Busy when it has to be tried again once something has reached the store.
    """
    leaving = Departure(world, participant, participant.talks.values(), is_untried=is_untried)
    leaving.force(lambda: depart(world, participant, code, is_untried=is_untried))


def register(world: World, call: Call, participant: Participant) -> None:
    """Let a participant serve a service."""
    request = call.request
    names = (request.server_class, request.server_name, request.service)
    service = world.service(names)
    is_attach = request.option is Option.ATTACH
    known = service.servers.get(participant.name)
    if known is not None and known.is_attach != is_attach:
        raise BrokerError(Code.ALREADY_ATTACH if known.is_attach else Code.ALREADY_WITHOUT_ATTACH)
    world.quiescing -= known is not None and known.is_quiescing
    service.servers[participant.name] = Registration(participant.name, is_attach=is_attach)
    participant.services[service.name] = service
    service.update_served()
    world.arm_participant(participant, nonact_of(world, participant))
    world.answer(call.handle, Reply(server_class=names[0], server_name=names[1], service=names[2]))


def deregister(world: World, call: Call, participant: Participant) -> None:
    """Let a participant serve services no longer."""
    if participant.pending:
        participant.later.append(call)
        return
    services = services_of(participant, call.request)
    names = {service.name for service in services}
    if call.request.option is Option.QUIESCE:
        for service in services:
            world.quiescing += not service.servers[participant.name].is_quiescing
            service.servers[participant.name].is_quiescing = True
            service.update_served()
            sleep_unserved(world, service)
            finish_quiescing(world, participant.name, service)
        world.answer(call.handle, Reply())
        return
    talks = [
        talk for talk in participant.talks.values() if talk.service.name in names and talk.server == participant.name
    ]
    leaving = Departure(world, participant, talks)
    if call.request.option is Option.NONE and not leaving.is_nothing:
        leaving.stay()
        raise BrokerError(Code.DEREGISTER_NOT_COMPLETE)

    def apply() -> None:
        for service in services:
            unregister(world, participant, service, Code.PARTNER_DEREGISTERED)
        world.answer(call.handle, Reply())

    leaving.then(apply, call.handle)


class Departure:
    """What a participant was in the middle of, and how it is taken back. Busy when some of it is on its way."""

    def __init__(
        self, world: World, participant: Participant, talks: Iterable[Conversation], *, is_untried: bool = False
    ) -> None:
        self._world = world
        self._participant = participant
        self._is_untried = is_untried
        self._talks: list[Conversation] = []
        self._closings: list[tuple[Conversation, Completion]] = []
        self._received: list[tuple[Conversation, Side, UnitOfWork]] = []
        for talk in talks:
            if talk.is_pending:
                raise Busy(talk)
            if talk.is_uow:
                self._look_at(talk)
        self._backings = self._backed_out()
        if not world.is_store_up and not self._changes().is_empty():
            self.stay()

    def _look_at(self, talk: Conversation) -> None:
        name = self._participant.name
        for side, its_name in ((Side.SERVER, talk.server), (Side.CLIENT, talk.client)):
            if its_name != name:
                continue
            sent, received = talk.sending[side], talk.reading[side]
            if sent is not None:
                self._closings.append((talk, completion_by(self._world, talk, sent, Event.CONVERSATION_OVER)))
            if received is not None:
                self._received.append((talk, side, received))
            if sent is not None or received is not None:
                self._talks.append(talk)

    def _backed_out(self) -> list[Backout]:
        """Give back what it was receiving: of each service, and of the answers from it, the first counts as tried.

        That one its program was at; what it had got ahead it had not begun with. Where the broker has ended the
        connection, as at its own end, or an operator has, it is no fault of what was received: none counts.
        """
        received = {unit.uowid: (talk, side, unit) for talk, side, unit in self._received}
        backings: list[Backout] = []
        tried: set[tuple[ServiceName, Side]] = set()
        moved = 0
        in_order = (uowid for uowid in self._participant.owner.reading if uowid in received)
        for uowid in dict.fromkeys([*in_order, *received]):
            talk, side, unit = received[uowid]
            place = (talk.service.name, side)
            backing = Backout(self._world, talk, unit, "", is_counted=place not in tried and not self._is_untried)
            tried.add(place)
            if moved and moved + backing.moved_bytes > MOVED_BYTES_MAX:
                backing.stay()
            moved += backing.moved_bytes
            backings.append(backing)
        return backings

    def stay(self) -> None:
        """Let nothing become a dead letter with this."""
        for backing in self._backings:
            backing.stay()

    @property
    def is_nothing(self) -> bool:
        return not self._talks

    def then(self, apply: Callable[[], None], handle: int) -> None:
        """Take it back and go on; when the store says no, nothing has happened."""

        def whole(first: int) -> None:
            self._take_back(first)
            apply()

        def ask_less() -> None:
            if not self._give_way():
                return
            decision.handle = None  # it is answered once the other is decided
            try:
                self.then(apply, handle)
            except BrokerError as refusal:
                self._world.refuse(handle, refusal.code, refusal.text)

        decision = Decision(whole, self._held(), handle=handle, who=self._participant, undo=ask_less)
        decide(self._world, self._changes(), decision)

    def force(self, apply: Callable[[], None]) -> None:
        """Take it back and go on, whatever the store says; what it has not heard it is told when it is back."""

        def whole(first: int) -> None:
            self._take_back(first)
            apply()

        def unwritten() -> None:
            if self._give_way():
                self.force(apply)
                return
            self._world.unwritten.update((done.unit.uowid, done.changes) for _, done in self._closings)
            self._world.unwritten.update((backing.uowid, backing.changes) for backing in self._backings)
            whole(0)

        try:
            decide(self._world, self._changes(), Decision(whole, self._held(), who=self._participant, undo=unwritten))
        except BrokerError:
            return  # there is no store; it is done

    def _held(self) -> list[Lockable]:
        return [*self._talks, self._participant]

    def _give_way(self) -> bool:
        """Ask less of the store; False where nothing could be left out."""
        return any([backing.give_way() for backing in self._backings])

    def _changes(self) -> Changes:
        parts = [done.changes for _, done in self._closings]
        return merge([*parts, *(backing.changes for backing in self._backings)])

    def _take_back(self, first: int) -> None:
        for talk, done in self._closings:
            complete(self._world, talk, done)
        for backing in self._backings:
            backing.apply(first)
            first += len(backing.changes.adds)


def depart(world: World, participant: Participant, code: Code, *, is_untried: bool = False) -> None:
    """Know a participant no longer; what it was in the middle of is taken back already."""
    for parked in list(participant.parked.values()):
        world.parking.remove(parked)
        world.refuse(parked.call.handle, Code.USER_UNKNOWN)
    for service in list(participant.services.values()):
        unregister(world, participant, service, code)
    for talk in list(participant.talks.values()):
        _leave(world, participant.name, talk, code)
    leave_topics(world, participant, is_untried=is_untried)
    world.part(participant)


def unregister(world: World, participant: Participant, service: Service, code: Code) -> None:
    """Let a participant serve a service no longer."""
    name = participant.name
    world.quiescing -= service.servers.pop(name).is_quiescing
    service.update_served()
    del participant.services[service.name]
    for parked in list(participant.parked.values()):
        if service.name in parked.places or with_instance(participant, service.name) in parked.places:
            world.parking.remove(parked)
            world.refuse(parked.call.handle, Code.SERVICE_NOT_REGISTERED)
    for talk in list(participant.talks.values()):
        if talk.server == name and talk.service is service:
            if not talk.is_uow:
                _end(world, talk, Side.SERVER, code)
            elif not talk.is_bound:
                release_conversation(world, talk)
    if not service.servers:
        for _, number in list(service.waiting.orders[Rank.MESSAGES]):
            talk = world.conversations[identifier(number)]
            _end(world, talk, Side.SERVER, code)
    sleep_unserved(world, service)
    world.unused.see(service)


def _leave(world: World, name: Name, talk: Conversation, code: Code) -> None:
    """Let a participant take part in a conversation no longer, unless it can come again and something is left."""
    side = Side.SERVER if talk.server == name else Side.CLIENT
    if not talk.is_uow:
        _end(world, talk, side, code)
        return
    if side is Side.SERVER and not name[1]:
        release_conversation(world, talk)
    if talk.is_empty() and not world.units.of_conversation(talk.conv_id):
        _end(world, talk, side, code)
    world.touch(talk)


def _end(world: World, talk: Conversation, side: Side, code: Code) -> None:
    if talk.ended[side] is None:
        end_side(talk, side, code)
    for messages in talk.plain:  # nobody is to have them any more
        messages.clear()
    world.touch(talk)


def finish_quiescing(world: World, name: Name, service: Service) -> None:
    """Deregister a server that wants it, once its last conversation is done."""
    registration = service.servers.get(name)
    participant = world.participants.get(name)
    if registration is None or participant is None or not registration.is_quiescing:
        return
    mine = (talk for talk in participant.talks.values() if talk.server == name and talk.service is service)
    if all(talk.is_uow and talk.is_empty() for talk in mine):
        unregister(world, participant, service, Code.PARTNER_DEREGISTERED)
