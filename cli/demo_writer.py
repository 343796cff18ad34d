"""The writer of `oms demo`, a process of its own: commits what the table says, and reports every durable commit.

It is told on standard input where to begin, and says on standard output, in records of a fixed
size, which commit it begins and which is durable. Every carrier is a task that has one commit under
way; the tasks share syncs. It ends when its standard input does.
"""

import asyncio
import json
import os
import signal
import struct
import sys
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from cli.demo_flights import Carrier, Flights, load
from database import AsyncMessageDatabase, NotUndelivered

RECORD = struct.Struct("<BBIQ")  # what, carrier, commit, number of the commit's first message


class Told(IntEnum):
    """What a record says of a commit."""

    BEGUN = 0
    DURABLE = 1  # and acknowledged by this record
    KNOWN = 2  # it was durable already: a resend that found the first


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a writer begins."""

    spool: str
    durable: dict[str, int]  # carrier → how many of its commits were acknowledged
    numbers: dict[int, int] = field(default_factory=dict)  # row → number, of messages still to be removed

    def encode(self) -> bytes:
        return json.dumps([self.spool, self.durable, list(self.numbers.items())]).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Beginning":
        spool, durable, numbers = json.loads(line)
        return cls(spool, durable, {row: number for row, number in numbers})


class Writer:
    """The tasks' common ground."""

    def __init__(self, db: AsyncMessageDatabase, flights: Flights, numbers: dict[int, int]) -> None:
        self._db = db
        self._flights = flights
        self._numbers = numbers

    async def run(self, place: int, carrier: Carrier, begin: int) -> None:
        """Commit one carrier's events from a commit on; the first one may be a resend."""
        for index in range(begin, len(carrier)):
            _tell(Told.BEGUN, place, index, 0)
            answer, first = await self._commit(carrier, index)
            assert answer is Told.DURABLE or index == begin, "only the first can be a resend"
            _tell(answer, place, index, first)

    async def _commit(self, carrier: Carrier, index: int) -> tuple[Told, int]:
        commit = carrier.commit(index)
        block = self._db.commit(producer_id=f"{carrier.name} {index}")
        try:
            async with block as operations:
                for row in commit.adds:
                    payload, properties = self._flights.payload(row), self._flights.properties(row)
                    operations.add(carrier.name, payload, properties=properties)
                for row in commit.delivers:
                    operations.deliver(self._numbers.pop(row))
                for row in commit.deletes:
                    operations.delete(self._numbers.pop(row))
        except NotUndelivered:
            return Told.KNOWN, 0
        self._numbers.update(zip(commit.adds, operations.numbers, strict=True))
        return Told.DURABLE, operations.numbers.start


def _tell(told: Told, place: int, index: int, first: int) -> None:
    os.write(1, RECORD.pack(told, place, index, first))


async def _write(flights: Flights, beginning: Beginning) -> None:
    async with AsyncMessageDatabase.open(beginning.spool, cleanup_interval=0) as db:
        writer = Writer(db, flights, beginning.numbers)
        async with asyncio.TaskGroup() as tasks:
            for place, carrier in enumerate(flights.carriers):
                tasks.create_task(writer.run(place, carrier, beginning.durable[carrier.name]))


def main():
    flights = load(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    import time
    t=time.perf_counter()
    asyncio.run(_write(flights, Beginning(sys.argv[2], {c.name: 0 for c in flights.carriers})))
    print(time.perf_counter()-t, file=sys.stderr)
if __name__ == "__main__": main()
