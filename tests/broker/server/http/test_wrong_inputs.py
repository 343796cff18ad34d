"""Whatever is wrong in a request over HTTP is answered in JSON, with a sentence for people and the right status."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.routing import Route

from oms_journal.broker.admin.codes import CommandCode
from oms_journal.broker.admin.commands import COMMANDS, REFUSED, SELECTORS
from oms_journal.broker.admin.questions import LIMIT_MAX
from oms_journal.broker.admin.subjects import REFUSED as REFUSED_SUBJECTS
from oms_journal.broker.admin.subjects import SUBJECTS
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import a_sample, for_each
from tests.support.wrong_inputs import CHARACTERS_MAX, faults_of

METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW")
CONTENT = "application/json"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("web") / "store") as found:
        yield found


def heard(found: tuple[int, dict[str, str], bytes]) -> tuple[int, Any]:
    """Return status and document of an answer, which is JSON."""
    status, headers, body = found
    assert headers["content-type"] == CONTENT, body
    return status, json.loads(body)


def problem(found: tuple[int, dict[str, str], bytes], *named: str) -> int:
    """Return the status of a refusal outside of a control block, and hold its text against the rules."""
    status, said = heard(found)
    assert set(said) == {"status", "error"} and said["status"] == status, said
    assert faults_of(said["error"], named) == [], said
    assert len(said["error"].split()) >= 3, "a sentence"
    return status


def refused(found: tuple[int, dict[str, str], bytes], *named: str) -> tuple[int, CommandCode]:
    """Return status and code of a question or a command that is refused, and hold its text against the rules."""
    status, said = heard(found)
    text = f"{said['text']} {said.get('error_text', '')}"
    assert said["rows"] == [], said
    assert faults_of(text, named) == [], said
    return status, CommandCode(said["code"])


# Every route.


def routes(place: WebPlace) -> list[tuple[str, set[str]]]:
    """Return an address of every route there is, with the methods that it has."""
    methods: dict[str, set[str]] = {}
    for route in place.listener.app.routes:
        assert isinstance(route, Route)
        path = re.sub(r"\{\w+(:\w+)?\}", "load" if "{side" in route.path else "SERVICE", route.path)
        methods.setdefault(path, set()).update(route.methods or ())
    return sorted(methods.items())


def test_a_method_that_a_route_has_not_is_405_and_says_which_it_has(place: WebPlace) -> None:
    count = 0
    for path, methods in routes(place):
        for method in (each for each in METHODS if each not in methods):
            found = place.ask(method, path)
            assert problem(found, method, path, *methods) == 405, (method, path)
            assert set(found[1]["allow"].split(", ")) == methods
            count += 1
    assert count >= 80


@for_each("path", ["/none", "/info/A/B", "//", "/aci/x", "/%00", "/%ff", "/peer", "/" + "x" * 5000])
@for_each("method", ["GET", "POST", "DELETE"])
def test_what_is_not_there_is_404_and_says_where_the_list_is(place: WebPlace, method: str, path: str) -> None:
    assert problem(place.ask(method, path), "there is nothing at", "/openapi.json") == 404


BODIES: dict[str, bytes] = {  # that are no document
    "nothing": b"",
    "half": b'{"a":',
    "no quotes": b"{a: 1}",
    "Latin-1": b'{"a": "\xe4"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "NaN": b'{"a": NaN, "function": NaN}',
    "too deep": b"[" * 10_000,
    "many digits": b'{"function": ' + b"9" * 10_000 + b"}",
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "XML": b"<a/>",
    "a form": b"function=SEND&option=COMMIT",
}
TAKE_JSON = ("/aci", "/command", "/login", "/peer/hello")


@for_each("what", BODIES)
@for_each("path", TAKE_JSON)
def test_a_body_that_is_no_document_is_400(place: WebPlace, path: str, what: str) -> None:
    found = place.ask("POST", path, BODIES[what], content_type=CONTENT)
    if path == "/command" and "code" in json.loads(found[2]):
        assert refused(found, "JSON object")[0] == 400
    else:
        assert problem(found) == 400


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "multipart/form-data", "x" * 500])
@pytest.mark.parametrize("path", ["/aci", "/command"])
def test_a_body_of_another_type_is_415_and_says_which_is_taken(place: WebPlace, path: str, kind: str) -> None:
    headers = {"content_type": kind} if kind else {}

    assert problem(place.ask("POST", path, b"{}", **headers), CONTENT, kind[:40]) == 415


@pytest.mark.parametrize("path", ["/aci", "/command", "/login", "/peer/hello"])
def test_a_body_that_is_too_large_is_413_and_says_the_limit(place: WebPlace, path: str) -> None:
    assert problem(place.ask("POST", path, bytes(9_000_000), content_type=CONTENT), "at most", " bytes") == 413


HEADERS: list[tuple[dict[str, str], int, tuple[str, ...]]] = [
    ({"Host": "evil.example"}, 421, ("evil.example", "HTTP-NAMES")),
    ({"Host": "x" * 500}, 421, ("HTTP-NAMES",)),
    ({"Origin": "http://evil.example"}, 403, ("another site",)),
    ({"Sec_Fetch_Site": "cross-site"}, 403, ("another site",)),
    ({"Cookie": "oms-session=x"}, 403, ("Origin",)),
    ({"Authorization": "Bearer x"}, 401, ("Basic", "base64")),
    ({"Authorization": "Basic !!!"}, 401, ("Basic", "base64")),
    ({"Authorization": "Basic QUxJQ0U="}, 401, ("Basic", "base64")),
    ({"Content_Length": "x"}, 400, ("HTTP/1.1",)),
]


@pytest.mark.parametrize(("headers", "status", "named"), HEADERS, ids=lambda each: str(each)[:50])
def test_headers_that_are_wrong_are_told(
    place: WebPlace, headers: dict[str, str], status: int, named: tuple[str, ...]
) -> None:
    assert problem(place.ask("POST", "/aci", b"{}", content_type=CONTENT, **headers), *named) == status


@pytest.mark.parametrize("session", ["x", "over", "x" * 5000])
def test_a_session_that_is_none_is_told(place: WebPlace, session: str) -> None:
    said = json.dumps({"function": "SEND", "option": "COMMIT", "conv_id": "NEW", "user_id": "A", "body_text": "x"})
    found = place.say(said.encode(), Broker_Session=session)

    assert (found[0], found[1]["error_code"]) == (200, "00200134")
    assert faults_of(found[1]["error_text"], ("LOGON",)) == [] and found[1]["error_advice"]
    assert problem(place.ask("DELETE", "/aci", Broker_Session=session), "Broker-Session") == 404


# Questions.

LIMITS = ("", "0", "-1", "1.5", "x", str(LIMIT_MAX + 1), "9" * 5000, "٣", " 5", "1e3", "0x10")
CURSORS = ("x", "{", '{"a": 1}', "NaN", "[" * 500, '"\ud7ff', "x" * 3000, "'", "[1,")


@a_sample(6)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_object_refuses_selectors_limits_and_cursors_that_are_none(place: WebPlace, subject: str) -> None:
    def asked(name: str, value: str) -> tuple[int, dict[str, str], bytes]:
        return place.ask("GET", f"/info/{subject}?{quote(name)}={quote(value)}")

    for name in ("colour", "", "LIMIT", "x" * 3000):
        assert refused(asked(name, "1"), subject, name[:40]) == (400, CommandCode.INVALID_SELECTOR), name
    for limit in LIMITS:
        assert refused(asked("limit", limit), "limit", str(LIMIT_MAX)) == (400, CommandCode.INVALID_SELECTOR), limit
    if subject not in ("BROKER", "STATISTICS"):  # which have one row, and no pages
        for cursor in CURSORS:
            assert refused(asked("cursor", cursor), "cursor", "`next`") == (400, CommandCode.INVALID_SELECTOR), cursor
    if "status" in SUBJECTS[subject].selectors:
        assert refused(asked("status", "x" * 3000), "status", "ACCEPTED") == (400, CommandCode.INVALID_SELECTOR)


@pytest.mark.parametrize("name", [*REFUSED_SUBJECTS, "SERVICES", "NOTHING", "x" * 3000, "%00", "%ff"])
def test_an_object_that_is_none_is_404_and_says_why_or_where_the_list_is(place: WebPlace, name: str) -> None:
    named = (name,) if name in REFUSED_SUBJECTS else ("`oms info`", "GET /info")

    assert refused(place.ask("GET", f"/info/{name}"), *named) == (404, CommandCode.INVALID_SUBJECT)


# Commands.


def ordered(place: WebPlace, **said: Any) -> tuple[int, dict[str, str], bytes]:
    return place.ask("POST", "/command", json.dumps(said).encode(), content_type=CONTENT)


def test_a_command_that_is_none_is_404_and_says_where_the_list_is(place: WebPlace) -> None:
    for name in ("", "NOTHING", "SHUTDWN", "x" * 200, "\0"):
        found = ordered(place, command=name)
        assert refused(found, "`oms cmd`", "GET /command") == (404, CommandCode.INVALID_COMMAND), name
    assert refused(ordered(place), "`oms cmd`") == (404, CommandCode.INVALID_COMMAND)
    assert refused(ordered(place, command="SHUTDWN"), "did you mean SHUTDOWN")[0] == 404
    for name in REFUSED:
        assert refused(ordered(place, command=name), name) == (409, CommandCode.CANNOT_EXECUTE)


@a_sample(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_what_does_not_go_with_it(place: WebPlace, name: str) -> None:
    first = {"command": name, "object": COMMANDS[name].targets[0]}

    assert refused(ordered(place, command=name, object="COLOUR"), name, "COLOUR") == (404, CommandCode.INVALID_SUBJECT)
    assert refused(ordered(place, **first, option="COLOUR"), name, "COLOUR") == (409, CommandCode.INVALID_OPTION)
    assert refused(ordered(place, **first, colour="red"), "colour", "uowid") == (400, CommandCode.INVALID_SELECTOR)
    for selector in ("command", "object", "option", *SELECTORS):
        for value in (1.5, {"a": 1}, "x" * 3000 if selector != "command" else 7):
            found = ordered(place, **(first | {selector: value}))
            assert refused(found, selector) == (400, CommandCode.INVALID_SELECTOR), (selector, value)


def test_nothing_that_was_refused_has_stopped_or_changed_the_broker(place: WebPlace) -> None:
    assert heard(place.ask("GET", "/info/SUBSCRIBER"))[1]["rows"] == []
    assert heard(place.ask("GET", "/info/PSF"))[1]["rows"] == []
    assert ordered(place, command="NO-OPERATION")[0] == 200


# Rights.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with Files(tmp_path_factory.mktemp("guarded"), has_tls=False).serve() as serving:
        client = WebPlace(None, port=serving.http_port)  # never begun: the server is a process of its own
        yield client
        client.loop.close()


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_who_says_nothing_is_401_wherever_a_login_is_needed(guarded: WebPlace) -> None:
    for method, path in (("GET", "/info"), ("GET", "/info/SERVICE"), ("GET", "/command"), ("POST", "/command")):
        assert problem(guarded.ask(method, path), "log on") == 401
    for method, path in (("POST", "/aci"), ("DELETE", "/aci"), ("GET", "/whoami"), ("GET", "/metrics"), ("GET", "/x")):
        assert problem(guarded.ask(method, path), "log on") == 401


@pytest.mark.whole
def test_who_says_a_wrong_password_is_401_and_then_429(guarded: WebPlace) -> None:
    found = [problem(guarded.ask("GET", "/info", Authorization=_basic("NOBODY", "wrong")), "0008") for _ in range(7)]

    assert found[:5] == [401] * 5 and set(found[5:]) == {429}


def test_who_may_not_is_403_and_told_what(guarded: WebPlace) -> None:
    mallory = _basic("MALLORY", PASSWORDS["MALLORY"])
    for name in ("BROKER", "STATISTICS", "FILES", "LATENCY", "PARTICIPANT", "CLIENT", "TRANSPORT", "RESOURCE-USAGE"):
        found = guarded.ask("GET", f"/info/{name}", Authorization=mallory)
        assert refused(found, "MALLORY", "may not look") == (403, CommandCode.NOT_AUTHORIZED)
    for name in ("CLEANUP", "CONNECT-PSTORE", "FORBID-NEWUOWMSGS", "STATUS", "PRODUCE-STATISTICS"):
        body = json.dumps({"command": name}).encode()
        found = guarded.ask("POST", "/command", body, content_type=CONTENT, Authorization=mallory)
        assert refused(found, "MALLORY", "may not administer") == (403, CommandCode.NOT_AUTHORIZED)


@a_sample(1)
@pytest.mark.parametrize("user", ["MALLORY", "ROOT"])
def test_who_speaks_as_somebody_else_is_told(guarded: WebPlace, user: str) -> None:
    said = json.dumps({"function": "LOGON", "user_id": "ALICE"}).encode()
    status, found = guarded.say(said, Authorization=_basic(user, PASSWORDS[user]))

    assert status == 200 and found["error_code"].startswith("0008"), found
    assert faults_of(found["error_text"], (user,)) == [] and len(found["error_text"]) < CHARACTERS_MAX
