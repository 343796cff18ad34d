"""Ctrl-C from another thread of the same program, heard by the main thread wherever it is.

A signal that comes after the interpreter has looked for one and before the system call that it sleeps in does not
wake it (microseconds; a person presses again). So does this.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType


class CtrlC:
    """Raises KeyboardInterrupt in the main thread, once, however often it had to be pressed. Made there."""

    def __init__(self) -> None:
        self._heard: list[int] = []
        signal.signal(signal.SIGINT, self._hear)

    def press(self, then: Callable[[], None] = lambda: None) -> None:
        """Press until it is heard, and call `then` after each time."""
        while not self._heard:
            os.kill(os.getpid(), signal.SIGINT)
            then()
            time.sleep(0.01)

    def _hear(self, number: int, _: FrameType | None) -> None:
        self._heard.append(number)
        if len(self._heard) == 1:
            raise KeyboardInterrupt
