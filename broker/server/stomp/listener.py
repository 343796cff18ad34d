"""STOMP over TCP: a listener, and of each connection its bytes, timers and calls of the broker. All on one event loop.

What a session says is gathered and written once in a turn of the loop. While a client does not read, nothing more is
received for it; while so much of its own is under way, nothing more is read from it.

STOMP frames that have begun and are not complete: how much is held of them, for how long, and who has to go.

All connections of a listener hold no more than `unread_bytes` together. Where it would be more, the user who holds most
loses the connection that holds most of that: so nobody is shut out by what others hold. Who has not logged on yet
counts as one user. And a frame has only so much time, more for each byte of it that has come.

Heart-beats of a STOMP connection: signs of life as often as was agreed, and the wait for those of the client.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Request
from oms_journal.broker.codes import Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.rights import OPEN, Guard, LogonRefused
from oms_journal.broker.server.runtime.limits import StompLimits, largest_holder
from oms_journal.broker.server.runtime.listeners import BACKLOG, HeldPort
from oms_journal.broker.server.runtime.log import event
from oms_journal.broker.server.runtime.tls import Certificate, TlsDoor
from oms_journal.broker.server.stomp.flow import Cancellable, Then
from oms_journal.broker.server.stomp.frames import BadFrame, Frame, FrameReader, encode_frame
from oms_journal.broker.server.stomp.login import LoggedOn, Login, peer_of
from oms_journal.broker.server.stomp.losses import Losses
from oms_journal.broker.server.stomp.session import StompSession

_SHARE = 0.7  # of the interval: a beat that is late is taken for a connection that is lost
_PATIENCE = 2.0  # intervals without a sign of the client


class HeartBeats:
    """Those of one connection. `said` and `heard` are when something last went out and came."""

    __slots__ = ("_connection", "_listening", "_loop", "_saying", "heard", "said")

    def __init__(self, connection: "StompConnection", loop: asyncio.AbstractEventLoop) -> None:
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


@dataclass(slots=True)
class _Begun:
    """A frame that has begun."""

    since: float
    size: int = 0  # bytes of it that are held


class IncompleteFrames:
    """Those of one listener. The time comes in as an argument."""

    def __init__(self, limits: StompLimits) -> None:
        self._limits = limits
        self._begun: dict[StompConnection, _Begun] = {}
        self.size = 0  # bytes of all of them

    def note(self, sender: "StompConnection", size: int, *, now: float) -> None:
        """Note that so much is held of the frame in whose middle the connection is; end who holds too much."""
        begun = self._begun.get(sender)
        if begun is None or not begun.size:
            begun = self._begun[sender] = _Begun(now)
        self.size += size - begun.size
        begun.size = size
        while self.size > self._limits.unread_bytes:
            held = {each: its.size for each, its in self._begun.items()}
            most = largest_holder(held, lambda each: each.user)
            self.forget(most)
            most.end(Code.LONG_BUFFERS, "too many frames have begun and are not complete")

    def forget(self, sender: "StompConnection") -> None:
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


_log = logging.getLogger("oms.stomp")
_TELLS_PARTNER = ("CONNECTED", "ERROR")  # so that a client knows where to go on
_BEAT = b"\n"


class StompConnection(asyncio.Protocol):
    """One connection: the outlet of its session."""

    __slots__ = (
        *("_beats", "_broker", "_caller", "_connecting", "_is_closing", "_is_paused", "_is_reading_paused"),
        *("_lingering", "_listener", "_login", "_loop", "_parts", "_parts_size", "_reader", "_session"),
        *("_transport", "_unsent"),
    )

    def __init__(self, listener: "StompListener") -> None:
        self._listener = listener
        self._broker = listener.broker
        self._loop = listener.loop
        self._session = StompSession(self, listener.limits, self._broker.attributes, listener.losses)
        self._reader = FrameReader(listener.limits.frames)
        self._caller = self._broker.new_caller()
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []  # said in this turn
        self._parts_size = 0
        self._unsent = 0  # bytes of it that the client has brought about, since all had left
        self._is_paused = False  # what was written has not left
        self._is_reading_paused = False
        self._is_closing = False
        self._beats = HeartBeats(self, self._loop)
        self._connecting: asyncio.TimerHandle | None = None
        self._login = None if listener.guard.is_open else Login(listener.guard)
        self._lingering: asyncio.TimerHandle | None = None

    # What the loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1, low=0)  # 0 would pause an encrypted one for nothing
        listener, limits = self._listener, self._listener.limits
        listener.connections.add(self)
        if listener.is_stopping:
            listener.refused += 1
            self._session.fail(Code.NOT_ACTIVE, listener.ending)  # it was accepted before, and begins only now
            return
        if len(listener.connections) > limits.connections:
            listener.make_room()  # where all are CONNECTED it depends on who comes, which CONNECT tells
        listener.accepted += 1
        listener.connecting[self] = None
        self._connecting = self._loop.call_later(limits.connect_seconds, self._connect_late)

    def data_received(self, data: bytes) -> None:
        session, reader = self._session, self._reader
        self._beats.heard = self._loop.time()
        if not session.flow.is_open:
            return
        if self._parts:
            self._flush()
        reader.feed(data)
        try:
            for frame in reader.frames():
                session.take(frame)
                reader.version = session.flow.version
        except BadFrame as bad:
            self._listener.bad_frames += 1
            session.fail(Code.INVALID_FUNCTION, str(bad))
        except Exception:
            _log.exception("a mistake of the server itself")
            session.fail(Code.STATUS_NOT_UPDATED, "a mistake of the server")
        self._note_begun()
        if session.is_full and not self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._written()
        if self in self._listener.lingering:
            self._loop.call_soon(self._hang_up)

    def connection_lost(self, failure: Exception | None) -> None:
        listener = self._listener
        self._session.lost()
        for begun in (self._connecting, self._login, self._beats, self._lingering):
            if begun is not None:
                begun.cancel()
        self._reader = FrameReader(listener.limits.frames)
        self._parts, self._transport = [], None
        self._gone()
        listener.forget(self)

    def _gone(self) -> None:
        """Tell the broker that the client has gone; a server that stops has sent it away."""
        self._broker.gone(self._caller, is_untried=self._listener.is_stopping)

    # What the session does.

    def say(self, frame: Frame) -> None:
        """Send the frame, with all that is said in this turn of the loop."""
        before = self._parts_size
        self.hand_out(frame)
        self._unsent += self._parts_size - before

    def hand_out(self, frame: Frame) -> None:
        """Send a message, with all that is said in this turn of the loop."""
        if self._transport is None:
            return
        if self._listener.partner and frame.command in _TELLS_PARTNER:
            frame = Frame(frame.command, {**frame.headers, "partner-broker-id": self._listener.partner}, frame.body)
        data = encode_frame(frame, self._session.flow.version)
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._parts_size += len(data)
        if frame.command == "CONNECTED":
            self._connected()
        elif frame.command == "ERROR":
            self._listener.note(self._caller, self._session.user, frame.headers["message"])

    def ask(self, request: Request, then: Then) -> Cancellable:
        """Call the broker, if the user may; its answer goes to `then`."""
        login = self._login
        if login is None:
            return self._broker._ask(request, caller=self._caller, then=lambda found: self._answered(found, then))
        refused = login.refusal(request)
        if refused is not None:
            return self._loop.call_soon(self._answered, refused, then)
        return self._broker._ask(
            request, caller=self._caller, then=lambda found: self._answered(login.told(request, found), then)
        )

    def _answered(self, answered: Answered, then: Then) -> None:
        try:
            then(answered)
        except Exception:
            _log.exception("a mistake of the server itself")
            self._session.fail(Code.STATUS_NOT_UPDATED, "a mistake of the server")
        self._read_on()

    def _read_on(self) -> None:
        if self._is_reading_paused and not self._session.is_full and self._transport is not None:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def log_on(self, user: str, password: str, then: LoggedOn) -> None:
        """Find out who it is, at once where everybody is let in; `then` is told None, or why not."""

        def known(refused: LogonRefused | None) -> None:
            then(refused or self._listener.seat(self))

        if self._login is None:
            known(None)
        else:
            self._login.begin(user, password, peer_of(self._transport), known)

    def check_login(self) -> None:
        """End the connection of a user who has changed since it logged on, and what it has registered for."""
        if self._login is not None and self._login.is_stale:
            self._session.fail(Code.SECURITY_TOKEN_WRONG, "what the user may do has changed; log on again")
            self._gone()  # at once, however long the ERROR takes to leave

    def after(self, seconds: float, then: Callable[[], None]) -> Cancellable:
        """Do something later."""
        return self._loop.call_later(seconds, then)

    def close(self) -> None:
        """End the connection once all that was said has left and the client has hung up, or after a while.

        What the client still sends is read and ignored: closing the socket in front of it would reset the connection,
        and the client could lose the ERROR that it has not read.
        """
        transport, listener = self._transport, self._listener
        if self._is_closing or transport is None:
            return
        self._is_closing = True
        self._flush()
        if not listener.has_room or not transport.can_write_eof():  # TLS waits for the client's end by itself
            transport.close()
        else:
            listener.lingering[self] = None
            if self._is_reading_paused:
                self._is_reading_paused = False
                transport.resume_reading()
            if not self._is_paused:
                self._hang_up()
            self._gone()
        self._lingering = self._loop.call_later(listener.limits.linger_seconds, transport.abort)

    def _hang_up(self) -> None:
        """Say that nothing more comes, once all has left."""
        if self._transport is None:
            return
        try:
            self._transport.write_eof()
        except OSError:  # the client has reset the connection
            self._transport.abort()

    @property
    def is_writable(self) -> bool:
        """Whether there is room for more to be handed out."""
        return not self._is_paused and self._parts_size < self._listener.limits.write_bytes

    @property
    def is_behind(self) -> bool:
        """Whether the client leaves so much unread of what was said that nothing more is done for it."""
        return self._unsent >= self._listener.limits.unsent_bytes

    def stop(self) -> None:
        """End the connection once what it has begun is durable."""
        if self._transport is None:
            return
        if self._is_closing:
            self._transport.close()
            return
        self._transport.pause_reading()
        self._is_reading_paused = False
        self._session.stop(self._listener.ending)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # Writing.

    def _flush(self) -> None:
        parts = self._parts
        if not parts or self._transport is None:
            return
        self._parts, self._parts_size = [], 0
        self._beats.said = self._loop.time()
        self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if not self._is_paused:
            self._written()

    def _written(self) -> None:
        self._unsent = self._parts_size
        self._session.written()
        self._read_on()

    # Time.

    def _connect_late(self) -> None:
        if not self._session.flow.version:
            seconds = self._listener.limits.connect_seconds
            self._session.fail(Code.TRANSPORT_TIMED_OUT, f"no CONNECT within {seconds:g} seconds")

    def _connected(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self._listener.connecting.pop(self, None)
        self._beats.begin(*(interval / 1000 for interval in self._session.heart_beats))

    @property
    def is_beating(self) -> bool:
        """Whether signs of life are sent and waited for."""
        return self._transport is not None and self._session.flow.is_open

    def beat(self) -> None:
        """Send a sign of life, unless something waits to be written, which is sign enough."""
        if self._transport is not None and not self._is_paused:
            self._transport.write(_BEAT)

    # Frames that have begun.

    @property
    def user(self) -> str:
        """Who it is, "" as long as that is not known."""
        return self._session.user if self._session.flow.is_connected else ""

    @property
    def named(self) -> tuple[str, str]:
        """The user and the token that CONNECT has said."""
        return (self._session.user, self._session.token)

    @property
    def token(self) -> str:
        return self._session.token

    @property
    def number(self) -> int:
        """Later connections have higher ones."""
        return self._caller

    @property
    def is_reading_paused(self) -> bool:
        """Whether it is not let say more at the moment."""
        return self._is_reading_paused

    def end(self, code: Code, why: str) -> None:
        """End the connection, and let go of the frame that has begun."""
        self._listener.half_frames.forget(self)
        self._reader = FrameReader(self._listener.limits.frames)
        self._session.fail(code, why)

    def _note_begun(self) -> None:
        """Tell what is held of a frame that is not complete."""
        half_frames = self._listener.half_frames
        if not self._session.flow.is_open:
            self._reader = FrameReader(self._listener.limits.frames)
        if self._reader.is_within:
            half_frames.note(self, self._reader.pending, now=self._beats.heard)
        else:
            half_frames.forget(self)


class StompListener:
    """The port of STOMP."""

    def __init__(
        self,
        broker: AsyncBroker,
        limits: StompLimits | None = None,
        *,
        guard: Guard = OPEN,
        certificate: Certificate | None = None,
    ) -> None:
        self.name = "STOMP" if certificate is None else "STOMP-TLS"
        self.broker = broker
        self.held: HeldPort | None = None  # the port, where the server has it already
        self.guard = guard
        self._certificate = certificate
        self.limits = limits or StompLimits()
        self.partner = broker.attributes.broker.partner_cluster_address or ""
        self.loop = asyncio.get_running_loop()
        self.connections: set[StompConnection] = set()
        self.connecting: dict[StompConnection, None] = {}  # that are not CONNECTED, the oldest first
        self.lingering: dict[StompConnection, None] = {}  # that are over but for the client's end, the oldest first
        self.half_frames = IncompleteFrames(self.limits)
        self.losses = Losses()
        self.accepted = 0
        self.refused = 0
        self.bad_frames = 0
        self._noted = 0  # lines of the log about connections, since it was looked last
        self.is_stopping = False
        self.ending = "the broker is being stopped"  # what clients are told then
        self.addresses: list[str] = []  # where it listens
        self._servers: list[asyncio.Server] = []
        self._looking: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    async def start(self, host: str, port: int) -> list[str]:
        """Listen; return where, as HOST:PORT. OSError when that cannot be."""
        made: Callable[[], asyncio.Protocol] = lambda: StompConnection(self)  # noqa: E731 - a name for its type
        if self._certificate is not None:
            made = TlsDoor(self._certificate, made)
        held = self.held or await HeldPort.hold(host, port)
        try:
            for each in held.lend():
                self._servers.append(await self.loop.create_server(made, sock=each, backlog=BACKLOG))
            self.addresses = held.addresses
        except OSError:
            self._close_servers()
            raise
        finally:
            if held is not self.held:
                held.close()
        self.guard.on_change.append(self._check_logins)
        self._look()
        return self.addresses

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    @property
    def has_room(self) -> bool:
        """Whether a connection that is over can wait for its client's end."""
        return not self.is_stopping and len(self.connections) <= self.limits.connections

    def _check_logins(self) -> None:
        for connection in list(self.connections):
            connection.check_login()

    def note(self, connection: int, user: str, why: str) -> None:
        """Log why a connection ends; where very many do, only how many."""
        if self.is_stopping:
            return  # that is told as one
        self._noted += 1
        if self._noted <= self.limits.log_lines:
            said = event("connection", connection=connection, user=user)
            _log.info("connection %d of %s: %s", connection, user, why, extra=said)

    def _look(self) -> None:
        self._looking = self.loop.call_later(self.limits.look_seconds, self._look)
        if self._noted > self.limits.log_lines:
            _log.info("%d more connections ended with an ERROR", self._noted - self.limits.log_lines)
        self._noted = 0
        self.half_frames.look(self.loop.time())

    def make_room(self) -> None:
        """End the connection that is over for longest, else without CONNECT for longest, if there is one."""
        if (over := next(iter(self.lingering), None)) is not None:
            del self.lingering[over]
            over.abort()
            return
        oldest = next(iter(self.connecting), None)
        if oldest is not None:
            del self.connecting[oldest]
            oldest.end(Code.QUEUE_FULL, f"at most {self.limits.connections:,} connections, and this one says nothing")

    def seat(self, newcomer: StompConnection) -> LogonRefused | None:
        """Return why there is no room for who logs on; where another user has more connections, one of them ends.

        So a user who holds all keeps nobody out. The first connection of the same user and token is let go first.
        """
        most = f"at most {self.limits.connections:,} connections"
        seated = [each for each in self.connections if each.user and each is not newcomer and each.is_beating]
        before = next((each for each in seated if newcomer.token and each.named == newcomer.named), None)
        if before is not None:
            before.end(Code.NEW_LOCATION, "this user and token has logged on again")
        elif len(seated) >= self.limits.connections:
            counts = Counter(each.user for each in seated)
            user, count = counts.most_common(1)[0]
            if count <= counts[newcomer.named[0]] + 1:
                self.refused += 1
                return LogonRefused(Code.QUEUE_FULL, most)
            newest = max((each for each in seated if each.user == user), key=lambda each: each.number)
            newest.end(Code.QUEUE_FULL, f"{most}, and {user} has most of them")
        return None

    def forget(self, connection: StompConnection) -> None:
        """A connection is over."""
        self.connections.discard(connection)
        self.connecting.pop(connection, None)
        self.lingering.pop(connection, None)
        self.half_frames.forget(connection)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def stop(self) -> int:
        """Accept nothing more, and end every connection once what it has begun is durable; return how many there were.

        What is not done after `stop_seconds` is cut off.
        """
        self.is_stopping = True
        self._close_servers()
        if self._looking is not None:
            self._looking.cancel()
        connections = list(self.connections)
        self._empty = self.loop.create_future()
        for connection in connections:
            connection.stop()
        if self.connections:
            await asyncio.wait([self._empty], timeout=self.limits.stop_seconds)
        for connection in list(self.connections):
            connection.abort()
        return len(connections)
