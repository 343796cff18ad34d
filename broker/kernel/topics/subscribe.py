"""SUBSCRIBE and UNSUBSCRIBE on behalf of a user, by an operator: durable subscriptions, which need nobody to be there.

That a topic's ALLOW-USER-SUBSCRIBE forbids its users to do it themselves does not bind the operator. (EntireX 9.6,
Command and Information Services, SUBSCRIBE.)
"""

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import BrokerError, Code, detailed
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import SubscribeFor, UnsubscribeFor
from oms_journal.broker.kernel.state.topic import durable_key
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.enrolling import begin_subscription, new_subscription
from oms_journal.broker.kernel.topics.publish import check_enabled
from oms_journal.broker.kernel.topics.removal import decide_end


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
