"""Whether the copy is complete."""

from collections.abc import Mapping

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.listing import ROWS_MAX, listing, name_column, number_column, text_column
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import short_number

QUESTION = Question("copy", "Is the copy complete?", "Copy")
COLUMNS = (
    text_column("What", "kind"),
    number_column("Message", "message"),
    name_column("Queue or key", "label"),
    text_column("Difference", "difference"),
    text_column("In", "facts"),
)


def copy(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    first = tables.first("comparison", {"kind": "descending", "message": "ascending", "key": "ascending"}, ROWS_MAX)
    rows = [_difference(row) for row in first]
    differences = tables.count_by("comparison", "difference")
    verdict = _verdict(differences, undelivered_only=facts.undelivered_only)
    figures = {"differences": differences, "undelivered_only": facts.undelivered_only}
    listed = listing("Differences", COLUMNS, rows, table="comparison", count=tables.count("comparison"))
    return Section(verdict, [listed], figures)


def _difference(row: Row) -> Row:
    known = row["here"] or row["there"]
    label = row["key"] if row["kind"] == "key" else known["queue"]
    return {**row, "label": label, "facts": ", ".join(row["facts"] or ())}


def _verdict(differences: Mapping[str, int], *, undelivered_only: bool) -> Verdict:
    what = "in what is undelivered and in the keys" if undelivered_only else "in all messages and keys"
    count = sum(differences.values())
    if not count:
        return Verdict(QUESTION, [f"Yes: both hold the same, {what}."], "complete", tone="good")
    listed = wording.listed([f"{number:,} {difference}" for difference, number in differences.items() if number])
    detail = "difference" if count == 1 else "differences"
    return Verdict(QUESTION, [f"No. Compared {what}: {listed}."], short_number(count), (detail,), "bad")
