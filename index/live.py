"""Build the index by reading the journal: every data file's contents, in order.

The index is made anew at each start and knows nothing that the journal does not say.
"""

from collections.abc import Callable, Container, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from oms_journal.index.duplicates import DuplicateWindow, WindowBounds
from oms_journal.index.held import Held
from oms_journal.index.keyed import Keyed
from oms_journal.index.readiness import (
    NEVER_DUE,
    NEVER_OVER,
    Moment,
    NewTerms,
    Readiness,
    TermRows,
    group_hash,
    joined,
)
from oms_journal.index.returned import Returned
from oms_journal.index.table import (
    NUMBER_MAX,
    OFFSET_UNIT,
    Column,
    Ints,
    Line,
    MessageLocation,
    Numbers,
    Table,
    compact,
    distinct,
)
from oms_journal.journal.format.contents import DAMAGED, Contents
from oms_journal.journal.format.footer import FooterColumns
from oms_journal.journal.format.records import DUE, EXPIRY, GROUP, MOVED, WITHOUT_TERMS, TermColumns
from oms_journal.journal.operations import Operation

HANDING_TERMS = DUE | EXPIRY | GROUP  # of the terms of a message, those that say when it may be handed out
ROWS_KEPT = 1 << 16  # of messages with terms that a start has read, before those that are gone are looked for


class Messages(Protocol):
    """Where messages are looked for to be handed out, and where they are removed."""

    def find(self, number: int) -> MessageLocation | None: ...
    def find_places(self, numbers: Sequence[int]) -> list[MessageLocation]: ...
    def first_numbers(self, queue: str, after: int, count: int) -> tuple[list[int], int]: ...
    def remove_many(self, numbers: Sequence[int] | Numbers) -> int: ...


class Index:
    """What is live in a database: messages, keys, producer identifiers. Does not lock: its owner does."""

    def __init__(self, bounds: WindowBounds) -> None:
        self.table = Table()
        self.terms: Readiness | None = None  # while any message has terms
        self.messages: Messages = self.table  # or the terms, which stand in for it then
        self.newest_time = 0  # of the commits in the files replayed
        self._rows: list[TermRows] = []  # of the files replayed
        self._rows_count = self._rows_enough = 0
        self.keyed = Keyed()
        self.duplicates = DuplicateWindow(bounds)
        self.held = Held()
        self.returned = Returned()
        self.highest = 0  # the highest message number in the files replayed

    def replay(self, contents: Contents, sequence: int) -> None:
        """Take in one data file; files come in the order of their sequences. `settle_terms` follows the last one."""
        self._note_time(contents)
        if isinstance(contents.columns, FooterColumns) and self._add_plain(contents, contents.columns, sequence):
            return
        kinds = contents.columns["kind"]
        is_moved = (contents.columns["flags"] & MOVED) != 0
        is_add = kinds == Operation.ADD
        self._add(contents, sequence, np.flatnonzero(is_add & ~is_moved))
        self._move(contents, sequence, np.flatnonzero(is_add & is_moved))
        self._note_terms(contents, np.flatnonzero(is_add))
        removed = _removed(contents)
        if len(removed):
            self.table.remove_many(removed)
            self.highest = max(self.highest, int(removed[-1]))
        self._replay_keys(contents, sequence, np.flatnonzero(kinds >= Operation.PUT))
        self.duplicates.replay(contents, sequence)

    def load(
        self,
        queue: int,
        numbers: Numbers,
        sizes: Sequence[int],
        place: tuple[int, int],
        terms: TermColumns = WITHOUT_TERMS,
    ) -> None:
        """Take in messages of one queue that came with numbers of their own, ascending and behind all others."""
        sequence, offset = place
        count = len(numbers)
        self.table.add_columns(
            sequence, numbers, (np.full(count, offset), np.array(sizes, np.int64), np.full(count, queue))
        )
        self.highest = max(self.highest, int(numbers[-1]))
        if terms.flags() & HANDING_TERMS:
            groups = [group_hash(queue, group) if group else 0 for group in terms.groups or [b""] * count]
            self._begun_terms().add_rows(
                TermRows(
                    numbers,
                    np.full(count, queue),
                    np.array(terms.due or [NEVER_DUE] * count, np.int64),
                    np.array(terms.expiry or [NEVER_OVER] * count, np.int64),
                    np.array(groups, np.uint64),
                )
            )

    # Terms.

    def add_terms(self, first: int, count: int, queue: int, terms: NewTerms) -> None:
        """Note the terms of messages that were added: so many, of neighbouring numbers, in the table already."""
        self._begun_terms().add(first, count, queue, terms)

    def settle_terms(self, now: int) -> None:
        """Let the terms of what was replayed count from now on, by the wall clock.

        A clock that shows less than the journal's newest commit is taken to show that.
        """
        self._forget_gone_rows()
        if self._rows_count:
            self.load_terms(self._rows[0], max(now, self.newest_time))
        self._rows, self._rows_count = [], 0

    def load_terms(self, rows: TermRows, now: int) -> None:
        """Take in the terms of all messages that have any, by ascending number, as of a time of the wall clock."""
        self._begun_terms().load(rows, now)

    def ready(self, now: Moment, taken: Container[int]) -> dict[str, list[int]]:
        """Return what may be handed out since this was asked last, up to now, by queue. What is over by now expires."""
        terms = self.terms
        if terms is None:
            return {}
        if not terms.has_news(now):
            return {}
        found = terms.ready(now, taken)
        if terms.is_over:
            self.terms, self.messages = None, self.table
        return found

    def is_late(self, number: int) -> bool:
        """Say whether the time of a message was over while it was in somebody's hands."""
        return self.terms is not None and self.terms.is_late(number)

    def undelivered_count(self, queue: str | None = None) -> int:
        """Return how many messages of a queue, or of all, are undelivered and have not expired."""
        terms, table = self.terms, self.table
        if queue is None:
            return table.count - (terms.expired_count if terms else 0)
        place = table.queues.find(queue)
        if place is None:
            return 0
        return table.queues.counts[place] - self.expired(place)[0]

    def expired(self, place: int) -> tuple[int, int]:
        """Return how many messages of a queue have expired and are still there, and their bytes."""
        terms = self.terms
        return (0, 0) if terms is None else (terms.expired.get(place, 0), terms.expired_bytes.get(place, 0))

    def undelivered(self) -> dict[str, tuple[int, int]]:
        """Return how many messages are undelivered and have not expired, and their bytes, by queue."""
        used, terms = self.table.queues.used(), self.terms
        if terms is None or not terms.expired:
            return used
        for place in terms.expired:
            queue, (messages, size) = self.table.queues.name(place), self.expired(place)
            used[queue] = used[queue][0] - messages, used[queue][1] - size
        return {queue: counts for queue, counts in used.items() if counts[0]}

    def _begun_terms(self) -> Readiness:
        if self.terms is None:
            self.terms = self.messages = Readiness(self.table)
        return self.terms

    def _note_time(self, contents: Contents) -> None:
        """Note the newest time of a file's commits."""
        if contents.ranges is not None:
            self.newest_time = max(self.newest_time, contents.ranges.time[1])
        elif len(contents):
            self.newest_time = max(self.newest_time, int(contents.columns["time"].max()))

    def _note_terms(self, contents: Contents, rows: npt.NDArray[np.int64]) -> None:
        """Keep the terms of a file's messages until all files are read."""
        flags = contents.columns["flags"][rows]
        rows = rows[(flags & HANDING_TERMS) != 0]
        if not len(rows):
            return
        columns = {key: contents.columns[key][rows] for key in ("number", "name", "flags", "due", "expiry", "group")}
        queues = self._queue_ids(contents)[columns["name"]]
        # One hash a group, not one a message; and one pass, however many groups there are.
        several = len(contents.groups) + 1
        pairs, places = np.unique(queues * several + columns["group"].astype(np.int64), return_inverse=True)
        named = (divmod(pair, several) for pair in pairs.tolist())
        hashes = [group_hash(queue, bytes(contents.groups[group - 1])) if group else 0 for queue, group in named]
        groups = np.array(hashes, np.uint64)[places]
        self._rows.append(
            TermRows(
                columns["number"].astype(np.uint64),
                queues,
                np.where(columns["flags"] & DUE, columns["due"], NEVER_DUE),
                np.where(columns["flags"] & EXPIRY, columns["expiry"], NEVER_OVER),
                groups,
            )
        )
        self._rows_count += len(rows)
        if self._rows_count > self._rows_enough + ROWS_KEPT:
            self._forget_gone_rows()

    def _forget_gone_rows(self) -> None:
        """Keep of the messages with terms those that are undelivered, each once."""
        if not self._rows:
            return
        rows = joined(self._rows)
        order = np.argsort(rows.numbers, kind="stable")
        numbers = rows.numbers[order]
        is_last = np.ones(len(numbers), np.bool_)
        is_last[:-1] = numbers[1:] != numbers[:-1]
        order, numbers = order[is_last], numbers[is_last]
        order = order[np.isin(numbers, self.table.find_many(numbers)[0], assume_unique=True)]
        self._rows = [rows.some(order)]
        self._rows_count = self._rows_enough = len(order)

    def is_free(self, sequence: int) -> bool:
        """Say whether nothing in a data file is needed."""
        use = self.table.files.get(sequence)
        return not (use and use.live_messages) and not self.keyed.files.get(sequence)

    def hold_up_to(self, sequence: int) -> None:
        """Hold back every undelivered message that lies in the data files up to a sequence."""
        self.held.add(self.ranges_where(lambda _, sequences: sequences <= sequence))

    def ranges_where(self, is_wanted: Callable[[Ints, Ints], npt.NDArray[np.bool_]]) -> list[tuple[int, int]]:
        """Return the fewest ranges with all undelivered messages in them that are wanted, and no other one.

        Told are the numbers and the data files of a batch. Between two neighbours in a range there may be
        numbers that are gone: they never come again.
        """
        ranges: list[tuple[int, int]] = []
        is_open = False  # the last message of the batch before was wanted
        for numbers, sequences, _ in self.table.batches(None, 0, NUMBER_MAX):
            wanted = is_wanted(numbers, sequences)
            edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False])))).reshape(-1, 2)
            found = list(zip(numbers[edges[:, 0]].tolist(), numbers[edges[:, 1] - 1].tolist(), strict=True))
            if found and is_open and wanted[0]:
                ranges[-1] = (ranges[-1][0], found.pop(0)[1])
            ranges += found
            is_open = bool(wanted[-1])
        return ranges

    def highest_number(self) -> int:
        """Return a number that no undelivered message exceeds now."""
        return max(self.highest, self.table.last_number())

    def _queue_ids(self, contents: Contents) -> npt.NDArray[np.int64]:
        is_queue = np.zeros(len(contents.names), np.bool_)
        is_queue[contents.columns["name"][contents.columns["kind"] == Operation.ADD]] = True
        ids = np.zeros(len(contents.names), np.int64)
        for name in np.flatnonzero(is_queue).tolist():
            ids[name] = self.table.queues.place(bytes(contents.names[name]).decode())
        return ids

    def _add_plain(self, contents: Contents, columns: FooterColumns, sequence: int) -> bool:
        """Take in a file that holds nothing but plain ADDs, the commonest; False when it holds more."""
        number = columns.line("number")
        if not columns.rows or number is None or (columns.rows > 1 and number[1] != 1):
            return False
        constant = {"kind": int(Operation.ADD), "flags": 0, "properties": 0, "producer": 0}
        if any(columns.line(name) != (value, 0) for name, value in constant.items()):
            return False
        ids = [self.table.queues.place(bytes(name).decode()) for name in contents.names]
        name = columns.line("name")
        is_same = name is not None and not name[1]
        queues = Line(ids[name[0]], 0, columns.rows) if name and is_same else compact(np.array(ids)[columns["name"]])
        offsets, sizes = _column(columns, "offset", OFFSET_UNIT), _column(columns, "size")
        self.table.add_dense(sequence, number[0], (offsets, sizes, queues))
        self.highest = max(self.highest, number[0] + columns.rows - 1)
        return True

    def _add(self, contents: Contents, sequence: int, rows: npt.NDArray[np.int64]) -> None:
        if not len(rows):
            return
        every = len(rows) == len(contents)
        number, offset, size, properties, name = (
            contents.columns[key] if every else contents.columns[key][rows]
            for key in ("number", "offset", "size", "properties", "name")
        )
        queues = self._queue_ids(contents)[name]
        self.table.add_columns(sequence, number.astype(np.uint64), (offset, size + properties, queues))
        self.highest = max(self.highest, int(number[-1]))

    def _move(self, contents: Contents, sequence: int, rows: npt.NDArray[np.int64]) -> None:
        """Take in messages written again: elsewhere now, or for the first time where their file is gone."""
        if not len(rows):
            return
        columns = {key: contents.columns[key][rows] for key in ("number", "offset", "size", "properties", "name")}
        is_lost = (contents.columns["flags"][rows] & DAMAGED) != 0
        places = zip(columns["number"].tolist(), columns["offset"].tolist(), is_lost.tolist(), strict=True)
        # Where the new place has rotted and the old one is still there, that is better than nothing.
        is_new = np.array(
            [
                not (self.table.find(number) if damaged else self.table.move(number, sequence, offset))
                for number, offset, damaged in places
            ]
        )
        order = np.flatnonzero(is_new)[np.argsort(columns["number"][is_new], kind="stable")]
        if len(order):
            number, offset, size, properties, name = (column[order] for column in columns.values())
            queues = self._queue_ids(contents)[name]
            self.table.insert_columns(sequence, number.astype(np.uint64), (offset, size + properties, queues))
        self.highest = max(self.highest, int(columns["number"].max()))

    def _replay_keys(self, contents: Contents, sequence: int, rows: npt.NDArray[np.int64]) -> None:
        if not len(rows):
            return
        latest: dict[bytes, int | None] = {}
        kinds, names, offsets = (contents.columns[key][rows].tolist() for key in ("kind", "name", "offset"))
        for kind, name, offset in zip(kinds, names, offsets, strict=True):
            latest[bytes(contents.names[name])] = offset if kind == Operation.PUT else None
        self.keyed.put_many(latest, sequence)


def _column(columns: FooterColumns, name: str, unit: int = 1) -> Column:
    """Return a column of a footer divided by the unit, in as little memory as it takes there."""
    line = columns.line(name)
    if line is not None and line[0] % unit == line[1] % unit == 0 and line[1] < 1 << 63:  # a higher step descends
        return Line(line[0] // unit, line[1] // unit, columns.rows)
    values = columns.narrow(name, unit)
    return values.astype(np.min_scalar_type(int(values.max())), copy=False)


def _removed(contents: Contents) -> npt.NDArray[np.uint64]:
    """Return every number that the file delivers or deletes, ascending and once."""
    columns = contents.columns
    is_removal = (columns["kind"] == Operation.DELIVER) | (columns["kind"] == Operation.DELETE)
    singles: npt.NDArray[np.uint64] = columns["number"][is_removal & (columns["count"] == 1)].astype(np.uint64)
    sets = contents.removal_sets()
    if not sets and (len(singles) < 2 or bool((np.diff(singles.view(np.int64)) > 0).all())):
        return singles
    found: npt.NDArray[np.uint64] = distinct(np.concatenate((singles, *sets)))
    return found
