"""Delays Ctrl-C and other signals until a commit is done: the outcome of an interrupted commit is unknown."""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(SystemExit):
    """A signal that asks for the end has come: the exit code is 128 and its number, unless somebody says more."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block like Ctrl-C does: by an exception, so that it cleans up. Stopped."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [
        number for number, action in before.items() if action not in (signal.SIG_IGN, None)
    ]  # nohup's stays ignored
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def delay_signals() -> Iterator[None]:
    """Let the block finish when Ctrl-C, or what `raise_on_signals` hears, comes in it; the exception comes after."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in before:
        signal.signal(number, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for signalled in pressed[:1]:
        before[signal.Signals(signalled)](signalled, None)


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
def watch_signals(*numbers: signal.Signals) -> Iterator[Ending]:
    """Let Ctrl-C and these signals ask for the end, instead of ending the block where it is."""
    ending = Ending()
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # nohup's stays ignored
    before = {number: signal.signal(number, ending.ask) for number in (signal.SIGINT, *heard)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        ending.close()
