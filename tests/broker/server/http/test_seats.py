"""A user who holds all connections of HTTP, idle, waiting or sending slowly, keeps no other user out."""

import base64
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from oms_journal.broker.server.http.connection import WebConnection
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import eventually
from tests.support.servers.web_place import SERVICE, WebPlace, answer, brief, head

VERSION = b'{"function": "VERSION"}'


class Crowd:
    """Connections to a server, each of a user."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack

    def connect(self) -> socket.socket:
        raw = self._stack.enter_context(closing(socket.socket()))
        raw.settimeout(20)
        raw.connect(("127.0.0.1", self._port))
        return raw

    def say(self, raw: socket.socket, user: str, body: bytes = VERSION, *, length: int | None = None) -> None:
        secret = base64.b64encode(f"{user}:{PASSWORDS.get(user, '')}".encode()).decode()
        raw.sendall(head(body, length=length, extra=f"Authorization: Basic {secret}\r\n") + body)

    def ask(self, user: str) -> tuple[int, str]:
        """Return status and code of one request on a connection of its own, or the error."""
        raw = self.connect()
        self.say(raw, user)
        status, said = answer(raw)
        return status, said.get("error_code") or said["error"]

    def wait(self, user: str, token: str) -> socket.socket:
        """Return a connection on which the user waits for a unit of work."""
        raw = self.connect()
        for function, more in (("LOGON", {}), ("REGISTER", SERVICE), ("RECEIVE", {"wait": "10M"})):
            block = {"function": function, "user_id": user, "token": token, **more}
            if function == "RECEIVE":
                block |= {"option": "SYNC", "conv_id": "NEW"}
            self.say(raw, user, json.dumps(block).encode())
            if function != "RECEIVE":
                assert answer(raw)[1]["error_code"] == "00000000"
        return raw


@contextmanager
def crowded(tmp_path: Path, connections: int = 3, **limits: int) -> Iterator[tuple[WebPlace, Crowd]]:
    place = WebPlace(tmp_path / "store", limits=brief(**limits), max_connections=str(connections))
    with place, ExitStack() as stack:
        yield place, Crowd(place.port, stack)


def waiting(place: WebPlace, count: int) -> None:
    """Return when so many requests wait to receive something."""
    eventually(lambda: place.run(_waiting_count(place)) == count)


def there(place: WebPlace, count: int) -> None:
    """Return when there are so many connections."""
    eventually(lambda: len(place.listener.state.connections) == count)


async def _waiting_count(place: WebPlace) -> int:
    return sum(isinstance(each, WebConnection) and each.can_make_way for each in place.listener.state.connections)


def test_an_idle_connection_makes_way_the_one_that_is_idle_for_longest(tmp_path: Path) -> None:
    with crowded(tmp_path) as (_, crowd):
        greedy = [crowd.connect() for _ in range(3)]
        for raw in (*greedy, greedy[0]):
            crowd.say(raw, "GREEDY")
            assert answer(raw)[0] == 200

        assert crowd.ask("MODEST") == (200, "00000000")

        assert greedy[1].recv(1) == b""
        for raw in (greedy[0], greedy[2]):
            crowd.say(raw, "GREEDY")
            assert answer(raw)[0] == 200


def test_a_connection_that_has_never_asked_or_not_to_the_end_makes_way(tmp_path: Path) -> None:
    with crowded(tmp_path) as (place, crowd):
        half = []
        for count in range(3):
            half.append(crowd.connect())
            there(place, count + 1)
        for raw in half[1:]:
            raw.sendall(b"POST /aci HTTP/1.1\r\nHost:")

        assert [crowd.ask("MODEST")[0] for _ in range(3)] == [200, 200, 200]

        assert half[0].recv(1) == b""
        status, said = answer(half[1])
        assert (status, "3 connections" in said["error"]) == (503, True)


def test_a_user_who_waits_on_all_connections_loses_the_newest_for_another_and_can_ask_again(tmp_path: Path) -> None:
    with crowded(tmp_path) as (place, crowd):
        greedy = [crowd.wait("GREEDY", f"T{number}") for number in range(3)]
        waiting(place, 3)

        assert crowd.ask("MODEST") == (200, "00000000")

        assert answer(greedy[2])[1]["error_code"] == "00740074", "nothing came in time: ask again"
        assert greedy[2].recv(1) == b""
        waiting(place, 2)
        crowd.wait("MODEST", "M")
        waiting(place, 3)
        status, why = crowd.ask("GREEDY")
        assert (status, "at most 3 connections" in why) == (503, True)
        waiting(place, 3)


def test_a_user_who_sends_slowly_on_all_connections_loses_the_newest_for_another(tmp_path: Path) -> None:
    with crowded(tmp_path) as (place, crowd):
        greedy = [crowd.connect() for _ in range(3)]
        for count, raw in enumerate(greedy):
            crowd.say(raw, "GREEDY", b"{", length=100)
            waiting(place, count + 1)

        assert crowd.ask("MODEST") == (200, "00000000")

        status, said = answer(greedy[2])
        assert (status, "GREEDY has most" in said["error"]) == (503, True)
        greedy[0].sendall(VERSION[1:] + b" " * (100 - len(VERSION)))
        assert answer(greedy[0])[0] == 200


def test_where_no_user_has_more_than_another_who_comes_is_told_so(tmp_path: Path) -> None:
    with crowded(tmp_path) as (place, crowd):
        for user in ("ONE", "TWO", "THREE"):
            crowd.wait(user, "T")
        waiting(place, 3)

        status, why = crowd.ask("FOUR")

        assert (status, "at most 3 connections" in why) == (503, True)
        assert place.listener.state.refused == 1
        waiting(place, 3)


def test_only_so_many_come_beyond_the_bound_and_of_those_who_say_nothing_the_first_goes(tmp_path: Path) -> None:
    with crowded(tmp_path, connections=1, newcomers=2) as (place, crowd):
        crowd.wait("ONE", "T")
        waiting(place, 1)
        silent = []
        for count in range(2):
            silent.append(crowd.connect())
            there(place, count + 2)

        crowd.connect()

        assert silent[0].recv(1) == b""
        crowd.say(silent[1], "ONE")
        assert answer(silent[1])[0] == 503


@pytest.mark.whole
def test_who_has_logged_on_with_a_password_keeps_nobody_out_with_what_it_waits_for(tmp_path: Path) -> None:
    files = Files(tmp_path, has_tls=False, more="MAX-CONNECTIONS=3")
    with files.serve() as serving, ExitStack() as stack:
        crowd = Crowd(int(serving.http_port), stack)
        mallory = [_waits_at_own_queue(crowd, f"T{number}") for number in range(3)]

        assert crowd.ask("BOB") == (200, "00000000")

        (loser,), _, _ = select.select(mallory, [], [], 20)
        assert answer(loser)[1]["error_code"] == "00740074"


def _waits_at_own_queue(crowd: Crowd, token: str) -> socket.socket:
    raw = crowd.connect()
    own = {"server_class": "QUEUE", "server_name": "MALLORY", "service": "-"}
    for block in (
        {"function": "LOGON"},
        {"function": "REGISTER", **own},
        {"function": "RECEIVE", "option": "SYNC", "conv_id": "NEW", "wait": "10M"},
    ):
        said = json.dumps({**block, "user_id": "MALLORY", "token": token}).encode()
        crowd.say(raw, "MALLORY", said)
        if block["function"] != "RECEIVE":
            assert answer(raw)[1]["error_code"] == "00000000"
    return raw
