"""What is held back: made durable at a start, looked at, and let go.

See `index/held.py` for why. Reading in order and taking pass over what is held; it can be read by its
number, delivered and deleted like any message. What was let go, or is gone, leaves the ranges at the next change.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from oms_journal.database.commits.ledger import IndexChanges, Ledger
from oms_journal.database.consumers.consumers import Consumers
from oms_journal.index.held import KEY_PREFIX, Held
from oms_journal.index.table import NUMBER_MAX, Numbers, distinct
from oms_journal.journal.disk import Disk
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.recovery import findings

COMMIT_MESSAGES_MAX = 100_000  # discarded by one commit


class Holds:
    """What one database holds back, for any thread."""

    def __init__(self, ledger: Ledger, taking: Consumers, write: Callable[[Draft], object]) -> None:
        self._ledger = ledger
        self._consumers = taking
        self._write = write
        self.lock = threading.Lock()  # guards the keys; taken before the ledger's

    def settle(self, disk: Disk, directory: Path) -> None:
        """Make durable what this start, or one that was killed at it, was asked to hold back."""
        if findings.intended(disk, directory):
            with self.lock:
                self.write()
            findings.done(disk, directory)

    def write(self, held: Held | None = None) -> None:
        """Commit the ranges, as they are or as they shall be. Call with the lock held."""
        values = (self._ledger.index.held if held is None else held).values()
        with self._ledger.lock:
            gone = sorted(set(self._ledger.index.keyed.keys(KEY_PREFIX)) - set(values))
        composer = CommitBuilder()
        for key, value in values.items():
            composer.put(key, value)
        for key in gone:
            composer.drop(key)
        draft = composer.draft()
        draft.effect = IndexChanges(puts=[*values], drops=gone)
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
                kept = Held() if numbers is None else self._without(held, _ascending(numbers))
                freed = self._freed(held, kept)
            if not freed and (numbers is not None or not held):
                return 0
            before, is_there = self._versions(), False
            try:
                self.write(kept)
                is_there = True
            finally:
                if is_there or self._versions() != before:  # an interrupt may have come behind the commit
                    with self._ledger.lock:
                        self._ledger.index.held = kept
                        self._consumers.admit(freed)
        return sum(len(found) for found in freed.values())

    def _versions(self) -> list[object]:
        """Return where the ranges stand that are committed."""
        with self._ledger.lock:
            keyed = self._ledger.index.keyed
            return [(key, keyed.find(key)) for key in sorted(keyed.keys(KEY_PREFIX))]

    def held_among(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Yield those of the messages that are held back and undelivered, as many at a time as one commit takes."""
        wanted = _ascending(numbers)
        for start in range(0, len(wanted), COMMIT_MESSAGES_MAX):
            part = wanted[start : start + COMMIT_MESSAGES_MAX]
            with self._ledger.lock:
                index = self._ledger.index
                found = index.table.find_many(part[index.held.mask(part)])[0]
            if len(found):
                yield found.tolist()

    def _without(self, held: Held, numbers: Numbers) -> Held:
        return Held(self._ledger.index.ranges_where(lambda there, _: held.mask(there) & ~np.isin(there, numbers)))

    def _freed(self, before: Held, after: Held) -> dict[str, list[int]]:
        """Return the undelivered messages that the second does not hold any more, by queue."""
        table = self._ledger.index.table
        freed: dict[str, list[int]] = {}
        for numbers, _, _ in table.batches(None, 0, NUMBER_MAX):
            found, queues = table.find_many(numbers[before.mask(numbers) & ~after.mask(numbers)].astype(np.uint64))
            for queue in distinct(queues).tolist():
                freed.setdefault(table.queues.name(queue), []).extend(found[queues == queue].tolist())
        return freed


def _ascending(numbers: Iterable[int]) -> Numbers:
    """Return the numbers that a message can have, in order and once."""
    return np.array(sorted({number for number in numbers if 0 < number < NUMBER_MAX}), np.uint64)
