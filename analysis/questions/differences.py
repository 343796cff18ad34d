"""Whether two journals hold the same: before and after a migration, a backup, a salvage, a compaction.

Where something stands is of no account: data files, offsets, openings, commits and moved copies may
differ. What is said of a message and of a key may not:

    message   its number, queue, payload (hash and length), producer identifier, first time, and its end
    key       its latest value (hash and length); a key that was dropped is no key

The times of the puts are no part of it, since compaction writes values again. The engine's own keys are left out.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import ended, is_undelivered, latest_versions, messages_with_producers

ONLY_HERE, ONLY_THERE, DIFFERS = "only here", "only there", "differs"
_FACTS = {  # what must be the same, and its type
    "queue": "string",
    "length": "long",
    "hash": "long",
    "producer": "string",
    "first_time": "timestamp",
    "end": "string",
    "end_time": "timestamp",
}


@answers(
    {
        "kind": "message or key",
        "database": "identity of the database, of that here where it has another one there",
        "message": "number of the message; null for a key",
        "key": "the key; null for a message",
        "difference": f"{ONLY_HERE}, {ONLY_THERE}, or {DIFFERS}",
        "facts": "names of the facts that differ; none where it is only on one side",
        "here": "the facts here: queue, length (bytes), hash (signed XXH3-64), producer, first_time, end (DELIVER or "
        "DELETE) and end_time, null what is not known; null where it is only there",
        "there": "likewise there",
    }
)
def comparison(
    here: DataFrame, there: DataFrame, *, match_databases: bool = True, undelivered_only: bool = False
) -> DataFrame:
    """Return what is only in one of two journals, or differs. If there is no row, they hold the same.

    A database that was restored or migrated has another identity. Without `match_databases` the comparison ignores
    identities, and each side is one database. If clean-up has been at work on one side only, ended messages and the
    ADDs of some of them are gone there. Then ask for what is undelivered.
    """
    on = ["database"] if match_databases else []
    of_messages = _different(
        _messages(here, undelivered_only=undelivered_only),
        _messages(there, undelivered_only=undelivered_only),
        [*on, "message"],
    )
    of_keys = _different(_keys(here), _keys(there), [*on, "key"])
    return (
        of_messages.withColumns({"kind": F.lit("message"), "key": _none("string")})
        .unionByName(of_keys.withColumns({"kind": F.lit("key"), "message": _none("long")}))
    )  # fmt: skip


def _messages(operations: DataFrame, *, undelivered_only: bool) -> DataFrame:
    found = messages_with_producers(operations)
    if undelivered_only:
        found = found.where(is_undelivered())
    end = F.when(F.col("delivered").isNotNull(), "DELIVER").when(F.col("deleted").isNotNull(), "DELETE")
    return _with_facts(
        found,
        "message",
        {"first_time": F.col("added"), "end": end, "end_time": ended()},
        ("queue", "length", "hash", "producer"),
    )


def _keys(operations: DataFrame) -> DataFrame:
    return _with_facts(latest_versions(operations).where(F.col("operation") == "PUT"), "key", {}, ("length", "hash"))


def _with_facts(found: DataFrame, name: str, made: dict[str, Column], taken: tuple[str, ...]) -> DataFrame:
    """Return the thing's name and its facts, null those that it does not have."""
    known = {fact: F.col(fact) for fact in taken} | made
    facts = [known.get(fact, _none(kind)).alias(fact) for fact, kind in _FACTS.items()]
    return found.select("database", name, F.struct(*facts).alias("facts"))


def _different(here: DataFrame, there: DataFrame, on: list[str]) -> DataFrame:
    sides = [
        side.select(*on, F.col("facts").alias(name), F.col("database").alias(f"database_{name}"))
        for name, side in (("here", here), ("there", there))
    ]
    is_different = [F.when(~F.col(f"here.{fact}").eqNullSafe(F.col(f"there.{fact}")), F.lit(fact)) for fact in _FACTS]
    both = F.col("here").isNotNull() & F.col("there").isNotNull()
    alone = F.when(F.col("there").isNull(), ONLY_HERE).when(F.col("here").isNull(), ONLY_THERE).otherwise(DIFFERS)
    facts = F.when(both, F.array_compact(F.array(*is_different))).otherwise(F.array().cast("array<string>"))
    joined = sides[0].join(sides[1], on, "full_outer").withColumns({"facts": facts, "difference": alone})
    # Without the identities as part of the key they come from the sides, and else both say the same.
    joined = joined.withColumn("database", F.coalesce("database_here", "database_there"))
    return joined.where(~both | (F.size("facts") > 0)).drop("database_here", "database_there")


def _none(kind: str) -> Column:
    return F.lit(None).cast(kind)
