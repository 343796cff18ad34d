"""Clients of two brokers under load: they send, receive, acknowledge, and go to the other broker when one is gone.

What they were told is kept, in the order in which they were told it.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tests.support.servers.stomp_server import Wire

WINDOW = 10
Part = Callable[[Wire, dict[str, bytes], str, int], None]  # of a connection: what it asks, as whom, and where
PATIENCE_SECONDS = 2.0  # for an answer: a broker that takes longer is taken for gone


class Load:
    """Senders and receivers, from `start` to `stop`."""

    def __init__(self, ports: Sequence[int], *, senders: int = 12, receivers: int = 4) -> None:
        self.sent: set[bytes] = set()
        self.receipted: set[bytes] = set()
        self.told: list[tuple[str, bytes]] = []  # "message" or "acknowledged", in order
        self.receipts_at = dict.fromkeys(ports, 0)
        self.left: list[tuple[Wire, dict[str, bytes]]] = []  # connections that were given up, and what they asked
        self.errors: list[Mapping[str, str]] = []  # that these connections ended with
        self._ports = ports
        self._lock = threading.Lock()  # guards all of it
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._go_on, args=(self._send, f"s{at}")) for at in range(senders)]
        self._threads += [threading.Thread(target=self._go_on, args=(self._receive, "")) for _ in range(receivers)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def acknowledged(self) -> set[bytes]:
        return {body for what, body in self.told if what == "acknowledged"}

    def seen(self) -> set[bytes]:
        return {body for what, body in self.told if what == "message"}

    def delivered_again(self) -> set[bytes]:
        """Return what was delivered although it had been acknowledged."""
        acknowledged: set[bytes] = set()
        again: set[bytes] = set()
        for what, body in self.told:
            if what == "acknowledged":
                acknowledged.add(body)
            elif body in acknowledged:
                again.add(body)
        return again

    def hear_what_is_left(self) -> None:
        """Take in what the connections that were given up have still been told, up to their end."""
        for wire, asked in self.left:
            wire.socket.settimeout(20)
            with suppress(OSError, EOFError):
                while True:
                    frame = wire.hear()
                    if frame.command == "RECEIPT":
                        self._note_receipt(frame.headers["receipt-id"], asked)
                    elif frame.command == "ERROR":
                        self.errors.append(dict(frame.headers))
            wire.close()

    def _go_on(self, play: Part, name: str) -> None:
        """Play a part at one broker, and then at the other."""
        turn = 0
        while not self._stopping.is_set():
            port = self._ports[turn % len(self._ports)]
            turn += 1
            asked: dict[str, bytes] = {}
            wire = None
            try:
                wire = Wire(port, connects=False)
                wire.socket.settimeout(PATIENCE_SECONDS)
                wire.say("CONNECT", accept_version="1.2")
                if wire.hear().command == "CONNECTED":
                    play(wire, asked, f"{name} {turn}", port)
                wire.close()
            except TimeoutError:
                assert wire is not None
                with self._lock:
                    self.left.append((wire, asked))
            except (OSError, EOFError):
                if wire is not None:
                    wire.close()
                self._stopping.wait(0.05)

    def _note_receipt(self, receipt: str, asked: dict[str, bytes]) -> None:
        body = asked.pop(receipt)
        with self._lock:
            if receipt.startswith("ack"):
                self.told.append(("acknowledged", body))
            else:
                self.receipted.add(body)

    def _send(self, wire: Wire, asked: dict[str, bytes], name: str, port: int) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(WINDOW):
                body = f"{name} {number}".encode()
                receipt = f"send{number}"
                asked[receipt] = body
                with self._lock:
                    self.sent.add(body)
                wire.say("SEND", body, destination="/queue/load", receipt=receipt)
                number += 1
            for _ in range(WINDOW):
                frame = wire.hear()
                if frame.command != "RECEIPT":
                    return
                self._note_receipt(frame.headers["receipt-id"], asked)
                with self._lock:
                    self.receipts_at[port] += 1

    def _receive(self, wire: Wire, asked: dict[str, bytes], name: str, port: int) -> None:
        wire.say("SUBSCRIBE", destination="/queue/load", id="1", ack="client-individual", prefetch_count="10")
        number = 0
        while not self._stopping.is_set():
            frame = wire.hear()
            if frame.command == "MESSAGE":
                with self._lock:
                    self.told.append(("message", frame.body))
                receipt = f"ack{number}"
                number += 1
                asked[receipt] = frame.body
                wire.say("ACK", id=frame.headers["ack"], receipt=receipt)
            elif frame.command == "RECEIPT":
                self._note_receipt(frame.headers["receipt-id"], asked)
            else:
                return
