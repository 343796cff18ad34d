"""The operations of one data file as columns: what a footer holds, and what a walk gathers.

One row is one operation, but for a removal, where one row is one set of numbers. Rows are in the
order of the journal. Names are kept once and referred to by their place in `names`.

    column      of            meaning
    kind        all           1 ADD, 2 DELIVER, 3 DELETE, 4 PUT, 5 DROP
    flags       all           as in the record; and 256 DAMAGED: when the file was rebuilt, the message's or value's
                              bytes were found not to match, or the whole frame was gone: then this row is all there is
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
    hash        ADD, PUT      XXH3 of the payload (without properties) or value; else 0. 0 too for a message with
                              properties whose bytes were found not to match when the file was rebuilt
    due         ADD           with DUE: not handed out before this time, as `time`; else 0
    expiry      ADD           with EXPIRY: not handed out from this time on, likewise; else 0
    attempts    ADD           with ATTEMPTS: how often it had been handed out; else 0
    group       ADD           0, or 1 + place of the group's name in `groups`

The rows of a data file's contents, made in bulk from the heads of its frames.

A head is a frame's header with its records. Most frames hold one record, on one message or key or on
several plain messages: those are read as one table for each length of their heads. The others are
gone through record by record. A footer is made while commits want the processor, so nothing is done
here for each row that numpy can do for all of them.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.journal.format.frames import (
    FRAME,
    FRAME_BODY,
    FRAME_CHECKSUM,
    FRAME_COMMIT_AT,
    FRAME_FLAGS,
    FRAME_FLAGS_AT,
    FRAME_LENGTH_AT,
    FRAME_META_AT,
    FRAME_OPERATIONS_AT,
    FRAME_SIZE,
    FRAME_SYNCED_AT,
    FRAME_TIME_AT,
    GAP,
    OPERATIONS_MAX,
    number_at,
)
from oms_journal.journal.format.headers import NUMBERS_END, Ending, FileHeader, xxh3
from oms_journal.journal.format.heads import PACK_COUNT, Heads
from oms_journal.journal.format.records import (
    MESSAGE_CHECKSUM_BYTES,
    MESSAGE_SIZE_BYTES,
    MOVED,
    PRODUCER,
    PROPERTIES,
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
    TERMS,
    VALUE_HEAD_BYTES,
    WHOLE_COMMIT,
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
    "flags": "u2",
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
    "due": "i8",
    "expiry": "i8",
    "attempts": "u4",
    "group": "u4",
}
TERM_COLUMNS = ("due", "expiry", "attempts", "group")  # of few messages: most files have none of them
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
    "commit": FRAME_COMMIT_AT,
    "synced": FRAME_SYNCED_AT,
}
_WIDE_FIELDS = ("commit", "synced")
_FRAME_TYPE = np.dtype(
    {
        "names": list(_FRAME_FIELDS),
        "formats": ["<u8" if name in _WIDE_FIELDS else "<u4" for name in _FRAME_FIELDS],
        "offsets": list(_FRAME_FIELDS.values()),
        "itemsize": FRAME_SIZE,
    }
)
_HEAD_SIZE = FRAME_SIZE + SINGLE.size
_RUN_AT = FRAME_SIZE + RECORD_PARTS_AT  # where the columns of a record that adds several messages begin
CONTINUED = 0x80  # of a byte of a removal set: the number goes on
SEPTETS_ADDED_UP = 4  # of numbers in removal sets: so many bits cannot overflow when a footer's are added up
BULK_FRAMES_MIN = 4  # of one length; fewer are gone through one by one, with less work
_SIMPLE_SIZES = range(FRAME_SIZE + RECORD_PARTS_AT, _HEAD_SIZE + 2 * NAME_BYTES_MAX + 8)
_SIMPLE_FLAGS = PRODUCER  # the only flag that leaves a single ADD's columns where they are

Rows = dict[str, npt.NDArray[Any]]  # the columns, and `frame`: the place of the row's frame


@dataclass(slots=True)
class Tables:
    """Names and identifiers by their place, and the coded sets in the order of their frames."""

    names: dict[bytes, int] = field(default_factory=dict)
    producers: dict[bytes, int] = field(default_factory=dict)
    groups: dict[bytes, int] = field(default_factory=dict)
    sets: list[bytes] = field(default_factory=list)

    def name(self, name: bytes) -> int:
        return self.names.setdefault(name, len(self.names))

    def producer(self, producer: bytes) -> int:
        return self.producers.setdefault(producer, len(self.producers)) + 1 if producer else 0

    def group(self, group: bytes) -> int:
        return self.groups.setdefault(group, len(self.groups)) + 1 if group else 0


def rows_of(heads: Sequence[bytes], offsets: "array[int] | npt.NDArray[np.int64]", tables: Tables) -> Rows:
    """Return the columns of all frames' rows, in the order of the frames.

    `hash` is the record's checksum: of a message with properties that is not the payload's alone, which no head has.
    """
    is_done = np.zeros(len(heads), np.bool_)
    parts = list(_bulk_parts(heads, is_done, tables))
    others = _Others(tables)
    for frame in np.flatnonzero(~is_done).tolist():
        others.add(frame, heads[frame])
    if others.counts:
        parts.append(others.rows())
    rows = _joined(parts)
    rows["offset"] = np.frombuffer(offsets, np.uint64)[rows["frame"]] if len(heads) else np.empty(0, np.uint64)
    return _with_terms(rows)


def _with_terms(rows: Rows) -> Rows:
    """Return the rows with all columns: those of terms are zeros, in no memory, where no message has any."""
    count = len(rows["frame"])
    return rows | {
        name: np.broadcast_to(np.zeros((), COLUMNS[name]), count) for name in TERM_COLUMNS if name not in rows
    }


def check_rows(heads: Sequence[bytes], rows: Rows, alignment: int) -> None:
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
    rest = frames["length"].astype(np.int64) - lengths
    is_bad = (rest < 0) | (rest >= alignment) | (operations != frames["operations"])
    is_bad |= operations > OPERATIONS_MAX
    is_bad &= ~has_flags
    is_bad |= (frames["flags"] & ~np.uint32(FRAME_FLAGS)) != 0
    numbers = rows["number"][is_add & (rows["flags"].astype(np.uint16) & MOVED == 0)].astype(np.uint64)
    _check_whole(rows)
    if is_bad.any() or (rows["number"][~is_key] >= np.uint64(NUMBERS_END)).any() or (numbers[1:] <= numbers[:-1]).any():
        raise BadRecord("a frame does not hold what its header says")


def _check_order(heads: Sequence[bytes], rows: Rows, offsets: "array[int]", header: FileHeader) -> None:
    """Raise BadRecord where a frame does not stand where its commit number and its message numbers say.

    Of a file that a repair has put gap frames into this says nothing where they are: a walk does.
    """
    frames = np.frombuffer(b"".join([head[:FRAME_SIZE] for head in heads]), _FRAME_TYPE)
    is_commit = frames["flags"] == 0
    commits = frames["commit"].astype(np.int64)
    is_next = ~(is_commit[1:] & is_commit[:-1]) | (np.diff(commits) == 1)
    is_good = bool(is_next.all()) and not (frames["synced"] > np.frombuffer(offsets, np.uint64)).any()
    if header.created and len(heads):
        added = rows["number"][(rows["kind"] == Operation.ADD) & (rows["flags"].astype(np.uint16) & MOVED == 0)]
        is_good &= not is_commit[0] or int(commits[0]) == header.next_commit
        is_good &= not len(added) or int(added[0]) >= header.next_message
    if not is_good:
        raise BadRecord("a frame does not stand where its numbers say")


def _check_whole(rows: Rows) -> None:
    """Raise BadRecord where only some of a commit's messages speak for the whole of it."""
    flags = rows["flags"].astype(np.uint16)
    if not (flags & WHOLE_COMMIT).any():
        return
    added = (rows["kind"] == Operation.ADD) & (flags & MOVED == 0)
    frames, wholes, producers = rows["frame"][added], flags[added] & WHOLE_COMMIT, rows["producer"][added]
    is_same = (wholes[1:] == wholes[:-1]) & ((wholes[1:] == 0) | (producers[1:] == producers[:-1]))
    if (~is_same & (frames[1:] == frames[:-1])).any():
        raise BadRecord("only some messages of a commit are the whole of it")


def have_properties(rows: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Say of each row whether it is a message of a record with properties."""
    found: npt.NDArray[np.bool_] = (rows["kind"] == Operation.ADD) & (rows["flags"].astype(np.uint16) & PROPERTIES != 0)
    return found


def payload_starts(rows: Rows, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where the bytes of each row's message or value begin, given where the records of each frame end."""
    kinds, frames = rows["kind"], rows["frame"].astype(np.int64)
    sizes = rows["size"].astype(np.int64) + rows["properties"].astype(np.int64)
    sizes[(kinds != Operation.ADD) & (kinds != Operation.PUT)] = 0  # coded sets stand among the records
    before = np.cumsum(sizes) - sizes
    is_first = np.concatenate(([True], frames[1:] != frames[:-1]))[: len(frames)]
    first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    starts: npt.NDArray[np.int64] = ends[frames] + before - before[first]
    return starts


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
    if any(TERM_COLUMNS[0] in part for part in parts):
        parts = [_with_terms(part) for part in parts]
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
    is_drop = (kind == Operation.DROP) & (found["count"] == 0) & (found["number"] == 0)
    simple: npt.NDArray[np.bool_] = is_one & (is_message | (kind == Operation.PUT) | is_drop)
    return simple


def _simple_rows(
    frames: npt.NDArray[np.int64], found: npt.NDArray[np.void], data: npt.NDArray[np.uint8], tables: Tables
) -> Iterator[Rows]:
    rows: Rows = {"frame": frames}
    rows |= {name: found[name].copy() for name in ("kind", "number", "commit", "time")}
    rows["flags"] = found["flags"].astype(COLUMNS["flags"])
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
    rows |= {name: np.repeat(found[name], count) for name in ("kind", "commit", "time")}
    rows["flags"] = np.zeros(len(rows["frame"]), COLUMNS["flags"])
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
        self._with_terms: list[tuple[int, Record]] = []  # likewise
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
            self._hashes.append(np.array(record.checksums, np.uint64))
            if record.first_times:
                self._moved.append((self._rows, record))
            if record.flags & TERMS:
                self._with_terms.append((self._rows, record))
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
        if self._with_terms:
            self._add_terms(rows)
        return rows

    def _add_terms(self, rows: Rows) -> None:
        rows |= {name: np.zeros(self._rows, COLUMNS[name]) for name in TERM_COLUMNS}
        for start, record in self._with_terms:
            due, expiry, attempts, groups = record.terms
            places = [self._tables.group(group) for group in groups]
            for name, values in zip(TERM_COLUMNS, (due, expiry, attempts, places), strict=True):
                rows[name][start : start + record.count] = values or 0


def _column(parts: Iterable[npt.ArrayLike], kind: str) -> npt.NDArray[np.generic]:
    return np.concatenate([np.asarray(part, kind) for part in parts])


DAMAGED = 256

Column = npt.NDArray[np.generic]


Places = slice | npt.NDArray[np.bool_] | npt.NDArray[np.int64]  # of rows: from and to, the chosen ones, or one by one


class EncodedColumns(dict[str, npt.NDArray[np.int64]], ABC):
    """Columns that are decoded when they are asked for."""

    @abstractmethod
    def part(self, name: str, rows: Places) -> npt.NDArray[np.int64]:
        """Return some rows of a column; the others are not decoded."""


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
    groups: Sequence[bytes] = ()
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

    def part(self, name: str, rows: Places) -> npt.NDArray[np.int64]:
        """Return some rows of a column; no more than these is decoded."""
        columns = self.columns
        return columns.part(name, rows) if isinstance(columns, EncodedColumns) else columns[name][rows]

    def ending(self, header: FileHeader) -> Ending:
        """Return how the file with this header ends, as its successor will say it."""
        return header.ending(end=self.end, commit=self.last_commit, chain=self.chain)

    def value_head(self, key: bytes) -> bytes | None:
        """Return the first 128 bytes of the last undamaged value put under the key in this file."""
        if key not in self.names:
            return None
        puts = self.columns["kind"] == Operation.PUT
        is_good = (self.columns["flags"][puts] & DAMAGED) == 0
        named = self.columns["name"][puts] == list(self.names).index(key)
        ends = np.cumsum(value_head_sizes(self.columns["size"][puts].astype(np.int64)))
        for put in np.flatnonzero(named)[::-1].tolist():
            head = self.value_heads[int(ends[put - 1]) if put else 0 : int(ends[put])]
            if is_good[put] or self._is_whole_value(puts, put, head):
                return head
        return None

    def short_value(self, key: bytes, offset: int) -> bytes | None:
        """Return the value that a frame puts under the key, where the value heads have all of it; the last one wins."""
        if key not in self.names:
            return None
        puts = self.columns["kind"] == Operation.PUT
        is_it = (self.columns["name"][puts] == list(self.names).index(key)) & (self.columns["offset"][puts] == offset)
        mine = np.flatnonzero(is_it)
        if not len(mine):
            return None
        put = int(mine[-1])
        ends = np.cumsum(value_head_sizes(self.columns["size"][puts].astype(np.int64)))
        head = self.value_heads[int(ends[put - 1]) if put else 0 : int(ends[put])]
        return head if self._is_whole_value(puts, put, head) else None

    def _is_whole_value(self, puts: npt.NDArray[np.bool_], put: int, head: bytes) -> bool:
        """Say whether the head of a PUT is all of its value, by its checksum."""
        size, hashed = (int(self.columns[name][puts][put]) for name in ("size", "hash"))
        return size <= VALUE_HEAD_BYTES and xxh3(head) == hashed

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

    def check_sets(self) -> None:
        """Raise BadRecord where `removal_sets` does: for all sets at once, as far as their numbers are small."""
        if self.sets and not self._are_sets_good():
            self.removal_sets()

    def _are_sets_good(self) -> bool:
        """Say whether it is seen at once that every set holds as many numbers as its row says, and none too high."""
        kinds = self.columns["kind"]
        rows = np.flatnonzero((kinds == Operation.DELIVER) | (kinds == Operation.DELETE))
        sizes = self.part("size", rows)
        rows, sizes = rows[sizes > 0], sizes[sizes > 0]
        coded = np.frombuffer(self.sets, np.uint8)
        if not len(rows) or int(sizes.max()) > len(coded):
            return False
        ends, is_last = np.cumsum(sizes.astype(np.int64)), coded < CONTINUED
        if int(ends[-1]) != len(coded) or not is_last[ends - 1].all():
            return False
        value_ends = np.flatnonzero(is_last)
        starts = np.append(0, value_ends[:-1] + 1)
        septets = np.arange(len(coded)) - np.repeat(starts, value_ends - starts + 1)
        if septets.max() >= SEPTETS_ADDED_UP:
            return False
        values = np.add.reduceat((coded & (CONTINUED - 1)).astype(np.int64) << (7 * septets), starts)
        behind = np.cumsum(is_last)[ends - 1]  # of each set's values
        firsts = np.append(0, behind[:-1])
        is_run = (np.arange(len(values)) - np.repeat(firsts, behind - firsts)) % 2 == 0
        counts = np.add.reduceat(np.where(is_run, values, 0), firsts)
        highest = self.part("number", rows).astype(np.float64) + np.add.reduceat(values, firsts)
        return bool(
            ((behind - firsts) % 2 == 1).all()
            and values[is_run].all()
            and (counts == self.part("count", rows).astype(np.int64)).all()
            and (highest < NUMBERS_END / 2).all()
        )


def with_lost_rows(found: Contents, said: Contents, lost: Sequence[tuple[int, int]]) -> Contents | None:
    """Return the rows of a walked file with those of its footer for the ranges in which no frame is good.

    The footer's are marked DAMAGED there. None where the footer contradicts a good frame, or has rows where no frame
    was lost. What the footer has more of good frames is taken too: values' beginnings and payloads' hashes, where the
    bytes have rotted.
    """
    last = max([found.end, *(end for _, end in lost)])
    count = int(np.count_nonzero(said.columns["offset"] < last))
    columns = {name: said.columns[name][:count] for name in COLUMNS}
    offsets = columns["offset"].astype(np.int64)
    if (offsets[1:] < offsets[:-1]).any():
        return None
    is_lost = np.zeros(count, np.bool_)
    for start, end in lost:
        is_lost[np.searchsorted(offsets, start) : np.searchsorted(offsets, end)] = True
    kept = np.flatnonzero(~is_lost)
    if len(kept) != len(found) or not _are_same_rows(found, said, columns, kept):
        return None
    flags = columns["flags"].copy()
    flags[kept] = found.columns["flags"]
    flags[is_lost] |= DAMAGED
    return replace(
        found,
        columns={**columns, "flags": flags},
        names=said.names,
        producers=said.producers,
        groups=said.groups,
        sets=said.sets[: int(_set_sizes(columns).sum())],
        value_heads=said.value_heads[: int(_head_sizes(columns).sum())],
    )


def without_rows(contents: Contents, left_out: npt.NDArray[np.bool_]) -> Contents:
    """Return the contents without some of the rows."""
    if not left_out.any():
        return contents
    kept = ~left_out
    columns = {name: contents.columns[name] for name in COLUMNS}
    return replace(
        contents,
        columns={name: column[kept] for name, column in columns.items()},
        sets=_some_of(contents.sets, _set_sizes(columns), kept),
        value_heads=_some_of(contents.value_heads, _head_sizes(columns), kept),
        ranges=None,
    )


def _some_of(data: bytes, sizes: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> bytes:
    """Return the bytes of some rows."""
    ends = np.cumsum(sizes)
    rows = np.flatnonzero(chosen & (sizes > 0)).tolist()
    return b"".join(data[int(ends[row] - sizes[row]) : int(ends[row])] for row in rows)


def _are_same_rows(found: Contents, said: Contents, columns: Rows, kept: npt.NDArray[np.int64]) -> bool:
    """Say whether the footer has the rows of the good frames, but for hashes of payloads that have rotted."""
    for name in COLUMNS:
        mine, other = found.columns[name], columns[name][kept]
        if name == "flags":
            other = other & ~np.uint16(DAMAGED)
        elif name == "hash":
            other = np.where((mine == 0) | (other == 0), mine, other)
        elif name == "name":
            mine = _places_among(found.names, said.names)[mine.astype(np.int64)]
        elif name in ("producer", "group"):
            known = (found.producers, said.producers) if name == "producer" else (found.groups, said.groups)
            mine = np.concatenate(([0], _places_among(*known) + 1))[mine.astype(np.int64)]
        if not np.array_equal(mine, other):
            return False
    is_kept = np.zeros(len(columns["kind"]), np.bool_)
    is_kept[kept] = True
    return found.sets == _some_of(said.sets, _set_sizes(columns), is_kept)


def _places_among(found: Sequence[bytes], said: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Return where each name stands among the others; far behind them where it does not."""
    known = {bytes(name): place for place, name in enumerate(said)}
    return np.array([known.get(bytes(name), len(said) + 1) for name in found], np.int64)


def _set_sizes(columns: Rows) -> npt.NDArray[np.int64]:
    kinds = columns["kind"]
    is_removal = (kinds == Operation.DELIVER) | (kinds == Operation.DELETE)
    return np.where(is_removal, columns["size"], 0).astype(np.int64)


def _head_sizes(columns: Rows) -> npt.NDArray[np.int64]:
    return value_head_sizes(np.where(columns["kind"] == Operation.PUT, columns["size"], 0).astype(np.int64))


def empty_columns() -> dict[str, npt.NDArray[np.int64]]:
    return {name: np.empty(0, f"<{kind}") for name, kind in COLUMNS.items()}


class ContentsBuilder:
    """Gathers the frames of one file as they are written or walked; columns are made at the end.

    What is kept of a frame are the bytes of its header and records, which exist already: a plain message pays two
    appends. Where there are values, many frames are packed together (`heads.py`) at a time. The
    columns are made in bulk (`rows.py`).
    """

    __slots__ = ("_hasher", "_hashes", "_heads", "_offsets", "_value_heads")

    def __init__(self) -> None:
        self._heads = Heads()
        self._offsets = array("Q")
        self._value_heads = Heads()
        self._hashes = array("Q")  # of the payloads of messages with properties
        self._hasher = xxhash.xxh3_64()

    def add(
        self, offset: int, head: bytes, value_heads: Sequence[bytes] = (), payload_hashes: Sequence[int] = ()
    ) -> None:
        """Take in one frame's header and records, with what its bytes say of its values and payloads.

        The value heads are those of its PUTs, the hashes those of messages with properties, in order.
        """
        self.add_one(offset, head)
        if value_heads:
            self.add_value_heads(value_heads)
        self.add_payload_hashes(payload_hashes)

    def add_many(self, offsets: Sequence[int], heads: Sequence[bytes]) -> None:
        """Take in frames; for each that has PUTs or properties the next two follow, in their order."""
        self._heads.loose += heads
        self._offsets.extend(offsets)
        for head in heads:
            self._hasher.update(head[FRAME_CHECKSUM])

    def add_one(self, offset: int, head: bytes) -> None:
        """Take in one frame; where it has PUTs, `add_value_heads` follows, and where it has properties the other."""
        self._heads.loose.append(head)
        self._offsets.append(offset)
        self._hasher.update(head[FRAME_CHECKSUM])

    def add_nothing(self, offset: int, header: bytes, commit: int) -> None:
        """Take in a frame that counts as this commit, and whose records are left out: no row comes from it."""
        body = FRAME_BODY.unpack_from(header, FRAME_LENGTH_AT)
        self.add_one(offset, header[FRAME_CHECKSUM] + FRAME_BODY.pack(*body[:2], commit, *body[3:-1], GAP))

    def add_value_heads(self, value_heads: Sequence[bytes]) -> None:
        """Take in the beginnings of the values of one frame's PUTs, in order, behind those of all frames before it."""
        loose = self._value_heads.loose
        loose += value_heads
        if len(loose) >= PACK_COUNT:
            self._value_heads.pack(len(loose))
        if len(self._heads.loose) >= PACK_COUNT:
            self._heads.pack(PACK_COUNT)  # and not all, so that no commit waits for many plain messages before it

    def add_payload_hashes(self, hashes: Sequence[int]) -> None:
        """Take in XXH3 of the payload alone of each message that has properties, in order; 0 where it is lost."""
        self._hashes.extend(hashes)

    def chain(self) -> int:
        """Return XXH3 over the checksums of the frames so far."""
        return self._hasher.intdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def build(self, end: int) -> Contents:
        """Return the columns of all frames taken in; the last of them ends at `end`."""
        heads, tables = self._heads.all(), Tables()
        rows = rows_of(heads, self._offsets, tables)
        rows["hash"][have_properties(rows)] = self._hashes
        return self._contents(heads, rows, tables, end)

    def build_checked(self, end: int, header: FileHeader, data: bytes | None = None) -> Contents:
        """Return the same; BadRecord where a reader would not understand one of the frames of the file.

        With the file's bytes the hashes of payloads are made from those, where nobody has put them in.
        """
        heads, tables = self._heads.all(), Tables()
        rows = rows_of(heads, self._offsets, tables)
        check_rows(heads, rows, header.alignment)
        _check_order(heads, rows, self._offsets, header)
        has_properties = have_properties(rows)
        hashes = self._hashes if data is None else self._hashed(data, heads, rows, has_properties)
        if len(hashes) != np.count_nonzero(has_properties):
            raise BadRecord("messages with properties that are more, or less, than the payloads that were seen")
        rows["hash"][has_properties] = hashes
        contents = self._contents(heads, rows, tables, end)
        check_texts((*contents.names, *contents.producers, *contents.groups))
        contents.check_sets()
        return contents

    def _hashed(self, data: bytes, heads: Sequence[bytes], rows: Rows, chosen: npt.NDArray[np.bool_]) -> Sequence[int]:
        """Return XXH3 of the payloads of the chosen rows; 0 where `hash`, a checksum so far, is not of these bytes."""
        if not chosen.any():
            return ()
        ends = np.frombuffer(self._offsets, np.int64) + np.fromiter(map(len, heads), np.int64, len(heads))
        starts = payload_starts(rows, ends)[chosen]
        splits = starts + rows["properties"][chosen].astype(np.int64)
        stops = splits + rows["size"][chosen].astype(np.int64)
        places = zip(starts.tolist(), splits.tolist(), stops.tolist(), rows["hash"][chosen].tolist(), strict=True)
        return [
            xxh3(data[split:stop]) if xxh3(data[start:stop]) == checksum else 0
            for start, split, stop, checksum in places
        ]

    def _contents(self, heads: Sequence[bytes], rows: Rows, tables: Tables, end: int) -> Contents:
        last_commit = number_at(heads[-1], FRAME_COMMIT_AT) if heads else 0
        return Contents(
            columns={name: rows[name] for name in COLUMNS},
            names=list(tables.names),
            producers=list(tables.producers),
            groups=list(tables.groups),
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
