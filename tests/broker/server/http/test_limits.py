"""What a client may take of the HTTP side: hostile bytes, slow senders, those who do not read; others do not notice."""

import asyncio
import base64
import json
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.servers.stomp_server import eventually
from tests.support.servers.web_place import ALICE, SERVICE, WebPlace, answer, brief, head

LOGON = b'{"function": "VERSION"}'


@contextmanager
def placed(tmp_path: Path, **limits: Any) -> Iterator[WebPlace]:
    with WebPlace(tmp_path / "store", limits=brief(**limits)) as place:
        yield place
        assert place.call("VERSION")["error_code"] == "00000000", "others go on"


def ended(raw: socket.socket) -> bytes:
    """Return what comes until the connection ends."""
    data = b""
    try:
        while more := raw.recv(1 << 16):
            data += more
    except ConnectionResetError:
        pass
    return data


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends, "it never was so"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("web") / "store", limits=brief(head_bytes=4096)) as found:
        yield found


HOSTILE = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 60 + b"\r\n\r\n",
    "STOMP": b"CONNECT\naccept-version:1.2\n\n\0\n\n",
    "no version": b"POST /aci\r\n\r\n",
    "a header without a colon": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nwrong\r\n\r\n",
    "no host": b"POST /aci HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length that is none": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
    "a negative length": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a wrong chunk": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a head that is too long": b"POST /aci HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 10_000,
    "an endless line": b"A" * 10_000,
    "many headers": b"POST /aci HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 2_000,
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_is_no_request_is_answered_400_and_ends_the_connection(place: WebPlace, name: str) -> None:
    with closing(place.connect()) as raw:
        raw.sendall(HOSTILE[name])
        data = ended(raw)

    assert not data or data.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")), data
    assert place.call("VERSION")["error_code"] == "00000000"


def test_a_request_that_is_cut_anywhere_leaves_nothing(place: WebPlace) -> None:
    whole = head(LOGON) + LOGON
    for size in range(0, len(whole), 3):
        with closing(place.connect()) as raw:
            raw.sendall(whole[:size])
    until(lambda: not place.listener.state.connections and not place.listener.state.tasks)


def test_a_body_that_is_too_long_is_refused_before_it_is_there(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        allowed = place.listener.limits.body_bytes
        for length in (allowed + 1, 1 << 40):
            with closing(place.connect()) as raw:
                raw.sendall(head(b"", length=length) + b" " * 1000)
                if length == allowed + 1:
                    raw.sendall(b" " * (length - 1000))
                    status, said = answer(raw)
                    assert (status, f"{allowed:,}" in said["error"]) == (413, True)
        fits = b" " * (allowed - len(LOGON)) + LOGON
        assert place.say(fits)[0] == 200


def test_a_body_without_a_length_is_bounded_too(tmp_path: Path) -> None:
    with placed(tmp_path) as place, closing(place.connect()) as raw:
        kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.sendall(b"POST /aci HTTP/1.1\r\nHost: localhost\r\n" + kind)
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(place.listener.limits.body_bytes // (1 << 20) + 1):
            raw.sendall(chunk)
        assert answer(raw)[0] == 413


def unread(place: WebPlace) -> int:
    """Return how many bytes of bodies are held."""

    async def look() -> int:
        stack = place.listener.app.middleware_stack
        assert stack is not None, "there was a request"
        bounded = stack.app  # type: ignore[attr-defined]
        assert bounded._unread == sum(body.size for body in bounded._bodies)
        return int(bounded._unread)

    return place.run(look())


def is_refused(raw: socket.socket) -> bool:
    raw.settimeout(0.2)
    with suppress(TimeoutError):
        return answer(raw)[0] == 503
    return False


def test_bodies_of_all_requests_together_are_bounded(tmp_path: Path) -> None:
    with placed(tmp_path, unread_bytes=100_000) as place, ExitStack() as stack:
        place.call("VERSION")
        others = [stack.enter_context(closing(place.connect())) for _ in range(4)]
        for raw in others:
            raw.sendall(head(b"", length=60_000) + b" " * 49_000)
        eventually(lambda: 90_000 < unread(place) <= 100_000)

        assert [is_refused(raw) for raw in others].count(True) == 2


@pytest.mark.parametrize("missing", [0, 1], ids=["something to receive is waited for", "a byte is missing"])
def test_of_bodies_that_are_too_much_those_go_first_whose_user_has_most(tmp_path: Path, missing: int) -> None:
    basic = {name: "Basic " + base64.b64encode(f"{name}:".encode()).decode() for name in ("MALLORY", "ALICE")}
    says = {name: f"Authorization: {each}\r\n" for name, each in basic.items()}
    who = {"user_id": "M", "token": "T"}
    waits = json.dumps({"function": "RECEIVE", "option": "SYNC", "conv_id": "ANY", "wait": "10M", **who})
    with placed(tmp_path, unread_bytes=100_000) as place, ExitStack() as stack:
        for said in ({"function": "LOGON", **who}, {"function": "REGISTER", **who, **SERVICE}):
            assert place.say(json.dumps(said).encode(), authorization=basic["MALLORY"])[1]["error_code"] == "00000000"
        connected = [stack.enter_context(closing(place.connect())) for _ in range(10)]
        for raw in connected:
            body = waits.encode() + b" " * 9_500
            raw.sendall(head(body, length=len(body) + missing, extra=says["MALLORY"]) + body)
        eventually(lambda: unread(place) > 90_000)
        block = json.dumps({"function": "VERSION"})
        victim = stack.enter_context(closing(place.connect()))
        victim.sendall(head(b"", length=40_000, extra=says["ALICE"]) + block.encode())
        victim.sendall(b" " * (39_999 - len(block)))
        eventually(lambda: unread(place) > 80_000)
        victim.sendall(b" ")

        assert answer(victim)[0] == 200
        assert unread(place) <= 100_000
        (raw, *_) = select.select(connected, [], [], 5)[0]
        assert answer(raw)[0] == (503 if missing else 200)


@pytest.mark.parametrize("sent", [b"", b"POST /aci HT", head(LOGON)[:-2]])
def test_a_head_that_takes_too_long_ends_its_connection(tmp_path: Path, sent: bytes) -> None:
    with placed(tmp_path, head_seconds=0.1, idle_seconds=0.1) as place, closing(place.connect()) as raw:
        raw.sendall(sent)
        data = ended(raw)

    assert data.startswith(b"HTTP/1.1 408") or (not sent and not data)


def test_who_sends_a_byte_now_and_then_is_not_waited_for_longer(tmp_path: Path) -> None:
    with placed(tmp_path, head_seconds=0.3) as place, closing(place.connect()) as raw:
        raw.settimeout(0.02)
        data = b""
        for byte in head(LOGON) * 10:
            try:
                raw.sendall(bytes([byte]))
                data = raw.recv(1000)
                break
            except TimeoutError:
                continue
            except OSError:
                break

    assert not data or data.startswith(b"HTTP/1.1 408")


def test_a_body_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    with placed(tmp_path, body_seconds=0.1, linger_seconds=0.1) as place, closing(place.connect()) as raw:
        raw.sendall(head(b"", length=100) + b" ")
        status, said = answer(raw)
        assert (status, "not complete" in said["error"]) == (408, True)
        assert not ended(raw)


def test_a_connection_between_two_requests_ends_after_a_while(tmp_path: Path) -> None:
    with placed(tmp_path, idle_seconds=0.2) as place, closing(place.connect()) as raw:
        for _ in range(2):
            raw.sendall(head(LOGON) + LOGON)
            assert answer(raw)[0] == 200
        assert not ended(raw)


def test_who_does_not_read_its_answer_is_cut_off(tmp_path: Path) -> None:
    with placed(tmp_path, look_seconds=0.1) as place, closing(place.connect(receive_bytes=4096)) as raw:
        place.call("LOGON", **ALICE)
        place.call("REGISTER", **ALICE, **SERVICE)
        place.call("SEND", "COMMIT", **ALICE, conv_id="NEW", body_text="x" * 6_000_000, **SERVICE)
        receive = json.dumps({"function": "RECEIVE", "option": "SYNC", "conv_id": "ANY", **ALICE}).encode()
        raw.sendall(head(receive) + receive)
        until(lambda: bool(place.listener.state.connections))
        until(lambda: not place.listener.state.connections)


def test_requests_in_one_piece_are_answered_in_their_order(place: WebPlace) -> None:
    wrong = b'{"function": "X"}'
    with closing(place.connect()) as raw:
        raw.sendall(head(LOGON) + LOGON + head(wrong) + wrong + head(LOGON, extra="Connection: close\r\n") + LOGON)
        data = ended(raw)

    assert [part.split(b" ", 1)[0] for part in data.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400", b"200"]


def test_a_thousand_idle_connections_do_not_keep_others_from_being_answered(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    try:
        with placed(tmp_path) as place, ExitStack() as stack:
            idle = [stack.enter_context(closing(place.connect())) for _ in range(1000)]
            for raw in idle[::2]:
                raw.sendall(b"POST /aci HTTP/1.1\r\nHost:")
            until(lambda: len(place.listener.state.connections) >= 1000)
            assert all(place.call("VERSION")["error_code"] == "00000000" for _ in range(20))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_listener_that_stops_waits_for_a_request_whose_client_has_gone(tmp_path: Path) -> None:
    """Else the end of the loop cuts it off, and the log has a traceback of it."""
    begun, goes_on = threading.Event(), threading.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await asyncio.to_thread(goes_on.wait, 20)
        return Response(b"nobody hears it")

    with WebPlace(tmp_path / "store") as place:
        place.listener.app.router.routes.append(Route("/slow", slow))
        with closing(place.connect()) as raw:
            raw.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert begun.wait(20)
        until(lambda: not place.listener.state.connections)
        (task,) = place.listener.state.tasks
        stopping = asyncio.run_coroutine_threadsafe(place.listener.stop(), place.loop)
        with pytest.raises(TimeoutError):
            stopping.result(0.3)
        assert not task.done()
        goes_on.set()
        stopping.result(20)
        assert task.done() and not task.cancelled() and task.exception() is None


def test_a_listener_that_stops_lets_what_was_begun_be_answered(tmp_path: Path) -> None:
    with WebPlace(tmp_path / "store") as place, closing(place.connect()) as idle, closing(place.connect()) as raw:
        place.call("LOGON", **ALICE)
        send = {"function": "SEND", "option": "COMMIT", "conv_id": "NEW", "body_text": "x", **ALICE, **SERVICE}
        body = json.dumps(send).encode()
        raw.sendall(head(body) + body[:-1])
        until(lambda: bool(place.listener.state.tasks))
        stopping = asyncio.run_coroutine_threadsafe(place.listener.stop(), place.loop)
        assert not ended(idle)
        raw.sendall(body[-1:])
        assert answer(raw)[1]["uow_status"] == "ACCEPTED"
        assert stopping.result(20) >= 2
