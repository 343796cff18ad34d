"""The time of a broker that is attacked: it passes when a script says so, and a moment while a call waits for it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MOMENT_NS = 2_100_000  # a little more than a call waits at most, `wait` in tests/callers/given.py


class Clock:
    """What `broker/embedded/runtime.py` measures time with: a busy machine makes nothing come early or late.

    While a call waits, at most a moment passes between two looks at it: enough for every wait to end, and too little
    for a delay.
    """

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed = 0
        self._looked: int | None = None  # while a call waits

    def monotonic_ns(self) -> int:
        with self._lock:
            if self._looked is not None:
                now = time.monotonic_ns()
                self._passed += min(now - self._looked, MOMENT_NS)
                self._looked = now
            return self._passed

    def passes(self, seconds: int) -> None:
        with self._lock:
            self._passed += seconds * 1_000_000_000

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let moments pass in a block."""
        self._looked = time.monotonic_ns()
        try:
            yield
        finally:
            self._looked = None
