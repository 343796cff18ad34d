"""What a handler of a signal raises waits until the broker has finished what it is at.

Python runs handlers between any two steps of the main thread; that of the keyboard's interrupt raises, and a program
may have others that do, for a time limit or for its end. In the middle of a decision that would leave the broker's
state half changed, and in the middle of a commit nobody would know what the disk has. So while the main thread is at
either, other handlers note what comes, and the program's own are called afterwards. What waits can be interrupted at
once; where it is somebody else's work that waits, and does not bear it, it does so in another thread.
"""

import signal
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
try:  # the same functions without the enumerations around them, which take ten times as long
    _plain: Any = import_module("_signal")
except ImportError:
    _plain = signal
_set, _get = _plain.signal, _plain.getsignal
_MAIN = threading.main_thread().ident
_NAMES = ("SIGINT", "SIGALRM", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGVTALRM", "SIGPROF", "SIGBREAK")
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
_Handler = Callable[[int, FrameType | None], object]


class Deferring:
    """A block that no handler of a signal ends in the middle. There is one, for the main thread; it may be nested."""

    __slots__ = ("_before", "_depth", "_noted", "_noting")

    def __init__(self) -> None:
        self._before: list[tuple[int, _Handler]] = []  # the program's own, to be put back
        self._depth = 0
        self._noted: list[tuple[int, FrameType | None, _Handler]] = []
        self._noting = self._note

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted += [(number, frame, handler) for of, handler in self._before if of == number]

    def __enter__(self) -> None:
        if self._depth:
            self._depth += 1
            return
        try:
            for number in _SIGNALS:
                handler = _get(number)
                if callable(handler):  # else it is the system's, or was not set from Python
                    self._before.append((number, handler))
                    _set(number, self._noting)
            self._depth = 1
        except BaseException:  # one that was not exchanged yet
            self._put_back()
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._put_back()
            if self._noted:
                self._call()

    def _put_back(self) -> None:
        try:
            while self._before:
                _set(*self._before[-1])
                self._before.pop()
        finally:
            if self._before:  # one of those that are back has raised
                self._put_back()

    def _call(self) -> None:
        """Call the program's own handlers; a loop of asyncio that is told by a descriptor has heard already."""
        number, frame, handler = self._noted.pop(0)
        try:
            handler(number, frame)
        finally:
            if self._noted:
                self._call()


DEFERRED = Deferring()
_NOTHING = nullcontext()


def uninterrupted() -> AbstractContextManager[None]:
    """Return a block that no handler of a signal ends in the middle, in whatever thread."""
    return DEFERRED if threading.get_ident() == _MAIN else _NOTHING


def apart(work: Callable[[], T]) -> T:
    """Return what the work returns, or raise what it raises; an interrupt leaves it to itself and not in its middle."""
    if threading.get_ident() != _MAIN:
        return work()
    found: list[T] = []
    failed: list[BaseException] = []
    is_done = threading.Lock()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as failure:
            failed.append(failure)
        finally:
            is_done.release()

    with uninterrupted():
        is_done.acquire()
        start_new_thread(run, ())
    is_done.acquire()
    if failed:
        raise failed[0]
    return found[0]
