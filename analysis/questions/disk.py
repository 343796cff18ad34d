"""Why the disk does not get free: what of each data file is still needed, what keeps it, what would free it.

The same figures as `oms explain` gives, from the operations alone. Clean-up deletes the leading run of
files that hold nothing needed; compaction makes the run longer by writing the little again that old
files still hold:

    a file is needed      while it holds an undelivered message, or the latest version of a key
    compaction takes      the longest run of the oldest files, the active one never, in which what is
                          needed is at most a share of their bytes, or which are 8 or more and all fit
                          into one data file, half of it needed at the most
"""

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.fold.answers import RETENTION, meanings_of
from oms_journal.analysis.fold.retention import (
    ASKED_SHARE,
    COMPACT_SHARE,
    DATA_FILE_BYTES,
    KEY_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    SMALL_FILES_MIN,
)
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.questions.message_rows import is_undelivered, latest_versions, messages
from oms_journal.analysis.questions.times import age
from oms_journal.journal.format.headers import FRAMES_AT

_FILE = ["database", "sequence"]


@answers(meanings_of(RETENTION))
def retention(  # noqa: PLR0913
    operations: DataFrame,
    files: DataFrame,
    *,
    now: datetime | None = None,
    keys: DataFrame | None = None,
    compact_share: float = COMPACT_SHARE,
    data_file_bytes: int = DATA_FILE_BYTES,
) -> DataFrame:
    """Return one row a data file: how much of it is needed, and what keeps it.

    `files` is the source's table of that name. The answer leaves out files that clean-up has moved into a retention
    directory, as far as `files` tells them (column `retained`): they are off the disk in question. Ages are reckoned up
    to `now`. By default that is the time at which the question is answered.

    `compact_share` and `data_file_bytes` are options of the database: its `compact_share`, and its `max_data_file_size`
    in bytes. `keys` are the operations on keys alone. If you loaded those by themselves, pass them: it is faster.
    """
    on_disk = files.where(~F.col("retained")) if "retained" in files.columns else files
    newest = F.max("sequence").over(Window.partitionBy("database"))
    facts = (
        on_disk.select(*_FILE, "file", "bytes", (~F.col("sealed") & (F.col("sequence") == newest)).alias("active"))
        .join(_live_messages(operations), _FILE, "left")
        .join(_live_keys(operations if keys is None else keys), _FILE, "left")
        .fillna(0, ["live_bytes", "live_messages", "live_keys"])
        .withColumn("needed", (F.col("live_messages") > 0) | (F.col("live_keys") > 0))
    )
    return _planned(facts, max(compact_share, ASKED_SHARE), data_file_bytes).withColumns(
        {
            "dead_bytes": F.col("bytes") - F.col("live_bytes"),
            "pinned_by": F.when(F.col("live_messages") > 0, "message").when(F.col("live_keys") > 0, "key"),
            "pin_message": F.col("oldest.message"),
            "pin_queue": F.col("oldest.queue"),
            "pin_key": F.when(F.col("live_messages") == 0, F.col("first_key.key")),
            "pin_age_seconds": age(F.coalesce("oldest.added", "first_key.time"), now),
            "freed_by_compact": F.when(F.col("goes"), F.col("bytes") - _kept_bytes()).otherwise(0),
        }
    )


def _live_messages(operations: DataFrame) -> DataFrame:
    """Return what each data file holds of undelivered messages, and the oldest one."""
    # By queue first: strings are compared once a queue and file, not once a message.
    by_queue = (
        messages(operations)
        .where(is_undelivered())
        .groupBy(*_FILE, "queue")
        .agg(
            F.count(F.lit(1)).alias("live_messages"),
            F.sum("stored").alias("live_bytes"),
            F.min("message").alias("message"),
            F.min_by("added", "message").alias("added"),
        )
    )
    return by_queue.groupBy(*_FILE).agg(
        F.sum("live_messages").alias("live_messages"),
        F.sum("live_bytes").alias("live_bytes"),
        F.min(F.struct("message", "queue", "added")).alias("oldest"),
    )


def _live_keys(operations: DataFrame) -> DataFrame:
    """Return how many keys each data file holds the latest versions of, and the first of them."""
    return (
        latest_versions(operations)
        .where(F.col("operation") == "PUT")
        .groupBy(*_FILE)
        .agg(F.count(F.lit(1)).alias("live_keys"), F.min(F.struct("key", "time")).alias("first_key"))
    )


def _planned(facts: DataFrame, share: float, data_file_bytes: int) -> DataFrame:
    """Say of each file how many later ones it pins, and whether compaction would let it go."""
    every = Window.partitionBy("database")
    in_order = every.orderBy("sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    total, kept, place = F.sum("bytes").over(so_far), F.sum(_kept_bytes()).over(so_far), F.row_number().over(in_order)
    is_open = ~F.bool_or("active").over(so_far)
    is_dead_run = ~F.bool_or(F.col("needed") | F.col("active")).over(so_far)
    # What is moved forward stands behind such headers again.
    frames = F.sum(F.greatest(F.col("bytes") - FRAMES_AT, F.lit(0))).over(so_far)
    is_sparse = kept <= F.lit(share) * frames
    is_many = (place >= SMALL_FILES_MIN) & (kept <= data_file_bytes // 2) & (total <= data_file_bytes)
    is_dead = (~F.col("needed") & ~F.col("active")).cast("long")
    return (
        facts.withColumns(
            {
                "place": place,
                "last": F.when(is_dead_run | (is_open & (is_sparse | is_many)), place),
                "pins_files": F.when(F.col("needed"), F.coalesce(F.sum(is_dead).over(later), F.lit(0))).otherwise(0),
            }
        )
        .withColumn("goes", F.col("place") <= F.coalesce(F.max("last").over(every), F.lit(0)))
    )  # fmt: skip


def _kept_bytes() -> Column:
    """Return about how many bytes compaction would write again of a file."""
    return F.col("live_bytes") + F.col("live_messages") * MESSAGE_OVERHEAD_BYTES + F.col("live_keys") * KEY_BYTES
