"""Every operation in data files and archives, in order, whatever state the files are in. Changes nothing.

A dump shows the frames that are there: a footer's columns are taken where all frames are as it says, and, marked as
damaged, for frames that are gone. Of a file
that is being written, what nothing vouches for yet is marked; what cannot be read as frames comes as damage, in its
place. What a whole directory says of its files is found out in `recovery/dump.py`.

Nothing is done here for each operation that numpy can do for all: a file comes as columns, some thousand rows at once.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.format.contents import TERM_COLUMNS, Contents, value_head_sizes, with_lost_rows
from oms_journal.journal.format.footer import BadFooter
from oms_journal.journal.format.frames import (
    FRAME_SIZE,
    GAP,
    HIGH_HALF,
    SIZES_WORD,
    WORD_BYTES,
    FrameHeader,
    words_of,
)
from oms_journal.journal.format.headers import ALIGNMENT_MAX, FRAMES_AT, Ending, FileHeader
from oms_journal.journal.format.records import (
    ATTEMPTS,
    DUE,
    EXPIRY,
    GROUP,
    MOVED,
    NO_TERMS,
    TERMS,
    Terms,
    decode_properties,
    decode_records,
    decode_set,
)
from oms_journal.journal.names import ArchiveName, DataFileName
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import Evidence, Expected, counts, gather, lost_in
from oms_journal.journal.reading.sweep import sweep
from oms_journal.journal.reading.walk import BadPayload, BadRange

PART_ROWS = 8192  # of a file that are told at once, but for those of one set
KIND_NAMES = ["", *(kind.name for kind in Operation)]
_IDENTITY = re.compile(r"[0-9a-f]{32}")  # of a database: the name of its folder in a retention directory

Column = npt.NDArray[Any]


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
    terms: Terms = NO_TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedDamage:
    """A range of a file in which there are no frames where there should be some, or one that nobody understands."""

    file: str
    sequence: int
    start: int
    end: int
    reason: str
    is_gap: bool = False  # an earlier repair has put a gap frame here


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedColumns:
    """Operations of one file, one behind the other, as columns with a row for each."""

    file: str
    sequence: int
    names: Sequence[str]  # queues and keys
    producers: Sequence[str | None]
    groups: Sequence[bytes]
    columns: Mapping[str, Column]
    data: bytes  # of the file

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def only(self, rows: npt.NDArray[np.bool_]) -> "DumpedColumns":
        """Return some of the rows."""
        return replace(self, columns={name: column[rows] for name, column in self.columns.items()})

    def properties(self) -> Iterator[bytes]:
        """Return the bytes of each row's properties."""
        sizes, starts = self.columns["properties"], self.columns["start"]
        return (self.data[at : at + size] for at, size in zip(starts.tolist(), sizes.tolist(), strict=True))

    def payloads(self) -> Iterator[bytes]:
        """Return each row's payload or value; none of a removal or a DROP has any bytes."""
        starts = self.columns["start"] + self.columns["properties"]
        sizes = self.columns["length"]
        return (self.data[at : at + size] for at, size in zip(starts.tolist(), sizes.tolist(), strict=True))

    def terms(self) -> dict[int, Terms]:
        """Return the terms of the rows that have any."""
        found = {}
        for row in np.flatnonzero(self.columns["terms"]).tolist():
            flags = int(self.columns["terms"][row])
            due, expiry, attempts, group = (
                int(self.columns[name][row]) if flags & flag else None
                for name, flag in (("due", DUE), ("expiry", EXPIRY), ("attempts", ATTEMPTS), ("group", GROUP))
            )
            found[row] = Terms(due, expiry, attempts, self.groups[group - 1] if group else None)
        return found

    def operations(self) -> Iterator[DumpedOperation]:
        """Yield the rows one by one."""
        terms = self.terms()
        names = ("kind", "name", "number", "offset", "commit", "owner", "time", "first_time", "length", "producer")
        flags = ("moved", "vouched", "damaged")
        rows = zip(*(self.columns[name].tolist() for name in (*names, *flags)), strict=True)
        of_rows = zip(rows, self.properties(), self.payloads(), strict=True)
        for place, (row, properties, payload) in enumerate(of_rows):
            kind, name, number, offset, commit, owner, time, first_time, length, producer, moved, vouched, damaged = row
            is_add, is_key = kind == Operation.ADD, kind >= Operation.PUT
            has_bytes = is_add or kind == Operation.PUT
            yield DumpedOperation(
                file=self.file,
                sequence=self.sequence,
                offset=offset,
                commit=commit,
                owner=owner,
                operation=KIND_NAMES[kind],
                message=None if is_key else number,
                queue=None if is_key else self.names[name],
                key=self.names[name] if is_key else None,
                time=time,
                first_time=first_time,
                length=length if has_bytes else None,
                properties=properties_of(properties) if is_add else None,
                payload=payload if has_bytes else None,
                producer=self.producers[producer],
                moved=moved,
                vouched=vouched,
                damaged=damaged,
                terms=terms.get(place, NO_TERMS),
            )


Dumped = DumpedOperation | DumpedDamage
DumpedPart = DumpedColumns | DumpedDamage


def one_by_one(parts: Iterable[DumpedPart]) -> Iterator[Dumped]:
    """Yield the operations of columns each by itself."""
    for part in parts:
        if isinstance(part, DumpedDamage):
            yield part
        else:
            yield from part.operations()


def properties_of(data: bytes) -> dict[str, str]:
    """Return the properties of a message; none where its bytes, which are damaged and said to be, hold none."""
    try:
        return decode_properties(data)
    except ValueError:
        return {}


def data_paths(disk: Disk, paths: Iterable[Path]) -> list[Path]:
    """Return the files that the paths mean: a directory stands for its data files, oldest first.

    One without any, where clean-up moves files to, stands for those of its folders of databases.
    """
    return [file for path in paths for file in data_files_of(disk, path)]


def data_files_of(disk: Disk, path: Path) -> list[Path]:
    """Return the files that one path means."""
    try:
        entries = disk.list(path)
    except NotADirectoryError:
        return [path]
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    its_own = _oldest_first(path, entries)
    folders = [] if its_own else sorted(entry for entry in entries if _IDENTITY.fullmatch(entry))
    return its_own or [file for folder in folders for file in _in_folder(disk, path / folder)]


def has_moved_files(directory: Path) -> bool:
    """Say whether it is a database's folder in a retention directory: clean-up has moved its files there."""
    return _IDENTITY.fullmatch(directory.name) is not None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is known of a data file by its header and by its neighbours, before its frames are looked at."""

    identity: int
    header: FileHeader | None  # None where no copy of it is good
    named: Ending | None = None  # how it ends, as its successor says
    is_promised: bool = False  # the file before it names it: its first group was durable
    is_late: bool = False  # a former owner wrote it after it was overtaken: nothing in it was acknowledged
    unreadable: Sequence[tuple[int, int]] = ()  # ranges of bytes that could not be read, and are not zeros
    floor: int = 0  # no message is added with a lower number: files before it have those
    walked: Contents | None = None  # of a file that has no footer, and nothing but good frames with good payloads
    vouched: int = 0  # where in such a file that ends which was durable

    @property
    def end(self) -> int | None:
        """Where its frames end, as its successor says."""
        return self.named.end if self.named is not None else None


def dump_files(disk: Disk, files: Iterable[Path]) -> Iterator[Dumped]:
    """Yield every operation and every damaged range of the files, in their order; DiskError, NewerFormat.

    Each is judged by itself, and by those that stand beside it in the list.
    """
    return one_by_one(dump_files_as_columns(disk, files))


def dump_files_as_columns(disk: Disk, files: Iterable[Path]) -> Iterator[DumpedPart]:
    """Yield the same as columns."""
    files = list(files)
    promised = Path()  # the file that the footer before it names: its first group was durable
    for place, path in enumerate(files):
        successor = files[place + 1] if place + 1 < len(files) else None
        try:
            named = _named(disk, path, successor)
            with DataFile(disk, path) as file:
                begun = yield from _dump_alone(file, named, is_promised=path == promised)
                promised = path.with_name(str(DataFileName(begun)))
        except FileNotFoundError:
            yield removed(path)
        except OSError as failure:
            raise DiskError(path, failure, "read") from failure


def removed(path: Path) -> DumpedDamage:
    """Return what is told of a file that was there a moment ago."""
    reason = "it was removed, by a clean-up perhaps, while it was being read"
    return DumpedDamage(file=path.name, sequence=sequence_of(path), start=0, end=0, reason=reason)


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


def _dump_alone(file: DataFile, named: Ending | None, *, is_promised: bool) -> Generator[DumpedPart, None, int]:
    """Yield a file's operations and damaged ranges; return the successor that its footer names, 0 for none."""
    found = file.header()
    header = found if isinstance(found, FileHeader) else None
    identity = header.identity if header is not None else named.identity if named is not None else None
    if identity is None:
        if not file.is_zero():
            name, sequence, reason = file.path.name, sequence_of(file.path), "the file header cannot be read"
            yield DumpedDamage(file=name, sequence=sequence, start=0, end=file.size(), reason=reason)
        return 0
    judged = Judged(identity=identity, header=header, named=named, is_promised=is_promised)
    return (yield from dump_frames(file, judged))


def dump_frames(file: DataFile, judged: Judged) -> Generator[DumpedPart, None, int]:
    """Yield a file's operations and damaged ranges; return the successor that its footer names, 0 for none. OSError."""
    footer = file.footer(identity=judged.identity)
    footer = footer.checked() if isinstance(footer, Footer) else footer
    frames = _as_was_walked(file, judged) or _as_its_footer_says(file, judged, footer) or _walked(file, judged, footer)
    if judged.header is None:
        yield _damage(file, BadRange(0, FRAMES_AT, "the file header is rotted"))
    yield from _in_order(file, frames, is_late=judged.is_late)
    return footer.summary.successor if isinstance(footer, Footer) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """The good frames of a file as columns, and what stands between them."""

    data: bytes
    contents: Contents
    bad_payloads: Sequence[BadPayload]
    vouched: int  # what begins below this offset was durable
    owner: int
    is_lost: npt.NDArray[np.bool_] | None = None  # of each row, where some are only in the footer
    others: Sequence[tuple[BadRange, bool]] = ()  # bad ranges, and, with True, what an earlier repair has put in


def _as_was_walked(file: DataFile, judged: Judged) -> _Frames | None:
    """Return what somebody has found who has walked the file."""
    contents, header = judged.walked, judged.header
    if contents is None or header is None or contents.has_gaps:
        return None
    data = file.bytes(contents.end)
    if len(data) < contents.end:
        return None  # another file by now
    return _Frames(
        data=data,
        contents=contents,
        bad_payloads=(),
        vouched=judged.vouched,
        owner=header.owner,
    )


def _as_its_footer_says(file: DataFile, judged: Judged, footer: Footer | BadFooter | None) -> _Frames | None:
    """Return what a footer says, where the frames are all good and as it says; None of any other file."""
    if not isinstance(footer, Footer) or footer.summary.has_gaps or judged.unreadable or judged.floor:
        return None
    summary, contents = footer.summary, footer.contents()
    if summary.header != judged.header or judged.end not in (None, summary.end):
        return None
    bad = sweep(file.file, summary, contents)
    if bad is None:
        return None
    return _Frames(
        data=file.bytes(summary.end),
        contents=contents,
        bad_payloads=bad,
        vouched=summary.end,
        owner=summary.header.owner,
    )


def _walked(file: DataFile, judged: Judged, footer: Footer | BadFooter | None) -> _Frames:
    data = file.bytes()
    expected = Expected(
        sequence=sequence_of(file.path) if judged.header is None else judged.header.sequence,
        identity=judged.identity,
        alignment=ALIGNMENT_MAX if judged.header is None else judged.header.alignment,
        end=judged.end,
        is_promised=judged.is_promised,
        unreadable=judged.unreadable,
        header=judged.header,
        floor=judged.floor,
    )
    evidence = gather(data, expected, footer.summary if isinstance(footer, Footer) else footer)
    found = evidence.found
    contents, is_lost = _with_second_copy(evidence, footer, judged)
    not_understood = found.not_understood()
    gaps = [frame for frame in found.frames if frame.flags & GAP and frame.offset not in not_understood]
    others = [(bad, False) for bad in evidence.ranges] + [(_gap(data, frame), True) for frame in gaps]
    return _Frames(
        data=data if is_lost is None else data + contents.value_heads,
        contents=contents,
        is_lost=is_lost,
        bad_payloads=found.bad_payloads,
        vouched=evidence.vouched,
        owner=0 if judged.header is None else judged.header.owner,
        others=sorted(others, key=lambda other: other[0].start),
    )


def _with_second_copy(
    evidence: Evidence, footer: Footer | BadFooter | None, judged: Judged
) -> tuple[Contents, npt.NDArray[np.bool_] | None]:
    """Return the rows of a walked file, with those of its footer where no frame is good, and which these are."""
    found = evidence.found
    contents, lost = found.builder.build(found.end), lost_in(found, evidence.ranges)
    if not lost or not isinstance(footer, Footer) or not counts(footer.summary, judged.identity, judged.named):
        return contents, None
    merged = with_lost_rows(contents, footer.contents(), lost)
    if merged is None:
        return contents, None
    offsets, is_lost = merged.columns["offset"].astype(np.int64), np.zeros(len(merged), np.bool_)
    for start, end in lost:
        is_lost |= (offsets >= start) & (offsets < end)
    return merged, is_lost


def _of_lost(frames: _Frames, columns: dict[str, Column]) -> dict[str, Column]:
    """Return the columns with rows that are only in the footer: no bytes but those of short values, which it has."""
    if frames.is_lost is None:
        return columns
    contents = frames.contents
    heads = value_head_sizes(np.where(contents.columns["kind"] == Operation.PUT, columns["length"], 0))
    is_short = (heads == columns["length"]) & (contents.columns["kind"] == Operation.PUT)
    beginnings = len(frames.data) - len(contents.value_heads) + np.cumsum(heads) - heads
    starts = np.where(is_short, beginnings, len(frames.data))
    return {
        **columns,
        "start": np.where(frames.is_lost, starts, columns["start"]),
        "properties": np.where(frames.is_lost, 0, columns["properties"]),
        "damaged": columns["damaged"] | frames.is_lost,
    }


def _gap(data: bytes, frame: FrameHeader) -> BadRange:
    records = list(decode_records(data[frame.records]))
    archive = records[0].name.decode() if records else "an archive"
    return BadRange(frame.offset, frame.end, f"lost in an earlier repair; what was here is in {archive}")


def _damage(file: DataFile, bad: BadRange, *, is_gap: bool = False) -> DumpedDamage:
    name, sequence = file.path.name, sequence_of(file.path)
    return DumpedDamage(file=name, sequence=sequence, start=bad.start, end=bad.end, reason=bad.reason, is_gap=is_gap)


def _in_order(file: DataFile, frames: _Frames, *, is_late: bool) -> Iterator[DumpedPart]:
    """Yield rows and damaged ranges by their places."""
    contents = frames.contents
    every = DumpedColumns(
        file=file.path.name,
        sequence=sequence_of(file.path),
        names=[_text(name) for name in contents.names],
        producers=[None, *(_text(producer) for producer in contents.producers)],
        groups=contents.groups,
        columns=_columns(frames, is_late=is_late),
        data=frames.data,
    )
    offsets, at = every.columns["offset"], 0
    for bad, is_gap in frames.others:
        behind = int(np.searchsorted(offsets, bad.start))
        yield from _parts(every, contents.sets, slice(at, behind))
        yield _damage(file, bad, is_gap=is_gap)
        at = behind
    yield from _parts(every, contents.sets, slice(at, len(offsets)))


def _text(name: bytes) -> str:
    return bytes(name).decode("utf-8", "backslashreplace")


def _columns(frames: _Frames, *, is_late: bool) -> dict[str, Column]:
    """Return the columns of a dump, with one row for each set of numbers."""
    said = frames.contents.columns
    kinds, flags, times = said["kind"], said["flags"].astype(np.uint8), said["time"].astype(np.int64)
    offsets, sizes, properties = (said[name].astype(np.int64) for name in ("offset", "size", "properties"))
    words, places = words_of(frames.data, 0), offsets // WORD_BYTES
    if frames.is_lost is not None:
        places = np.where(frames.is_lost, FRAMES_AT // WORD_BYTES, places)  # the file may have been cut
    lengths = np.where((kinds == Operation.ADD) | (kinds == Operation.PUT), sizes, 0)
    before = np.cumsum(lengths + properties) - lengths - properties
    is_first = np.concatenate(([True], offsets[1:] != offsets[:-1]))[: len(offsets)]
    first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    metas = (words[places + SIZES_WORD] >> HIGH_HALF).astype(np.int64)
    is_removal = (kinds == Operation.DELIVER) | (kinds == Operation.DELETE)
    is_moved, sets = (flags & MOVED) != 0, np.where(is_removal, sizes, 0)
    columns = {
        **{name: said[name] for name in ("kind", "name", "number", "producer", "commit", *TERM_COLUMNS)},
        "terms": said["flags"] & TERMS,
        "offset": offsets,
        "owner": np.full(len(offsets), frames.owner),
        "time": times,
        "first_time": np.where(is_moved & (kinds == Operation.ADD), said["first_time"], times),
        "length": lengths,
        "properties": properties,
        "start": offsets + FRAME_SIZE + metas + before - before[first],
        "moved": is_moved,
        "vouched": np.zeros(len(offsets), np.bool_) if is_late else offsets < frames.vouched,
        "damaged": _damaged(frames),
        "count": np.where(is_removal, said["count"], 1).astype(np.int64),
        "set": sets,
        "set_end": np.cumsum(sets),
    }
    return _of_lost(frames, columns)


def _damaged(frames: _Frames) -> npt.NDArray[np.bool_]:
    """Say of each row whether its payload or value does not match its checksum."""
    said, found = frames.contents.columns, np.zeros(len(frames.contents), np.bool_)
    names = {bytes(name): place for place, name in enumerate(frames.contents.names)}
    for bad in frames.bad_payloads:
        low, high = np.searchsorted(said["offset"], np.array([bad.frame, bad.frame + 1], said["offset"].dtype))
        mine = said["kind"][low:high] == bad.operation
        mine &= said["name"][low:high] == names[bad.name]
        if bad.operation is Operation.ADD:
            mine &= said["number"][low:high] == np.uint64(bad.number)
        found[low:high] |= mine
    return found


def _parts(every: DumpedColumns, sets: bytes, rows: slice) -> Iterator[DumpedColumns]:
    """Yield some rows, a part at a time, each number of a set with a row of its own."""
    counts = np.cumsum(every.columns["count"][rows])
    at, done = rows.start, 0
    while at < rows.stop:
        high = rows.start + max(int(np.searchsorted(counts, done + PART_ROWS, "right")), at - rows.start + 1)
        part = {name: column[at:high] for name, column in every.columns.items()}
        if (part["set"] > 0).any():
            coded = sets[int(part["set_end"][0] - part["set"][0]) : int(part["set_end"][-1])]
            part = _spread(part, coded)
        yield replace(every, columns=part)
        done, at = int(counts[high - 1 - rows.start]), high


def _spread(part: Mapping[str, Column], coded: bytes) -> dict[str, Column]:
    """Return the columns with a row for each number of a set."""
    counts, sizes = part["count"], part["set"]
    found = {name: np.repeat(column, counts) for name, column in part.items()}
    starts = np.cumsum(counts) - counts
    at = 0
    for row in np.flatnonzero(sizes).tolist():
        count, end = int(counts[row]), at + int(sizes[row])
        numbers = decode_set(int(part["number"][row]), count, coded[at:end])
        found["number"][starts[row] : starts[row] + count] = numbers
        at = end
    return found
