"""Ctrl-C at a moment that suits: a commit that is interrupted has an unknown outcome."""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """Let the block finish when Ctrl-C is pressed in it; KeyboardInterrupt comes after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


class Ending:
    """Whether a signal has asked for the end; its handler writes to a pipe, since no lock may be taken in one."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def ask(self, *_: object) -> None:
        """Ask for the end. A signal handler."""
        os.write(self._writer, b".")

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the end is asked for; say whether it is."""
        return bool(select.select([self._reader], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[Ending]:
    """Let Ctrl-C and these signals ask for the end, instead of ending the block where it is."""
    ending = Ending()
    before = {number: signal.signal(number, ending.ask) for number in (signal.SIGINT, *numbers)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        ending.close()
