"""Look one message up in a database that may be running, without its lock and without reading all of it.

`omsmsg.index` says which sealed files can hold the message and which can have removed it; only their
footers are read, and the files that are not sealed yet. Where the index file is missing or out of
date, the whole database is read instead.

`omsmsg.index` is made anew at every opening, whenever a file was sealed, and after a clean-up; replaced by a rename,
never trusted by a start:

    part      bytes       meaning
    magic     8           OMSINDX1
    owner     8           number of the opening that wrote it
    count     8           entries
    entries   72 × count  sequence, identity, end of the frames; lowest and highest number added, removed;
                          lowest and highest time of a commit: 8 bytes each, the lowest above the highest for none
    checksum  8           XXH3 over all before
"""

import logging
import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oms_journal.database.view import DatabaseView
from oms_journal.journal import names
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, FormatError, MessageDamaged, NoSuchMessage
from oms_journal.journal.files import put_in_place, read_whole
from oms_journal.journal.format.contents import Contents, Ranges
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.dump import sequence_of
from oms_journal.journal.reading.message import FrameReader, Message, Source
from oms_journal.journal.writing.segment import Sealed
from oms_journal.recovery.examination import read_contents
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.survey import data_files, survey
from oms_journal.recovery.validation import as_followed, examine

_log = logging.getLogger("oms.database")


class _OutOfDate(Exception):
    """The index file does not fit the files any more."""


def look_up(directory: str | Path, number: int, *, disk: Disk | None = None) -> Message:
    """Return an undelivered message; NoSuchMessage, MessageDamaged, DiskError, RestoreUnfinished."""
    disk = disk or RealDisk()
    path = directory_of(directory)
    refuse_unfinished(disk, path)
    found = read_index_file(disk, path) if path.is_dir() else None
    if found is not None:
        try:
            return _look_up(disk, path, found.files, number)
        except (_OutOfDate, FileNotFoundError):
            pass  # clean-up was faster
        except DiskError as failure:
            if not isinstance(failure.failure, FileNotFoundError):
                raise
    with DatabaseView.open(path, disk=disk) as view:
        return view.read(number)


def _look_up(disk: Disk, directory: Path, files: Sequence[Sealed], number: int) -> Message:
    place: tuple[Path, int, int] | None = None  # file, its identity, offset of the frame
    known = {file.sequence for file in files}
    there = dict(data_files(disk, directory))
    if known - set(there):
        raise _OutOfDate
    unsealed = [replace(task, vouched_only=True) for task in survey(disk, directory) if task.sequence not in known]
    for file in files:
        if _within(number, file.ranges.added) or _within(number, file.ranges.removed):
            contents = _contents(disk, there[file.sequence], file)
            place = _after(contents, number, (there[file.sequence], file.identity), place)
    found = [examine(disk, task, full=False) for task in unsealed]
    for examined in as_followed(disk, unsealed, found, full=False):
        walked = read_contents(disk, examined)
        if walked is not None and examined.task.identity is not None:
            place = _after(walked, number, (examined.task.path, examined.task.identity), place)
    if place is None:
        raise NoSuchMessage(number)
    return _read(disk, place, number)


def _within(number: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= number <= limits[1]


def _contents(disk: Disk, path: Path, expected: Sealed) -> Contents:
    with DataFile(disk, path) as file:
        footer = file.footer(identity=expected.identity)
    if not isinstance(footer, Footer) or footer.summary.end != expected.end:
        raise _OutOfDate
    try:
        return footer.contents()
    except FormatError:
        raise _OutOfDate from None


def _after(
    contents: Contents, number: int, file: tuple[Path, int], before: tuple[Path, int, int] | None
) -> tuple[Path, int, int] | None:
    """Return where the message is after one file's operations, given where it was before them."""
    columns = contents.columns
    added = np.flatnonzero((columns["kind"] == Operation.ADD) & (columns["number"] == np.uint64(number)))
    place = (*file, int(columns["offset"][added[-1]])) if len(added) else before
    is_removal = (columns["kind"] == Operation.DELIVER) | (columns["kind"] == Operation.DELETE)
    if (is_removal & (columns["count"] == 1) & (columns["number"] == np.uint64(number))).any():
        return None
    return None if any(np.uint64(number) in numbers for numbers in contents.removal_sets()) else place


def _read(disk: Disk, place: tuple[Path, int, int], number: int) -> Message:
    path, identity, offset = place
    try:
        with DataFile(disk, path) as file:
            source = Source(file.file, path, identity, sequence_of(path))
            found = next(FrameReader(source).messages([(number, offset)]))
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    if isinstance(found, MessageDamaged):
        raise found
    return found


# The index file.

INDEX_MAGIC = b"OMSINDX1"
INDEX_HEAD = struct.Struct("<8sQQ")
INDEX_ENTRY = struct.Struct("<QQQ6q")
assert INDEX_ENTRY.size == 72


@dataclass(frozen=True, slots=True)
class SealedFiles:
    """What an index file says."""

    owner: int
    files: Sequence[Sealed]


def encode_index_file(owner: int, files: Iterable[Sealed]) -> bytes:
    """Return the bytes of an index file."""
    entries = [
        INDEX_ENTRY.pack(
            file.sequence, file.identity, file.end, *file.ranges.added, *file.ranges.removed, *file.ranges.time
        )
        for file in sorted(files, key=lambda file: file.sequence)
    ]
    body = INDEX_HEAD.pack(INDEX_MAGIC, owner, len(entries)) + b"".join(entries)
    return body + CHECKSUM.pack(xxh3(body))


def decode_index_file(data: bytes) -> SealedFiles | None:
    """Return what the bytes say, None when they are not an index file of this version."""
    if len(data) < INDEX_HEAD.size + CHECKSUM.size or not data.startswith(INDEX_MAGIC):
        return None
    if CHECKSUM.unpack_from(data, len(data) - CHECKSUM.size)[0] != xxh3(data[: -CHECKSUM.size]):
        return None
    _, owner, count = INDEX_HEAD.unpack_from(data)
    if len(data) != INDEX_HEAD.size + count * INDEX_ENTRY.size + CHECKSUM.size:
        return None
    files = []
    for place in range(count):
        sequence, identity, end, *limits = INDEX_ENTRY.unpack_from(data, INDEX_HEAD.size + place * INDEX_ENTRY.size)
        added, removed, time = zip(limits[0::2], limits[1::2], strict=True)
        files.append(Sealed(sequence, identity, end, Ranges(added=added, removed=removed, time=time)))
    return SealedFiles(owner, files)


def write_index_file(disk: Disk, directory: Path, data: bytes) -> None:
    """Put the index file in its place. It need not survive a power cut: the next start makes it anew."""
    put_in_place(disk, directory / names.INDEX, data, durably=False)


def read_index_file(disk: Disk, directory: Path) -> SealedFiles | None:
    """Return what the directory's index file says, None when there is none that can be used."""
    try:
        data = read_whole(disk, directory / names.INDEX)
    except DiskError:
        return None
    return decode_index_file(data) if data is not None else None


class SealedIndex:
    """The index file of one open database, for any thread. A fault is not one of the database, which never reads it."""

    def __init__(self, disk: Disk, directory: Path, owner: int, files: Iterable[Sealed]) -> None:
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._lock = threading.Lock()  # guards the sealed files, and their index file
        self._files = {file.sequence: file for file in files}

    def take(self, files: Iterable[Sealed]) -> None:
        """Note files that have been sealed."""
        with self._lock:
            self._files |= {file.sequence: file for file in files}
            self._write()

    def write(self, low_water: int = 0) -> None:
        """Make the file anew, without the data files below a sequence."""
        with self._lock:
            self._files = {sequence: file for sequence, file in self._files.items() if sequence >= low_water}
            self._write()

    def _write(self) -> None:
        try:
            write_index_file(self._disk, self._directory, encode_index_file(self._owner, self._files.values()))
        except OSError as failure:
            _log.warning(
                "cannot note in %s which data files hold which messages: %s; whoever reads without the lock "
                "looks into all of them until that is possible",
                self._directory,
                failure.strerror,
            )
