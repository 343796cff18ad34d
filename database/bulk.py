"""The values of many keys at once: read file by file, verified, and not kept.

A sealed file's footer says which of its rows are the latest versions of keys and how long everything in a frame is;
so where the values stand is computed for a whole file, and neighbouring ones are read together. A file without a
footer, which is the active one, is walked first.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from database.questions import Look, get
from index.block import Ints
from journal.contents import Contents
from journal.datafile import DataFile, Footer, require_header
from journal.disk import DiskFile
from journal.errors import DiskError, MessageDamaged
from journal.format import FRAME_SIZE, xxh3
from journal.message import FrameReader
from journal.names import DataFileName
from journal.operations import ENGINE_PREFIX, Operation
from journal.walk import Span, walk

_log = logging.getLogger("oms.database")
AT_ONCE = 1000  # keys looked up together
WINDOW_BYTES = 1 << 20  # read at once
GAP_BYTES = 16 << 10  # between two values: so much is read over rather than left out
_ENGINE = ENGINE_PREFIX.encode()
LENGTH_AT = 8  # in a frame header: length and `meta`, four bytes each


class Values(NamedTuple):
    """Keys with their latest values, in no promised order; and keys whose values are damaged."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    damaged: Sequence[bytes]


def values(look: Look, prefix: str) -> Iterator[Values]:
    """Yield the values of all keys with the prefix, a data file at a time. For a time when nobody writes.

    Keys that are put or moved meanwhile may come twice or not at all. What is damaged is logged too.
    """
    with look.ledger.lock:
        sequences = sorted(sequence for sequence, count in look.ledger.index.keyed.files.items() if count)
    for sequence in sequences:
        found = _of_file(look, sequence, prefix.encode())
        for key in found.damaged:
            _log.error("the value of key %r in %s is damaged", key.decode(), DataFileName(sequence))
        if found.keys or found.damaged:
            yield found


def in_order(look: Look, prefix: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the keys with the prefix and their values, in the order of the keys; None for what is damaged.

    Keys are those that are there now, values as they are when they are reached; one that is gone by then is left out.
    """
    with look.ledger.lock:
        keys = [key for key in look.ledger.index.keyed.keys(prefix.encode()) if _is_asked(key, b"")]
    for start in range(0, len(keys), AT_ONCE):
        part = keys[start : start + AT_ONCE]
        found = dict(_read(look, part))
        yield from ((key, found[key]) for key in part if key in found)


def _read(look: Look, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys and values in the order of their places, so that a frame is read once."""
    with look.ledger.lock:
        found = [(version, key) for key in keys if (version := look.ledger.index.keyed.find(key)) is not None]
    for sequence, group in groupby(sorted(found), key=lambda pair: pair[0].sequence):
        places = list(group)
        try:
            reader = FrameReader(look.files.source(sequence))
            for version, key in places:
                value = reader.value(key, version.offset)
                yield key, value if isinstance(value, bytes) else None
        except FileNotFoundError:  # clean-up has moved them meanwhile
            look.files.forget(sequence)
            yield from _one_by_one(look, [key for _, key in places])
        except OSError as failure:
            raise DiskError(look.directory / str(DataFileName(sequence)), failure, "read") from failure


def _one_by_one(look: Look, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    for key in keys:
        try:
            value = get(look.ledger, look.files, key)
        except MessageDamaged:
            yield key, None
            continue
        if value is not None:
            yield key, value


def _of_file(look: Look, sequence: int, prefix: bytes) -> Values:
    path = look.directory / str(DataFileName(sequence))
    try:
        with DataFile(look.disk, path) as file:
            footer = file.footer(identity=None)
            contents = footer.contents() if isinstance(footer, Footer) else _walked(file)
            return _of_contents(look, file.file, contents, prefix, sequence)
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure


def _walked(file: DataFile) -> Contents:
    """Return what a file without a footer holds now, the group being written perhaps among it."""
    header = require_header(file)
    data = file.bytes()
    span = Span(
        path=file.path,
        identity=header.identity,
        start=header.start(),
        limit=len(data),
        alignment=header.alignment,
        owner=header.owner,
    )
    found = walk(data, span)
    return found.builder.build(found.end)


def _of_contents(look: Look, file: DiskFile, contents: Contents, prefix: bytes, sequence: int) -> Values:
    keys, rows = _latest(look, contents, prefix, sequence)
    if not len(rows):
        return Values((), (), ())
    sizes = contents.columns["size"][rows].astype(np.int64)
    read = _gathered(file, _starts(file, contents, rows), sizes)
    is_good = np.fromiter(map(xxh3, read), np.uint64, len(read)) == contents.columns["hash"][rows].astype(np.uint64)
    if is_good.all():
        return Values(keys, read, ())
    good, bad = np.flatnonzero(is_good).tolist(), np.flatnonzero(~is_good).tolist()
    return Values([keys[at] for at in good], [read[at] for at in good], [keys[at] for at in bad])


def _latest(look: Look, contents: Contents, prefix: bytes, sequence: int) -> tuple[list[bytes], Ints]:
    """Return the keys whose latest version is in the file, and their rows, in the order of the file."""
    columns, names = contents.columns, contents.names
    puts = np.flatnonzero(columns["kind"] == Operation.PUT)
    is_asked = [_is_asked(name, prefix) for name in names] if not prefix else [n.startswith(prefix) for n in names]
    puts = puts[np.array(is_asked, np.bool_)[columns["name"][puts]]]
    offsets = columns["offset"][puts].tolist()
    keys = [bytes(names[place]) for place in columns["name"][puts].tolist()]
    with look.ledger.lock:
        is_latest = look.ledger.index.keyed.are_at(keys, sequence, offsets)
    latest = {key: place for place, key in enumerate(keys) if is_latest[place]}  # twice in a frame: the last one counts
    places = sorted(latest.values())
    return [keys[place] for place in places], puts[places]


def _is_asked(key: bytes, prefix: bytes) -> bool:
    return key.startswith(prefix) and not key.startswith(_ENGINE)


def _starts(file: DiskFile, contents: Contents, rows: Ints) -> Ints:
    """Return where in the file the values of the rows begin: behind what stands before them in their frames."""
    columns = contents.columns
    kinds, offsets = columns["kind"], columns["offset"].astype(np.int64)
    sizes = columns["size"].astype(np.int64) + columns["properties"].astype(np.int64)
    sizes[(kinds != Operation.ADD) & (kinds != Operation.PUT)] = 0  # coded sets stand among the records
    before = np.cumsum(sizes) - sizes
    is_first = np.concatenate(([True], np.diff(offsets) != 0))
    first_rows = np.flatnonzero(is_first)[np.cumsum(is_first)[rows] - 1]
    frames = offsets[rows]
    heads = _gathered(file, frames + LENGTH_AT, np.full(len(rows), 8))
    metas = np.frombuffer(b"".join(heads), "<u4")[1::2].astype(np.int64)
    found: Ints = frames + FRAME_SIZE + metas + before[rows] - before[first_rows]
    return found


def _gathered(file: DiskFile, starts: Ints, sizes: Ints) -> list[bytes]:
    """Return the bytes at ascending places, from as few reads as are worth it."""
    ends = starts + sizes
    found: list[bytes] = []
    for low, high in _windows(starts, ends):
        base = int(starts[low])
        data = file.read(int(ends[low:high].max()) - base, base)
        pairs = zip((starts[low:high] - base).tolist(), (ends[low:high] - base).tolist(), strict=True)
        found += [data[start:end] for start, end in pairs]
    return found


def _windows(starts: Ints, ends: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of places that are read together."""
    breaks: npt.NDArray[np.int64] = np.flatnonzero(starts[1:] - ends[:-1] > GAP_BYTES) + 1
    bounds = [0, *breaks.tolist(), len(starts)]
    for low, high in pairwise(bounds):
        at = low
        while at < high:
            until = int(np.searchsorted(ends[at:high], starts[at] + WINDOW_BYTES, "right"))
            yield at, at + max(1, until)
            at += max(1, until)
