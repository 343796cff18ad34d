"""Clients of a broker that runs as a server: the methods of `Broker` and `AsyncBroker`, over HTTP. Made by `connect`.

with connect("http://127.0.0.1:1971") as broker:
    with broker.session("ALICE", token="PC1") as session:
        session.send("GAME/CHESS/BLACK", b"e4")     # durable on return

The client remembers PARTNER-BROKER-ID. If the broker is gone (02150148), it asks the partner, and waits for a takeover
(00780624). A session that a new broker does not know logs on again by itself. If the connection is lost, the client
repeats the call, and the broker does it once. If the session is over by then, the call gets 02150373, and
`session.recover()` tells what became of the last unit of work. A call that is cancelled or interrupted is taken back.
"""

import asyncio
import ssl
import time
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any

from oms_journal.journal.extras import brought_by

with brought_by("server"):
    import httpx

from oms_journal.broker.answers import CLOSED, Answered, Physical, not_active, with_enums
from oms_journal.broker.block import Request
from oms_journal.broker.block_json import ACI_PATH, CALL_HEADER, SESSION_HEADER
from oms_journal.broker.client.calls import (
    Ask,
    AskOutcome,
    CallSteps,
    Connection,
    Heard,
    Lost,
    RemoteOptions,
    Unreached,
)
from oms_journal.broker.embedded.interrupts import apart, uninterrupted
from oms_journal.broker.reachability import reason_of, trusting
from oms_journal.broker.sessions.async_sessions import AsyncSession
from oms_journal.broker.sessions.sessions import Session

_CONNECT_SECONDS = 10.0
_KEPT_SECONDS = 20.0  # that a connection is kept unused: less than a server keeps it
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_KEPT_SECONDS)
_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def _settings(line: Connection, options: RemoteOptions) -> dict[str, Any]:
    verify: ssl.SSLContext | bool = False  # to read all certificates of the system takes a while
    if line.url.startswith("https:"):
        try:
            verify = trusting(options.ca_file)
        except ValueError as wrong:
            raise ValueError(f"ca_file: {wrong}") from None
    return {"verify": verify, "trust_env": False, "limits": _LIMITS}


def _asked(ask: Ask) -> dict[str, Any]:
    """Return the arguments of httpx."""
    timeout = httpx.Timeout(ask.seconds, connect=min(_CONNECT_SECONDS, ask.seconds))
    named: dict[str, Any] = {"headers": ask.headers, "content": ask.content, "timeout": timeout}
    return named if ask.auth is None else named | {"auth": ask.auth}


def _heard(response: httpx.Response) -> Heard:
    headers = response.headers
    return Heard(response.status_code, headers.get(SESSION_HEADER, ""), response.content, headers.get(CALL_HEADER, ""))


def _failed(ask: Ask, failure: httpx.TransportError) -> AskOutcome:
    text = f"{ask.url.removesuffix(ACI_PATH)}: {reason_of(failure)}"
    return Unreached(text) if isinstance(failure, _UNREACHED) else Lost(text)


class RemoteBroker:
    """A broker elsewhere, for the threads of this process."""

    def __init__(self, url: str, options: RemoteOptions | None = None) -> None:
        self.options = options or RemoteOptions()
        self._line = Connection(url, self.options)
        self._client = httpx.Client(**_settings(self._line, self.options))
        self._callers = count(1)

    def __enter__(self) -> "RemoteBroker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the next call goes: the broker, or its partner."""
        return self._line.url

    def call(self, request: Request, *, caller: Physical) -> Answered:
        """Carry out one call, as Broker.call. When no broker is there, the answer says so: 02150148 or 02150373."""
        return not_active(CLOSED) if self._client.is_closed else self._called(with_enums(request), caller)

    def _post(self, request: Request, *, caller: Physical) -> None:
        """Take back at once what the caller was answered last. This request is for that."""
        self._line.post(with_enums(request), caller)
        self._take_back(caller)

    def new_caller(self) -> Physical:
        """Return a number that no caller of this connection has yet."""
        return next(self._callers)

    def gone(self, caller: Physical) -> None:
        """Note that a caller will not come back, as Broker.gone. A server that does not hear it finds out by time."""
        if not self._client.is_closed:
            self._driven(self._line.leaving(caller))

    def session(self, user: str, token: str = "", **fields: str) -> Session:
        """Return a session of a user, as Broker.session. A server with users knows the user by `password`."""
        return Session(self, user, token, fields)

    def close(self) -> None:
        """Let go of all connections. Sessions that did not log off end by time. Idempotent."""
        with uninterrupted():
            self._client.close()

    def _called(self, request: Request, caller: Physical) -> Answered:
        self._line.begin(caller)
        try:
            return self._driven(self._line.calling(request, caller))
        except BaseException:
            self._line.cut(request, caller)
            self._take_back(caller)
            raise

    def _take_back(self, caller: Physical) -> None:
        if not self._client.is_closed:
            self._driven(self._line.taking_back(caller))

    def _driven(self, steps: CallSteps) -> Answered:
        outcome: AskOutcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                answered: Answered = end.value
                return answered
            if isinstance(step, Ask):
                outcome = apart(partial(self._outcome, step))
            else:
                time.sleep(step.seconds)
                outcome = None

    def _outcome(self, ask: Ask) -> AskOutcome:
        try:
            return _heard(self._client.request(ask.method, ask.url, **_asked(ask)))
        except httpx.TransportError as failure:
            return _failed(ask, failure)


class AsyncRemoteBroker:
    """A broker elsewhere, for the tasks of one event loop."""

    def __init__(self, url: str, options: RemoteOptions | None = None) -> None:
        self.options = options or RemoteOptions()
        self._line = Connection(url, self.options)
        self._client = httpx.AsyncClient(**_settings(self._line, self.options))
        self._callers = count(1)
        self._unsaid: list[Physical] = []  # who will not come back
        self._taking_back: set[asyncio.Task[Answered]] = set()

    async def __aenter__(self) -> "AsyncRemoteBroker":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Where the next call goes: the broker, or its partner."""
        return self._line.url

    async def call(self, request: Request, *, caller: Physical) -> Answered:
        """Carry out one call, as AsyncBroker.call."""
        if self._client.is_closed:
            return not_active(CLOSED)
        if self._unsaid:
            await self._driven(self._line.leaving_all(self._unsaid))  # who comes again comes after that
        return await self._called(with_enums(request), caller)

    def _post(self, request: Request, *, caller: Physical) -> None:
        """Take back at once what the caller was answered last. This request is for that. Not awaited."""
        self._line.post(with_enums(request), caller)
        self._take_back(caller)

    def new_caller(self) -> Physical:
        """Return a number that no caller of this connection has yet. Not awaited."""
        return next(self._callers)

    def gone(self, caller: Physical) -> None:
        """Note that a caller will not come back.

        Not awaited: the broker hears it before the next call, or from `close`.
        """
        self._unsaid.append(caller)

    def session(self, user: str, token: str = "", **fields: str) -> AsyncSession:
        """Return a session of a user, as RemoteBroker.session. It logs on when you enter it with `async with`."""
        return AsyncSession(self, user, token, fields)

    async def close(self) -> None:
        """Let go of all connections. Idempotent."""
        if not self._client.is_closed:
            if self._taking_back:
                await asyncio.wait(self._taking_back)
            await self._driven(self._line.leaving_all(self._unsaid))
            await self._client.aclose()

    async def _called(self, request: Request, caller: Physical) -> Answered:
        self._line.begin(caller)
        try:
            return await self._driven(self._line.calling(request, caller))
        except BaseException:
            self._line.cut(request, caller)
            self._take_back(caller)
            raise

    def _take_back(self, caller: Physical) -> None:
        if not self._client.is_closed:
            task = asyncio.get_running_loop().create_task(self._driven(self._line.taking_back(caller)))
            self._taking_back.add(task)
            task.add_done_callback(self._taking_back.discard)

    async def _driven(self, steps: CallSteps) -> Answered:
        outcome: AskOutcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                answered: Answered = end.value
                return answered
            if isinstance(step, Ask):
                try:
                    outcome = _heard(await self._client.request(step.method, step.url, **_asked(step)))
                except httpx.TransportError as failure:
                    outcome = _failed(step, failure)
            else:
                await asyncio.sleep(step.seconds)
                outcome = None
