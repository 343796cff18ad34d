"""What is asked of journals: Spark's workers fold their data files, and the answer comes to the driver.

See `analysis/fold`. Spark runs when a question is called, and not when its answer is used. Each question goes through
the files once; `analysis.spark.fold.answers` asks several of them in one pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from oms_journal.analysis.fold import asked as fold
from oms_journal.analysis.fold.answers import (
    BACKLOG,
    COMMITS,
    COUNTS,
    DUPLICATES,
    HISTOGRAM,
    LATENCY,
    LIFECYCLE,
    RATE,
    RETENTION,
    meanings_of,
)
from oms_journal.analysis.fold.asked import BINS_A_DECADE, COMPACT_SHARE, DATA_FILE_BYTES, HOUR, MINUTE
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.spark.fold import answers as folded


@dataclass(frozen=True, slots=True)
class Journals:
    """Journals, and what of them is asked: `paths` as for `format("omsjournal")`, times with a zone.

    Questions about messages leave out those that had ended before `since`, and what happened at or after `until`.
    Those about commits, and what was added twice, are of that period. No `queues` are all of them; with some, what was
    done to keys is left out. What keeps the data files is told of all, whatever the period and the queues are.
    `storage` are options of the file systems, as `storage.key`.

    One queue is a sequence too: `queues=["orders"]`; TypeError for a text.

    Every question reads what is there when it is called. It raises NoJournal, NoFileSystem, NotThisDatabase,
    NewerFormat, FormatError, DiskError, ValueError for a time without a zone, and what Spark raises.
    """

    spark: SparkSession
    paths: str | Sequence[str]
    since: datetime | None = None
    until: datetime | None = None
    queues: Sequence[str] = ()
    storage: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.queues, str):
            raise TypeError(
                f"queues must be a sequence of names, not the text {self.queues!r}; write [{self.queues!r}]"
            )


@answers(meanings_of(LIFECYCLE))
def lifecycle(journals: Journals, *, now: datetime | None = None) -> DataFrame:
    """Return one row a queue: what became of its messages, and how long delivering them took.

    A percentile is a time that occurred. Its rank is off by at most one in 10,000, and up to 10,000 messages it is
    exact. Ages are reckoned up to `now`. By default that is the time at which the question is called.
    """
    return _answer(journals, fold.LIFECYCLE, now=now)


@answers(meanings_of(HISTOGRAM))
def latency_histogram(journals: Journals, *, bins_a_decade: int = BINS_A_DECADE) -> DataFrame:
    """Return how many messages of each queue took how long from ADD to DELIVER, in bins of even width on a log axis.

    Bin *b* begins at 10^(b / bins_a_decade) microseconds. Empty bins are left out. Raises ValueError for no bins.
    """
    return _answer(journals, fold.HISTOGRAM, bins_a_decade=bins_a_decade)


@answers(meanings_of(LATENCY))
def latency_over_time(journals: Journals, *, every: timedelta = MINUTE) -> DataFrame:
    """Return how long messages took from ADD to DELIVER, a row for each queue and bucket in which some were delivered.

    Buckets begin at whole multiples of `every` since 1970 UTC. Up to 1,000 messages in a bucket percentiles are exact.
    Raises ValueError for a width that is not valid.
    """
    return _answer(journals, fold.LATENCY, every=every)


@answers(meanings_of(COUNTS))
def counts(journals: Journals) -> DataFrame:
    """Return how many operations of each kind each queue has.

    Messages are not matched with their ends, so this is much faster than `rate`.
    """
    return _answer(journals, fold.COUNTS)


@answers(meanings_of(RATE))
def rate(journals: Journals, *, every: timedelta = MINUTE) -> DataFrame:
    """Return the operations and bytes of each queue in each bucket of time.

    Buckets begin at whole multiples of `every` since 1970 UTC. Where nothing happened there is no row. A message that
    only a moved copy tells of counts at the time of its first ADD. The answer leaves out what was before `since`, and
    knows the bytes of what was added before it and went after it. Raises ValueError for a width that is not valid.
    """
    return _answer(journals, fold.RATE, every=every)


@answers(meanings_of(BACKLOG))
def backlog(journals: Journals, *, every: timedelta = MINUTE) -> DataFrame:
    """Return how many messages of each queue are undelivered, a row for each bucket in which one came or went.

    Between two rows it stays as the earlier one says. If the ADD of a message has been cleaned away, the message counts
    from the first row of its queue until its end. Raises ValueError for a width that is not valid.
    """
    return _answer(journals, fold.BACKLOG, every=every)


@answers(meanings_of(RETENTION))
def retention(
    journals: Journals,
    *,
    now: datetime | None = None,
    compact_share: float = COMPACT_SHARE,
    data_file_bytes: int = DATA_FILE_BYTES,
) -> DataFrame:
    """Return one row a data file: how much of it is needed, and what keeps it.

    The answer leaves out files that clean-up has moved into a retention directory: they are off the disk in question.
    Ages are reckoned up to `now`. By default that is the time at which the question is called.

    `compact_share` and `data_file_bytes` are options of the database: its `compact_share`, and its `max_data_file_size`
    in bytes.
    """
    return _answer(journals, fold.RETENTION, now=now, compact_share=compact_share, data_file_bytes=data_file_bytes)


@answers(meanings_of(COMMITS))
def commits(journals: Journals, *, every: timedelta = MINUTE) -> DataFrame:
    """Return how operations came in commits, and commits in writes, in each bucket of time.

    Commits that go out together, with one write and one sync, have the same time: so their number tells whether group
    commit is at work. Gaps go across data files and openings. If nobody commits, that time is a gap, whatever the
    reason. Percentiles are as in `lifecycle`. Raises ValueError for a width that is not valid.
    """
    return _answer(journals, fold.COMMITS, every=every)


@answers(meanings_of(DUPLICATES))
def duplicates(journals: Journals, *, window: timedelta = HOUR) -> DataFrame:
    """Return what was added more than once: a row for each identifier, and a row for each run of equal payloads.

    Messages of one queue with the same payload hash and length are a run, as long as each came at most `window` after
    the one before. Messages of one commit share its identifier. That alone makes no duplicates, and neither does a copy
    that compaction made. The database refuses a repeated identifier within its duplicate window. What is found here
    came later than that, or from a producer without identifiers. The files are read a second time if something may be
    a duplicate.
    """
    return _answer(journals, fold.DUPLICATES, window=window)


def _answer(journals: Journals, question: str, *, now: datetime | None = None, **named: Any) -> DataFrame:
    if not isinstance(journals, Journals):
        kind = type(journals).__name__
        raise TypeError(f"{question} takes Journals(spark, paths), not {kind}; ask a DataFrame yourself, in SQL")
    asked = fold.asked([question], since=journals.since, until=journals.until, queues=tuple(journals.queues), **named)
    paths = [journals.paths] if isinstance(journals.paths, str) else journals.paths
    moment = fold.micros(datetime.now(UTC) if now is None else now)
    return folded(journals.spark, paths, asked, now=moment, storage=journals.storage)[question]
