"""RELEASE and DISCARD of what is held since the store was restored (`tables/hold.py`), by an operator.

    command            a held unit of work                       a publication held for a subscription
    RELEASE            waits again, in its old place; a lifetime is handed out again, before newer ones; its lifetime
                       goes on with what it had left             goes on once it is held for nobody
    DISCARD            DISCARDED: nobody processes it            the subscription has it no longer
    DISCARD PROCESSED  PROCESSED: its receiver has had it        the same

A status is kept where it is persistent, as with every end of a unit of work. Who sent it is told by SYNCPOINT alone.
"""

from collections.abc import Sequence
from heapq import heappush

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.kernel.conversations.dormancy import conversation, is_kept, put_to_sleep, unit, wake_together
from oms_journal.broker.kernel.conversations.places import replace
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.decision import Busy, Decision
from oms_journal.broker.kernel.state.effects import (
    DiscardHeld,
    DiscardPublications,
    Level,
    ReleaseHeld,
    ReleasePublications,
)
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topics import Publication, TopicSubscription
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import put_of_unit, record_of
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, Event
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.hold import HeldWindow, Hold
from oms_journal.broker.kernel.tables.ranges import NUMBERS_MAX
from oms_journal.broker.kernel.topics.removal import (
    REMOVED_AT_ONCE,
    ResumedLifetimes,
    forget_publication,
    leave,
    one_less,
    put_subscription,
    removal,
    stay,
    subscription_record,
    window_changes,
)
from oms_journal.broker.kernel.units.transitions import complete, completion_by, status_after
from oms_journal.broker.records import HOLD_KEY, Flag, Status
from oms_journal.broker.store.changes import Changes, merge

UNITS_MAX = 1000  # of one command: who calls meanwhile waits for some 10 ms
_WHAT_THEN = "decide about the oldest first, and let the subscriber receive what is released of them"
RELEASED_MAX = NUMBERS_MAX // 2 - 2  # numbers of a window that says what is released: its acknowledgements double them


def release_units(world: World, given: ReleaseHeld) -> None:
    """Let held units of work be received. UOW_NOT_FOUND, WRONG_STATUS: one of them is not held, and nothing is done."""
    found = _withheld(world, given.uowids)
    talks, released = _talks(found), {each for _, each in found}
    clock, now = world.clocks.persistent, world.now
    ends = [world.withheld.ends_after(each.ends, clock) for _, each in found]
    backs = [world.withheld.ends_after(each.back, clock) for _, each in found]
    puts = []
    for (talk, each), end, back in zip(found, ends, backs, strict=True):
        status = status_after(each, Event.RELEASE)
        assert status is not None, "what is released waits"
        record = record_of(each, talk, status)._replace(ends=end, back=back, changed=now)
        puts.append(put_of_unit(record._replace(flags=record.flags | Flag.RELEASED)))

    def apply(_: int) -> None:
        for (talk, each), end, back in zip(found, ends, backs, strict=True):
            each.is_withheld, each.is_released = False, True
            each.ends, each.back, each.changed = end, back, now
            world.withheld.one_less(talk.service.name)
            world.arm(each)
        for talk in talks:
            _let_sleep(world, talk, released)
            replace(world, talk)
            world.touch(talk)
        world.answer(given.handle, Reply())

    decide(world, Changes(puts=puts), Decision(apply, talks, given.handle))


def discard_units(world: World, given: DiscardHeld) -> None:
    """Complete held units of work that nobody receives any more. UOW_NOT_FOUND, WRONG_STATUS as above."""
    found = _withheld(world, given.uowids)
    event = Event.CONFIRM if given.status is Status.PROCESSED else Event.DISCARD
    closings = [(talk, completion_by(world, talk, each, event)) for talk, each in found]
    talks, turns = _talks(found), {each: at for at, (_, each) in enumerate(found)}

    def apply(_: int) -> None:
        for talk in talks:
            _put_first(talk, turns)
        for talk, done in closings:
            complete(world, talk, done)
        world.answer(given.handle, Reply())

    changes = merge(done.changes for _, done in closings)
    decide(world, changes, Decision(apply, talks, given.handle))


def _withheld(world: World, uowids: Sequence[str]) -> list[tuple[Conversation, UnitOfWork]]:
    """Return the units of work, each with its conversation; woken, and by age: who waits gets the oldest first."""
    if len(uowids) > UNITS_MAX:
        raise refuse(Code.VALUE_INVALID, f"more than {UNITS_MAX} at once")
    wake_together(world, uowids)
    found = []
    for uowid in dict.fromkeys(uowids):
        each = unit(world, uowid)
        if each is None:
            raise refuse(Code.UOW_NOT_FOUND, uowid)
        if not isinstance(each, UnitOfWork) or not each.is_withheld:
            raise refuse(Code.WRONG_STATUS, f"{uowid} is not held")
        talk = conversation(world, each.conv_id)
        assert talk is not None, "a unit of work has its conversation"
        if talk.is_pending:
            raise Busy(talk)
        found.append((talk, each))
    return sorted(found, key=lambda one: (one[0].key, one[1].first))


def _talks(found: Sequence[tuple[Conversation, UnitOfWork]]) -> list[Conversation]:
    return list({talk.conv_id: talk for talk, _ in found}.values())


# A line may be long, and many of it be decided about together: it is gone through once for all of them.


def _let_sleep(world: World, talk: Conversation, released: set[UnitOfWork]) -> None:
    """Let what was woken for its release sleep again where nobody receives it soon."""
    for side in (SERVER, CLIENT):
        if talk.lines[side] and not is_kept(world, talk, side):
            line: list[UnitOfWork | int] = []
            for each in talk.lines[side]:
                if isinstance(each, UnitOfWork) and each in released and each.status is ACCEPTED:
                    line.append(put_to_sleep(world, talk, each))
                else:
                    line.append(each)
            talk.lines[side] = type(talk.lines[side])(line)


def _put_first(talk: Conversation, turns: dict[UnitOfWork, int]) -> None:
    """Let units of work that go stand first in their lines, in the order of their turns: each is found at once."""
    for side in (SERVER, CLIENT):
        line = talk.lines[side]
        if len(line) > 1:
            last = len(turns)
            talk.lines[side] = type(line)(
                sorted(line, key=lambda each: turns.get(each, last) if isinstance(each, UnitOfWork) else last)
            )


# Publications.


def release_publications(world: World, given: ReleasePublications) -> None:
    """Let publications be handed out that are held for a subscription. UOW_NOT_FOUND where one of them is not."""
    subscription, window, orders = _of_window(world, given.subscription_id, given.publication_ids)
    left = RemainingWindow(
        world,
        subscription,
        orders,
        window.releasing(None if given.publication_ids is None else orders, subscription.topic.publications),
    )

    def apply(_: int) -> None:
        left.apply()
        for order in orders:
            heappush(subscription.again, order)
        world.topics.published.append(subscription.topic)
        world.answer(given.handle, Reply(topic=subscription.topic.name))

    decide(world, left.changes(), Decision(apply, left.held, given.handle, code=Code.DURABLE_WITHOUT_STORE))


def discard_publications(world: World, given: DiscardPublications) -> None:
    """Let a subscription be done with publications that are held for it. UOW_NOT_FOUND as above.

    Those that nobody else is to have are removed in the same commit: so nothing has to say that they are done with,
    however many there are, and with what was released between them.
    """
    subscription, window, orders = _of_window(world, given.subscription_id, given.publication_ids)
    publications = subscription.topic.publications
    removed = {
        order: publications[order]
        for order in orders[:REMOVED_AT_ONCE]
        if publications[order].remaining == 1 and not publications[order].inflight
    }
    gone = frozenset(removed.values())
    left = RemainingWindow(world, subscription, orders, window.without(orders, publications, removed), gone)

    def apply(_: int) -> None:
        left.apply()
        for order in orders:
            if order in removed:
                removed[order].remaining = 0
                forget_publication(world, removed[order], Status.PROCESSED)
            else:
                one_less(world, publications[order])
        world.answer(given.handle, Reply(topic=subscription.topic.name))

    def undo() -> None:
        stay(world, gone)

    leave(gone)
    decide(world, left.changes(), Decision(apply, left.held, given.handle, None, Code.DURABLE_WITHOUT_STORE, undo))


class RemainingWindow:
    """What a subscription has left of its window. With nothing held, its own expiration goes on."""

    def __init__(
        self,
        world: World,
        subscription: TopicSubscription,
        orders: Sequence[int],
        window: HeldWindow | None,
        gone: frozenset[Publication] = frozenset(),
    ) -> None:
        self._world = world
        self._gone = gone  # that nobody is to have any more
        self._subscription = subscription
        self._window = window
        self._going_on = ResumedLifetimes(world, subscription, orders)
        self.held = (subscription, *self._going_on.last)
        before = subscription.window.size if subscription.window is not None else 0
        if window is not None and window.size > max(RELEASED_MAX, before):
            text = f"more than {RELEASED_MAX} publications with others between them that it is to have: {_WHAT_THEN}"
            raise refuse(Code.VALUE_INVALID, text)
        is_held = window is not None and window.holds_any(subscription.topic.publications)
        self._ends = 0
        if orders and not is_held:
            self._ends = world.withheld.ends_after(subscription.ends, world.clocks.persistent)

    def changes(self) -> Changes:
        """Return what is written."""
        subscription = self._subscription
        parts = [window_changes(subscription, self._window), self._going_on.changes(self._gone)]
        parts += [removal(each, is_delivered=True) for each in sorted(self._gone, key=lambda one: one.order)]
        if self._ends:
            record = subscription_record(subscription)._replace(ends=self._ends)
            parts.append(Changes(puts=[put_subscription(record)]))
        return merge(parts)

    def apply(self) -> None:
        subscription = self._subscription
        subscription.window = self._window
        if self._ends:
            subscription.ends = self._ends
            self._world.topics.arm_subscription(subscription)
        self._going_on.apply()


def _of_window(
    world: World, subscription_id: str, publication_ids: Sequence[str] | None
) -> tuple[TopicSubscription, HeldWindow, list[int]]:
    """Return a subscription, and which of the publications that are held for it are meant; None: all."""
    subscription = world.topics.subscriptions.get(subscription_id)
    if subscription is not None and subscription.is_pending:
        raise Busy(subscription)
    if subscription is None or subscription.window is None:
        raise refuse(Code.UOW_NOT_FOUND, f"nothing is held for {subscription_id}")
    window, publications = subscription.window, subscription.topic.publications
    if publication_ids is None:
        return subscription, window, window.withheld(publications)
    orders = []
    for publication_id in dict.fromkeys(publication_ids):
        publication = world.topics.publications.get(publication_id)
        if (
            publication is None
            or publication.topic is not subscription.topic
            or not window.withholds(publication.order)
        ):
            text = f"{publication_id} is not held for {subscription_id}"
            raise refuse(Code.UOW_NOT_FOUND, text)
        orders.append(publication.order)
    return subscription, window, orders


# The end.


def finish_hold(world: World) -> None:
    """Forget that anything was held, once nothing is."""
    withheld = world.withheld
    if not withheld.last or withheld.is_ending or withheld.unit_count or withheld.publications or not world.is_store_up:
        return

    def apply(_: int) -> None:
        world.withheld = Hold()
        world.log(Level.NOTE, "nothing is held any more of what was restored from a backup")

    def undo() -> None:
        withheld.is_ending = False

    withheld.is_ending = True
    decide(world, Changes(drops=[HOLD_KEY]), Decision(apply, undo=undo))
