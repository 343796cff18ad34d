"""The writer of `oms demo`, in a process of its own: it commits what the table says, until it is killed.

On standard input it is given the table and where to begin. On standard output it reports, in records
of one size, each commit that it begins and each that is durable: that report is the acknowledgement.
Each carrier is a task with one commit under way at a time, and the tasks share syncs. The process
ends when it has nothing more to do and its standard input is closed.
"""

import asyncio
import os
import pickle
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from oms_journal.cli.demo.children import work
from oms_journal.cli.demo.flights.table import Carrier, Flights
from oms_journal.database.asynchronous import AsyncMessageDatabase
from oms_journal.database.options import Options
from oms_journal.journal.errors import NotUndelivered

RECORD = struct.Struct("<BBIQ")  # what, carrier, commit, number of the commit's first message
STANDARD_OUTPUT = 1


def options(retained: str | Path) -> Options:
    """Return how the demo opens its database: clean-up puts files aside there, when it is asked to.

    No opening moves what keeps a file, which is what the demo shows.
    """
    return Options(cleanup_interval=0, compact_share=0.0, retention_directory=Path(retained))


class Report(IntEnum):
    """What a record says of a commit."""

    BEGUN = 0
    DURABLE = 1


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a writer begins."""

    spool: str
    retained: str
    flights: Flights
    durable: list[int]  # by carrier, how many of its commits were acknowledged
    numbers: dict[int, int]  # by row, of the messages that are undelivered


class Writer:
    """What the tasks of all carriers share."""

    def __init__(self, db: AsyncMessageDatabase, flights: Flights, numbers: dict[int, int]) -> None:
        self._db = db
        self._flights = flights
        self._numbers = numbers

    async def run(self, place: int, begin: int) -> None:
        """Commit one carrier's events. The first commit may be a resend: an earlier writer may have made it."""
        carrier = self._flights.carriers[place]
        durable = b""
        for index in range(begin, len(carrier)):
            os.write(STANDARD_OUTPUT, durable + RECORD.pack(Report.BEGUN, place, index, 0))
            try:
                first = await self._commit(carrier, index)
            except NotUndelivered:
                if index > begin or carrier.commit(index).adds:
                    raise
                first = 0  # it only removed messages, and they are gone: it was made
            durable = RECORD.pack(Report.DURABLE, place, index, first)
        os.write(STANDARD_OUTPUT, durable)

    async def _commit(self, carrier: Carrier, index: int) -> int:
        """Make one commit durable; return the number of its first message. Made twice it adds nothing twice."""
        commit = carrier.commit(index)
        async with self._db.commit(producer_id=f"{carrier.name}-{index}") as operations:
            for row in commit.adds:
                properties = self._flights.properties(row)
                operations.add(carrier.name, self._flights.payload(row), properties=properties)
            for row in commit.delivers:
                operations.deliver(self._numbers.pop(row))
            for row in commit.deletes:
                operations.delete(self._numbers.pop(row))
        self._numbers.update(zip(commit.adds, operations.numbers, strict=True))
        return operations.numbers.start


async def _write(beginning: Beginning) -> None:
    async with AsyncMessageDatabase.open(beginning.spool, options=options(beginning.retained)) as db:
        writer = Writer(db, beginning.flights, beginning.numbers)
        await asyncio.gather(*(writer.run(place, begin) for place, begin in enumerate(beginning.durable)))
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Write what standard input says; nothing when it says nothing, since it was never needed."""
    with suppress(EOFError):
        work(lambda: asyncio.run(_write(pickle.load(sys.stdin.buffer))))


if __name__ == "__main__":
    main()
