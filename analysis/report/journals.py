"""The journals that a report is about: what lies there is looked at once, and read by an engine with Spark or without.

The period takes in what happened in it. What has waited since long before is still there in it, and
what was delivered in it has its whole time from ADD to DELIVER: so questions about messages are asked of
all messages that had not ended before the period, up to its end. The fold does so, see `analysis/fold/asked.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa

from oms_journal.analysis.broker import scan
from oms_journal.analysis.broker.records import Records
from oms_journal.analysis.fold import asked as fold
from oms_journal.analysis.fold import local, losses
from oms_journal.analysis.fold.answers import DAMAGE, schema_of
from oms_journal.analysis.fold.engine import PARTITION_BYTES, Beside, Engine, Folding, told
from oms_journal.analysis.reading import damage
from oms_journal.analysis.reading.directory import Surveyed, late_archives
from oms_journal.analysis.reading.parts import Damage, FilePart, Partition
from oms_journal.analysis.reading.plan import parts_of, plan, plan_damage, surveyed
from oms_journal.analysis.reading.schema import Micros
from oms_journal.analysis.storage import Location, locate
from oms_journal.journal import names
from oms_journal.journal.errors import DiskError
from oms_journal.journal.names import ArchiveName

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
    locations: tuple[Location, ...] = field(default=(), compare=False)  # of the paths
    surveys: tuple[Surveyed, ...] = field(default=(), compare=False)  # of these


def sources(paths: Sequence[str]) -> Sources:
    """Return what to read, and the archives that lie there; where only archives are named, they are what is read.

    What those who read would refuse is refused here already: NoJournal, NoFileSystem, NotThisDatabase, NewerFormat,
    DiskError.
    """
    in_use: list[str] = []
    archives: list[str] = []
    late: list[str] = []
    locations = locate(paths)
    surveys = surveyed(locations)
    size = sum(part.bytes for part in parts_of(surveys, locations))
    for location in locations:
        in_use += [_text(location, "")] if location.is_whole else []
        for name in sorted(location.named):
            (archives if _is_archive(name) else in_use).append(_text(location, name))
        if location.is_whole:
            was_late = late_archives(location)
            for name in _archives(location):
                if name not in location.named:
                    (late if name in was_late else archives).append(_text(location, name))
    if in_use and any(_is_archive(name) for location in locations for name in location.named):
        locations = locate(in_use)  # without the archives
        surveys = surveyed(locations)
    return Sources(
        paths=tuple(in_use or archives),
        archives=tuple(archives if in_use else ()),
        bytes=size,
        late=tuple(late),
        locations=tuple(locations),
        surveys=tuple(surveys),
    )


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
    """What an engine tells of journals, as they were when the report was begun.

    Damage that it meets is not logged: the report has the table of damage.
    """

    def __init__(self, engine: Engine, request: Request, found: Sources) -> None:
        self._engine = engine
        self._request = request
        self._found = found
        self._folded: dict[tuple[tuple[str, ...], timedelta], dict[str, pa.Table]] = {}
        self._seen: _Seen | None = None

    @cached_property
    def _partitions(self) -> list[Partition]:
        found = self._found
        return plan(found.locations, surveys=found.surveys, partition_bytes=PARTITION_BYTES)

    @cached_property
    def files(self) -> pa.Table:
        """The table of files. Of those on this machine the ends of their footers are read here and now."""
        is_local = all(location.storage.is_local for location in self._found.locations)
        engine = partial(local.fold, processes=1) if is_local else self._engine
        return self._told(engine, self._asked([fold.FILES], fold.MINUTE))[fold.FILES]

    def read(self, questions: Sequence[str], every: timedelta) -> None:
        """Read in one pass what a fold answers to questions, what is damaged, and what is a broker's.

        Who asks for these afterwards has them at once, the answers of the fold a single time.
        """
        seen = _Seen()
        work = partial(_seen_in, until=self._until)
        found = self._told(Beside(self._engine, work, seen.merge), self._asked(questions, every))
        self._folded[tuple(questions), every] = found
        self._seen = seen

    def folded(self, questions: Sequence[str], every: timedelta = fold.MINUTE) -> dict[str, pa.Table]:
        """Return what a fold answers to questions, by name, in buckets of this width."""
        known = self._folded.pop((tuple(questions), every), None)
        return known if known is not None else self._told(self._engine, self._asked(questions, every))

    def damage(self) -> pa.Table:
        """Return the ranges of data files that are not as they were written, whatever the period is."""
        partitions = plan_damage(self._found.locations, surveys=self._found.surveys)
        missing = [one for partition in partitions for one in partition.missing]
        if self._seen is not None:
            rows = self._seen.damages
        else:
            rows = [one for found in self._engine(partitions, damage.found_in_all) for one in found]
        table = pa.Table.from_batches([damage.batch([*rows, *missing], tuple(DAMAGE))])
        return table.cast(schema_of(DAMAGE))

    @property
    def has_archives(self) -> bool:
        """Whether there are archives, which tell of losses."""
        return bool(self._found.archives)

    def losses(self) -> pa.Table:
        """Return the operations that the archives hold, and the data files do not."""
        archives = plan(locate(self._found.archives)) if self._found.archives else []
        return losses.found_by(self._engine, self._partitions, archives, damage.pass_over)

    def store(self) -> scan.Store:
        """Return what the files tell of brokers until the end of the period."""
        if self._seen is None:
            return scan.read(self._engine, self._partitions, self._until, damage.pass_over)
        return scan.with_ends(self._seen.records, self._engine, self._partitions, self._until, damage.pass_over)

    @property
    def _until(self) -> Micros | None:
        return None if self._request.until is None else fold.micros(self._request.until)

    def _asked(self, questions: Sequence[str], every: timedelta) -> fold.Asked:
        request = self._request
        return fold.asked(
            questions,
            since=request.since,
            until=request.until,
            queues=request.queues,
            every=every,
            window=request.duplicate_window,
        )

    def _told(self, engine: Folding, asked: fold.Asked) -> dict[str, pa.Table]:
        return told(engine, self._partitions, asked, fold.micros(self._request.as_of), damage.pass_over)


@dataclass(slots=True)
class _Seen:
    """What is looked for beside a fold."""

    records: Records = field(default_factory=Records)
    damages: list[Damage] = field(default_factory=list)

    def merge(self, later: "_Seen") -> None:
        self.records.merge(later.records)
        self.damages += later.damages


def _seen_in(parts: Sequence[FilePart], until: Micros | None) -> _Seen:
    return _Seen(scan.records_in(parts, until, damage.pass_over), damage.found_in_all(parts))
