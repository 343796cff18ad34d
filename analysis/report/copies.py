"""A journal beside a copy of it: what is only in one of both, or differs. Its answer may be as large as the journals.

So it is asked of Spark alone, operation by operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.analysis.reading import schema
from oms_journal.analysis.report.asking import Asked
from oms_journal.analysis.report.journals import Request, sources
from oms_journal.analysis.spark.complaints import in_one_line
from oms_journal.analysis.spark.source import NAME

COLUMNS = (*schema.default_columns(), "properties_length")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the copy is compared.

    Databases are told apart where both sides know the same ones. Where clean-up has removed data files on one side
    only, ended messages are no difference.
    """

    asked: Asked
    undelivered_only: bool


def comparison(spark: SparkSession, request: Request) -> Comparison:
    """Return the question how the copy differs; SparkCouldNot, and what `sources` raises."""
    paths = [sources(each).paths for each in (request.paths, request.compared_with)]
    with in_one_line("cannot compare"):
        here, there = (_first_sequences(spark, each) for each in paths)
    match_databases = bool(here.keys() & there.keys()) or max(len(here), len(there)) > 1
    undelivered_only = match_databases and any(here[name] != there[name] for name in here.keys() & there.keys())

    def answer() -> DataFrame:
        return questions.comparison(
            *(operations(spark, each) for each in paths),
            match_databases=match_databases,
            undelivered_only=undelivered_only,
        )

    return Comparison(Asked("comparison", "what is only here, only in the copy, or differs", answer), undelivered_only)


def operations(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return all operations of journals."""
    return spark.read.format(NAME).schema(schema.ddl(COLUMNS)).load(list(paths))


def _first_sequences(spark: SparkSession, paths: Sequence[str]) -> dict[str, int]:
    files = spark.read.format(NAME).option("table", "files").load(list(paths))
    rows = files.groupBy("database").agg(F.min("sequence").alias("first")).collect()
    return {row["database"]: row["first"] for row in rows}
