"""Build the index by reading the journal: every data file's contents, in order.

The index is made anew at each start and knows nothing that the journal does not say.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from oms_journal.index.duplicates import DuplicateWindow, WindowBounds
from oms_journal.index.held import Held
from oms_journal.index.keyed import Keyed
from oms_journal.index.table import NUMBER_MAX, OFFSET_UNIT, Ints, Numbers, Table, distinct
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.footer import FooterColumns
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.operations import Operation


class Index:
    """What is live in a database: messages, keys, producer identifiers. Does not lock: its owner does."""

    def __init__(self, bounds: WindowBounds) -> None:
        self.table = Table()
        self.keyed = Keyed()
        self.duplicates = DuplicateWindow(bounds)
        self.held = Held()
        self.highest = 0  # the highest message number in the files replayed

    def replay(self, contents: Contents, sequence: int) -> None:
        """Take in one data file; files come in the order of their sequences."""
        if isinstance(contents.columns, FooterColumns) and self._add_plain(contents, contents.columns, sequence):
            return
        kinds = contents.columns["kind"]
        is_moved = (contents.columns["flags"] & MOVED) != 0
        is_add = kinds == Operation.ADD
        self._add(contents, sequence, np.flatnonzero(is_add & ~is_moved))
        self._move(contents, sequence, np.flatnonzero(is_add & is_moved))
        removed = _removed(contents)
        if len(removed):
            self.table.remove_many(removed)
            self.highest = max(self.highest, int(removed[-1]))
        self._replay_keys(contents, sequence, np.flatnonzero(kinds >= Operation.PUT))
        self.duplicates.replay(contents, sequence)

    def load(self, queue: int, numbers: Numbers, sizes: Sequence[int], place: tuple[int, int]) -> None:
        """Take in messages of one queue that came with numbers of their own, ascending and behind all others."""
        sequence, offset = place
        count = len(numbers)
        self.table.add_columns(
            sequence, numbers, (np.full(count, offset), np.array(sizes, np.int64), np.full(count, queue))
        )
        self.highest = max(self.highest, int(numbers[-1]))

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
        ids = np.array([self.table.queues.place(bytes(name).decode()) for name in contents.names], np.uint32)
        name = columns.line("name")
        is_same = name is not None and not name[1]
        queues = np.full(columns.rows, ids[name[0]], np.uint32) if name and is_same else ids[columns["name"]]
        self.table.add_dense(
            sequence, number[0], (columns.narrow("offset", OFFSET_UNIT), columns.narrow("size"), queues)
        )
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
        pairs = zip(columns["number"].tolist(), columns["offset"].tolist(), strict=True)
        is_new = np.array([not self.table.move(number, sequence, offset) for number, offset in pairs])
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
