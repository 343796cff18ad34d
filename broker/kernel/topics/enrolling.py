"""A subscription begins, or becomes durable: for who calls, or for whom an operator names.

A durable one is there once the store has it. Until then calls about it wait: those of its owner find what became of it.
"""

from oms_journal.broker.durations import MICROSECONDS, ends
from oms_journal.broker.kernel.state.decision import Apply, Decision
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topic import Subscription, Topic, durable_key, key_of
from oms_journal.broker.kernel.state.unit import Name, Owner
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.removal import put_subscription, subscription_record
from oms_journal.broker.store.changes import Changes


def new_subscription(world: World, topic: Topic, owner: Owner, name: Name | None, label: str = "") -> Subscription:
    """Return a subscription of a participant, or a durable one without a name, to what is committed from now on."""
    subscription = Subscription(world.identifiers.next(), topic, owner, name, label)
    subscription.subscribed = subscription.active = world.now
    subscription.position = max(topic.last_order, world.highest) if topic.is_stored else topic.last_order
    subscription.cursor = subscription.position
    world.topics.renew(subscription, world.present)
    return subscription


def begin_subscription(world: World, subscription: Subscription, decision: Decision) -> None:
    """Let a new subscription be, and then do what is decided with it."""
    topic, key, then = subscription.topic, key_of(subscription), decision.apply

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


def make_durable(world: World, subscription: Subscription, decision: Decision) -> None:
    """Let a subscription outlive its participant, and then do what is decided with it.

    It stays the same one: whoever waits for its publications goes on waiting, and what was handed out can be
    acknowledged.
    """
    topic, then = subscription.topic, decision.apply

    def apply(first: int) -> None:
        del topic.subscribers[key_of(subscription)]
        world.topics.disarm_subscription(subscription)
        subscription.name, subscription.is_durable = None, True
        topic.subscribers[key_of(subscription)] = subscription
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


def _write(world: World, subscription: Subscription, changes: Changes, decision: Decision, apply: Apply) -> None:
    """Let a durable subscription come once it is written; meanwhile its owner gets no other one."""
    coming, key = subscription.topic.coming, durable_key(subscription.owner)

    def arrive(first: int) -> None:
        del coming[key]
        apply(first)

    coming[key] = subscription
    decision.apply, decision.held = arrive, (subscription,)
    decision.undo = lambda: world.topics.refuse(subscription)
    decide(world, changes, decision)
