"""`omsmsg.index`: which messages the sealed data files can hold, for a reader without the lock.

Made anew at every opening, whenever a file was sealed, and after a clean-up; replaced by a rename,
never trusted by a start. A reader finds a message by it without reading every footer: the few files
whose ranges hold the number, and the files that are not sealed yet.

    part      bytes       meaning
    magic     8           OMSINDX1
    owner     8           number of the opening that wrote it
    count     8           entries
    entries   72 × count  sequence, identity, end of the frames; lowest and highest number added, removed;
                          lowest and highest time of a commit: 8 bytes each, the lowest above the highest for none
    checksum  8           XXH3 over all before
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.files import put_in_place, read_whole
from oms_journal.journal.format.contents import Ranges
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.writing.segment import Sealed

MAGIC = b"OMSINDX1"
HEAD = struct.Struct("<8sQQ")
ENTRY = struct.Struct("<QQQ6q")
assert ENTRY.size == 72


@dataclass(frozen=True, slots=True)
class SealedFiles:
    """What an index file says."""

    owner: int
    files: Sequence[Sealed]


def encode(owner: int, files: Iterable[Sealed]) -> bytes:
    """Return the bytes of an index file."""
    entries = [
        ENTRY.pack(file.sequence, file.identity, file.end, *file.ranges.added, *file.ranges.removed, *file.ranges.time)
        for file in sorted(files, key=lambda file: file.sequence)
    ]
    body = HEAD.pack(MAGIC, owner, len(entries)) + b"".join(entries)
    return body + CHECKSUM.pack(xxh3(body))


def decode(data: bytes) -> SealedFiles | None:
    """Return what the bytes say, None when they are not an index file of this version."""
    if len(data) < HEAD.size + CHECKSUM.size or not data.startswith(MAGIC):
        return None
    if CHECKSUM.unpack_from(data, len(data) - CHECKSUM.size)[0] != xxh3(data[: -CHECKSUM.size]):
        return None
    _, owner, count = HEAD.unpack_from(data)
    if len(data) != HEAD.size + count * ENTRY.size + CHECKSUM.size:
        return None
    files = []
    for place in range(count):
        sequence, identity, end, *limits = ENTRY.unpack_from(data, HEAD.size + place * ENTRY.size)
        added, removed, time = zip(limits[0::2], limits[1::2], strict=True)
        files.append(Sealed(sequence, identity, end, Ranges(added=added, removed=removed, time=time)))
    return SealedFiles(owner, files)


def write(disk: Disk, directory: Path, data: bytes) -> None:
    """Put the index file in its place. It need not survive a power cut: the next start makes it anew."""
    put_in_place(disk, directory / names.INDEX, data, durably=False)


def read(disk: Disk, directory: Path) -> SealedFiles | None:
    """Return what the directory's index file says, None when there is none that can be used."""
    try:
        data = read_whole(disk, directory / names.INDEX)
    except DiskError:
        return None
    return decode(data) if data is not None else None
