"""Calls the source `omsjournal` as Spark does, without Spark: options as text, readers and partitions pickled."""

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, Filter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from oms_journal.analysis.reading import schema
from oms_journal.analysis.spark.options import parse
from oms_journal.analysis.spark.source import JournalReader, JournalSource, PushingReader
from tests.support.journals.plain_rows import Row, rows_in

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "binary": BinaryType(),
}
Rows = list[dict[str, Any]]
DEFAULT = schema.default_columns()


def struct(columns: Iterable[str], table: str = "operations") -> StructType:
    """Return a schema of Spark's with these columns."""
    types = {column.name: _TYPES[column.spark_type] for column in schema.TABLES[table]}
    found = StructType()
    for name in columns:
        found.add(name, types[name])
    return found


def source(*paths: Path | str, **options: Any) -> JournalSource:
    """Return the source as Spark makes it for a load."""
    given: dict[str, str] = {name: str(value) for name, value in options.items()}
    if len(paths) == 1:
        given["path"] = str(paths[0])
    elif paths:
        given["paths"] = json.dumps([str(path) for path in paths])
    found: JournalSource = _shipped(JournalSource(CaseInsensitiveDict(given)))
    return found


def columns_of(loaded: JournalSource) -> tuple[str, ...]:
    """Return the columns of the default schema of a load."""
    options = parse(loaded.options)
    assert loaded.schema() == schema.ddl(schema.default_columns(options.table, options.shown), options.table)
    return schema.default_columns(options.table, options.shown)


def reader(
    *paths: Path | str, columns: Sequence[str] = (), filters: Sequence[Filter] | None = None, **options: Any
) -> DataSourceReader:
    """Return a reader; with filters one that has taken them in."""
    loaded = source(*paths, **options)
    names = tuple(columns) or columns_of(loaded)
    if filters is None:
        made = loaded.reader(struct(names, str(options.get("table", "operations"))))
        assert type(made) is JournalReader, "a Spark that hands over no filters refuses another one"
        return made
    pushing = PushingReader(parse(loaded.options), names)
    assert pushing.pushFilters(list(filters)) == filters, "Spark applies every one of them again"
    return pushing


def batches(made: DataSourceReader, partitions: Iterable[object]) -> Iterator[pa.RecordBatch]:
    """Yield what workers would, each with copies of its own, as Spark demands it."""
    for partition in partitions:
        yield from _shipped(made).read(_shipped(partition))


def load(
    *paths: Path | str, columns: Sequence[str] = (), filters: Sequence[Filter] | None = None, **options: Any
) -> Rows:
    """Return the rows of a load; times in microseconds."""
    made = reader(*paths, columns=columns, filters=filters, **options)
    return rows_of(batches(made, made.partitions()), columns, str(options.get("table", "operations")))


def rows_of(found: Iterable[pa.RecordBatch], columns: Sequence[str] = (), table: str = "operations") -> Rows:
    """Return the rows of batches; times in microseconds. Their schema must be the one that Spark expects."""
    names = tuple(columns) or None
    rows: Rows = []
    for batch in found:
        assert names is None or tuple(batch.schema.names) == names
        assert batch.schema.equals(to_arrow_schema(struct(batch.schema.names, table), timezone="UTC"))
        rows += plain(pa.Table.from_batches([batch]))
    return rows


def plain(table: pa.Table) -> Rows:
    """Return the rows of a table; times in microseconds, maps as dictionaries."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    found: Rows = table.to_pylist(maps_as_pydicts="strict")
    return found


def dumped(*paths: Path) -> Rows:
    """Return what the default schema has of the operations that `dump` shows."""
    return [shown(row) for row in rows_in(*paths)]


def shown(row: Row) -> dict[str, Any]:
    """Return what the default schema has of an operation."""
    return {name: value for name, value in asdict(row).items() if name in DEFAULT}


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows in the order of the journal, those of one commit in any but always the same order.

    Whether a PUT was moved is left out: `dump` does not tell.
    """
    told = [dict(row) | {"moved": None} if row["operation"] == "PUT" else row for row in rows]
    return sorted(told, key=lambda row: (row["database"], row["sequence"], row["offset"], str(sorted(row.items()))))


def _shipped(thing: Any) -> Any:
    """Return the copy that arrives in another process."""
    return pickle.loads(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
