"""Logging on in a browser: a session in a cookie, for the pages of the console.

POST /login   {"user", "password"}: 200 {"user"} and the cookie, or 401, 429
POST /logout  ends the session
GET /whoami   {"user", "is_open", "rights"}: who it is, and what it may do to the broker itself
"""

import json
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.rights import BROKER, Right
from oms_journal.broker.server.http.browser_sessions import LIFE_SECONDS
from oms_journal.broker.server.http.listener import error_response
from oms_journal.broker.server.http.request_guard import RequestRefused, cookie_name, logged_on, session_secret

BODY_BYTES_MAX = 16 << 10


def login_routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/login", log_on_browser, methods=["POST"]),
        Route("/logout", log_off_browser, methods=["POST"]),
        Route("/whoami", who_am_i, methods=["GET"]),
    ]


async def log_on_browser(request: Request) -> Response:
    """Begin a session; one that the browser had before ends."""
    try:
        user, password = await _said(request)
        peer = request.client.host if request.client is not None else ""
        identity = await logged_on(request.app.state.served.guard, user, password, peer)
    except RequestRefused as turned:
        return error_response(turned.status, turned.text, turned.headers)
    sessions, name = request.app.state.sessions, _name(request)
    sessions.end(session_secret(request.headers, name))
    answer = JSONResponse({"user": identity.user})
    secret = sessions.begin(identity, time.monotonic())
    is_encrypted = request.url.scheme == "https"
    answer.set_cookie(
        name, secret, max_age=int(LIFE_SECONDS), path="/", secure=is_encrypted, httponly=True, samesite="strict"
    )
    return answer


async def log_off_browser(request: Request) -> Response:
    """End the session."""
    name = _name(request)
    request.app.state.sessions.end(session_secret(request.headers, name))
    answer = JSONResponse({})
    answer.delete_cookie(name, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return answer


async def who_am_i(request: Request) -> Response:
    """Say who it is."""
    identity = request.state.identity
    rights = [right.value for right in Right if identity.may(right, BROKER)]
    is_open = request.app.state.served.guard.is_open
    return JSONResponse({"user": identity.user, "is_open": is_open, "rights": rights})


def _name(request: Request) -> str:
    return cookie_name(is_encrypted=request.url.scheme == "https")


async def _said(request: Request) -> tuple[str, str]:
    """Return the user and the password of the body. RequestRefused."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_MAX:
            raise RequestRefused(413, f"a login has at most {BODY_BYTES_MAX:,} bytes")
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or set(said) != {"user", "password"}:
        raise RequestRefused(400, 'a login is {"user": …, "password": …}')
    user, password = said["user"], said["password"]
    if not isinstance(user, str) or not isinstance(password, str):
        raise RequestRefused(400, "user and password are text")
    return user, password
