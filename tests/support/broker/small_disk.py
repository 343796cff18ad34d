"""Fills a broker's store on a file system of its own that is small, and drains it again.

    python -m tests.support.broker.small_disk journal|sqlite|broker DIRECTORY

`broker` is a whole one, which is filled and drained once, and then told to allow new units of work.

The last line of standard output is JSON: what was seen.
"""

import json
import os
import sys
from pathlib import Path

from oms_journal.broker.codes import BrokerError
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteOptions, SqliteStore
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import PersistentStore, StoreError, StoreFull
from oms_journal.database.options import Options

MESSAGE_BYTES = 3000
DRAINED_BYTES = 74_000  # of a unit of work
SERVICE = "C/S/V"
ALLOWED = 100  # units of work that are sent when new ones are allowed again


def opened(kind: str, path: Path) -> PersistentStore:
    if kind == "journal":
        return JournalStore.open(path, Options(max_data_file_size=1 << 20))
    return SqliteStore.open(path / "file", SqliteOptions(reserve_bytes=1 << 20))


def added(store: PersistentStore) -> int | str:
    """Add a message with a key of its own; return its number, or the error's name."""
    put = Put(f"k{store.highest() + 1:06}", b"v" * 100)
    try:
        return store.commit(Changes(adds=[NewMessage("q", os.urandom(MESSAGE_BYTES))], puts=[put]))
    except StoreError as failure:
        return type(failure).__name__


def filled(store: PersistentStore) -> list[int]:
    """Add messages until there is no room; return their numbers."""
    numbers: list[int] = []
    while isinstance(number := added(store), int):
        numbers.append(number)
    assert number == StoreFull.__name__, number
    return numbers


def consume(store: PersistentStore, numbers: list[int]) -> None:
    for number in numbers:
        store.commit(Changes(delivered=[range(number, number + 1)], drops=[f"k{number:06}"]))


def drain_and_allow(path: Path) -> dict[str, object]:
    """Fill a broker's store, drain it and allow new units of work; return what was seen."""
    seen: dict[str, object] = {}
    body = os.urandom(DRAINED_BYTES)
    with Broker.open(path) as broker, broker.session("ALICE") as alice, broker.session("BOB") as bob:
        bob.register(SERVICE)

        def send(count: int, refused_max: int) -> tuple[int, list[str]]:
            sent, codes = 0, list[str]()
            while sent < count and len(codes) < refused_max:
                try:
                    alice.send(SERVICE, body)
                    sent += 1
                except BrokerError as failure:
                    codes.append(failure.code.value)
            return sent, codes

        seen["sent"], seen["refused"] = send(1_000_000, 3)
        broker.forbid_new_uow_messages()
        drained = 0
        while (unit := bob.receive_unit()) is not None:
            with unit:
                drained += len(list(unit))
        seen["drained"] = drained
        broker.allow_new_uow_messages()
        seen["accepted"], seen["codes"] = send(ALLOWED, ALLOWED)
    return seen


def main() -> None:
    kind, path = sys.argv[1], Path(sys.argv[2])
    if kind == "broker":
        sys.stdout.write(f"{json.dumps(drain_and_allow(path / 'store'))}\n")
        return
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
