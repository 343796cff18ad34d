"""EOC: the end of a conversation, by either side.

What was sent before the end can still be received; then the partner is told. A conversation of units
of work does not end over one that its ender has not dealt with. With CANCEL plain messages that wait
are dropped; a committed unit of work is not.
"""

from collections.abc import Iterable

from oms_journal.broker.block import Option, Reply
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.conversations.dormancy import check_may_end, conversation_of, side_in
from oms_journal.broker.kernel.state.conversation import Conversation, Side
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import ended, put_of_unit, record_of, written
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import ConversationState, UowRecord, identifier
from oms_journal.broker.store.changes import Changes

EOC_CODES = {
    ConversationState.EOC: Code.PARTNER_FINISHED,
    ConversationState.EOC_CANCEL: Code.PARTNER_CANCELLED,
}
_REASONS = {state: int(code.number) for state, code in EOC_CODES.items()}


def end_conversation(world: World, call: Call, participant: Participant) -> None:
    """End a conversation, so that the partner hears of it when nothing is left for it."""
    talk = conversation_of(world, call.request.conv_id, participant)
    if talk.is_pending:
        raise Busy(talk)
    side = side_in(talk, participant)
    is_cancelled = call.request.option is Option.CANCEL
    state = ConversationState.EOC_CANCEL if is_cancelled else ConversationState.EOC
    if talk.is_uow:
        if talk.sending[side] is not None:
            raise BrokerError(Code.MUST_BACK_OUT)
        check_may_end(talk, side)
    records = ending_records(world, talk, side.other, state)

    def apply(_: int) -> None:
        end_as(talk, side, state)
        if is_cancelled:
            talk.plain[side.other].clear()
        keep_records(world, records)
        world.touch(talk)
        world.answer(call.handle, Reply(conv_id=talk.conv_id))

    decision = Decision(apply, (talk,), handle=call.handle, who=participant)
    decide(world, Changes(puts=[put_of_unit(record) for record in records]), decision)


def ending_records(world: World, talk: Conversation, side: Side, state: ConversationState) -> list[UowRecord]:
    """Return the records of what waits for the side, with the end of the conversation.

    Each of them tells it, since any of them may be the one that is left.
    """
    found = []
    reason = reason_number(state)
    for waiting in talk.lines[side]:
        if not isinstance(waiting, UnitOfWork):
            record = world.units.find(identifier(waiting))
            assert record is not None, "what waits is awake or asleep"
            found.append(ended(record, state, reason))
        elif waiting.is_recorded:
            found.append(ended(record_of(waiting, talk, written(waiting)), state, reason))
    return found


def keep_records(world: World, records: Iterable[UowRecord]) -> None:
    """Let those that sleep be what was written of them."""
    for record in records:
        if record.uowid not in world.active:
            world.units.take(record.uowid)
            world.units.add(record)


def end_as(talk: Conversation, side: Side, state: ConversationState) -> None:
    """Let a side end the conversation for good: finished, or cancelled."""
    talk.ender, talk.state, talk.reason = side, state, reason_number(state)
    end_side(talk, side, EOC_CODES[state])


def end_side(talk: Conversation, side: Side, code: Code) -> None:
    """Let a side end the conversation; the code is what the other one is told when nothing is left for it."""
    talk.ended[side] = Code.AFTER_EOC
    talk.ended[side.other] = code
    if talk.is_one_shot:
        talk.ended = [Code.NO_CONVERSATION, Code.NO_CONVERSATION]
    talk.plain[side].clear()


def reason_number(state: ConversationState) -> int:
    """Return the number of the code that the partner is told, 0 while the conversation goes on."""
    return _REASONS.get(state, 0)
