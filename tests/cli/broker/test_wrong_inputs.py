"""Whatever the commands of a broker are told wrongly, they say in words for people, with the exit code of its kind."""

import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.cli_runner import command_line, environment, invoked
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.guarded_server import Files, set_users
from tests.support.servers.stomp_server import Serving
from tests.support.servers.wrong_at_broker import ASKING, COMMANDS
from tests.support.sweeps import a_sample
from tests.support.warm_starts import Process
from tests.support.wrong_inputs import Command, faults_of

VARIABLES = ("OMS_BROKER", "OMS_USER", "OMS_PASSWORD", "OMS_CA_FILE", "ETB_ATTR", "SPOOL_DIRECTORY")


class _Page(BaseHTTPRequestHandler):
    """A web server that is no broker."""

    content = b"<html>Welcome</html>"

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    do_GET = do_POST = _answer  # noqa: N815 - the names are the library's

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Json(_Page):
    content = b'{"status": "fine"}'


def _hang_up(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield where there is a broker, and where there is something else."""
    home = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        for name in ("guarded", "tls"):
            (home / name).mkdir()
        plain = stack.enter_context(Serving(home / "open"))
        guarded = stack.enter_context(Files(home / "guarded", has_tls=False).serve())
        secured = Files(home / "tls")
        tls = stack.enter_context(secured.serve())
        found = {}
        for name, handler in (("page", _Page), ("other_json", _Json)):
            web = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=web.serve_forever, daemon=True).start()
            stack.callback(web.shutdown)
            found[name] = f"http://127.0.0.1:{web.server_port}"
        listener = socket.create_server(("127.0.0.1", 0))
        hanging = threading.Thread(target=_hang_up, args=(listener,), daemon=True)
        hanging.start()
        with socket.create_server(("127.0.0.1", 0)) as gone:
            closed = gone.getsockname()[1]
        yield found | {
            "open": f"http://127.0.0.1:{plain.http_port}",
            "as_tls": f"https://127.0.0.1:{plain.http_port}",
            "stomp": f"http://127.0.0.1:{plain.port}",
            "guarded": f"http://127.0.0.1:{guarded.http_port}",
            "tls": f"https://127.0.0.1:{tls.http_port}",
            "as_plain": f"http://127.0.0.1:{tls.http_port}",
            "hangs_up": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "closed": f"http://127.0.0.1:{closed}",
        }
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        hanging.join(TIMEOUT_SECONDS)


@pytest.fixture
def places(servers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what a row may name; the working directory is another one."""
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    found = {name: tmp_path / name for name in ("none", "empty", "file", "binary", "other", "users")}
    found["empty"].mkdir()
    found["other"].mkdir()
    (found["other"] / "notes.txt").write_text("not ours")
    found["file"].write_text("one,two\nthree\nfour five six\n")
    found["file"].chmod(0o644)
    found["binary"].write_bytes(b"\xff\xfe\x00\x80")
    found["binary"].chmod(0o600)
    set_users(found["users"])
    return servers | {name: str(path) for name, path in found.items()}


@a_sample(24)
@pytest.mark.parametrize("row", COMMANDS, ids=str)
def test_a_wrong_command_line_of_a_broker_is_refused_in_words_for_people(row: Command, places: dict[str, str]) -> None:
    above = Path(places["none"]).parent
    before = {path: path.stat().st_mtime_ns for path in above.rglob("*")}
    variables = {name: value.format(**places) for name, value in row.variables.items()}

    words = [word.format(**places) for word in row.line]
    result = invoked(*words, stdin=row.stdin, variables={"COLUMNS": "80", **variables})

    named = tuple(text.format(**places) for text in row.named)
    assert result.exit_code == row.code, f"{result.stdout}\n{result.stderr}"
    assert result.stdout == ""
    assert all(line.startswith("oms: ") for line in result.stderr.splitlines()), result.stderr
    assert faults_of(result.stderr, named) == [], result.stderr
    assert {path: path.stat().st_mtime_ns for path in above.rglob("*")} == before, "what is refused changes nothing"


@a_sample(1)
@pytest.mark.parametrize("line", ASKING)
def test_ctrl_c_ends_whoever_waits_for_a_broker_with_one_word(line: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT_SECONDS)
        words = command_line(*line.split(), "--broker", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with Process(
            words, env=environment(tmp_path), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            heard, _ = silent.accept()
            with heard:
                heard.recv(1 << 16)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=TIMEOUT_SECONDS)

    # A program that hears it while it runs the text of an exec() ends by the signal; a shell shows 130 of both.
    assert process.returncode in (130, -signal.SIGINT)
    assert said == "oms: interrupted\n"


@pytest.mark.whole
def test_the_rows_are_of_every_command_of_a_broker() -> None:
    said = {row.line[0] for row in COMMANDS}

    assert said == {"info", "cmd", "top", "send", "receive", "serve", "attributes", "chess", "user"}
    assert {row.line[1] for row in COMMANDS if row.line[0] == "user" and len(row.line) > 1} >= {
        *("add", "remove", "password", "allow", "deny", "list")
    }
    assert len(COMMANDS) >= 380
