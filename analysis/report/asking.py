"""What a report asks, table by table, and of which operations.

of the messages of the period       lifecycle, latency_histogram, latency_over_time, backlog, rate
of the operations of the period     rate of what is done to keys, commits, duplicates
of everything                       files, damage, retention, losses, comparison; what keeps a file may be
                                    older than any period

What the fold answers is asked together, in one pass over the files, and a second one where something may be a
duplicate: beforehand, with `Journals.read`, or when the first of its tables is wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa

from oms_journal.analysis.fold import asked as fold
from oms_journal.analysis.fold import losses
from oms_journal.analysis.report import wording
from oms_journal.analysis.report.journals import Journals, Request

if TYPE_CHECKING:  # a report needs no Spark
    from pyspark.sql import DataFrame

FOLDED = tuple(name for name in fold.QUESTIONS if name not in (fold.FILES, fold.COUNTS))  # together


@dataclass(frozen=True, slots=True)
class Asked:
    """A table of the report: what it tells, in a few words, and how it is made: here, or in Spark."""

    name: str
    meaning: str
    answer: Callable[[], "pa.Table | DataFrame"]


class Once:
    """Tables that are made together, when the first of them is wanted; each is handed out once, and not kept."""

    def __init__(self, make: Callable[[], dict[str, pa.Table]]) -> None:
        self._make = make
        self._made: dict[str, pa.Table] = {}

    def __call__(self, name: str) -> Callable[[], pa.Table]:
        def answer() -> pa.Table:
            if name not in self._made:
                self._made.update(self._make())
            return self._made.pop(name)

        return answer


def tables_of_source(journals: Journals) -> list[Asked]:
    """Return what the files themselves tell."""
    return [
        Asked(
            "files",
            "the data files: how many bytes and operations, and of which time",
            lambda: journals.files,
        ),
        Asked("damage", "ranges of data files that are not as they were written", journals.damage),
    ]


def asked(journals: Journals, request: Request, every: timedelta) -> list[Asked]:
    """Return the questions in the order in which they are asked; `every` is how long an interval is."""
    window = request.duplicate_window
    interval, within = (wording.duration(each.total_seconds()) for each in (every, window))
    folded = Once(lambda: journals.folded(FOLDED, every))
    lost = Once(lambda: _losses(journals))
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
        Asked("losses", "operations that archives hold, and the data files do not", lost("losses")),
        Asked(
            "losses_by_queue",
            "how many of these there are of each queue, and what they did",
            lost("losses_by_queue"),
        ),
    ]


def _losses(journals: Journals) -> dict[str, pa.Table]:
    found = journals.losses()
    return {"losses": found, "losses_by_queue": losses.by_queue(found)}
