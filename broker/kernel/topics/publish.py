"""SEND_PUBLICATION, and what a publisher does with its publications.

    OPTION   PUBLICATION-ID  what it does
    SYNC     NEW             begins a publication with the message
    SYNC     n               adds the message to it
    COMMIT   either          the same, and commits it: now its subscribers can have it

A publication nobody subscribes to is accepted, and gone. Of a topic that is stored this is said through the store all
the same, which writes nothing: in the order of commits, and only by the broker that has the store. So nobody has
subscribed before, at a broker that has taken it over either.
"""

from oms_journal.broker.block import NEW, Option, Reply, Request, Store
from oms_journal.broker.codes import BrokerError, Code, about_publication, refuse
from oms_journal.broker.durations import MICROSECONDS, ends
from oms_journal.broker.kernel.conversations.dormancy import KEPT_BYTES_MAX
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Call, check_properties, stored_properties
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.tickets import NO_STORE, decide
from oms_journal.broker.kernel.state.topics import Past, Publication
from oms_journal.broker.kernel.state.unit import Owner
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.removal import (
    forget_publication,
    publication_record,
    put_publication,
    remove_publication,
)
from oms_journal.broker.records import Status
from oms_journal.broker.store.changes import Changes, NewMessage


def check_enabled(world: World) -> None:
    if not world.attributes.broker.publish_and_subscribe:
        raise BrokerError(Code.NO_PUBLISH_AND_SUBSCRIBE)


def send_publication(world: World, call: Call, participant: Participant) -> None:
    """Add a message to a publication, begun if need be; with COMMIT commit it."""
    check_enabled(world)
    request = call.request
    if request.properties:
        check_properties(request)
    is_new = request.publication_id.upper() == NEW
    publication = _begun(world, request, participant) if is_new else _found(world, request, participant)
    topic, attributes = publication.topic, publication.topic.attributes
    if len(request.body) > attributes.max_publication_message_length:
        raise BrokerError(Code.LENGTH_EXCEEDED)
    if publication.count >= attributes.max_messages_in_publication:
        raise about_publication(Code.MAX_MESSAGES, str(attributes.max_messages_in_publication))
    if topic.is_stored and world.is_new_forbidden:
        raise about_publication(Code.NO_NEW_UOWS)
    if topic.is_stored and not world.is_store_up:
        raise refuse(Code.DURABLE_WITHOUT_STORE, NO_STORE)
    message = NewMessage(topic.queue, request.body, stored_properties(request))
    if request.option is Option.COMMIT:
        commit_publication(world, call, participant, publication, message)
        return
    publication.writer = participant.name
    _enter(world, publication, message, request.ustatus)
    world.answer(call.handle, reply_of_publication(publication))


def _begun(world: World, request: Request, participant: Participant) -> Publication:
    topic = world.topics.topic(request.topic)
    publication = Publication(world.identifiers.next(), topic, participant.owner)
    lifetime = topic.attributes.publication_lifetime
    clocks = world.present
    publication.lifetime = lifetime // MICROSECONDS
    publication.ends = ends(clocks.persistent if topic.is_stored else clocks.volatile, lifetime)
    publication.created = world.now
    publication.producer = request.producer
    return publication


def _found(world: World, request: Request, participant: Participant) -> Publication:
    """Return the caller's publication that is not committed."""
    found = world.topics.publications.get(request.publication_id)
    if found is None:
        raise about_publication(Code.UOW_NOT_FOUND, _unknown(request))
    if found.is_pending:
        raise Busy(found)
    if found.owner.name != participant.owner.name:
        raise about_publication(Code.NOT_THE_CREATOR)
    if found.status is not Status.RECEIVED:
        raise about_publication(Code.WRONG_STATUS, f"{found.publication_id} is {found.status.name}")
    return found


def _enter(world: World, publication: Publication, message: NewMessage | None, ustatus: str) -> None:
    world.topics.enter(publication)
    if message is not None:
        assert publication.messages is not None, "what is not committed is kept"
        publication.messages.append(message)
        publication.count += 1
        publication.size += len(message.payload)
    publication.ustatus = ustatus or publication.ustatus


def commit_publication(
    world: World, call: Call, participant: Participant, publication: Publication, message: NewMessage | None
) -> None:
    """Commit a publication, with one more message or as it is."""
    topic, now, ustatus = publication.topic, world.now, call.request.ustatus
    publication.writer = participant.name

    def apply(first: int) -> None:
        _enter(world, publication, message, ustatus)
        publication.committed = now
        _accept(world, publication, first)
        reply = reply_of_publication(publication)
        reply.uow_status = Status.ACCEPTED
        world.answer(call.handle, reply)

    if not topic.is_stored:
        decide(world, Changes(), Decision(apply, (publication,)))
        return
    changes = Changes()
    if topic.subscribers or topic.coming:
        messages = list(publication.messages or ())
        if message is not None:
            messages.append(message)
        record = publication_record(publication, Status.ACCEPTED)._replace(
            messages=len(messages),
            size=sum(len(each.payload) for each in messages),
            committed=now,
            ustatus=ustatus or publication.ustatus,
        )
        changes = Changes(adds=messages, puts=[put_publication(record, is_new=True)])
    topic.under_way += 1

    def arrive(first: int) -> None:
        apply(first)
        world.topics.arrived(topic)

    decision = Decision(
        arrive,
        (publication,),
        call.handle,
        participant,
        Code.DURABLE_WITHOUT_STORE,
        lambda: world.topics.arrived(topic),
        is_new=True,
        is_ordered=True,
    )
    decide(world, changes, decision)


def _accept(world: World, publication: Publication, first: int) -> None:
    """Let the subscribers have it."""
    topic = publication.topic
    world.topics.commit(publication)
    publication.status = Status.ACCEPTED
    topic.published += 1
    if not first and (topic.is_stored or not topic.subscribers):  # nobody was to have it when it was decided
        forget_publication(world, publication, Status.PROCESSED)
        return
    if first:
        publication.is_stored = True
        publication.first = first
        world.highest = max(world.highest, first + publication.count - 1)
        world.kept_bytes += publication.size
        if world.kept_bytes > KEPT_BYTES_MAX:
            world.kept_bytes -= publication.size
            publication.messages = None
    publication.order = first or topic.last_order + 1
    topic.last_order = max(topic.last_order, publication.order)
    topic.publications[publication.order] = publication
    publication.remaining = sum(1 for _ in topic.wanting(publication))
    if not publication.remaining:
        remove_publication(world, publication)
        return
    world.topics.arm(publication)
    world.topics.published.append(topic)


def reply_of_publication(publication: Publication) -> Reply:
    """Return the reply about a publication."""
    return Reply(
        topic=publication.topic.name,
        publication_id=publication.publication_id,
        uow_status=publication.status,
        ustatus=publication.ustatus,
        store=Store.BROKER if publication.topic.is_stored else Store.OFF,
    )


# What a publisher says about its own.


def back_out_own(world: World, call: Call, publication: Publication) -> None:
    """Drop a publication that is not committed."""
    drop_uncommitted(world, publication)
    reply = reply_of_publication(publication)
    reply.uow_status = Status.BACKEDOUT
    world.answer(call.handle, reply)


def drop_uncommitted(world: World, publication: Publication) -> None:
    forget_publication(world, publication, Status.BACKEDOUT)


def drop_all_uncommitted(world: World, participant: Participant) -> None:
    """Drop what a participant was publishing; what another connection of a user without TOKEN is at stays."""
    for publication in world.topics.uncommitted_of(participant.owner):
        if publication.writer == participant.name:
            drop_uncommitted(world, publication)


def set_user_status(world: World, call: Call, participant: Participant, publication: Publication) -> None:
    """Give a publication of the caller's own another user status."""
    if publication.owner.name != participant.owner.name:
        raise about_publication(Code.NOT_THE_CREATOR)
    ustatus = call.request.ustatus

    def apply(_: int) -> None:
        publication.ustatus = ustatus
        world.answer(call.handle, reply_of_publication(publication))

    changes = Changes()
    if publication.is_stored:
        record = publication_record(publication, Status.ACCEPTED)._replace(ustatus=ustatus)
        changes = Changes(puts=[put_publication(record)])
    decide(world, changes, Decision(apply, (publication,), call.handle, participant, Code.DURABLE_WITHOUT_STORE))


def show_last(world: World, call: Call, participant: Participant) -> None:
    """Show the last publication that the caller has begun, in a topic or in any."""
    request, owner = call.request, participant.owner
    topics = [world.topics.topic(request.topic)] if request.topic else list(world.topics.topics.values())
    if request.topic and not topics[0].attributes.allow_durable:
        raise about_publication(Code.WRONG_UOW_TYPE, f"LAST in {request.topic} needs ALLOW-DURABLE=YES")
    topics = [topic for topic in topics if topic.attributes.allow_durable]
    gone = [past for past in _past_of(world, owner) if past.allows_durable and request.topic in ("", past.topic)]
    replies = [_shown_past(past) for past in gone]
    replies += [reply_of_publication(each) for each in world.topics.uncommitted_of(owner) if each.topic in topics]
    replies += [
        reply_of_publication(each)
        for topic in topics
        for each in topic.publications.values()
        if each.owner.name == owner.name
    ]
    if not replies:
        raise about_publication(Code.UOW_NOT_FOUND, f"you have begun none{request.topic and f' in {request.topic}'}")
    world.answer(call.handle, max(replies, key=lambda reply: reply.publication_id))


def show_past(world: World, call: Call, participant: Participant) -> None:
    """Show a publisher its last publication though it is gone; anything else about it comes too late."""
    request = call.request
    for past in _past_of(world, participant.owner):
        if past.publication_id == request.publication_id:
            if request.option is not Option.QUERY:
                raise about_publication(Code.WRONG_STATUS, "it is complete, and gone")
            world.answer(call.handle, _shown_past(past))
            return
    raise about_publication(Code.UOW_NOT_FOUND, _unknown(request))


def _unknown(request: Request) -> str:
    return f"no publication {request.publication_id} is there, or it is complete, and gone"


def _shown_past(past: Past) -> Reply:
    """Return the reply about a publisher's last publication, which is gone."""
    publication_id, status, ustatus, topic, is_stored, _ = past
    store = Store.BROKER if is_stored else Store.OFF
    return Reply(topic=topic, publication_id=publication_id, uow_status=status, ustatus=ustatus, store=store)


def _past_of(world: World, owner: Owner) -> list[Past]:
    """Return a publisher's last publications that are gone, one of each topic."""
    return [past for (_, *whose), past in world.topics.past.items() if whose == [owner.user, owner.token]]
