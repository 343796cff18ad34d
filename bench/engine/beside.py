"""What callers notice of clean-up, compaction and validation beside them: p99 of a commit, against a quiet time."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.callers import QUEUE, Tasks, scratch, thread_waits
from bench.datasets import add_batches, deliver
from bench.measure import Row, Settings, percentile, time_text
from oms_journal import MessageDatabase
from oms_journal.recovery.validation import validate_directory

CALLERS = 16
PAYLOAD = 256
BOUND = 3.0
LIVE_SHARE = 10  # for compaction, one message in so many stays live
VERIFY = [sys.executable, "-m", "oms_journal.cli", "verify", "--spool"]

Waits = Callable[[Callable[[], bool]], list[float]]  # callers commit until it says so; how long each commit took
Work = Callable[[MessageDatabase, Path, float], None]  # at least once, and again until so many seconds are over


def _clean_up(database: MessageDatabase, _path: Path, _seconds: float) -> None:
    assert database.cleanup().deleted


def _compact(database: MessageDatabase, _path: Path, _seconds: float) -> None:
    assert database.cleanup(compact=True).moved_messages


def _validate(_database: MessageDatabase, path: Path, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        validate_directory(path)


def _verify(_database: MessageDatabase, path: Path, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        subprocess.run([*VERIFY, str(path)], check=True, capture_output=True)


WORKS: dict[str, tuple[str, Work]] = {
    "cleanup": ("clean-up", _clean_up),
    "compaction": ("compaction", _compact),
    "validation": ("validation in a thread", _validate),
    "verify": ("`oms verify` in another process", _verify),
}


@dataclass(slots=True)
class _Found:
    quiet: list[float] = field(default_factory=list)  # p99 of each round
    busy: list[float] = field(default_factory=list)
    commits: int = 0  # in the busy times


def beside(settings: Settings) -> Iterator[Row]:
    """Every work beside 16 threads, and beside 16 tasks."""
    for name, (what, work) in WORKS.items():
        for callers in ("threads", "asyncio"):
            found = _Found()
            for _ in range(settings.rounds):
                _round(settings, name, work, callers, found)
            yield Row(
                name=f"{name}-{callers}",
                what=f"{what} beside {CALLERS} {callers}: p99 of a commit against quiet",
                measured=[busy / quiet for busy, quiet in zip(found.busy, found.quiet, strict=True)],
                bound=BOUND,
                is_most=True,
                raw=f"{time_text(found.quiet)}, quiet",
                ours=time_text(found.busy),
                note=f"{found.commits // settings.rounds:,} commits a busy time",
            )


def _round(settings: Settings, name: str, work: Work, callers: str, found: _Found) -> None:
    """Take one p99 in a quiet time and one beside the work, on a database made for it."""
    path = scratch(settings.directory, "beside")
    payload = os.urandom(PAYLOAD)
    with MessageDatabase.open(path, cleanup_interval=0) as database:
        _prepare(database, settings, keeps=LIVE_SHARE if name == "compaction" else 0)
        if callers == "threads":
            _measure(settings, lambda until: thread_waits(lambda: database.add(QUEUE, payload), CALLERS, until),
                     lambda seconds: work(database, path, seconds), found)  # fmt: skip
        else:
            with closing(Tasks(database, asyncio.new_event_loop())) as tasks:
                _measure(settings, lambda until: tasks.waits(payload, CALLERS, until),
                         lambda seconds: work(database, path, seconds), found)  # fmt: skip
    for left in path.iterdir():
        left.unlink()


def _prepare(database: MessageDatabase, settings: Settings, *, keeps: int) -> None:
    """Fill files with messages of which none, or one in `keeps`, stays live."""
    count = settings.beside_bytes // (PAYLOAD + 16)
    add_batches(database, size=PAYLOAD, count=count)
    deliver(database, (number for number in range(1, count + 1) if not keeps or number % keeps))


def _measure(settings: Settings, waits: Waits, work: Callable[[float], None], found: _Found) -> None:
    seconds = settings.slice_seconds * settings.slices
    waits(_after(seconds / 4))  # warms up
    found.quiet.append(percentile(waits(_after(seconds)), 0.99))
    done = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            time.sleep(0.05)  # until the callers are at it
            work(seconds)
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    thread = threading.Thread(target=run)
    thread.start()
    busy = waits(done.is_set)
    thread.join()
    if failures:
        raise failures[0]
    found.busy.append(percentile(busy, 0.99))
    found.commits += len(busy)


def _after(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end
