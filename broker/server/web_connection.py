"""A connection of HTTP: uvicorn's, with bounds on who says nothing, says it slowly, or does not read."""

import asyncio
import json
import logging
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from broker.server.web_limits import WebLimits

_quiet = logging.getLogger("oms.http.protocol")
_quiet.setLevel(logging.ERROR)  # what a client does wrong it is told itself


class WebState(ServerState):
    """What the connections of a listener have in common."""

    def __init__(self, limits: WebLimits) -> None:
        super().__init__()
        self.limits = limits
        self.is_stopping = False
        self.accepted = 0
        self.refused = 0


class WebConnection(H11Protocol):
    """One connection, and the requests on it one after the other."""

    def __init__(self, config: Config, state: WebState, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, {}, loop)
        self.logger = _quiet
        self.access_log = False
        self.state = state
        self.unsent = 0  # bytes, when it was looked at last
        self._patience: asyncio.TimerHandle | None = None  # for the rest of what has begun to come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limits = self.state.limits
        if len(self.connections) > limits.connections or self.state.is_stopping:
            self.state.refused += 1
            self._refuse(503, f"at most {limits.connections:,} connections")
            return
        self.state.accepted += 1
        self._be_idle()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._be_patient(None)
        elif self._patience is None and not self.transport.is_closing():
            self._be_patient(self.state.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient(None)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:
            self._be_idle()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._be_patient(self.state.limits.linger_seconds)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is no request of HTTP/1.1, or its head is too long")

    def look(self) -> None:
        """End the connection when nothing was read of what it was sent since the last look."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent == self.unsent:
            self.transport.abort()
        self.unsent = unsent

    def _be_idle(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.state.limits.idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it has not read its answer
        else:
            self.timeout_keep_alive_handler()

    def _be_patient(self, seconds: float | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._refuse(
                408, f"the head of a request was not complete after {self.state.limits.head_seconds:g} seconds"
            )
        else:
            self.transport.abort()

    def _refuse(self, status: int, text: str) -> None:
        """Answer outside of any request, and end the connection."""
        if self.transport.is_closing():
            return
        body = json.dumps({"error": text, "status": status}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def listening_config(app: Any, limits: WebLimits) -> Config:
    """Return uvicorn's configuration, without what it would do on its own."""
    config = Config(
        app,
        http=WebConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=max(1, int(limits.idle_seconds)),
        h11_max_incomplete_event_size=limits.head_bytes,
    )
    config.load()
    return config
