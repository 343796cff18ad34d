"""Publications that go: everybody has them, or their lifetime is over; and subscriptions that end."""

from collections.abc import Collection, Iterable, Sequence

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.participant import with_subscription
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topics import Past, Publication, Topic, TopicSubscription, subscription_key
from oms_journal.broker.kernel.state.unit import Name
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.hold import HeldWindow
from oms_journal.broker.records import (
    HELD,
    HELDS,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    Flag,
    PublicationRecord,
    Status,
    SubscriptionRecord,
)
from oms_journal.broker.store.changes import Changes, Put, merge

REMOVED_AT_ONCE = 1000  # publications in one commit
PAST_MAX = 10_000  # last publications, by topic and publisher, that can still be told of once they are gone


def publication_record(publication: Publication, status: Status) -> PublicationRecord:
    return PublicationRecord(
        publication.publication_id,
        status,
        Flag.PERSISTENT,
        publication.count,
        publication.size,
        publication.lifetime,
        publication.created,
        publication.committed,
        publication.first,
        publication.ends,
        publication.owner.user,
        publication.owner.token,
        publication.topic.name,
        publication.ustatus,
        publication.producer,
    )


def put_publication(record: PublicationRecord, *, is_new: bool = False) -> Put:
    """Return the record to be written; of a new one the store fills in the number of the first message."""
    at = {PUBLICATION.offset("first"): 0} if is_new else {}
    return Put(PUBLICATIONS + record.publication_id, PUBLICATION.encode(record), at)


def subscription_record(subscription: TopicSubscription) -> SubscriptionRecord:
    return SubscriptionRecord(
        subscription.subscription_id,
        subscription.subscribed,
        subscription.active,
        subscription.position,
        subscription.last_committed,
        subscription.ends,
        subscription.expiration // MICROSECONDS,
        subscription.owner.user,
        subscription.owner.token,
        subscription.topic.name,
        subscription.acknowledged.numbers(),
    )


def put_subscription(record: SubscriptionRecord) -> Put:
    return Put(SUBSCRIPTIONS + record.subscription_id, SUBSCRIPTION.encode(record))


def removal(publication: Publication, *, is_delivered: bool) -> Changes:
    """Return what removes a publication from the store."""
    if not publication.is_stored:
        return Changes()
    numbers = [publication.numbers()]
    return Changes(
        drops=[PUBLICATIONS + publication.publication_id],
        delivered=numbers if is_delivered else (),
        deleted=() if is_delivered else numbers,
    )


def forget_publication(world: World, publication: Publication, status: Status) -> None:
    """Know a publication no longer, but as its publisher's last one."""
    topic, owner = publication.topic, publication.owner
    world.topics.leave(publication)
    if publication.is_stored and publication.messages is not None:
        world.kept_bytes -= publication.size
        publication.messages = None
    topic.ended += publication.status is Status.ACCEPTED
    publication.status = status
    _remember(world, publication)
    world.forget_idle(owner)


def _remember(world: World, publication: Publication) -> None:
    """Let its publisher be told of it, as long as it is the last one there."""
    topic, owner, known = publication.topic, publication.owner, world.topics.past
    last = Past(
        publication.publication_id,
        publication.status,
        publication.ustatus,
        topic.name,
        topic.is_stored,
        topic.attributes.allow_durable,
    )
    name = (topic.name, owner.user, owner.token)
    known[name] = max(known.pop(name, last), last)
    if len(known) > PAST_MAX:
        known.popitem(last=False)


def one_less(world: World, publication: Publication) -> None:
    """A subscriber less is to have the publication; the last one gone, it is removed, if it is not being removed."""
    publication.remaining -= 1
    _let_go_of_unwanted(world, publication)


def leave(publications: Iterable[Publication]) -> None:
    """Note that publications are being removed: the store removes nothing twice."""
    for publication in publications:
        publication.is_leaving = True


def stay(world: World, publications: Iterable[Publication]) -> None:
    """Note that the store has not removed them; those that nobody is to have any more are removed anew."""
    for publication in publications:
        publication.is_leaving = False
        _let_go_of_unwanted(world, publication)


def _let_go_of_unwanted(world: World, publication: Publication) -> None:
    is_there = publication.status is Status.ACCEPTED and not publication.is_leaving
    if is_there and not publication.remaining:
        remove_publication(world, publication)


def remove_publication(world: World, publication: Publication) -> None:
    """Remove a publication that everybody has."""
    forget_publication(world, publication, Status.PROCESSED)
    if publication.is_stored:
        publication.topic.done.append(publication)
        if publication.topic not in world.topics.sweeping:
            world.topics.sweeping.append(publication.topic)


def remove_done(world: World, topic: Topic) -> None:
    """Let the store forget what everybody has."""
    batch, topic.done = topic.done[:REMOVED_AT_ONCE], topic.done[REMOVED_AT_ONCE:]
    if not batch:
        return

    def again(_: int = 0) -> None:
        world.topics.arrived(topic)
        if topic.done and topic not in world.topics.sweeping:
            world.topics.sweeping.append(topic)

    def undo() -> None:
        topic.done = [*batch, *topic.done]
        world.topics.arrived(topic)

    topic.under_way += 1
    try:
        changes = merge(removal(each, is_delivered=True) for each in batch)
        decide(world, changes, Decision(again, undo=undo))
    except BrokerError:
        return  # it is tried again when the store is back


class ResumedLifetimes:
    """Publications that a subscription has no longer held: their lifetimes go on with the last one that had."""

    def __init__(self, world: World, subscription: TopicSubscription, orders: Sequence[int]) -> None:
        self._world = world
        self._freed = [subscription.topic.publications[order] for order in orders]
        self.last = [each for each in self._freed if each.withheld == 1]
        for each in self.last:
            if each.is_pending:
                raise Busy(each)
        clock = world.clocks.persistent
        self._ends = [world.withheld.ends_after(each.ends, clock) for each in self.last]

    def changes(self, gone: Collection[Publication] = ()) -> Changes:
        """Return the records of those that come to an end one day, and are not gone with it."""
        ending = ((each, end) for each, end in zip(self.last, self._ends, strict=True) if end)
        lasting = ((each, end) for each, end in ending if each not in gone)
        records = [publication_record(each, each.status)._replace(ends=end) for each, end in lasting]
        return Changes(puts=[put_publication(record) for record in records])

    def apply(self) -> None:
        self._world.withheld.publications -= len(self._freed)
        for each in self._freed:
            each.withheld -= 1
        for each, end in zip(self.last, self._ends, strict=True):
            each.ends = end
            self._world.topics.arm(each)


def window_changes(subscription: TopicSubscription, window: HeldWindow | None) -> Changes:
    """Return what is written when a subscription's window is this from now on."""
    if window is subscription.window:
        return Changes()
    key = HELDS + subscription.subscription_id
    if window is None:
        return Changes(drops=[key])
    return Changes(puts=[Put(key, HELD.encode(window.record(subscription.subscription_id)))])


def dropped(subscription: TopicSubscription) -> Changes:
    """Return what removes a durable subscription from the store."""
    held = [] if subscription.window is None else [HELDS + subscription.subscription_id]
    return Changes(drops=[SUBSCRIPTIONS + subscription.subscription_id, *held])


def decide_end(world: World, subscription: TopicSubscription, decision: Decision) -> None:
    """Let a subscription end, and then do what is decided with it."""
    window = subscription.window
    orders = [] if window is None else window.withheld(subscription.topic.publications)
    going_on, then = ResumedLifetimes(world, subscription, orders), decision.apply

    def apply(first: int) -> None:
        going_on.apply()
        end_subscription(world, subscription)
        then(first)

    decision.apply = apply
    decision.locks = (subscription, *going_on.last)
    changes = merge([going_on.changes(), dropped(subscription)]) if subscription.is_durable else Changes()
    decide(world, changes, decision)


def end_subscription(world: World, subscription: TopicSubscription) -> None:
    """Know a subscription no longer; what only it was still to have goes."""
    topic = subscription.topic
    for parked in list(world.parking.at(with_subscription(subscription))):
        world.parking.remove(parked)
        world.refuse(parked.call.handle, Code.UOW_NOT_FOUND, f"Subscription not found: yours of {topic.name} was ended")
    del topic.subscribers[subscription_key(subscription)]
    world.topics.disarm_subscription(subscription)
    for publication in list(topic.publications.values()):
        if subscription.wants(publication):
            one_less(world, publication)
    for name in subscription.users:
        _part_from(world, name, subscription)
    world.topics.unused.see_topic(topic)
    world.forget_idle(subscription.owner)


def _part_from(world: World, name: Name, subscription: TopicSubscription) -> None:
    """Let a participant have the topic among its own no longer, unless it has another subscription there."""
    participant, topic = world.participants.get(name), subscription.topic
    if participant is not None:
        label = subscription.label_of(participant.owner)
        left = topic.subscription_of(participant.owner, name, label)
        if left is None or name not in left.users:
            participant.topics.pop((topic.name, label), None)


# What time ends.


def expire(world: World) -> None:
    """End publications whose lifetime is over, and subscriptions nobody has used for too long."""
    topics, clocks = world.topics, world.clocks
    for each in topics.overdue(topics.passing, clocks.volatile):
        if isinstance(each, Publication):
            forget_publication(world, each, Status.TIMEOUT)
        elif _is_unused(world, each, clocks.volatile):
            end_subscription(world, each)
    if world.is_store_up and not topics.is_ending:
        _expire_lasting(world)


def _is_unused(world: World, subscription: TopicSubscription, clock: int) -> bool:
    """Say whether nobody has used the subscription up to now; else it is looked at again later."""
    if subscription.is_held() or any(True for _ in world.parking.at(with_subscription(subscription))):
        world.topics.renew(subscription, world.clocks)
    world.topics.arm_subscription(subscription)
    return bool(subscription.due) and subscription.due <= clock and not subscription.is_pending


def _expire_lasting(world: World) -> None:
    topics, clock = world.topics, world.clocks.persistent
    ended = [
        each
        for each in topics.overdue(topics.lasting, clock)
        if not each.is_pending and (isinstance(each, Publication) or _is_unused(world, each, clock))
    ][:REMOVED_AT_ONCE]
    if not ended:
        return

    publications = [each for each in ended if isinstance(each, Publication)]

    def apply(_: int = 0) -> None:
        topics.is_ending = False
        for each in ended:
            if isinstance(each, Publication):
                forget_publication(world, each, Status.TIMEOUT)
            else:
                end_subscription(world, each)
        expire(world)

    def undo() -> None:
        topics.is_ending = False
        stay(world, publications)

    topics.is_ending = True
    leave(publications)
    decide(world, merge(map(_end, ended)), Decision(apply, ended, undo=undo))


def _end(ended: Publication | TopicSubscription) -> Changes:
    if isinstance(ended, Publication):
        return removal(ended, is_delivered=False)
    return dropped(ended)
