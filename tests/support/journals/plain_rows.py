"""A journal's operations as plain values, by `dump`, and as the DataFrame that the Spark source would make of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import xxhash
from pyspark.sql import DataFrame, SparkSession

from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.dump import DumpedOperation, sequence_of
from oms_journal.recovery.dump import dump

Answer = list[dict[str, Any]]
_TIME = pa.timestamp("us", tz="UTC")
_TIMES = ("time", "first_time", "due", "expiry")
_TYPES = {
    int: pa.int64(),
    int | None: pa.int64(),
    str: pa.string(),
    str | None: pa.string(),
    bool: pa.bool_(),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation. Sizes in bytes, times in microseconds since 1970-01-01 UTC."""

    database: str = "d1"
    sequence: int = 1
    offset: int = 0
    owner: int = 1
    commit: int = 1
    operation: str
    message: int | None = None
    queue: str | None = None
    key: str | None = None
    time: int = 0
    first_time: int | None = None
    moved: bool = False
    producer: str | None = None
    length: int | None = None
    hash: int | None = None
    file: str = "omsmsg-0000000001.data"
    properties_length: int | None = None
    due: int | None = None
    expiry: int | None = None
    attempts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One data file. Its size in bytes."""

    database: str = "d1"
    sequence: int
    file: str
    bytes: int
    sealed: bool = True
    retained: bool = False


def database_of(path: Path) -> str:
    """Return the identity of the database that a data file, or the first one in a directory, belongs to."""
    if path.is_dir():
        return database_of(min(path.glob("*.data")))
    with DataFile(RealDisk(), path) as file:
        header = file.header()
    assert isinstance(header, FileHeader)
    return header.database.hex()


def rows_in(*paths: Path) -> list[Row]:
    """Return every operation that is vouched for in the data files of directories, and in single files."""
    found = []
    for path in paths:
        database = database_of(path)
        found += [
            _row(database, operation)
            for operation in dump(RealDisk(), [path])
            if isinstance(operation, DumpedOperation) and operation.vouched
        ]
    return found


def files_in(directory: Path) -> list[File]:
    """Return the sealed data files of a directory."""
    return [
        File(
            database=database_of(path),
            sequence=sequence_of(path),
            file=path.name,
            bytes=path.stat().st_size,
        )
        for path in sorted(directory.glob("*.data"))
    ]


def _row(database: str, operation: DumpedOperation) -> Row:
    is_add = operation.operation == "ADD"
    payload = operation.payload
    return Row(
        database=database,
        sequence=operation.sequence,
        offset=operation.offset,
        owner=operation.owner,
        commit=operation.commit,
        operation=operation.operation,
        message=operation.message,
        queue=operation.queue,
        key=operation.key,
        time=operation.time,
        first_time=operation.first_time if is_add else None,
        moved=operation.moved,
        producer=operation.producer,
        length=operation.length,
        hash=None if payload is None else signed(xxhash.xxh3_64_intdigest(payload)),
        file=operation.file,
        properties_length=len(encode_properties(operation.properties or {})) if is_add else None,
        due=operation.terms.due,
        expiry=operation.terms.expiry,
        attempts=operation.terms.attempts,
    )


def signed(number: int) -> int:
    """Return an unsigned number of 64 bits as the signed one with the same bits."""
    return int.from_bytes(number.to_bytes(_NUMBER_BYTES, "little"), "little", signed=True)


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Return operations as a DataFrame."""
    every = list(rows)
    columns = {
        name: pa.array([getattr(row, name) for row in every], _TIME if name in _TIMES else _TYPES[hint])
        for name, hint in get_type_hints(Row).items()
    }
    return spark.createDataFrame(pa.table(columns))


def answer(found: DataFrame) -> Answer:
    """Return a DataFrame's rows, times as microseconds."""
    return plain_rows(found.toArrow())


def plain_rows(table: pa.Table) -> Answer:
    """Return a table's rows, times as microseconds."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return (value - EPOCH) // MICROSECOND
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case _:
            return value


def moment(micros: int) -> datetime:
    """Return microseconds since 1970 as a time."""
    return EPOCH + micros * MICROSECOND


def assert_same(found: DataFrame, expected: Answer) -> None:
    """Compare rows in any order; numbers with a fraction to twelve digits."""
    assert_same_rows(answer(found), expected)


def assert_same_rows(found: Answer, expected: Answer) -> None:
    """Likewise, for rows."""
    actual, expected = _sorted(found), _sorted(expected)
    for mine, other in zip(actual, expected, strict=False):
        assert _rounded(mine) == _rounded(other)
    assert len(actual) == len(expected)


def _sorted(rows: Answer) -> Answer:
    return sorted(
        rows, key=lambda row: [str(value) for _, value in sorted(row.items()) if not isinstance(value, float)]
    )


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in row.items()}
