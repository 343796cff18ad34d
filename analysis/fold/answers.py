"""The tables that a fold answers with: their columns, types and meanings, in order."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.schema import TIME

COMMENT = b"comment"  # of a field's metadata: what it means
DATABASE = "identity of the database, 32 hexadecimal digits"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer."""

    type: pa.DataType
    meaning: str


def text(meaning: str) -> Column:
    return Column(pa.string(), meaning)


def long(meaning: str) -> Column:
    return Column(pa.int64(), meaning)


def double(meaning: str) -> Column:
    return Column(pa.float64(), meaning)


def time(meaning: str) -> Column:
    return Column(TIME, meaning)


def flag(meaning: str) -> Column:
    return Column(pa.bool_(), meaning)


Answer = Mapping[str, Column]

LIFECYCLE: Answer = {
    "database": text(DATABASE),
    "queue": text("of the messages"),
    "added": long("messages that were added; a copy that compaction made is not a second one"),
    "added_before": long("messages that ended, and were added in data files that are not there"),
    "delivered": long("messages that were delivered"),
    "deleted": long("messages that were removed undelivered"),
    "expired": long(
        "of the deleted ones, those whose DELETE was at or after their expiry, by the writer's clock; of one that was "
        "added in a data file that is not there it is not known"
    ),
    "dead_lettered": long(
        "of the deleted ones, those that were moved to the dead letters: their DELETE is in one commit with an ADD "
        "that tells of attempts, as a dead letter does; one that was moved since it had expired counts as expired too"
    ),
    "undelivered": long("messages that are there: added + added_before - delivered - deleted"),
    "undelivered_bytes": long("bytes of their payloads"),
    "p50_seconds": double(
        "from ADD, or from when it was due, to DELIVER: half of the delivered messages are not slower; null where none "
        "is known; its rank is off by at most one in 10,000 of them"
    ),
    "p90_seconds": double("likewise, nine in ten"),
    "p99_seconds": double("likewise, 99 in a hundred"),
    "max_seconds": double("likewise, the slowest; exact"),
    "oldest": long("number of the oldest undelivered message, null for none"),
    "oldest_added": time("when it was added first"),
    "oldest_age_seconds": double("how long ago that is at `now`"),
}
HISTOGRAM: Answer = {
    "database": text(DATABASE),
    "queue": text("of the messages"),
    "bin": long("number of the bin; null for messages that were delivered within a microsecond"),
    "from_seconds": double("from ADD, or from when it was due, to DELIVER: where the bin begins"),
    "to_seconds": double("where it ends, which is no longer in it"),
    "messages": long("delivered messages whose latency lies in the bin"),
}
COUNTS: Answer = {
    "database": text(DATABASE),
    "queue": text("of the messages; null for operations on keys"),
    "operation": text("ADD, DELIVER, DELETE; PUT, DROP: on the application's keys"),
    "operations": long("how many, what compaction wrote again included"),
    "moved": long("of these, what compaction wrote again"),
    "bytes": long("of the payloads that came (ADD), of the values (PUT); 0 for the others"),
}
LATENCY: Answer = {
    "database": text(DATABASE),
    "bucket": time("beginning of the bucket"),
    "queue": text("of the messages"),
    "messages": long("that were delivered in the bucket, and whose ADD is known"),
    "p50_seconds": double(
        "from ADD, or from when it was due, to DELIVER: half of them are not slower; its rank is off by at most "
        "`rank_error`"
    ),
    "p90_seconds": double("likewise, nine in ten"),
    "p99_seconds": double("likewise, 99 in a hundred"),
    "max_seconds": double("likewise, the slowest; exact"),
    "rank_error": double(
        "of these percentiles, as a share of the messages: 0 where they are exact, 0.001 at most, and more only where "
        "there are more than two million values to keep"
    ),
}
RATE: Answer = {
    "database": text(DATABASE),
    "bucket": time("beginning of the bucket"),
    "queue": text("of the messages; null for operations on keys"),
    "operation": text("ADD, DELIVER, DELETE; PUT, DROP: on the application's keys"),
    "operations": long("how many; what compaction wrote again is not counted again"),
    "bytes": long(
        "of the payloads that came (ADD) or went (DELIVER, DELETE; 0 where the ADD is not there), of the values (PUT)"
    ),
}
BACKLOG: Answer = {
    "database": text(DATABASE),
    "bucket": time("beginning of the bucket"),
    "queue": text("of the messages"),
    "undelivered": long("messages that are undelivered at the end of the bucket"),
    "undelivered_bytes": long("bytes of their payloads; 0 for a message whose ADD is not there"),
}
RETENTION: Answer = {
    "database": text(DATABASE),
    "sequence": long("number of the data file"),
    "file": text("its name"),
    "active": flag("whether it is still being written"),
    "bytes": long("its size; of the active one, how far it is known durable"),
    "live_bytes": long("payload and properties of its undelivered messages"),
    "dead_bytes": long("all else in it"),
    "live_messages": long("its undelivered messages"),
    "live_keys": long("keys whose latest version it holds, the engine's own left out"),
    "needed": flag("whether it holds anything that is needed"),
    "pinned_by": text("what keeps it: message or key; null where nothing does"),
    "pin_message": long("number of its oldest undelivered message"),
    "pin_queue": text("the queue of that message"),
    "pin_key": text("the first of its live keys, where no message keeps it"),
    "pin_age_seconds": double("how long ago, at `now`, the message was added or the key was written into this file"),
    "pins_files": long("later files that hold nothing needed, and stay because of this one"),
    "freed_by_compact": long("bytes of it that compaction would free, 0 where it would leave the file alone"),
}
COMMITS: Answer = {
    "database": text(DATABASE),
    "bucket": time("beginning of the bucket"),
    "writes": long("groups of commits that became durable together: commits of one data file with the same time"),
    "commits": long("how many, clean-up's own included"),
    "operations": long("how many, what compaction wrote again included"),
    "moved": long("of these, what compaction wrote again"),
    "bytes": long("of payloads and values"),
    "commits_per_write": double("mean; above 1 callers share a write"),
    "commits_per_write_max": long("the most"),
    "operations_per_commit": double("mean"),
    "operations_per_commit_max": long("the most"),
    "bytes_per_commit": double("mean of the bytes of payloads and values"),
    "bytes_per_commit_max": long("the most"),
    "gap_p50_seconds": double(
        "from one write to the next, which is the one that counts here: half of the gaps are not longer; null where "
        "no write is before the first one; its rank is off by at most one in 10,000 of them"
    ),
    "gap_p99_seconds": double("likewise, 99 in a hundred"),
    "gap_max_seconds": double("the longest; exact"),
}
DUPLICATES: Answer = {
    "kind": text("producer: added under the same identifier by different commits; payload: the same payload"),
    "database": text(DATABASE),
    "queue": text("of all the messages"),
    "producer": text("the identifier; null for the kind payload"),
    "hash": long("XXH3-64 of the payload, as a signed number; null for the kind producer"),
    "length": long("bytes of the payload; null for the kind producer"),
    "messages": long("how many messages there are"),
    "commits": long("how many commits added them; null for the kind payload"),
    "same_payloads": flag(
        "whether every commit brought the same payloads: then it was sent again, else the identifier was used again "
        "for something else"
    ),
    "first_message": long("lowest number of the messages"),
    "last_message": long("highest number of the messages"),
    "first_time": time("when the first was added"),
    "last_time": time("when the last was added"),
}
FILES: Answer = {column.name: Column(column.arrow_type, column.meaning) for column in schema.FILES}
LOSSES: Answer = {
    "database": text(DATABASE),
    "operation": text("ADD, DELIVER, DELETE; PUT, DROP: on the application's keys"),
    "queue": text("of the message; null for PUT, DROP"),
    "message": long("number of the message; null for PUT, DROP"),
    "key": text("the key; null but for PUT, DROP"),
    "effect": text("message lost, already ended, undelivered again, ended twice, older value, none"),
    "time": time("of the commit"),
    "first_time": time("when the message was added first; null but for ADD"),
    "length": long("bytes of the payload or value; null for others"),
    "sequence": long("data file that it stood in"),
    "offset": long("of its frame, bytes"),
    "owner": long("number of the opening that wrote it"),
    "commit": long("number of the commit"),
    "file": text("name of the archive, the first of several that hold it; null where `archived` has no such column"),
}
LOSSES_BY_QUEUE: Answer = {
    "database": text(DATABASE),
    "queue": text("of the messages; null for operations on keys"),
    "operation": text("ADD, DELIVER, DELETE, PUT, DROP"),
    "effect": text("as in `losses`"),
    "operations": long("how many were lost"),
    "bytes": long("of their payloads or values"),
    "first_time": time("time of the first one's commit"),
    "last_time": time("time of the last one's commit"),
}
DAMAGE: Answer = {column.name: Column(column.arrow_type, column.meaning) for column in schema.DAMAGE}
ANSWERS: Mapping[str, Answer] = {
    "files": FILES,
    "counts": COUNTS,
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
