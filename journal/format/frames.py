"""The frame of a commit as bytes: its header, whose checksum covers the records too.

What a frame holds is in `records.py`. All numbers are little-endian. Whoever reads many headers at once reads them
as words of 8 bytes, which the fields never cross.

Frames follow one another from the first place on (`headers.py`). Each says whose it is, by the identity of its file,
and where it belongs, by what its checksum's seed is made of: bytes of another file, at another place, or inside a
message, are no frame.

Frame, starting at a multiple of 8:

    field       bytes  meaning
    checksum    8      XXH3 over the rest of this header and the records; seed: below
    length      4      bytes from here to the next frame: header, records, payloads, padding
    meta        4      bytes of the records
    commit      8      number of the commit
    identity    8      of the file, as in its header
    synced      8      the file was durable up to this offset when the frame was written
    time        8      of the commit: microseconds since 1970-01-01 UTC, signed
    operations  4      how many operations the commit has
    flags       4      1: a gap frame, standing in for a damaged range; others are not understood

The seed is (the SEQ of the file's name × 9e3779b97f4a7c15 (hexadecimal) + the frame's own offset) mod 2^64.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oms_journal.journal.disk import Buffer
from oms_journal.journal.format.headers import ALIGNMENT_MAX, CHECKSUM, xxh3

FRAME_BYTES_MAX = (1 << 30) + (1 << 20)  # bounds what a corrupt length can make us allocate
COMMIT_BYTES_MAX = FRAME_BYTES_MAX - ALIGNMENT_MAX  # so much is left for what makes a group's last frame longer
OPERATIONS_MAX = 1_000_000
GAP = 1  # frame flag
FRAME_FLAGS = GAP
SEED_MASK = (1 << 64) - 1
SEED_STEP = 0x9E3779B97F4A7C15  # between the seeds of two files: odd, and far from any offset

# Where each field stands, from the beginning of the frame.
FRAME_CHECKSUM_AT = 0
FRAME_LENGTH_AT = 8  # what the checksum is over begins here
FRAME_META_AT = 12
FRAME_COMMIT_AT = 16
FRAME_IDENTITY_AT = 24
FRAME_SYNCED_AT = 32
FRAME_TIME_AT = 40
FRAME_OPERATIONS_AT = 48
FRAME_FLAGS_AT = 52

FRAME = struct.Struct("<QIIQQQqII")
FRAME_BODY = struct.Struct("<IIQQQqII")  # the frame header without its checksum
FRAME_SIZE = FRAME.size
assert FRAME_SIZE == 56 == CHECKSUM.size + FRAME_BODY.size
FRAME_CHECKSUM = slice(FRAME_CHECKSUM_AT, FRAME_LENGTH_AT)
META = struct.Struct("<I")
LENGTH = struct.Struct("<I")

WORD_BYTES = 8
# The same as places of words. Where two fields share one, the first is the low half and the second the high one.
CHECKSUM_WORD = FRAME_CHECKSUM_AT // WORD_BYTES
SIZES_WORD = FRAME_LENGTH_AT // WORD_BYTES  # length and meta
COMMIT_WORD = FRAME_COMMIT_AT // WORD_BYTES
IDENTITY_WORD = FRAME_IDENTITY_AT // WORD_BYTES
SYNCED_WORD = FRAME_SYNCED_AT // WORD_BYTES
TIME_WORD = FRAME_TIME_AT // WORD_BYTES
COUNTS_WORD = FRAME_OPERATIONS_AT // WORD_BYTES  # operations and flags
FRAME_WORDS = FRAME_SIZE // WORD_BYTES
LOW_HALF = np.uint64(0xFFFFFFFF)
HIGH_HALF = np.uint64(32)  # a shift

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """The fixed part of a frame whose checksum was right, and where it stands."""

    offset: int
    checksum: int
    length: int
    meta: int
    commit: int
    identity: int
    synced: int
    time: int
    operations: int
    flags: int

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def records(self) -> slice:
        """Where in the file the records are."""
        return slice(self.offset + FRAME_SIZE, self.offset + FRAME_SIZE + self.meta)


@dataclass(frozen=True, slots=True)
class BadFrame:
    """No frame starts at this offset, and why."""

    offset: int
    reason: str
    is_zero: bool = False


def number_at(data: Buffer, place: int) -> int:
    """Return the number of 8 bytes at a place; what is behind the end of the data counts as zeros."""
    return int.from_bytes(data[place : place + WORD_BYTES], "little")


def length_at(data: Buffer, offset: int) -> int:
    """Return the length that the header of a frame at this offset names, unverified; likewise."""
    return int.from_bytes(data[offset + FRAME_LENGTH_AT : offset + FRAME_META_AT], "little")


def words_of(data: bytes | memoryview, start: int) -> Words:
    """Return the data from `start` on as words, without what is left over."""
    return np.frombuffer(data[start : start + (len(data) - start) // WORD_BYTES * WORD_BYTES], "<u8")


def are_possible(sizes: Words) -> npt.NDArray[np.bool_]:
    """Say of each word of length and meta whether a frame can have them."""
    length, meta = sizes & LOW_HALF, sizes >> HIGH_HALF
    found: npt.NDArray[np.bool_] = (
        (length >= meta + np.uint64(FRAME_SIZE)) & (length % WORD_BYTES == 0) & (length <= FRAME_BYTES_MAX)
    )
    return found


def joined_checksums(frames: Iterable[FrameHeader]) -> bytes:
    """Return what the chain of these frames is over."""
    return b"".join([CHECKSUM.pack(frame.checksum) for frame in frames])


def seed_of(sequence: int) -> int:
    """Return what the checksums of a file's frames are seeded with, before the offset is added."""
    return sequence * SEED_STEP & SEED_MASK


def encode_frame_head(  # noqa: PLR0913
    records: Buffer,
    seed: int,
    length: int,
    commit: int,
    identity: int,
    synced: int,
    time: int,
    operations: int,
    flags: int,
) -> bytes:
    """Return a frame's header and records. The seed is the file's plus the frame's offset."""
    body = FRAME_BODY.pack(length, len(records), commit, identity, synced, time, operations, flags) + records
    return CHECKSUM.pack(xxh3(body, seed & SEED_MASK)) + body


def decode_frame(  # noqa: PLR0913
    data: bytes | memoryview,
    offset: int,
    *,
    sequence: int,
    identity: int | None,
    base: int = 0,
    limit: int | None = None,
) -> FrameHeader | BadFrame:
    """Return the frame at the offset of a file, its header and records verified (not yet its payloads).

    Where the file's identity is not known, the frame may have any.
    `data` are bytes of the file from offset `base` on, and hold at least header and records. No length
    is believed beyond `limit`, the end of the file: without one, the end of the data.
    """
    at = offset - base
    if at + FRAME_SIZE > len(data):
        return BadFrame(offset, f"a frame header does not fit into the {len(data) - at} bytes left")
    checksum, length, meta, commit, its, synced, time, operations, flags = FRAME.unpack_from(data, at)
    if not length:
        is_zero = not any(data[at : at + FRAME_SIZE])
        return BadFrame(offset, "zeros where a frame should be" if is_zero else "a frame of length 0", is_zero)
    if length > FRAME_BYTES_MAX or length % 8 or length < FRAME_SIZE + meta:
        return BadFrame(offset, f"the length {length} is impossible")
    if at + FRAME_SIZE + meta > len(data):
        return BadFrame(offset, f"the records end {at + FRAME_SIZE + meta - len(data)} bytes behind the file")
    seen = xxh3(data[at + CHECKSUM.size : at + FRAME_SIZE + meta], (seed_of(sequence) + offset) & SEED_MASK)
    if seen != checksum:
        return BadFrame(offset, "the frame's checksum does not match")
    if identity not in (None, its):
        return BadFrame(offset, "the frame is another file's")
    behind = offset + length - (base + len(data) if limit is None else limit)
    if behind > 0:
        return BadFrame(offset, f"the frame ends {behind} bytes behind the file")
    return FrameHeader(
        offset=offset,
        checksum=checksum,
        length=length,
        meta=meta,
        commit=commit,
        identity=its,
        synced=synced,
        time=time,
        operations=operations,
        flags=flags,
    )
