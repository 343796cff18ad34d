"""What a restart makes of the records: both restart tables applied, and all that the kernel goes on with.

    a unit of work         becomes
    whose status changes   its new status, written before the broker goes on: BACKEDOUT and DISCARDED ones
    DELIVERED              ACCEPTED. Nothing is written: the next start does the same
    that leaves no trace   nothing: its record is dropped

A store that was restored from a backup begins with all of it held (`holding.py`).

Bodies are not read, and records stay columns until somebody touches them (`units.py`). (EntireX, Using Persistence and
Units of Work, "Recovery Processing": both restart tables, bindings to servers, messages not in memory.)
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.codes import Code
from broker.columns import Columns, Line
from broker.effects import Action, Reported
from broker.holding import Found, hold_all
from broker.pstore import RESTORED_KEY, StartRefused, Store
from broker.records import (
    CLOCK,
    CLOCK_KEY,
    HELD,
    HELDS,
    HOLD,
    HOLD_KEY,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    UOWS,
    HeldRecord,
    Layout,
    PublicationRecord,
    R,
    RecordError,
    RecordKind,
    SubscriptionRecord,
)
from broker.units import Person, Units
from broker.withheld import Withheld

_log = logging.getLogger("oms.broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What the store held, as the kernel goes on with it."""

    has_store: bool = True
    clock: int = 0  # the pseudo-clock as it was written last, microseconds
    highest: int = 0  # no message had a higher number
    units: Units = field(default_factory=Units)
    lines: Sequence[Line] = ()
    senders: Mapping[Person, int] = field(default_factory=dict)  # how many units of work of theirs wait
    subscriptions: Sequence[SubscriptionRecord] = ()
    publications: Sequence[PublicationRecord] = ()
    withheld: Withheld = field(default_factory=Withheld)  # units of work that are held
    held: Mapping[str, HeldRecord] = field(default_factory=dict)  # publications, by the subscription's identifier
    lost: Sequence[str] = ()  # keys whose values are damaged
    reported: Sequence[Reported] = ()  # records that the restart has dropped


def without_store() -> Restored:
    """Return what a broker without a store begins with."""
    return Restored(has_store=False)


def restored(store: Store, *, now: int) -> Restored:
    """Return what the store holds, after what the restart changes of it was written. StartRefused, StoreError.

    `now` is microseconds since 1970 UTC. For a store that was begun and that nobody writes meanwhile.
    """
    value = store.record(CLOCK_KEY)
    clock = 0 if value is None else _decoded(CLOCK, CLOCK_KEY, value).clock
    columns = Columns()
    for batch in store.values(UOWS):
        columns.take(batch.keys, batch.values, batch.damaged)
    columns.sort()
    is_restored = store.record(RESTORED_KEY) is not None
    reported: list[Reported] = []
    for changes in columns.restart(clock, now, holds_all=is_restored):
        store.commit(changes)
        reported += [Reported(key.removeprefix(UOWS), RecordKind.UOW, Action.DELETED) for key in changes.drops]
    found = _found(store, clock)
    if is_restored:
        found = hold_all(store, found, now, has_units=bool(columns.withheld(store.highest())))
    last = 0 if found.hold is None else found.hold.last
    units = Units(last)
    units.fill(columns.heads, columns.parties, columns.places, columns.texts)
    for key in columns.lost:
        _log.error("LOST: the record of the unit of work under %s is damaged; its messages stay in the store", key)
    return Restored(
        clock=clock,
        highest=store.highest(),
        units=units,
        lines=columns.lines(last),
        senders=columns.senders(),
        subscriptions=found.subscriptions,
        publications=found.publications,
        withheld=Withheld(found.hold, columns.withheld(last)),
        held=found.held,
        lost=columns.lost,
        reported=reported,
    )


def _found(store: Store, clock: int) -> Found:
    """Return what the store has of topics, and what it holds."""
    value = store.record(HOLD_KEY)
    return Found(
        clock=clock,
        publications=sorted(_every(store, PUBLICATION, PUBLICATIONS), key=lambda record: record.first),
        hold=None if value is None else _decoded(HOLD, HOLD_KEY, value),
        subscriptions=_every(store, SUBSCRIPTION, SUBSCRIPTIONS),
        held={record.subscription_id: record for record in _every(store, HELD, HELDS)},
    )


def _decoded(layout: Layout[R], key: str, value: bytes) -> R:
    try:
        return layout.decode(value)
    except RecordError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"{key} in the persistent store: {failure}") from failure


def _every(store: Store, layout: Layout[R], prefix: str) -> list[R]:
    return [_decoded(layout, key, value) for key, value in store.records(prefix)]
