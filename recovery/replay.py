"""The index of a directory, and what of it the engine has put there for itself. Reads only.

One for all who read a directory into an index: a start, which repairs each file before it is taken in, a dry run of
it, a view beside a writer, and a view with the lock. What cannot be read of the engine's own values each of them
takes otherwise, so it is told and not decided here.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from oms_journal.index import duplicates, held, returned
from oms_journal.index.duplicates import WindowBounds
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


def load_returned(disk: Disk, directory: Path, index: Index, identities: Mapping[int, int | None]) -> int:
    """Take in what is known of messages that came back; return as above. DiskError."""
    values, lost_at = _values(disk, directory, index, identities, returned.KEY_PREFIX)
    index.returned.load(values, lambda number: index.table.find(number) is not None)
    return lost_at


def _values(
    disk: Disk, directory: Path, index: Index, identities: Mapping[int, int | None], prefix: bytes
) -> tuple[list[bytes], int]:
    """Return the values of the keys with a prefix, and the last data file of one that cannot be read. DiskError."""
    of_files: dict[int, list[tuple[bytes, int]]] = {}
    values: dict[bytes, bytes | None] = {}  # in the order of the keys
    for key in index.keyed.keys(prefix):
        version = index.keyed.find(key)
        assert version is not None, "nobody else has the index yet"
        of_files.setdefault(version.sequence, []).append((key, version.offset))
        values[key] = None
    lost_at = 0
    for sequence, places in sorted(of_files.items()):
        path, identity = directory / str(DataFileName(sequence)), identities[sequence]
        assert identity is not None, "without it nothing of the file was taken in"
        found = _values_in(disk, path, (identity, sequence), places)
        values.update(found)
        if None in found.values():
            lost_at = sequence
    return [value for value in values.values() if value is not None], lost_at


def _values_in(
    disk: Disk, path: Path, file_is: tuple[int, int], places: Iterable[tuple[bytes, int]]
) -> dict[bytes, bytes | None]:
    """Return the values of keys in one data file, with identity and sequence; None for one that cannot be read."""
    try:
        file = disk.open(path)
        try:
            reader = FrameReader(Source(file, path, *file_is))
            found = {key: reader.value(key, offset) for key, offset in places}
        finally:
            file.close()
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    return {key: value if isinstance(value, bytes) else None for key, value in found.items()}
