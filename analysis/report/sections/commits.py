"""Whether group commit is working: how operations travel in commits, and commits in writes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import tag
from oms_journal.analysis.report.drawing.measures import NUMBERS, SECONDS
from oms_journal.analysis.report.drawing.plots import Chart, Series, lines
from oms_journal.analysis.report.drawing.scales import SECOND, Buckets
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.over_time import Places, Values, places_of, summed
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Question, Verdict
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.wording import counted, duration

QUESTION = Question("commits", "Is group commit working?", "Group commit")
SHARED_MIN = 1.1  # commits a write, on average: below it hardly any share one
_COUNTS = ("writes", "commits", "operations")
_MOST = ("commits_per_write_max", "operations_per_commit_max", "gap_p99_seconds", "gap_max_seconds")


def commits(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    table, buckets = tables.read("commits"), facts.buckets
    if not table.num_rows:
        nothing = dict.fromkeys((*_COUNTS, "commits_most", "operations_most"), 0) | {"longest_gap": None}
        return Section(Verdict(QUESTION, ["There are no commits."], "—"), [], nothing)
    places = np.clip(places_of(table, buckets), 0, buckets.count - 1)
    count = {name: summed(places, _column(table, name), buckets) for name in _COUNTS}
    most = {name: _largest(table, name, places, buckets) for name in _MOST}
    figures = {
        **{name: int(count[name].sum()) for name in ("commits", "writes", "operations")},
        "commits_most": int(most["commits_per_write_max"].max()),
        "operations_most": int(most["operations_per_commit_max"].max()),
        "longest_gap": pc.max(table["gap_max_seconds"]).as_py(),
    }
    seconds = buckets.width / SECOND
    sizes = _mean_and_most(count["operations"], count["commits"], most["operations_per_commit_max"])
    shares = _mean_and_most(count["commits"], count["writes"], most["commits_per_write_max"])
    rates = [
        Series(name, colour, (count[name] / seconds).tolist()) for name, colour in (("commits", "c0"), ("writes", "c1"))
    ]
    gaps = [
        Series("longest", "c1", most["gap_max_seconds"].tolist()),
        Series("99 of 100 are not longer", "c0", most["gap_p99_seconds"].tolist()),
    ]
    charts = [
        ("Operations a commit", "mean and largest", sizes, NUMBERS),
        ("Commits a write", "mean and largest", shares, NUMBERS),
        ("Commits and writes", "a second", rates, NUMBERS),
        ("Pauses", "between two writes", gaps, SECONDS),
    ]
    drawn = (
        lines(Chart(title=title, unit=unit, buckets=buckets, series=series, measure=measure))
        for title, unit, series, measure in charts
        if series is not gaps or figures["longest_gap"] is not None
    )
    return Section(_verdict(figures), [tag("div", *drawn, class_="figures")], figures)


def _column(table: pa.Table, name: str) -> Values:
    return np.asarray(table[name].to_numpy(), np.float64)


def _largest(table: pa.Table, name: str, places: Places, buckets: Buckets) -> Values:
    found = np.zeros(buckets.count)
    np.maximum.at(found, places, np.nan_to_num(_column(table, name)))
    return found


def _mean_and_most(whole: Values, parts: Values, most: Values) -> list[Series]:
    means = np.divide(whole, parts, out=np.zeros_like(whole), where=parts > 0)
    return [Series("largest", "c1", most.tolist()), Series("mean", "c0", means.tolist())]


def _verdict(figures: Mapping[str, Any]) -> Verdict:
    shared, together = figures["commits"] / figures["writes"], figures["operations"] / figures["writes"]
    each = wording.averaged(figures["operations"] / figures["commits"], "operation")
    if figures["writes"] == 1:
        sentence = [f"There is one write, of {counted(figures['operations'], 'operation')}."]
    elif shared >= SHARED_MIN:
        sentence = [
            f"Yes: {wording.number(shared)} commits share a write to the device on average, "
            f"{figures['commits_most']:,} at the most. A commit carries {each} on average, "
            f"{figures['operations_most']:,} at the most."
        ]
    else:
        sentence = [
            f"It has little to do: nearly every commit is written alone, as from a caller that waits for each. "
            f"A commit carries {each} on average, {figures['operations_most']:,} at the most."
        ]
    if figures["longest_gap"] is not None:
        sentence.append(f" The longest pause between two writes was {duration(figures['longest_gap'])}.")
    figure, operations = wording.averaged(together, "operation").split()
    detail = f"{operations} a write, {wording.averaged(shared, 'commit')} a write"
    return Verdict(QUESTION, sentence, figure, (detail,))
