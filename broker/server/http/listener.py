"""HTTP: a listener for routes that others make, and what all of them have in common: bounds, and errors as JSON.

A route finds the server's state as `request.app.state.served`. What goes wrong outside of a control block is answered
`{"status": 413, "error": "why, for people"}`; a route says so with `raise HTTPException(413, "why")`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oms_journal.broker.rights import Identity
from oms_journal.broker.server.http.connection import CONNECTION, WebConnection, WebState, listening_config
from oms_journal.broker.server.runtime.limits import WebLimits, largest_holder
from oms_journal.broker.server.runtime.listeners import BACKLOG, address
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.server.runtime.tls import Certificate, TlsDoor

_log = logging.getLogger("oms.http")
SHOWN_MAX = 80  # characters of what a client said


class WebListener:
    """The port of HTTP."""

    def __init__(
        self,
        served: ServerState,
        routes: Sequence[BaseRoute],
        limits: WebLimits | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        certificate: Certificate | None = None,
    ) -> None:
        self.name = "HTTP" if certificate is None else "HTTPS"
        self.limits = limits or WebLimits()
        self.loop = asyncio.get_running_loop()
        self.ending = asyncio.Event()  # the server stops: who waits is answered
        self.app = Starlette(
            routes=list(routes),
            middleware=[Middleware(Bounded, limits=self.limits), *middleware, Middleware(Seated)],
            exception_handlers={HTTPException: _refused, ClientDisconnect: _left, Exception: _failed},
        )
        self.app.state.served = served
        self.app.state.ending = self.ending
        self.app.state.limits = self.limits
        self.state = WebState(self.limits)
        self._certificate = certificate
        self._config = listening_config(self.app, self.limits)
        self.addresses: list[str] = []  # where it listens
        self._server: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> list[str]:
        """Listen; return where, as HOST:PORT. OSError when that cannot be."""
        made: Callable[[], asyncio.Protocol] = lambda: WebConnection(self._config, self.state, self.loop)  # noqa: E731
        if self._certificate is not None:
            made = TlsDoor(self._certificate, made)
        self._server = await self.loop.create_server(made, host, port, backlog=BACKLOG, reuse_address=True)
        self._look()
        self.addresses = [address(each) for each in self._server.sockets]
        return self.addresses

    @property
    def connection_count(self) -> int:
        return len(self.state.connections)

    def _look(self) -> None:
        self._looking = self.loop.call_later(self.limits.look_seconds, self._look)
        for connection in self._connections():
            connection.look()

    def _connections(self) -> list[WebConnection]:
        return [each for each in self.state.connections if isinstance(each, WebConnection)]

    async def stop(self) -> int:
        """Accept nothing more, answer who waits, and end every connection; return how many there were.

        What is not done after `stop_seconds` is cut off.
        """
        self.state.is_stopping = True
        self.ending.set()
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
        connections = self._connections()
        for connection in connections:
            connection.shutdown()
        ends = self.loop.time() + self.limits.stop_seconds
        # Of a request whose client has gone meanwhile only its task is left.
        while (self.state.connections or self.state.tasks) and self.loop.time() < ends:
            await asyncio.sleep(0.02)
        for connection in self._connections():
            connection.transport.abort()
        return len(connections)


class Bounded:
    """Middleware: what of a request is too long, too slow or too much is refused while it is read.

    Where all bodies together are too much, the user who has most of it loses the request with the longest one: a body
    that is not complete is answered 503, and who waits for something to receive is waited for no longer.
    """

    def __init__(self, app: ASGIApp, limits: WebLimits) -> None:
        self._app = app
        self._limits = limits
        self._bodies: set[_Body] = set()  # of all requests under way
        self._unread = 0  # bytes of them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(self._limits, scope, receive)
        self._bodies.add(body)
        connection = connection_of(scope)
        if connection is not None:
            connection.request = body

        async def receive_bounded() -> Message:
            before = body.size
            try:
                message = await body.receive()
            finally:
                self._unread += body.size - before
            if self._unread > self._limits.unread_bytes and body.size > before:
                self._make_room(body)
            return message

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"date", formatdate(usegmt=True).encode())]
                if connection is not None and connection.is_leaving:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            await self._app(scope, receive_bounded, send_dated)
        finally:
            self._forget(body)
            if connection is not None and connection.request is body:
                connection.request = None

    def _forget(self, body: "_Body") -> None:
        if body in self._bodies:
            self._bodies.discard(body)
            self._unread -= body.size

    def _make_room(self, fresh: "_Body") -> None:
        """Let bodies go until they are not too much together. HTTPException where this one has to."""
        while self._unread > self._limits.unread_bytes:
            held = {body: body.size for body in self._bodies if body is fresh or body.can_go}
            most = largest_holder(held, lambda body: body.user)
            self._forget(most)
            why = f"bodies of requests take over {self._limits.unread_bytes:,} bytes: try again"
            if most is fresh:
                raise HTTPException(503, why)
            most.let_go(why)


class Seated:
    """Middleware: a request for whose user there is no room is answered 503, as `WebState` decides."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        if connection is None or connection.state.seat(connection):
            await self._app(scope, receive, send)
            return
        connection.state.refused += 1
        connection.leave()
        await error_response(503, connection.state.full)(scope, receive, send)


def connection_of(scope: Scope) -> WebConnection | None:
    """Return the connection on which a request came."""
    found: WebConnection | None = scope.get("state", {}).get(CONNECTION)
    return found


class _Body:
    """The body of one request, as it comes."""

    def __init__(self, limits: WebLimits, scope: Scope, receive: Receive) -> None:
        self._limits = limits
        self._scope = scope
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._is_complete = False
        self._gone_why: str | None = None
        self._waiting: asyncio.Timeout | None = None  # for more of it, or for the client to hang up
        self.size = 0

    @property
    def user(self) -> str:
        """Whose request it is, "" as long as that is not known."""
        identity = self._scope.get("state", {}).get("identity")
        return identity.user if isinstance(identity, Identity) else ""

    @property
    def can_go(self) -> bool:
        """Whether the request is not being carried out: more of it is waited for, or something to receive."""
        return self._waiting is not None

    def let_go(self, why: str) -> None:
        """End the waiting: what is not complete is answered 503, else it is answered that nothing came."""
        assert self._waiting is not None, "it can go"
        self._gone_why = why
        self._waiting.reschedule(self._loop.time())

    async def receive(self) -> Message:
        limits = self._limits
        allowed = limits.body_seconds + self.size / limits.body_bytes_per_second
        try:
            async with asyncio.timeout_at(None if self._is_complete else self._began + allowed) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            if self._is_complete:
                return {"type": "http.disconnect"}
            if self._gone_why is not None:
                raise HTTPException(503, self._gone_why) from None
            raise HTTPException(408, f"the body was not complete after {allowed:.0f} seconds") from None
        finally:
            self._waiting = None
        if message["type"] == "http.request":
            self.size += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self.size > limits.body_bytes:
                raise HTTPException(413, f"a body is at most {limits.body_bytes:,} bytes")
        return message


def error_response(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as it is answered everywhere."""
    return JSONResponse({"status": status, "error": text}, status, headers=headers)


async def _refused(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException), "that is what it is registered for"
    headers, text = dict(failure.headers or {}), failure.detail
    path = shown(request.url.path)
    if failure.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
        text = f"{shown(request.method)} is not possible at {path}; what is: {headers['Allow']}"
    elif failure.status_code == 404 and text == HTTPStatus.NOT_FOUND.phrase:  # of the router
        text = f"there is nothing at {path}; GET /openapi.json lists what programs can ask"
    return error_response(failure.status_code, text, headers)


def shown(said: str) -> str:
    """Return what a client said, as an error tells it: short, and such that it can be printed."""
    text = said if len(said) <= SHOWN_MAX else f"{said[:SHOWN_MAX]}…"
    return text if text.isprintable() else repr(text)


def _methods(request: Request) -> set[str]:
    """Return the methods that something answers to at this path."""
    found = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return {method for route in found for method in getattr(route, "methods", None) or ()}


async def _left(request: Request, failure: Exception) -> Response:
    return Response(status_code=400)  # nobody hears it


async def _failed(request: Request, failure: Exception) -> Response:
    _log.error("a mistake of the server itself at %s %s", request.method, request.url.path, exc_info=failure)
    return error_response(500, "a mistake of the server itself; its log has what happened")
