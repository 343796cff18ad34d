"""What time brings about: ends of lifetimes, of waits, of participants and of conversations.

    clock          runs                                      what ends on it
    pseudo-clock   while there is a store and it can be      lifetimes of persistent units of work and of those
                   written                                   with persistent status, and those statuses
    second count   always                                    all other lifetimes, waits, non-activity

The pseudo-clock is written with a tick while something lives on it, at most twice a second: the edge ticks in between
when a call has waited long enough. A tick looks at what is due
and at nothing else, and at so much of it that it takes a moment; the rest follows.
"""

from contextlib import suppress

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.kernel.conversations.ending import end_side
from oms_journal.broker.kernel.conversations.places import replace
from oms_journal.broker.kernel.hold_release import finish_hold
from oms_journal.broker.kernel.participants.logon import drop_participant
from oms_journal.broker.kernel.state.conversation import Conversation, Side
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import Tick
from oms_journal.broker.kernel.state.tickets import CLOCK_STEP, clock_changes, decide, write_missed
from oms_journal.broker.kernel.state.unit_states import Event
from oms_journal.broker.kernel.state.world import World, nonact_of
from oms_journal.broker.kernel.topics.removal import expire
from oms_journal.broker.kernel.units.expiry import end_lifetimes
from oms_journal.broker.kernel.units.transitions import complete, completion_by
from oms_journal.broker.records import identifier
from oms_journal.broker.store.changes import merge


def tick(world: World, given: Tick) -> None:
    """Let time pass, and end what is due."""
    world.clocks = world.clocks.ticked(given.elapsed)
    if world.dues.is_untold and world.is_store_up:
        write_missed(world)
    _write_clock(world)
    _end_waits(world)
    world.topics.come_again(world.clocks.volatile)
    end_lifetimes(world)
    expire(world)
    finish_hold(world)
    _end_participants(world)
    _end_conversations(world)


def _write_clock(world: World) -> None:
    """Write the pseudo-clock while something lives on it."""
    if not world.is_store_up or world.dues.is_clock_pending or not world.lives_on_clock():
        return
    if world.clocks.persistent - world.dues.clock_written < CLOCK_STEP:
        return
    world.dues.is_clock_pending = True
    decide(world, clock_changes(world), Decision(lambda _: None, clock=world.clocks.persistent))


def _end_waits(world: World) -> None:
    for parked in world.parking.overdue(world.clocks.volatile):
        world.parking.remove(parked)
        parked.participant.used = world.clocks.volatile
        world.refuse(parked.call.handle, Code.WAIT_TIMED_OUT)
        talk = world.conversations.get(str(parked.places[0]))
        if talk is not None and talk.is_one_shot:
            end_side(talk, Side.CLIENT, Code.PARTNER_TIMED_OUT)
            talk.plain[Side.SERVER].clear()
            replace(world, talk)
            world.touch(talk)


# Non-activity.


def _end_participants(world: World) -> None:
    """Let go who was silent too long. Whose unit of work lives, or whose call waits, is not silent."""
    for number in [number for _, number in world.dues.participants.up_to(world.clocks.volatile)]:
        participant = world.numbered[number]
        if participant.parked or participant.owner.live or participant.owner.awake or participant.owner.reading:
            participant.used = world.clocks.volatile
        world.arm_participant(participant, nonact_of(world, participant))
        if participant.due and participant.due <= world.clocks.volatile and not participant.pending:
            with suppress(Busy):  # it is looked at again with the next tick
                drop_participant(world, participant, Code.PARTNER_TIMED_OUT)


def _end_conversations(world: World) -> None:
    """End what nobody has called about for too long, unless a unit of work waits in it or is being received."""
    for number in [number for _, number in world.dues.conversations.up_to(world.clocks.volatile)]:
        talk = world.conversations[identifier(number)]
        if any(talk.lines) or any(talk.reading) or talk.is_pending:
            talk.used = world.clocks.volatile
        world.arm_conversation(talk)
        if talk.due <= world.clocks.volatile:
            _end_conversation(world, talk)


def _end_conversation(world: World, talk: Conversation) -> None:
    closings = [completion_by(world, talk, sent, Event.CONVERSATION_OVER) for sent in talk.sending if sent is not None]

    def apply(_: int) -> None:
        for done in closings:
            complete(world, talk, done)
        talk.ended = [Code.CONVERSATION_TIMED_OUT, Code.CONVERSATION_TIMED_OUT]
        for messages in talk.plain:
            messages.clear()
        world.touch(talk)

    with suppress(BrokerError):  # no store: what is persistent stays until it is back
        decide(world, merge(done.changes for done in closings), Decision(apply, (talk,)))
