"""What the page tells, reduced to what one page can hold: plain values, no Spark and no HTML here.

A row is a dictionary with the column names of the table that it comes from, and `label`: how the page calls its
queue or key. Times in UTC, sizes in bytes, durations in seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from oms_journal.analysis.report.drawing.plots import Bins, Series
from oms_journal.analysis.report.drawing.scales import Buckets

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The first rows of a table in the order that matters, and how many rows it has."""

    rows: Sequence[Row] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What was looked at."""

    paths: Sequence[str]
    made_at: datetime  # ages count up to it, or to `until`
    since: datetime | None = None
    until: datetime | None = None
    queues_wanted: Sequence[str] = ()
    compared_with: Sequence[str] = ()
    first_time: datetime | None = None  # of all commits, whatever was chosen
    last_time: datetime | None = None
    databases: int = 0
    files: int = 0
    bytes: int = 0
    operations: int = 0
    seconds: float = 0.0  # that it took to make

    @property
    def as_of(self) -> datetime:
        """The moment that ages count up to."""
        return self.made_at if self.until is None else min(self.made_at, self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What became of the messages."""

    added: int = 0
    delivered: int = 0
    deleted: int = 0
    undelivered: int = 0
    queues: int = 0
    waiting_queues: int = 0
    oldest: Row | None = None  # the queue that has waited longest
    fullest: Ranked = Ranked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long messages took from ADD to DELIVER; the shares are of all queues together, to the bin."""

    half_within: float | None = None
    most_within: float | None = None  # 99 of 100
    slowest: Ranked = Ranked()
    bins: Mapping[str, Bins] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What came and went over time. The series are per second, but for the backlog."""

    buckets: Buckets
    operations: Sequence[Series] = ()  # by queue
    bytes: Sequence[Series] = ()  # by queue
    directions: Sequence[Series] = ()  # added and gone
    backlog: Sequence[Series] = ()  # undelivered messages, by queue
    count: int = 0
    added_bytes: int = 0
    peak: float = 0.0  # operations a second
    peak_at: str = ""
    busiest: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The data files in order, and those that matter most."""

    bars: Sequence[Row] = ()  # of very many files neighbours are put together
    together: int = 1  # how many files one bar stands for
    ranked: Ranked = Ranked()
    bytes: int = 0
    live_bytes: int = 0
    freed: int = 0  # by compaction
    pin: Row | None = None  # the file that keeps most


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """How operations travelled together: in commits, and commits in writes."""

    sizes: Sequence[Series] = ()  # operations a commit
    shares: Sequence[Series] = ()  # commits a write
    rates: Sequence[Series] = ()  # a second
    gaps: Sequence[Series] = ()  # seconds
    commits: int = 0
    writes: int = 0
    operations: int = 0
    commits_most: int = 0  # in one write
    operations_most: int = 0  # in one commit
    longest_gap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """What was added more than once; `again` counts the messages that are not the first of their kind."""

    ranked: Ranked = Ranked()
    by_producer: int = 0
    by_payload: int = 0
    window: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What archives hold and the files do not, and what nobody can read."""

    operations: Ranked = Ranked()  # by queue
    effects: Mapping[str, int] = field(default_factory=dict)
    ranges: Ranked = Ranked()
    bad_ranges: int = 0
    bad_files: int = 0
    bad_bytes: int = 0
    bad_payloads: int = 0  # that do not match their checksums, in frames that are good
    torn_ranges: int = 0
    archives: int = 0
    late_archives: int = 0  # of what nobody was promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a copy differs."""

    ranked: Ranked = Ranked()
    differences: Mapping[str, int] = field(default_factory=dict)
    undelivered_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Everything the page tells."""

    scope: Scope
    waiting: Waiting
    delays: Delays
    traffic: Traffic
    disk: Disk
    commits: Commits
    twice: Twice
    lost: Lost
    compared: Compared | None = None
    tables: Sequence[Row] = ()  # name, meaning, rows
