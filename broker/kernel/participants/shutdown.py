"""SHUTDOWN of a server, a participant or a conversation, by an operator.

              QUIESCE                                          IMMED
    server    gets no new conversations, and is told so when   its units of work are backed out, it serves the service
              it asks for one; what it has goes on, then it    no longer, and its calls that wait are told so
              serves the service no longer
    particip. a server of all it serves; refused for a client  the same of all, and it is logged off
    convers.  nothing new; what waits can be received          refused over units of work that wait or are received;
                                                               else it is over for both

No attempt counts of what is given back with it: that is no fault of who received it, nor of what it received.

(EntireX 10.3, Command and Information Services, SHUTDOWN. What becomes of a conversation's units of work is ours.)
"""

from collections.abc import Iterable

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import conversation, sleep_unserved
from oms_journal.broker.kernel.conversations.ending import EOC_CODES, ending_records, keep_records, reason_number
from oms_journal.broker.kernel.participants.logon import Departure, depart, finish_quiescing, unregister
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import ShutConversation, ShutParticipant, ShutServer
from oms_journal.broker.kernel.state.participant import Participant, with_instance, with_service
from oms_journal.broker.kernel.state.service import Service
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit_records import put_of_unit
from oms_journal.broker.kernel.state.unit_states import Event
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.transitions import complete, completion_by
from oms_journal.broker.records import ConversationState
from oms_journal.broker.store.changes import Changes, merge


def shut_server(world: World, given: ShutServer) -> None:
    """Let a participant serve a service no longer. SERVICE_NOT_REGISTERED when it does not."""
    participant = world.numbered.get(given.client_id)
    service = world.services.get(given.service)
    if participant is None or service is None or participant.name not in service.servers:
        raise BrokerError(Code.SERVICE_NOT_REGISTERED)
    if not given.is_immediate:
        _quiesce(world, participant, service)
        world.answer(given.handle, Reply())
        return
    talks = [each for each in participant.talks.values() if each.service is service and each.server == participant.name]
    if participant.pending:
        participant.later.append(given)
        return
    leaving = Departure(world, participant, talks, is_untried=True)

    def apply() -> None:
        if service.servers.get(participant.name) is not None:
            _refuse_waiting(world, participant, [service], Code.SHUTDOWN_IMMED)
            unregister(world, participant, service, Code.PARTNER_DEREGISTERED)
        world.answer(given.handle, Reply())

    leaving.then(apply, given.handle)


def _quiesce(world: World, participant: Participant, service: Service) -> None:
    registration = service.servers[participant.name]
    world.quiescing += not registration.is_quiescing
    registration.is_quiescing = registration.is_ordered = True
    service.update_served()
    sleep_unserved(world, service)
    _refuse_waiting(world, participant, [service], Code.SHUTDOWN_QUIESCE)
    finish_quiescing(world, participant.name, service)


def _refuse_waiting(world: World, participant: Participant, services: Iterable[Service], code: Code) -> None:
    """Answer the participant's calls that wait for new conversations of these services and of no other."""
    names = {service.name for service in services}
    shut = {place for name in names for place in (with_service(name), with_instance(participant, name))}
    for parked in list(participant.parked.values()):
        places = set(parked.places)
        is_open = any(
            with_service(name) in places and not service.servers[participant.name].is_closed
            for name, service in participant.services.items()
            if name not in names
        )
        if not places.isdisjoint(shut) and not is_open:
            world.parking.remove(parked)
            world.refuse(parked.call.handle, code)


def shut_participant(world: World, given: ShutParticipant) -> None:
    """Let a participant go. USER_UNKNOWN when it is not there; SHUTDOWN of a client is IMMED."""
    participant = world.numbered.get(given.client_id)
    if participant is None:
        raise BrokerError(Code.USER_UNKNOWN)
    if not given.is_immediate:
        if not participant.services:
            raise BrokerError(Code.SERVICE_NOT_REGISTERED, "it serves nothing, and is shut down with IMMED only")
        for service in list(participant.services.values()):
            _quiesce(world, participant, service)
        world.answer(given.handle, Reply())
        return
    if participant.pending:
        participant.later.append(given)
        return
    leaving = Departure(world, participant, participant.talks.values(), is_untried=True)

    def apply() -> None:
        for parked in list(participant.parked.values()):
            world.parking.remove(parked)
            world.refuse(parked.call.handle, Code.SHUTDOWN_IMMED)
        depart(world, participant, Code.PARTNER_LOGGED_OFF, is_untried=True)
        world.answer(given.handle, Reply())

    leaving.then(apply, given.handle)


def shut_conversation(world: World, given: ShutConversation) -> None:
    """End a conversation for both sides. NO_CONVERSATION; UNREAD_UOW over what waits or is being received."""
    talk = conversation(world, given.conv_id)
    if talk is None:
        raise BrokerError(Code.NO_CONVERSATION)
    if talk.is_pending:
        raise Busy(talk)
    if given.is_immediate and (any(talk.lines) or any(talk.reading)):
        raise refuse(Code.UNREAD_UOW, "purge what waits, or let it be received")
    state = ConversationState.EOC_CANCEL if given.is_immediate else ConversationState.EOC
    closings = [completion_by(world, talk, sent, Event.CONVERSATION_OVER) for sent in talk.sending if sent is not None]
    records = [record for side in (SERVER, CLIENT) for record in ending_records(world, talk, side, state)]

    def apply(_: int) -> None:
        for done in closings:
            complete(world, talk, done)
        keep_records(world, records)
        _end(talk, state, clears=given.is_immediate)
        world.touch(talk)
        world.answer(given.handle, Reply(conv_id=talk.conv_id))

    changes = merge([*(done.changes for done in closings), Changes(puts=[put_of_unit(record) for record in records])])
    decide(world, changes, Decision(apply, (talk,), given.handle))


def _end(talk: Conversation, state: ConversationState, *, clears: bool) -> None:
    talk.state, talk.reason = state, reason_number(state)
    talk.ended = [EOC_CODES[state], EOC_CODES[state]]
    if clears:
        for messages in talk.plain:
            messages.clear()
