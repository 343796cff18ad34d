"""How much comes and goes, over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.measures import RATES, SIZE_RATES
from oms_journal.analysis.report.drawing.plots import Chart, lines, stack
from oms_journal.analysis.report.drawing.scales import SECOND
from oms_journal.analysis.report.facts import Facts, Scope
from oms_journal.analysis.report.sections.over_time import OverTime, summed
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.wording import counted, duration, share, short_number, size

QUESTION = Question("traffic", "How much comes and goes?", "Traffic")


def traffic(facts: Facts, over_time: OverTime) -> Section:
    """Return the section."""
    counts, buckets = over_time.counts, facts.buckets
    is_add, is_end = over_time.is_of("ADD"), over_time.is_of("DELIVER", "DELETE")
    sizes = np.where(is_add & over_time.is_inside, over_time.rates.column("bytes"), 0.0)
    directions = [
        series
        for label, colour, is_so in (("added", "c0", is_add), ("delivered or deleted", "c1", is_end))
        if is_so.any()
        for series in over_time.of_queues(label, colour, np.where(is_so, counts, 0.0))
    ]
    charts = (
        (lines, "In and out", "messages a second", directions, RATES),
        (stack, "Operations", "a second, by queue", over_time.per_second(counts), RATES),
        (stack, "Payload added", "bytes a second, by queue", over_time.per_second(sizes), SIZE_RATES),
    )
    parts = [
        draw(Chart(title=title, unit=unit, buckets=buckets, series=series, measure=measure, total="all"))
        for draw, title, unit, series, measure in charts
        if series
    ]
    total = summed(over_time.rates.bucket, counts, buckets)
    figures = {
        "count": int(counts.sum()),
        "added_bytes": int(sizes.sum()),
        "peak": float(total.max() * SECOND / buckets.width),
        "peak_at": buckets.texts()[int(total.argmax())],
    }
    return Section(_verdict(facts.scope, over_time, figures), parts, figures)


def _verdict(scope: Scope, over_time: OverTime, figures: Mapping[str, Any]) -> Verdict:
    count, peak = figures["count"], figures["peak"]
    if not count or scope.first_time is None or scope.last_time is None:
        return Verdict(QUESTION, ["Nothing came and nothing went."], "none")
    first = scope.first_time if scope.since is None else max(scope.since, scope.first_time)
    last = scope.last_time if scope.until is None else min(scope.until, scope.last_time)
    span = (last - first).total_seconds()
    within = f"in {duration(span)}" if span > 0 else f"at {wording.moment(first)}"
    sentence = [f"{counted(count, 'operation')} {within}"]
    if figures["added_bytes"]:
        sentence.append(f", {size(figures['added_bytes'])} of payload")
    sentence.append(". ")
    if peak and span > 1:
        sentence.append(f"The busiest time, about {figures['peak_at']} UTC, saw {short_number(peak)} a second. ")
    if scope.queues > 1:
        busiest, operations = max(over_time.rates.by_label(over_time.counts).items(), key=lambda each: each[1])
        sentence += ["The busiest queue, ", Name(busiest), f", has {share(operations, count)} of all."]
    if span <= 1:
        return Verdict(QUESTION, sentence, short_number(count), ("operations",))
    rate = f"{short_number(count / span)}/s"
    return Verdict(QUESTION, sentence, rate, (f"operations on average; at most {short_number(peak)}/s",))
