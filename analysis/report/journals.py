"""The operations that a report is about: of all time, of a period, of a copy; and what the archives hold.

The period takes in what happened in it. What has waited since long before is still there in it, and
what was delivered in it has its whole time from ADD to DELIVER: so questions about messages are asked of
all messages that had not ended before the period, up to its end. The fold does so, see `analysis/fold/asked.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold import asked as fold
from oms_journal.analysis.fold import engine
from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.directory import late_archives
from oms_journal.analysis.reading.plan import parts_of, surveyed
from oms_journal.analysis.spark.fold import in_spark
from oms_journal.analysis.spark.source import NAME
from oms_journal.analysis.storage import Location, locate
from oms_journal.journal import names
from oms_journal.journal.errors import DiskError
from oms_journal.journal.names import ArchiveName

COLUMNS = (*schema.default_columns(), "properties_length")
ON_KEYS = "PUT,DROP"
DUPLICATE_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a report is about. Times with a zone; an empty `queues` means all of them."""

    paths: tuple[str, ...]
    now: datetime  # ages count up to it, or to `until`
    since: datetime | None = None
    until: datetime | None = None
    queues: tuple[str, ...] = ()
    compared_with: tuple[str, ...] = ()  # paths of a copy
    duplicate_window: timedelta = DUPLICATE_WINDOW

    @property
    def as_of(self) -> datetime:
        """The moment that ages count up to."""
        return self.now if self.until is None else min(self.now, self.until)


@dataclass(frozen=True, slots=True)
class Sources:
    """The paths of what is in use, and those of archives, which tell what was lost."""

    paths: tuple[str, ...]
    archives: tuple[str, ...]
    bytes: int  # of what is in use
    late: tuple[str, ...] = ()  # archives of what nobody was promised


def sources(paths: Sequence[str]) -> Sources:
    """Return what to read, and the archives that lie there; where only archives are named, they are what is read.

    What Spark's workers would refuse is refused here already: NoJournal, NoFileSystem, NotThisDatabase, NewerFormat,
    DiskError.
    """
    in_use: list[str] = []
    archives: list[str] = []
    late: list[str] = []
    locations = locate(paths)
    size = sum(part.bytes for part in parts_of(surveyed(locations), locations))
    for location in locations:
        in_use += [_text(location, "")] if location.is_whole else []
        for name in sorted(location.named):
            (archives if _is_archive(name) else in_use).append(_text(location, name))
        if location.is_whole:
            was_late = late_archives(location)
            for name in _archives(location):
                if name not in location.named:
                    (late if name in was_late else archives).append(_text(location, name))
    return Sources(tuple(in_use or archives), tuple(archives if in_use else ()), size, tuple(late))


def _archives(location: Location) -> list[str]:
    try:
        return [name for name in location.storage.disk().list(location.directory) if _is_archive(name)]
    except OSError as failure:
        raise DiskError(location.directory, failure, "list") from failure


def _is_archive(name: str) -> bool:
    return isinstance(names.parse(name), ArchiveName)


def _text(location: Location, name: str) -> str:
    """Return the path as the source takes it."""
    path = location.directory / name if name else location.directory
    return str(path) if location.storage.is_local else f"{location.storage.root.partition(':')[0]}://{path}"


class Journals:
    """The tables of journals as DataFrames, each loaded once."""

    def __init__(self, spark: SparkSession, request: Request, found: Sources) -> None:
        self._spark = spark
        self._request = request
        self._found = found

    def table(self, name: str) -> DataFrame:
        """Return `files` or `damage`, whatever the period is."""
        return self._spark.read.format(NAME).option("table", name).load(list(self._found.paths))

    def table_of_copy(self, name: str) -> DataFrame:
        """Return a table of the copy."""
        return self._spark.read.format(NAME).option("table", name).load(list(self._found_there.paths))

    @cached_property
    def everything(self) -> DataFrame:
        """All operations."""
        return self._load(self._found.paths)

    @cached_property
    def archived(self) -> DataFrame:
        """All operations of the archives."""
        if not self._found.archives:
            return self.everything.where(F.lit(False))
        return self._load(self._found.archives, columns=(*COLUMNS, "file"))

    @cached_property
    def copy(self) -> DataFrame:
        """All operations of the copy."""
        return self._load(self._found_there.paths)

    @cached_property
    def _found_there(self) -> Sources:
        return sources(self._request.compared_with)

    def folded(self, questions: Sequence[str], every: timedelta = fold.MINUTE) -> dict[str, pa.Table]:
        """Return what a fold answers to questions, by name, in buckets of this width."""
        request = self._request
        asked = fold.asked(
            questions,
            since=request.since,
            until=request.until,
            queues=request.queues,
            every=every,
            window=request.duplicate_window,
        )
        return engine.answers(in_spark(self._spark), self._found.paths, asked, now=fold.micros(request.as_of))

    @cached_property
    def keys(self) -> DataFrame:
        """The keys that something was done to until the end of the period."""
        return self._until_end(("key",), ON_KEYS)

    @cached_property
    def keyed(self) -> DataFrame:
        """The operations on keys until the end of the period, of all queues, with their values."""
        return self._until_end((*schema.default_columns(), "payload"), ON_KEYS)

    @cached_property
    def removals(self) -> DataFrame:
        """The ends of messages until the end of the period, of all queues."""
        return self._until_end(("database", "sequence", "offset", "operation", "message"), "DELIVER,DELETE")

    def _until_end(self, columns: Sequence[str], operations: str) -> DataFrame:
        return self._load(self._found.paths, until=self._request.until, columns=columns, operations=operations)

    def _load(
        self,
        paths: Iterable[str],
        *,
        until: datetime | None = None,
        columns: Sequence[str] = COLUMNS,
        operations: str = "",
    ) -> DataFrame:
        reader = self._spark.read.format(NAME).schema(schema.ddl(columns))
        if operations:
            reader = reader.option("operation", operations)
        if until is not None:
            reader = reader.option("until", until.isoformat())
        return reader.load(list(paths))
