"""Runs `oms` for tests: inside this process, or as a process of its own where that matters."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing
from typer.testing import CliRunner, Result

from oms_journal.cli.main import app
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.warm_starts import run

# It would make the table of all commands anew for each that is run.
testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]

_VARIABLES: Mapping[str, str | None] = {
    "SPOOL_DIRECTORY": None,
    "OMS_BROKER": None,
    "MAX_DATA_FILE_SIZE": MODEST,
    "MAX_MESSAGE_SIZE": None,
    "MSG_CLEANUP_INTERVAL": None,
    "RETENTION_DIRECTORY": None,
}


def oms(*arguments: str, spool: Path | None = None, stdin: bytes | None = None, code: int = 0) -> Result:
    """Run the command in this process and check its exit code."""
    result = invoked(*arguments, stdin=stdin, variables={"SPOOL_DIRECTORY": None if spool is None else str(spool)})
    assert result.exit_code == code, f"exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
    return result


def invoked(*arguments: str, stdin: bytes | None = None, variables: Mapping[str, str | None]) -> Result:
    """Run the command in this process, whatever comes of it."""
    return CliRunner().invoke(app, list(arguments), input=stdin, env={**_VARIABLES, **variables}, prog_name="oms")


def oms_json(*arguments: str, spool: Path, code: int = 0) -> Any:
    """Run the command with --json and return its one document."""
    return json.loads(oms(*arguments, "--json", spool=spool, code=code).stdout)


def oms_lines(*arguments: str, spool: Path, code: int = 0) -> list[dict[str, Any]]:
    """Run the command with --json and return its NDJSON lines."""
    return [json.loads(line) for line in oms(*arguments, "--json", spool=spool, code=code).stdout.splitlines()]


def command_line(*arguments: str) -> list[str]:
    """Return how `oms` is started as a process."""
    return [sys.executable, "-m", "oms_journal.cli", *arguments]


def environment(spool: Path | None = None) -> dict[str, str]:
    """Return the environment for such a process."""
    ours = {**_VARIABLES, "PYTHONPATH": PYTHONPATH, "SPOOL_DIRECTORY": None if spool is None else str(spool)}
    return {name: value for name, value in {**os.environ, **ours}.items() if value is not None}


def oms_process(
    *arguments: str,
    spool: Path | None = None,
    stdin: bytes | None = None,
    terminal: int | None = None,
    variables: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run `oms` as a process of its own; `terminal` is the descriptor of one for its standard input."""
    source = subprocess.DEVNULL if terminal is None else terminal
    return run(
        command_line(*arguments),
        stdin=source,
        given=stdin,
        env=environment(spool) | (variables or {}),
        timeout=60,
    )


def run_program(program: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a text of Python as a process of its own that finds our packages."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
