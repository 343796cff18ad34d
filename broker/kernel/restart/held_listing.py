"""What is held of a broker's store, read of its records by who changes nothing: the broker may be running, or stopped.

In a store that was restored and not started since, that is all that waits: its first start will hold it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from oms_journal.broker.kernel.restart.hold import Found, window_of
from oms_journal.broker.kernel.state.unit_records import service_name
from oms_journal.broker.kernel.tables.hold import Window, is_withheld
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
    PublicationRecord,
    Status,
    SubscriptionRecord,
    UowRecord,
)
from oms_journal.broker.store.start import RESTORED_KEY

EVERYTHING = (1 << 64) - 1  # no message has a higher number


@dataclass(frozen=True, slots=True)
class Held:
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


def held_in(records: Records) -> list[Held]:
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
    found = Found(clock=0, publications=publications, held=held)
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
    return bool(record.flags & Flag.PERSISTENT) and is_withheld(record, last)


def _unit(record: UowRecord) -> Held:
    queue = str(ServiceQueue(*service_name(record), is_reply=bool(record.flags & Flag.FROM_SERVER)))
    return Held(
        record.uowid, queue, record.first, record.messages, record.committed, record.sender_user, record.producer
    )


def _of_subscription(
    subscription: SubscriptionRecord, record: HeldRecord | None, publications: list[PublicationRecord]
) -> Iterator[Held]:
    if record is None:
        return
    window = Window(record)
    for each in publications:
        if each.topic == subscription.topic and window.withholds(each.first):
            yield Held(
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
