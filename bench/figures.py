"""Six absolute figures for the README: what one may expect of a machine like the one that is named below them.

`python -m bench --readme`, or `make bench ARGS=--readme`. It takes less than two minutes. Each figure is the median of
a few rounds, with the lowest and the highest.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from bench import machine
from bench.broker.stomp import Serving, settled
from bench.broker.stomp_client import keep_sending, sending
from bench.callers import QUEUE, Tasks, fill, one_caller, scratch
from bench.datasets import add_batches, data_bytes
from bench.engine.memory import weigh
from bench.engine.opening import open_seconds
from oms_journal import MessageDatabase

SIZE = 256  # bytes of a message
CALLERS = 64
CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured."""

    rounds: int = 5
    seconds: float = 1.5  # of a round
    opened: int = 1_000_000  # messages in the database that is opened, each with a commit of its own
    weighed: int = 200_000  # messages in the one whose memory is weighed: more take no other share


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the six: what it is, what each round gave, in which unit, and how a value reads."""

    what: str
    measured: Sequence[float]
    unit: str
    form: str = ",.0f"

    def cells(self) -> tuple[str, str, str]:
        low, middle, high = (
            f"{value:{self.form}}"
            for value in (min(self.measured), statistics.median(self.measured), max(self.measured))
        )
        return self.what, f"{middle} {self.unit}", f"{low} to {high}"


def figures(directory: Path, extent: Extent) -> Iterator[Figure]:
    """Measure the six in a directory, and yield them one by one."""
    yield from _calls(directory, extent)
    yield from _opening(directory, extent)
    yield _serving(directory, extent)


def described(directory: Path, syncs: dict[str, float], company: machine.Company) -> list[str]:
    """Return lines that say where, with which commit and when the figures were measured."""
    cpu, file_system, python, raw = machine.describe(directory, syncs)
    share = company.share()
    busy = "" if share is None else f"; meanwhile others used {share:.0%} of the CPUs"
    return [cpu, file_system, python, raw, f"Commit {commit()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC{busy}"]


def markdown(measured: Sequence[Figure], lines: Sequence[str]) -> str:
    """Return the six as a table, and below it where they are from."""
    heads = ("what", "median", "lowest to highest")
    table = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * 3, *(figure.cells() for figure in measured))]
    return "\n".join([*table, "", *(f"- {line}" for line in lines)])


def commit() -> str:
    """Return the commit that is measured, as git names it."""

    def said(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = said("rev-parse", "--short=10", "HEAD") or "unknown"
    is_changed = said("status", "--porcelain", "--untracked-files=no")
    return f"{name} with changes" if is_changed else name


def _calls(directory: Path, extent: Extent) -> Iterator[Figure]:
    payload = os.urandom(SIZE)
    with MessageDatabase.open(scratch(directory, "calls"), cleanup_interval=0) as database:
        yield _rate(
            f"durable `add` of {SIZE} bytes, one caller",
            extent,
            lambda seconds: one_caller(lambda: database.add(QUEUE, payload), seconds),
        )
        with closing(Tasks(database, asyncio.new_event_loop())) as tasks:
            yield _rate(
                f"durable `add` of {SIZE} bytes, {CALLERS} callers in asyncio",
                extent,
                lambda seconds: tasks.rate(payload, CALLERS, seconds),
            )

        def take_and_deliver() -> None:
            message = database.take(QUEUE)
            assert message is not None
            database.deliver(message)

        add_batches(database, size=SIZE, count=100_000)
        yield _rate(
            "`take` and durable `deliver`, one caller", extent, lambda seconds: one_caller(take_and_deliver, seconds)
        )


def _opening(directory: Path, extent: Extent) -> Iterator[Figure]:
    path, small, weighed = (scratch(directory, name) for name in ("opened", "small", "weighed"))
    fill(path, size=SIZE, count=extent.opened)
    with MessageDatabase.open(weighed) as database:
        add_batches(database, size=SIZE, count=extent.weighed)
    with MessageDatabase.open(small) as database:
        database.deliver_many(database.add_many(QUEUE, [b""] * 8)[1:])
    open_seconds(path, "full")
    megabytes = data_bytes(path) / 1e6
    yield Figure(
        f"opening {extent.opened:,} waiting messages ({megabytes:,.0f} MB in the page cache), every byte checked",
        [1000 * open_seconds(path, "full") for _ in range(extent.rounds)],
        "ms",
    )
    row = weigh((weighed, small), "memory", "", 0)
    yield Figure("memory for each waiting message", row.measured, "bytes", ".1f")


def _serving(directory: Path, extent: Extent) -> Figure:
    payload = os.urandom(SIZE)
    with Serving(scratch(directory, "served")) as served:
        connections = served.connections(CONNECTIONS)
        frames = [sending(f"/queue/{QUEUE}{number}", payload) for number in range(CONNECTIONS)]
        run = settled(connections, lambda seconds: keep_sending(connections, frames, 1, seconds).rate)
        return _rate(f"`oms serve`: durable SEND of {SIZE} bytes with RECEIPT, {CONNECTIONS} connections", extent, run)


def _rate(what: str, extent: Extent, run: Callable[[float], float]) -> Figure:
    run(extent.seconds / 3)  # the first one warms up
    measured = list(islice(iter(lambda: run(extent.seconds), None), extent.rounds))
    return Figure(what, measured, "a second")


def text(measured: Sequence[Figure], lines: Sequence[str]) -> str:
    """Return the six for a terminal."""
    rows = [figure.cells() for figure in measured]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    table = [f"{what:{widths[0]}}  {middle:>{widths[1]}}  ({span})" for what, middle, span in rows]
    return "\n".join([*table, "", *lines])


def told(figure: Figure) -> None:
    """Say on the way what was measured."""
    print("{}: {} ({})".format(*figure.cells()), file=sys.stderr, flush=True)
