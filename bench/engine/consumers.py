"""What a consumer costs beside a producer: the CPU of each call in relation to `add`, on a file system in memory.

In memory a sync costs nothing, so the CPU of the calling thread is all there is. Two calls are measured by turns. What
prepares messages for a call, and what clears away what it leaves, is not counted.
"""

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.callers import QUEUE, cycle, stage_rate
from bench.datasets import add_batches
from bench.engine.bytecodes import PROPERTIES
from bench.engine.cost import IN_MEMORY
from bench.engine.growth import (
    SIZE,
    beside_others,
    cpu_rate,
    filled,
    one_commit,
    opened,
    take_nothing,
    taken_rate,
)
from bench.measure import Rate, Row, Settings, alternate_rates, rate_text
from oms_journal import Message, MessageDatabase

PAYLOAD = os.urandom(SIZE)
SLICE_SECONDS = 0.1  # of CPU: no disk is waited for
BATCH = 64  # messages in a call that takes or delivers many
STOCK = 16 * BATCH  # messages that are prepared at once
COMMIT_MESSAGES = 10_000  # of a large commit
DEPTH_TIMES = 100  # as many messages in the larger index as in the smaller
FLAT = 1.2  # a cost that does not grow, with its scatter


def consumers(settings: Settings) -> Iterator[Row]:
    """Every row on databases of its own in memory."""
    if not IN_MEMORY.is_dir():
        return
    seconds = min(SLICE_SECONDS, settings.slice_seconds)
    for group in (_to_add, _to_take, _deep):
        with tempfile.TemporaryDirectory(prefix="oms-bench-", dir=IN_MEMORY) as directory, ExitStack() as stack:
            yield from group(stack, replace(settings, directory=Path(directory), slice_seconds=seconds))


def _to_add(stack: ExitStack, settings: Settings) -> Iterator[Row]:
    """Calls to a plain add."""
    database = stack.enter_context(opened(settings))
    add = cpu_rate(lambda one: one.add(QUEUE, PAYLOAD), stack.enter_context(opened(settings)))
    row = partial(_row, settings, add, "/s of CPU, add")
    yield row("take", "take, to add", taken_rate(database, _singles, STOCK), 0.45)
    yield row("deliver", "deliver, to add", _delivered_rate(database, _deliver_each), 1.3)
    yield row(
        "deliver-many", f"deliver_many of {BATCH}, a message, to add", _delivered_rate(database, _deliver_batches), 0.10
    )
    for name, what, stock in (("singles", "single adds", _singles), ("commit", "one commit", _commits)):
        yield row(
            f"take-many-{name}", f"take_many of {BATCH} out of {what}, a message, to add",
            _taken_batches_rate(database, stock), 0.25,
        )  # fmt: skip
    crowded = beside_others(stack, settings, settings.beside_messages)
    what = f"cycle of add, take and deliver beside {settings.beside_messages:,} messages of another queue, to add"
    yield row("cycle", what, cpu_rate(lambda one: cycle(one, PAYLOAD), crowded), 3.1)
    described = stack.enter_context(opened(settings))
    yield row(
        "properties", "add with two properties, to add",
        cpu_rate(lambda one: one.add(QUEUE, PAYLOAD, properties=PROPERTIES), described), 1.5,
    )  # fmt: skip
    names = itertools.count()
    what = f"add with an identifier, the window of {settings.identifiers:,} full, to add"
    identified = cpu_rate(
        lambda one: one.add(QUEUE, PAYLOAD, producer_id=f"order-{next(names)}"),
        filled(stack, settings, settings.identifiers),
    )
    yield row("identifier", what, identified, 1.5)


def _to_take(stack: ExitStack, settings: Settings) -> Iterator[Row]:
    """Takes to a plain take."""
    plain, large = (stack.enter_context(opened(settings)) for _ in range(2))
    row = partial(_row, settings, taken_rate(plain, _singles, STOCK), "/s of CPU, take")
    others = settings.index_messages // 10
    yield row(
        "take-empty", f"take from an empty queue beside {others:,} messages of another, to a plain take",
        cpu_rate(take_nothing, beside_others(stack, settings, others)), 1,
    )  # fmt: skip
    yield row(
        "take-commit", f"take out of a commit of {COMMIT_MESSAGES:,} messages, to a plain take",
        taken_rate(large, one_commit, COMMIT_MESSAGES), 5,
    )  # fmt: skip


def _deep(stack: ExitStack, settings: Settings) -> Iterator[Row]:
    """Takes from an index with many messages to takes from one with few: half are the queue's, half another's."""
    counts = settings.index_messages // DEPTH_TIMES, settings.index_messages
    rates = []
    for count in counts:
        database = stack.enter_context(opened(settings))
        add_batches(database, size=16, count=count, queues=(QUEUE, "other"))
        rates.append(taken_rate(database, one_commit, 1000))
    few, many = rates
    what = f"take from an index of {counts[1]:,} messages, to one of {counts[0]:,}"
    yield _row(settings, few, "/s of CPU, few", "take-deep", what, many, FLAT)


def _singles(database: MessageDatabase, count: int) -> Sequence[int]:
    return [database.add(QUEUE, PAYLOAD) for _ in range(count)]


def _commits(database: MessageDatabase, count: int) -> Sequence[int]:
    return [number for _ in range(0, count, BATCH) for number in one_commit(database, BATCH)]


def _delivered_rate(database: MessageDatabase, deliver: Callable[[MessageDatabase, Sequence[Message]], object]) -> Rate:
    """Return how to find how many messages a second of CPU are delivered that were added singly and taken."""

    def taken() -> Sequence[Message]:
        _singles(database, STOCK)
        return [message for _ in range(STOCK) if (message := database.take(QUEUE))]

    return partial(stage_rate, taken, partial(deliver, database), lambda _: None)


def _deliver_each(database: MessageDatabase, messages: Sequence[Message]) -> None:
    for message in messages:
        database.deliver(message)


def _deliver_batches(database: MessageDatabase, messages: Sequence[Message]) -> None:
    for at in range(0, len(messages), BATCH):
        database.deliver_many(messages[at : at + BATCH])


def _taken_batches_rate(database: MessageDatabase, stock: Callable[[MessageDatabase, int], Sequence[int]]) -> Rate:
    """Return how to find how many messages a second of CPU are taken in batches."""

    def take(numbers: Sequence[int]) -> list[Sequence[Message]]:
        return [database.take_many(QUEUE, BATCH) for _ in range(0, len(numbers), BATCH)]

    def deliver(batches: list[Sequence[Message]]) -> None:
        for batch in batches:
            database.deliver_many(batch)

    return partial(stage_rate, lambda: stock(database, STOCK), take, deliver)


def _row(  # noqa: PLR0913
    settings: Settings, plain: Rate, unit: str, name: str, what: str, call: Rate, bound: float
) -> Row:
    found = alternate_rates(settings, plain, call)
    return Row(
        name=f"cpu-{name}",
        what=f"{what}: CPU",
        measured=found.inverse,
        bound=bound,
        is_most=True,
        raw=rate_text(found.raw, unit),
        ours=rate_text(found.ours, "/s of CPU"),
    )
