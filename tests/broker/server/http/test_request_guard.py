"""What is asked of every request of HTTP: its Host, whose page it is from, and who makes it; with and without users."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from oms_journal.broker.rights import Identity
from oms_journal.broker.server.http.login import (
    IDLE_SECONDS,
    LIFE_SECONDS,
    OF_USER_MAX,
    SESSIONS_MAX,
    BrowserSessions,
)
from tests.support.servers.guarded_server import PASSWORDS, USERS, Files, set_users, user
from tests.support.servers.stomp_server import Serving, Wire, eventually
from tests.support.sweeps import a_sample, for_each


@pytest.fixture(scope="module", params=["open", "users"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    users = USERS if request.param == "users" else []
    more = 'HTTP-NAMES="oms.example, other.example"'
    with Files(tmp_path_factory.mktemp("server"), users=users, has_tls=False, more=more).serve() as serving:
        serving.is_open = not users  # type: ignore[attr-defined]
        yield serving
    said = json.dumps(serving.log)
    assert "hunter2" not in said and not any(password in said for password in PASSWORDS.values())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Files(tmp_path_factory.mktemp("guarded"), has_tls=False).serve() as serving:
        yield serving


def basic(name: str) -> tuple[str, str]:
    return (name, PASSWORDS[name])


def ask(server: Serving, method: str, path: str, source: str = "127.0.0.1", **said: Any) -> httpx.Response:
    """Return the answer to one request, from an address of loopback."""
    client = _CLIENTS.get(source)
    if client is None:
        client = _CLIENTS[source] = httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=20)
    client.cookies.clear()
    return client.request(method, f"http://127.0.0.1:{server.http_port}{path}", **said)


_CLIENTS: dict[str, httpx.Client] = {}  # by where they are


@pytest.fixture(scope="module", autouse=True)
def _no_client_stays() -> Iterator[None]:
    yield
    while _CLIENTS:
        _CLIENTS.popitem()[1].close()


VERSION = {"function": "VERSION"}


def call(server: Serving, headers: dict[str, str] | None = None, **said: Any) -> httpx.Response:
    """Return the answer to a control block that changes nothing."""
    return ask(server, "POST", "/aci", json=VERSION, headers=headers or {}, auth=basic("ALICE"), **said)


# Host.


@a_sample(1)
@for_each(
    ("host", "is_ours"),
    [
        ("127.0.0.1:1971", True),
        ("127.0.0.1", True),
        ("localhost:80", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("[::1]:1971", True),
        ("192.0.2.7", True),
        ("oms.example", True),
        ("Other.Example:443", True),
        ("evil.example", False),
        ("evil.example:1971", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("oms.example.evil.example:1971", False),
        ("evil.example#localhost", False),
        ("evil.example/localhost", False),
        ("localhost@evil.example", False),
        ("", False),
    ],
)
@for_each("path", ["/", "/aci", "/whoami", "/openapi.json", "/login", "/nothing"])
def test_a_request_for_a_name_that_is_not_ours_is_answered_nothing_else(
    server: Serving, host: str, is_ours: bool, path: str
) -> None:
    answer = ask(server, "GET", path, headers={"Host": host}, auth=basic("ALICE"))

    assert (answer.status_code != 421) is is_ours, answer.text


# Other sites.

OUR = "http://127.0.0.1:{port}"


@for_each("site", [None, "same-origin", "none", "same-site", "cross-site"])
@for_each(
    "origin",
    [
        None,
        OUR,
        "https://127.0.0.1:{port}",
        "null",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://evil.example",
        "*",
        "",
    ],
)
def test_only_our_own_pages_and_programs_change_anything(server: Serving, origin: str | None, site: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin.format(port=server.http_port)}
    headers |= {} if site is None else {"Sec-Fetch-Site": site}

    status = call(server, headers).status_code

    is_own = origin in (None, OUR, "https://127.0.0.1:{port}")
    assert status == (200 if is_own and site in (None, "same-origin", "none") else 403)


@for_each("method", ["POST", "PUT", "DELETE", "PATCH"])
@for_each("path", ["/aci", "/login", "/logout", "/command", "/peer/hello", "/nothing"])
def test_no_changing_request_of_another_site_reaches_a_route(server: Serving, method: str, path: str) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        content = b'{"function": "LOGON", "user_id": "EVIL"}'
        answer = ask(
            server,
            method,
            path,
            headers={**headers, "Content-Type": "text/plain"},
            content=content,
            auth=basic("ALICE"),
        )
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_no_page_of_another_site_reads_anything_and_a_link_to_us_works(server: Serving) -> None:
    for mode, site in product(("no-cors", "cors", "same-origin", "websocket"), ("cross-site", "same-site")):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        assert ask(server, "GET", "/whoami", headers=headers, auth=basic("ALICE")).status_code == 403
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(server, "GET", "/whoami", headers=headers, auth=basic("ALICE")).status_code == 200
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = ask(server, "OPTIONS", "/aci", headers=preflight, auth=basic("ALICE"))
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("path", ["/whoami", "/openapi.json", "/nothing", "/login"])
def test_every_answer_forbids_what_a_browser_would_do_with_it(server: Serving, path: str) -> None:
    for answer in (ask(server, "GET", path, auth=basic("ALICE")), ask(server, "GET", path, headers={"Host": "evil"})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


# Who it is.


@for_each(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic QUxJQ0U=",  # without a colon
        "Basic /////w==",  # no UTF-8
        "Bearer QUxJQ0U6aHVudGVyMg==",
        "Basic QUxJQ0U6aHVudGVyMg==",  # ALICE:hunter2
        "Basic " + "A" * 10_000,
    ],
)
@for_each("path", ["/aci", "/whoami", "/command", "/info/BROKER", "/metrics", "/nothing"])
def test_who_does_not_log_on_reaches_no_route(guarded: Serving, header: str | None, path: str) -> None:
    method = "POST" if path in ("/aci", "/command") else "GET"
    headers = {} if header is None else {"Authorization": header}

    answer = ask(guarded, method, path, f"127.0.3.{len(path + str(header)) % 250}", json=VERSION, headers=headers)

    assert answer.status_code in (401, 429) and set(answer.json()) == {"status", "error"}
    assert "hunter2" not in answer.text


def test_a_program_is_asked_for_a_password_and_a_page_of_ours_is_not(guarded: Serving) -> None:
    assert ask(guarded, "GET", "/whoami").headers["www-authenticate"].startswith("Basic ")
    page = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    assert "www-authenticate" not in ask(guarded, "GET", "/whoami", headers=page).headers


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/openapi.json", "/peer/ping"])
def test_what_needs_no_login_does_not_look_at_one(guarded: Serving, path: str) -> None:
    for number in range(30):
        answer = ask(guarded, "GET", path, "127.0.4.1", auth=("ALICE", f"hunter2 {number}"))
        assert answer.status_code not in (401, 403, 429)


def test_paths_that_look_like_those_are_not_taken_for_them(guarded: Serving) -> None:
    for path in (
        "//",
        "/healthz/",
        "/console",
        "/console/../aci",
        "/Healthz",
        "/login/",
        "/peer/ping/x",
        "/%2e/whoami",
    ):
        assert ask(guarded, "GET", path).status_code in (401, 404), path
        assert ask(guarded, "POST", path, json=VERSION).status_code in (401, 404, 405), path


def test_a_call_is_held_against_the_rights_of_who_logged_on(guarded: Serving) -> None:
    def code(name: str, **fields: Any) -> str:
        block = {"function": "SEND", "user_id": name, **fields}
        answer = ask(guarded, "POST", "/aci", "127.0.0.9", json=block, auth=basic("MALLORY"))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["error_code"])

    alices = {"conv_id": "NEW", "server_class": "QUEUE", "server_name": "ALICE", "service": "-"}
    assert code("MALLORY", **alices) == "00080402"
    assert code("MALLORY", function="SUBSCRIBE", topic="ALICE") == "00080402"
    assert code("ALICE", **alices) == "00080350"
    assert code("ALICE", function="LOGON") == "00080350"
    assert code("ALICE", function="LOGON", password=PASSWORDS["ALICE"]) == "00080350"
    assert code("MALLORY", function="LOGON") == "00000000"


def test_guesses_are_slowed_down_and_do_not_lock_the_user_out_elsewhere(guarded: Serving) -> None:
    statuses = [
        ask(guarded, "GET", "/whoami", "127.0.5.1", auth=("ROOT", f"hunter2 {n}")).status_code for n in range(12)
    ]

    assert statuses[:5] == [401] * 5 and 429 in statuses[5:]
    assert ask(guarded, "GET", "/whoami", auth=basic("ROOT")).status_code == 200


# Sessions of a browser.


def browser(server: Serving) -> httpx.Client:
    base = f"http://localhost:{server.http_port}"
    return httpx.Client(base_url=base, timeout=20, headers={"Origin": base, "Sec-Fetch-Site": "same-origin"})


def cookie(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}


def test_a_person_logs_on_once_and_off_again(guarded: Serving) -> None:
    with browser(guarded) as client:
        assert client.get("/whoami").status_code == 401
        answer = client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        said = answer.headers["set-cookie"]
        assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(said.split("; ")) and "Domain" not in said
        assert client.get("/whoami").json() == {"user": "ALICE", "is_open": False, "rights": []}
        assert client.post("/aci", json=VERSION).status_code == 200
        kept = dict(client.cookies)

        assert client.post("/logout").status_code == 200
        assert client.get("/whoami").status_code == 401
        assert (
            ask(guarded, "GET", "/whoami", headers=cookie(kept)).status_code == 401
        )  # over, whoever has kept the cookie


def test_a_cookie_alone_changes_nothing_without_an_origin(guarded: Serving) -> None:
    with browser(guarded) as client:
        client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        cookies = dict(client.cookies)
    assert ask(guarded, "GET", "/whoami", headers=cookie(cookies)).status_code == 200
    assert ask(guarded, "POST", "/aci", json=VERSION, headers=cookie(cookies)).status_code == 403
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        answer = ask(guarded, "POST", "/aci", json=VERSION, headers={**cookie(cookies), "Origin": origin})
        assert answer.status_code == 403


@pytest.mark.parametrize("cookie", ["", "x", "oms-session=", "oms-session=" + "A" * 43, 'oms-session="; x=y', "=;=;="])
def test_a_cookie_that_is_none_is_nobodys(guarded: Serving, cookie: str) -> None:
    assert ask(guarded, "GET", "/whoami", headers={"Cookie": cookie}).status_code == 401


def test_a_login_never_goes_on_with_the_session_that_was_there(guarded: Serving) -> None:
    with browser(guarded) as client:
        client.cookies.set("oms-session", "chosen by somebody else")
        client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        first = client.cookies.get("oms-session", domain="localhost.local")
        client.cookies.clear()
        client.headers["Cookie"] = f"oms-session={first}"
        client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
    assert first != "chosen by somebody else"
    assert ask(guarded, "GET", "/whoami", headers={"Cookie": f"oms-session={first}"}).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 5000, 400),
        (b'{"user": "ALICE"}', 400),
        (b'{"user": 1, "password": "x"}', 400),
        (b'{"user": "ALICE", "password": "x", "more": 1}', 400),
        (b'{"user": "ALICE", "password": "\\ud800"}', 401),
        (b'{"user": "\\u0000", "password": "x"}', 401),
        (b"x" * 20_000, 413),
    ],
)
def test_a_login_that_is_none_is_refused(guarded: Serving, body: bytes, status: int) -> None:
    assert ask(guarded, "POST", "/login", f"127.0.6.{len(body) % 250 + 1}", content=body).status_code == status


@pytest.mark.whole
def test_a_session_ends_when_its_user_changes(tmp_path: Path) -> None:
    files = Files(tmp_path, has_tls=False)
    with files.serve() as server, browser(server) as client:
        client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        assert client.get("/whoami").json()["rights"] == []
        set_users(files.users_file, [user("ALICE", administer=["*"])])
        eventually(lambda: client.get("/whoami").status_code == 401)
        client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        assert client.get("/whoami").json()["rights"] == ["look", "administer"]


def test_sessions_end_by_themselves_and_are_bounded() -> None:
    sessions, alice = BrowserSessions(), Identity("ALICE")
    idle, busy = sessions.begin(alice, 0.0), sessions.begin(alice, 0.0)
    now = 0.0
    while now < LIFE_SECONDS:
        assert sessions.find(busy, now) is alice
        now += IDLE_SECONDS / 2
    assert sessions.find(busy, LIFE_SECONDS + 1) is None and sessions.find(idle, IDLE_SECONDS + 1) is None
    assert len(sessions) == 0

    secrets = [sessions.begin(alice, now) for _ in range(3 * OF_USER_MAX)]
    assert len(sessions) == OF_USER_MAX and sessions.find(secrets[-1], now) is alice
    for number in range(SESSIONS_MAX):
        sessions.begin(Identity(f"USER{number}"), now)
    assert len(sessions) == SESSIONS_MAX
    assert len(set(secrets)) == len(secrets) and min(map(len, secrets)) >= 43


# What operators ask and say.


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, dict[str, str]]]:
    """A server with a unit of work of each, by its UOWID; MALLORY looks at ALICE's, and administers BOB's."""
    some = [*USERS[:2], user("MALLORY", look=["/queue/ALICE*"], administer=["/queue/BOB*"]), USERS[3]]
    with Files(tmp_path_factory.mktemp("operated"), users=some, has_tls=False).serve() as serving:
        made = {}
        for name in ("ALICE", "BOB", "ROOT"):
            wire = Wire(serving.port, connects=False)
            wire.say("CONNECT", accept_version="1.2", login=name, passcode=PASSWORDS[name])
            assert wire.hear().command == "CONNECTED"
            wire.say("SEND", b"secret", destination=f"/queue/{name}", receipt="1")
            made[name] = wire.hear().headers["uow-id"]
            wire.close()
        yield serving, made


@pytest.mark.whole
def test_who_may_look_at_some_services_sees_these_and_nothing_of_the_broker(
    operated: tuple[Serving, dict[str, str]],
) -> None:
    server, made = operated
    known = [each["object"] for each in ask(server, "GET", "/info", auth=basic("MALLORY")).json()["objects"]]
    assert {"BROKER", "PSF", "SERVICE", "CONVERSATION", "CLIENT", "FILES"} <= set(known)
    for subject in known:
        answer = ask(server, "GET", f"/info/{subject}", auth=basic("MALLORY"))
        assert answer.status_code in (200, 403), (subject, answer.text)
        assert "ROOT" not in answer.text and made["ROOT"] not in answer.text, subject
        assert ask(server, "GET", f"/info/{subject}", auth=basic("ROOT")).status_code == 200
        nothing = ask(server, "GET", f"/info/{subject}", "127.0.0.8", auth=basic("ALICE"))
        assert nothing.status_code == 403 or nothing.json()["rows"] == [], subject
    assert made["ALICE"] in ask(server, "GET", "/info/PSF", auth=basic("MALLORY")).text
    assert ask(server, "GET", "/metrics", auth=basic("MALLORY")).status_code == 403
    assert "oms_" in ask(server, "GET", "/metrics", auth=basic("ROOT")).text


def test_who_may_administer_some_services_does_nothing_to_others(operated: tuple[Serving, dict[str, str]]) -> None:
    server, made = operated

    def said(**order: str) -> int:
        return int(ask(server, "POST", "/command", json=order, auth=basic("MALLORY")).json()["code"])

    for command in ask(server, "GET", "/command", auth=basic("MALLORY")).json()["commands"]:
        if command["command"] not in ("NO-OPERATION", "PURGE", "SET-UOW-STATUS"):
            order = {"command": command["command"], "topic": "ALICE", "user_id": "ALICE", "conv_id": "1"}
            for target in command.get("objects") or [""]:
                assert said(**order, **({"object": target} if target else {})) != 0, command
    others = {said(command="PURGE", uowid=made[name]) for name in ("ALICE", "ROOT")}
    assert others == {said(command="PURGE", uowid="1")} == {20}
    assert {said(command="SET-UOW-STATUS", uowid=made[name], option="CANCELLED") for name in ("ALICE", "ROOT")} == {20}
    assert said(command="PURGE", uowid=made["BOB"]) == 0
    assert ask(server, "GET", "/whoami", auth=basic("ALICE")).status_code == 200  # nothing was shut down
    for name in ("ALICE", "ROOT"):
        assert made[name] in ask(server, "GET", "/info/PSF", auth=basic("ROOT")).text


@pytest.mark.whole
def test_a_password_in_the_control_block_goes_no_further(guarded: Serving) -> None:
    block = {"function": "LOGON", "user_id": "ALICE", "password": "hunter2 in the block", "token": "T"}
    answer = ask(guarded, "POST", "/aci", json=block, auth=basic("ALICE"))

    assert answer.json()["error_code"] == "00000000" and "hunter2" not in answer.text
