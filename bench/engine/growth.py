"""What a call costs with ten times as much beside it: CPU against CPU, on a file system in memory.

Beside a call lie the messages of another queue, the producer identifiers of the duplicate window, the other messages
of the commit that a message came with. A call that looks through them takes ten times as long.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.callers import QUEUE, cycle, one_caller, scratch, stage_rate
from bench.datasets import add_batches
from bench.engine.cost import IN_MEMORY
from bench.measure import Alternation, Rate, Row, Settings, alternate_rates, rate_text
from oms_journal import Message, MessageDatabase

SIZE = 256  # bytes of a payload
EMPTY = "empty"  # a queue
TIMES = 10
BOUND = 1.2
COMMIT_MESSAGES = 1000  # of the smaller commit
_WINDOW_BATCH = 1000  # identifiers in one commit while a window is filled


def growth(settings: Settings) -> Iterator[Row]:
    """Every row on databases of its own in memory."""
    if not IN_MEMORY.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix="oms-bench-", dir=IN_MEMORY) as directory:
        settings = replace(settings, directory=Path(directory))
        yield from _beside_another_queue(settings)
        yield from _with_identifiers(settings)
        yield _out_of_a_commit(settings)


def _beside_another_queue(settings: Settings) -> Iterator[Row]:
    """Calls on a queue that is nearly empty, or empty."""
    payload = os.urandom(SIZE)
    counts = 0, settings.beside_messages, TIMES * settings.beside_messages

    with ExitStack() as stack:
        none, few, many = (beside_others(stack, settings, count) for count in counts)
        beside = f"beside {counts[2]:,} messages of another queue against"
        for name, what, call in (
            ("cycle", "add, take and deliver one message", lambda database: cycle(database, payload)),
            ("empty", "take from an empty queue", take_nothing),
        ):
            yield _row(f"growth-{name}", f"{what} {beside} none", settings, call, none, many)
            yield _row(f"growth-{name}-few", f"{what} {beside} {counts[1]:,}", settings, call, few, many)


def _with_identifiers(settings: Settings) -> Iterator[Row]:
    """Adding with a producer identifier."""
    payload = os.urandom(SIZE)
    full = settings.identifiers
    names = itertools.count()

    def add(database: MessageDatabase) -> None:
        database.add(QUEUE, payload, producer_id=f"order-{next(names)}")

    with ExitStack() as stack:
        one, few, many = (filled(stack, settings, count) for count in (1, full // TIMES, full))
        what = f"add with an identifier, {full:,} of them remembered against"
        yield _row("growth-window", f"{what} {full // TIMES:,}", settings, add, few, many)
        yield _row("growth-window-one", f"{what} 1", settings, add, one, many)


def take_nothing(database: MessageDatabase) -> None:
    """Take from a queue in which nothing is."""
    assert database.take(EMPTY) is None


def _out_of_a_commit(settings: Settings) -> Row:
    """Taking all messages of a commit."""
    few, many = COMMIT_MESSAGES, TIMES * COMMIT_MESSAGES
    with opened(settings) as database:
        found = alternate_rates(settings, *(taken_rate(database, one_commit, count) for count in (few, many)))
    return _compared("growth-commit", f"take out of a commit of {many:,} messages against {few:,}", found)


def one_commit(database: MessageDatabase, count: int) -> Sequence[int]:
    """Add so many messages in one commit, and return their numbers."""
    return database.add_many(QUEUE, [bytes(SIZE)] * count)


def taken_rate(database: MessageDatabase, add: Callable[[MessageDatabase, int], Sequence[int]], count: int) -> Rate:
    """Return how to find how many messages a second of CPU are taken; so many at a time are added and delivered."""

    def take(numbers: Sequence[int]) -> list[Message | None]:
        return [database.take(QUEUE) for _ in numbers]

    def deliver(messages: list[Message | None]) -> None:
        assert database.deliver_many(filter(None, messages)) == count

    return partial(stage_rate, lambda: add(database, count), take, deliver)


def opened(settings: Settings, identifiers: int | None = None) -> MessageDatabase:
    """Return an empty database, with room for so many producer identifiers."""
    return MessageDatabase.open(scratch(settings.directory, "db"), duplicate_count=identifiers)


def beside_others(stack: ExitStack, settings: Settings, count: int) -> MessageDatabase:
    """Return a database in which so many messages of another queue lie behind what was in the empty one."""
    database = stack.enter_context(opened(settings))
    database.deliver(database.add(EMPTY, b""))  # the queue is known
    add_batches(database, size=16, count=count, queues=("other",))
    return database


def filled(stack: ExitStack, settings: Settings, identifiers: int) -> MessageDatabase:
    """Return a database whose duplicate window holds so many identifiers, and has forgotten half as many."""
    database = stack.enter_context(opened(settings, identifiers))
    count = 3 * identifiers // 2
    for first in range(0, count, _WINDOW_BATCH):
        with database.commit() as commit:
            for number in range(first, min(first + _WINDOW_BATCH, count)):
                commit.add(QUEUE, b"", producer_id=f"first-{number}")
    return database


def cpu_rate(call: Callable[[MessageDatabase], object], database: MessageDatabase) -> Rate:
    """Return how to find how often a second of CPU the call runs."""
    return lambda seconds: one_caller(lambda: call(database), seconds, time.thread_time)


def _row(  # noqa: PLR0913
    name: str,
    what: str,
    settings: Settings,
    call: Callable[[MessageDatabase], object],
    few: MessageDatabase,
    many: MessageDatabase,
) -> Row:
    return _compared(name, what, alternate_rates(settings, cpu_rate(call, few), cpu_rate(call, many)))


def _compared(name: str, what: str, found: Alternation) -> Row:
    return Row(
        name=name,
        what=f"{what}: CPU",
        measured=found.inverse,
        bound=BOUND,
        is_most=True,
        raw=rate_text(found.raw, "/s of CPU"),
        ours=rate_text(found.ours, "/s of CPU"),
    )
