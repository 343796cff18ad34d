"""An interrupt from the keyboard waits until the broker has finished what it is at.

Python raises KeyboardInterrupt between any two steps of the main thread. In the middle of a decision it would leave
the broker's state half changed, and in the middle of a commit nobody would know what the disk has. So the handler is
exchanged while the main thread is at either, and whatever came meanwhile is raised afterwards. What waits can be
interrupted at once.
"""

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import FrameType
from typing import Any

try:  # the same functions without the enumerations around them, which take ten times as long
    _plain: Any = import_module("_signal")
except ImportError:
    _plain = signal
_set, _get = _plain.signal, _plain.getsignal
_MAIN = threading.main_thread().ident


class Deferring:
    """A block that no interrupt ends in the middle. There is one, for the main thread, and it may be nested."""

    __slots__ = ("_before", "_depth", "_is_interrupted", "_noting")

    def __init__(self) -> None:
        self._before: object = None  # the handler to be put back; None: it was not set from Python, and cannot be
        self._depth = 0
        self._is_interrupted = False
        self._noting = self._note

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_interrupted = True

    def __enter__(self) -> None:
        if self._depth:
            self._depth += 1
            return
        self._is_interrupted = False
        self._before = _get(signal.SIGINT)
        if self._before is not None:
            _set(signal.SIGINT, self._noting)
        self._depth = 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth or self._before is None:
            return
        _set(signal.SIGINT, self._before)
        if self._is_interrupted:
            signal.raise_signal(signal.SIGINT)


DEFERRED = Deferring()
_NOTHING = nullcontext()


def whole() -> AbstractContextManager[None]:
    """Return a block that no interrupt ends in the middle, in whatever thread."""
    return DEFERRED if threading.get_ident() == _MAIN else _NOTHING
