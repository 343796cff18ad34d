"""A server that has no descriptor left says so once, serves on whom it has, and takes others when there are some."""

import asyncio
import shutil
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from oms_journal.broker.server.runtime.log import AGAIN_SECONDS, KINDS_MAX, LoopErrorLog
from tests.support.servers.stomp_server import Serving, Wire, eventually

DESCRIPTORS = 100

pytestmark = pytest.mark.skipif(shutil.which("prlimit") is None, reason="there is no prlimit")


@pytest.mark.whole
def test_it_says_so_in_a_line_and_goes_on(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool", within=["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]) as serving:
        before = Wire(serving.port)

        def complaints() -> list[str]:
            return [text for text in serving.texts() if "no connection can be taken: [Errno 24]" in text]

        with ExitStack() as held:
            for _ in range(2 * DESCRIPTORS):
                with suppress(OSError):
                    held.enter_context(socket.create_connection(("127.0.0.1", serving.port), 1))
            eventually(lambda: len(complaints()) > 0)
            for number in range(20):
                before.say("SEND", b"x" * 1000, destination="/queue/q", receipt=str(number))
                assert before.hear().headers["receipt-id"] == str(number), "who was there before is served on"

        def is_taken() -> bool:
            with suppress(OSError, EOFError, AssertionError):
                Wire(serving.port).close()
                return True
            return False

        eventually(is_taken)
        before.close()
        assert len(complaints()) < 5
        assert all("time" in entry for entry in serving.log), "every line is one of ours"


def test_what_is_said_again_later_says_how_often_it_was_not(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    complain, loop = LoopErrorLog(lambda: now), asyncio.new_event_loop()
    for _ in range(5):
        complain(loop, {"message": "accept", "exception": OSError(24, "Too many open files")})
    complain(loop, {"message": "another thing"})
    now = AGAIN_SECONDS
    complain(loop, {"message": "accept", "exception": OSError(24, "Too many open files")})
    loop.close()

    assert caplog.messages == [
        "no connection can be taken: [Errno 24] Too many open files; others are served on",
        "another thing",
        "no connection can be taken: [Errno 24] Too many open files (4 times since it was last said); "
        "others are served on",
    ]


def test_however_many_different_things_are_said_few_are_remembered() -> None:
    complain, loop = LoopErrorLog(lambda: 0.0), asyncio.new_event_loop()
    for number in range(10 * KINDS_MAX):
        for _ in range(2):
            complain(loop, {"message": f"thing {number}"})
    loop.close()

    assert len(complain._said) <= KINDS_MAX
    assert len(complain._kept_back) <= KINDS_MAX
