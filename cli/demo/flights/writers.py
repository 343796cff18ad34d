"""The other end of the writer's pipe: writers that are started and killed, and what is known from their reports."""

import os
import pickle
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import oms_journal
from oms_journal.cli.demo.flights.table import Flights
from oms_journal.cli.demo.flights.writer import RECORD, Beginning, Report
from oms_journal.cli.failures import ExitCode, Failure

READ_BYTES = 4096 * RECORD.size
ROOT = Path(oms_journal.__file__).parent.parent  # never the folder that holds the package's own folders


class Heard:
    """What all writers together have reported. `begun` and `durable` count commits, by carrier."""

    def __init__(self, flights: Flights) -> None:
        self._flights = flights
        self.begun = [0] * len(flights.carriers)
        self.durable = [0] * len(flights.carriers)
        self.numbers = array("Q", bytes(8 * len(flights)))  # of messages, by row; 0 is none yet
        self.contradictions: list[int] = []  # rows whose message came again under another number
        self.commits = 0
        self.operations = 0

    def take(self, reports: bytes) -> None:
        """Take in records as a writer has sent them."""
        for what, place, index, first in RECORD.iter_unpack(reports):
            if what == Report.BEGUN:
                self.begun[place] = index + 1
                continue
            carrier = self._flights.carriers[place]
            for number, row in enumerate(carrier.commit(index).adds, start=first):
                if self.numbers[row] not in (0, number):
                    self.contradictions.append(row)
                self.numbers[row] = number
            self.durable[place] = index + 1
            self.commits += 1
            self.operations += carrier.operations(index + 1) - carrier.operations(index)

    def under_way(self) -> list[int]:
        """Return the places of the carriers whose last commit was begun and never acknowledged."""
        return [place for place, count in enumerate(self.begun) if count > self.durable[place]]

    def beginning(self, spool: Path, retained: Path) -> Beginning:
        """Return where the next writer begins: with what was not acknowledged."""
        rows = (
            row
            for carrier, count in zip(self._flights.carriers, self.durable, strict=True)
            for row in carrier.undelivered(count)
        )
        numbers = {row: self.numbers[row] for row in rows}
        return Beginning(str(spool), str(retained), self._flights, list(self.durable), numbers)


class Attempt:
    """One writer, from its start to its end. It starts at once, and waits to be told where to begin."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "oms_journal.cli.demo.flights.writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the parent, which then ends the writer
        )
        self.pid = self._child.pid
        self._rest = b""  # the beginning of a record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it was never told
                pipe.close()

    def begin(self, beginning: Beginning) -> None:
        """Tell the writer where to begin."""
        assert self._child.stdin is not None
        try:
            pickle.dump(beginning, self._child.stdin, pickle.HIGHEST_PROTOCOL)
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self.failure() from None

    def reports(self) -> Iterator[bytes]:
        """Yield whole records as they come, until the writer ends."""
        assert self._child.stdout is not None
        while data := os.read(self._child.stdout.fileno(), READ_BYTES):
            data = self._rest + data
            end = len(data) - len(data) % RECORD.size
            self._rest = data[end:]
            yield data[:end]

    def kill(self) -> None:
        """End the writer with SIGKILL, whatever it is doing."""
        self._child.kill()
        self._child.wait()

    def finish(self) -> None:
        """Let the writer close its database and end; Failure when it does not end well."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        if self._child.wait() != 0:
            raise self.failure()

    def failure(self) -> Failure:
        """Return why the writer has ended by itself."""
        assert self._child.stderr is not None
        self._child.wait()
        lines = self._child.stderr.read().decode(errors="replace").splitlines()
        reason = lines[-1].removeprefix("oms: ") if lines else f"it ended with exit code {self._child.returncode}"
        return Failure(f"the demo's writer failed: {reason}", ExitCode.UNUSABLE)
