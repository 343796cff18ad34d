"""Waiting for a message: how a thread sleeps and how a task does, until what they wait for is in their hands.

Whoever waits looks once a second by itself too: an interrupt may have come between a message that was given back and
the call that serves who waits for it.
"""

import asyncio
import math
import threading
from collections.abc import Iterable, Mapping, Sequence

from oms_journal.database.arguments import plain_text, shown
from oms_journal.database.consumers.consumers import Waiter
from oms_journal.journal.operations import encode_name

LOOK_SECONDS = 1.0


class ThreadWaiter(Waiter):
    """A thread that waits."""

    def __init__(self, queues: Sequence[str]) -> None:
        super().__init__(queues, threading.get_ident())
        self._lock = threading.Lock()  # free once there is something to look at
        self._lock.acquire()

    def wake(self) -> bool:
        if self._lock.locked():
            self._lock.release()
        return True

    def sleep(self, seconds: float) -> None:
        """Return when it is woken, or after so many seconds."""
        self._lock.acquire(timeout=min(seconds, LOOK_SECONDS))


class TaskWaiter(Waiter):
    """A task that waits. It is made on its event loop."""

    def __init__(self, queues: Sequence[str]) -> None:
        super().__init__(queues, task_name())
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        if threading.get_ident() == self._thread_id and not self._loop.is_closed():
            self._end_sleep()
            return True
        try:
            self._loop.call_soon_threadsafe(self._end_sleep)
        except RuntimeError:  # the loop was closed, and with it every task
            return False
        return True

    async def sleep(self, seconds: float) -> None:
        """Return when it is woken, or after so many seconds."""
        if self._future.done():
            self._future = self._loop.create_future()
        timer = self._loop.call_later(min(seconds, LOOK_SECONDS), self._end_sleep)
        try:
            await self._future
        finally:
            timer.cancel()

    def _end_sleep(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


def task_name() -> int | str:
    """Return how the task that runs is named, 0 where none does."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.get_name()


def queue_names(queue: object) -> Sequence[str]:
    """Return the names of one queue or of several, each once. TypeError, ValueError, InvalidName."""
    if type(queue) is str:
        return (queue,)
    if isinstance(queue, str):
        return (plain_text(queue, "queue"),)
    if isinstance(queue, bytes | bytearray | memoryview | Mapping) or not isinstance(queue, Iterable):
        raise TypeError(f"queue must be text (str), or several of them in the order of their turn, not {shown(queue)}")
    names = tuple(dict.fromkeys(plain_text(one, "queue") for one in queue))
    if not names:
        raise ValueError("queue is empty; name at least one queue")
    for name in names:
        encode_name(name, "queue name")
    return names


def known_queue_names(queue: object) -> Sequence[str]:
    """Return the same, where no call follows at once that refuses a name. TypeError, ValueError, InvalidName."""
    names = queue_names(queue)
    for name in names:
        encode_name(name, "queue name")
    return names


def waiting_seconds(value: object) -> float:
    """Return how long to wait, math.inf for as long as it takes. TypeError, ValueError."""
    seconds = _seconds(value, "wait")
    if not seconds >= 0:
        raise ValueError(f"wait must be at least 0 seconds, not {seconds}")
    return seconds


def lease_microseconds(value: object, name: str = "lease") -> int:
    """Return how long a lease goes, from 0.001 seconds to 31 years. TypeError, ValueError."""
    seconds = _seconds(value, name)
    if not LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"{name} must be from {LEASE_SECONDS_MIN} to {LEASE_SECONDS_MAX:.0f} seconds, not {seconds}")
    return math.ceil(seconds * 1_000_000)


def delay_seconds(value: object) -> float:
    """Return how long a message stays away, up to 31 years. TypeError, ValueError."""
    seconds = _seconds(value, "delay")
    if not 0 <= seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"delay must be from 0 to {LEASE_SECONDS_MAX:.0f} seconds, not {seconds}")
    return seconds


LEASE_SECONDS_MIN = 0.001
LEASE_SECONDS_MAX = 1e9


def _seconds(value: object, what: str) -> float:
    if type(value) is float:
        return value
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"{what} must be a number of seconds, not {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is a number of seconds that is too large") from None
