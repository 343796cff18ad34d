"""STOMP connections at the kernel's desk: frames in, frames out, with a store on paper and a clock that is told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Request
from oms_journal.broker.kernel.state.effects import Abandoned, Call, Gone
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp.flow import Then
from oms_journal.broker.server.stomp.frames import V12, Frame, FrameReader, encode_frame
from oms_journal.broker.server.stomp.login import LoggedOn
from oms_journal.broker.server.stomp.losses import Losses
from oms_journal.broker.server.stomp.session import StompSession
from tests.support.broker.kernel_desk import Desk


@dataclass(eq=False)
class Asked:
    """A call of the broker by a connection."""

    connection: "Connection"
    request: Request
    then: Then
    handle: int = 0  # once it is begun
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.handle and self.handle not in self.connection.stomp.desk.answers:
            self.connection.stomp.desk.give(Abandoned(self.handle))


@dataclass(eq=False)
class Timer:
    """Something that is done later."""

    due: float
    then: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class StompDesk:
    """A broker at a desk, and the connections to it."""

    def __init__(self, desk: Desk | None = None, limits: StompLimits | None = None) -> None:
        self.desk = desk or Desk()
        self.limits = limits or StompLimits()
        self.losses = Losses()
        self.connections: list[Connection] = []
        self.asked: list[Asked] = []  # not begun
        self.open: list[Asked] = []  # begun, and not answered
        self.timers: list[Timer] = []
        self.now = 0.0
        self.handles = 1_000_000

    def connect(self, login: str = "ALICE", *, version: str = V12, **headers: str) -> "Connection":
        """Return a connection that has said CONNECT and was answered."""
        found = Connection(self)
        found.take("CONNECT", login=login, accept_version=version, **headers)
        assert found.commands() == ["CONNECTED"], found.heard
        found.heard.clear()
        return found

    def turn(self) -> None:
        """Let everything happen that can: calls begin in their order, answers go out, connections go on."""
        while True:
            begun, self.asked = self.asked, []
            for asked in begun:
                if not asked.is_cancelled:
                    self.handles += 1
                    asked.handle = self.handles
                    self.open.append(asked)
                    self.desk.give(Call(asked.request, asked.connection.caller, asked.handle))
            answered = [asked for asked in self.open if asked.handle in self.desk.answers]
            self.open = [asked for asked in self.open if asked not in answered and not asked.is_cancelled]
            for asked in answered:
                if not asked.is_cancelled:
                    said = self.desk.answers[asked.handle]
                    asked.then(Answered(said.reply, said.body, said.properties))
            for connection in self.connections:
                connection.leave()
            if not begun and not answered:
                return

    def wait(self, seconds: float) -> None:
        """Let time pass, for the connections and for the broker."""
        self.now += seconds
        self.desk.tick(seconds)
        due = sorted((timer for timer in self.timers if timer.due <= self.now), key=lambda timer: timer.due)
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.is_cancelled:
                timer.then()
        self.turn()


@dataclass(eq=False)
class Connection:
    """A client's end, and the outlet of its session."""

    stomp: StompDesk
    heard: list[Frame] = field(default_factory=list)
    is_closed: bool = False
    is_writable: bool = True  # the client reads
    is_behind: bool = False
    _said: list[Frame] = field(default_factory=list)  # in this turn

    def __post_init__(self) -> None:
        self.stomp.connections.append(self)
        self.caller = 1000 + len(self.stomp.connections)
        self.session = StompSession(self, self.stomp.limits, self.stomp.desk.attributes, self.stomp.losses)

    # The outlet.

    def say(self, frame: Frame) -> None:
        encode_frame(frame, self.session.flow.version)  # it can be said
        self._said.append(frame)

    hand_out = say

    def ask(self, request: Request, then: Then) -> Asked:
        asked = Asked(self, request, then)
        self.stomp.asked.append(asked)
        return asked

    def log_on(self, user: str, password: str, then: LoggedOn) -> None:
        then(None)

    def after(self, seconds: float, then: Callable[[], None]) -> Timer:
        timer = Timer(self.stomp.now + seconds, then)
        self.stomp.timers.append(timer)
        return timer

    def close(self) -> None:
        self.leave()
        self.is_closed = True
        self.stomp.desk.give(Gone(self.caller))

    def leave(self) -> None:
        """Let what was said reach the client, if it reads."""
        if self._said and self.is_writable:
            self.heard += self._said
            self._said = []
            self.session.written()

    # The client.

    def take(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Say a frame, and let happen what comes of it."""
        self.begin(command, body, **headers)
        self.stomp.turn()

    def begin(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Say a frame."""
        self.say_as_it_is(
            Frame(command, {name.rstrip("_").replace("_", "-"): value for name, value in headers.items()}, body)
        )

    def say_as_it_is(self, frame: Frame) -> None:
        """Say a frame whose headers have these very names."""
        reader = FrameReader(version=self.session.flow.version)
        reader.feed(encode_frame(frame, self.session.flow.version))
        (frame,) = reader.frames()
        self.session.take(frame)

    def send(self, destination: str, body: bytes = b"e4", **headers: str) -> None:
        self.take("SEND", body, destination=destination, **headers)

    def subscribe(self, destination: str, id_: str = "s", ack: str = "auto", **headers: str) -> None:
        self.take("SUBSCRIBE", destination=destination, id=id_, ack=ack, **headers)

    def ack(self, message: Frame, **headers: str) -> None:
        self._acknowledge("ACK", message, **headers)

    def nack(self, message: Frame, **headers: str) -> None:
        self._acknowledge("NACK", message, **headers)

    def _acknowledge(self, command: str, message: Frame, **headers: str) -> None:
        if self.session.flow.version == V12:
            self.take(command, id=message.headers["ack"], **headers)
        else:
            said = {"subscription": message.headers["subscription"], **headers}
            self.take(command, message_id=message.headers["message-id"], **said)

    def vanish(self) -> None:
        """Let the connection be lost."""
        self.is_closed = True
        self.session.lost()
        self.stomp.desk.give(Gone(self.caller))
        self.stomp.turn()

    def read(self) -> None:
        """Read what has piled up."""
        self.is_writable = True
        self.leave()
        self.session.written()
        self.stomp.turn()

    # What it has heard.

    def commands(self) -> list[str]:
        return [frame.command for frame in self.heard]

    def messages(self) -> list[Frame]:
        """Return the MESSAGEs since it was asked last."""
        found = [frame for frame in self.heard if frame.command == "MESSAGE"]
        self.heard = [frame for frame in self.heard if frame.command != "MESSAGE"]
        return found

    def bodies(self) -> list[bytes]:
        return [frame.body for frame in self.messages()]

    def receipts(self) -> list[str]:
        found = [frame.headers["receipt-id"] for frame in self.heard if frame.command == "RECEIPT"]
        self.heard = [frame for frame in self.heard if frame.command != "RECEIPT"]
        return found

    def error(self) -> str:
        """Return what the ERROR says; there must be one, and the connection is at its end."""
        assert self.is_closed and self.commands()[-1:] == ["ERROR"], self.heard
        return str(self.heard[-1].headers["message"])


def fields_of(frame: Frame, *names: str) -> list[Any]:
    return [frame.headers.get(name) for name in names]


def waiting(stomp: StompDesk, destination: str = "/queue/a") -> list[bytes]:
    """Return what a newcomer gets, and gives back."""
    looker = stomp.connect("LOOKER")
    looker.subscribe(destination, ack="client", prefetch_count="10000")
    stomp.wait(60)  # for what comes again after a delay
    found = looker.bodies()
    looker.vanish()
    return found
