"""Databases to open and to read: made once in a run, by the way every caller goes."""

import os
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path

from bench.callers import QUEUE, fill, frame_bytes, scratch
from bench.measure import Settings
from oms_journal import MessageDatabase
from oms_journal.journal.format.frames import OPERATIONS_MAX

_BATCH_MESSAGES = 1000


class Growing:
    """Messages of one size, one commit each, in a database that grows when more of them are wanted."""

    def __init__(self, settings: Settings, size: int) -> None:
        self.path = scratch(settings.directory, f"messages-{size}")
        self._size = size
        self._frame_bytes = frame_bytes(settings.directory, lambda db: db.add(QUEUE, bytes(size)))
        self.count = 0

    def grow(self, data_bytes: int) -> Path:
        """Return the directory once it holds at least so many bytes of frames."""
        count = -(-data_bytes // self._frame_bytes)
        if count > self.count:
            fill(self.path, size=self._size, count=count - self.count)
            self.count = count
        return self.path


def data_files(directory: Path) -> list[Path]:
    """Return the data files, in order."""
    return sorted(directory.glob("omsmsg-*.data"))


def data_bytes(directory: Path) -> int:
    """Return how many bytes the data files have."""
    return sum(path.stat().st_size for path in data_files(directory))


def add_batches(
    database: MessageDatabase, *, size: int | Sequence[int], count: int, queues: Sequence[str] = (QUEUE,)
) -> None:
    """Add messages of one size, or of several in turn, in commits of many, to one queue after the other.

    No two payloads are the same, but tiny ones by chance: equal ones would pack well, and be told as duplicates.
    """
    sizes = cycle([size] if isinstance(size, int) else size)
    batch = min(_BATCH_MESSAGES, -(-count // len(queues)))
    added = 0
    while added < count:
        for queue in queues:
            payloads = [os.urandom(one) for one in islice(sizes, min(batch, count - added))]
            added += len(database.add_many(queue, payloads))


def deliver(database: MessageDatabase, numbers: Iterable[int]) -> None:
    """Deliver messages in as few commits as their size allows."""
    left = iter(numbers)
    while batch := list(islice(left, OPERATIONS_MAX)):
        database.deliver_many(batch)
