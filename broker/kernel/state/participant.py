"""A live participant: who calls, from which connection, and what it takes part in."""

from collections.abc import Hashable, Sequence

from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import Leaver
from oms_journal.broker.kernel.state.effects import Call, Physical
from oms_journal.broker.kernel.state.producers import Repeat
from oms_journal.broker.kernel.state.service import Rank, Service, ServiceName
from oms_journal.broker.kernel.state.topic import Topic
from oms_journal.broker.kernel.state.unit import Name, Owner


class Participant(Leaver):
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
        self.parked: dict[int, Parked] = {}  # by number: calls of it that wait
        self.repeats: dict[str, Repeat] = {}  # by UOWID and CONV-ID of the first: what it is sending again
        self.topics: dict[tuple[str, str], Topic] = {}  # that it has subscribed to or received from, with the label
        self.used = 0  # on the second count: its last call
        self.due = 0  # its key in the order of time-outs


class Parked:
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
