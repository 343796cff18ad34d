"""Both drivers get the same random commits, kills, losses and restarts, and say and hold the same."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import PersistentStore, StoreError
from oms_journal.broker.store.stored import StoredMessage
from tests.support.broker.stores import Driver, JournalDriver, SqliteDriver, contents

TURNS = 100
QUEUES = ("C/S/V", "C/S/V/reply", "topic/NYSE")
KEYS = tuple(f"broker/uow/{number}" for number in range(12))
FIRSTS = "broker/first/"  # values with a message's number at byte 8


class Pair:
    """A store of each driver. After a crash the journal leaves numbers out, so theirs are not the same."""

    def __init__(self, path: Path) -> None:
        self.drivers: list[Driver] = [JournalDriver(path), SqliteDriver(path)]
        self.stores: list[PersistentStore] = [driver.open() for driver in self.drivers]
        self.numbers: dict[int, int] = {}  # the journal's numbers to the other's

    def _others(self, batch: list[Changes]) -> list[Changes]:
        """Return the batch with the other driver's numbers."""

        def moved(ranges: Sequence[range]) -> list[range]:
            return [range(start, start + len(one)) for one in ranges for start in [self.numbers.get(one[0], one[0])]]

        return [replace(one, delivered=moved(one.delivered), deleted=moved(one.deleted)) for one in batch]

    def ask(self, batch: list[Changes]) -> None:
        """Let both carry the batch out; they say the same."""
        said = zip(self.stores[0].commit_many(batch), self.stores[1].commit_many(self._others(batch)), strict=True)
        for (ours, theirs), one in zip(said, batch, strict=True):
            if not isinstance(ours, int) or not isinstance(theirs, int):
                assert type(ours) is type(theirs), (ours, theirs)
            elif one.adds:
                for place in range(len(one.adds)):
                    assert self.numbers.setdefault(ours + place, theirs + place) == theirs + place
            else:
                assert ours == theirs == 0

    def restart(self) -> None:
        for store in self.stores:
            store.close()
        self.stores = [driver.open() for driver in self.drivers]

    def kill(self) -> None:
        again = [driver.killed() for driver in self.drivers]
        for store in self.stores:
            store.close()
        self.drivers = again
        self.stores = [driver.open() for driver in again]

    def lose(self, batch: list[Changes]) -> None:
        """Let both fail to write a batch, and come back."""
        batch = [Changes(puts=[Put("broker/lost", b"")]), *batch]
        for driver, store in zip(self.drivers, self.stores, strict=True):
            with driver.fails():
                answers = store.commit_many(batch)
            for answer in answers:
                assert isinstance(answer, StoreError)
            assert not store.is_connected
            store.connect()

    def check(self) -> list[StoredMessage]:
        """Check that both hold the same; return the messages."""
        (messages, records), (other_messages, other_records) = (contents(store) for store in self.stores)
        assert [replace(message, added=0, number=self.numbers[message.number]) for message in messages] == [
            replace(message, added=0) for message in other_messages
        ], "each has read its own clock"
        for key, value in records.items():
            if key.startswith(FIRSTS):
                records[key] = value[:8] + self.numbers[int.from_bytes(value[8:], "little")].to_bytes(8, "little")
        assert records == other_records
        return messages


def changes(chance: random.Random, live: list[int]) -> Changes:
    """Return one commit, now and then one that cannot be carried out."""
    adds = [
        NewMessage(chance.choice(QUEUES), chance.randbytes(chance.randrange(200)), chance.choice((None, {"k": "v"})))
        for _ in range(chance.choice((0, 1, 1, 3)))
    ]
    keys = chance.sample(KEYS, chance.randrange(3))
    split = chance.randrange(len(keys) + 1)
    puts = [Put(key, chance.randbytes(16)) for key in keys[:split]]
    if adds and chance.random() < 0.5:
        puts.append(Put(f"{FIRSTS}{chance.randrange(3)}", bytes(16), {8: chance.randrange(len(adds))}))
    taken = chance.sample(live, min(len(live), chance.choice((0, 0, 1, 2))))
    removed = [range(number, number + 1) for number in taken]
    if chance.random() < 0.05:
        removed.append(range(10**6, 10**6 + 2))  # gone, or never there
    half = chance.randrange(len(removed) + 1)
    producer = f"order-{chance.randrange(20)}" if adds and chance.random() < 0.2 else None
    if producer:
        adds.sort(key=lambda message: message.queue)
    return Changes(
        adds=adds,
        puts=puts,
        drops=keys[split:],
        delivered=removed[:half],
        deleted=removed[half:],
        producer=producer,
    )


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(3))
def test_both_drivers_say_and_hold_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pair, live = Pair(tmp_path), list[int]()
    for turn in range(TURNS):
        free = list(live)
        batch = []
        for _ in range(chance.choice((1, 1, 4))):
            batch.append(changes(chance, free))
            used = {number for removed in (*batch[-1].delivered, *batch[-1].deleted) for number in removed}
            free = [number for number in free if number not in used]
        match chance.randrange(20):
            case 0:
                pair.lose(batch)
            case 1:
                pair.restart()
            case 2:
                pair.kill()
            case _:
                pair.ask(batch)
        live = [message.number for message in (pair.check() if turn % 10 == 0 else pair.stores[0].messages())]
    pair.check()
    for store in pair.stores:
        store.close()
