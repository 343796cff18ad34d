"""Files whose checksums are right, and which no writer of ours makes: refused in words, with little memory."""

import contextlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseLocked, FormatError
from oms_journal.journal.format.contents import Contents, Ranges, empty_columns
from oms_journal.journal.format.footer import BadFooter, encode_footer
from oms_journal.journal.format.frames import FRAME_SIZE, GAP, encode_frame_head, seed_of
from oms_journal.journal.format.headers import FRAMES_AT, Ending, FileHeader, align, encode_headers, xxh3
from oms_journal.journal.format.lockfile import NUMBER_MAX, encode_owner
from oms_journal.journal.format.records import MOVED, RECORD, SET_SIZE, encode_drop, encode_gap, encode_put, padded
from oms_journal.journal.lock import DirectoryLock, read_holder
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.dump import DumpedDamage, DumpedOperation
from oms_journal.recovery.dump import dump
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.support.journals.golden_files import make
from tests.support.sweeps import a_sample

HEADER = FileHeader(
    database=bytes(16), identity=5, sequence=1, owner=7, next_message=1, next_commit=1, low_water=1, created=1
)
BILLIONS = bytes((0xFF, 0xFF, 0xFF, 0xFF, 0x0F))  # 2^32 - 1 as LEB128


def file_of(
    records: bytes, operations: int, flags: int = 0, payload: bytes = b"", *, header: FileHeader = HEADER
) -> bytes:
    """Return a data file of one frame with these records."""
    length = align(FRAME_SIZE + len(records) + len(payload), 8)
    said = (seed_of(header.sequence) + FRAMES_AT, length, header.next_commit, header.identity, 0, 1, operations, flags)
    return encode_headers(header) + (encode_frame_head(records, *said) + payload).ljust(length, b"\0")


def _add(name: bytes, property_size: int = 0, *, payload: bytes = b"", first: int = 1) -> bytes:
    head = RECORD.pack(Operation.ADD, 1, len(name), 0, 1, first)
    checksum = xxh3(payload).to_bytes(8, "little")
    return padded(head + checksum + len(payload).to_bytes(4, "little") + property_size.to_bytes(4, "little") + name)


def _adds(name: bytes, count: int, *, first: int) -> bytes:
    """Return the record of so many empty messages."""
    sums = xxh3(b"").to_bytes(8, "little") * count
    return padded(RECORD.pack(Operation.ADD, 0, len(name), 0, count, first) + sums + bytes(4 * count) + name)


def _moved(name: bytes, number: int) -> bytes:
    """Return the record of an empty message that was moved."""
    columns = (xxh3(b""), number, 1)
    sums = b"".join(each.to_bytes(8, "little") for each in columns)
    return padded(RECORD.pack(Operation.ADD, MOVED, len(name), 0, 1, 0) + sums + bytes(4) + name)


def _removal(count: int, coded: bytes, first: int = 1) -> bytes:
    return padded(RECORD.pack(Operation.DELETE, 0, 1, 0, count, first) + SET_SIZE.pack(len(coded)) + coded + b"q")


FILES = {
    "a set of billions in a few bytes": file_of(_removal((1 << 32) - 1, BILLIONS), (1 << 32) - 1),
    "a set of other numbers than it says": file_of(_removal(5, b"\x04"), 5),
    "a message behind the last number": file_of(_add(b"q", first=1 << 63), 1),
    "messages up to behind the last number": file_of(_adds(b"q", 2, first=(1 << 63) - 1), 2),
    "a moved message behind the last number": file_of(_moved(b"q", 1 << 63), 1),
    "a number behind the last one": file_of(_removal(1, b"", 1 << 63), 1),
    "a set behind the last number": file_of(_removal(2, b"\x01\x00\x01", (1 << 63) - 1), 2),
    "a gap in the frame of a commit": file_of(encode_gap(b"archive", 3), 1),
    "a gap with the records of a commit": file_of(encode_put(b"k", b"", xxh3(b"")), 0, GAP),
    "a gap that says operations": file_of(encode_gap(b"archive", 3), 1, GAP),
    "a gap whose archive is no text": file_of(encode_gap(b"\xff", 3), 0, GAP),
    "a gap that cannot be read": file_of(bytes(24), 0, GAP),
    "a queue that is no text": file_of(_add(b"\xff"), 1),
    "a plain message in a queue that is no text": file_of(_adds(b"\xff", 1, first=1), 1),
    "a message's removal from a queue that is no text": file_of(_removal(1, b"").replace(b"q", b"\xff"), 1),
    "a key that is no text": file_of(encode_drop(b"\xff"), 1),
    "properties longer than their message": file_of(_add(b"q", 9, payload=b"four"), 1, payload=b"four"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_frame_that_no_writer_makes_is_lost_for_everyone_who_reads_it(tmp_path: Path, what: str) -> None:
    (tmp_path / str(DataFileName(1))).write_bytes(FILES[what])

    (damage,) = dump(RealDisk(), [tmp_path])
    (verdict,) = validate_directory(tmp_path)
    with MessageDatabase.open(tmp_path) as db:
        (loss,) = db.recovery.lost
        assert db.undelivered_count() == 0

    assert isinstance(damage, DumpedDamage)
    assert "cannot be understood" in damage.reason
    assert verdict.verdict is Verdict.DAMAGED
    assert (loss.start, loss.end) == (damage.start, damage.end)
    with MessageDatabase.open(tmp_path) as db:
        assert db.recovery.intact


@pytest.mark.parametrize("second", [1, 4, 5])
def test_a_file_with_a_number_of_an_earlier_file_loses_that_frame_only(tmp_path: Path, second: int) -> None:
    header = replace(HEADER, sequence=2, identity=6, next_commit=2)
    (tmp_path / str(DataFileName(1))).write_bytes(file_of(_adds(b"q", 1, first=5), 1))
    (tmp_path / str(DataFileName(2))).write_bytes(file_of(_adds(b"q", 1, first=second), 1, header=header))
    reports = validate_directory(tmp_path)
    dumped = list(dump(RealDisk(), [tmp_path]))
    with MessageDatabase.open(tmp_path) as db:
        (loss,) = db.recovery.lost
        assert [message.number for message in db.undelivered()] == [5]
    assert [report.verdict for report in reports] == [Verdict.CLEAN, Verdict.DAMAGED]
    assert [type(one) for one in dumped] == [DumpedOperation, DumpedDamage]
    assert "numbers from 6 on come next" in loss.reason
    with MessageDatabase.open(tmp_path) as db:
        assert db.recovery.intact


@pytest.mark.parametrize("end", [1, 760, 769, 776, 816, 1001])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_is_said_to_end_where_none_can_is_refused_in_words(
    tmp_path: Path, end: int, is_there: bool
) -> None:
    previous = Ending(sequence=1, identity=HEADER.identity, end=end, commit=1)
    header = replace(HEADER, sequence=2, identity=6, next_message=2, next_commit=2, previous=previous)
    if is_there:
        (tmp_path / str(DataFileName(1))).write_bytes(file_of(_adds(b"q", 1, first=1), 1))
    (tmp_path / str(DataFileName(2))).write_bytes(file_of(_adds(b"q", 1, first=2), 1, header=header))
    for _ in range(2):
        with pytest.raises(FormatError, match="of no writer"):
            MessageDatabase.open(tmp_path)


# Footers.


_DELETE, _PUT = int(Operation.DELETE), int(Operation.PUT)
WRONG: dict[str, dict[str, Any]] = {
    "an unknown kind": {"kind": 9},
    "no kind": {"kind": 0},
    "a name that is not there": {"name": 7},
    "a producer that is not there": {"producer": 3},
    "an offset behind the end": {"offset": 1 << 40},
    "a set without its bytes": {"kind": _DELETE, "count": 2, "size": 3},
    "a removal of nothing": {"kind": _DELETE, "count": 0, "size": 0},
    "a value without its beginning": {"kind": _PUT, "size": 9},
    "a name that is no text": {"names": (b"\xff",)},
    "more rows than the frames have room for": {"rows": 1 << 20},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_footer_that_contradicts_itself_is_a_bad_one_and_the_frames_are_walked(tmp_path: Path, what: str) -> None:
    frames = file_of(_add(b"q", payload=b"m"), 1, payload=b"m")
    said: dict[str, Any] = {
        "kind": 1,
        "count": 1,
        "number": 1,
        "size": 1,
        "offset": FRAMES_AT,
        "names": (b"q",),
        "rows": 1,
    } | WRONG[what]
    kinds = {name: column.dtype for name, column in empty_columns().items()}
    columns = {name: np.full(said["rows"], said.get(name, 0), kind) for name, kind in kinds.items()}
    contents = Contents(columns=columns, names=said["names"], frame_count=1, end=len(frames), last_commit=1)
    path = tmp_path / str(DataFileName(1))
    path.write_bytes(frames + encode_footer(contents, HEADER, xxh3(frames), (0, 0)))

    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=HEADER.identity)
        assert isinstance(footer.checked() if isinstance(footer, Footer) else footer, BadFooter)
    with MessageDatabase.open(tmp_path) as db:
        assert [file.row for file in db.recovery.files] == ["damaged footer"]
        assert db.recovery.lost == ()
        assert [message.payload for message in db.undelivered()] == [b"m"]


_RANGES = [one.name for one in fields(Ranges)]


def with_ranges(path: Path, **said: tuple[int, int]) -> None:
    """Write a sealed file's footer again, with other ranges and the right checksums."""
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer)
    contents, summary = footer.contents(), footer.summary
    assert contents.ranges is not None
    other = replace(contents, ranges=replace(contents.ranges, **said))
    data = path.read_bytes()[: summary.start]
    path.write_bytes(data + encode_footer(other, summary.header, xxh3(data), (0, 0)))


@a_sample(6)
@pytest.mark.parametrize("name", _RANGES)
@pytest.mark.parametrize("said", [(1, 0), (5, 7), (-9, 1 << 62)])
def test_ranges_of_a_footer_that_are_not_those_of_its_rows_are_refused_where_the_whole_file_is_read(
    tmp_path: Path, name: str, said: tuple[int, int]
) -> None:
    path = make(tmp_path, "sealed")
    for other in tmp_path.iterdir():
        if other != path:
            other.unlink()
    with DatabaseView.open(tmp_path) as view:
        numbers = {*view.numbers()}
    with_ranges(path, **{name: said})

    (report,) = validate_directory(tmp_path)
    with MessageDatabase.open(tmp_path) as db:
        (file,) = db.recovery.files
        assert {*db.numbers()} == numbers and not db.recovery.lost
        assert db.add("q", b"new") > max(numbers)

    assert (report.row, file.row) == ("damaged footer", "damaged footer")
    assert "ranges" in report.reason


# What stands in the place of frames.


@pytest.mark.parametrize("size", [16, 56, 300])
def test_a_dump_says_that_the_last_frames_of_a_sealed_file_were_zeroed(tmp_path: Path, size: int) -> None:
    path = make(tmp_path, "sealed")
    for other in tmp_path.iterdir():
        if other != path:
            other.unlink()
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        end = footer.summary.end
    data = bytearray(path.read_bytes())
    data[end - size : end] = bytes(size)
    path.write_bytes(data)

    damage = [one for one in dump(RealDisk(), [path]) if isinstance(one, DumpedDamage) or one.damaged]

    assert damage


# The lock file.


@pytest.mark.parametrize(
    "content",
    [
        b"owner 99999999999999999999\n",
        encode_owner(NUMBER_MAX + 1),
        "owner ٣".encode(),
        b"owner -1\n",
        b"\xff" * 200,
    ],
    ids=range(5),
)
def test_a_lock_file_that_names_no_owner_is_taken_when_nobody_has_it_locked(tmp_path: Path, content: bytes) -> None:
    (tmp_path / names.LOCK).write_bytes(content)
    other = RealDisk().open_lock(tmp_path / names.LOCK)
    assert read_holder(RealDisk(), tmp_path) is None

    other.try_lock(7)
    with pytest.raises(DatabaseLocked):
        DirectoryLock.acquire(RealDisk(), tmp_path)
    with pytest.raises(FormatError, match="does not say who owns the directory"):
        read_holder(RealDisk(), tmp_path)
    assert (tmp_path / names.LOCK).read_bytes() == content

    other.close()
    with contextlib.closing(DirectoryLock.acquire(RealDisk(), tmp_path)) as ownership:
        assert ownership.number == 1


def test_an_owner_that_says_to_renew_after_ages_is_read_as_one_that_says_nothing(tmp_path: Path) -> None:
    holder = encode_owner(12) + b"pid 1 host h\n".ljust(128)
    (tmp_path / names.LOCK).write_bytes(holder + b"alive 12 1 every " + b"9" * 3000 + b" ms\n")

    found = read_holder(RealDisk(), tmp_path)

    assert found is not None and found.number == 12 and found.renew_seconds == 0
