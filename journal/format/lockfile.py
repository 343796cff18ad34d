"""The bytes of `omsmsg.lock`: who owns the directory, in text of fixed places, and the witness of its data files.

    offset  bytes  holds
    0       44     `owner `, the number as 20 digits, blank, XXH3 of all before it as 16 hexadecimal digits, newline
    44      128    `pid `, the process, ` host `, its host, filled up with blanks, newline
    172     56     `alive `, the number as 20 digits, blank, a count as 9 digits, ` every `, 9 digits, ` ms`, newline
    512     44     the line at 0 once more
    4096    104    the witness, in a block of its own, which is zeros before there is one

The witness:

    field            bytes  meaning
    magic            8      OMSWITN1
    database         16     identity of the database
    parent           16     as in the header of the file
    parent sequence  8      likewise
    owner            8      number of the opening that wrote this
    sequence         8      the newest data file that has a durable group
    identity         8      its identity
    end              8      the first byte behind its last frame, where that is known, else 0; and of that file:
    last commit      8      its last commit number, else 0
    chain            8      XXH3 over its frames' checksums, in order, 8 bytes each, else 0
    checksum         8      XXH3 over the 96 bytes before

A line counts only as a whole. The witness counts only where one of the two owner's lines does: the block is zeros,
durably, before the first line is written.
"""

import re
import struct
from dataclasses import dataclass, field

from oms_journal.journal.format.headers import CHECKSUM, Ending, xxh3

OWNER_LINE_SIZE = len("owner ") + 20 + len(" ") + 16 + len("\n")
COPY_AT = 512  # of the owner's line: the first byte of another sector
LINES_SIZE = 4096  # all lines lie in the first block
WITNESS_AT = 4096  # a block of its own
LOCK_FILE_SIZE = 8192
NUMBER_MAX = (1 << 62) - 1  # of an owner: a byte of it can be locked, and there is room for more
WITNESS_MAGIC = b"OMSWITN1"
WITNESS = struct.Struct("<8s16s16sQQQQQQQ")
WITNESS_SIZE = WITNESS.size + CHECKSUM.size
assert WITNESS_SIZE == 104
_OWNER_LINE = re.compile(rb"(owner ([0-9]{20})) ([0-9a-f]{16})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The newest data file that has a durable group; after a close or a start also how it ends, else all that is 0."""

    database: bytes
    parent: bytes = bytes(16)
    parent_sequence: int = 0
    owner: int
    last: Ending = field(default_factory=Ending)

    @property
    def is_of_closed(self) -> bool:
        """Whether the file's end is known: the database was closed, or a start has made the file whole."""
        return self.last.end > 0


def encode_owner(number: int) -> bytes:
    """Return the owner's line."""
    said = f"owner {number:020}".encode()
    return b"%s %016x\n" % (said, xxh3(said))


def owner_said(data: bytes) -> int | None:
    """Return the owner's number that the file's bytes give, None where neither copy of the line is whole."""
    for at in (0, COPY_AT):
        line = _OWNER_LINE.fullmatch(data[at : at + OWNER_LINE_SIZE])
        if line is not None and int(line[3], 16) == xxh3(line[1]) and int(line[2]) <= NUMBER_MAX:
            return int(line[2])
    return None


def encode_witness(witness: Witness) -> bytes:
    """Return the bytes that stand at `WITNESS_AT`."""
    last = witness.last
    said = WITNESS.pack(
        WITNESS_MAGIC,
        witness.database,
        witness.parent,
        witness.parent_sequence,
        witness.owner,
        last.sequence,
        last.identity,
        last.end,
        last.commit,
        last.chain,
    )
    return said + CHECKSUM.pack(xxh3(said))


def witness_said(data: bytes) -> Witness | None:
    """Return the witness that the file's bytes hold, None where it does not count."""
    said = data[WITNESS_AT : WITNESS_AT + WITNESS_SIZE]
    if owner_said(data) is None or len(said) < WITNESS_SIZE or said[:8] != WITNESS_MAGIC:
        return None
    if CHECKSUM.unpack_from(said, WITNESS.size)[0] != xxh3(said[: WITNESS.size]):
        return None
    _, database, parent, parent_sequence, owner, sequence, identity, end, commit, chain = WITNESS.unpack_from(said)
    last = Ending(sequence=sequence, identity=identity, end=end, commit=commit, chain=chain)
    return Witness(database=database, parent=parent, parent_sequence=parent_sequence, owner=owner, last=last)
