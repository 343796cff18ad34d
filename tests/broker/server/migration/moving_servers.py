"""The two servers of a move as processes of their own, and a network between them that can be cut."""

import json
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.cli_runner import command_line, environment
from tests.support.warm_starts import Process

TIMEOUT_SECONDS = 30.0


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Side:
    """One server of a move, from its start to its end; killed with its block."""

    def __init__(self, file: Path, *arguments: str, cwd: Path | None = None) -> None:
        command = command_line("serve", str(file), *arguments, "--json")
        self.child = Process(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True, cwd=cwd
        )
        self.said: list[dict[str, Any]] = []
        self.log: list[str] = []
        self._news = threading.Condition()
        self._reading = [threading.Thread(target=read, daemon=True) for read in (self._read_said, self._read_log)]
        for thread in self._reading:
            thread.start()

    def _read_said(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()

    def _read_log(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            document = json.loads(line) if line.startswith("{") else {"text": line}
            with self._news:
                self.log.append(str(document.get("text", document.get("message", document))))
                self._news.notify_all()

    def hear(self, words: str) -> None:
        """Wait until its log says so; TimeoutError."""
        with self._news:
            if not self._news.wait_for(lambda: any(words in text for text in self.log), TIMEOUT_SECONDS):
                raise TimeoutError(f"no {words!r} in {self.log}")

    def listens(self) -> None:
        """Wait until it listens; TimeoutError."""
        with self._news:
            if not self._news.wait_for(lambda: bool(self.said), TIMEOUT_SECONDS):
                raise TimeoutError(f"it does not listen: {self.log}")

    def end(self, number: signal.Signals | None = None) -> int:
        """Wait for its end, having sent a signal if that is given; return the exit code."""
        if number is not None:
            with suppress(ProcessLookupError):
                self.child.send_signal(number)
        code = self.child.wait(TIMEOUT_SECONDS)
        for thread in self._reading:
            thread.join(TIMEOUT_SECONDS)
        return code

    @property
    def moved(self) -> str:
        """What it says at its end that was moved."""
        return next((str(each["moved"]) for each in self.said if "moved" in each), "")

    def __enter__(self) -> "Side":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.end()
        for stream in (self.child.stdout, self.child.stderr):
            assert stream is not None
            stream.close()
        if failure is not None:
            failure.add_note(f"it said {self.said} and logged {self.log}")


class Wire:
    """A network between two ports, which can be cut and mended, also after so many bytes."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_cut = False
        self.passed = 0
        self.cuts_after: int | None = None
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = None if self._is_cut else self._connected()
            if far is None:
                near.close()
                continue
            with self._lock:
                self._sockets |= {near, far}
            for a, b in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=self._pass, args=(a, b), daemon=True))
                self._threads[-1].start()

    def _connected(self) -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", self._to), TIMEOUT_SECONDS)
        except OSError:
            return None

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(1 << 16):
                self.passed += len(data)
                if self.cuts_after is not None and self.passed > self.cuts_after:
                    self.cuts_after = None
                    self.cut()
                b.sendall(data)
        for each in (a, b):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End every connection, and let no other begin."""
        self._is_cut = True
        with self._lock:
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes who waits in it
        for thread in list(self._threads):
            thread.join(TIMEOUT_SECONDS)
        for each in (self._server, *self._sockets):
            each.close()
