"""Where a conversation waits: its place among those of its service, and what is counted of it."""

from oms_journal.broker.kernel.conversations.dormancy import wake_withheld
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.world import ENDED_MAX, Ended, World


def give_age(world: World, talk: Conversation) -> None:
    """Give a conversation whose first message the store does not number its place."""
    world.commit_count += 1
    talk.key = world.commit_count
    talk.after = world.highest


def replace(world: World, talk: Conversation) -> None:
    """Put a conversation where it waits for a server now, if it does."""
    if world.withheld.last:
        wake_withheld(world, talk)
    place = None
    if talk.has_for(SERVER):
        place = talk.service.waiting if talk.server is None else world.waiting_for(talk.server, talk.service)
    if place is talk.place:
        return
    reserve_conversation(world, talk)
    if place is not None:
        place.orders[talk.rank].add(talk.key, talk.number)
    talk.place = place


def count_talks(world: World, talk: Conversation, difference: int) -> None:
    """Count conversations, for CONV-LIMIT and NUM-CONVERSATION."""
    talk.service.conversations += difference
    world.talk_count += difference
    world.unused.see(talk.service)


def assign(world: World, talk: Conversation, participant: Participant) -> None:
    """Give a conversation to a server instance."""
    reserve_conversation(world, talk)
    participant.talks[talk.conv_id] = talk
    talk.server = participant.name
    replace(world, talk)


def release_conversation(world: World, talk: Conversation) -> None:
    """Give a conversation back to all servers of its service."""
    if talk.server is None:
        return
    reserve_conversation(world, talk)
    if talk.server != talk.client:
        world.part_from(talk.server, talk)
    talk.server = None
    talk.is_bound = False
    replace(world, talk)


def reserve_conversation(world: World, talk: Conversation) -> None:
    """Take a conversation out of the order that it waits in; `replace` puts it back."""
    place, talk.place = talk.place, None
    if place is not None:
        place.orders[talk.rank].remove(talk.key, talk.number)
        if talk.server is not None and not len(place):
            world.instances.pop((talk.server, talk.service.name), None)


def drop_if_over(world: World, talk: Conversation) -> None:
    """Forget a conversation that was ended and of which nothing is left but what its partner is told."""
    if talk.ended[CLIENT] is None or not talk.is_empty() or talk.conv_id not in world.conversations:
        return
    reserve_conversation(world, talk)
    world.leave(talk)
    count_talks(world, talk, -1)
    world.ended[talk.conv_id] = Ended(talk)
    if len(world.ended) > ENDED_MAX:
        world.ended.popitem(last=False)
