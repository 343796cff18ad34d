"""What a report asks, table by table, and of which operations.

of the messages of the period       lifecycle, latency_histogram, backlog, rate
of the operations of the period     rate of what is done to keys, commits, duplicates
of everything                       files, damage, retention, losses, comparison; what keeps a file may be
                                    older than any period
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame

from oms_journal.analysis import questions
from oms_journal.analysis.questions.repeats import ADDED_COLUMNS
from oms_journal.analysis.questions.shared_commits import COLUMNS as COMMITS_COLUMNS
from oms_journal.analysis.reading import schema
from oms_journal.analysis.report import wording
from oms_journal.analysis.report.journals import ON_KEYS, Journals, Request

Written = Callable[[str], DataFrame]  # a table of the report that is there already


@dataclass(frozen=True, slots=True)
class Asked:
    """A table of the report: what it tells, in a few words, and how it is made."""

    name: str
    meaning: str
    answer: Callable[[Written], DataFrame]


def tables_of_source(journals: Journals) -> list[Asked]:
    """Return what the source itself tells."""
    return [
        Asked(
            "files",
            "the data files: how many bytes and operations, and of which time",
            lambda _: journals.table("files"),
        ),
        Asked("damage", "ranges of data files that are not as they were written", lambda _: journals.table("damage")),
    ]


def asked(journals: Journals, request: Request, every: timedelta) -> list[Asked]:
    """Return the questions in the order in which they are asked; `every` is how long an interval is."""
    now, window = request.as_of, request.duplicate_window
    interval, within = (wording.duration(each.total_seconds()) for each in (every, window))

    def keys() -> DataFrame:
        return journals.part_of_period(schema.default_columns(), ON_KEYS)

    return [
        Asked(
            "lifecycle",
            "what became of the messages of each queue, and how long they waited",
            lambda _: questions.lifecycle(journals.of_present, now=now),
        ),
        Asked(
            "latency_histogram",
            "how the times from ADD to DELIVER spread in each queue",
            lambda _: questions.latency_histogram(journals.of_present),
        ),
        Asked(
            "rate",
            f"operations and bytes of each queue in each interval of {interval}",
            lambda _: questions.rate(journals.of_present, every=every, since=request.since, keys=keys()),
        ),
        Asked(
            "backlog",
            f"what was undelivered in each queue, at the end of each interval of {interval}",
            lambda _: questions.backlog(journals.of_present, every=every),
        ),
        Asked(
            "retention",
            "what of each data file is needed, and what keeps it",
            lambda written: questions.retention(
                journals.everything, written("files"), now=now, keys=journals.everything_on_keys
            ),
        ),
        Asked(
            "commits",
            f"how operations shared commits, and commits writes, in each interval of {interval}",
            lambda _: questions.commits(journals.part_of_period(COMMITS_COLUMNS, ""), every=every),
        ),
        Asked(
            "duplicates",
            f"what was added more than once; equal payloads within {within}",
            lambda _: questions.duplicates(journals.of_period, window=window, added=_added(journals)),
        ),
        *_losses(journals),
    ]


def _added(journals: Journals) -> DataFrame:
    return journals.part_of_period(ADDED_COLUMNS, "ADD")


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
