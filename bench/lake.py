"""The lake: an export against pyarrow writing the same columns from memory, and Spark on it against Spark on Parquet.

Spark's own Parquet has the same rows, its default codec, and as many files as there are data files. Of the lake the
refresh is measured too: each query brings it up to date first, and finds nothing new.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.callers import scratch
from bench.measure import Row, Settings, alternate_times, time_text
from bench.spark import beside_parquet, filled, queries, timed

if TYPE_CHECKING:  # Spark, Arrow and DuckDB are imported when these rows are measured
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BOUNDS = {"count": 0.7, "group": 0.9, "latency": 1.0}
DUCKDB = {  # the same questions, on what a glob finds
    "count": "select count(*) from '{lake}/*/*.parquet'",
    "group": "select queue, operation, count(*) from '{lake}/*/*.parquet' group by all",
    "latency": """
        select a.queue, count(*), count(d.message), quantile_cont(epoch(d.time - a.time), [0.5, 0.9, 0.99]),
            max(epoch(d.time - a.time))
        from '{lake}/*/*.parquet' a left join '{lake}/*/*.parquet' d
          on d.operation = 'DELIVER' and d.database = a.database and d.message = a.message
        where a.operation = 'ADD' and not a.moved group by a.queue
    """,
}


def lake(settings: Settings) -> Iterator[Row]:
    """Export, find nothing new, and ask."""
    from oms_journal.analysis.spark.session import quiet_session

    path = filled(settings, settings.operations)
    millions = settings.operations / 1e6
    yield _export(settings, path, millions)
    cache = scratch(settings.directory, "lake")
    yield _nothing_new(settings, path, cache)
    with quiet_session(name="oms bench") as session:
        parquet = _as_parquet(session, path, cache, scratch(settings.directory, "parquet"))
        for name, what, _, query in queries():
            found = alternate_times(
                settings.rounds,
                timed(query, parquet),
                _timed_with_refresh(query, session, path, cache),
            )
            told = f"Spark on the lake, refresh included: {what}, {millions:.3g} million operations"
            yield beside_parquet(f"lake-{name}", told, BOUNDS[name], found)
        yield from _duckdb(settings, parquet, cache, millions)


def _duckdb(settings: Settings, parquet: "DataFrame", cache: Path, millions: float) -> Iterator[Row]:
    """Yield what DuckDB needs for the same on the lake, where it is installed; what it finds is not looked at."""
    try:
        import duckdb
    except ImportError:
        yield Row(name="lake-duckdb", what="DuckDB on the lake", measured=[], note="duckdb is not installed")
        return
    with duckdb.connect() as connection:
        for name, what, _, query in queries():
            statement = DUCKDB[name].format(lake=cache)
            asked = partial(_fetched, connection, statement)
            found = alternate_times(settings.rounds, timed(query, parquet), asked)
            told = f"DuckDB on the lake: {what}, {millions:.3g} million operations, against Spark on Parquet"
            row = beside_parquet(f"lake-duckdb-{name}", told, BOUNDS[name], found)
            yield replace(row, bound=None)


def _fetched(connection: "duckdb.DuckDBPyConnection", statement: str) -> float:
    began = time.perf_counter()
    connection.sql(statement).fetchall()
    return time.perf_counter() - began


def _export(settings: Settings, path: Path, millions: float) -> Row:
    """Return how fast an export is, to pyarrow with the same rows in memory, and the same kind of files."""
    from oms_journal.analysis.export import rowgroups
    from oms_journal.analysis.export.refresh import COLUMNS, refresh
    from oms_journal.analysis.reading.plan import parts_of, surveyed
    from oms_journal.analysis.reading.rows import batches
    from oms_journal.analysis.reading.schema import Wanted
    from oms_journal.analysis.storage import locate

    locations = locate([str(path)])
    wanted = Wanted(columns=COLUMNS)
    made: list[list[pa.RecordBatch]] = [
        list(batches(part.storage.disk(), part, wanted)) for part in parts_of(surveyed(locations), locations)
    ]

    def raw() -> float:
        folder = scratch(settings.directory, "memory")
        folder.mkdir()
        began = time.perf_counter()
        for number, found in enumerate(made):
            rowgroups.write(folder / f"{number}.parquet", found, COLUMNS, {})
        taken = time.perf_counter() - began
        shutil.rmtree(folder)
        return taken

    def ours() -> float:
        folder = scratch(settings.directory, "exported")
        began = time.perf_counter()
        refresh([str(path)], str(folder))
        taken = time.perf_counter() - began
        shutil.rmtree(folder)
        return taken

    found = alternate_times(settings.rounds, raw, ours)
    return Row(
        name="lake-export",
        what=f"export of {millions:.3g} million operations, to pyarrow writing the same columns from memory",
        measured=found.inverse,
        bound=0.5,
        raw=f"{time_text(found.raw)}, pyarrow",
        ours=time_text(found.ours),
    )


def _nothing_new(settings: Settings, path: Path, cache: Path) -> Row:
    from oms_journal.analysis.export.refresh import refresh

    refresh([str(path)], str(cache))
    taken = []
    for _ in range(settings.rounds):
        began = time.perf_counter()
        refresh([str(path)], str(cache))
        taken.append((time.perf_counter() - began) * 1e3)
    return Row(name="lake-nothing-new", what="an export with nothing new", measured=taken, unit=" ms")


def _as_parquet(session: "SparkSession", path: Path, cache: Path, folder: Path) -> "DataFrame":
    from oms_journal.analysis.lake import operations

    files = len(list(cache.glob("*/*.parquet")))
    rows = operations(session, str(path), str(cache))
    rows.repartitionByRange(files, "sequence").write.parquet(str(folder))
    return session.read.parquet(str(folder))


def _timed_with_refresh(
    query: Callable[["DataFrame"], object], session: "SparkSession", path: Path, cache: Path
) -> Callable[[], float]:
    from oms_journal.analysis.lake import operations

    def run() -> float:
        began = time.perf_counter()
        query(operations(session, str(path), str(cache)))
        return time.perf_counter() - began

    return run
