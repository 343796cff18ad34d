"""The header of a data file as bytes, the alignment, and the checksum.

A data file is a header (written twice), then frames (`frames.py`), one behind the other; a sealed file ends in a
footer (`footer.py`). All numbers are little-endian, all offsets count from the start of the file. The copies of the
header stand in different blocks of 4096 bytes, so that a block that is lost does not cost both. The first frame
stands at 4352, whatever the alignment; behind each group of frames that were synced together the file has a length
that is a multiple of the alignment.

File header, at byte 0 and again at byte 4096, zeros in between:

    field              bytes  meaning
    magic              8      89 4F 4D 53 44 0D 0A 1A
    version            4      of the format: 2
    header size        4      256
    database           16     identity of the database
    parent             16     identity of the database it was restored from, or zeros
    parent sequence    8      files of the parent are accepted up to this sequence
    identity           8      random, of this file; each of its frames has it, and it seeds the checksum of its footer
    sequence           8      the SEQ of the file's name
    owner              8      number of the opening that wrote the file
    next message       8      no message of this number or higher existed before this file
    next commit        8      likewise for commits
    low water          8      files below this sequence are not needed any more
    created            8      microseconds since 1970-01-01 UTC, signed
    alignment          4      of groups: a power of two from 8 to 4096
    flags              4      zero
    previous sequence  8      the file written before this one, 0 for none; and of that file:
    previous identity  8      its identity
    previous end       8      the first byte behind its last frame
    previous commit    8      its last commit number
    previous chain     8      XXH3 over its frames' checksums, in order, 8 bytes each
    zeros              88
    checksum           8      XXH3 (64 bits, seed 0) over the 248 bytes before
"""

import struct
from dataclasses import dataclass

import xxhash

MAGIC = b"\x89OMSD\r\n\x1a"
MAGIC_OF_VERSION_1 = b"\x89OMSJ\r\n\x1a"
SECOND_HEADER_OF_VERSION_1_AT = 512
VERSION = 2
ALIGNMENT_MIN = 8  # frames are multiples of 8, so with 8 a group's last frame is as long as any other
ALIGNMENT_MAX = 4096
SECTOR_BYTES = 512  # what a device writes as a whole, at the least; groups aligned to as much share none
NUMBERS_END = 1 << 63  # of messages and commits: a footer says the highest as a signed number
NUMBERS_MAX = 1 << 31  # that one data file gives: each message takes twelve bytes of it at the least

HEADER = struct.Struct("<8sII16s16sQQQQQQQqIIQQQQQ88x")
CHECKSUM = struct.Struct("<Q")
HEADER_SIZE = HEADER.size + CHECKSUM.size
assert HEADER_SIZE == 256
HEADER_COPIES = (0, 4096)
HEADERS_SIZE = HEADER_COPIES[-1] + HEADER_SIZE
FRAMES_AT = HEADERS_SIZE  # the first frame's place

WRITTEN_BY_VERSION_1 = (
    "format version 1, written by version 0.1 of this program, which alone can read it: "
    "take the messages out with that one, and put them into a new directory"
)

xxh3 = xxhash.xxh3_64_intdigest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the file before this one ended, as its successor's header says it."""

    sequence: int = 0
    identity: int = 0
    end: int = 0
    commit: int = 0
    chain: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHeader:
    """What a data file says of itself at its beginning."""

    database: bytes
    parent: bytes = bytes(16)
    parent_sequence: int = 0
    identity: int
    sequence: int
    owner: int
    next_message: int
    next_commit: int
    low_water: int
    created: int
    alignment: int = ALIGNMENT_MIN
    previous: Ending = Ending()

    def ending(self, *, end: int, commit: int, chain: int) -> Ending:
        """Return how the file ends, as its successor will say it."""
        return Ending(sequence=self.sequence, identity=self.identity, end=end, commit=commit, chain=chain)


@dataclass(frozen=True, slots=True)
class BadHeader:
    """Bytes that are no file header, and why."""

    reason: str
    version: int | None = None  # set when the header is whole and only its meaning is beyond us


def align(offset: int, alignment: int) -> int:
    """Return the first multiple of the alignment at or behind the offset."""
    return -(-offset // alignment) * alignment


def encode_header(header: FileHeader) -> bytes:
    """Return the header's 256 bytes."""
    previous = header.previous
    body = HEADER.pack(
        MAGIC,
        VERSION,
        HEADER_SIZE,
        header.database,
        header.parent,
        header.parent_sequence,
        header.identity,
        header.sequence,
        header.owner,
        header.next_message,
        header.next_commit,
        header.low_water,
        header.created,
        header.alignment,
        0,
        previous.sequence,
        previous.identity,
        previous.end,
        previous.commit,
        previous.chain,
    )
    return body + CHECKSUM.pack(xxh3(body))


def encode_headers(header: FileHeader) -> bytes:
    """Return all that stands before the first frame: both copies of the header, and zeros."""
    copy = encode_header(header)
    return copy.ljust(HEADER_COPIES[1], b"\0") + copy


def decode_header(data: bytes) -> FileHeader | BadHeader:
    """Return the header that 256 bytes hold, or why they hold none."""
    if len(data) < HEADER_SIZE:
        return BadHeader(f"the header is cut off after {len(data)} bytes")
    if data.startswith(MAGIC_OF_VERSION_1):
        return BadHeader(WRITTEN_BY_VERSION_1, 1)
    if data[: len(MAGIC)] != MAGIC:
        return BadHeader("this is not a data file: the magic bytes are missing")
    if CHECKSUM.unpack_from(data, HEADER.size)[0] != xxh3(data[: HEADER.size]):
        return BadHeader("the header's checksum does not match")
    _, version, size, *values, alignment, flags, sequence, identity, end, commit, chain = HEADER.unpack_from(data)
    if version != VERSION:
        return BadHeader(f"format version {version}, this program knows up to {VERSION}", version)
    if size != HEADER_SIZE or flags or not _is_alignment(alignment):
        return BadHeader("the header has values that this program does not know", version)
    names = "database parent parent_sequence identity sequence owner next_message next_commit low_water created"
    header = FileHeader(
        **dict(zip(names.split(), values, strict=True)),
        alignment=alignment,
        previous=Ending(sequence=sequence, identity=identity, end=end, commit=commit, chain=chain),
    )
    if sequence >= header.sequence or max(header.next_message, header.next_commit, commit) > NUMBERS_END:
        return BadHeader("the header's numbers are of no writer")
    return header


def _is_alignment(number: int) -> bool:
    return ALIGNMENT_MIN <= number <= ALIGNMENT_MAX and not number & (number - 1)
