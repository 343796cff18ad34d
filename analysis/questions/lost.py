"""What was lost: the same as the fold tells of files, for operations that are there as DataFrames.

See `analysis/fold/losses.py`. The operations of the archives come to the driver, and so do those of the files in use
on the same messages and keys.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold import losses as fold
from oms_journal.analysis.fold.answers import LOSSES, LOSSES_BY_QUEUE, meanings_of
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.reading.schema import arrow_schema, ddl
from oms_journal.analysis.spark.frames import as_frame, as_table


@answers(meanings_of(LOSSES))
def losses(operations: DataFrame, archived: DataFrame) -> DataFrame:
    """Return the operations that the archives hold and the files in use do not, a row each.

    `operations` are those of the files in use. `archived` are those of the archives. An archive of what a former owner
    wrote late tells of no loss. Leave it out: `journals.sources` tells which archives those are.

    A copy of a message in another place is the same message. The answer passes over archives of data files that
    clean-up has removed since. Those come before the first data file in use, and nothing in them is missed.

    Spark runs when you call this, not when you use the answer.
    """
    if "file" not in archived.columns:
        archived = archived.withColumn("file", F.lit(None).cast("string"))
    told = archived.select(*fold.ARCHIVED).toArrow().cast(arrow_schema(fold.ARCHIVED))
    things = fold.things_in(told)

    def near(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _near(batch, things)

    found = fold.Near()
    met = operations.select(*fold.IN_USE).mapInArrow(near, ddl(fold.IN_USE)).toArrow()
    found.operations.append(met.cast(arrow_schema(fold.IN_USE)))
    first = operations.groupBy("database").agg(F.min("sequence").alias("first")).collect()
    found.first = {row["database"]: row["first"] for row in first}
    return as_frame(operations.sparkSession, fold.made_of(told, found))


def _near(batch: pa.RecordBatch, things: Mapping[str | None, fold.Things]) -> list[pa.RecordBatch]:
    found = fold.Near()
    found.take(batch, things)
    return [each for table in found.operations for each in table.to_batches()]


@answers(meanings_of(LOSSES_BY_QUEUE))
def losses_by_queue(lost: DataFrame) -> DataFrame:
    """Return how many operations of each queue were lost, from the answer of `losses`.

    Spark runs when you call this, not when you use the answer.
    """
    return as_frame(lost.sparkSession, fold.by_queue(as_table(lost, LOSSES)))
