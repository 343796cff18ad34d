"""Faults made on purpose in what a broker holds since its store was restored: forgotten, or decided too early."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappush
from typing import Any

from oms_journal.broker.kernel.state.decision import Decision
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topics import TopicSubscription
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.hold import HeldWindow
from oms_journal.broker.store.changes import Changes
from oms_journal.journal.format.manifest import Manifest
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault


def _told_early(world: World, changes: Changes, decision: Decision) -> None:
    """Do it and tell it, and have it written when nobody waits for that any more."""
    decision.apply(0)
    decide(world, changes, Decision(lambda _: None))


@fault("broker", budget=150)
def a_release_is_told_before_it_is_durable() -> Iterator[None]:
    """What is released or discarded is answered, and done, while it is on its way to the store."""
    with changed(Patched.HOLD_RELEASE_DECIDE, lambda _: _told_early):
        yield


@fault("broker", budget=60)
def a_discarded_unit_of_work_comes_back_after_a_restart() -> Iterator[None]:
    """What is discarded is gone until the next restart only."""

    def of(closing: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: closing(*arguments)._replace(changes=Changes())

    with changed(Patched.HOLD_RELEASE_COMPLETION_BY, of):
        yield


@fault("broker", budget=150)
def one_publication_of_a_release_stays_held() -> Iterator[None]:
    """Of several publications that are released at once the oldest is left out."""

    def of(chosen: Callable[..., Any]) -> Callable[..., Any]:
        def fewer(*arguments: Any) -> Any:
            subscription, window, orders = chosen(*arguments)
            return subscription, window, orders[1:] if len(orders) > 1 else orders

        return fewer

    with changed(Patched.HOLD_RELEASE_OF_WINDOW, of):
        yield


@fault("broker", budget=60)
def a_restart_forgets_what_is_held() -> Iterator[None]:
    """What is held is held until the next restart only."""

    def of(found: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: replace(found(*arguments), hold=None, held={})

    with changed(Patched.RESTART_FOUND, of):
        yield


@fault("broker", budget=200)
def lifetimes_of_what_is_held_go_on() -> Iterator[None]:
    """What is released has no more time left than if it had not been held."""
    with changed(Patched.HOLD_ENDS_AFTER, lambda _: lambda self, ends, clock: ends):
        yield


@fault("broker", budget=60)
def every_backup_is_taken_for_one_of_a_broker_that_had_ended() -> Iterator[None]:
    """A restore holds nothing where nobody asks for it, though the broker was running and went on."""

    def of(read: Callable[..., tuple[Manifest, tuple[str, ...]]]) -> Callable[..., tuple[Manifest, tuple[str, ...]]]:
        def closed(*arguments: object) -> tuple[Manifest, tuple[str, ...]]:
            found, changed = read(*arguments)
            return replace(found, was_closed=True), changed

        return closed

    with (
        changed(Patched.BACKUP_RESTORE_MANIFEST, of),
        changed(Patched.BACKUP_RESTORE_WENT_ON, lambda _: lambda *_: False),
    ):
        yield


@fault("broker", budget=60)
def held_publications_are_handed_out_after_a_restart() -> Iterator[None]:
    """What is held for a subscriber is listed, and handed out to it all the same."""

    def of(withhold: Callable[..., None]) -> Callable[..., None]:
        def handed(world: World, subscription: TopicSubscription, window: HeldWindow) -> None:
            withhold(world, subscription, window)
            for order in window.withheld(subscription.topic.publications):
                heappush(subscription.again, order)

        return handed

    with changed(Patched.RESTART_WITHHOLD, of):
        yield


@fault("broker", budget=150)
def a_restored_broker_counts_its_starts_on() -> Iterator[None]:
    """The first start on what was restored has the number that the lost broker's next start had."""

    def of(following_start: Callable[..., int]) -> Callable[..., int]:
        return lambda starts, since, opened, *, is_restored: (
            starts + 1 if is_restored else following_start(starts, since, opened, is_restored=False)
        )

    with changed(Patched.STORE_NEXT_START, of):
        yield
