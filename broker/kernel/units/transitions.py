"""What happens to units of work and conversations once it is decided, and what is written for it.

Functions that end in `_changes` and `completion_by` look only; all others do.
"""

from typing import NamedTuple

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import MICROSECONDS, ends, status_lifetime
from oms_journal.broker.kernel.conversations.dormancy import (
    KEPT_BYTES_MAX,
    drop_messages,
    is_kept,
    put_to_sleep,
)
from oms_journal.broker.kernel.conversations.places import give_age, release_conversation, replace
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation, Side
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.producers import ProducerKey
from oms_journal.broker.kernel.state.service import KEPT, STORED, End
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import key, put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, DELIVERED, PROCESSED, RECEIVED, Event, Trace
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status, UowRecord
from oms_journal.broker.store.changes import Changes, merge

RECEIVER_COMMIT = Event.RECEIVER_COMMIT
PROCESSED_END, CANCELLED_END = int(End.PROCESSED), int(End.CANCELLED)
TIMED_OUT_END, UNSAID = int(End.TIMED_OUT), int(End.UNSAID)
_ENDS = {
    Event.CANCEL: CANCELLED_END,
    Event.RECEIVER_CANCEL: CANCELLED_END,
    Event.STOP: CANCELLED_END,
    Event.LIFETIME_OVER: TIMED_OUT_END,
    Event.CONFIRM: PROCESSED_END,
}


def side_of_sender(unit: UnitOfWork) -> Side:
    return SERVER if unit.from_server else CLIENT


def side_of_receiver(unit: UnitOfWork) -> Side:
    return CLIENT if unit.from_server else SERVER


def status_after(unit: UnitOfWork, event: Event) -> Status | None:
    """Return the status that the event leads to, None when no trace is left; a BrokerError refuses."""
    outcome = unit.after(event)
    if isinstance(outcome, Code):
        raise BrokerError(outcome, f"{outcome.text}: {unit.uowid} is {unit.status.name}")
    return None if isinstance(outcome, Trace) else outcome


def producer_key(talk: Conversation, unit: UnitOfWork) -> ProducerKey:
    """Return what tells the unit's producer's identifier from others."""
    return (unit.owner.user, unit.owner.token, talk.service.name, unit.producer)


# Beginning and committing.


def begin_unit(world: World, talk: Conversation, unit: UnitOfWork) -> None:
    """Let a unit of work be, in RECEIVED status."""
    if talk.conv_id not in world.conversations:
        world.enter(talk)
    owner = unit.owner
    talk.sending[SERVER if unit.from_server else CLIENT] = unit
    talk.unit_count += 1
    talk.service.sending += 1
    owner.sending[unit.uowid] = unit
    owner.awake[unit.uowid] = unit
    world.active[unit.uowid] = unit


def accept(world: World, talk: Conversation, unit: UnitOfWork, first: int) -> None:
    """Let the partner see a unit of work that was committed."""
    side, receiver = (SERVER, CLIENT) if unit.from_server else (CLIENT, SERVER)
    owner = unit.owner
    if unit.producer:
        assert unit.messages is not None, "what is not committed is kept"
        world.producers.commit(producer_key(talk, unit), unit.uowid, (each.payload for each in unit.messages))
    talk.sending[side] = None
    owner.sending.pop(unit.uowid, None)
    owner.live += 1
    service = talk.service
    service.sending -= 1
    service.accepted += 1
    unit.status = ACCEPTED
    if unit.is_persistent:
        unit.is_stored = True
        unit.first = first
        world.highest = max(world.highest, first + unit.count - 1)
    if not talk.key:
        _begin_age(world, talk, unit)
    if unit.is_stored:
        world.kept_bytes += unit.size
    if not unit.is_stored or is_kept(world, talk, receiver):
        talk.append(receiver, unit)
        if world.kept_bytes > KEPT_BYTES_MAX:
            drop_messages(world, unit)
        if unit.ends:
            world.arm(unit)
    else:
        talk.append(receiver, put_to_sleep(world, talk, unit))
    replace(world, talk)
    world.touch(talk)


def _begin_age(world: World, talk: Conversation, unit: UnitOfWork) -> None:
    """Give a conversation its place in the order of first commits."""
    talk.begun = talk.begun or unit.committed  # a restored one, with a status only, has begun before
    if unit.is_stored:
        talk.rank = STORED
        talk.key = talk.first = unit.first
    else:
        talk.rank = KEPT  # one that was restored, with a status only, was of the other rank
        give_age(world, talk)


# Where conversations wait.


def release_unbound(world: World, talk: Conversation, unit: UnitOfWork) -> None:
    """Give a conversation back whose server has backed a unit of work out, unless it has committed one, or answers."""
    if not unit.from_server and not talk.is_bound and talk.sending[SERVER] is None:
        release_conversation(world, talk)


# Receiving.


def deliver(world: World, talk: Conversation, unit: UnitOfWork, participant: Participant) -> None:
    """Let a receiver have the first unit of work of its line."""
    if unit.due:
        world.disarm(unit)
    world.dues.received += _has_end(unit)
    talk.service.delivering += 1
    unit.status = DELIVERED
    unit.receiver = participant.owner
    unit.reader = participant.name
    unit.next = 0
    talk.reading[side_of_receiver(unit)] = unit
    participant.owner.reading[unit.uowid] = unit


def _has_end(unit: UnitOfWork) -> bool:
    """Say whether the unit has a lifetime on the pseudo-clock, which goes on while it is being received."""
    return unit.is_lasting and unit.ends != 0


def hand_back(world: World, talk: Conversation, unit: UnitOfWork, status: Status) -> None:
    """Take a unit of work back from its receiver: ACCEPTED or POSTPONED."""
    side = side_of_receiver(unit)
    talk.reading[side] = None
    if unit.receiver is not None:
        unit.receiver.reading.pop(unit.uowid, None)
    unit.receiver = None
    world.dues.received -= _has_end(unit)
    talk.service.delivering -= 1
    talk.service.given_back += 1
    unit.status = status
    unit.next = 0
    world.arm(unit)
    release_unbound(world, talk, unit)
    replace(world, talk)
    world.touch(talk)


# Completing.


class Completion(NamedTuple):
    """How a unit of work comes to its end; the record is what is left of it."""

    unit: UnitOfWork
    record: UowRecord | None
    changes: Changes
    end: int = UNSAID  # as it is counted


def completion_by(world: World, talk: Conversation, unit: UnitOfWork, event: Event) -> Completion:
    """Return how the event completes the unit of work; a BrokerError refuses."""
    end = PROCESSED_END if event is RECEIVER_COMMIT else _ENDS.get(event, UNSAID)
    return completion_as(world, talk, unit, status_after(unit, event), end)


def completion_as(
    world: World, talk: Conversation, unit: UnitOfWork, status: Status | None, end: int = UNSAID
) -> Completion:
    """Return how the unit of work is completed with this status; None leaves no trace."""
    if not unit.is_recorded:
        return Completion(unit, None, NOTHING, end)
    is_done = end == PROCESSED_END
    numbers = [unit.numbers()] if unit.is_stored else []
    record = final_record(world, talk, unit, status) if status is not None else None
    return Completion(
        unit,
        record,
        Changes(
            puts=[put_of_unit(record)] if record is not None else (),
            drops=[key(unit.uowid)] if record is None else (),
            delivered=numbers if is_done else (),
            deleted=() if is_done else numbers,
        ),
        end,
    )


NOTHING = Changes()


def with_user_status(done: Completion, ustatus: str) -> Completion:
    """Return the end of a unit of work with another user status in its record."""
    if done.record is None or not ustatus:
        return done
    record = done.record._replace(ustatus=ustatus)
    changes = merge([done.changes, Changes(puts=[put_of_unit(record)])])
    return Completion(done.unit, record, changes, done.end)


def final_record(world: World, talk: Conversation, unit: UnitOfWork, status: Status) -> UowRecord:
    """Return what is kept of a complete unit of work, for as long as its status lives."""
    lifetime = status_lifetime(unit.uwstatp, unit.lifetime * MICROSECONDS, unit.status_lifetime * MICROSECONDS)
    record = record_of(unit, talk, status)._replace(
        changed=world.now, ends=ends(world.present.persistent, lifetime), back=0
    )
    if status is Status.TIMEOUT:
        record = record._replace(adcount=unit.adcount + 1)
    return record


def complete(world: World, talk: Conversation, done: Completion) -> None:
    """Let a unit of work be complete."""
    unit = done.unit
    receiver = side_of_receiver(unit)
    owner, service = unit.owner, talk.service
    if unit.status is RECEIVED:
        service.sending -= 1
        talk.sending[side_of_sender(unit)] = None
        owner.sending.pop(unit.uowid, None)
    else:
        owner.live -= 1
        talk.lines[receiver].remove(unit)
        if unit.status is DELIVERED:
            world.dues.received -= _has_end(unit)
            service.delivering -= 1
            talk.reading[receiver] = None
            if unit.receiver is not None:
                unit.receiver.reading.pop(unit.uowid, None)
    if unit.due:
        world.disarm(unit)
    if unit.is_withheld:
        world.withheld.one_less(service.name)
    if unit.is_stored:
        drop_messages(world, unit)
    world.lie_down(unit)
    if not owner.members:
        world.forget_idle(owner)
    service.units -= 1
    world.unused.see(service)
    service.completed[done.end] += 1
    world.active_count -= 1
    if unit.producer and unit.status is RECEIVED:
        world.producers.forget(producer_key(talk, unit), unit.uowid)
    unit.status = done.record.status if done.record is not None else PROCESSED
    if done.record is not None:
        world.units.add(done.record)
    replace(world, talk)
    world.touch(talk)


# The end of a conversation.
