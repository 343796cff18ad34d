"""What is stuck: what became of the messages of each queue."""

from collections.abc import Mapping, Sequence

from oms_journal.analysis.report.drawing.measures import COUNTS
from oms_journal.analysis.report.drawing.plots import Chart, stack
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import lifecycle
from oms_journal.analysis.report.sections.listing import (
    count_column,
    duration_column,
    listing,
    name_column,
    number_column,
)
from oms_journal.analysis.report.sections.over_time import OverTime
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, listed, share, short_number

QUESTION = Question("stuck", "What is stuck?", "Waiting")
COLUMNS = (
    name_column("Queue", "label"),
    count_column("Undelivered", "undelivered", "added, and neither delivered nor deleted"),
    duration_column("Oldest waits", "oldest_age_seconds", "since it was added first"),
    number_column("Its number", "oldest"),
    count_column("Added", "added"),
    count_column("Delivered", "delivered"),
    count_column("Deleted", "deleted", "removed undelivered: expired, moved to the dead letters, cancelled, purged"),
    count_column("Expired", "expired", "of the deleted ones, those whose DELETE was at or after their expiry"),
    count_column(
        "Dead-lettered",
        "dead_lettered",
        "of the deleted ones, those that were moved to the dead letters; some may have expired too",
    ),
)
_SUMS = ("added", "delivered", "deleted", "expired", "dead_lettered", "undelivered")


def stuck(tables: Tables, facts: Facts, over_time: OverTime) -> Section:
    """Return the section."""
    rows = lifecycle(tables, facts)
    waiting = [row for row in rows if row["undelivered"]]
    known = [row for row in waiting if row["oldest_age_seconds"] is not None]
    oldest = max(known, key=lambda row: row["oldest_age_seconds"], default=None)
    fullest = sorted(rows, key=lambda row: (-row["undelivered"], -row["added"], row["label"]))
    figures = {name: sum(row[name] or 0 for row in rows) for name in _SUMS}
    figures |= {"queues": len(rows), "waiting_queues": len(waiting)}
    parts = [listing("Queues, the fullest first", COLUMNS, fullest, table="lifecycle")]
    if backlog := over_time.backlog():
        chart = Chart(
            title="Undelivered messages",
            unit="by queue, at the end of each interval",
            buckets=facts.buckets,
            series=backlog,
            measure=COUNTS,
            total="all queues",
        )
        parts.insert(0, stack(chart))
    return Section(_verdict(figures, oldest, fullest), parts, figures)


def _verdict(figures: Mapping[str, int], oldest: Row | None, fullest: Sequence[Row]) -> Verdict:
    if not figures["undelivered"] or oldest is None:
        ended = figures["delivered"] + figures["deleted"]
        gone = "the one message was" if ended == 1 else f"all {ended:,} messages were"
        text = f"Nothing waits: {gone} delivered or deleted." if ended else "Nothing waits: there are no messages."
        return Verdict(QUESTION, [text, *_reasons(figures)], "nothing", tone="good")
    age, name = duration(oldest["oldest_age_seconds"]), Name(oldest["label"])
    verb = "waits" if figures["undelivered"] == 1 else "wait"
    sentence = [
        f"{counted(figures['undelivered'], 'message')} {verb} in {counted(figures['waiting_queues'], 'queue')}. "
        f"The oldest has waited {age}: number {oldest['oldest']} in ",
        name,
    ]
    if figures["waiting_queues"] > 1:
        part = f"{share(fullest[0]['undelivered'], figures['undelivered'])} of all that waits"
        is_same = fullest[0]["label"] == oldest["label"]
        sentence += [f", which holds {part}"] if is_same else [". ", Name(fullest[0]["label"]), f" holds {part}"]
    sentence += [".", *_reasons(figures)]
    return Verdict(QUESTION, sentence, short_number(figures["undelivered"]), (f"the oldest {age}, in ", name))


def _reasons(figures: Mapping[str, int]) -> list[str]:
    """Say why messages were deleted, as far as the journal tells."""
    found = [f"{figures['expired']:,} had expired"] if figures["expired"] else []
    found += [f"{figures['dead_lettered']:,} moved to the dead letters"] if figures["dead_lettered"] else []
    if not found:
        return []
    both = " A message may be both." if len(found) > 1 else ""
    deleted = counted(figures["deleted"], "message was", "messages were")
    return [f" {deleted} deleted: {listed(found)}.{both}"]
