"""`oms serve` under a campaign: one broker, or two on one store, and somebody who starts them again."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.embedded.broker import Broker
from tests.support.cli_runner import command_line, environment
from tests.support.servers.stomp_server import Wire
from tests.support.servers.two_brokers import free_ports

FILE_BYTES = 128 << 10  # small data files: a roll, a footer and a clean-up every few seconds
ANSWER_SECONDS = 2.0
WAIT_SECONDS = 240.0  # on a machine that has a lot else to do, a start alone may take a minute
_NEVER_SAID = ("Traceback", "this is a bug", "Exception ignored", "LOST of the persistent store")
GOOD_ENDS = {0, 3, -signal.SIGKILL}  # asked to, taken over, killed


class Brokers:
    """One broker, or two. `begin` starts what is not running; nothing here ever stops by itself."""

    def __init__(
        self, directory: Path, spool: Path, count: int, variables: Mapping[str, str], *, cleanup: str = "5S"
    ) -> None:
        self.spool = spool
        self.count = count
        self.descriptors_max = 0  # 0: as the system has it
        self.file_size_max = resource.RLIM_INFINITY  # of the files of a broker that is started
        self.faults: list[str] = []  # what a broker should never have done
        self.starts = self.takeovers = 0
        self._directory = directory
        self._variables = variables
        self._cleanup = cleanup
        ports = free_ports(2 * count)
        self.http, self.stomp = ports[:count], ports[count:]
        self.children: list[subprocess.Popen[bytes] | None] = [None] * count
        self._logs: list[subprocess.Popen[bytes] | None] = [None] * count
        self._stopped: set[int] = set()
        with Broker.open(spool, broker_id="ETB001"):
            pass  # a store for both to find

    def begin(self) -> None:
        """Start every broker that is not running, having looked at how it ended."""
        for number, child in enumerate(self.children):
            if child is None or child.poll() is not None:
                self._judge(number)
                self._start(number)

    def _start(self, number: int) -> None:
        self.starts += 1
        ports = ("--stomp-port", str(self.stomp[number]), "--http-port", str(self.http[number]))
        command = command_line("serve", str(self._file(number)), "--spool", str(self.spool), *ports)
        with self._log(number).open("ab") as log:
            # The log has a process of its own: no limit on the broker's files is one on what it has to say.
            kept = self._logs[number] = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        assert kept.stdin is not None
        with kept.stdin:
            self.children[number] = subprocess.Popen(
                command,
                stdout=kept.stdin,
                stderr=kept.stdin,
                env=environment() | dict(self._variables),
                preexec_fn=self._limited,
            )

    def _limited(self) -> None:
        if self.descriptors_max:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors_max, self.descriptors_max))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_size_max, resource.RLIM_INFINITY))

    def limit_files(self, size: int) -> None:
        """Let no broker, neither those that run nor those that are started, write to a file behind so many bytes."""
        self.file_size_max = size
        for child in self.children:
            if child is not None and child.poll() is None:
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def _file(self, number: int) -> Path:
        said = {"BROKER-ID": "ETB001", "PSTORE": "HOT", "MAX-DELIVERY-COUNT": "UNLIM"}
        if self.count > 1:
            partner = f"127.0.0.1:{self.http[1 - number]}:TCP"
            said |= {"RUN-MODE": "STANDBY", "HANDSHAKE": "NO", "PSTORE-VERSION": "3"}
            said |= {"PARTNER-CLUSTER-ADDRESS": partner, "CONTROL-INTERVAL": "1S", "MAX-TAKEOVER-ATTEMPTS": "100"}
        lines = "\n".join(f"  {name}={value}" for name, value in said.items())
        text = BUILT_IN.replace("PSTORE=WARM", "").replace("DEFAULTS=BROKER", f"DEFAULTS=BROKER\n{lines}", 1)
        text += f"DEFAULTS=JOURNAL\n  MAX-DATA-FILE-SIZE={FILE_BYTES >> 10}K  MSG-CLEANUP-INTERVAL={self._cleanup}\n"
        path = self._directory / f"attributes{number}"
        path.write_text(text)
        return path

    def _log(self, number: int) -> Path:
        return self._directory / f"broker{number}.log"

    def _judge(self, number: int) -> None:
        """Note what a broker did that has ended, and should not have: another exit code, a traceback."""
        child, log = self.children[number], self._logs[number]
        if log is not None:
            log.wait(WAIT_SECONDS)  # what the broker said last is written
        if child is not None and child.returncode not in GOOD_ENDS and not self._is_excused(number, child.returncode):
            self.faults.append(f"broker {number} ended with {child.returncode}: {self.tail(number)}")

    def _is_excused(self, number: int, code: int) -> bool:
        """Say whether a start was refused, with a reason, while the other one or the disk was in the way."""
        return code == 4 and "oms: " in self.tail(number)

    def tail(self, number: int) -> str:
        path = self._log(number)
        return "".join(path.read_text("utf-8", "replace").splitlines(keepends=True)[-4:]) if path.exists() else ""

    def complaints(self) -> list[str]:
        """Return the lines of all logs that tell of a bug, or of a loss: nothing here ever damages a file."""
        lines = []
        for number in range(self.count):
            for line in self._log(number).read_text("utf-8", "replace").splitlines():
                if any(words in line for words in _NEVER_SAID):
                    lines.append(f"broker {number}: {line[:600]}")
        return lines

    def standard(self) -> int | None:
        """Return the broker that lets clients in, if one does: a standby that tries to take over sends them away."""
        for number in range(self.count):
            child = self.children[number]
            if child is None or child.poll() is not None or number in self._stopped:
                continue
            if _lets_in(self.stomp[number]):
                return number
        return None

    def wait_standard(self) -> int:
        """Return the broker that listens for STOMP, when one does; starts those that have ended. TimeoutError."""
        ends = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < ends:
            self.begin()
            if (found := self.standard()) is not None:
                return found
            time.sleep(0.2)
        raise TimeoutError(f"no broker listens: {[self.tail(number) for number in range(self.count)]}")

    def signal(self, number: int, what: signal.Signals) -> None:
        child = self.children[number]
        assert child is not None
        if what == signal.SIGSTOP:
            self._stopped.add(number)
        if what in (signal.SIGCONT, signal.SIGKILL):
            self._stopped.discard(number)
        if child.poll() is None:
            child.send_signal(what)

    def wait_end(self, number: int) -> None:
        """Return when the broker has ended. TimeoutExpired."""
        child = self.children[number]
        assert child is not None
        child.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Ask all to stop, the standby first, and judge how they did."""
        first = self.standard()
        for number in sorted(range(self.count), key=lambda number: number == first):
            child = self.children[number]
            if child is None:
                continue
            self.signal(number, signal.SIGCONT)
            self.signal(number, signal.SIGTERM)
            try:
                child.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.faults.append(f"broker {number} does not stop: {self.tail(number)}")
                os.kill(child.pid, signal.SIGABRT)
                child.wait()
            self._judge(number)
            self.children[number] = None


def _lets_in(port: int) -> bool:
    """Say whether a client is let in there."""
    with suppress(OSError, EOFError), closing(socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)) as made:
        wire = Wire(made, connects=False)
        wire.say("CONNECT", accept_version="1.2", login="campaign", token="1")
        return wire.hear().command == "CONNECTED"
    return False
