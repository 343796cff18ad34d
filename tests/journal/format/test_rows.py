"""The rows of frames read in bulk are those that a reading record by record gives."""

from array import array
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.journal.format.contents import BULK_FRAMES_MIN, COLUMNS, Tables, rows_of
from oms_journal.journal.format.frames import FRAME_SIZE
from oms_journal.journal.format.records import MOVED, Added, TermColumns, decode_records
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import WritePosition

NAMES = st.sampled_from([b"q", b"orders", b"a queue with a rather long name", b"q" * 255, b"\0", b"q\0"])
PAYLOADS = st.lists(st.sampled_from([b"", b"x", b"y" * 300]), min_size=1, max_size=5)
NUMBERS = st.sets(st.integers(1, 1000), min_size=1, max_size=6).map(sorted)


@st.composite
def records(draw: st.DrawFn) -> tuple[Any, ...]:
    """Return what one record is made of."""
    kind = draw(st.sampled_from(list(Operation)))
    name = draw(NAMES)
    if kind == Operation.ADD:
        payloads = draw(PAYLOADS)
        producer = draw(st.sampled_from([b"", b"", b"p-1", b"p-22"]))
        properties = [b""] * len(payloads) if draw(st.booleans()) else None
        has = draw(st.sets(st.sampled_from(TermColumns._fields)))
        due, expiry = (
            [draw(st.sampled_from([0, 7, -1])) for _ in payloads] if name in has else [] for name in ("due", "expiry")
        )
        attempts = [draw(st.integers(0, 3)) for _ in payloads] if "attempts" in has else []
        groups = [draw(st.sampled_from([b"", b"g", b"h"])) for _ in payloads] if "groups" in has else []
        terms = draw(st.sampled_from([TermColumns(), TermColumns(due, expiry, attempts, groups)]))
        return kind, name, payloads, producer, properties, draw(st.booleans()), terms
    if kind in (Operation.DELIVER, Operation.DELETE):
        return kind, name, draw(NUMBERS)
    return kind, name, draw(st.sampled_from([b"", b"value", b"v" * 200]))


def _compose(commit: list[tuple[Any, ...]]) -> CommitBuilder:
    composer = CommitBuilder()
    for kind, name, *rest in commit:
        if kind == Operation.ADD:
            payloads, producer, properties, is_moved, terms = rest
            moved = list(range(7, 7 + len(payloads))) if is_moved else []
            composer.add(
                Added(
                    queue=name,
                    payloads=payloads,
                    producer=producer,
                    properties=properties,
                    flags=MOVED if is_moved else 0,
                    numbers=moved,
                    first_times=moved,
                    terms=terms,
                )
            )
        elif kind in (Operation.DELIVER, Operation.DELETE):
            composer.remove(kind, name, np.array(rest[0], np.uint64))
        elif kind == Operation.PUT:
            composer.put(name, rest[0])
        else:
            composer.drop(name)
    return composer


def heads_of(commits: list[list[tuple[Any, ...]]]) -> tuple[list[bytes], "array[int]"]:
    """Return the heads and offsets of the frames, one a commit."""
    place = WritePosition(identity=5, sequence=1, alignment=8, offset=4352, synced=0, next_message=10, next_commit=20)
    heads: list[bytes] = []
    offsets = array("Q")
    for number, commit in enumerate(commits):
        group = form(place, [_compose(commit).draft()], time=1000 + number)
        heads += group.heads
        offsets.extend(group.offsets)
        place.offset, place.next_message, place.next_commit = group.end, group.next_message, group.next_commit
    return heads, offsets


def one_by_one(heads: list[bytes], offsets: "array[int]") -> list[dict[str, Any]]:
    """Return what every row says, by names instead of places."""
    rows: list[dict[str, Any]] = []
    for head, offset in zip(heads, offsets, strict=True):
        commit, time = int.from_bytes(head[16:24], "little"), int.from_bytes(head[40:48], "little")
        for record in decode_records(head[FRAME_SIZE:]):
            is_add, is_key = record.kind == Operation.ADD, record.kind >= Operation.PUT
            for index in range(record.count if is_add else 1):
                property_bytes = record.property_sizes[index] if record.property_sizes else 0
                size = record.sizes[index] - property_bytes if is_add else len(record.set_bytes)
                rows.append(
                    {
                        "kind": record.kind,
                        "flags": record.flags,
                        "name": record.name,
                        "number": 0 if is_key else record.message(index),
                        "count": 1 if is_add else 0 if is_key else record.count,
                        "size": record.count if record.kind == Operation.PUT else size,
                        "properties": property_bytes,
                        "producer": record.producer,
                        "offset": offset,
                        "commit": commit,
                        "time": time,
                        "first_time": record.first_times[index] if record.first_times else 0,
                        "due": record.terms.due[index] if record.terms.due else 0,
                        "expiry": record.terms.expiry[index] if record.terms.expiry else 0,
                        "attempts": record.terms.attempts[index] if record.terms.attempts else 0,
                        "group": record.terms.groups[index] if record.terms.groups else b"",
                        "hash": record.checksums[index]
                        if is_add
                        else record.number
                        if record.kind == Operation.PUT
                        else 0,
                    }
                )
    return rows


@given(st.lists(st.lists(records(), min_size=1, max_size=3), max_size=12), st.integers(1, 2 * BULK_FRAMES_MIN))
def test_rows_in_bulk_are_the_rows_one_by_one(commits: list[list[tuple[Any, ...]]], repeats: int) -> None:
    heads, offsets = heads_of(commits * repeats)
    tables = Tables()

    rows = rows_of(heads, offsets, tables)

    names, producers, groups = list(tables.names), [b"", *tables.producers], [b"", *tables.groups]
    found = [
        dict(zip(COLUMNS, values, strict=True))
        for values in zip(*(rows[name].tolist() for name in COLUMNS), strict=True)
    ]
    for row in found:
        row["name"], row["producer"] = names[row["name"]], producers[row["producer"]]
        row["group"] = groups[row["group"]]
    assert found == one_by_one(heads, offsets)
    assert all(rows[name].dtype == np.dtype(f"<{kind}") for name, kind in COLUMNS.items())
    sets = [record.set_bytes for head in heads for record in decode_records(head[FRAME_SIZE:]) if record.set_bytes]
    assert [coded for coded in tables.sets if coded] == sets
