"""The work beside the commits: a thread that prepares, seals, vouches and cleans up, and one that renews.

    what                                  when
    prepare the next file, seal, reserve  when the committer says so
    an empty frame for the last group     a second after it, when no commit followed
    clean-up                              every MSG_CLEANUP_INTERVAL
    renew the owner's count               at once, and every few seconds, however long the rest takes

The threads start at the first commit, so that an opening that only looks costs none.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from journal.courtesy import courteous
from journal.errors import DirectoryGone, JournalError, TakenOver
from journal.owner import RENEW_SECONDS

VOUCH_SECONDS = 1.0

_log = logging.getLogger("oms.database")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chores:
    """What there is to do, each safe to call at any time from the tender's threads."""

    tend: Callable[[], None]
    needs_tending: Callable[[], bool]
    vouch: Callable[[], None]
    needs_vouching: Callable[[], bool]
    renew: Callable[[], None]  # TakenOver and DirectoryGone end it
    taken_over: Callable[[TakenOver | DirectoryGone], None]
    clean_up: Callable[[], None]
    cleanup_seconds: float  # 0: never
    renew_seconds: float = RENEW_SECONDS


class Tender:
    """The threads, from `start` to `stop`."""

    def __init__(self, chores: Chores) -> None:
        self._chores = chores
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewing: threading.Thread | None = None
        self.failure: Exception | None = None

    def start(self) -> None:
        self._renewing = threading.Thread(target=self._renew, name="oms-renewal", daemon=True)
        self._renewing.start()
        self._thread = threading.Thread(target=self._run, name="oms-tender", daemon=True)
        self._thread.start()

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def wake(self) -> None:
        """Let the thread look at what there is to do, soon."""
        self._wake.set()

    def stop(self) -> None:
        """Return when the threads have ended; what they were at is finished first."""
        self._stopping.set()
        self._wake.set()
        for thread in (self._thread, self._renewing):
            if thread is not None and thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        chores = self._chores
        cleaned = time.monotonic()
        while not self._stopping.is_set():
            woken = self._wake.wait(VOUCH_SECONDS)
            self._wake.clear()
            if self._stopping.is_set():
                return
            now = time.monotonic()
            if chores.needs_tending():
                self._try(chores.tend)
            if not woken and chores.needs_vouching():
                self._try(chores.vouch)
            if chores.cleanup_seconds and now - cleaned >= chores.cleanup_seconds:
                cleaned = now
                self._try(chores.clean_up)

    def _renew(self) -> None:
        while True:
            try:
                self._try(self._chores.renew)
            except (TakenOver, DirectoryGone) as failure:
                if isinstance(failure, DirectoryGone):
                    _log.error("%s; nothing is acknowledged any more", failure)
                self._chores.taken_over(failure)
                return
            if self._stopping.wait(self._chores.renew_seconds):
                return

    def _try(self, chore: Callable[[], None]) -> None:
        """Do one thing; a fault here fails no commit, and is tried again next time."""
        try:
            with courteous():
                chore()
        except (TakenOver, DirectoryGone):
            raise
        except Exception as failure:  # the thread's top: whatever it is, the other work goes on
            if str(failure) != str(self.failure):
                is_expected = isinstance(failure, JournalError | OSError)
                _log.warning("%s", failure, exc_info=None if is_expected else failure)
            self.failure = failure
