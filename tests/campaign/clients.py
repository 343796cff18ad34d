"""A client as a process: `python -m tests.campaign.clients ROLE NAME RECORD SEED PORT [PORT]`.

It goes on until SIGTERM, connects again whenever it is thrown out, and writes a line for everything that it is
about to do, was promised, or got. A line is one write to a file: it outlives the process.

    role       does                                          its lines
    send       SEND to a queue, each with a receipt          send, receipt
    library    the same, by stomp.py as it is                send, receipt
    produce    SEND with a producer-id, again until receipt  send, receipt
    pair       a transaction of two SENDs to two queues      send, receipt
    receive    SUBSCRIBE, ACK with a receipt, seldom NACK    got, ack, acked
    listen     the same, by stomp.py as it is                got, ack, acked
    move       a transaction of a SEND and the ACK           got, ack, acked
    publish    SEND to a topic                               send, receipt
    follow     a durable subscription                        subscribed, got, ack, acked
    ask        SEND with reply-to, ACK of the answer, EOC    send, receipt, got, ack, acked
    answer     a transaction of the answer and the ACK       got, ack, acked, send, receipt

Whoever asks is told by SIGUSR1 to ask no more; it goes on to wait for the answers to what it has asked, on whatever
connection, by the conversations that it has written down.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import stomp

from oms_journal.broker.server.stomp.frames import Frame
from tests.support.servers.stomp_server import Heard, Wire, connected

SILENT_SECONDS = 6.0  # of a server, after which a client tries elsewhere
PAUSE_SECONDS = float(os.environ.get("CAMPAIGN_PAUSE", "0.05"))  # between two windows of a sender
WORK, PAIRED, FROM, TO, NEWS = "/queue/work", "/queue/paired", "/queue/from", "/queue/to", "/topic/news"
ASKED, ANSWERS = "/queue/asked", "/temp/answers"


class _Refused(OSError):
    """The server said ERROR."""


class Client:
    """What all roles share: the record, the name, and the connection of the moment."""

    def __init__(self, name: str, record: str, seed: str) -> None:
        self.name = name
        self.chance = random.Random(seed)
        self.began = 0.0  # of the connection
        self.is_hushed = False
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._said = self._before(record)

    def _before(self, record: str) -> list[dict[str, str]]:
        with open(record, encoding="utf-8") as file:  # noqa: PTH123
            return [json.loads(line) for line in file if line.endswith("\n")]

    def note(self, what: str, body: str, **more: object) -> None:
        line = {"what": what, "who": self.name, "body": body, "at": time.monotonic(), "began": self.began, **more}
        os.write(self._record, json.dumps(line).encode() + b"\n")

    def bodies(self) -> Iterator[str]:
        """Yield bodies that nobody ever sent, a life of this process in each."""
        life = sum(line["what"] == "life" for line in self._said)
        self.note("life", str(life))
        for number in count(1):
            yield f"{self.name}.{life} {number}"

    def hush(self, *_: object) -> None:
        self.is_hushed = True

    def asked_before(self) -> dict[str, str]:
        """Return the conversations that earlier lives have begun and are not done with, and what was asked in each."""
        asked = {line["conversation"]: line["body"] for line in self._said if line.get("conversation")}
        done = {line["body"] for line in self._said if line["what"] == "acked"}
        return {conversation: body for conversation, body in asked.items() if body not in done}

    def unanswered(self) -> str | None:
        """Return the last body that an earlier life sent and heard nothing of."""
        sent = [line["body"] for line in self._said if line["what"] == "send"]
        heard = {line["body"] for line in self._said if line["what"] == "receipt"}
        return sent[-1] if sent and sent[-1] not in heard else None


def connect(port: int, name: str) -> Wire:
    made = socket.create_connection(("127.0.0.1", port), SILENT_SECONDS)
    wire = Wire(made, connects=False)
    try:
        wire.say("CONNECT", accept_version="1.2", login=name, token=name)
        heard(wire)
    except BaseException:
        wire.close()
        raise
    return wire


def heard(wire: Wire) -> Frame:
    frame = wire.hear()
    if frame.command == "ERROR":
        raise _Refused(frame.headers.get("message", ""))
    return frame


def send(client: Client, wire: Wire, *, to: str = WORK) -> None:
    for bodies in _windows(client):
        for body in bodies:
            client.note("send", body, to=to)
            wire.say("SEND", body.encode(), destination=to, receipt=body)
        for _ in bodies:
            client.note("receipt", heard(wire).headers["receipt-id"], to=to)
        time.sleep(PAUSE_SECONDS)


def publish(client: Client, wire: Wire) -> None:
    send(client, wire, to=NEWS)


def move_in(client: Client, wire: Wire) -> None:
    send(client, wire, to=FROM)


_BODIES: dict[str, Iterator[str]] = {}


def _bodies(client: Client) -> Iterator[str]:
    return _BODIES.setdefault(client.name, client.bodies())


def _windows(client: Client) -> Iterator[list[str]]:
    while True:
        yield [next(_bodies(client)) for _ in range(client.chance.choice((1, 1, 5, 20)))]


_PENDING: list[str] = []


def produce(client: Client, wire: Wire) -> None:
    bodies = _bodies(client)
    if not _PENDING and (before := client.unanswered()) is not None:
        _PENDING.append(before)
    while True:
        body = _PENDING[0] if _PENDING else next(bodies)
        _PENDING[:] = [body]
        client.note("send", body, to=WORK)
        headers = {"destination": WORK, "receipt": body, "producer_id": body}
        wire.say("SEND", body.encode(), **headers)
        client.note("receipt", heard(wire).headers["receipt-id"], to=WORK)
        _PENDING.clear()
        time.sleep(PAUSE_SECONDS / 5)


def pair(client: Client, wire: Wire) -> None:
    for body in _bodies(client):
        wire.say("BEGIN", transaction=body)
        for to in (WORK, PAIRED):
            client.note("send", body, to=to)
            wire.say("SEND", body.encode(), destination=to, transaction=body)
        wire.say("COMMIT", transaction=body, receipt=body)
        assert heard(wire).command == "RECEIPT"
        for to in (WORK, PAIRED):
            client.note("receipt", body, to=to)
        time.sleep(PAUSE_SECONDS)


def receive(client: Client, wire: Wire, *, of: str = WORK, **more: str) -> None:
    said = {"destination": of, "id": "1", "ack": "client-individual", "prefetch_count": "10", "receipt": "begun"} | more
    wire.say("SUBSCRIBE", **said)
    acknowledged: dict[str, str] = {}
    while True:
        frame = heard(wire)
        if frame.command == "RECEIPT":
            if frame.headers["receipt-id"] == "begun":
                client.note("subscribed", of)
            else:
                client.note("acked", acknowledged.pop(frame.headers["receipt-id"]), of=of)
            continue
        body, ack = frame.body.decode(), frame.headers["ack"]
        client.note("got", body, of=of, delivery=int(frame.headers.get("delivery-count", 0)))
        if client.chance.random() < 0.01:
            wire.say("NACK", id=ack)
            continue
        client.note("ack", body, of=of)
        acknowledged[ack] = body
        wire.say("ACK", id=ack, receipt=ack)


def receive_pairs(client: Client, wire: Wire) -> None:
    receive(client, wire, of=PAIRED)


def receive_moved(client: Client, wire: Wire) -> None:
    receive(client, wire, of=TO)


def follow(client: Client, wire: Wire) -> None:
    receive(client, wire, of=NEWS, durable="true")


def move(client: Client, wire: Wire) -> None:
    _pass_on(client, wire, FROM, TO)


def answer(client: Client, wire: Wire) -> None:
    _pass_on(client, wire, ASKED, ANSWERS)


def _pass_on(client: Client, wire: Wire, of: str, to: str) -> None:
    """Send what comes from one place on to another, an answer into its conversation, in a transaction with its ACK."""
    wire.say("SUBSCRIBE", destination=of, id="1", ack="client-individual", prefetch_count="5")
    waiting: list[Frame] = []

    def take() -> Frame:
        frame = heard(wire)
        if frame.command == "MESSAGE":
            client.note("got", frame.body.decode(), of=of, delivery=int(frame.headers.get("delivery-count", 0)))
            waiting.append(frame)
        return frame

    while True:
        if not waiting:
            take()
            continue
        frame = waiting.pop(0)
        body, ack = frame.body.decode(), frame.headers["ack"]
        wire.say("BEGIN", transaction=ack)
        client.note("send", body, to=to)
        wire.say("SEND", frame.body, destination=frame.headers.get("reply-to", to), transaction=ack)
        client.note("ack", body, of=of)
        wire.say("ACK", id=ack, transaction=ack)
        wire.say("COMMIT", transaction=ack, receipt=ack)
        while take().command != "RECEIPT":
            pass
        client.note("acked", body, of=of)
        client.note("receipt", body, to=to)


class _Asker:
    """The conversations of one connection: those that it begins, and those that were begun on earlier ones."""

    def __init__(self, client: Client, wire: Wire) -> None:
        self._client = client
        self._wire = wire
        self._open = _OPEN.setdefault(client.name, client.asked_before())
        self._acknowledged: dict[str, tuple[str, str]] = {}  # by the receipt: the conversation and what was asked

    def run(self) -> None:
        said = {"ack": "client-individual", "prefetch_count": "10"}
        self._wire.say("SUBSCRIBE", destination=ANSWERS, id="answers", **said)
        for conversation in self._open:
            self._wire.say("SUBSCRIBE", destination=f"/conversation/{conversation}", id=conversation, **said)
        for bodies in _windows(self._client):
            while self._client.is_hushed:
                self._take()
            self._ask(bodies[:5])
            time.sleep(PAUSE_SECONDS)

    def _ask(self, bodies: list[str]) -> None:
        waited = set(bodies)
        for body in bodies:
            self._client.note("send", body, to=ASKED)
            headers = {"destination": ASKED, "reply_to": ANSWERS, "correlation_id": body, "receipt": body}
            self._wire.say("SEND", body.encode(), **headers)
        while waited:
            waited.discard(self._take())

    def _take(self) -> str:
        """Take a frame; return what was asked, when it says that its answer has been acknowledged."""
        frame = heard(self._wire)
        receipt = frame.headers.get("receipt-id", "")
        if frame.command == "MESSAGE":
            self._acknowledge(frame)
        elif receipt in self._acknowledged:
            conversation, body = self._acknowledged.pop(receipt)
            self._client.note("acked", body, of=ANSWERS)
            self._open.pop(conversation, None)
            end = json.dumps({"function": "EOC", "conv_id": conversation}).encode()
            self._wire.say("SEND", end, destination="/aci", receipt="over")
            return body
        elif receipt != "over":
            self._open[frame.headers["conversation"]] = receipt
            self._client.note("receipt", receipt, to=ASKED, conversation=frame.headers["conversation"])
        return ""

    def _acknowledge(self, frame: Frame) -> None:
        body, ack = frame.body.decode(), frame.headers["ack"]
        correlation, count = frame.headers.get("correlation-id", ""), int(frame.headers.get("delivery-count", 0))
        self._client.note("got", body, of=ANSWERS, delivery=count, correlation=correlation)
        self._client.note("ack", body, of=ANSWERS)
        self._acknowledged[ack] = frame.headers["conversation"], body
        self._wire.say("ACK", id=ack, receipt=ack)


_OPEN: dict[str, dict[str, str]] = {}


def ask(client: Client, wire: Wire) -> None:
    _Asker(client, wire).run()


def library(client: Client, port: int) -> None:
    """`send`, by stomp.py."""
    connection, listener = connected(port, client.name, options={"timeout": SILENT_SECONDS})
    try:
        while True:
            body = next(_bodies(client))
            client.note("send", body, to=WORK)
            connection.send(WORK, body, receipt=body)
            _wait(listener, lambda: listener.receipts[-1:] == [body])  # noqa: B023
            client.note("receipt", body, to=WORK)
            time.sleep(PAUSE_SECONDS)
    finally:
        with suppress(Exception):
            connection.transport.stop()


def listen(client: Client, port: int) -> None:
    """`receive`, by stomp.py."""
    connection, listener = connected(port, client.name, options={"timeout": SILENT_SECONDS})
    try:
        connection.subscribe(WORK, id="1", ack="client-individual", headers={"prefetch-count": "10"})
        for done in count():
            _wait(listener, lambda: len(listener.messages) > done)  # noqa: B023
            frame = listener.messages[done]
            client.note("got", frame.body, of=WORK, delivery=int(frame.headers.get("delivery-count", 0)))
            client.note("ack", frame.body, of=WORK)
            connection.ack(frame.headers["ack"], receipt=frame.headers["ack"])
            _wait(listener, lambda: frame.headers["ack"] in listener.receipts[-20:])  # noqa: B023
            client.note("acked", frame.body, of=WORK)
    finally:
        with suppress(Exception):
            connection.transport.stop()


def _wait(listener: Heard, is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + SILENT_SECONDS
    while not is_so():
        if listener.is_disconnected or listener.errors or time.monotonic() > ends:
            raise _Refused("gone, refused or silent")
        time.sleep(0.002)


BY_WIRE: dict[str, Callable[[Client, Wire], None]] = {
    "send": send,
    "produce": produce,
    "pair": pair,
    "publish": publish,
    "move-in": move_in,
    "receive": receive,
    "receive-pairs": receive_pairs,
    "receive-moved": receive_moved,
    "move": move,
    "follow": follow,
    "ask": ask,
    "answer": answer,
}
BY_LIBRARY: dict[str, Callable[[Client, int], None]] = {"library": library, "listen": listen}


def main(role: str, name: str, record: str, seed: str, *ports: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    client = Client(name, record, seed)
    signal.signal(signal.SIGUSR1, client.hush)
    for turn in count():
        port = int(ports[turn % len(ports)])
        with suppress(OSError, EOFError, stomp.exception.StompException):
            client.began = time.monotonic()
            if role in BY_LIBRARY:
                BY_LIBRARY[role](client, port)  # ends by an error alone, as the other ones do
            wire = connect(port, name)
            try:
                BY_WIRE[role](client, wire)
            finally:
                wire.close()
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
