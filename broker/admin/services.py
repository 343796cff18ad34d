"""Services and their servers, as rows: how much waits, how old it is, what has become of the rest."""

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple

from oms_journal.broker.admin.questions import Columns, PageSteps, Query, Row, page_of, row_of, seconds_of, time_of
from oms_journal.broker.block import SERVICE_FIELDS, ServiceName
from oms_journal.broker.kernel.state.conversation import SERVER, Conversation
from oms_journal.broker.kernel.state.participant import Participant, with_instance, with_service
from oms_journal.broker.kernel.state.service import End, Registration, Service, WaitingConversations
from oms_journal.broker.kernel.state.unit import Name, UnitOfWork
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import identifier

INSTANCES_MAX = 10_000  # server instances that are looked at for what waits for them


class ServiceFacts(NamedTuple):
    """What a row of a service is read from."""

    world: World
    service: Service
    oldest: int  # when the oldest unit of work that waits for a server was committed


# A service that was used since the start, or that something waits for; `unused_names.py` says which are forgotten.
#
# `active` units of work are not complete: `sending` ones not committed by their sender, `delivering` ones being
# received, `waiting` all others, answers to clients among them; `held` ones of these nobody receives before RELEASE.
# `oldest` is the time of the commit of the oldest that waits for a server. What stands behind it was counted since
# the start, or since it was last forgotten. Ages and lifetimes are seconds.
SERVICE_COLUMNS: Columns[ServiceFacts] = {
    "server_class": lambda at: at.service.name[0],
    "server_name": lambda at: at.service.name[1],
    "service": lambda at: at.service.name[2],
    "servers": lambda at: len(at.service.servers),
    "conversations": lambda at: at.service.conversations,
    "active": lambda at: at.service.units,
    "waiting": lambda at: max(at.service.units - at.service.sending - at.service.delivering, 0),
    "sending": lambda at: at.service.sending,
    "delivering": lambda at: at.service.delivering,
    "held": lambda at: at.world.withheld.units[at.service.name],
    "oldest": lambda at: time_of(at.oldest),
    "oldest_age": lambda at: max(at.world.now - at.oldest, 0) / 1_000_000 if at.oldest else None,
    "accepted": lambda at: at.service.accepted,
    "processed": lambda at: at.service.completed[End.PROCESSED],
    "cancelled": lambda at: at.service.completed[End.CANCELLED],
    "timed_out": lambda at: at.service.completed[End.TIMED_OUT],
    "given_back": lambda at: at.service.given_back,
    "calls_waiting": lambda at: at.world.parking.count_at(with_service(at.service.name)),
    "store": lambda at: at.service.attributes.store.name,
    "max_uows": lambda at: at.service.attributes.max_uows,
    "uwtime": lambda at: seconds_of(at.service.attributes.uwtime),
    "uwstatp": lambda at: at.service.attributes.uwstatp,
    "deferred": lambda at: at.service.attributes.deferred,
}


class RegistrationFacts(NamedTuple):
    """What a row is read from that a participant serves a service."""

    world: World
    service: Service
    participant: Participant
    registration: Registration
    talks: Sequence[Conversation]  # of the service, that are this server's
    places: Set[Hashable]  # where its calls wait


# That a participant serves a service. `idle` are the seconds since its last call.
SERVER_COLUMNS: Columns[RegistrationFacts] = {
    "user_id": lambda at: at.participant.name[0],
    "token": lambda at: at.participant.name[1],
    "client_id": lambda at: at.participant.client_id,
    "server_class": lambda at: at.service.name[0],
    "server_name": lambda at: at.service.name[1],
    "service": lambda at: at.service.name[2],
    "attach": lambda at: at.registration.is_attach,
    "quiescing": lambda at: at.registration.is_quiescing,
    "conversations": lambda at: len(at.talks),
    "delivering": lambda at: sum(talk.reading[SERVER] is not None for talk in at.talks),
    "calls_waiting": lambda at: sum(not at.places.isdisjoint(call.places) for call in at.participant.parked.values()),
    "idle": lambda at: (at.world.clocks.volatile - at.participant.used) / 1_000_000,
}


class ServiceFilter:
    """Whether a service is one that is asked for."""

    def __init__(self, question: Query) -> None:
        self.is_everything = not any(name in question.selectors for name in SERVICE_FIELDS)
        self._fits = [question.fits(name) for name in SERVICE_FIELDS]

    def __call__(self, name: ServiceName) -> bool:
        if self.is_everything:
            return True
        return all(fits(part) for fits, part in zip(self._fits, name, strict=True))


def services(world: World, question: Query) -> PageSteps:
    """Return the services, by their names."""
    is_wanted, bound = ServiceFilter(question), Bound(world)

    def row(name: ServiceName) -> Row | None:
        found = world.services.get(name)
        return service_row(world, found, bound) if found is not None else None

    keys = [name for name in world.services if is_wanted(name)]
    return page_of(question, keys, row, total=len(keys))


def service_row(world: World, service: Service, bound: "Bound") -> Row:
    """Return what there is to be said of one service."""
    return row_of(SERVICE_COLUMNS, ServiceFacts(world, service, oldest_of(world, service, bound)))


class Bound:
    """Where conversations wait that belong to a server instance, by service; looked up once it is asked for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: Mapping[ServiceName, list[WaitingConversations]] | None = None

    def of(self, name: ServiceName) -> list[WaitingConversations]:
        if self._found is None:
            found: dict[ServiceName, list[WaitingConversations]] = {}
            for (_, service), waiting in islice(self._world.instances.items(), INSTANCES_MAX):
                found.setdefault(service, []).append(waiting)
            self._found = found
        return self._found.get(name, [])


def oldest_of(world: World, service: Service, bound: Bound) -> int:
    """Return when the oldest unit of work that waits for a server was committed, 0 where none does."""
    times = [
        when
        for waiting in (service.waiting, *bound.of(service.name))
        for number in _firsts(waiting)
        if (when := _committed(world, number))
    ]
    return min(times, default=0)


def _firsts(waiting: WaitingConversations) -> Iterator[int]:
    for order in waiting.orders:
        first = order.first()
        if first is not None:
            yield first[1]


def _committed(world: World, number: int) -> int:
    """Return when the unit of work was committed that waits first in a conversation; 0 for messages."""
    conv_id = identifier(number)
    talk = world.conversations.get(conv_id)
    if talk is None:
        records = filter(None, map(world.units.find, world.units.of_conversation(conv_id)))
        return min((record.committed for record in records), default=0)
    line = talk.lines[SERVER]
    if not line:
        return 0
    if isinstance(line[0], UnitOfWork):
        return line[0].committed
    record = world.units.find(identifier(line[0]))
    return record.committed if record is not None else 0


def servers(world: World, question: Query) -> PageSteps:
    """Return who serves which service, by service."""
    is_wanted = ServiceFilter(question)
    is_user, is_token = question.fits("user_id"), question.fits("token")
    is_client = question.fits("client_id")

    def row(key: tuple[ServiceName, Name]) -> Row | None:
        service, participant = world.services.get(key[0]), world.participants.get(key[1])
        registration = service.servers.get(key[1]) if service is not None else None
        if service is None or participant is None or registration is None or not is_client(str(participant.client_id)):
            return None
        return _server_row(world, service, participant, registration)

    keys = [
        (service.name, name)
        for service in world.services.values()
        if service.servers and is_wanted(service.name)
        for name in service.servers
        if is_user(name[0]) and is_token(name[1])
    ]
    return page_of(question, keys, row, total=len(keys) if "client_id" not in question.selectors else None)


def _server_row(world: World, service: Service, participant: Participant, registration: Registration) -> Row:
    talks = [talk for talk in participant.talks.values() if talk.server == participant.name and talk.service is service]
    places = {with_service(service.name), with_instance(participant, service.name)}
    return row_of(SERVER_COLUMNS, RegistrationFacts(world, service, participant, registration, talks, places))
