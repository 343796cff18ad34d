"""The operations of one data file as columns: what a footer holds, and what a walk gathers.

One row is one operation, but for a removal, where one row is one set of numbers. Rows are in the
order of the journal. Names are kept once and referred to by their place in `names`.

    column      of            meaning
    kind        all           1 ADD, 2 DELIVER, 3 DELETE, 4 PUT, 5 DROP
    flags       all           as in the record: PROPERTIES, PRODUCER, MOVED, WHOLE COMMIT; and 16 DAMAGED: the
                              message's or value's bytes were found not to match when the file was rebuilt
    name        all           place of the queue or key in `names`, from 0
    number      messages      the message, or the first of a set; else 0
    count       messages      1, or how many numbers the set holds; else 0
    size        not DROP      bytes of payload (without properties) or value; of a set: its coded bytes; else 0
    properties  ADD           bytes of the properties; else 0
    producer    ADD           0, or 1 + place of the identifier in `producers`
    offset      all           of the frame
    commit      all           number of the commit
    time        all           of the commit, microseconds since 1970-01-01 UTC, signed
    first_time  MOVED ADD     of the message's first ADD, as `time`; else 0
    hash        ADD, PUT      XXH3 of the payload (without properties) or value; else 0

The rows of a data file's contents, made in bulk from the heads of its frames.

A head is a frame's header with its records. Most frames hold one record, on one message or key or on
several plain messages: those are read as one table for each length of their heads. The others are
gone through record by record. A footer is made while commits want the processor, so nothing is done
here for each row that numpy can do for all of them.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.journal.format.frames import (
    FRAME,
    FRAME_CHECKSUM,
    FRAME_COMMIT_AT,
    FRAME_FLAGS,
    FRAME_FLAGS_AT,
    FRAME_LENGTH_AT,
    FRAME_META_AT,
    FRAME_OPERATIONS_AT,
    FRAME_SIZE,
    FRAME_TIME_AT,
    GAP,
    OPERATIONS_MAX,
    number_at,
)
from oms_journal.journal.format.headers import Ending, FileHeader
from oms_journal.journal.format.heads import PACK_COUNT, Heads
from oms_journal.journal.format.records import (
    MESSAGE_CHECKSUM_BYTES,
    MESSAGE_SIZE_BYTES,
    MOVED,
    NUMBERS_END,
    PRODUCER,
    RECORD_COUNT_AT,
    RECORD_EXTRA_AT,
    RECORD_FLAGS_AT,
    RECORD_KIND_AT,
    RECORD_NAME_AT,
    RECORD_NUMBER_AT,
    RECORD_PARTS_AT,
    SET_SIZE,
    SINGLE,
    SINGLE_CHECKSUM_AT,
    SINGLE_SIZE_AT,
    VALUE_HEAD_BYTES,
    BadRecord,
    Record,
    check_gap,
    check_texts,
    decode_records,
    decode_set,
)
from oms_journal.journal.operations import NAME_BYTES_MAX, Operation

COLUMNS = {
    "kind": "u1",
    "flags": "u1",
    "name": "u4",
    "number": "u8",
    "count": "u4",
    "size": "u4",
    "properties": "u4",
    "producer": "u4",
    "offset": "u8",
    "commit": "u8",
    "time": "i8",
    "first_time": "i8",
    "hash": "u8",
}
_NAME_AT = {  # where the name stands in the head of a frame that holds one record on one thing
    Operation.ADD: FRAME_SIZE + SINGLE.size,
    Operation.DELIVER: FRAME_SIZE + RECORD_PARTS_AT + SET_SIZE.size,
    Operation.DELETE: FRAME_SIZE + RECORD_PARTS_AT + SET_SIZE.size,
    Operation.PUT: FRAME_SIZE + RECORD_PARTS_AT,
    Operation.DROP: FRAME_SIZE + RECORD_PARTS_AT,
}
_NAME_PLACES = np.array([_NAME_AT.get(kind, 0) for kind in range(256)], np.int64)  # type: ignore[call-overload]
_HEAD_FIELDS = {  # of such a head: field, kind, and where it stands
    "commit": ("<u8", FRAME_COMMIT_AT),
    "time": ("<i8", FRAME_TIME_AT),
    "operations": ("<u4", FRAME_OPERATIONS_AT),
    "frame_flags": ("<u4", FRAME_FLAGS_AT),
    "kind": ("u1", FRAME_SIZE + RECORD_KIND_AT),
    "flags": ("u1", FRAME_SIZE + RECORD_FLAGS_AT),
    "name": ("u1", FRAME_SIZE + RECORD_NAME_AT),
    "extra": ("u1", FRAME_SIZE + RECORD_EXTRA_AT),
    "count": ("<u4", FRAME_SIZE + RECORD_COUNT_AT),
    "number": ("<u8", FRAME_SIZE + RECORD_NUMBER_AT),
    "hash": ("<u8", FRAME_SIZE + SINGLE_CHECKSUM_AT),
    "set_size": ("<u4", FRAME_SIZE + RECORD_PARTS_AT),
    "size": ("<u4", FRAME_SIZE + SINGLE_SIZE_AT),
}
_FRAME_FIELDS = {
    "length": FRAME_LENGTH_AT,
    "meta": FRAME_META_AT,
    "operations": FRAME_OPERATIONS_AT,
    "flags": FRAME_FLAGS_AT,
}
_FRAME_TYPE = np.dtype(
    {
        "names": list(_FRAME_FIELDS),
        "formats": ["<u4"] * len(_FRAME_FIELDS),
        "offsets": list(_FRAME_FIELDS.values()),
        "itemsize": FRAME_SIZE,
    }
)
_HEAD_SIZE = FRAME_SIZE + SINGLE.size
_RUN_AT = FRAME_SIZE + RECORD_PARTS_AT  # where the columns of a record that adds several messages begin
BULK_FRAMES_MIN = 4  # of one length; fewer are gone through one by one, with less work
_SIMPLE_SIZES = range(FRAME_SIZE + RECORD_PARTS_AT, _HEAD_SIZE + 2 * NAME_BYTES_MAX + 8)
_SIMPLE_FLAGS = PRODUCER  # the only flag that leaves a single ADD's columns where they are

Rows = dict[str, npt.NDArray[Any]]  # the columns, and `frame`: the place of the row's frame


@dataclass(slots=True)
class Tables:
    """Names and identifiers by their place, and the coded sets in the order of their frames."""

    names: dict[bytes, int] = field(default_factory=dict)
    producers: dict[bytes, int] = field(default_factory=dict)
    sets: list[bytes] = field(default_factory=list)

    def name(self, name: bytes) -> int:
        return self.names.setdefault(name, len(self.names))

    def producer(self, producer: bytes) -> int:
        return self.producers.setdefault(producer, len(self.producers)) + 1 if producer else 0


def rows_of(heads: Sequence[bytes], offsets: "array[int] | npt.NDArray[np.int64]", tables: Tables) -> Rows:
    """Return the columns of all frames' rows, in the order of the frames."""
    is_done = np.zeros(len(heads), np.bool_)
    parts = list(_bulk_parts(heads, is_done, tables))
    others = _Others(tables)
    for frame in np.flatnonzero(~is_done).tolist():
        others.add(frame, heads[frame])
    if others.counts:
        parts.append(others.rows())
    rows = _joined(parts)
    rows["offset"] = np.frombuffer(offsets, np.uint64)[rows["frame"]] if len(heads) else np.empty(0, np.uint64)
    return rows


def check_rows(heads: Sequence[bytes], rows: Rows) -> None:
    """Raise BadRecord where a frame does not hold what its header says, or a number is none of a message.

    Its records have been decoded; names and coded sets are looked at by whoever decodes those.
    """
    frames = np.frombuffer(b"".join([head[:FRAME_SIZE] for head in heads]), _FRAME_TYPE)
    kinds, places = rows["kind"].astype(np.uint8), rows["frame"].astype(np.int64)
    is_add, is_key = kinds == Operation.ADD, kinds >= Operation.PUT
    sizes = rows["size"].astype(np.int64) + rows["properties"].astype(np.int64)
    sizes[~is_add & (kinds != Operation.PUT)] = 0  # coded sets stand among the records
    held = _totals(sizes, places, len(frames))
    operations = _totals(np.where(is_key, 1, rows["count"]).astype(np.int64), places, len(frames))
    lengths = FRAME_SIZE + frames["meta"].astype(np.int64) + held
    has_flags = frames["flags"] != 0
    for place in np.flatnonzero(has_flags).tolist():
        check_gap(int(frames["operations"][place]), list(decode_records(heads[place][FRAME_SIZE:])))
    is_bad = (lengths + -lengths % 8 != frames["length"]) | (operations != frames["operations"])
    is_bad |= operations > OPERATIONS_MAX
    is_bad &= ~has_flags
    is_bad |= (frames["flags"] & ~np.uint32(FRAME_FLAGS)) != 0
    numbers = rows["number"][is_add & (rows["flags"].astype(np.uint8) & MOVED == 0)].astype(np.uint64)
    if is_bad.any() or (rows["number"][~is_key] >= np.uint64(NUMBERS_END)).any() or (numbers[1:] <= numbers[:-1]).any():
        raise BadRecord("a frame does not hold what its header says")


def _totals(values: npt.NDArray[np.int64], places: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the sum of the values at each place; the places ascend."""
    sums = np.concatenate(([0], np.cumsum(values)))
    found: npt.NDArray[np.int64] = np.diff(sums[np.searchsorted(places, np.arange(count + 1))])
    return found


def _joined(parts: Sequence[Rows]) -> Rows:
    """Put parts together, their rows in the order of the frames."""
    if not parts:
        return {"frame": np.empty(0, np.int64), **{name: np.empty(0, kind) for name, kind in COLUMNS.items()}}
    if len(parts) == 1:
        return parts[0]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(rows["frame"], kind="stable")
    return {name: column[order] for name, column in rows.items()}


# Frames whose columns are at the same places, many at once.


def _bulk_parts(heads: Sequence[bytes], is_done: npt.NDArray[np.bool_], tables: Tables) -> Iterator[Rows]:
    """Yield the rows of the frames that can be read in bulk, and note which they are."""
    lengths = np.fromiter(map(len, heads), np.int64, len(heads))
    for length in dict.fromkeys(lengths.tolist()):
        frames = np.flatnonzero(lengths == length)
        if len(frames) < BULK_FRAMES_MIN or (length < _HEAD_SIZE and length not in _SIMPLE_SIZES):
            continue
        found, data = _table(heads, frames, length)
        for kind_of, rows_of_kind in ((_are_simple, _simple_rows), (_are_runs, _run_rows)):
            mine = kind_of(found, length)
            if mine.any():
                is_done[frames[mine]] = True
                yield from rows_of_kind(frames[mine], found[mine], data[mine], tables)


def _table(
    heads: Sequence[bytes], frames: npt.NDArray[np.int64], length: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8]]:
    """Return heads of one length as a table of their fields, and as a table of their bytes."""
    width = max(length, _HEAD_SIZE)
    chosen = heads if len(frames) == len(heads) else [heads[frame] for frame in frames.tolist()]
    joined = b"".join(chosen if length == width else [head.ljust(width, b"\0") for head in chosen])
    return np.frombuffer(joined, _head_type(width)), np.frombuffer(joined, np.uint8).reshape(-1, width)


def _head_type(width: int) -> "np.dtype[np.void]":
    kinds, offsets = zip(*_HEAD_FIELDS.values(), strict=True)
    fields = {"names": list(_HEAD_FIELDS), "formats": list(kinds), "offsets": list(offsets), "itemsize": width}
    return np.dtype(fields)  # type: ignore[call-overload,no-any-return]


def _are_simple(found: npt.NDArray[np.void], length: int) -> npt.NDArray[np.bool_]:
    """Say of each head whether it holds one record on one message or key, its columns at fixed places."""
    kind, name, extra = found["kind"], found["name"].astype(np.int64), found["extra"].astype(np.int64)
    is_one = (found["operations"] == 1) & (found["frame_flags"] == 0) & (name > 0)
    is_one &= (found["flags"] == 0) | ((found["flags"] == _SIMPLE_FLAGS) & (kind == Operation.ADD))
    is_one &= (extra > 0) == (found["flags"] == _SIMPLE_FLAGS)
    end = _NAME_PLACES[kind] + name + extra
    is_one &= end + -end % 8 == length
    is_message = (found["count"] == 1) & (kind >= Operation.ADD) & (kind <= Operation.DELETE)
    is_message &= (kind == Operation.ADD) | (found["set_size"] == 0)
    simple: npt.NDArray[np.bool_] = is_one & (is_message | (kind == Operation.PUT) | (kind == Operation.DROP))
    return simple


def _simple_rows(
    frames: npt.NDArray[np.int64], found: npt.NDArray[np.void], data: npt.NDArray[np.uint8], tables: Tables
) -> Iterator[Rows]:
    rows: Rows = {"frame": frames}
    rows |= {name: found[name].copy() for name in ("kind", "flags", "number", "commit", "time")}
    kind = found["kind"]
    is_add, is_put, is_key = kind == Operation.ADD, kind == Operation.PUT, kind >= Operation.PUT
    rows["count"] = (~is_key).astype("u4")
    rows["size"] = np.where(is_add, found["size"], np.where(is_put, found["count"], 0)).astype("u4")
    rows["hash"] = np.where(is_add, found["hash"], np.where(is_put, found["number"], 0)).astype("u8")
    rows["number"][is_key] = 0
    rows["name"], rows["producer"] = _simple_names(found, data, tables)
    rows["properties"] = np.zeros(len(frames), "u4")
    rows["first_time"] = np.zeros(len(frames), "i8")
    yield rows


def _are_runs(found: npt.NDArray[np.void], length: int) -> npt.NDArray[np.bool_]:
    """Say of each head whether it holds one record that adds several plain messages."""
    size = _RUN_AT + (MESSAGE_CHECKSUM_BYTES + MESSAGE_SIZE_BYTES) * found["count"].astype(np.int64) + found["name"]
    runs: npt.NDArray[np.bool_] = (
        (found["operations"] == found["count"])
        & (found["count"] > 1)
        & (found["frame_flags"] == 0)
        & (found["kind"] == Operation.ADD)
        & (found["flags"] == 0)
        & (found["extra"] == 0)
        & (found["name"] > 0)
        & (size + -size % 8 == length)
    )
    return runs


def _run_rows(
    frames: npt.NDArray[np.int64], found: npt.NDArray[np.void], data: npt.NDArray[np.uint8], tables: Tables
) -> Iterator[Rows]:
    shapes = (found["count"].astype(np.int64) << 8) | found["name"]
    for shape in dict.fromkeys(shapes.tolist()):
        mine = shapes == shape
        yield _run_rows_of_shape(frames[mine], found[mine], data[mine], tables)


def _run_rows_of_shape(
    frames: npt.NDArray[np.int64], found: npt.NDArray[np.void], data: npt.NDArray[np.uint8], tables: Tables
) -> Rows:
    """Return the rows of frames that add equally many messages to queues with names of one length."""
    count, name_size = int(found["count"][0]), int(found["name"][0])
    sizes_at = _RUN_AT + MESSAGE_CHECKSUM_BYTES * count
    name_at = sizes_at + MESSAGE_SIZE_BYTES * count
    rows: Rows = {"frame": np.repeat(frames, count)}
    rows |= {name: np.repeat(found[name], count) for name in ("kind", "flags", "commit", "time")}
    rows["number"] = (found["number"][:, None] + np.arange(count, dtype=np.uint64)).ravel()
    rows["hash"] = np.ascontiguousarray(data[:, _RUN_AT:sizes_at]).view("<u8").ravel()
    rows["size"] = np.ascontiguousarray(data[:, sizes_at:name_at]).view("<u4").ravel()
    names = np.zeros(len(frames), np.uint32)
    names[:] = _places(data[:, name_at : name_at + name_size], tables.name)
    rows["name"] = np.repeat(names, count)
    rows["count"] = np.ones(len(rows["frame"]), "u4")
    rows |= {name: np.zeros(len(rows["frame"]), COLUMNS[name]) for name in ("properties", "producer", "first_time")}
    return rows


def _simple_names(
    found: npt.NDArray[np.void], data: npt.NDArray[np.uint8], tables: Tables
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the places of the names and of the producer identifiers."""
    names, producers = np.zeros(len(found), np.uint32), np.zeros(len(found), np.uint32)
    at, size, extra = _NAME_PLACES[found["kind"]], found["name"].astype(np.int64), found["extra"].astype(np.int64)
    shapes = (at << 16) | (size << 8) | extra
    for shape in dict.fromkeys(shapes.tolist()):
        mine = shapes == shape
        start, split = shape >> 16, (shape >> 16) + (shape >> 8 & 255)
        end = split + (shape & 255)
        names[mine] = _places(data[mine, start:split], tables.name)
        if end > split:
            producers[mine] = _places(data[mine, split:end], tables.producer)
    return names, producers


def _places(texts: npt.NDArray[np.uint8], place: Callable[[bytes], int]) -> npt.ArrayLike:
    """Return the places of texts of one length, a row of bytes each."""
    if bool((texts == texts[0]).all()):
        return place(texts[0].tobytes())
    joined, size = texts.tobytes(), texts.shape[1]
    return [place(joined[at : at + size]) for at in range(0, len(joined), size)]


# All other frames.


class _Others:
    """Records of any shape; their columns are put together at the end."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.counts: list[int] = []  # rows of each record
        self._heads: dict[str, list[int]] = {
            name: [] for name in ("frame", "commit", "time", "kind", "flags", "name", "producer", "number", "count")
        }
        self._sizes: list[npt.ArrayLike] = []
        self._hashes: list[npt.ArrayLike] = []
        self._properties: list[npt.ArrayLike] = []
        self._moved: list[tuple[int, Record]] = []  # with the place of their first row
        self._rows = 0

    def add(self, frame: int, head: bytes) -> None:
        """Take in the records of one frame."""
        _, _, _, commit, _, _, time, _, flags = FRAME.unpack_from(head)
        if flags:
            return  # a gap
        before = len(self.counts)
        for record in decode_records(head[FRAME_SIZE:]):
            self._add_record(record)
        records = len(self.counts) - before
        self._heads["frame"] += [frame] * records
        self._heads["commit"] += [commit] * records
        self._heads["time"] += [time] * records

    def _add_record(self, record: Record) -> None:
        rows, size, hashed, count = 1, 0, 0, 0
        if record.kind == Operation.ADD:
            rows, count = record.count, 1
            properties = np.array(record.property_sizes or [0] * rows, np.uint32)
            self._properties.append(properties)
            self._sizes.append(np.array(record.sizes, np.uint32) - properties)
            self._hashes.append(np.array(record.hashes or record.checksums, np.uint64))
            if record.first_times:
                self._moved.append((self._rows, record))
        else:
            if record.kind == Operation.PUT:
                size, hashed = record.count, record.number
            elif record.kind != Operation.DROP:
                size, count = len(record.set_bytes), record.count
                self._tables.sets.append(record.set_bytes)
            self._properties.append((0,))
            self._sizes.append((size,))
            self._hashes.append(np.array([hashed], np.uint64))
        number = 0 if record.kind >= Operation.PUT else record.number
        self._append(record.kind, record.flags, record.name, record.producer, number, count, rows)

    def _append(  # noqa: PLR0913
        self, kind: int, flags: int, name: bytes, producer: bytes, number: int, count: int, rows: int
    ) -> None:
        heads, tables = self._heads, self._tables
        places = (kind, flags, tables.name(name), tables.producer(producer), number, count)
        for column, value in zip(("kind", "flags", "name", "producer", "number", "count"), places, strict=True):
            heads[column].append(value)
        self.counts.append(rows)
        self._rows += rows

    def rows(self) -> Rows:
        """Return the columns of all records."""
        counts = np.array(self.counts, np.int64)
        starts = np.cumsum(counts) - counts
        kinds = {**COLUMNS, "frame": "i8"}
        rows: Rows = {name: np.repeat(np.array(values, kinds[name]), counts) for name, values in self._heads.items()}
        rows["number"] = rows["number"] + (np.arange(self._rows) - np.repeat(starts, counts)).astype(np.uint64)
        rows["size"] = _column(self._sizes, "u4")
        rows["hash"] = _column(self._hashes, "u8")
        rows["properties"] = _column(self._properties, "u4")
        rows["first_time"] = np.zeros(self._rows, "i8")
        for start, record in self._moved:
            rows["number"][start : start + record.count] = record.numbers
            rows["first_time"][start : start + record.count] = record.first_times
        return rows


def _column(parts: Iterable[npt.ArrayLike], kind: str) -> npt.NDArray[np.generic]:
    return np.concatenate([np.asarray(part, kind) for part in parts])


DAMAGED = 16

Column = npt.NDArray[np.generic]


NOTHING = (1, 0)
NO_FRAMES = xxhash.xxh3_64_intdigest(b"")  # the chain of a file that has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Lowest and highest of what a file holds, (1, 0) where it holds none: for skipping whole files."""

    time: tuple[int, int] = NOTHING
    added: tuple[int, int] = NOTHING
    removed: tuple[int, int] = NOTHING
    commit: tuple[int, int] = NOTHING
    offset: tuple[int, int] = NOTHING
    first_time: tuple[int, int] = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The operations of one data file, and where its frames end."""

    columns: Mapping[str, npt.NDArray[np.int64]]
    names: Sequence[bytes] = ()
    producers: Sequence[bytes] = ()
    sets: bytes = b""  # the coded sets of the removal rows, behind one another
    value_heads: bytes = b""  # the first 128 bytes of each PUT's value, behind one another
    frame_count: int = 0
    end: int = 0  # behind the last frame
    last_commit: int = 0
    chain: int = 0  # XXH3 over the frames' checksums
    ranges: Ranges | None = None  # where a footer has told them already
    has_gaps: bool = False  # an earlier repair put gap frames in, which changes the chain

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def ending(self, header: FileHeader) -> Ending:
        """Return how the file with this header ends, as its successor will say it."""
        return header.ending(end=self.end, commit=self.last_commit, chain=self.chain)

    def value_head(self, key: bytes) -> bytes | None:
        """Return the first 128 bytes of the last undamaged value put under the key in this file."""
        if key not in self.names:
            return None
        puts = self.columns["kind"] == Operation.PUT
        is_good = (self.columns["flags"][puts] & DAMAGED) == 0
        mine = np.flatnonzero(is_good & (self.columns["name"][puts] == list(self.names).index(key)))
        if not len(mine):
            return None
        ends = np.cumsum(value_head_sizes(self.columns["size"][puts].astype(np.int64)))
        start = int(ends[mine[-1] - 1]) if mine[-1] else 0
        return self.value_heads[start : int(ends[mine[-1]])]

    def removal_sets(self) -> "list[npt.NDArray[np.uint64]]":
        """Return the numbers of every removal row that holds more than one, in the order of the rows."""
        if not self.sets:
            return []
        found: list[npt.NDArray[np.uint64]] = []
        kinds, counts, sizes = (self.columns[name] for name in ("kind", "count", "size"))
        numbers = self.columns["number"]
        at = 0
        removal = (kinds == Operation.DELIVER) | (kinds == Operation.DELETE)
        for row in np.flatnonzero(removal & (sizes > 0)).tolist():
            end = at + int(sizes[row])
            found.append(decode_set(int(numbers[row]), int(counts[row]), self.sets[at:end]))
            at = end
        return found


def empty_columns() -> dict[str, npt.NDArray[np.int64]]:
    return {name: np.empty(0, f"<{kind}") for name, kind in COLUMNS.items()}


class ContentsBuilder:
    """Gathers the frames of one file as they are written or walked; columns are made at the end.

    What is kept of a frame are the bytes of its header and records, which exist already: a plain message, whose way is
    the shortest, pays two appends. Where there are values, many frames are packed together (`heads.py`) at a time. The
    columns are made in bulk (`rows.py`).
    """

    __slots__ = ("_hasher", "_heads", "_offsets", "_value_heads")

    def __init__(self) -> None:
        self._heads = Heads()
        self._offsets = array("Q")
        self._value_heads = Heads()
        self._hasher = xxhash.xxh3_64()

    def add(self, offset: int, head: bytes, value_heads: Sequence[bytes] = ()) -> None:
        """Take in one frame's header and records; the value heads are those of its PUTs, in order."""
        self.add_one(offset, head)
        if value_heads:
            self.add_value_heads(value_heads)

    def add_plain(self, offsets: Sequence[int], heads: Sequence[bytes]) -> None:
        """Take in frames; for each that has PUTs `add_value_heads` follows, in their order."""
        self._heads.loose += heads
        self._offsets.extend(offsets)
        checksums = [head[FRAME_CHECKSUM] for head in heads]
        self._hasher.update(checksums[0] if len(heads) == 1 else b"".join(checksums))

    def add_one(self, offset: int, head: bytes) -> None:
        """Take in one frame; where it has PUTs, `add_value_heads` follows."""
        self._heads.loose.append(head)
        self._offsets.append(offset)
        self._hasher.update(head[FRAME_CHECKSUM])

    def add_nothing(self, offset: int, header: bytes) -> None:
        """Take in a frame that counts, and whose records are left out: no row comes from it."""
        self.add_one(offset, header[:FRAME_FLAGS_AT] + GAP.to_bytes(FRAME_SIZE - FRAME_FLAGS_AT, "little"))

    def add_value_heads(self, value_heads: Sequence[bytes]) -> None:
        """Take in the beginnings of the values of one frame's PUTs, in order, behind those of all frames before it."""
        loose = self._value_heads.loose
        loose += value_heads
        if len(loose) >= PACK_COUNT:
            self._value_heads.pack(len(loose))
        if len(self._heads.loose) >= PACK_COUNT:
            self._heads.pack(PACK_COUNT)  # and not all, so that no commit waits for many plain messages before it

    def chain(self) -> int:
        """Return XXH3 over the checksums of the frames so far."""
        return self._hasher.intdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def build(self, end: int) -> Contents:
        """Return the columns of all frames taken in; the last of them ends at `end`."""
        heads, tables = self._heads.all(), Tables()
        return self._contents(heads, rows_of(heads, self._offsets, tables), tables, end)

    def build_checked(self, end: int) -> Contents:
        """Return the same; BadRecord where a reader would not understand one of the frames."""
        heads, tables = self._heads.all(), Tables()
        rows = rows_of(heads, self._offsets, tables)
        check_rows(heads, rows)
        contents = self._contents(heads, rows, tables, end)
        check_texts((*contents.names, *contents.producers))
        contents.removal_sets()
        return contents

    def _contents(self, heads: Sequence[bytes], rows: Rows, tables: Tables, end: int) -> Contents:
        last_commit = number_at(heads[-1], FRAME_COMMIT_AT) if heads else 0
        return Contents(
            columns={name: rows[name] for name in COLUMNS},
            names=list(tables.names),
            producers=list(tables.producers),
            sets=b"".join(tables.sets),
            value_heads=b"".join(self._value_heads.all()),
            frame_count=len(heads),
            end=end,
            last_commit=last_commit,
            chain=self.chain(),
        )


def value_head_sizes(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many bytes of each PUT's value stand in `value_heads`, given the values' sizes."""
    return np.minimum(sizes, VALUE_HEAD_BYTES)
