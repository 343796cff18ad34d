"""`omsmsg.backup`: what a backup consists of. A backup is complete exactly when its manifest says so.

The directory of a backup holds data files under their own names, and this file, which is replaced by a rename
once all that it names is durable. Only the files it names count, each up to its `size`, and the last one
ends as `tail` says: what stands behind is of a back-up that was not finished. A manifest without files is
there from before the first file is copied: so a backup is never mistaken for a database.

The file is the following twice, each copy filled up with zeros to a multiple of 512 bytes:

    field            bytes  meaning
    magic            8      89 4F 4D 53 42 0D 0A 1A
    version          4      of the manifest: 1
    flags            4      1: the database was closed, and all of it is here; 2: it is a broker's store; others refused
    size             8      of this copy, from the magic to the checksum
    database         16     identity of the database
    parent           16     as in the newest file's header
    parent sequence  8      likewise
    low water        8      data files below this sequence are not needed
    tail sequence    8      the last data file; and how it ends, as its successor's header would say it:
    tail identity    8      its identity
    tail end         8      the first byte behind its last frame
    tail commit      8      its last commit number
    tail chain       8      XXH3 over its frames' checksums, in order, 8 bytes each
    next message     8      no message of this number or higher is in the backup
    next commit      8      likewise for commits
    owner            8      number of the opening that had the database, or had it last
    taken            8      microseconds since 1970-01-01 UTC, signed
    files            8      how many entries follow
    source           8      bytes of the source's name, which follows the entries

then one entry for each file, in the order of the sequences:

    field     bytes  meaning
    sequence  8      of the data file
    identity  8      as in its header
    size      8      bytes of the file that belong to the backup
    checksum  8      XXH3 over these bytes
    flags     8      1: sealed, the size is that of the whole file; 2: damaged when it was copied; others refused

then the source's name (HOST:DIRECTORY, where the database was, in the system's bytes), zeros up to a multiple of 8,
and 8 bytes, XXH3 over all of the copy before.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import ManifestDamaged, NewerFormat, RestoreUnfinished
from oms_journal.journal.files import put_in_place, read_whole
from oms_journal.journal.format.headers import CHECKSUM, SECTOR_BYTES, Ending, align, xxh3

MAGIC = b"\x89OMSB\r\n\x1a"
VERSION = 1
HEAD = struct.Struct("<8sIIQ16s16sQQQQQQQQQQqQQ")
ENTRY = struct.Struct("<QQQQQ")
COPY_UNIT = SECTOR_BYTES  # a copy fills whole sectors of its own
CLOSED, BROKER = 1, 2  # flags
SEALED, DAMAGED = 1, 2  # flags of an entry
SOURCE_BYTES_MAX = 4096 + 256  # a path, a host
assert HEAD.size == 160
assert ENTRY.size == 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """One data file of a backup. Size in bytes: what stands behind it is not part of the backup."""

    sequence: int
    identity: int
    size: int
    checksum: int
    is_sealed: bool
    is_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup consists of, and of which database."""

    database: bytes
    parent: bytes = bytes(16)
    parent_sequence: int = 0
    low_water: int = 1
    tail: Ending = field(default_factory=Ending)  # how the last file ends
    next_message: int = 1
    next_commit: int = 1
    owner: int = 0  # number of the opening that had the database, or had it last
    was_closed: bool = False  # nothing has happened in the database since, unless it was opened again
    has_broker: bool = False
    taken_at: int = 0  # microseconds since 1970-01-01 UTC
    source: str = ""  # where the database was: HOST:DIRECTORY
    files: tuple[BackupFile, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether a back-up was ever finished here."""
        return bool(self.files)

    def file(self, sequence: int) -> BackupFile | None:
        """Return the entry of a data file, None for one that is not part of the backup."""
        return next((file for file in self.files if file.sequence == sequence), None)


@dataclass(frozen=True, slots=True)
class BadManifest:
    """Bytes that are no manifest, and why."""

    reason: str
    is_newer: bool = False


def encode(manifest: Manifest) -> bytes:
    """Return the bytes of the file: the manifest twice."""
    source = os.fsencode(manifest.source)[:SOURCE_BYTES_MAX]
    size = HEAD.size + len(manifest.files) * ENTRY.size + align(len(source), 8) + CHECKSUM.size
    tail = manifest.tail
    head = HEAD.pack(
        MAGIC,
        VERSION,
        CLOSED * manifest.was_closed | BROKER * manifest.has_broker,
        size,
        manifest.database,
        manifest.parent,
        manifest.parent_sequence,
        manifest.low_water,
        tail.sequence,
        tail.identity,
        tail.end,
        tail.commit,
        tail.chain,
        manifest.next_message,
        manifest.next_commit,
        manifest.owner,
        manifest.taken_at,
        len(manifest.files),
        len(source),
    )
    entries = b"".join(
        ENTRY.pack(
            file.sequence,
            file.identity,
            file.size,
            file.checksum,
            SEALED * file.is_sealed | DAMAGED * file.is_damaged,
        )
        for file in manifest.files
    )
    body = (head + entries + source).ljust(size - CHECKSUM.size, b"\0")
    copy = (body + CHECKSUM.pack(xxh3(body))).ljust(align(size, COPY_UNIT), b"\0")
    return copy + copy


def decode(data: bytes) -> Manifest | BadManifest:
    """Return what the bytes of the file say: its first copy that is good. Or why there is none."""
    half = len(data) // 2
    bad = BadManifest(f"{len(data)} bytes are not two copies")
    if len(data) % (2 * COPY_UNIT) or not half:
        return bad
    for copy in (data[:half], data[half:]):
        found = _decode_copy(copy)
        if isinstance(found, Manifest):
            return found
        if found.is_newer:
            return found
        bad = found
    return bad


def _decode_copy(data: bytes) -> Manifest | BadManifest:
    if data[: len(MAGIC)] != MAGIC:
        return BadManifest("the magic bytes are missing")
    fields = HEAD.unpack_from(data)
    _, version, flags, size, database, parent, parent_sequence, low_water = fields[:8]
    sequence, identity, end, commit, chain, next_message, next_commit, owner, taken, count, source_size = fields[8:]
    if not HEAD.size + CHECKSUM.size <= size <= len(data):
        return BadManifest(f"the size {size} is impossible")
    if CHECKSUM.unpack_from(data, size - CHECKSUM.size)[0] != xxh3(data[: size - CHECKSUM.size]):
        return BadManifest("its checksum does not match")
    if version != VERSION:
        return BadManifest(f"version {version}, this program knows up to {VERSION}", is_newer=True)
    if flags & ~(CLOSED | BROKER) or source_size > SOURCE_BYTES_MAX:
        return BadManifest("it has values that this program does not know", is_newer=True)
    if HEAD.size + count * ENTRY.size + align(source_size, 8) + CHECKSUM.size != size:
        return BadManifest("its size is not that of what it says it holds", is_newer=True)
    entries = [ENTRY.unpack_from(data, HEAD.size + place * ENTRY.size) for place in range(count)]
    if any(entry_flags & ~(SEALED | DAMAGED) for *_, entry_flags in entries):
        return BadManifest("an entry has flags that this program does not know", is_newer=True)
    at = HEAD.size + count * ENTRY.size
    return Manifest(
        database=database,
        parent=parent,
        parent_sequence=parent_sequence,
        low_water=low_water,
        tail=Ending(sequence=sequence, identity=identity, end=end, commit=commit, chain=chain),
        next_message=next_message,
        next_commit=next_commit,
        owner=owner,
        was_closed=bool(flags & CLOSED),
        has_broker=bool(flags & BROKER),
        taken_at=taken,
        source=os.fsdecode(data[at : at + source_size]),
        files=tuple(_files(entries)),
    )


def _files(entries: list[tuple[int, int, int, int, int]]) -> Iterator[BackupFile]:
    for sequence, identity, size, checksum, flags in entries:
        yield BackupFile(
            sequence=sequence,
            identity=identity,
            size=size,
            checksum=checksum,
            is_sealed=bool(flags & SEALED),
            is_damaged=bool(flags & DAMAGED),
        )


def read(disk: Disk, directory: Path, name: str = names.BACKUP) -> Manifest | None:
    """Return the directory's manifest, None where there is none: it is no backup.

    DiskError; ManifestDamaged when neither copy is good (RestoreUnfinished in a directory that is being restored into),
    NewerFormat when it is beyond this program.
    """
    path = directory / name
    data = read_whole(disk, path)
    if data is None:
        return None
    found = decode(data)
    if isinstance(found, Manifest):
        return found
    if found.is_newer:
        raise NewerFormat(path, 0, found.reason)
    raise RestoreUnfinished(directory) if name == names.RESTORE else ManifestDamaged(directory, found.reason)


def flaw(disk: Disk, directory: Path) -> str:
    """Say what is wrong with one of the two copies of a manifest that can be read; "" for nothing. DiskError."""
    data = read_whole(disk, directory / names.BACKUP) or b""
    half = len(data) // 2
    copies = [_decode_copy(copy) for copy in (data[:half], data[half:])]
    return next((f"one of its two copies: {one.reason}" for one in copies if isinstance(one, BadManifest)), "")


def write(disk: Disk, directory: Path, manifest: Manifest, name: str = names.BACKUP) -> None:
    """Put the manifest in its place, durably: from now on it is what the backup consists of. OSError."""
    put_in_place(disk, directory / name, encode(manifest), durably=True)
