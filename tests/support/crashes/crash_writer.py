"""A process that writes until it is killed, and tells on its standard output what it begins and what is done.

    python -m tests.support.crashes.crash_writer DIRECTORY SEED [leased]

Each thread works on a queue and keys of its own, and writes two lines for every commit: `begin`, with what it
is about to do, and `done`, with the numbers it got. What a pipe has taken survives the process. With `leased`
the process's lock looks free to others, as after the lease of a network file system.
"""

import base64
import json
import os
import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oms_journal import MessageDatabase
from oms_journal.journal.disk import LockFile, RealDisk, RealLockFile
from oms_journal.journal.errors import JournalError
from tests.support.crashes.crash_model import Account, Change, Content

THREADS = 4
FILE_BYTES = 16 << 10


class _LeasedLock(RealLockFile):
    """A lock that its holder believes in, and nobody else."""

    def try_lock(self, byte: int) -> bool:
        return True


class LeasedDisk(RealDisk):
    def open_lock(self, path: Path) -> LockFile:
        return _LeasedLock(path)


def say(thread: int, what: str, **more: object) -> None:
    line = json.dumps({"thread": thread, "what": what, **more}) + "\n"
    os.write(1, line.encode())  # in one piece: less than PIPE_BUF


def main(directory: str, seed: str, *flags: str) -> None:
    disk = LeasedDisk() if "leased" in flags else RealDisk()
    options = {"max_data_file_size": FILE_BYTES, "cleanup_interval": 0, "renew_interval": 3600}
    with MessageDatabase.open(directory, disk=disk, **options) as database:  # type: ignore[arg-type]
        say(-1, "open", pid=os.getpid(), numbers=database._journal.next_message)
        threads = [
            threading.Thread(target=_write, args=(database, number, random.Random(f"{seed}/{number}")))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _write(database: MessageDatabase, thread: int, chance: random.Random) -> None:
    queue = f"thread-{thread}"
    live = list(database.numbers(queue))
    try:
        while True:
            live = commit_one(database, thread, chance, live)
            if thread == 0 and chance.random() < 0.02:
                database.cleanup(compact=True)
    except JournalError as failure:
        say(thread, "failed", kind=type(failure).__name__, text=str(failure))


def commit_one(database: MessageDatabase, thread: int, chance: random.Random, live: list[int]) -> list[int]:
    queue, key = f"thread-{thread}", f"key-{thread}/{chance.randrange(3)}"
    payloads = [chance.randbytes(chance.randint(0, 300)) for _ in range(chance.choice((1, 1, 2, 5)))]
    removed = sorted(chance.sample(live, min(len(live), chance.choice((1, 3))))) if len(live) > 10 else []
    numbers: Sequence[int] = ()
    match chance.randrange(5):
        case 0 | 1:
            _begin(thread, adds=payloads)
            numbers = database.add_many(queue, payloads)
        case 2 if removed:
            _begin(thread, removed=removed)
            database.deliver_many(removed)
            live = [number for number in live if number not in removed]
        case 3:
            _begin(thread, puts={key: payloads[0]})
            database.put(key, payloads[0])
        case _:
            _begin(thread, adds=payloads[:1], removed=removed[:1], puts={key: payloads[0]})
            with database.commit() as block:
                for number in removed[:1]:
                    block.deliver(number)
                block.add(queue, payloads[0])
                block.put(key, payloads[0])
            numbers = block.numbers
            live = [number for number in live if number not in removed[:1]]
    say(thread, "done", numbers=list(numbers))
    return live + list(numbers)


def _begin(
    thread: int,
    *,
    adds: Sequence[bytes] = (),
    removed: Sequence[int] = (),
    puts: dict[str, bytes] | None = None,
) -> None:
    texts = {key: base64.b64encode(value).decode() for key, value in (puts or {}).items()}
    say(thread, "begin", adds=[base64.b64encode(p).decode() for p in adds], removed=list(removed), puts=texts)


# The other end of the pipe.


def enter(accounts: dict[int, Account], line: dict[str, Any]) -> None:
    """Enter into the accounts, one a thread, what a line of the process says."""
    thread = line["thread"]
    account = accounts.setdefault(thread, Account())
    if line["what"] == "begin":
        adds = [Content(f"thread-{thread}", base64.b64decode(text)) for text in line["adds"]]
        puts = {key: base64.b64decode(text) for key, text in line["puts"].items()}
        account.in_flight = Change(adds=adds, removed=line["removed"], puts=puts)
    elif line["what"] == "done":
        assert account.in_flight is not None
        account.state = account.in_flight.applied(account.state, line["numbers"])
        account.highest = max([account.highest, *line["numbers"]])
        account.in_flight = None


if __name__ == "__main__":
    main(*sys.argv[1:])
