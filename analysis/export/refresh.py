"""Keeps a lake: a Parquet data set that has the operations of journals, one file for each data file, and stays current.

A data file goes in with its first row, as far as it is known to be durable. While there comes more, its Parquet file is
replaced as a whole, until it is sealed. What clean-up deletes stays in the lake.

Listings, what the last export saw (`state.py`), and the one data file that somebody may be writing tell whether there
is anything new: no other data file is opened then. What a Parquet file was made from stands in its own metadata, so
that an export goes on where one was killed. Nothing here knows Spark.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa

from oms_journal.analysis.export import rowgroups
from oms_journal.analysis.export.missing import (
    CLEANED_UP,
    IN_PART,
    LOST,
    Missing,
    named_by,
    read_missing,
    rows,
    write_missing,
)
from oms_journal.analysis.export.place import LakeFile, LakeInJournal, Place, place_of
from oms_journal.analysis.export.rowgroups import MadeFrom, NotAnExport, read_made_from
from oms_journal.analysis.export.state import VERSION, Directory, Known, OpenFile, State, read_state, write_state
from oms_journal.analysis.reading.damage import low_water, missing
from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.directory import Surveyed
from oms_journal.analysis.reading.judgement import GONE, UNREADABLE
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.analysis.reading.plan import parts_of, surveyed
from oms_journal.analysis.reading.rows import batches_of
from oms_journal.analysis.reading.schema import Wanted, arrow_schema, default_columns
from oms_journal.analysis.reading.selection import selected
from oms_journal.analysis.storage import Location, NoJournal, locate
from oms_journal.journal import names
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.footer import TRAILER
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.format.lockfile import encode_witness
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile

__all__ = ["COLUMNS", "ExportOptions", "NotAnExport", "OtherColumns", "Progress", "Refreshed", "refresh"]

COLUMNS = default_columns(options=("terms", "file"))
WAIT_SECONDS = 30.0  # for another export into the same lake
FRAME_HEAD_BYTES = 16  # of which not all are zeros

Progress = Callable[[str, int, int], None]  # what is being done, bytes of data files done, and of how many


class OtherColumns(JournalError):
    """The lake has other columns than those that were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a lake is kept."""

    columns: Sequence[str] = COLUMNS
    prunes: bool = False  # what clean-up has deleted is removed from the lake too
    storage: Mapping[str, str] = field(default_factory=dict)  # for file systems, as `storage.key`
    wait_seconds: float = WAIT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What an export did, by names of lake files like DATABASE-ID/omsmsg-SEQ.parquet; of the journals it was given."""

    databases: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    there: tuple[str, ...] = ()  # before, and as they should be
    removed: tuple[str, ...] = ()
    rows: int = 0  # that were not there before
    bytes: int = 0  # written
    missing: tuple[Missing, ...] = ()  # data files that are not in the lake, or not to their end
    damages: tuple[Damage, ...] = ()  # what could not be read of what is, or should be, in the lake


def refresh(
    paths: Sequence[str], destination: str, options: ExportOptions | None = None, progress: Progress | None = None
) -> Refreshed:
    """Bring what is new in the journals into the lake, and say what that was.

    An export that is interrupted, or killed, leaves a whole data set. A second one waits for the first to be done.
    NoJournal, NoFileSystem, NotThisDatabase, NewerFormat, DiskError; CannotWrite, NotAnExport, LakeInJournal,
    LakeIsBusy, OtherColumns, UnknownColumn.
    """
    options = options or ExportOptions()
    arrow_schema(options.columns)
    place = place_of(destination, options.storage)
    locations = list(_outside(place, destination, locate(paths, options.storage)))
    if not locations:
        raise NoJournal(f"{', '.join(paths)}: there are no data files but in the lake itself")
    with place.locked(options.wait_seconds):
        return _Refresh(place, locations, options, progress).run()


def _outside(place: Place, destination: str, locations: Iterable[Location]) -> Iterator[Location]:
    """Yield the locations that are not the lake itself, which a glob may have met; LakeInJournal."""
    for location in locations:
        if not place.holds(location.directory, location.storage) and not place.is_in(
            location.directory, location.storage
        ):
            yield location
        elif (location.is_whole and not location.identity) or location.stamps():
            raise LakeInJournal(
                f"{destination} and {location.directory}, a directory of data files, lie in one another"
            )


@dataclass(frozen=True, slots=True)
class _Look:
    """What the listing of a directory says, and its lock file."""

    location: Location
    stamps: Mapping[str, str]  # of data files, by name
    witness: str

    @property
    def asked(self) -> tuple[str, ...]:
        """Which of the files are asked for, none for all."""
        return () if self.location.is_whole else tuple(sorted(self.location.named))

    @classmethod
    def at(cls, location: Location) -> "_Look":
        witness = read_witness(location.storage.disk(), location.directory)
        return cls(location, location.stamps(), encode_witness(witness).hex() if witness is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one data file."""

    is_sealed: bool = False
    is_gone: bool = False


class _Gone(Exception):
    """The data file went while its payloads were read: what was written of it is not whole."""


class _Refresh:
    """One export into one lake."""

    def __init__(
        self, place: Place, locations: Sequence[Location], options: ExportOptions, progress: Progress | None
    ) -> None:
        self._place = place
        self._locations = locations
        self._columns = tuple(options.columns)
        self._prunes = options.prunes
        self._progress = progress
        self._sizes: dict[LakeFile, int] = {}  # of what was there when this began
        self._state = State(columns=self._columns)  # as this export leaves it
        self._written: dict[LakeFile, int] = {}  # and how many rows are new
        self._removed: list[LakeFile] = []
        self._databases: tuple[str, ...] = ()

    def run(self) -> Refreshed:
        """Do all of it."""
        before = read_state(self._place)
        if before is not None and before.columns != self._columns:
            self._refuse_columns(before.columns)
        self._sizes = self._place.sizes()
        looks = {_key(location): _Look.at(location) for location in self._locations}
        if before is None or not self._is_known(before, looks) or not self._take_growing(before, looks):
            self._survey(before or State(columns=self._columns), looks)
        if before != self._state:
            write_state(self._place, self._state)
        return self._refreshed()

    def _refuse_columns(self, there: Sequence[str]) -> None:
        more = ", ".join(name for name in there if name not in self._columns)
        less = ", ".join(name for name in self._columns if name not in there)
        parts = [text for text in (more and f"it has {more}", less and f"it has not {less}") if text]
        raise OtherColumns(
            f"the lake was made with other columns ({'; '.join(parts) or 'in another order'}): give the options that "
            "it was made with, or another directory"
        )

    # Nothing new, or more in the files that are being written.

    def _is_known(self, before: State, looks: Mapping[str, _Look]) -> bool:
        """Say whether all but the files that are being written is as the last export saw it."""
        if not before.has(self._sizes):
            return False
        for key, look in looks.items():
            there = before.directories.get(key)
            if there is None or there.asked != look.asked or not there.is_as(look.stamps, look.witness):
                return False
        return not (self._prunes and self._has_deleted(before, looks))

    def _has_deleted(self, before: State, looks: Mapping[str, _Look]) -> bool:
        """Say whether the lake has files of these databases that no directory has any more."""
        databases = {before.directories[key].database for key in looks}
        there = {
            LakeFile(before.directories[key].database, sequence)
            for key, look in looks.items()
            for sequence in _sequences(look.stamps)
        }
        return any(name not in there for name in self._sizes if name.database in databases)

    def _take_growing(self, before: State, looks: Mapping[str, _Look]) -> bool:
        """Export what is new in the files that are being written; False where more than that has changed."""
        self._state = State(
            columns=before.columns,
            files=dict(before.files),
            directories=before.directories,
            damages=dict(before.damages),
        )
        self._databases = tuple(dict.fromkeys(_known_ones(before.directories[key].database for key in looks)))
        for key, look in looks.items():
            directory = before.directories[key]
            for growing in directory.open:
                part = _part_of(look.location, directory, growing)
                if part is None:
                    return False
                name = LakeFile(part.database, part.sequence)
                earlier = self._earlier(name)
                if earlier is not None and earlier["identity"] != f"{part.identity:016x}":
                    return False
                if earlier is not None and _is_idle(part, earlier):
                    continue
                outcome = self._export(part, name, earlier)
                if outcome.is_sealed or outcome.is_gone:
                    return False
        return True

    # All else.

    def _survey(self, before: State, looks: Mapping[str, _Look]) -> None:
        """Read the headers, and export each data file that is not in the lake as it is."""
        surveys = surveyed(self._locations)
        parts = [part for part in parts_of(surveys, self._locations) if not part.is_archive]
        self._databases = tuple(dict.fromkeys(_known_ones(one.database for one in surveys)))
        self._state.files = {}
        others = {name: found for name, found in before.damages.items() if not _is_of(name, self._databases)}
        self._state.damages = others
        total, done = sum(part.bytes for part in parts), 0
        growing: dict[str, list[OpenFile]] = {}
        there: list[FilePart] = []
        for part in parts:
            if self._progress is not None:
                self._progress(part.name, done, total)
            done += part.bytes
            key = _key_of(part)
            if not part.database:
                self._tell_unknown(part)
                continue
            name = LakeFile(part.database, part.sequence)
            if self._is_as_before(before, looks.get(key), part, name):
                self._keep(name, before.files[name], before)
                there.append(part)
                continue
            outcome = self._export(part, name, self._earlier(name), before)
            if not outcome.is_gone:
                there.append(part)
            if not outcome.is_sealed and not outcome.is_gone and part.is_newest and part.identity is not None:
                growing.setdefault(key, []).append(
                    OpenFile(name=part.name, is_promised=part.is_promised, named=part.named)
                )
        self._keep_others(before)
        self._remove_passed(parts, looks, surveys)
        self._note_directories(before, looks, surveys, growing)
        self._settle_missing(there, surveys, looks)

    def _is_as_before(self, before: State, look: _Look | None, part: FilePart, name: LakeFile) -> bool:
        """Say by listings whether a data file is what the last export saw, and is in the lake as a whole."""
        known = before.files.get(name)
        directory = before.directories.get(_key_of(part))
        if known is None or not known.is_whole or look is None or directory is None or str(name) in before.damages:
            return False
        is_same = directory.database == part.database and directory.stamps.get(part.name) == look.stamps.get(part.name)
        return is_same and part.name in look.stamps and self._sizes.get(name) == known.bytes

    def _keep(self, name: LakeFile, known: Known, before: State) -> None:
        self._state.files[name] = known
        if str(name) in before.damages:
            self._state.damages[str(name)] = before.damages[str(name)]

    def _keep_others(self, before: State) -> None:
        """Note the lake files whose data files are not there, or are another journal's."""
        for name, size in self._sizes.items():
            if name in self._state.files:
                continue
            known = before.files.get(name)
            if known is None or known.bytes != size:
                earlier = self._earlier(name)
                known = _known(size, is_whole=earlier is not None and bool(earlier["sealed"]))
            self._keep(name, known, before)

    def _tell_unknown(self, part: FilePart) -> None:
        """Note what is wrong with a data file of which nobody knows whose it is."""
        with opened(part.storage.disk(), part) as reading:
            if reading.damages:
                self._state.damages[f"/{part.path}"] = reading.damages

    def _remove_passed(
        self, parts: Iterable[FilePart], looks: Mapping[str, _Look], surveys: Iterable[Surveyed]
    ) -> None:
        """Remove what came from a data file that counts no more, since an owner wrote it who had lost the directory.

        It is listed before and behind the reading of the headers, and was left out there: it has not just gone.
        """
        taken = {LakeFile(part.database, part.sequence) for part in parts}
        for one in surveys:
            look = looks.get(_key(one.location))
            if look is None or not one.location.is_whole:
                continue
            passed = {name: LakeFile(one.database, sequence) for name, sequence in _by_name(look.stamps)}
            passed = {name: file for name, file in passed.items() if file in self._sizes and file not in taken}
            still = one.location.stamps() if passed else {}
            for name, file in passed.items():
                if still.get(name) == look.stamps[name]:
                    self._remove(file)

    def _remove(self, name: LakeFile) -> None:
        self._place.remove(str(name))
        self._removed.append(name)
        self._state.files.pop(name, None)
        self._state.damages.pop(str(name), None)

    def _note_directories(
        self,
        before: State,
        looks: Mapping[str, _Look],
        surveys: Iterable[Surveyed],
        growing: Mapping[str, Sequence[OpenFile]],
    ) -> None:
        database = {_key(one.location): one.database for one in surveys}
        noted = {
            key: Directory(
                database=database.get(key, ""),
                asked=look.asked,
                stamps=look.stamps,
                witness=look.witness,
                open=tuple(growing.get(key, ())),
            )
            for key, look in looks.items()
        }
        self._state.directories = {**before.directories, **noted}

    # What is not there.

    def _settle_missing(
        self, there: Sequence[FilePart], surveys: Sequence[Surveyed], looks: Mapping[str, _Look]
    ) -> None:
        """Say in the tables which data files are not in the lake, and remove what clean-up has deleted, if asked to."""
        lost = {(each.database, each.sequence) for each in missing(surveys)}
        for database in self._databases:
            mine = [part for part in there if part.database == database]
            present = {part.sequence for part in mine} | set(_unasked(database, surveys, looks))
            if self._prunes:
                self._prune(database, present, [one for one in surveys if one.database == database])
            in_lake = {name.sequence: known for name, known in self._state.files.items() if name.database == database}
            before = read_missing(self._place, database)
            whole = {_key(one.location) for one in surveys if one.location.is_whole}
            previous = {
                part.sequence: part.header.previous.sequence
                for part in mine
                if part.header is not None and _key_of(part) in whole
            }
            gone = named_by(previous, present | in_lake.keys()) | {
                sequence for name, sequence in lost if name == database
            }
            reasons = {**before, **dict.fromkeys(gone, CLEANED_UP)}
            reasons = {
                sequence: LOST if (database, sequence) in lost else reason
                for sequence, reason in reasons.items()
                if sequence not in present and sequence not in in_lake
            }
            if self._prunes:
                reasons = {sequence: reason for sequence, reason in reasons.items() if reason == LOST}
            for sequence, known in in_lake.items():
                if not known.is_whole and sequence not in present and not self._has_all(database, sequence, mine):
                    reasons[sequence] = IN_PART
            if reasons != before:
                write_missing(self._place, database, reasons)

    def _has_all(self, database: str, sequence: int, there: Iterable[FilePart]) -> bool:
        """Say whether a lake file that was made while its data file was written has all that this had, and note it."""
        name = LakeFile(database, sequence)
        earlier = self._earlier(name)
        for part in there:
            previous = part.header.previous if part.header is not None else None
            if previous is None or previous.sequence != sequence or earlier is None:
                continue
            has_all = earlier["has_all"] and earlier["seen"] == previous.end
            if has_all and earlier["identity"] == f"{previous.identity:016x}":
                self._state.files[name] = _known(self._sizes[name], is_whole=True)
                return True
        return False

    def _prune(self, database: str, present: Collection[int], surveys: Sequence[Surveyed]) -> None:
        """Remove what clean-up has deleted: what is not there, and is below what its database still needs."""
        deleted = [name for name in self._state.files if name.database == database and name.sequence not in present]
        if not deleted:
            return
        enough = max(name.sequence for name in deleted)
        mark = max(low_water(one, enough) for one in surveys)
        for name in deleted:
            if name.sequence < mark:
                self._remove(name)

    # One file.

    def _earlier(self, name: LakeFile) -> MadeFrom | None:
        """Return what a lake file was made from, None where there is none; NotAnExport, OtherColumns."""
        if name not in self._sizes:
            return None
        earlier = read_made_from(self._place, name)
        if earlier is not None and earlier["version"] == VERSION and tuple(earlier["columns"]) != self._columns:
            self._refuse_columns(earlier["columns"])
        return earlier

    def _export(
        self, part: FilePart, name: LakeFile, earlier: MadeFrom | None, before: State | None = None
    ) -> _Outcome:
        """Bring a data file into the lake, if it is not there as it is."""
        known = _known(self._sizes.get(name, 0), is_whole=bool(earlier and earlier["sealed"]))
        if earlier is not None and _is_unchanged(part, earlier):
            self._keep(name, known, before or self._state)
            return _Outcome(is_sealed=True)
        with opened(part.storage.disk(), part) as reading:
            damages = tuple(one for one in reading.damages if one.kind != GONE)
            made_from = _made_from(reading, self._columns)
            if name in self._sizes:
                self._state.files[name] = known
            if not _is_to_stay(reading, earlier, made_from):
                damages = self._write(reading, name, made_from) or damages
                if name in self._written and earlier is not None and earlier["identity"] == made_from["identity"]:
                    self._written[name] -= min(earlier["rows"], self._written[name])
            self._state.damages.pop(str(name), None)
            if damages:
                self._state.damages[str(name)] = damages
            is_gone = any(one.kind == GONE for one in reading.damages)
            return _Outcome(is_sealed=reading.is_sealed, is_gone=is_gone)

    def _write(self, reading: Reading, name: LakeFile, made_from: MadeFrom) -> tuple[Damage, ...]:
        """Put the rows of a data file into the lake, unless it has none yet, and return what was bad in it."""
        damages: list[Damage] = []

        def report(found: Damage) -> None:
            if found.kind == GONE:
                raise _Gone
            damages.append(found)

        found = batches_of(reading, Wanted(columns=self._columns), report)
        try:
            first = next(found, None)
            if first is None and not reading.is_sealed and name not in self._sizes:
                return ()
            with self._place.replaced(str(name)) as path:
                count = rowgroups.write(path, _with(first, found), self._columns, made_from)
                size = path.stat().st_size
        except _Gone:
            return ()
        self._state.files[name] = _known(size, is_whole=reading.is_sealed)
        self._sizes[name] = size
        self._written[name] = count
        return tuple(damages)

    def _refreshed(self) -> Refreshed:
        mine = [name for name in self._state.files if name.database in self._databases]
        told = [row for database in self._databases for row in rows(database, read_missing(self._place, database))]
        damages = [one for name, found in self._state.damages.items() if _is_of(name, self._databases) for one in found]
        return Refreshed(
            databases=self._databases,
            written=tuple(map(str, self._written)),
            there=tuple(str(name) for name in mine if name not in self._written),
            removed=tuple(map(str, self._removed)),
            rows=sum(self._written.values()),
            bytes=sum(self._sizes[name] for name in self._written),
            missing=tuple(told),
            damages=tuple(damages),
        )


def _known(size: int, *, is_whole: bool) -> Known:
    """Return what is noted of a lake file; of one that grows no size, so that the state stays the same meanwhile."""
    return Known(bytes=size if is_whole else 0, is_whole=is_whole)


def _with(first: pa.RecordBatch | None, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return found if first is None else chain([first], found)


def _known_ones(databases: Iterable[str]) -> Iterator[str]:
    return (database for database in databases if database)


def _key(location: Location) -> str:
    return f"{location.storage.root}{location.directory}"


def _key_of(part: FilePart) -> str:
    return f"{part.storage.root}{part.path.parent}"


def _is_of(name: str, databases: Collection[str]) -> bool:
    """Say whether damage under this name is of these databases, or of nobody knows which."""
    return name.partition("/")[0] in ("", *databases)


def _by_name(stamps: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in stamps:
        parsed = names.parse(name)
        if isinstance(parsed, DataFileName):
            yield name, parsed.sequence


def _sequences(stamps: Iterable[str]) -> Iterator[int]:
    return (sequence for _, sequence in _by_name(stamps))


def _unasked(database: str, surveys: Iterable[Surveyed], looks: Mapping[str, _Look]) -> Iterator[int]:
    """Yield the data files that lie where only some were asked for."""
    for one in surveys:
        look = looks.get(_key(one.location))
        if one.database == database and look is not None and not one.location.is_whole:
            yield from _sequences(look.stamps)


def _part_of(location: Location, directory: Directory, growing: OpenFile) -> FilePart | None:
    """Return a file that was being written, by its header as it is now; None where it is not what it was, or sealed."""
    path = location.directory / growing.name
    try:
        with DataFile(location.storage.disk(), path) as file:
            header, copy = file.headers()
            if not isinstance(header, FileHeader) or copy != header or file.trailer() is not None:
                return None
            size = file.size()
    except OSError:
        return None  # whoever surveys the directory says what is wrong
    return FilePart(
        storage=location.storage,
        path=path,
        sequence=header.sequence,
        database=directory.database,
        header=header,
        named=growing.named,
        identity=header.identity,
        is_promised=growing.is_promised,
        is_newest=True,
        owner=header.owner,
        bytes=size,
    )


def _is_idle(part: FilePart, earlier: MadeFrom) -> bool:
    """Say whether nothing stands yet where the next frame, or a footer, will be."""
    if not earlier["seen"] or earlier["sealed"]:
        return False
    try:
        with DataFile(part.storage.disk(), part.path) as file:
            return file.size() >= earlier["seen"] and not any(file.file.read(FRAME_HEAD_BYTES, earlier["seen"]))
    except OSError:
        return False


def _made_from(reading: Reading, columns: Sequence[str]) -> dict[str, Any]:
    """Return what says that a Parquet file is what would be made now."""
    part, summary = reading.part, reading.summary
    taken = selected(reading, Wanted())
    has_all = isinstance(taken, slice) or len(taken) == len(reading.contents)
    known: dict[str, Any] = {
        "version": VERSION,
        "database": part.database,
        "file": part.name,
        "identity": "" if part.identity is None else f"{part.identity:016x}",
        "columns": list(columns),
        "sealed": summary is not None,
        "end": reading.end,
        "seen": reading.contents.end if reading.contents.frame_count else 0,  # behind the last frame, durable or not
        "has_all": has_all,  # that was seen
    }
    if summary is None:
        return known | {"damages": [str(one) for one in reading.damages]}
    return known | {
        "identity": f"{summary.header.identity:016x}",
        "checksum": f"{summary.file_checksum:016x}",
        "footer": summary.size,
        "ending": [summary.end, summary.last_commit, f"{summary.chain:016x}"],
        "repaired": summary.has_gaps,
    }


def _is_to_stay(reading: Reading, earlier: MadeFrom | None, made_from: MadeFrom) -> bool:
    """Say whether a lake file, or that there is none, is as it should be.

    It has what a data file once had that has gone since, or that has rotted and was not repaired.
    """
    if any(one.kind in (GONE, UNREADABLE) for one in reading.damages):
        return True
    if earlier is None or earlier["version"] != VERSION:
        return False
    if earlier["sealed"] and not made_from["sealed"] and earlier["identity"] == made_from["identity"]:
        return True
    return all(earlier.get(name) == value for name, value in made_from.items() if name not in ("seen", "has_all"))


def _is_unchanged(part: FilePart, earlier: MadeFrom) -> bool:
    """Say by the data file's header and its last bytes whether a lake file was made from it as it is."""
    if not earlier["sealed"] or earlier["version"] != VERSION:
        return False
    if part.is_rotted or part.identity is None or part.failure:
        return False
    end, commit, chained = earlier["ending"]
    named = None if earlier["repaired"] or part.named is None else part.named
    if named is not None and (named.end, named.commit, f"{named.chain:016x}") != (end, commit, chained):
        return False
    try:
        with DataFile(part.storage.disk(), part.path) as file:
            trailer, size = file.trailer(), file.size()
    except OSError:
        return False  # whoever opens it says what is wrong, or looks for it elsewhere
    if trailer is None or size != end + earlier["footer"]:
        return False
    checksum, _, footer_size, _ = TRAILER.unpack(trailer)
    found = (part.database, part.name, f"{part.identity:016x}", f"{checksum:016x}", footer_size)
    return found == tuple(earlier[name] for name in ("database", "file", "identity", "checksum", "footer"))
