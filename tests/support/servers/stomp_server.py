"""`oms serve` as a process of its own, and two clients of it: stomp.py as it is, and a bare socket."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import stomp

from oms_journal.broker.server.stomp.frames import V12, Frame, encode_frame
from tests.support.cli_runner import command_line, environment
from tests.support.warm_starts import Process

TIMEOUT_SECONDS = 20.0


class NotServing(AssertionError):
    """A server did not start."""

    def __init__(self, serving: "Serving") -> None:
        super().__init__(f"the server did not start: {serving.log}")
        self.serving = serving


class Serving:
    """A server on a spool directory; ends with its block, kindly unless it was killed."""

    def __init__(
        self,
        spool: Path,
        *arguments: str,
        port: int = 0,
        http_port: int = 0,
        within: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.spool = spool
        self.log: list[dict[str, Any]] = []
        ports = ("--stomp-port", str(port), "--http-port", str(http_port))
        command = [*within, *command_line("serve", *arguments, "--spool", str(spool), *ports, "--json")]
        env = environment() | dict(variables or {})
        self.child = Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True, bufsize=1)
        self.port = self.http_port = 0
        self._reading = threading.Thread(target=self._read_log, daemon=True)
        self._reading.start()
        if not self.hear_ports():
            self.child.wait(TIMEOUT_SECONDS)
            self._reading.join(TIMEOUT_SECONDS)
            self._close()
            raise NotServing(self)

    def hear_ports(self) -> bool:
        """Wait until it says where it listens; a standby says so again when it has taken over. False at its end."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if line:
            listening = {name: int(each.rpartition(":")[2]) for name, each in json.loads(line)["listening"].items()}
            self.ports = listening
            self.port, self.http_port = listening.get("STOMP", 0), listening.get("HTTP", 0) or listening.get("HTTPS", 0)
        return bool(line)

    def _read_log(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.log.append(json.loads(line) if line.startswith("{") else {"text": line})

    def texts(self) -> list[str]:
        return [str(entry.get("text", entry)) for entry in self.log]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit code."""
        self.child.send_signal(number)
        code = self.child.wait(TIMEOUT_SECONDS)
        self._reading.join(TIMEOUT_SECONDS)
        return code

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(TIMEOUT_SECONDS)

    def _close(self) -> None:
        for stream in (self.child.stdout, self.child.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> "Serving":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        code = 0 if self.child.poll() is not None else self.stop()
        self._reading.join(TIMEOUT_SECONDS)
        self._close()
        assert failure is not None or code == 0, self.log


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.receipts: list[str] = []
        self.errors: list[Any] = []
        self.beats = 0
        self.is_disconnected = False
        self._news = threading.Condition()

    def _note(self, kept: list[Any], item: Any) -> None:
        with self._news:
            kept.append(item)
            self._news.notify_all()

    def on_message(self, frame: Any) -> None:
        self._note(self.messages, frame)

    def on_receipt(self, frame: Any) -> None:
        self._note(self.receipts, frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self._note(self.errors, frame)

    def on_heartbeat(self) -> None:
        with self._news:
            self.beats += 1
            self._news.notify_all()

    def on_disconnected(self) -> None:
        with self._news:
            self.is_disconnected = True
            self._news.notify_all()

    def wait(self, is_there: Callable[[], bool]) -> None:
        """Wait until it is so; TimeoutError."""
        with self._news:
            if not self._news.wait_for(is_there, TIMEOUT_SECONDS):
                heard = (self.messages, self.receipts, [error.headers for error in self.errors])
                raise TimeoutError(f"waited in vain; heard {heard}")

    def bodies(self, count: int) -> list[str]:
        """Wait for so many messages; return the bodies of all."""
        self.wait(lambda: len(self.messages) >= count)
        return [frame.body for frame in self.messages]


class Wire:
    """A bare socket that speaks STOMP as far as it wants to."""

    def __init__(
        self,
        port: int | socket.socket,
        *,
        connects: bool = True,
        version: str = V12,
        source: str = "127.0.0.1",
    ) -> None:
        if isinstance(port, int):
            port = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS, (source, 0))
        self.socket: socket.socket = port
        self.version = version
        self._data = bytearray()
        if connects:
            try:
                self.say("CONNECT", accept_version=version)
                assert self.hear().command == "CONNECTED"
            except BaseException:
                self.close()
                raise

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        self.socket.sendall(encode_frame(Frame(command, said, body), self.version))

    def hear(self) -> Frame:
        """Return the next frame; EOFError when there is none any more."""
        while True:
            frame = self._next()
            if frame is not None:
                return frame
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._data += data

    def _next(self) -> Frame | None:
        data = self._data
        while data[:1] == b"\n":
            del data[:1]
        end = data.find(b"\n\n")
        if end < 0:
            return None
        command, *lines = data[:end].decode().split("\n")
        headers = {name: _unescaped(value) for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length")
        stop = data.find(b"\0", end + 2) if length is None else end + 2 + int(length)
        if stop < 0 or stop >= len(data):
            return None
        body = bytes(data[end + 2 : stop])
        del data[: stop + 1]
        return Frame(command, headers, body)

    def error(self) -> str:
        """Return what the ERROR says, behind which nothing comes."""
        frame = self.hear()
        while frame.command != "ERROR":
            frame = self.hear()
        with suppress(EOFError):
            raise AssertionError(f"something comes behind the ERROR: {self.hear()}")
        self.close()
        return frame.headers["message"]

    def close(self) -> None:
        self.socket.close()


def _unescaped(text: str) -> str:
    for escape, meant in (("\\c", ":"), ("\\n", "\n"), ("\\\\", "\\")):
        text = text.replace(escape, meant)
    return text


def connected(port: int, login: str = "alice", *, kind: Any = stomp.Connection12, **said: Any) -> tuple[Any, Heard]:
    """Return a connection of stomp.py and its listener."""
    options = said.pop("options", {})
    connection = kind([("127.0.0.1", port)], **options)
    heard = Heard()
    connection.set_listener("heard", heard)
    connection.connect(login, said.pop("passcode", "secret"), wait=True, **said)
    return connection, heard


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    ends = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(0.01)
