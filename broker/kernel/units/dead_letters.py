"""The move of a unit of work to the dead letters, in the commit that takes it from its receiver.

Its messages are added to the queue of the dead letters, with their properties and with where they are from, in a unit
of work and a conversation of their own: nobody's, and without a lifetime. What only the store has of them is read when
the commit is carried out. The service of the dead letters is there whatever the attributes define, and its limits do
not count here: nothing is dropped.

    property of each message   says
    dead-letter-from           the destination that it was given back to, as in /queue/NAME
    dead-letter-uow            its UOWID there
    dead-letter-count          how often it was given back
    dead-letter-user           the USER-ID of who has sent it
"""

from oms_journal.broker.block import ServiceName
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.kernel.conversations.dormancy import drop_messages
from oms_journal.broker.kernel.conversations.ending import end_as
from oms_journal.broker.kernel.state.conversation import CLIENT, Conversation
from oms_journal.broker.kernel.state.effects import Level
from oms_journal.broker.kernel.state.redelivery import DEAD_LETTERS
from oms_journal.broker.kernel.state.service import Service
from oms_journal.broker.kernel.state.unit import VARIATION, UnitOfWork
from oms_journal.broker.kernel.state.unit_records import put_with_messages, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED
from oms_journal.broker.kernel.state.world import World, undefined
from oms_journal.broker.kernel.units.posting import count_unit
from oms_journal.broker.kernel.units.transitions import NOTHING, accept, begin_unit
from oms_journal.broker.records import ConversationState
from oms_journal.broker.service_text import destination_of
from oms_journal.broker.store.changes import Changes, CopiedMessage, NewMessage

MOVED_BYTES_MAX = 16 << 20  # by one commit, unless one unit of work has more: who calls meanwhile waits for it
NO_SENDER = ("", "", 0)  # USER-ID and TOKEN of who has sent a dead letter: no caller's


class Move:
    """A unit of work that becomes a dead letter. Counted from the beginning: `undo` where it does not happen."""

    __slots__ = ("_attempts", "_moved", "_service", "_talk", "_unit", "_world", "is_marked", "name")

    def __init__(
        self, world: World, name: ServiceName, unit: UnitOfWork, attempts: int, *, is_marked: bool = True
    ) -> None:
        self.name = name  # of the service that it waited for
        self._world = world
        self._unit = unit
        self._attempts = attempts
        self.is_marked = is_marked  # its messages say where they are from
        self._service = service = _service(world)
        identifiers = world.identifiers
        self._talk = talk = Conversation(identifiers.next(), service, NO_SENDER, is_uow=True)
        talk.used, talk.begun = world.present.volatile, world.now
        end_as(talk, CLIENT, ConversationState.EOC)
        self._moved = moved = UnitOfWork(
            identifiers.next(), talk.conv_id, world.owner(*NO_SENDER[:2]), VARIATION[unit.is_persistent, False]
        )
        moved.is_first = True
        moved.messages = self._messages()
        moved.count, moved.size = unit.count, unit.size
        moved.created = moved.committed = moved.changed = world.now
        moved.ustatus = unit.ustatus
        count_unit(world, service, 1)

    def _messages(self) -> list[NewMessage]:
        unit, queue = self._unit, self._service.queue
        marks = self._marks() if self.is_marked else {}
        if unit.messages is None:
            return [CopiedMessage(queue, b"", marks, number) for number in unit.numbers()]
        return [NewMessage(queue, each.payload, {**(each.properties or {}), **marks}) for each in unit.messages]

    def _marks(self) -> dict[str, str]:
        return {
            "dead-letter-from": destination_of(self.name),
            "dead-letter-uow": self._unit.uowid,
            "dead-letter-count": str(self._attempts),
            "dead-letter-user": self._unit.owner.user,
        }

    def changes(self) -> Changes:
        """Return what is written for it where it goes."""
        moved = self._moved
        assert moved.messages is not None, "they are added with this"
        if not moved.is_persistent:
            return NOTHING
        written = put_with_messages(record_of(moved, self._talk, ACCEPTED), 0, is_first=True)
        return Changes(adds=moved.messages, puts=[written], copies=self._unit.messages is None)

    def undo(self) -> None:
        """Count it no longer."""
        count_unit(self._world, self._service, -1)

    def apply(self, first: int) -> None:
        """Let it wait there; `first` is the number of its first message."""
        world, moved = self._world, self._moved
        begin_unit(world, self._talk, moved)
        accept(world, self._talk, moved, first)
        if moved.messages is not None and any(isinstance(each, CopiedMessage) for each in moved.messages):
            drop_messages(world, moved)
        world.log(
            Level.WARNING,
            f"{self._unit.uowid} of {destination_of(self.name)} was given back {self._attempts} times, and is a dead "
            f"letter now: {moved.uowid} of {destination_of(DEAD_LETTERS)}",
        )


def _service(world: World) -> Service:
    """Return the service of the dead letters, which is there whether or not it is defined."""
    try:
        return world.service(DEAD_LETTERS)
    except BrokerError:
        found = world.services[DEAD_LETTERS] = Service(DEAD_LETTERS, undefined(world.attributes.broker, DEAD_LETTERS))
        return found
