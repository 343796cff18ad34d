"""What the README says of the broker over HTTP runs as it stands: the server, curl, Python, and `oms`."""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_runner import environment
from tests.support.project import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SERVER = README.split("## The broker as a server\n")[1].split("\n## ")[0]
OVER_HTTP = SERVER.split("### Over HTTP\n")[1].split("\n### ")[0]
FROM_PYTHON = SERVER.split("### From Python\n")[1].split("\n### ")[0]
ALONE = ["unshare", "--map-root-user", "--net"]  # with ports of its own
PLAY = """
ip link set lo up 2>/dev/null
{serve} > listening &
server=$!
for _ in $(seq 900); do grep -q HTTP listening && break; sleep 0.1; done
{commands}
kill $server; wait $server
"""


def blocks(section: str, kind: str) -> list[str]:
    return re.findall(f"```{kind}\n(.*?)```", section, re.DOTALL)


def played(directory: Path, commands: str, program: str) -> list[str]:
    """Return what the commands print, one after the other, beside the server that the README starts."""
    assert "python program.py" in commands
    (serve,) = re.findall(r"^\$ (oms serve .*)$", SERVER.split("```")[1], re.MULTILINE)
    for name, call in (("oms", "-m oms_journal.cli"), ("python", "")):
        (directory / name).write_text(f'#!/bin/sh\nexec {sys.executable} {call} "$@"\n')
        (directory / name).chmod(0o755)
    alone = list(ALONE)
    tried = ["sh", "-c", " ".join([*ALONE, "ip link"])]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        alone = []
        ports = _free_ports()
        commands, program = (text.replace(":1971", f":{ports[0]}") for text in (commands, program))
        serve += f" --http-port {ports[0]} --stomp-port {ports[1]}"
    (directory / "program.py").write_text(program)
    variables = environment()
    variables["PATH"] = f"{directory}:{variables['PATH']}"
    shell = [*alone, "bash", "-c", PLAY.format(serve=serve, commands=commands)]
    done = subprocess.run(shell, cwd=directory, env=variables, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _free_ports() -> list[int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return [one.getsockname()[1], two.getsockname()[1]]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_what_a_newcomer_pastes_sends_and_receives(tmp_path: Path) -> None:
    curls = "".join(blocks(OVER_HTTP, "sh"))
    (program,) = blocks(FROM_PYTHON, "python")
    (shell,) = blocks(FROM_PYTHON, "sh")
    pasted = re.sub(r"(?<=/aci)$", " -w '\\\\n'", curls, flags=re.MULTILINE)  # each answer on a line of its own

    lines = played(tmp_path, f"{pasted}\npython program.py\n{shell}", program)

    said = [json.loads(line) for line in lines if line.startswith("{")]
    assert [answer["error_code"] for answer in said] == ["00000000"] * 6
    assert [answer.get("uow_status", "") for answer in said] == ["", "ACCEPTED", "", "", "RECV_ONLY", "PROCESSED"]
    assert said[4]["body_text"] == "e4" and said[4]["client_uid"] == "ALICE"
    program_said, uowid, move = lines[len(said) :]
    assert program_said == "b'd4' ALICE" and re.fullmatch("[0-9A-F]{16}", uowid) and move == "Nf3"
