"""Arrow tables of answers as DataFrames, and back: each column keeps its meaning, as a comment."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.answers import COMMENT, Answer, schema_of


def as_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a fold's answer as a DataFrame, each column with its meaning as a comment."""
    comments = {field.name: (field.metadata or {}).get(COMMENT, b"").decode() for field in table.schema}
    columns = [F.col(name).alias(name, metadata={"comment": meaning}) for name, meaning in comments.items()]
    bare = pa.schema([field.remove_metadata() for field in table.schema])
    return spark.createDataFrame(table.cast(bare)).select(*columns)


def as_table(found: DataFrame, answer: Answer) -> pa.Table:
    """Return the columns of an answer that a DataFrame has; its rows all come here."""
    schema = schema_of(answer)
    names = [name for name in schema.names if name in found.columns]
    return found.select(*names).toArrow().cast(pa.schema([schema.field(name) for name in names]))
