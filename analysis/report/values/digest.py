"""From the report's tables to what one page can hold: the first rows and the sums."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report.drawing.plots import BARS_MAX, Bins
from oms_journal.analysis.report.drawing.scales import Buckets
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.values import timelines
from oms_journal.analysis.report.values.answers import (
    Answers,
    Compared,
    Delays,
    Disk,
    Lost,
    Ranked,
    Row,
    Scope,
    Twice,
    Waiting,
)
from oms_journal.analysis.report.values.timelines import labelled, rows_with_labels, with_label

ROWS_MAX = 100  # of a table on the page
SPREADS_MAX = 40  # rows that hold a drawing each
DAMAGED = "damaged"
BAD = (DAMAGED, "gap", "missing", "unreadable")  # kinds of damage: what was promised cannot be read there


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the tables do not tell."""

    scope: Scope
    buckets: Buckets
    window: timedelta  # within which equal payloads count as duplicates
    archives: int = 0
    late_archives: int = 0  # of what nobody was promised
    undelivered_only: bool = False  # how the copy was compared
    tables: Sequence[Row] = ()

    @property
    def has_several(self) -> bool:
        """Whether a queue's name alone does not say which one it is."""
        return self.scope.databases > 1


def digest(tables: Tables, facts: Facts) -> Answers:
    """Return what the page tells."""
    several = facts.has_several
    lifecycle = rows_with_labels(tables.read("lifecycle"), several=several)
    return Answers(
        scope=facts.scope,
        waiting=_waiting(lifecycle),
        delays=_delays(tables, lifecycle, several=several),
        traffic=timelines.traffic(tables, facts.buckets, several=several),
        disk=_disk(tables, several=several),
        commits=timelines.commits(tables, facts.buckets),
        twice=_twice(tables, facts),
        lost=_lost(tables, facts),
        compared=_compared(tables, facts) if facts.scope.compared_with else None,
        tables=facts.tables,
    )


def _waiting(rows: Sequence[Row]) -> Waiting:
    waiting = [row for row in rows if row["undelivered"]]
    known = [row for row in waiting if row["oldest_age_seconds"] is not None]
    fullest = sorted(rows, key=lambda row: (-row["undelivered"], -row["added"], row["label"]))
    return Waiting(
        **{name: sum(row[name] for row in rows) for name in ("added", "delivered", "deleted", "undelivered")},
        queues=len(rows),
        waiting_queues=len(waiting),
        oldest=max(known, key=lambda row: row["oldest_age_seconds"], default=None),
        fullest=Ranked(fullest[:ROWS_MAX], len(fullest)),
    )


def _delays(tables: Tables, rows: Sequence[Row], *, several: bool) -> Delays:
    delivered = [row for row in rows if row["p99_seconds"] is not None]
    slowest = sorted(delivered, key=lambda row: (-row["p99_seconds"], row["label"]))
    shown = slowest[:SPREADS_MAX]
    table = tables.read("latency_histogram")
    wanted = pc.is_in(labelled(table, several=several), pa.array([row["label"] for row in shown], pa.string()))
    bins: dict[str, list[tuple[float, float, int]]] = {row["label"]: [] for row in shown}
    for row in rows_with_labels(table.filter(wanted), several=several):
        bins[row["label"]].append((row["from_seconds"], row["to_seconds"], row["messages"]))
    all_bins = table.group_by(["from_seconds", "to_seconds"]).aggregate([("messages", "sum")]).to_pylist()
    spread = sorted((row["from_seconds"], row["to_seconds"], row["messages_sum"]) for row in all_bins)
    return Delays(
        half_within=_among(_reached(spread, 0.5), [row["p50_seconds"] for row in delivered]),
        most_within=_among(_reached(spread, 0.99), [row["p99_seconds"] for row in delivered]),
        slowest=Ranked(shown, len(slowest)),
        bins=bins,
    )


def _reached(spread: Bins, share: float) -> float | None:
    """Return about when so many are counted: within a bin they are taken to lie evenly on the logarithmic scale."""
    wanted, so_far = share * sum(count for _, _, count in spread), 0
    for low, high, count in spread:
        if so_far + count >= wanted:
            return float(low * (high / low) ** ((wanted - so_far) / count)) if low > 0 else high
        so_far += count
    return None


def _among(estimate: float | None, exact: Sequence[float]) -> float | None:
    """Return the estimate for all queues, held between the exact values of the fastest and of the slowest one.

    The value of all messages lies between them. The estimate is as coarse as the bins are, and may lie beside.
    """
    return estimate if estimate is None or not exact else min(max(estimate, min(exact)), max(exact))


def _disk(tables: Tables, *, several: bool) -> Disk:
    rows = tables.read("retention").sort_by([("database", "ascending"), ("sequence", "ascending")]).to_pylist()
    keeping: set[str] = set()
    for row in rows:
        row["label"] = f"{row['sequence']} ({row['database'][:8]})" if several else str(row["sequence"])
        row["is_kept"] = row["database"] in keeping
        if row["needed"]:
            keeping.add(row["database"])
    together = -(-len(rows) // BARS_MAX)
    pin = max(rows, key=lambda row: row["pins_files"], default=None)
    ranked = sorted(
        rows, key=lambda row: (-row["pins_files"], -row["freed_by_compact"], -row["dead_bytes"], row["sequence"])
    )
    return Disk(
        bars=rows if together <= 1 else [_together(rows[at : at + together]) for at in range(0, len(rows), together)],
        together=max(together, 1),
        ranked=Ranked(ranked[:ROWS_MAX], len(ranked)),
        bytes=sum(row["bytes"] for row in rows),
        live_bytes=sum(row["live_bytes"] for row in rows),
        freed=sum(row["freed_by_compact"] for row in rows),
        pin=pin if pin is not None and pin["pins_files"] else None,
    )


def _together(rows: Sequence[Row]) -> Row:
    """Return neighbouring files as one: what keeps it is what keeps most later files."""
    first = max(rows, key=lambda row: (row["pins_files"], row["needed"]))
    sums = {name: sum(row[name] for row in rows) for name in ("bytes", "live_bytes", "dead_bytes")}
    label = rows[0]["label"] if len(rows) == 1 else f"{rows[0]['label']} to {rows[-1]['label']}"
    return {**first, **sums, "label": label, "sequence": rows[0]["sequence"]}


def _twice(tables: Tables, facts: Facts) -> Twice:
    counts = tables.count_by("duplicates", "kind")
    sums = tables.sum_by("duplicates", "kind", "messages")
    rows = tables.first("duplicates", {"messages": "descending", "first_message": "ascending"}, ROWS_MAX)
    return Twice(
        ranked=Ranked([_again(row, facts) for row in rows], sum(counts.values())),
        by_producer=counts.get("producer", 0),
        by_payload=sums.get("payload", 0) - counts.get("payload", 0),
        window=facts.window.total_seconds(),
    )


def _again(row: Row, facts: Facts) -> Row:
    is_producer = row["kind"] == "producer"
    return {
        **with_label(row, several=facts.has_several),
        "kind": "identifier" if is_producer else "payload",
        "value": row["producer"] if is_producer else f"{row['hash'] % (1 << 64):016x}",
        "payloads": ("the same" if row["same_payloads"] else "others") if is_producer else "",
    }


def _lost(tables: Tables, facts: Facts) -> Lost:
    ranges = tables.read("damage", ["kind", "file", "start", "end"])
    is_bad = pc.is_in(ranges["kind"], pa.array(BAD))
    is_payload = pc.and_(pc.equal(ranges["kind"], DAMAGED), pc.equal(ranges["start"], ranges["end"]))
    bad = ranges.filter(pc.and_not(is_bad, is_payload))
    lost = tables.first("losses_by_queue", {"operations": "descending", "queue": "ascending"}, ROWS_MAX)
    shown = tables.first("damage", {"sequence": "ascending", "start": "ascending"}, ROWS_MAX)
    return Lost(
        operations=Ranked(
            [with_label(row, several=facts.has_several) for row in lost], tables.count("losses_by_queue")
        ),
        effects=tables.sum_by("losses_by_queue", "effect", "operations"),
        ranges=Ranked([{**row, "bytes": _length(row)} for row in shown], ranges.num_rows),
        bad_ranges=bad.num_rows,
        bad_files=len(pc.unique(bad["file"])),
        bad_bytes=pc.sum(pc.subtract(bad["end"], bad["start"])).as_py() or 0,
        bad_payloads=ranges.filter(is_payload).num_rows,
        torn_ranges=tables.count_by("damage", "kind").get("torn", 0),
        archives=facts.archives,
        late_archives=facts.late_archives,
    )


def _length(row: Row) -> int:
    return 0 if row["start"] is None or row["end"] is None else int(row["end"] - row["start"])


def _compared(tables: Tables, facts: Facts) -> Compared:
    rows = tables.first("comparison", {"kind": "descending", "message": "ascending", "key": "ascending"}, ROWS_MAX)
    return Compared(
        ranked=Ranked([_difference(row, facts) for row in rows], tables.count("comparison")),
        differences=tables.count_by("comparison", "difference"),
        undelivered_only=facts.undelivered_only,
    )


def _difference(row: Row, facts: Facts) -> Row:
    known = row["here"] or row["there"]
    label = row["key"] if row["kind"] == "key" else known["queue"]
    return {**row, "label": label, "facts": ", ".join(row["facts"] or ())}
