"""What is under way on a STOMP connection: calls that are not answered, frames that wait for them, and its end.

Frames are taken in their order. Some only begin a call, so that many can be on their way to the store together; others
wait until all that was begun before is answered, and hold back what comes behind them.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Function, Reply, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp.frames import Frame
from oms_journal.broker.server.stomp.headers import error_frame, receipt_frame
from oms_journal.broker.server.stomp.login import LoggedOn
from oms_journal.broker.sessions.requests import RequestFactory

Then = Callable[[Answered], None]
_AWAY = frozenset({Code.LOGON_REQUIRED, Code.USER_UNKNOWN})  # the participant was silent too long


class Cancellable(Protocol):
    """Something under way that can be called off."""

    def cancel(self) -> object: ...


class Outlet(Protocol):
    """What a connection can do to the world. None of it calls back at once."""

    def say(self, frame: Frame) -> None:
        """Send the frame, which a frame of the client has brought about."""

    def hand_out(self, frame: Frame) -> None:
        """Send a message, which was received because there was room for it."""

    def ask(self, request: Request, then: Then) -> Cancellable:
        """Call the broker, if the user may; its answer goes to `then`."""
        ...

    def log_on(self, user: str, password: str, then: LoggedOn) -> None:
        """Find out who it is, at once where everybody is let in; `then` is told None, or why not."""
        ...

    def after(self, seconds: float, then: Callable[[], None]) -> Cancellable:
        """Do something later."""

    def close(self) -> None:
        """End the connection once all that was said has left."""

    @property
    def is_writable(self) -> bool:
        """Whether there is room for more to be handed out."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether the client leaves so much unread of what was said that nothing more is done for it."""
        ...


class Flow:
    """The calls and the waiting frames of one connection."""

    def __init__(self, outlet: Outlet, limits: StompLimits) -> None:
        self.outlet = outlet
        self.limits = limits
        self.version = ""  # until CONNECT
        self.speaker = RequestFactory("", "", {})
        self.is_connected = False
        self.is_open = True
        self.on_end: list[Callable[[], None]] = []  # told when the connection is over
        self.begun = 0  # calls about frames that are not answered
        self.bytes = 0  # of the bodies of these, and of all of frames that wait
        self.waiting: deque[Frame] = deque()
        self.is_held = False  # what comes waits for what has to be done first
        self.dispatch: Callable[[Frame], None] = lambda frame: None  # what a frame brings about
        self._is_going_on = False
        self._settled: Callable[[], None] | None = None  # what is done once no call is left
        self._away: list[tuple[Request, Then]] = []  # calls that are repeated after a LOGON

    # What waits.

    def keep(self, frame: Frame) -> None:
        """Let a frame wait."""
        self.waiting.append(frame)
        self.bytes += _size(frame)
        if len(self.waiting) > self.limits.waiting_frames:
            self.fail(Code.QUEUE_FULL, f"at most {self.limits.waiting_frames:,} frames wait")

    def go_on(self) -> None:
        """Take the frames that have waited, up to one that others have to wait for again."""
        self.is_held = False
        if self._is_going_on:
            return
        self._is_going_on = True
        while self.waiting and self.is_open and not self.is_held and not self.outlet.is_behind:
            frame = self.waiting.popleft()
            self.bytes -= _size(frame)
            self.dispatch(frame)
        self._is_going_on = False

    def written(self) -> None:
        """All that was said has left: who was behind is not any more."""
        if self.waiting and not self.is_held:
            self.go_on()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Do something once all calls that were begun are answered; frames wait until `go_on`."""
        self.is_held = True
        if self.begun:
            self._settled = then
        else:
            then()

    # Calls.

    def ask(
        self,
        request: Request,
        then: Callable[[Reply], None],
        frame: Frame | None,
        *,
        allowed: Collection[Code] = (),
    ) -> None:
        """Call the broker about a frame; a refusal ends the connection, unless its code is allowed."""

        def answered(found: Answered) -> None:
            reply = found.reply
            if reply.code is not Code.OK and reply.code not in allowed:
                self.fail(reply.code, reply.text, frame)
                return
            try:
                then(reply)
            except BrokerError as refusal:
                self.fail(refusal.code, refusal.text, frame)

        self.call(request, answered, size=len(request.body))

    def call(self, request: Request, then: Then, *, size: int = 0) -> None:
        """Make a call whose answer is the client's own matter, whatever it says; `size` bytes are under way with it."""
        self.begun += 1
        self.bytes += size

        def answered(found: Answered) -> None:
            if found.reply.code in _AWAY and self.is_open and self.is_connected:
                self._come_back(request, answered)
                return
            self.begun -= 1
            self.bytes -= size
            if self.is_open:
                then(found)
            if self.is_open:
                self._settle()

        self.outlet.ask(request, answered)

    def _settle(self) -> None:
        """Do what waits for all calls, if none is left."""
        if not self.begun and self._settled is not None:
            settled, self._settled = self._settled, None
            settled()

    def ask_all(self, requests: list[Request], then: Callable[[], None], frame: Frame | None) -> None:
        """Make several calls, and go on when all are answered."""
        if not requests:
            then()
            return
        left = len(requests)

        def answered(_: Reply) -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for request in requests:
            self.ask(request, answered, frame)

    def _come_back(self, request: Request, answered: Then) -> None:
        """Log on again, since the broker has forgotten who was silent too long, and repeat the call."""
        self._away.append((request, answered))
        if len(self._away) == 1:
            self.outlet.ask(self.speaker.request(Function.LOGON), self._came_back)

    def _came_back(self, found: Answered) -> None:
        away, self._away = self._away, []
        if found.reply.code is not Code.OK:
            self.begun -= len(away)
            self.fail(found.reply.code, found.reply.text)
            return
        for request, answered in away:
            self.outlet.ask(request, answered)

    # What is said.

    def receipt(self, frame: Frame, reply: Reply | None = None) -> None:
        """Say the RECEIPT that the frame asks for."""
        receipt = receipt_frame(frame, reply)
        if receipt is not None:
            self.outlet.say(receipt)

    def fail(self, code: Code, text: str = "", frame: Frame | None = None, **headers: str) -> None:
        """Say why, and end the connection."""
        if self.is_open:
            self.outlet.say(error_frame(code, text, frame, **headers))
            self.end()

    def end(self) -> None:
        """End the connection."""
        self.lost()
        self.outlet.close()

    def lost(self) -> None:
        """The connection is over."""
        if self.is_open:
            self.is_open = False
            self.waiting.clear()
            for told in self.on_end:
                told()


def _size(frame: Frame) -> int:
    """Return how many characters and bytes a frame has."""
    return len(frame.body) + sum(len(name) + len(value) for name, value in frame.headers.items())
