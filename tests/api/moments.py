"""Moments: at which of its steps a call is interrupted or cancelled, and what is done while it is under way.

The interpreter runs the handlers of signals at a few places of its code only: where a function begins, after a call of
something that is not Python, and where a loop begins anew. An interrupt here is an exception at the n-th of these
places of one call, whatever module they are in, so it comes at no place where a real one could not.
"""

import asyncio
import contextlib
import dis
import gc
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.support.disks.watched_disk import WatchedDisk
from tests.support.project import NAME, REPOSITORY, SOURCES

HANG_SECONDS = 30.0  # of a call that would otherwise never return
_TESTS = f"{REPOSITORY / 'tests'}/"
_PRODUCT = (  # and what is put in its place by a deliberate fault
    f"{SOURCES / NAME}/",
    f"{REPOSITORY / 'tests' / 'api' / 'faults.py'}",
)
_CALLS = frozenset(dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW") if name in dis.opmap)
_RESUME = dis.opmap["RESUME"]


class FromAHandler(Exception):
    """What a handler of a signal raises."""


class Hung(BaseException):
    """A call did not return."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An exception at the n-th place of a call where a handler of a signal may run."""

    place: int
    kind: type[BaseException] = KeyboardInterrupt

    def __repr__(self) -> str:
        return f"Interrupt({self.place}, {self.kind.__name__})"


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancellation while a task waits: at which of its awaits, and when.

    "begun": as soon as it waits; "later": so many turns of the loop after that; "answered": when what it waits for is
    there and the task has not heard of it yet.
    """

    place: int
    when: str
    turns: int = 0


Moment = Interrupt | Cancel | None


@dataclass(slots=True)
class Outcome:
    """What came of a call."""

    answer: Any = None
    raw: Any = None  # the answer as it came
    failure: BaseException | None = None
    where: str = ""  # it was interrupted or cancelled there
    is_unknown: Callable[[BaseException], bool] = lambda _: False  # whether a failure says that it may have been done

    @property
    def is_cut(self) -> bool:
        """Whether it was left by the interrupt or cancellation, by what that led to, or with an outcome unknown."""
        failure = self.failure
        while failure is not None and self.where:
            if isinstance(failure, KeyboardInterrupt | FromAHandler | asyncio.CancelledError):
                return True
            if self.is_unknown(failure):
                return True
            failure = failure.__cause__ or failure.__context__
        return False


@lru_cache(4096)
def _backward(code: CodeType) -> frozenset[int]:
    """Return the offsets to which loops of the code jump back."""
    found = dis.get_instructions(code)
    return frozenset(
        one.argval for one in found if one.opname.startswith("JUMP_BACKWARD") and "NO_INT" not in one.opname
    )


class Interrupted:
    """Runs a block of this thread and raises at one of its places: of the program, and of what it calls."""

    def __init__(self, interrupt: Interrupt | None) -> None:
        self._interrupt = interrupt
        self.places = 0  # that were passed
        self.where = ""
        self._hook: Callable[[Any], Any] = sys.unraisablehook
        self._last: dict[FrameType, int] = {}  # offset of the instruction that is being executed
        self._entered: set[FrameType] = set()  # frames that call another frame now

    def __enter__(self) -> "Interrupted":
        if self._interrupt is not None:
            self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
            # What a tracing function raises out of a finalizer that the collector calls in the middle of an instruction
            # has the interpreter go on with another function's stack.
            gc.disable()
            sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        if self._interrupt is not None:
            sys.settrace(None)
            gc.enable()
            sys.unraisablehook = self._hook
        self._last.clear()
        self._entered.clear()

    @property
    def is_done(self) -> bool:
        return bool(self.where)

    def _unraisable(self, unraisable: Any) -> None:
        """Pass over an interrupt that the interpreter swallows, since it came while an object was removed."""
        assert self._interrupt is not None
        if not issubclass(unraisable.exc_type, self._interrupt.kind):
            self._hook(unraisable)

    def _called(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_back is not None:
            self._entered.add(frame.f_back)
        name, caller = frame.f_code.co_filename, frame.f_back
        is_called = caller is not None and caller.f_trace is not None and not name.startswith(_TESTS)
        if not is_called and not name.startswith(_PRODUCT):
            return None  # of the tests, or what they call: no place of a program
        frame.f_trace_opcodes = True
        if frame.f_code.co_code[frame.f_lasti] == _RESUME:  # no handler runs where an exception is thrown in
            self._place(frame)
        return self._reached

    def _reached(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "opcode":
            last, here = self._last.get(frame), frame.f_lasti
            if last is not None:
                is_call = frame.f_code.co_code[last] in _CALLS and frame not in self._entered
                if is_call or (here <= last and here in _backward(frame.f_code)):
                    self._place(frame)
            self._entered.discard(frame)
            self._last[frame] = here
        elif event in ("return", "exception"):
            self._last.pop(frame, None)
        return self._reached

    def _place(self, frame: FrameType) -> None:
        assert self._interrupt is not None
        self.places += 1
        if self.places == self._interrupt.place:
            sys.settrace(None)
            self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_qualname})"
            raise self._interrupt.kind


@contextlib.contextmanager
def watched(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Raise Hung out of a block of the main thread that waits for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hung(*_: object) -> None:
        raise Hung(f"a call did not return within {seconds} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Cancelled:
    """Awaits something on behalf of the task that runs, and has it cancelled at one of its awaits."""

    def __init__(self, awaited: Awaitable[Any], cancel: Cancel) -> None:
        self._awaited = awaited
        self._cancel = cancel

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, place = self._awaited.__await__(), 0
        task = asyncio.current_task()
        assert task is not None
        answer: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waited = steps.send(answer) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                return stop.value
            place += 1
            if place == self._cancel.place:
                _cancel(task, waited, self._cancel)
            try:
                answer, thrown = (yield waited), None
            except BaseException as failure:
                thrown = failure


def _cancel(task: "asyncio.Task[Any]", waited: Any, cancel: Cancel) -> None:
    loop = task.get_loop()
    if cancel.when == "answered" and isinstance(waited, asyncio.Future):
        waited.add_done_callback(lambda _: task.cancel())
    elif cancel.when == "later":
        _after(loop, cancel.turns, task.cancel)
    else:
        task.cancel()


def _after(loop: asyncio.AbstractEventLoop, turns: int, call: Callable[[], object]) -> None:
    if turns <= 0:
        call()
    else:
        loop.call_soon(_after, loop, turns - 1, call)


async def cancelled(coroutine: Coroutine[Any, Any, Any], cancel: Cancel) -> Any:
    """Await the coroutine in a task of its own that is cancelled at one of its awaits; CancelledError when it was."""

    async def run() -> Any:
        return await _Cancelled(coroutine, cancel)

    return await asyncio.create_task(run())


class MeddledDisk(WatchedDisk):
    """The real disk without its syncs; whatever a caller could do meanwhile is done before each write."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = False
        self.meddle: Callable[[], None] = lambda: None
        self.before_change = self._meddle

    def _meddle(self) -> None:
        self.meddle()

    @contextlib.contextmanager
    def durable_write(self, path: Path, offset: int) -> Iterator[None]:
        self.meddle()
        with super().durable_write(path, offset):
            yield
