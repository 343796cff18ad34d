"""The frame of one plain message: header and record as one, since most commits are that and nothing else.

Plain: without properties and producer identifier, added once, alone in its commit. Up to the queue's name every
field of such a frame stands at the same place. `frames.py` and `records.py` say what the fields mean.
"""

import struct
from collections.abc import Callable

import numpy as np

from oms_journal.journal.format.frames import FRAME_SIZE, META, WORD_BYTES
from oms_journal.journal.format.records import (
    RECORD_COUNT_AT,
    RECORD_KIND_AT,
    RECORD_NAME_AT,
    RECORD_NUMBER_AT,
    SINGLE,
    SINGLE_CHECKSUM_AT,
    SINGLE_SIZE_AT,
)
from oms_journal.journal.operations import Operation

# Where the record's fields stand, from the beginning of the frame.
PLAIN_KIND_AT = FRAME_SIZE + RECORD_KIND_AT
PLAIN_NUMBER_AT = FRAME_SIZE + RECORD_NUMBER_AT
PLAIN_CHECKSUM_AT = FRAME_SIZE + SINGLE_CHECKSUM_AT
PLAIN_SIZE_AT = FRAME_SIZE + SINGLE_SIZE_AT
PLAIN_NAME_AT = FRAME_SIZE + SINGLE.size  # the queue's name itself
RECORD_WORD = PLAIN_KIND_AT // WORD_BYTES  # kind, flags, name, extra and count
NUMBER_WORD = PLAIN_NUMBER_AT // WORD_BYTES
HASH_WORD = PLAIN_CHECKSUM_AT // WORD_BYTES
SIZE_WORD = PLAIN_SIZE_AT // WORD_BYTES  # its low half

# Reading: checksum, length, meta, identity, time, PLAIN_MARK, size of the name, number, and the message's checksum
# and size.
PLAIN = struct.Struct("<QII8xQ8xq10sB5xQQI")
PLAIN_MARK = struct.pack("<IIBB", 1, 0, Operation.ADD, 0)  # operations, frame flags, kind, flags: what makes it one
assert PLAIN.size == PLAIN_NAME_AT
# Of any frame whose first record is an ADD of one message that was not moved: checksum, length, meta, identity, time;
# kind, flags, sizes of name and identifier, count, number; the message's checksum and size.
FIRST = struct.Struct("<QII8xQ8xq8xBBBBIQQI")
assert FIRST.size == PLAIN_NAME_AT
# Likewise as words: operations and frame flags; and the record's first word but for the size of the name.
PLAIN_COUNTS = np.uint64(1)
PLAIN_RECORD = np.uint64(Operation.ADD << 8 * RECORD_KIND_AT | 1 << 8 * RECORD_COUNT_AT)
RECORD_NAME_SHIFT = np.uint64(8 * RECORD_NAME_AT)
RECORD_NAME_MASK = np.uint64(0xFF << 8 * RECORD_NAME_AT)

# Writing: what all frames of a group have in common, identity, synced and time; and all of one queue.
GROUP_FIELDS = struct.Struct("<QQq")


def queue_fields(name: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what the frames of one queue have in common: `meta`; operations up to count; what is behind the size."""
    record_size = SINGLE.size + len(name) + -(SINGLE.size + len(name)) % 8
    kind = struct.pack("<IIBBBBI", 1, 0, Operation.ADD, 0, len(name), 0, 1)
    return META.pack(record_size), kind, name.ljust(record_size - SINGLE.size, b"\0")


def plain_record(kind: bytes, tail_size: int) -> tuple[bytes, Callable[..., bytes]]:
    """Return what such a record begins with, and what packs it: from that, number, checksum, size and tail."""
    return kind[-RECORD_NUMBER_AT:], struct.Struct(f"<{RECORD_NUMBER_AT}sQQI{tail_size}s").pack


def packer(tail_size: int) -> Callable[..., bytes]:
    """Return what packs such a frame, but for its checksum and its payload.

    It takes length, `meta`, commit, the group's fields, operations up to count, the message's number, checksum and
    size, and what is behind the size.
    """
    return struct.Struct(f"<I4sQ{GROUP_FIELDS.size}s16sQQI{tail_size}s").pack
