"""The work beside the commits: a thread that prepares, seals, vouches and cleans up, and one that renews.

    what                                  when
    prepare the next file, seal, reserve  when the committer says so
    an empty frame for the last group     a second after it, when no commit followed
    clean-up                              every MSG_CLEANUP_INTERVAL
    clean-up with compaction              while additions are refused for space, when there is something new to see
    renew the owner's count               at once, and every few seconds, however long the rest takes

The threads start at the first commit, so that an opening that only looks costs none.

The callers' threads may be interrupted between any two calls. What they do here is one call each, which no interrupt
leaves half done: an Event, or the start of a thread, takes its locks in Python and would hang whoever comes next.
"""

import _thread
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from oms_journal.journal.background import yielding
from oms_journal.journal.errors import DirectoryGone, JournalError, TakenOver
from oms_journal.journal.lock import RENEW_SECONDS

VOUCH_SECONDS = 1.0
ROOM_SECONDS = 5.0  # between the end of one attempt to make room and the next

_log = logging.getLogger("oms.database")


class Bell:
    """Wakes one thread, which may be about to listen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # free while it rings
        self._lock.acquire()

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Return True as soon as it rings, False when it has not for so long."""
        return self._lock.acquire(timeout=seconds)


@dataclass(kw_only=True, eq=False)
class Maintenance:
    """The threads, from `start` to `stop`. Both may be called again, where they were interrupted.

    What there is to do is given, each safe to call at any time from the threads.
    """

    maintain: Callable[[], None]
    needs_maintenance: Callable[[], bool]
    vouch: Callable[[], None]
    needs_vouching: Callable[[], bool]
    renew: Callable[[], None]  # TakenOver and DirectoryGone end it
    taken_over: Callable[[TakenOver | DirectoryGone], None]
    clean_up: Callable[[], None]
    make_room: Callable[[], None]
    needs_room: Callable[[], bool]
    cleanup_seconds: float  # 0: never
    renew_seconds: float = RENEW_SECONDS

    def __post_init__(self) -> None:
        self._work, self._renewal = Bell(), Bell()
        self._is_stopping = False
        self._starting = threading.Lock()  # guards the threads
        self._threads: list[threading.Thread] = []
        self.is_started = False
        self.failure: Exception | None = None

    def start(self) -> None:
        _thread.start_new_thread(self._start, ())
        self.is_started = True

    def _start(self) -> None:
        with self._starting:
            if self._threads or self._is_stopping:
                return
            for work, name in ((self._renew, "oms-renewal"), (self._run, "oms-maintenance")):
                self._threads.append(threading.Thread(target=work, name=name, daemon=True))
                self._threads[-1].start()

    def wake(self) -> None:
        """Let the thread look at what there is to do, soon."""
        self._work.ring()

    def stop(self) -> None:
        """Return when the threads have ended; what they were at is finished first."""
        self._is_stopping = True
        self._work.ring()
        self._renewal.ring()
        with self._starting:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        cleaned = time.monotonic()
        made_room = -math.inf
        while True:
            woken = self._work.wait(VOUCH_SECONDS)
            if self._is_stopping:
                return
            now = time.monotonic()
            if self.needs_maintenance():
                self._try(self.maintain)
            if not woken and self.needs_vouching():
                self._try(self.vouch)
            if self.cleanup_seconds and now - cleaned >= self.cleanup_seconds:
                cleaned = now
                self._try(self.clean_up)
            if self.needs_room() and now - made_room >= ROOM_SECONDS:
                self._try(self.make_room)
                made_room = time.monotonic()

    def _renew(self) -> None:
        while True:
            try:
                self._try(self.renew)
            except (TakenOver, DirectoryGone) as failure:
                if isinstance(failure, DirectoryGone):
                    _log.error("%s; nothing is acknowledged any more", failure)
                self.taken_over(failure)
                return
            if self._renewal.wait(self.renew_seconds) or self._is_stopping:
                return

    def _try(self, chore: Callable[[], None]) -> None:
        """Do one thing; a fault here fails no commit, and is tried again next time."""
        try:
            with yielding():
                chore()
        except (TakenOver, DirectoryGone):
            raise
        except Exception as failure:  # the thread's top: whatever it is, the other work goes on
            if str(failure) != str(self.failure):
                is_expected = isinstance(failure, JournalError | OSError)
                _log.warning("%s", failure, exc_info=None if is_expected else failure)
            self.failure = failure
