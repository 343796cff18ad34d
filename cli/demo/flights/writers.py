"""The other end of the writer's pipe: writers that are started and killed, and what is known from their reports."""

import os
import pickle
from array import array
from collections.abc import Iterator
from pathlib import Path

from oms_journal.cli.demo.children import Child
from oms_journal.cli.demo.flights.table import Flights
from oms_journal.cli.demo.flights.writer import RECORD, Beginning, Report

READ_BYTES = 4096 * RECORD.size


class WriterReports:
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


class Attempt(Child):
    """One writer, from its start to its end. It starts at once, and waits to be told where to begin."""

    def __init__(self) -> None:
        super().__init__("oms_journal.cli.demo.flights.writer", "the demo's writer")
        self._rest = b""  # the beginning of a record

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

    def finish(self) -> None:
        """Let the writer close its database and end; Failure when it does not end well."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self.check()
