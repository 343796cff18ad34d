"""`POST /aci`: the control block over HTTP, in and out as JSON, the message in it.

What the broker refuses is answered with its code, and the HTTP status 200; a request that is no control block is 400.
With WAIT the answer comes when there is one, at the latest after `wait_seconds`; who hangs up is waited for no longer,
and a message that it can not have got is given back. A call with an identifier of its own can be repeated and taken
back: `calls.py`. While there is no broker here the code says so.
"""

import asyncio
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Function, Reply, Request
from oms_journal.broker.block_json import (
    ACI_PATH,
    CALL_HEADER,
    NEW_SESSION,
    SESSION_HEADER,
    BadBlock,
    decode_request,
    encode_answer,
    parse_json,
)
from oms_journal.broker.codes import Code, detailed
from oms_journal.broker.rights import Identity
from oms_journal.broker.server.http.calls import NAME, TAKEN_BACK, Calls, OtherCall
from oms_journal.broker.server.http.calls import HttpCall as Begun
from oms_journal.broker.server.http.listener import shown
from oms_journal.broker.server.http.openapi import CALL, LEAVE, described
from oms_journal.broker.server.http.sessions import HttpSessions, NoSession, TakenBack, TooMany
from oms_journal.broker.server.runtime.limits import WebLimits
from oms_journal.broker.server.runtime.state import ServerState

_OVER = detailed(Code.LOGON_REQUIRED, "the session is over")


def aci_routes() -> list[Route]:
    """Return the routes of the control block."""
    aci = Aci()
    called = Route(ACI_PATH, described(CALL)(aci.call), methods=["POST"])
    return [called, Route(ACI_PATH, described(LEAVE)(aci.leave), methods=["DELETE"])]


class Aci:
    """The control block's entrance, and the sessions of who uses it."""

    def __init__(self) -> None:
        self._callers: HttpSessions | None = None

    async def call(self, http: HttpRequest) -> Response:
        """Carry out one call and answer it."""
        name = _name_of(http)
        request, as_text = await _read(http)
        identity = _identity_of(http)
        served: ServerState = http.app.state.served
        refusal = served.guard.check_call(identity, request)
        if refusal is not None:
            return _written(Answered(Reply(code=refusal[0], text=refusal[1])))
        request.password = ""  # the guard has asked who it is; the broker remembers what it is told
        callers = self._callers_of(http)
        if callers is None:
            partner = served.attributes.broker.partner_cluster_address or ""
            return _written(Answered(Reply(code=served.refusal, partner_broker_id=partner)))
        try:
            caller = callers.of(request, http.headers.get(SESSION_HEADER), identity, name)
        except NoSession:
            return _written(Answered(Reply(code=Code.LOGON_REQUIRED, text=_OVER)))
        except TakenBack:
            return _written(TAKEN_BACK)
        except TooMany as failure:
            raise HTTPException(503, str(failure)) from None
        try:
            answered = served.guard.told(identity, request, await _called(http, caller.known, name, request))
        finally:
            callers.done(caller)
        if request.function is Function.LOGOFF and answered.reply.code is Code.OK:
            callers.end(caller)
        return _written(answered, as_text=as_text, session=caller.name, call=name)

    async def leave(self, http: HttpRequest) -> Response:
        """End a session: what it was sending or receiving is taken back; or take back one call of it."""
        name, callers = _name_of(http), self._callers_of(http)
        named, owner = http.headers.get(SESSION_HEADER, ""), _identity_of(http).user
        try:
            if callers is None:
                raise NoSession
            if named == NEW_SESSION and name:
                callers.take_back(name, owner)
                return Response(status_code=204)
            caller = callers.named(named, owner)
        except NoSession:
            text = f"there is no session of this {SESSION_HEADER}: it has ended, or the header is missing"
            raise HTTPException(404, text) from None
        if not name:
            callers.end(caller)
            return Response(status_code=204)
        stands = await caller.known.take_back(name)
        return Response(status_code=204) if stands is None else _written(stands, session=caller.name, call=name)

    def _callers_of(self, http: HttpRequest) -> HttpSessions | None:
        """Return the sessions of the broker that is served; None while there is none."""
        served: ServerState = http.app.state.served
        known = self._callers
        if known is not None and known.broker is not served.broker:
            known.close()
            known = None
        if known is None and served.broker is not None:
            limits: WebLimits = http.app.state.limits
            known = HttpSessions(served.broker, limits, guard=served.guard)
        self._callers = known
        return known


def _identity_of(http: HttpRequest) -> Identity:
    found = http.state.identity
    assert isinstance(found, Identity), "the guard has seen every request"
    return found


# What comes in.


def _name_of(http: HttpRequest) -> str:
    """Return the identifier of the call, "" for none."""
    name = http.headers.get(CALL_HEADER, "")
    if not re.match(NAME, name):
        raise HTTPException(400, f"a {CALL_HEADER} is at most 64 characters of ASCII, without blanks")
    return name


async def _read(http: HttpRequest) -> tuple[Request, bool]:
    kind = http.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"the control block comes as application/json, not as {shown(kind) or 'nothing'}")
    try:
        return decode_request(parse_json(await http.body()))
    except BadBlock as failure:
        raise HTTPException(400, str(failure)) from None


# The call.


async def _called(http: HttpRequest, calls: Calls, name: str, request: Request) -> Answered:
    """Return the answer; a message is given back when the client has gone by then."""
    try:
        call = await calls.begin(name, request)
    except OtherCall:
        raise HTTPException(
            409, f"the {CALL_HEADER} {name} is that of another call: give each one of its own"
        ) from None
    call.hearers += 1
    try:
        is_ending = await _waited(http, call)
    finally:
        call.hearers -= 1
    await calls.stop(name, call)
    if call.back is not None and not call.hearers and await http.is_disconnected():
        await calls.give_back(name, call)
    answered = calls.heard(call)
    if answered is None:
        return Answered(Reply(code=Code.NOT_ACTIVE if is_ending else Code.WAIT_TIMED_OUT))
    calls.keep(name, call)
    return answered


async def _waited(http: HttpRequest, call: Begun) -> bool:
    """Return when there is an answer, the client has gone, the server stops, or it takes too long; whether it stops."""
    if call.answering is None or not call.waits:
        if call.answering is not None:
            await asyncio.wait([call.answering])
        return False
    limits: WebLimits = http.app.state.limits
    ending: asyncio.Event = http.app.state.ending
    ends = [asyncio.ensure_future(_gone(http)), asyncio.ensure_future(ending.wait())]
    try:
        until: list[asyncio.Future[Any]] = [call.answering, *ends]
        await asyncio.wait(until, timeout=limits.wait_seconds, return_when=asyncio.FIRST_COMPLETED)
        return ending.is_set()
    finally:
        for each in ends:
            each.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def _gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        continue


# What goes out.


def _written(answered: Answered, *, as_text: bool = False, session: str = "", call: str = "") -> Response:
    if not answered.reply.text:
        answered.reply.text = answered.reply.code.text
    headers = {"cache-control": "no-store"}
    if session:
        headers[SESSION_HEADER] = session
    if call:
        headers[CALL_HEADER] = call
    return JSONResponse(encode_answer(answered, as_text=as_text), headers=headers)
