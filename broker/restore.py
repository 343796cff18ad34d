"""What a restart makes of the records: both restart tables applied, and all that the kernel goes on with.

    a unit of work         becomes
    whose status changes   its new status, written before the broker goes on: BACKEDOUT and DISCARDED ones
    DELIVERED              ACCEPTED. Nothing is written: the next start does the same
    that leaves no trace   nothing: its record is dropped

Bodies are not read, and records stay columns until somebody touches them (`units.py`). (EntireX, Using Persistence and
Units of Work, "Recovery Processing": both restart tables, bindings to servers, messages not in memory.)
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.codes import Code
from broker.columns import Columns, Line
from broker.effects import Action, Reported
from broker.pstore import StartRefused, Store
from broker.records import (
    CLOCK,
    CLOCK_KEY,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    UOWS,
    Layout,
    PublicationRecord,
    R,
    RecordError,
    RecordKind,
    SubscriptionRecord,
)
from broker.units import Person, Units

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
    reported: list[Reported] = []
    for changes in columns.restart(clock, now):
        store.commit(changes)
        reported += [Reported(key.removeprefix(UOWS), RecordKind.UOW, Action.DELETED) for key in changes.drops]
    units = Units()
    units.fill(columns.heads, columns.parties, columns.places, columns.texts)
    for key in columns.lost:
        _log.error("LOST: the record of the unit of work under %s is damaged; its messages stay in the store", key)
    return Restored(
        clock=clock,
        highest=store.highest(),
        units=units,
        lines=columns.lines(),
        senders=columns.senders(),
        subscriptions=_every(store, SUBSCRIPTION, SUBSCRIPTIONS),
        publications=sorted(_every(store, PUBLICATION, PUBLICATIONS), key=lambda record: record.first),
        lost=columns.lost,
        reported=reported,
    )


def _decoded(layout: Layout[R], key: str, value: bytes) -> R:
    try:
        return layout.decode(value)
    except RecordError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"{key} in the persistent store: {failure}") from failure


def _every(store: Store, layout: Layout[R], prefix: str) -> list[R]:
    return [_decoded(layout, key, value) for key, value in store.records(prefix)]
