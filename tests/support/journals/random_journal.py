"""Journals that random operations have written: what an operator may find, small."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from oms_journal import MessageDatabase, QueueOptions
from oms_journal.journal.format.frames import FRAME_SIZE
from tests.support.disks.watched_disk import HandClock, WatchedDisk
from tests.support.journals.plain_rows import rows_in

QUEUES = ("orders", "bills", "Grüße: 'quoted'\n<b>")
KEYS = ("state", "subscription/1", "subscription/2", "zähler")
PRODUCERS = ("p1", "p2", "p3")
PAYLOADS = (b"", b"same", b"other", bytes(700))
SMALL = 9584  # bytes of a data file
DUPLICATE_SECONDS = 5.0  # the database forgets an identifier after so long
LONGER_SECONDS = 30.0  # also where the clock has been set back


class RandomWriter:
    """Writes random operations into one directory, through several openings."""

    def __init__(self, spool: Path, seed: int, *, retention: Path | None = None, has_terms: bool = False) -> None:
        self.spool = spool
        self._has_terms = has_terms  # some messages are delayed, in a group, expire, or become dead letters
        self.clock = HandClock()
        self._rng = random.Random(seed)
        self._retention = retention
        self._steps: tuple[tuple[int, Callable[[MessageDatabase], None]], ...] = (
            (30, self._add),
            (8, self._add_many),
            (22, self._remove),
            (4, self._remove_many),
            (8, self._commit),
            (12, self._wait),
            (2, self._clean_up),
            *(((6, self._expire), (6, self._come_back)) if has_terms else ()),
        )

    def write(self, *, openings: int = 3, steps: int = 80, cleans: bool = True, **named: object) -> None:
        """Open the directory several times and write; `cleans` also cleans up now and then."""
        chosen = [(weight, step) for weight, step in self._steps if cleans or step != self._clean_up]
        weights, steps_ = zip(*chosen, strict=True)
        for _ in range(openings):
            with self.open(**named) as db:
                for step in self._rng.choices(steps_, weights, k=steps):
                    step(db)

    def open(self, **named: object) -> MessageDatabase:
        """Open the directory, with small data files."""
        disk = WatchedDisk()
        disk.syncs = False
        options: dict[str, object] = {
            "max_data_file_size": SMALL,
            "cleanup_interval": 0,
            "compact_share": 0,
            "duplicate_age": DUPLICATE_SECONDS,
            "retention_directory": self._retention,
            "clock": self.clock,
        }
        if self._has_terms:
            options["queues"] = {
                QUEUES[0]: QueueOptions(max_attempts=1, dead_letter="dead", expired_to_dead_letter=True),
                QUEUES[1]: QueueOptions(max_attempts=2, dead_letter="dead"),
            }
        return MessageDatabase.open(self.spool, disk=disk, **(options | named))  # type: ignore[arg-type]

    def _payload(self) -> bytes:
        return self._rng.choice((*PAYLOADS, self._rng.randbytes(self._rng.randrange(1, 400))))

    def _properties(self) -> dict[str, str] | None:
        return self._rng.choice((None, None, {"kind": "é"}, {"a": "1", "": "long" * 20}))

    def _add(self, db: MessageDatabase) -> None:
        queue, payload = self._rng.choice(QUEUES), self._payload()
        producer = self._rng.choice((None, None, *PRODUCERS))
        if producer is not None:
            self.clock.advance(LONGER_SECONDS)  # the database does not know the identifier any more
        db.add(queue, payload, properties=self._properties(), producer_id=producer, **self._terms())

    def _terms(self) -> dict[str, Any]:
        if not self._has_terms:
            return {}
        soon = datetime.fromtimestamp(self.clock.now / 1e6, UTC) + timedelta(seconds=20)
        return self._rng.choice(
            ({}, {"delay": 0.5}, {"delay": 60.0}, {"group": "g"}, {"group": "g", "delay": 3.0}, {"expires": soon})
        )

    def _expire(self, db: MessageDatabase) -> None:
        self.clock.advance(self._rng.choice((0.5, 30.0)))
        if db._has_expired():  # as the maintenance does, every few seconds
            db._end_expired()

    def _come_back(self, db: MessageDatabase) -> None:
        message = db.take(self._rng.choice(QUEUES[:2]))
        if message is not None:
            db.release(message, reason="in vain")
            db._handing.look()  # which moves it, where it came back too often

    def _add_many(self, db: MessageDatabase) -> None:
        payloads = [self._payload() for _ in range(self._rng.randrange(1, 5))]
        producer = self._rng.choice((None, *PRODUCERS))
        self.clock.advance(LONGER_SECONDS if producer else 0.01)
        db.add_many(self._rng.choice(QUEUES), payloads, producer_id=producer)

    def _some(self, db: MessageDatabase, most: int) -> list[int]:
        there = list(db.numbers())
        return self._rng.sample(there, min(len(there), self._rng.randint(1, most)))

    def _remove(self, db: MessageDatabase) -> None:
        remove = self._rng.choice((db.deliver, db.deliver, db.delete))
        for number in self._some(db, 1):
            remove(number)

    def _remove_many(self, db: MessageDatabase) -> None:
        remove = self._rng.choice((db.deliver_many, db.delete_many))
        remove(self._some(db, 8))

    def _commit(self, db: MessageDatabase) -> None:
        self.clock.advance(LONGER_SECONDS)
        with db.commit(producer_id=self._rng.choice((None, *PRODUCERS))) as block:
            for _ in range(self._rng.randrange(4)):
                block.add(self._rng.choice(QUEUES), self._payload(), properties=self._properties())
            for number in self._some(db, 2):
                block.deliver(number)
            block.put(self._rng.choice(KEYS), self._rng.randbytes(self._rng.randrange(40)))
            if self._rng.random() < 0.3:
                block.drop(self._rng.choice(KEYS))

    def _wait(self, _db: MessageDatabase) -> None:
        self.clock.advance(self._rng.choice((0.5, 3.0, 90.0, 4000.0, -7.0)))

    def _clean_up(self, db: MessageDatabase) -> None:
        db.cleanup(compact=self._rng.random() < 0.7)


def damage(path: Path, *, place: float) -> None:
    """Spoil the header of the frame that stands so far on in a data file's frames."""
    offsets = sorted({row.offset for row in rows_in(path)})
    with path.open("r+b") as file:
        file.seek(offsets[int(place * len(offsets))] + FRAME_SIZE // 2)
        file.write(b"spoilt")
