"""Small stores to damage, and what must be left of one when a known place of it is damaged.

A store is read here frame by frame, without recovery and without footers, into what each frame does.
Replaying that with some frames lost, or some messages' bytes damaged, gives exactly what a start may
find: nothing invented, nothing lost but what stood at the damaged place.
"""

import dataclasses
import errno
import random
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format.footer import Summary, decode_contents, decode_summary, trailer_size
from oms_journal.journal.format.frames import FRAME_SIZE, GAP, FrameHeader, decode_frame
from oms_journal.journal.format.headers import FRAMES_AT, HEADER_COPIES, FileHeader, decode_header, encode_headers, xxh3
from oms_journal.journal.format.lockfile import Witness, witness_said
from oms_journal.journal.format.records import (
    MOVED,
    PROPERTIES,
    VALUE_HEAD_BYTES,
    Record,
    decode_properties,
    decode_records,
    decode_set,
)
from oms_journal.journal.names import FOUND, LOCK
from oms_journal.journal.operations import Operation
from oms_journal.recovery.report import FileReport
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import SPOOL, Account, Content, State, Unattended, Writer, open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk

HELD = "\0held/"  # keys of what is held back


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes of one message or value: where they are, and what they stand for."""

    start: int
    end: int
    number: int = 0
    content: Content | None = None
    key: str = ""
    value: bytes = b""
    is_whole: bool = True  # False: its bytes were damaged when it was read, as somebody has noted
    is_moved: bool = False  # a message that clean-up has written again, under its own number

    @property
    def is_short_value(self) -> bool:
        """Say whether a footer has all of it."""
        return bool(self.key) and len(self.value) <= VALUE_HEAD_BYTES


@dataclass(frozen=True, slots=True)
class FrameAt:
    """One frame, and what it does."""

    name: str  # of the data file
    offset: int
    body: int  # where its pieces begin
    end: int
    synced: int
    pieces: tuple[Piece, ...] = ()
    removed: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    is_gap: bool = False  # what an earlier repair has put in the place of frames that were lost


@dataclass(slots=True)
class Store:
    """The files of a database that nobody has open, and what is in them."""

    files: dict[str, bytes]
    account: Account
    frames: list[FrameAt] = field(default_factory=list)
    witness: Witness | None = None  # what the lock file says

    def __post_init__(self) -> None:
        self.witness = self.witness or witness_said(self.files.get(LOCK, b""))
        for name in self.data_files():
            self.frames += _frames(name, self.files[name])

    def data_files(self) -> list[str]:
        return [name for name in self.files if name.endswith(".data")]

    def newest(self) -> str:
        return self.data_files()[-1]

    def disk(self, **changed: bytes | None) -> SimulatedDisk:
        """Return a disk with the files, some of them changed or, with None, gone; names without `.data`."""
        disk = SimulatedDisk()
        for name, data in self.files.items():
            disk.put(SPOOL / name, data)
        for name, changed_data in changed.items():
            path = SPOOL / f"{name}.data"
            disk.put(path, changed_data) if changed_data is not None else disk.remove(path)
        return disk

    def damaged(self, name: str, data: bytes | None) -> SimulatedDisk:
        return self.disk(**{name.removesuffix(".data"): data})

    def flipped(self, name: str, bit: int) -> SimulatedDisk:
        data = bytearray(self.files[name])
        data[bit // 8] ^= 1 << bit % 8
        return self.damaged(name, bytes(data))

    def frame_at(self, name: str, offset: int) -> FrameAt | None:
        return next((f for f in self.frames if f.name == name and f.offset <= offset < f.end), None)

    def frames_of(self, name: str) -> list[FrameAt]:
        return [frame for frame in self.frames if frame.name == name]

    def is_sealed(self, name: str) -> bool:
        """Say whether a file has a footer, which tells what its frames did."""
        return self.frames_of(name)[-1].end < len(self.files[name].rstrip(b"\0"))

    def rotted(self, *frames: FrameAt, pieces: Collection[Piece] = ()) -> State:
        """Return what is there when frames cannot be read, and bytes of others, where footers tell what they did."""
        told = [frame for frame in frames if self.is_sealed(frame.name)]
        sealed = [piece for frame in self.frames if self.is_sealed(frame.name) for piece in frame.pieces]
        damaged = [*pieces, *(piece for frame in told for piece in frame.pieces)]
        gone = [piece for piece in damaged if not (piece.is_short_value and piece in sealed)]
        return self.state(lost=[frame for frame in frames if frame not in told], damaged=gone)

    def state(self, *, lost: Collection[FrameAt] = (), damaged: Collection[Piece] = ()) -> State:
        """Return what is there without the lost frames; what is damaged cannot be read, and hides what it replaced."""
        state, places = State(), dict[int, str]()
        ranges: dict[str, bytes] = {}
        unclear: dict[str, str] = {}  # keys of what is held back whose values cannot be read, and their data files
        for frame in self.frames:
            if frame in lost:
                continue
            for piece in frame.pieces:
                if piece.content is not None:
                    state.messages.pop(piece.number, None)
                    if piece.is_whole and piece not in damaged:
                        state.messages[piece.number] = piece.content
                        places[piece.number] = frame.name
                elif piece.key.startswith(HELD):
                    unclear.pop(piece.key, None)
                    ranges[piece.key] = piece.value
                    if not piece.is_whole or piece in damaged:
                        ranges[piece.key], unclear[piece.key] = b"", frame.name
                elif not piece.key.startswith("\0"):
                    state.keys.pop(piece.key, None)
                    if piece.is_whole and piece not in damaged:
                        state.keys[piece.key] = piece.value
            for number in frame.removed:
                state.messages.pop(number, None)
            for key in frame.dropped:
                state.keys.pop(key, None)
                ranges.pop(key, None)
                unclear.pop(key, None)
        pairs = [pair for value in ranges.values() for pair in struct.iter_unpack("<QQ", value)]
        held = {n for n in state.messages if any(first <= n <= last for first, last in pairs)}
        held.update(n for n in state.messages if places[n] <= max(unclear.values(), default=""))
        return State(dict(sorted(state.messages.items())), state.keys, frozenset(held))


@cache
def small_store(*, is_closed: bool = True, seed: int = 1, **named: object) -> Store:
    """Return a store of three files and some 9 KB: every operation, sets, properties, moved messages.

    Many files of tests ask for the same ones, which nobody changes.
    """
    disk, account = SimulatedDisk(), Account()
    database = open_unattended(disk, **named)
    _fill(Writer(database, account), database, random.Random(seed))
    if is_closed:
        database.close()
    return Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, account)


def _fill(writer: Writer, database: Unattended, chance: random.Random) -> None:
    first = writer.add("old", b"an old one that is moved", kind="old")
    writer.put("moved", b"a value that is moved")
    passing = [*writer.add_many("passing", [chance.randbytes(300) for _ in range(9)])]
    passing += writer.add_many("passing", [chance.randbytes(300) for _ in range(9)])
    writer.deliver(*passing)
    database.cleanup(compact=True)
    assert writer.account.state.messages.keys() == {first}
    numbers = writer.add_many("many", [b"", b"x", *(chance.randbytes(30) for _ in range(4))])
    writer.add("props", b"with properties", kind="b", note="odd \u2603 \0 character")
    writer.put("key", b"its first value")
    writer.add("identified", b"order-1", producer_id="order-1")
    writer.deliver(numbers[0], numbers[2], numbers[3])
    writer.put("key", b"its second value")
    writer.put("dropped", b"not for long")
    writer.exchange(numbers[1], "many", b"exchanged", "pair", b"v")
    large = writer.add("large", chance.randbytes(150))
    writer.drop("dropped")
    writer.delete(numbers[4])
    writer.add("large", chance.randbytes(100))
    writer.add_many("two", [chance.randbytes(50)] * 2)
    writer.delete(large)
    database.vouch()
    for turn in range(3):
        writer.add("last", bytes([turn]) * 9)


def headers_of(data: bytes) -> FileHeader:
    """Return what the first good copy of the header says: a power cut may have torn one."""
    return next(found for at in HEADER_COPIES if isinstance(found := decode_header(data[at : at + 256]), FileHeader))


def _frames(name: str, data: bytes) -> Iterator[FrameAt]:
    header = headers_of(data)
    offset = FRAMES_AT
    while (frame := _frame(data, offset, header)) is not None:
        if frame.flags & GAP:
            yield from _told(name, data, frame)
            offset = frame.end
            continue
        records = list(decode_records(data[frame.records]))
        pieces = tuple(_pieces(data, frame, records))
        removed = [
            number
            for record in records
            if record.kind in (Operation.DELIVER, Operation.DELETE)
            for number in decode_set(record.number, record.count, record.set_bytes).tolist()
        ]
        dropped = tuple(record.name.decode() for record in records if record.kind == Operation.DROP)
        body = offset + FRAME_SIZE + frame.meta
        yield FrameAt(name, offset, body, frame.end, frame.synced, pieces, tuple(removed), dropped)
        offset = frame.end


def _told(name: str, data: bytes, gap: FrameHeader) -> Iterator[FrameAt]:
    """Yield what a gap stands for: what the footer says that the frames did which were lost."""
    body, size = gap.offset + FRAME_SIZE + gap.meta, trailer_size(data)  # what fills it is nobody's
    summary = decode_summary(data[len(data) - size :], identity=None) if size is not None else None
    if not isinstance(summary, Summary):
        yield FrameAt(name, gap.offset, body, gap.end, gap.synced, is_gap=True)
        return
    contents = decode_contents(data[len(data) - summary.size :], summary)
    columns = {column: contents.columns[column].tolist() for column in ("kind", "name", "number", "count", "offset")}
    flags, sizes, sets = (
        *(contents.columns[name].tolist() for name in ("flags", "size")),
        iter(contents.removal_sets()),
    )
    pieces: list[Piece] = []
    removed: list[int] = []
    dropped: list[str] = []
    for kind, text, number, count, offset, size, flag in zip(*columns.values(), sizes, flags, strict=True):
        key, is_removal = contents.names[text].decode(), kind in (Operation.DELIVER, Operation.DELETE)
        numbers = next(sets).tolist() if is_removal and size else [number]
        if not gap.offset <= offset < gap.end:
            continue
        assert len(numbers) == count or not is_removal
        if kind == Operation.ADD:
            content, is_moved = Content(key, b""), bool(flag & MOVED)
            pieces.append(Piece(gap.end, gap.end, number, content, is_whole=False, is_moved=is_moved))
        elif kind == Operation.PUT:
            value = contents.short_value(key.encode(), offset)
            pieces.append(Piece(gap.end, gap.end, key=key, value=value or b"", is_whole=value is not None))
        elif kind == Operation.DROP:
            dropped.append(key)
        else:
            removed += numbers
    done = tuple(pieces), tuple(removed), tuple(dropped)
    yield FrameAt(name, gap.offset, body, gap.end, gap.synced, *done, is_gap=True)


def _frame(data: bytes, offset: int, header: FileHeader) -> FrameHeader | None:
    frame = decode_frame(data, offset, sequence=header.sequence, identity=header.identity)
    return frame if isinstance(frame, FrameHeader) else None


def _pieces(data: bytes, frame: FrameHeader, records: list[Record]) -> Iterator[Piece]:
    end = frame.offset + FRAME_SIZE + frame.meta
    for record in records:
        name = record.name.decode()
        for index in range(record.count if record.kind == Operation.ADD else record.kind == Operation.PUT):
            start = end
            if record.kind == Operation.PUT:
                end = start + record.count
                is_whole = xxh3(data[start:end]) == record.checksum(index)
                yield Piece(start, end, key=name, value=data[start:end], is_whole=is_whole)
                continue
            size = record.property_sizes[index] if record.flags & PROPERTIES else 0
            end = start + record.sizes[index]
            number, is_moved = record.message(index), bool(record.flags & MOVED)
            if xxh3(data[start:end]) != record.checksum(index):
                yield Piece(start, end, number, Content(name, b""), is_whole=False, is_moved=is_moved)
                continue
            properties = tuple(decode_properties(data[start : start + size]).items())
            content = Content(name, data[start + size : end], properties)
            yield Piece(start, end, number, content, is_moved=is_moved)


def archives_in(disk: SimulatedDisk, directory: Path = SPOOL) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(directory).items() if name.endswith(".archive")}


def with_header(data: bytes, **changes: object) -> bytes:
    """Return the file with another header and no footer."""
    header = dataclasses.replace(headers_of(data), **changes)  # type: ignore[arg-type]
    return encode_headers(header) + data[FRAMES_AT:]


def report_on(disk: SimulatedDisk, name: str) -> FileReport:
    return next(report for report in validate_directory(SPOOL, disk) if report.name == name)


def assert_refused(
    disk: SimulatedDisk,
    kind: type[JournalError],
    text: str,
    *,
    files_that_can_be_read: tuple[str, ...] | None = None,
    **options: object,
) -> None:
    """Check that a start is refused with this error, twice, and that nothing of the data changed."""
    own = (LOCK, FOUND)
    before = {name: data for name, data in disk.contents(SPOOL).items() if name not in own}
    for _ in range(2):
        with pytest.raises(kind) as refused:
            open_unattended(disk, **options)
        assert text in str(refused.value)
        assert not isinstance(refused.value, DiskError) or refused.value.failure.errno == errno.EIO
    assert {name: data for name, data in disk.contents(SPOOL).items() if name not in own} == before
