"""What was added twice: found in two passes, so that what was added once takes two bits a cell and no more.

    first     every payload, and every producer's identifier with its commit, leaves a mark in a cell by its hash;
              and the numbers of copies are noted
    second    only what is in a cell with two marks is looked at: equal payloads that follow one another become one
              run, messages of one commit become one entry, and copies stay single
    finish    copies of one message become one; runs that are near enough, and entries of one commit, come together

Cells are shared by chance too: that costs time, and changes no answer.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.analysis.fold.asked import Candidates
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.matching import are_among
from oms_journal.analysis.fold.messages import Columns, some
from oms_journal.analysis.fold.operations import Operations
from oms_journal.analysis.reading.columns import clamped
from oms_journal.analysis.reading.schema import Micros
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.operations import Operation

Cells = npt.NDArray[np.uint32]
Row = dict[str, Any]

BITS_RANGE = (16, 29)  # of the number of a cell: two bitmaps of 8 KiB to 64 MiB
BYTES_PER_CELL = 4  # of data files: about fifteen cells for a message
_DIGEST_BITS = (1 << 40) - 1  # of each hash, so that the hashes of 2^23 messages add up without overflow
_MIXER, _LENGTHS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
PAYLOADS, PRODUCERS = b"p", b"i"
# A run of equal payloads, or some messages of one commit under one identifier.
RUN = ("queue", "hash", "length", "messages", "first", "last", "first_time", "last_time", "is_single")
ENTRY = ("queue", "producer", "commit", "digest", "messages", "first", "last", "first_time", "last_time", "is_single")
NO_COMMIT = -1  # of a copy whose first ADD has not been met


def cell_bits(size: int) -> int:
    """Return how many bits the number of a cell has, for so many bytes of data files."""
    return min(max((size // BYTES_PER_CELL).bit_length(), BITS_RANGE[0]), BITS_RANGE[1])


class Marks:
    """Which cells have a mark, and which have two."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._chunks: list[Cells] = []
        self._once: npt.NDArray[np.uint8] | None = None
        self._twice: npt.NDArray[np.uint8] | None = None

    def add(self, cells: Cells) -> None:
        """Mark cells."""
        if len(cells):
            cells = np.sort(cells)
            is_third = np.append([False, False], cells[2:] == cells[:-2])[: len(cells)]
            self._chunks.append(cells[~is_third])

    def merge(self, other: "Marks") -> None:
        """Take in other marks, which have not been settled."""
        self._chunks += other._chunks

    def settle(self) -> None:
        """Put what came into bitmaps."""
        for cells in self._chunks:
            if self._once is None or self._twice is None:
                self._once, self._twice = (np.zeros(1 << self._bits - 3, np.uint8) for _ in range(2))
            is_again = np.append(False, cells[1:] == cells[:-1])
            first = cells[~is_again]
            is_known = (self._once[first >> 3] >> (first & 7).astype(np.uint8)) & 1 != 0
            for cells_of, bitmap in (
                (cells[is_again], self._twice),
                (first[is_known], self._twice),
                (first, self._once),
            ):
                np.bitwise_or.at(bitmap, cells_of >> 3, np.uint8(1) << (cells_of & 7).astype(np.uint8))
        self._chunks = []

    def with_two(self) -> Cells:
        """Return the cells that have two marks, ascending."""
        self.settle()
        if self._twice is None:
            return np.empty(0, np.uint32)
        places = np.flatnonzero(self._twice)
        bits = np.unpackbits(self._twice[places, None], axis=1, bitorder="little")
        rows, columns = np.nonzero(bits)
        return (places[rows] * 8 + columns).astype(np.uint32)


class Added:
    """The ADDs of one file that may be duplicates, with the cells of their payloads and identifiers."""

    def __init__(self, contents: Contents, operations: Operations, database: str, bits: int) -> None:
        self._contents = contents
        self._operations = operations
        self._places = operations.where(operations.kinds == Operation.ADD)
        self.bits = bits
        self._shift = np.uint64(64 - bits)
        self._database = database.encode()
        self.names = operations.of("name", self._places)
        self.producers = operations.of("producer", self._places)
        self.is_copy = operations.of("flags", self._places) & MOVED != 0
        self.hashes = operations.of("hash", self._places)
        self.numbers = operations.of("number", self._places)

    def of(self, name: str) -> Numbers:
        """Return a column."""
        return self._operations.of(name, self._places)

    def producer(self, place: int) -> bytes:
        """Return an identifier by its place in the file."""
        return bytes(self._contents.producers[place])

    def times(self) -> Numbers:
        """Return when the messages were added first."""
        times = clamped(self.of("time"))
        return np.where(self.is_copy, clamped(self.of("first_time")), times) if self.is_copy.any() else times

    def cells_of_payloads(self) -> Cells:
        """Return the cell of each ADD's payload."""
        values = self.hashes.view(np.uint64) ^ (self.of("size").astype(np.uint64) * _LENGTHS)
        return self._mixed(PAYLOADS, values, self.names)

    def cells_of_producers(self, rows: Numbers) -> Cells:
        """Return the cells of the identifiers of some ADDs that have one."""
        hashes = [xxhash.xxh3_64_intdigest(bytes(name)) for name in self._contents.producers]
        return self._mixed(PRODUCERS, np.array(hashes, np.uint64)[self.producers[rows] - 1], self.names[rows])

    def _mixed(self, what: bytes, values: npt.NDArray[np.uint64], names: Numbers) -> Cells:
        of_names = [xxhash.xxh3_64_intdigest(what + self._database + bytes(name)) for name in self._contents.names]
        mixed = (values ^ np.array(of_names, np.uint64)[names]) * _MIXER
        return (mixed >> self._shift).astype(np.uint32)


def marked(added: Added, marks: Marks) -> Numbers:
    """Mark what a file has, and return the numbers of the copies in it."""
    marks.add(added.cells_of_payloads()[added.hashes != 0])
    has_producer = np.flatnonzero(added.producers)
    if len(has_producer):
        commits = np.where(added.is_copy, -added.numbers, added.of("commit"))  # copies share one that is not theirs
        commits, names, producers = (column[has_producer] for column in (commits, added.names, added.producers))
        order = np.lexsort((commits, names, producers))
        columns = [column[order] for column in (producers, names, commits)]
        begins = np.any([np.append(True, column[1:] != column[:-1]) for column in columns], axis=0)
        marks.add(added.cells_of_producers(has_producer[order][begins]))
    return np.sort(added.numbers[added.is_copy])


class Found:
    """What the second pass has found in some files of one database."""

    def __init__(self) -> None:
        self.runs: list[Columns] = []
        self.entries: list[Columns] = []
        self.producers: list[bytes] = []  # by their number here

    def take(self, added: Added, queues: Numbers, candidates: Candidates, copies: Numbers, window: Micros) -> None:
        """Take in one file: `queues` are those of its ADDs. Nothing was taken in before."""
        is_single = np.isin(added.numbers, copies)
        times = added.times()
        is_in = are_among(added.cells_of_payloads(), candidates.cells, added.bits) & (added.hashes != 0)
        rows = np.flatnonzero(is_in)
        if len(rows):
            runs = _counted(added, rows, times, is_single) | {
                "queue": queues[rows], "hash": added.hashes[rows], "length": added.of("size")[rows]
            }  # fmt: skip
            self.runs = _runs(runs, window)
        rows = np.flatnonzero(added.producers)
        rows = rows[are_among(added.cells_of_producers(rows), candidates.cells, added.bits)] if len(rows) else rows
        if len(rows):
            producers, which = np.unique(added.producers[rows] - 1, return_inverse=True)
            self.producers = [added.producer(place) for place in producers.tolist()]
            commits = np.where(added.is_copy, NO_COMMIT, added.of("commit"))
            entries = _counted(added, rows, times, is_single) | {
                "queue": queues[rows], "producer": which.astype(np.int64), "commit": commits[rows],
                "digest": added.hashes[rows] & _DIGEST_BITS,
            }  # fmt: skip
            self.entries = _entries(entries)

    def merge(self, later: "Found", queues: Numbers) -> None:
        """Take in what comes behind; `queues` says which of our queues each of its queues is."""
        known = {producer: place for place, producer in enumerate(self.producers)}
        producers = np.array([known.setdefault(name, len(known)) for name in later.producers], np.int64)
        self.producers = list(known)
        self.runs += [columns | {"queue": queues[columns["queue"]]} for columns in later.runs]
        self.entries += [
            columns | {"queue": queues[columns["queue"]], "producer": producers[columns["producer"]]}
            for columns in later.entries
        ]

    def rows(self, queues: list[str], window: Micros) -> list[Row]:
        """Return the rows of the answer, but for the database: by kind, queue, and what was added twice."""
        found = [self._by_producer(queues, entry) for entry in _by_producer(self.entries)]
        for columns in _runs(_each_once(self.runs, RUN, ("queue",)), window):
            found += [_by_payload(queues, row) for row in _rows_of(some(columns, columns["messages"] > 1))]
        return sorted(
            found,
            key=lambda row: (row["kind"], row["queue"], row["producer"] or "", row["first_time"], row["hash"] or 0),
        )

    def _by_producer(self, queues: list[str], row: Row) -> Row:
        of_payload = {"hash": None, "length": None}
        producer = self.producers[row["producer"]].decode("utf-8", "backslashreplace")
        return _told("producer", queues, row) | of_payload | {
            "producer": producer, "commits": row["commits"], "same_payloads": row["same_payloads"]
        }  # fmt: skip


def _counted(added: Added, rows: Numbers, times: Numbers, is_single: Mask) -> Columns:
    """Return what runs and entries have in common, of messages one by one."""
    numbers, times = added.numbers[rows], times[rows]
    return {
        "messages": np.ones(len(rows), np.int64), "first": numbers, "last": numbers, "first_time": times,
        "last_time": times, "is_single": is_single[rows],
    }  # fmt: skip


def _by_payload(queues: list[str], row: Row) -> Row:
    of_producer = {"producer": None, "commits": None, "same_payloads": True}
    return _told("payload", queues, row) | of_producer | {"hash": row["hash"], "length": row["length"]}


def _told(kind: str, queues: list[str], row: Row) -> Row:
    return {
        "kind": kind,
        "queue": queues[row["queue"]],
        "messages": row["messages"],
        "first_message": row["first"],
        "last_message": row["last"],
        "first_time": row["first_time"],
        "last_time": row["last_time"],
    }


def _runs(columns: Columns, window: Micros) -> list[Columns]:
    """Return runs that are near enough put together, single messages as they are."""
    singles, runs = some(columns, columns["is_single"]), some(columns, ~columns["is_single"])
    while len(runs["queue"]):
        keys = ("length", "hash", "queue")
        order = np.lexsort((runs["first"], runs["first_time"], *(runs[key] for key in keys)))
        runs = some(runs, order)
        begins = _begins(runs, keys)
        begins[1:] |= runs["first_time"][1:] - runs["last_time"][:-1] > window
        joined = _reduced(runs, begins, keys)
        if len(joined["queue"]) == len(runs["queue"]):
            break
        runs = joined  # one that lies within another may bring the next one near
    return [each for each in (runs, singles) if len(each["queue"])]


def _entries(columns: Columns) -> list[Columns]:
    """Return the messages of each commit under one identifier put together, single messages as they are."""
    singles, entries = some(columns, columns["is_single"]), some(columns, ~columns["is_single"])
    return [each for each in (_by_commit(entries), singles) if len(each["queue"])]


def _by_commit(entries: Columns) -> Columns:
    """Return the entries of each commit put together; what is known by a copy alone goes by its time."""
    gone = np.where(entries["commit"] == NO_COMMIT, entries["first_time"], 0)
    keys = ("commit", "producer", "queue")
    order = np.lexsort((gone, *(entries[key] for key in keys)))
    entries, gone = some(entries, order), gone[order]
    begins = _begins(entries, keys)
    begins[1:] |= gone[1:] != gone[:-1]
    return _reduced(entries, begins, keys)


def _by_producer(parts: list[Columns]) -> list[Row]:
    """Return what several commits brought under one identifier."""
    entries = _by_commit(_each_once(parts, ENTRY, ("queue", "producer")))
    order = np.lexsort((entries["commit"], entries["producer"], entries["queue"]))
    entries = some(entries, order)
    begins = _begins(entries, ("producer", "queue"))
    starts = np.flatnonzero(begins)
    commits = np.diff(np.append(starts, len(order)))
    is_same = np.ones(len(starts), np.bool_)
    for name in ("messages", "digest") if len(starts) else ():
        lowest, highest = (of.reduceat(entries[name], starts) for of in (np.minimum, np.maximum))
        is_same &= lowest == highest
    found = _reduced(entries, begins, ("producer", "queue")) | {"commits": commits, "same_payloads": is_same}
    return _rows_of(some(found, commits > 1))


def _each_once(parts: list[Columns], names: tuple[str, ...], keys: tuple[str, ...]) -> Columns:
    """Return all rows, none of them single any more: those of one message have become one."""
    if not parts:
        return {name: np.empty(0, np.bool_ if name == "is_single" else np.int64) for name in names}
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    singles, others = some(columns, columns["is_single"]), some(columns, ~columns["is_single"])
    order = np.lexsort((singles["first"], *(singles[key] for key in keys)))
    singles = some(singles, order)
    begins = _begins(singles, ("first", *keys))
    starts = np.flatnonzero(begins)
    if len(starts):
        once = some(singles, starts)
        once["first_time"] = once["last_time"] = np.minimum.reduceat(singles["first_time"], starts)
        if "commit" in once:
            commits = np.where(singles["commit"] == NO_COMMIT, np.iinfo(np.int64).max, singles["commit"])
            lowest = np.minimum.reduceat(commits, starts)
            once["commit"] = np.where(lowest == np.iinfo(np.int64).max, NO_COMMIT, lowest)
        singles = once
    found = {name: np.concatenate((singles[name], others[name])) for name in names}
    return found | {"is_single": np.zeros(len(found["queue"]), np.bool_)}


def _begins(columns: Columns, keys: tuple[str, ...]) -> Mask:
    """Say of each row, in the order of the keys, whether another one begins with it."""
    found = np.zeros(len(columns["queue"]), np.bool_)
    found[:1] = True
    for key in keys:
        found[1:] |= columns[key][1:] != columns[key][:-1]
    return found


def _reduced(columns: Columns, begins: Mask, keys: tuple[str, ...]) -> Columns:
    """Return one row for each that begins: sums, lowest and highest."""
    starts = np.flatnonzero(begins)
    if not len(starts):
        return columns
    found = some(columns, starts)
    sums, lowest, highest = ("messages", "digest"), ("first", "first_time"), ("last", "last_time")
    for of, names in ((np.add, sums), (np.minimum, lowest), (np.maximum, highest)):
        found |= {name: of.reduceat(columns[name], starts) for name in names if name in columns and name not in keys}
    return found


def _rows_of(columns: Columns) -> list[Row]:
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*(columns[name].tolist() for name in names), strict=True)]
