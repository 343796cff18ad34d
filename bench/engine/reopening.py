"""Opening a database that has much in it, against reading and hashing the same bytes."""

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.datasets import Growing, data_bytes, data_files
from bench.measure import Row, Settings, alternate_rates, alternate_times, rate_text, time_text
from bench.raw import READ_BYTES, read_and_hash
from oms_journal.database import Message, MessageDatabase
from oms_journal.recovery.startup import Validation

READ_AT_ONCE = 10_000
LINEAR_SHARE = 5  # the larger of the two that are compared is twice the data set, the smaller a fifth
LINEAR_BOUND = 1.2  # of the cost of a byte, in the larger against the smaller: what scatters by itself


def open_seconds(directory: Path, validation: Validation) -> float:
    """Return how long an opening takes."""
    gc.collect()
    began = time.perf_counter()
    database = MessageDatabase.open(directory, validation=validation)
    taken = time.perf_counter() - began
    database.close()
    return taken


def _hash_seconds(directory: Path) -> float:
    """Return how long reading and hashing all data files takes, with the best size of chunks."""
    paths = data_files(directory)
    return min(read_and_hash(paths, chunk) for chunk in READ_BYTES)


def reopen(settings: Settings) -> Iterator[Row]:
    """Full validation, footers only, and how both grow; then reading what is there, in order."""
    small = Growing(settings, 256)
    small_path = small.grow(settings.data_bytes // LINEAR_SHARE)
    growing = Growing(settings, 256)
    yield from _reopen(settings, growing.grow(settings.data_bytes), 256, 2)
    yield from _reading(settings, growing.path)
    yield from _linear(settings, small_path, growing.grow(2 * settings.data_bytes))
    large = Growing(settings, 4096)
    yield from _reopen(settings, large.grow(settings.data_bytes), 4096, 8)


def _reopen(settings: Settings, path: Path, size: int, faster: float) -> Iterator[Row]:
    rounds = settings.rounds
    gigabytes = data_bytes(path) / 1e9
    found = alternate_times(rounds, lambda: _hash_seconds(path), lambda: open_seconds(path, "full"))
    yield Row(
        name=f"reopen-{size}",
        what=f"opening {gigabytes:.2g} GB of {size} B messages, fully validated, warm",
        measured=found.inverse,
        bound=0.7 if size == 256 else None,
        raw=time_text(found.raw),
        ours=time_text(found.ours),
        note="raw: reading and hashing (xxh3) the same bytes, one thread",
    )
    found = alternate_times(rounds, lambda: open_seconds(path, "full"), lambda: open_seconds(path, "footers"))
    yield Row(
        name=f"footers-{size}",
        what=f"the same by footers, against full validation ({size} B)",
        measured=found.inverse,
        bound=faster,
        raw=f"{time_text(found.raw)}, full",
        ours=time_text(found.ours),
    )


def _linear(settings: Settings, small: Path, large: Path) -> Iterator[Row]:
    factor = data_bytes(large) / data_bytes(small)
    for validation in ("full", "footers"):
        found = alternate_times(
            settings.rounds,
            lambda validation=validation: open_seconds(small, validation),  # type: ignore[misc]
            lambda validation=validation: open_seconds(large, validation),  # type: ignore[misc]
        )
        yield Row(
            name=f"linear-{validation}",
            what=f"a byte's cost with {factor:.0f} times the data, {validation}",
            measured=[ratio / factor for ratio in found.ratios],
            bound=LINEAR_BOUND,
            is_most=True,
            raw=f"{time_text(found.raw)}, {data_bytes(small) / 1e9:.2g} GB",
            ours=f"{time_text(found.ours)}, {data_bytes(large) / 1e9:.2g} GB",
        )


def _reading(settings: Settings, path: Path) -> Iterator[Row]:
    paths = data_files(path)
    with MessageDatabase.open(path, validation="footers") as database:
        everything = database.undelivered_count()
        stream = _over_and_over(database)

        def read(seconds: float) -> float:
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                count += sum(1 for _ in islice(stream, READ_AT_ONCE))
            return count / (time.perf_counter() - began)

        def read_raw(_: float) -> float:
            return everything / min(read_and_hash(paths, chunk) for chunk in READ_BYTES)

        # The raw side reads all there is each time: one slice a round, the longer.
        found = alternate_rates(replace(settings, slices=1, slice_seconds=1), read_raw, read)
    yield Row(
        name="reading",
        what="reading undelivered messages in order, 256 B",
        measured=found.ours,
        unit="/s",
        bound=300_000,
        raw=rate_text(found.raw, "/s hashed"),
        ours=rate_text(found.ours, "/s"),
    )


def _over_and_over(database: MessageDatabase) -> Iterator[Message]:
    while True:
        yield from database.undelivered("bench-0")
