"""The Spark data source `omsjournal`: journals as a table of operations, of damage, or of files.

    from oms_journal.analysis.spark.source import register
    register(spark)
    spark.read.format("omsjournal").load("/var/spool/oms")

`options.py` has the options, `schema.py` the columns. `.schema("queue string, message long")` makes only the
columns that it names. What a DataFrame reads is settled when it is first used: which files, and how far each
is good. Load again to see what has been written since.

Spark hands over filters only where its setting `spark.sql.python.filterPushdown.enabled` is on. They skip
data files and rows early, and Spark applies every one of them again. But up to Spark 4.3, all that is made
from one DataFrame shares what was planned last: after `df.filter(a).count()` a plain `df.count()` counts what
passes `a`, and the two sides of a join read the same rows. So filters are taken from such a Spark only where
the option `pushFilters` asks for it, and then a load must serve one filter only. The options `since`, `until`,
`queue`, `operation`, `fromSequence` and `toSequence` skip just as much, and are safe everywhere.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
    from pyspark.sql.types import StructType

from oms_journal.analysis.reading import damage, files, plan, rows, schema
from oms_journal.analysis.reading.parts import Partition
from oms_journal.analysis.reading.schema import UnknownColumn
from oms_journal.analysis.spark.filters import narrowed
from oms_journal.analysis.spark.options import Mode, Options, parse
from oms_journal.analysis.spark.stream import JournalStreamReader
from oms_journal.analysis.storage import locate

NAME = "omsjournal"
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def register(spark: SparkSession) -> None:
    """Make `omsjournal` known to a session, as a source of `spark.read` and of `spark.readStream`.

    The workers of a local session are then processes of this interpreter, see `use_this_python`.
    """
    use_this_python(spark)
    spark.dataSource.register(JournalSource)


def use_this_python(spark: SparkSession) -> None:
    """Let the workers of a local session be processes of this interpreter, where PYSPARK_PYTHON does not name one.

    Spark's own choice, the first `python3` of the path, need not have the packages.
    """
    context = getattr(spark, "sparkContext", None)  # of a session of Spark Connect it is elsewhere
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def is_pushdown_safe() -> bool:
    """Say whether this Spark keeps filters apart: it does since it can hand over limits too."""
    return hasattr(DataSourceReader, "pushLimit")


class JournalSource(DataSource):
    """What `spark.read.format("omsjournal")` stands for. Nothing of it is kept between two loads."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Return all columns of the table that is asked for; BadOption, NoJournal, NoFileSystem, DiskError."""
        options = parse(self.options)
        locate(options.paths, options.storage)  # a wrong path is told by load(), not by the first query
        return schema.ddl(schema.default_columns(options.table, options.shown), options.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse(self.options)
        columns = checked_columns(schema, options.table)
        is_wished = is_pushdown_safe() if options.push_filters is None else options.push_filters
        kind = PushingReader if is_wished and _is_pushing() else JournalReader
        return kind(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = parse(self.options)
        return JournalStreamReader(options, checked_columns(schema, options.table))


class JournalReader(DataSourceReader):
    """Plans which worker reads which files, and reads them there."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._wanted = options.wanted(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each worker is to read; FAILFAST looks for missing files too."""
        options = self._options
        locations = locate(options.paths, options.storage)
        if options.table == "damage":
            found = plan.plan_damage(locations, partition_bytes=options.partition_bytes)
        else:
            if options.mode is Mode.FAILFAST:
                for missing in damage.missing(plan.surveyed(locations)):
                    damage.refuse(missing)
            found = plan.plan(locations, self._wanted, partition_bytes=options.partition_bytes)
        return [InputPartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value  # None where there is no partition at all: Spark makes one up
        return self._batches(part) if isinstance(part, Partition) else iter(())

    def _batches(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if options.table == "damage":
            yield from damage.batches(partition, self._columns, full=options.verifies)
        elif options.table == "files":
            yield from files.batches(partition, self._columns)
        else:
            is_strict = options.mode is Mode.FAILFAST
            report = damage.refuse if is_strict else damage.warn
            for part in partition.parts:
                if is_strict:
                    damage.refuse_any(part, full=options.verifies)
                yield from rows.batches(part.storage.disk(), part, self._wanted, report)


class PushingReader(JournalReader):
    """Likewise, for a Spark that hands over its filters: another one refuses a reader that takes them."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Skip what the filters leave out, and leave every filter to Spark."""
        if self._options.table == "operations":
            self._wanted = narrowed(self._wanted, filters)
        return filters


def checked_columns(wanted: StructType, table: str) -> tuple[str, ...]:
    """Return the names of a schema's columns; UnknownColumn where the table has none like that."""
    columns = {column.name: column for column in schema.TABLES[table]}
    for field in wanted.fields:
        schema.ddl([field.name], table)
        made, given = columns[field.name].spark_type, field.dataType.simpleString()
        if made != given:
            raise UnknownColumn(f"the column {field.name!r} of the table {table!r} is {made}, not {given}")
    return tuple(field.name for field in wanted.fields)


def _is_pushing() -> bool:
    """Say whether this is a worker to which Spark hands filters: it has a module of its own for those."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_WORKER in sys.modules or getattr(main, "name", "") == _PUSHING_WORKER
