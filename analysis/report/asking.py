"""What a report asks, table by table, and of which operations.

of the messages of the period       lifecycle, latency_histogram, latency_over_time, backlog, rate
of the operations of the period     rate of what is done to keys, commits, duplicates
of everything                       files, damage, retention, losses, comparison; what keeps a file may be
                                    older than any period

What the fold answers is asked together, when the first of its tables is wanted: in one pass over the files, and
a second one where something may be a duplicate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame

from oms_journal.analysis import questions
from oms_journal.analysis.fold import asked as fold
from oms_journal.analysis.report import wording
from oms_journal.analysis.report.journals import Journals, Request

FOLDED = tuple(name for name in fold.QUESTIONS if name != fold.FILES)  # together
Written = Callable[[str], DataFrame]  # a table of the report that is there already


@dataclass(frozen=True, slots=True)
class Asked:
    """A table of the report: what it tells, in a few words, and how it is made: in Spark, or here already."""

    name: str
    meaning: str
    answer: Callable[[Written], DataFrame | pa.Table]


def tables_of_source(journals: Journals) -> list[Asked]:
    """Return what the files themselves tell."""
    return [
        Asked(
            "files",
            "the data files: how many bytes and operations, and of which time",
            lambda _: journals.folded([fold.FILES])[fold.FILES],
        ),
        Asked("damage", "ranges of data files that are not as they were written", lambda _: journals.table("damage")),
    ]


def asked(journals: Journals, request: Request, every: timedelta) -> list[Asked]:
    """Return the questions in the order in which they are asked; `every` is how long an interval is."""
    window = request.duplicate_window
    interval, within = (wording.duration(each.total_seconds()) for each in (every, window))
    known: dict[str, pa.Table] = {}

    def folded(name: str) -> Callable[[Written], pa.Table]:
        def answer(_: Written) -> pa.Table:
            if not known:
                known.update(journals.folded(FOLDED, every))
            return known[name]

        return answer

    return [
        Asked(
            "lifecycle",
            "what became of the messages of each queue, and how long they waited",
            folded(fold.LIFECYCLE),
        ),
        Asked("latency_histogram", "how the times from ADD to DELIVER spread in each queue", folded(fold.HISTOGRAM)),
        Asked(
            "latency_over_time",
            f"how long messages took from ADD to DELIVER, of each queue and interval of {interval}",
            folded(fold.LATENCY),
        ),
        Asked("rate", f"operations and bytes of each queue in each interval of {interval}", folded(fold.RATE)),
        Asked(
            "backlog",
            f"what was undelivered in each queue, at the end of each interval of {interval}",
            folded(fold.BACKLOG),
        ),
        Asked("retention", "what of each data file is needed, and what keeps it", folded(fold.RETENTION)),
        Asked(
            "commits",
            f"how operations shared commits, and commits writes, in each interval of {interval}",
            folded(fold.COMMITS),
        ),
        Asked(
            "duplicates",
            f"what was added more than once; equal payloads within {within}",
            folded(fold.DUPLICATES),
        ),
        *_losses(journals),
    ]


def _losses(journals: Journals) -> list[Asked]:
    return [
        Asked(
            "losses",
            "operations that archives hold, and the data files do not",
            lambda _: questions.losses(journals.everything, journals.archived),
        ),
        Asked(
            "losses_by_queue",
            "how many of these there are of each queue, and what they did",
            lambda written: questions.losses_by_queue(written("losses")),
        ),
    ]


def comparison(journals: Journals, *, match_databases: bool, undelivered_only: bool) -> Asked:
    """Return the question how the copy differs."""
    return Asked(
        "comparison",
        "what is only here, only in the copy, or differs",
        lambda _: questions.comparison(
            journals.everything, journals.copy, match_databases=match_databases, undelivered_only=undelivered_only
        ),
    )
