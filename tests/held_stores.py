"""A broker's store as `oms restore` leaves it: with the mark that its first start turns into a hold."""

import json
from pathlib import Path

from broker.changes import Changes, Put
from broker.journal_store import JournalStore
from broker.pstore import RESTORED_KEY

SOURCE = "/backup/orders"


def mark_restored(directory: Path) -> None:
    """Mark the store of a broker that was ended as one that was restored from a backup."""
    store = JournalStore.open(directory, creates=False)
    store.commit(Changes(puts=[Put(RESTORED_KEY, json.dumps({"backup": SOURCE}).encode())]))
    store.close()
