"""Targets: the parts of a data file and the journal's single files, each as bytes alone."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from oms_journal.database import lookup
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.format.contents import Ranges
from oms_journal.journal.format.footer import SUMMARY, TRAILER, BadFooter, decode_contents, decode_summary
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader, decode_frame, seed_of
from oms_journal.journal.format.headers import (
    CHECKSUM,
    FRAMES_AT,
    HEADER,
    HEADER_SIZE,
    FileHeader,
    decode_header,
    encode_header,
    xxh3,
)
from oms_journal.journal.format.lockfile import encode_owner
from oms_journal.journal.format.manifest import BackupFile, Manifest
from oms_journal.journal.format.manifest import decode as decode_manifest
from oms_journal.journal.format.manifest import encode as encode_manifest
from oms_journal.journal.format.records import (
    BadRecord,
    check_record,
    decode_properties,
    decode_records,
    decode_set,
    encode_properties,
    encode_put,
    encode_removal,
    encode_set,
)
from oms_journal.journal.lock import DirectoryLock, read_holder, read_witness
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.segment import Sealed
from oms_journal.recovery import findings
from tests.fuzz.target import MEMORY, Taker, Target, target
from tests.support.journals.golden_files import NAMES, make

FILE_TARGETS: dict[str, Target] = {}
IDENTITY = 0xFEDC_BA98_7654_3210
OFFSET = 1024
FIELDS_END = 160  # in a header; zeros follow, up to its checksum, and nobody looks at them
NUMBERS_MAX = 1_000_000  # of one removal


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
        if isinstance(found, FileHeader):
            assert decode_header(encode_header(found)) == found
            assert encode_header(found)[:FIELDS_END] == each[:FIELDS_END]


def _frames() -> Iterator[bytes]:
    for data in golden().values():
        yield data[FRAMES_AT + CHECKSUM.size : 5000]


@target(FILE_TARGETS, _frames)
def frame(data: bytes) -> None:
    """The frame's header and records behind its checksum, which is made right."""
    body = data.ljust(FRAME_SIZE - CHECKSUM.size, b"\0")
    meta = int.from_bytes(body[4:8], "little")
    sealed_body = body[: FRAME_SIZE - CHECKSUM.size + meta]
    whole = bytes(OFFSET) + CHECKSUM.pack(xxh3(sealed_body, seed_of(1) + OFFSET & (1 << 64) - 1)) + body
    found = decode_frame(whole, OFFSET, sequence=1, identity=IDENTITY)
    if isinstance(found, FrameHeader):
        assert OFFSET + FRAME_SIZE + found.meta <= found.end <= len(whole)
        with suppress(BadRecord):
            list(decode_records(whole[found.records]))


def frames_in(data: bytes) -> Iterator[FrameHeader]:
    """Yield the frames of a pinned file, one behind the other."""
    header = decode_header(data[:HEADER_SIZE])
    assert isinstance(header, FileHeader)
    at = FRAMES_AT
    while isinstance(one := decode_frame(data, at, sequence=header.sequence, identity=header.identity), FrameHeader):
        yield one
        at = one.end


def _records() -> Iterator[bytes]:
    for data in golden().values():
        for one in frames_in(data):
            yield data[one.records]
    yield encode_removal(Operation.DELETE, b"q", np.array([1, 2, 9, 10, 2**63 - 1], np.uint64))
    yield encode_put(b"k", b"v", 7, moved=True)


@target(FILE_TARGETS, _records)
def records(data: bytes) -> None:
    try:
        found = list(decode_records(data))
        listed = [one for one in found if one.count <= NUMBERS_MAX]  # a frame with more operations is refused before
        for one in listed:
            check_record(one)
    except BadRecord:
        return
    for one in listed:
        if one.kind == Operation.ADD:
            assert len(one.sizes) == len(one.checksums) == one.count
        elif one.kind in (Operation.DELIVER, Operation.DELETE):
            _numbers_come_back(one.number, one.count, one.set_bytes)


def _numbers_come_back(first: int, count: int, coded: bytes) -> None:
    """See that a set is as many ascending numbers, from the first on, and the same ones when it is coded again."""
    try:
        found = decode_set(first, count, coded)
    except BadRecord:
        return
    assert len(found) == count and found[0] == first and found[-1] < 1 << 63
    assert (found[1:] > found[:-1]).all()
    assert (decode_set(first, count, encode_set(found)) == found).all()


def _sets() -> Iterator[bytes]:
    for numbers in ([1], [1, 2, 3], [1, 3, 5, 900], [0, 2**63 - 1], list(range(5, 400, 3))):
        coded = encode_set(np.array(numbers, np.uint64))
        yield numbers[0].to_bytes(8, "little") + len(numbers).to_bytes(4, "little") + coded


@target(FILE_TARGETS, _sets)
def removal_set(data: bytes) -> None:
    taker = Taker(data)
    _numbers_come_back(taker.number(8), max(taker.number(4) % NUMBERS_MAX, 1), taker.rest())


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
    size = max(len(data), SUMMARY.size + HEADER_SIZE + TRAILER.size)
    body = bytearray(data.ljust(size, b"\0"))
    body[:16] = b"OMSFOOT2" + size.to_bytes(8, "little")
    body[SUMMARY.size : SUMMARY.size + HEADER_SIZE] = mended_header(
        bytes(body[SUMMARY.size : SUMMARY.size + HEADER.size])
    )
    body[-16:] = size.to_bytes(8, "little") + b"2ATOOFSM"
    header = decode_header(bytes(body[SUMMARY.size : SUMMARY.size + HEADER_SIZE]))
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
    yield encode_owner(12)[:40]
    yield (
        encode_owner(12)
        + b"pid 4711 host orders-1\n".ljust(128, b" ")
        + b"alive 00000000000000000012 000000042 every 000003000 ms\n"
    )


@target(FILE_TARGETS, _lock_files)
def lock_file(data: bytes) -> None:
    disk, directory = RealDisk(), folder()
    (directory / names.LOCK).write_bytes(data)
    holder = read_holder(disk, directory)
    assert holder is None or holder.silent_seconds >= 0
    former = 0 if holder is None else holder.number
    witness = read_witness(disk, directory)
    ownership = DirectoryLock.acquire(disk, directory)
    try:
        assert read_witness(disk, directory) == witness
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
