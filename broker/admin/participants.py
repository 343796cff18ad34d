"""Who takes part, as rows: every participant, and those that serve nothing."""

from dataclasses import dataclass

from oms_journal.broker.admin.questions import PageSteps, Query, page_of
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.unit import Name
from oms_journal.broker.kernel.state.world import World

NAMES_MAX = 100  # services and topics that a row names


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRow:
    """Who is there. `physical_id` is its connection; `idle` the seconds since its last call."""

    user_id: str
    token: str
    client_id: int
    physical_id: int
    logged_on: bool
    services: list[str]
    topics: list[str]
    conversations: int
    sending: int
    delivering: int
    calls_waiting: int
    idle: float


def participants(world: World, question: Query) -> PageSteps:
    """Return everybody, by USER-ID and TOKEN."""
    return _chosen(world, question, clients_only=False)


def clients(world: World, question: Query) -> PageSteps:
    """Return who serves nothing."""
    return _chosen(world, question, clients_only=True)


def _chosen(world: World, question: Query, *, clients_only: bool) -> PageSteps:
    is_user, is_token = question.fits("user_id"), question.fits("token")
    is_client = question.fits("client_id")

    def row(name: Name) -> ParticipantRow | None:
        found = world.participants.get(name)
        if found is None or (clients_only and found.services) or not is_client(str(found.client_id)):
            return None
        return _row(world, found)

    keys = [name for name in world.participants if is_user(name[0]) and is_token(name[1])]
    is_counted = not clients_only and "client_id" not in question.selectors
    return page_of(question, keys, row, total=len(keys) if is_counted else None)


def _row(world: World, found: Participant) -> ParticipantRow:
    name = found.name
    return ParticipantRow(
        user_id=name[0],
        token=name[1],
        client_id=found.client_id,
        physical_id=found.physical,
        logged_on=found.has_logged_on,
        services=sorted("/".join(service) for service in found.services)[:NAMES_MAX],
        topics=sorted({topic for topic, _ in found.topics})[:NAMES_MAX],
        conversations=len(found.talks),
        sending=len(found.owner.sending),
        delivering=sum(unit.reader == name for unit in found.owner.reading.values()),
        calls_waiting=len(found.parked),
        idle=(world.clocks.volatile - found.used) / 1_000_000,
    )
