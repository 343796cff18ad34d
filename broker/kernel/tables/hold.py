"""What is held since the store was restored from a backup: the lost broker may have delivered it after that backup.

    held                                is it received?       its lifetime
    a unit of work                      not before RELEASE    stands still; what is sent behind it in its conversation
                                                              waits with it, and goes on with the conversation's order
    a publication for a subscription    not before RELEASE    stands still; newer ones go past it, as past one that is
                                                              given back: publications have no conversation

A number tells all of it: messages that the store knew when it was restored have lower ones than whatever comes later.
So a million units of work are held by one record, and only what an operator releases one by one is noted anywhere.
Pure: knows records and ranges, and nothing else of the broker.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from oms_journal.broker.block import ServiceName
from oms_journal.broker.kernel.tables.ranges import NONE, Ordered, Ranges
from oms_journal.broker.records import Flag, Heads, HeldRecord, HoldRecord, Status, UowRecord

NO_HOLD = HoldRecord(0, 0, 0)
_WAITING = frozenset({Status.ACCEPTED, Status.POSTPONED})
_RELEASED = int(Flag.RELEASED)


def is_held(record: UowRecord, last: int) -> bool:
    """Say whether a unit of work is held where messages up to this number are."""
    return 0 < record.first <= last and not record.flags & _RELEASED and record.status in _WAITING


def withheld_rows(heads: Heads, last: int) -> npt.NDArray[np.bool_]:
    """Say the same of many at once."""
    firsts = heads["first"]
    is_waiting = np.isin(heads["status"], list(_WAITING))
    found: npt.NDArray[np.bool_] = (firsts > 0) & (firsts <= last) & is_waiting & ((heads["flags"] & _RELEASED) == 0)
    return found


class HeldWindow:
    """What of a topic is held for one durable subscription, or was and is not acknowledged. Never changed."""

    __slots__ = ("done", "last", "low", "released", "singles")

    def __init__(self, record: HeldRecord) -> None:
        self.low = record.low  # up to this order all are done with
        self.last = record.last
        self.released = record.released  # up to this order they are not held any more
        self.done = Ranges.read(record.numbers[: record.done])  # behind `low`
        self.singles = Ranges.read(record.numbers[record.done :])  # released one by one; may be done with as well

    def wants(self, order: int) -> bool:
        """The subscription is to have the publication, held or not."""
        return self.low < order <= self.last and order not in self.done

    def withholds(self, order: int) -> bool:
        """It is not to have it yet."""
        return self.wants(order) and order > self.released and order not in self.singles

    def orders(self, publications: Ordered) -> list[int]:
        """Return which of the publications the subscription is to have, held or not."""
        found = publications.keys()[publications.bisect_right(self.low) : publications.bisect_right(self.last)]
        return [order for order in found if order not in self.done]

    def withheld(self, publications: Ordered) -> list[int]:
        """Return which of them are held."""
        return [order for order in self.orders(publications) if self.withholds(order)]

    def holds_any(self, publications: Ordered) -> bool:
        """Say whether any of them is held."""
        return self._first(publications, max(self.low, self.released), self.done, self.singles) is not None

    def without(self, orders: Iterable[int], publications: Ordered, gone: Collection[int] = ()) -> "HeldWindow | None":
        """Return what is left once these are done with; None for nothing. It is at most one number longer for each.

        Those that are gone from the store with it take no number: nobody asks for them again.
        """
        new = [order for order in orders if self.wants(order)]
        if not new:
            return self
        done = self.done.adding(new, publications)
        left = self._first(publications, self.low, done)
        if left is None:
            return None
        low = left - 1
        noted = self.done.adding((order for order in new if order not in gone), publications) if gone else done
        return self._with(low=low, done=noted.behind(low), singles=self.singles.behind(low).without(noted))

    def releasing(self, orders: Iterable[int] | None, publications: Ordered) -> "HeldWindow":
        """Return what it is once these are held no longer, or none is; up to the first that is, one number says so."""
        if orders is None:
            return self._with(released=self.last, singles=NONE)
        singles = self.singles.adding(orders, publications)
        held = self._first(publications, max(self.low, self.released), self.done, singles)
        released = self.last if held is None else held - 1
        return self._with(released=released, singles=singles.behind(released))

    def joined(self, publications: Ordered) -> "HeldWindow":
        """Return it as it takes the least room."""
        return self._with(done=self.done.joined(publications), singles=self.singles.joined(publications))

    def _first(self, publications: Ordered, low: int, *without: Ranges) -> int | None:
        """Return the first order behind this one that is of the window, without these."""
        keys, end, order = publications.keys(), publications.bisect_right(self.last), low
        while (at := publications.bisect_right(order)) < end:
            order = max(each.end_of(keys[at]) for each in without)
            if not order:
                return keys[at]
        return None

    def _with(self, **changed: object) -> "HeldWindow":
        other = HeldWindow.__new__(HeldWindow)
        for name in HeldWindow.__slots__:
            setattr(other, name, changed.get(name, getattr(self, name)))
        return other

    @property
    def size(self) -> int:
        """How many numbers are written of it."""
        return self.done.size + self.singles.size

    def record(self, subscription_id: str) -> HeldRecord:
        """Return it as it is written."""
        numbers = (*self.done.numbers(), *self.singles.numbers())
        return HeldRecord(subscription_id, self.low, self.last, self.released, self.done.size, numbers)


class Hold:
    """What is held of a broker's store: since when, up to which message number, and how much of it there still is."""

    def __init__(self, record: HoldRecord | None = None, units: Mapping[ServiceName, int] | None = None) -> None:
        self.record = record or NO_HOLD
        self.units = Counter(units or {})  # held units of work, by service
        self.publications = 0  # held ones, each counted for every subscription that it is held for
        self.is_ending = False  # its record is on its way out

    @property
    def last(self) -> int:
        """Messages up to this number may be held; 0 where nothing is."""
        return self.record.last

    @property
    def unit_count(self) -> int:
        return self.units.total()

    def has(self, record: UowRecord) -> bool:
        """Say whether a unit of work is held."""
        return is_held(record, self.record.last)

    def one_less(self, service: ServiceName) -> None:
        """Count a unit of work that is released, or complete."""
        self.units[service] -= 1
        if not self.units[service]:
            del self.units[service]

    def ends_after(self, ends: int, clock: int) -> int:
        """Return when a lifetime is over that goes on now: it has as much left as when it began to stand still."""
        return ends + max(clock - self.record.clock, 0) if ends else 0
