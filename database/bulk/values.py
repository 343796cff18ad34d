"""The values of many keys at once: read file by file, verified, and not kept.

A sealed file's footer says which of its rows are the latest versions of keys and how long everything in a frame is;
so where the values stand is computed for a whole file, and neighbouring ones are read together. A file without a
footer, which is the active one, is walked first.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oms_journal.database.queries import DatabaseState, get
from oms_journal.index.table import Ints
from oms_journal.journal.disk import DiskFile
from oms_journal.journal.errors import DiskError, FormatError, MessageDamaged
from oms_journal.journal.format.contents import DAMAGED, Contents
from oms_journal.journal.format.frames import FRAME_META_AT, FRAME_SIZE
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import ENGINE_PREFIX, Operation
from oms_journal.journal.reading.datafile import DataFile, Footer, require_header
from oms_journal.journal.reading.message import FrameReader
from oms_journal.journal.reading.walk import Span, walk

_log = logging.getLogger("oms.database")
AT_ONCE = 1000  # keys looked up together
WINDOW_BYTES = 1 << 20  # read at once
GAP_BYTES = 16 << 10  # between two values: so much is read over rather than left out
_ENGINE = ENGINE_PREFIX.encode()
_FOUR = np.arange(4)

Columns = Mapping[str, npt.NDArray[np.int64]]


class Values(NamedTuple):
    """Keys with their latest values, in no promised order; and keys whose values are damaged."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    damaged: Sequence[bytes]


def values(state: DatabaseState, prefix: str) -> Iterator[Values]:
    """Yield the values of all keys with the prefix, a data file at a time. For a time when nobody writes.

    Keys that are put or moved meanwhile may come twice or not at all. What is damaged is logged too.
    """
    with state.ledger.lock:
        keys, sequences, offsets = state.ledger.index.keyed.located(prefix.encode())
    bounds = [0, *(np.flatnonzero(np.diff(sequences)) + 1).tolist(), len(keys)] if keys else []
    for low, high in pairwise(bounds):
        sequence = int(sequences[low])
        found = _of_file(state, sequence, keys[low:high], offsets[low:high])
        for key in found.damaged:
            _log.error("the value of key %r in %s is damaged", key.decode(), DataFileName(sequence))
        yield found


def in_order(state: DatabaseState, prefix: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the keys with the prefix and their values, in the order of the keys; None for what is damaged.

    Keys are those that are there now, values as they are when they are reached; one that is gone by then is left out.
    """
    with state.ledger.lock:
        keys = [key for key in state.ledger.index.keyed.keys(prefix.encode()) if not key.startswith(_ENGINE)]
    for start in range(0, len(keys), AT_ONCE):
        part = keys[start : start + AT_ONCE]
        found = dict(_read(state, part))
        yield from ((key, found[key]) for key in part if key in found)


def _read(state: DatabaseState, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys and values in the order of their places, so that a frame is read once."""
    with state.ledger.lock:
        found = [(version, key) for key in keys if (version := state.ledger.index.keyed.find(key)) is not None]
    for sequence, group in groupby(sorted(found), key=lambda pair: pair[0].sequence):
        places = list(group)
        try:
            reader = FrameReader(state.files.source(sequence))
            for version, key in places:
                value = reader.value(key, version.offset)
                yield key, value if isinstance(value, bytes) else None
        except FormatError:  # of the header: nothing in the file can be read
            yield from ((key, None) for _, key in places)
        except FileNotFoundError:  # clean-up has moved them meanwhile
            state.files.forget(sequence)
            yield from _one_by_one(state, [key for _, key in places])
        except OSError as failure:
            raise DiskError(state.directory / str(DataFileName(sequence)), failure, "read") from failure


def _one_by_one(state: DatabaseState, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    for key in keys:
        try:
            value = get(state.ledger, state.files, key)
        except MessageDamaged:
            yield key, None
            continue
        if value is not None:
            yield key, value


def _of_file(state: DatabaseState, sequence: int, keys: Sequence[bytes], offsets: Ints) -> Values:
    """Return the values of keys whose frames begin at ascending offsets of the file."""
    path = state.directory / str(DataFileName(sequence))
    try:
        with DataFile(state.disk, path) as file:
            footer = file.footer(identity=None)
            if isinstance(footer, Footer):
                columns: Columns = footer.columns()
                found = _of_columns(file.file, columns, lambda: footer.contents().names, (keys, offsets))
                return found if not found.damaged else _with_short_ones(found, footer.contents(), keys, offsets)
            contents = _walked(file)
            return _of_columns(file.file, contents.columns, lambda: contents.names, (keys, offsets))
    except FormatError:  # of the header: nothing in the file can be read
        return Values([], [], keys)
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure


def _with_short_ones(found: Values, contents: Contents, keys: Sequence[bytes], offsets: Ints) -> Values:
    """Return the same with what the footer has as a whole of that which has rotted in its frames."""
    places = dict(zip(keys, offsets.tolist(), strict=True))
    short = {key: value for key in found.damaged if (value := contents.short_value(key, places[key])) is not None}
    damaged = [key for key in found.damaged if key not in short]
    return Values([*found.keys, *short], [*found.values, *short.values()], damaged)


def _walked(file: DataFile) -> Contents:
    """Return what a file without a footer holds now, the group being written perhaps among it."""
    header = require_header(file)
    data = file.bytes()
    span = Span(sequence=header.sequence, identity=header.identity, limit=len(data), header=header)
    found = walk(data, span)
    return found.builder.build(found.end)


def _of_columns(
    file: DiskFile, columns: Columns, names: Callable[[], Sequence[bytes]], wanted: tuple[Sequence[bytes], Ints]
) -> Values:
    keys, rows = _rows(columns, names, *wanted)
    if len(columns["flags"]):
        rows = np.where(columns["flags"][rows] & DAMAGED, -1, rows)  # its frame may be gone
    lost = [key for key, row in zip(keys, rows.tolist(), strict=True) if row < 0] if (rows < 0).any() else []
    if lost:
        keys, rows = [key for key, row in zip(keys, rows.tolist(), strict=True) if row >= 0], rows[rows >= 0]
    read = _gathered(file, _starts(file, columns, rows), columns["size"][rows].astype(np.int64))
    is_good = np.fromiter(map(xxh3, read), np.uint64, len(read)) == columns["hash"][rows].astype(np.uint64)
    if is_good.all():
        return Values(keys, read, lost)
    good, bad = np.flatnonzero(is_good).tolist(), np.flatnonzero(~is_good).tolist()
    return Values([keys[at] for at in good], [read[at] for at in good], [*lost, *(keys[at] for at in bad)])


def _rows(
    columns: Columns, names: Callable[[], Sequence[bytes]], keys: Sequence[bytes], offsets: Ints
) -> tuple[Sequence[bytes], Ints]:
    """Return the keys and the rows that put their values, in the order of the rows; -1 for no such row.

    Most frames put one value, which is then the key's: names are looked at for the others only.
    """
    puts = np.flatnonzero(columns["kind"] == Operation.PUT)
    if not len(puts):
        return keys, np.full(len(keys), -1, np.int64)
    frames = columns["offset"][puts].astype(np.int64)
    low, high = np.searchsorted(frames, offsets, "left"), np.searchsorted(frames, offsets, "right")
    rows: Ints = np.where(high - low == 1, puts[np.minimum(low, len(puts) - 1)], -1)
    odd = np.flatnonzero(high - low > 1)
    if not len(odd):
        return keys, rows
    every, name_of, known = names(), columns["name"], dict[tuple[int, bytes], int]()
    for start, end in sorted({*zip(low[odd].tolist(), high[odd].tolist(), strict=True)}):
        for row in puts[start:end].tolist():
            known[start, bytes(every[name_of[row]])] = row  # twice in a frame: the last one counts
    for place in odd.tolist():
        rows[place] = known.get((int(low[place]), keys[place]), -1)
    order = np.argsort(rows, kind="stable")
    return [keys[place] for place in order.tolist()], rows[order]


def _starts(file: DiskFile, columns: Columns, rows: Ints) -> Ints:
    """Return where in the file the values of the rows begin: behind what stands before them in their frames."""
    kinds, offsets = columns["kind"], columns["offset"].astype(np.int64)
    sizes = columns["size"].astype(np.int64) + columns["properties"].astype(np.int64)
    sizes[(kinds != Operation.ADD) & (kinds != Operation.PUT)] = 0  # coded sets stand among the records
    before = np.cumsum(sizes) - sizes
    is_first = np.concatenate(([True], np.diff(offsets) != 0))
    first_rows = np.flatnonzero(is_first)[np.cumsum(is_first)[rows] - 1]
    frames = offsets[rows]
    found: Ints = frames + FRAME_SIZE + _metas(file, frames) + before[rows] - before[first_rows]
    return found


def _metas(file: DiskFile, frames: Ints) -> Ints:
    """Return how many bytes of records each frame has, as its header says it; 0 behind the end of the file."""
    found = np.zeros(len(frames), np.int64)
    for low, high in _windows(frames, frames + FRAME_SIZE):
        base = int(frames[low])
        size = int(frames[high - 1]) + FRAME_SIZE - base
        data = np.frombuffer(file.read(size, base).ljust(size, b"\0"), np.uint8)
        places = (frames[low:high] - base + FRAME_META_AT)[:, None] + _FOUR
        found[low:high] = data[places].view("<u4")[:, 0]
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
