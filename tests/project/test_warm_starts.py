"""A process that is forked where its imports are done behaves as one that is started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import command_line, environment
from tests.support.warm_starts import Process, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is started")

SHOWS = """
import json, os, sys
said = {
    "arguments": sys.argv, "folder": os.getcwd(), "path": sys.path[0], "input": sys.stdin.read(),
    "variable": os.environ.get("OMS_BROKER"), "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
    "streams": [[each.encoding, each.errors, each.line_buffering, each.write_through, each.isatty(), each.fileno()]
                for each in (sys.stdout, sys.stderr)],
    "umask": os.umask(0), "handler": str(__import__("signal").getsignal(2)), "name": __name__,
}
print(json.dumps(said), flush=True)
print("an error", file=sys.stderr)
sys.exit(3)
"""


def _variables() -> dict[str, str]:
    return environment() | {"OMS_BROKER": "http://a"}


def test_it_has_what_a_process_has_that_is_started(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SHOWS, "a", "ü b"]

    forked = run(words, given="täxt".encode(), timeout=60, env=_variables(), cwd=tmp_path)

    started = subprocess.run(
        words, input="täxt".encode(), capture_output=True, env=_variables(), cwd=tmp_path, check=False
    )
    assert forked.returncode == started.returncode == 3
    assert forked.stdout.replace(str(tmp_path).encode(), b"") == started.stdout.replace(str(tmp_path).encode(), b"")
    assert forked.stderr == started.stderr == b"an error\n"


def test_its_imports_are_done_and_it_is_a_child_of_the_tests() -> None:
    program = "import sys; print('oms_journal.broker.server.server' in sys.modules); sys.stdin.read()"
    with Process(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(stat[1]) == os.getpid()
        assert os.getpgid(process.pid) == os.getpgid(0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_it_ends_any(number: signal.Signals) -> None:
    program = "import time; print('begun', flush=True); time.sleep(60)"
    words = [sys.executable, "-c", program]
    with Process(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, number)
        assert process.wait(60) == -number


def test_it_ends_as_an_interpreter_ends() -> None:
    def ended(program: str) -> tuple[int, bytes, bytes]:
        done = run([sys.executable, "-c", program], timeout=60, env=environment())
        return done.returncode, done.stdout, done.stderr.rstrip().rpartition(b"\n")[2]

    assert ended("print(1, end='')") == (0, b"1", b"")
    assert ended("raise SystemExit('no')") == (1, b"", b"no")
    assert ended("raise SystemExit(130)")[0] == 130
    assert ended("1 / 0") == (1, b"", b"ZeroDivisionError: division by zero")
    late = "import atexit, threading, time\natexit.register(print, 'last')\n"
    late += "threading.Thread(target=lambda: (time.sleep(0.1), print('later'))).start()\nprint('main')"
    assert ended(late)[:2] == (0, b"main\nlater\nlast\n")


def test_many_threads_start_processes_at_once() -> None:
    codes = []

    def start(code: int) -> None:
        codes.append(run([sys.executable, "-c", f"raise SystemExit({code})"], timeout=60, env=environment()).returncode)

    threads = [threading.Thread(target=start, args=(code,)) for code in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == list(range(8))


def test_what_a_fork_cannot_have_is_started() -> None:
    program = "import sys; print('oms_journal' in sys.modules)"
    asked: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    words = [sys.executable, "-c", program]
    odd: tuple[dict[str, Any], ...] = (
        {"env": environment() | {"PYTHONHASHSEED": "1"}},
        {"env": environment(), "preexec_fn": lambda: None},
        {"env": environment(), "pass_fds": (0,)},
    )
    for more in odd:
        assert Process(words, **asked, **more).communicate()[0] == "False\n"
    with Process(["sh", "-c", "exit 3"], env=environment()) as other:
        assert other.wait() == 3
    with pytest.raises(FileNotFoundError):
        Process(["no-such-program"], env=environment())


def test_a_command_that_is_forked_answers() -> None:
    done = run(command_line("--version"), timeout=60, env=environment())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"oms ")
