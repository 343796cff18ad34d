"""Journals as a lake for Spark: a Parquet data set that is brought up to date, and read, by one call.

`oms export` keeps the same data set without Spark, see `analysis/export/refresh.py`.
"""

from collections.abc import Mapping, Sequence

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    from pyspark.sql import DataFrame, SparkSession

from oms_journal.analysis.export.refresh import COLUMNS, ExportOptions, refresh
from oms_journal.analysis.reading.damage import warn
from oms_journal.analysis.reading.schema import ddl

__all__ = ["operations"]


def operations(
    spark: SparkSession,
    paths: str | Sequence[str],
    cache: str,
    *,
    columns: Sequence[str] = COLUMNS,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the operations of journals, read from the Parquet data set at `cache`, which is brought up to date first.

    `paths` are spool and retention directories, data files or globs, as for `format("omsjournal")`; `cache` is a
    directory of its own that every executor sees, and is made when it is not there. It keeps what clean-up deletes:
    the answer has that too. `columns` are those of the data set, the same in every call; `options` are those of the
    file systems, as `storage.key`. The rows are those of the moment of the call. While the journals grow, call again
    instead of using an older DataFrame: the last Parquet file may have been replaced.

    What cannot be read is logged as warnings. A second call for the same cache waits up to 30 s for the first.
    NoJournal, NoFileSystem, NotThisDatabase, NewerFormat, DiskError; CannotWrite, NotAnExport, LakeInJournal,
    LakeIsBusy, OtherColumns, UnknownColumn.
    """
    chosen = ExportOptions(columns=tuple(columns), storage=options or {})
    found = refresh([paths] if isinstance(paths, str) else list(paths), cache, chosen)
    for damage in found.damages:
        warn(damage)
    schema = ddl(columns)
    folders = dict.fromkeys(name.partition("/")[0] for name in (*found.written, *found.there))
    if not folders:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(f"{_for_spark(cache)}/{folder}" for folder in folders))


def _for_spark(cache: str) -> str:
    """Return the place as Spark names it: what fsspec and Hadoop call by different names is S3."""
    protocol, mark, rest = cache.rstrip("/").partition("://")
    return f"s3a{mark}{rest}" if mark and protocol == "s3" else cache.rstrip("/")
