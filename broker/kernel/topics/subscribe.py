"""SUBSCRIBE and UNSUBSCRIBE on behalf of a user, by an operator: durable subscriptions, which need nobody to be there.

That a topic's ALLOW-USER-SUBSCRIBE forbids its users to do it themselves does not bind the operator. (EntireX 9.6,
Command and Information Services, SUBSCRIBE.)

A subscription begins, or becomes durable: for who calls, or for whom an operator names.

A durable one is there once the store has it. Until then calls about it wait: those of its owner find what became of it.
"""

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.durations import MICROSECONDS, ends
from oms_journal.broker.kernel.state.decision import Apply, Busy, Decision
from oms_journal.broker.kernel.state.effects import SubscribeFor, UnsubscribeFor
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topics import Topic, TopicSubscription, durable_key, subscription_key
from oms_journal.broker.kernel.state.unit import Name, Owner
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.publish import check_enabled
from oms_journal.broker.kernel.topics.removal import decide_end, put_subscription, subscription_record
from oms_journal.broker.store.changes import Changes


def new_subscription(world: World, topic: Topic, owner: Owner, name: Name | None, label: str = "") -> TopicSubscription:
    """Return a subscription of a participant, or a durable one without a name, to what is committed from now on."""
    subscription = TopicSubscription(world.identifiers.next(), topic, owner, name, label)
    subscription.subscribed = subscription.active = world.now
    subscription.position = max(topic.last_order, world.highest) if topic.is_stored else topic.last_order
    subscription.cursor = subscription.position
    world.topics.renew(subscription, world.present)
    return subscription


def begin_subscription(world: World, subscription: TopicSubscription, decision: Decision) -> None:
    """Let a new subscription be, and then do what is decided with it."""
    topic, key, then = subscription.topic, subscription_key(subscription), decision.apply

    def apply(first: int) -> None:
        topic.subscribers[key] = subscription
        for publication in topic.publications.values():
            publication.remaining += subscription.wants(publication)
        world.topics.arm_subscription(subscription)
        then(first)

    if subscription.is_durable:
        _write(
            world, subscription, Changes(puts=[put_subscription(subscription_record(subscription))]), decision, apply
        )
        return
    decision.apply = apply
    decide(world, Changes(), decision)


def make_subscription_durable(world: World, subscription: TopicSubscription, decision: Decision) -> None:
    """Let a subscription outlive its participant, and then do what is decided with it.

    It stays the same one: whoever waits for its publications goes on waiting, and what was handed out can be
    acknowledged.
    """
    topic, then = subscription.topic, decision.apply

    def apply(first: int) -> None:
        del topic.subscribers[subscription_key(subscription)]
        world.topics.disarm_subscription(subscription)
        subscription.name, subscription.is_durable = None, True
        topic.subscribers[subscription_key(subscription)] = subscription
        subscription.active = world.now
        world.topics.renew(subscription, world.clocks)
        world.topics.arm_subscription(subscription)
        then(first)

    record = subscription_record(subscription)._replace(
        active=world.now,
        ends=ends(world.present.persistent, topic.subscription_expiration),
        expiration=topic.subscription_expiration // MICROSECONDS,
    )
    _write(world, subscription, Changes(puts=[put_subscription(record)]), decision, apply)


def _write(world: World, subscription: TopicSubscription, changes: Changes, decision: Decision, apply: Apply) -> None:
    """Let a durable subscription come once it is written; meanwhile its owner gets no other one."""
    coming, key = subscription.topic.coming, durable_key(subscription.owner)

    def arrive(first: int) -> None:
        del coming[key]
        apply(first)

    coming[key] = subscription
    decision.apply, decision.locks = arrive, (subscription,)
    decision.undo = lambda: world.topics.refuse(subscription)
    decide(world, changes, decision)


def subscribe_for(world: World, given: SubscribeFor) -> None:
    """Let a user have what is published in a topic from now on, durably; nothing changes for who has it."""
    check_enabled(world)
    topic = world.topics.topic(given.topic)
    if not topic.attributes.allow_durable:
        raise refuse(Code.SUBSCRIBE_NOT_ALLOWED, f"{topic.name} does not allow DURABLE")
    if world.attributes.broker.subscriber_store != "PSTORE" or not world.has_store:
        raise BrokerError(Code.DURABLE_WITHOUT_STORE)
    owner = world.owner(given.user, given.token)
    key = durable_key(owner)
    if key in topic.coming:
        raise Busy(topic.coming[key])
    known = topic.subscribers.get(key)
    if known is not None:
        world.answer(given.handle, Reply(topic=topic.name))
        return

    def apply(_: int) -> None:
        world.answer(given.handle, Reply(topic=topic.name))

    subscription = new_subscription(world, topic, owner, None)
    begin_subscription(world, subscription, Decision(apply, (), given.handle, code=Code.DURABLE_WITHOUT_STORE))


def unsubscribe_for(world: World, given: UnsubscribeFor) -> None:
    """Let a user have nothing more of a topic that it has subscribed durably. UOW_NOT_FOUND when it has not."""
    check_enabled(world)
    topic = world.topics.topic(given.topic)
    key = f"d{given.user}\0{given.token}"
    found = topic.coming.get(key) or topic.subscribers.get(key)
    if found is None:
        text = f"Subscription not found: {given.user} has no durable subscription of {topic.name}"
        raise BrokerError(Code.UOW_NOT_FOUND, text)
    if found.is_pending:
        raise Busy(found)

    def apply(_: int) -> None:
        world.answer(given.handle, Reply(topic=topic.name))

    decide_end(world, found, Decision(apply, (), given.handle, code=Code.DURABLE_WITHOUT_STORE))
