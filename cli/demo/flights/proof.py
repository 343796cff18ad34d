"""The proof of `oms demo`: what is in the spool, compared with the table and with what was acknowledged.

    compare    the undelivered messages: of every carrier those that the table says after its acknowledged
               commits, or after one more: the one that was under way, as a whole
    Reading    every operation in the data files, also in those that clean-up has put aside: they are the commits
               of the table, each whole, each once, in order, with the numbers that were acknowledged

`compare` shows what a recovery has made of the files. What was delivered is no longer there to be
seen, so that only `Reading` can tell a message that was delivered from one that was lost.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from oms_journal.cli.demo.flights.table import Flights
from oms_journal.cli.demo.flights.writers import WriterReports
from oms_journal.database.database import MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.operations import ENGINE_PREFIX
from oms_journal.journal.reading.dump import DumpedDamage, DumpedOperation, dump_files
from oms_journal.journal.reading.message import Message

FINDINGS_KEPT = 20


@dataclass(slots=True)
class Findings:
    """What is not as it should be: how often, and the first few in words."""

    count: int = 0
    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.texts) < FINDINGS_KEPT:
            self.texts.append(text)


@dataclass(slots=True)
class UnderWay:
    """What became of the commits that were under way: places of their carriers."""

    whole: list[int] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)


def compare(db: MessageDatabase, flights: Flights, heard: WriterReports, findings: Findings) -> UnderWay:
    """Compare the undelivered messages with the table."""
    queues: dict[str, list[Message]] = {carrier.name: [] for carrier in flights.carriers}
    for message in db.undelivered():
        if message.queue in queues:
            queues[message.queue].append(message)
        else:
            findings.add(f"message {message.number} is on queue {message.queue}, which is no airline's")
    comparison = _Comparison(flights, heard, findings)
    outcome = UnderWay()
    for place, carrier in enumerate(flights.carriers):
        before, after = (carrier.undelivered(counts[place]) for counts in (heard.durable, heard.begun))
        rows = comparison.rows(queues[carrier.name], {*before, *after})
        if rows not in (before, after):
            comparison.tell_difference(carrier.name, rows, before, after)
        elif heard.begun[place] > heard.durable[place]:
            (outcome.whole if rows == after else outcome.absent).append(place)
    return outcome


class _Comparison:
    """Tells which rows messages are, and what is wrong with them."""

    def __init__(self, flights: Flights, heard: WriterReports, findings: Findings) -> None:
        self._flights = flights
        self._heard = heard
        self._findings = findings

    def rows(self, messages: Iterable[Message], expected: set[int]) -> list[int]:
        """Return the rows that messages are, which have to be among the expected ones."""
        flights, findings = self._flights, self._findings
        known = {flights.payload(row): row for row in expected}
        rows = []
        for message in messages:
            row = known.get(message.payload)
            if row is None:
                what = message.properties.get("flight", "no flight")
                findings.add(f"message {message.number} of queue {message.queue} ({what}) should not be there")
                continue
            rows.append(row)
            if message.properties != flights.properties(row):
                findings.add(f"{flights.name(row)}: its message has other properties")
            number = self._heard.numbers[row]
            if not number:  # of a commit that got through unheard; a resend has to be answered with this number
                self._heard.numbers[row] = message.number
            elif number != message.number:
                findings.add(f"{flights.name(row)}: message {message.number}, acknowledged as {number}")
        return rows

    def tell_difference(self, queue: str, rows: list[int], before: list[int], after: list[int]) -> None:
        """Say how the rows that are there differ from both lists that they may be."""
        findings, found = self._findings, Counter(rows)
        missing = [row for row in before if row in after and row not in found]
        doubled = [row for row, count in found.items() if count > 1]
        for row in missing:
            findings.add(f"{self._flights.name(row)}: acknowledged, and not there")
        for row in doubled:
            findings.add(f"{self._flights.name(row)}: there {found[row]} times")
        if not missing and not doubled:
            findings.add(f"queue {queue}: a commit is there in part, or messages are out of order")


@dataclass(slots=True)
class ReadBack:
    """What was found in the data files."""

    operations: int = 0
    commits: int = 0

    def as_dict(self) -> dict[str, int]:
        return {"operations": self.operations, "commits": self.commits}


class Reading:
    """Reads data files back, oldest first, and compares every frame with the commit that comes next in its queue.

    The numbers of all messages in the files have to be known. What compaction has written again is passed over: it
    is what `compare` finds undelivered afterwards.
    """

    def __init__(self, flights: Flights, heard: WriterReports, findings: Findings) -> None:
        self._flights = flights
        self._heard = heard
        self._findings = findings
        self._places = {carrier.name: place for place, carrier in enumerate(flights.carriers)}
        self._next = [0] * len(flights.carriers)
        self._lost: set[int] = set()  # places whose queue differs: what follows there says nothing more
        self.done = ReadBack()

    def read(self, files: Iterable[Path], is_stopped: Callable[[], bool], progress: Callable[[int], None]) -> None:
        """Read the files that come next; may be stopped at any frame."""
        for _, found in groupby(dump_files(RealDisk(), files), key=_place):
            if is_stopped():
                return
            self._take(list(found))
            progress(self.done.operations)

    def end(self) -> None:
        """Say what of the table was not in the files."""
        for place, carrier in enumerate(self._flights.carriers):
            missing = len(carrier) - self._next[place]
            if missing and place not in self._lost:
                self._findings.add(f"the last {missing:,} commits of queue {carrier.name} are not in the files")

    def _take(self, frame: list[DumpedOperation | DumpedDamage]) -> None:
        """Compare one frame."""
        operations = []
        for found in frame:
            if isinstance(found, DumpedDamage):
                self._findings.add(f"{found.file}, bytes {found.start:,} to {found.end:,}: {found.reason}")
            elif found.moved:
                continue
            elif found.key is None:
                operations.append(found)
            elif not found.key.startswith(ENGINE_PREFIX):
                self._findings.add(f"key {found.key} is not the demo's")
        if not operations:
            return
        self.done.commits += 1
        self.done.operations += len(operations)
        head = operations[0]
        place = self._places.get(head.queue or "")
        if place is not None and (place in self._lost or self._is_next(place, operations)):
            self._next[place] += 1
            return
        where = f"{head.file} at byte {head.offset:,}"
        self._findings.add(f"{where}: this is not the next commit of queue {head.queue}, by the table")
        self._lost |= set() if place is None else {place}

    def _is_next(self, place: int, operations: list[DumpedOperation]) -> bool:
        carrier, index = self._flights.carriers[place], self._next[place]
        if index == len(carrier) or any(one.queue != carrier.name or one.damaged for one in operations):
            return False
        commit = carrier.commit(index)
        numbers = self._heard.numbers
        added = [(one.message, one.payload, one.properties) for one in operations if one.operation == "ADD"]
        wanted = [(numbers[row], self._flights.payload(row), self._flights.properties(row)) for row in commit.adds]
        return (
            added == wanted
            and _numbers(operations, "DELIVER") == sorted(numbers[row] for row in commit.delivers)
            and _numbers(operations, "DELETE") == sorted(numbers[row] for row in commit.deletes)
        )


def _place(found: DumpedOperation | DumpedDamage) -> tuple[int, int]:
    """Return the same for all operations of one frame, and another for every damaged range."""
    return (found.sequence, found.start if isinstance(found, DumpedDamage) else found.offset)


def _numbers(operations: Iterable[DumpedOperation], operation: str) -> list[int]:
    """Return the messages that are removed, ascending."""
    return sorted(one.message for one in operations if one.operation == operation and one.message is not None)
