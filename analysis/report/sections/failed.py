"""Which of a broker's units of work ended and were not processed, and which deliveries were attempted in vain."""

from collections.abc import Mapping, Sequence
from typing import Any

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    ROWS_MAX,
    Column,
    count_column,
    duration_column,
    listing,
    name_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import Section, summed
from oms_journal.analysis.report.sections.units import STATUS_HINT
from oms_journal.analysis.report.sections.verdicts import Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, share, short_number

QUESTION = Question("failed", "What was tried in vain?", "Not processed")
WORDS = {  # of what ended and was not processed
    "BACKEDOUT": "backed out",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timed out",
    "DISCARDED": "discarded at a restart",
    "REMOVED": "cancelled or timed out, which of both is not told without a persistent status",
    "GONE": "erased with the store",
}


def failed(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    rows = [with_label(row, facts) for row in tables.read("uow_attempts").to_pylist()]
    tried = sorted(
        (row for row in rows if row["attempts"]), key=lambda row: (-row["attempts"], -row["units"], row["label"])
    )
    figures = {
        "by_status": tables.count_by("uow_failures", "status"),
        "attempts": sum(row["attempts"] * row["units"] for row in tried),
        "attempts_max": max((row["attempts"] for row in tried), default=0),
        "tried_again": summed(tried, "units"),
        "processed_again": summed(tried, "processed"),  # of these
    }
    return Section(_verdict(figures), [_tried(tried), _ended(tables, facts)], figures)


def _tried(rows: Sequence[Row]) -> Html:
    columns = (
        name_column("Service", "label"),
        Column(
            "In vain", lambda row: f"{row['attempts']:,}", lambda row: row["attempts"], "deliveries", is_number=True
        ),
        count_column("Units", "units", "with so many"),
        count_column("Processed", "processed", "after all"),
        count_column("Wait", "waiting"),
        count_column("Otherwise", "failed"),
        count_column("Put off", "postpones", "how often, all together"),
    )
    return listing("Deliveries in vain, the most first", columns, rows, table="uow_attempts")


def _ended(tables: Tables, facts: Facts) -> Html:
    last = tables.first("uow_failures", {"ended": "descending", "uowid": "ascending"}, ROWS_MAX)
    columns = (
        text_column("Unit of work", "uowid"),
        name_column("Service", "label"),
        text_column("Status", "status", STATUS_HINT),
        name_column("Sender", "sender"),
        count_column("In vain", "attempts", "deliveries that were attempted"),
        duration_column("After", "seconds_to_end", "its sender's commit"),
        time_column("Ended", "ended"),
        name_column("User status", "user_status"),
    )
    rows, table = [with_label(row, facts) for row in last], "uow_failures"
    return listing("Not processed, the last first", columns, rows, table=table, count=tables.count(table))


def _verdict(figures: Mapping[str, Any]) -> Verdict:
    by_status: Mapping[str, int] = figures["by_status"]
    count, attempts = sum(by_status.values()), figures["attempts"]
    sentence: list[str] = []
    if count:
        most_first = sorted(by_status.items(), key=lambda each: (-each[1], each[0]))
        listed = [f"{number:,} {WORDS[status]}" for status, number in most_first]
        ended = "unit of work ended and was not processed", "units of work ended and were not processed"
        sentence.append(f"{counted(count, *ended)}: {wording.listed(listed, len(listed))}. ")
    if attempts:
        vain = counted(attempts, "delivery was attempted in vain", "deliveries were attempted in vain")
        again = counted(figures["tried_again"], "unit of work was", "units of work were")
        done = share(figures["processed_again"], figures["tried_again"])
        sentence.append(
            f"{vain}, {figures['attempts_max']:,} of one unit of work at the most; "
            f"{again} tried again, and {done} of these processed after all."
        )
    if not sentence:
        text = "Nothing: what has ended was processed, and at the first attempt."
        return Verdict(QUESTION, [text], "none", tone="good")
    detail = f"and {counted(attempts, 'delivery', 'deliveries')} in vain"
    return Verdict(QUESTION, sentence, short_number(count), (detail,), "warn" if by_status.get("TIMEOUT") else "")
