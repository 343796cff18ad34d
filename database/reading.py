"""Reading messages and values by their place, from as few reads as possible.

Files are opened when they are first read and stay open up to a bound, and what large commits hold is kept in memory
up to another one (`KeptFrames`), for all files together. A file that clean-up has removed meanwhile is not an error:
what was in it and is still live has been moved, so its place is looked up again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from oms_journal.index.table import Ints, MessageLocation
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError, MessageDamaged, NoSuchMessage
from oms_journal.journal.format.frames import BadFrame
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, require_header
from oms_journal.journal.reading.message import FrameReader, KeptFrames, Message, Source

OPEN_FILES_MAX = 128
BATCH_MESSAGES = 1024  # read before the caller gets the first of them
ATTEMPTS_MAX = 5  # how often a place is looked up again while clean-up moves messages


class Files:
    """The data files open for reading. Safe from any thread."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._lock = threading.Lock()  # guards the order of use
        self._sources: OrderedDict[int, Source] = OrderedDict()
        self._kept = KeptFrames()

    def path(self, sequence: int) -> Path:
        return self._directory / str(DataFileName(sequence))

    def source(self, sequence: int) -> Source:
        """Return the open file; FileNotFoundError when it is gone, DiskError when it cannot be read.

        FormatError when its header is damaged: nothing in it can be read then.
        """
        with self._lock:
            source = self._sources.get(sequence)
            if source is not None:
                self._sources.move_to_end(sequence)
                return source
        source = self._open(sequence)
        with self._lock:
            self._sources[sequence] = source
            if len(self._sources) > OPEN_FILES_MAX:
                # Readers may still be at work on it: it is closed when the last of them lets go.
                self._sources.popitem(last=False)
        return source

    def _open(self, sequence: int) -> Source:
        path = self.path(sequence)
        try:
            file = DataFile(self._disk, path)
            return Source(file.file, path, require_header(file).identity, sequence, self._kept)
        except FileNotFoundError:
            raise
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure

    def forget(self, sequence: int) -> None:
        with self._lock:
            source = self._sources.pop(sequence, None)
        if source is not None:
            self._kept.forget(source.identity)

    def close(self) -> None:
        with self._lock:
            self._sources.clear()
        self._kept = KeptFrames()


def read_one(
    files: Files, find: Callable[[], MessageLocation | None], place: MessageLocation | None = None
) -> Message | MessageDamaged | None:
    """Return the message at its place, or, where it is not there, at the one that `find` gives; None for none."""
    for attempt in range(ATTEMPTS_MAX):
        place = place or find()
        if place is None:
            return None
        try:
            reader = FrameReader(files.source(place.sequence))
            return next(reader.messages([(place.number, place.offset)]))
        except FormatError as failure:
            return MessageDamaged(place.number, failure.path, place.offset, failure.reason)
        except FileNotFoundError as failure:
            files.forget(place.sequence)
            if attempt == ATTEMPTS_MAX - 1:
                raise DiskError(Path(str(failure.filename)), failure, "read") from failure
            place = None  # clean-up has moved it
        except OSError as failure:
            raise DiskError(files.path(place.sequence), failure, "read") from failure
    raise AssertionError("the last attempt returns or raises")


def read_value(files: Files, key: bytes, sequence: int, offset: int) -> bytes | BadFrame:
    """Return the value of a key at its place; FileNotFoundError when the file is gone."""
    try:
        return FrameReader(files.source(sequence)).value(key, offset)
    except FormatError as failure:
        return BadFrame(offset, failure.reason)
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise DiskError(files.path(sequence), failure, "read") from failure


Wanted = tuple[Ints, Ints, Ints]  # numbers, sequences, offsets


def read_many(
    files: Files, wanted: Iterable[Wanted], find: Callable[[int], MessageLocation | None]
) -> Iterator[Message | MessageDamaged]:
    """Yield the messages of batches of places; those that are gone meanwhile are left out."""
    for batch in wanted:
        for sequence, pairs in _by_file(batch):
            try:
                source = files.source(sequence)
            except FileNotFoundError:
                files.forget(sequence)
                for number, _ in pairs:
                    found = read_one(files, lambda number=number: find(number))  # type: ignore[misc]
                    if found is not None:
                        yield found
                continue
            except FormatError as failure:
                yield from (MessageDamaged(number, failure.path, at, failure.reason) for number, at in pairs)
                continue
            try:
                yield from FrameReader(source).messages(pairs)
            except OSError as failure:
                raise DiskError(source.path, failure, "read") from failure


def _by_file(batch: Wanted) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Split a batch where the file changes, keeping the order."""
    numbers, sequences, offsets = batch
    starts = [0, *(np.flatnonzero(np.diff(sequences)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(starts):
        pairs = zip(numbers[start:end].tolist(), offsets[start:end].tolist(), strict=True)
        yield int(sequences[start]), list(pairs)


def read_known(files: Files, number: int, find: Callable[[], MessageLocation | None]) -> Message:
    """Return a message that has to be there; NoSuchMessage, MessageDamaged."""
    found = read_one(files, find)
    if found is None:
        raise NoSuchMessage(number)
    if isinstance(found, MessageDamaged):
        raise found
    return found
