"""What a broker wrote under its keys, folded: columns in, a partial for a run of files, partials merged.

    records      the latest readable record of each key
    drops        the latest DROP of each key
    operations   the latest thing done to each key
    moments      every change of a unit of work's status that its records tell, narrow
    counts       what was written, dropped, and could not be read

A value that is no record, though its key begins like one, is counted and nothing else.
`docs/reference/broker-records.md` says what the fields mean.

Memory grows with the units of work and publications that the journal tells of: about 330 bytes each with the text of
the key, 36 bytes for each record of a unit of work whose status is persistent, and 28 bytes for each dropped key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.broker.columns import NUMBERS, SERVICE, VALUE, Values
from oms_journal.analysis.fold.arrays import is_any, mask, numbers, whole
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.messages import Columns, some
from oms_journal.analysis.reading.columns import clamped
from oms_journal.broker.records import (
    CHECKPOINTS,
    CLOCK_KEY,
    HELDS,
    HOLD_KEY,
    LAYOUTS,
    MASTER_KEY,
    PREFIX,
    PUBLICATIONS,
    SUBSCRIPTIONS,
    UOWS,
    CheckpointName,
    Flag,
    RecordKind,
    Status,
)

Codes = npt.NDArray[np.int32]

STARTS = {
    RecordKind.UOW: UOWS,
    RecordKind.PUBLICATION: PUBLICATIONS,
    RecordKind.SUBSCRIPTION: SUBSCRIPTIONS,
    RecordKind.MASTER: MASTER_KEY,
    RecordKind.CHECKPOINT: CHECKPOINTS,
    RecordKind.CLOCK: CLOCK_KEY,
    RecordKind.HOLD: HOLD_KEY,
    RecordKind.HELD: HELDS,
}
KEPT = ("database", "key", "sequence", "offset", "operation", "time", "moved", "length", VALUE)  # of the operations
FIELDS: Mapping[RecordKind, Sequence[str]] = {  # that questions ask for
    RecordKind.UOW: (
        *("conv_id", "status", "flags", "state", "eoc_reason", "adcount", "postpones", "messages", "lifetime"),
        *("size", "created", "committed", "begun", "changed", "first", "sender_user", "receiver_user", "ustatus"),
        SERVICE,
    ),
    RecordKind.PUBLICATION: (
        *("status", "messages", "size", "lifetime", "created", "committed", "first", "user", "topic", "ustatus"),
    ),
    RecordKind.SUBSCRIPTION: (
        *("subscribed", "active", "position", "last_committed", "expiration", "user", "token", "topic"),
        "acknowledged",
    ),
    RecordKind.MASTER: ("starts", "platform", "version"),
    RecordKind.CHECKPOINT: ("name", "starts", "time", "broker_id", "job"),
}
WHOLE = (RecordKind.MASTER, RecordKind.CHECKPOINT)  # of which every record is kept: a few at each start
COUNTS = ("written", "written_bytes", "dropped", "unreadable", "newer")
DROPPED = 0  # stands for the status of what is not there any more
STARTED = (CheckpointName.ETBC, CheckpointName.ETBH)  # checkpoints of a start
SETTLED_ROWS_MIN = 1 << 12
_TEXTS = {layout.kind: frozenset((*layout.texts, SERVICE)) for layout in LAYOUTS}


class Names:
    """Texts, by number."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The texts, in the order of their numbers."""
        return list(self._places)

    def codes(self, column: pa.Array) -> Codes:
        """Return the number of each text."""
        coded = whole(column).dictionary_encode()
        found: Codes = self._places_of(coded.dictionary.to_pylist())[coded.indices.to_numpy(zero_copy_only=False)]
        return found

    def merge(self, other: "Names") -> Codes:
        """Take in other texts; return which of ours each of theirs is."""
        return self._places_of(other.texts)

    def _places_of(self, texts: Sequence[str]) -> Codes:
        known = self._places
        return np.array([known.setdefault(text, len(known)) for text in texts], np.int32)


@dataclass(slots=True)
class Latest:
    """Rows with a key and a place each, of which the last one of every key counts."""

    _chunks: list[Columns] = field(default_factory=list)
    _rows: int = 0
    _settled: int = 0

    def add(self, columns: Columns) -> None:
        """Take in rows, in the order of the journal or in any other."""
        if len(columns["key"]):
            self._chunks.append(columns)
            self._rows += len(columns["key"])
            if self._rows > 2 * self._settled + SETTLED_ROWS_MIN:
                self.rows()

    def merge(self, other: "Latest", keys: Codes, texts: Codes, coded: Sequence[str]) -> None:
        """Take in other rows; `keys` and `texts` say which of ours each of theirs is, `coded` are texts."""
        for chunk in other._chunks:
            self.add(chunk | {"key": keys[chunk["key"]]} | {name: texts[chunk[name]] for name in coded})

    def rows(self) -> Columns:
        """Return the last row of every key, by key; without any columns where there is none."""
        if not self._chunks:
            return {"key": np.empty(0, np.int32)}
        columns = _joined(self._chunks)
        order = np.lexsort((columns["offset"], columns["sequence"], columns["key"]))
        ends = np.append(np.diff(columns["key"][order]) != 0, True)
        columns = some(columns, order[ends])
        self._chunks, self._rows, self._settled = [columns], len(columns["key"]), len(columns["key"])
        return columns


class Place(NamedTuple):
    """A place in the journal."""

    sequence: int
    offset: int


class Start(NamedTuple):
    """A start of the broker, and when it was."""

    place: Place
    time: int


class OfKind:
    """The records of one kind."""

    def __init__(self, kind: RecordKind) -> None:
        self._kind = kind
        self.keys = Names()  # what keys end with
        self.records, self.drops, self.operations = Latest(), Latest(), Latest()
        self.every: list[Columns] = []  # record, where all of them are kept
        self.moments: list[Columns] = []  # of units of work
        self.commits: Columns = {"key": np.empty(0, np.int32), "number": np.empty(0, np.uint64)}  # of subscriptions
        self.counts: Numbers = np.zeros(len(COUNTS), np.int64)

    def take(self, rows: pa.RecordBatch, names: Names) -> None:
        """Take in operations on keys of this kind, in the order of the journal."""
        kind = self._kind
        values = Values(kind, whole(rows[VALUE]))
        is_put, moved = is_any(rows["operation"], ("PUT",)), mask(rows["moved"])
        is_readable, length = is_put & values.is_readable, numbers(rows["length"])
        where: Columns = {
            "key": self.keys.codes(pc.utf8_slice_codeunits(rows["key"], len(STARTS[kind]))),
            "sequence": numbers(rows["sequence"]),
            "offset": numbers(rows["offset"]),
        }
        is_written = is_put & ~moved
        self.counts += (
            np.count_nonzero(is_written), length[is_written].sum(), np.count_nonzero(~is_put),
            np.count_nonzero(is_put & ~is_readable), np.count_nonzero(is_put & values.is_newer),
        )  # fmt: skip
        self.operations.add(where | {"is_put": is_put, "length": length})
        if kind not in FIELDS:
            return
        time = numbers(rows["time"])
        self.drops.add(some(where | {"time": time}, ~is_put))
        found = some(where | {"moved": moved}, is_readable)
        found |= {name: _field(values, name, is_readable, names) for name in FIELDS[kind]}
        if kind in WHOLE:
            self.every.append(found)
        else:
            self.records.add(found)
        if kind is RecordKind.UOW:
            self._take_moments(found, some(where | {"moved": moved, "changed": time}, ~is_put))
        elif kind is RecordKind.SUBSCRIPTION:
            self._take_commits([{"key": found["key"], "number": found["last_committed"]}])

    def merge(self, later: "OfKind", texts: Codes) -> None:
        """Take in what comes behind; `texts` says which of our texts each of theirs is."""
        keys, coded = self.keys.merge(later.keys), coded_fields(self._kind)
        self.records.merge(later.records, keys, texts, coded)
        self.drops.merge(later.drops, keys, texts, ())
        self.operations.merge(later.operations, keys, texts, ())
        self.every += [
            chunk | {"key": keys[chunk["key"]]} | {name: texts[chunk[name]] for name in coded} for chunk in later.every
        ]
        padded = np.append(texts, np.int32(-1))  # a DROP does not tell the service
        self.moments += [
            chunk | {"key": keys[chunk["key"]], SERVICE: padded[chunk[SERVICE]]} for chunk in later.moments
        ]
        self._take_commits([later.commits | {"key": keys[later.commits["key"]]}])
        self.counts += later.counts

    def _take_moments(self, records: Columns, drops: Columns) -> None:
        """Take in what tells how long a unit of work stays in a status, and when it was received first."""
        has_status = records["flags"] & np.uint8(Flag.STATUS_PERSISTENT) != 0
        told = some(records, has_status | (records["status"] == Status.DELIVERED))
        names = ("key", "sequence", "offset", "moved", "status", "flags", "changed", SERVICE)
        count = len(drops["key"])
        drops |= {
            "status": np.full(count, DROPPED, np.uint8),
            "flags": np.full(count, int(Flag.STATUS_PERSISTENT), np.uint8),
            SERVICE: np.full(count, -1, np.int32),
        }
        self.moments.append(_joined([{name: each[name] for name in names} for each in (told, drops)]))

    def _take_commits(self, more: Sequence[Columns]) -> None:
        both = _joined([self.commits, *more])
        both = some(both, both["number"] != 0)
        order = np.lexsort((both["number"], both["key"]))
        both = some(both, order)
        is_new = np.append(True, (np.diff(both["key"]) != 0) | (both["number"][1:] != both["number"][:-1]))
        self.commits = some(both, is_new[: len(order)])


class Trail:
    """The records of one database."""

    def __init__(self) -> None:
        self.names = Names()  # of users, services and whatever else records have as texts
        self.kinds: dict[RecordKind, OfKind] = {}

    def of(self, kind: RecordKind) -> OfKind:
        """Return the records of a kind."""
        if kind not in self.kinds:
            self.kinds[kind] = OfKind(kind)
        return self.kinds[kind]

    def take(self, rows: pa.RecordBatch) -> None:
        """Take in operations on keys of a broker's."""
        for kind, start in STARTS.items():
            of_kind = rows.filter(pc.starts_with(rows["key"], start))
            if of_kind.num_rows:
                self.of(kind).take(of_kind, self.names)

    def merge(self, later: "Trail") -> None:
        """Take in what comes behind."""
        texts = self.names.merge(later.names)
        for kind, records in later.kinds.items():
            self.of(kind).merge(records, texts)

    def starts(self) -> list[Start]:
        """Return the starts of the broker, cold or hot, in the order of the journal."""
        found = []
        for chunk in self.of(RecordKind.CHECKPOINT).every:
            is_start = ~chunk["moved"] & np.isin(chunk["name"], STARTED)
            rows = (chunk[name][is_start].tolist() for name in ("sequence", "offset", "time"))
            found += [Start(Place(sequence, offset), time) for sequence, offset, time in zip(*rows, strict=True)]
        return sorted(found)


class Records:
    """The records of all databases."""

    def __init__(self) -> None:
        self.trails: dict[str | None, Trail] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Take in operations on keys, with the columns of KEPT; what is no broker's key is left out."""
        rows = batch.filter(pc.fill_null(pc.starts_with(batch["key"], PREFIX), False))
        for database in pc.unique(rows["database"]).to_pylist():
            is_its = pc.is_null(rows["database"]) if database is None else pc.equal(rows["database"], database)
            self.trails.setdefault(database, Trail()).take(rows.filter(is_its))

    def merge(self, later: "Records") -> None:
        """Take in what comes behind, which must not be used any more."""
        for database, trail in later.trails.items():
            mine = self.trails.get(database)
            if mine is None:
                self.trails[database] = trail
            else:
                mine.merge(trail)

    def in_order(self) -> Iterator[tuple[str | None, Trail]]:
        """Yield the databases by their identities."""
        yield from sorted(self.trails.items(), key=lambda each: each[0] or "")


def is_behind(one: Columns, other: Columns) -> Mask:
    """Say of each row whether its place is behind that of the other one."""
    found: Mask = (one["sequence"] > other["sequence"]) | (
        (one["sequence"] == other["sequence"]) & (one["offset"] > other["offset"])
    )
    return found


def coded_fields(kind: RecordKind) -> list[str]:
    """Return the fields of a kind that are texts."""
    return [name for name in FIELDS.get(kind, ()) if name in _TEXTS[kind]]


def _field(values: Values, name: str, rows: Mask, names: Names) -> npt.NDArray[Any]:
    """Return a field of readable records: numbers as they stand there, times as Spark can show them, texts as codes."""
    if name in NUMBERS:
        lists = values.column(name).filter(pa.array(rows))
        behind = np.empty(len(lists), np.object_)
        for place, each in enumerate(lists):
            behind[place] = each.values.to_numpy(zero_copy_only=False)
        return behind
    if name in _TEXTS[values.layout.kind]:
        return names.codes(values.column(name).filter(pa.array(rows)))
    found = values.heads[name][rows]
    return clamped(found) if found.dtype == np.int64 else found


def _joined(chunks: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
