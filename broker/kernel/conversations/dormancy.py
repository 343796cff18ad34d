"""What merely waits sleeps as a record, and is woken when somebody touches it.

A unit of work that the store has sleeps while nobody would receive it soon: its service has no server,
or many wait before it. A conversation sleeps when one such unit is all there is to it. Its place in
the orders it keeps. The messages of what is awake are kept as well, up to a bound; beyond it the
store is read when they are handed out.
"""

import re
from collections.abc import Iterable

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.state.conversation import CLIENT, OPEN, SERVER, Conversation, Side
from oms_journal.broker.kernel.state.decision import Busy
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.service import STORED, Service
from oms_journal.broker.kernel.state.unit import VARIATION, Name, UnitOfWork
from oms_journal.broker.kernel.state.unit_records import is_waiting_for, ordered, record_of, service_of_record
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, POSTPONED
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Flag, UowRecord, identifier

AWAKE_MAX = 100  # units of work in one line, or new conversations of one service; those behind them sleep
IDENTIFIER = re.compile("[0-9A-F]{16}")  # of a unit of work, a conversation, a publication
KEPT_BYTES_MAX = 64 << 20  # of messages that are in the store as well


def conversation(world: World, conv_id: str) -> Conversation | None:
    """Return a conversation that goes on, woken if it sleeps."""
    found = world.conversations.get(conv_id)
    if found is not None or conv_id in world.ended or not IDENTIFIER.fullmatch(conv_id):
        return found
    if conv_id in world.holds:
        raise Busy(world.holds[conv_id])
    records = [record for record in map(world.units.find, world.units.of_conversation(conv_id)) if record is not None]
    return _woken(world, conv_id, records) if records else None


def _woken(world: World, conv_id: str, records: list[UowRecord]) -> Conversation | None:
    """Return the conversation that units of work and statuses are left of; None when it is over."""
    sample = records[0]
    client = (sample.sender_user, sample.sender_token, 0)
    if sample.flags & Flag.FROM_SERVER:
        client = (sample.receiver_user, sample.receiver_token, 0)
    found = Conversation(conv_id, world.service_of_old(service_of_record(sample)), client, is_uow=True)
    found.rank = STORED
    found.unit_count = len(records)
    found.used = world.present.volatile
    for side in Side:
        waiting = ordered(record for record in records if is_waiting_for(record, side))
        for record in waiting:
            found.append(side, int(record.uowid, 16))
        if waiting and not found.key:
            found.key = waiting[0].first  # of what waits for a server, if anything does: so it is in the order
    for record in records:
        found.begun = found.begun or record.begun
        found.first = found.first or record.conversation
        _note_end(found, record)
        if record.flags & Flag.BOUND and _instance(record)[1]:  # without a token nobody is that instance any more
            found.server = _instance(record)
            found.is_bound = True
    found.key = found.first or found.key
    wake_withheld(world, found)
    if not any(found.lines) and found.ender is not None:
        return None
    if not any(found.lines):
        found.service.conversations += 1
        world.talk_count += 1
    _enter(world, found)
    return found


def _instance(record: UowRecord) -> Name:
    if record.flags & Flag.FROM_SERVER:
        return (record.sender_user, record.sender_token, 0)
    return (record.receiver_user, record.receiver_token, 0)


def _note_end(found: Conversation, record: UowRecord) -> None:
    if record.state is not OPEN:
        found.ender = SERVER if record.flags & Flag.FROM_SERVER else CLIENT
        found.state, found.reason = record.state, record.eoc_reason
        found.ended[found.ender] = Code.AFTER_EOC
        found.ended[found.ender.other] = Code(f"0003{record.eoc_reason:04}")


def _enter(world: World, found: Conversation) -> None:
    """Let a woken conversation be known, in the place that it has had in its sleep."""
    world.enter(found)
    if found.has_for(SERVER):
        if found.server is None:
            found.place = found.service.waiting
        else:
            found.place = world.waiting_for(found.server, found.service)


def unit(world: World, uowid: str) -> UnitOfWork | UowRecord | None:
    """Return a unit of work: awake or woken while it is active, its record once it is complete."""
    found = world.active.get(uowid)
    if found is not None or not IDENTIFIER.fullmatch(uowid):
        return found
    if uowid in world.holds:
        raise Busy(world.holds[uowid])
    record = world.units.find(uowid)
    if record is None or record.status not in (ACCEPTED, POSTPONED):
        return record
    talk = conversation(world, record.conv_id)
    assert talk is not None, "a conversation with a unit of work that waits goes on"
    if uowid in world.active:
        return world.active[uowid]
    side = CLIENT if record.flags & Flag.FROM_SERVER else SERVER
    line = talk.lines[side]
    woken = line[line.index(int(uowid, 16))] = _wake(world, talk, int(uowid, 16))
    return woken


def wake_together(world: World, uowids: Iterable[str]) -> None:
    """Wake those units of work of these that sleep: a line is gone through once, and not once for each. Busy."""
    asleep: dict[tuple[str, Side], set[int]] = {}
    for uowid in uowids:
        record = world.units.find(uowid) if uowid not in world.active and uowid not in world.holds else None
        if record is not None and record.status in (ACCEPTED, POSTPONED):
            side = CLIENT if record.flags & Flag.FROM_SERVER else SERVER
            asleep.setdefault((record.conv_id, side), set()).add(int(uowid, 16))
    for (conv_id, side), numbers in asleep.items():
        talk = conversation(world, conv_id)
        assert talk is not None, "a conversation with a unit of work that waits goes on"
        line = talk.lines[side]
        talk.lines[side] = type(line)(
            _wake(world, talk, each) if isinstance(each, int) and each in numbers else each for each in line
        )


def wake_first(world: World, talk: Conversation, side: Side) -> UnitOfWork:
    """Return the first unit of work that waits for the side; there is one."""
    first = talk.lines[side][0]
    if not isinstance(first, UnitOfWork):
        first = talk.lines[side][0] = _wake(world, talk, first)
    return first


def wake_withheld(world: World, talk: Conversation) -> None:
    """Let the unit of work that the server would get first be awake if it is held: it stands in the way of the rest."""
    line = talk.lines[SERVER]
    if not world.withheld.last or not line or isinstance(line[0], UnitOfWork):
        return
    record = world.units.find(identifier(line[0]))
    assert record is not None, "what waits is awake or asleep"
    if world.withheld.has(record):
        wake_first(world, talk, SERVER)


def _wake(world: World, talk: Conversation, number: int) -> UnitOfWork:
    record = world.units.take(identifier(number))
    assert record is not None, "what waits is awake or asleep"
    flags = record.flags
    is_persistent, has_status = bool(flags & Flag.PERSISTENT), bool(flags & Flag.STATUS_PERSISTENT)
    owner = world.owner(record.sender_user, record.sender_token)
    woken = UnitOfWork(record.uowid, talk.conv_id, owner, VARIATION[is_persistent, has_status])
    woken.status = record.status
    woken.from_server = bool(flags & Flag.FROM_SERVER)
    woken.is_first = bool(flags & Flag.FIRST)
    woken.is_stored = is_persistent
    woken.messages = None
    woken.count, woken.size, woken.first = record.messages, record.size, record.first
    woken.uwstatp, woken.lifetime, woken.status_lifetime = record.uwstatp, record.lifetime, record.status_lifetime
    woken.ends, woken.back = record.ends, record.back
    woken.created, woken.committed, woken.changed = record.created, record.committed, record.changed
    woken.adcount, woken.postpones = record.adcount, record.postpones
    woken.ustatus, woken.producer = record.ustatus, record.producer
    woken.is_withheld, woken.is_released = world.withheld.has(record), bool(flags & Flag.RELEASED)
    if woken.status is ACCEPTED and woken.back <= world.clock_of(woken) and not woken.is_withheld:
        woken.back = 0  # the delay is over, and nobody has looked
    world.rise(woken)
    world.arm(woken)
    return woken


def is_kept(world: World, talk: Conversation, side: Side) -> bool:
    """Say whether a unit of work that begins to wait for the side stays awake."""
    if len(talk.lines[side]) >= AWAKE_MAX:
        return False
    if side is CLIENT:
        return talk.client in world.participants
    if talk.server is not None:
        return talk.server in talk.service.servers
    return wants_more(talk.service)


def wants_more(service: Service) -> bool:
    """Say whether a conversation that begins to wait for the service stays awake."""
    return service.is_served and len(service.waiting) < AWAKE_MAX


def put_to_sleep(world: World, talk: Conversation, waiting: UnitOfWork) -> int:
    """Let a unit of work that the store has go on as a record; return its number for the line."""
    assert waiting.is_stored, "only what the store has can sleep"
    drop_messages(world, waiting)
    world.disarm(waiting)
    world.lie_down(waiting)
    world.units.add(record_of(waiting, talk, waiting.status))
    return int(waiting.uowid, 16)


def drop_messages(world: World, waiting: UnitOfWork) -> None:
    """Leave the messages to the store."""
    if waiting.is_stored and waiting.messages is not None:
        world.kept_bytes -= waiting.size
        waiting.messages = None


def sleep_if_idle(world: World, talk: Conversation) -> None:
    """Let the conversation sleep when a sleeping unit of work is all there is to it."""
    line = talk.lines[SERVER]
    if len(line) != 1 or isinstance(line[0], UnitOfWork) or talk.conv_id not in world.conversations:
        return
    if talk.server is not None or talk.is_pending or talk.queued or talk.lines[CLIENT] or any(talk.sending):
        return
    if talk.rank is STORED:
        world.leave(talk)


def sleep_unserved(world: World, service: Service) -> None:
    """Let sleep what waits for a service that has lost a server."""
    side = SERVER
    for talk in list(service.awake.values()):
        assert isinstance(talk, Conversation), "nothing else is awake"
        if talk.is_pending or not talk.lines[side] or is_kept(world, talk, side):
            continue
        line = talk.lines[side]
        for at, waiting in enumerate(line):
            if not isinstance(waiting, UnitOfWork) or waiting.is_withheld:
                continue
            if waiting.status is ACCEPTED and waiting.is_stored and not waiting.back:
                line[at] = put_to_sleep(world, talk, waiting)
        world.touch(talk)


def unit_of_number(world: World, first: int) -> str | None:
    """Return the UOWID of the unit of work whose first message has this number."""
    found = world.units.at_number(first)
    if found is None:
        found = next((unit.uowid for unit in world.active.values() if unit.is_stored and unit.first == first), None)
    return found


def conversation_of(world: World, conv_id: str, participant: Participant) -> Conversation:
    """Return a conversation in which the participant can still say something."""
    talk = conversation(world, conv_id)
    side = talk.side_of(participant.name) if talk is not None else None
    if talk is None or side is None:
        over = world.ended.get(conv_id)
        raise BrokerError((over.code_for(participant.name) if over is not None else None) or Code.NO_CONVERSATION)
    code = talk.ended[side]
    if code is not None:
        raise BrokerError(code)
    if side is CLIENT:
        world.come_back(participant, talk)
    return talk


def side_in(talk: Conversation, participant: Participant) -> Side:
    """Return the side of a participant who is on one."""
    side = talk.side_of(participant.name)
    assert side is not None, "checked when the conversation was looked up"
    talk.used = participant.used
    return side


def check_room(world: World, service: Service) -> None:
    """Refuse a new conversation beyond the limits."""
    limit = service.attributes.conv_limit
    if limit is not None and service.conversations >= limit:
        raise BrokerError(Code.CONVERSATION_LIMIT)
    limit = world.attributes.broker.num_conversation
    if limit is not None and world.talk_count >= limit:
        raise BrokerError(Code.CONVERSATIONS_MAX)


def check_may_end(talk: Conversation, side: Side) -> None:
    """Refuse the end of a conversation that holds something for who wants to end it."""
    if talk.reading[side] is not None:
        raise BrokerError(Code.MUST_BACK_OUT)
    if talk.lines[side]:
        raise BrokerError(Code.UNREAD_UOW)
