"""Both drivers of the broker's store, each with what a test does to it: kill it, lose it, fill the disk."""

import contextlib
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteOptions, SqliteStore
from oms_journal.broker.drivers.sqlite_commit import Limits
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import PersistentStore, Pstore, StartedStore, StoreStart, start_store
from oms_journal.broker.store.stored import StoredMessage
from oms_journal.database.options import Options
from tests.support.crashes.crash_model import SPOOL
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.watched_disk import HandClock

MESSAGE_BYTES_MAX = 100_000
FULL_PAGES = 60  # of an SQLite file that is to be filled


class Driver(Protocol):
    """A driver, and one store of it."""

    def open(self, *, creates: bool = True) -> PersistentStore:
        """Open the store."""

    def killed(self) -> "Driver":
        """Return the driver of what the death of the process leaves of the open store."""

    def fails(self) -> contextlib.AbstractContextManager[None]:
        """Let nothing be written in the block."""

    def fill(self) -> None:
        """Leave little room for messages in a store that is opened from now on."""

    def make_room(self, store: PersistentStore) -> None:
        """Let there be room again, in the open store."""


class JournalDriver:
    """The message database, on a disk that does as it is told."""

    def __init__(self, _path: Path, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk or SimulatedDisk()
        self.clock = HandClock()
        self._opened: list[JournalStore] = []

    def open(self, *, creates: bool = True) -> PersistentStore:
        options = Options(
            max_message_size=MESSAGE_BYTES_MAX, max_data_file_size=64 << 10, cleanup_interval=0, clock=self.clock
        )
        self._opened.append(JournalStore.open(SPOOL, options, disk=self.disk, creates=creates))
        return self._opened[-1]

    def killed(self) -> "JournalDriver":
        for store in self._opened:
            store._database._maintenance.stop()  # its thread dies with the process
        again = JournalDriver(SPOOL, self.disk.restart())
        again.clock = self.clock
        return again

    @contextlib.contextmanager
    def fails(self) -> Iterator[None]:
        for verb in ("write_durably", "write", "sync"):
            self.disk.fail_from(verb)
        try:
            yield
        finally:
            self.disk.faults.clear()

    def fill(self) -> None:
        self.disk.space = 2 << 20

    def make_room(self, store: PersistentStore) -> None:
        self.disk.space = None


class SqliteDriver:
    """SQLite, on the disk of the machine."""

    def __init__(self, path: Path) -> None:
        self.file = path / "store" / "broker.sqlite"
        self.clock = HandClock()
        self.pages_max = 0

    def open(self, *, creates: bool = True) -> PersistentStore:
        limits = Limits(message_bytes_max=MESSAGE_BYTES_MAX)
        options = SqliteOptions(limits=limits, reserve_bytes=64 << 10, pages_max=self.pages_max, clock=self.clock)
        return SqliteStore.open(self.file, options, creates=creates)

    def killed(self) -> "SqliteDriver":
        again = SqliteDriver(self.file.parent.parent / "again")
        again.clock, again.pages_max = self.clock, self.pages_max
        shutil.copytree(self.file.parent, again.file.parent)
        return again

    @contextlib.contextmanager
    def fails(self) -> Iterator[None]:
        """No file may be written: a write fails with EFBIG, which is no lack of space."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def fill(self) -> None:
        self.pages_max = FULL_PAGES

    def make_room(self, store: PersistentStore) -> None:
        assert isinstance(store, SqliteStore)
        store._connection.execute("PRAGMA max_page_count = 1000000")


DRIVERS = (JournalDriver, SqliteDriver)


def start(broker_id: str = "ETB001", pstore: Pstore = Pstore.WARM, **fields: object) -> StoreStart:
    made = {"broker_id": broker_id, "pstore": pstore, "now": 1_700_000_000_000_000, "platform": "Linux x86_64"} | fields
    return StoreStart(**made)  # type: ignore[arg-type]


def begun(
    store: PersistentStore, broker_id: str = "ETB001", pstore: Pstore = Pstore.WARM, **fields: object
) -> StartedStore:
    return start_store(store, start(broker_id, pstore, **fields))


def added(*payloads: bytes, queue: str = "C/S/V", **fields: object) -> Changes:
    return Changes(adds=[NewMessage(queue, payload) for payload in payloads], **fields)  # type: ignore[arg-type]


def put(key: str, value: bytes) -> Changes:
    return Changes(puts=[Put(key, value)])


def contents(store: PersistentStore) -> tuple[list[StoredMessage], dict[str, bytes]]:
    """Return all that the store holds, and check that its answers agree with one another."""
    messages = list(store.messages())
    records = dict(store.records(""))
    assert list(records) == sorted(records)
    in_bulk = {
        key.decode(): value for batch in store.values("") for key, value in zip(batch.keys, batch.values, strict=True)
    }
    assert in_bulk == records
    assert store.message_count() == len(messages)
    assert store.is_empty() == (not messages and not records)
    for message in messages:
        assert store.read(message.number) == message
        assert message.number <= store.highest()
    for key, value in records.items():
        assert store.record(key) == value
    return messages, records


def payloads(store: PersistentStore) -> dict[int, bytes]:
    return {message.number: message.payload for message in store.messages()}
