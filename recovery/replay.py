"""The index of a directory, and what of it the engine has put there for itself. Reads only.

One for all who read a directory into an index: a start, which repairs each file before it is taken in, a dry run of
it, a view beside a writer, and a view with the lock. What cannot be read of the engine's own values each of them
takes otherwise, so it is told and not decided here.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from oms_journal.index import duplicates, held
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.keyed import Version
from oms_journal.index.live import Index
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.message import FrameReader, Source
from oms_journal.recovery.examination import Examination, read_contents


def replay(disk: Disk, examined: Iterable[Examination], bounds: WindowBounds) -> tuple[Index, list[Examination]]:
    """Return what is live in the files as they are, and those of them that count. DiskError, FormatError."""
    index, kept = Index(bounds), []
    for one in examined:
        contents = read_contents(disk, one)
        if contents is not None:
            index.replay(contents, one.sequence)
            kept.append(one)
    return index, kept


def identities(examined: Iterable[Examination]) -> dict[int, int | None]:
    """Return the identities of the files, by their sequences."""
    return {one.sequence: one.task.identity if one.header is None else one.header.identity for one in examined}


def load_duplicates(disk: Disk, directory: Path, index: Index, identities: Mapping[int, int | None]) -> int:
    """Take in what clean-up carried forward of the duplicate window.

    Return the last data file of what cannot be read of it, 0 where all can. DiskError.
    """
    values, lost_at = _values(disk, directory, index, identities, duplicates.KEY_PREFIX)
    index.duplicates.load(values)
    return lost_at


def load_held(disk: Disk, directory: Path, index: Index, identities: Mapping[int, int | None]) -> int:
    """Take in what is held back; return as above. DiskError."""
    values, lost_at = _values(disk, directory, index, identities, held.KEY_PREFIX)
    index.held.load(values)
    return lost_at


def _values(
    disk: Disk, directory: Path, index: Index, identities: Mapping[int, int | None], prefix: bytes
) -> tuple[list[bytes], int]:
    values, lost_at = [], 0
    for key in list(index.keyed.keys(prefix)):
        version = index.keyed.find(key)
        assert version is not None, "nobody else has the index yet"
        path, identity = directory / str(DataFileName(version.sequence)), identities[version.sequence]
        assert identity is not None, "without it nothing of the file was taken in"
        value = _value(disk, path, version, key, identity)
        if value is None:
            lost_at = max(lost_at, version.sequence)
        else:
            values.append(value)
    return values, lost_at


def _value(disk: Disk, path: Path, version: Version, key: bytes, identity: int) -> bytes | None:
    """Return a version of a key; None where it cannot be read. DiskError."""
    try:
        file = disk.open(path)
        try:
            value = FrameReader(Source(file, path, identity, version.sequence)).value(key, version.offset)
        finally:
            file.close()
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    return value if isinstance(value, bytes) else None
