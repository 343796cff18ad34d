"""The damage table: what is bad in data files and archives, and which files are not there.

What reading the operations meets by the way is said there too; here every byte is looked at.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from oms_journal.analysis.reading.datafile import Reading, opened, walked
from oms_journal.analysis.reading.directory import Lost, Surveyed
from oms_journal.analysis.reading.judgement import DAMAGED, GAPPED, MISSING, PADDING, damage, payload_reason
from oms_journal.analysis.reading.parts import Damage, FilePart, Partition
from oms_journal.analysis.reading.schema import DAMAGE, arrow_schema
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format import contents as journal_contents
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.format.records import decode_low_water
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import LOW_WATER_KEY

Report = Callable[[Damage], None]


class DamageFound(JournalError):
    """A file is torn, damaged, missing or gone, and the mode FAILFAST says to stop there."""


def warn(found: Damage) -> None:
    """Log damage that was met; what is good is read all the same (the mode PERMISSIVE)."""
    logging.getLogger("oms.analysis").warning("%s", found)


def pass_over(found: Damage) -> None:
    """Say nothing of damage that was met: whoever asks reads the table of damage too."""


def refuse(found: Damage) -> None:
    """Raise DamageFound, but for what an earlier repair has settled already (the mode FAILFAST)."""
    if found.kind != GAPPED:
        raise DamageFound(str(found))


def refuse_any(part: FilePart, *, full: bool = True) -> None:
    """Raise DamageFound where the damage table has a row for this file, but for what `refuse` lets pass."""
    for found in found_in(part.storage.disk(), part, full=full):
        refuse(found)


def batches(partition: Partition, columns: Sequence[str], *, full: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the damage table for a partition, a batch a file; UnknownColumn, NewerFormat, DiskError.

    With `full` every byte of sealed files is hashed; without, they are believed where their footers are good.
    """
    if partition.missing:
        yield batch(partition.missing, columns)
    for part in partition.parts:
        found = found_in(part.storage.disk(), part, full=full)
        if found:
            yield batch(found, columns)


def found_in_all(parts: Iterable[FilePart]) -> list[Damage]:
    """Return what is bad in files, every byte of which is looked at; NewerFormat, DiskError."""
    return [one for part in parts for one in found_in(part.storage.disk(), part)]


def batch(rows: Sequence[Damage], columns: Sequence[str]) -> pa.RecordBatch:
    """Return rows of the damage table as a batch."""
    schema = arrow_schema(columns, "damage")
    may_be_unknown = {column.name for column in DAMAGE if column.name in ("database", "archive")}
    arrays = []
    for field in schema:
        values = [getattr(row, field.name) for row in rows]
        arrays.append(
            pa.array([value or None for value in values] if field.name in may_be_unknown else values, field.type)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def found_in(disk: Disk, part: FilePart, *, full: bool = True) -> list[Damage]:
    """Return what is bad in one file, in the order of its bytes; NewerFormat, DiskError."""
    with opened(disk, part, is_thorough=True) as reading:
        try:
            found = _found(reading, full=full)
        except OSError as failure:
            raise DiskError(part.path, failure, "read") from failure
    return sorted(dict.fromkeys(found), key=lambda one: (one.start, one.end))


def _found(reading: Reading, *, full: bool) -> list[Damage]:
    part, summary, file = reading.part, reading.summary, reading.file
    if summary is None or file is None:
        return list(reading.damages)
    is_whole = not full or file.checksum(summary.start) == summary.file_checksum
    if is_whole and not summary.has_gaps:
        return [*reading.damages, *_known(reading)]
    found = [
        *reading.damages,
        *walked(file, part, file.footer(identity=summary.header.identity), summary.header.identity).damages,
    ]
    if not is_whole and all(one.kind == GAPPED for one in found):
        found.append(damage(part, DAMAGED, PADDING, FRAMES_AT, summary.end))
    return found


def _known(reading: Reading) -> Iterator[Damage]:
    """Yield the messages and values that an earlier repair found not to match."""
    contents = reading.contents
    flags = contents.columns["flags"]
    for row in np.flatnonzero(flags & journal_contents.DAMAGED).tolist():
        kind, number, name, offset = (int(contents.columns[name][row]) for name in ("kind", "number", "name", "offset"))
        yield damage(reading.part, DAMAGED, payload_reason(kind, number, contents.names[name]), offset)


def missing(surveys: Iterable[Surveyed]) -> Iterator[Damage]:
    """Yield the files that their neighbours name, that are still needed, and that no directory has; DiskError."""
    surveys = list(surveys)
    there = {(one.database, part.sequence) for one in surveys for part in one.parts if not part.is_archive}
    for one in surveys:
        lost = [each for each in one.lost if (one.database, each.sequence) not in there]
        if lost and not one.is_retained:
            mark = low_water(one, max(each.sequence for each in lost))
            lost = [each for each in lost if each.sequence >= mark]
        yield from (_row(one, each) for each in lost)


def _row(one: Surveyed, lost: Lost) -> Damage:
    return Damage(
        database=one.database,
        file=str(DataFileName(lost.sequence)),
        sequence=lost.sequence,
        start=0,
        end=lost.end,
        kind=MISSING,
        reason="the file is missing, and another one names it",
    )


def low_water(one: Surveyed, enough: int) -> int:
    """Return the first sequence that is still needed, as the newest files say, which know of the latest clean-up."""
    mark = one.low_water
    for part in reversed(one.parts):
        if mark > enough:
            break
        with opened(part.storage.disk(), part, is_thorough=True) as reading:
            mark = max(mark, decode_low_water(reading.contents.value_head(LOW_WATER_KEY)))
    return mark
