"""Two brokers on one store with many units of work waiting: how long nobody can receive when the standard one goes."""

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.broker.restart import fill
from bench.callers import scratch
from bench.measure import Row, Settings, time_text
from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.server.stomp.frames import V12, Frame, encode_frame

WAITING = 100_000
INTERVAL_SECONDS = 5.0  # CONTROL-INTERVAL
BOUND_SECONDS = INTERVAL_SECONDS + 3.0
PATIENCE_SECONDS = 60.0
_ANSWERS = "is the standard broker, and answers"


class Serving:
    """`oms serve` as a process; `said` are the lines of its log."""

    def __init__(self, file: Path, spool: Path, stomp_port: int, http_port: int) -> None:
        self.port = stomp_port
        ports = ("--stomp-port", str(stomp_port), "--http-port", str(http_port))
        command = [sys.executable, "-m", "oms_journal.cli", "serve", str(file), "--spool", str(spool), *ports, "--json"]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._news = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            with self._news:
                self.said.append(str(json.loads(line).get("text", line)) if line.startswith("{") else line)
                self._news.notify_all()

    def wait_for(self, text: str) -> None:
        with self._news:
            if not self._news.wait_for(lambda: any(text in line for line in self.said), PATIENCE_SECONDS):
                raise TimeoutError(f"{text!r} was not said: {self.said}")

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self._reading.join()
        assert self.child.stderr is not None
        self.child.stderr.close()


class Two:
    """Two brokers that take turns: each is started as a standby, and the first one up becomes standard."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        with ExitStack() as held:
            sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
            self._ports = [each.getsockname()[1] for each in sockets]
        self._turn = 0
        self.standard = self._started()
        self.standard.wait_for("RUN-MODE is STANDARD")
        self.standby = self._started()

    def _started(self) -> Serving:
        """Start the one whose turn it is."""
        number, self._turn = self._turn, 1 - self._turn
        lines = "  RUN-MODE=STANDBY HANDSHAKE=NO PSTORE=HOT BROKER-ID=BENCH\n"
        partner = f"127.0.0.1:{self._ports[1 - number]}:TCP"
        lines += f"  CONTROL-INTERVAL={INTERVAL_SECONDS:.0f}S PARTNER-CLUSTER-ADDRESS={partner}\n"
        file = self._spool.parent / f"etbfile{number}"
        file.write_text(
            BUILT_IN.replace("PSTORE=WARM", "").replace("DEFAULTS=BROKER\n", f"DEFAULTS=BROKER\n{lines}", 1)
        )
        return Serving(file, self._spool, self._ports[2 + number], self._ports[number])

    def takeover_seconds(self, number: signal.Signals) -> float:
        """Return how long after the standard broker's end a client has a message from the other one."""
        self.standby.wait_for(_ANSWERS)
        time.sleep(random.uniform(0, INTERVAL_SECONDS))  # at any moment between two pings
        began = time.perf_counter()
        self.standard.child.send_signal(number)
        taken = receive(self.standby.port) - began
        self.standard.end()
        self.standard = self.standby
        self.standby = self._started()
        return taken

    def end(self) -> None:
        self.standard.end()
        self.standby.end()


def receive(port: int) -> float:
    """Receive and acknowledge a message from there; return when it had come.

    It is acknowledged, since one that is given back comes again only after a delay, longer every time.
    """
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends:
        try:
            with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
                connection.sendall(encode_frame(Frame("CONNECT", {"accept-version": V12}), V12))
                said = {"id": "1", "ack": "client", "prefetch-count": "1"}
                said["destination"] = "/service/CLASS/SERVER/SERVICE0000"
                connection.sendall(encode_frame(Frame("SUBSCRIBE", said), V12))
                message = _heard(connection, b"MESSAGE\n")
                came = time.perf_counter()
                begin = message.index(b"\nack:") + 5
                number = message[begin : message.index(b"\n", begin)].decode()
                connection.sendall(encode_frame(Frame("ACK", {"id": number, "receipt": "r"}), V12))
                _heard(connection, b"RECEIPT\n")
                return came
        except OSError:
            pass
        time.sleep(0.02)
    raise TimeoutError(f"no message from port {port}")


def _heard(connection: socket.socket, command: bytes) -> bytes:
    """Return what came, up to the end of a frame of that command. OSError."""
    heard = b""
    while command not in heard or not heard.rstrip(b"\n").endswith(b"\0"):
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        heard += data
    return heard


def takeover(settings: Settings) -> Iterator[Row]:
    """The standard broker is killed, or stopped, at any moment."""
    spool = scratch(settings.directory, "two-brokers") / "spool"
    spool.mkdir(parents=True)
    fill(spool, count=WAITING, services=1)
    two = Two(spool)
    try:
        for number, what in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")):
            found = [two.takeover_seconds(number) for _ in range(settings.rounds)]
            yield Row(
                name=f"takeover-{what}",
                what=f"takeover with {WAITING:,} waiting units of work, the standard broker {what}: to a message from "
                f"its standby, CONTROL-INTERVAL={INTERVAL_SECONDS:.0f}S",
                measured=found,
                unit=" s",
                bound=BOUND_SECONDS,
                is_most=True,
                ours=time_text(found),
            )
    finally:
        two.end()
