"""What a roll to the next file costs, and how long a program takes to import us and to open a small database."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.callers import QUEUE, frame_bytes, raw_journal, scratch
from bench.datasets import add_batches, data_files
from bench.engine.reopening import open_seconds
from bench.measure import Row, Settings, alternate_times, percentile, time_text
from bench.raw import FILE_BYTES
from oms_journal.database import MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.reading.datafile import DataFile

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
