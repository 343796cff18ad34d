"""A STOMP connection as its frames and the broker's answers: what each brings about. No socket and no clock is in it.

frame                                is
CONNECT, STOMP                       LOGON with USER-ID and TOKEN (header token, else client-id)
SEND                                 a unit of work or a publication of one message, committed; a control block to /aci
SUBSCRIBE, UNSUBSCRIBE               REGISTER and RECEIVE, or SUBSCRIBE and RECEIVE_PUBLICATION, and the end of it
ACK, NACK                            the receiver's COMMIT and BACKOUT
BEGIN, COMMIT, ABORT                 all of it in one commit, or nothing
DISCONNECT                           LOGOFF, once all else is done

SEND, ACK and NACK are begun and not waited for, so that many can be on their way to the store together; a RECEIPT goes
out when what it is about is durable. The others wait for all that was begun before. Whatever is refused is told with an
ERROR, and ends the connection: what it was sending or receiving is backed out then, as when the connection is lost.
"""

from collections.abc import Callable, Mapping

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Function, Reply
from oms_journal.broker.codes import BrokerError, Code, detailed, refuse
from oms_journal.broker.drivers.open import version
from oms_journal.broker.rights import ANONYMOUS, LogonRefused
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp.block_calls import DESTINATION, BlockCalls
from oms_journal.broker.server.stomp.consumer import Consumer
from oms_journal.broker.server.stomp.flow import Flow, Outlet
from oms_journal.broker.server.stomp.foreign import check_headers
from oms_journal.broker.server.stomp.frames import V10, VERSIONS, Frame
from oms_journal.broker.server.stomp.losses import Losses
from oms_journal.broker.server.stomp.producer import Producer
from oms_journal.broker.sessions.requests import RequestFactory

_SERVER = f"oms/{version()}"
_TO_CONNECT = ("CONNECT", "STOMP")


class StompSession:
    """One connection. `take` is told its frames, `written` when all has left, `lost` when it is not there any more."""

    def __init__(self, outlet: Outlet, limits: StompLimits, attributes: Attributes, losses: Losses) -> None:
        self.limits = limits
        self.user = ""
        self.token = ""
        self.heart_beats = (0, 0)  # milliseconds: how often we send, how often the client does; 0 never
        self._outlet = outlet
        self.flow = flow = Flow(outlet, limits)
        self.consumer = Consumer(flow, losses)
        self.producer = Producer(flow, self.consumer, attributes)
        self._calls = BlockCalls(flow, self.consumer.subscription_to, self.consumer.answer_number)
        flow.dispatch = self._dispatch

    @property
    def is_full(self) -> bool:
        """Whether so much is under way that nothing more should be read."""
        flow = self.flow
        if self._outlet.is_behind:
            return True
        return flow.begun + len(flow.waiting) >= self.limits.calls or flow.bytes >= self.limits.call_bytes

    def take(self, frame: Frame) -> None:
        """Take a frame."""
        if not self.flow.is_open:
            return
        if self.flow.is_held or self.flow.waiting or self._outlet.is_behind:
            self.flow.keep(frame)
        else:
            self._dispatch(frame)

    def _dispatch(self, frame: Frame) -> None:
        command = frame.command
        try:
            if not self.flow.is_connected and command not in _TO_CONNECT:
                raise refuse(Code.LOGON_REQUIRED, "CONNECT comes first")
            check_headers(frame)
            _VERBS[command](self, frame)
        except BrokerError as refusal:
            self.flow.fail(refusal.code, refusal.text, frame)

    def written(self) -> None:
        """All that was said has left."""
        if self.flow.is_open:
            self.consumer.written()
            self.flow.written()

    def fail(self, code: Code, text: str) -> None:
        """Say why, and end the connection."""
        self.flow.fail(code, detailed(code, text))

    def lost(self) -> None:
        """The connection is not there any more."""
        self.flow.lost()

    def stop(self, why: str) -> None:
        """End the connection once what was begun is durable, and its receipts are said."""
        self.flow.waiting.clear()
        self.flow.when_settled(lambda: self.fail(Code.NOT_ACTIVE, why))

    # CONNECT and DISCONNECT.

    def _connect(self, frame: Frame) -> None:
        flow, headers = self.flow, frame.headers
        if flow.version:
            raise refuse(Code.INVALID_FUNCTION, "CONNECT comes once")
        accepted = {text.strip() for text in headers.get("accept-version", V10).split(",")}
        found = next((each for each in VERSIONS if each in accepted), None)
        if found is None:
            ours = ",".join(reversed(VERSIONS))
            flow.fail(Code.INVALID_VERSION, detailed(Code.INVALID_VERSION, f"STOMP {ours}"), frame, version=ours)
            return
        flow.version = found
        self.heart_beats = self._heart_beats(headers)
        self.user = headers.get("login", "").strip() or ANONYMOUS
        self.token = headers.get("token", headers.get("client-id", "")).strip()
        flow.speaker = RequestFactory(self.user, self.token, {})
        flow.is_held = True

        def logged_on(refused: LogonRefused | None) -> None:
            if refused is not None:
                flow.fail(refused.code, refused.text, frame)
            elif flow.is_open:
                flow.ask(flow.speaker.request(Function.LOGON), self._connected, frame)

        self._outlet.log_on(headers.get("login", "").strip(), headers.get("passcode", ""), logged_on)

    def _connected(self, reply: Reply) -> None:
        least = self.limits.heart_beat_milliseconds
        headers = {"version": self.flow.version, "session": str(reply.client_id), "server": _SERVER}
        headers["heart-beat"] = f"{least},{least}"
        self.flow.is_connected = True
        self._outlet.say(Frame("CONNECTED", headers))
        self.flow.go_on()

    def _heart_beats(self, headers: Mapping[str, str]) -> tuple[int, int]:
        text = headers.get("heart-beat", "0,0")
        parts = text.replace(" ", "").split(",")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            said = f"heart-beat:{text[:40]} is not two numbers of milliseconds, as in 0,10000"
            raise refuse(Code.INVALID_NUMBER, said)
        can, wants = map(int, parts)
        least = self.limits.heart_beat_milliseconds
        return (max(wants, least) if wants else 0, max(can, least) if can else 0)

    def _disconnect(self, frame: Frame) -> None:
        def leave() -> None:
            self.consumer.stop_receiving()
            self.flow.ask(self.flow.speaker.request(Function.LOGOFF), gone, frame)

        def gone(_: Reply) -> None:
            self.flow.receipt(frame)
            self.flow.end()

        self.flow.when_settled(leave)

    # What the rest of the connection is told.

    def _send(self, frame: Frame) -> None:
        if frame.headers.get("destination") == DESTINATION:
            self._calls.take(frame)
        else:
            self.producer.send(frame)

    def _acknowledge(self, frame: Frame) -> None:
        self.consumer.acknowledge(frame, self.producer.transaction(frame))


_VERBS: Mapping[str, Callable[[StompSession, Frame], None]] = {
    "CONNECT": StompSession._connect,
    "STOMP": StompSession._connect,
    "SEND": StompSession._send,
    "SUBSCRIBE": lambda session, frame: session.consumer.subscribe(frame),
    "UNSUBSCRIBE": lambda session, frame: session.consumer.unsubscribe(frame),
    "ACK": StompSession._acknowledge,
    "NACK": StompSession._acknowledge,
    "BEGIN": lambda session, frame: session.producer.begin(frame),
    "COMMIT": lambda session, frame: session.producer.commit(frame),
    "ABORT": lambda session, frame: session.producer.abort(frame),
    "DISCONNECT": StompSession._disconnect,
}
