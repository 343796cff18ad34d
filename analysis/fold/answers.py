"""The tables that a fold answers with: their columns, types and meanings, in order."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.schema import TIME

COMMENT = b"comment"  # of a field's metadata: what it means
_DATABASE = "identity of the database, 32 hexadecimal digits"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer."""

    type: pa.DataType
    meaning: str


def _text(meaning: str) -> Column:
    return Column(pa.string(), meaning)


def _long(meaning: str) -> Column:
    return Column(pa.int64(), meaning)


def _double(meaning: str) -> Column:
    return Column(pa.float64(), meaning)


def _time(meaning: str) -> Column:
    return Column(TIME, meaning)


def _flag(meaning: str) -> Column:
    return Column(pa.bool_(), meaning)


Answer = Mapping[str, Column]

LIFECYCLE: Answer = {
    "database": _text(_DATABASE),
    "queue": _text("of the messages"),
    "added": _long("messages that were added; a copy that compaction made is not a second one"),
    "added_before": _long("messages that ended, and were added in data files that are not there"),
    "delivered": _long("messages that were delivered"),
    "deleted": _long("messages that were removed undelivered"),
    "expired": _long(
        "of the deleted ones, those whose DELETE was at or after their expiry, by the writer's clock; of one that was "
        "added in a data file that is not there it is not known"
    ),
    "dead_lettered": _long(
        "of the deleted ones, those that were moved to the dead letters: their DELETE is in one commit with an ADD "
        "that tells of attempts, as a dead letter does; one that was moved since it had expired counts as expired too"
    ),
    "undelivered": _long("messages that are there: added + added_before - delivered - deleted"),
    "undelivered_bytes": _long("bytes of their payloads"),
    "p50_seconds": _double(
        "from ADD, or from when it was due, to DELIVER: half of the delivered messages are not slower; null where none "
        "is known; its rank is off by at most one in 10,000 of them"
    ),
    "p90_seconds": _double("likewise, nine in ten"),
    "p99_seconds": _double("likewise, 99 in a hundred"),
    "max_seconds": _double("likewise, the slowest; exact"),
    "oldest": _long("number of the oldest undelivered message, null for none"),
    "oldest_added": _time("when it was added first"),
    "oldest_age_seconds": _double("how long ago that is at `now`"),
}
HISTOGRAM: Answer = {
    "database": _text(_DATABASE),
    "queue": _text("of the messages"),
    "bin": _long("number of the bin; null for messages that were delivered within a microsecond"),
    "from_seconds": _double("from ADD, or from when it was due, to DELIVER: where the bin begins"),
    "to_seconds": _double("where it ends, which is no longer in it"),
    "messages": _long("delivered messages whose latency lies in the bin"),
}
LATENCY: Answer = {
    "database": _text(_DATABASE),
    "bucket": _time("beginning of the bucket"),
    "queue": _text("of the messages"),
    "messages": _long("that were delivered in the bucket, and whose ADD is known"),
    "p50_seconds": _double(
        "from ADD, or from when it was due, to DELIVER: half of them are not slower; its rank is off by at most "
        "`rank_error`"
    ),
    "p90_seconds": _double("likewise, nine in ten"),
    "p99_seconds": _double("likewise, 99 in a hundred"),
    "max_seconds": _double("likewise, the slowest; exact"),
    "rank_error": _double(
        "of these percentiles, as a share of the messages: 0 where they are exact, 0.001 at most, and more only where "
        "there are more than two million values to keep"
    ),
}
RATE: Answer = {
    "database": _text(_DATABASE),
    "bucket": _time("beginning of the bucket"),
    "queue": _text("of the messages; null for operations on keys"),
    "operation": _text("ADD, DELIVER, DELETE; PUT, DROP: on the application's keys"),
    "operations": _long("how many; what compaction wrote again is not counted again"),
    "bytes": _long(
        "of the payloads that came (ADD) or went (DELIVER, DELETE; 0 where the ADD is not there), of the values (PUT)"
    ),
}
BACKLOG: Answer = {
    "database": _text(_DATABASE),
    "bucket": _time("beginning of the bucket"),
    "queue": _text("of the messages"),
    "undelivered": _long("messages that are undelivered at the end of the bucket"),
    "undelivered_bytes": _long("bytes of their payloads; 0 for a message whose ADD is not there"),
}
RETENTION: Answer = {
    "database": _text(_DATABASE),
    "sequence": _long("number of the data file"),
    "file": _text("its name"),
    "active": _flag("whether it is still being written"),
    "bytes": _long("its size; of the active one, how far it is known durable"),
    "live_bytes": _long("payload and properties of its undelivered messages"),
    "dead_bytes": _long("all else in it"),
    "live_messages": _long("its undelivered messages"),
    "live_keys": _long("keys whose latest version it holds, the engine's own left out"),
    "needed": _flag("whether it holds anything that is needed"),
    "pinned_by": _text("what keeps it: message or key; null where nothing does"),
    "pin_message": _long("number of its oldest undelivered message"),
    "pin_queue": _text("the queue of that message"),
    "pin_key": _text("the first of its live keys, where no message keeps it"),
    "pin_age_seconds": _double("how long ago, at `now`, the message was added or the key was written into this file"),
    "pins_files": _long("later files that hold nothing needed, and stay because of this one"),
    "freed_by_compact": _long("bytes of it that compaction would free, 0 where it would leave the file alone"),
}
COMMITS: Answer = {
    "database": _text(_DATABASE),
    "bucket": _time("beginning of the bucket"),
    "writes": _long("groups of commits that became durable together: commits of one data file with the same time"),
    "commits": _long("how many, clean-up's own included"),
    "operations": _long("how many, what compaction wrote again included"),
    "moved": _long("of these, what compaction wrote again"),
    "bytes": _long("of payloads and values"),
    "commits_per_write": _double("mean; above 1 callers share a write"),
    "commits_per_write_max": _long("the most"),
    "operations_per_commit": _double("mean"),
    "operations_per_commit_max": _long("the most"),
    "bytes_per_commit": _double("mean of the bytes of payloads and values"),
    "bytes_per_commit_max": _long("the most"),
    "gap_p50_seconds": _double(
        "from one write to the next, which is the one that counts here: half of the gaps are not longer; null where "
        "no write is before the first one; its rank is off by at most one in 10,000 of them"
    ),
    "gap_p99_seconds": _double("likewise, 99 in a hundred"),
    "gap_max_seconds": _double("the longest; exact"),
}
DUPLICATES: Answer = {
    "kind": _text("producer: added under the same identifier by different commits; payload: the same payload"),
    "database": _text(_DATABASE),
    "queue": _text("of all the messages"),
    "producer": _text("the identifier; null for the kind payload"),
    "hash": _long("XXH3-64 of the payload, as a signed number; null for the kind producer"),
    "length": _long("bytes of the payload; null for the kind producer"),
    "messages": _long("how many messages there are"),
    "commits": _long("how many commits added them; null for the kind payload"),
    "same_payloads": _flag(
        "whether every commit brought the same payloads: then it was sent again, else the identifier was used again "
        "for something else"
    ),
    "first_message": _long("lowest number of the messages"),
    "last_message": _long("highest number of the messages"),
    "first_time": _time("when the first was added"),
    "last_time": _time("when the last was added"),
}
FILES: Answer = {column.name: Column(column.arrow_type, column.meaning) for column in schema.FILES}
ANSWERS: Mapping[str, Answer] = {
    "files": FILES,
    "lifecycle": LIFECYCLE,
    "latency_histogram": HISTOGRAM,
    "latency_over_time": LATENCY,
    "rate": RATE,
    "backlog": BACKLOG,
    "retention": RETENTION,
    "commits": COMMITS,
    "duplicates": DUPLICATES,
}


def schema_of(answer: Answer) -> pa.Schema:
    """Return the Arrow schema of an answer, each column with its meaning."""
    return pa.schema(
        [pa.field(name, column.type, metadata={COMMENT: column.meaning}) for name, column in answer.items()]
    )


def meanings_of(answer: Answer) -> dict[str, str]:
    """Return what the columns of an answer mean, in their order."""
    return {name: column.meaning for name, column in answer.items()}
