"""A message database that is unloaded: PSTORE-TYPE=JOURNAL, locked and left as it is."""

from collections.abc import Iterator
from pathlib import Path

from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal_contents import has_data, holds_back, identifiers_of, records_of, stored
from oms_journal.broker.store.start import RESTORED_KEY, StartRefused, StoreUnavailable
from oms_journal.broker.store.stored import StoredIdentifier, StoredMessage
from oms_journal.database import questions
from oms_journal.database.bulk.locked import Standstill
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import JournalError


class JournalSource:
    """What is read of a store while it is moved. Made by `open`."""

    def __init__(self, standstill: Standstill) -> None:
        self.place = str(standstill.directory)
        self.identity = standstill.identity
        self._standstill = standstill
        self._look = standstill.look()

    @classmethod
    def open(cls, directory: str | Path, *, disk: Disk | None = None) -> "JournalSource":
        """Open the directory and change nothing in it but who has its lock. StartRefused."""
        path, disk = Path(directory).absolute(), disk or RealDisk()
        if not has_data(disk, path):
            raise StartRefused(Code.RESTART_FAILED, f"{path} holds no persistent store, so there is nothing to unload")
        try:
            return cls(Standstill.open(path, disk=disk))
        except JournalError as failure:
            raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be unloaded: {failure}") from failure

    def record(self, key: str) -> bytes | None:
        if key == RESTORED_KEY and holds_back(self._look):
            return b"{}"  # as the first start would find it (`journal_store.py`)
        return next((value for found, value in self.records(key) if found == key), None)

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        try:
            yield from records_of(self._look, prefix)
        except JournalError as failure:
            raise StoreUnavailable(str(failure)) from failure

    def messages(self) -> Iterator[StoredMessage]:
        try:
            yield from map(stored, questions.undelivered(self._look.ledger, self._look.files, None))
        except JournalError as failure:
            raise StoreUnavailable(str(failure)) from failure

    def identifiers(self) -> Iterator[StoredIdentifier]:
        return identifiers_of(self._look)

    def highest(self) -> int:
        return self._standstill.highest

    def message_count(self) -> int:
        return questions.undelivered_count(self._look.ledger, None)

    def record_count(self) -> int:
        return sum(1 for _ in questions.keys(self._look.ledger, ""))

    def close(self) -> None:
        self._standstill.close()
