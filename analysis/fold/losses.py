"""What was lost: operations that archives hold, and the repaired files do not.

An archive is the copy of a data file from before its repair. What it still tells, by its frames or by
its footer, and the files that are in use do not say any more, is lost; whether that matters is seen
from what they say otherwise:

    lost             what the files in use say                              effect
    ADD              nothing, and no archive tells of the message's end     message lost
                     the message has an end, or an archive tells of one     already ended
    DELIVER, DELETE  the message is undelivered                             undelivered again
                     the message was ended once more                        ended twice
                     nothing of the message                                 none
    PUT, DROP        the key has another value, or is there or not though   older value
                     this was the last that was done to it
                     else                                                   none

What nobody can read any more is in the source's damage table, not here.

    told      the operations of the archives
    near      those of the files in use on the messages and keys that the archives tell of
    finish    both put together, message by message and key by key

Memory grows with the operations in the archives: about 200 bytes each. Where there is no archive nothing is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.fold.answers import LOSSES, LOSSES_BY_QUEUE, schema_of
from oms_journal.analysis.fold.arrays import in_order, is_any, made, mask, numbers, ranks, texts, there, whole
from oms_journal.analysis.fold.engine import Engine
from oms_journal.analysis.fold.figures import Mask, Numbers
from oms_journal.analysis.fold.groups import Groups
from oms_journal.analysis.fold.matching import NONE, places_among
from oms_journal.analysis.reading import rows
from oms_journal.analysis.reading.columns import byte_strings
from oms_journal.analysis.reading.damage import Report, warn
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.journal.operations import ENGINE_PREFIX, Operation

MESSAGE_LOST, ALREADY_ENDED = "message lost", "already ended"
UNDELIVERED_AGAIN, ENDED_TWICE = "undelivered again", "ended twice"
OLDER_VALUE, NO_EFFECT = "older value", "none"
EFFECTS = (MESSAGE_LOST, ALREADY_ENDED, UNDELIVERED_AGAIN, ENDED_TWICE, OLDER_VALUE, NO_EFFECT)
IN_USE = (  # columns of the operations that are looked at
    *("database", "operation", "queue", "message", "key", "time", "first_time", "length"),
    *("hash", "sequence", "offset", "owner", "commit"),
)
ARCHIVED = (*IN_USE, "file")
ENDS = (Operation.DELIVER.name, Operation.DELETE.name)
_BY_QUEUE = ("database", "queue", "operation", "effect")


@dataclass(frozen=True, slots=True)
class Things:
    """The messages and keys of one database that archives tell of."""

    messages: Numbers = field(default_factory=lambda: NONE)  # ascending
    keys: frozenset[str] = frozenset()

    def are_met(self, batch: pa.RecordBatch) -> Mask:
        """Say of each operation whether it is on one of them."""
        found = there(batch["message"]) & (places_among(self.messages, numbers(batch["message"])) >= 0)
        if self.keys:
            wanted = byte_strings([key.encode() for key in sorted(self.keys)], pa.string())
            found |= mask(pc.is_in(batch["key"], wanted)) & there(batch["key"])
        return found


@dataclass(slots=True)
class Near:
    """What files in use say of such things, and by database the first of these files that has operations."""

    operations: list[pa.Table] = field(default_factory=list)
    first: dict[str | None, int] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch, things: Mapping[str | None, Things]) -> None:
        """Take in operations, in any order."""
        databases = pc.unique(batch["database"]).to_pylist()
        for database in databases:
            of_it = batch if len(databases) == 1 else batch.filter(_is(batch["database"], database))
            sequence = pc.min(of_it["sequence"]).as_py()
            self.first[database] = min(sequence, self.first.get(database, sequence))
            if database in things:
                met = of_it.filter(pa.array(things[database].are_met(of_it)))
                if met.num_rows:
                    self.operations.append(pa.Table.from_batches([met]))

    def merge(self, later: "Near") -> None:
        """Take in what other files say."""
        self.operations += later.operations
        for database, sequence in later.first.items():
            self.first[database] = min(sequence, self.first.get(database, sequence))


def found_by(
    engine: Engine, in_use: Sequence[Partition], archives: Sequence[Partition], report: Report = warn
) -> pa.Table:
    """Return the losses that the archives tell of; NewerFormat, FormatError, DiskError.

    What is bad in the files goes to `report`, where they are read.
    """
    tables = [table for told_here in engine(archives, partial(told, report=report)) for table in told_here]
    if not tables:
        return schema_of(LOSSES).empty_table()
    archived = pa.concat_tables(tables)
    found = Near()
    for near_here in engine(in_use, partial(near, things=things_in(archived), report=report)):
        found.merge(near_here)
    return made_of(archived, found)


def told(parts: Iterable[FilePart], report: Report = warn) -> list[pa.Table]:
    """Return the operations that archives hold."""
    wanted = Wanted(columns=ARCHIVED)
    found = [batch for part in parts for batch in rows.batches(part.storage.disk(), part, wanted, report)]
    return [pa.Table.from_batches([batch]) for batch in found]


def near(parts: Iterable[FilePart], things: Mapping[str | None, Things], report: Report = warn) -> Near:
    """Return what files in use say of these messages and keys."""
    wanted, found = Wanted(columns=IN_USE), Near()
    for part in parts:
        for batch in rows.batches(part.storage.disk(), part, wanted, report):
            found.take(batch, things)
    return found


def things_in(archived: pa.Table) -> dict[str | None, Things]:
    """Return the messages and keys that archives tell of, by database."""
    found: dict[str | None, Things] = {}
    for database in pc.unique(archived["database"]).to_pylist():
        of_it = archived.filter(_is(archived["database"], database))
        messages = np.unique(numbers(of_it["message"])[there(of_it["message"])])
        keys = {key for key in pc.unique(of_it["key"]).to_pylist() if key is not None}
        found[database] = Things(messages, frozenset(key for key in keys if not key.startswith(ENGINE_PREFIX)))
    return found


def made_of(archived: pa.Table, found: Near) -> pa.Table:
    """Return the answer: a row for each operation that archives hold, and the files in use do not."""
    ours = archived.filter(pc.or_kleene(pc.is_valid(archived["message"]), pc.invert(_is_engines(archived["key"]))))
    both = pa.concat_tables([ours.select(ARCHIVED), *found.operations], promote_options="default").combine_chunks()
    is_here = np.arange(len(both)) >= len(ours)
    is_lost, effects = _judged(both, is_here)
    first = {database: sequence for database, sequence in found.first.items() if sequence}
    sequences = numbers(both["sequence"])
    for database in first:
        is_cleaned = sequences < first[database]
        is_lost &= ~(is_cleaned & _is(both["database"], database).to_numpy(zero_copy_only=False))
    lost = both.filter(pa.array(is_lost))
    columns = {name: lost[name] for name in LOSSES if name != "effect"}
    table = made(LOSSES, columns | {"effect": texts(EFFECTS, effects[is_lost])})
    return in_order(table, ("database", "sequence", "offset", "operation", "message", "key"))


def by_queue(lost: pa.Table) -> pa.Table:
    """Return how many operations of each queue were lost, from the answer above."""
    groups, time = Groups(lost, _BY_QUEUE), numbers(lost["time"])
    return made(
        LOSSES_BY_QUEUE,
        {
            **{name: groups.named(name) for name in _BY_QUEUE},
            "operations": groups.counted(),
            "bytes": groups.summed(numbers(lost["length"])),
            "first_time": groups.lowest(time),
            "last_time": groups.highest(time),
        },
    )


def _judged(both: pa.Table, is_here: Mask) -> tuple[Mask, Numbers]:
    """Say of each operation whether it is lost, and what that leads to: a place among EFFECTS.

    A message is the same wherever its ADD stands; any other operation is known by its opening and commit.
    """
    is_add, is_end, is_put = (is_any(both["operation"], names) for names in (("ADD",), ENDS, ("PUT",)))
    is_message = there(both["message"])
    place = [numbers(both["sequence"]), numbers(both["offset"])]
    of_commit = [np.where(is_add, 0, numbers(both[name])) for name in ("owner", "commit")]
    marked = both.select(["database", "message", "key", "operation"])
    for name, values in zip(("of_owner", "of_commit"), of_commit, strict=True):
        marked = marked.append_column(name, pa.array(values))
    thing, same = Groups(marked, ("database", "message", "key")), Groups(marked, marked.column_names)

    def has(which: Mask) -> Mask:
        found: Mask = (thing.counted(which) > 0)[thing.of_row]
        return found

    has_add, has_end, had_end = has(is_here & is_add), has(is_here & is_end), has(is_end)
    is_kept = (same.counted(is_here) > 0)[same.of_row]
    turn = same.first([place[0], ranks(both["file"]), place[1]], ~is_here)[same.of_row]
    is_lost = ~is_here & ~is_kept & (turn == np.arange(len(both)))

    last = thing.last(place)[thing.of_row]
    is_last = (place[0] == place[0][last]) & (place[1] == place[1][last])
    here = thing.last(place, is_here)[thing.of_row]
    has_value = (here >= 0) & is_put[here]
    hashes, lengths = ranks(both["hash"]), numbers(both["length"])
    is_equal = np.where(is_put, has_value & (hashes == hashes[here]) & (lengths == lengths[here]), ~has_value)
    of_message = np.where(
        is_add,
        np.where(had_end, EFFECTS.index(ALREADY_ENDED), EFFECTS.index(MESSAGE_LOST)),
        np.select(
            [has_end, has_add], [EFFECTS.index(ENDED_TWICE), EFFECTS.index(UNDELIVERED_AGAIN)], EFFECTS.index(NO_EFFECT)
        ),
    )
    of_key = np.where(is_last & ~is_equal, EFFECTS.index(OLDER_VALUE), EFFECTS.index(NO_EFFECT))
    return is_lost, np.where(is_message, of_message, of_key)


def _is(column: pa.Array | pa.ChunkedArray, text: str | None) -> pa.Array:
    return pc.is_null(whole(column)) if text is None else pc.fill_null(pc.equal(whole(column), text), False)


def _is_engines(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.fill_null(pc.starts_with(column, ENGINE_PREFIX), False)
