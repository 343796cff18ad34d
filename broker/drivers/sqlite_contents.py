"""Reading an SQLite store: what it holds, in batches that are bounded by count and by bytes.

An SQLite store that is unloaded: PSTORE-TYPE=SQLITE, read only, so that neither file nor log is changed.

A reader of the write-ahead log keeps a lock on the file as long as it is open, and a broker takes it for itself alone:
while one has it the other is refused.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.driver import nothing_to_unload
from oms_journal.broker.drivers.sqlite_commit import check_ours, decode_digest
from oms_journal.broker.store.start import MessageUnreadable, StartRefused, StoreUnavailable, Values
from oms_journal.broker.store.stored import StoredIdentifier, StoredMessage
from oms_journal.journal.format.records import decode_properties

AT_ONCE = 10_000  # rows of little read in one go
AT_ONCE_BYTES = 4 << 20  # of payloads
_MESSAGE = "number, queue, payload, properties, added, producer"


class SqliteContents:
    """What both the store and the source that is unloaded answer. StoreUnavailable of everything."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._lock = threading.RLock()  # guards the connection
        self._connection = connection
        self._away = ""  # why nothing can be done

    def _rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with self._lock:
            if self._away:
                raise StoreUnavailable(self._away)
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as failure:
                raise StoreUnavailable(f"the persistent store cannot be read: {failure}") from failure

    def _number(self, sql: str) -> int:
        rows = self._rows(sql)
        if len(rows) != 1:
            raise StoreUnavailable(f"the persistent store has {len(rows)} rows where it counts")
        return _whole(rows[0][0])

    def read(self, number: int) -> StoredMessage:
        rows = self._rows(f"SELECT {_MESSAGE} FROM messages WHERE number = ?", number)
        if not rows:
            raise MessageUnreadable(f"no undelivered message has number {number}")
        return _stored(rows[0])

    def record(self, key: str) -> bytes | None:
        rows = self._rows("SELECT value FROM records WHERE key = ?", key.encode())
        return _bytes(rows[0][0]) if rows else None

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        for batch in self.values(prefix):
            yield from zip(map(_key, batch.keys), batch.values, strict=True)

    def values(self, prefix: str) -> Iterator[Values]:
        start, comparison = prefix.encode(), ">="
        while True:
            sql = f"SELECT key, value FROM records WHERE key {comparison} ? AND key < ? ORDER BY key LIMIT {AT_ONCE}"
            rows = self._rows(sql, start, prefix.encode() + b"\xff")  # no name in UTF-8 has this byte
            if not rows:
                return
            keys, values = [_bytes(key) for key, _ in rows], [_bytes(value) for _, value in rows]
            yield Values(keys, values)
            start, comparison = keys[-1], ">"

    def messages(self) -> Iterator[StoredMessage]:
        last = 0
        while sizes := self._rows(
            "SELECT number, coalesce(length(payload), 0) FROM messages WHERE number > ? ORDER BY number LIMIT 1000",
            last,
        ):
            last = _end_of_batch(sizes, last)
            sql = f"SELECT {_MESSAGE} FROM messages WHERE number BETWEEN ? AND ? ORDER BY number"
            yield from map(_stored, self._rows(sql, sizes[0][0], last))

    def identifiers(self) -> Iterator[StoredIdentifier]:
        last = 0
        while rows := self._rows(
            f"SELECT place, queue, producer, first, digest, added FROM producers WHERE place > ? LIMIT {AT_ONCE}", last
        ):
            for place, queue, producer, first, told, added in rows:
                count, number = decode_digest(_bytes(told))
                yield StoredIdentifier(_text(queue), _text(producer), _whole(first), count, number, _whole(added))
                last = _whole(place)

    def highest(self) -> int:
        return self._number("SELECT next_number FROM counters") - 1

    def is_empty(self) -> bool:
        return not self._rows("SELECT 1 FROM messages UNION SELECT 1 FROM records LIMIT 1")

    def record_count(self) -> int:
        return self._number("SELECT count(*) FROM records")

    def message_count(self) -> int:
        return self._number("SELECT count(*) FROM messages")


def _end_of_batch(sizes: Sequence[tuple[object, ...]], last: int) -> int:
    """Return the number of the last message that is read with the first one."""
    total = 0
    for number, size in sizes:
        total += _whole(size)
        if total > AT_ONCE_BYTES and number != sizes[0][0]:
            break
        last = _whole(number)
    return last


def _stored(row: Sequence[object]) -> StoredMessage:
    number, queue, payload, properties, added, producer = row
    try:
        return StoredMessage(
            number=_whole(number),
            queue=_text(queue),
            payload=_bytes(payload),
            properties=decode_properties(_bytes(properties)),
            added=_whole(added),
            producer=None if producer is None else _text(producer),
        )
    except (StoreUnavailable, ValueError) as failure:
        raise MessageUnreadable(f"message {number} cannot be read: {failure}") from None


# SQLite holds anything in any column: what is read is what somebody has written there.


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise StoreUnavailable("the persistent store has no number where there should be one")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise StoreUnavailable("the persistent store has no text where there should be some")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise StoreUnavailable("the persistent store has no bytes where there should be some")
    return value


def _key(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise StoreUnavailable("the persistent store has a key that is not UTF-8") from None


class SqliteSource(SqliteContents):
    """What is read of a store while it is moved. Made by `open`."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.place = str(file)
        self.identity = ""  # the file has none of its own

    @classmethod
    def open(cls, file: str | Path) -> "SqliteSource":
        """Open the file for reading, and keep everybody from writing it. StartRefused."""
        path = Path(file).absolute()
        if not path.exists():
            raise nothing_to_unload(path)
        try:
            connection = sqlite3.connect(
                f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=0
            )
            try:
                check_ours(connection, path)
                connection.execute("BEGIN")
                connection.execute("SELECT commits FROM counters").fetchall()  # one picture from here on
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as failure:
            raise StartRefused(
                Code.RESTART_FAILED, f"the persistent store {path} cannot be unloaded: {failure}"
            ) from failure

    def close(self) -> None:
        with self._lock:
            self._away = self._away or "the persistent store was closed"
            self._connection.close()
