"""A broker and its HTTP side on a loop of their own, in a thread of the test's process; and a plain client of it."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.server.http.listener import WebListener
from oms_journal.broker.server.http.routes import web_listener
from oms_journal.broker.server.runtime.limits import WebLimits
from oms_journal.broker.server.runtime.state import ServerState
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS

T = TypeVar("T")
SERVICE = {"server_class": "GAME", "server_name": "CHESS", "service": "BLACK"}
ALICE = {"user_id": "ALICE", "token": "PC1"}
BOB = {"user_id": "BOB", "token": "S1"}


class WebPlace:
    """Begins with `with`, ends with it."""

    def __init__(self, directory: Path | None, *, limits: WebLimits | None = None, port: int = 0, **given: Any) -> None:
        self._directory = directory
        self._limits = limits
        self._given = given if "attributes" in given else {"max_data_file_size": MODEST} | given
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = threading.Event()
        self._failure: BaseException | None = None
        self.loop = asyncio.new_event_loop()
        self.port = port
        self.broker: AsyncBroker
        self.listener: WebListener
        self.served: ServerState

    def __enter__(self) -> "WebPlace":
        self._thread.start()
        assert self._began.wait(TIMEOUT_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop as a server stops. Idempotent."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what is done on the loop of the server."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._serve())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        except BaseException as failure:
            self._failure = failure
        finally:
            self.loop.close()
            self._began.set()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        async with AsyncBroker.open(self._directory, **self._given) as self.broker:
            attributes = self.broker.attributes
            self.served = ServerState(attributes=attributes, stop=lambda _: None, run_mode="STANDARD", started=0.0)
            self.served.broker = self.broker
            found = web_listener(self.served, self._limits)
            assert isinstance(found, WebListener)
            self.listener = found
            (address,) = await found.start("127.0.0.1", self.port)
            self.port = int(address.rpartition(":")[2])
            self.served.listeners.append(found)
            self._began.set()
            await self._stopping.wait()
            await found.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # The plainest client.

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def say(self, body: bytes, **headers: str) -> tuple[int, Any]:
        """Return status and answer of a control block as it is written."""
        status, _, answer = self.ask("POST", "/aci", body, **({"content_type": "application/json"} | headers))
        return status, json.loads(answer)

    def call(self, function: str, option: str = "NONE", /, session: str = "", **fields: Any) -> dict[str, Any]:
        """Return the answer to a call."""
        block = {"function": function, "option": option, **fields}
        headers = {"Broker_Session": session} if session else {}
        status, answer = self.say(json.dumps(block).encode(), **headers)
        assert status == 200, answer
        return dict(answer)

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        """Return a bare connection."""
        raw = socket.socket()
        if receive_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(TIMEOUT_SECONDS)
        raw.connect(("127.0.0.1", self.port))
        return raw


def head(body: bytes, *, path: str = "/aci", length: int | None = None, extra: str = "") -> bytes:
    """Return the head of a POST of a control block."""
    size = len(body) if length is None else length
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {size}")
    return ("\r\n".join(lines) + f"\r\n{extra}\r\n").encode()


def answer(raw: socket.socket) -> tuple[int, Any]:
    """Return status and JSON of what comes until the connection ends, or until a whole answer is there."""
    data = b""
    while True:
        top, found, rest = data.partition(b"\r\n\r\n")
        if found:
            length = next(int(line.split(b":")[1]) for line in top.lower().split(b"\r\n") if b"content-length" in line)
            if len(rest) >= length:
                return int(top.split()[1]), json.loads(rest[:length])
        try:
            more = raw.recv(1 << 16)
        except ConnectionResetError:
            more = b""
        if not more:
            raise EOFError(data)
        data += more


def brief(**values: Any) -> WebLimits:
    """Return limits that a test need not wait for."""
    return replace(WebLimits(), **values)
