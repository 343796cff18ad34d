"""Topics, their subscribers and publications, as rows: who has how far come."""

from dataclasses import dataclass

from oms_journal.broker.admin.questions import PageSteps, Query, left_of, page_of, seconds_of, time_of
from oms_journal.broker.kernel.state.participant import with_subscription
from oms_journal.broker.kernel.state.topics import Publication, Topic, TopicSubscription
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic that was used since the start, or that something is left of; `unused_names.py` says which are forgotten.

    `largest_lag` is how many publications that subscriber has not acknowledged who is furthest behind; `published` and
    `ended` are counted since the start, or since it was last forgotten.
    """

    topic: str
    publications: int
    subscribers: int
    durable_subscribers: int
    stored: bool
    oldest: str | None
    oldest_age: float | None
    largest_lag: int
    published: int
    ended: int
    allow_durable: bool
    publication_lifetime: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberRow:
    """Who has a topic's publications. `lag` counts those not acknowledged, `outstanding` those being received.

    `held` ones of those not acknowledged are held since the store was restored from a backup, until RELEASE.
    """

    topic: str
    user_id: str
    token: str
    subscription_id: str
    durable: bool
    subscribed: str | None
    active: str | None
    ends_in: float | None
    lag: int
    outstanding: int
    held: int
    last_committed: str
    calls_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRow:
    """A publication. `remaining` are the subscribers who have not acknowledged it; for `held` of them it is held."""

    publication_id: str
    topic: str
    user_id: str
    token: str
    status: str
    messages: int
    size: int
    created: str | None
    committed: str | None
    ends_in: float | None
    remaining: int
    held: int
    stored: bool
    producer: str


def topics(world: World, question: Query) -> PageSteps:
    """Return the topics, by their names."""
    is_topic, known = question.fits("topic"), world.topics.topics

    def row(name: str) -> TopicRow | None:
        found = known.get(name)
        return topic_row(world, found) if found is not None else None

    keys = [name for name in known if is_topic(name)]
    return page_of(question, keys, row, total=len(keys))


def topic_row(world: World, topic: Topic) -> TopicRow:
    """Return what there is to be said of one topic."""
    publications, subscribers = topic.publications, topic.subscribers.values()
    oldest = publications.peekitem(0)[1].committed if publications else 0
    return TopicRow(
        topic=topic.name,
        publications=len(publications),
        subscribers=len(subscribers),
        durable_subscribers=sum(each.is_durable for each in subscribers),
        stored=topic.is_stored,
        oldest=time_of(oldest),
        oldest_age=max(world.now - oldest, 0) / 1_000_000 if oldest else None,
        largest_lag=max(map(lag_of, subscribers), default=0) if publications else 0,
        published=topic.published,
        ended=topic.ended,
        allow_durable=topic.attributes.allow_durable,
        publication_lifetime=seconds_of(topic.attributes.publication_lifetime),
    )


def lag_of(subscription: TopicSubscription) -> int:
    """Return how many publications there are that it is to have and has not acknowledged."""
    publications = subscription.topic.publications
    behind = len(publications) - publications.bisect_right(subscription.position)
    behind -= subscription.acknowledged.count(publications)
    return behind if subscription.window is None else behind + len(subscription.window.orders(publications))


def subscribers(world: World, question: Query) -> PageSteps:
    """Return the subscribers, by topic."""
    is_topic, is_user, is_token = (question.fits(name) for name in ("topic", "user_id", "token"))
    is_durable, known = question.fits("durable"), world.topics.subscriptions

    def row(key: tuple[str, str]) -> SubscriberRow | None:
        found = known.get(key[1])
        return _subscriber_row(world, found) if found is not None else None

    keys = [
        (each.topic.name, each.subscription_id)
        for each in known.values()
        if is_topic(each.topic.name)
        and is_user(each.owner.user)
        and is_token(each.owner.token)
        and is_durable("true" if each.is_durable else "false")
    ]
    return page_of(question, keys, row, total=len(keys))


def _subscriber_row(world: World, found: TopicSubscription) -> SubscriberRow:
    clock = world.clocks.persistent if found.is_durable else world.clocks.volatile
    return SubscriberRow(
        topic=found.topic.name,
        user_id=found.owner.user,
        token=found.owner.token,
        subscription_id=found.subscription_id,
        durable=found.is_durable,
        subscribed=time_of(found.subscribed),
        active=time_of(found.active),
        ends_in=left_of(found.ends, clock),
        lag=lag_of(found),
        outstanding=len(found.outstanding),
        held=0 if found.window is None else len(found.window.withheld(found.topic.publications)),
        last_committed=found.last_committed,
        calls_waiting=world.parking.count_at(with_subscription(found)),
    )


def publications(world: World, question: Query) -> PageSteps:
    """Return the publications, by their identifiers: those that are being published too."""
    names = ("publication_id", "topic", "user_id", "token")
    is_one, is_topic, is_user, is_token = (question.fits(name) for name in names)
    statuses = question.statuses()
    known = world.topics.publications

    def row(publication_id: str) -> PublicationRow | None:
        found = known.get(publication_id)
        if found is None or not (is_topic(found.topic.name) and (statuses is None or found.status in statuses)):
            return None
        if not (is_user(found.owner.user) and is_token(found.owner.token)):
            return None
        return _publication_row(world, found)

    keys = [publication_id for publication_id in known if is_one(publication_id)]
    is_counted = question.selectors.keys() <= {"publication_id"}
    return page_of(question, keys, row, total=len(keys) if is_counted else None)


def _publication_row(world: World, found: Publication) -> PublicationRow:
    clock = world.clocks.persistent if found.is_stored else world.clocks.volatile
    return PublicationRow(
        publication_id=found.publication_id,
        topic=found.topic.name,
        user_id=found.owner.user,
        token=found.owner.token,
        status=found.status.name,
        messages=found.count,
        size=found.size,
        created=time_of(found.created),
        committed=time_of(found.committed),
        ends_in=left_of(found.ends, clock) if found.status is Status.ACCEPTED else None,
        remaining=found.remaining,
        held=found.withheld,
        stored=found.is_stored,
        producer=found.producer,
    )
