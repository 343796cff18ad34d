"""SEND of units of work.

    OPTION   CONV-ID  what it does
    SYNC     NEW      begins a conversation, and a unit of work with the message
    SYNC     n        adds the message to the caller's unit of work there, or begins one
    COMMIT   either   the same, and commits it
    EOC      either   the same, and ends the conversation with it, as SYNCPOINT EOC

A unit of work is persistent, and keeps its status, as the first call about it says, else as the
service or the broker does by its attributes. Nobody sees it before it is committed, and then all of it.
"""

from oms_journal.broker.block import NEW, Option, Request, Store
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.conversations.dormancy import (
    check_may_end,
    check_room,
    conversation_of,
    side_in,
)
from oms_journal.broker.kernel.conversations.ending import end_as, ending_records, keep_records
from oms_journal.broker.kernel.state.conversation import OPEN, SERVER, Conversation
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Call, check_properties, stored_properties
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.replies import reply_of
from oms_journal.broker.kernel.state.service import Service, UnitTerms
from oms_journal.broker.kernel.state.tickets import NO_STORE, decide
from oms_journal.broker.kernel.state.unit import VARIATION, UnitOfWork
from oms_journal.broker.kernel.state.unit_records import put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, RECEIVED, Variation
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.committing import OpenUnit, SenderCommit, cancel_reservation, enter, reserve_unit
from oms_journal.broker.kernel.units.posting import SingleSend, post
from oms_journal.broker.kernel.units.repeating import is_answered
from oms_journal.broker.kernel.units.transitions import accept, side_of_sender
from oms_journal.broker.records import ConversationState
from oms_journal.broker.store.changes import Changes, NewMessage, merge

_SYNC, _COMMIT, _EOC = Option.SYNC, Option.COMMIT, Option.EOC
_ENDED = ConversationState.EOC
_LOSSES = (Code.STATUS_NOT_PERSISTED, Code.UOW_NOT_PERSISTED)


def send(world: World, call: Call, participant: Participant) -> None:
    """Add a message to a unit of work, begun if need be; with COMMIT commit it."""
    request = call.request
    if request.properties:
        check_properties(request)
    if (request.producer or participant.repeats) and is_answered(world, call, participant):
        return
    sending = _found(world, call, participant)
    if isinstance(sending, SingleSend):
        post(world, sending)
        return
    unit, service = sending.unit, sending.talk.service
    _check_message(service, request, unit.count)
    queue = service.reply_queue if unit.from_server else service.queue
    message = NewMessage(queue, request.body, stored_properties(request))
    if request.option is _EOC:
        check_may_end(sending.talk, side_of_sender(unit))
    if sending.is_begun:
        reserve_unit(world, sending)
    if request.option is _COMMIT:
        commit_sent(world, sending, call, message)
    elif request.option is _EOC:
        commit_sent(world, sending, call, message, _ENDED)
    else:
        _add(world, sending, call, message)


def _check_message(service: Service, request: Request, count: int) -> None:
    """Refuse a message that is too long, or one too many for a unit of work that has so many."""
    attributes = service.attributes
    if len(request.body) > attributes.max_uow_message_length:
        limit = attributes.max_uow_message_length
        raise BrokerError(Code.LENGTH_EXCEEDED, f"{Code.LENGTH_EXCEEDED.text}: at most {limit} bytes")
    if count >= attributes.max_messages_in_uow:
        raise BrokerError(Code.MAX_MESSAGES)


# What the message goes into.


def _found(world: World, call: Call, participant: Participant) -> OpenUnit | SingleSend:
    """Return the unit of work that the message goes into, checked; nothing is changed yet."""
    request = call.request
    if request.conv_id.upper() == NEW:
        service = world.service((request.server_class, request.server_name, request.service))
        if not service.is_served and not service.attributes.deferred:
            raise BrokerError(Code.SERVICE_NOT_REGISTERED)
        check_room(world, service)
        _check_limits(world, service)
        terms = service.terms(request)
        _check_store(world, terms.variation)
        if terms.variation.uow and request.option is not _SYNC and not request.producer and world.joint is None:
            _check_message(service, request, 0)
            return SingleSend(world, call, participant, service, terms)
        unit = _new_unit(world, terms, request, participant)
        talk = Conversation(unit.conv_id, service, participant.name, is_uow=True)
        talk.used = participant.used
        unit.is_first = True
        sending = OpenUnit(talk, unit, participant)
        sending.is_new = sending.is_begun = True
        return sending
    talk = conversation_of(world, request.conv_id, participant)
    if not talk.is_uow:
        raise BrokerError(Code.UOW_IN_MESSAGE_CONVERSATION)
    if talk.is_pending:
        raise Busy(talk)
    side = side_in(talk, participant)
    found = talk.sending[side]
    if found is not None:
        if request.store is not Store.UNSAID and (request.store is Store.BROKER) != found.is_persistent:
            raise BrokerError(Code.WRONG_UOW_TYPE)
        _check_store(world, VARIATION[found.is_persistent, found.has_status])
        return OpenUnit(talk, found, participant)
    _check_limits(world, talk.service)
    terms = talk.service.terms(request)
    _check_store(world, terms.variation)
    unit = _new_unit(world, terms, request, participant)
    unit.from_server = side is SERVER
    sending = OpenUnit(talk, unit, participant)
    sending.is_begun = True
    return sending


def _check_limits(world: World, service: Service) -> None:
    """Refuse a unit of work beyond the limits."""
    attributes = service.attributes
    if world.attributes.broker.max_uows == 0:
        raise BrokerError(Code.UOWS_NOT_ALLOWED)
    if attributes.max_uows == 0:
        raise BrokerError(Code.UOWS_NOT_SUPPORTED)
    limit = world.attributes.broker.max_uows  # which a service has as well, where it says none of its own
    if limit is not None and world.active_count >= limit:
        raise BrokerError(Code.MAX_UOWS, f"MAX-UOWS of the broker reached: {limit}")
    limit = attributes.max_uows
    if limit is not None and service.units >= limit:
        raise refuse(Code.MAX_UOWS, str(limit))


def _new_unit(world: World, terms: UnitTerms, request: Request, participant: Participant) -> UnitOfWork:
    """Return a unit of work as the call and the attributes say."""
    conv_id = world.identifiers.next() if request.conv_id.upper() == NEW else request.conv_id
    unit = UnitOfWork(world.identifiers.next(), conv_id, participant.owner, terms.variation)
    if terms.lifetime:
        unit.lifetime = terms.lifetime // MICROSECONDS
        clock = world.present
        unit.ends = (clock.persistent if unit.is_lasting else clock.volatile) + terms.lifetime
    unit.uwstatp, unit.status_lifetime = terms.multiple, terms.explicit
    unit.created = unit.changed = world.now
    unit.producer = request.producer
    return unit


def _check_store(world: World, variation: Variation) -> None:
    """Refuse what needs a store that is not there, or that is to become emptier."""
    if not (variation.uow or variation.status):
        return
    if not world.is_store_up:
        code = _LOSSES[variation.uow]
        raise refuse(code, NO_STORE)
    if world.is_new_forbidden:
        raise BrokerError(Code.NO_NEW_UOWS)


# Adding and committing.


def _add(world: World, sending: OpenUnit, call: Call, message: NewMessage) -> None:
    """Add the message; with persistent status the record is written."""
    talk, unit, request = sending.talk, sending.unit, call.request

    def apply(_: int) -> None:
        enter(world, sending, message, request.ustatus)
        world.answer(call.handle, reply_of(talk, unit, RECEIVED))

    if not unit.has_status:
        apply(0)
        return
    record = record_of(unit, talk, RECEIVED)._replace(
        messages=unit.count + 1,
        size=unit.size + len(message.payload),
        ustatus=request.ustatus or unit.ustatus,
        changed=world.now,
    )
    undo = (lambda: cancel_reservation(world, sending)) if sending.is_begun else None
    decision = Decision(apply, (talk,), call.handle, sending.participant, Code.STATUS_NOT_PERSISTED, undo)
    decision.is_new = True
    decide(world, Changes(puts=[put_of_unit(record)]), decision)


def commit_sent(
    world: World,
    sending: OpenUnit,
    call: Call,
    message: NewMessage | None,
    state: ConversationState = OPEN,
) -> None:
    """Commit the unit of work, with one more message if there is one; a state other than OPEN ends its conversation."""
    talk, unit = sending.talk, sending.unit
    is_end = state is not OPEN
    if not unit.is_lasting and not is_end and world.joint is None:
        enter(world, sending, message, call.request.ustatus)
        unit.committed = unit.changed = world.now
        accept(world, talk, unit, 0)
        world.answer(call.handle, reply_of(talk, unit, ACCEPTED))
        return
    committing, side = SenderCommit(world, sending, message, call.request.ustatus), side_of_sender(unit)
    records = ending_records(world, talk, side.other, state) if is_end else []

    def apply(first: int) -> None:
        if committing.is_repeat(first):
            world.answer(call.handle, committing.repeated(first))
            return
        if is_end:
            keep_records(world, records)
            end_as(talk, side, state)
        committing.apply(first)
        world.answer(call.handle, reply_of(talk, unit, ACCEPTED))

    changes = committing.changes(state)
    if records:
        changes = merge([changes, Changes(puts=[put_of_unit(record) for record in records])])
    undo = (lambda: cancel_reservation(world, sending)) if sending.is_begun else None
    if world.joint is not None and unit.producer:
        world.joint.begun.append(unit.producer)
    decision = Decision(apply, (talk,), call.handle, sending.participant, code_of_loss(unit), undo, is_new=True)
    decide(world, changes, decision)


def code_of_loss(unit: UnitOfWork) -> Code:
    """Return what a caller is told when the store does not take what is to be written about the unit."""
    return _LOSSES[unit.is_persistent]
