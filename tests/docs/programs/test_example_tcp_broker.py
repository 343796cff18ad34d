"""The example of a broker over TCP: three workers, one of them killed, and one message that nobody can work on."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.project import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "tcp_broker.py"
TIMEOUT_SECONDS = 60

WORKER = """
import socket, sys, time
lines = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rw")
def ask(line):
    print(line, file=lines, flush=True)
    return lines.readline().rstrip()
while (answer := ask("TAKE jobs 2 30")) != "NONE":
    _, number, attempts, text = answer.split(" ", 3)
    print(text, flush=True)
    if text == "hang" and attempts == "0":
        time.sleep(600)
    print(ask(f"NACK {number} 0.05 cannot" if text == "bad" else f"ACK {number}"), flush=True)
"""


@contextmanager
def broker(directory: Path) -> Iterator[int]:
    """Start the broker, and yield its port; it is told to stop, and has to."""
    command = [sys.executable, str(EXAMPLE), str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            ready = re.fullmatch(r"ready at port (\d+)\n", started.stdout.readline())
            assert ready is not None
            yield int(ready[1])
        finally:
            started.send_signal(signal.SIGTERM)
            assert started.wait(TIMEOUT_SECONDS) == 0


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self._lines = self.socket.makefile("rw")

    def ask(self, line: str) -> str:
        print(line, file=self._lines, flush=True)
        return self._lines.readline().rstrip("\n")

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def worker(port: int) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", WORKER, str(port)], stdout=subprocess.PIPE, text=True)


@pytest.mark.whole
def test_three_workers_one_of_them_killed_do_every_job_and_what_nobody_can_do_is_put_aside(tmp_path: Path) -> None:
    with broker(tmp_path) as port, closing(Client(port)) as client:
        assert client.ask("PUT jobs 0 hang").startswith("OK ")
        hanging = worker(port)
        assert hanging.stdout is not None and hanging.stdout.readline() == "hang\n"
        for each in range(20):
            assert re.fullmatch(r"OK \d+", client.ask(f"PUT jobs {each % 3 / 10} job {each}"))
        assert client.ask("PUT jobs 0 bad").startswith("OK ")
        others = [worker(port), worker(port)]
        hanging.kill()
        said = [each.communicate(timeout=TIMEOUT_SECONDS)[0] for each in (hanging, *others)]
        assert client.ask("TAKE dead 5 5").endswith(" 3 bad")
    seen = "".join(said[1:]).splitlines()
    assert sorted(text for text in seen if text.startswith("job ")) == sorted(f"job {each}" for each in range(20))
    assert (seen.count("bad"), seen.count("hang")) == (3, 1)
    with MessageDatabase.open(tmp_path) as db:
        assert db.queues() == {"dead": 1}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with broker(tmp_path_factory.mktemp("store")) as port:
        yield port


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "such command"),
        ("TAKE jobs", "such command"),
        ("TAKE jobs soon 5", "could not convert"),
        ("TAKE jobs 0 0", "lease must be"),
        ("PUT  0 text", "1 to 255 bytes"),
        ("ACK 7", "message of yours"),
        ("NACK 7 0 why", "message of yours"),
        ("take jobs 0 5", "such command"),
    ],
)
def test_a_wrong_line_is_answered_in_words_and_the_connection_goes_on(line: str, says: str, port: int) -> None:
    with closing(Client(port)) as client:
        answer = client.ask(line)
        assert answer.startswith("NO ") and says in answer
        assert client.ask("PUT jobs 0 text").startswith("OK ")
        number = client.ask("TAKE jobs 1 30").split()[1]
        assert client.ask(f"ACK {number}") == "OK"
        assert client.ask("TAKE jobs 0.01 30") == "NONE"


@pytest.mark.whole
def test_a_message_whose_lease_is_over_cannot_be_acknowledged_by_who_had_it(tmp_path: Path) -> None:
    with broker(tmp_path) as port, closing(Client(port)) as slow, closing(Client(port)) as quick:
        number = slow.ask("PUT jobs 0 text").split()[1]
        assert slow.ask("TAKE jobs 1 0.05") == f"MSG {number} 0 text"
        assert quick.ask("TAKE jobs 5 30") == f"MSG {number} 1 text"
        assert slow.ask(f"ACK {number}").startswith(f"NO the lease on message {number} has ended")
        assert quick.ask(f"ACK {number}") == "OK"
