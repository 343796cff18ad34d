"""The fold inside Spark: its workers fold the files, and what they tell is put together here.

What crosses to Java is one row a partition: what is to be read, and on the way back what it tells, as bytes. By
DataFrame calls alone, so that it works over Spark Connect too. The driver merges what comes back, some GiB of data
files at a time, so that it holds what is undelivered and not what the partitions have open all together.

Of these some GiB, what is open at the borders of the partitions comes back together. It is little where messages are
delivered soon: of a message 53 bytes. Where it is more than BORDER_BYTES_MAX, nothing of it comes back. The files are
folded once more, and a second stage puts together what is open, in parts by message number:

    stage 1    partition → what it tells without what is open;  what is open of part 0, of part 1, …
    shuffle    by part, in the order of the partitions
    stage 2    part → what is open of it behind the last partition, and what was counted when it met

So the driver has what is undelivered, as it does in any case.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any, TypeVar

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from oms_journal.analysis.fold import engine
from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.engine import Borders, Work, decoded, encoded
from oms_journal.analysis.reading.columns import byte_strings, longs
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Micros
from oms_journal.analysis.spark.frames import as_frame

T = TypeVar("T")

TURN_BYTES = 4 << 30  # of data files that are folded by one job
BORDER_BYTES_MAX = 256 << 20  # of one job: Spark takes at most 1 GiB from a job, where nobody says otherwise
WHOLE = -1  # no part: what a partition tells without what is open
PART_BYTES = 64 << 20  # of what is open, in the second stage: a worker holds one part, and what comes to it
_WORK = pa.schema([pa.field("place", pa.int64()), pa.field("work", pa.binary())])
_TOLD = pa.schema([pa.field("place", pa.int64()), pa.field("border_bytes", pa.int64()), pa.field("told", pa.binary())])
_PART = pa.schema([pa.field("part", pa.int64()), pa.field("place", pa.int64()), pa.field("told", pa.binary())])
_SPARK = {pa.int64(): LongType(), pa.binary(): BinaryType()}
_Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of what is open comes to the driver, and to a worker of the second stage: in bytes, of one job."""

    border_bytes_max: int = BORDER_BYTES_MAX
    part_bytes: int = PART_BYTES


def answers(
    spark: SparkSession,
    paths: Sequence[str],
    asked: Asked,
    *,
    now: Micros,
    storage: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Return the answers by name, as `engine.answers` does, as DataFrames; also what Spark raises."""
    found = engine.answers(in_spark(spark), paths, asked, now=now, storage=storage)
    return {name: as_frame(spark, table) for name, table in found.items()}


def in_spark(spark: SparkSession, bounds: Bounds | None = None) -> engine.Engine:
    """Return the engine that has the work done in the workers of a session."""
    bounds = bounds or Bounds()

    def fold(partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        for turn in _turns(partitions):
            parts = [pickle.dumps(one.parts) for one in turn]
            works = spark.createDataFrame(_table(_WORK, range(len(turn)), parts))
            share = bounds.border_bytes_max // len(turn)
            found = works.mapInArrow(_working(work, share), _columns(_TOLD)).toArrow()
            if found["told"].null_count:
                found = _in_two_stages(works, work, -(-pc.sum(found["border_bytes"]).as_py() // bounds.part_bytes))
            yield from _in_order(found)

    return fold


def _in_two_stages(works: DataFrame, work: Work[T], count: int) -> pa.Table:
    """Return what the partitions tell, then what was open at their borders, put together in so many parts."""
    parted = works.mapInArrow(_parting(work, count), _columns(_PART)).repartition(count, "part")
    return parted.sortWithinPartitions("part", "place").mapInArrow(_putting_together, _columns(_PART)).toArrow()


def _in_order(found: pa.Table) -> Iterator[Any]:
    """Yield what was told, sorted by all columns before; none of it is copied."""
    *keys, told = found.columns
    places = zip(*(key.to_pylist() for key in keys), strict=True)
    for row, _ in sorted(enumerate(places), key=lambda each: each[1]):
        yield decoded(memoryview(told[row].as_buffer()))


def _turns(partitions: Iterable[Partition]) -> Iterator[list[Partition]]:
    turn: list[Partition] = []
    together = 0
    for partition in partitions:
        if turn and together + partition.bytes > TURN_BYTES:
            yield turn
            turn, together = [], 0
        turn.append(partition)
        together += partition.bytes
    if turn:
        yield turn


def _table(schema: pa.Schema, *columns: Iterable[Any]) -> pa.Table:
    """Return a table of numbers and bytes: pa.array would import pandas first, in every worker that has it."""
    arrays = [
        byte_strings(list(column), field.type)
        if field.type == pa.binary()
        else longs(np.array(list(column), np.int64), field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _columns(schema: pa.Schema) -> StructType:
    """Return the columns as Spark calls them. As text they would make it load its parser of SQL."""
    return StructType([StructField(field.name, _SPARK[field.type]) for field in schema])


def _working(work: Work[T], share: int) -> Callable[[_Batches], _Batches]:
    """Return what a worker does with its rows: of what has more open than its share it tells only how much."""

    def fold(batches: _Batches) -> _Batches:
        for place, parts in _works_in(batches):
            told = work(parts)
            size = told.border_bytes if isinstance(told, Borders) else 0
            yield from _table(_TOLD, [place], [size], [None if size > share else encoded(told)]).to_batches()

    return fold


def _parting(work: Work[T], count: int) -> Callable[[_Batches], _Batches]:
    """Return what a worker does in the first of two stages."""

    def fold(batches: _Batches) -> _Batches:
        for place, parts in _works_in(batches):
            told = work(parts)
            assert isinstance(told, Borders), "nothing else has borders"
            for part, handed in enumerate(told.hand_over(count)):
                yield from _table(_PART, [part], [place], [encoded(handed)]).to_batches()
            yield from _table(_PART, [WHOLE], [place], [encoded(told)]).to_batches()

    return fold


def _putting_together(batches: _Batches) -> _Batches:
    """Merge what is open, part by part; what the partitions tell besides passes as it is."""
    for part, rows in groupby(_parts_in(batches), lambda row: row[0]):
        if part == WHOLE:
            for _, place, told in rows:
                yield from _table(_PART, [part], [place], [told.as_py()]).to_batches()
        else:
            merged = reduce(_merged, (decoded(memoryview(told.as_buffer())) for _, _, told in rows))
            yield from _table(_PART, [part], [0], [encoded(merged)]).to_batches()


def _merged(told: Borders, later: Borders) -> Borders:
    told.merge(later)
    return told


def _parts_in(batches: _Batches) -> Iterator[tuple[int, int, pa.BinaryScalar]]:
    for batch in batches:
        yield from zip(batch["part"].to_pylist(), batch["place"].to_pylist(), batch["told"], strict=True)


def _works_in(batches: _Batches) -> Iterator[tuple[int, Sequence[FilePart]]]:
    for batch in batches:
        for place, pickled in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield place, pickle.loads(pickled)
