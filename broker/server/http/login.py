"""Logging on in a browser: a session of some hours, for the pages of the console. A secret in a cookie stands for it.

POST /login   {"user", "password"}: 200 {"user"} and the cookie, or 401, 429
POST /logout  ends the session
GET /whoami   {"user", "is_open", "rights"}: who it is, and what it may do to the broker itself

Only a hash of the secret is kept. A session ends when nothing was asked for a while, after some hours in any case, with
a logout, and when its user changes.
"""

import hashlib
import json
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.rights import BROKER, Identity, Right
from oms_journal.broker.server.http.listener import error_response
from oms_journal.broker.server.http.request_guard import RequestRefused, cookie_name, logged_on, session_secret

BODY_BYTES_MAX = 16 << 10
IDLE_SECONDS = 1800.0
LIFE_SECONDS = 12 * 3600.0
SESSIONS_MAX = 1000  # of all users; the one that was silent for longest makes room
OF_USER_MAX = 20


@dataclass(slots=True)
class _Session:
    identity: Identity
    began: float
    used: float


class BrowserSessions:
    """The sessions there are. The time comes in as an argument."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # the one used last is last

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, identity: Identity, now: float) -> str:
        """Return the secret of a new session."""
        own = [key for key, each in self._sessions.items() if each.identity.user == identity.user]
        for key in own[: max(0, len(own) - OF_USER_MAX + 1)]:
            del self._sessions[key]
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        secret = secrets.token_urlsafe(32)
        self._sessions[_key(secret)] = _Session(identity, now, now)
        return secret

    def find(self, secret: str, now: float) -> Identity | None:
        """Return whose session it is; None where it is over, or never was."""
        key = _key(secret)
        found = self._sessions.get(key)
        if found is None:
            return None
        is_over = now - found.used > IDLE_SECONDS or now - found.began > LIFE_SECONDS
        if is_over or not found.identity.is_current:
            del self._sessions[key]
            return None
        found.used = now
        self._sessions.move_to_end(key)
        return found.identity

    def end(self, secret: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_key(secret), None)


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


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
