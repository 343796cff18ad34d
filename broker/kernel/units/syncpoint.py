"""SYNCPOINT: what its options do to a unit of work, for its sender and for its receiver.

OPTION      caller    from                       to
COMMIT      sender    RECEIVED                   ACCEPTED
            receiver  DELIVERED                  PROCESSED
            both      one of each                in one commit, with UOWID=BOTH
BACKOUT     sender    RECEIVED                   BACKEDOUT
            receiver  DELIVERED                  ACCEPTED, and one more attempted delivery
CANCEL      sender    ACCEPTED                   CANCELLED
            receiver  DELIVERED                  CANCELLED
EOC         sender    RECEIVED                   ACCEPTED, and the conversation ends; EOCCANCEL: is cancelled
DELETE      sender    complete                   no trace
QUERY       either    any                        shown
LAST        sender    any                        the last one that the caller has begun is shown
SETUSTATUS  either    RECEIVED, ACCEPTED,        the user status is another
                      DELIVERED
"""

from collections.abc import Callable, Mapping

from oms_journal.broker.block import BOTH, Option
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import check_may_end, conversation, unit
from oms_journal.broker.kernel.state.conversation import OPEN, Conversation
from oms_journal.broker.kernel.state.decision import Busy, Decision, Lockable
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.producers import Repeat
from oms_journal.broker.kernel.state.replies import check_is_released, reply_of, reply_of_record
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import key, put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, DELIVERED, PROCESSED, Event
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.committing import OpenUnit, SenderCommit, reply_to_end
from oms_journal.broker.kernel.units.receiver import Backout, bind, binding, committed
from oms_journal.broker.kernel.units.repeating import check_are_all, check_is_same, forget_repeat
from oms_journal.broker.kernel.units.send import code_of_loss, commit_sent
from oms_journal.broker.kernel.units.transitions import (
    NOTHING,
    Completion,
    complete,
    completion_by,
    side_of_sender,
    status_after,
    with_user_status,
)
from oms_journal.broker.records import ConversationState, Status, UowRecord
from oms_journal.broker.store.changes import Changes, merge

_LAST, _COMMITTED = Option.LAST, Event.COMMIT
_UNKNOWN = "{} was none, or is complete and left no persistent status"


class SyncpointCall:
    """A call about a unit of work: who calls, and the conversation."""

    __slots__ = ("call", "is_receiver", "is_sender", "participant", "talk", "unit")

    def __init__(self, call: Call, participant: Participant, talk: Conversation, found: UnitOfWork) -> None:
        self.call = call
        self.participant = participant
        self.talk = talk
        self.unit = found
        self.is_sender = found.owner is participant.owner
        self.is_receiver = found.receiver is participant.owner

    def decision(self, apply: Callable[[int], None]) -> Decision:
        return Decision(
            apply, (self.talk,), handle=self.call.handle, who=self.participant, code=code_of_loss(self.unit)
        )


def syncpoint(world: World, call: Call, participant: Participant) -> None:
    """Do what the option says to the unit of work that the call is about."""
    request = call.request
    if request.option is _LAST:
        _show_last(world, call, participant)
        return
    if request.uowid.upper() == BOTH:
        _commit_both(world, call, participant)
        return
    repeat = participant.repeats.get(request.uowid) if participant.repeats else None
    if repeat is not None and request.option in _ENDS_OF_REPEATS:
        _end_repeat(world, call, participant, repeat)
        return
    found = unit(world, request.uowid)
    if found is None or request.conv_id not in ("", found.conv_id):
        raise refuse(Code.UOW_NOT_FOUND, _UNKNOWN.format(request.uowid))
    if isinstance(found, UowRecord):
        _of_complete(world, call, participant, found)
        return
    talk = conversation(world, found.conv_id)
    assert talk is not None, "a unit of work has its conversation"
    if talk.is_pending:
        raise Busy(talk)
    about = SyncpointCall(call, participant, talk, found)
    if not about.is_sender and not about.is_receiver:
        raise _not_the_callers(about)
    talk.used = participant.used
    _OPTIONS[request.option](world, about)


def _is_by_receiver(about: SyncpointCall) -> bool:
    """Say whether the call is the receiver's, who has the unit of work now; it is the sender's else."""
    if about.is_receiver and about.unit.status is DELIVERED:
        return True
    if not about.is_sender:
        raise _not_the_callers(about)
    return False


def _not_the_callers(about: SyncpointCall) -> BrokerError:
    """Return the refusal of a call about a unit of work of others, or one that the caller receives no more."""
    text = f"{Option(about.call.request.option).name} is for its sender, and for who is receiving it now"
    return refuse(Code.NOT_THE_CREATOR, text)


def _commit(world: World, about: SyncpointCall) -> None:
    if not _is_by_receiver(about):
        _commit_sent(world, about, OPEN)
        return
    talk, found, handle = about.talk, about.unit, about.call.handle
    done, more = committed(world, talk, found, about.call.request.ustatus), binding(world, talk, found)

    def apply(_: int) -> None:
        found.ustatus = about.call.request.ustatus or found.ustatus
        reply = reply_of(talk, found, PROCESSED)
        complete(world, talk, done)
        bind(world, talk, found)
        world.answer(handle, reply)

    if done.changes is NOTHING and more is NOTHING and world.joint is None:
        apply(0)
        return
    changes = done.changes if more is NOTHING else merge([done.changes, more])
    decide(world, changes, about.decision(apply))


def _commit_sent(world: World, about: SyncpointCall, state: ConversationState) -> None:
    """Commit what the caller has sent; a state other than OPEN ends the conversation with it."""
    talk, found = about.talk, about.unit
    status_after(found, _COMMITTED)
    side = side_of_sender(found)
    code = talk.ended[side]
    if code is not None:
        raise BrokerError(code)
    if state is not OPEN:
        check_may_end(talk, side)
    commit_sent(world, OpenUnit(talk, found, about.participant), about.call, None, state)


def _eoc(world: World, about: SyncpointCall) -> None:
    _end_with(world, about, ConversationState.EOC)


def _eoc_cancel(world: World, about: SyncpointCall) -> None:
    _end_with(world, about, ConversationState.EOC_CANCEL)


def _end_with(world: World, about: SyncpointCall, state: ConversationState) -> None:
    if not about.is_sender:
        raise BrokerError(Code.NOT_THE_CREATOR)
    _commit_sent(world, about, state)


def _backout(world: World, about: SyncpointCall) -> None:
    if not _is_by_receiver(about):
        _close_by(world, about, Event.BACKOUT)
        return
    said = about.call.request
    backing = Backout(world, about.talk, about.unit, said.ustatus, is_counted=not said.is_untried)
    _decide_backout(world, about, backing)


def _decide_backout(world: World, about: SyncpointCall, backing: Backout) -> None:
    talk, found, handle = about.talk, about.unit, about.call.handle

    def apply(first: int) -> None:
        found.ustatus = about.call.request.ustatus or found.ustatus
        reply = reply_of(talk, found, backing.status)
        reply.adcount = backing.adcount
        backing.apply(first)
        world.answer(handle, reply)

    def ask_less() -> None:
        """What the store does not take as a dead letter is given back like any other."""
        if not backing.give_way():
            return
        decision.handle = None  # it is answered once the other is decided
        try:
            _decide_backout(world, about, backing)
        except BrokerError as refusal:
            world.refuse(handle, refusal.code, refusal.text)

    decision = about.decision(apply)
    decision.undo = backing.undo if world.joint is not None else ask_less
    decide(world, backing.changes, decision)


def _cancel(world: World, about: SyncpointCall) -> None:
    check_is_released(about.unit)  # that nobody has received it, which is what a cancel says, is not known
    _close_by(world, about, Event.RECEIVER_CANCEL if _is_by_receiver(about) else Event.CANCEL)


_SHOWN = {Event.BACKOUT: Status.BACKEDOUT, Event.CANCEL: Status.CANCELLED, Event.RECEIVER_CANCEL: Status.CANCELLED}


def _close_by(world: World, about: SyncpointCall, event: Event) -> None:
    """Complete a unit of work that nobody will process."""
    talk, found, ustatus = about.talk, about.unit, about.call.request.ustatus
    done = with_user_status(completion_by(world, talk, found, event), ustatus)

    def apply(_: int) -> None:
        found.ustatus = ustatus or found.ustatus
        reply = reply_of(talk, found, _SHOWN[event])
        complete(world, talk, done)
        world.answer(about.call.handle, reply)

    decide(world, done.changes, about.decision(apply))


def _delete(world: World, about: SyncpointCall) -> None:
    if not about.is_sender:
        raise BrokerError(Code.NOT_THE_CREATOR)
    status_after(about.unit, Event.DELETE)


def _query(world: World, about: SyncpointCall) -> None:
    world.answer(about.call.handle, reply_of(about.talk, about.unit, about.unit.status))


def _set_user_status(world: World, about: SyncpointCall) -> None:
    talk, found, ustatus = about.talk, about.unit, about.call.request.ustatus
    status = status_after(found, Event.SETUSTATUS)
    assert status is not None, "a unit of work with a user status goes on"

    def apply(_: int) -> None:
        found.ustatus = ustatus
        found.changed = now
        world.answer(about.call.handle, reply_of(talk, found, found.status))

    now = world.now
    changes = Changes()
    if found.is_recorded:
        written = status if found.has_status else ACCEPTED
        changes = Changes(puts=[put_of_unit(record_of(found, talk, written)._replace(ustatus=ustatus, changed=now))])
    decide(world, changes, about.decision(apply))


_OPTIONS: Mapping[Option, Callable[[World, SyncpointCall], None]] = {
    Option.COMMIT: _commit,
    Option.BACKOUT: _backout,
    Option.CANCEL: _cancel,
    Option.EOC: _eoc,
    Option.EOCCANCEL: _eoc_cancel,
    Option.DELETE: _delete,
    Option.QUERY: _query,
    Option.SETUSTATUS: _set_user_status,
}


# What is sent again.

_ENDS_OF_REPEATS = (Option.COMMIT, Option.EOC, Option.EOCCANCEL, Option.BACKOUT)


def _end_repeat(world: World, call: Call, participant: Participant, repeat: Repeat) -> None:
    """Compare a repeat with the first, which is all that its COMMIT does, or let it be."""
    if call.request.option is not Option.BACKOUT:
        _check_repeat(world, repeat)

    def apply(_: int) -> None:
        forget_repeat(participant, repeat)
        world.answer(call.handle, reply_to_end(world, repeat.first))

    decide(world, NOTHING, Decision(apply, handle=call.handle, who=participant))


def _check_repeat(world: World, repeat: Repeat) -> None:
    """Refuse to commit a repeat that is something else than the first; of a joint all of it is seen later."""
    check_is_same(repeat)
    if world.joint is None:
        check_are_all([repeat.first], [])
    else:
        world.joint.repeats.append(repeat.first)


# What is complete.


def _of_complete(world: World, call: Call, participant: Participant, record: UowRecord) -> None:
    """Show, or delete, what is left of a complete unit of work."""
    option = Option(call.request.option)
    who = (participant.owner.user, participant.owner.token)
    is_sender = who == (record.sender_user, record.sender_token)
    if not is_sender and (option is Option.DELETE or who != (record.receiver_user, record.receiver_token)):
        raise BrokerError(Code.NOT_THE_CREATOR)
    if option is Option.QUERY:
        world.answer(call.handle, reply_of_record(record))
        return
    if option is not Option.DELETE:
        raise BrokerError(Code.WRONG_STATUS, f"{Code.WRONG_STATUS.text}: {record.uowid} is {record.status.name}")
    delete_status(world, record, call.handle, participant)


def delete_status(world: World, record: UowRecord, handle: int, who: Participant | None) -> None:
    """Let nothing be left of a complete unit of work."""
    held = world.holds[record.uowid] = Lockable()

    def apply(_: int) -> None:
        del world.holds[record.uowid]
        world.units.take(record.uowid)
        world.answer(handle, reply_of_record(record))

    decision = Decision(
        apply,
        (held,),
        handle=handle,
        who=who,
        code=Code.STATUS_NOT_PERSISTED,
        undo=lambda: world.holds.pop(record.uowid, None),
    )
    decide(world, Changes(drops=[key(record.uowid)]), decision)


def _show_last(world: World, call: Call, participant: Participant) -> None:
    """Show the last unit of work that the caller has begun."""
    owner, conv_id = participant.owner, call.request.conv_id
    awake = (each.uowid for each in owner.awake.values() if conv_id in ("", each.conv_id))
    asleep = world.units.last_of(owner.user, owner.token, conv_id or None)
    last = max(awake, default="")
    last = max(last, asleep or "")
    found = unit(world, last) if last else None
    if found is None:
        where = f" in the conversation {conv_id}" if conv_id else ""
        raise refuse(Code.UOW_NOT_FOUND, f"you have begun none{where}")
    if isinstance(found, UowRecord):
        world.answer(call.handle, reply_of_record(found))
        return
    talk = conversation(world, found.conv_id)
    assert talk is not None, "a unit of work has its conversation"
    if talk.is_pending:
        raise Busy(talk)
    world.answer(call.handle, reply_of(talk, found, found.status))


# Both.


def _commit_both(world: World, call: Call, participant: Participant) -> None:
    """Commit what the caller has received and what it has sent, in one commit."""
    request, owner = call.request, participant.owner
    sent = [each for each in owner.sending.values() if request.conv_id in ("", each.conv_id)]
    received = [each for each in owner.reading.values() if request.conv_id in ("", each.conv_id)]
    if not sent and len(received) == 1 and (repeat := _repeat_in(participant, request.conv_id)) is not None:
        _commit_with_repeat(world, call, participant, received[0], repeat)
        return
    if len(sent) != 1 or len(received) != 1:
        raise BrokerError(Code.UOWS_NOT_FOUND)
    talks = []
    for each in (sent[0], received[0]):
        talk = conversation(world, each.conv_id)
        assert talk is not None, "a unit of work has its conversation"
        if talk.is_pending:
            raise Busy(talk)
        talks.append(talk)
    if sent[0].is_persistent != received[0].is_persistent:
        raise BrokerError(Code.MISMATCHED_STORE)
    code = talks[0].ended[side_of_sender(sent[0])]
    if code is not None:
        raise BrokerError(code)
    committing = SenderCommit(world, OpenUnit(talks[0], sent[0], participant), None, request.ustatus)
    done = committed(world, talks[1], received[0], "")

    def apply(first: int) -> None:
        if committing.is_repeat(first):
            _commit_received_alone(
                world, SyncpointCall(call, participant, talks[1], received[0]), done, committing, first
            )
            return
        complete(world, talks[1], done)
        bind(world, talks[1], received[0])
        committing.apply(first)
        world.answer(call.handle, reply_of(talks[0], sent[0], ACCEPTED))

    binds = talks[0] is talks[1] and sent[0].from_server
    # Behind the binding, whose record of what was sent still says that it is not committed: the last one counts.
    parts = [binding(world, talks[1], received[0]), committing.changes(binds=binds), done.changes]
    decision = Decision(apply, talks, handle=call.handle, who=participant, code=code_of_loss(sent[0]), is_new=True)
    decide(world, merge(parts), decision)


def _repeat_in(participant: Participant, conv_id: str) -> Repeat | None:
    """Return the only repeat that the participant has begun, in the conversation if one is said."""
    repeats = participant.repeats
    found = {id(each): each for name, each in repeats.items() if conv_id in ("", name)}
    return next(iter(found.values())) if len(found) == 1 else None


def _commit_with_repeat(
    world: World, call: Call, participant: Participant, received: UnitOfWork, repeat: Repeat
) -> None:
    """Commit what was received, and compare with the first what is sent again."""
    talk = conversation(world, received.conv_id)
    assert talk is not None, "a unit of work has its conversation"
    if talk.is_pending:
        raise Busy(talk)
    _check_repeat(world, repeat)
    about, done = SyncpointCall(call, participant, talk, received), committed(world, talk, received, "")

    def apply(_: int) -> None:
        forget_repeat(participant, repeat)
        reply = reply_to_end(world, repeat.first)
        complete(world, talk, done)
        bind(world, talk, received)
        world.answer(call.handle, reply)

    decide(world, merge([binding(world, talk, received), done.changes]), about.decision(apply))


def _commit_received_alone(
    world: World, about: SyncpointCall, done: Completion, committing: SenderCommit, first: int
) -> None:
    """Commit what was received when what is sent turned out to be a repeat: the store has written nothing of both."""
    talk, found, handle = about.talk, about.unit, about.call.handle
    reply, drops = committing.taken_back(first)

    def apply(_: int) -> None:
        complete(world, talk, done)
        bind(world, talk, found)
        world.answer(handle, reply)

    decision = about.decision(apply)
    if drops is not NOTHING:
        decision.undo = committing.note_unwritten
    try:
        decide(world, merge([drops, binding(world, talk, found), done.changes]), decision)
    except BrokerError as refusal:
        world.refuse(handle, refusal.code, refusal.text)
