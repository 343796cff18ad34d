"""The kernel's beginning: what a restart has restored takes its places, as columns."""

from heapq import heappush

from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.service import Rank
from oms_journal.broker.kernel.state.topics import Publication, TopicSubscription, subscription_key
from oms_journal.broker.kernel.state.world import Restored, World
from oms_journal.broker.kernel.tables.hold import HeldWindow
from oms_journal.broker.kernel.tables.ranges import Ranges
from oms_journal.broker.kernel.topics.removal import remove_publication
from oms_journal.broker.records import PublicationRecord


def place_restored(world: World, restored: Restored) -> None:
    """Let conversations wait where they waited, and count what there is."""
    for key in restored.lost:
        world.notes.append(f"{key} in the persistent store is damaged, and left out")
    for (user, token), count in restored.senders.items():
        world.owner(user, token).live = count
    waiting: dict[tuple[str, str, str], set[int]] = {}
    for line in restored.lines:
        service = world.service_of_old(line.service)
        if line.to_client:
            waiting.setdefault(line.service, set()).update(line.conversations)
            continue
        service.conversations += len(line.conversations)
        if not line.is_withheld:
            place = service.waiting if line.receiver is None else world.waiting_for((*line.receiver, 0), service)
            place.fill(Rank.STORED, line.orders, line.conversations)
    for line in restored.lines:
        if not line.to_client and line.service in waiting:
            waiting[line.service].difference_update(line.conversations)
    for name, conversations in waiting.items():
        world.service_of_old(name).conversations += len(conversations)
    world.talk_count = sum(service.conversations for service in world.services.values())
    for name, waits in world.units.counts().items():
        world.service_of_old(name).units = waits.units
        world.active_count += waits.units
    _start_topics(world, restored)
    _note_hold(world)


def _note_hold(world: World) -> None:
    """Let the log say what is held."""
    withheld = world.withheld
    if withheld.unit_count or withheld.publications:
        source = f" from {withheld.record.source}" if withheld.record.source else ""
        world.notes.append(
            f"held since the store was restored{source}, until RELEASE or DISCARD: units of work "
            f"{withheld.unit_count:,}, publications for their subscribers {withheld.publications:,}"
        )


def _start_topics(world: World, restored: Restored) -> None:
    """Let durable subscriptions go on, and publications wait for them; one that all have is withdrawn."""
    stored = [_restore_publication(world, publication) for publication in restored.publications]
    for record in restored.subscriptions:
        topic = world.topics.topic_of_old(record.topic)
        owner = world.owner(record.user, record.token)
        subscription = TopicSubscription(record.subscription_id, topic, owner, None)
        subscription.position = subscription.cursor = record.position
        subscription.acknowledged = Ranges.read(record.acknowledged).joined(topic.publications)
        subscription.last_committed = record.last_committed
        subscription.subscribed, subscription.active, subscription.ends = record.subscribed, record.active, record.ends
        subscription.expiration = record.expiration * MICROSECONDS
        held = restored.held.get(record.subscription_id)
        if held is not None:
            _withhold(world, subscription, HeldWindow(held).joined(topic.publications))
        topic.subscribers[subscription_key(subscription)] = subscription
        world.topics.arm_subscription(subscription)
        for each in topic.publications.values():
            each.remaining += subscription.wants(each)
    for publication in stored:
        world.topics.arm(publication)
    for topic in world.topics.topics.values():
        for each in list(topic.publications.values()):
            if not each.remaining:
                remove_publication(world, each)


def _withhold(world: World, subscription: TopicSubscription, window: HeldWindow) -> None:
    """Let the subscription have what of its window was released first, and not have what is held."""
    subscription.window = window
    publications = subscription.topic.publications
    for order in window.orders(publications):
        if window.withholds(order):
            publications[order].withheld += 1
            world.withheld.publications += 1
        else:
            heappush(subscription.again, order)


def _restore_publication(world: World, record: PublicationRecord) -> Publication:
    topic = world.topics.topic_of_old(record.topic)
    restored = Publication(record.publication_id, topic, world.owner(record.user, record.token))
    restored.status = record.status
    restored.is_stored = True
    restored.messages = None
    restored.count, restored.size, restored.first = record.messages, record.size, record.first
    restored.order = record.first
    restored.lifetime, restored.ends = record.lifetime, record.ends
    restored.created, restored.committed = record.created, record.committed
    restored.ustatus, restored.producer = record.ustatus, record.producer
    topic.publications[restored.order] = restored
    topic.last_order = max(topic.last_order, restored.order)
    world.topics.publications[restored.publication_id] = restored
    return restored
