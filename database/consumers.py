"""Handing out messages: each to one caller, until it is given back, delivered or deleted.

What is taken is remembered in memory only. When the process ends, every message that was not
delivered is undelivered again.

A caller may be interrupted between any two calls, by Ctrl-C or an exception of a signal handler. So a message is
noted as taken while it still stands in its queue's line, and leaves the line only then: at no moment is it in
neither. Where both say it, the note counts, and what is left in the line is passed over. Who loses a message that
was handed out to an exception puts its number into `given_back`, which takes one call and no lock.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from oms_journal.index.live import Index
from oms_journal.index.table import MessageLocation
from oms_journal.journal.operations import encode_name

REFILL_MESSAGES = 4096  # candidates kept ready for one queue
LINES_KEPT = 1000  # those of empty queues are not looked for below


@dataclass(slots=True)
class _Line:
    """The candidates of one queue, in order."""

    ready: deque[int] = field(default_factory=deque)
    after: int = 0  # every number of the queue up to here was a candidate
    returned: list[int] = field(default_factory=list)  # a heap


class Consumers:
    """Which messages are handed out. Does not lock: its owner does."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._table = index.table
        self._lines: dict[str, _Line] = {}
        self.taken: dict[int, str] = {}  # number → queue; the ledger removes what is delivered or deleted
        self.given_back: deque[int] = deque()  # handed out, and not received: to be put back. From any thread
        self._enough = LINES_KEPT  # when there are so many lines, those of empty queues are forgotten

    def take(self, queue: str) -> MessageLocation | None:
        """Hand out the queue's next message; None when there is none. InvalidName."""
        line = self._lines.get(queue) or self._new_line(queue)
        returned, taken = line.returned, self.taken
        noted = 0
        try:
            while self.given_back:
                self.release(self.given_back[0])
                self.given_back.popleft()
            while True:
                if not line.ready:
                    self._refill(queue, line)
                ready = line.ready
                is_returned = bool(returned) and (not ready or returned[0] < ready[0])
                if not (is_returned or ready):
                    return None
                number = returned[0] if is_returned else ready[0]
                place = None if number in taken else self._table.find(number)
                if place is not None:
                    noted, taken[number] = number, queue
                if is_returned:
                    heapq.heappop(returned)
                else:
                    ready.popleft()
                if place is not None:
                    return place
        except BaseException:
            if noted:
                self.given_back.append(noted)
            raise

    def _new_line(self, queue: str) -> _Line:
        encode_name(queue, "queue name")
        if len(self._lines) >= self._enough:
            self._lines = {name: line for name, line in self._lines.items() if self._table.undelivered_count(name)}
            self._enough = LINES_KEPT + 2 * len(self._lines)
        line = self._lines[queue] = _Line()
        return line

    def _refill(self, queue: str, line: _Line) -> None:
        """Look behind what were candidates until some can be handed out or all of the queue were looked at."""
        table, held = self._table, self._index.held
        line.after = line.after or table.number_before(queue)  # of a new one: others' messages may be many
        while not line.ready and line.after < table.last_number():
            numbers, after = table.first_numbers(queue, line.after, REFILL_MESSAGES)
            if numbers and held:
                numbers = np.array(numbers)[~held.mask(numbers)].tolist()
            ready = deque(numbers)
            # No call in between: an exception of a signal's handler finds both as they were, or both as they are.
            line.ready, line.after = ready, after

    def release(self, number: int) -> bool:
        """Take a message back; False when it was not handed out."""
        queue = self.taken.get(number)
        if queue is None:
            return False
        if (line := self._lines.get(queue)) is not None:
            heapq.heappush(line.returned, number)
        self.taken.pop(number, None)
        return True

    def admit(self, freed: Mapping[str, Iterable[int]]) -> None:
        """Note messages that were held back and are not any more, by queue."""
        for queue, numbers in freed.items():
            line = self._lines.get(queue)
            if line is not None:
                for number in numbers:
                    if number <= line.after:  # its turn has passed; a later one's comes
                        heapq.heappush(line.returned, number)
