"""STOMP frames that have begun and are not complete: how much is held of them, for how long, and who has to go.

All connections of a listener hold no more than `unread_bytes` together. Where it would be more, the user who holds most
loses the connection that holds most of that: so nobody is shut out by what others hold. Who has not logged on yet
counts as one user. And a frame has only so much time, more for each byte of it that has come.
"""

from dataclasses import dataclass
from typing import Protocol

from oms_journal.broker.codes import Code
from oms_journal.broker.server.runtime.fair_shares import holder_of_most
from oms_journal.broker.server.runtime.limits import StompLimits


class Sender(Protocol):
    """A connection in the middle of a frame."""

    @property
    def user(self) -> str:
        """Who it is, "" as long as that is not known."""
        ...

    @property
    def is_reading_paused(self) -> bool:
        """Whether it is not let say more at the moment."""
        ...

    def end(self, code: Code, why: str) -> None:
        """End the connection, and let go of the frame that has begun."""
        ...


@dataclass(slots=True)
class _Begun:
    """A frame that has begun."""

    since: float
    size: int = 0  # bytes of it that are held


class HalfFrames:
    """Those of one listener. The time comes in as an argument."""

    def __init__(self, limits: StompLimits) -> None:
        self._limits = limits
        self._begun: dict[Sender, _Begun] = {}
        self.size = 0  # bytes of all of them

    def note(self, sender: Sender, size: int, *, now: float) -> None:
        """Note that so much is held of the frame in whose middle the connection is; end who holds too much."""
        begun = self._begun.get(sender)
        if begun is None or not begun.size:
            begun = self._begun[sender] = _Begun(now)
        self.size += size - begun.size
        begun.size = size
        while self.size > self._limits.unread_bytes:
            held = {each: its.size for each, its in self._begun.items()}
            most = holder_of_most(held, lambda each: each.user)
            self.forget(most)
            most.end(Code.LONG_BUFFERS, "too many frames have begun and are not complete")

    def forget(self, sender: Sender) -> None:
        """Note that the connection is in the middle of no frame."""
        begun = self._begun.pop(sender, None)
        if begun is not None:
            self.size -= begun.size

    def look(self, now: float) -> None:
        """End the connections whose frames take too long."""
        limits = self._limits
        for sender, begun in list(self._begun.items()):
            if sender.is_reading_paused:
                begun.since = now
            allowed = limits.frame_seconds + begun.size / limits.frame_bytes_per_second
            if now - begun.since > allowed:
                self.forget(sender)
                sender.end(Code.TRANSPORT_TIMED_OUT, f"a frame was not complete after {allowed:.0f} seconds")
