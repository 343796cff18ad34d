"""What the page tells of a broker: its tables reduced to what one page can hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report.drawing.plots import Series
from oms_journal.analysis.report.drawing.scales import SECOND, Buckets
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.values.answers import DATABASE_SHOWN, Ranked, Row, Scope

ROWS_MAX = 100  # of a table on the page
UNITS, STARTS = "units_of_work", "broker_starts"  # tables that only a broker's journal has

NOTHING = Ranked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What became of units of work, and where they are."""

    units: int = 0
    processed: int = 0
    waiting: int = 0
    uncommitted: int = 0
    failed: int = 0
    with_status: int = 0
    services: Ranked = NOTHING  # those in which most waits first
    slowest: Row | None = None
    oldest: Row | None = None  # the service whose oldest unit of work has waited longest
    statuses: Ranked = NOTHING
    waits: Sequence[Series] = ()
    rates: Sequence[Series] = ()  # a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What ended and was not processed, and what was tried in vain."""

    by_status: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    attempts_max: int = 0
    tried_again: int = 0  # units of work
    processed_again: int = 0  # of these
    ranked: Ranked = NOTHING  # the last first
    tried: Ranked = NOTHING  # by queue and attempts, the most first

    @property
    def count(self) -> int:
        """How many units of work that is."""
        return sum(self.by_status.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Talks:
    """Conversations."""

    conversations: int = 0
    open: int = 0
    ended: int = 0
    cancelled: int = 0
    services: Ranked = NOTHING
    ranked: Ranked = NOTHING  # the open ones, the oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Publications, and durable subscribers."""

    publications: int = 0
    waiting: int = 0
    timed_out: int = 0
    subscribers: int = 0
    behind: int = 0
    farthest: Row | None = None  # the subscriber that is behind the longest
    topics: Ranked = NOTHING
    ranked: Ranked = NOTHING  # subscribers, those that are behind the longest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """All that the page tells of brokers."""

    buckets: Buckets
    units: Units
    failures: Failures
    talks: Talks
    topics: Topics | None  # None where there is no topic
    starts: Sequence[Row] = ()  # by broker: how often it was started and ended
    unreadable: int = 0
    newer: int = 0

    def figures(self) -> dict[str, Any]:
        """Return what each section tells, by its anchor."""
        return {"units": self.units, "failed": self.failures, "talks": self.talks, "topics": self.topics}


def digest(tables: Tables, scope: Scope, buckets: Buckets) -> Broker | None:
    """Return what the page tells, None where the journals are no broker's."""
    if not tables.files(UNITS):
        return None
    several = scope.databases > 1
    records = tables.read("broker_records")
    return Broker(
        buckets=buckets,
        units=_units(tables, buckets, several=several),
        failures=_failures(tables, several=several),
        talks=_talks(tables, scope, several=several),
        topics=_topics(tables, several=several),
        starts=_starts(tables),
        unreadable=pc.sum(records["unreadable"]).as_py() or 0,
        newer=pc.sum(records["newer"]).as_py() or 0,
    )


def _rows(table: pa.Table, name: str, *, several: bool) -> list[dict[str, Any]]:
    """Return the rows with `label`: how the page calls their queue, service or topic."""
    return [_labelled(row, name, several=several) for row in table.to_pylist()]


def _labelled(row: dict[str, Any], name: str, *, several: bool) -> dict[str, Any]:
    short = f" ({row['database'][:DATABASE_SHOWN]})" if several else ""
    return {**row, "label": f"{row[name]}{short}"}


def _ranked(rows: Sequence[Row]) -> Ranked:
    return Ranked(rows[:ROWS_MAX], len(rows))


def _sum(rows: Sequence[Row], *names: str) -> int:
    return sum(row[name] or 0 for row in rows for name in names)


def _units(tables: Tables, buckets: Buckets, *, several: bool) -> Units:
    services = _rows(tables.read("uow_services"), "queue", several=several)
    services.sort(key=lambda row: (-row["waiting"], -row["units"], row["label"]))
    taken = [row for row in services if row["p99_seconds"] is not None]
    known = [row for row in services if row["oldest_age_seconds"] is not None]
    statuses = _rows(tables.read("uow_statuses"), "queue", several=several)
    statuses.sort(key=lambda row: (row["label"], -row["units"], row["status"]))
    failed = ("backed_out", "cancelled", "timed_out", "discarded", "removed", "gone")
    waits, rates = _over_time(tables, buckets)
    return Units(
        **{name: _sum(services, name) for name in ("units", "processed", "waiting", "uncommitted", "with_status")},
        failed=_sum(services, *failed),
        services=_ranked([{**row, "failed": _sum([row], *failed)} for row in services]),
        slowest=max(taken, key=lambda row: row["p99_seconds"], default=None),
        oldest=max(known, key=lambda row: row["oldest_age_seconds"], default=None),
        statuses=_ranked(statuses),
        waits=waits,
        rates=rates,
    )


def _over_time(tables: Tables, buckets: Buckets) -> tuple[list[Series], list[Series]]:
    """Return how many units of work wait at the end of each bucket, and how many a second come and go."""
    came, processed, failed = (np.zeros(buckets.count + 1) for _ in range(3))
    for batch in tables.batches(UNITS, ["status", "committed", "ended"]):
        batch = batch.filter(pc.is_valid(batch["committed"]))
        ended = batch.filter(pc.is_valid(batch["ended"]))
        is_done = pc.equal(ended["status"], "PROCESSED")
        for counts, times in (
            (came, batch["committed"]),
            (processed, ended.filter(is_done)["ended"]),
            (failed, ended.filter(pc.invert(is_done))["ended"]),
        ):
            micros = np.asarray(times.cast(pa.int64()).to_numpy(), np.int64)
            # What came before the first bucket stands at the place 0.
            places = np.clip((micros - buckets.start) // buckets.width + 1, 0, buckets.count)
            counts += np.bincount(places, minlength=buckets.count + 1)
    if not came.any():
        return [], []
    there = np.cumsum(came - processed - failed)[1:]
    seconds = buckets.width / SECOND
    rates = (("committed", "c0", came), ("processed", "c2", processed), ("ended otherwise", "c1", failed))
    return [Series("wait", "c0", there.tolist())], [
        Series(label, colour, (counts[1:] / seconds).tolist()) for label, colour, counts in rates if counts[1:].any()
    ]


def _failures(tables: Tables, *, several: bool) -> Failures:
    tried = _rows(tables.read("uow_attempts"), "queue", several=several)
    again = [row for row in tried if row["attempts"]]
    again.sort(key=lambda row: (-row["attempts"], -row["units"], row["label"]))
    last = tables.first("uow_failures", {"ended": "descending", "uowid": "ascending"}, ROWS_MAX)
    return Failures(
        by_status=tables.count_by("uow_failures", "status"),
        attempts=sum(row["attempts"] * row["units"] for row in again),
        attempts_max=max((row["attempts"] for row in again), default=0),
        tried_again=_sum(again, "units"),
        processed_again=_sum(again, "processed"),
        ranked=Ranked([_labelled(row, "queue", several=several) for row in last], tables.count("uow_failures")),
        tried=_ranked(again),
    )


def _talks(tables: Tables, scope: Scope, *, several: bool) -> Talks:
    services = _rows(tables.read("conversation_services"), "service", several=several)
    services.sort(key=lambda row: (-row["open"], -row["conversations"], row["label"]))
    order = {"is_open": "descending", "begun": "ascending", "conv_id": "ascending"}
    first = [row for row in tables.first("conversations", order, ROWS_MAX) if row["is_open"]]
    shown = [
        {**_labelled(row, "service", several=several), "age_seconds": _age(scope, row), "wait": _waiting(row)}
        for row in first
    ]
    return Talks(
        **{name: _sum(services, name) for name in ("conversations", "open", "ended", "cancelled")},
        services=_ranked(services),
        ranked=Ranked(shown, _sum(services, "open")),
    )


def _age(scope: Scope, row: Row) -> float | None:
    return None if row["begun"] is None else max(0.0, (scope.as_of - row["begun"]).total_seconds())


def _waiting(row: Row) -> int:
    return int(row["waiting"] + row["waiting_replies"])


def _topics(tables: Tables, *, several: bool) -> Topics | None:
    topics = _rows(tables.read("topics"), "topic", several=several)
    if not topics:
        return None
    topics.sort(key=lambda row: (-row["waiting"], -row["publications"], row["label"]))
    rows = _rows(tables.read("subscribers"), "topic", several=several)
    subscribers = [{**row, "reader": _reader(row)} for row in rows if row["ended"] is None]
    subscribers.sort(key=lambda row: (-row["lag_seconds"], -row["lag_publications"], row["label"], row["user"]))
    behind = [row for row in subscribers if row["lag_publications"]]
    return Topics(
        **{name: _sum(topics, name) for name in ("publications", "waiting", "timed_out", "subscribers")},
        behind=len(behind),
        farthest=behind[0] if behind else None,
        topics=_ranked(topics),
        ranked=_ranked(subscribers),
    )


def _reader(row: Row) -> str:
    return row["user"] if row["token"] is None else f"{row['user']} ({row['token']})"


def _starts(tables: Tables) -> list[Row]:
    """Return a row for each broker and database: its starts, how often each kind, and the last one."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    rows = tables.read(STARTS).sort_by([("database", "ascending"), ("time", "ascending")]).to_pylist()
    for row in rows:
        mine = found.setdefault(
            (row["database"], row["broker_id"]),
            {"broker_id": row["broker_id"], "database": row["database"], "ETBC": 0, "ETBH": 0, "ETBT": 0, "last": row},
        )
        mine[row["checkpoint"]] += 1
        mine["last"] = row
    return list(found.values())
