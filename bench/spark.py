"""Questions about journals on Spark: against the same rows as Parquet, and against what Spark allows.

What Spark allows is the floor of the data source: a Python data source that does nothing but hand over Arrow batches
that were made before, the very ones that ours makes, from memory. Nothing that comes through that interface is faster.
The fold does not come through it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.callers import scratch
from bench.datasets import add_batches, deliver
from bench.measure import Alternation, Row, Settings, alternate_times, time_text
from oms_journal import MessageDatabase

if TYPE_CHECKING:  # Spark and Arrow are imported when these rows are measured
    from pyspark.sql import DataFrame, SparkSession

    from oms_journal.analysis.fold.engine import Engine

Query = Callable[["DataFrame"], object]

QUEUES = 20
PAYLOAD_BYTES = 16
ROUND_MESSAGES = 100_000  # added, then delivered, before the next
SMALLER = 10  # times fewer operations, to see how the cost grows
LINEAR_BOUND = 1.2  # of the cost of an operation, in the larger against the smaller: what scatters by itself
FILES_SHARE = 20  # one in so many files is touched by a time range


def spark(settings: Settings) -> Iterator[Row]:
    """Count, group, join and a time range; then how the cost grows."""
    from oms_journal.analysis.spark.session import quiet_session

    small = filled(settings, settings.operations // SMALLER)
    path = filled(settings, settings.operations)
    began = time.perf_counter()
    with quiet_session(name="oms bench") as session:
        started = time.perf_counter() - began
        yield Row(name="spark-start", what="starting a Spark session", measured=[started], unit=" s")
        journals = _load(session, path)
        parquet = _as_parquet(session, journals, scratch(settings.directory, "parquet"))
        millions = settings.operations / 1e6
        for name, what, bound, query in queries():
            found = alternate_times(settings.rounds, timed(query, parquet), timed(query, journals))
            yield beside_parquet(f"spark-{name}", f"Spark: {what}, {millions:.3g} million operations", bound, found)
        yield from _folds(settings, session, path, parquet)
        yield from _floors(settings, session, path, journals)
        yield _range(settings, session, path)
        yield _linear(settings, _load(session, small), journals)


def beside_parquet(name: str, what: str, bound: float, found: Alternation) -> Row:
    """Return the row of a question that was asked of Spark on Parquet by turns."""
    return Row(
        name=name,
        what=what,
        measured=found.inverse,
        bound=bound,
        raw=f"{time_text(found.raw)}, Parquet",
        ours=time_text(found.ours),
    )


def filled(settings: Settings, operations: int) -> Path:
    """Return a database in which so many operations were written, half of them deliveries."""
    path = scratch(settings.directory, "journals")
    queues = [f"queue-{number}" for number in range(QUEUES)]
    # Clean-up would let go of the history that is asked about.
    with MessageDatabase.open(path, cleanup_interval=0, compact_share=0) as database:
        left = operations // 2
        while left > 0:
            add_batches(database, size=PAYLOAD_BYTES, count=min(left, ROUND_MESSAGES), queues=queues)
            deliver(database, list(database.numbers()))
            left -= ROUND_MESSAGES
    return path


def _load(session: "SparkSession", path: Path, **options: str) -> "DataFrame":
    return session.read.format("omsjournal").options(**options).load(str(path))


def _as_parquet(session: "SparkSession", journals: "DataFrame", path: Path) -> "DataFrame":
    journals.write.parquet(str(path))
    return session.read.parquet(str(path))


def queries() -> Iterator[tuple[str, str, float, Query]]:
    yield "count", "count", 0.35, lambda rows: rows.count()
    yield (
        "group",
        "group by queue and operation",
        0.7,
        lambda rows: rows.groupBy("queue", "operation").count().collect(),
    )
    yield "latency", "from ADD to DELIVER, percentiles by queue", 0.8, lambda rows: lifecycle(rows).collect()


def lifecycle(rows: "DataFrame") -> "DataFrame":
    """Return what the fold's question of this name tells most of, as somebody would ask it of Spark."""
    from pyspark.sql import functions as F  # noqa: N812

    by_message = (
        rows.where(F.col("message").isNotNull())
        .groupBy("database", "queue", "message")
        .agg(
            F.min("first_time").alias("added"),
            F.min(F.when(F.col("operation") == "DELIVER", F.col("time"))).alias("delivered"),
            F.min(F.when(F.col("operation") == "DELETE", F.col("time"))).alias("deleted"),
            F.max("length").alias("length"),
        )
    )
    is_there = F.col("added").isNotNull() & F.col("delivered").isNull() & F.col("deleted").isNull()
    undelivered = F.when(is_there, F.col("message"))
    latency = F.greatest(F.unix_micros("delivered") - F.unix_micros("added"), F.lit(0))
    known = F.when(F.col("added").isNotNull() & F.col("delivered").isNotNull(), latency)
    return by_message.groupBy("database", "queue").agg(
        F.count("added").alias("added"),
        F.count_if(F.col("added").isNull()).alias("added_before"),
        F.count("delivered").alias("delivered"),
        F.count_if(F.col("delivered").isNull() & F.col("deleted").isNotNull()).alias("deleted"),
        F.count(undelivered).alias("undelivered"),
        F.sum(F.when(is_there, F.col("length"))).alias("undelivered_bytes"),
        F.percentile_approx(known, F.array(F.lit(0.5), F.lit(0.9), F.lit(0.99)), F.lit(10_000)).alias("latency"),
        F.max(known).alias("max"),
        F.min(undelivered).alias("oldest"),
        F.min_by("added", undelivered).alias("oldest_added"),
    )


def _folds(settings: Settings, session: "SparkSession", path: Path, parquet: "DataFrame") -> Iterator[Row]:
    """Yield how the fold compares with Spark on Parquet: in one process, without Spark, and inside Spark's workers."""
    from oms_journal.analysis.fold.asked import COUNTS, FILES, LIFECYCLE, Asked
    from oms_journal.analysis.fold.engine import answers
    from oms_journal.analysis.fold.local import fold
    from oms_journal.analysis.spark.fold import in_spark

    places: tuple[tuple[str, str, Engine, Mapping[str, float]], ...] = (
        ("fold", "the fold in one process", partial(fold, processes=1), {"count": 1.5, "group": 6, "latency": 15}),
        ("spark-fold", "the fold inside Spark", in_spark(session), {"count": 0.33, "group": 2, "latency": 6}),
    )
    asked = {
        "count": Asked(questions=frozenset((FILES,))),
        "group": Asked(questions=frozenset((COUNTS,))),
        "latency": Asked(questions=frozenset((LIFECYCLE,))),
    }
    for place, where, engine, bounds in places:
        for name, what, _, query in queries():
            told = partial(answers, engine, [str(path)], asked[name], now=0)
            found = alternate_times(settings.rounds, timed(query, parquet), _seconds_of(told))
            yield beside_parquet(f"{place}-{name}", f"{where}: {what}, against Spark on Parquet", bounds[name], found)
    empty = session.range(1).mapInArrow(lambda batches: batches, "id long")
    yield Row(
        name="spark-map",
        what="Spark: a mapInArrow that does nothing",
        measured=[_seconds_of(empty.toArrow)() for _ in range(settings.rounds)],
        unit=" s",
    )


def _seconds_of(work: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


def _floors(settings: Settings, session: "SparkSession", path: Path, journals: "DataFrame") -> Iterator[Row]:
    """Yield how far the queries are from what the interface allows."""
    from bench.spark_floor import ready_made

    floor = ready_made(session, path, scratch(settings.directory, "batches"))
    for name, what, _, query in queries():
        found = alternate_times(settings.rounds, timed(query, floor), timed(query, journals))
        yield Row(
            name=f"spark-{name}-floor",
            what=f"Spark: {what}, against Arrow batches that are ready-made",
            measured=found.inverse,
            raw=f"{time_text(found.raw)}, ready-made",
            ours=time_text(found.ours),
        )


def timed(query: Query, rows: "DataFrame") -> Callable[[], float]:
    return _seconds_of(lambda: query(rows))


def _range(settings: Settings, session: "SparkSession", path: Path) -> Row:
    """Return what a time range gains that touches one file in twenty."""
    files = session.read.format("omsjournal").option("table", "files").load(str(path)).orderBy("sequence").collect()
    middle = len(files) // 2
    touched = files[middle : middle + max(1, len(files) // FILES_SHARE)]
    since, until = (_text(time) for time in (touched[0]["first_time"], touched[-1]["last_time"]))
    part, whole = _load(session, path, since=since, until=until), _load(session, path)
    query: Query = lambda rows: rows.groupBy("queue", "operation").count().collect()  # noqa: E731
    found = alternate_times(settings.rounds, timed(query, whole), timed(query, part))
    return Row(
        name="spark-range",
        what=f"Spark: group by, a time range in {len(touched)} of {len(files)} files, against all",
        measured=found.inverse,
        bound=5,
        raw=f"{time_text(found.raw)}, all",
        ours=time_text(found.ours),
    )


def _text(moment: datetime) -> str:
    """Return a time as an option has it. What Spark collects is in this machine's own time, without saying so."""
    return moment.astimezone(UTC).isoformat()


def _linear(settings: Settings, small: "DataFrame", large: "DataFrame") -> Row:
    *_, (_, what, _, query) = queries()
    found: Alternation = alternate_times(settings.rounds, timed(query, small), timed(query, large))
    return Row(
        name="spark-linear",
        what=f"Spark: an operation's cost with {SMALLER} times as many, {what}",
        measured=[ratio / SMALLER for ratio in found.ratios],
        bound=LINEAR_BOUND,
        is_most=True,
        raw=f"{time_text(found.raw)}, {settings.operations / SMALLER / 1e6:.3g} million",
        ours=f"{time_text(found.ours)}, {settings.operations / 1e6:.3g} million",
    )
