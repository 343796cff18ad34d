"""What a measurement found, as values. Seconds and bytes throughout; rates are per second."""

from dataclasses import asdict, dataclass
from typing import Any

from oms_journal.journal.iotest.figures import Timing
from oms_journal.journal.iotest.methods import NotHere
from oms_journal.journal.iotest.place import Place
from oms_journal.journal.iotest.verdict import Comparison, SyncVerdict


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Appends of one size by one method, one after the other."""

    method: str
    size: int
    timing: Timing

    def as_dict(self) -> dict[str, Any]:
        rate = {"bytes_per_second": self.timing.rate * self.size}
        return {"method": self.method, "size": self.size} | rate | self.timing.as_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloverResult:
    """The steps of beginning a data file, in seconds: medians of `count` files."""

    size: int
    count: int
    create: float
    fill: float  # with zeros, synced
    first_append: float
    directory_sync: float
    total: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Reading one file from start to end, in bytes a second: medians."""

    size: int
    rate: float
    rate_cached: float  # the same again, from the page cache
    was_dropped: bool  # the system was asked to forget the file before

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JournalResult:
    """This journal, one durable commit a message, beside the bare calls it makes."""

    size: int
    timing: Timing
    raw_method: str
    raw: Timing
    ratio: float  # the journal's rate by the raw one

    def as_dict(self) -> dict[str, Any]:
        measured = {"size": self.size, "ratio": self.ratio} | self.timing.as_dict()
        return measured | {"raw_method": self.raw_method, "raw": self.raw.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was found out about a directory."""

    place: Place
    free_bytes: int
    sync: SyncVerdict
    comparison: Comparison | None
    appends: tuple[AppendResult, ...]
    unsynced: tuple[AppendResult, ...]
    not_here: tuple[NotHere, ...]
    rollover: RolloverResult | None
    read: ReadResult | None
    journal: tuple[JournalResult, ...]
    notes: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "place": self.place.as_dict() | {"free_bytes": self.free_bytes},
            "sync": self.sync.as_dict(),
            "comparison": self.comparison.as_dict() if self.comparison else None,
            "appends": [result.as_dict() for result in self.appends],
            "unsynced": [result.as_dict() for result in self.unsynced],
            "unavailable": {each.method.name: each.reason for each in self.not_here},
            "rollover": self.rollover.as_dict() if self.rollover else None,
            "read": self.read.as_dict() if self.read else None,
            "journal": [result.as_dict() for result in self.journal],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
