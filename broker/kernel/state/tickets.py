"""From a decision to what everybody can see: at once, or when the store has made it durable.

A room checks, and says what is to be written and what is then to be done. Until the store has answered
nothing of it is visible; calls about a conversation that is on its way to the store wait. When the
store says no, the state is the old one: nothing had been done.

What the report of the persistent store says of a commit: records that came, and records that went.
"""

from collections.abc import Iterator

from oms_journal.broker.codes import Code, detailed, refuse
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import Decision
from oms_journal.broker.kernel.state.effects import Commit, Durable, Failed, Level
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.topics import TopicSubscription
from oms_journal.broker.kernel.state.unit_records import put_of_unit, record_of, written
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import (
    CLOCK,
    CLOCK_KEY,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    UOW,
    UOWS,
    ClockRecord,
    RecordKind,
    kind_of,
)
from oms_journal.broker.store.changes import Changes, Put, merge
from oms_journal.broker.store.report import Action, ReportLine


def report(world: World, changes: Changes) -> None:
    """Report a commit that has become durable; nothing of it has been done in the kernel yet."""
    for each in changes.puts:
        world.effects.extend(_created(world, each))
    for key in changes.drops:
        kind = kind_of(key)
        if kind is not None:
            world.effects.append(ReportLine(_identifier(key), kind, Action.DELETED))


def _identifier(key: str) -> str:
    return key.rpartition("/")[2]


def _created(world: World, put: Put) -> Iterator[ReportLine]:
    """Yield a line for a record that was not there before."""
    identifier, kind = _identifier(put.key), kind_of(put.key)
    if kind is RecordKind.UOW:
        unit = world.active.get(identifier)
        is_new = not unit.is_recorded if unit is not None else world.units.find(identifier) is None
        record = UOW.decode(put.value)
        elements, length = record.messages, record.size
    elif kind is RecordKind.PUBLICATION:
        publication = world.topics.publications.get(identifier)
        is_new = publication is None or not publication.is_stored
        published = PUBLICATION.decode(put.value)
        elements, length = published.messages, published.size
    elif kind is RecordKind.SUBSCRIPTION:
        is_new, elements, length = identifier not in world.topics.subscriptions, 1, 0
    else:
        return
    if is_new:
        yield ReportLine(identifier, kind, Action.CREATED, elements, len(put.value) + length)


NO_STORE = "the persistent store is not available"
CLOCK_STEP = MICROSECONDS // 2  # of the pseudo-clock: it is not written more often
_ENDS = {  # where records say when a lifetime or a delay is over, by the second part of their keys
    UOWS.split("/")[1]: (UOW.offset("ends"), UOW.offset("back")),
    PUBLICATIONS.split("/")[1]: (PUBLICATION.offset("ends"),),
    SUBSCRIPTIONS.split("/")[1]: (SUBSCRIPTION.offset("ends"),),
}
_NEVER = bytes(8)


def decide(world: World, changes: Changes, decision: Decision) -> None:
    """Do it when it is durable, or at once when nothing is to be written and it is not ordered.

    A BrokerError when there is no store.
    While several calls are decided together (`joint_commit.py`) it is only noted.
    """
    if world.joint is not None:
        world.joint.take(changes, decision)
        return
    if changes.is_empty() and not decision.is_ordered:
        decision.apply(0)
        return
    if not world.is_store_up:
        if decision.undo is not None:
            decision.undo()
        raise refuse(decision.code, NO_STORE)
    if world.clocks.persistent - world.dues.clock_written >= CLOCK_STEP and _wants_clock(world, changes):
        changes, decision.clock = merge([changes, clock_changes(world)]), world.clocks.persistent
        world.dues.is_clock_pending = True
    if world.is_reporting:
        decision.changes = changes
    world.ticket += 1
    world.pending[world.ticket] = decision
    for held in decision.locks:
        held.is_pending = True
    if decision.who is not None:
        decision.who.pending += 1
    world.effects.append(Commit(world.ticket, changes))


def clock_changes(world: World) -> Changes:
    """Return what writes the pseudo-clock."""
    return Changes(puts=[Put(CLOCK_KEY, CLOCK.encode(ClockRecord(world.clocks.persistent, world.now)))])


def _wants_clock(world: World, changes: Changes) -> bool:
    """Say whether the commit is to take the pseudo-clock along, which was not written for a while.

    A lifetime or a delay that begins with a commit ends by that clock, and so a restart has to go on with it.
    """
    if world.dues.is_clock_pending:
        return False
    for each in changes.puts:
        for at in _ENDS.get(each.key.split("/", 2)[1], ()):
            if each.value[at : at + 8] != _NEVER:
                return True
    return world.lives_on_clock()


def _arrived(world: World, ticket: int) -> Decision | None:
    """Return the decision that the store has answered; what waited for that can go on."""
    decision = world.pending.pop(ticket, None)
    if decision is None:
        world.log(Level.ERROR, f"the store answered ticket {ticket}, which nobody waits for")
        return None
    if decision.clock:
        world.dues.is_clock_pending = False
    for held in decision.locks:
        held.is_pending = False
        if held.queued:
            world.released.append(held)
        if isinstance(held, Conversation):
            world.touch(held)
        elif isinstance(held, Participant):
            world.stayed.append(held)
        elif isinstance(held, TopicSubscription):  # what was published meanwhile nobody has got
            world.topics.ready.append(held)
    who = decision.who
    if who is not None:
        who.pending -= 1
        if who.later and not who.pending:
            world.leaving.append(who)
    return decision


def confirm(world: World, given: Durable) -> None:
    """Make a decision visible: it would survive a power cut."""
    decision = _arrived(world, given.ticket)
    if decision is not None:
        if decision.changes is not None:
            report(world, decision.changes)
        world.dues.clock_written = max(world.dues.clock_written, decision.clock)
        decision.apply(given.first)


def reject(world: World, given: Failed) -> None:
    """Keep the old state, and say so."""
    decision = _arrived(world, given.ticket)
    if decision is None:
        return
    if decision.undo is not None:
        decision.undo()
    if decision.handle is not None:
        if given.is_reused:
            world.refuse(decision.handle, Code.PRODUCER_REUSED)
        else:
            code = Code.NO_NEW_UOWS if given.is_full and decision.is_new else decision.code
            world.refuse(decision.handle, code, detailed(code, given.text))
    if given.is_reused:
        return  # the caller's mistake, and not the store's
    if given.is_store_lost:
        lose_store(world, given.text)
    elif given.is_refused:
        world.log(Level.ERROR, f"the persistent store refused a commit: {given.text}")
    elif not world.is_new_forbidden:
        world.is_new_forbidden = True
        world.log(Level.ERROR, f"no new units of work from now on, the persistent store is full: {given.text}")


def lose_store(world: World, text: str) -> None:
    """Go on without the store: what is persistent stands still."""
    if world.clocks.is_connected:
        world.clocks = world.clocks.connected(False)
        world.log(Level.ERROR, f"the persistent store is not available: {text}")


def find_store(world: World) -> None:
    """Go on with the store, which is told what it has missed."""
    if not world.has_store or world.clocks.is_connected:
        return
    world.clocks = world.clocks.connected(True)
    world.log(Level.NOTE, "the persistent store is available")
    write_missed(world)


def write_missed(world: World) -> None:
    """Tell the store what it has not heard of since it was not there or full.

    What else is on its way to it about the same comes first: such a thing is told another time, with a later tick.
    When the store says no, nothing is told before it is back or an operator says that there is room.
    """
    world.topics.sweeping.extend(topic for topic in world.topics.topics.values() if topic.done)
    missed = {uowid: changes for uowid, changes in world.unwritten.items() if not _is_on_its_way(world, uowid)}
    world.unwritten = {uowid: changes for uowid, changes in world.unwritten.items() if uowid not in missed}
    world.dues.is_untold = bool(world.unwritten)
    parts = [_now(world, uowid, changes) for uowid, changes in sorted(missed.items()) if not changes.is_empty()]
    if parts:
        decide(world, merge(parts), Decision(lambda _: None, undo=lambda: world.unwritten.update(missed)))


def _is_on_its_way(world: World, uowid: str) -> bool:
    """Say whether something about a unit of work is being written."""
    unit = world.active.get(uowid)
    return uowid in world.holds or (unit is not None and world.conversations[unit.conv_id].is_pending)


def _now(world: World, uowid: str, missed: Changes) -> Changes:
    """Return what the store has to be told about a unit of work by now."""
    unit = world.active.get(uowid)
    if unit is not None:
        return Changes(puts=[put_of_unit(record_of(unit, world.conversations[unit.conv_id], written(unit)))])
    record = world.units.find(uowid)
    if record is None:  # it ended then, or has since, in a commit of its own
        return Changes(drops=missed.drops, deleted=missed.deleted)
    return Changes(puts=[put_of_unit(record)], deleted=missed.deleted)
