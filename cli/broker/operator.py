"""Asking a running server over HTTP, for `oms info`, `oms cmd` and `oms top`: with the standard library alone."""

import getpass
import json
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from ssl import SSLContext
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import typer

from oms_journal.broker.codes import BrokerError
from oms_journal.broker.reachability import checked_url, reason_of, trusting
from oms_journal.broker.service_text import service_of_queue
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.output import printable

BROKER_DEFAULT = "http://127.0.0.1:1971"
TIMEOUT_SECONDS = 30.0
_SERVICE = ("server_class", "server_name", "service")
_WRONG_WORDS = frozenset({3, 5, 21, 22, 26, 27, 30, 31, 53, 901})  # codes of the command and information services
_UNIT_FAILED = frozenset({25, 74})

Broker = Annotated[
    str,
    typer.Option(
        "--broker", envvar="OMS_BROKER", metavar="URL", help="Ask the server at this address, http:// or https://."
    ),
]
User = Annotated[
    str,
    typer.Option(
        "--user",
        envvar="OMS_USER",
        metavar="USER",
        help="Log on as this user. The password is OMS_PASSWORD, or you are asked for it.",
    ),
]
CaFile = Annotated[
    str,
    typer.Option(
        "--ca-file",
        envvar="OMS_CA_FILE",
        metavar="FILE",
        help="Check the server's certificate by this authority, a PEM file.",
    ),
]
Password = Annotated[str, typer.Option("--password", envvar="OMS_PASSWORD", hidden=True, help="Of the user.")]


class Server:
    """A server that is asked. Failure with UNUSABLE when it is not there."""

    def __init__(self, url: str, user: str = "", password: str = "", ca_file: str = "") -> None:
        try:
            self.url = checked_url(url, may_have_path=True)
        except ValueError as wrong:
            raise Usage(f"--broker: {wrong}") from None
        self._headers = {"Accept": "application/json"}
        self._user, self._password = user, password
        if user:
            self._say_who()
        context = _context(ca_file) if self.url.startswith("https:") else None
        handlers = [] if context is None else [HTTPSHandler(context=context)]
        self._opener = build_opener(ProxyHandler({}), *handlers)  # a broker is behind no proxy of the web

    def _say_who(self) -> None:
        token = b64encode(f"{self._user}:{self._password}".encode()).decode()
        self._headers["Authorization"] = f"Basic {token}"

    def get(self, *path: str, has: str, said: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the answer to a question; what has no such part is none of a broker's. Failure."""
        query = f"?{urlencode(said)}" if said else ""
        found = self._answered("".join(f"/{quote(part, safe='')}" for part in path) + query, {}, None)
        return self._checked(found, has)

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a document."""
        found = self._answered(quote(path), {"Content-Type": "application/json"}, json.dumps(document).encode())
        return self._checked(found, "affected")

    def _checked(self, found: dict[str, Any], has: str) -> dict[str, Any]:
        if has not in found:
            raise _no_broker(self.url)
        return found

    def _answered(self, path: str, headers: dict[str, str], body: bytes | None) -> dict[str, Any]:
        """Return the answer; who has said no password is asked for it once a server wants one."""
        try:
            return self._answer(Request(f"{self.url}{path}", body, self._headers | headers))
        except Failure as refused:
            if refused.facts.get("status") != HTTPStatus.UNAUTHORIZED or not self._user or self._password:
                raise
        self._password = _asked(self._user)
        self._say_who()
        return self._answer(Request(f"{self.url}{path}", body, self._headers | headers))

    def _answer(self, request: Request) -> dict[str, Any]:
        try:
            try:
                with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                    return _document(response.read(), self.url)
            except HTTPError as refused:
                with refused:
                    raise _refusal(refused.code, _document(refused.read(), self.url)) from None
        except (URLError, HTTPException, OSError) as failure:
            text = f"no answer from {self.url}: {reason_of(failure)}; --broker URL or OMS_BROKER says where it is"
            raise Failure(text, ExitCode.UNUSABLE, url=self.url) from failure


def _asked(user: str) -> str:
    """Return the user's password, which a person is asked for."""
    if not sys.stdin.isatty():
        raise Usage("there is no terminal to ask for the password on: set OMS_PASSWORD")
    return getpass.getpass(f"password of {printable(user)}: ")


def _context(ca_file: str) -> SSLContext:
    try:
        return trusting(ca_file)
    except ValueError as wrong:
        raise Usage(f"--ca-file: {wrong}") from None


def _no_broker(url: str) -> Failure:
    text = f"what answers at {url} is no broker; --broker URL or OMS_BROKER says where `oms serve` listens for HTTP"
    return Failure(text, ExitCode.UNUSABLE, url=url)


def _document(data: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _no_broker(url)
    return found


def _refusal(status: int, said: Mapping[str, Any]) -> Failure:
    """Return what a refusal means here."""
    if "error" in said:  # outside of the command and information services
        code = (
            ExitCode.USAGE if status in (400, 404, 415) else ExitCode.NO if status in (401, 403) else ExitCode.UNUSABLE
        )
        advice = "; --user USER and OMS_PASSWORD say who you are" if status == HTTPStatus.UNAUTHORIZED else ""
        return Failure(f"{said['error']}{advice}", code, status=status)
    text = str(said.get("text", status))
    if said.get("error_code", "00000000") != "00000000":
        text += f" ({said['error_code']} {said.get('error_text', '')})"
    facts = {"status": status, "cis_code": said.get("code"), "error_code": said.get("error_code")}
    is_unsaid = said.get("code") in _UNIT_FAILED and said.get("error_code") == "00000000"  # which unit of work
    if said.get("code") in _WRONG_WORDS or is_unsaid:
        return Usage(text, **facts)
    return Failure(text, ExitCode.UNUSABLE if status == 503 else ExitCode.NO, **facts)


def said_of(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the plain words of a command line, and the NAME=VALUE ones.

    `service=CLASS/SERVER/SERVICE` says all three names of a service, `queue=NAME` those of a queue.
    """
    plain, said = [], list[tuple[str, str]]()
    for word in words:
        name, equals, value = word.partition("=")
        name = name.replace("-", "_").lower()
        if not equals:
            plain.append(word)
        elif name == "service" and value.count("/") == 2:
            said += zip(_SERVICE, value.split("/"), strict=True)
        elif name == "queue":
            said += zip(_SERVICE, _queue(value), strict=True)
        else:
            said.append((name, value))
    return plain, said


def _queue(name: str) -> tuple[str, str, str]:
    """Return the names of the service that a queue is."""
    try:
        return service_of_queue(name)
    except BrokerError as refused:
        raise Usage(refused.text) from None
