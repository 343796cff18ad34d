"""A unit of work that is sent again under its producer's identifier: it is a repeat as a whole.

Its SENDs are answered with the first UOWID and add nothing. Its COMMIT compares the number of messages and their digest
with the first: the same ones get the first answer, with the status that it has by now; others are refused.

The first               the repeat
is committed            is compared with it
is open, same caller    is refused: the caller can commit the first, or back it out
is open, another one    waits until the first is committed, or backed out
was backed out          is no repeat
"""

from broker.block import NEW, Option
from broker.codes import BrokerError, Code, detailed
from broker.committing import reply_to_repeat
from broker.conversation import CLIENT, SERVER
from broker.decision import Busy
from broker.effects import Call
from broker.participant import Participant
from broker.producers import First, Repeat
from broker.sleeping import conversation
from broker.states import RECEIVED
from broker.world import World


def is_answered(world: World, call: Call, participant: Participant) -> bool:
    """Answer a SEND that belongs to a repeat; False when it belongs to none. Busy while the first is on its way."""
    request = call.request
    repeat = participant.repeats.get(request.conv_id)
    if repeat is None:
        first = _first(world, call, participant) if request.producer else None
        if first is None:
            return False
        repeat = Repeat(first)
    if request.option is Option.SYNC:
        repeat.add(request.body)
        _keep(world, participant, repeat, request.conv_id)
        world.answer(call.handle, reply_to_repeat(world, repeat.first.uowid, repeat.first.conv_id))
    else:
        if request.conv_id != repeat.first.conv_id or not repeat.is_last_call(request.body):
            check_is_same(repeat, request.body)
        forget(participant, repeat)
        world.answer(call.handle, reply_to_repeat(world, repeat.first.uowid, repeat.first.conv_id))
    return True


def check_is_same(repeat: Repeat, *more: bytes) -> None:
    """Refuse to commit what holds, with these messages, something else than the first."""
    if not repeat.is_same_with(*more):
        raise BrokerError(
            Code.PRODUCER_REUSED, detailed(Code.PRODUCER_REUSED, f"{repeat.first.uowid}; nothing was added")
        )


def forget(participant: Participant, repeat: Repeat) -> None:
    """Let a repeat be over: committed, or backed out."""
    participant.repeats = {name: each for name, each in participant.repeats.items() if each is not repeat}


def _keep(world: World, participant: Participant, repeat: Repeat, conv_id: str) -> None:
    """Let the caller go on with it by the names of the first, and by the conversation that it has named."""
    first = repeat.first
    names = {first.uowid, first.conv_id} | ({conv_id} if conv_id.upper() != NEW else set())
    if first.uowid not in participant.repeats:
        talk = world.conversations.get(first.conv_id)
        open_units = [each for each in (talk.sending if talk is not None else ()) if each is not None]
        if any(each.owner is participant.owner for each in open_units):
            text = f"another unit of work is open in the conversation of {first.uowid}: commit it or back it out first"
            raise BrokerError(Code.WRONG_STATUS, detailed(Code.WRONG_STATUS, text))
    participant.repeats.update(dict.fromkeys(names, repeat))


def _first(world: World, call: Call, participant: Participant) -> First | None:
    """Return the unit of work that the SEND begins to repeat, None when it repeats none."""
    request = call.request
    names, is_new = (request.server_class, request.server_name, request.service), request.conv_id.upper() == NEW
    if not is_new:
        talk, over = conversation(world, request.conv_id), world.ended.get(request.conv_id)
        names = talk.service.name if talk is not None else over.service if over is not None else names
    owner = participant.owner
    first = world.producers.find((owner.user, owner.token, names, request.producer))
    if first is None:
        return None
    coming = world.beginning.get(first.uowid)
    if coming is not None:
        raise Busy(coming)
    unit = world.active.get(first.uowid)
    if unit is None:
        return first
    known = conversation(world, unit.conv_id)
    if known is not None and known.is_pending:
        raise Busy(known)
    if unit.status is not RECEIVED or known is None:
        return first
    sender = known.server if unit.from_server else known.client
    side = SERVER if unit.from_server else CLIENT
    if sender == participant.name:
        if request.conv_id == unit.conv_id and known.sending[side] is unit:
            return None  # another message of the same unit of work
        text = f"{unit.uowid}, which has the same producer's identifier, is open: commit it or back it out first"
        raise BrokerError(Code.WRONG_STATUS, detailed(Code.WRONG_STATUS, text))
    raise Busy(first)
