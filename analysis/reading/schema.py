"""The columns of the tables that a journal is read as: names, types, and what they mean."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from oms_journal.journal.errors import JournalError

Micros = int  # microseconds since 1970-01-01 UTC
Range = tuple[int, int]  # lowest and highest, both included

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())
TIME_MIN: Micros = -62_135_596_800_000_000  # 0001-01-01 00:00, the first that Spark can show
TIME_MAX: Micros = 253_402_300_799_999_999  # the end of 9999-12-31, the last

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": TIME,
    "map<string,string>": TEXTS,
    "binary": pa.binary(),
}


class UnknownColumn(JournalError):
    """A schema names a column that the table does not have, or has under another type."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. Every column may be null in principle; `meaning` says when it is."""

    name: str
    spark_type: str
    meaning: str
    option: str = ""  # the option that puts it into the default schema; "" where it is there always

    @property
    def arrow_type(self) -> pa.DataType:
        """The one type that Spark takes a batch's column in."""
        return _TYPES[self.spark_type]


OPERATIONS = (
    Column("database", "string", "identity of the database, 32 hexadecimal digits"),
    Column("sequence", "bigint", "number of the data file, from 1"),
    Column("offset", "bigint", "where in the data file the commit's frame starts, in bytes"),
    Column("owner", "bigint", "number of the opening that wrote the data file, from 1"),
    Column("commit", "bigint", "number of the commit; ascends in the order of the journal, with jumps"),
    Column("operation", "string", "ADD, DELIVER, DELETE, PUT or DROP"),
    Column("message", "bigint", "number of the message; null for PUT and DROP"),
    Column("queue", "string", "queue of the message; null for PUT and DROP"),
    Column("key", "string", "key of a PUT or DROP, else null; the engine's own begin with the character 0"),
    Column("time", "timestamp", "when it was committed, by the writer's clock, in microseconds; from year 1 to 9999"),
    Column(
        "first_time",
        "timestamp",
        "ADD: when the message was first added (time, unless it was moved), in microseconds; else null",
    ),
    Column("moved", "boolean", "ADD or PUT: compaction wrote it again, it was there before; false for the others"),
    Column("producer", "string", "ADD: the producer's identifier, null where it has none; null for the others"),
    Column("length", "bigint", "ADD: bytes of the payload without properties; PUT: of the value; else null"),
    Column(
        "hash",
        "bigint",
        "ADD: XXH3 (64 bits) of the payload without properties; PUT: of the value; a signed number; null where it "
        "cannot be told, and for others",
    ),
    Column("due", "timestamp", "ADD: not handed out before this time; null for none, and for others", option="terms"),
    Column(
        "expiry", "timestamp", "ADD: not handed out from this time on; null for none, and for others", option="terms"
    ),
    Column(
        "attempts",
        "bigint",
        "ADD: how often it had been handed out before; null where none is told, and for others",
        option="terms",
    ),
    Column(
        "group",
        "string",
        "ADD: its group of messages that go one after another; null for none, and for others",
        option="terms",
    ),
    Column("file", "string", "name of the data file or archive", option="file"),
    Column(
        "missing",
        "bigint",
        "GAP: how many commits are missing, at most: their numbers have jumps; null for the others",
        option="onMissing",
    ),
    Column(
        "properties",
        "map<string,string>",
        "ADD: the message's properties, verified; null where they are damaged; null for the others",
        option="properties",
    ),
    Column(
        "payload",
        "binary",
        "ADD: the payload, verified; PUT: the value; null where it is damaged; null for the others",
        option="payload",
    ),
    Column(
        "properties_length",
        "bigint",
        "ADD: bytes of the properties as they are stored, 0 for none; else null",
        option="properties_length",
    ),
)
DAMAGE = (
    Column("database", "string", "identity of the database, 32 hexadecimal digits; null where it cannot be known"),
    Column("file", "string", "name of the data file or archive"),
    Column("sequence", "bigint", "number of the data file"),
    Column("start", "bigint", "first byte of the range that is bad; of a bad payload, of its commit's frame"),
    Column("end", "bigint", "first byte behind it; start where nothing of the file's structure is bad"),
    Column(
        "kind",
        "string",
        "torn: a write that was interrupted, promised to nobody; damaged: promised, and bad; gap: lost in an earlier"
        " repair; missing: a file that its neighbours name is not there; gone: it was removed while this was read;"
        " unreadable: the device fails to read it",
    ),
    Column("reason", "string", "what is wrong there, in words"),
    Column("archive", "string", "gap: name of the archive that holds what was there, null where it is not told"),
)
FILES = (
    Column("database", "string", "identity of the database, 32 hexadecimal digits"),
    Column("file", "string", "name of the data file or archive"),
    Column("sequence", "bigint", "number of the data file"),
    Column("bytes", "bigint", "size of the file; while it is written to, up to where it is known to be durable"),
    Column("rows", "bigint", "operations in it"),
    Column("first_time", "timestamp", "the earliest time of a commit in it; null where it has none"),
    Column("last_time", "timestamp", "the latest time of a commit in it; null where it has none"),
    Column(
        "sealed",
        "boolean",
        "it ends with a footer, and will not be written to any more; the table of damage says whether that is good",
    ),
    Column(
        "retained", "boolean", "it is not needed any more, whatever is in it: below the low-water mark of its database"
    ),
)
TABLES = {"operations": OPERATIONS, "damage": DAMAGE, "files": FILES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which columns of which operations are to be read. None means all; a range includes both its ends."""

    columns: tuple[str, ...] = tuple(column.name for column in OPERATIONS if not column.option)
    since: Micros | None = None  # by the time of the commit, included
    until: Micros | None = None  # not included
    queues: frozenset[str] | None = None  # leaves out PUT and DROP, which have no queue
    operations: frozenset[str] | None = None
    sequences: Range | None = None
    commits: Range | None = None

    def takes_sequence(self, sequence: int) -> bool:
        """Say whether rows of this data file may be wanted."""
        return self.sequences is None or self.sequences[0] <= sequence <= self.sequences[1]


def default_columns(table: str = "operations", options: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of a table's columns, in order, with those that the options ask for."""
    chosen = {"", *options}
    return tuple(column.name for column in TABLES[table] if column.option in chosen)


def ddl(columns: Iterable[str], table: str = "operations") -> str:
    """Return the columns as Spark's DDL, each with its meaning as a comment; UnknownColumn."""
    found = [_column(name, table) for name in columns]
    return ", ".join(f"`{column.name}` {column.spark_type} COMMENT {_quoted(column.meaning)}" for column in found)


def arrow_schema(columns: Iterable[str], table: str = "operations") -> pa.Schema:
    """Return the Arrow schema of these columns, as Spark expects it; UnknownColumn."""
    found = [_column(name, table) for name in columns]
    return pa.schema([pa.field(column.name, column.arrow_type) for column in found])


def _column(name: str, table: str) -> Column:
    for column in TABLES[table]:
        if column.name == name:
            return column
    known = ", ".join(column.name for column in TABLES[table])
    raise UnknownColumn(f"the table {table!r} has no column {name!r}; it has {known}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
