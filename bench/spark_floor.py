"""A Spark data source that does nothing but hand over ready-made Arrow batches: the cost of Spark's interface."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.reading.rows import batches
from oms_journal.analysis.storage import locate

NAME = "readymade"


def ready_made(session: SparkSession, journals: Path, folder: Path) -> DataFrame:
    """Return the same rows as the source gives, in the same batches and partitions, which are made here and now."""
    folder.mkdir()
    wanted = schema.Wanted()
    for place, partition in enumerate(plan(locate([str(journals)]), wanted)):
        with pa.ipc.new_file(folder / f"{place:05}.arrow", schema.arrow_schema(wanted.columns)) as made:
            for part in partition.parts:
                for batch in batches(part.storage.disk(), part, wanted):
                    made.write_batch(batch)
    session.dataSource.register(ReadyMadeSource)
    return session.read.format(NAME).load(str(folder))


class ReadyMadeSource(DataSource):
    """A folder of Arrow files, one a partition."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return schema.ddl(schema.default_columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyMadeReader(Path(self.options["path"]))


class ReadyMadeReader(DataSourceReader):
    """Maps an Arrow file into memory, where it is after it was read once, and yields what stands there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(path) for path in sorted(self._folder.iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(partition.value)) as mapped, pa.ipc.open_file(mapped) as made:
            for place in range(made.num_record_batches):
                yield made.get_batch(place)
