"""Journals that are written operation by operation, with the times, numbers and places that a test gives them.

A database refuses most of what stands in these: clocks that go back, files that begin in the middle, copies alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.footer import encode_footer
from oms_journal.journal.format.frames import FRAME_SIZE, encode_frame_head, seed_of
from oms_journal.journal.format.headers import FileHeader, align, encode_headers, xxh3
from oms_journal.journal.format.records import (
    MOVED,
    RECORD_NUMBER_AT,
    Added,
    encode_add,
    encode_drop,
    encode_put,
    encode_removal,
)
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from tests.support.journals.plain_rows import Answer, Row, signed

S = 1_000_000  # a second
T = 1_700_000_000 * S  # when the journals begin


def add(number: int, at: float, *, queue: str = "q", length: int = 10, **more: Any) -> Row:
    """Return the ADD of a message so many seconds after the beginning."""
    time = T + round(at * S)
    known = {"commit": number, "hash": 1000 + number, "time": time, "first_time": time}
    return Row(operation="ADD", message=number, queue=queue, length=length, **(known | more))


def moved(number: int, first: float, at: float, **more: Any) -> Row:
    """Return the ADD that compaction wrote of a message."""
    return add(number, at, **({"sequence": 2, "moved": True, "first_time": T + round(first * S), "commit": 900} | more))


def deliver(number: int, at: float, *, operation: str = "DELIVER", queue: str = "q", **more: Any) -> Row:
    """Return the end of a message so many seconds after the beginning."""
    known = {"commit": 100 + number, "sequence": 2, "time": T + round(at * S)}
    return Row(operation=operation, message=number, queue=queue, **(known | more))


def delete(number: int, at: float, **more: Any) -> Row:
    return deliver(number, at, operation="DELETE", **more)


def put(key: str, at: float, value: int | None = 1, **more: Any) -> Row:
    """Return the PUT of a key, or, without a value, its DROP."""
    known: dict[str, Any] = {"operation": "PUT", "length": 8, "hash": value} if value else {"operation": "DROP"}
    where: dict[str, Any] = {"key": key, "commit": 200, "time": T + round(at * S)}
    return Row(**(where | known | more))


def of(database: str, *rows: Row) -> list[Row]:
    """Return the operations as those of a database."""
    return [replace(row, database=database) for row in rows]


def by_database(found: Answer, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the chosen columns of an answer's rows, in order, by database."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        rows.setdefault(row["database"], []).append(tuple(row[name] for name in columns))
    return {database: sorted(each, key=str) for database, each in rows.items()}


def written(directory: Path, rows: Iterable[Row]) -> list[str]:
    """Write the operations as sealed data files, a directory for each database, and return the directories.

    Neighbours of one file, commit and time are one commit. Payloads are told by `hash_of`.
    """
    found: list[str] = []
    for name, of_database in groupby(rows, key=lambda row: row.database):
        spool = directory / str(len(found))
        spool.mkdir()
        _write(spool, name, sorted(of_database, key=lambda row: row.sequence))
        found.append(str(spool))
    return found


def named(found: Answer) -> Answer:
    """Return the rows with the names of databases instead of their identities."""
    return [{**row, "database": bytes.fromhex(row["database"]).rstrip(b"\0").decode()} for row in found]


def hash_of(number: int, length: int) -> int:
    """Return the hash of the payload that is written for a row with this hash and length."""
    return signed(xxh3(_payload(number, length)))


def _payload(number: int | None, length: int | None) -> bytes:
    return (number or 0).to_bytes(8, "little", signed=True).ljust(length or 0, b"\0")[:length]


def _write(spool: Path, database: str, rows: Sequence[Row]) -> None:
    header = FileHeader(
        database=database.encode().ljust(16, b"\0"), identity=1, sequence=1, owner=1, next_message=1, next_commit=1,
        low_water=1, created=T,
    )  # fmt: skip
    commit, last = 0, max((row.sequence for row in rows), default=1)
    for sequence in range(1, last + 1):
        header = replace(header, sequence=sequence, identity=sequence, next_commit=commit + 1)
        data, contents = bytearray(encode_headers(header)), ContentsBuilder()
        mine = [row for row in rows if row.sequence == sequence]
        for (_, time), together in groupby(mine, key=lambda row: (row.commit, row.time)):
            commit += 1
            offset, frame = len(data), list(together)
            records, payload = b"".join(map(_record, frame)), b"".join(_payload(row.hash, row.length) for row in frame)
            length = align(FRAME_SIZE + len(records) + len(payload), header.alignment)
            said = (length, commit, header.identity, offset, time, len(frame), 0)
            head = encode_frame_head(records, seed_of(sequence) + offset, *said)
            data += (head + payload).ljust(length, b"\0")
            contents.add(offset, head, [_payload(row.hash, row.length) for row in frame if row.operation == "PUT"])
        built = contents.build(len(data))
        ending = header.ending(end=len(data), commit=commit, chain=contents.chain())
        footer = encode_footer(built, header, xxh3(bytes(data)), (sequence + 1, sequence + 1))
        (spool / str(DataFileName(sequence))).write_bytes(bytes(data) + footer)
        header = replace(header, previous=ending)


def _record(row: Row) -> bytes:
    name = (row.queue or row.key or "").encode()
    if row.operation == "ADD":
        assert row.message is not None
        assert row.first_time is not None
        more: dict[str, Any] = {"producer": (row.producer or "").encode()}
        if row.moved:
            more |= {"flags": MOVED, "numbers": [row.message], "first_times": [row.first_time]}
        record = bytearray(encode_add(Added(name, [_payload(row.hash, row.length)], **more)))
        if not row.moved:
            record[RECORD_NUMBER_AT : RECORD_NUMBER_AT + 8] = row.message.to_bytes(8, "little")
        return bytes(record)
    if row.operation == "PUT":
        value = _payload(row.hash, row.length)
        return encode_put(name, value, xxh3(value), moved=row.moved)
    if row.operation == "DROP":
        return encode_drop(name)
    return encode_removal(Operation[row.operation], name, [row.message or 0])
