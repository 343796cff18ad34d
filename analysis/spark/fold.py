"""The fold inside Spark: its workers fold the files, and what they tell is put together here.

What crosses to Java is one row a partition: what is to be read, and on the way back what it tells, as bytes. By
DataFrame calls alone, so that it works over Spark Connect too. The driver merges what comes back, some GiB of data
files at a time, so that it holds what is undelivered and not what the partitions have open all together.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

from oms_journal.analysis.fold import engine
from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.engine import Work, decoded, encoded
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Micros
from oms_journal.analysis.spark.frames import as_frame

T = TypeVar("T")

TURN_BYTES = 4 << 30  # of data files that are folded by one job
_WORK = pa.schema([pa.field("place", pa.int64()), pa.field("work", pa.binary())])
_TOLD = "place long, told binary"
_Batches = Iterator[pa.RecordBatch]


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


def in_spark(spark: SparkSession) -> engine.Engine:
    """Return the engine that has the work done in the workers of a session."""

    def fold(partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        for turn in _turns(partitions):
            works = pa.Table.from_arrays(
                [pa.array(range(len(turn)), pa.int64()), pa.array([pickle.dumps(one.parts) for one in turn])],
                schema=_WORK,
            )
            told = spark.createDataFrame(works).mapInArrow(_working(work), _TOLD).toArrow()
            places = {place: at for at, place in enumerate(told["place"].to_pylist())}
            for place in range(len(turn)):
                yield decoded(memoryview(told["told"][places[place]].as_buffer()))

    return fold


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


def _working(work: Work[T]) -> Callable[[_Batches], _Batches]:
    """Return what a worker does with its rows."""

    def fold(batches: _Batches) -> _Batches:
        for batch in batches:
            for place, pickled in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                parts: Sequence[FilePart] = pickle.loads(pickled)
                told = encoded(work(parts))
                yield pa.RecordBatch.from_arrays(
                    [pa.array([place], pa.int64()), pa.array([told], pa.binary())], names=["place", "told"]
                )

    return fold
