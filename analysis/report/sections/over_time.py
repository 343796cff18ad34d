"""What the page draws over time: the tables of rates, backlog and latencies, as series.

The queues that most happens in, or most waits in, have a colour each, the same in every drawing. All others are added
up where that can be done; some more of them have series that wait until somebody chooses their queue. A queue's row in
the table of the backlog holds until its next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.plots import OTHERS, Series
from oms_journal.analysis.report.drawing.scales import SECOND, Buckets
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import labelled
from oms_journal.analysis.report.tables import Tables

COLOURS = tuple(f"c{number}" for number in range(8))
CHOICE_MAX = 24  # queues that have series: 12 KB of the page each

Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows with their bucket and the place of their queue among `labels`."""

    table: pa.Table
    bucket: Places
    queue: Places
    labels: Sequence[str]

    def column(self, name: str) -> Values:
        return np.asarray(self.table[name].to_numpy(), np.float64)

    def by_label(self, values: Values) -> dict[str, float]:
        """Return the sums of the queues."""
        sums = np.bincount(self.queue, values, len(self.labels))
        return dict(zip(self.labels, sums.tolist(), strict=True))


def timed(table: pa.Table, facts: Facts) -> Timed:
    """Return the rows of a table with a bucket and a queue."""
    coded = labelled(table, facts).combine_chunks().dictionary_encode()
    return Timed(
        table,
        places_of(table, facts.buckets),
        np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64),
        coded.dictionary.to_pylist(),
    )


def places_of(table: pa.Table, buckets: Buckets) -> Places:
    """Return the place of each row's bucket; what lies outside is below 0 or too high."""
    micros = np.asarray(table["bucket"].cast(pa.int64()).to_numpy(), np.int64)
    return (micros - buckets.start) // buckets.width


def summed(places: Places, values: Values, buckets: Buckets) -> Values:
    """Return the sums of the buckets; what lies outside has the value 0, or stands in the first or the last one."""
    sums: Values = np.bincount(np.clip(places, 0, buckets.count - 1), values, buckets.count).astype(np.float64)
    return sums


class OverTime:
    """What came and went, and what waits, by queue."""

    def __init__(self, tables: Tables, facts: Facts) -> None:
        self.buckets = facts.buckets
        self.rates = timed(tables.read("rate"), facts)
        self.is_inside = (self.rates.bucket >= 0) & (self.rates.bucket < self.buckets.count)
        self.counts = np.where(self.is_inside, self.rates.column("operations"), 0.0)
        self._piled, self._changes = _changes(timed(tables.read("backlog"), facts))
        best = _best(self.rates.by_label(self.counts), self._piled.by_label(self._changes))
        self.colours = dict(zip(best, COLOURS, strict=False))
        self.waiting = {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(best[:CHOICE_MAX])}
        for label in self.colours:
            del self.waiting[label]

    def is_of(self, *operations: str) -> npt.NDArray[np.bool_]:
        """Say of each row of the rates whether it is of one of these operations."""
        return np.asarray(pc.is_in(self.rates.table["operation"], pa.array(operations)), np.bool_)

    def per_second(self, values: Values) -> list[Series]:
        """Return a value of each row of the rates as series by queue."""
        return self._by_queue(self.rates, np.where(self.is_inside, values, 0.0) * SECOND / self.buckets.width)

    def backlog(self) -> list[Series]:
        """Return how much waits at the end of each bucket; what came before the first stands in it."""
        return [
            Series(
                series.label,
                series.colour,
                np.cumsum(np.asarray(series.values, np.float64)).round().tolist(),
                series.queue,
                series.waits,
            )
            for series in self._by_queue(self._piled, self._changes)
        ]

    def of_queues(self, label: str, colour: str, values: Values) -> list[Series]:
        """Return the sum of all queues, and each queue's own, which waits to be chosen."""
        per_second = values * SECOND / self.buckets.width
        found = [Series(label, colour, summed(self.rates.bucket, per_second, self.buckets).tolist())]
        for queue in [*self.colours, *self.waiting]:
            own = self._of(queue, self.rates, per_second)
            if own.any():
                found.append(Series(label, colour, own.tolist(), queue, waits=True))
        return found

    def _of(self, label: str, of: Timed, values: Values) -> Values:
        if label not in of.labels:
            return np.zeros(self.buckets.count)
        is_mine = of.queue == of.labels.index(label)
        return summed(of.bucket[is_mine], values[is_mine], self.buckets)

    def _by_queue(self, of: Timed, values: Values) -> list[Series]:
        """Return a series for each queue that has a colour, one for all others, and those that wait."""
        rest = summed(of.bucket, values, self.buckets)
        drawn, waiting = [], []
        for label, colour in self.colours.items():
            own = self._of(label, of, values)
            rest = rest - own
            if own.any():
                drawn.append(Series(label, colour, own.tolist(), label))
        for label, colour in self.waiting.items():
            own = self._of(label, of, values)
            if own.any():
                waiting.append(Series(label, colour, own.tolist(), label, waits=True))
        others = len(set(of.labels) - set(self.colours))
        if others:
            # What is left of a difference of sums is not quite 0.
            drawn.append(Series(wording.counted(others, "other queue"), OTHERS, np.round(rest, 9).tolist()))
        return drawn + waiting


def _changes(piled: Timed) -> tuple[Timed, Values]:
    """Return the backlog in the order of queues and times, and by how much each row differs from the one before."""
    order = np.lexsort((piled.bucket, piled.queue))
    piled = Timed(piled.table.take(order), piled.bucket[order], piled.queue[order], piled.labels)
    values = piled.column("undelivered")
    begins = np.diff(piled.queue, prepend=-1) != 0
    return piled, np.where(begins, values, np.diff(values, prepend=0.0))


def _best(operations: Mapping[str, float], waiting: Mapping[str, float]) -> list[str]:
    """Return the queues, those first in which most happens or waits."""
    shares = dict.fromkeys([*operations, *waiting], 0.0)
    for values in (operations, waiting):
        total = sum(values.values()) or 1.0
        for label, value in values.items():
            shares[label] += value / total
    return sorted(shares, key=lambda label: (-shares[label], label))
