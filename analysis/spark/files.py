"""The table of data files: a row for each file that is there and holds anything."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oms_journal.analysis.reading.columns import clamped
from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.parts import Partition
from oms_journal.analysis.reading.schema import Wanted, arrow_schema
from oms_journal.analysis.reading.selection import selected


def batches(partition: Partition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table for a partition, in one batch; UnknownColumn, NewerFormat, DiskError."""
    rows = []
    for part in partition.parts:
        with opened(part.storage.disk(), part) as reading:
            if reading.is_sealed or reading.end:
                rows.append(_row(reading))
    if rows:
        schema = arrow_schema(columns, "files")
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row(reading: Reading) -> dict[str, Any]:
    contents = reading.contents
    rows = selected(reading, Wanted())
    counts = np.maximum(contents.columns["count"][rows], 1)
    times = clamped(contents.columns["time"][rows])
    return {
        "database": reading.part.database or None,
        "file": reading.part.name,
        "sequence": reading.part.sequence,
        "bytes": reading.size,
        "rows": int(counts.sum(dtype=np.int64)),
        "first_time": int(times.min()) if len(times) else None,
        "last_time": int(times.max()) if len(times) else None,
        "sealed": reading.is_sealed,
        "retained": reading.part.is_retained,
    }
