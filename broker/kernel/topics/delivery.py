"""SUBSCRIBE, UNSUBSCRIBE, RECEIVE_PUBLICATION and what a subscriber does with a publication.

A durable subscription belongs to USER-ID and TOKEN, is kept by the store, and goes on where its
acknowledgements have come to. Any other lasts as long as the participant is there. One participant has several by
labels (`state/topics.py`), each of which gets every publication. What was handed out
and not acknowledged is handed out again after a BACKOUT, or to a durable subscriber that comes again; of
connections of a user without TOKEN, who share a durable subscription, each has what was handed out to it.

    RECEIVE_PUBLICATION  gets
    PUBLICATION-ID=NEW   the first message of the next publication
    PUBLICATION-ID=n     the next message of this one, until there is none
"""

from collections.abc import Callable
from heapq import heappush

from oms_journal.broker.block import NEW, Option, Reception, Reply, Request
from oms_journal.broker.codes import BrokerError, Code, about_publication, refuse
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Answer, Body, Call, Expect, Stored
from oms_journal.broker.kernel.state.participant import Participant, with_subscription
from oms_journal.broker.kernel.state.redelivery import delay
from oms_journal.broker.kernel.state.tickets import NO_STORE, decide
from oms_journal.broker.kernel.state.topics import (
    Outstanding,
    Publication,
    Topic,
    TopicSubscription,
    durable_key,
    passing_key,
    subscription_key,
)
from oms_journal.broker.kernel.state.world import World, park
from oms_journal.broker.kernel.topics.publish import (
    back_out_own,
    check_enabled,
    commit_publication,
    drop_all_uncommitted,
    reply_of_publication,
    set_user_status,
    show_last,
    show_past,
)
from oms_journal.broker.kernel.topics.removal import (
    decide_end,
    end_subscription,
    forget_publication,
    leave,
    one_less,
    put_subscription,
    removal,
    stay,
    subscription_record,
    window_changes,
)
from oms_journal.broker.kernel.topics.subscribe import begin_subscription, make_subscription_durable, new_subscription
from oms_journal.broker.records import Status
from oms_journal.broker.store.changes import Changes, merge

_NOT_RECEIVED = "you are not receiving one of this PUBLICATION-ID; with NEW you receive the next one"
_NOT_SETTLED = "{} is for its publisher while it is RECEIVED, and for a subscriber who is receiving it"


def subscribe(world: World, call: Call, participant: Participant) -> None:
    """Let a participant have what is published from now on."""
    check_enabled(world)
    topic = world.topics.topic(call.request.topic)
    if not topic.attributes.allow_user_subscribe:
        raise BrokerError(Code.SUBSCRIBE_NOT_ALLOWED)
    is_durable = call.request.option is Option.DURABLE
    if is_durable and not topic.attributes.allow_durable:
        raise refuse(Code.SUBSCRIBE_NOT_ALLOWED, f"{topic.name} does not allow DURABLE")
    if is_durable and world.attributes.broker.subscriber_store != "PSTORE":
        raise BrokerError(Code.DURABLE_WITHOUT_STORE)
    label = call.request.subscription
    known = _settled(topic, participant, label)
    if is_durable and known is not None and not known.is_durable:
        known = _replaced(world, participant, known)
    if known is not None and (known.is_durable or not is_durable):
        _renew(world, known)
        world.answer(call.handle, Reply(topic=topic.name))
        return
    subscription = known or _new(world, topic, participant, call.request)

    def apply(_: int) -> None:
        _use(participant, subscription)
        world.answer(call.handle, Reply(topic=topic.name))

    begin = begin_subscription if known is None else make_subscription_durable
    begin(world, subscription, Decision(apply, (), call.handle, participant, Code.DURABLE_WITHOUT_STORE))


def _new(world: World, topic: Topic, participant: Participant, request: Request) -> TopicSubscription:
    owner, label = participant.owner, request.subscription
    if request.option is Option.DURABLE:
        return new_subscription(world, topic, world.owner(owner.user, owner.token + label), None)
    return new_subscription(world, topic, owner, participant.name, label)


def _settled(topic: Topic, participant: Participant, label: str) -> TopicSubscription | None:
    """Return what the caller has subscribed; Busy while something about it is on its way to the store.

    So is one that is not there yet: a call that was made behind its SUBSCRIBE counts for it.
    """
    found = topic.subscription_of(participant.owner, participant.name, label)
    if found is None:
        found = topic.coming.get(durable_key(participant.owner, label))
    if found is not None and found.is_pending:
        raise Busy(found)
    return found


def _replaced(world: World, participant: Participant, subscription: TopicSubscription) -> TopicSubscription:
    """Return the durable subscription that the caller's user has from elsewhere, in the place of its own; else that."""
    topic, key = subscription.topic, durable_key(participant.owner, subscription.label)
    durable = topic.coming.get(key) or topic.subscribers.get(key)
    if durable is None:
        return subscription
    if durable.is_pending:
        raise Busy(durable)
    end_subscription(world, subscription)
    _use(participant, durable)
    return durable


def unsubscribe(world: World, call: Call, participant: Participant) -> None:
    """Let a participant have nothing more of a topic."""
    check_enabled(world)
    topic = world.topics.topic(call.request.topic)
    if not topic.attributes.allow_user_subscribe:
        raise BrokerError(Code.SUBSCRIBE_NOT_ALLOWED)
    subscription = _own(world, topic, participant, call.request.subscription)

    def apply(_: int) -> None:
        world.answer(call.handle, Reply(topic=topic.name))

    decide_end(world, subscription, Decision(apply, (), call.handle, participant, Code.DURABLE_WITHOUT_STORE))


def _own(world: World, topic: Topic, participant: Participant, label: str) -> TopicSubscription:
    """Return the caller's subscription; Busy while something about it is on its way."""
    found = _settled(topic, participant, label)
    if found is None:
        text = f"Subscription not found: you have not subscribed to {topic.name}; SUBSCRIBE first"
        raise BrokerError(Code.UOW_NOT_FOUND, text)
    _use(participant, found)
    _renew(world, found)
    return found


def _use(participant: Participant, subscription: TopicSubscription) -> None:
    """Let its topic be among the participant's, until one of both is no more."""
    topic = subscription.topic
    participant.topics[topic.name, subscription.label_of(participant.owner)] = topic
    subscription.users.add(participant.name)


def _renew(world: World, subscription: TopicSubscription) -> None:
    """Note that a subscription is used."""
    subscription.active = world.now
    world.topics.renew(subscription, world.present)


# Receiving.


def receive_publication(world: World, call: Call, participant: Participant) -> None:
    """Hand out the next message, or let the call wait for one."""
    check_enabled(world)
    request = call.request
    if request.publication_id.upper() != NEW:
        publication = world.topics.publications.get(request.publication_id)
        if publication is None or _settled(publication.topic, participant, request.subscription) is None:
            # Of which topic it is matters to its subscribers only.
            raise about_publication(Code.UOW_NOT_FOUND, _NOT_RECEIVED)
        subscription = _own(world, publication.topic, participant, request.subscription)
        if publication.order not in subscription.outstanding:
            raise about_publication(Code.UOW_NOT_FOUND, _NOT_RECEIVED)
        if subscription.outstanding[publication.order].given >= publication.count:
            raise about_publication(Code.END_OF_UOW)
        hand_out_publication(world, call, participant, subscription, publication)
        return
    subscription = _own(world, world.topics.topic(request.topic), participant, request.subscription)
    done = _read(subscription, participant) if subscription.topic.attributes.auto_commit_for_subscriber else []
    if not done:
        _receive_or_wait(world, call, participant, subscription)
        return

    def go_on() -> None:
        try:
            _receive_or_wait(world, call, participant, subscription)
        except BrokerError as refusal:
            world.refuse(call.handle, refusal.code, refusal.text)

    Acknowledgement(world, subscription, done).decide(call, participant, go_on)


def _read(subscription: TopicSubscription, participant: Participant) -> list[Publication]:
    """Return the publications that were handed out to the participant, to their end."""
    name, publications = participant.name, subscription.topic.publications
    found = ((publications.get(order), reading) for order, reading in subscription.outstanding.items())
    return [each for each, (given, reader) in found if each is not None and reader == name and given >= each.count]


def _receive_or_wait(world: World, call: Call, participant: Participant, subscription: TopicSubscription) -> None:
    if receive_next(world, call, participant, subscription):
        return
    if not park(world, call, participant, (), [with_subscription(subscription)]):
        raise about_publication(Code.NO_UOWS)


def receive_next(world: World, call: Call, participant: Participant, subscription: TopicSubscription) -> bool:
    """Hand out the first message of the next publication; False when there is none."""
    publication = subscription.next()
    if publication is None:
        return False
    if publication.is_stored and publication.messages is None and not world.is_store_up:
        raise refuse(Code.DURABLE_WITHOUT_STORE, NO_STORE)
    subscription.begin(publication.order, participant.name)
    hand_out_publication(world, call, participant, subscription, publication)
    return True


def hand_out_publication(
    world: World, call: Call, participant: Participant, subscription: TopicSubscription, publication: Publication
) -> None:
    at = subscription.outstanding[publication.order].given
    body: Body
    if publication.messages is None:
        if not world.is_store_up:
            raise refuse(Code.DURABLE_WITHOUT_STORE, NO_STORE)
        body, properties = Stored(publication.first + at), None
    else:
        body, properties = publication.messages[at].payload, publication.messages[at].properties
    subscription.outstanding[publication.order] = Outstanding(at + 1, participant.name)
    reply = reply_of_publication(publication)
    if publication.count == 1:
        reply.uow_status = Reception.RECV_ONLY
    elif not at:
        reply.uow_status = Reception.RECV_FIRST
    else:
        reply.uow_status = Reception.RECV_LAST if at == publication.count - 1 else Reception.RECV_MIDDLE
    world.effects.append(Answer(call.handle, reply, (body,), properties))


def serve_subscribers(world: World, topic: Topic) -> None:
    """Give who waits what has been published."""
    for subscription in list(topic.subscribers.values()):
        serve_subscriber(world, subscription)


def serve_subscriber(world: World, subscription: TopicSubscription) -> None:
    """Give who waits with a subscription what there is for it, unless it has ended."""
    if subscription.topic.subscribers.get(subscription_key(subscription)) is not subscription:
        return
    for parked in world.parking.at(with_subscription(subscription)):
        if subscription.is_pending or subscription.next() is None:
            break
        if parked.participant.is_pending:  # it is going away
            continue
        world.parking.remove(parked)
        try:
            receive_next(world, parked.call, parked.participant, subscription)
        except BrokerError as refusal:
            world.refuse(parked.call.handle, refusal.code, refusal.text)


# What is said about a publication.


def control_publication(world: World, call: Call, participant: Participant) -> None:
    """Do what the option says to a publication, for its publisher or for a subscriber."""
    check_enabled(world)
    request = call.request
    if request.option is Option.LAST:
        show_last(world, call, participant)
        return
    publication = world.topics.publications.get(request.publication_id)
    if publication is None:
        show_past(world, call, participant)
        return
    if publication.is_pending:
        raise Busy(publication)
    is_own = publication.owner.name == participant.owner.name
    if request.option is Option.SETUSTATUS:
        set_user_status(world, call, participant, publication)
        return
    if request.option is Option.QUERY:
        if not is_own:
            raise about_publication(Code.NOT_THE_CREATOR)
        world.answer(call.handle, reply_of_publication(publication))
        return
    if is_own and publication.status is Status.RECEIVED:
        if request.option is Option.COMMIT:
            commit_publication(world, call, participant, publication, None)
        else:
            back_out_own(world, call, publication)
        return
    _by_subscriber(world, call, participant, publication)


def _by_subscriber(world: World, call: Call, participant: Participant, publication: Publication) -> None:
    subscription = _settled(publication.topic, participant, call.request.subscription)
    if subscription is None or publication.order not in subscription.outstanding:
        is_own = publication.owner.name == participant.owner.name
        code = Code.WRONG_STATUS if is_own or subscription is not None else Code.NOT_THE_CREATOR
        raise about_publication(code, _NOT_SETTLED.format(Option(call.request.option).name))
    if call.request.option is Option.BACKOUT:
        give_back_publication(world, subscription, publication.order, is_counted=not call.request.is_untried)
        world.answer(call.handle, reply_of_publication(publication))
        return
    if world.joint is not None:
        world.joint.acknowledged.setdefault(subscription, []).append(publication)
        return
    reply = reply_of_publication(publication)
    reply.uow_status = Status.PROCESSED
    Acknowledgement(world, subscription, [publication]).decide(
        call, participant, lambda: world.answer(call.handle, reply)
    )


class Acknowledgement:
    """Publications that a subscriber is done with; the last one who is removes it. Busy where one may be gone."""

    def __init__(self, world: World, subscription: TopicSubscription, publications: list[Publication]) -> None:
        self._world = world
        self._subscription = subscription
        self._publications = publications
        self._orders = [publication.order for publication in publications]
        window = subscription.window
        self._window = window.without(self._orders, subscription.topic.publications) if window is not None else None
        for each in publications:
            if each.is_pending:
                raise Busy(each)
        self._last = [each for each in publications if each.remaining == 1 and not each.inflight]

    def decide(self, call: Call, participant: Participant, go_on: Callable[[], None]) -> None:
        """Acknowledge them, and then go on."""

        def apply(_: int) -> None:
            self._apply()
            go_on()

        for publication in self._publications:
            publication.inflight += 1
        leave(self._last)
        held = [self._subscription, *self._last]
        code = Code.DURABLE_WITHOUT_STORE
        decide(self._world, self._changes(), Decision(apply, held, call.handle, participant, code, self._undo))

    def _changes(self) -> Changes:
        parts = [removal(publication, is_delivered=True) for publication in self._last]
        subscription = self._subscription
        if subscription.is_durable and any(publication.is_stored for publication in self._publications):
            position, done = subscription.after_acknowledging(self._orders)
            record = subscription_record(subscription)._replace(
                position=position,
                acknowledged=done.numbers(),
                last_committed=self._publications[-1].publication_id,
                active=self._world.now,
                ends=self._world.topics.end_of(subscription, self._world.clocks),
                expiration=subscription.topic.subscription_expiration // MICROSECONDS,
            )
            parts += [Changes(puts=[put_subscription(record)]), window_changes(subscription, self._window)]
        return merge(parts)

    def _apply(self) -> None:
        world, subscription = self._world, self._subscription
        subscription.position, subscription.acknowledged = subscription.after_acknowledging(self._orders)
        subscription.window = self._window
        subscription.last_committed = self._publications[-1].publication_id
        _renew(world, subscription)
        for publication in self._publications:
            publication.inflight -= 1
            subscription.outstanding.pop(publication.order, None)
            if publication.attempts is not None:
                publication.attempts.pop(subscription, None)
            if publication in self._last:
                publication.remaining = 0
                forget_publication(world, publication, Status.PROCESSED)
            elif publication.status is Status.ACCEPTED:
                one_less(world, publication)
        world.topics.ready.append(subscription)  # it may have been too far ahead for the next one

    def _undo(self) -> None:
        for publication in self._publications:
            publication.inflight -= 1
        stay(self._world, self._last)


def give_back_publication(
    world: World, subscription: TopicSubscription, order: int, *, is_counted: bool = True
) -> None:
    """Let a publication be handed out again: at once the first time, and then after a delay that grows.

    It is not counted over a restart, and nothing ends it but its lifetime: others may have it as well.
    """
    publication = subscription.topic.publications.get(order)
    del subscription.outstanding[order]
    wait = 0
    if is_counted and publication is not None:
        if publication.attempts is None:
            publication.attempts = {}
        tried = publication.attempts[subscription] = publication.attempts.get(subscription, 0) + 1
        wait = delay(world.attributes.broker.max_delivery_count, tried)
    if not wait:
        subscription.come_again(order)
        world.topics.ready.append(subscription)
        return
    due = world.clocks.volatile + world.late + wait
    subscription.delayed += 1
    heappush(world.topics.later, (due, subscription.subscription_id, order))
    world.effects.append(Expect(wait))


# Leaving.


def leave_topics(world: World, participant: Participant, *, is_untried: bool = False) -> None:
    """Let a participant's subscriptions end that do not outlive it, and drop what it has not committed."""
    drop_all_uncommitted(world, participant)
    for (_, label), topic in list(participant.topics.items()):
        passing = topic.subscribers.get(passing_key(participant.name, label))
        if passing is not None:
            end_subscription(world, passing)
    _take_back_publications(world, participant, is_untried=is_untried)
    for (_, label), topic in participant.topics.items():
        durable = topic.subscribers.get(durable_key(participant.owner, label))
        if durable is not None:
            durable.users.discard(participant.name)


def change_connection(world: World, participant: Participant) -> None:
    """Give back what the former connection was handed out, and end the subscriptions that only it tells apart."""
    for (_, label), topic in list(participant.topics.items()):
        passing = topic.subscribers.get(passing_key(participant.name, label)) if label else None
        if passing is not None:
            end_subscription(world, passing)
    _take_back_publications(world, participant)


def _take_back_publications(world: World, participant: Participant, *, is_untried: bool = False) -> None:
    """Let what a participant was handed out for a durable subscription and has not acknowledged be handed out again."""
    for (_, label), topic in participant.topics.items():
        durable = topic.subscribers.get(durable_key(participant.owner, label))
        if durable is not None:
            for place, order in enumerate(durable.of_reader(participant.name)):
                give_back_publication(world, durable, order, is_counted=not place and not is_untried)
