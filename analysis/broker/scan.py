"""The two passes over data files that a broker's questions take.

first     the records under the broker's keys
second    how the first messages of those units of work and publications ended of which their records alone do not
          tell what became; where there are none, no second one
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.broker.records import KEPT, Latest, Records, Trail, is_behind
from oms_journal.analysis.fold.arrays import is_any, numbers
from oms_journal.analysis.fold.engine import Engine
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.matching import places_among
from oms_journal.analysis.fold.messages import Columns, some
from oms_journal.analysis.reading.damage import Report, warn
from oms_journal.analysis.reading.datafile import opened
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.rows import batches, batches_of
from oms_journal.analysis.reading.schema import Micros, Wanted
from oms_journal.broker.records import PREFIX, RecordKind, Status

COMPLETE = (Status.BACKEDOUT, Status.PROCESSED, Status.CANCELLED, Status.TIMEOUT, Status.DISCARDED)
ENDING = ("database", "sequence", "offset", "operation", "message")  # columns of the ends of messages
ON_KEYS, ON_ENDS = frozenset(("PUT", "DROP")), frozenset(("DELIVER", "DELETE"))
_PREFIX = PREFIX.encode()
Doubtful = Mapping[str | None, Numbers]  # by database, the numbers of messages, ascending


@dataclass(slots=True)
class Ends:
    """How messages ended: of several ends of one message a DELIVER, and of those the last."""

    found: dict[str | None, list[Columns]] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch, doubtful: Doubtful) -> None:
        """Take in ends of messages, with the columns of ENDING, as far as they are asked for."""
        for database in pc.unique(batch["database"]).to_pylist():
            if database not in doubtful:
                continue
            is_its = pc.is_null(batch["database"]) if database is None else pc.equal(batch["database"], database)
            rows = batch.filter(is_its)
            columns: Columns = {
                **{name: numbers(rows[name]) for name in ("message", "sequence", "offset")},
                "is_delivered": is_any(rows["operation"], ("DELIVER",)),
            }
            is_asked = places_among(doubtful[database], columns["message"]) >= 0
            if is_asked.any():
                self.found.setdefault(database, []).append(some(columns, is_asked))

    def merge(self, later: "Ends") -> None:
        """Take in other ends."""
        for database, chunks in later.found.items():
            self.found.setdefault(database, []).extend(chunks)

    def of(self, database: str | None, messages: Numbers) -> tuple[Mask, Columns]:
        """Return for each message whether an end is known, and the end: any where none is."""
        chunks = self.found.get(database, [])
        if not chunks:
            none: Columns = dict.fromkeys(("sequence", "offset"), np.zeros(len(messages), np.int64))
            return np.zeros(len(messages), np.bool_), none | {"is_delivered": np.zeros(len(messages), np.bool_)}
        columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        order = np.lexsort(tuple(columns[name] for name in ("offset", "sequence", "is_delivered", "message")))
        last = np.append(np.diff(columns["message"][order]) != 0, True)
        columns = some(columns, order[last])
        places = places_among(columns["message"], messages)
        return places >= 0, some(columns, np.maximum(places, 0))


@dataclass(frozen=True, slots=True)
class Store:
    """What journals tell of brokers."""

    records: Records
    ends: Ends

    @property
    def is_a_brokers(self) -> bool:
        """Whether anything was done to a key of a broker's."""
        return bool(self.records.trails)


def read(engine: Engine, partitions: Sequence[Partition], until: Micros | None = None, report: Report = warn) -> Store:
    """Return what the files tell of brokers before a time; NewerFormat, FormatError, DiskError.

    What is bad in the files goes to `report`, where they are read.
    """
    records = Records()
    for told in engine(partitions, partial(records_in, until=until, report=report)):
        records.merge(told)
    return with_ends(records, engine, partitions, until, report)


def with_ends(
    records: Records,
    engine: Engine,
    partitions: Sequence[Partition],
    until: Micros | None = None,
    report: Report = warn,
) -> Store:
    """Return these records, with the ends that the second pass finds; NewerFormat, FormatError, DiskError."""
    ends = Ends()
    doubtful = doubtful_in(records)
    if doubtful:
        for ended in engine(partitions, partial(ends_in, doubtful=doubtful, until=until, report=report)):
            ends.merge(ended)
    return Store(records, ends)


def records_in(parts: Iterable[FilePart], until: Micros | None = None, report: Report = warn) -> Records:
    """Return what neighbouring files tell under a broker's keys; values are read only where there is such a key."""
    wanted, found = Wanted(columns=KEPT, operations=ON_KEYS, until=until), Records()
    for part in parts:
        with opened(part.storage.disk(), part) as reading:
            if any(bytes(name).startswith(_PREFIX) for name in reading.contents.names):
                for batch in batches_of(reading, wanted, report):
                    found.take(batch)
    return found


def ends_in(parts: Iterable[FilePart], doubtful: Doubtful, until: Micros | None = None, report: Report = warn) -> Ends:
    """Return how neighbouring files say that messages ended."""
    wanted, found = Wanted(columns=ENDING, operations=ON_ENDS, until=until), Ends()
    for part in parts:
        for batch in batches(part.storage.disk(), part, wanted, report):
            found.take(batch, doubtful)
    return found


def doubtful_in(records: Records) -> dict[str | None, Numbers]:
    """Return the first messages of those whose end tells what became of them: dropped, and not complete before."""
    found = {}
    for database, trail in records.in_order():
        numbers_ = [_doubtful_of(trail, kind) for kind in (RecordKind.UOW, RecordKind.PUBLICATION)]
        together = np.unique(np.concatenate(numbers_))
        if len(together):
            found[database] = together
    return found


def _doubtful_of(trail: Trail, kind: RecordKind) -> Numbers:
    of_kind = trail.of(kind)
    records = of_kind.records.rows()
    if not len(records["key"]):
        return np.empty(0, np.int64)
    is_dropped, _ = dropped(records, of_kind.drops)
    is_open = is_dropped & (records["first"] != 0)
    if kind is RecordKind.UOW:
        is_open &= ~np.isin(records["status"], COMPLETE)
    found: Numbers = records["first"][is_open].astype(np.int64)
    return found


def dropped(records: Columns, drops: Latest) -> tuple[Mask, Columns]:
    """Return for each latest record whether its key was dropped behind it, and that DROP: any where none was."""
    found = drops.rows()
    if not len(found["key"]):
        none: Columns = dict.fromkeys(("sequence", "offset", "time"), np.zeros(len(records["key"]), np.int64))
        return np.zeros(len(records["key"]), np.bool_), none
    places = places_among(found["key"].astype(np.int64), records["key"].astype(np.int64))
    found = some(found, np.maximum(places, 0))
    return (places >= 0) & is_behind(found, records), found
