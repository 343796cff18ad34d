"""What a foreign suite is, and how one is run: its project, its version, and the commands that run its tests."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

SECONDS_MAX = 1200  # of one run: the longest takes a third of it


class Outcome(Enum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


Outcomes = Mapping[str, Outcome]  # by the name of the test


class BrokenOff(Exception):
    """A run has not come to its end: why."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a suite's tests against a server of its own; `name` is "" where the suite has one run only."""

    command: Sequence[str]
    results: str  # the file, below the checkout's copy, that the command writes its results in
    read: Callable[[str], Outcomes]  # what is in that file
    name: str = ""
    has_users: bool = False  # whether the server asks who it is: admin, with the password "password"
    is_expired: bool = False  # whether the server's certificate is
    host: str = "127.0.0.1"
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The suite of a client."""

    name: str  # of the folder too
    project: str  # on GitHub
    version: str
    commit: str
    version_file: str  # that tells the version of a checkout
    version_pattern: str  # and how
    missing: Callable[[], str]  # what the machine has not, and what to do; "" for nothing
    prepare: Callable[[Path], None]  # its copy, while there still is a network
    runs: tuple[Run, ...]
    left_out: Callable[[], str] = lambda: ""  # why it cannot be asked for on this machine; "" where it can


def run(run: Run, copy: Path, variables: Mapping[str, str], log: Path) -> Outcomes:
    """Run the tests in the copy of a checkout; return what became of each. BrokenOff."""
    results = copy / run.results
    with log.open("ab") as output:
        child = subprocess.Popen(
            run.command,
            cwd=copy,
            env=_environment() | dict(variables) | dict(run.variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            child.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise BrokenOff(f"it was not at its end after {SECONDS_MAX} seconds") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    try:
        return run.read(results.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise BrokenOff(f"it left no results (exit code {child.returncode}): {failure}") from failure


def _environment() -> dict[str, str]:
    """Return the environment without what would lead a suite to our own packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "STOMP"))}
