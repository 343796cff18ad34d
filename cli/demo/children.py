"""Processes that a command starts and kills: one of our modules each, spoken to in lines of JSON."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import oms_journal
from oms_journal.cli.failures import ExitCode, Failure, meaning, tell
from oms_journal.journal.errors import JournalError

ROOT = Path(oms_journal.__file__).parent.parent  # never the folder that holds the package's own folders


class Child:
    """A process of `python -m module`, from its start to its end; leaving the block ends it.

    It starts at once, and is told by `tell` what to do: so it can be started ahead. What it prints are lines of
    JSON; what it prints on standard error is why it failed. `what` it is a failure of it says: "a player".
    """

    def __init__(self, module: str, what: str, *arguments: str) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the parent, which then ends its children
        )
        self.what = what
        self.pid = self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was never told
                    pipe.close()

    def tell(self, what: Mapping[str, Any]) -> None:
        """Send the process one line; nothing when it has ended."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(what).encode() + b"\n")
            self._child.stdin.flush()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what it prints as it comes, until it ends; a line that a kill has cut short is left out."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.endswith(b"\n"):
                yield json.loads(line)

    def kill(self) -> None:
        """End it with SIGKILL, whatever it is doing."""
        self._child.kill()
        self._child.wait()

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL has ended it; waits for its end."""
        return self._child.wait() == -signal.SIGKILL

    def check(self) -> None:
        """Wait for its end; Failure when it has not ended well."""
        if self._child.wait() != 0:
            raise self.failure()

    def failure(self) -> Failure:
        """Return why it has ended by itself, in its own words."""
        assert self._child.stderr is not None
        code = self._child.wait()
        lines = self._child.stderr.read().decode(errors="replace").splitlines()
        reason = lines[-1].removeprefix("oms: ") if lines else f"it ended with exit code {code}"
        kept = ExitCode.LOCKED if code == ExitCode.LOCKED else ExitCode.UNUSABLE
        return Failure(f"{self.what} failed: {reason}", kept)


def work(job: Callable[[], None]) -> None:
    """Do the job of a child; why it fails is its last line on standard error. To be called in the child."""
    try:
        job()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)  # nobody listens any more
    except Failure as failure:
        ended = failure
    except (JournalError, OSError) as failure:
        ended = meaning(failure)
    else:
        return
    tell(ended, as_json=False)
    sys.exit(ended.code)


def report(what: Mapping[str, Any]) -> None:
    """Print one line for the parent, at once. To be called in the child."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def heard() -> dict[str, Any] | None:
    """Return the line that the parent has sent; None when it never will. To be called in the child."""
    line = sys.stdin.readline()
    return json.loads(line) if line.endswith("\n") else None
