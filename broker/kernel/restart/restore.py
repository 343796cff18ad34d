"""What a restart makes of the records: both restart tables applied, and all that the kernel goes on with.

    a unit of work         becomes
    whose status changes   its new status, written before the broker goes on: BACKEDOUT and DISCARDED ones
    DELIVERED              ACCEPTED. Nothing is written: the next start does the same
    that leaves no trace   nothing: its record is dropped

A store that was restored from a backup begins with all of it held (`restart/hold.py`).

Bodies are not read, and records stay columns until somebody touches them (`units.py`). (EntireX, Using Persistence and
Units of Work, "Recovery Processing": both restart tables, bindings to servers, messages not in memory.)
"""

import logging
from operator import itemgetter

from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.restart.hold import Holdable, hold_all
from oms_journal.broker.kernel.restart.unit_columns import UnitColumns
from oms_journal.broker.kernel.state.world import Restored
from oms_journal.broker.kernel.tables.dormant_units import DormantUnits
from oms_journal.broker.kernel.tables.hold import Hold
from oms_journal.broker.kernel.tables.remembered import Remembered
from oms_journal.broker.records import (
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
    Layout,
    R,
    RecordError,
    RecordKind,
)
from oms_journal.broker.store.report import Action, ReportLine
from oms_journal.broker.store.start import RESTORED_KEY, MessageUnreadable, PersistentStore, StartRefused, read_mark

_log = logging.getLogger("oms.broker")


def without_store() -> Restored:
    """Return what a broker without a store begins with."""
    return Restored(has_store=False)


def restore(store: PersistentStore, *, now: int) -> Restored:
    """Return what the store holds, after what the restart changes of it was written. StartRefused, StoreError.

    `now` is microseconds since 1970 UTC. For a store that was begun and that nobody writes meanwhile.
    """
    columns = UnitColumns()
    for batch in store.values(UOWS):
        columns.add_batch(batch.keys, batch.values, batch.damaged)
    columns.sort()
    lost = list(columns.lost)
    for key in columns.lost:
        _log.error("LOST: the record of the unit of work under %s is damaged; its messages stay in the store", key)
    clock = _clock(store, columns, lost)
    is_restored = read_mark(store.record, RESTORED_KEY) is not None
    reported: list[ReportLine] = []
    for changes in columns.restart(clock, now, holds_all=is_restored):
        store.commit(changes)
        reported += [ReportLine(key.removeprefix(UOWS), RecordKind.UOW, Action.DELETED) for key in changes.drops]
    found = _found(store, clock, lost)
    if is_restored:
        found = hold_all(store, found, now, has_units=bool(columns.withheld(store.highest())))
    last = 0 if found.hold is None else found.hold.last
    units = DormantUnits(last)
    units.fill(columns.heads, columns.parties, columns.places, columns.texts)
    return Restored(
        clock=clock,
        highest=store.highest(),
        units=units,
        lines=columns.lines(last),
        senders=columns.senders(),
        subscriptions=found.subscriptions,
        publications=found.publications,
        withheld=Hold(found.hold, columns.withheld(last)),
        held=found.held,
        lost=lost,
        reported=reported,
        remembered=Remembered(store.identifiers()),
    )


def _found(store: PersistentStore, clock: int, lost: list[str]) -> Holdable:
    """Return what the store has of topics, and what it holds; of that nothing is left out, or it would be delivered."""
    value = store.record(HOLD_KEY)
    held_lost: list[str] = []
    held = {record.subscription_id: record for record in _every(store, HELD, HELDS, held_lost)}
    if held_lost:
        raise StartRefused(Code.RESTART_FAILED, f"{held_lost[0]} in the persistent store is damaged")
    return Holdable(
        clock=clock,
        publications=sorted(_every(store, PUBLICATION, PUBLICATIONS, lost), key=lambda record: record.first),
        hold=None if value is None else _decoded(HOLD, HOLD_KEY, value),
        subscriptions=_every(store, SUBSCRIPTION, SUBSCRIPTIONS, lost),
        held=held,
    )


def _decoded(layout: Layout[R], key: str, value: bytes) -> R:
    try:
        return layout.decode(value)
    except RecordError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"{key} in the persistent store: {failure}") from failure


def _clock(store: PersistentStore, columns: UnitColumns, lost: list[str]) -> int:
    """Return the pseudo-clock as it was written last; where that is damaged, no later than it was."""
    try:
        value = store.record(CLOCK_KEY)
    except MessageUnreadable:
        _log.error("LOST: the pseudo-clock is damaged; it goes on from when the latest lifetime began")
        lost.append(CLOCK_KEY)
        return columns.latest_begin()
    return 0 if value is None else _decoded(CLOCK, CLOCK_KEY, value).clock


def _every(store: PersistentStore, layout: Layout[R], prefix: str, lost: list[str]) -> list[R]:
    """Return the records with the prefix, in order; note those that are damaged."""
    found = []
    for batch in store.values(prefix):
        found += [
            (key, _decoded(layout, key.decode(), value)) for key, value in zip(batch.keys, batch.values, strict=True)
        ]
        for key in batch.damaged:
            _log.error("LOST: %s is damaged, and left out", key.decode())
            lost.append(key.decode())
    return [record for _, record in sorted(found, key=itemgetter(0))]
