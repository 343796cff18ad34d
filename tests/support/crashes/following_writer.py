"""A process that writes, rolls over and cleans up until it is killed or has written enough.

python -m tests.support.crashes.following_writer DIRECTORY RETENTION SEED COMMITS
"""

import os
import random
import sys
import time

from oms_journal import MessageDatabase

FILE_BYTES = 9584
PAUSE_SECONDS = 0.002  # a few hundred commits a second are enough
QUEUES = ("orders", "bills")


def main(directory: str, retention: str, seed: str, commits: str) -> None:
    chance = random.Random(seed)
    with MessageDatabase.open(
        directory,
        max_data_file_size=FILE_BYTES,
        cleanup_interval=0,
        compact_share=0.5,
        retention_directory=retention,
    ) as database:
        os.write(1, b"open\n")
        for _ in range(int(commits)):
            _commit(database, chance)
            time.sleep(PAUSE_SECONDS)


def _commit(database: MessageDatabase, chance: random.Random) -> None:
    there = list(database.numbers())
    removed = sorted(chance.sample(there, min(len(there), chance.choice((1, 2, 6)))))
    payloads = [chance.randbytes(chance.randint(0, 300)) for _ in range(chance.choice((1, 1, 3)))]
    match chance.randrange(6):
        case 0 | 1 | 2:
            database.add_many(chance.choice(QUEUES), payloads)
        case 3 if removed:
            database.deliver_many(removed)
        case 4 if chance.random() < 0.3:
            database.cleanup(compact=True)
        case _:
            with database.commit() as block:
                for number in removed[:2]:
                    block.deliver(number)
                block.add(chance.choice(QUEUES), payloads[0])
                block.put(f"key-{chance.randrange(3)}", payloads[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
