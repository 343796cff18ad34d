"""Beside other stores that live in a program: each commit durable, by turns in one process, on one disk.

`python -m bench --only embedded`. Each store is a queue: through the queue's own calls where it is one, by hand where
it is a table or keys in order. Each is opened so that a commit survives a power cut, and as its documents advise for
many small commits. A store that is not installed is left out, and its rows say so.
"""

import asyncio
import itertools
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from bench.callers import (
    QUEUE,
    Tasks,
    batch_cycle,
    cycle,
    frame_bytes,
    many_threads,
    one_caller,
    raw_journal,
    scratch,
)
from bench.measure import VARIATION_MOST, Rate, Row, Settings, alternate_quietly, rate_text, time_text, variation
from oms_journal import MessageDatabase

PAYLOAD = os.urandom(128).hex().encode("ascii")  # 256 bytes that are a text too, for the queue that takes texts
CALLERS = 16
BATCH = 64
AHEAD = 0.90  # less than a tenth behind is noise
CLEARED = 1000  # an acknowledged message of persist-queue stays until one clears them away
MAP_BYTES = 8 << 30  # LMDB's map: it never grows

_KEY_BYTES = 8


class Store(Protocol):
    """A queue in a store. Every call is durable on return."""

    def add(self) -> object:
        """Add a message."""

    def cycle(self) -> object:
        """Add a message, take the oldest one, deliver it."""

    def add_batch(self) -> object:
        """Add 64 messages, in one commit where the store can."""

    def cycle_batch(self) -> object:
        """Add 64 messages, take 64, deliver them, in as few commits as the store can."""

    def close(self) -> object:
        """Let go of the store."""


class Ours:
    """`MessageDatabase`."""

    def __init__(self, directory: Path) -> None:
        self.database = MessageDatabase.open(directory)
        self._payloads = [PAYLOAD] * BATCH

    def add(self) -> None:
        self.database.add(QUEUE, PAYLOAD)

    def cycle(self) -> None:
        cycle(self.database, PAYLOAD)

    def add_batch(self) -> None:
        self.database.add_many(QUEUE, self._payloads)

    def cycle_batch(self) -> None:
        batch_cycle(self.database, self._payloads)

    def close(self) -> None:
        self.database.close()


class Sqlite:
    """A table of SQLite. Threads share a connection, behind a lock: faster than one connection each."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._connection = sqlite3.connect(directory / "queue.sqlite", isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE queue (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
        ):
            self._connection.execute(statement)
        self._lock = threading.Lock()
        self._rows = [(PAYLOAD,)] * BATCH

    def add(self) -> None:
        with self._lock:
            self._connection.execute("INSERT INTO queue (payload) VALUES (?)", (PAYLOAD,))

    def _taken(self, count: int) -> list[tuple[int]]:
        found = self._connection.execute("SELECT number, payload FROM queue ORDER BY number LIMIT ?", (count,))
        return [(number,) for number, _ in found.fetchall()]

    def cycle(self) -> None:
        self.add()
        self._connection.execute("DELETE FROM queue WHERE number = ?", self._taken(1)[0])

    def _together(self, statement: str, rows: Sequence[tuple[object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")

    def add_batch(self) -> None:
        self._together("INSERT INTO queue (payload) VALUES (?)", self._rows)

    def cycle_batch(self) -> None:
        self.add_batch()
        self._together("DELETE FROM queue WHERE number = ?", self._taken(BATCH))

    def close(self) -> None:
        self._connection.close()


class LiteQueue:
    """litequeue. It takes texts, and a pop is a commit of its own."""

    def __init__(self, directory: Path) -> None:
        import litequeue

        directory.mkdir()
        self._queue: Any = litequeue.LiteQueue(directory / "queue.sqlite")
        self._queue.conn.execute("PRAGMA synchronous = FULL")
        self._lock = threading.Lock()
        self._text = PAYLOAD.decode("ascii")

    def add(self) -> None:
        with self._lock:
            self._queue.put(self._text)

    def cycle(self) -> None:
        self.add()
        self._queue.done(self._queue.pop().message_id)

    def add_batch(self) -> None:
        with self._queue.transaction():
            for _ in range(BATCH):
                self._queue.put(self._text)

    def cycle_batch(self) -> None:
        self.add_batch()
        taken = [self._queue.pop() for _ in range(BATCH)]
        with self._queue.transaction():
            for message in taken:
                self._queue.done(message.message_id)

    def close(self) -> None:
        self._queue.close()


class AckQueue:
    """SQLiteAckQueue of persist-queue. It has no batches, and a get is a commit of its own."""

    def __init__(self, directory: Path) -> None:
        import persistqueue

        self._queue: Any = persistqueue.SQLiteAckQueue(str(directory), multithreading=True)
        self._left = CLEARED

    def add(self) -> None:
        self._queue.put(PAYLOAD)

    def _deliver(self) -> None:
        self._queue.ack(id=self._queue.get(block=False, raw=True)["pqid"])
        self._left -= 1
        if not self._left:
            self._queue.clear_acked_data(max_delete=CLEARED, keep_latest=0)
            self._left = CLEARED

    def cycle(self) -> None:
        self.add()
        self._deliver()

    def add_batch(self) -> None:
        for _ in range(BATCH):
            self.add()

    def cycle_batch(self) -> None:
        self.add_batch()
        for _ in range(BATCH):
            self._deliver()

    def close(self) -> None:
        self._queue.close()


class Keyed(ABC):
    """A queue in a store of keys in order: ascending numbers are the keys, a take seeks behind the last one taken."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._after = self._key(0)

    @staticmethod
    def _key(number: int) -> bytes:
        return number.to_bytes(_KEY_BYTES, "big")

    @abstractmethod
    def _put(self, key: bytes) -> None:
        """Set the key to the payload, durably."""

    @abstractmethod
    def _delete(self, key: bytes) -> None:
        """Remove the key, durably."""

    @abstractmethod
    def _put_all(self, keys: Sequence[bytes]) -> None:
        """Set the keys to the payload in one durable commit."""

    @abstractmethod
    def _delete_all(self, keys: Sequence[bytes]) -> None:
        """Remove the keys in one durable commit."""

    @abstractmethod
    def _behind(self, key: bytes, count: int) -> list[bytes]:
        """Return the next keys behind that one; their values are read too."""

    def _taken(self, count: int) -> list[bytes]:
        keys = self._behind(self._after, count)
        assert len(keys) == count
        self._after = keys[-1]
        return keys

    def add(self) -> None:
        self._put(self._key(next(self._numbers)))

    def cycle(self) -> None:
        self.add()
        self._delete(self._taken(1)[0])

    def add_batch(self) -> None:
        self._put_all([self._key(next(self._numbers)) for _ in range(BATCH)])

    def cycle_batch(self) -> None:
        self.add_batch()
        self._delete_all(self._taken(BATCH))


class LevelDb(Keyed):
    """LevelDB, through plyvel."""

    def __init__(self, directory: Path) -> None:
        import plyvel

        super().__init__()
        self._store: Any = plyvel.DB(str(directory), create_if_missing=True)

    def _put(self, key: bytes) -> None:
        self._store.put(key, PAYLOAD, sync=True)

    def _delete(self, key: bytes) -> None:
        self._store.delete(key, sync=True)

    def _put_all(self, keys: Sequence[bytes]) -> None:
        with self._store.write_batch(sync=True) as batch:
            for key in keys:
                batch.put(key, PAYLOAD)

    def _delete_all(self, keys: Sequence[bytes]) -> None:
        with self._store.write_batch(sync=True) as batch:
            for key in keys:
                batch.delete(key)

    def _behind(self, key: bytes, count: int) -> list[bytes]:
        with self._store.iterator(start=key, include_start=False) as found:
            return [each for each, _ in itertools.islice(found, count)]

    def close(self) -> None:
        self._store.close()


class RocksDb(Keyed):
    """RocksDB, through rocksdict. A recycled log file is overwritten in place, so that its size need not be synced."""

    def __init__(self, directory: Path) -> None:
        import rocksdict

        super().__init__()
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_recycle_log_file_num(4)
        self._store: Any = rocksdict.Rdict(str(directory), options)
        writing = rocksdict.WriteOptions()
        writing.sync = True
        self._store.set_write_options(writing)
        self._batch: Callable[[], Any] = partial(rocksdict.WriteBatch, raw_mode=True)

    def _put(self, key: bytes) -> None:
        self._store.put(key, PAYLOAD)

    def _delete(self, key: bytes) -> None:
        self._store.delete(key)

    def _put_all(self, keys: Sequence[bytes]) -> None:
        batch = self._batch()
        for key in keys:
            batch.put(key, PAYLOAD)
        self._store.write(batch)

    def _delete_all(self, keys: Sequence[bytes]) -> None:
        batch = self._batch()
        for key in keys:
            batch.delete(key)
        self._store.write(batch)

    def _behind(self, key: bytes, count: int) -> list[bytes]:
        found = self._store.items(from_key=key + b"\0")
        return [each for each, _ in itertools.islice(found, count)]

    def close(self) -> None:
        self._store.close()


class Lmdb(Keyed):
    """LMDB."""

    def __init__(self, directory: Path) -> None:
        import lmdb

        super().__init__()
        self._store: Any = lmdb.open(str(directory), map_size=MAP_BYTES)

    def _put(self, key: bytes) -> None:
        with self._store.begin(write=True) as transaction:
            transaction.put(key, PAYLOAD)

    def _delete(self, key: bytes) -> None:
        with self._store.begin(write=True) as transaction:
            transaction.delete(key)

    def _put_all(self, keys: Sequence[bytes]) -> None:
        with self._store.begin(write=True) as transaction:
            for key in keys:
                transaction.put(key, PAYLOAD)

    def _delete_all(self, keys: Sequence[bytes]) -> None:
        with self._store.begin(write=True) as transaction:
            for key in keys:
                transaction.delete(key)

    def _behind(self, key: bytes, count: int) -> list[bytes]:
        with self._store.begin() as transaction:
            cursor = transaction.cursor()
            cursor.set_range(key + b"\0")
            return [bytes(each) for each, _ in itertools.islice(cursor, count)]

    def close(self) -> None:
        self._store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another store, how it is opened, and how far ours is to be ahead of it."""

    name: str
    open: Callable[[Path], Store]
    options: str
    package: str | None = None  # None is Python's own
    bound: float | None = None

    def version(self) -> str | None:
        """Return the version that is installed; None when none is."""
        if self.package is None:
            return sqlite3.sqlite_version
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


PEERS = (
    Peer(
        name="SQLite",
        open=Sqlite,
        options="a table, WAL, synchronous=FULL, one connection behind a lock",
        bound=AHEAD,
    ),
    Peer(
        name="litequeue",
        package="litequeue",
        open=LiteQueue,
        options="WAL, synchronous=FULL (its own is NORMAL), one connection behind a lock; put, pop, done commit each",
        bound=AHEAD,
    ),
    Peer(
        name="persist-queue",
        package="persist-queue",
        open=AckQueue,
        options="SQLiteAckQueue, multithreading=True, WAL, synchronous as SQLite has it (FULL); put, get and ack are "
        f"commits, batches are one by one, acknowledged ones are cleared away every {CLEARED:,}",
    ),
    Peer(
        name="LevelDB",
        package="plyvel",
        open=LevelDb,
        options="sync=True, otherwise its defaults",
        bound=AHEAD,
    ),
    Peer(
        name="RocksDB",
        package="rocksdict",
        open=RocksDb,
        options="raw_mode, sync=True, recycle_log_file_num=4",
    ),
    Peer(
        name="LMDB",
        package="lmdb",
        open=Lmdb,
        options=f"its defaults (sync, metasync), map_size={MAP_BYTES >> 30} GiB",
    ),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done to each store, and what is counted."""

    what: str
    rate: Callable[[Store], Rate]


def _singly(call: Callable[[Store], Callable[[], object]], times: int = 1) -> Callable[[Store], Rate]:
    """Return how to find how often a second one caller does it; a call counts so many times."""
    return lambda store: lambda seconds: times * one_caller(call(store), seconds)


CALLERS_ADD = "callers"
OPERATIONS = {
    "add": Operation("add", _singly(lambda store: store.add)),
    "cycle": Operation("cycle of add, take and deliver", _singly(lambda store: store.cycle)),
    CALLERS_ADD: Operation(
        f"add by {CALLERS} threads", lambda store: lambda seconds: many_threads(store.add, CALLERS, seconds)
    ),
    "batch": Operation(f"add of {BATCH} at once", _singly(lambda store: store.add_batch, BATCH)),
    "batch-cycle": Operation(f"cycle of {BATCH} at once", _singly(lambda store: store.cycle_batch, BATCH)),
}


def options() -> list[str]:
    """Return a line for each store: its version and how it is opened."""
    lines = []
    for peer in PEERS:
        through = f" through {peer.package}" if peer.package and peer.package != peer.name else ""
        lines.append(f"{peer.name}{through} {peer.version() or 'not installed'}: {peer.options}")
    return lines


def embedded(settings: Settings) -> Iterator[Row]:
    """Each operation in every store by turns, the raw loop of one write for one message first."""
    for name, operation in OPERATIONS.items():
        yield from _rows(settings, name, operation)


def _rows(settings: Settings, name: str, operation: Operation) -> Iterator[Row]:
    present = [peer for peer in PEERS if peer.version()]
    data = bytes(frame_bytes(settings.directory, lambda db: db.add(QUEUE, PAYLOAD)))
    with ExitStack() as stack:
        raw = stack.enter_context(raw_journal(settings.directory, settings.method))

        def opened(open_store: Callable[[Path], Store]) -> Store:
            return stack.enter_context(closing(open_store(scratch(settings.directory, "embedded"))))

        sides: dict[str, Rate] = {"raw": partial(raw.run, data), "ours": operation.rate(opened(Ours))}
        sides |= {peer.name: operation.rate(opened(peer.open)) for peer in present}
        if name == CALLERS_ADD:
            database = stack.enter_context(MessageDatabase.open(scratch(settings.directory, "embedded")))
            tasks = stack.enter_context(closing(Tasks(database, asyncio.new_event_loop())))
            sides["ours in asyncio"] = partial(tasks.rate, PAYLOAD, CALLERS)
        found = dict(zip(sides, alternate_quietly(settings, list(sides.values())), strict=True))
    sync = time_text([1 / rate for rate in found["raw"]])
    bounds = {"raw": None, **{peer.name: peer.bound for peer in PEERS}, "ours in asyncio": None}
    for side, bound in bounds.items():
        if side in found or side != "ours in asyncio":
            beside = f"one raw write each, {sync} a sync" if side == "raw" else side
            yield _row(name, f"{operation.what}, ours to {beside}", found, side, bound)


def _row(name: str, what: str, found: dict[str, list[float]], side: str, bound: float | None) -> Row:
    key = f"embedded-{name}-{side.lower().replace(' ', '-')}"
    if side not in found:
        return Row(name=key, what=what, measured=(), bound=bound, note="not installed")
    return Row(
        name=key,
        what=what,
        measured=[ours / theirs for ours, theirs in zip(found["ours"], found[side], strict=True)],
        bound=bound,
        raw=rate_text(found[side], "/s"),
        ours=rate_text(found["ours"], "/s"),
        is_too_busy=variation(found["raw"]) > VARIATION_MOST,
    )
