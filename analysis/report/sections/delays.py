"""Where the time goes: how long messages took from ADD to DELIVER, by queue, and over time."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, tag
from oms_journal.analysis.report.drawing.measures import LATENCIES, SHORTEST
from oms_journal.analysis.report.drawing.plots import Bins, Chart, Series, lines
from oms_journal.analysis.report.drawing.scales import Durations
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import labelled, lifecycle, rows_with_labels
from oms_journal.analysis.report.sections.listing import count_column, duration_column, listing, name_column
from oms_journal.analysis.report.sections.over_time import OverTime, Timed, timed
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.spreads import Spread, spread_column
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import duration

QUESTION = Question("delays", "Where does the time go?", "Until delivered")
SPREADS_MAX = 40  # rows that hold a drawing each
SHARES = (("p50", "half of the messages"), ("p90", "90 of 100"), ("p99", "99 of 100"))


def delays(tables: Tables, facts: Facts, over_time: OverTime) -> Section:
    """Return the section; the shares of all queues together are known to the bin."""
    delivered = [row for row in lifecycle(tables, facts) if row["p99_seconds"] is not None]
    slowest = sorted(delivered, key=lambda row: (-row["p99_seconds"], row["label"]))
    bins = tables.read("latency_histogram")
    half = _among(_reached(bins, 0.5), [row["p50_seconds"] for row in delivered])
    most = _among(_reached(bins, 0.99), [row["p99_seconds"] for row in delivered])
    parts = [*_over_time(tables, facts, over_time), *_spreads(bins, slowest, facts)]
    return Section(_verdict(slowest, half, most), parts, {"half_within": half, "most_within": most})


def _reached(bins: pa.Table, share: float) -> float | None:
    """Return about when so many are counted: within a bin they are taken to lie evenly on the logarithmic scale."""
    together = bins.group_by(["from_seconds", "to_seconds"]).aggregate([("messages", "sum")]).to_pylist()
    spread = sorted((row["from_seconds"], row["to_seconds"], row["messages_sum"]) for row in together)
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


def _over_time(tables: Tables, facts: Facts, over_time: OverTime) -> list[Html]:
    """Return drawings of the latencies of each interval, and how exact they are."""
    found = timed(tables.read("latency_over_time"), facts)
    if not found.labels:
        return []
    half, nine, most = (
        lines(
            Chart(
                title=f"{share} over time",
                unit=f"{said} that were delivered in an interval took no longer, by queue",
                buckets=facts.buckets,
                series=_series(found, f"{share}_seconds", over_time),
                measure=LATENCIES,
            )
        )
        for share, said in SHARES
    )
    notes = [
        "The scale is logarithmic, and an interval in which nothing was delivered is empty.",
        _exactness(float(found.column("rank_error").max())),
    ]
    if left_out := len(set(found.labels) - set(over_time.colours)):
        notes.append(
            f"{wording.counted(left_out, 'other queue')} with less traffic: the table latency_over_time has all."
        )
    note = tag("p", " ".join(notes), class_="quiet")
    return [most, tag("div", half, nine, class_="figures"), note]


def _exactness(error: float) -> str:
    """Say what the percentiles of an interval are worth; the error is a share of all messages."""
    if not error:
        return "Every percentile is exact."
    low, high = (99 + each * 100 * error for each in (-1, 1))
    return f"A p99 lies between p{low:.4g} and p{min(high, 100):.4g}, and the others as near."


def _series(found: Timed, column: str, over_time: OverTime) -> list[Series]:
    values, count = found.column(column), over_time.buckets.count
    series = []
    for chosen, waits in ((over_time.colours, False), (over_time.waiting, True)):
        for label, colour in chosen.items():
            if label in found.labels:
                is_mine = (found.queue == found.labels.index(label)) & (found.bucket >= 0) & (found.bucket < count)
                own = np.full(count, np.nan)
                np.fmax.at(own, found.bucket[is_mine], values[is_mine])
                told = [None if np.isnan(value) else value for value in own.tolist()]
                series.append(Series(label, colour, told, label, waits))
    return series


def _spreads(bins: pa.Table, slowest: Sequence[Row], facts: Facts) -> list[Html]:
    """Return the table of how the latencies of each queue spread."""
    if not slowest:
        return []
    shown = slowest[:SPREADS_MAX]
    wanted = pc.is_in(labelled(bins, facts), pa.array([row["label"] for row in shown], pa.string()))
    by_queue: dict[str, list[tuple[float, float, int]]] = {row["label"]: [] for row in shown}
    for row in rows_with_labels(bins.filter(wanted), facts):
        by_queue[row["label"]].append((row["from_seconds"], row["to_seconds"], row["messages"]))
    columns = (
        name_column("Queue", "label"),
        spread_column("From ADD to DELIVER", _axis(by_queue), lambda row: _spread(row, by_queue), _half),
        duration_column("p50", "p50_seconds", "half of the messages were delivered within this time"),
        duration_column("p90", "p90_seconds", "90 of 100"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
        count_column("Delivered", "delivered"),
    )
    note = "How long the messages of each queue took, on a logarithmic scale. The lines stand at p50, p90 and p99."
    table = listing("Queues, the slowest first", columns, shown, table="lifecycle", count=len(slowest))
    return [tag("p", note, class_="quiet"), table]


def _axis(by_queue: Mapping[str, Bins]) -> Durations:
    edges = [(low, high) for bins in by_queue.values() for low, high, _ in bins]
    lowest, highest = min((low for low, _ in edges), default=0.0), max((high for _, high in edges), default=0.0)
    return Durations(max(lowest, SHORTEST), max(highest, 10 * SHORTEST))


def _spread(row: Row, by_queue: Mapping[str, Bins]) -> Spread:
    said = f"half within {duration(row['p50_seconds'])}, 99 of 100 within {duration(row['p99_seconds'])}"
    marks = [row[field] for field in ("p50_seconds", "p90_seconds", "p99_seconds")]
    return Spread(bins=by_queue[row["label"]], marks=marks, said=said)


def _half(row: Row) -> float | None:
    half: float | None = row["p50_seconds"]
    return half


def _verdict(slowest: Sequence[Row], half_within: float | None, most_within: float | None) -> Verdict:
    if not slowest or half_within is None:
        return Verdict(QUESTION, ["No message was delivered, so there is no time to tell."], "—")
    first = slowest[0]
    if len(slowest) == 1:
        half, most = duration(first["p50_seconds"]), duration(first["p99_seconds"])
        longest = f"the longest took {duration(first['max_seconds'])}."
        sentence = [f"Half of the messages were delivered within {half}, 99 of 100 within {most}; {longest}"]
    else:
        sentence = [
            f"Half of all messages were delivered within about {duration(half_within)}, "
            f"99 of 100 within about {duration(most_within)}. ",
            "The slowest queue is ",
            Name(first["label"]),
            f": half of its messages took {duration(first['p50_seconds'])} or more, "
            f"one in a hundred {duration(first['p99_seconds'])} or more.",
        ]
    detail = f"for half of them; {wording.short_duration(most_within)} for 99 of 100"
    return Verdict(QUESTION, sentence, wording.short_duration(half_within), (detail,))
