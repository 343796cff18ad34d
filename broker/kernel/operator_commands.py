"""What an operator does: PURGE removes a unit of work, SET-UOW-STATUS moves one that waits; the rest is done elsewhere.

    command         from                           to
    PURGE           any status                     no trace
    SET-UOW-STATUS  ACCEPTED, POSTPONED            ACCEPTED, or CANCELLED

Whose the unit of work is does not matter, and whoever has it hears of it with the next call about it:
what was being sent or received is found no more.
"""

from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import conversation, unit
from oms_journal.broker.kernel.hold_release import (
    discard_publications,
    discard_units,
    release_publications,
    release_units,
)
from oms_journal.broker.kernel.participants.shutdown import shut_conversation, shut_participant, shut_server
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import (
    Command,
    DiscardHeld,
    DiscardPublications,
    Purge,
    ReleaseHeld,
    ReleasePublications,
    SetStatus,
    ShutConversation,
    ShutParticipant,
    ShutServer,
    SubscribeFor,
    UnsubscribeFor,
)
from oms_journal.broker.kernel.state.replies import check_is_released, reply_of
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, Event
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.subscribe import subscribe_for, unsubscribe_for
from oms_journal.broker.kernel.units.expiry import accept_again
from oms_journal.broker.kernel.units.send import code_of_loss
from oms_journal.broker.kernel.units.syncpoint import delete_status
from oms_journal.broker.kernel.units.transitions import complete, completion_as, completion_by, status_after
from oms_journal.broker.records import Status, UowRecord
from oms_journal.broker.store.changes import Changes


def administer(world: World, given: Command) -> None:
    """Do what an operator wants. A BrokerError refuses; Busy when it has to wait."""
    match given:
        case Purge():
            purge(world, given)
        case SetStatus():
            set_status(world, given)
        case ShutServer():
            shut_server(world, given)
        case ShutParticipant():
            shut_participant(world, given)
        case ShutConversation():
            shut_conversation(world, given)
        case ReleaseHeld():
            release_units(world, given)
        case DiscardHeld():
            discard_units(world, given)
        case ReleasePublications():
            release_publications(world, given)
        case DiscardPublications():
            discard_publications(world, given)
        case SubscribeFor():
            subscribe_for(world, given)
        case UnsubscribeFor():
            unsubscribe_for(world, given)


def purge(world: World, given: Purge) -> None:
    """Leave no trace of a unit of work. UOW_NOT_FOUND for one that has left none."""
    found = _found(world, given.uowid)
    if isinstance(found, UowRecord):
        delete_status(world, found, given.handle, None)
        return
    talk = _talk(world, found)
    done = completion_as(world, talk, found, None)

    def apply(_: int) -> None:
        reply = reply_of(talk, found, found.status)
        complete(world, talk, done)
        world.answer(given.handle, reply)

    decide(world, done.changes, Decision(apply, (talk,), given.handle, code=code_of_loss(found)))


def set_status(world: World, given: SetStatus) -> None:
    """Let a unit of work that waits, or is put off, be received at once, or never. WRONG_STATUS for any other."""
    if given.status not in (ACCEPTED, Status.CANCELLED):
        raise refuse(Code.WRONG_STATUS, "it is moved to ACCEPTED or CANCELLED only")
    found = _found(world, given.uowid)
    if isinstance(found, UowRecord):
        raise BrokerError(Code.WRONG_STATUS, f"{Code.WRONG_STATUS.text}: {found.uowid} is {found.status.name}")
    talk = _talk(world, found)
    if given.status is ACCEPTED:
        _accept(world, given, talk, found)
        return
    done = completion_by(world, talk, found, Event.STOP)

    def apply(_: int) -> None:
        reply = reply_of(talk, found, Status.CANCELLED)
        complete(world, talk, done)
        world.answer(given.handle, reply)

    decide(world, done.changes, Decision(apply, (talk,), given.handle, code=code_of_loss(found)))


def _accept(world: World, given: SetStatus, talk: Conversation, found: UnitOfWork) -> None:
    status_after(found, Event.ACCEPT)
    check_is_released(found)

    def apply(_: int) -> None:
        if found.back:
            accept_again(world, talk, found)
        world.answer(given.handle, reply_of(talk, found, ACCEPTED))

    changes = Changes()
    if found.back and found.is_recorded:
        changes = Changes(puts=[put_of_unit(record_of(found, talk, ACCEPTED)._replace(back=0, changed=world.now))])
    decide(world, changes, Decision(apply, (talk,), given.handle, code=code_of_loss(found)))


def _found(world: World, uowid: str) -> UnitOfWork | UowRecord:
    found = unit(world, uowid)
    if found is None:
        raise BrokerError(Code.UOW_NOT_FOUND)
    return found


def _talk(world: World, found: UnitOfWork) -> Conversation:
    talk = conversation(world, found.conv_id)
    assert talk is not None, "a unit of work has its conversation"
    if talk.is_pending:
        raise Busy(talk)
    return talk
