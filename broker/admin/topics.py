"""Topics, their subscribers and publications, as rows: who has how far come."""

from collections.abc import Collection
from typing import NamedTuple

from oms_journal.broker.admin.questions import (
    Columns,
    PageSteps,
    Query,
    Row,
    left_of,
    page_of,
    row_of,
    seconds_of,
    time_of,
)
from oms_journal.broker.kernel.state.participant import with_subscription
from oms_journal.broker.kernel.state.topics import Publication, Topic, TopicSubscription
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status


class TopicFacts(NamedTuple):
    """What a row of a topic is read from."""

    world: World
    topic: Topic
    subscribers: Collection[TopicSubscription]
    oldest: int  # when its oldest publication was committed


# A topic that was used since the start, or that something is left of; `unused_names.py` says which are forgotten.
#
# `largest_lag` is how many publications that subscriber has not acknowledged who is furthest behind; `published` and
# `ended` are counted since the start, or since it was last forgotten.
TOPIC_COLUMNS: Columns[TopicFacts] = {
    "topic": lambda at: at.topic.name,
    "publications": lambda at: len(at.topic.publications),
    "subscribers": lambda at: len(at.subscribers),
    "durable_subscribers": lambda at: sum(each.is_durable for each in at.subscribers),
    "stored": lambda at: at.topic.is_stored,
    "oldest": lambda at: time_of(at.oldest),
    "oldest_age": lambda at: max(at.world.now - at.oldest, 0) / 1_000_000 if at.oldest else None,
    "largest_lag": lambda at: max(map(lag_of, at.subscribers), default=0) if at.topic.publications else 0,
    "published": lambda at: at.topic.published,
    "ended": lambda at: at.topic.ended,
    "allow_durable": lambda at: at.topic.attributes.allow_durable,
    "publication_lifetime": lambda at: seconds_of(at.topic.attributes.publication_lifetime),
}


class SubscriberFacts(NamedTuple):
    """What a row of a subscriber is read from."""

    world: World
    found: TopicSubscription
    clock: int  # that its lifetime runs on


# Who has a topic's publications. `lag` counts those not acknowledged, `outstanding` those being received.
#
# `held` ones of those not acknowledged are held since the store was restored from a backup, until RELEASE.
SUBSCRIBER_COLUMNS: Columns[SubscriberFacts] = {
    "topic": lambda at: at.found.topic.name,
    "user_id": lambda at: at.found.owner.user,
    "token": lambda at: at.found.owner.token,
    "subscription_id": lambda at: at.found.subscription_id,
    "durable": lambda at: at.found.is_durable,
    "subscribed": lambda at: time_of(at.found.subscribed),
    "active": lambda at: time_of(at.found.active),
    "ends_in": lambda at: left_of(at.found.ends, at.clock),
    "lag": lambda at: lag_of(at.found),
    "outstanding": lambda at: len(at.found.outstanding),
    "held": lambda at: 0 if at.found.window is None else len(at.found.window.withheld(at.found.topic.publications)),
    "last_committed": lambda at: at.found.last_committed,
    "calls_waiting": lambda at: at.world.parking.count_at(with_subscription(at.found)),
}


class PublicationFacts(NamedTuple):
    """What a row of a publication is read from."""

    found: Publication
    clock: int  # that its lifetime runs on


# A publication. `remaining` are the subscribers who have not acknowledged it; for `held` of them it is held.
PUBLICATION_COLUMNS: Columns[PublicationFacts] = {
    "publication_id": lambda at: at.found.publication_id,
    "topic": lambda at: at.found.topic.name,
    "user_id": lambda at: at.found.owner.user,
    "token": lambda at: at.found.owner.token,
    "status": lambda at: at.found.status.name,
    "messages": lambda at: at.found.count,
    "size": lambda at: at.found.size,
    "created": lambda at: time_of(at.found.created),
    "committed": lambda at: time_of(at.found.committed),
    "ends_in": lambda at: left_of(at.found.ends, at.clock) if at.found.status is Status.ACCEPTED else None,
    "remaining": lambda at: at.found.remaining,
    "held": lambda at: at.found.withheld,
    "stored": lambda at: at.found.is_stored,
    "producer": lambda at: at.found.producer,
}


def topics(world: World, question: Query) -> PageSteps:
    """Return the topics, by their names."""
    is_topic, known = question.fits("topic"), world.topics.topics

    def row(name: str) -> Row | None:
        found = known.get(name)
        return topic_row(world, found) if found is not None else None

    keys = [name for name in known if is_topic(name)]
    return page_of(question, keys, row, total=len(keys))


def topic_row(world: World, topic: Topic) -> Row:
    """Return what there is to be said of one topic."""
    oldest = topic.publications.peekitem(0)[1].committed if topic.publications else 0
    return row_of(TOPIC_COLUMNS, TopicFacts(world, topic, topic.subscribers.values(), oldest))


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

    def row(key: tuple[str, str]) -> Row | None:
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


def _subscriber_row(world: World, found: TopicSubscription) -> Row:
    clock = world.clocks.persistent if found.is_durable else world.clocks.volatile
    return row_of(SUBSCRIBER_COLUMNS, SubscriberFacts(world, found, clock))


def publications(world: World, question: Query) -> PageSteps:
    """Return the publications, by their identifiers: those that are being published too."""
    names = ("publication_id", "topic", "user_id", "token")
    is_one, is_topic, is_user, is_token = (question.fits(name) for name in names)
    statuses = question.statuses()
    known = world.topics.publications

    def row(publication_id: str) -> Row | None:
        found = known.get(publication_id)
        if found is None or not (is_topic(found.topic.name) and (statuses is None or found.status in statuses)):
            return None
        if not (is_user(found.owner.user) and is_token(found.owner.token)):
            return None
        return _publication_row(world, found)

    keys = [publication_id for publication_id in known if is_one(publication_id)]
    is_counted = question.selectors.keys() <= {"publication_id"}
    return page_of(question, keys, row, total=len(keys) if is_counted else None)


def _publication_row(world: World, found: Publication) -> Row:
    clock = world.clocks.persistent if found.is_stored else world.clocks.volatile
    return row_of(PUBLICATION_COLUMNS, PublicationFacts(found, clock))
