"""Opens a database in a process of its own and says how much memory that took.

python -m bench.weighing DIRECTORY OTHER-DIRECTORY [--traced] [--broker]: by what Python and numpy have
allocated (`--traced`) or by the resident memory of the process. What opening the other, small database
takes is not counted; it is opened first, for what is loaded only once. With `--broker` a broker is started
on it.
"""

import gc
import json
import os
import sys
import tracemalloc
from pathlib import Path

from bench.broker.restart import started
from oms_journal import MessageDatabase, Options


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _weigh(path: str, *, traced: bool, is_broker: bool) -> tuple[int, int]:
    """Return the bytes that opening the database took, and how many messages are undelivered in it."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0] if traced else _resident()
    opened: object
    # Without compaction, so that scattered messages stay where they are.
    options = Options(compact_share=0, cleanup_interval=0)
    if is_broker:
        store, kernel = started(Path(path), options)
        opened, count, close = kernel, store.message_count(), store.close
    else:
        database = MessageDatabase.open(path, options=options)
        opened, count, close = database, database.undelivered_count(), database.close
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if traced else _resident()
    del opened
    close()
    return after - before, count


def main() -> None:
    path, small = sys.argv[1:3]
    traced, is_broker = "--traced" in sys.argv, "--broker" in sys.argv
    if traced:
        tracemalloc.start()
    _weigh(small, traced=traced, is_broker=is_broker)
    fixed, _ = _weigh(small, traced=traced, is_broker=is_broker)
    taken, count = _weigh(path, traced=traced, is_broker=is_broker)
    print(json.dumps({"bytes": taken - fixed, "messages": count}))


if __name__ == "__main__":
    main()
