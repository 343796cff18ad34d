"""The tables that everything folded becomes, as `answers.py` describes them: sorted by what tells their rows apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oms_journal.analysis.fold.answers import ANSWERS, schema_of
from oms_journal.analysis.fold.asked import (
    BACKLOG,
    COMMITS,
    COUNTS,
    DUPLICATES,
    FILES,
    HISTOGRAM,
    LATENCY,
    LIFECYCLE,
    RATE,
    RETENTION,
    Asked,
)
from oms_journal.analysis.fold.commits import HIGHEST, SUMS, Bucket
from oms_journal.analysis.fold.figures import KINDS, Figures, Mask, Numbers, edges
from oms_journal.analysis.fold.latencies import Latencies
from oms_journal.analysis.fold.messages import Columns
from oms_journal.analysis.fold.partial import History, Partial
from oms_journal.analysis.fold.quantiles import Sketch
from oms_journal.analysis.fold.retention import needed, retention
from oms_journal.analysis.fold.tallies import Tally
from oms_journal.analysis.reading.columns import byte_strings, doubles, longs
from oms_journal.analysis.reading.schema import TIME, Micros
from oms_journal.journal.operations import Operation

Row = dict[str, Any]
SHARES = (0.5, 0.9, 0.99)
GAP_SHARES = (0.5, 0.99)
_MICROS = 1e6  # in a second
_NAMES = {int(operation): operation.name for operation in Operation}


def finished(partial: Partial, asked: Asked, now: Micros) -> dict[str, pa.Table]:
    """Return the answers by name. The partial must not be used any more. Ages are reckoned up to `now`."""
    found: dict[str, list[pa.Table]] = {name: [] for name in ANSWERS if name in asked.questions}
    rows_of_files: dict[str, list[Row]] = {}
    for row in partial.files:
        rows_of_files.setdefault(row["database"] or "", []).append(row)
    for database in sorted({*partial.histories, *rows_of_files}):
        history = partial.histories.get(database) or History(asked)
        for name, table in _Finished(database or None, history, asked).tables(rows_of_files.get(database, []), now):
            found[name].append(table)
    return {name: _together(name, tables) for name, tables in found.items()}


def _together(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    schema = schema_of(ANSWERS[name])
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


class _Finished:
    """The answers of one database."""

    def __init__(self, database: str | None, history: History, asked: Asked) -> None:
        self._database = database
        self._history = history
        self._asked = asked
        self._queues = history.queues.names
        in_order = sorted(range(len(self._queues)), key=lambda queue: self._queues[queue].encode())
        self._ranks = np.empty(len(in_order), np.int64)  # of a queue: its place by name
        self._ranks[in_order] = np.arange(len(in_order))

    def tables(self, files: Sequence[Mapping[str, Any]], now: Micros) -> list[tuple[str, pa.Table]]:
        """Return the tables, by name."""
        asked, history = self._asked, self._history
        there = history.messages.finished(asked.since) if history.messages is not None else None
        found: list[tuple[str, pa.Table]] = []
        if asked.asks(FILES):
            found.append((FILES, self._table(FILES, files)))
        if asked.asks(COUNTS):
            found.append((COUNTS, self._counts(history.counts)))
        if asked.asks(LIFECYCLE):
            assert there is not None
            found.append((LIFECYCLE, self._table(LIFECYCLE, self._lifecycle(history.figures, there, now))))
        if asked.asks(HISTOGRAM):
            found.append((HISTOGRAM, self._table(HISTOGRAM, self._histogram(history.figures.bins))))
        if asked.asks(LATENCY):
            found.append((LATENCY, self._latency(history.figures.latency)))
        if asked.asks(RATE):
            found.append((RATE, self._rate(history.figures.rate, history.key_rate)))
        if asked.asks(BACKLOG):
            found.append((BACKLOG, self._backlog(history.figures.backlog)))
        if history.everything is not None:
            if history.everything is not history.messages or there is None:
                there = history.everything.finished(None)
            kept = needed(there, self._queues, history.versions)
            share, size = asked.compact_share, asked.data_file_bytes
            rows = retention(files, kept, now, compact_share=share, data_file_bytes=size)
            found.append((RETENTION, self._table(RETENTION, rows)))
        if asked.asks(COMMITS):
            buckets = sorted(history.commits.buckets.items())
            found.append((COMMITS, self._table(COMMITS, [self._commits(*each) for each in buckets])))
        if asked.asks(DUPLICATES):
            twice = history.found.rows(self._queues, asked.window)
            found.append((DUPLICATES, self._table(DUPLICATES, [row | {"database": self._database} for row in twice])))
        return found

    def _table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        schema = schema_of(ANSWERS[name])
        return pa.Table.from_arrays(
            [pa.array([row[field.name] for row in rows], field.type) for field in schema], schema=schema
        )

    def _lifecycle(self, figures: Figures, there: Columns, now: Micros) -> list[Row]:
        count = len(self._queues)
        added, before, delivered, deleted, expired, dead_lettered = _padded(figures.counts, count).tolist()
        undelivered = np.bincount(there["queue"], minlength=count).tolist()
        sizes = np.zeros(count, np.int64)
        np.add.at(sizes, there["queue"], there["length"].astype(np.int64))
        queues, places = np.unique(there["queue"], return_index=True)  # the first ones: the oldest
        oldest = dict(zip(queues.tolist(), places.tolist(), strict=True))
        rows = []
        for queue in self._in_order():
            if not added[queue] + before[queue]:
                continue
            sketch = figures.latencies.get(queue, Sketch())
            seconds = [_seconds(each) for each in (*sketch.quantiles(SHARES), sketch.highest)]
            first = oldest.get(queue)
            since = None if first is None else int(there["added"][first])
            rows.append(
                {
                    "database": self._database,
                    "queue": self._queues[queue],
                    "added": added[queue],
                    "added_before": before[queue],
                    "delivered": delivered[queue],
                    "deleted": deleted[queue],
                    "expired": expired[queue],
                    "dead_lettered": dead_lettered[queue],
                    "undelivered": undelivered[queue],
                    "undelivered_bytes": int(sizes[queue]),
                    **dict(zip(("p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"), seconds, strict=True)),
                    "oldest": None if first is None else int(there["number"][first]),
                    "oldest_added": since,
                    "oldest_age_seconds": None if since is None else max(0, now - since) / _MICROS,
                }
            )
        return rows

    def _histogram(self, bins: Numbers) -> list[Row]:
        decade, last = self._asked.bins_a_decade, len(edges(self._asked.bins_a_decade))
        rows = []
        for queue in self._in_order():
            if queue >= len(bins):
                continue
            for place in np.flatnonzero(bins[queue]).tolist():
                assert place <= last
                rows.append(
                    {
                        "database": self._database,
                        "queue": self._queues[queue],
                        "bin": place - 1 if place else None,
                        "from_seconds": _edge(place - 1, decade) if place else 0.0,
                        "to_seconds": _edge(place, decade) if place else 1 / _MICROS,
                        "messages": int(bins[queue, place]),
                    }
                )
        return rows

    def _counts(self, tally: Tally) -> pa.Table:
        groups, _, *sums = tally.rows()
        queues, kinds = groups // KINDS - 1, groups % KINDS
        order = np.lexsort((kinds, self._rank(queues)))
        names = [_NAMES[kind].encode() for kind in kinds[order].tolist()]
        columns = [self._names(queues[order]), byte_strings(names, pa.string())]
        return self._made(COUNTS, [*columns, *(longs(each[order], pa.int64()) for each in sums)])

    def _latency(self, latencies: Latencies) -> pa.Table:
        found = latencies.spread(SHARES)
        order = np.lexsort((found.bucket, self._rank(found.queue)))
        seconds = [doubles(each[order] / _MICROS) for each in (*found.quantiles, found.highest)]
        columns = [
            self._times(found.bucket[order]), self._names(found.queue[order]), longs(found.count[order], pa.int64()),
            *seconds, doubles((found.error / found.count)[order]),
        ]  # fmt: skip
        return self._made(LATENCY, columns)

    def _rate(self, of_messages: Tally, of_keys: Tally) -> pa.Table:
        groups, buckets, operations, sizes = of_messages.rows()
        kinds_of_keys, *of_key = of_keys.rows()
        queues = np.append(groups // KINDS, np.full(len(kinds_of_keys), -1))
        kinds = np.append(groups % KINDS, kinds_of_keys)
        buckets, operations, sizes = (
            np.append(one, other) for one, other in zip((buckets, operations, sizes), of_key, strict=True)
        )
        order = np.lexsort((kinds, buckets, self._rank(queues)))
        names = [_NAMES[kind].encode() for kind in kinds[order].tolist()]
        columns = [
            self._times(buckets[order]), self._names(queues[order]), byte_strings(names, pa.string()),
            longs(operations[order], pa.int64()), longs(sizes[order], pa.int64()),
        ]  # fmt: skip
        return self._made(RATE, columns)

    def _backlog(self, changes: Tally) -> pa.Table:
        queues, buckets, messages, sizes, before = changes.rows()
        begins = np.append(True, queues[1:] != queues[:-1]) if len(queues) else np.empty(0, np.bool_)
        undelivered: Numbers = _running(messages, begins) + _totals(before, begins)
        order = np.lexsort((buckets, self._rank(queues)))
        columns = [
            self._times(buckets[order]), self._names(queues[order]), longs(undelivered[order], pa.int64()),
            longs(_running(sizes, begins)[order], pa.int64()),
        ]  # fmt: skip
        return self._made(BACKLOG, columns)

    def _commits(self, number: int, bucket: Bucket) -> Row:
        sums = dict(zip(SUMS, bucket.sums.tolist(), strict=True))
        gaps = [_seconds(each) for each in (*bucket.gaps.quantiles(GAP_SHARES), bucket.gaps.highest)]
        return {
            "database": self._database,
            "bucket": number * self._asked.every,
            **sums,
            **dict(zip(HIGHEST, bucket.highest.tolist(), strict=True)),
            "commits_per_write": sums["commits"] / sums["writes"],
            "operations_per_commit": sums["operations"] / sums["commits"],
            "bytes_per_commit": sums["bytes"] / sums["commits"],
            **dict(zip(("gap_p50_seconds", "gap_p99_seconds", "gap_max_seconds"), gaps, strict=True)),
        }

    def _in_order(self) -> list[int]:
        found: list[int] = np.argsort(self._ranks).tolist()
        return found

    def _rank(self, queues: Numbers) -> Numbers:
        """Return the place by name of queues; -1, which is none, comes first."""
        return np.append(self._ranks, -1)[queues]

    def _names(self, queues: Numbers) -> pa.Array:
        names: list[bytes | None] = [name.encode() for name in self._queues]
        return byte_strings([*names, None], pa.string()).take(longs(queues % (len(names) + 1), pa.int64()))

    def _times(self, buckets: Numbers) -> pa.Array:
        return longs(buckets * self._asked.every, TIME)

    def _made(self, name: str, columns: Sequence[pa.Array]) -> pa.Table:
        """Return a table whose first column is the database."""
        schema = schema_of(ANSWERS[name])
        database = pa.nulls(len(columns[0]), pa.string())
        if self._database is not None:
            database = pa.repeat(pa.scalar(self._database), len(columns[0]))
        return pa.Table.from_arrays([database, *columns], schema=schema)


def _padded(counts: Numbers, columns: int) -> Numbers:
    return np.pad(counts, ((0, 0), (0, columns - counts.shape[1])))


def _running(values: Numbers, begins: Mask) -> Numbers:
    """Return the sums so far, anew where a group begins."""
    if not len(values):
        return values
    sums = np.cumsum(values)
    before = (sums - values)[begins]
    found: Numbers = sums - before[np.cumsum(begins) - 1]
    return found


def _totals(values: Numbers, begins: Mask) -> Numbers:
    """Return the sum of each group, in each of its rows."""
    if not len(values):
        return values
    found: Numbers = np.add.reduceat(values, np.flatnonzero(begins))[np.cumsum(begins) - 1]
    return found


def _edge(place: int, bins_a_decade: int) -> float:
    return float(10.0 ** (place / bins_a_decade) / _MICROS)


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / _MICROS
