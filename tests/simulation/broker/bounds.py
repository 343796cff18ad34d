"""What a broker may keep: in memory what is there and what is under way, in the directory the files that are needed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from typing import Any

from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.world import World
from oms_journal.database.cleanup import ASKED_SHARE
from oms_journal.database.compaction import plan_compaction
from oms_journal.database.stats import file_facts
from tests.simulation.engine.bounds import BOUNDED
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import Unattended

FEW = "files in which little is needed are gone, once compaction is through"


def check_kernel(kernel: Kernel, waiting: int) -> None:
    """Check, while nothing is on its way to the store and so many calls wait, what the kernel knows."""
    world = kernel.world
    over = {name: found for name, found in _kept(world, waiting) if found}
    if over:
        raise PromiseBroken(f"{BOUNDED}\n{over}")


def _kept(world: World, waiting: int) -> Iterable[tuple[str, object]]:
    """Yield what is known, by name, of what is no more."""
    yield "on their way", _sizes(world, "pending", "holds", "beginning", "touched", "released", "leaving")
    yield "on their way, of topics", _sizes(world.topics, "published", "sweeping")
    is_told = world.is_store_up and not (world.is_new_forbidden or world.dues.is_untold)
    yield "for the store", len(world.unwritten) if is_told else 0
    yield "for a store that is full", [name for name, one in world.topics.topics.items() if is_told and one.done]
    yield "calls that wait", len(world.parking) - waiting
    yield "places where nobody waits", [place for place, there in world.parking._places.items() if not there]
    yield from _people(world)
    yield from _conversations(world)
    yield from _orders(world)
    yield from _publications(world)
    yield from _names(world)


def _names(world: World) -> Iterable[tuple[str, object]]:
    services, topics, people = world.services, world.topics.topics, world.participants.values()
    for what, known in (("services", services), ("topics", topics)):
        gone = [name for name, one in known.items() if one.is_unused and not one.is_lasting]
        yield f"{what} of which nothing is left", gone
    used = {id(talk.service) for talk in world.conversations.values()}
    used |= {id(service) for who in people for service in who.services.values()}
    yield "services that are forgotten and used", used - set(map(id, services.values()))
    yield "services that are forgotten and waited for", world.units.counts().keys() - services.keys()
    used = {id(one.topic) for one in world.topics.publications.values()}
    used |= {id(one.topic) for one in world.topics.subscriptions.values()}
    used |= {id(topic) for who in people for topic in who.topics.values()}
    yield "topics that are forgotten and used", used - set(map(id, topics.values()))
    begun = Counter(id(one.topic) for mine in world.topics.uncommitted.values() for one in mine.values())
    yield "what is under way of topics", [name for name, one in topics.items() if one.under_way != begun[id(one)]]
    yield (
        "who has a topic without a part in it",
        [
            who.name
            for who in people
            for (_, label), topic in who.topics.items()
            if topic.subscription_of(who.owner, who.name, label) is None
        ],
    )


def _sizes(owner: object, *names: str) -> dict[str, int]:
    sized: Mapping[str, Sized] = {name: getattr(owner, name) for name in names}
    return {name: len(found) for name, found in sized.items() if found}


def _people(world: World) -> Iterable[tuple[str, object]]:
    there = {who.name for who in world.participants.values()}
    calling = {name for found in world.connections.values() for name in found}
    yield "participants", {who.name for who in world.numbered.values()} ^ there
    yield "who calls", calling ^ there
    yield "connections of nobody", [physical for physical, found in world.connections.items() if not found]
    topics = world.topics
    of_topics = {id(one.owner) for one in topics.publications.values()}
    of_topics |= {id(one.owner) for one in topics.subscriptions.values()}
    yield "owners", [n for n, owner in world.owners.items() if owner.is_idle() and id(owner) not in of_topics]
    yield "owners' members", sum(owner.members for owner in world.owners.values()) - len(there)
    yield (
        "servers",
        [name for service in world.services.values() for name in service.servers if name not in world.participants],
    )
    quiescing = [one for service in world.services.values() for one in service.servers.values() if one.is_quiescing]
    yield "servers that quiesce", world.quiescing - len(quiescing)
    yield "parts of nobody", [name for name, talks in world.talks.items() if not (talks or name in there)]
    gone = (conv_id for talks in world.talks.values() for conv_id in talks if conv_id not in world.conversations)
    yield "parts in what is over", list(gone)


def _conversations(world: World) -> Iterable[tuple[str, object]]:
    talks = world.conversations.values()
    awake = {conv_id for service in world.services.values() for conv_id in service.awake}
    yield "awake conversations", awake ^ {talk.conv_id for talk in talks if talk.is_uow}
    yield (
        "conversations that are over",
        [talk.conv_id for talk in talks if all(talk.ended) and talk.is_empty() and not any(talk.plain)],
    )
    yield "both in memory and over", world.ended.keys() & world.conversations.keys()
    waiting = {one.uowid for talk in talks for line in talk.lines for one in line if isinstance(one, UnitOfWork)}
    sending = {one.uowid for talk in talks for one in talk.sending if one is not None}
    yield "units of work", world.active.keys() ^ (waiting | sending)
    owned = {uowid for owner in world.owners.values() for uowid in owner.awake}
    yield "owners' units of work", owned ^ world.active.keys()
    reading = {one.uowid for talk in talks for one in talk.reading if one is not None}
    yield "receivers' units of work", {u for owner in world.owners.values() for u in owner.reading} ^ reading
    yield "places of instances", [place for place, found in world.instances.items() if not len(found)]
    sizes = [unit.size for unit in world.active.values() if unit.is_stored and unit.messages is not None]
    sizes += [one.size for one in world.topics.publications.values() if one.is_stored and one.messages is not None]
    yield "bytes of messages", world.kept_bytes - sum(sizes)


def _orders(world: World) -> Iterable[tuple[str, object]]:
    dues, topics = world.dues, world.topics
    units = sum(bool(unit.due) for unit in world.active.values())
    yield "ends of units of work", len(dues.lasting) + len(dues.passing) - units
    yield "ends of conversations", len(dues.conversations) - sum(bool(one.due) for one in world.conversations.values())
    yield "ends of participants", len(dues.participants) - sum(bool(one.due) for one in world.participants.values())
    of_topics: list[Any] = [*topics.publications.values(), *topics.subscriptions.values()]
    yield "ends of topics", len(topics.lasting) + len(topics.passing) - sum(bool(one.due) for one in of_topics)


def _publications(world: World) -> Iterable[tuple[str, object]]:
    topics = world.topics
    yield "empty lists of publications", [name for name, mine in topics.uncommitted.items() if not mine]
    begun = {identifier for mine in topics.uncommitted.values() for identifier in mine}
    committed = {one.publication_id for topic in topics.topics.values() for one in topic.publications.values()}
    yield "publications", topics.publications.keys() ^ (begun | committed)
    yield (
        "publications for nobody",
        [
            one.publication_id
            for topic in topics.topics.values()
            for one in topic.publications.values()
            if one.remaining < 1
        ],
    )


def check_compacted(database: Unattended, active: int) -> None:
    """Check, after a compaction without a fault, that of the files older than the one it began with none should go."""
    facts = [fact for fact in file_facts(database._state()) if fact.sequence < active]
    left = plan_compaction(facts, share=ASKED_SHARE, data_file_bytes=database.options.max_data_file_size)
    if left:
        raise PromiseBroken(f"{FEW}\n{facts[:left]}")
