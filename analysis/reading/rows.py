"""The operations of one data file or archive as Arrow record batches, made from columns and bounded in rows and bytes.

Nothing here knows Spark. A sealed file is not read but for its footer; a removal set is one row a message.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from oms_journal.analysis.reading.columns import Columns, Fixed, Numbers, Window, part_of
from oms_journal.analysis.reading.damage import Report, warn
from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.judgement import GONE, damage
from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.reading.payloads import PAYLOAD, PROPERTY_MAP, Payloads
from oms_journal.analysis.reading.removals import RemovalSets
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.analysis.reading.selection import may_hold, selected
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.format.contents import Contents, Places
from oms_journal.journal.format.records import BadRecord

BATCH_ROWS = 1 << 15  # at most, of a batch
BATCH_BYTES = 16 << 20  # of payloads and properties in a batch, unless one message is larger


def batches(disk: Disk, part: FilePart, wanted: Wanted, report: Report = warn) -> Iterator[pa.RecordBatch]:
    """Yield the wanted operations of a file that are known to be durable, in the order of the journal.

    What is bad in the file, as far as it is met, goes to `report`, which may raise. Columns are those of `wanted`, in
    its order. NewerFormat, FormatError, UnknownColumn, DiskError.
    """
    if not wanted.takes_sequence(part.sequence):
        return
    with opened(disk, part) as reading:
        yield from batches_of(reading, wanted, report)


def batches_of(reading: Reading, wanted: Wanted, report: Report = warn) -> Iterator[pa.RecordBatch]:
    """Yield the same of a file that is open, whatever its sequence is."""
    part = reading.part
    for found in reading.damages:
        report(found)
    if not len(reading.contents) or not may_hold(wanted, reading.contents.ranges, reading.contents):
        return
    fixed = Fixed(database=part.database, sequence=part.sequence, owner=reading.owner, file=part.name)
    columns = Columns(reading.contents, fixed, wanted.columns)
    has_extra = bool({PAYLOAD, PROPERTY_MAP} & set(wanted.columns))
    payloads = Payloads(reading, wanted.columns, report) if has_extra else None
    try:
        for window in _windows(reading.contents, selected(reading, wanted), is_heavy=has_extra):
            yield columns.batch(window, payloads.columns(window) if payloads is not None else {})
    except BadRecord as failure:
        raise FormatError(part.path, 0, str(failure)) from failure
    except FileNotFoundError:
        report(damage(part, GONE, "it was removed while its payloads were read"))
    except OSError as failure:
        raise DiskError(part.path, failure, "read") from failure


def _windows(contents: Contents, rows: Places, *, is_heavy: bool) -> Iterator[Window]:
    """Yield the rows in parts that are small enough for a batch, removal sets expanded."""
    places = np.arange(len(contents))[rows]
    if not contents.sets and not is_heavy:
        for start in range(0, len(places), BATCH_ROWS):
            yield Window(contents, _rows(places[start : start + BATCH_ROWS]))
        return
    counts = np.maximum(part_of(contents, "count", places), 1)
    row_ends = np.cumsum(counts)
    byte_ends = np.cumsum(_bytes(contents, places)) if is_heavy else np.zeros(len(places), np.int64)
    sets = RemovalSets(contents)
    first = 0
    while first < len(places):
        rows_before = row_ends[first] - counts[first]
        bytes_before = byte_ends[first - 1] if first else 0
        limits = (
            np.searchsorted(row_ends, rows_before + BATCH_ROWS, "right"),
            np.searchsorted(byte_ends, bytes_before + BATCH_BYTES, "right"),
        )
        stop = max(int(min(limits)), first + 1)
        if row_ends[stop - 1] - rows_before == stop - first:
            yield Window(contents, _rows(places[first:stop]))
        else:
            yield from _expanded(contents, sets, places[first:stop], counts[first:stop])
        first = stop


def _rows(places: Numbers) -> Places:
    """Return ascending places, as a slice where they follow one another: it costs no copy."""
    first, count = int(places[0]), len(places)
    return slice(first, first + count) if int(places[-1]) - first == count - 1 else places


def _bytes(contents: Contents, places: Numbers) -> Numbers:
    return part_of(contents, "size", places) + part_of(contents, "properties", places)


def _expanded(contents: Contents, sets: RemovalSets, places: Numbers, counts: Numbers) -> Iterator[Window]:
    """Yield rows, `counts` of each; in several windows only where one set has more than a batch may have."""
    numbers = sets.numbers(places, counts)
    rows = np.repeat(places, counts)
    for start in range(0, len(numbers), BATCH_ROWS):
        stop = start + BATCH_ROWS
        yield Window(contents, rows[start:stop], numbers[start:stop])
