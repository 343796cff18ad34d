"""What the index takes of memory for each undelivered message, weighed in processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.callers import QUEUE, scratch
from bench.datasets import add_batches, deliver
from bench.measure import Row, Settings
from oms_journal import MessageDatabase

PAYLOAD = 16  # bytes: payloads are not in the index
LIVE_SHARE = 1000  # scattered: one number in so many is live
WEIGHINGS = 3
# What an opening has freed is no cost of a message: the C library gives it back at once.
GIVES_BACK = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def memory(settings: Settings) -> Iterator[Row]:
    """One queue, a thousand queues, and few messages among many numbers."""
    small = scratch(settings.directory, "small")
    with MessageDatabase.open(small) as database:
        database.deliver_many(database.add_many(QUEUE, [b""] * 8)[1:])
    for count in settings.message_counts:
        for queues in (1, 1000):
            path = scratch(settings.directory, "weighed")
            with MessageDatabase.open(path) as database:
                add_batches(database, size=PAYLOAD, count=count, queues=[f"{QUEUE}-{n}" for n in range(queues)])
            name = f"memory-{queues}-{count // 1000}k"
            yield weigh((path, small), name, f"index, {count:,} messages, {_queues(queues)}", 24)
            if queues == 1:
                with MessageDatabase.open(path) as database:
                    deliver(database, (n for n in range(1, count + 1) if n % LIVE_SHARE))
                name = f"memory-scattered-{count // 1000}k"
                yield weigh((path, small), name, f"index, 1 in {LIVE_SHARE:,} of {count:,} numbers live", 64)


def slopes(settings: Settings) -> Iterator[Row]:
    """What one more message takes, of one queue: by resident memory, between two sizes of the index."""
    counts = settings.slope_counts
    for what, sizes, bound in (("of mixed sizes", range(2 * PAYLOAD), 12), ("of one size", (PAYLOAD,), 6)):
        paths = [scratch(settings.directory, f"slope-{count}") for count in counts]
        for path, count in zip(paths, counts, strict=True):
            with MessageDatabase.open(path) as database:
                add_batches(database, size=sizes, count=count)
        small, large = paths
        more = counts[1] - counts[0]
        yield Row(
            name=f"memory-slope-{what.split()[1]}",
            what=f"resident memory of one more message {what}, from {counts[0]:,} to {counts[1]:,}",
            measured=[_said(large, small)["bytes"] / more for _ in range(WEIGHINGS)],
            unit=" B",
            bound=bound,
            is_most=True,
            ours=f"{_said(large, small, '--traced')['bytes'] / more:.1f} B by what Python has allocated",
        )


def _queues(count: int) -> str:
    return "one queue" if count == 1 else f"{count:,} queues"


def weigh(paths: tuple[Path, Path], name: str, what: str, bound: float, *, is_broker: bool = False) -> Row:
    """Return what each message takes in a process that opens the first directory; the second one is small."""
    options = ["--broker"] if is_broker else []
    weighed = [_probe(*paths, "--traced", *options) for _ in range(WEIGHINGS)]
    resident = [_probe(*paths, *options) for _ in range(WEIGHINGS)]
    return Row(
        name=name,
        what=what,
        measured=weighed,
        unit=" B",
        bound=bound,
        is_most=True,
        ours=f"{sorted(resident)[WEIGHINGS // 2]:.1f} B by resident memory",
    )


def _probe(path: Path, small: Path, *options: str) -> float:
    """Return the bytes a message that an opening keeps, as its own process sees it."""
    said = _said(path, small, *options)
    return said["bytes"] / said["messages"]


def resident(path: Path, small: Path) -> float:
    """Return the bytes of resident memory that an opening keeps above those of a small one."""
    return _said(path, small)["bytes"]


def _said(path: Path, small: Path, *options: str) -> Mapping[str, float]:
    """Return the bytes that an opening keeps above those of a small one, and its messages."""
    command = [sys.executable, "-m", "bench.weighing", str(path), str(small), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **GIVES_BACK})
    said: Mapping[str, float] = json.loads(done.stdout)
    return said
