"""Who can do what to a server with users: every route, information object, command and frame, and everybody.

A row says what each of these is answered: nobody, who guesses a password, a user who may do little, one who may do
everything. What the server has and no row tells of fails, so that nothing new is open to anybody by accident.
"""

import asyncio
import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from oms_journal.broker.admin.commands import COMMANDS
from oms_journal.broker.admin.subjects import ALIASES, SUBJECTS
from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.block import Function
from oms_journal.broker.server.http.routes import web_listener
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.server.stomp.frames import CLIENT_COMMANDS
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import Serving, Wire
from tests.support.sweeps import for_each

ROLES = ("nobody", "guesser", "MALLORY", "ROOT")
_ALL = (200, 200, 200, 200)
_USERS = (401, 401, 200, 200)
_OPERATORS = (401, 401, 403, 200)

# Route: what it is asked, and what the roles are answered.
ROUTES: dict[str, tuple[str, str, tuple[int, int, int, int]]] = {
    "GET /": ("/", "", _ALL),
    "GET /console": ("/console", "", (401, 401, 308, 308)),
    "GET /console/{name}": ("/console/main.js", "", _ALL),
    "GET /healthz": ("/healthz", "", _ALL),
    "GET /readyz": ("/readyz", "", _ALL),
    "GET /openapi.json": ("/openapi.json", "", _ALL),
    "GET /peer/ping": ("/peer/ping", "", _ALL),
    "POST /peer/hello": ("/peer/hello", "{}", (400, 400, 400, 400)),
    "POST /peer/{side:str}/{rest:path}": ("/peer/load/hello", "{}", (409, 409, 409, 409)),
    "POST /login": ("/login", "{}", (400, 400, 400, 400)),
    "POST /logout": ("/logout", "", _USERS),
    "GET /whoami": ("/whoami", "", _USERS),
    "POST /aci": ("/aci", '{"function": "VERSION"}', _USERS),
    "DELETE /aci": ("/aci", "", (401, 401, 404, 404)),
    "GET /info": ("/info", "", _USERS),
    "GET /info/{subject}": ("/info/BROKER", "", _OPERATORS),
    "GET /command": ("/command", "", _USERS),
    "POST /command": ("/command", '{"command": "STATUS"}', _OPERATORS),
    "GET /metrics": ("/metrics", "", _OPERATORS),
}

# Information objects that are about the whole broker. Of the others who may look at nothing sees no row.
OF_BROKER = {"BROKER", "STATISTICS", "TRANSPORT", "RESOURCE-USAGE", "FILES", "LATENCY", "PARTICIPANT", "CLIENT"}

# Frames, before a log-on and by who may do little: the beginning of what is answered, None for no answer.
FRAMES: dict[str, tuple[dict[str, str], str, str | None]] = {
    "CONNECT": ({"accept-version": "1.2", "login": "ALICE", "passcode": "hunter2"}, "00080003", "00200182"),
    "STOMP": ({"accept-version": "1.2", "login": "ALICE", "passcode": ""}, "00080003", "00200182"),
    "DISCONNECT": ({"receipt": "1"}, "0", None),
    "SEND": ({"destination": "/queue/ALICE"}, "0", "00080402"),
    "SUBSCRIBE": ({"destination": "/queue/ALICE", "id": "1"}, "0", "00080402"),
    "UNSUBSCRIBE": ({"id": "1"}, "0", "0"),
    "ACK": ({"id": "1"}, "0", "0"),
    "NACK": ({"id": "1"}, "0", "0"),
    "BEGIN": ({"transaction": "1", "receipt": "1"}, "0", None),
    "COMMIT": ({"transaction": "1"}, "0", "0"),
    "ABORT": ({"transaction": "1"}, "0", "0"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Files(tmp_path_factory.mktemp("everyone"), has_tls=False).serve() as serving:
        wire = Wire(serving.port, connects=False)
        wire.say("CONNECT", accept_version="1.2", login="ALICE", passcode=PASSWORDS["ALICE"])
        assert wire.hear().command == "CONNECTED"
        wire.say("SEND", b"the secret of ALICE", destination="/queue/ALICE-SECRET", receipt="1")
        assert wire.hear().command == "RECEIPT"
        wire.close()
        yield serving
    said = json.dumps(serving.log)
    assert "hunter2" not in said and not any(password in said for password in PASSWORDS.values())
    assert "a mistake of the server" not in said


def ask(server: Serving, role: str, method: str, path: str, body: str = "", **headers: str) -> tuple[int, Any]:
    """Return status and answer; a guesser asks from an address of its own, since its guesses are counted."""
    at = ("127.0.7.1", 0) if role == "guesser" else ("127.0.0.1", 0)
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    if role != "nobody":
        password = PASSWORDS.get(role, "hunter2")
        pair = f"{'ALICE' if role == 'guesser' else role}:{password}"
        said["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    if body:
        said["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20, source_address=at)
    connection.request(method, path, body.encode(), said)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    kind = response.headers.get("content-type", "")
    return response.status, json.loads(data) if kind.startswith("application/json") else data


def known_routes() -> dict[str, set[str]]:
    """Return the paths of the server and their methods."""

    async def made() -> dict[str, set[str]]:
        attributes = built_in(broker_id="ETB")
        listener = web_listener(
            ServerState(attributes=attributes, stop=lambda _: None, run_mode="STANDARD", started=0.0)
        )
        found: dict[str, set[str]] = {}
        for route in listener.app.routes:  # type: ignore[union-attr]
            found.setdefault(route.path, set()).update(route.methods - {"HEAD"})
        return found

    return asyncio.run(made())


def test_every_route_has_its_row_and_every_row_its_route(server: Serving) -> None:
    routes = {f"{method} {path}" for path, methods in known_routes().items() for method in methods}
    assert set(ROUTES) == routes

    document = ask(server, "ROOT", "GET", "/openapi.json")[1]
    described = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    each = {f"GET /info/{name}" for name in (*SUBJECTS, *ALIASES)}
    assert each <= described and described - each <= routes
    assert set(FRAMES) == CLIENT_COMMANDS
    assert set(SUBJECTS) >= OF_BROKER


@pytest.mark.parametrize("row", ROUTES)
def test_a_route_answers_each_role_as_its_row_says(server: Serving, row: str) -> None:
    path, body, statuses = ROUTES[row]

    found = []
    for role in ROLES:
        status, answer = ask(server, role, row.split()[0], path, body)
        found.append(401 if status == 429 else status)  # after so many guesses nothing is looked at any more
        assert b"secret" not in (answer if isinstance(answer, bytes) else json.dumps(answer).encode()) or status == 200
    assert tuple(found) == statuses


@pytest.mark.parametrize("path", [path for path, _, _ in ROUTES.values()])
def test_no_other_method_does_anything(server: Serving, path: str) -> None:
    allowed = {row.split()[0] for row, (there, _, _) in ROUTES.items() if there == path}
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        if method in allowed:
            continue
        status, _ = ask(server, "ROOT", method, path, "")
        assert status in (400, 403, 404, 405), (method, status)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_who_may_look_at_nothing_sees_nothing(server: Serving, subject: str) -> None:
    status, answer = ask(server, "MALLORY", "GET", f"/info/{subject}")
    if subject in OF_BROKER:
        assert status == 403
    else:
        assert (status, answer["rows"], answer["total"]) == (200, [], None)
    assert "ALICE-SECRET" not in json.dumps(answer)
    assert ask(server, "nobody", "GET", f"/info/{subject}")[0] == 401
    assert ask(server, "ROOT", "GET", f"/info/{subject}")[0] == 200


@pytest.mark.parametrize("command", COMMANDS)
def test_who_may_administer_nothing_commands_nothing(server: Serving, command: str) -> None:
    known = COMMANDS[command]
    for target in known.targets:
        for option in known.options:
            order = {"command": command, "object": target, "option": option}
            said = {"uowid": "0" * 16, "conv_id": "0" * 16, "user_id": "ALICE", "token": "", "topic": "ALICE"}
            said |= {"server_class": "QUEUE", "server_name": "ALICE-SECRET", "service": "-"}
            order |= {name: value for name, value in said.items() if name in known.selectors_of(target)}
            status, answer = ask(server, "MALLORY", "POST", "/command", json.dumps(order))
            assert (status, answer["code"]) == (200, 0) if command == "NO-OPERATION" else answer["code"] != 0, answer
            assert status < 500 and not answer["affected"] and not answer["rows"]
            assert ask(server, "nobody", "POST", "/command", json.dumps(order))[0] == 401
    assert ask(server, "ROOT", "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("command", FRAMES)
def test_a_frame_is_answered_as_its_row_says(server: Serving, command: str) -> None:
    said, stranger_is_told, mallory_is_told = FRAMES[command]
    stranger = Wire(server.port, connects=False, source=f"127.0.8.{len(command) * 7 + ord(command[1])}")
    stranger.say(command, **{name.replace("-", "_"): value for name, value in said.items()})
    assert stranger.error().startswith(stranger_is_told)

    mallory = Wire(server.port, connects=False)
    mallory.say("CONNECT", accept_version="1.2", login="MALLORY", passcode=PASSWORDS["MALLORY"])
    assert mallory.hear().command == "CONNECTED"
    mallory.say(command, **{name.replace("-", "_"): value for name, value in said.items()})
    if mallory_is_told is None:
        assert mallory.hear().command == "RECEIPT"
    else:
        assert mallory.error().startswith(mallory_is_told)
    mallory.close()


# The control block, by a user who is known and means harm.


def call(server: Serving, role: str, function: str, session: str = "", **fields: Any) -> dict[str, Any]:
    headers = {"Broker_Session": session} if session else {}
    block = json.dumps({"function": function, "user_id": role, **fields})
    status, answer = ask(server, role, "POST", "/aci", block, **headers)
    assert status == 200, answer
    return dict(answer)


@for_each("function", [each.name for each in Function])
@for_each("user", ["ALICE", "ROOT", "alice", "mallory", "MALLORY ", "*", "ANONYMOUS", "MALL\u00d6RY"])
def test_nobody_calls_as_somebody_else_whatever_the_function(server: Serving, function: str, user: str) -> None:
    names = {"server_class": "QUEUE", "server_name": "ALICE-SECRET", "service": "-", "topic": "ALICE"}
    block = {"function": function, "user_id": user, "token": "T", "conv_id": "NEW", **names}

    status, answer = ask(server, "MALLORY", "POST", "/aci", json.dumps(block))

    assert (status, answer["error_code"]) == (200, "00080350")


NAMES = {
    "another case": "mallory",
    "the other normal form": "MALLO\u0308RY",
    "a longer beginning": "XMALLORY",
    "what a path means": "MALLORY/../ALICE-SECRET",
    "what an escape means": "MALLORY%2f..%2fALICE",
    "a wildcard": "*",
    "a wildcard in front": "*MALLORY",
    "full width": "\uff2d\uff21\uff2c\uff2c\uff2f\uff32\uff39",
}


@pytest.mark.parametrize("what", NAMES)
def test_a_right_is_on_the_very_characters_of_a_name(server: Serving, what: str) -> None:
    name = NAMES[what]
    own = {"server_class": "QUEUE", "server_name": name, "service": "-", "conv_id": "NONE"}
    code = call(server, "MALLORY", "SEND", body_text="x", **own)["error_code"]

    is_own = name.startswith("MALLORY")  # its pattern is QUEUE/MALLORY*, and no `/` of a name is one of the pattern
    assert (code == "00080402") is not is_own, code
    if is_own:
        assert call(server, "ROOT", "RECEIVE", server_class="QUEUE", server_name="ALICE-SECRET", service="-", **_ANY)


_ANY = {"conv_id": "ANY", "token": "looking", "option": "PREVIEW"}


def test_a_session_is_its_users_alone_and_never_one_that_was_chosen(server: Serving) -> None:
    _, _ = ask(server, "ALICE", "GET", "/whoami")
    headers = {"Authorization": "Basic " + base64.b64encode(f"ALICE:{PASSWORDS['ALICE']}".encode()).decode()}
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
    block = json.dumps({"function": "LOGON", "user_id": "ALICE", "token": "HOME"})
    connection.request(
        "POST", "/aci", block, {**headers, "Content-Type": "application/json", "Broker-Session": "chosen"}
    )
    response = connection.getresponse()
    session = response.headers["Broker-Session"]
    response.read()
    connection.close()
    assert session != "chosen" and len(session) >= 24

    stolen = call(
        server, "MALLORY", "SEND", session, conv_id="NONE", server_class="QUEUE", server_name="MALLORY", service="-"
    )
    assert stolen["error_code"] == "00200134", stolen
    assert ask(server, "MALLORY", "DELETE", "/aci", Broker_Session=session)[0] == 404
    assert ask(server, "nobody", "DELETE", "/aci", Broker_Session=session)[0] == 401
    begun = call(server, "MALLORY", "LOGON", session, token="HOME")
    assert begun["error_code"] == "00000000"
    assert ask(server, "ALICE", "DELETE", "/aci", Broker_Session=session)[0] == 204, "it is there, and only hers"


def test_a_unit_of_work_of_others_is_nobodys_to_ask_for_change_or_cancel(server: Serving) -> None:
    own = {"server_class": "QUEUE", "server_name": "ALICE-SECRET", "service": "-", "token": "WORK"}
    for role, token in (("ALICE", "WORK"), ("MALLORY", "WORK"), ("MALLORY", "T")):
        assert call(server, role, "LOGON", token=token)["error_code"] == "00000000"
    sent = call(server, "ALICE", "SEND", option="COMMIT", conv_id="NEW", body_text="the secret of ALICE", **own)
    assert sent["error_code"] == "00000000", sent
    uowid, conversation = sent["uowid"], sent["conv_id"]

    for function, fields in (
        ("SYNCPOINT", {"option": "QUERY", "uowid": uowid}),
        ("SYNCPOINT", {"option": "CANCEL", "uowid": uowid}),
        ("SYNCPOINT", {"option": "DELETE", "uowid": uowid}),
        ("SYNCPOINT", {"option": "SETUSTATUS", "uowid": uowid, "ustatus": "forged"}),
        ("SYNCPOINT", {"option": "COMMIT", "uowid": uowid, "conv_id": conversation}),
        ("SYNCPOINT", {"option": "BACKOUT", "uowid": uowid, "conv_id": conversation}),
        ("SEND", {"conv_id": conversation, "body_text": "forged"}),
        ("RECEIVE", {"conv_id": conversation}),
        ("UNDO", {"conv_id": conversation}),
        ("EOC", {"conv_id": conversation}),
    ):
        for token in ("WORK", "T"):
            answer = call(server, "MALLORY", function, token=token, **fields)
            assert answer["error_code"] != "00000000", (function, fields, answer)
            assert "secret" not in json.dumps(answer)
    found = call(server, "ALICE", "SYNCPOINT", option="QUERY", uowid=uowid, token="WORK")
    assert (found["error_code"], found["uow_status"], found.get("ustatus", "")) == ("00000000", "ACCEPTED", "")


@pytest.mark.whole
def test_a_producers_identifier_is_no_way_to_what_others_have_sent(server: Serving) -> None:
    """It is for repeats: who says one that somebody else has said learns nothing of what was sent under it."""
    receipts, bodies = set(), []
    for role in ("ALICE", "BOB", "ALICE"):
        wire = Wire(server.port, connects=False)
        wire.say("CONNECT", accept_version="1.2", login=role, passcode=PASSWORDS[role])
        assert wire.hear().command == "CONNECTED"
        body = f"of {role}".encode()
        wire.say("SEND", body, destination="/queue/SHARED", producer_id="order-1", receipt="1")
        receipts.add(wire.hear().headers["uow-id"])
        wire.close()
    wire = Wire(server.port, connects=False)
    wire.say("CONNECT", accept_version="1.2", login="BOB", passcode=PASSWORDS["BOB"])
    assert wire.hear().command == "CONNECTED"
    wire.say("SUBSCRIBE", destination="/queue/SHARED", id="1")
    bodies = [wire.hear().body, wire.hear().body]
    wire.close()
    assert len(receipts) == 2 and bodies == [b"of ALICE", b"of BOB"]
