"""What a message database holds, as a broker's store says it: messages, records, and producers' identifiers."""

from collections.abc import Iterator
from pathlib import Path

from oms_journal.broker.store.start import MessageUnreadable
from oms_journal.broker.store.stored import StoredIdentifier, StoredMessage
from oms_journal.database.bulk import values
from oms_journal.database.questions import Look
from oms_journal.index.held import KEY_PREFIX
from oms_journal.journal.disk import Disk
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


def records_of(look: Look, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the keys with the prefix and their values, in order; MessageUnreadable."""
    for key, value in values.in_order(look, prefix):
        if value is None:
            raise MessageUnreadable(f"the value of key {key.decode()} is damaged")
        yield key.decode(), value


def holds_back(look: Look) -> bool:
    """Say whether the engine holds messages back: a restore has made it do so, or a repair that was asked to."""
    with look.ledger.lock:
        return any(True for _ in look.ledger.index.keyed.keys(KEY_PREFIX))


def identifiers_of(look: Look) -> Iterator[StoredIdentifier]:
    """Yield the producers' identifiers of the duplicate window, the oldest first."""
    with look.ledger.lock:
        entries = look.ledger.index.duplicates.every()
    for (queue, producer), seen in entries.items():
        yield StoredIdentifier(queue.decode(), producer.decode(), seen.first, seen.messages, seen.digest, seen.time)
