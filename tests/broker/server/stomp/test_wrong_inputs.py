"""Whatever is wrong in a frame is answered with an ERROR whose text is for people, and the server serves on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal.broker.codes import Code
from tests.support.servers.stomp_server import Serving, Wire
from tests.support.sweeps import for_each
from tests.support.wrong_inputs import faults_of

Q = {"destination": "/queue/A"}
LONG = "x" * 65
FRAMES: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
    ("SEND", {}, ("destination", "missing")),
    *(
        ("SEND", {"destination": to}, ("destination", "/service/CLASS/SERVER/SERVICE"))
        for to in ("", "x", "/queue/", "/service/A", "/service/A/B/", "/topic/", "/temp/", "/nowhere/A")
    ),
    ("SEND", {"destination": f"/queue/{LONG}"}, ("queue", "64")),
    ("SEND", {"destination": f"/topic/{LONG * 2}"}, ("TOPIC", "96")),
    ("SEND", {"destination": "/conversation/7"}, ("00030003",)),
    ("SEND", {"destination": "/aci"}, ("JSON",)),
    ("SEND", Q | {"transaction": "none"}, ("transaction", "'none'")),
    ("SEND", Q | {"persistent": "perhaps"}, ("persistent:perhaps", "true nor false")),
    ("SEND", Q | {"producer-id": LONG * 5}, ("producer", "255")),
    ("SEND", Q | {"user-status": LONG}, ("USTATUS", "32")),
    ("SEND", Q | {"expires": "1"}, ("expires:1", "lifetime")),
    ("SEND", Q | {"content-length": "x"}, ("content-length", "'x'")),
    ("SUBSCRIBE", {}, ("destination", "missing")),
    ("SUBSCRIBE", Q, ("id", "missing")),
    ("SUBSCRIBE", Q | {"id": "1", "ack": "perhaps"}, ("ack:perhaps", "client-individual")),
    ("SUBSCRIBE", Q | {"id": "1", "prefetch-count": "x"}, ("prefetch-count", "'x'")),
    ("SUBSCRIBE", Q | {"id": "1", "selector": "a=1"}, ("selector:a=1", "not carried out")),
    ("SUBSCRIBE", Q | {"id": "1", "browser": "true"}, ("browser:true", "oms info")),
    ("SUBSCRIBE", {"destination": "/topic/A.*", "id": "1"}, ("/topic/A.*", "wildcards")),
    ("UNSUBSCRIBE", {}, ("id", "missing")),
    ("UNSUBSCRIBE", {"id": "none"}, ("subscription", "'none'")),
    *((command, {}, ("id", "missing")) for command in ("ACK", "NACK")),
    *((command, {"id": "none", "receipt": "1"}, ("id", "'none'")) for command in ("ACK", "NACK")),
    ("ACK", {"id": "none", "transaction": "x"}, ("transaction", "'x'")),
    *((command, {}, ("transaction", "missing")) for command in ("BEGIN", "COMMIT", "ABORT")),
    *((command, {"transaction": "none"}, ("transaction", "'none'")) for command in ("COMMIT", "ABORT")),
    ("CONNECT", {}, ("CONNECT", "once")),
    *((command, {}, ("no STOMP command", f"'{command}'")) for command in ("HELLO", "send", "ERROR", "RECEIPT")),
]
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
BYTES: list[tuple[bytes, tuple[str, ...]]] = [
    (CONNECT + b"SEND\ndestination\n\nx\0", ("NAME:VALUE", "'destination'")),
    (CONNECT + b"SEND\n:x\n\nx\0", ("NAME:VALUE", "':x'")),
    (CONNECT + b"SEND\ndestination:/queue/\xff\n\nx\0", ("UTF-8", "\\xff")),
    (CONNECT + b"SEND\ndestination:a\\q\n\nx\0", ("escape", "1.2")),
    (CONNECT + b"Q" * 100, ("no STOMP command", "QQQ")),
    (CONNECT + b"SEND\n" + b"a:b\n" * 2000 + b"\n\0", ("headers", "256")),
    (CONNECT + b"SEND\n" + b"a" * 20_000 + b":b\n\n\0", ("headers", "16,384")),
    (CONNECT + b"SEND\ncontent-length:99999999999\n\nx\0", ("content-length", "99,999,999,999", "6,144,000")),
    (CONNECT + b"SEND\ncontent-length:1\n\nabc\0", ("content-length", "NUL")),
    (b"SEND\ndestination:/queue/A\n\nx\0", ("CONNECT", "first")),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ("port of STOMP", "HTTP")),
    (b"CONNECT\naccept-version:9.9\nhost:x\n\n\0", ("version", "1.2")),
    (b"CONNECT\naccept-version:1.2\nheart-beat:x\nhost:x\n\n\0", ("heart-beat:x", "0,10000")),
    (b"CONNECT\naccept-version:1.2\nlogin:" + b"x" * 40 + b"\nhost:x\n\n\0", ("USER-ID", "32")),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(Path(tmp_path_factory.mktemp("stomp") / "spool")) as found:
        yield found
        assert "a mistake of" not in " ".join(found.texts())


def check(wire: Wire, named: tuple[str, ...]) -> None:
    """Hear an ERROR, and hold it against the rules; nothing comes behind it."""
    frame = wire.hear()
    while frame.command in ("CONNECTED", "MESSAGE"):
        frame = wire.hear()
    wire.close()
    assert frame.command == "ERROR", frame
    text, advice = frame.body.decode().split("\n")[0], frame.body.decode().split("\n")[-1]
    assert faults_of(text, (frame.headers["error-code"], *named)) == [], text
    assert " b'" not in text and ' b"' not in text
    assert advice.lower() == f"{Code(frame.headers['error-code']).advice}.".lower()


@for_each(("command", "headers", "named"), FRAMES)
def test_a_frame_that_is_wrong_is_told(
    server: Serving, command: str, headers: dict[str, str], named: tuple[str, ...]
) -> None:
    wire = Wire(server.port)
    wire.say(command, b"x" if command == "SEND" else b"", **headers)

    check(wire, named)


@pytest.mark.whole
@pytest.mark.parametrize(("data", "named"), BYTES, ids=lambda each: repr(each)[:60])
def test_bytes_that_are_no_frame_are_told(server: Serving, data: bytes, named: tuple[str, ...]) -> None:
    wire = Wire(server.port, connects=False)
    wire.socket.sendall(data)

    check(wire, named)
