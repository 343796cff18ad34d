"""The thread that lets time pass for a broker of threads: a tick every second, and one when a call has waited enough.

It measures by the clock that runs while the machine does, so that neither a time that is set nor a suspended machine
ages anything.
"""

import heapq
import logging
import math
import threading
import time

from oms_journal.broker.embedded.runtime import Runtime
from oms_journal.broker.embedded.threads import ThreadDispatcher

_log = logging.getLogger("oms.broker")


class Ticker:
    """The thread, from `start` to `stop`."""

    def __init__(self, running: Runtime, threads: ThreadDispatcher, seconds: float) -> None:
        self._running = running
        self._threads = threads
        self._seconds = seconds
        self._lock = threading.Lock()  # guards the dues
        self._dues: list[tuple[float, int]] = []  # when calls have waited long enough, and which
        self._wake = threading.Event()
        self._is_stopping = False
        threads.expect = self.expect
        self._thread = threading.Thread(target=self._run, name="oms-broker-ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended; what it was at is finished first."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def expect(self, seconds: float, handle: int) -> None:
        """Tick when a call has waited so long, unless it is answered by then."""
        due = time.monotonic() + seconds
        with self._lock:
            heapq.heappush(self._dues, (due, handle))
            is_first = self._dues[0][0] == due
        if is_first:
            self._wake.set()

    def _run(self) -> None:
        ticked = time.monotonic()
        following = ticked + self._seconds
        while True:
            due = min(following, self._first_due(ticked))
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            if self._is_stopping:
                return
            now = time.monotonic()
            if now < due:
                continue
            ticked = now
            if now >= following:
                following = now + self._seconds
            self._tick()

    def _first_due(self, ticked: float) -> float:
        """Return when the first call has waited long enough that still waits, and has not been told of a tick since."""
        awaits = self._threads.awaits
        with self._lock:
            while self._dues and (self._dues[0][0] <= ticked or not awaits(self._dues[0][1])):
                heapq.heappop(self._dues)
            return self._dues[0][0] if self._dues else math.inf

    def _tick(self) -> None:
        try:
            self._threads.tick()
            forbidden = self._running.room()
            if forbidden is not None:
                self._threads.give(forbidden)
        except Exception:  # the thread's top: the next tick tries again
            _log.exception("a tick of the broker")
