"""Arrow's columns as NumPy's, and back: a value where there is one, and a mask that says where."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.fold.answers import Answer, schema_of
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.reading.columns import bitmap_of, byte_strings, longs

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]

MICROS = 1e6  # in a second


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def there(column: pa.Array | pa.ChunkedArray) -> Mask:
    """Say of each row whether it has a value."""
    found: Mask = pc.is_valid(whole(column)).to_numpy(zero_copy_only=False)
    return found


def numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return whole numbers, or times as microseconds; 0 where there is none."""
    found: Numbers = pc.fill_null(whole(column).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Return numbers with a fraction; 0 where there is none."""
    found: Floats = pc.fill_null(whole(column), 0.0).to_numpy(zero_copy_only=False)
    return found


def mask(column: pa.Array | pa.ChunkedArray) -> Mask:
    """Return truth values; false where there is none."""
    found: Mask = pc.fill_null(whole(column), False).to_numpy(zero_copy_only=False)
    return found


def is_any(column: pa.Array | pa.ChunkedArray, texts: Sequence[str]) -> Mask:
    """Say of each row whether it has one of these texts."""
    wanted = byte_strings([text.encode() for text in texts], pa.string())
    found: Mask = pc.is_in(whole(column), wanted).to_numpy(zero_copy_only=False)
    return found


def ranks(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return numbers that are the same where the values are, and ascend as these do; null comes first."""
    coded = whole(column).dictionary_encode()
    places = np.empty(len(coded.dictionary) + 1, np.int64)
    places[pc.sort_indices(coded.dictionary).to_numpy(zero_copy_only=False).astype(np.int64)] = np.arange(
        len(coded.dictionary)
    )
    places[-1] = -1
    return places[numbers(pc.fill_null(coded.indices.cast(pa.int64()), -1))]


def column(values: Values, arrow_type: pa.DataType, is_there: Mask | None = None) -> pa.Array:
    """Return numbers, times, or truth values as a column; null where there is none."""
    missing = 0 if is_there is None else len(values) - int(np.count_nonzero(is_there))
    validity = (bitmap_of(is_there) if is_there is not None and missing else None, missing)
    if arrow_type == pa.bool_():
        return pa.Array.from_buffers(arrow_type, len(values), [validity[0], bitmap_of(values)], missing)
    if arrow_type == pa.float64():
        data = pa.py_buffer(np.ascontiguousarray(values, np.float64))
        return pa.Array.from_buffers(arrow_type, len(values), [validity[0], data], missing)
    return longs(values.astype(np.int64, copy=False), arrow_type, validity)


def texts(known: Sequence[str | None], places: Numbers) -> pa.Array:
    """Return texts by their places among the known ones; -1 is null."""
    values = byte_strings([*(None if text is None else text.encode() for text in known), None], pa.string())
    return values.take(longs(np.where(places < 0, len(known), places).astype(np.int64), pa.int64()))


def seconds(start: Numbers, end: Numbers) -> Floats:
    """Return the seconds between times; 0 where the clock was set back."""
    found: Floats = np.maximum(end - start, 0) / MICROS
    return found


def made(answer: Answer, columns: Mapping[str, pa.Array | tuple[Values, Mask | None] | Values]) -> pa.Table:
    """Return a table of an answer from columns, which are Arrow's, or numbers, with a mask of those that are there."""
    schema = schema_of(answer)
    arrays = []
    for field in schema:
        found = columns[field.name]
        if isinstance(found, np.ndarray):
            found = column(found, field.type)
        elif isinstance(found, tuple):
            found = column(found[0], field.type, found[1])
        arrays.append(whole(found))
    return pa.Table.from_arrays(arrays, schema=schema)


def together(answer: Answer, tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables."""
    return pa.concat_tables(tables).combine_chunks() if tables else schema_of(answer).empty_table()


def in_order(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows sorted by columns; null comes first."""
    order = np.lexsort([ranks(table[name]) for name in reversed(names)])
    return table.take(longs(order.astype(np.int64), pa.int64()))


def same(text: str | None, count: int) -> pa.Array:
    """Return a column of which every row has this text."""
    return pa.nulls(count, pa.string()) if text is None else pa.repeat(pa.scalar(text), count)
