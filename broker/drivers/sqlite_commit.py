"""What one commit does in an SQLite store, inside a transaction: the tables, and the changes as statements.

Limits and the window of producers' identifiers are those of the message database.

The file of an SQLite store: made, marked as ours, and opened for one process alone.

Write-ahead log, a sync for every commit, and pages that can be given back to the file system.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from oms_journal.broker.store.changes import NUMBER_BYTES, Changes, NewMessage, Put
from oms_journal.broker.store.start import CommitRefused, ProducerReused
from oms_journal.broker.store.stored import LastNumber, Loaded, StoredIdentifier, StoredMessage, StoredRecord
from oms_journal.index.duplicates import digest
from oms_journal.journal.format.frames import OPERATIONS_MAX
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.operations import VALUE_BYTES_MAX, check_size, encode_name

SCHEMA = (
    "CREATE TABLE messages (number INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload BLOB NOT NULL, "
    "properties BLOB NOT NULL, added INTEGER NOT NULL, producer TEXT)",
    "CREATE TABLE records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE producers (place INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, producer TEXT NOT NULL, "
    "first INTEGER NOT NULL, digest BLOB NOT NULL, added INTEGER NOT NULL, UNIQUE (queue, producer))",
    "CREATE TABLE counters (next_number INTEGER NOT NULL, commits INTEGER NOT NULL)",
    "INSERT INTO counters VALUES (1, 0)",
)

_SOME = "some of the commit was sent before, the rest was not; nothing was written"
_REMEMBER = "REPLACE INTO producers (queue, producer, first, digest, added) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is refused, and how long a producer's identifier is remembered."""

    message_bytes_max: int = 6_144_000  # properties included
    producers_max: int = 100_000
    producer_seconds: float = 3600.0


def apply_changes(connection: sqlite3.Connection, changes: Changes, *, limits: Limits, now: int) -> int:
    """Do what the changes say; return the first added message's number, 0 for none.

    CommitRefused, LimitExceeded, InvalidName: the caller rolls back.
    """
    encoded = [_checked(message, limits) for message in changes.adds]
    removed = [*changes.delivered, *changes.deleted]
    operations = len(encoded) + len(changes.puts) + len(changes.drops) + sum(map(len, removed))
    if operations > OPERATIONS_MAX:
        raise CommitRefused(f"a commit of {operations} operations, at most {OPERATIONS_MAX} are allowed")
    if changes.producer is not None:
        known = _known(connection, changes, limits, now)
        if known:
            return known
    for numbers in removed:
        _remove(connection, numbers)
    first = _add(connection, changes, encoded, now) if encoded else 0
    for put in changes.puts:
        value = _filled(put, first, len(encoded))
        check_size(len(value), VALUE_BYTES_MAX, "value")
        connection.execute("REPLACE INTO records VALUES (?, ?)", (encode_name(put.key, "key"), value))
    for key in changes.drops:
        connection.execute("DELETE FROM records WHERE key = ?", (encode_name(key, "key"),))
    if changes.producer is not None and encoded:
        _remember(connection, changes, first, limits, now)
    return first


def insert(connection: sqlite3.Connection, record: Loaded, limits: Limits) -> None:
    """Take in what was loaded, as it is. CommitRefused, LimitExceeded, InvalidName, ValueError."""
    match record:
        case StoredMessage():
            _insert_message(connection, record, limits)
        case StoredRecord():
            connection.execute("REPLACE INTO records VALUES (?, ?)", (record.key.encode(), record.value))
        case StoredIdentifier():
            told = encode_digest(record.messages, record.digest)
            row = (record.queue, record.producer, record.first, told, record.added)
            connection.execute(
                "REPLACE INTO producers (queue, producer, first, digest, added) VALUES (?, ?, ?, ?, ?)", row
            )
        case LastNumber():
            connection.execute("UPDATE counters SET next_number = max(next_number, ?)", (record.number + 1,))


def _insert_message(connection: sqlite3.Connection, message: StoredMessage, limits: Limits) -> None:
    """Take in a message as it is, behind every number that the store has given."""
    properties = _checked(NewMessage(message.queue, message.payload, message.properties), limits)
    (following,) = connection.execute("SELECT next_number FROM counters").fetchone()
    if message.number < following:
        raise ValueError(f"messages are loaded in the order of their numbers, behind {following - 1}")
    row = (message.number, message.queue, message.payload, properties, message.added, message.producer)
    connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("UPDATE counters SET next_number = ?", (message.number + 1,))


def _checked(message: NewMessage, limits: Limits) -> bytes:
    """Return the message's properties as bytes, having checked it."""
    encode_name(message.queue, "queue name")
    properties = encode_properties(message.properties) if message.properties else b""
    check_size(len(message.payload) + len(properties), limits.message_bytes_max, "message with its properties")
    return properties


def _remove(connection: sqlite3.Connection, numbers: range) -> None:
    if not numbers:
        return
    assert numbers.step == 1, "messages of a unit of work are neighbours"
    sql = "DELETE FROM messages WHERE number BETWEEN ? AND ?"
    removed = connection.execute(sql, (numbers.start, numbers.stop - 1)).rowcount
    if removed != len(numbers):
        raise CommitRefused(f"{len(numbers) - removed} of the messages from {numbers.start} on are gone")


def _add(connection: sqlite3.Connection, changes: Changes, properties: Sequence[bytes], now: int) -> int:
    (first,) = connection.execute("SELECT next_number FROM counters").fetchone()
    rows = [
        (first + place, message.queue, bytes(message.payload), encoded, now, changes.producer)
        for place, (message, encoded) in enumerate(zip(changes.adds, properties, strict=True))
    ]
    connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("UPDATE counters SET next_number = ?", (first + len(rows),))
    return int(first)


def _filled(put: Put, first: int, count: int) -> bytes:
    """Return the value with the numbers of the commit's messages where they belong."""
    if not put.numbers_at:
        return bytes(put.value)
    value = bytearray(put.value)
    for at, place in put.numbers_at.items():
        if not 0 <= at <= len(value) - NUMBER_BYTES or not 0 <= place < count:
            raise ValueError(f"numbers_at {{{at}: {place}}}: there is no such message, or no room in the value")
        value[at : at + NUMBER_BYTES] = (first + place).to_bytes(NUMBER_BYTES, "little")
    return bytes(value)


# Producers' identifiers.


def encode_digest(messages: int, number: int) -> bytes:
    """Return what is kept of the payloads under an identifier: how many, and a digest of them."""
    return messages.to_bytes(4, "little") + number.to_bytes(8, "little")


def decode_digest(told: bytes) -> tuple[int, int]:
    """Return how many payloads there were, and the digest of them.

    Stores of before loads kept the hashes of all: eight bytes each, so that the two are told apart by their length.
    """
    if len(told) % 8 == 0:
        return len(told) // 8, digest([int.from_bytes(told[at : at + 8], "little") for at in range(0, len(told), 8)])
    return int.from_bytes(told[:4], "little"), int.from_bytes(told[4:], "little")


def _parts(changes: Changes) -> Iterator[tuple[int, str, bytes]]:
    """Yield for each queue the place of its first message, its name, and the digest of its messages."""
    place = 0
    for queue, messages in groupby(changes.adds, key=lambda message: message.queue):
        hashes = [xxh3(message.payload) for message in messages]
        yield place, queue, encode_digest(len(hashes), digest(hashes))
        place += len(hashes)


def _known(connection: sqlite3.Connection, changes: Changes, limits: Limits, now: int) -> int:
    """Return the first answer to a repeat, 0 for what is new."""
    encode_name(changes.producer or "", "producer identifier")
    if not changes.adds:
        return 0
    since, firsts = now - round(limits.producer_seconds * 1_000_000), set[int]()
    for place, queue, told in _parts(changes):
        found = connection.execute(
            "SELECT first, digest FROM producers WHERE queue = ? AND producer = ? AND added >= ?",
            (queue, changes.producer, since),
        ).fetchone()
        if found is not None and decode_digest(found[1]) != decode_digest(told):
            raise ProducerReused(f"producer identifier {changes.producer!r} was used for another payload")
        firsts.add(found[0] - place if found is not None else 0)
    if firsts == {0}:
        return 0
    if len(firsts) > 1:
        raise ProducerReused(_SOME)
    for numbers in (*changes.delivered, *changes.deleted):
        sql = "SELECT count(*) FROM messages WHERE number BETWEEN ? AND ?"
        if connection.execute(sql, (numbers.start, numbers.stop - 1)).fetchone()[0]:
            raise ProducerReused(_SOME)
    return firsts.pop()


def _remember(connection: sqlite3.Connection, changes: Changes, first: int, limits: Limits, now: int) -> None:
    for at, queue, told in _parts(changes):
        place = connection.execute(_REMEMBER, (queue, changes.producer, first + at, told, now)).lastrowid
        assert place is not None
        connection.execute("DELETE FROM producers WHERE place <= ?", (place - limits.producers_max,))


APPLICATION_ID = 0x4F4D5342  # OMSB
VERSION = 1
PAGE_BYTES = 4096


def open_file(path: Path, *, pages_max: int = 0, creates: bool = True) -> sqlite3.Connection:
    """Return the file opened for this process alone, made where `creates` says so; `pages_max` of 0 is no bound.

    sqlite3.Error, also for a file of somebody else's, and while another process has it.
    """
    mode = "rwc" if creates else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=0
    )
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: its plain sync stops at the device's cache
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("BEGIN EXCLUSIVE")  # the lock is kept from here on
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        else:
            check_ours(connection, path)
        connection.execute("COMMIT")
        if pages_max:
            connection.execute(f"PRAGMA max_page_count = {pages_max}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise sqlite3.DatabaseError where the file is somebody else's, or of another version."""
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (identity, version) != (APPLICATION_ID, VERSION):
        raise sqlite3.DatabaseError(f"{path} is no persistent store of this version")
