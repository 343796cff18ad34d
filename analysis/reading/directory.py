"""What the headers in one directory say: which files are its own, whose they are, and where each ends.

The directory may be a running database's: files come, go and grow meanwhile, and nothing is locked. What a
directory must not hold together is refused: files of another database, a file under another's name, a newer format.
"""

import errno
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.storage import Location
from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, NotThisDatabase
from oms_journal.journal.format.headers import Ending, FileHeader
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import SEQUENCE_MAX, ArchiveName, DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.neighbours import (
    counts,
    files_of_passed_owners,
    foreign_header,
    is_its_own,
    is_moved_away,
    promised_files,
    unnamed_files,
)

ATTEMPTS_MAX = 50  # each meets a file that was removed since it was listed: clean-up may be faster than who reads
REQUESTS_MAX = 16  # of a remote file system at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A data file that its neighbours name, and that is not in its directory."""

    sequence: int
    directory: Path
    end: int  # of its frames, 0 where nobody tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The files of one directory that are to be read, and those that are not there."""

    location: Location
    database: str
    parts: tuple[FilePart, ...]
    lost: tuple[Lost, ...]
    low_water: int  # files below this sequence are not needed any more, as the headers say
    is_retained: bool  # it is a folder of files that clean-up has moved away


@dataclass(frozen=True, slots=True)
class _File:
    """A data file or archive that is there."""

    path: Path
    bytes: int
    header: FileHeader | None
    is_rotted: bool
    failure: str = ""
    foreign_header: FileHeader | None = None  # the header of another file, where its own should be

    @property
    def owner(self) -> int:
        return self.header.owner if self.header is not None else -1


def survey(location: Location, known: Collection[str] = ()) -> Surveyed:
    """Read the headers, and say what is to be read of which file. `known` are databases that other directories hold.

    NotThisDatabase when the headers name different databases; NewerFormat when one is beyond us; DiskError.
    """
    disk = location.storage.disk()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        # Before the files are listed: the one that it names is there, or lost.
        witness = read_witness(disk, location.directory) if location.is_whole else None
        entries = location.names(disk)
        around = _neighbours(disk, location, entries)
        try:
            files = _read_headers(disk, location, sorted({*entries, *around}))
        except FileNotFoundError as failure:
            if attempt == ATTEMPTS_MAX or failure.filename in location.named:
                raise DiskError(location.directory / str(failure.filename), failure, "read") from failure
            continue
        _refuse_strangers(files.values())
        return _surveyed(location, set(entries), files, set(known), witness)
    raise AssertionError("the last attempt returns or raises")


def late_archives(location: Location) -> set[str]:
    """Return the names of archives of what a former owner wrote when the directory was another's already.

    Nothing in them was ever acknowledged: what only they hold is no loss. NewerFormat, NotThisDatabase, DiskError.
    """
    disk = location.storage.disk()
    try:
        listed = disk.list(location.directory)
    except OSError as failure:
        raise DiskError(location.directory, failure, "list") from failure
    archives = [name for name in listed if _is_archive(name)]
    data_files = [name for name in listed if isinstance(names.parse(name), DataFileName)]
    try:
        files = _read_headers(disk, location, [*archives, *data_files]) if archives else {}
    except FileNotFoundError:
        return set()  # clean-up is at work; to take all of them for archives of losses hides none
    there = {sequence_of(name): files[name] for name in data_files if name in files}
    _refuse_strangers(there.values())
    headers = {sequence: file.header for sequence, file in there.items()}
    return {name for name in archives if _is_late(files[name].header, sequence_of(name), headers)}


def _is_late(header: FileHeader | None, sequence: int, headers: Mapping[int, FileHeader | None]) -> bool:
    """Say whether an archive's file was late, by the headers of the data files that are there."""
    now = headers.get(sequence)
    if header is None or (now is not None and now.identity == header.identity):
        return False  # the archive of a repair: the file is there, without what was bad
    if now is not None and now.owner > header.owner:
        return True  # its number was given to a file of a later owner
    return sequence in files_of_passed_owners({**headers, sequence: header})


def sequence_of(name: str) -> int:
    """Return the sequence in a data file's or archive's name, 0 for any other name."""
    parsed = names.parse(name)
    return parsed.sequence if isinstance(parsed, DataFileName | ArchiveName) else 0


def _neighbours(disk: Disk, location: Location, entries: Sequence[str]) -> set[str]:
    """Return the data files that follow the named ones: their headers say where those end."""
    if location.is_whole or not entries:
        return set()
    try:
        listed = disk.list(location.directory)
    except OSError as failure:
        raise DiskError(location.directory, failure, "list") from failure
    data_files = sorted(name for name in listed if isinstance(names.parse(name), DataFileName))
    sequences = [sequence_of(name) for name in data_files]
    places = {bisect_right(sequences, sequence_of(entry)) for entry in entries}
    return {data_files[place] for place in places if place < len(data_files)}


def _read_headers(disk: Disk, location: Location, entries: Sequence[str]) -> dict[str, _File]:
    if location.storage.is_local:
        return {entry: _read_header(disk, location.directory / entry) for entry in entries}
    with ThreadPoolExecutor(REQUESTS_MAX) as pool:
        files = pool.map(lambda entry: _read_header(disk, location.directory / entry), entries)
        return dict(zip(entries, files, strict=True))


def _read_header(disk: Disk, path: Path) -> _File:
    try:
        with DataFile(disk, path) as file:
            copies = file.headers()
            best = file.best_of(copies)
            size = file.size()
    except FileNotFoundError as failure:
        raise FileNotFoundError(errno.ENOENT, "it was removed while the directory was read", path.name) from failure
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise DiskError(path, failure, "read") from failure
        return _File(path, 0, None, is_rotted=False, failure=str(DiskError(path, failure, "read")))
    header = best if isinstance(best, FileHeader) else None
    if header is not None and header.sequence != sequence_of(path.name):
        return _File(path, size, None, is_rotted=False, foreign_header=header)
    return _File(path, size, header, is_rotted=any(copy != header for copy in copies))


def _refuse_strangers(files: Iterable[_File]) -> None:
    for file in files:
        if file.foreign_header is not None:
            its_name = DataFileName(file.foreign_header.sequence)
            raise NotThisDatabase(
                f"{file.path} is {its_name} under another name: give it its own name, or move it away"
            )


@dataclass(frozen=True, slots=True)
class _Headers:
    """What the headers of one directory say together."""

    location: Location
    database: str
    is_retained: bool
    files: Mapping[int, _File]  # data files, by sequence
    kept: Mapping[int, FileHeader]  # those that a former owner did not write when the directory was another's
    named: Mapping[int, tuple[Ending, int]]  # how files ended, and which later one says so; 0 for the lock file
    promised: Mapping[int, int]  # identities of files that the footer before them, or the lock file, tells of
    unnamed: Collection[int]  # those that must have been begun, though no other names them
    newest: FileHeader | None
    low_water: int


def _surveyed(
    location: Location, asked: set[str], files: Mapping[str, _File], known: set[str], witness: Witness | None
) -> Surveyed:
    data_files = {sequence_of(name): file for name, file in files.items() if not _is_archive(name)}
    headers = {sequence: file.header for sequence, file in data_files.items() if file.header is not None}
    archived = [file.header for name, file in files.items() if file.header is not None and _is_archive(name)]
    every = [*headers.values(), *archived]
    late = files_of_passed_owners({sequence: file.header for sequence, file in data_files.items()})
    kept = {sequence: header for sequence, header in headers.items() if sequence not in late}
    low_water = max((header.low_water for header in kept.values()), default=0)
    _check_lineage([(sequence_of(name), file.header) for name, file in files.items()], location, low_water)
    is_retained = location.identity in {*known, *(header.database.hex() for header in every)}
    named = {
        header.previous.sequence: (header.previous, sequence)
        for sequence, header in sorted(kept.items(), reverse=True)
        if header.previous.sequence
    }
    promised = (
        promised_files(location.storage.disk(), location.directory, data_files, kept) if location.is_whole else {}
    )
    witness = witness if not is_retained and counts(witness, kept) else None
    if witness is not None:
        promised.setdefault(witness.last.sequence, witness.last.identity)
        if witness.is_of_closed and witness.last.sequence >= max(kept, default=0):
            named.setdefault(witness.last.sequence, (witness.last, 0))
    read = _Headers(
        location=location,
        database=location.identity if is_retained else _newest(every).database.hex() if every else "",
        is_retained=is_retained,
        files=data_files,
        kept=kept,
        named=named,
        promised=promised,
        unnamed=unnamed_files(location.storage.disk(), location.directory, data_files, kept, witness)
        if location.is_whole and not is_retained
        else (),
        newest=_newest(kept.values()) if kept else None,
        low_water=low_water,
    )
    in_order = sorted(asked, key=lambda name: (sequence_of(name), name))
    return Surveyed(
        location=location,
        database=read.database,
        parts=tuple(
            _part(read, files[name], is_archive=_is_archive(name))
            for name in in_order
            if _is_archive(name) or sequence_of(name) not in late
        ),
        lost=_lost(read),
        low_water=read.low_water,
        is_retained=is_retained,
    )


def _is_archive(name: str) -> bool:
    return isinstance(names.parse(name), ArchiveName)


def _part(read: _Headers, file: _File, *, is_archive: bool) -> FilePart:
    sequence, header = sequence_of(file.path.name), file.header
    previous, successor = read.named.get(sequence, (None, 0))
    identity = next((one.identity for one in (header, previous) if one is not None), read.promised.get(sequence))
    return FilePart(
        storage=read.location.storage,
        path=file.path,
        sequence=sequence,
        database=read.database,
        header=header,
        is_rotted=file.is_rotted,
        named=None if is_archive else previous,  # an archive is read as it was found
        identity=identity,
        is_promised=(sequence in read.promised or sequence in read.unnamed) and not is_archive,
        is_newest=not is_archive and not read.is_retained and (read.newest is None or sequence >= read.newest.sequence),
        is_archive=is_archive,
        is_retained=not is_archive and (read.is_retained or sequence < read.low_water),
        owner=header.owner if header else read.kept[successor].owner if successor else 0,
        bytes=file.bytes,
        failure=file.failure,
    )


def _lost(read: _Headers) -> tuple[Lost, ...]:
    """Return the files that are named and not there; of retained ones, which go one by one, those in between."""
    if not read.location.is_whole or (read.is_retained and not read.files):
        return ()
    first, last = (min(read.files), max(read.files)) if read.is_retained else (read.low_water, SEQUENCE_MAX)
    missing = sorted({*read.named, *read.promised, *read.unnamed} - set(read.files))
    return tuple(
        Lost(
            sequence=sequence,
            directory=read.location.directory,
            end=read.named[sequence][0].end if sequence in read.named else 0,
        )
        for sequence in missing
        if first <= sequence <= last
    )


def _newest(headers: Iterable[FileHeader]) -> FileHeader:
    return max(headers, key=lambda header: header.sequence)


def _check_lineage(headers: Sequence[tuple[int, FileHeader | None]], location: Location, low_water: int) -> None:
    """Refuse files of different databases, unless one was restored from the other."""

    def may_be_lost(sequence: int) -> bool:
        if not location.is_whole or is_moved_away(location.directory, (header for _, header in headers)):
            return True  # nobody has asked for it, or it was never there
        disk = location.storage.disk()
        return sequence >= low_water and is_its_own(disk, location.directory, (header for _, header in headers))

    found = foreign_header(headers, may_be_lost)
    if found is not None:
        databases = " and ".join(sorted({one.database.hex() for _, one in headers if one is not None}))
        raise NotThisDatabase(
            f"{location.directory} holds data files of different databases ({databases}), "
            f"one of them is {DataFileName(found.sequence)}"
        )
