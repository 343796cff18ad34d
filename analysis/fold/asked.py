"""What is asked of a fold: which questions, of which time, of which queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.reading.schema import Micros, Wanted

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
MICROSECOND = timedelta(microseconds=1)
BINS_A_DECADE = 8
COMPACT_SHARE = 0.25  # the database's own default
DATA_FILE_BYTES = 25 << 20  # the database's own default
LIFECYCLE, HISTOGRAM, RATE, BACKLOG = "lifecycle", "latency_histogram", "rate", "backlog"
LATENCY = "latency_over_time"
FILES, COUNTS, RETENTION, COMMITS, DUPLICATES = "files", "counts", "retention", "commits", "duplicates"
OF_MESSAGES = (LIFECYCLE, HISTOGRAM, LATENCY, RATE, BACKLOG)
QUESTIONS = (FILES, COUNTS, *OF_MESSAGES, RETENTION, COMMITS, DUPLICATES)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the second pass for duplicates looks at, see `duplicates.py`."""

    cells: npt.NDArray[np.uint32]  # with two marks, ascending
    copies: Mapping[str, npt.NDArray[np.int64]]  # by database: numbers of messages that were moved, ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The questions, and of what they are asked. Times in microseconds since 1970-01-01 UTC.

    lifecycle, latency_histogram, latency_over_time, backlog and rate are about the messages that had not ended before
    `since`, up to `until`, and the rate leaves out what happened before `since`; counts, commits and duplicates are
    those of the period; files and retention are of everything, whatever the period and the queues are.
    """

    questions: frozenset[str] = frozenset(QUESTIONS)
    since: Micros | None = None
    until: Micros | None = None  # not included
    queues: frozenset[str] | None = None  # None for all of them
    every: Micros = MINUTE // MICROSECOND  # the width of a bucket
    bins_a_decade: int = BINS_A_DECADE
    window: Micros = HOUR // MICROSECOND  # equal payloads are duplicates within so long
    compact_share: float = COMPACT_SHARE  # of the database: what it compacts of itself
    data_file_bytes: int = DATA_FILE_BYTES  # of the database: its `max_data_file_size`
    cell_bits: int = 16  # see `duplicates.py`
    candidates: Candidates | None = field(default=None, compare=False)  # in the second pass

    def __post_init__(self) -> None:
        """Raise ValueError for a question that is none, a bucket without width, or no bins."""
        unknown = self.questions - set(QUESTIONS)
        if unknown:
            raise ValueError(f"no fold answers {', '.join(sorted(unknown))}; it answers {', '.join(QUESTIONS)}")
        if self.every <= 0:
            raise ValueError(f"a bucket is at least a microsecond wide, not {self.every}")
        if self.bins_a_decade < 1:
            raise ValueError(f"a decade has at least one bin, not {self.bins_a_decade}")

    def asks(self, *questions: str) -> bool:
        """Say whether any of the questions is asked."""
        return bool(self.questions & set(questions))

    @property
    def until_end(self) -> Wanted:
        """What is read of messages."""
        return Wanted(until=self.until, queues=self.queues)

    @property
    def of_period(self) -> Wanted:
        """What is read of commits, and of what was done to keys."""
        return replace(self.until_end, since=self.since)

    @property
    def is_of_everything(self) -> bool:
        """Whether what is read of messages is all there is."""
        return self.until is None and self.queues is None


def asked(  # noqa: PLR0913
    questions: Sequence[str] = QUESTIONS,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    every: timedelta = MINUTE,
    bins_a_decade: int = BINS_A_DECADE,
    window: timedelta = HOUR,
    compact_share: float = COMPACT_SHARE,
    data_file_bytes: int = DATA_FILE_BYTES,
) -> Asked:
    """Return what is asked, from times with a zone; no queues are all of them. ValueError as above, or for no zone."""
    return Asked(
        questions=frozenset(questions),
        since=None if since is None else micros(since),
        until=None if until is None else micros(until),
        queues=frozenset(queues) or None,
        every=every // MICROSECOND,
        bins_a_decade=bins_a_decade,
        window=window // MICROSECOND,
        compact_share=compact_share,
        data_file_bytes=data_file_bytes,
    )


def micros(time: datetime) -> Micros:
    """Return a time as microseconds since 1970; ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone; write datetime.now(UTC), or give it one")
    return (time - EPOCH) // MICROSECOND
