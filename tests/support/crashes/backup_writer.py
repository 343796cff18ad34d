"""A process that writes until it is killed or its standard input ends, and tells what each commit has changed.

    python -m tests.support.crashes.backup_writer DIRECTORY SEED

The first line has all that it found at its start. A line follows for every acknowledged commit, with its number.
"""

import json
import os
import random
import select
import sys

from oms_journal import MessageDatabase

FILE_BYTES = 12 << 10


def main(directory: str, seed: str) -> None:
    chance = random.Random(seed)
    with MessageDatabase.open(directory, max_data_file_size=FILE_BYTES, cleanup_interval=0) as db:
        live = list(db.numbers())
        messages = {str(message.number): message.payload.decode() for message in db.undelivered()}
        keys = {key: (db.get(key) or b"").decode() for key in list(db.keys())}
        _say(commit=db._journal._opening.next_commit - 1, messages=messages, keys=keys)
        while not select.select([0], [], [], 0)[0]:
            _commit(db, chance, live)
            if chance.random() < 0.03:
                db.cleanup(compact=True)


def _commit(db: MessageDatabase, chance: random.Random, live: list[int]) -> None:
    removed = sorted(chance.sample(live, chance.randint(0, min(len(live), 4))))
    payloads = [chance.randbytes(chance.randint(0, 200)).hex() for _ in range(chance.randint(1, 3))]
    key, value = f"key-{chance.randrange(3)}", payloads[0][:20]
    before = db._journal.last_commit
    with db.commit() as block:
        for number in removed:
            block.deliver(number)
        for payload in payloads:
            block.add("q", payload.encode())
        block.put(key, value.encode())
    live[:] = [number for number in live if number not in removed] + list(block.numbers)
    _say(
        after=before,  # its number is one of those behind: a thread of the database may commit before it, and behind it
        commit=db._journal.last_commit,
        removed=removed,
        added=dict(zip(map(str, block.numbers), payloads, strict=True)),
        put=[key, value],
    )


def _say(**line: object) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
