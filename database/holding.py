"""What is held back: made durable at a start, looked at, and let go.

See `index/held.py` for why. Reading in order and taking pass over what is held; it can be read by its
number, delivered and deleted like any message.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from database.ledger import Effect, Ledger
from database.taking import Taking
from index.held import KEY_PREFIX, Held
from journal.disk import Disk
from journal.draft import Composer, Draft
from recovery import holding


class Holding:
    """What one database holds back, for any thread."""

    def __init__(self, ledger: Ledger, taking: Taking, write: Callable[[Draft], None]) -> None:
        self._ledger = ledger
        self._taking = taking
        self._write = write
        self.lock = threading.Lock()  # guards the keys; taken before the ledger's

    def settle(self, disk: Disk, directory: Path) -> None:
        """Make durable what this start, or one that was killed at it, was asked to hold back."""
        if holding.intended(disk, directory):
            with self.lock:
                self.write()
            holding.done(disk, directory)

    def write(self, held: Held | None = None) -> None:
        """Commit the ranges, as they are or as they shall be. Call with the lock held."""
        values = (self._ledger.index.held if held is None else held).values()
        with self._ledger.lock:
            gone = sorted(set(self._ledger.index.keyed.keys(KEY_PREFIX)) - set(values))
        composer = Composer()
        for key, value in values.items():
            composer.put(key, value)
        for key in gone:
            composer.drop(key)
        draft = composer.draft()
        draft.effect = Effect(puts=[*values], drops=gone)
        self._write(draft)

    def is_before(self, mark: int) -> bool:
        """Say whether some of it is kept only in data files below a sequence. Call with the lock held."""
        with self._ledger.lock:
            keyed = self._ledger.index.keyed
            versions = [keyed.find(key) for key in keyed.keys(KEY_PREFIX)]
        return any(version is not None and version.sequence < mark for version in versions)

    def let_go(self, numbers: Iterable[int] | None) -> int:
        """Hold these messages no longer, or none at all; return how many undelivered ones that were."""
        with self.lock:
            with self._ledger.lock:
                held = self._ledger.index.held
                kept = Held() if numbers is None else held.without(numbers)
                freed = self._freed(held, kept)
            if kept.ranges() == held.ranges():
                return 0
            self.write(kept)
            with self._ledger.lock:
                self._ledger.index.held = kept
                self._taking.admit(freed)
        return sum(len(found) for found in freed.values())

    def _freed(self, before: Held, after: Held) -> dict[str, list[int]]:
        """Return the undelivered messages that the second does not hold any more, by queue."""
        table = self._ledger.index.table
        freed: dict[str, list[int]] = {}
        for queue in table.queues():
            for numbers, _, _ in table.batches(queue, 0, self._ledger.index.highest_number()):
                found = numbers[before.mask(numbers) & ~after.mask(numbers)]
                if len(found):
                    freed.setdefault(queue, []).extend(np.asarray(found).tolist())
        return freed
