"""Journals read by the analysis, as plain rows, and the same rows as `dump` tells them. Without Spark."""

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from oms_journal.analysis.reading import damage, files, plan, rows, schema
from oms_journal.analysis.reading.parts import Damage, Partition
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.analysis.storage import locate
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.dump import dump
from tests.support.journals.plain_rows import database_of, signed

Row = dict[str, Any]
EVERY = tuple(column.name for column in schema.OPERATIONS)
ALL = Wanted(columns=EVERY)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def planned(
    *paths: Path | str, wanted: Wanted = ALL, options: Mapping[str, str] | None = None, **named: Any
) -> list[Partition]:
    """Return what workers are to read, as it arrives there."""
    found = plan.plan(locate([str(path) for path in paths], options), wanted, **named)
    return [_sent(partition) for partition in found]


def _sent(partition: Partition) -> Partition:
    found: Partition = pickle.loads(pickle.dumps(partition))
    assert found == partition
    return found


def batches_of(
    partitions: Iterable[Partition], wanted: Wanted = ALL, report: Callable[[Damage], None] = damage.warn
) -> list[pa.RecordBatch]:
    """Return the batches that workers make of partitions."""
    found = []
    for partition in partitions:
        for part in partition.parts:
            for batch in rows.batches(part.storage.disk(), part, wanted, report):
                batch.validate(full=True)
                assert batch.schema.equals(schema.arrow_schema(wanted.columns))
                assert 0 < batch.num_rows <= rows.BATCH_ROWS
                found.append(batch)
    return found


def analysed(
    *paths: Path | str,
    wanted: Wanted = ALL,
    options: Mapping[str, str] | None = None,
    report: Callable[[Damage], None] = damage.warn,
) -> list[Row]:
    """Return the operations that workers find, in their order."""
    return plain(batches_of(planned(*paths, wanted=wanted, options=options), wanted, report))


def plain(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Return the rows of batches; times as microseconds."""
    return [{name: _plain(value) for name, value in row.items()} for batch in batches for row in batch.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    return dict(value) if isinstance(value, list) else value


def dumped(*paths: Path, database: str | None = None) -> list[Row]:
    """Return every operation that `dump` vouches for, under the names of our columns."""
    found = []
    for path in paths:
        name = database or database_of(path)
        found += [
            _row(name, operation)
            for operation in dump(RealDisk(), [path])
            if isinstance(operation, DumpedOperation) and operation.vouched
        ]
    return found


def _row(database: str, operation: DumpedOperation) -> Row:
    is_add = operation.operation == "ADD"
    payload = None if operation.damaged else operation.payload
    properties = dict(operation.properties or {}) if is_add else None
    return {
        "database": database,
        **{
            name: getattr(operation, name) for name in ("sequence", "offset", "owner", "commit", "operation", "message")
        },
        **{name: getattr(operation, name) for name in ("queue", "key", "time", "moved", "producer", "length", "file")},
        "first_time": operation.first_time if is_add else None,
        "hash": None if operation.payload is None else signed(xxhash.xxh3_64_intdigest(operation.payload)),
        **{name: _shown(getattr(operation.terms, name)) for name in ("due", "expiry")},
        "attempts": operation.terms.attempts,
        "missing": None,
        "group": None if operation.terms.group is None else operation.terms.group.decode(),
        "properties": None if operation.damaged else properties,
        "payload": payload,
        "properties_length": len(encode_properties(properties)) if properties is not None else None,
    }


def _shown(time: int | None) -> int | None:
    """Return the nearest time that Spark can show."""
    return None if time is None else min(max(time, schema.TIME_MIN), schema.TIME_MAX)


def comparable(found: Iterable[Row]) -> list[Row]:
    """Return rows without what `dump` does not tell: what damaged bytes were, and hash to."""
    return [_comparable(row) for row in found]


def _comparable(row: Row) -> Row:
    if row["operation"] in ("ADD", "PUT") and row["payload"] is None:
        return row | {"hash": None, "properties": None, "properties_length": None}
    return row


def damages(*paths: Path | str, options: Mapping[str, str] | None = None, full: bool = True) -> list[Row]:
    """Return the rows of the damage table."""
    columns = schema.default_columns("damage")
    partitions = [_sent(one) for one in plan.plan_damage(locate([str(path) for path in paths], options))]
    batches = [batch for one in partitions for batch in damage.batches(one, columns, full=full)]
    assert all(batch.schema.equals(schema.arrow_schema(columns, "damage")) for batch in batches)
    return plain(batches)


def files_table(*paths: Path | str) -> list[Row]:
    """Return the rows of the table of files."""
    columns = schema.default_columns("files")
    partitions = plan.plan(locate([str(path) for path in paths]))
    batches = [batch for one in partitions for batch in files.batches(one, columns)]
    assert all(batch.schema.equals(schema.arrow_schema(columns, "files")) for batch in batches)
    return plain(batches)


def only(wanted: Sequence[str], **named: Any) -> Wanted:
    """Return a wish for these columns."""
    return replace(ALL, columns=tuple(wanted), **named)
