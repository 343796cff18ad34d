"""What is asked of every request of HTTP before a route sees it: whether it is for us, from our pages, and whose it is.

asked                                  a request that fails is answered
Host is an address, this machine's     421: a page elsewhere has let its name point here
name, or one of HTTP-NAMES
Origin and Sec-Fetch-Site are our own  403: another site's page lets a browser do something, or read it
a password (Basic) or a session        401; 429 after too many wrong ones
cookie, where there are users

It holds for changing requests without users too: whoever browses on a machine can reach its loopback. A program says no
Origin and needs none, unless it has a cookie. A route finds who it is as `request.state.identity`.
"""

import base64
import binascii
import ipaddress
import socket
import time
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oms_journal.broker.codes import Code
from oms_journal.broker.rights import ANONYMOUS, Guard, Identity, LogonRefused, Unidentified
from oms_journal.broker.server.http.listener import error_response
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.server.runtime.tls import Certificate

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# What needs no login: it tells nothing that is secret, or finds out itself who asks.
PUBLIC = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/login", "/peer/ping", "/peer/hello"})
# The console's own files; a move, whose two servers confirm one another at the addresses of their attributes.
PUBLIC_FOLDERS = ("/console/", "/peer/load/", "/peer/unload/")
HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-store",
}
_OTHER_SITE = "a page of another site asks for this, which is refused; use the console's own page, or a program"
_STATUS = {Code.ACCESS_AT_THIS_TIME: 429, Code.QUEUE_FULL: 503}


def guarding(served: ServerState, certificate: Certificate | None) -> list[Middleware]:
    """Return the middleware that asks it."""
    return [Middleware(WebGuard, served=served, is_encrypted=certificate is not None)]


def cookie_name(*, is_encrypted: bool) -> str:
    """Return the name of the session's cookie; a browser takes the first only over TLS, and for this host alone."""
    return "__Host-oms-session" if is_encrypted else "oms-session"


class RequestRefused(Exception):
    """The request is not let in."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class WebGuard:
    """The middleware. Sessions are its own; the routes of the login find them as `app.state.sessions`."""

    def __init__(self, app: ASGIApp, served: ServerState, *, is_encrypted: bool) -> None:
        self._app = app
        self._served = served
        self._is_encrypted = is_encrypted
        self._cookie = cookie_name(is_encrypted=is_encrypted)
        self._names = _names(served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    said.setdefault(name, value)
            await send(message)

        try:
            self._check_host(headers)
            self._check_site(scope["method"], headers)
            identity = await self._identity(scope, headers)
        except RequestRefused as turned:
            await error_response(turned.status, turned.text, turned.headers)(scope, receive, send_guarded)
            return
        scope.setdefault("state", {})["identity"] = identity
        await self._app(scope, receive, send_guarded)

    def _check_host(self, headers: Headers) -> None:
        """Refuse who was led here by a name that is not ours: to a browser, that other site's pages and we are one."""
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name.lower().rstrip(".") in self._names or _is_address(name):
            return
        raise RequestRefused(421, f"Host {host[:80]!r} is no name of this server; HTTP-NAMES says which there are")

    def _check_site(self, method: str, headers: Headers) -> None:
        """Refuse what a page of another site asks for: to change anything, and to read anything but a whole page."""
        site = headers.get("sec-fetch-site")
        is_ours = site in (None, "same-origin", "none")
        if method in SAFE:
            if not is_ours and headers.get("sec-fetch-mode") != "navigate":
                raise RequestRefused(403, _OTHER_SITE)
            return
        origin = headers.get("origin")
        if not is_ours or (origin is not None and not self._is_own(origin, headers.get("host", ""))):
            raise RequestRefused(403, _OTHER_SITE)
        if origin is None and site is None and self._secret(headers):
            raise RequestRefused(
                403, "a request with a session's cookie must say its Origin; a program has none and says Authorization"
            )

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, _, where = origin.lower().partition("://")
        schemes = ("https",) if self._is_encrypted else ("http", "https")  # a proxy may encrypt for us
        return scheme in schemes and where == host.lower()

    # Who it is.

    async def _identity(self, scope: Scope, headers: Headers) -> Identity:
        guard = self._served.guard
        peer = str((scope.get("client") or ("",))[0])
        said = headers.get("authorization")
        if guard.is_open:
            return await guard.log_on(_basic(said)[0] if said else ANONYMOUS, "", peer)
        if is_public(scope["path"]):
            return Unidentified(peer)
        if said is not None:
            return await logged_on(guard, *_basic(said), peer)
        secret = self._secret(headers)
        found = scope["app"].state.sessions.find(secret, time.monotonic()) if secret else None
        if found is None:
            raise RequestRefused(
                401, "log on first: say user and password, or POST them to /login", _challenge(headers)
            )
        assert isinstance(found, Identity), "sessions have identities"
        return found

    def _secret(self, headers: Headers) -> str:
        return session_secret(headers, self._cookie)


def is_public(path: str) -> bool:
    """Return whether a path needs no login."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


async def logged_on(guard: Guard, user: str, password: str, peer: str) -> Identity:
    """Return the user. RequestRefused."""
    try:
        return await guard.log_on(user, password, peer)
    except LogonRefused as refused:
        status = _STATUS.get(refused.code, 401)
        raise RequestRefused(status, f"{refused.code.value} {refused.text}") from None


def session_secret(headers: Headers, name: str) -> str:
    """Return what the session's cookie says, "" where there is none; of several the last, since ours is for all paths.

    No library is asked: what we set is never quoted, and to unquote what anybody may say can take very long.
    """
    pairs = [pair.partition("=") for header in headers.getlist("cookie") for pair in header.split(";")]
    return next((value.strip() for said, _, value in reversed(pairs) if said.strip() == name), "")


def _challenge(headers: Headers) -> dict[str, str]:
    """Let a program or a person who opens an address say a password; a page of ours asks for it itself."""
    is_ours = headers.get("sec-fetch-mode") in ("cors", "same-origin")
    return {} if is_ours else {"www-authenticate": 'Basic realm="oms", charset="UTF-8"'}


def _basic(said: str) -> tuple[str, str]:
    """Return the user and the password of an Authorization header. RequestRefused."""
    scheme, _, text = said.partition(" ")
    try:
        if scheme.lower() == "basic":
            user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
            if colon:
                return user, password
    except (binascii.Error, UnicodeDecodeError, ValueError):
        pass
    raise RequestRefused(401, "Authorization must be Basic, with USER:PASSWORD in base64")


def _names(served: ServerState) -> frozenset[str]:
    attributes = served.attributes.broker
    machine = socket.gethostname()
    said = (attributes.http_names or "").replace(",", " ").split()
    names = ["localhost", machine, machine.partition(".")[0], attributes.host, *said]
    return frozenset(name.lower().rstrip(".") for name in names if name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
