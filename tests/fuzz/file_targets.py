"""Targets: the parts of a data file and the journal's single files, each as bytes alone."""

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from oms_journal.database import lookup
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DiskError, FormatError, JournalError
from oms_journal.journal.format.contents import Ranges
from oms_journal.journal.format.footer import TRAILER, BadFooter, decode_contents, decode_summary
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader, decode_frame
from oms_journal.journal.format.headers import (
    CHECKSUM,
    HEADER,
    HEADER_SIZE,
    BadHeader,
    FileHeader,
    decode_header,
    encode_header,
    xxh3,
)
from oms_journal.journal.format.manifest import BackupFile, Manifest
from oms_journal.journal.format.manifest import decode as decode_manifest
from oms_journal.journal.format.manifest import encode as encode_manifest
from oms_journal.journal.format.records import (
    BadRecord,
    decode_properties,
    decode_records,
    decode_set,
    encode_properties,
    encode_put,
    encode_removal,
    encode_set,
)
from oms_journal.journal.lock import DirectoryLock, read_holder
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.segment import Sealed
from oms_journal.recovery import findings
from tests.fuzz.target import MEMORY, Taker, Target, target
from tests.support.journals import foreign_reader
from tests.support.journals.golden_files import NAMES, make

FILE_TARGETS: dict[str, Target] = {}
IDENTITY = 0xFEDC_BA98_7654_3210
OFFSET = 1024
NUMBERS_MAX = 100_000  # of a set that both readers are asked to list: the other one takes its time


@cache
def golden() -> dict[str, bytes]:
    """Return the pinned data files, by name."""
    found = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = make(Path(folder), name).read_bytes()
    return found


def mended_header(data: bytes) -> bytes:
    """Return 256 bytes whose checksum is right."""
    body = data[: HEADER.size].ljust(HEADER.size, b"\0")
    return body + CHECKSUM.pack(xxh3(body))


def _headers() -> Iterator[bytes]:
    yield from (data[:HEADER_SIZE] for data in golden().values())


@target(FILE_TARGETS, _headers)
def file_header(data: bytes) -> None:
    for each in (data, mended_header(data)):
        found = decode_header(each)
        try:
            theirs = foreign_reader.header(each)
        except foreign_reader.Refused:
            assert isinstance(found, BadHeader) and found.version is not None
            continue
        if theirs is None:
            assert isinstance(found, BadHeader) and found.version is None
            continue
        assert isinstance(found, FileHeader)
        assert decode_header(encode_header(found)) == found
        assert (found.sequence, found.previous.chain) == (theirs["sequence"], theirs["previous_chain"])


def _frames() -> Iterator[bytes]:
    for data in golden().values():
        yield data[768 + CHECKSUM.size : 1400]


@target(FILE_TARGETS, _frames)
def frame(data: bytes) -> None:
    """The frame's header and records behind its checksum, which is made right."""
    body = data.ljust(FRAME_SIZE - CHECKSUM.size, b"\0")
    meta = int.from_bytes(body[4:8], "little")
    sealed_body = body[: FRAME_SIZE - CHECKSUM.size + meta]
    whole = bytes(OFFSET) + CHECKSUM.pack(xxh3(sealed_body, IDENTITY + OFFSET & (1 << 64) - 1)) + body
    found = decode_frame(whole, OFFSET, identity=IDENTITY)
    try:
        theirs = foreign_reader.frame(whole, OFFSET, len(whole), IDENTITY)
    except foreign_reader.Refused:
        return
    assert isinstance(found, FrameHeader) == (theirs is not None)
    if isinstance(found, FrameHeader):
        assert theirs is not None and found.end == theirs["end"]
        list(decode_records(whole[found.records]))


def _records() -> Iterator[bytes]:
    for data in golden().values():
        with_frames = foreign_reader.read_file({"data": data, "header": foreign_reader.header(data[:256])})
        for one in with_frames["frames"]:
            yield data[one["at"] + FRAME_SIZE : one["at"] + FRAME_SIZE + one["meta"]]
    yield encode_removal(Operation.DELETE, b"q", np.array([1, 2, 9, 10, 2**64 - 1], np.uint64))
    yield encode_put(b"k", b"v", 7, moved=True)


@target(FILE_TARGETS, _records)
def records(data: bytes) -> None:
    try:
        found = list(decode_records(data))
    except BadRecord:
        found = None
    try:
        theirs = foreign_reader.records(data)
    except foreign_reader.Refused:
        # What pads the last record may be cut off for us: a frame's length is a multiple of 8, which says it as well.
        assert found is None or len(data) % 8
        return
    assert found is not None and len(found) == len(theirs)
    for ours, other in zip(found, theirs, strict=True):
        assert (ours.name, ours.producer, ours.count) == (other["name"], other["producer"], other["count"])
        if ours.kind == Operation.ADD:
            assert [ours.message(index) for index in range(ours.count)] == other["numbers"]
            assert list(ours.sizes) == list(other["sizes"])
        elif ours.kind in (Operation.DELIVER, Operation.DELETE):
            _same_numbers(ours.number, ours.count, ours.set_bytes)


def _same_numbers(first: int, count: int, coded: bytes) -> None:
    try:
        found = decode_set(first, count, coded).tolist()
    except BadRecord:
        found = None
    if count > NUMBERS_MAX or (found is None and len(coded) > 3):
        return  # the other reader would list what it is going to refuse
    try:
        theirs = foreign_reader.number_set(first, count, coded)
    except foreign_reader.Refused:
        theirs = None
    assert found == theirs
    if found is not None:
        again = encode_set(np.array(found, np.uint64))
        assert decode_set(first, count, again).tolist() == found


def _sets() -> Iterator[bytes]:
    for numbers in ([1], [1, 2, 3], [1, 3, 5, 900], [0, 2**64 - 1], list(range(5, 400, 3))):
        coded = encode_set(np.array(numbers, np.uint64))
        yield numbers[0].to_bytes(8, "little") + len(numbers).to_bytes(4, "little") + coded


@target(FILE_TARGETS, _sets)
def removal_set(data: bytes) -> None:
    taker = Taker(data)
    _same_numbers(taker.number(8), max(taker.number(4), 1), taker.rest())


def _properties() -> Iterator[bytes]:
    for each in ({}, {"": ""}, {"größe": "10", "a": "b" * 300}):
        yield encode_properties(each)


@target(FILE_TARGETS, _properties)
def properties(data: bytes) -> None:
    try:
        found = decode_properties(data)
    except ValueError:
        return
    assert decode_properties(encode_properties(found)) == found


def mended_footer(data: bytes) -> bytes:
    """Return a footer whose sizes, magics and checksums are right, of whatever stands between them."""
    size = max(len(data), 232 + HEADER_SIZE + TRAILER.size)
    body = bytearray(data.ljust(size, b"\0"))
    body[:16] = b"OMSFOOT1" + size.to_bytes(8, "little")
    body[232 : 232 + HEADER_SIZE] = mended_header(bytes(body[232 : 232 + HEADER.size]))
    body[-16:] = size.to_bytes(8, "little") + b"1ATOOFSM"
    header = decode_header(bytes(body[232 : 232 + HEADER_SIZE]))
    if isinstance(header, FileHeader):
        body[-24:-16] = CHECKSUM.pack(xxh3(bytes(body[:-24]), header.identity))
    return bytes(body)


def _footers() -> Iterator[bytes]:
    for name, data in golden().items():
        if name != "unsealed":
            yield data[-int.from_bytes(data[-16:-8], "little") :]


@target(FILE_TARGETS, _footers)
def footer(data: bytes) -> None:
    whole = mended_footer(data)
    for each in (data, whole):
        summary = decode_summary(each, identity=None)
        if isinstance(summary, BadFooter):
            continue
        try:
            contents = decode_contents(each, summary)
            columns = {name: contents.columns[name].tolist() for name in contents.columns.encoded}  # type: ignore[attr-defined]
            contents.removal_sets()
            contents.value_head(b"\0low-water")
        except BadRecord:
            continue
        assert {len(column) for column in columns.values()} == {summary.rows}


def _index_files() -> Iterator[bytes]:
    ranges = Ranges(added=(1, 5), removed=(2, 3), time=(-1, 7))
    for files in ([], [Sealed(1, 2, 900, Ranges())], [Sealed(2, 5, 4096, ranges), Sealed(1, 2, 900, ranges)]):
        yield lookup.encode_index_file(7, files)


@target(FILE_TARGETS, _index_files)
def index_file(data: bytes) -> None:
    lookup.decode_index_file(data)
    found = lookup.decode_index_file(data + CHECKSUM.pack(xxh3(data)))
    if found is not None:
        ordered = sorted(found.files, key=lambda file: file.sequence)
        again = lookup.decode_index_file(lookup.encode_index_file(found.owner, found.files))
        assert again == lookup.SealedFiles(found.owner, ordered)


@cache
def folder() -> Path:
    """Return a folder of this process, in memory where nobody says where and the machine has such a file system."""
    kept = tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", MEMORY))
    _KEPT.append(kept)
    return Path(kept.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # removed with the process


def _lock_files() -> Iterator[bytes]:
    yield b""
    yield bytes(200)
    yield b"owner 00000000000000000012\n".ljust(20, b" ")
    yield (
        b"owner 00000000000000000012\n"
        + b"pid 4711 host orders-1\n".ljust(128, b" ")
        + b"alive 00000000000000000012 000000042 every 000003000 ms\n"
    )


@target(FILE_TARGETS, _lock_files)
def lock_file(data: bytes) -> None:
    disk, directory = RealDisk(), folder()
    (directory / names.LOCK).write_bytes(data)
    is_readable, former = True, 0
    try:
        holder = read_holder(disk, directory)
    except JournalError:
        is_readable = False
    else:
        assert holder is None or holder.silent_seconds >= 0
        former = 0 if holder is None else holder.number
    try:
        ownership = DirectoryLock.acquire(disk, directory)
    except JournalError:
        return
    try:
        assert is_readable, "what nobody can read is nobody's to take"
        assert ownership.is_ours() and ownership.number == former + 1
        ownership.renew()
        seen = read_holder(disk, directory)
        assert seen is not None and (seen.number, seen.count) == (ownership.number, 1)
    finally:
        ownership.close()


def _hold_files() -> Iterator[bytes]:
    yield (3).to_bytes(8, "little")


@target(FILE_TARGETS, _hold_files)
def hold_file(data: bytes) -> None:
    disk, directory = RealDisk(), folder()
    for each in (data, data[:8] + CHECKSUM.pack(xxh3(data[:8]))):
        (directory / names.HOLD).write_bytes(each)
        try:
            sequence = findings.intended(disk, directory)
        except (DiskError, FormatError):
            continue
        assert 0 <= sequence < 1 << 64


def _manifests() -> Iterator[bytes]:
    file = BackupFile(sequence=1, identity=2, size=3, checksum=4, is_sealed=True)
    whole = encode_manifest(Manifest(database=bytes(16), source="h:/größe", files=(file,)))
    yield whole[: len(whole) // 2]


@target(FILE_TARGETS, _manifests)
def backup_manifest(data: bytes) -> None:
    """What a backup says it consists of: a copy whose size and checksum are made right."""
    body = bytearray(data[:1000].ljust(160, b"\0"))
    body[:12] = b"\x89OMSB\r\n\x1a\x01\0\0\0"
    body[16:24] = (len(body) + 8).to_bytes(8, "little")
    copy = (bytes(body) + CHECKSUM.pack(xxh3(bytes(body)))).ljust(1024, b"\0")
    for each in (data, copy + copy):
        found = decode_manifest(each)
        if isinstance(found, Manifest) and "\ufffd" not in found.source:
            assert decode_manifest(encode_manifest(found)) == found
