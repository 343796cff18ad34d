"""Those who commit: one caller, many threads, many tasks; how often a second, or how long each waits."""

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench.raw import METHODS, RawJournal
from oms_journal import AsyncMessageDatabase, MessageDatabase
from oms_journal.recovery.validation import validate_directory

QUEUE = "bench"
NOTHING_SECONDS = 0.001  # a consuming task that finds no message looks again after so long
T = TypeVar("T")
U = TypeVar("U")
_numbers = itertools.count(1)


def scratch(directory: Path, name: str) -> Path:
    """Return a path that nothing is at yet."""
    return directory / f"{name}-{next(_numbers)}"


def frame_bytes(directory: Path, write: Callable[[MessageDatabase], object]) -> int:
    """Return how many bytes a commit takes in a data file, found by looking at two files."""
    ends = []
    for count in (1, 2):
        path = scratch(directory, "frame")
        with MessageDatabase.open(path) as database:
            for _ in range(count):
                write(database)
        (report,) = validate_directory(path)
        ends.append(report.good_end)
    return ends[1] - ends[0]


def cycle(database: MessageDatabase, payload: bytes) -> None:
    """Add a message, take it, deliver it."""
    database.add(QUEUE, payload)
    message = database.take(QUEUE)
    assert message is not None
    database.deliver(message)


def batch_cycle(database: MessageDatabase, payloads: Sequence[bytes]) -> None:
    """Add messages in one commit, take them, deliver them in another."""
    database.add_many(QUEUE, payloads)
    database.deliver_many(database.take_many(QUEUE, len(payloads)))


@contextmanager
def raw_journal(directory: Path, method: str) -> Iterator[RawJournal]:
    raw = RawJournal(scratch(directory, "raw"), METHODS[method])
    try:
        yield raw
    finally:
        raw.close()


def one_caller(write: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Commit one after the other for so long, by a clock in seconds; return commits a second."""
    count = 0
    began = clock()
    end = began + seconds
    while (now := clock()) < end:
        for _ in range(16):
            write()
        count += 16
    return count / (now - began)


def stage_rate(
    prepare: Callable[[], Sequence[T]], stage: Callable[[Sequence[T]], U], clear: Callable[[U], object], seconds: float
) -> float:
    """Prepare things, let a stage have them, clear away what it leaves; return things a second of the stage's CPU."""
    spent, count = 0.0, 0
    while spent < seconds:
        prepared = prepare()
        began = time.thread_time()
        left = stage(prepared)
        spent += time.thread_time() - began
        clear(left)
        count += len(prepared)
    return count / spent


def many_threads(write: Callable[[], object], count: int, seconds: float) -> float:
    """Let threads commit one after the other for so long; return commits a second."""
    counts = [0] * count
    stopping = False

    def run(index: int) -> None:
        mine = 0
        while not stopping:
            write()
            mine += 1
        counts[index] = mine

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stopping = True
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def thread_waits(write: Callable[[], object], count: int, until: Callable[[], bool]) -> list[float]:
    """Let threads commit until something is over; return how long each commit took, in seconds."""
    waits: list[list[float]] = [[] for _ in range(count)]

    def run(mine: list[float]) -> None:
        clock = time.perf_counter
        while not until():
            began = clock()
            write()
            mine.append(clock() - began)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in waits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [wait for mine in waits for wait in mine]


class Tasks:
    """Callers in asyncio on an open database, with an event loop of their own."""

    def __init__(self, database: MessageDatabase, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._database = AsyncMessageDatabase.wrap(database)
        loop.run_until_complete(self._database.__aenter__())

    def close(self) -> None:
        self._loop.run_until_complete(self._database.__aexit__(None, None, None))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def rate(self, payload: bytes, count: int, seconds: float) -> float:
        """Let tasks add one message after the other for so long; return messages a second."""
        return self._loop.run_until_complete(self._rate(payload, count, seconds))

    async def _rate(self, payload: bytes, count: int, seconds: float) -> float:
        add = self._database.add
        stopping = False
        added = 0

        async def run() -> None:
            nonlocal added
            while not stopping:
                await add(QUEUE, payload)
                added += 1

        began = time.perf_counter()
        tasks = [asyncio.ensure_future(run()) for _ in range(count)]
        await asyncio.sleep(seconds)
        stopping = True
        await asyncio.gather(*tasks)
        return added / (time.perf_counter() - began)

    def cycle_rate(self, payload: bytes, count: int, seconds: float) -> float:
        """Let tasks add messages, and as many others take and deliver; return messages added and delivered a second."""
        return self._loop.run_until_complete(self._cycle_rate(payload, count, seconds))

    async def _cycle_rate(self, payload: bytes, count: int, seconds: float) -> float:
        stopping = False
        done = 0

        async def produce() -> None:
            nonlocal done
            while not stopping:
                await self._database.add(QUEUE, payload)
                done += 1

        async def consume() -> None:
            nonlocal done
            while not stopping:
                message = await self._database.take(QUEUE)
                if message is None:
                    await asyncio.sleep(NOTHING_SECONDS)
                    continue
                await self._database.deliver(message)
                done += 1

        began = time.perf_counter()
        tasks = [asyncio.ensure_future(run()) for run in (produce, consume) for _ in range(count)]
        await asyncio.sleep(seconds)
        stopping = True
        await asyncio.gather(*tasks)
        return done / (time.perf_counter() - began)

    def waits(self, payload: bytes, count: int, until: Callable[[], bool]) -> list[float]:
        """Let tasks add messages until something is over; return how long each commit took, in seconds."""
        return self._loop.run_until_complete(self._waits(payload, count, until))

    async def _waits(self, payload: bytes, count: int, until: Callable[[], bool]) -> list[float]:
        waits: list[float] = []

        async def run() -> None:
            clock = time.perf_counter
            while not until():
                began = clock()
                await self._database.add(QUEUE, payload)
                waits.append(clock() - began)

        await asyncio.gather(*[run() for _ in range(count)])
        return waits


def fill(directory: Path, *, size: int, count: int, callers: int = 512, queues: int = 1) -> None:
    """Add messages of that many bytes, each with a commit of its own, by the way every caller goes."""
    payloads = [os.urandom(size) for _ in range(64)]

    async def add_all() -> None:
        left = iter(range(count))

        async def run() -> None:
            for number in left:
                await database.add(f"{QUEUE}-{number % queues}", payloads[number % len(payloads)])

        async with AsyncMessageDatabase.open(directory) as database:
            await asyncio.gather(*[run() for _ in range(callers)])

    asyncio.run(add_all())
