"""What the page draws over time: the tables of rates, backlog and commits, reduced to a few series.

The queues that most happens in, or most waits in, have a colour each, the same in every drawing; all
others are added up. A queue's row in the table of the backlog holds until its next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.plots import OTHERS, Series
from oms_journal.analysis.report.drawing.scales import SECOND, Buckets
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.values.answers import Commits, Row, Traffic

COLOURS = tuple(f"c{number}" for number in range(8))
KEYS = "keys (PUT, DROP)"
DATABASE_SHOWN = 8  # hexadecimal digits of an identity, where there are several databases

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


def labelled(table: pa.Table, *, several: bool) -> pa.ChunkedArray:
    """Return how the page calls each row's queue; with several databases the beginning of the identity follows."""
    queues = pc.fill_null(table["queue"], KEYS)
    if not several:
        return queues
    short = pc.utf8_slice_codeunits(table["database"], 0, DATABASE_SHOWN)
    return pc.binary_join_element_wise(queues, pc.binary_join_element_wise("(", short, ")", ""), " ")


def traffic(tables: Tables, buckets: Buckets, *, several: bool) -> Traffic:
    """Return what came and went."""
    rates = _timed(tables.read("rate"), buckets, several=several)
    piled, changes = _changes(tables.read("backlog"), buckets, several=several)
    inside = (rates.bucket >= 0) & (rates.bucket < buckets.count)
    counts = np.where(inside, rates.column("operations"), 0.0)
    chosen = _chosen(_by_label(rates, counts), _by_label(piled, changes))
    width = buckets.width / SECOND
    is_add = np.asarray(pc.equal(rates.table["operation"], "ADD"), np.bool_)
    is_end = np.asarray(pc.is_in(rates.table["operation"], pa.array(["DELIVER", "DELETE"])), np.bool_)
    added_bytes = np.where(is_add & inside, rates.column("bytes"), 0.0)
    total = _over_time(rates.bucket, counts, buckets)
    busiest = max(_by_label(rates, counts).items(), key=lambda each: each[1], default=None)
    return Traffic(
        buckets=buckets,
        operations=_stacked(rates, counts / width, buckets, chosen),
        bytes=_stacked(rates, added_bytes / width, buckets, chosen),
        directions=[
            Series(label, colour, _over_time(rates.bucket, np.where(is_so, counts, 0.0) / width, buckets).tolist())
            for label, colour, is_so in (("added", "c0", is_add), ("delivered or deleted", "c1", is_end))
            if is_so.any()
        ],
        backlog=_piled(piled, changes, buckets, chosen),
        count=int(counts.sum()),
        added_bytes=int(added_bytes.sum()),
        peak=float(total.max() / width),
        peak_at=buckets.texts()[int(total.argmax())],
        busiest=None if busiest is None else {"label": busiest[0], "operations": int(busiest[1])},
    )


def _timed(table: pa.Table, buckets: Buckets, *, several: bool) -> Timed:
    coded = labelled(table, several=several).combine_chunks().dictionary_encode()
    micros = np.asarray(table["bucket"].cast(pa.int64()).to_numpy(), np.int64)
    return Timed(
        table,
        (micros - buckets.start) // buckets.width,
        np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64),
        coded.dictionary.to_pylist(),
    )


def _by_label(timed: Timed, values: Values) -> dict[str, float]:
    sums = np.bincount(timed.queue, values, len(timed.labels))
    return dict(zip(timed.labels, sums.tolist(), strict=True))


def _chosen(operations: Mapping[str, float], waiting: Mapping[str, float]) -> dict[str, str]:
    """Return the colours of the queues that have one."""
    shares = dict.fromkeys([*operations, *waiting], 0.0)
    for values in (operations, waiting):
        total = sum(values.values()) or 1.0
        for label, value in values.items():
            shares[label] += value / total
    best = sorted(shares, key=lambda label: (-shares[label], label))
    return dict(zip(best, COLOURS, strict=False))


def _over_time(places: Places, values: Values, buckets: Buckets) -> Values:
    """Return the sums of the buckets; what lies outside has the value 0."""
    sums: Values = np.bincount(np.clip(places, 0, buckets.count - 1), values, buckets.count).astype(np.float64)
    return sums


def _stacked(timed: Timed, values: Values, buckets: Buckets, chosen: Mapping[str, str]) -> list[Series]:
    """Return a series for each queue that has a colour, and one for all others."""
    rest = _over_time(timed.bucket, values, buckets)
    found = []
    for label, colour in chosen.items():
        if label in timed.labels:
            mine = timed.queue == timed.labels.index(label)
            series = _over_time(timed.bucket[mine], values[mine], buckets)
            rest = rest - series
            if series.any():
                found.append(Series(label, colour, series.tolist()))
    others = len(set(timed.labels) - set(chosen))
    if others:
        # What is left of a difference of sums is not quite 0.
        found.append(Series(wording.counted(others, "other queue"), OTHERS, np.round(rest, 9).tolist()))
    return found


def _changes(table: pa.Table, buckets: Buckets, *, several: bool) -> tuple[Timed, Values]:
    """Return the backlog in the order of queues and times, and by how much each row differs from the one before."""
    timed = _timed(table, buckets, several=several)
    order = np.lexsort((timed.bucket, timed.queue))
    timed = Timed(timed.table.take(order), timed.bucket[order], timed.queue[order], timed.labels)
    values = timed.column("undelivered")
    begins = np.diff(timed.queue, prepend=-1) != 0
    return timed, np.where(begins, values, np.diff(values, prepend=0.0))


def _piled(timed: Timed, changes: Values, buckets: Buckets, chosen: Mapping[str, str]) -> list[Series]:
    """Return how much waits at the end of each bucket; what came before the first stands in it."""
    return [
        Series(series.label, series.colour, np.cumsum(series.values).round().tolist())
        for series in _stacked(timed, changes, buckets, chosen)
    ]


def commits(tables: Tables, buckets: Buckets) -> Commits:
    """Return how operations travelled together."""
    table = tables.read("commits")
    if not table.num_rows:
        return Commits()
    micros = np.asarray(table["bucket"].cast(pa.int64()).to_numpy(), np.int64)
    places = np.clip((micros - buckets.start) // buckets.width, 0, buckets.count - 1)
    count = {name: _summed(table, name, places, buckets) for name in ("writes", "commits", "operations")}
    most = {
        name: _largest(table, name, places, buckets)
        for name in ("commits_per_write_max", "operations_per_commit_max", "gap_p99_seconds", "gap_max_seconds")
    }
    seconds = buckets.width / SECOND
    gaps = pc.max(table["gap_max_seconds"]).as_py()
    return Commits(
        sizes=_mean_and_most(count["operations"], count["commits"], most["operations_per_commit_max"]),
        shares=_mean_and_most(count["commits"], count["writes"], most["commits_per_write_max"]),
        rates=[
            Series(name, colour, (count[name] / seconds).tolist())
            for name, colour in (("commits", "c0"), ("writes", "c1"))
        ],
        gaps=[
            Series("longest", "c1", most["gap_max_seconds"].tolist()),
            Series("99 of 100 are not longer", "c0", most["gap_p99_seconds"].tolist()),
        ]
        if gaps is not None
        else [],
        commits=int(count["commits"].sum()),
        writes=int(count["writes"].sum()),
        operations=int(count["operations"].sum()),
        commits_most=int(most["commits_per_write_max"].max()),
        operations_most=int(most["operations_per_commit_max"].max()),
        longest_gap=gaps,
    )


def _summed(table: pa.Table, name: str, places: Places, buckets: Buckets) -> Values:
    return _over_time(places, np.asarray(table[name].to_numpy(), np.float64), buckets)


def _largest(table: pa.Table, name: str, places: Places, buckets: Buckets) -> Values:
    found = np.zeros(buckets.count)
    np.maximum.at(found, places, np.nan_to_num(np.asarray(table[name].to_numpy(), np.float64)))
    return found


def _mean_and_most(whole: Values, parts: Values, most: Values) -> list[Series]:
    means = np.divide(whole, parts, out=np.zeros_like(whole), where=parts > 0)
    return [Series("largest", "c1", most.tolist()), Series("mean", "c0", means.tolist())]


def rows_with_labels(table: pa.Table, *, several: bool) -> list[dict[str, Any]]:
    """Return the rows with `label`: how the page calls their queue."""
    rows: list[dict[str, Any]] = table.append_column("label", labelled(table, several=several)).to_pylist()
    return rows


def with_label(row: Row, *, several: bool) -> dict[str, Any]:
    """Return the row with its label."""
    queue = row["queue"] if row["queue"] is not None else KEYS
    return {**row, "label": f"{queue} ({row['database'][:DATABASE_SHOWN]})" if several else queue}
