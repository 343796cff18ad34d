"""The table of data files: a row for each file that is there and holds anything."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from oms_journal.analysis.reading.columns import Numbers, clamped
from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.judgement import ends_as
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Wanted, arrow_schema
from oms_journal.analysis.reading.selection import selected
from oms_journal.journal.format.footer import Summary
from oms_journal.journal.reading.datafile import DataFile

Row = dict[str, Any]


def batches(partition: Partition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table for a partition, in one batch; UnknownColumn, NewerFormat, DiskError.

    Of a sealed file the ends of its footer are read, and what they say is believed; any other is read whole.
    """
    rows = [row for part in partition.parts if (row := row_of(part)) is not None]
    if rows:
        schema = arrow_schema(columns, "files")
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_of(part: FilePart) -> Row | None:
    """Return the row of a file, None where it holds nothing; NewerFormat, DiskError."""
    row = _row_by_outline(part)
    if row is not None:
        return row
    with opened(part.storage.disk(), part) as reading:
        return row_as_read(reading)


def row_as_read(reading: Reading) -> Row | None:
    """Return the row of a file that has been read, None where it holds nothing."""
    if not (reading.is_sealed or reading.end):
        return None
    columns = reading.contents.columns
    rows = selected(reading, Wanted())
    return _told(reading.part, reading.size, columns["count"][rows], columns["time"][rows], is_sealed=reading.is_sealed)


def _row_by_outline(part: FilePart) -> Row | None:
    """Return the row of a file by the ends of its footer; None where all of the file must be looked at."""
    if part.identity is None or part.is_rotted or part.failure:
        return None
    with suppress(OSError), DataFile(part.storage.disk(), part.path) as file:
        outline = file.outline(identity=part.identity)
        if outline is None or not _is_believed(outline.summary, part):
            return None
        times = np.array(outline.summary.ranges.time if outline.summary.rows else (), np.int64)
        return _told(part, file.size(), file.values(outline, "count"), times, is_sealed=True)
    return None


def _is_believed(summary: Summary, part: FilePart) -> bool:
    """Say whether what is read of a footer agrees with the file's header, and with what its successor says."""
    is_all = part.limit is None or summary.end <= part.limit
    is_named = ends_as(part, summary.header.identity, summary.end, summary.last_commit, summary.chain)
    return is_all and summary.header == part.header and not summary.has_gaps and is_named


def _told(part: FilePart, size: int, counts: Numbers, times: Numbers, *, is_sealed: bool) -> Row:
    times = clamped(times)
    return {
        "database": part.database or None,
        "file": part.name,
        "sequence": part.sequence,
        "bytes": size,
        "rows": int(np.maximum(counts, 1).sum(dtype=np.int64)),
        "first_time": int(times.min()) if len(times) else None,
        "last_time": int(times.max()) if len(times) else None,
        "sealed": is_sealed,
        "retained": part.is_retained,
    }
