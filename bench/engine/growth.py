"""What a call costs with ten times as much beside it: CPU against CPU, on a file system in memory.

Beside a call lie the messages of another queue, the producer identifiers of the duplicate window, the other messages
of the commit that a message came with. A call that looks through them takes ten times as long.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.callers import QUEUE, one_caller, scratch
from bench.datasets import add_batches
from bench.engine.cost import IN_MEMORY
from bench.measure import Alternation, Rate, Row, Settings, alternate_rates, rate_text
from oms_journal import MessageDatabase

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

    def cycle(database: MessageDatabase) -> None:
        database.add(QUEUE, payload)
        message = database.take(QUEUE)
        assert message is not None
        database.deliver(message.number)

    def take_nothing(database: MessageDatabase) -> None:
        assert database.take(EMPTY) is None

    with ExitStack() as stack:
        none, few, many = (stack.enter_context(_open(settings)) for _ in counts)
        for database, count in zip((none, few, many), counts, strict=True):
            database.deliver(database.add(EMPTY, payload))  # it is known, and all others come behind what was in it
            add_batches(database, size=16, count=count, queues=("other",))
        beside = f"beside {counts[2]:,} messages of another queue against"
        for name, what, call in (
            ("cycle", "add, take and deliver one message", cycle),
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
        one, few, many = (_filled(stack, settings, count) for count in (1, full // TIMES, full))
        what = f"add with an identifier, {full:,} of them remembered against"
        yield _row("growth-window", f"{what} {full // TIMES:,}", settings, add, few, many)
        yield _row("growth-window-one", f"{what} 1", settings, add, one, many)


def _out_of_a_commit(settings: Settings) -> Row:
    """Taking all messages of a commit."""
    few, many = COMMIT_MESSAGES, TIMES * COMMIT_MESSAGES
    with _open(settings) as database:
        found = alternate_rates(
            settings, lambda seconds: _taken(database, few, seconds), lambda seconds: _taken(database, many, seconds)
        )
    return _compared("growth-commit", f"take out of a commit of {many:,} messages against {few:,}", found)


def _taken(database: MessageDatabase, count: int, seconds: float) -> float:
    """Take all messages of one commit after the other for so long; return messages a second of CPU."""
    payloads = [bytes(SIZE)] * count
    spent, taken = 0.0, 0
    while spent < seconds:
        numbers = database.add_many(QUEUE, payloads)
        began = time.thread_time()
        for _ in numbers:
            database.take(QUEUE)
        spent += time.thread_time() - began
        taken += count
        assert database.deliver_many(numbers) == count
    return taken / spent


def _open(settings: Settings, identifiers: int | None = None) -> MessageDatabase:
    return MessageDatabase.open(scratch(settings.directory, "db"), duplicate_count=identifiers)


def _filled(stack: ExitStack, settings: Settings, identifiers: int) -> MessageDatabase:
    """Return a database whose duplicate window holds so many identifiers, and has forgotten half as many."""
    database = stack.enter_context(_open(settings, identifiers))
    count = 3 * identifiers // 2
    for first in range(0, count, _WINDOW_BATCH):
        with database.commit() as commit:
            for number in range(first, min(first + _WINDOW_BATCH, count)):
                commit.add(QUEUE, b"", producer_id=f"first-{number}")
    return database


def _rate(call: Callable[[MessageDatabase], None], database: MessageDatabase) -> Rate:
    return lambda seconds: one_caller(lambda: call(database), seconds, time.thread_time)


def _row(  # noqa: PLR0913
    name: str,
    what: str,
    settings: Settings,
    call: Callable[[MessageDatabase], None],
    few: MessageDatabase,
    many: MessageDatabase,
) -> Row:
    return _compared(name, what, alternate_rates(settings, _rate(call, few), _rate(call, many)))


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
