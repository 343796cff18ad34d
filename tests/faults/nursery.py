"""A process that has the shim and our modules loaded, and forks for every run.

    with Nursery(library) as nursery:
        number = nursery.start(Job(...))
        assert nursery.wait(number) == 0

As a program (`python -m tests.faults.nursery`) it is the other end: a JSON line in, a JSON line out.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults.shim import Fault
from tests.support.project import PYTHONPATH, REPOSITORY

TIMEOUT_SECONDS = 60.0
_PROGRAMS = "tests.faults.programs"
_LATE = (
    "oms_journal.cli.main",
    "oms_journal.cli.broker.serve",
    "oms_journal.broker.server.server",
    "oms_journal.broker.server.stomp.listener",
    "oms_journal.broker.drivers.open",
    "uvicorn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: a program of `programs`, where it works, and what is to fail."""

    program: str
    directory: str
    place: str  # where its output, its errors and its trace go
    fault: Fault = field(default_factory=Fault)
    arguments: tuple[str, ...] = ()

    def path(self, name: str) -> Path:
        return Path(self.place) / name


class Nursery:
    """The process, from here."""

    def __init__(self, library: Path) -> None:
        environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": PYTHONPATH}
        environment |= {"PYTHONFAULTHANDLER": "1", "PYTHONWARNINGS": "default"}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=REPOSITORY,
            text=True,
            process_group=0,  # Ctrl-C is for whoever asks, which ends after the run that it is at
        )

    def _ask(self, question: dict[str, Any]) -> int:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        return int(json.loads(self._child.stdout.readline()))

    def start(self, job: Job) -> int:
        """Begin a run; return its process id."""
        return self._ask({"start": asdict(job)})

    def wait(self, number: int, seconds: float = TIMEOUT_SECONDS) -> int | None:
        """Return the exit code of a run, negative for a signal; None for one that had to be killed since it hung."""
        code = self._ask({"wait": number, "seconds": seconds})
        return None if code == _HUNG else code

    def run(self, job: Job) -> int | None:
        return self.wait(self.start(job))

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(TIMEOUT_SECONDS)
        self._child.stdout.close()


_HUNG = 1 << 20


def _main() -> None:
    for name in (_PROGRAMS, *_LATE):
        import_module(name)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), suppress(SystemExit):  # noqa: PTH123
        import_module("oms_journal.cli.main").app(
            ["verify", "--help"]
        )  # what a command line imports before it does anything
    gc.freeze()  # or every child would copy every page to count what is in it
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            wanted = question["start"]
            job = Job(**wanted | {"fault": Fault(**wanted["fault"]), "arguments": tuple(wanted["arguments"])})
            answer = os.fork()
            if not answer:
                _become(job)
                return
        else:
            answer = _waited(question["wait"], question["seconds"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _become(job: Job) -> None:
    """Be the run, in the child: its end is the interpreter's own, threads and all."""
    os.closerange(3, 64)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, name in ((1, "out"), (2, "err")):
        descriptor = os.open(job.path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.dup2(nothing, 0)
    os.close(nothing)
    programs = import_module(_PROGRAMS)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the interpreter's own
    getattr(programs, job.program)(job)


def _waited(number: int, seconds: float) -> int:
    descriptor = os.pidfd_open(number)
    try:
        is_hung = not select.select([descriptor], [], [], seconds)[0]
    finally:
        os.close(descriptor)
    if is_hung:
        os.kill(number, signal.SIGABRT)  # the fault handler says where it hangs
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    return _HUNG if is_hung else code


if __name__ == "__main__":
    _main()
