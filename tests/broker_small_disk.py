"""Fills a broker's store on a file system of its own that is small, and drains it again.

    python -m tests.broker_small_disk journal|sqlite DIRECTORY

The last line of standard output is JSON: what was seen.
"""

import json
import os
import sys
from pathlib import Path

from broker.changes import Changes, NewMessage, Put
from broker.journal_store import JournalStore
from broker.pstore import Store, StoreError, StoreFull
from broker.sqlite_store import SqliteOptions, SqliteStore
from database.options import Options

MESSAGE_BYTES = 3000


def opened(kind: str, path: Path) -> Store:
    if kind == "journal":
        return JournalStore.open(path, Options(max_data_file_size=1 << 20))
    return SqliteStore.open(path / "file", SqliteOptions(reserve_bytes=1 << 20))


def added(store: Store) -> int | str:
    """Add a message with a key of its own; return its number, or the error's name."""
    put = Put(f"k{store.highest() + 1:06}", b"v" * 100)
    try:
        return store.commit(Changes(adds=[NewMessage("q", os.urandom(MESSAGE_BYTES))], puts=[put]))
    except StoreError as failure:
        return type(failure).__name__


def filled(store: Store) -> list[int]:
    """Add messages until there is no room; return their numbers."""
    numbers: list[int] = []
    while isinstance(number := added(store), int):
        numbers.append(number)
    assert number == StoreFull.__name__, number
    return numbers


def consume(store: Store, numbers: list[int]) -> None:
    for number in numbers:
        store.commit(Changes(delivered=[range(number, number + 1)], drops=[f"k{number:06}"]))


def main() -> None:
    kind, path = sys.argv[1], Path(sys.argv[2])
    store = opened(kind, path)
    numbers = filled(store)
    half = len(numbers) // 2
    consume(store, numbers[:half])
    seen: dict[str, object] = {"added": len(numbers), "connected": store.is_connected}
    store.close()

    store = opened(kind, path)
    seen["left"] = [message.number for message in store.messages()] == numbers[half:]
    consume(store, numbers[half:])
    seen["drained"] = store.message_count()
    seen["later"] = added(store)
    seen["again"] = len(filled(store))
    store.close()
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    main()
