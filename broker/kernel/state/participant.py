"""A live participant: who calls, from which connection, and what it takes part in.

Receives that wait: who, for what, and until when.

    RECEIVE with    waits with
    CONV-ID=n       the conversation
    CONV-ID=OLD     the server instance and each of the services
    CONV-ID=NEW     each of the services
    CONV-ID=ANY     both

A SEND that waits for its answer waits with its conversation.
"""

from collections.abc import Hashable, Iterator, Sequence

from oms_journal.broker.answers import Physical
from oms_journal.broker.block import ServiceName
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import DecisionMaker
from oms_journal.broker.kernel.state.effects import Call
from oms_journal.broker.kernel.state.producers import Repeat
from oms_journal.broker.kernel.state.service import Rank, Service
from oms_journal.broker.kernel.state.topics import Topic, TopicSubscription
from oms_journal.broker.kernel.state.unit import Name, Owner
from oms_journal.broker.kernel.tables.order import KeyedOrder


class Participant(DecisionMaker):
    """Told apart by USER-ID and TOKEN, without TOKEN by USER-ID and connection."""

    __slots__ = (
        "client_id",
        "due",
        "has_logged_on",
        "name",
        "owner",
        "parked",
        "physical",
        "repeats",
        "services",
        "talks",
        "topics",
        "used",
    )

    def __init__(self, name: Name, owner: Owner, physical: Physical, client_id: int) -> None:
        super().__init__()
        self.name = name
        self.owner = owner
        self.physical = physical
        self.client_id = client_id
        self.has_logged_on = False  # by a LOGON of its own; any other call makes a participant too
        self.services: dict[ServiceName, Service] = {}  # that it serves
        self.talks: dict[str, Conversation] = {}  # by CONV-ID: on either side, also of before it went and came again
        self.parked: dict[int, WaitingCall] = {}  # by number: calls of it that wait
        self.repeats: dict[str, Repeat] = {}  # by UOWID and CONV-ID of the first: what it is sending again
        self.topics: dict[tuple[str, str], Topic] = {}  # that it has subscribed to or received from, with the label
        self.used = 0  # on the second count: its last call
        self.due = 0  # its key in the order of time-outs


class WaitingCall:
    """A call that waits for something to receive."""

    __slots__ = ("call", "due", "number", "participant", "places", "ranks")

    def __init__(self, call: Call, participant: Participant, ranks: Sequence[Rank], places: Sequence[Hashable]) -> None:
        self.call = call
        self.participant = participant
        self.ranks = ranks  # what it can be satisfied with
        self.places = places
        self.number = 0
        self.due = 0  # on the second count: when it gives up, 0 for never


def name_of(user: str, token: str, physical: Physical) -> Name:
    """Return by what a live participant is told apart; a connection has a number above 0."""
    return (user, token, 0) if token else (user, "", physical)


ALL: Sequence[Rank] = (Rank.STORED, Rank.KEPT, Rank.MESSAGES)
UNITS: Sequence[Rank] = (Rank.STORED, Rank.KEPT)
MESSAGES: Sequence[Rank] = (Rank.MESSAGES,)


def with_conversation(conv_id: str) -> Hashable:
    """Return the place of receives of one conversation."""
    return conv_id


def with_instance(participant: Participant, service: ServiceName) -> Hashable:
    """Return the place of receives of what is bound to an instance."""
    return (participant.name, service)


def with_subscription(subscription: TopicSubscription) -> Hashable:
    """Return the place of receives of publications."""
    return ("topic", subscription.subscription_id)


def with_service(service: ServiceName) -> Hashable:
    """Return the place of receives of new conversations."""
    return service


class WaitingCalls:
    """All receives that wait, first come first served."""

    def __init__(self) -> None:
        self._places: dict[Hashable, dict[int, WaitingCall]] = {}
        self._by_handle: dict[int, WaitingCall] = {}
        self.calls: dict[int, WaitingCall] = {}  # by number, first come first
        self._dues = KeyedOrder()
        self._count = 0

    def __len__(self) -> int:
        return len(self.calls)

    def add(self, parked: WaitingCall) -> None:
        self._count += 1
        parked.number = self._count
        parked.participant.parked[parked.number] = parked
        self._by_handle[parked.call.handle] = parked
        self.calls[parked.number] = parked
        for place in parked.places:
            self._places.setdefault(place, {})[parked.number] = parked
        if parked.due:
            self._dues.add(parked.due, parked.number)

    def remove(self, parked: WaitingCall) -> None:
        """Take it out of everywhere; it must be there."""
        del self.calls[parked.number]
        del self._by_handle[parked.call.handle]
        del parked.participant.parked[parked.number]
        for place in parked.places:
            there = self._places[place]
            del there[parked.number]
            if not there:
                del self._places[place]
        if parked.due:
            self._dues.remove(parked.due, parked.number)

    def of_handle(self, handle: int) -> WaitingCall | None:
        return self._by_handle.get(handle)

    def at(self, place: Hashable) -> Iterator[WaitingCall]:
        """Yield who waits there, first come first."""
        return iter(list(self._places.get(place, {}).values()))

    def count_at(self, place: Hashable) -> int:
        """Return how many wait there."""
        return len(self._places.get(place, ()))

    def every(self) -> list[WaitingCall]:
        """Return all, in the order in which they came."""
        return list(self.calls.values())

    def overdue(self, clock: int) -> list[WaitingCall]:
        """Return those who have waited long enough."""
        return [self.calls[number] for _, number in self._dues.up_to(clock)]
