"""A wire before a server, which can be cut in the middle of a request or of its answer."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.support.disks.watched_disk import TIMEOUT_SECONDS


class Wire:
    """A port before another one, which can be cut in the middle of a request or of its answer."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cut = ""  # "request": the next one does not arrive; "answer": its answer does not; "within": half of it
        self.then: Callable[[], object] = lambda: None  # before the client sees that it was cut
        self.marker = b""  # of the request that is meant
        self.arrived = threading.Event()  # the answer to a marked request, which is held until `go_on`
        self.go_on = threading.Event()
        self.holds = False
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to), TIMEOUT_SECONDS)
                except OSError:  # the server is away, as a client sees by this; later connections may reach it again
                    near.close()
                    continue
                self._sockets += [near, far]
                thread = threading.Thread(target=self._carry, args=(near, far), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Carry requests one after the other; each comes in a piece or two, as does its answer."""
        cut = ""
        with suppress(OSError), near, far:
            while True:
                asked = _message(near)
                cut = self.cut if asked and self.marker in asked else ""
                if not asked or cut == "request":
                    break
                far.sendall(asked)
                answer = _message(far)
                if cut == "within":
                    near.sendall(answer[: len(answer) // 2])
                if not answer or cut:
                    break
                if self.holds and self.marker in asked:
                    self.arrived.set()
                    self.go_on.wait(TIMEOUT_SECONDS)
                near.sendall(answer)
            if cut:
                self.cut = ""
                self.then()

    def break_all(self) -> None:
        """Let all connections be lost that there are."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.break_all()
        for each in self._sockets:
            each.close()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)


def _message(raw: socket.socket) -> bytes:
    """Return a whole message of HTTP; nothing at the end."""
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        if found:
            lengths = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length:" in line]
            if len(body) >= (lengths or [0])[0]:
                return data
        more = raw.recv(1 << 16)
        if not more:
            return b""
        data += more
