"""What a broker keeps beside its messages: its starts and ends, and how many records of each kind there are."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.columns import NEWER, READABLE
from oms_journal.analysis.broker.records import is_put, of_every_kind, versions
from oms_journal.analysis.questions.described import answers
from oms_journal.broker.records import RecordKind

_MEANINGS = {"ETBC": "cold start", "ETBH": "hot start", "ETBT": "termination"}


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "broker_id": "BROKER-ID",
        "time": "when",
        "checkpoint": "ETBC, ETBH, ETBT",
        "what": "cold start, hot start, termination",
        "starts": "how often the store had been started by then",
        "job": "host and program",
        "platform": "where the broker ran; null where that record is not there",
        "version": "of the program; null likewise",
    }
)
def broker_starts(keyed: DataFrame) -> DataFrame:
    """Return one row for each start and each orderly end of a broker, as far as the journal tells of them.

    A broker that was killed has no end.
    """
    marks = (
        versions(keyed, RecordKind.CHECKPOINT)
        .where(is_put())
        .select("database", "record.*")
        .dropDuplicates(["database", "name", "starts", "time"])
    )
    masters = (
        versions(keyed, RecordKind.MASTER)
        .where(is_put())
        .select("database", "record.starts", "record.platform", "record.version")
        .dropDuplicates(["database", "starts"])
    )
    names = F.create_map(*[F.lit(text) for pair in _MEANINGS.items() for text in pair])
    return marks.join(masters, ["database", "starts"], "left").withColumns(
        {"checkpoint": F.col("name"), "what": names[F.col("name")]}
    )


@answers(
    {
        "database": "identity of the database, 32 hexadecimal digits",
        "kind": "UOW, PUBLICATION, SUBSCRIPTION, MASTER, CHECKPOINT, CLOCK",
        "keys": "keys that are there",
        "bytes": "of their values",
        "written": "values that were written; what compaction wrote again is not counted again",
        "written_bytes": "bytes of these",
        "dropped": "keys that were dropped",
        "unreadable": "values that are damaged, or no record of their kind",
        "newer": "of these, records of a version that is not known here",
    }
)
def broker_records(keyed: DataFrame) -> DataFrame:
    """Return how many records of each kind the broker keeps, has written and has dropped."""
    is_written, size = F.col("operation") == "PUT", F.col("length")
    is_first, is_drop = is_written & ~F.col("moved"), F.col("operation") == "DROP"
    by_key = (
        of_every_kind(keyed)
        .groupBy("database", "kind", "key")
        .agg(
            F.max(F.struct("place", "operation", "length")).alias("last"),
            F.count_if(is_first).alias("written"),
            F.sum(F.when(is_first, size)).alias("written_bytes"),
            F.count_if(is_drop).alias("dropped"),
            F.count_if(is_written & ~F.col(READABLE)).alias("unreadable"),
            F.count_if(is_written & F.col(NEWER)).alias("newer"),
        )
    )
    is_there = F.col("last.operation") == "PUT"
    sums = ("written", "written_bytes", "dropped", "unreadable", "newer")
    return by_key.groupBy("database", "kind").agg(
        F.count_if(is_there).alias("keys"),
        F.coalesce(F.sum(F.when(is_there, F.col("last.length"))), F.lit(0)).alias("bytes"),
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums],
    )
