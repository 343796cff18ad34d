"""How many bytecodes and calls an operation takes: the same on every machine with the same Python and the same numpy.

Each operation is traced in a store of its own, whose state is always the same: 1,000 messages were added before, each
with a commit of its own, and the operation has run 49 times. No file is rolled over there, no line of candidates is
refilled, nothing is cleaned up. What other threads do is not counted, nor what a function in C does inside.
"""

import gc
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from bench.callers import QUEUE, scratch
from bench.measure import Row, Settings
from oms_journal import MessageDatabase

PAYLOAD = bytes(256)
PROPERTIES = {"kind": "order", "region": "west"}
BEFORE = 1000  # messages that were added; the duplicate window takes as many identifiers
FIRST = 50  # the first of an operation's runs that is traced
TRACED = 5

# Yields the call to trace next, and is sent what that returned.
Calls = Generator[Callable[[], object], Any, None]


@dataclass(frozen=True, slots=True)
class Count:
    """What one call took: bytecodes that ran, and functions in Python that were called."""

    bytecodes: int
    calls: int


def _added(database: MessageDatabase) -> Calls:
    while True:
        yield partial(database.add, QUEUE, PAYLOAD)


def _taken(database: MessageDatabase) -> Calls:
    while True:
        message = yield partial(database.take, QUEUE)
        database.deliver(message)


def _delivered(database: MessageDatabase) -> Calls:
    while True:
        message = database.take(QUEUE)
        assert message is not None
        yield partial(database.deliver, message)


def _identified(database: MessageDatabase) -> Calls:
    for number in range(BEFORE):  # the window is full: each further one forgets the oldest
        database.add(QUEUE, PAYLOAD, producer_id=f"before-{number:06}")
    for number in range(BEFORE):
        yield partial(database.add, QUEUE, PAYLOAD, producer_id=f"order-{number:06}")


def _described(database: MessageDatabase) -> Calls:
    while True:
        yield partial(database.add, QUEUE, PAYLOAD, properties=PROPERTIES)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is traced, and the bytecodes to reach."""

    what: str
    calls: Callable[[MessageDatabase], Calls]
    bound: int


OPERATIONS = {
    "add": Operation("`add`", _added, 1050),
    "take": Operation("`take`, what was taken before is delivered", _taken, 450),
    "deliver": Operation("`deliver` of the message just taken", _delivered, 1500),
    "add-identifier": Operation("`add` with an identifier, the duplicate window full", _identified, 1600),
    "add-properties": Operation("`add` with two properties", _described, 1600),
}


def bytecodes(settings: Settings) -> Iterator[Row]:
    """Every operation, by itself."""
    for name, operation in OPERATIONS.items():
        counts = counted(settings.directory, operation)
        calls = sorted({count.calls for count in counts})
        yield Row(
            name=f"bytecodes-{name}",
            what=f"bytecodes of {operation.what}, {len(PAYLOAD)} B",
            measured=[count.bytecodes for count in counts],
            bound=operation.bound,
            is_most=True,
            ours=f"{' to '.join(map(str, calls))} calls",
            note=f"{BEFORE:,} messages were added before; runs {FIRST} to {FIRST + TRACED - 1} of the operation",
        )


def counted(directory: Path, operation: Operation) -> list[Count]:
    """Return what the operation takes in each of the runs that are traced."""
    with MessageDatabase.open(scratch(directory, "db"), cleanup_interval=0, duplicate_count=BEFORE) as database:
        for _ in range(BEFORE):
            database.add(QUEUE, PAYLOAD)
        calls = operation.calls(database)
        call = next(calls)
        for _ in range(FIRST - 1):
            call = calls.send(call())
        counts = []
        for _ in range(TRACED):
            count, answer = _traced(call)
            counts.append(count)
            call = calls.send(answer)
        calls.close()
    return counts


def _traced(call: Callable[[], object]) -> tuple[Count, object]:
    """Return what the call takes, and what it returns."""
    bytecodes = calls = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal bytecodes, calls
        if event == "call":
            calls += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            bytecodes += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what it finalizes is not the operation's
    sys.settrace(trace)
    try:
        answer = call()
    finally:
        sys.settrace(before)
        gc.enable()
    return Count(bytecodes, calls), answer
