"""The columns of a file's operations made into Arrow batches, for all rows at once.

The batches go through a socket to Spark, so nothing is written twice that Arrow can share, and what is null
or the same in every row is made once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oms_journal.analysis.reading.schema import TIME, TIME_MAX, TIME_MIN, arrow_schema
from oms_journal.journal.format.contents import Contents, Places
from oms_journal.journal.format.records import ATTEMPTS, DUE, EXPIRY, MOVED
from oms_journal.journal.operations import Operation

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Validity = tuple[pa.Buffer | None, int]  # a bitmap of the rows that are not null, None for all; how many are null

_OPERATION_NAMES = (b"", *(operation.name.encode() for operation in Operation))  # by number


# Arrow arrays are made from buffers here: pyarrow.array() imports pandas, which takes longer than many a query.


def texts(names: Sequence[bytes]) -> pa.Array:
    """Return names as text; bytes that are none are shown as escapes."""
    found = byte_strings(names, pa.string())
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        found = byte_strings([text(name).encode() for name in names], pa.string())
    return found


def text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def byte_strings(values: Sequence[bytes | None], arrow_type: pa.DataType) -> pa.Array:
    """Return bytes as a column of texts or of bytes; None is null."""
    nulls, bitmap = values.count(None), None
    if nulls:
        bitmap = bitmap_of(np.array([value is not None for value in values], np.bool_))
        values = [value or b"" for value in values]
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])  # type: ignore[arg-type]
    data = pa.py_buffer(b"".join(values))  # type: ignore[arg-type]
    return pa.Array.from_buffers(arrow_type, len(values), [bitmap, pa.py_buffer(offsets), data], nulls)


def longs(values: Numbers, arrow_type: pa.DataType, validity: Validity = (None, 0)) -> pa.Array:
    """Return 64-bit numbers as a column; null where they are not valid."""
    bitmap, nulls = validity
    return pa.Array.from_buffers(arrow_type, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))], nulls)


def doubles(values: npt.NDArray[np.float64]) -> pa.Array:
    """Return numbers with a fraction as a column without nulls."""
    return pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def bitmap_of(mask: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def same(value: str | int | bool | None, arrow_type: pa.DataType, count: int) -> pa.Array:
    """Return a column of which every row has this value."""
    rounded = 1 << max(count - 1, 0).bit_length()  # so that batches of nearly equal length share one
    return _all_same(value, arrow_type, rounded).slice(0, count)


@lru_cache(maxsize=24)  # about what the batches of one file share
def _all_same(value: str | int | bool | None, arrow_type: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, bool):
        bits = bitmap_of(np.full(count, value))
        return pa.Array.from_buffers(arrow_type, count, [None, bits], 0)
    bitmap, nulls = (bitmap_of(np.zeros(count, np.bool_)), count) if value is None else (None, 0)
    if arrow_type == pa.string():
        data = value.encode() if isinstance(value, str) else b""
        offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(len(data)))
        return pa.Array.from_buffers(arrow_type, count, [bitmap, offsets, pa.py_buffer(data * count)], nulls)
    assert not isinstance(value, str), "only texts are text"
    return longs(np.full(count, value or 0, np.int64), arrow_type, (bitmap, nulls))


@dataclass(frozen=True, slots=True)
class Fixed:
    """What all rows of a file have in common."""

    database: str
    sequence: int
    owner: int
    file: str


def part_of(contents: Contents, name: str, rows: Places) -> Numbers:
    """Return some rows of a column as signed 64-bit numbers; of a footer's column no more than these is decoded."""
    found = contents.part(name, rows)
    return found.view(np.int64) if found.itemsize == np.dtype(np.int64).itemsize else found.astype(np.int64)


class Window:
    """Some rows of a file on their way into one batch; what several columns need is made once."""

    def __init__(self, contents: Contents, rows: Places, numbers: Numbers | None = None) -> None:
        self._contents = contents
        self.rows = rows
        self._numbers = numbers  # of the messages, where sets were expanded
        self.kinds = self.column("kind")
        self.count = len(self.kinds)
        present = np.flatnonzero(np.bincount(self.kinds, minlength=len(_OPERATION_NAMES)))
        self.present = frozenset(present.tolist())
        self._validities: dict[frozenset[int], Validity] = {}
        self._flags: Numbers | None = None

    def column(self, name: str) -> Numbers:
        """Return the rows of a column of the contents."""
        return part_of(self._contents, name, self.rows)

    def numbers(self) -> Numbers:
        """Return the numbers of the messages."""
        return self.column("number") if self._numbers is None else self._numbers

    def times(self, name: str) -> Numbers:
        """Return times; those that Spark cannot show as the nearest that it can."""
        return clamped(self.column(name))

    def flagged(self, flag: int) -> Mask:
        """Say of each row whether it has this flag of its record."""
        if self._flags is None:
            self._flags = self.column("flags")
        has_it: Mask = (self._flags & flag) != 0
        return has_it

    def validity(self, kinds: frozenset[int]) -> Validity:
        """Return the bitmap of the rows of these kinds, None for all of them, and how many the others are."""
        if self.present <= kinds:
            return None, 0
        if kinds not in self._validities:
            lookup = np.zeros(256, np.bool_)
            lookup[list(kinds)] = True
            valid = lookup[self.kinds]
            self._validities[kinds] = (bitmap_of(valid), self.count - int(np.count_nonzero(valid)))
        return self._validities[kinds]


def clamped(times: Numbers) -> Numbers:
    """Return times within what Spark can show."""
    if not len(times) or (int(times.min()) >= TIME_MIN and int(times.max()) <= TIME_MAX):
        return times
    return np.clip(times, TIME_MIN, TIME_MAX)


_ADDS = frozenset((int(Operation.ADD),))
_REMOVALS = frozenset((int(Operation.DELIVER), int(Operation.DELETE)))
_MESSAGES = _ADDS | _REMOVALS
_KEYS = frozenset((int(Operation.PUT), int(Operation.DROP)))
_SIZED = frozenset((int(Operation.ADD), int(Operation.PUT)))


class Columns:
    """Makes the batches of one file."""

    def __init__(self, contents: Contents, fixed: Fixed, wanted: Sequence[str]) -> None:
        self._contents = contents
        self._fixed = fixed
        self._schema = arrow_schema(wanted)
        self._makers = [_MAKERS.get(name) for name in wanted]
        self._wanted = wanted
        self._names: pa.Array | None = None
        self._producers: pa.Array | None = None
        self._groups: pa.Array | None = None

    def batch(self, window: Window, made: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the rows as a batch; `made` are the columns that are not made from the contents."""
        arrays = [
            maker(self, window) if maker is not None else made[name]
            for name, maker in zip(self._wanted, self._makers, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _database(self, window: Window) -> pa.Array:
        return same(self._fixed.database or None, pa.string(), window.count)

    def _missing(self, window: Window) -> pa.Array:
        return pa.nulls(window.count, pa.int64())  # only a row that stands for a hole has it

    def _file(self, window: Window) -> pa.Array:
        return same(self._fixed.file, pa.string(), window.count)

    def _sequence(self, window: Window) -> pa.Array:
        return same(self._fixed.sequence, pa.int64(), window.count)

    def _owner(self, window: Window) -> pa.Array:
        return same(self._fixed.owner, pa.int64(), window.count)

    def _offset(self, window: Window) -> pa.Array:
        return longs(window.column("offset"), pa.int64())

    def _commit(self, window: Window) -> pa.Array:
        return longs(window.column("commit"), pa.int64())

    def _operation(self, window: Window) -> pa.Array:
        if len(window.present) == 1:
            return same(Operation(next(iter(window.present))).name, pa.string(), window.count)
        return _taken(texts(_OPERATION_NAMES), window.kinds, (None, 0))

    def _message(self, window: Window) -> pa.Array:
        return _of_kinds(window, _MESSAGES, window.numbers)

    def _queue(self, window: Window) -> pa.Array:
        return self._named(window, _MESSAGES)

    def _key(self, window: Window) -> pa.Array:
        return self._named(window, _KEYS)

    def _named(self, window: Window, kinds: frozenset[int]) -> pa.Array:
        if not window.present & kinds:
            return same(None, pa.string(), window.count)
        if self._names is None:
            self._names = texts(self._contents.names)
        places, validity = window.column("name"), window.validity(kinds)
        if validity[0] is None and bool((places == places[0]).all()):
            return same(text(self._contents.names[int(places[0])]), pa.string(), window.count)
        return _taken(self._names, places, validity)

    def _time(self, window: Window) -> pa.Array:
        return longs(window.times("time"), TIME)

    def _first_time(self, window: Window) -> pa.Array:
        return _of_kinds(window, _ADDS, lambda: _first_times(window), TIME)

    def _moved(self, window: Window) -> pa.Array:
        moved = window.flagged(MOVED)
        if not moved.any():
            return same(False, pa.bool_(), window.count)
        return pa.Array.from_buffers(pa.bool_(), window.count, [None, bitmap_of(moved)], 0)

    def _producer(self, window: Window) -> pa.Array:
        places = window.column("producer")
        if not places.any():
            return same(None, pa.string(), window.count)
        if self._producers is None:
            self._producers = texts(self._contents.producers)
        is_there = places != 0
        return _taken(self._producers, np.maximum(places - 1, 0), _validity_of(is_there))

    def _length(self, window: Window) -> pa.Array:
        return _of_kinds(window, _SIZED, lambda: window.column("size"))

    def _hash(self, window: Window) -> pa.Array:
        if not window.present & _SIZED:
            return same(None, pa.int64(), window.count)
        found, validity = window.column("hash"), window.validity(_SIZED)
        nulls = window.count - int(np.count_nonzero(found))
        if nulls != validity[1]:  # 0 where a payload was lost too
            validity = bitmap_of(found != 0), nulls
        return longs(found, pa.int64(), validity)

    def _due(self, window: Window) -> pa.Array:
        return _of_flagged(window, DUE, lambda: window.times("due"), TIME)

    def _expiry(self, window: Window) -> pa.Array:
        return _of_flagged(window, EXPIRY, lambda: window.times("expiry"), TIME)

    def _attempts(self, window: Window) -> pa.Array:
        return _of_flagged(window, ATTEMPTS, lambda: window.column("attempts"), pa.int64())

    def _group(self, window: Window) -> pa.Array:
        validity = _validity_of(window.column("group") != 0)  # a record may have the flag for others of its messages
        if validity[1] == window.count:
            return same(None, pa.string(), window.count)
        if self._groups is None:
            self._groups = texts(self._contents.groups)
        return _taken(self._groups, np.maximum(window.column("group") - 1, 0), validity)

    def _properties_length(self, window: Window) -> pa.Array:
        return _of_kinds(window, _ADDS, lambda: window.column("properties"))


_MAKERS: dict[str, Callable[[Columns, Window], pa.Array]] = {
    "database": Columns._database,
    "sequence": Columns._sequence,
    "offset": Columns._offset,
    "owner": Columns._owner,
    "commit": Columns._commit,
    "operation": Columns._operation,
    "message": Columns._message,
    "queue": Columns._queue,
    "key": Columns._key,
    "time": Columns._time,
    "first_time": Columns._first_time,
    "moved": Columns._moved,
    "producer": Columns._producer,
    "length": Columns._length,
    "hash": Columns._hash,
    "due": Columns._due,
    "expiry": Columns._expiry,
    "attempts": Columns._attempts,
    "group": Columns._group,
    "file": Columns._file,
    "missing": Columns._missing,
    "properties_length": Columns._properties_length,
}


def _of_kinds(
    window: Window, kinds: frozenset[int], values: Callable[[], Numbers], arrow_type: pa.DataType | None = None
) -> pa.Array:
    """Return a column of 64-bit numbers that only rows of these kinds have."""
    arrow_type = arrow_type or pa.int64()
    if not window.present & kinds:
        return same(None, arrow_type, window.count)
    return longs(values(), arrow_type, window.validity(kinds))


def _of_flagged(window: Window, flag: int, values: Callable[[], Numbers], arrow_type: pa.DataType) -> pa.Array:
    """Return a column of 64-bit numbers that only rows with this flag have."""
    validity = _validity_of(window.flagged(flag))
    if validity[1] == window.count:
        return same(None, arrow_type, window.count)
    return longs(values(), arrow_type, validity)


def _validity_of(is_there: Mask) -> Validity:
    nulls = len(is_there) - int(np.count_nonzero(is_there))
    return bitmap_of(is_there) if nulls else None, nulls


def _taken(values: pa.Array, places: Numbers, validity: Validity) -> pa.Array:
    """Return the texts at these places; null where the row is not valid."""
    return values.take(longs(places, pa.int64(), validity))


def _first_times(window: Window) -> Numbers:
    moved = window.flagged(MOVED)
    if not moved.any():
        return window.times("time")
    return clamped(np.where(moved, window.column("first_time"), window.column("time")))
