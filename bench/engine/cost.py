"""What one commit costs where syncing costs nothing: in memory, CPU time is all there is."""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.callers import QUEUE, frame_bytes, one_caller, raw_journal, scratch
from bench.measure import Row, Settings, alternate_rates, rate_text
from oms_journal import MessageDatabase

IN_MEMORY = Path("/dev/shm")
SIZE = 256
BOUND = 10.0  # microseconds of a single commit


def cost(settings: Settings) -> Iterator[Row]:
    """One caller on a file system in memory."""
    if not IN_MEMORY.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix="oms-bench-", dir=IN_MEMORY) as directory:
        yield _measure(replace(settings, directory=Path(directory)))


def _measure(settings: Settings) -> Row:
    payload = os.urandom(SIZE)
    data = os.urandom(frame_bytes(settings.directory, lambda db: db.add(QUEUE, payload)))
    with (
        raw_journal(settings.directory, settings.method) as raw,
        MessageDatabase.open(scratch(settings.directory, "db")) as database,
    ):
        found = alternate_rates(
            settings,
            lambda seconds: raw.run(data, seconds, time.thread_time),
            lambda seconds: one_caller(lambda: database.add(QUEUE, payload), seconds, time.thread_time),
        )
    return Row(
        name="cpu",
        what=f"one caller, {SIZE} B, in memory ({IN_MEMORY}): CPU beyond the raw calls",
        measured=[1e6 / ours - 1e6 / raw for raw, ours in zip(found.raw, found.ours, strict=True)],
        unit=" µs",
        bound=BOUND,
        is_most=True,
        raw=rate_text(found.raw, "/s of CPU"),
        ours=rate_text(found.ours, "/s of CPU"),
    )
