"""What the suites of foreign clients found: their habits, on the wire of a real server."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.support.servers.stomp_server import TIMEOUT_SECONDS, Serving, Wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("spool")) as serving:
        yield serving


def _read_frame(stream: BinaryIO) -> str:
    """Read a frame whose end is two bytes, as PECL's client does; return its command."""
    command = stream.readline().decode().rstrip("\n")
    length = 0
    while (line := stream.readline()) not in (b"\n", b""):
        name, _, value = line.decode().rstrip("\n").partition(":")
        length = int(value) if name == "content-length" else length
    if length:
        stream.read(length)
        stream.read(2)
    else:
        while stream.read(1) not in (b"\0", b""):
            pass
        stream.read(1)
    return command


def test_a_line_feed_ends_every_frame_for_clients_that_take_two_bytes(server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS) as raw:
        said = [b"CONNECT\n\n\0\n", b"SUBSCRIBE\ndestination:/queue/two-bytes\nack:auto\n\n\0\n"]
        said += [b"SEND\ndestination:/queue/two-bytes\nreceipt:%d\n\nbody\0\n" % number for number in range(20)]
        raw.sendall(b"".join(said))
        with raw.makefile("rb") as stream:
            commands = [_read_frame(stream) for _ in range(41)]
            raw.sendall(b"SEND\ndestination:nowhere\n\n\0")
            last = [_read_frame(stream), stream.read()]

    assert commands[0] == "CONNECTED"
    assert sorted(commands[1:]) == ["MESSAGE"] * 20 + ["RECEIPT"] * 20
    assert last == ["ERROR", b""]


def test_what_is_said_behind_an_error_does_nothing(server: Serving) -> None:
    wire = Wire(server.port)
    wire.say("BEGIN", transaction="t1")
    wire.say("SEND", b"never", destination="/queue/behind", transaction="t1")
    wire.say("SEND", b"refused", destination="/queue/behind", transaction="t2", receipt="1")
    assert wire.hear().command == "ERROR"
    for _ in range(3):
        wire.say("COMMIT", transaction="t1", receipt="2")
        wire.say("SEND", b"neither", destination="/queue/behind", receipt="3")
    with suppress(EOFError):
        raise AssertionError(f"something comes behind the ERROR: {wire.hear()}")
    wire.close()

    other = Wire(server.port)
    other.say("SEND", b"first", destination="/queue/behind")
    other.say("SUBSCRIBE", destination="/queue/behind", id="1", ack="auto")
    assert other.hear().body == b"first"
    other.close()


@pytest.mark.whole
def test_a_server_on_the_loopback_of_ipv6_is_met_there(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with Serving(tmp_path, "--host", "::1") as serving:
        wire = Wire(socket.create_connection(("::1", serving.port), TIMEOUT_SECONDS))
        wire.say("SEND", b"x", destination="/queue/six", receipt="1")
        assert wire.hear().command == "RECEIPT"
        wire.close()
