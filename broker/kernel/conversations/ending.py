"""EOC: the end of a conversation, by either side.

What was sent before the end can still be received; then the partner is told. A conversation of units
of work does not end over one that its ender has not dealt with. With CANCEL plain messages that wait
are dropped; a committed unit of work is not.
"""

from oms_journal.broker.block import Option, Reply
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit_records import put
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.send import check_may_end, conversation_of, side_in
from oms_journal.broker.kernel.units.transitions import end_as, ending_records, keep_records
from oms_journal.broker.records import ConversationState
from oms_journal.broker.store.changes import Changes


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
    decide(world, Changes(puts=[put(record) for record in records]), decision)
