"""What a message database holds, as a broker's store says it: messages, records, and producers' identifiers.

A message database that is unloaded: PSTORE-TYPE=JOURNAL, locked and left as it is.
"""

from collections.abc import Iterator
from pathlib import Path

from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.driver import nothing_to_unload
from oms_journal.broker.store.start import RESTORED_KEY, MessageUnreadable, StartRefused, StoreUnavailable
from oms_journal.broker.store.stored import StoredIdentifier, StoredMessage
from oms_journal.database import queries
from oms_journal.database.bulk import values
from oms_journal.database.bulk.locked import LockedView
from oms_journal.database.queries import DatabaseState
from oms_journal.index.held import KEY_PREFIX
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.names import DataFileName, parse
from oms_journal.journal.reading.message import Message


def has_data(disk: Disk, directory: Path) -> bool:
    """Say whether there is a data file."""
    try:
        return any(isinstance(parse(entry), DataFileName) for entry in disk.list(directory))
    except OSError:
        return False


def stored(message: Message) -> StoredMessage:
    """Return a message of the database as a store has it."""
    return StoredMessage(
        number=message.number,
        queue=message.queue,
        payload=message.payload,
        properties=message.properties,
        added=message.added_us,
        producer=message.producer_id,
    )


def read_records(state: DatabaseState, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the keys with the prefix and their values, in order; MessageUnreadable."""
    for key, value in values.in_order(state, prefix):
        if value is None:
            raise MessageUnreadable(f"the value of key {key.decode()} is damaged")
        yield key.decode(), value


def holds_back(state: DatabaseState) -> bool:
    """Say whether the engine holds messages back: a restore has made it do so, or a repair that was asked to."""
    with state.ledger.lock:
        return any(True for _ in state.ledger.index.keyed.keys(KEY_PREFIX))


def identifiers_of(state: DatabaseState) -> Iterator[StoredIdentifier]:
    """Yield the producers' identifiers of the duplicate window, the oldest first."""
    with state.ledger.lock:
        entries = state.ledger.index.duplicates.every()
    for (queue, producer), seen in entries.items():
        yield StoredIdentifier(queue.decode(), producer.decode(), seen.first, seen.messages, seen.digest, seen.time)


class JournalSource:
    """What is read of a store while it is moved. Made by `open`."""

    def __init__(self, standstill: LockedView) -> None:
        self.place = str(standstill.directory)
        self.identity = standstill.identity
        self._standstill = standstill
        self._state = standstill.state()

    @classmethod
    def open(cls, directory: str | Path, *, disk: Disk | None = None) -> "JournalSource":
        """Open the directory and change nothing in it but who has its lock. StartRefused."""
        path, disk = Path(directory).absolute(), disk or RealDisk()
        if not has_data(disk, path):
            raise nothing_to_unload(path)
        try:
            return cls(LockedView.open(path, disk=disk))
        except JournalError as failure:
            raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be unloaded: {failure}") from failure

    def record(self, key: str) -> bytes | None:
        if key == RESTORED_KEY and holds_back(self._state):
            return b"{}"  # as the first start would find it (`journal.py`)
        return next((value for found, value in self.records(key) if found == key), None)

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        try:
            yield from read_records(self._state, prefix)
        except JournalError as failure:
            raise StoreUnavailable(str(failure)) from failure

    def messages(self) -> Iterator[StoredMessage]:
        try:
            yield from map(stored, queries.undelivered(self._state.ledger, self._state.files, None))
        except JournalError as failure:
            raise StoreUnavailable(str(failure)) from failure

    def identifiers(self) -> Iterator[StoredIdentifier]:
        return identifiers_of(self._state)

    def highest(self) -> int:
        return self._standstill.highest

    def message_count(self) -> int:
        return queries.undelivered_count(self._state.ledger, None)

    def record_count(self) -> int:
        return sum(1 for _ in queries.keys(self._state.ledger, ""))

    def close(self) -> None:
        self._standstill.close()
