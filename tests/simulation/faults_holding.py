"""Faults made on purpose in what a broker holds since its store was restored: forgotten, or decided too early."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import broker.releasing
import broker.restore
from broker.changes import Changes
from broker.deciding import decide
from broker.decision import Decision
from broker.withheld import Withheld
from broker.world import World
from tests.simulation.fault import changed, fault


def _told_early(world: World, changes: Changes, decision: Decision) -> None:
    """Do it and tell it, and have it written when nobody waits for that any more."""
    decision.apply(0)
    decide(world, changes, Decision(lambda _: None))


@fault("broker", budget=150)
def a_release_is_told_before_it_is_durable() -> Iterator[None]:
    """What is released or discarded is answered, and done, while it is on its way to the store."""
    with changed(broker.releasing, "decide", lambda _: _told_early):
        yield


@fault("broker", budget=60)
def a_discarded_unit_of_work_comes_back_after_a_restart() -> Iterator[None]:
    """What is discarded is gone until the next restart only."""

    def of(closing: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: closing(*arguments)._replace(changes=Changes())

    with changed(broker.releasing, "closing", of):
        yield


@fault("broker", budget=150)
def one_publication_of_a_release_stays_held() -> Iterator[None]:
    """Of several publications that are released at once the oldest is left out."""

    def of(chosen: Callable[..., Any]) -> Callable[..., Any]:
        def fewer(*arguments: Any) -> Any:
            subscription, window, orders = chosen(*arguments)
            return subscription, window, orders[1:] if len(orders) > 1 else orders

        return fewer

    with changed(broker.releasing, "_of_window", of):
        yield


@fault("broker", budget=60)
def a_restart_forgets_what_is_held() -> Iterator[None]:
    """What is held is held until the next restart only."""

    def of(found: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: replace(found(*arguments), hold=None, held={})

    with changed(broker.restore, "_found", of):
        yield


@fault("broker", budget=200)
def lifetimes_of_what_is_held_go_on() -> Iterator[None]:
    """What is released has no more time left than if it had not been held."""
    with changed(Withheld, "ends_after", lambda _: lambda self, ends, clock: ends):
        yield
