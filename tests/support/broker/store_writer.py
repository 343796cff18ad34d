"""Writes into a broker's store until it is killed: `python -m tests.support.broker.store_writer journal|sqlite PATH`.

Commit n adds three messages, puts the key "last" and, from the fifth on, removes those of commit n - 4: some are
delivered, some deleted. Each line of standard output says that a commit was acknowledged.
"""

import sys
from pathlib import Path

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import PersistentStore
from oms_journal.database.options import Options

KEPT = 4  # commits whose messages are there


def opened(kind: str, path: Path) -> PersistentStore:
    if kind == "journal":
        return JournalStore.open(path, Options(max_data_file_size=64 << 10))
    return SqliteStore.open(path / "file")


def value_of(turn: int) -> bytes:
    """Return the value of the key "last": the commit, and room for the number of its first message."""
    return turn.to_bytes(8, "little") + bytes(8)


def turn_and_first(store: PersistentStore) -> tuple[int, int]:
    """Return the last commit that is there, and the number of its first message."""
    value = store.record("last") or bytes(16)
    return int.from_bytes(value[:8], "little"), int.from_bytes(value[8:], "little")


def commit(store: PersistentStore, turn: int, old: range | None) -> range:
    messages = [NewMessage("q", b"%d" % turn), NewMessage("q", bytes(turn % 3000)), NewMessage("p", b"%d" % turn)]
    removed = [] if old is None else [old[:1], old[1:]]
    first = store.commit(
        Changes(
            adds=messages,
            puts=[Put("last", value_of(turn), {8: 0}), Put(f"of{turn % KEPT}", value_of(turn))],
            drops=[f"of{(turn + 1) % KEPT}"],
            delivered=removed[:1],
            deleted=removed[1:],
        )
    )
    return range(first, first + len(messages))


def main() -> None:
    store = opened(sys.argv[1], Path(sys.argv[2]))
    turn, _ = turn_and_first(store)
    numbers = [message.number for message in store.messages()]
    groups = [range(start, start + 3) for start in numbers[::3]]
    while True:
        turn += 1
        groups.append(commit(store, turn, groups.pop(0) if len(groups) == KEPT else None))
        sys.stdout.write(f"{turn}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
