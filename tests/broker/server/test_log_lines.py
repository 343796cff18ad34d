"""Every line of the log has the server's own form, whoever has something to say."""

import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal.broker.codes import BrokerError
from oms_journal.broker.destinations import parse_destination
from oms_journal.cli.broker.serve import _log_to_stderr
from tests.support.project import REPOSITORY
from tests.support.servers.stomp_server import TIMEOUT_SECONDS, Serving

NO_HTTP = (b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x00\xa5", b"GET / HTTP/1.1\r\nA\r\n\r\n")
LONG = [("x" * 65, "at most 64 bytes, this one has 65"), ("ä" * 33, "this one has 66"), ("x" * 5000, "has 5000")]


@pytest.mark.whole
def test_what_is_no_http_at_all_leaves_no_line_of_a_library(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as server:
        for said in (
            b"GARBAGE\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x00\xa5",
            b"GET / HTTP/1.1\r\nA\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", server.http_port), TIMEOUT_SECONDS) as client:
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    continue
        server.stop()
        assert {line.get("logger", "a raw line") for line in server.log} <= {"oms.server", "oms.broker", "oms.security"}


@pytest.fixture
def logging_restored() -> Iterator[None]:
    root, ours, uvicorn = logging.getLogger(), logging.getLogger("oms"), logging.getLogger("uvicorn")
    kept = [(each, each.handlers[:], each.level, each.propagate) for each in (root, ours, uvicorn)]
    yield
    logging.captureWarnings(capture=False)
    for each, handlers, level, propagates in kept:
        each.handlers[:], each.propagate = handlers, propagates
        each.setLevel(level)


@pytest.mark.usefixtures("logging_restored")
def test_a_library_that_warns_does_so_in_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    _log_to_stderr(as_json=True)
    logging.getLogger("some.library").warning("first\nsecond")
    sys.stderr.flush()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('{"time"')


def test_the_name_of_a_queue_that_is_too_long_is_refused_with_the_limit_and_its_length() -> None:
    for name, told in (
        ("x" * 65, "at most 64 bytes, this one has 65"),
        ("ä" * 33, "this one has 66"),
        ("x" * 5000, "has 5000"),
    ):
        with pytest.raises(BrokerError, match=told):
            parse_destination(f"/queue/{name}")
    with pytest.raises(BrokerError, match="a little shorter"):
        parse_destination("/queue/" + "x" * 31 + "ä" + "x" * 31)


def test_no_example_enters_a_unit_that_may_be_none() -> None:
    documents = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "broker").rglob("*.py"), *(REPOSITORY / "cli").rglob("*.py")]
    entering = ("with bob.receive_unit(", "with session.receive_unit(", "async with await bob.receive_unit(")
    found = [path.name for path in documents if any(each in path.read_text(encoding="utf-8") for each in entering)]
    assert found == []
