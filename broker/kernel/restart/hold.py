"""How a store that was restored from a backup begins: what waits in it is held, in one durable step.

`oms restore` leaves a mark in a broker's store; the first start turns it into the hold and removes it in the same
commit. Before that commit nobody is served, and a start that is killed before it is simply repeated. What an operator
had released after an earlier restore is held again, since this backup may be older than its delivery.

What is held of a broker's store, read of its records by who changes nothing: the broker may be running, or stopped.

In a store that was restored and not started since, that is all that waits: its first start will hold it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sortedcontainers import SortedDict

from oms_journal.broker.kernel.state.unit_records import service_of_record
from oms_journal.broker.kernel.tables.hold import HeldWindow, is_held
from oms_journal.broker.kernel.tables.ranges import NONE, Ranges
from oms_journal.broker.queues import ServiceQueue, TopicQueue
from oms_journal.broker.records import (
    HELD,
    HELDS,
    HOLD,
    HOLD_KEY,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    UOW,
    UOWS,
    Flag,
    HeldRecord,
    HoldRecord,
    PublicationRecord,
    Status,
    SubscriptionRecord,
    UowRecord,
)
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.start import RESTORED_KEY, PersistentStore, read_mark

SOURCE_BYTES_MAX = 200  # of what a record tells people of the backup


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdable:
    """What a store has that can be held, and what it holds."""

    clock: int  # the pseudo-clock
    publications: Sequence[PublicationRecord] = ()
    subscriptions: Sequence[SubscriptionRecord] = ()
    hold: HoldRecord | None = None
    held: Mapping[str, HeldRecord] = field(default_factory=dict)  # by the subscription's identifier


def hold_all(store: PersistentStore, found: Holdable, now: int, *, has_units: bool) -> Holdable:
    """Return what is held once all that waits is; it is durable then. `has_units` says whether a unit of work waits."""
    said = read_mark(store.record, RESTORED_KEY)
    assert said is not None, "only a store that was restored is held"
    last = store.highest()
    windows = {each.subscription_id: window_of(each, found, last) for each in found.subscriptions}
    held = {subscription_id: window for subscription_id, window in windows.items() if window is not None}
    if not has_units and not held:
        gone = [*([HOLD_KEY] if found.hold is not None else []), *(HELDS + each for each in found.held)]
        store.commit(Changes(drops=[RESTORED_KEY, *gone]))
        return replace(found, hold=None, held={})
    # What has been held since an earlier restore keeps what it has left, and then what is new has no less.
    stands_at = found.clock if found.hold is None else min(found.hold.clock, found.clock)
    hold = HoldRecord(last, stands_at, now, _source(said))
    subscriptions = [
        each._replace(position=last, acknowledged=()) if each.subscription_id in held else each
        for each in found.subscriptions
    ]
    puts = [Put(HOLD_KEY, HOLD.encode(hold)), *(Put(HELDS + each, HELD.encode(held[each])) for each in held)]
    puts += [
        Put(SUBSCRIPTIONS + each.subscription_id, SUBSCRIPTION.encode(each))
        for each in subscriptions
        if each.subscription_id in held
    ]
    drops = [RESTORED_KEY, *(HELDS + each for each in found.held if each not in held)]
    store.commit(Changes(puts=puts, drops=drops))
    return replace(found, hold=hold, subscriptions=subscriptions, held=held)


def window_of(subscription: SubscriptionRecord, found: Holdable, last: int) -> HeldRecord | None:
    """Return what is held for a subscription; None where it has everything."""
    before = found.held.get(subscription.subscription_id)
    window = HeldWindow(before) if before is not None else None
    acknowledged = Ranges.read(subscription.acknowledged)
    of_topic = SortedDict((each.first, each) for each in found.publications if each.topic == subscription.topic)
    wanted = [
        first
        for first in of_topic
        if (first > subscription.position and first not in acknowledged) or (window is not None and window.wants(first))
    ]
    if not wanted:
        return None
    low, wants = wanted[0] - 1, frozenset(wanted)
    done = NONE.adding((first for first in of_topic if first > low and first not in wants), of_topic)
    return HeldRecord(subscription.subscription_id, low, last, 0, done.size, done.numbers())


def _source(mark: bytes) -> str:
    """Return what people are told of where the store was restored from."""
    try:
        said = json.loads(mark)
        text = str(said.get("backup") or said.get("source") or "")
    except (ValueError, AttributeError):
        return ""
    return text.encode(errors="backslashreplace")[:SOURCE_BYTES_MAX].decode(errors="ignore")


EVERYTHING = (1 << 64) - 1  # no message has a higher number


@dataclass(frozen=True, slots=True)
class HeldItem:
    """One thing that is held: a unit of work, or a publication for one subscription. Times are microseconds."""

    identifier: str  # UOWID or PUBLICATION-ID
    queue: str  # as the journal calls it
    first: int  # number of its first message, the others follow
    messages: int
    committed: int  # since 1970 UTC
    sender: str  # USER-ID
    producer: str
    subscription_id: str = ""  # of a publication
    subscriber: str = ""  # USER-ID


@dataclass(frozen=True, slots=True)
class Records:
    """How a store's records are read."""

    get: Callable[[str], bytes | None]
    keys: Callable[[str], Iterator[str]]
    is_held_back: bool = False  # by the engine, of which the first start makes a hold of the broker's

    def every(self, prefix: str) -> Iterator[bytes]:
        for key in self.keys(prefix):
            value = self.get(key)
            if value is not None:
                yield value


def held_in(records: Records) -> list[HeldItem]:
    """Return all that is held, the oldest first; units of work before publications. RecordError."""
    is_restored = records.is_held_back or records.get(RESTORED_KEY) is not None
    value = records.get(HOLD_KEY)
    if value is None and not is_restored:
        return []
    last = EVERYTHING if is_restored or value is None else HOLD.decode(value).last
    units = [
        _unit(record)
        for record in map(UOW.decode, records.every(UOWS))
        if _is_held(record, last, is_restored=is_restored)
    ]
    publications = [PUBLICATION.decode(each) for each in records.every(PUBLICATIONS)]
    held = {each.subscription_id: each for each in map(HELD.decode, records.every(HELDS))}
    found = Holdable(clock=0, publications=publications, held=held)
    for each in map(SUBSCRIPTION.decode, records.every(SUBSCRIPTIONS)):
        window = window_of(each, found, EVERYTHING) if is_restored else held.get(each.subscription_id)
        units += _of_subscription(each, window, publications)
    return sorted(units, key=lambda each: (bool(each.subscription_id), each.first, each.subscription_id))


def _is_held(record: UowRecord, last: int, *, is_restored: bool) -> bool:
    """Say whether it is held, or will be; a restart makes an ACCEPTED one of a DELIVERED one."""
    if record.status is Status.DELIVERED:
        record = record._replace(status=Status.ACCEPTED)
    if is_restored:
        record = record._replace(flags=record.flags & ~Flag.RELEASED)
    return bool(record.flags & Flag.PERSISTENT) and is_held(record, last)


def _unit(record: UowRecord) -> HeldItem:
    queue = str(ServiceQueue(*service_of_record(record), is_reply=bool(record.flags & Flag.FROM_SERVER)))
    return HeldItem(
        record.uowid, queue, record.first, record.messages, record.committed, record.sender_user, record.producer
    )


def _of_subscription(
    subscription: SubscriptionRecord, record: HeldRecord | None, publications: list[PublicationRecord]
) -> Iterator[HeldItem]:
    if record is None:
        return
    window = HeldWindow(record)
    for each in publications:
        if each.topic == subscription.topic and window.withholds(each.first):
            yield HeldItem(
                each.publication_id,
                str(TopicQueue(each.topic)),
                each.first,
                each.messages,
                each.committed,
                each.user,
                each.producer,
                subscription.subscription_id,
                subscription.user,
            )
