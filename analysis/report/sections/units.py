"""What became of a broker's units of work, and where they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, name, tag
from oms_journal.analysis.report.drawing.measures import COUNTS, RATES
from oms_journal.analysis.report.drawing.plots import Chart, Series, legend, lines, stack
from oms_journal.analysis.report.drawing.scales import SECOND, Buckets
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    Column,
    count_column,
    duration_column,
    listing,
    name_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import Section, summed
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, share, short_number

QUESTION = Question("units", "What became of the units of work?", "Units of work")
TABLE = "units_of_work"  # that only a broker's journal has
FAILED = ("backed_out", "cancelled", "timed_out", "discarded", "removed", "gone")
BAR = (  # of a service: what it is called, its colour, the columns that it counts
    ("processed", "c2", ("processed",)),
    ("not complete", "c0", ("waiting", "uncommitted")),
    ("ended otherwise", "c1", ("failed",)),
)
STATUS_HINT = "without a persistent status REMOVED: cancelled or timed out; GONE: erased with the store, or purged"
_STARTS = (("ETBC", "cold start"), ("ETBH", "hot start"), ("ETBT", "termination"))


def units(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    rows = [with_label(row, facts) for row in tables.read("uow_services").to_pylist()]
    services = [{**row, "failed": summed([row], *FAILED)} for row in rows]
    services.sort(key=lambda row: (-row["waiting"], -row["units"], row["label"]))
    names = ("units", "processed", "waiting", "uncommitted", "failed", "with_status")
    figures = {each: summed(services, each) for each in names}
    parts = _who(tables)
    if figures["units"]:
        keys = [(label, colour) for label, colour, _ in BAR]
        parts += [
            *_drawings(tables, facts.buckets),
            legend(keys),
            _services(services),
            tag("p", _of_statuses(figures), class_="quiet"),
            _statuses(tables, facts),
        ]
    return Section(_verdict(figures, services), parts, figures)


def _who(tables: Tables) -> list[Html]:
    """Return in words which broker wrote this, how often it was started, and what of its records cannot be read."""
    told = [tag("p", *_started(rows), class_="quiet") for rows in _starts(tables)]
    records = tables.read("broker_records")
    unreadable, newer = (pc.sum(records[each]).as_py() or 0 for each in ("unreadable", "newer"))
    if unreadable:
        bad = counted(unreadable, "value under a key of the broker is", "values under keys of the broker are")
        of_newer = f", {newer:,} of them of a newer version of the broker" if newer else ""
        told.append(
            tag("p", f"{bad} damaged or no record of the broker{of_newer}, and left out here.", class_="answer bad")
        )
    return told


def _starts(tables: Tables) -> Sequence[Sequence[Row]]:
    """Return the starts and ends of each broker in each database, in the order of time."""
    found: dict[tuple[str, str], list[Row]] = {}
    rows = tables.read("broker_starts").sort_by([("database", "ascending"), ("time", "ascending")]).to_pylist()
    for row in rows:
        found.setdefault((row["database"], row["broker_id"]), []).append(row)
    return list(found.values())


def _started(rows: Sequence[Row]) -> list[str]:
    counts = {mark: sum(row["checkpoint"] == mark for row in rows) for mark, _ in _STARTS}
    told = wording.listed([counted(counts[mark], what) for mark, what in _STARTS if counts[mark]])
    last = f"the last one a {rows[-1]['what']} on {wording.moment(rows[-1]['time'])}"
    return ["Broker ", name(rows[-1]["broker_id"]), f": {told}; {last}."]


def _drawings(tables: Tables, buckets: Buckets) -> list[Html]:
    waits, rates = _over_time(tables, buckets)
    charts = (
        (stack, "Units of work that wait", "at the end of each interval", waits, COUNTS),
        (lines, "Units of work", "a second", rates, RATES),
    )
    drawn = [
        draw(Chart(title=title, unit=unit, buckets=buckets, series=series, measure=measure))
        for draw, title, unit, series, measure in charts
        if series
    ]
    return [tag("div", *drawn, class_="figures")] if drawn else []


def _over_time(tables: Tables, buckets: Buckets) -> tuple[list[Series], list[Series]]:
    """Return how many units of work wait at the end of each bucket, and how many a second come and go."""
    came, processed, failed = (np.zeros(buckets.count + 1) for _ in range(3))
    for batch in tables.batches(TABLE, ["status", "committed", "ended"]):
        committed = batch.filter(pc.is_valid(batch["committed"]))
        ended = committed.filter(pc.is_valid(committed["ended"]))
        is_done = pc.equal(ended["status"], "PROCESSED")
        came += _counted(committed["committed"], buckets)
        processed += _counted(ended.filter(is_done)["ended"], buckets)
        failed += _counted(ended.filter(pc.invert(is_done))["ended"], buckets)
    if not came.any():
        return [], []
    there = np.cumsum(came - processed - failed)[1:]
    seconds = buckets.width / SECOND
    rates = (("committed", "c0", came), ("processed", "c2", processed), ("ended otherwise", "c1", failed))
    return [Series("wait", "c0", there.tolist())], [
        Series(label, colour, (counts[1:] / seconds).tolist()) for label, colour, counts in rates if counts[1:].any()
    ]


def _counted(times: pa.ChunkedArray, buckets: Buckets) -> npt.NDArray[np.int64]:
    """Return how many times lie in each bucket; what came before the first stands at the place 0."""
    micros = np.asarray(times.cast(pa.int64()).to_numpy(), np.int64)
    places = np.clip((micros - buckets.start) // buckets.width + 1, 0, buckets.count)
    return np.bincount(places, minlength=buckets.count + 1)


def _services(services: Sequence[Row]) -> Html:
    columns = (
        name_column("Service", "label", "CLASS/SERVER/SERVICE, with /reply for its answers to clients"),
        Column("What became of them", _bar, lambda row: _part(row, "processed"), is_wide=True),
        count_column("Units", "units"),
        count_column("Wait", "waiting", "committed by their sender, and not complete"),
        duration_column("Oldest waits", "oldest_age_seconds", "since its sender's commit"),
        count_column("Processed", "processed", "committed by their receiver"),
        count_column("Otherwise", "failed", "backed out, cancelled, timed out, discarded, erased"),
        duration_column("p50", "p50_seconds", "half took at most this from their sender's commit to their receiver's"),
        duration_column("p99", "p99_seconds", "99 of 100"),
    )
    return listing("Services, those in which most waits first", columns, services, table="uow_services")


def _part(row: Row, *names: str) -> float:
    return sum(row[each] for each in names) / row["units"] if row["units"] else 0.0


def _bar(row: Row) -> Html:
    shares = [(label, colour, _part(row, *names)) for label, colour, names in BAR]
    pieces = (tag("span", class_=colour, style=f"width:{part:.2%}") for _, colour, part in shares if part)
    said = ", ".join(f"{share(part, 1)} {label}" for label, _, part in shares if part)
    return tag("div", *pieces, class_="bar", role="img", aria_label=said, title=said)


def _of_statuses(figures: Mapping[str, int]) -> str:
    """Say where the time in each status is known."""
    with_status, count = figures["with_status"], figures["units"]
    if not with_status:
        known = "No unit of work here has a persistent status, so it is not known how long they stayed in each."
    else:
        some = f"{with_status:,} of {count:,} units of work have"
        which = "All units of work have" if with_status == count else some
        known = f"{which} a persistent status: of these it is known how long they stayed in each."
    return (
        f"{known} Without one, a unit of work that a receiver has is still ACCEPTED, and one that its sender has "
        "backed out left no trace."
    )


def _statuses(tables: Tables, facts: Facts) -> Html:
    rows = [with_label(row, facts) for row in tables.read("uow_statuses").to_pylist()]
    rows.sort(key=lambda row: (row["label"], -row["units"], row["status"]))
    columns = (
        name_column("Service", "label"),
        text_column("Status", "status", STATUS_HINT),
        count_column("Units", "units", "that are in it, or ended so"),
        time_column("Changed from", "first_changed", "when the first of them came to it"),
        time_column("To", "last_changed"),
        count_column("Stays", "stays", "how often one with persistent status came into it and left it again"),
        duration_column("p50", "p50_seconds", "half of the stays were at most so long"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
    )
    return listing("Statuses, by service", columns, rows, table="uow_statuses")


def _verdict(figures: Mapping[str, Any], services: Sequence[Row]) -> Verdict:
    count, waiting, failed, uncommitted = (figures[each] for each in ("units", "waiting", "failed", "uncommitted"))
    if not count:
        return Verdict(QUESTION, ["No unit of work has left a trace in the store."], "none")
    parts = [
        f"{share(figures['processed'], count)} of {counted(count, 'unit')} of work were processed",
        f"{waiting:,} {'waits' if waiting == 1 else 'wait'}" if waiting else "none waits",
    ]
    parts += [f"{failed:,} ended otherwise"] if failed else []
    parts += [f"{uncommitted:,} {'is' if uncommitted == 1 else 'are'} not committed"] if uncommitted else []
    sentence = [f"{wording.listed(parts, len(parts))}. ", *_slowest(services)]
    value, tone = short_number(waiting) if waiting else "none", "" if waiting else "good"
    known = [row for row in services if row["oldest_age_seconds"] is not None]
    if not known:
        return Verdict(QUESTION, sentence, value, ("of them waits",), tone)
    oldest = max(known, key=lambda row: row["oldest_age_seconds"])
    age, of = duration(oldest["oldest_age_seconds"]), Name(oldest["label"])
    sentence += [f"The oldest that waits was committed {age} ago: {oldest['oldest']} in ", of, "."]
    return Verdict(QUESTION, sentence, value, (f"wait; the oldest {age}, in ", of), tone)


def _slowest(services: Sequence[Row]) -> list[str]:
    taken = [row for row in services if row["p99_seconds"] is not None]
    if not taken:
        return []
    slowest = max(taken, key=lambda row: row["p99_seconds"])
    half, most = duration(slowest["p50_seconds"]), duration(slowest["p99_seconds"])
    if len(services) == 1:
        return [
            f"Half of the processed ones took {half} from their sender's commit to their receiver's, 99 of 100 {most}. "
        ]
    told = f": half of its units of work took {half} from commit to commit, 99 of 100 {most}. "
    return ["The slowest service is ", Name(slowest["label"]), told]
