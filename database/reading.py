"""Reading messages and values by their place, from as few reads as possible.

Files are opened when they are first read and stay open up to a bound, and what large commits hold is kept in memory
up to another one (`KeptFrames`), for all files together. A file that clean-up has removed meanwhile is not an error:
what was in it and is still live has been moved, so its place is looked up again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import cast

import numpy as np

from oms_journal.index.table import Ints, MessageLocation
from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.errors import DiskError, FormatError, MessageDamaged, NoSuchMessage
from oms_journal.journal.format.frames import BadFrame
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, require_header
from oms_journal.journal.reading.message import (
    SINGLE_BYTES,
    FrameReader,
    KeptFrames,
    Message,
    Source,
    single_message,
)

OPEN_FILES_MAX = 128
BATCH_MESSAGES = 1024  # read before the caller gets the first of them
ATTEMPTS_MAX = 5  # how often a place is looked up again while clean-up moves messages


class Files:
    """The data files open for reading. Safe from any thread.

    Whoever has judged the directory knows the identity of files whose own headers may be gone; the others say it
    themselves.
    """

    def __init__(self, disk: Disk, directory: Path, identities: Mapping[int, int | None] | None = None) -> None:
        self._disk = disk
        self._directory = directory
        self._identities = identities or {}
        self._lock = threading.Lock()  # guards the order of use
        self._sources: OrderedDict[int, Source] = OrderedDict()
        self._latest: Source | None = None  # the last of them
        self._kept = KeptFrames()

    def path(self, sequence: int) -> Path:
        return self._directory / str(DataFileName(sequence))

    def source(self, sequence: int) -> Source:
        """Return the open file; FileNotFoundError when it is gone, DiskError when it cannot be read.

        FormatError when its header is damaged and nobody else knows its identity: nothing in it can be read then.
        """
        latest = self._latest
        if latest is not None and latest.sequence == sequence:
            return latest
        with self._lock:
            source = self._sources.get(sequence)
            if source is not None:
                self._sources.move_to_end(sequence)
                self._latest = source
                return source
        source = self._open(sequence)
        with self._lock:
            self._sources[sequence] = self._latest = source
            if len(self._sources) > OPEN_FILES_MAX:
                # Readers may still be at work on it: it is closed when the last of them lets go.
                self._sources.popitem(last=False)
        return source

    def opened(self, sequence: int) -> Source | None:
        """Return the file where it is open already."""
        latest = self._latest
        if latest is not None and latest.sequence == sequence:
            return latest
        with self._lock:
            return self._sources.get(sequence)

    def _open(self, sequence: int) -> Source:
        path = self.path(sequence)
        try:
            file = DataFile(self._disk, path)
            identity = self._identities.get(sequence)
            if identity is None:
                identity = require_header(file).identity
            return Source(file.file, path, identity, sequence, self._kept)
        except FileNotFoundError:
            raise
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure

    def forget(self, sequence: int) -> None:
        with self._lock:
            source = self._sources.pop(sequence, None)
            self._latest = None
        if source is not None:
            self._kept.forget(source.identity)

    def learn(self, identities: Mapping[int, int | None]) -> None:
        """Take the identities that a later look at the directory has found."""
        with self._lock:
            self._identities = identities

    def close(self) -> None:
        with self._lock:
            self._sources.clear()
            self._latest = None
        self._kept = KeptFrames()


Find = Callable[[int], MessageLocation | None]  # where a message is now


def read_one(
    files: Files, number: int, find: Find, place: MessageLocation | None = None
) -> Message | MessageDamaged | None:
    """Return the message at its place, or, where it is not there, at the one that `find` gives; None for none."""
    failures = 0
    while True:
        if place is None:
            place = find(number)
            if place is None:
                return None
        _, _, sequence, offset, size = place
        try:
            source = files.source(sequence)
            if not source.kept.frames or source.kept.find(source.identity, offset) is None:
                data = source.file.read(size + SINGLE_BYTES, offset)
                found = single_message(source, data, (number, offset, size))
                if found is not None:
                    return found
            return next(FrameReader(source).messages([(number, offset)]))
        except FormatError as failure:
            return MessageDamaged(number, failure.path, offset, failure.reason)
        except FileNotFoundError as failure:
            files.forget(sequence)
            failures += 1
            if failures == ATTEMPTS_MAX:
                raise DiskError(Path(str(failure.filename)), failure, "read") from failure
            place = None  # clean-up has moved it
        except OSError as failure:
            raise DiskError(files.path(sequence), failure, "read") from failure


class _InMemory:
    """A file of which only that is read that is there without waiting for a device: BlockingIOError else."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self.size = file.size

    def read(self, size: int, offset: int) -> bytes:
        data = self._file.read_now(size, offset)
        if len(data) < min(size, self._file.size() - offset):
            raise BlockingIOError
        return data


def read_now(files: Files, place: MessageLocation) -> Message | None:
    """Return the message at its place as far as neither a device nor a large commit's decoding is waited for.

    None where `read_one` has to be asked, which tells what is wrong too.
    """
    number, _, sequence, offset, size = place
    source = files.opened(sequence)
    if source is None:
        return None
    try:
        data = source.file.read_now(size + SINGLE_BYTES, offset)
        found: Message | MessageDamaged | None = single_message(source, data, (number, offset, size))
        if found is None and data and source.kept.find(source.identity, offset) is not None:
            held = replace(source, file=cast(DiskFile, _InMemory(source.file)))
            found = next(FrameReader(held).messages([(number, offset)]))
    except OSError:
        return None
    return found if isinstance(found, Message) else None


def read_places(files: Files, places: Sequence[MessageLocation], find: Find) -> list[Message | MessageDamaged]:
    """Return the messages of places in order; those that are gone meanwhile are left out."""
    found: list[Message | MessageDamaged] = []
    for sequence, several in groupby(places, key=itemgetter(2)):
        found += _read_of_file(files, sequence, list(map(itemgetter(0, 3), several)), find)
    return found


def read_added(files: Files, places: Sequence[MessageLocation], find: Find) -> Iterator[tuple[int, int]]:
    """Yield (number, when it was added) of messages, without reading what they hold. DiskError."""
    gone: list[MessageLocation] = []
    for sequence, several in groupby(places, key=itemgetter(2)):
        try:
            reader = FrameReader(files.source(sequence))
            for place in several:
                if (added := reader.added_us(place.number, place.offset)) is not None:
                    yield place.number, added
        except FormatError:
            continue
        except FileNotFoundError:
            files.forget(sequence)
            again = [find(place.number) for place in several]
            gone += [place for place in again if place is not None and place.sequence != sequence]
        except OSError as failure:
            raise DiskError(files.path(sequence), failure, "read") from failure
    if gone:
        yield from read_added(files, gone, find)


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


def read_many(files: Files, wanted: Iterable[Wanted], find: Find) -> Iterator[Message | MessageDamaged]:
    """Yield the messages of batches of places; those that are gone meanwhile are left out."""
    for batch in wanted:
        for sequence, pairs in _by_file(batch):
            yield from _read_of_file(files, sequence, pairs, find)


def _read_of_file(
    files: Files, sequence: int, pairs: Sequence[tuple[int, int]], find: Find
) -> Iterator[Message | MessageDamaged]:
    """Yield the messages of (number, frame offset) pairs in one file."""
    try:
        source = files.source(sequence)
    except FileNotFoundError:
        files.forget(sequence)
        for number, _ in pairs:
            found = read_one(files, number, find)
            if found is not None:
                yield found
        return
    except FormatError as failure:
        yield from (MessageDamaged(number, failure.path, at, failure.reason) for number, at in pairs)
        return
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


def read_known(files: Files, number: int, find: Find) -> Message:
    """Return a message that has to be there; NoSuchMessage, MessageDamaged."""
    found = read_one(files, number, find)
    if found is None:
        raise NoSuchMessage(number)
    if isinstance(found, MessageDamaged):
        raise found
    return found
