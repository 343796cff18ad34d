"""What the page is about, and what its tables do not tell. Times in UTC, sizes in bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from oms_journal.analysis.report.drawing.scales import Buckets
from oms_journal.analysis.report.tables import Row


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
    queues: int = 0
    seconds: float = 0.0  # that it took to make

    @property
    def as_of(self) -> datetime:
        """The moment that ages count up to."""
        return self.made_at if self.until is None else min(self.made_at, self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the tables do not tell."""

    scope: Scope
    buckets: Buckets
    window: timedelta  # within which equal payloads count as duplicates
    archives: int = 0
    late_archives: int = 0  # of what nobody was promised
    undelivered_only: bool = False  # how the copy was compared
    written: Sequence[Row] = ()  # the tables: name, meaning, rows

    @property
    def has_several(self) -> bool:
        """Whether a queue's name alone does not say which one it is."""
        return self.scope.databases > 1
