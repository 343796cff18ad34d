"""Every operation in data files and archives, in order, whatever state the files are in. Changes nothing.

Frames are walked, not footers read: a dump shows what is there. Of a file that is being written,
what nothing vouches for yet is marked; what cannot be read as frames comes as damage, in its place.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.format.frames import GAP, FrameHeader
from oms_journal.journal.format.headers import ALIGNMENT_MIN, Ending, FileHeader
from oms_journal.journal.format.records import MOVED, PROPERTIES, Record, decode_properties, decode_records, decode_set
from oms_journal.journal.names import ArchiveName, DataFileName
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import Evidence, Expected, gather
from oms_journal.journal.reading.walk import Walk, payloads

_IDENTITY = re.compile(r"[0-9a-f]{32}")  # of a database: the name of its folder in a retention directory


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedOperation:
    """One operation. Offsets and lengths in bytes, times in microseconds since 1970-01-01 UTC."""

    file: str
    sequence: int
    offset: int  # of its frame
    commit: int
    owner: int
    operation: str
    message: int | None = None
    queue: str | None = None
    key: str | None = None
    time: int = 0
    first_time: int = 0  # of a moved message's first ADD, else as `time`
    length: int | None = None  # of the payload or value
    properties: dict[str, str] | None = None
    payload: bytes | None = None  # or value
    producer: str | None = None
    moved: bool = False
    vouched: bool = True
    damaged: bool = False  # the payload does not match its checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedDamage:
    """A range of a file in which there are no frames where there should be some, or one that nobody understands."""

    file: str
    sequence: int
    start: int
    end: int
    reason: str
    is_gap: bool = False  # an earlier repair has put a gap frame here


Dumped = DumpedOperation | DumpedDamage


def data_paths(disk: Disk, paths: Iterable[Path]) -> list[Path]:
    """Return the files that the paths mean: a directory stands for its data files, oldest first.

    One without any, where clean-up moves files to, stands for those of its folders of databases.
    """
    found: list[Path] = []
    for path in paths:
        try:
            entries = disk.list(path)
        except NotADirectoryError:
            found.append(path)
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure
        else:
            its_own = _oldest_first(path, entries)
            folders = [] if its_own else sorted(entry for entry in entries if _IDENTITY.fullmatch(entry))
            found += its_own or [file for folder in folders for file in _in_folder(disk, path / folder)]
    return found


def _oldest_first(directory: Path, entries: Iterable[str]) -> list[Path]:
    parsed = [(names.parse(entry), entry) for entry in entries]
    ordered = sorted((name.sequence, entry) for name, entry in parsed if isinstance(name, DataFileName))
    return [directory / entry for _, entry in ordered]


def _in_folder(disk: Disk, folder: Path) -> list[Path]:
    try:
        return _oldest_first(folder, disk.list(folder))
    except NotADirectoryError:
        return []
    except OSError as failure:
        raise DiskError(folder, failure, "read") from failure


def sequence_of(path: Path) -> int:
    """Return the sequence in a data file's or archive's name, 0 for any other name."""
    name = names.parse(path.name)
    return name.sequence if isinstance(name, DataFileName | ArchiveName) else 0


def dump(disk: Disk, paths: Iterable[Path]) -> Iterator[Dumped]:
    """Yield every operation and every damaged range of the files, in their order; DiskError, NewerFormat."""
    files = data_paths(disk, paths)
    promised = Path()  # the file that the footer before it names: its first group was durable
    for place, path in enumerate(files):
        successor = files[place + 1] if place + 1 < len(files) else None
        try:
            named = _named(disk, path, successor)
            with DataFile(disk, path) as file:
                begun = yield from _dump_file(file, named, is_promised=path == promised)
                promised = path.with_name(str(DataFileName(begun)))
        except FileNotFoundError:
            reason = "it was removed, by a clean-up perhaps, while it was being read"
            yield DumpedDamage(file=path.name, sequence=sequence_of(path), start=0, end=0, reason=reason)
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure


def _named(disk: Disk, path: Path, successor: Path | None) -> Ending | None:
    """Return what the next file's header says of this one's end."""
    if successor is None or successor.parent != path.parent:
        return None
    try:
        with DataFile(disk, successor) as file:
            header = file.header()
    except FileNotFoundError:
        return None
    if isinstance(header, FileHeader) and header.previous.sequence == sequence_of(path):
        return header.previous
    return None


def _dump_file(file: DataFile, named: Ending | None, *, is_promised: bool) -> Generator[Dumped, None, int]:
    """Yield a file's operations and damaged ranges; return the successor that its footer names, 0 for none."""
    name, sequence = file.path.name, sequence_of(file.path)
    header = file.header()
    identity = header.identity if isinstance(header, FileHeader) else named.identity if named else None
    data = file.bytes()
    if identity is None:
        if data.strip(b"\0"):
            yield DumpedDamage(
                file=name, sequence=sequence, start=0, end=len(data), reason="the file header cannot be read"
            )
        return 0
    footer = file.footer(identity=identity)
    expected = Expected(
        path=file.path,
        identity=identity,
        header=header if isinstance(header, FileHeader) else None,
        alignment=ALIGNMENT_MIN,
        end=named.end if named is not None else None,
        is_promised=is_promised,
    )
    evidence = gather(data, expected, footer.summary if isinstance(footer, Footer) else footer)
    if not isinstance(header, FileHeader):
        start = evidence.span.start
        yield DumpedDamage(file=name, sequence=sequence, start=0, end=start, reason="the file header is rotted")
    yield from _in_order(data, evidence, name, sequence)
    return footer.summary.successor if isinstance(footer, Footer) else 0


def _in_order(data: bytes, evidence: Evidence, name: str, sequence: int) -> Iterator[Dumped]:
    found, ranges, vouched = evidence.found, iter(evidence.ranges), evidence.vouched
    not_understood = found.not_understood()
    bad = next(ranges, None)
    for frame in found.frames:
        while bad is not None and bad.start < frame.offset:
            yield DumpedDamage(file=name, sequence=sequence, start=bad.start, end=bad.end, reason=bad.reason)
            bad = next(ranges, None)
        if frame.offset in not_understood:
            continue  # told as a bad range
        yield from _dump_frame(data, frame, name, sequence, is_vouched=frame.offset < vouched, walk=found)
    while bad is not None:
        yield DumpedDamage(file=name, sequence=sequence, start=bad.start, end=bad.end, reason=bad.reason)
        bad = next(ranges, None)


def _dump_frame(  # noqa: PLR0913
    data: bytes, frame: FrameHeader, name: str, sequence: int, *, is_vouched: bool, walk: Walk
) -> Iterator[Dumped]:
    records = list(decode_records(data[frame.records]))
    if frame.flags & GAP:
        archive = records[0].name.decode() if records else "an archive"
        reason = f"lost in an earlier repair; what was here is in {archive}"
        yield DumpedDamage(file=name, sequence=sequence, start=frame.offset, end=frame.end, reason=reason, is_gap=True)
        return
    bad = {(payload.name, payload.number) for payload in walk.bad_payloads if payload.frame == frame.offset}
    fixed = {
        "file": name,
        "sequence": sequence,
        "offset": frame.offset,
        "commit": frame.commit,
        "owner": frame.owner,
        "time": frame.time,
        "vouched": is_vouched,
    }
    found = payloads(data, frame, records)
    for record in records:
        yield from _operations(record, fixed, found, bad)


def _properties(data: bytes) -> dict[str, str]:
    try:
        return decode_properties(data)
    except ValueError:
        return {}  # the payload is damaged, and said to be


def _operations(
    record: Record, fixed: dict[str, Any], found: Iterator[tuple[Record, int, bytes]], bad: set[tuple[bytes, int]]
) -> Iterator[DumpedOperation]:
    """Yield the operations of one record, taking its payloads; a removal set is one a message."""
    kind = Operation(record.kind)
    text = record.name.decode("utf-8", "backslashreplace")
    fixed = fixed | {"operation": kind.name, "first_time": fixed["time"]}
    if kind is Operation.ADD:
        fixed |= {
            "queue": text,
            "producer": record.producer.decode("utf-8", "backslashreplace") or None,
            "moved": bool(record.first_times),
        }
        for _, index, payload in islice(found, record.count):
            size = record.property_sizes[index] if record.flags & PROPERTIES else 0
            number = record.message(index)
            if record.first_times:
                fixed["first_time"] = record.first_times[index]
            yield DumpedOperation(
                **fixed,
                message=number,
                length=len(payload) - size,
                properties=_properties(payload[:size]),
                payload=payload[size:],
                damaged=(record.name, number) in bad,
            )
    elif kind in (Operation.DELIVER, Operation.DELETE):
        for number in decode_set(record.number, record.count, record.set_bytes).tolist():
            yield DumpedOperation(**fixed, queue=text, message=number)
    elif kind is Operation.PUT:
        _, _, value = next(found)
        yield DumpedOperation(
            **fixed,
            key=text,
            length=len(value),
            payload=value,
            moved=bool(record.flags & MOVED),
            damaged=(record.name, 0) in bad,
        )
    else:
        yield DumpedOperation(**fixed, key=text)
