"""Callers that wait: each is a thread, which goes on only when it is let, and hands the turn back where it would sleep.

They make the calls that programs make: `take` and `add` with `wait`. Where the product sleeps, it sleeps here, by the
clock of the world; what wakes it is noted, and it goes on when the world says so.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from oms_journal.database.commits import limited
from oms_journal.database.consumers import handing
from oms_journal.database.consumers.waiting import LOOK_SECONDS, ThreadWaiter
from tests.simulation.faults.fault import exchanged

_mine = threading.local()


class GivesUp(Exception):
    """An interrupt that comes where a caller waits."""


class Caller:
    """One call that may wait. It runs only while `go_on` does."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.answer: Any = None
        self.failure: BaseException | None = None
        self.is_over = False
        self.is_awake = False  # what it waits for is there
        self.is_slow = False  # it goes on later
        self.handed: int | None = None  # the message that it was woken with
        self.seconds = 0.0  # that it sleeps at most
        self.log: list[Caller] = []  # of those that were woken
        self._interrupt: BaseException | None = None
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go_on(self, interrupt: BaseException | None = None) -> None:
        """Return when it sleeps again, or is over. It may find an exception where it sleeps."""
        self._interrupt = interrupt
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._turn.release()
        self._back.acquire()
        if self.is_over:
            self._thread.join()

    def _run(self) -> None:
        _mine.caller = self
        try:
            self.answer = self._call()
        except BaseException as failure:
            self.failure = failure
        self.is_over = True
        self._back.release()

    def sleep(self, seconds: float) -> None:
        """Sleep until it is let go on."""
        self.seconds = seconds
        self._back.release()
        self._turn.acquire()
        if self._interrupt is not None:
            raise self._interrupt

    def wake(self, handed: int | None = None) -> None:
        """Note that it has something to look at."""
        self.is_awake, self.handed = True, handed
        self.log.append(self)


def _caller() -> Caller | None:
    return getattr(_mine, "caller", None)


class _Waiter(ThreadWaiter):
    """A thread that waits for a message, and may be a caller."""

    def __init__(self, queues: Sequence[str]) -> None:
        super().__init__(queues)
        self._caller = _caller()

    def wake(self) -> bool:
        if self._caller is not None:
            self._caller.wake(None if self.place is None else self.place.number)
        return super().wake()

    def sleep(self, seconds: float) -> None:
        if self._caller is None:
            super().sleep(seconds)
            return
        if self._lock.locked():
            self._caller.sleep(min(seconds, LOOK_SECONDS))
        self._lock.acquire(blocking=False)


class _TurnLock:
    """The lock by which a caller that waits for room is woken."""

    def __init__(self) -> None:
        self._caller = _caller()
        self._is_held = False

    def acquire(self, timeout: float = -1.0) -> bool:
        if self._is_held and self._caller is not None:
            self._caller.sleep(timeout)
        was_held, self._is_held = self._is_held, True
        return not was_held

    def release(self) -> None:
        self._is_held = False
        if self._caller is not None:
            self._caller.wake()


class _Other:
    """A module, of which one name is another."""

    def __init__(self, module: Any, **names: object) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextlib.contextmanager
def sleeping_here(steady: Callable[[], int]) -> Iterator[None]:
    """Have callers sleep as callers do, by a clock that tells microseconds."""

    def in_seconds() -> float:
        return steady() / 1e6

    with ExitStack() as stack:
        stack.enter_context(exchanged(handing, "ThreadWaiter", lambda _: _Waiter))
        stack.enter_context(exchanged(limited, "threading", lambda _: _Other(threading, Lock=_TurnLock)))
        for module in (handing, limited):
            stack.enter_context(exchanged(module, "time", lambda _: _Other(time, monotonic=in_seconds)))
        yield
