"""How long a database takes to open: with much in it, against reading and hashing the same bytes; small, by a program.

And what a roll to the next file costs, and how long a program takes to import us.
"""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from bench.callers import QUEUE, frame_bytes, raw_journal, scratch
from bench.datasets import Growing, add_batches, data_bytes, data_files
from bench.measure import Row, Settings, alternate_rates, alternate_times, percentile, rate_text, time_text
from bench.raw import FILE_BYTES, READ_BYTES, read_and_hash
from oms_journal import Message, MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.reading.datafile import DataFile
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


MANY, SIZE = 64, 256  # messages in one commit, bytes of payload
NEAR = 20  # commits around a roll that may notice it
FEW = 1000  # messages of a small database
STARTS = 5  # of a process, of which the quickest counts
LIBRARIES = "import numpy, sortedcontainers, xxhash"
DATABASE = "from oms_journal import MessageDatabase"
SEND = [sys.executable, "-m", "oms_journal.cli", "send", "--spool"]


def roll(settings: Settings) -> Iterator[Row]:
    """The longest commit around each roll, ours and the raw loop's."""
    payloads = [os.urandom(SIZE)] * MANY
    data = os.urandom(frame_bytes(settings.directory, lambda db: db.add_many(QUEUE, payloads)))
    per_file = FILE_BYTES // len(data)
    commits = (settings.rounds + 2) * per_file
    with raw_journal(settings.directory, settings.method) as raw:
        raw_waits = [_timed(lambda: raw.append(data)) for _ in range(commits)]
    path = scratch(settings.directory, "rolled")
    with MessageDatabase.open(path) as database:
        waits = [_timed(lambda: database.add_many(QUEUE, payloads)) for _ in range(commits)]
    rolls = [(_first_message(file) - 1) // MANY for file in data_files(path)[1:]]
    worst = [max(waits[max(0, at - NEAR) : at + NEAR]) for at in rolls]
    raw_worst = [max(raw_waits[at - NEAR : at + NEAR]) for at in range(per_file, commits - NEAR, per_file)]
    yield Row(
        name="roll",
        what=f"the longest of {2 * NEAR} commits around a roll (add_many of {MANY} × {SIZE} B)",
        measured=[1e3 * wait for wait in worst],
        unit=" ms",
        raw=time_text(raw_worst),
        ours=time_text(worst),
        note=f"all commits: p50 {time_text([percentile(waits, 0.5)])}, p99 {time_text([percentile(waits, 0.99)])}; "
        f"raw p99 {time_text([percentile(raw_waits, 0.99)])}",
    )


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _first_message(path: Path) -> int:
    with DataFile(RealDisk(), path) as file:
        header = file.header()
    assert isinstance(header, FileHeader)
    return header.next_message


def start(settings: Settings) -> Iterator[Row]:
    """Opening nothing, opening a little, and a whole process that sends one message."""
    empty = [open_seconds(scratch(settings.directory, "new"), "full") for _ in range(settings.rounds)]
    path = scratch(settings.directory, "small")
    with MessageDatabase.open(path) as database:
        add_batches(database, size=SIZE, count=FEW)
    little = [open_seconds(path, "full") for _ in range(settings.rounds)]
    sent = [_timed(lambda: _send(path)) for _ in range(settings.rounds)]
    yield _milliseconds("start-empty", "opening an empty directory", empty)
    yield _milliseconds("start-small", f"opening {FEW:,} messages", little)
    yield _milliseconds("start-send", "`oms send` of one message, the whole process", sent)


def _send(path: Path) -> None:
    subprocess.run([*SEND, str(path), QUEUE, "hello"], check=True, capture_output=True)


def imports(settings: Settings) -> Iterator[Row]:
    """What the library takes until it can be used, in processes of their own: its name alone, then the database."""
    name = alternate_times(settings.rounds, partial(_quickest, "pass"), partial(_quickest, "import oms_journal"))
    yield Row(
        name="import",
        what="`import oms_journal`, beyond `python -c pass`",
        measured=[1e3 * (ours - raw) for raw, ours in zip(name.raw, name.ours, strict=True)],
        unit=" ms",
        bound=20,
        is_most=True,
        raw=time_text(name.raw),
        ours=time_text(name.ours),
    )
    database = alternate_times(settings.rounds, partial(_quickest, LIBRARIES), partial(_quickest, DATABASE))
    yield Row(
        name="import-database",
        what="`from oms_journal import MessageDatabase`, against the libraries that it takes",
        measured=database.ratios,
        raw=time_text(database.raw),
        ours=time_text(database.ours),
    )


def _quickest(program: str) -> float:
    """Return how long a process with the program takes, where modules were compiled before: the quickest of a few."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return min(_timed(lambda: subprocess.run(command, env=variables, check=True)) for _ in range(STARTS))


def _milliseconds(name: str, what: str, taken: list[float]) -> Row:
    return Row(name=name, what=what, measured=[1e3 * seconds for seconds in taken], unit=" ms", ours=time_text(taken))
