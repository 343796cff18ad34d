"""The commonest call: a persistent unit of work of one message, begun and committed in a conversation of its own.

What it brings about is what `send.py` does step by step. But as a rule nobody receives it at once: it waits, and
what waits sleeps as a record (`dormancy.py`). So the record is all that is made here. A conversation and a unit of
work are made of it only where a server may want it soon.
"""

import struct

from oms_journal.broker.block import Option, Reply, Store
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.conversations.dormancy import wants_more
from oms_journal.broker.kernel.conversations.ending import end_as, reason_number
from oms_journal.broker.kernel.state.conversation import CLIENT, OPEN, Conversation
from oms_journal.broker.kernel.state.decision import Decision
from oms_journal.broker.kernel.state.effects import Call, stored_properties
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.replies import commit_time
from oms_journal.broker.kernel.state.service import STORED, Service, UnitTerms
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import AT_THE_FIRST, FIRST_FLAGS
from oms_journal.broker.kernel.state.unit_states import ACCEPTED
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.transitions import accept, begin_unit
from oms_journal.broker.records import UOW, UOWS, ConversationState, identifier
from oms_journal.broker.store.changes import Changes, NewMessage, Put

_BROKER = Store.BROKER
_END = Option.EOC
_EOC = ConversationState.EOC
_ACCEPTED = int(ACCEPTED)
_NUMBERS = struct.Struct("<QQ")  # in the record: of the first message, and of the conversation's first
_AT = UOW.offset("first")
_BEHIND = _AT + _NUMBERS.size
assert UOW.offset("conversation") == _AT + 8, "the two numbers lie side by side"


class SingleSend:
    """A unit of work on its way to the store: what is to be done when it is there, or not."""

    __slots__ = (
        *("call", "conv_id", "conv_number", "ends", "message", "now", "number", "participant"),
        *("service", "state", "terms", "uowid", "value", "world"),
    )

    def __init__(self, world: World, call: Call, participant: Participant, service: Service, terms: UnitTerms) -> None:
        self.world = world
        self.call = call
        self.participant = participant
        self.service = service
        self.terms = terms
        self.now = world.now
        self.conv_number = number = world.identifiers.next_number()
        self.conv_id = identifier(number)
        self.number = number = world.identifiers.next_number()
        self.uowid = identifier(number)
        self.ends = world.clocks.persistent + world.late + terms.lifetime if terms.lifetime else 0
        request = call.request
        self.state = _EOC if request.option is _END else OPEN
        self.message = NewMessage(service.queue, request.body, stored_properties(request))
        self.value = self._encode()

    def _encode(self) -> bytes:
        """Return its record, as `unit_records.record_of` would have it; the numbers are not known yet."""
        owner, terms, state, now = self.participant.owner, self.terms, self.state, self.now
        reason = reason_number(state) if state else 0
        lifetime, size = terms.lifetime // MICROSECONDS, len(self.message.payload)
        status, flags = (_ACCEPTED, FIRST_FLAGS[terms.variation.status])
        fields = (
            *(self.number, self.conv_number, status, flags, state, terms.multiple, reason, 0, 0, 1, lifetime),
            *(terms.explicit, size, now, now, now, now, 0, 0, self.ends, 0),
        )
        parties = (owner.user, owner.token, "", "", "", "", "", *self.service.name)
        return UOW.value(fields, parties, (self.call.request.ustatus, ""))

    def apply(self, first: int) -> None:
        """Let it wait for a server."""
        world, service = self.world, self.service
        if wants_more(service) or (service.is_served and world.parking.calls):
            self._rise(first)
        else:
            value, name, size = self.value, service.name, len(self.message.payload)
            value = value[:_AT] + _NUMBERS.pack(first, first) + value[_BEHIND:]
            world.units.add_waiting(value, (self.number, self.conv_number, self.ends), name, size)
            service.waiting.orders[STORED].add(first, self.conv_number)
            self.participant.owner.live += 1
            service.accepted += 1
            if first > world.highest:
                world.highest = first
        world.answer(self.call.handle, self._reply())

    def _rise(self, first: int) -> None:
        """Let it wait awake."""
        world, request, terms, now = self.world, self.call.request, self.terms, self.now
        talk = Conversation(self.conv_id, self.service, self.participant.name, is_uow=True)
        talk.used = world.clocks.volatile + world.late
        talk.begun = now
        unit = UnitOfWork(self.uowid, self.conv_id, self.participant.owner, terms.variation)
        unit.is_first = True
        unit.lifetime, unit.ends = terms.lifetime // MICROSECONDS, self.ends
        unit.uwstatp, unit.status_lifetime = terms.multiple, terms.explicit
        unit.created = unit.committed = unit.changed = now
        unit.messages, unit.count, unit.size = [self.message], 1, len(self.message.payload)
        unit.ustatus = request.ustatus
        begin_unit(world, talk, unit)
        if self.state is not OPEN:
            end_as(talk, CLIENT, self.state)
        accept(world, talk, unit, first)

    def _reply(self) -> Reply:
        reply = Reply.blank()
        reply.server_class, reply.server_name, reply.service = self.service.name
        reply.conv_id = self.conv_id
        reply.uowid = self.uowid
        reply.uow_status = ACCEPTED
        reply.ustatus = self.call.request.ustatus
        reply.store = _BROKER
        reply.commit_time = commit_time(self.now)
        return reply

    def give_back(self) -> None:
        """Count it no longer: it was not begun."""
        count_unit(self.world, self.service, -1)


def post(world: World, posting: SingleSend) -> None:
    """Begin and commit a unit of work in a conversation of its own, which ends with it if the call says so."""
    put = Put(UOWS + posting.uowid, posting.value, AT_THE_FIRST)
    changes = Changes(adds=(posting.message,), puts=(put,))
    count_unit(world, posting.service, 1)
    decision = Decision(
        posting.apply, (), posting.call.handle, posting.participant, undo=posting.give_back, is_new=True
    )
    decide(world, changes, decision)


def count_unit(world: World, service: Service, difference: int) -> None:
    """Count a unit of work and its conversation before they are visible, so that no limit is passed meanwhile."""
    service.units += difference
    world.active_count += difference
    service.conversations += difference
    world.talk_count += difference
    if difference < 0:
        world.unused.see(service)
