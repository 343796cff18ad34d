"""A connection of HTTP: uvicorn's, with bounds on who says nothing, says it slowly, or does not read."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, Protocol

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from oms_journal.broker.rights import Identity
from oms_journal.broker.server.runtime.limits import WebLimits

CONNECTION = "connection"  # under this name a request's state has it
_quiet = logging.getLogger("oms.http.protocol")
_quiet.setLevel(logging.ERROR)  # what a client does wrong it is told itself


class Unfinished(Protocol):
    """A request under way, as far as its connection has to do with it."""

    @property
    def can_go(self) -> bool:
        """Whether it is not being carried out: more of it is waited for, or something to receive."""

    def let_go(self, why: str) -> None:
        """End the waiting: what is not complete is answered 503, else it is answered that nothing came."""


class WebState(ServerState):
    """What the connections of a listener have in common, and which has to go for one that comes.

    Where all places are taken an idle connection ends for it, the one that is idle for longest. Where none is idle, who
    comes stays without a place until its request says who it is: then the user with most requests loses the newest one
    that waits, if it has more of them than who comes. So no user who holds all places keeps others out.
    """

    def __init__(self, limits: WebLimits) -> None:
        super().__init__()
        self.limits = limits
        self.is_stopping = False
        self.accepted = 0
        self.refused = 0
        self.idle: dict[WebConnection, None] = {}  # the one that is idle for longest first
        self.busy: dict[WebConnection, None] = {}  # with a request under way, the newest one last
        self.unplaced: set[WebConnection] = set()  # not known yet whose they are
        self.leaving: set[WebConnection] = set()  # have made room for others

    @property
    def full(self) -> str:
        """What who finds no place is told."""
        return f"at most {self.limits.connections:,} connections: try again"

    def admit(self, newcomer: "WebConnection") -> bool:
        """Return whether a connection may stay, with a place or until it is known whose it is."""
        if self._has_place(newcomer) or self._end_idle(self.idle.keys() - self.unplaced):
            return True
        if len(self.unplaced) >= self.limits.newcomers and not self._end_idle(self.unplaced):
            return False
        self.unplaced.add(newcomer)
        return True

    def seat(self, newcomer: "WebConnection") -> bool:
        """Return whether there is a place for a connection of which it is known now whose request it has."""
        if newcomer not in self.unplaced:
            return True
        if self._has_place(newcomer) or self._end_idle(self.idle.keys() - self.unplaced) or self._end_newest(newcomer):
            self.unplaced.discard(newcomer)
            return True
        return False

    def forget(self, connection: "WebConnection") -> None:
        """A connection is over."""
        self.idle.pop(connection, None)
        self.busy.pop(connection, None)
        self.unplaced.discard(connection)
        self.leaving.discard(connection)

    def _has_place(self, newcomer: "WebConnection") -> bool:
        others = len(self.connections) - len(self.unplaced | self.leaving | {newcomer})
        return others < self.limits.connections

    def _end_idle(self, candidates: Collection["WebConnection"]) -> bool:
        """End the connection that is idle for longest, one that has read its answer before others."""
        found = [each for each in self.idle if each in candidates]
        if not found:
            return False
        next((each for each in found if each.has_left), found[0]).make_way(self.full)
        return True

    def _end_newest(self, newcomer: "WebConnection") -> bool:
        others = [each for each in self.busy if each is not newcomer and each not in self.leaving]
        counts = Counter(each.user for each in others)
        for user, count in counts.most_common():
            if count <= counts[newcomer.user] + 1:
                return False
            newest = next((each for each in reversed(others) if each.user == user and each.can_make_way), None)
            if newest is not None:
                newest.make_way(
                    f"at most {self.limits.connections:,} connections, and {user or 'nobody'} has most of them"
                )
                return True
        return False


class WebConnection(H11Protocol):
    """One connection, and the requests on it one after the other."""

    def __init__(self, config: Config, state: WebState, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, {CONNECTION: self}, loop)
        self.logger = _quiet
        self.access_log = False
        self.state = state
        self.unsent = 0  # bytes, when it was looked at last
        self.request: Unfinished | None = None  # that is under way
        self._patience: asyncio.TimerHandle | None = None  # for the rest of what has begun to come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.state.is_stopping or not self.state.admit(self):
            self.state.refused += 1
            self._refuse(503, "the server stops" if self.state.is_stopping else self.state.full)
            return
        self.state.accepted += 1
        self._be_idle()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._note_request()
        if self.conn.their_state is not h11.IDLE:
            self._be_patient(None)
        elif self._patience is None and not self.transport.is_closing():
            self._be_patient(self.state.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient(None)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.state.forget(self)

    def on_response_complete(self) -> None:
        self.state.busy.pop(self, None)
        super().on_response_complete()
        self._note_request()
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

    @property
    def user(self) -> str:
        """Whose request is under way, "" as long as that is not known."""
        identity = self.scope["state"].get("identity") if self._is_asked else None
        return identity.user if isinstance(identity, Identity) else ""

    @property
    def has_left(self) -> bool:
        """Whether the client was sent all of its answer."""
        return not self.transport.get_write_buffer_size()

    @property
    def can_make_way(self) -> bool:
        """Whether the request under way can end at once."""
        return self.request is not None and self.request.can_go

    @property
    def is_leaving(self) -> bool:
        """Whether the answer to the request under way is the last one."""
        return self in self.state.leaving

    def make_way(self, why: str) -> None:
        """End for the sake of another connection, with an answer to what was asked or begun."""
        self.state.leaving.add(self)
        self.state.unplaced.discard(self)
        self.state.idle.pop(self, None)
        if self._is_asked:
            assert self.request is not None, "it can make way"
            self.request.let_go(why)
        elif self._patience is not None and self.conn.their_state is h11.IDLE:
            self._refuse(503, why)
        else:
            self._end_idle()

    def leave(self) -> None:
        """Let the answer to the request under way be the last one, unless more of the request has to be read."""
        if self.conn.their_state is not h11.SEND_BODY:
            self.state.leaving.add(self)
            self.state.unplaced.discard(self)

    @property
    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _note_request(self) -> None:
        """Note whether a request is under way now."""
        if self._is_asked and not self.transport.is_closing():
            self.state.idle.pop(self, None)
            self.state.busy.setdefault(self, None)

    def _be_idle(self) -> None:
        if not self._is_asked and not self.is_leaving:
            self.state.idle.setdefault(self, None)
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
