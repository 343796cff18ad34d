"""Heart-beats of a STOMP connection: signs of life as often as was agreed, and the wait for those of the client."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from oms_journal.broker.codes import Code

_SHARE = 0.7  # of the interval: a beat that is late is taken for a connection that is lost
_PATIENCE = 2.0  # intervals without a sign of the client


class Beating(Protocol):
    """A connection that has heart-beats."""

    @property
    def is_beating(self) -> bool:
        """Whether signs of life are sent and waited for."""
        ...

    @property
    def is_reading_paused(self) -> bool:
        """Whether it is not let say more at the moment."""
        ...

    def beat(self) -> None:
        """Send a sign of life, unless something waits to be written, which is sign enough."""

    def end(self, code: Code, why: str) -> None:
        """End the connection."""


class HeartBeats:
    """Those of one connection. `said` and `heard` are when something last went out and came."""

    __slots__ = ("_connection", "_listening", "_loop", "_saying", "heard", "said")

    def __init__(self, connection: Beating, loop: asyncio.AbstractEventLoop) -> None:
        self.said = self.heard = loop.time()
        self._connection = connection
        self._loop = loop
        self._saying: asyncio.TimerHandle | None = None
        self._listening: asyncio.TimerHandle | None = None

    def begin(self, ours: float, theirs: float) -> None:
        """Send a sign of life every so many seconds, and wait for the client's; 0 for never."""
        if ours:
            self._beat(ours * _SHARE)
        if theirs:
            self._listen(theirs * _PATIENCE)

    def cancel(self) -> None:
        """Neither send nor wait any more."""
        for timer in (self._saying, self._listening):
            if timer is not None:
                timer.cancel()

    def _beat(self, interval: float) -> None:
        if not self._connection.is_beating:
            return
        quiet = self._loop.time() - self.said
        if quiet >= interval:
            self._connection.beat()
            self.said, quiet = self._loop.time(), 0.0
        self._saying = self._later(interval - quiet, lambda: self._beat(interval))

    def _listen(self, patience: float) -> None:
        if not self._connection.is_beating:
            return
        now = self._loop.time()
        if self._connection.is_reading_paused:
            self.heard = now  # it cannot be heard
        if now - self.heard >= patience:
            self._connection.end(Code.TRANSPORT_TIMED_OUT, f"no heart-beat for {patience:g} seconds")
            return
        self._listening = self._later(self.heard + patience - now, lambda: self._listen(patience))

    def _later(self, seconds: float, then: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(seconds, 0.001), then)
