"""Sealed data files as Parquet, one for one, with the rows that the data source has: for DuckDB, Polars, pandas, Spark.

    DIR/<database>-<sequence>.parquet

Sealed files never change but by a repair. What a Parquet file was made from stands in its metadata, so a file that is
there already is made again only where that, or the columns, differ: the header and the last 32 bytes of a data file
say whether they do. A file that is still being written is not exported
until it is sealed. Nothing here knows Spark.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa
    import pyarrow.parquet as pq

from oms_journal.analysis.outdir import CannotWrite, is_running
from oms_journal.analysis.reading.datafile import opened
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.analysis.reading.plan import parts_of, surveyed
from oms_journal.analysis.reading.rows import batches
from oms_journal.analysis.reading.schema import Wanted, arrow_schema, default_columns
from oms_journal.analysis.storage import locate
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.footer import TRAILER, Summary
from oms_journal.journal.reading.datafile import DataFile

MADE_FROM = b"oms-journal"  # the key in a Parquet file's metadata: JSON, what it was made from
VERSION = 2  # of how rows are written: files of another one are made again
GROUP_ROWS, GROUP_BYTES = 1 << 20, 64 << 20  # of a row group; what is reached first ends it
SHARED = ("database", "operation", "queue", "key", "file")  # columns in which the same texts come again and again

COLUMNS = default_columns(options=("file",))

Progress = Callable[[str, int, int], None]  # what is being done, bytes of data files done, and of how many


class NotAnExport(JournalError):
    """A file of the name that an export would give stands there, and no export has made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export did, by names: of Parquet files that were written or there already, of data files left out."""

    written: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    unsealed: tuple[str, ...] = ()  # without a good footer: being written, or damaged
    rows: int = 0  # written
    bytes: int = 0  # written
    damages: tuple[Damage, ...] = ()  # what could not be read, of what was written and of what was left out


def export(
    paths: Sequence[str],
    directory: Path,
    *,
    columns: Sequence[str] = COLUMNS,
    progress: Progress | None = None,
) -> Exported:
    """Write the Parquet files that are not there yet.

    A killed run leaves whole files, and a hidden one that the next run removes. NoJournal, NoFileSystem,
    NotThisDatabase, NewerFormat, DiskError; CannotWrite, NotAnExport; UnknownColumn.
    """
    arrow_schema(columns)
    locations = locate(paths)
    parts = [part for part in parts_of(surveyed(locations), locations) if not part.is_archive]
    with _refusals(directory):
        directory.mkdir(parents=True, exist_ok=True)
        _remove_what_killed_runs_left(directory)
    total, done = sum(part.bytes for part in parts), 0
    written: list[_Written] = []
    for part in parts:
        if progress is not None:
            progress(part.name, done, total)
        with _refusals(directory):
            written.append(_export(part, directory, columns))
        done += part.bytes
    return Exported(
        written=tuple(each.name for each in written if each.rows is not None),
        there=tuple(each.name for each in written if each.is_there),
        unsealed=tuple(each.unsealed for each in written if each.unsealed),
        rows=sum(each.rows or 0 for each in written),
        bytes=sum(each.bytes for each in written),
        damages=tuple(damage for each in written for damage in each.damages),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What became of one data file."""

    name: str = ""  # of its Parquet file
    is_there: bool = False
    rows: int | None = None  # written
    bytes: int = 0
    unsealed: str = ""  # the data file's name
    damages: Sequence[Damage] = ()


def _export(part: FilePart, directory: Path, columns: Sequence[str]) -> _Written:
    target = directory / f"{part.database}-{part.sequence:010}.parquet"
    earlier = _earlier(target)
    if earlier is not None and _is_unchanged(part, earlier, columns):
        return _Written(name=target.name, is_there=True)
    with opened(part.storage.disk(), part) as reading:
        summary, damages = reading.summary, reading.damages
    if summary is None:
        is_begun = part.identity is not None or bool(damages)  # what was only prepared is no file that is left out
        return _Written(unsealed=part.name if is_begun else "", damages=damages)
    made_from = _made_from(part, summary, columns)
    if earlier == made_from:
        return _Written(name=target.name, is_there=True, damages=damages)
    found: list[Damage] = []
    unfinished = directory / f".{target.name}.unfinished-{os.getpid()}"
    try:
        rows = _write(
            unfinished, batches(part.storage.disk(), part, _wanted(columns), found.append), columns, made_from
        )
        size = unfinished.stat().st_size
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return _Written(name=target.name, rows=rows, bytes=size, damages=found)


def _wanted(columns: Sequence[str]) -> Wanted:
    return Wanted(columns=tuple(columns))


def _made_from(part: FilePart, summary: Summary, columns: Sequence[str]) -> bytes:
    """Return what says that a Parquet file is what would be made now."""
    known = {
        "version": VERSION,
        "database": part.database,
        "file": part.name,
        "identity": f"{summary.header.identity:016x}",
        "checksum": f"{summary.file_checksum:016x}",
        "columns": list(columns),
        "footer": summary.size,
        "ending": [summary.end, summary.last_commit, f"{summary.chain:016x}"],
        "repaired": summary.has_gaps,
    }
    return json.dumps(known).encode()


def _is_unchanged(part: FilePart, earlier: bytes, columns: Sequence[str]) -> bool:
    """Say by the data file's header and its last bytes whether a Parquet file was made from it as it is."""
    known = json.loads(earlier)
    if known["version"] != VERSION or part.is_rotted or part.identity is None or part.failure:
        return False
    end, commit, chain = known["ending"]
    named = None if known["repaired"] or part.named is None else part.named
    if named is not None and (named.end, named.commit, f"{named.chain:016x}") != (end, commit, chain):
        return False
    try:
        with DataFile(part.storage.disk(), part.path) as file:
            trailer, size = file.trailer(), file.size()
    except OSError:
        return False  # whoever opens it says what is wrong, or looks for it elsewhere
    if trailer is None or size != end + known["footer"]:
        return False
    checksum, _, footer_size, _ = TRAILER.unpack(trailer)
    found = (part.database, part.name, f"{part.identity:016x}", f"{checksum:016x}", list(columns), footer_size)
    return found == tuple(known[name] for name in ("database", "file", "identity", "checksum", "columns", "footer"))


def _earlier(target: Path) -> bytes | None:
    """Return what an earlier export made the file from; None where there is none. NotAnExport."""
    try:
        metadata = pq.read_schema(target).metadata or {}
    except FileNotFoundError:
        return None
    except (pa.ArrowInvalid, IsADirectoryError):
        metadata = {}
    if MADE_FROM not in metadata:
        raise NotAnExport(f"{target} was not made by an export; move it away, or give another directory")
    return bytes(metadata[MADE_FROM])


def _write(path: Path, found: Iterable[pa.RecordBatch], columns: Sequence[str], made_from: bytes) -> int:
    """Write the batches and return how many rows they have."""
    schema = arrow_schema(columns).with_metadata({MADE_FROM: made_from})
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


def _remove_what_killed_runs_left(directory: Path) -> None:
    for entry in directory.glob(".*.parquet.unfinished-*"):
        process = entry.name.rpartition("-")[2]
        if process.isdecimal() and not is_running(int(process)):
            entry.unlink(missing_ok=True)


@contextmanager
def _refusals(directory: Path) -> Iterator[None]:
    """Turn what the system refuses into CannotWrite, and let all else pass."""
    try:
        yield
    except OSError as failure:
        raise CannotWrite(directory, failure, "Parquet files") from failure
