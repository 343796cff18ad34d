"""What the verbs of a queue cost: leases, waiting, and messages with terms."""

import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.callers import QUEUE, scratch, stage_rate
from bench.engine.cost import IN_MEMORY
from bench.engine.growth import SIZE, opened, taken_rate
from bench.engine.memory import WEIGHINGS, resident
from bench.measure import Row, Settings, alternate_rates, alternate_times, percentile, rate_text, time_text
from oms_journal import AsyncMessageDatabase, CommitBlock, Message, MessageDatabase
from oms_journal.journal.disk import RealFile

PAYLOAD = os.urandom(SIZE)
SLICE_SECONDS = 0.1  # of CPU
STOCK = 1024  # messages that are prepared at once
LEASE_SECONDS = 60.0
WAITS = 200  # of a round
IDLE_SECONDS = 0.005  # before each, so that the taker waits
WEIGHED_SHARE = 10  # of the messages of the slope: those with terms take longer to add
GROUP_COMMIT = 1000  # messages of different groups that are added in one commit
DAY_SECONDS = 86_400
ADD_SHARE = 8  # so much longer than a plain one an add with a delay takes at most, beside others' work too
DUE_SECONDS = 10.0  # over which messages become due
LATE_SECONDS = 0.05  # p99 of how long after that they are handed out

Wait = Callable[[], float]  # runs one, and returns how long it took from the end of the sync


def verbs(settings: Settings) -> Iterator[Row]:
    """Every row on databases of its own in memory, but for the waits: these are on the disk to be measured."""
    for rows in (_threads_wait, _tasks_wait):
        yield rows(settings)
    if not IN_MEMORY.is_dir():
        return
    for group in (_leases, _weighed, _due):
        with tempfile.TemporaryDirectory(prefix="oms-bench-", dir=IN_MEMORY) as directory, ExitStack() as stack:
            yield from group(stack, replace(settings, directory=Path(directory)))


# Leases.


def _leases(stack: ExitStack, settings: Settings) -> Iterator[Row]:
    """A take with lease, and with the file of what is in hand, to a plain one."""
    settings = replace(settings, slice_seconds=min(SLICE_SECONDS, settings.slice_seconds))
    plain = stack.enter_context(opened(settings))
    counting = stack.enter_context(
        MessageDatabase.open(scratch(settings.directory, "db"), max_attempts=3, dead_letter="dead")
    )

    def take(numbers: Sequence[int]) -> list[Message | None]:
        return [counting.take(QUEUE, lease=LEASE_SECONDS) for _ in numbers]

    leased = partial(stage_rate, lambda: _singles(counting, STOCK), take, partial(_delivered, counting))
    found = alternate_rates(settings, taken_rate(plain, _singles, STOCK), leased)
    yield Row(
        name="cpu-take-lease",
        what="take with a lease and `max_attempts`, to a plain take: CPU",
        measured=found.inverse,
        bound=1.5,
        is_most=True,
        raw=rate_text(found.raw, "/s of CPU, take"),
        ours=rate_text(found.ours, "/s of CPU"),
    )


def _singles(database: MessageDatabase, count: int) -> Sequence[int]:
    return [database.add(QUEUE, PAYLOAD) for _ in range(count)]


def _delivered(database: MessageDatabase, messages: Sequence[Message | None]) -> None:
    database.deliver_many(filter(None, messages))


# Waiting.


class _Synced:
    """When the last durable write ended."""

    at = 0.0


@contextmanager
def _syncs() -> Iterator[_Synced]:
    """Note when each durable write of a data file ends."""
    synced, write = _Synced(), RealFile.write_durably

    def timed(file: RealFile, *arguments: Any) -> None:
        write(file, *arguments)
        synced.at = time.perf_counter()

    with patch.object(RealFile, "write_durably", timed):
        yield synced


def _threads_wait(settings: Settings) -> Row:
    """One thread takes and waits, another one adds; beside it one that waits for a bare Condition."""
    with ExitStack() as stack:
        synced = stack.enter_context(_syncs())
        database = stack.enter_context(opened(settings))
        woken: list[float] = []
        done = threading.Semaphore(0)

        def consume() -> None:
            while (message := database.take(QUEUE, wait=60)) is not None:
                woken.append(time.perf_counter())
                if not message.payload:
                    return
                database.deliver(message)
                done.release()

        def ours() -> float:
            time.sleep(IDLE_SECONDS)
            database.add(QUEUE, PAYLOAD)
            began = synced.at
            done.acquire()
            return woken.pop() - began

        bare, stop = _condition()
        stack.callback(stop)
        taker = threading.Thread(target=consume)
        taker.start()
        stack.callback(taker.join)
        stack.callback(lambda: database.add(QUEUE, b""))
        return _waited(settings, "threads", "a bare Condition", bare, ours)


def _condition() -> tuple[Wait, Callable[[], None]]:
    """Return what wakes a thread by a Condition, and what ends that thread."""
    condition = threading.Condition()
    woken, done = [0.0], threading.Semaphore(0)
    told: list[float] = []

    def run() -> None:
        while True:
            with condition:
                while not told:
                    condition.wait()
                began = told.pop()
            if not began:
                return
            woken[0] = time.perf_counter() - began
            done.release()

    def tell(moment: float) -> None:
        with condition:
            told.append(moment)
            condition.notify()

    def once() -> float:
        time.sleep(IDLE_SECONDS)
        tell(time.perf_counter())
        done.acquire()
        return woken[0]

    thread = threading.Thread(target=run)
    thread.start()

    def stop() -> None:
        tell(0.0)
        thread.join()

    return once, stop


def _tasks_wait(settings: Settings) -> Row:
    """One task takes and waits, another one of its loop adds; beside it one that waits for a bare future."""
    with _syncs() as synced, asyncio.Runner() as runner, tempfile.TemporaryDirectory(dir=settings.directory) as path:
        database = runner.run(_open_async(Path(path) / "db"))

        async def ours() -> float:
            taker = asyncio.create_task(database.take(QUEUE, wait=60))
            taker.add_done_callback(lambda _: woken.append(time.perf_counter()))
            woken: list[float] = []
            await asyncio.sleep(IDLE_SECONDS)
            await database.add(QUEUE, PAYLOAD)
            began = synced.at
            message = await taker
            assert message is not None
            await database.deliver(message)
            return woken[0] - began

        async def bare() -> float:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[float] = loop.create_future()

            async def wait() -> float:
                told = await future
                return time.perf_counter() - told

            taker = asyncio.create_task(wait())
            await asyncio.sleep(IDLE_SECONDS)
            await loop.run_in_executor(None, lambda: loop.call_soon_threadsafe(future.set_result, time.perf_counter()))
            return await taker

        try:
            return _waited(settings, "asyncio", "a bare future", lambda: runner.run(bare()), lambda: runner.run(ours()))
        finally:
            runner.run(database.close())


async def _open_async(path: Path) -> AsyncMessageDatabase:
    return await AsyncMessageDatabase.open(path)


def _waited(settings: Settings, who: str, bare_name: str, bare: Wait, ours: Wait) -> Row:
    """Take both by turns: so many waits of each in a round."""
    raw: list[float] = []
    mine: list[float] = []
    ratios: list[float] = []
    for number in range(settings.rounds + 1):
        pairs = [(bare(), ours()) for _ in range(WAITS)]
        if number:
            bares, taken = ([pair[side] for pair in pairs] for side in (0, 1))
            ratios.append(statistics.median(taken) / statistics.median(bares))
            raw += bares
            mine += taken
    return Row(
        name=f"wait-{who}",
        what=f"from the end of the sync to the taker's hand, one idle taker, {who}, to {bare_name}: median",
        measured=ratios,
        bound=1.5,
        is_most=True,
        raw=f"{time_text(raw)}, p99 {time_text([percentile(raw, 0.99)])}",
        ours=f"{time_text(mine)}, p99 {time_text([percentile(mine, 0.99)])}",
    )


# Terms.


def _weighed(_: ExitStack, settings: Settings) -> Iterator[Row]:
    """Resident memory of messages with terms, above that of as many without; and what opening them takes."""
    count = settings.slope_counts[1] // WEIGHED_SHARE
    payload = PAYLOAD[:16]
    small, plain, due, grouped = (scratch(settings.directory, name) for name in ("small", "plain", "due", "grouped"))
    _filled(small, 0, lambda block, _: block.add(QUEUE, payload))
    _filled(plain, count, lambda block, _: block.add(QUEUE, payload))
    _filled(due, count, lambda block, number: block.add(QUEUE, payload, delay=DAY_SECONDS + number))
    _filled(grouped, count, lambda block, number: block.add(QUEUE, payload, group=f"customer-{number}"))
    for name, what, path, bound in (
        ("due", "a message with a due time", due, 16),
        ("group", "a group that has one message", grouped, 150),
    ):
        weighed = [(resident(path, small) - resident(plain, small)) / count for _ in range(WEIGHINGS)]
        yield Row(
            name=f"memory-{name}",
            what=f"resident memory of {what}, beside a message without, {count:,} of them; free memory given back",
            measured=weighed,
            unit=" B",
            bound=bound,
            is_most=True,
        )

    found = alternate_times(settings.rounds, partial(_opening, plain), partial(_opening, grouped))
    yield Row(
        name="start-groups",
        what=f"opening {count:,} messages, each in a group of its own, to as many without: CPU",
        measured=found.ratios,
        raw=time_text(found.raw),
        ours=time_text(found.ours),
    )


def _opening(path: Path) -> float:
    """Return the seconds of the processor that an opening takes."""
    began = time.process_time()
    database = MessageDatabase.open(path)
    taken = time.process_time() - began
    database.close()
    return taken


def _filled(path: Path, count: int, add: Callable[[CommitBlock, int], object]) -> None:
    """Make a database with so many messages, many in a commit."""
    with MessageDatabase.open(path) as database:
        database.deliver(database.add(QUEUE, b""))
        for first in range(0, count, GROUP_COMMIT):
            with database.commit() as block:
                for number in range(first, first + GROUP_COMMIT):
                    add(block, number)


def _due(stack: ExitStack, settings: Settings) -> Iterator[Row]:
    """Messages that become due over some seconds, to as many plain takes: CPU of the process."""
    count = settings.identifiers
    ratios, late = [], []
    for _ in range(settings.runs):
        database = stack.enter_context(opened(settings))
        adding = time.monotonic()
        _singles(database, count)
        adding = time.monotonic() - adding
        began = time.process_time()
        messages = [database.take(QUEUE) for _ in range(count)]
        plain = time.process_time() - began
        assert all(messages)
        database = stack.enter_context(opened(settings))
        first = time.monotonic() + ADD_SHARE * adding + 1  # they are all there by then
        due: dict[int, float] = {}
        for number in range(count):
            moment = first + DUE_SECONDS * number / count
            due[int(database.add(QUEUE, PAYLOAD, delay=max(moment - time.monotonic(), 0.0)))] = moment
        assert time.monotonic() < first, "the machine is too slow for so many messages"
        began = time.process_time()
        taken: list[tuple[int, float]] = []
        while len(taken) < count:
            message = database.take(QUEUE, wait=60)
            assert message is not None
            taken.append((message.number, time.monotonic()))
        ratios.append((time.process_time() - began) / plain)
        waited = [moment - due[number] for number, moment in taken]
        assert min(waited) > -1e-3, f"a message was handed out {-min(waited):.3f} s early"
        late.append(percentile(waited, 0.99))
    yield Row(
        name="due-cpu",
        what=f"{count:,} messages that become due over {DUE_SECONDS:.0f} s, taken, to as many plain takes: CPU",
        measured=ratios,
        bound=1.25,
        is_most=True,
    )
    yield Row(
        name="due-late",
        what="the same: how late they are handed out, p99",
        measured=[1e3 * one for one in late],
        unit=" ms",
        bound=1e3 * LATE_SECONDS,
        is_most=True,
    )
