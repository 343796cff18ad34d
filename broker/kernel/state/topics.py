"""All topics, what is published to them and who subscribes: the kernel's state of publish and subscribe.

A topic: its publications in the order of their commits, and who subscribes to it.

A subscriber gets what is committed after it has subscribed. A publication goes when the last of those
who were to have it has acknowledged it, or when its lifetime is over.

A participant can have several subscriptions to a topic, which its calls tell apart by a label:

label      the subscription
""         its only one, or the durable one of its user and TOKEN
/NAME      the durable one of its user and the TOKEN followed by /NAME
\\0...     another one that lasts as long as the participant is there, at one connection
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, MutableMapping
from heapq import heappop, heappush
from typing import NamedTuple

from sortedcontainers import SortedDict

from oms_journal.broker.attributes.attributes import Attributes, TopicAttributes
from oms_journal.broker.block import Store
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import ends
from oms_journal.broker.kernel.state.clock import Clocks
from oms_journal.broker.kernel.state.decision import Lockable
from oms_journal.broker.kernel.state.unit import Name, Owner
from oms_journal.broker.kernel.state.unused_names import UnusedNames, stays
from oms_journal.broker.kernel.tables.hold import HeldWindow
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.kernel.tables.ranges import NONE, NUMBERS_MAX, Ranges
from oms_journal.broker.queues import TopicQueue
from oms_journal.broker.records import Status, identifier
from oms_journal.broker.store.changes import NewMessage


class Publication(Lockable):
    """One or more messages that become visible to subscribers together."""

    __slots__ = (
        "attempts",
        "committed",
        "count",
        "created",
        "due",
        "ends",
        "first",
        "inflight",
        "is_leaving",
        "is_stored",
        "lifetime",
        "messages",
        "order",
        "owner",
        "producer",
        "publication_id",
        "remaining",
        "size",
        "status",
        "topic",
        "ustatus",
        "withheld",
        "writer",
    )

    def __init__(self, publication_id: str, topic: "Topic", owner: Owner) -> None:
        super().__init__()
        self.publication_id = publication_id
        self.topic = topic
        self.owner = owner
        self.status = Status.RECEIVED
        self.is_stored = False  # the store has its messages
        self.is_leaving = False  # its removal is on its way to the store
        self.messages: list[NewMessage] | None = []  # None: only the store has them
        self.count = 0
        self.size = 0
        self.first = 0  # number of the first message in the store
        self.order = 0  # its place among the topic's
        self.remaining = 0  # subscribers that have not acknowledged it
        self.withheld = 0  # subscriptions that it is held for; its lifetime stands still
        self.inflight = 0  # acknowledgements on their way to the store
        self.attempts: dict[TopicSubscription, int] | None = None  # how often those have given it back who have
        self.lifetime = 0  # seconds, 0 for no end
        self.ends = 0
        self.due = 0  # its key in the order of such ends
        self.created = 0
        self.committed = 0
        self.ustatus = ""
        self.producer = ""
        self.writer: Name | None = None  # the participant who was last at it before its commit, and takes it along

    def numbers(self) -> range:
        return range(self.first, self.first + self.count) if self.is_stored else range(0)


class Outstanding(NamedTuple):
    """A publication that was handed out and is not acknowledged."""

    given: int  # messages that were handed out
    reader: Name  # the participant who got the last of them; a user without TOKEN can be several


class TopicSubscription(Lockable):
    """Who gets a topic's publications, and how far that one is."""

    __slots__ = (
        "acknowledged",
        "active",
        "again",
        "cursor",
        "delayed",
        "due",
        "ends",
        "expiration",
        "is_durable",
        "label",
        "last_committed",
        "name",
        "outstanding",
        "owner",
        "position",
        "subscribed",
        "subscription_id",
        "topic",
        "users",
        "window",
    )

    def __init__(self, subscription_id: str, topic: "Topic", owner: Owner, name: Name | None, label: str = "") -> None:
        super().__init__()
        self.subscription_id = subscription_id
        self.topic = topic
        self.owner = owner
        self.name = name  # of the participant whose it is while that one is there; None for a durable one
        self.label = label  # by which that participant tells it apart; a durable one's is in its owner's TOKEN
        self.is_durable = name is None
        self.users: set[Name] = set()  # participants among whose topics it is
        self.window: HeldWindow | None = None  # up to the position: what is held since the store was restored, or was
        self.position = 0  # all up to this order is done with, or was before its time; or is in the window
        self.acknowledged: Ranges = NONE  # behind the position, and done with as well
        self.cursor = 0  # the newest that was handed out
        self.again: list[int] = []  # older ones that are to be handed out again, a heap
        self.delayed = 0  # how many more are to be, once their delay is over
        self.outstanding: dict[int, Outstanding] = {}  # by order
        self.last_committed = ""
        self.subscribed = 0
        self.active = 0
        self.ends = 0  # when it expires; a durable one on the pseudo-clock
        self.expiration = 0  # how long after its last use, microseconds; as its attributes said then, 0 for never
        self.due = 0

    def label_of(self, owner: Owner) -> str:
        """Return by what label a participant of this owner calls it."""
        return self.owner.token.removeprefix(owner.token) if self.is_durable else self.label

    def next(self) -> Publication | None:
        """Return the publication that is handed out next; None when there is none, or it would be too far ahead.

        What it is done with out of turn is always written, since each acknowledgement takes at most one number more:
        so many publications are handed out as there are numbers left, and further ones once older ones are done with.
        """
        publications = self.topic.publications
        while self.again and not self._is_wanted(self.again[0]):
            heappop(self.again)
        if self.again:
            found: Publication = publications[self.again[0]]
            return None if self._is_window_full(found.order) else found
        order, done = max(self.cursor, self.position), self.acknowledged
        while (at := publications.bisect_right(order)) < len(publications):
            order, publication = publications.peekitem(at)
            end = done.end_of(order)
            if not end:
                open_ones = len(self.outstanding) + self.delayed
                return None if order > done.last and done.size + open_ones >= NUMBERS_MAX else publication
            order = end
        return None

    def _is_window_full(self, order: int) -> bool:
        """Say whether it is too far ahead in its window, in which older ones may be held."""
        window, ahead = self.window, len(self.outstanding)
        return window is not None and order <= window.last and ahead > 0 and window.size + ahead >= NUMBERS_MAX

    def _is_wanted(self, order: int) -> bool:
        """Say whether what was given back is there, and was not acknowledged by another of its owner's meanwhile."""
        publication = self.topic.publications.get(order)
        return publication is not None and self.wants(publication)

    def begin(self, order: int, reader: Name) -> None:
        """Note that a publication is being handed out."""
        if self.again and self.again[0] == order:
            heappop(self.again)
        self.cursor = max(self.cursor, order)
        self.outstanding[order] = Outstanding(0, reader)

    def come_again(self, order: int) -> None:
        """Let what was given back be handed out again, before newer ones."""
        heappush(self.again, order)

    def of_reader(self, reader: Name) -> list[int]:
        """Return what the reader has, as it came."""
        return [order for order, reading in self.outstanding.items() if reading.reader == reader]

    def after_acknowledging(self, orders: Iterable[int]) -> tuple[int, Ranges]:
        """Return the position and what is done with behind it, once these are."""
        publications = self.topic.publications
        done = self.acknowledged.adding((order for order in orders if order > self.position), publications)
        position = done.reached(self.position, publications)
        return position, done.behind(position)

    def is_held(self) -> bool:
        """Something is held for it since the store was restored."""
        return self.window is not None and self.window.holds_any(self.topic.publications)

    def wants(self, publication: Publication) -> bool:
        """It is to have the publication, held or not, and has not acknowledged it."""
        order = publication.order
        if order > self.position:
            return order not in self.acknowledged
        return self.window is not None and self.window.wants(order)


class Topic:
    """What can be published to, and who subscribes to it."""

    __slots__ = (
        "attributes",
        "coming",
        "done",
        "ended",
        "is_lasting",
        "is_stored",
        "last_order",
        "name",
        "publications",
        "published",
        "queue",
        "subscribers",
        "under_way",
    )

    def __init__(self, name: str, attributes: TopicAttributes, *, has_store: bool, is_lasting: bool = True) -> None:
        self.name = name
        self.attributes = attributes
        self.is_lasting = is_lasting  # it stays though nothing is left of it
        self.is_stored = has_store and attributes.store is Store.BROKER
        self.queue = str(TopicQueue(name))
        self.publications: SortedDict[int, Publication] = SortedDict()  # committed ones, by their order
        self.subscribers: dict[str, TopicSubscription] = {}
        self.coming: dict[str, TopicSubscription] = {}  # on their way to the store, or becoming durable
        self.last_order = 0
        self.published = 0  # publications that were committed since the start
        self.ended = 0  # of those and of earlier ones: everybody has them, or their time was over
        self.done: list[Publication] = []  # that every subscriber has; they are still in the store
        self.under_way = 0  # publications that are not committed, and what of it is on its way to the store

    @property
    def is_unused(self) -> bool:
        """Nobody subscribes to it, and nothing is published to it or about to leave the store."""
        return not (self.subscribers or self.coming or self.publications or self.done or self.under_way)

    def add_to(self, sums: MutableMapping[str, int]) -> None:
        """Add what was counted here to the sums of what is forgotten."""
        sums["published"] += self.published
        sums["ended"] += self.ended

    @property
    def subscription_expiration(self) -> int:
        """How long after its last use a durable subscription expires, microseconds; 0 for never."""
        return self.attributes.subscription_expiration or 0

    def subscription_of(self, owner: Owner, name: Name, label: str) -> TopicSubscription | None:
        """Return what a participant has subscribed for as long as it is there, else its user durably, here or not."""
        passing = self.subscribers.get(passing_key(name, label))
        return passing if passing is not None else self.subscribers.get(durable_key(owner, label))

    def wanting(self, publication: Publication) -> Iterator[TopicSubscription]:
        return (each for each in self.subscribers.values() if each.wants(publication))


def durable_key(owner: Owner, label: str = "") -> str:
    return f"d{owner.user}\0{owner.token}{label}"


def passing_key(name: Name, label: str) -> str:
    return f"p{name[0]}\0{name[1]}\0{name[2]}{label}"


def subscription_key(subscription: TopicSubscription) -> str:
    """Return under what its topic knows a subscription."""
    name = subscription.name
    return durable_key(subscription.owner) if name is None else passing_key(name, subscription.label)


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

    def __init__(self, attributes: Attributes, unused: UnusedNames, *, has_store: bool) -> None:
        self._attributes = attributes
        self.unused = unused
        self._has_store = has_store
        self.topics: dict[str, Topic] = {}
        self.publications: dict[str, Publication] = {}
        self.subscriptions: dict[str, TopicSubscription] = {}
        self.uncommitted: dict[tuple[str, str], dict[str, Publication]] = {}  # by whose they are
        self.lasting = KeyedOrder()  # ends of stored publications and durable subscriptions, on the pseudo-clock
        self.passing = KeyedOrder()  # of others, on the second count
        # The last ones that are gone, by topic and whose they were.
        self.past: OrderedDict[tuple[str, str, str], Past] = OrderedDict()
        self.is_ending = False  # some are on their way out
        # Heap: when, on the second count, which subscription has what again.
        self.later: list[tuple[int, str, int]] = []
        self.published: deque[Topic] = deque()  # have something for who waits
        self.ready: deque[TopicSubscription] = deque()  # may have: they had nothing, or got something back
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

    def _of(self, publication: Publication) -> KeyedOrder:
        return self.lasting if publication.is_stored else self.passing

    # Subscriptions.

    def end_of(self, subscription: TopicSubscription, clocks: Clocks) -> int:
        """Return when a subscription expires that is used now, on its clock."""
        if not subscription.is_durable:
            return ends(clocks.volatile, subscription.topic.attributes.subscriber_nonact)
        return ends(clocks.persistent, subscription.topic.subscription_expiration)

    def renew(self, subscription: TopicSubscription, clocks: Clocks) -> None:
        """Note that a subscription is used: when it expires now, and after how long."""
        subscription.ends = self.end_of(subscription, clocks)
        subscription.expiration = subscription.topic.subscription_expiration

    def arm_subscription(self, subscription: TopicSubscription) -> None:
        """Let the subscription be looked at when it may have expired."""
        self.subscriptions[subscription.subscription_id] = subscription
        self._unarm(subscription)
        subscription.due = 0 if subscription.is_held() else subscription.ends
        if subscription.due:
            self._of_subscription(subscription).add(subscription.due, int(subscription.subscription_id, 16))

    def refuse(self, subscription: TopicSubscription) -> None:
        """Note that a subscription that was on its way does not come, or does not become durable."""
        topic = subscription.topic
        topic.coming.pop(durable_key(subscription.owner), None)
        self.unused.see_topic(topic)

    def disarm_subscription(self, subscription: TopicSubscription) -> None:
        """Know a subscription no longer."""
        del self.subscriptions[subscription.subscription_id]
        self._unarm(subscription)

    def _unarm(self, subscription: TopicSubscription) -> None:
        if subscription.due:
            self._of_subscription(subscription).remove(subscription.due, int(subscription.subscription_id, 16))
            subscription.due = 0

    def _of_subscription(self, subscription: TopicSubscription) -> KeyedOrder:
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

    def overdue(self, order: KeyedOrder, clock: int) -> Iterator[Publication | TopicSubscription]:
        """Yield what is due; it may be changed meanwhile."""
        for number in [number for _, number in order.up_to(clock)]:
            name = identifier(number)
            found = self.publications.get(name) or self.subscriptions.get(name)
            if found is not None:
                yield found
