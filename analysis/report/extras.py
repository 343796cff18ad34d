"""A caller's own question in a report: one table, the answer in words, and a section of the page.

    Extra(
        name="arrival_delays",
        meaning="how late the flights of each airline arrived",
        answer=lambda spark, request: spark.read.format("omsjournal")…,
        verdict=lambda rows: Verdict(Question("delays-on-arrival", "How late…?", "Late"), […], "6.9 min"),
        section=lambda rows: [listing("Airlines", columns, rows, table="arrival_delays")],
    )

The table is written beside the others, and read back whole for the words and the section: it has to be
one that grows with queues, not with messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oms_journal.analysis.report.asking import Asked
from oms_journal.analysis.report.drawing.markup import Html
from oms_journal.analysis.report.journals import Request
from oms_journal.analysis.report.sections.verdicts import Verdict
from oms_journal.analysis.report.tables import Row, Tables

if TYPE_CHECKING:  # a report needs no Spark
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A question, and what the page makes of its answer."""

    name: str  # of the table: a folder's name, and none that a report has already
    meaning: str  # what the table tells, in a few words
    answer: "Callable[[SparkSession, Request], DataFrame]"
    verdict: Callable[[Sequence[Row]], Verdict]  # its question's anchor is none that the page has already
    section: Callable[[Sequence[Row]], Sequence[Html]]  # below the verdict

    def asked(self, spark: "SparkSession", request: Request) -> Asked:
        """Return the question as a report asks it."""
        return Asked(self.name, self.meaning, lambda: self.answer(spark, request))


@dataclass(frozen=True, slots=True)
class Told:
    """What the page says of a caller's question."""

    verdict: Verdict
    parts: Sequence[Html]
    rows: int  # of its table


def told(extras: Sequence[Extra], tables: Tables) -> list[Told]:
    """Return what the page says, from the tables as they were written."""
    found = []
    for extra in extras:
        rows = tables.read(extra.name).to_pylist()
        found.append(Told(extra.verdict(rows), extra.section(rows), len(rows)))
    return found
