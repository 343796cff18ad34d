"""A STOMP client that costs less than any server: frames made beforehand, answers counted and not looked at.

All connections are driven by one selector in one thread. How much of a processor it used is said with every figure, so
that one can see that it was the server that was measured: a client that waits is not the bottleneck.
"""

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT_SECONDS = 20.0
READ_BYTES = 1 << 18
_END = b"\0"


class LoadFailed(Exception):
    """The server said ERROR, or nothing."""


@dataclass(slots=True)
class Load:
    """What a run gave."""

    count: int  # answers: receipts, or cycles
    seconds: float
    cpu_seconds: float  # that the client used

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def encoded(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return a frame; `content_length` becomes the header content-length."""
    lines = [f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items()]
    return f"{command}\n{''.join(lines)}\n".encode() + body + _END


def connect(address: tuple[str, int], **headers: str) -> socket.socket:
    """Return a connection that is CONNECTED. LoadFailed, OSError."""
    made = socket.create_connection(address, TIMEOUT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = {"accept_version": "1.2", "host": "/", "heart_beat": "0,0"} | headers
    made.sendall(encoded("CONNECT", b"", **said))
    answer = receive(made)
    if not answer.lstrip(b"\n").startswith(b"CONNECTED"):
        made.close()
        raise LoadFailed(answer.decode("utf-8", "replace"))
    return made


def receive(connection: socket.socket) -> bytes:
    """Return bytes up to the end of a frame."""
    data = b""
    while not data.endswith(_END) and not data.endswith(b"\0\n"):
        more = connection.recv(READ_BYTES)
        if not more:
            raise LoadFailed(f"the server has closed the connection: {data!r}")
        data += more
    return data


def sending(destination: str, body: bytes, **headers: str) -> bytes:
    """Return a SEND of a persistent message that asks for a receipt."""
    said = {"destination": destination, "receipt": "r", "persistent": "true", "content_length": str(len(body))}
    return encoded("SEND", body, **said, **headers)


def keep_sending(connections: list[socket.socket], frames: list[bytes], window: int, seconds: float) -> Load:
    """Let each connection send its frame again for every receipt, `window` of them under way, for so long."""

    def answered(connection: socket.socket, at: int, data: bytes) -> int:
        receipts = data.count(_END)
        connection.sendall(frames[at] * receipts)
        return receipts

    return _driven(connections, [frame * window for frame in frames], answered, window, seconds)


def keep_cycling(connections: list[socket.socket], frames: list[bytes], seconds: float) -> Load:
    """Let each connection, subscribed to its own queue, send, get the MESSAGE, and ACK it with the next SEND."""
    unread = [b""] * len(connections)

    def answered(connection: socket.socket, at: int, data: bytes) -> int:
        *whole, unread[at] = (unread[at] + data).split(_END)
        cycles = 0
        for frame in whole:
            if not frame.lstrip(b"\n").startswith(b"MESSAGE"):
                continue
            begin = frame.index(b"\nack:") + 5
            ack = frame[begin : frame.index(b"\n", begin)]
            connection.sendall(b"ACK\nid:" + ack + b"\n\n\0" + frames[at])
            cycles += 1
        return cycles

    return _driven(connections, frames, answered, 1, seconds)


Answered = Callable[[socket.socket, int, bytes], int]


def _driven(
    connections: list[socket.socket], first: list[bytes], answered: Answered, window: int, seconds: float
) -> Load:
    """Say the first frames, then what the answers bring about, for so long; then wait until all is answered."""
    count = 0
    with selectors.DefaultSelector() as selector:
        for at, connection in enumerate(connections):
            selector.register(connection, selectors.EVENT_READ, at)
        began, cpu = time.perf_counter(), time.thread_time()
        for connection, frame in zip(connections, first, strict=True):
            connection.sendall(frame)
        end = began + seconds
        while (now := time.perf_counter()) < end:
            ready = selector.select(TIMEOUT_SECONDS)
            if not ready:
                raise LoadFailed("the server is silent")
            for key, _ in ready:
                connection = connections[key.data]
                data = connection.recv(READ_BYTES)
                if not data or b"ERROR\n" in data:
                    raise LoadFailed(data.decode("utf-8", "replace") or "the server has closed the connection")
                count += answered(connection, key.data, data)
        return Load(count, now - began, time.thread_time() - cpu)


def settle(connections: list[socket.socket], quiet_seconds: float = 0.2) -> None:
    """Read what is still on its way, until nothing comes any more."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while ready := selector.select(quiet_seconds):
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(READ_BYTES):
                    selector.unregister(key.fileobj)
