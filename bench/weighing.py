"""Opens a database in a process of its own and says how much memory that took.

python -m bench.weighing DIRECTORY OTHER-DIRECTORY [--traced]: by what Python and numpy have allocated
(`--traced`) or by the resident memory of the process. What opening the other, small database takes is
not counted; it is opened first, for what is loaded only once.
"""

import gc
import json
import os
import sys
import tracemalloc
from pathlib import Path

from database import MessageDatabase


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _weigh(path: str, *, traced: bool) -> tuple[int, int]:
    """Return the bytes that opening the database took, and how many messages are undelivered in it."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0] if traced else _resident()
    # Without compaction, so that scattered messages stay where they are.
    database = MessageDatabase.open(path, compact_share=0, cleanup_interval=0)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if traced else _resident()
    count = database.undelivered_count()
    database.close()
    return after - before, count


def main() -> None:
    path, small = sys.argv[1:3]
    traced = "--traced" in sys.argv
    if traced:
        tracemalloc.start()
    _weigh(small, traced=traced)
    fixed, _ = _weigh(small, traced=traced)
    taken, count = _weigh(path, traced=traced)
    print(json.dumps({"bytes": taken - fixed, "messages": count}))


if __name__ == "__main__":
    main()
