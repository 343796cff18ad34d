"""Is a deliberate fault found by the tests nearest to it? They are run without it, where they pass, and with it.

A run is a process of pytest of its own, which ends with the first test that fails. Those nearest come first, and all
others of the room when these find nothing; then those of the nearest that run in the whole only. Without a fault a file
is run once, however many faults it is asked for; how long it took decides its turn from then on.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.planted.faults import Planted
from tests.support.project import REPOSITORY
from tests.support.sweeps import EACH_DAY, WHOLE_ONLY

TEST_SECONDS_MAX = 120  # a test that takes longer hangs, which finds a fault too
FAULT_SECONDS_MAX = 900.0  # until the tests of a fault are ended: they have not found it
LAST_SECONDS = 15.0  # for a process to end in once a test has failed
NO_TESTS = 5  # pytest's exit status where all tests of the files belong to the whole

Stages = Callable[[Planted], tuple[list[str], list[str]]]


class TestsFail(Exception):
    """Tests fail without any fault made: they can find none."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a fault."""

    test: str | None  # the first that fails with it
    text: str  # what the test failed with; why none was found
    seconds: float
    is_slip: bool = False  # the fault does not fit the product any more


@dataclass(slots=True)
class _Run:
    """What came of a process of pytest."""

    status: int | None  # None where its time was over
    output: str
    notes: list[dict[str, Any]]

    @property
    def failed(self) -> dict[str, Any] | None:
        """The note of the first test that failed, None where none did."""
        for note in self.notes:
            if "failed" in note:
                return note
        if self.status in (0, NO_TESTS, None):
            return None
        began = [
            note["began"] for note in self.notes if "began" in note
        ]  # it ended the process, as one that hangs does
        return {"failed": began[-1] if began else "", "by": f"pytest ended with status {self.status}", "slip": False}

    def seconds_of(self, file: str) -> float:
        return sum((note["seconds"] for note in self.notes if note.get("test", "").partition("::")[0] == file), 0.0)


@dataclass(slots=True)
class Search:
    """The search for faults, one after the other; it knows which files pass without any."""

    stages: Stages
    seconds_max: float = FAULT_SECONDS_MAX  # for a fault
    seconds_of: dict[tuple[str, str], float] = field(default_factory=dict)  # by marks, of each file that passes

    def find(self, fault: Planted) -> Found:
        """Return which test finds a fault. Raise TestsFail where one of those that look for it fails without it."""
        begun = time.monotonic()
        first, others = self.stages(fault)
        for marks, files in ((EACH_DAY, first), (EACH_DAY, others), (WHOLE_ONLY, first)):
            begun += self._pass_without(marks, files)
            in_turn = sorted(files, key=lambda file: self.seconds_of[marks, file])
            left = self.seconds_max - (time.monotonic() - begun)
            run = _run(in_turn, marks, fault.name, left) if files else _Run(0, "", [])
            seconds = time.monotonic() - begun
            if (note := run.failed) is not None:
                return Found(None if note["slip"] else note["failed"], note["by"], seconds, note["slip"])
            if run.status is None:
                return Found(None, f"its tests were ended after {seconds:.0f} s", seconds)
        return Found(None, "all of its room pass", time.monotonic() - begun)

    def _pass_without(self, marks: str, files: Sequence[str]) -> float:
        """Run the files that were not yet run without a fault, and return how long it took."""
        begun = time.monotonic()
        fresh = [file for file in files if (marks, file) not in self.seconds_of]
        run = _run(fresh, marks, None, FAULT_SECONDS_MAX) if fresh else _Run(0, "", [])
        if run.status not in (0, NO_TESTS):
            raise TestsFail(run.output[-2000:])
        self.seconds_of |= {(marks, file): run.seconds_of(file) for file in fresh}
        return time.monotonic() - begun


def _run(files: Sequence[str], marks: str, fault: str | None, seconds: float) -> _Run:
    """Run the tests of some files, to the first that fails."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        notes, output = folder / "notes", folder / "output"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tests.planted.plugin"]
        command += ["-m", marks, "--noted", str(notes), "--basetemp", str(folder / "t")]
        command += ["-o", f"faulthandler_timeout={TEST_SECONDS_MAX}", *(("--planted", fault) if fault else ()), *files]
        notes.touch()
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
            try:
                status = _ended(process, notes, seconds)
            finally:
                _kill(process)
        lines = notes.read_text(encoding="utf-8").splitlines()
        return _Run(status, output.read_text(encoding="utf-8", errors="replace"), [json.loads(each) for each in lines])


def _ended(process: subprocess.Popen[bytes], notes: Path, seconds: float) -> int | None:
    """Return the exit status; None where the time is over, or one that has seen a test fail does not end."""
    end = time.monotonic() + seconds
    has_failed = False
    while time.monotonic() < end:
        try:
            return process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if not has_failed and b'"failed"' in notes.read_bytes():
                has_failed, end = True, min(end, time.monotonic() + LAST_SECONDS)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill what a process has left, and itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
