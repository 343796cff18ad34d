"""The work beside the commits: threads that prepare, seal, vouch and clean up; that renew; that watch the disk.

    what                                  when
    prepare the next file, seal, reserve  when the committer says so
    an empty frame for the last group     a second after it, when no commit followed
    clean-up                              every MSG_CLEANUP_INTERVAL
    clean-up with compaction              while additions are refused for space, when there is something new to see
    delete or move what has expired       every few seconds
    renew the owner's count               at once, and every few seconds, however long the rest takes
    tell of a commit that waits too long  once, while it waits for the disk

What watches the disk touches none itself: either of the other two would hang where the commit does. The threads
start at the first commit, so that an opening that only looks costs none.

The callers' threads may be interrupted between any two calls. What they do here is one call each, which no interrupt
leaves half done: an Event, or the start of a thread, takes its locks in Python and would hang whoever comes next.
"""

import _thread
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from oms_journal.journal.background import yielding
from oms_journal.journal.errors import DatabaseClosed, DirectoryGone, JournalError, TakenOver
from oms_journal.journal.lock import RENEW_SECONDS

VOUCH_SECONDS = 1.0
EXPIRY_SECONDS = 10.0  # between two looks at what has expired
AGAIN_MICROSECONDS = 1_000_000  # between a look that failed and the next one
ALARM_SECONDS_MAX = 3600.0  # a clock that counts the sleep of the machine may be far ahead of the wait by then
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


class SlowSyncs:
    """Tells of each commit that waits for the disk longer than a limit, once, while it waits."""

    def __init__(
        self,
        seconds_max: float,
        waiting_since: Callable[[], float],
        place: str,
        on_slow: Callable[[float], None] | None,
    ) -> None:
        self.count = 0  # told so far
        self._seconds_max = seconds_max
        self._waiting_since = waiting_since
        self._place = place
        self._on_slow = on_slow
        self._told = 0.0  # since when the last one waited that was told

    def look(self, now: float) -> float:
        """Tell if it is time, and return in how many seconds to look again, so that none is missed."""
        since = self._waiting_since()
        waited = now - since
        if not since or since == self._told:
            return self._seconds_max
        if waited < self._seconds_max:
            return self._seconds_max - waited
        self._told = since
        self.count += 1
        _log.warning("the disk is slow: a commit in %s has waited for its sync for %.1f s so far", self._place, waited)
        if self._on_slow is not None:
            self._on_slow(waited)
        return self._seconds_max


class Complaints:
    """Tells of what goes wrong in a thread beside the commits: once, however often it goes wrong in the same way."""

    def __init__(self) -> None:
        self.last: Exception | None = None

    def tell(self, failure: Exception) -> None:
        """Log a failure, unless it was the last one too."""
        if str(failure) != str(self.last):
            is_expected = isinstance(failure, JournalError | OSError)
            _log.warning("%s", failure, exc_info=None if is_expected else failure)
        self.last = failure


class Alarm:
    """A thread that looks at what time brings, whenever that may be. It starts when it is first set."""

    def __init__(self, look: Callable[[], int | None], steady: Callable[[], int]) -> None:
        self._look = look  # does what is to be done by now, and returns the moment of the next look, None for never
        self._steady = steady  # the clock of all moments, in microseconds
        self._bell = Bell()
        self._next: float = math.inf  # when it looks next, or is to: who asks for a later look need not wake it
        self._asked: deque[float] = deque()  # moments that the thread does not know yet
        self._complaints = Complaints()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_started = self._is_stopping = False

    def set(self, moment: int) -> None:
        """Have it look at a moment, and no later; 0: now."""
        if moment < self._next:
            self._asked.append(moment)
            self._next = moment
            self._wake()

    def _wake(self) -> None:
        if not self._is_started:
            _thread.start_new_thread(self._start, ())
            self._is_started = True
        self._bell.ring()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="oms-alarm", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended."""
        self._is_stopping = True
        self._bell.ring()
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        moment = math.inf  # of the next look
        while not self._is_stopping:
            while self._asked:
                moment = min(moment, self._asked.popleft())
            if (left := moment - self._steady()) > 0:
                self._next = moment  # an earlier one that was asked for meanwhile rings, and the wait ends at once
                self._bell.wait(min(left / 1e6, ALARM_SECONDS_MAX))
                continue
            self._next = math.inf
            try:
                found = self._look()
            except Exception as failure:  # the thread's top: what is to be done is tried again
                self._complaints.tell(failure)
                found = self._steady() + AGAIN_MICROSECONDS
            moment = math.inf if found is None else found


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
    end_expired: Callable[[], None]
    has_expired: Callable[[], bool]
    cleanup_seconds: float  # 0: never
    renew_seconds: float = RENEW_SECONDS
    slow_syncs: SlowSyncs | None = None

    def __post_init__(self) -> None:
        self._work, self._renewal, self._watch_end = Bell(), Bell(), Bell()
        self._is_stopping = False
        self._starting = threading.Lock()  # guards the threads
        self._threads: list[threading.Thread] = []
        self.is_started = False
        self._complaints = Complaints()

    @property
    def failure(self) -> Exception | None:
        """What has failed last, None for nothing."""
        return self._complaints.last

    def start(self) -> None:
        _thread.start_new_thread(self._start, ())
        self.is_started = True

    def _start(self) -> None:
        with self._starting:
            if self._threads or self._is_stopping:
                return
            works = [(self._renew, "oms-renewal"), (self._run, "oms-maintenance")]
            for work, name in works + [(self._watch, "oms-watch")] * (self.slow_syncs is not None):
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
        self._watch_end.ring()
        with self._starting:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        cleaned = time.monotonic()
        made_room = looked = -math.inf
        while True:
            woken = self._work.wait(VOUCH_SECONDS)
            if self._is_stopping:
                return
            now = time.monotonic()
            if self.needs_maintenance():
                self._try(self.maintain)
            if not woken and self.needs_vouching():
                self._try(self.vouch)
            if now - looked >= EXPIRY_SECONDS and self.has_expired():
                looked = now
                self._try(self.end_expired)
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

    def _watch(self) -> None:
        assert self.slow_syncs is not None
        seconds = 0.0
        while not self._watch_end.wait(seconds):
            try:
                seconds = self.slow_syncs.look(time.perf_counter())
            except Exception:  # a callback of the caller's: what it raises is told, and the watch goes on
                _log.exception("on_slow_sync failed")

    def _try(self, chore: Callable[[], None]) -> None:
        """Do one thing; a fault here fails no commit, and is tried again next time."""
        try:
            with yielding():
                chore()
        except (TakenOver, DirectoryGone):
            raise
        except DatabaseClosed:
            return  # between the look at what there is to do and doing it: nothing is left to be done
        except Exception as failure:  # the thread's top: whatever it is, the other work goes on
            self._complaints.tell(failure)
