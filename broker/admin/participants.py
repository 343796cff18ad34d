"""Who takes part, as rows: every participant, and those that serve nothing."""

from typing import NamedTuple

from oms_journal.broker.admin.questions import Columns, PageSteps, Query, Row, page_of, row_of
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.unit import Name
from oms_journal.broker.kernel.state.world import World

NAMES_MAX = 100  # services and topics that a row names


class ParticipantFacts(NamedTuple):
    """What a row of a participant is read from."""

    world: World
    found: Participant


# Who is there. `physical_id` is its connection; `idle` the seconds since its last call.
PARTICIPANT_COLUMNS: Columns[ParticipantFacts] = {
    "user_id": lambda at: at.found.name[0],
    "token": lambda at: at.found.name[1],
    "client_id": lambda at: at.found.client_id,
    "physical_id": lambda at: at.found.physical,
    "logged_on": lambda at: at.found.has_logged_on,
    "services": lambda at: sorted("/".join(service) for service in at.found.services)[:NAMES_MAX],
    "topics": lambda at: sorted({topic for topic, _ in at.found.topics})[:NAMES_MAX],
    "conversations": lambda at: len(at.found.talks),
    "sending": lambda at: len(at.found.owner.sending),
    "delivering": lambda at: sum(unit.reader == at.found.name for unit in at.found.owner.reading.values()),
    "calls_waiting": lambda at: len(at.found.parked),
    "idle": lambda at: (at.world.clocks.volatile - at.found.used) / 1_000_000,
}


def participants(world: World, question: Query) -> PageSteps:
    """Return everybody, by USER-ID and TOKEN."""
    return _chosen(world, question, clients_only=False)


def clients(world: World, question: Query) -> PageSteps:
    """Return who serves nothing."""
    return _chosen(world, question, clients_only=True)


def _chosen(world: World, question: Query, *, clients_only: bool) -> PageSteps:
    is_user, is_token = question.fits("user_id"), question.fits("token")
    is_client = question.fits("client_id")

    def row(name: Name) -> Row | None:
        found = world.participants.get(name)
        if found is None or (clients_only and found.services) or not is_client(str(found.client_id)):
            return None
        return row_of(PARTICIPANT_COLUMNS, ParticipantFacts(world, found))

    keys = [name for name in world.participants if is_user(name[0]) and is_token(name[1])]
    is_counted = not clients_only and "client_id" not in question.selectors
    return page_of(question, keys, row, total=len(keys) if is_counted else None)
