"""Commits a second: one caller, tasks, threads, many messages in one commit, deliveries, cycles of all of them."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from bench.callers import (
    QUEUE,
    Tasks,
    batch_cycle,
    cycle,
    frame_bytes,
    many_threads,
    one_caller,
    raw_journal,
    scratch,
)
from bench.measure import Alternation, Row, Settings, quiet_rates, rate_text, time_text
from oms_journal import MessageDatabase

Group = Callable[[Settings], Iterator[Row]]
Write = Callable[[MessageDatabase], object]

SMALL = 256  # bytes of payload
MANY = 64  # messages in one commit


@contextmanager
def _open(settings: Settings) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(scratch(settings.directory, "db")) as database:
        yield database


def one(settings: Settings) -> Iterator[Row]:
    """One caller, one durable commit after the other."""
    for size in (SMALL, 1024):
        yield _one(settings, size)


def _one(settings: Settings, size: int) -> Row:
    payload = os.urandom(size)
    data = os.urandom(frame_bytes(settings.directory, lambda db: db.add(QUEUE, payload)))
    with raw_journal(settings.directory, settings.method) as raw, _open(settings) as database:
        found = quiet_rates(
            settings,
            lambda seconds: raw.run(data, seconds),
            lambda seconds: one_caller(lambda: database.add(QUEUE, payload), seconds),
        )
    return _row(f"one-{size}", f"one caller, {size} B, one commit each", found, 0.90)


def tasks(settings: Settings) -> Iterator[Row]:
    """Callers in asyncio, one message each per commit."""
    for count, bound in {16: 0.52, 64: 0.33}.items():
        found = _tasks(settings, asyncio.new_event_loop, count)
        yield _row(f"asyncio-{count}", f"{count} asyncio callers, {SMALL} B each", found, bound)
    try:
        import uvloop
    except ImportError:
        return
    for count, bound in {16: 0.70, 64: 0.40}.items():
        found = _tasks(settings, uvloop.new_event_loop, count)
        yield _row(f"uvloop-{count}", f"{count} asyncio callers with uvloop, {SMALL} B each", found, bound)


def _tasks(settings: Settings, new_loop: Callable[[], asyncio.AbstractEventLoop], count: int) -> Alternation:
    """Compare so many tasks with the raw loop that syncs the same bytes in one write of so many."""
    payload = os.urandom(SMALL)
    data = os.urandom(count * frame_bytes(settings.directory, lambda db: db.add(QUEUE, payload)))
    with (
        raw_journal(settings.directory, settings.method) as raw,
        _open(settings) as database,
        closing(Tasks(database, new_loop())) as callers,
    ):
        return quiet_rates(
            settings,
            lambda seconds: count * raw.run(data, seconds),
            lambda seconds: callers.rate(payload, count, seconds),
        )


def threads(settings: Settings) -> Iterator[Row]:
    """Callers in threads, compared with one of them alone."""
    for count, bound in {16: 4.0, 64: 4.5}.items():
        yield _threads(settings, count, bound)


def _threads(settings: Settings, count: int, bound: float) -> Row:
    payload = os.urandom(SMALL)
    with _open(settings) as database:
        found = quiet_rates(
            settings,
            lambda seconds: one_caller(lambda: database.add(QUEUE, payload), seconds),
            lambda seconds: many_threads(lambda: database.add(QUEUE, payload), count, seconds),
        )
    return Row(
        name=f"threads-{count}",
        what=f"{count} threads, {SMALL} B each, against one thread",
        measured=found.ratios,
        bound=bound,
        raw=rate_text(found.raw, "/s, one thread"),
        ours=rate_text(found.ours, "/s"),
        is_too_busy=found.is_too_busy,
    )


def add_many(settings: Settings) -> Iterator[Row]:
    """Many messages in one commit."""
    payloads = [os.urandom(SMALL) for _ in range(MANY)]
    data = os.urandom(frame_bytes(settings.directory, lambda db: db.add_many(QUEUE, payloads)))
    with raw_journal(settings.directory, settings.method) as raw, _open(settings) as database:
        found = quiet_rates(
            settings,
            lambda seconds: MANY * raw.run(data, seconds),
            lambda seconds: MANY * one_caller(lambda: database.add_many(QUEUE, payloads), seconds),
        )
    yield _row("add-many", f"add_many of {MANY} × {SMALL} B", found, 0.70)


def deliver(settings: Settings) -> Iterator[Row]:
    """One caller delivers messages, one commit each."""
    _, data = _two_frames(settings, lambda db: db.add(QUEUE, b""), lambda db: cycle(db, b""))
    with raw_journal(settings.directory, settings.method) as raw, _open(settings) as database:
        left: list[int] = []

        def deliver_one() -> None:
            if not left:
                left.extend(reversed(database.add_many(QUEUE, [b""] * 100_000)))
            database.deliver(left.pop())

        found = quiet_rates(
            settings, lambda seconds: raw.run(data, seconds), lambda seconds: one_caller(deliver_one, seconds)
        )
    yield _row("deliver", "one caller delivers, one commit each", found, None)


def cycles(settings: Settings) -> Iterator[Row]:
    """Messages that are added, taken and delivered: singly, in batches, by tasks."""
    payload = os.urandom(SMALL)
    payloads = [payload] * MANY
    yield _cycle(
        settings, "cycle", f"cycle of add, take and deliver, {SMALL} B, against two raw writes", None,
        lambda db: db.add(QUEUE, payload), lambda db: cycle(db, payload),
    )  # fmt: skip
    yield _cycle(
        settings, "batch-cycle", f"the same with {MANY} messages at once, against two raw writes", 0.40,
        lambda db: db.add_many(QUEUE, payloads), lambda db: batch_cycle(db, payloads),
    )  # fmt: skip
    yield _consuming_tasks(settings)


def _cycle(  # noqa: PLR0913
    settings: Settings, name: str, what: str, bound: float | None, add: Write, whole: Write
) -> Row:
    """Compare a cycle on a queue that is empty before and after with the raw loop that writes its two frames."""
    added, delivered = _two_frames(settings, add, whole)
    with raw_journal(settings.directory, settings.method) as raw, _open(settings) as database:

        def write_both() -> None:
            raw.append(added)
            raw.append(delivered)

        found = quiet_rates(
            settings,
            lambda seconds: one_caller(write_both, seconds),
            lambda seconds: one_caller(lambda: whole(database), seconds),
        )
    sync = time_text([1 / (2 * rate) for rate in found.raw])
    return replace(_row(name, what, found, bound), raw=f"{rate_text(found.raw, '/s')}, {sync} a sync")


def _two_frames(settings: Settings, add: Write, whole: Write) -> tuple[bytes, bytes]:
    """Return as many bytes as the commit that adds takes, and as the one that delivers."""
    added, both = (frame_bytes(settings.directory, write) for write in (add, whole))
    return os.urandom(added), os.urandom(both - added)


def _consuming_tasks(settings: Settings) -> Row:
    """Compare tasks that add beside tasks that take and deliver with tasks that only add."""
    payload = os.urandom(SMALL)
    with (
        _open(settings) as adding,
        _open(settings) as cycling,
        closing(Tasks(adding, asyncio.new_event_loop())) as producers,
        closing(Tasks(cycling, asyncio.new_event_loop())) as both,
    ):
        found = quiet_rates(
            settings,
            lambda seconds: producers.rate(payload, MANY, seconds),
            lambda seconds: both.cycle_rate(payload, MANY, seconds),
        )
    what = f"{MANY} asyncio tasks that add and {MANY} that take and deliver, against {MANY} that only add: operations"
    note = "each add and each deliver is an operation; a take is not"
    return replace(_row("asyncio-cycle", what, found, 0.5), note=note)


def _row(name: str, what: str, found: Alternation, bound: float | None) -> Row:
    return Row(
        name=name,
        what=what,
        measured=found.ratios,
        bound=bound,
        raw=rate_text(found.raw, "/s"),
        ours=rate_text(found.ours, "/s"),
        is_too_busy=found.is_too_busy,
    )
