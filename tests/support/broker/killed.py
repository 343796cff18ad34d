"""A program with an embedded broker, to be killed: it says on its output what was acknowledged, line by line.

DIRECTORY KIND DRIVER SEED
"""

import asyncio
import random
import sys
from itertools import count
from pathlib import Path

from oms_journal.broker.sessions.sessions import Session
from tests.support.broker.embedded import SERVICE, Kind


def told(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(directory: Path, kind: Kind, chance: random.Random) -> None:
    """Send, receive and answer until somebody ends it."""
    with (
        kind.open(directory, uwtime="1D") as broker,
        broker.session("ALICE", token="A") as alice,
        broker.session("BOB", token="B") as bob,
    ):
        bob.register(SERVICE)
        told("began")
        for number in count(1):
            told("sending", number)
            with alice.unit_of_work(SERVICE, status_lifetimes=chance.choice((0, 1))) as uow:
                uow.send(b"%d" % number)
                for _ in range(chance.randrange(3)):
                    uow.send(b"more")
            told("sent", number)
            if chance.random() < 0.5:
                receive(bob, chance)


def receive(bob: Session, chance: random.Random) -> None:
    """Commit a unit of work, some with an answer."""
    unit = bob.receive_unit()
    assert unit is not None
    number = int(unit.first.body)
    if chance.random() < 0.3:
        told("answering", number, unit.conv_id)
        unit.answer(b"answer %d" % number)
    told("committing", number)
    unit.commit()
    told("committed", number)


if __name__ == "__main__":
    way, driver, seed = sys.argv[2:]
    main(Path(sys.argv[1]), Kind(way == "asyncio", False, driver, asyncio.new_event_loop()), random.Random(int(seed)))
