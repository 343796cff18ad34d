"""SUBSCRIBE and UNSUBSCRIBE on behalf of a user, by an operator: durable subscriptions, which need nobody to be there.

That a topic's ALLOW-USER-SUBSCRIBE forbids its users to do it themselves does not bind the operator. (EntireX 9.6,
Command and Information Services, SUBSCRIBE.)
"""

from broker.block import Reply
from broker.changes import Changes
from broker.codes import BrokerError, Code, detailed
from broker.deciding import decide
from broker.decision import Busy, Decision
from broker.effects import SubscribeFor, UnsubscribeFor
from broker.publishing import check_enabled
from broker.topic import Subscription, durable_key
from broker.withdrawing import decide_end, put_subscription, subscription_record
from broker.world import World


def subscribe_for(world: World, given: SubscribeFor) -> None:
    """Let a user have what is published in a topic from now on, durably; nothing changes for who has it."""
    check_enabled(world)
    topic = world.topics.topic(given.topic)
    if not topic.attributes.allow_durable:
        text = detailed(Code.SUBSCRIBE_NOT_ALLOWED, f"{topic.name} does not allow DURABLE")
        raise BrokerError(Code.SUBSCRIBE_NOT_ALLOWED, text)
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
    subscription = Subscription(world.identifiers.next(), topic, owner, None)
    subscription.subscribed = subscription.active = world.now
    subscription.position = max(topic.last_order, world.highest) if topic.is_stored else topic.last_order
    subscription.cursor = subscription.position
    world.topics.renew(subscription, world.clocks)
    topic.coming[key] = subscription

    def apply(_: int) -> None:
        del topic.coming[key]
        topic.subscribers[key] = subscription
        for publication in topic.publications.values():
            publication.remaining += subscription.wants(publication)
        world.topics.arm_subscription(subscription)
        world.answer(given.handle, Reply(topic=topic.name))

    changes = Changes(puts=[put_subscription(subscription_record(subscription))])
    decision = Decision(apply, (subscription,), given.handle, code=Code.DURABLE_WITHOUT_STORE)
    decision.undo = lambda: world.topics.refuse(subscription)
    decide(world, changes, decision)


def unsubscribe_for(world: World, given: UnsubscribeFor) -> None:
    """Let a user have nothing more of a topic that it has subscribed durably. UOW_NOT_FOUND when it has not."""
    check_enabled(world)
    topic = world.topics.topic(given.topic)
    found = topic.subscribers.get(f"d{given.user}\0{given.token}")
    if found is None:
        who = f"{given.user} has no durable subscription of {topic.name}"
        raise BrokerError(Code.UOW_NOT_FOUND, detailed(Code.UOW_NOT_FOUND, who))
    if found.is_pending:
        raise Busy(found)

    def apply(_: int) -> None:
        world.answer(given.handle, Reply(topic=topic.name))

    decide_end(world, found, Decision(apply, (), given.handle, code=Code.DURABLE_WITHOUT_STORE))
