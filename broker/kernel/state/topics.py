"""All topics, what is published to them and who subscribes: the kernel's state of publish and subscribe."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from heapq import heappop
from typing import NamedTuple

from oms_journal.broker.attributes.attributes import Attributes, TopicAttributes
from oms_journal.broker.block import Store
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import Clocks, ends
from oms_journal.broker.kernel.state.topic import Publication, Subscription, Topic, durable_key
from oms_journal.broker.kernel.state.unit import Owner
from oms_journal.broker.kernel.state.unused_names import Unused, stays
from oms_journal.broker.kernel.tables.order import Order
from oms_journal.broker.records import Status


class Past(NamedTuple):
    """A publisher's last publication in a topic, which is gone."""

    publication_id: str
    status: Status
    ustatus: str
    topic: str
    is_stored: bool
    allows_durable: bool


class Topics:
    """Topics, publications and subscriptions that are known."""

    def __init__(self, attributes: Attributes, unused: Unused, *, has_store: bool) -> None:
        self._attributes = attributes
        self.unused = unused
        self._has_store = has_store
        self.topics: dict[str, Topic] = {}
        self.publications: dict[str, Publication] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.uncommitted: dict[tuple[str, str], dict[str, Publication]] = {}  # by whose they are
        self.lasting = Order()  # ends of stored publications and durable subscriptions, on the pseudo-clock
        self.passing = Order()  # of others, on the second count
        # The last ones that are gone, by topic and whose they were.
        self.past: OrderedDict[tuple[str, str, str], Past] = OrderedDict()
        self.is_ending = False  # some are on their way out
        # Heap: when, on the second count, which subscription has what again.
        self.later: list[tuple[int, str, int]] = []
        self.published: deque[Topic] = deque()  # have something for who waits
        self.ready: deque[Subscription] = deque()  # may have: they could hand out nothing, or have got something back
        self.sweeping: deque[Topic] = deque()  # have publications that everybody has

    def topic(self, name: str) -> Topic:
        """Return a topic that has a name and that the attributes define; SERVICE_UNDEFINED otherwise."""
        found = self.topics.get(name)
        if found is None:
            attributes = self._attributes.topic(name) if name else None
            if attributes is None:
                text = f"no topic {name} is defined" if name else "no topic is named: TOPIC is empty"
                raise BrokerError(Code.SERVICE_UNDEFINED, text)
            is_lasting = stays(len(self.topics), is_defined=attributes.topic == name)
            found = Topic(name, attributes, has_store=self._has_store, is_lasting=is_lasting)
            self.topics[name] = found
            self.unused.see_topic(found)
        return found

    def topic_of_old(self, name: str) -> Topic:
        """Return the topic of what an earlier start has left, also when no attribute defines it any longer."""
        try:
            return self.topic(name)
        except BrokerError:
            attributes = TopicAttributes(
                topic=name,
                store=Store.BROKER,
                allow_durable=True,
                allow_user_subscribe=False,
                auto_commit_for_subscriber=False,
                subscription_expiration=None,
                publication_lifetime=self._attributes.broker.publication_lifetime,
                max_messages_in_publication=self._attributes.broker.max_messages_in_publication,
                max_publication_message_length=self._attributes.broker.max_publication_message_length,
                publisher_nonact=self._attributes.broker.publisher_nonact,
                subscriber_nonact=self._attributes.broker.subscriber_nonact,
            )
            found = self.topics[name] = Topic(name, attributes, has_store=self._has_store)
            return found

    # Publications.

    def enter(self, publication: Publication) -> None:
        """Let a publication be known that is not committed."""
        self.publications[publication.publication_id] = publication
        owner = publication.owner
        mine = self.uncommitted.setdefault((owner.user, owner.token), {})
        if publication.publication_id not in mine:
            mine[publication.publication_id] = publication
            publication.topic.under_way += 1

    def commit(self, publication: Publication) -> None:
        """Let it be one that is committed, or gone."""
        name = (publication.owner.user, publication.owner.token)
        mine = self.uncommitted.get(name, {})
        if mine.pop(publication.publication_id, None) is not None:
            self.arrived(publication.topic)
        if not mine:
            self.uncommitted.pop(name, None)

    def arrived(self, topic: Topic) -> None:
        """Note that something about a topic is under way no longer."""
        topic.under_way -= 1
        self.unused.see_topic(topic)

    def uncommitted_of(self, owner: Owner) -> list[Publication]:
        return list(self.uncommitted.get((owner.user, owner.token), {}).values())

    def arm(self, publication: Publication) -> None:
        """Let the publication's lifetime come to an end, unless it is held for somebody."""
        publication.due = 0 if publication.withheld else publication.ends
        if publication.due:
            self._of(publication).add(publication.due, int(publication.publication_id, 16))

    def leave(self, publication: Publication) -> None:
        """Know a publication no longer."""
        self.commit(publication)
        self.publications.pop(publication.publication_id, None)
        publication.topic.publications.pop(publication.order, None)
        if publication.due:
            self._of(publication).remove(publication.due, int(publication.publication_id, 16))
            publication.due = 0
        self.unused.see_topic(publication.topic)

    def _of(self, publication: Publication) -> Order:
        return self.lasting if publication.is_stored else self.passing

    # Subscriptions.

    def end_of(self, subscription: Subscription, clocks: Clocks) -> int:
        """Return when a subscription expires that is used now, on its clock."""
        if not subscription.is_durable:
            return ends(clocks.volatile, subscription.topic.attributes.subscriber_nonact)
        return ends(clocks.persistent, subscription.topic.subscription_expiration)

    def renew(self, subscription: Subscription, clocks: Clocks) -> None:
        """Note that a subscription is used: when it expires now, and after how long."""
        subscription.ends = self.end_of(subscription, clocks)
        subscription.expiration = subscription.topic.subscription_expiration

    def arm_subscription(self, subscription: Subscription) -> None:
        """Let the subscription be looked at when it may have expired."""
        self.subscriptions[subscription.subscription_id] = subscription
        self._unarm(subscription)
        subscription.due = 0 if subscription.is_held() else subscription.ends
        if subscription.due:
            self._of_subscription(subscription).add(subscription.due, int(subscription.subscription_id, 16))

    def refuse(self, subscription: Subscription) -> None:
        """Note that a subscription that was on its way does not come, or does not become durable."""
        topic = subscription.topic
        topic.coming.pop(durable_key(subscription.owner), None)
        self.unused.see_topic(topic)

    def disarm_subscription(self, subscription: Subscription) -> None:
        """Know a subscription no longer."""
        del self.subscriptions[subscription.subscription_id]
        self._unarm(subscription)

    def _unarm(self, subscription: Subscription) -> None:
        if subscription.due:
            self._of_subscription(subscription).remove(subscription.due, int(subscription.subscription_id, 16))
            subscription.due = 0

    def _of_subscription(self, subscription: Subscription) -> Order:
        return self.lasting if subscription.is_durable else self.passing

    def come_again(self, clock: int) -> None:
        """Let be handed out again what was given back, and whose delay is over."""
        while self.later and self.later[0][0] <= clock:
            _, subscription_id, order = heappop(self.later)
            subscription = self.subscriptions.get(subscription_id)
            if subscription is not None:
                subscription.delayed -= 1
                subscription.come_again(order)
                self.ready.append(subscription)

    def overdue(self, order: Order, clock: int) -> Iterator[Publication | Subscription]:
        """Yield what is due; it may be changed meanwhile."""
        for number in [number for _, number in order.up_to(clock)]:
            identifier = f"{number:016X}"
            found = self.publications.get(identifier) or self.subscriptions.get(identifier)
            if found is not None:
                yield found
