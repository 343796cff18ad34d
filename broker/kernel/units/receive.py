"""RECEIVE: which conversation, which message, and who waits for the next.

    CONV-ID  a server gets                                             a client gets
    NEW      the oldest conversation that nobody has received from     -
    OLD      from a conversation that is bound to it                   -
    ANY      old ones first, then new ones                             -
    n        from this conversation                                    the same

    OPTION   is satisfied by
    SYNC     units of work; MSG or none: plain messages; ANY: either

After the last message of a unit of work another RECEIVE of its conversation says so, until the unit
of work is committed, cancelled or backed out.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress

from oms_journal.broker.block import ConvStat, Function, Option, Reception, Reply, Request
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import conversation, sleep_if_idle, wake_first
from oms_journal.broker.kernel.conversations.ending import end_side
from oms_journal.broker.kernel.conversations.places import assign, drop_if_over, replace
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation, Side
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Answer, Body, Call, Stored
from oms_journal.broker.kernel.state.participant import (
    ALL,
    MESSAGES,
    UNITS,
    Participant,
    WaitingCall,
    with_conversation,
    with_instance,
    with_service,
)
from oms_journal.broker.kernel.state.replies import reply_of
from oms_journal.broker.kernel.state.service import STORED, Rank, Service, WaitingConversations, first, merged
from oms_journal.broker.kernel.state.tickets import NO_STORE, decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, DELIVERED, Event
from oms_journal.broker.kernel.state.world import World, park
from oms_journal.broker.kernel.units.send import code_of_loss
from oms_journal.broker.kernel.units.transitions import deliver
from oms_journal.broker.records import identifier
from oms_journal.broker.store.changes import Changes

WORDS = ("NEW", "OLD", "ANY")
_SYNC, _ANY, _RECEIVE = Option.SYNC, Option.ANY, Event.RECEIVE
_ONLY, _FIRST, _MIDDLE, _LAST = Reception.RECV_ONLY, Reception.RECV_FIRST, Reception.RECV_MIDDLE, Reception.RECV_LAST
_NEW, _OLD = ConvStat.NEW, ConvStat.OLD


def receive(world: World, call: Call, participant: Participant) -> None:
    """Hand out the next message that the call can be satisfied with, or let it wait."""
    word, option = call.request.conv_id.upper(), call.request.option
    ranks = UNITS if option is _SYNC else ALL if option is _ANY else MESSAGES
    if word not in WORDS:
        _receive_from(world, call, participant, ranks)
        return
    services = services_of(participant, call.request)
    waitings = _waitings(world, participant, services, word)
    talk = _oldest(world, waitings, ranks)
    if talk is not None:
        hand_out_message(world, call, participant, talk, SERVER)
        return
    places = [with_instance(participant, service.name) for service in services] if word in ("OLD", "ANY") else []
    if word in ("NEW", "ANY"):
        places += [with_service(service.name) for service in services]
    if word != "OLD" and all(service.servers[participant.name].is_ordered for service in services):
        raise BrokerError(Code.SHUTDOWN_QUIESCE)
    if not park(world, call, participant, ranks, places):
        is_there = any(len(each.orders[rank]) for places in waitings for each in places for rank in ranks)
        if is_there and not world.is_store_up:
            raise refuse(Code.UOW_NOT_PERSISTED, NO_STORE)
        raise BrokerError(_why_nothing(participant, services, ranks) if word == "OLD" else Code.NO_CONVERSATION)


def services_of(participant: Participant, request: Request) -> list[Service]:
    """Return the services that the participant serves and the request names; a blank or `*` names any."""
    wanted = (request.server_class, request.server_name, request.service)
    found = participant.services.get(wanted)
    if found is not None:
        return [found]
    return [
        service
        for name, service in participant.services.items()
        if all(want in ("", "*", part) for want, part in zip(wanted, name, strict=True))
    ]


def _waitings(
    world: World, participant: Participant, services: Sequence[Service], word: str
) -> list[list[WaitingConversations]]:
    """Return where conversations wait for the participant: old ones, and new ones. Those come first in front."""
    found: list[list[WaitingConversations]] = []
    if len(services) == 1:
        [service] = services
        mine = world.instances.get((participant.name, service.name)) if word != "NEW" else None
        if mine is not None:
            found.append([mine])
        if word != "OLD" and not service.servers[participant.name].is_closed:
            found.append([service.waiting])
        return found
    if word in ("OLD", "ANY"):
        places = (world.instances.get((participant.name, service.name)) for service in services)
        found.append([place for place in places if place is not None])
    if word in ("NEW", "ANY"):
        open_to = (service for service in services if not service.servers[participant.name].is_closed)
        found.append([service.waiting for service in open_to])
    return found


def _oldest(
    world: World, waitings: Sequence[Sequence[WaitingConversations]], ranks: Sequence[Rank]
) -> Conversation | None:
    """Return the conversation that comes first; Busy when it is on its way to the store.

    One that another receiver is being handed something of is passed over, unless there is nothing else.
    """
    there = ranks if world.is_store_up else [rank for rank in ranks if rank is not STORED]
    held: Conversation | None = None
    for places in waitings:
        oldest = first(places, there, world.after)
        if oldest is None:
            continue
        talk = conversation(world, identifier(oldest))
        if talk is not None and not talk.is_pending and can_have(world, talk, SERVER):
            return talk
        postponed = []
        for number in merged(places, there, world.after):
            talk = conversation(world, identifier(number))
            assert talk is not None, "what waits goes on"
            if talk.is_pending and not talk.is_handed_out:
                raise Busy(talk)  # it comes first all the same
            if talk.is_pending:
                held = held or talk
            elif can_have(world, talk, SERVER):
                return talk
            elif not talk.has_for(SERVER):
                postponed.append(talk)
        for talk in postponed:
            replace(world, talk)
    if held is not None:
        raise Busy(held)
    return None


def can_have(world: World, talk: Conversation, side: Side) -> bool:
    """Say whether the side can be handed out something: it is its turn, and the store is there if it is needed."""
    if not talk.has_for(side):
        return False
    if not talk.is_uow:
        return True
    unit = talk.reading[side]
    if unit is None:
        unit = wake_first(world, talk, side)
        if unit.back or unit.is_withheld:
            return False
    return not unit.is_lasting or world.is_store_up


def _why_nothing(participant: Participant, services: Sequence[Service], ranks: Sequence[Rank]) -> Code:
    """Return what a server is told that finds nothing in its conversations and does not wait."""
    served = [talk for talk in participant.talks.values() if talk.server == participant.name]
    mine = [talk for talk in served if talk.rank in ranks and talk.service in services]
    if any(talk.reading[SERVER] is not None for talk in mine):
        return Code.END_OF_UOW
    if not mine:
        return Code.NO_CONVERSATION
    return Code.NO_MESSAGE if Rank.MESSAGES in ranks else Code.NO_UOWS


def _receive_from(world: World, call: Call, participant: Participant, ranks: Sequence[Rank]) -> None:
    """Hand out the next message of one conversation."""
    conv_id = call.request.conv_id
    talk = conversation(world, conv_id)
    side = talk.side_of(participant.name) if talk is not None else None
    if talk is None or side is None:
        over = world.ended.get(conv_id)
        raise BrokerError((over.code_for(participant.name) if over is not None else None) or Code.NO_CONVERSATION)
    if talk.rank not in ranks:
        raise BrokerError(Code.MESSAGE_IN_UOW_CONVERSATION if talk.is_uow else Code.UOW_IN_MESSAGE_CONVERSATION)
    if talk.is_pending:
        raise Busy(talk)
    talk.used = participant.used
    if side is CLIENT:
        world.come_back(participant, talk)
    if can_have(world, talk, side):
        hand_out_message(world, call, participant, talk, side)
        return
    if talk.has_for(side) and not world.is_store_up:
        raise BrokerError(
            Code.UOW_NOT_PERSISTED, f"{Code.UOW_NOT_PERSISTED.text}: the persistent store is not available"
        )
    if talk.reading[side] is not None:
        raise BrokerError(Code.END_OF_UOW)
    code = talk.ended[side]
    if code is not None and not talk.lines[side]:
        raise BrokerError(code)
    if not park(world, call, participant, ranks, [with_conversation(conv_id)]):
        raise BrokerError(Code.NO_UOWS if talk.is_uow else Code.NO_MESSAGE)


# Waiting.


def serve_all(world: World) -> None:
    """Give who waits what can be had again, now that the store is back: first what comes first, then what is named."""
    _serve_again(world, world.parking.every())


def serve_participant(world: World, participant: Participant) -> None:
    """Give the participant's calls that wait what can be had by now."""
    _serve_again(world, participant.parked.values())


def _serve_again(world: World, calls: Iterable[WaitingCall]) -> None:
    waiting = [each for each in calls if each.call.request.function is not Function.RECEIVE_PUBLICATION]
    for parked in sorted(waiting, key=_is_named):
        with suppress(Busy, BrokerError):  # then it goes on waiting
            talk = _waited_for(world, parked)
            if talk is not None:
                world.touch(talk)
                serve(world, talk)


def _is_named(parked: WaitingCall) -> bool:
    """Say whether a call waits with one conversation: a RECEIVE of it, or a SEND for its answer."""
    request = parked.call.request
    return request.function is not Function.RECEIVE or request.conv_id.upper() not in WORDS


def _waited_for(world: World, parked: WaitingCall) -> Conversation | None:
    if _is_named(parked):
        return conversation(world, str(parked.places[0]))
    request = parked.call.request
    services = services_of(parked.participant, request)
    waitings = _waitings(world, parked.participant, services, request.conv_id.upper())
    return _oldest(world, waitings, parked.ranks)


def serve(world: World, talk: Conversation) -> None:
    """Give who waits what the conversation has by now; let it be forgotten, or asleep, if it can."""
    if talk.conv_id not in world.conversations:
        return
    if len(world.parking):
        for side in Side:
            _serve_side(world, talk, side)
    drop_if_over(world, talk)
    sleep_if_idle(world, talk)


def _serve_side(world: World, talk: Conversation, side: Side) -> None:
    while not talk.is_pending and can_have(world, talk, side):
        parked = _first_waiting(world, talk, side)
        if parked is None:
            return
        world.parking.remove(parked)
        hand_out_message(world, parked.call, parked.participant, talk, side)
    code = talk.ended[side]
    if code is None or talk.is_pending or talk.lines[side] or talk.plain[side]:
        return
    for parked in world.parking.at(with_conversation(talk.conv_id)):
        if talk.side_of(parked.participant.name) is side:
            world.parking.remove(parked)
            world.refuse(parked.call.handle, code)


def _first_waiting(world: World, talk: Conversation, side: Side) -> WaitingCall | None:
    """Return who has waited longest for what the conversation has for that side."""
    places: list[Hashable] = [with_conversation(talk.conv_id)]
    if side is SERVER:
        if talk.server is None:
            places.append(with_service(talk.service.name))
        else:
            places.append((talk.server, talk.service.name))
    for place in places:
        for parked in world.parking.at(place):
            if talk.rank in parked.ranks and _is_for(talk, side, parked.participant):
                return parked
    return None


def _is_for(talk: Conversation, side: Side, participant: Participant) -> bool:
    if participant.is_pending:  # it is going away
        return False
    if side is SERVER and talk.server is None:
        registration = talk.service.servers.get(participant.name)
        return registration is not None and not registration.is_closed
    return talk.side_of(participant.name) is side


# Handing out.


def hand_out_message(world: World, call: Call, participant: Participant, talk: Conversation, side: Side) -> None:
    """Hand out the next message for the side; there is one, and it can be had."""
    talk.used = world.clocks.volatile + world.late
    if not talk.is_uow:
        _hand_out_plain(world, call, participant, talk, side)
        return
    unit = talk.reading[side] or wake_first(world, talk, side)
    is_first, ustatus = unit.status is not DELIVERED, call.request.ustatus
    assert unit.after(_RECEIVE) is DELIVERED, "checked when it was chosen"

    def apply(_: int) -> None:
        talk.is_handed_out = False
        if is_first:
            deliver(world, talk, unit, participant)
        if ustatus:
            unit.ustatus = ustatus
        reply = _received(talk, unit, side)
        body, properties = _message(unit)
        unit.next += 1
        if side is SERVER and talk.server is None:
            assign(world, talk, participant)
        elif unit.next == unit.count:
            replace(world, talk)
        world.effects.append(Answer(call.handle, reply, (body,), properties))

    if not (unit.has_status and is_first) and not (ustatus and unit.is_recorded):
        apply(0)
        return
    record = record_of(unit, talk, DELIVERED)._replace(ustatus=ustatus or unit.ustatus, changed=world.now)
    if side is SERVER and is_first:
        record = record._replace(receiver_user=participant.name[0], receiver_token=participant.name[1])
    if not unit.has_status:
        record = record._replace(status=ACCEPTED)  # DELIVERED is written with persistent status only

    def undo() -> None:
        talk.is_handed_out = False

    talk.is_handed_out = True
    decision = Decision(apply, (talk,), call.handle, participant, code_of_loss(unit), undo)
    decide(world, Changes(puts=[put_of_unit(record)]), decision)


def _received(talk: Conversation, unit: UnitOfWork, side: Side) -> Reply:
    reply = reply_of(talk, unit, unit.status)
    if unit.count == 1:
        reply.uow_status = _ONLY
    elif not unit.next:
        reply.uow_status = _FIRST
    else:
        reply.uow_status = _LAST if unit.next == unit.count - 1 else _MIDDLE
    reply.conv_stat = _NEW if side is SERVER and talk.server is None else _OLD
    if side is SERVER:
        reply.client_uid = talk.client[0]
    return reply


def _message(unit: UnitOfWork) -> tuple[Body, Mapping[str, str] | None]:
    """Return the message that is handed out next, and the properties of one that is not stored."""
    if unit.messages is None:
        return Stored(unit.first + unit.next), None
    message = unit.messages[unit.next]
    return message.payload, message.properties


def _hand_out_plain(world: World, call: Call, participant: Participant, talk: Conversation, side: Side) -> None:
    message = talk.plain[side].popleft()
    is_new = side is SERVER and talk.server is None
    stat = ConvStat.NONE if talk.is_one_shot else ConvStat.NEW if is_new else ConvStat.OLD
    reply = Reply(
        code=message.code,
        text="" if message.code is Code.OK else message.code.text,
        server_class=talk.service.name[0],
        server_name=talk.service.name[1],
        service=talk.service.name[2],
        conv_id=talk.conv_id,
        conv_stat=stat,
        uow_status=Reception.RECV_NONE,
        client_uid=talk.client[0] if side is SERVER else "",
    )
    if is_new:
        assign(world, talk, participant)
    else:
        replace(world, talk)
    if talk.is_one_shot and (side is CLIENT or not talk.wants_answer):
        end_side(talk, SERVER, Code.PARTNER_FINISHED)
    world.touch(talk)
    world.effects.append(Answer(call.handle, reply, (message.body,), message.properties))
