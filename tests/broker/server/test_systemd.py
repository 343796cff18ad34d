"""What a server tells systemd, the unit that it is run by, and what its log says to tools."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from oms_journal.broker.server.runtime import log as events
from oms_journal.broker.server.runtime.systemd import Systemd, unit_file
from tests.support.cli_runner import oms, oms_process
from tests.support.servers.stomp_server import Serving, Wire, eventually


class Told:
    """The end of the socket that systemd has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(20)

    def next(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def until(self, name: str) -> dict[str, str]:
        """Return the next that says this."""
        while name not in (found := self.next()):
            continue
        return found

    def later(self) -> list[dict[str, str]]:
        """Return what there is and comes within a while."""
        found = []
        self.socket.settimeout(0.5)
        try:
            while True:
                found.append(self.next())
        except TimeoutError:
            self.socket.settimeout(20)
            return found


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    found = Told(tmp_path / "notify")
    yield found
    found.socket.close()


def test_systemd_hears_that_it_is_ready_alive_and_stopping(tmp_path: Path, told: Told) -> None:
    variables = {"NOTIFY_SOCKET": str(told.path), "WATCHDOG_USEC": "400000"}
    with Serving(tmp_path / "spool", variables=variables) as server:
        first = told.next()
        assert first == {"STATUS": "starting"}
        ready = told.until("READY")
        assert ready["READY"] == "1" and int(ready["MAINPID"]) == server.child.pid
        assert f"STOMP 127.0.0.1:{server.port}" in ready["STATUS"]
        for _ in range(5):
            assert told.until("WATCHDOG")["WATCHDOG"] == "1"
        server.stop()
        stopping = told.until("STOPPING")
        assert stopping == {"STOPPING": "1", "STATUS": "stopping: SIGTERM"}
        assert told.until("STATUS")["STATUS"] == "stopped"


@pytest.mark.whole
def test_a_process_that_stands_still_says_nothing_any_more(tmp_path: Path, told: Told) -> None:
    variables = {"NOTIFY_SOCKET": str(told.path), "WATCHDOG_USEC": "200000"}
    with Serving(tmp_path / "spool", variables=variables) as server:
        told.until("READY")
        told.until("WATCHDOG")
        server.child.send_signal(signal.SIGSTOP)
        os.waitpid(server.child.pid, os.WUNTRACED)
        told.later()
        assert told.later() == []
        server.child.send_signal(signal.SIGCONT)
        told.until("WATCHDOG")


@pytest.mark.whole
def test_a_start_that_is_refused_never_says_ready(tmp_path: Path, told: Told) -> None:
    with Serving(tmp_path / "spool"):
        done = oms_process(
            *("serve", "--spool", str(tmp_path / "spool"), "--stomp-port", "0", "--http-port", "0"),
            variables={"NOTIFY_SOCKET": str(told.path)},
        )
    assert done.returncode == 3
    assert not any("READY" in each for each in told.later())


def test_a_long_start_asks_for_more_time_until_it_is_ready(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.broker.server.runtime.systemd.STARTING_SECONDS", 0.01)

    async def start() -> None:
        async with Systemd({"NOTIFY_SOCKET": str(told.path)}) as systemd:
            for _ in range(3):
                while "EXTEND_TIMEOUT_USEC" not in told.next():
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.02)
            systemd.ready("listening\nfor STOMP")

    asyncio.run(start())
    last = told.later()
    assert {"READY": "1", "STATUS": "listening for STOMP", "MAINPID": str(os.getpid())} in last
    assert "EXTEND_TIMEOUT_USEC" not in last[-1]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "vsock:2:1234"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "soon"},
    ],
    ids=str,
)
def test_where_nobody_listens_nothing_is_missed(environ: dict[str, str]) -> None:
    async def run() -> None:
        async with Systemd(environ) as systemd:
            systemd.ready("listening")
            await asyncio.sleep(0.01)
            systemd.stopping("asked to")

    asyncio.run(run())


def test_a_name_that_is_in_no_file_system_is_heard_too() -> None:
    name = f"oms-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind("\0" + name)
        ours.settimeout(20)
        Systemd({"NOTIFY_SOCKET": "@" + name}).tell(STATUS="x")
        assert ours.recv(100) == b"STATUS=x"


def test_a_watchdog_of_another_process_is_not_fed(told: Told) -> None:
    async def run() -> None:
        environ = {"NOTIFY_SOCKET": str(told.path), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
        async with Systemd(environ) as systemd:
            systemd.ready("listening")
            await asyncio.sleep(0.05)

    asyncio.run(run())
    assert not any("WATCHDOG" in each for each in told.later())


# The unit.


@pytest.mark.whole
def test_the_unit_is_for_the_server_as_it_was_called(tmp_path: Path) -> None:
    file = tmp_path / "oms attributes"
    file.write_text("")
    text = oms_process(
        "serve", str(file), "--spool", str(tmp_path / "50%"), "--stomp-port", "7", "--systemd-unit"
    ).stdout
    lines = text.decode().splitlines()

    spool = str(tmp_path / "50%%")
    expected = f'serve "{file}" --spool "{spool}" --stomp-port 7 --json'
    (started,) = [line for line in lines if line.startswith("ExecStart=")]
    assert started.endswith(expected) and started.startswith(f"ExecStart={sys.executable} -m oms_journal.cli ")
    assert f'ReadWritePaths="{spool}"' in lines
    assert {"Type=notify", "WatchdogSec=30", "UMask=0077", "NoNewPrivileges=yes", "StateDirectoryMode=0700"} <= set(
        lines
    )
    plain = oms("serve", "--systemd-unit").stdout
    assert "--spool /var/lib/oms/store" in plain and "ReadWritePaths" not in plain
    assert not (tmp_path / "50%").exists()


def test_a_command_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="unit file"):
        unit_file(["oms", "serve", "a\nExecStart=/bin/sh"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_understands_the_unit_and_finds_it_safe(tmp_path: Path) -> None:
    program = tmp_path / "oms"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "oms.service"
    unit.write_text(unit_file([str(program), "serve", "--spool", "/srv/it's 100%"]).replace("oms\nGroup=oms", "root"))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    ours = [line for line in verified.stderr.splitlines() if "oms.service" in line]
    assert ours == [] and "Unknown" not in verified.stderr, verified.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    exposure = re.search(r"Overall exposure level[^:]*: ([0-9.]+)", rated.stdout)
    if exposure is not None:  # older ones cannot say it offline
        assert float(exposure[1]) < 4.0, rated.stdout


# The log.


@pytest.mark.whole
def test_every_line_of_the_log_has_its_fields_and_every_event_is_one_that_is_told_of(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as server:
        stranger = Wire(server.port)
        stranger.say("SEND", destination="nowhere")
        stranger.error()
        eventually(lambda: any(entry["event"] == "connection" for entry in server.log))
    log = server.log

    assert all({"time", "level", "logger", "event", "text"} <= set(entry) for entry in log)
    assert {entry["event"] for entry in log} <= events.EVENTS
    by_event = {entry["event"]: entry for entry in log}
    assert [name for name in ("listening", "stopping", "stopped") if name not in by_event] == []
    assert f"STOMP 127.0.0.1:{server.port}" in by_event["listening"]["addresses"]
    assert by_event["stopping"]["why"] == "SIGTERM"
    assert isinstance(by_event["stopped"]["connections"], int) and isinstance(by_event["stopped"]["seconds"], float)
    assert by_event["connection"]["user"] == "ANONYMOUS"


def test_the_fields_of_each_event_are_those_in_its_table(tmp_path: Path) -> None:
    lines = takewhile(str.strip, (events.__doc__ or "").splitlines()[3:])
    table = {line.split()[0]: line[17:45].strip() for line in lines}

    assert set(table) == events.EVENTS
    assert {name: fields.replace(",", "").split() for name, fields in table.items() if fields != "-"} == {
        "listening": ["addresses", "seconds"],
        "standby": ["addresses"],
        "stopping": ["why"],
        "stopped": ["connections", "seconds"],
        "connection": ["connection", "user"],
        "login_refused": ["user", "peer"],
        "login_limited": ["user", "peer"],
        "users_read": ["users", "changed"],
        "insecure": ["host"],
        "exhausted": ["reason"],
        "attributes": ["warnings", "differences"],
        "held": ["uows", "publications"],
        "wide": ["path", "mode"],
    }
