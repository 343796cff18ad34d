"""A lake file: the rows of one data file in the order of the journal, with statistics, and what it was made from.

A row group has so many rows of neighbouring commits; its statistics tell the times, so that whoever asks for a time
range reads those groups only.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oms_journal.analysis.export.place import WHAT, LakeFile, Place
from oms_journal.analysis.outdir import CannotWrite
from oms_journal.analysis.reading.schema import arrow_schema
from oms_journal.journal.errors import JournalError

MADE_FROM = b"oms-journal"  # the key in a Parquet file's metadata: JSON, what it was made from
GROUP_ROWS, GROUP_BYTES = 1 << 18, 64 << 20  # of a row group; what is reached first ends it
# Columns in which the same values come again and again.
SHARED = ("database", "sequence", "owner", "operation", "queue", "key", "producer", "attempts", "group", "file")

MadeFrom = Mapping[str, Any]


class NotAnExport(JournalError):
    """A file of the name that an export would give stands there, and no export has made it."""


def write(path: Path, found: Iterable[pa.RecordBatch], columns: Sequence[str], made_from: MadeFrom) -> int:
    """Write the batches and return how many rows they have."""
    schema = arrow_schema(columns).with_metadata({MADE_FROM: json.dumps(made_from).encode()})
    rows = 0
    shared = [name for name in columns if name in SHARED]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=shared) as writer:
        for table in _groups(found):
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=GROUP_ROWS)
            rows += table.num_rows
    return rows


def _groups(found: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches put together, so that a row group is neither tiny nor more than fits into memory."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in found:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, rows, size = [], 0, 0
    if group:
        yield pa.Table.from_batches(group)


def read_made_from(place: Place, name: LakeFile) -> MadeFrom | None:
    """Return what a lake file was made from, and its `rows`; None where it is not there. NotAnExport, CannotWrite."""
    metadata: Mapping[bytes, bytes] = {}
    try:
        with place.opened(str(name)) as file:
            found = pq.read_metadata(file)
            metadata = found.metadata or {}
    except FileNotFoundError:
        return None
    except (pa.ArrowInvalid, OSError) as failure:
        if isinstance(failure, OSError) and failure.errno not in (None, errno.EISDIR):
            raise CannotWrite(Path(str(name)), failure, WHAT) from failure
    if MADE_FROM not in metadata:
        raise NotAnExport(f"{name} was not made by an export; move it away, or give another directory")
    return {**json.loads(metadata[MADE_FROM]), "rows": found.num_rows}
