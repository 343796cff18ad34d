"""A broker's store as `oms restore` leaves it: with the mark that its first start turns into a hold."""

import json
from pathlib import Path

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.start import RESTORED_KEY
from oms_journal.database.database import MessageDatabase
from oms_journal.index.held import Held

SOURCE = "/backup/orders"


def hold_back(directory: Path) -> None:
    """Let the engine hold back all messages there are, as a restore does that knows no brokers."""
    with MessageDatabase.open(directory) as database, database._holds.lock:
        held = Held([(1, database._state().next_message - 1)])
        database._holds.write(held)


def mark_restored(directory: Path) -> None:
    """Mark the store of a broker that was ended as one that was restored from a backup."""
    store = JournalStore.open(directory, creates=False)
    store.commit(Changes(puts=[Put(RESTORED_KEY, json.dumps({"backup": SOURCE}).encode())]))
    store.close()
