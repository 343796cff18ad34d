"""What a broker keeps beside its messages: its starts and ends, and how many records of each kind there are."""

import numpy as np
import pyarrow as pa

from oms_journal.analysis.broker.answers import BROKER_RECORDS, BROKER_STARTS
from oms_journal.analysis.broker.records import COUNTS, Trail
from oms_journal.analysis.broker.scan import Store
from oms_journal.analysis.fold.arrays import in_order, made, same, texts, together
from oms_journal.analysis.fold.messages import some
from oms_journal.broker.records import CheckpointName, RecordKind

_MEANINGS = {"ETBC": "cold start", "ETBH": "hot start", "ETBT": "termination"}


def broker_starts(store: Store) -> pa.Table:
    """Return one row for each start and each orderly end of a broker, as far as the journal tells of them.

    A broker that was killed has no end.
    """
    found = [_starts_of(database, trail) for database, trail in store.records.in_order()]
    return together(BROKER_STARTS, [table for table in found if len(table)])


def broker_records(store: Store) -> pa.Table:
    """Return how many records of each kind the broker keeps, has written and has dropped."""
    rows = []
    for database, trail in store.records.in_order():
        for kind, records in sorted(trail.kinds.items(), key=lambda each: each[0].name):
            operations = records.operations.rows()
            if len(operations["key"]):
                lengths = operations["length"][operations["is_put"]]
                counts = dict(zip(COUNTS, records.counts.tolist(), strict=True))
                rows.append(
                    {"database": database, "kind": kind.name, "keys": len(lengths), "bytes": int(lengths.sum())}
                    | counts
                )
    columns = {name: [row[name] for row in rows] for name in BROKER_RECORDS}
    return made(BROKER_RECORDS, {name: pa.array(values, BROKER_RECORDS[name].type) for name, values in columns.items()})


def _starts_of(database: str | None, trail: Trail) -> pa.Table:
    chunks = trail.of(RecordKind.CHECKPOINT).every
    if not chunks:
        return pa.table({})
    marks = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    known = np.stack([marks[name].astype(np.int64) for name in ("time", "starts", "name")])
    _, rows = np.unique(known, axis=1, return_index=True)
    marks, names = some(marks, rows), trail.names.texts
    masters = _masters(trail)
    master = [masters.get(starts, (-1, -1)) for starts in marks["starts"].tolist()]
    platform, version = (np.array([each[at] for each in master], np.int64) for at in (0, 1))
    checkpoints = ["", *(CheckpointName(number).name for number in sorted(CheckpointName))]
    table = made(
        BROKER_STARTS,
        {
            "database": same(database, len(rows)),
            "broker_id": texts(names, marks["broker_id"]),
            "time": (marks["time"], marks["time"] != 0),
            "checkpoint": texts(checkpoints, marks["name"]),
            "what": texts([_MEANINGS.get(name) for name in checkpoints], marks["name"]),
            "starts": marks["starts"],
            "job": texts(names, marks["job"]),
            "platform": texts(names, platform),
            "version": texts(names, version),
        },
    )
    return in_order(table, ("time", "starts", "checkpoint"))


def _masters(trail: Trail) -> dict[int, tuple[int, int]]:
    """Return platform and version of the program, as places among the texts, by the number of the start."""
    found: dict[int, tuple[int, int]] = {}
    names = ("sequence", "offset", "starts", "platform", "version")
    chunks = trail.of(RecordKind.MASTER).every
    rows = [row for chunk in chunks for row in zip(*(chunk[name].tolist() for name in names), strict=True)]
    for _, _, starts, platform, version in sorted(rows):
        found[starts] = platform, version
    return found
