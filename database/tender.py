"""The work beside the commits: one thread that prepares, seals, vouches, renews and cleans up.

    what                                  when
    prepare the next file, seal, reserve  when the committer says so
    an empty frame for the last group     a second after it, when no commit followed
    renew the owner's count               every few seconds
    clean-up                              every MSG_CLEANUP_INTERVAL

The thread starts at the first commit, so that an opening that only looks costs none.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from journal.courtesy import courteous
from journal.errors import JournalError

VOUCH_SECONDS = 1.0
RENEW_SECONDS = 3.0  # the seed's passive servers look as often

_log = logging.getLogger("oms.database")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chores:
    """What there is to do, each safe to call at any time from the tender's thread."""

    tend: Callable[[], None]
    needs_tending: Callable[[], bool]
    vouch: Callable[[], None]
    needs_vouching: Callable[[], bool]
    renew: Callable[[], None]
    clean_up: Callable[[], None]
    cleanup_seconds: float  # 0: never


class Tender:
    """The thread, from `start` to `stop`."""

    def __init__(self, chores: Chores) -> None:
        self._chores = chores
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.failure: JournalError | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="oms-tender", daemon=True)
        self._thread.start()

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def wake(self) -> None:
        """Let the thread look at what there is to do, soon."""
        self._wake.set()

    def stop(self) -> None:
        """Return when the thread has ended; what it was at is finished first."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        chores = self._chores
        renewed = cleaned = time.monotonic()
        while not self._stopping:
            woken = self._wake.wait(VOUCH_SECONDS)
            self._wake.clear()
            if self._stopping:
                return
            now = time.monotonic()
            if chores.needs_tending():
                self._try(chores.tend)
            if not woken and chores.needs_vouching():
                self._try(chores.vouch)
            if now - renewed >= RENEW_SECONDS:
                renewed = now
                self._try(chores.renew)
            if chores.cleanup_seconds and now - cleaned >= chores.cleanup_seconds:
                cleaned = now
                self._try(chores.clean_up)

    def _try(self, chore: Callable[[], None]) -> None:
        """Do one thing; a fault here fails no commit, and is tried again next time."""
        try:
            with courteous():
                chore()
        except Exception as failure:  # the thread's top: whatever it is, the other work goes on
            if str(failure) != str(self.failure):
                is_expected = isinstance(failure, JournalError | OSError)
                _log.warning("%s", failure, exc_info=None if is_expected else failure)
            self.failure = failure if isinstance(failure, JournalError) else JournalError(str(failure))
