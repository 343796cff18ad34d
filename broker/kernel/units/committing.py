"""The sender's commit of a unit of work: what is written for it, and what a repeat of it is answered.

A producer's identifier belongs to the unit of work, within USER-ID, TOKEN and service. A repeat gets
the first UOWID and adds nothing. What this start has seen the kernel knows; what an earlier one saw
the store knows, and tells it by an old message number.
"""

from collections.abc import Sequence
from contextlib import suppress

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.conversations.dormancy import conversation, unit_of_number
from oms_journal.broker.kernel.conversations.ending import reason_number
from oms_journal.broker.kernel.conversations.places import count_talks
from oms_journal.broker.kernel.state.conversation import OPEN, Conversation
from oms_journal.broker.kernel.state.decision import Decision
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.producers import First
from oms_journal.broker.kernel.state.replies import reply_of, reply_of_record
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import bound, key, put_of_unit, put_with_messages, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, PROCESSED
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.remembered import scoped
from oms_journal.broker.kernel.units.transitions import NOTHING, Completion, accept, begin_unit, complete, producer_key
from oms_journal.broker.records import ConversationState
from oms_journal.broker.store.changes import Changes, NewMessage


class OpenUnit:
    """A unit of work that its sender goes on with."""

    __slots__ = ("is_begun", "is_new", "participant", "talk", "unit")

    def __init__(self, talk: Conversation, unit: UnitOfWork, participant: Participant) -> None:
        self.talk = talk
        self.unit = unit
        self.participant = participant
        self.is_begun = False  # with this call
        self.is_new = False  # so is the conversation


def reserve_unit(world: World, sending: OpenUnit) -> None:
    """Count what this call begins before it is visible, so that no limit is passed meanwhile."""
    service = sending.talk.service
    service.units += 1
    world.active_count += 1
    if sending.is_new:
        service.conversations += 1
        world.talk_count += 1
    if sending.unit.producer:
        unit = sending.unit
        world.producers.begin(producer_key(sending.talk, unit), unit.uowid, unit.conv_id)
        world.beginning[unit.uowid] = sending.talk


def cancel_reservation(world: World, sending: OpenUnit) -> None:
    """Count it no longer: nothing was begun."""
    service = sending.talk.service
    service.units -= 1
    world.unused.see(service)
    world.active_count -= 1
    if sending.is_new:
        count_talks(world, sending.talk, -1)
    if sending.unit.producer:
        world.producers.forget(producer_key(sending.talk, sending.unit), sending.unit.uowid)
        world.beginning.pop(sending.unit.uowid, None)


def enter(world: World, sending: OpenUnit, message: NewMessage | None, ustatus: str) -> None:
    """Let the message be part of the unit of work."""
    unit = sending.unit
    if sending.is_begun:
        begin_unit(world, sending.talk, unit)
        if unit.producer:
            world.beginning.pop(unit.uowid, None)
    if message is not None:
        assert unit.messages is not None, "what is not committed is kept"
        unit.messages.append(message)
        unit.count += 1
        unit.size += len(message.payload)
    if ustatus:
        unit.ustatus = ustatus


class SenderCommit:
    """A unit of work that is to be committed, with one more message or as it is."""

    def __init__(self, world: World, sending: OpenUnit, message: NewMessage | None, ustatus: str) -> None:
        self._world = world
        self._sending = sending
        self._message = message
        self._ustatus = ustatus
        self._now = world.now
        self._highest = world.highest  # what is new has a higher number
        if sending.is_begun:
            self._fill()

    def _fill(self) -> None:
        """Complete what nobody can see yet: what this very call begins."""
        unit, talk, message = self._sending.unit, self._sending.talk, self._message
        assert message is not None, "a unit of work begins with a message"
        unit.messages = [message]
        unit.count = 1
        unit.size = len(message.payload)
        unit.ustatus = self._ustatus
        unit.committed = unit.changed = self._now
        if self._sending.is_new:
            talk.begun = self._now
        self._message = None

    def changes(self, state: ConversationState = OPEN, *, binds: bool = False) -> Changes:
        """Return what is written: the messages and the record; and how the conversation ends with it.

        `binds` says that the same commit binds the conversation to its server instance, whose answer this is.
        """
        talk, unit, message = self._sending.talk, self._sending.unit, self._message
        if not unit.is_lasting:
            return NOTHING
        record = record_of(unit, talk, ACCEPTED)
        messages = self._messages()
        if not self._sending.is_new or state is not OPEN:
            record = record._replace(
                messages=len(messages),
                size=unit.size + (len(message.payload) if message is not None else 0),
                ustatus=self._ustatus or unit.ustatus,
                committed=self._now,
                changed=self._now,
                begun=talk.begun or self._now,
                state=state,
                eoc_reason=reason_number(state),
            )
        if binds:
            record = bound(record, talk)
        if not unit.is_persistent:
            return Changes(puts=[put_of_unit(record)])
        begins = not talk.key
        producer = scoped(unit.owner.user, unit.owner.token, unit.producer) if unit.producer else None
        return Changes(adds=messages, puts=[put_with_messages(record, 0, is_first=begins)], producer=producer)

    def _messages(self) -> Sequence[NewMessage]:
        messages = self._sending.unit.messages
        assert messages is not None, "what is not committed is kept"
        return messages if self._message is None else [*messages, self._message]

    def is_repeat(self, first: int) -> bool:
        """The store has known the producer's identifier, and has written nothing."""
        unit = self._sending.unit
        return bool(unit.producer) and unit.is_persistent and first <= self._highest

    def apply(self, first: int) -> None:
        """Let the partner see it."""
        enter(self._world, self._sending, self._message, self._ustatus)
        unit = self._sending.unit
        unit.committed = unit.changed = self._now
        accept(self._world, self._sending.talk, unit, first)

    def repeated(self, first: int) -> Reply:
        """Return what a repeat is answered whose first is of an earlier start."""
        reply, drops = self.taken_back(first)
        if drops is not NOTHING:
            with suppress(BrokerError):  # the store is told when it is back
                decide(self._world, drops, Decision(lambda _: None, (self._sending.talk,), undo=self.note_unwritten))
        return reply

    def taken_back(self, first: int) -> tuple[Reply, Changes]:
        """Forget what turned out to be a repeat; return what it is answered, and what the store is to be told."""
        world, sending = self._world, self._sending
        drops = NOTHING
        if sending.is_begun:
            cancel_reservation(world, sending)
        else:
            drops = self._forget(sending)
        uowid, unit = unit_of_number(world, first), sending.unit
        reply = _nameless() if uowid is None else reply_to_repeat(world, uowid, "")
        whose = producer_key(sending.talk, unit)
        first_one = world.producers.learn(whose, uowid or unit.uowid, reply.conv_id or unit.conv_id)
        first_one.contain(each.payload for each in self._messages())
        first_one.is_named = uowid is not None
        return reply, drops

    def note_unwritten(self) -> None:
        """Let the store hear later of what was taken back."""
        uowid = self._sending.unit.uowid
        self._world.unwritten[uowid] = Changes(drops=[key(uowid)])

    def _forget(self, sending: OpenUnit) -> Changes:
        """Leave no trace of what turned out to be a repeat."""
        talk, unit = sending.talk, sending.unit
        was_recorded = unit.is_recorded
        complete(self._world, talk, Completion(unit, None, NOTHING))
        if talk.unit_count == 1:  # nothing else was ever said in it
            talk.ended = [Code.NO_CONVERSATION, Code.NO_CONVERSATION]
            self._world.touch(talk)
        return Changes(drops=[key(unit.uowid)]) if was_recorded else NOTHING


def reply_to_end(world: World, first: First) -> Reply:
    """Return what the last call of a repeat is answered."""
    return reply_to_repeat(world, first.uowid, first.conv_id) if first.is_named else _nameless()


def _nameless() -> Reply:
    """Return what a repeat is answered whose first is complete, and of which no trace is kept."""
    return Reply(uow_status=PROCESSED)


def reply_to_repeat(world: World, uowid: str, conv_id: str) -> Reply:
    """Return the first answer again, with the status that the unit of work has by now."""
    unit = world.active.get(uowid)
    if unit is not None:
        talk = conversation(world, unit.conv_id)
        assert talk is not None, "a unit of work has its conversation"
        return reply_of(talk, unit, unit.status)
    record = world.units.find(uowid) if uowid else None
    if record is not None:
        return reply_of_record(record)
    return Reply(uowid=uowid, conv_id=conv_id, uow_status=PROCESSED)  # complete, and no trace is kept of it
