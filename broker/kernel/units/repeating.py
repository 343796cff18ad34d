"""A unit of work that is sent again under its producer's identifier: it is a repeat as a whole.

Its SENDs are answered with the first UOWID and add nothing. Its COMMIT compares the number of messages and their digest
with the first: the same ones get the first answer, with the status that it has by now; others are refused.

Where the first is of an earlier start, is complete, and left no trace, nobody knows its UOWID any more: the SENDs of a
repeat are answered with an identifier of its own, under which it goes on, and its COMMIT with none.

Units of work that were committed together are repeated together: some of them are other content, and so are more.

The first               the repeat
is committed            is compared with it
is open, same caller    is refused: the caller can commit the first, or back it out
is open, another one    waits until the first is committed, or backed out; refused where that one waits for the caller
was backed out          is no repeat
"""

from oms_journal.broker.block import NEW, Option
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import conversation, unit_of_number
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER
from oms_journal.broker.kernel.state.decision import Busy
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.participant import Participant, name_of
from oms_journal.broker.kernel.state.producers import First, ProducerKey, Repeat
from oms_journal.broker.kernel.state.unit import Name
from oms_journal.broker.kernel.state.unit_states import RECEIVED
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.remembered import Known, scoped
from oms_journal.broker.kernel.units.committing import reply_to_end, reply_to_repeat
from oms_journal.broker.queues import ServiceQueue, parse_queue


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
            check_are_all([repeat.first], [])
        forget_repeat(participant, repeat)
        world.answer(call.handle, reply_to_end(world, repeat.first))
    return True


def check_is_same(repeat: Repeat, *more: bytes) -> None:
    """Refuse to commit what holds, with these messages, something else than the first."""
    if not repeat.is_same_with(*more):
        raise _reused(repeat.first)


def check_are_all(repeated: list[First], begun: list[str]) -> None:
    """Refuse to commit repeats without all that was committed with the first ones, or with more of their identifiers.

    `begun` are the identifiers of the units of work that are to be committed with them and are no repeats.
    """
    named, used = set(repeated), set(begun)
    while named:
        first = named.pop()
        others = {each for each in first.together if each is not first}
        producers = {each.key[3] for each in (first, *others)}
        if not others <= named or producers & used:
            raise _reused(first)
        named -= others
        used |= producers


def _reused(first: First) -> BrokerError:
    which = first.uowid if first.is_named else "one that is complete and left no persistent status"
    return refuse(Code.PRODUCER_REUSED, f"{which}; nothing was added")


def forget_repeat(participant: Participant, repeat: Repeat) -> None:
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
            raise refuse(Code.WRONG_STATUS, text)
    participant.repeats.update(dict.fromkeys(names, repeat))


def _first(world: World, call: Call, participant: Participant) -> First | None:
    """Return the unit of work that the SEND begins to repeat, None when it repeats none."""
    request = call.request
    names, is_new = (request.server_class, request.server_name, request.service), request.conv_id.upper() == NEW
    if not is_new:
        talk, over = conversation(world, request.conv_id), world.ended.get(request.conv_id)
        names = talk.service.name if talk is not None else over.service if over is not None else names
    owner = participant.owner
    key = (owner.user, owner.token, names, request.producer)
    first = world.producers.find(key) or _of_earlier_start(world, key)
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
        raise refuse(Code.WRONG_STATUS, text)
    if sender is not None and _waits_for(world, sender, participant.name):
        text = f"who has {unit.uowid} open waits for a unit of work that is open here: commit that or back it out first"
        raise refuse(Code.WRONG_STATUS, text)
    raise Busy(first)


def _of_earlier_start(world: World, key: ProducerKey) -> First | None:
    """Return the unit of work that an earlier start has seen committed, learnt with all of its commit."""
    if not len(world.remembered):
        return None
    user, token, names, producer = key
    name = scoped(user, token, producer)
    queues = [str(ServiceQueue(*names, is_reply=is_reply)) for is_reply in (False, True)]
    found = [known for known in (world.remembered.find(queue, name) for queue in queues) if known is not None]
    if not found:
        return None
    newest = max(found, key=lambda known: known.first)
    together = {known: _learnt(world, known, key) for known in world.remembered.together_with(newest)}
    if len(together) > 1:
        for first in together.values():
            first.together = list(together.values())
    return together[newest]


def _learnt(world: World, known: Known, key: ProducerKey) -> First:
    user, token, names, producer = key
    queue = parse_queue(known.queue)
    if isinstance(queue, ServiceQueue):
        names = queue[:3]
    uowid = unit_of_number(world, known.first)
    conv_id = reply_to_repeat(world, uowid, "").conv_id if uowid is not None else ""
    # A repeat goes on under names of its own where no trace is kept of the first.
    uowid_there, conv_there = uowid or world.identifiers.next(), conv_id or world.identifiers.next()
    first = world.producers.learn((user, token, names, producer), uowid_there, conv_there)
    first.is_named = uowid is not None
    first.messages, first.digest = known.messages, known.digest
    if known.messages == 1:
        first.last = known.digest
    return first


def _waits_for(world: World, waiting: Name, name: Name) -> bool:
    """Say whether one participant waits, maybe by way of others, for the outcome of what the other has open."""
    owners: dict[Name, set[Name]] = {}
    for first in world.producers.waiting():
        owner = _sender_of(world, first)
        for call in first.queued:
            if isinstance(call, Call) and owner is not None:
                who = name_of(call.request.user_id, call.request.token, call.caller)
                owners.setdefault(who, set()).add(owner)
    found, ahead = {waiting}, [waiting]
    while ahead:
        more = owners.get(ahead.pop(), set()) - found
        found |= more
        ahead.extend(more)
    return name in found


def _sender_of(world: World, first: First) -> Name | None:
    unit = world.active.get(first.uowid)
    talk = conversation(world, unit.conv_id) if unit is not None else None
    if unit is None or talk is None:
        return None
    return talk.server if unit.from_server else talk.client
