"""What a broker wrote under its keys: every version of every record as a row, with the fields as columns.

Made from the operations on keys with their values, in bulk:

    keyed = spark.read.format("omsjournal").option("operation", "PUT,DROP").option("payload", "true").load(path)

A value that is no record, though its key begins like one, has null in all fields.
`docs/reference/broker-records.md` says what the fields mean.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker.columns import NEWER, READABLE, SERVICE, VALUE, batches, kinds, spark_type
from oms_journal.broker.records import (
    CHECKPOINTS,
    CLOCK_KEY,
    HELDS,
    HOLD_KEY,
    MASTER_KEY,
    PREFIX,
    PUBLICATIONS,
    SUBSCRIPTIONS,
    UOWS,
    Flag,
    RecordKind,
)

STARTS = {
    RecordKind.UOW: UOWS,
    RecordKind.PUBLICATION: PUBLICATIONS,
    RecordKind.SUBSCRIPTION: SUBSCRIPTIONS,
    RecordKind.MASTER: MASTER_KEY,
    RecordKind.CHECKPOINT: CHECKPOINTS,
    RecordKind.CLOCK: CLOCK_KEY,
    RecordKind.HOLD: HOLD_KEY,
    RecordKind.HELD: HELDS,
}
KEPT = {  # of the operations
    "database": "string",
    "key": "string",
    "sequence": "bigint",
    "offset": "bigint",
    "operation": "string",
    "time": "timestamp",
    "moved": "boolean",
}
FIELDS = {  # that questions ask for
    RecordKind.UOW: (
        *("conv_id", "status", "flags", "state", "eoc_reason", "adcount", "postpones", "messages", "lifetime"),
        *("size", "created", "committed", "begun", "changed", "first", "sender_user", "receiver_user", "ustatus"),
        SERVICE,
    ),
    RecordKind.PUBLICATION: (
        *("status", "messages", "size", "lifetime", "created", "committed", "first", "user", "topic", "ustatus"),
    ),
    RecordKind.SUBSCRIPTION: (
        *("subscribed", "active", "position", "last_committed", "expiration", "user", "token", "topic"),
        "acknowledged",
    ),
    RecordKind.MASTER: ("starts", "created", "started", "broker_id", "platform", "version"),
    RecordKind.CHECKPOINT: ("name", "starts", "time", "broker_id", "job"),
    RecordKind.CLOCK: ("clock", "written"),
    RecordKind.HOLD: ("last", "clock", "since", "source"),
    RecordKind.HELD: ("low", "last", "released", "done", "numbers"),
}
STARTED = ("ETBC", "ETBH")  # checkpoints of a start
_OF_RECORD = "record_"  # begins the columns that come from the value


def holds_broker(keyed: DataFrame) -> bool:
    """Say whether there is an operation on a key of a broker's. Needs no values."""
    return bool(of_broker(keyed).limit(1).count())


def of_broker(keyed: DataFrame) -> DataFrame:
    """Return the operations on keys of a broker's."""
    return keyed.where(F.col("key").startswith(PREFIX))


def versions(keyed: DataFrame, kind: RecordKind, *wanted: str) -> DataFrame:
    """Return the operations on the keys of a kind of record: columns of the operation, and `record`, a struct.

    `record` has the wanted fields of the record, by default all that any question asks for, and `is_readable`; after a
    DROP every field is null. `identifier` is what the key ends with; `place` ascends in the order of the journal.
    """
    start, fields = STARTS[kind], (READABLE, *(wanted or FIELDS[kind]))
    made = ", ".join(f"{_OF_RECORD}{name} {spark_type(kind, name)}" for name in fields)
    decode = partial(_decoded, kind=kind, kept=tuple(KEPT), wanted=fields)
    found = (
        keyed.where(F.col("key").startswith(start))
        .select(*KEPT, VALUE)
        .mapInArrow(decode, ", ".join([*(f"{name} {kind_}" for name, kind_ in KEPT.items()), made]))
    )
    record = F.struct(*[F.col(f"{_OF_RECORD}{name}").alias(name) for name in fields])
    return found.select(
        *KEPT,
        F.substring("key", len(start) + 1, 1 << 10).alias("identifier"),
        F.struct("sequence", "offset").alias("place"),
        record.alias("record"),
    )


def _decoded(
    found: Iterator[pa.RecordBatch], *, kind: RecordKind, kept: Sequence[str], wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches under the names that Spark was told."""
    for batch in batches(found, kind=kind, kept=kept, wanted=wanted):
        yield batch.rename_columns([*kept, *(f"{_OF_RECORD}{name}" for name in wanted)])


def of_every_kind(keyed: DataFrame) -> DataFrame:
    """Return the operations on keys of a broker's records: the kind, and whether the value is a record of it."""
    kept = KEPT | {"length": "bigint"}
    names = ("database", "key", "sequence", "offset", "operation", "length", "moved")
    types = {name: kept[name] for name in names} | {"kind": "string", READABLE: "boolean", NEWER: "boolean"}
    made = ", ".join(f"{name} {spark_type_}" for name, spark_type_ in types.items())
    found = of_broker(keyed).select(*names, VALUE).mapInArrow(partial(kinds, starts=STARTS, kept=names), made)
    return found.withColumn("place", F.struct("sequence", "offset"))


def starts(keyed: DataFrame) -> DataFrame:
    """Return the starts of the brokers, cold or hot: database, place, time."""
    return (
        versions(keyed, RecordKind.CHECKPOINT)
        .where(is_put() & ~F.col("moved") & F.col("record.name").isin(*STARTED))
        .select("database", "place", F.col("record.time").alias("time"))
    )


def latest(found: DataFrame, *more: Column) -> DataFrame:
    """Return a row for each key of `versions` with a record: the latest readable one, and the DROP behind it if any.

    `written` is the place of the record, and `moved` says whether compaction wrote it there.
    """
    place = F.when(is_put(), F.col("place"))
    return (
        found.groupBy("database", "identifier")
        .agg(
            F.max_by("record", place).alias("record"),
            F.max_by("moved", place).alias("moved"),
            F.max(place).alias("written"),
            F.max(F.when(F.col("operation") == "DROP", F.struct("place", "time"))).alias("drop"),
            *more,
        )
        .where(F.col("written").isNotNull())
        .withColumn("drop", F.when(F.col("drop.place") > F.col("written"), F.col("drop")))
    )


def with_end(known: DataFrame, operations: DataFrame, is_over: Column) -> DataFrame:
    """Add to the answer of `latest` how the first message of what was dropped was removed, unless `is_over` tells.

    `end` has the operation and its place; null where there is no message, or nothing is known of its end.
    """
    removed = (
        operations.where(F.col("operation").isin("DELIVER", "DELETE"))
        .groupBy("database", "message")
        .agg(F.max(F.struct("operation", F.struct("sequence", "offset").alias("place"))).alias("end"))
    )
    first = F.when(F.col("drop").isNotNull() & ~is_over & (F.col("record.first") != 0), F.col("record.first"))
    return known.withColumn("message", first).join(removed, ["database", "message"], "left")


def is_put() -> Column:
    """Say of a row of `versions` whether it is a record that can be read."""
    return (F.col("operation") == "PUT") & F.col(f"record.{READABLE}")


def identifier(number: Column | str) -> Column:
    """Return the identifier that a number of a head stands for; null for none."""
    column = F.col(number) if isinstance(number, str) else number
    return F.when(column != 0, F.lpad(F.hex(column), 16, "0"))


def has_flag(flags: Column, flag: Flag) -> Column:
    return flags.bitwiseAND(F.lit(int(flag))) != 0


def queue_of_record() -> Column:
    """Return the queue that the messages of the unit of work in `record` go to."""
    service = F.col(f"record.{SERVICE}")
    is_reply = has_flag(F.col("record.flags"), Flag.FROM_SERVER)
    return F.when(is_reply, F.concat(service, F.lit("/reply"))).otherwise(service)
