"""Targets: whole data files and directories of them, compared with the reader in Java, recovered and opened.

The bytes of an input are not a file, which a checksum would guard, but say how one is made: which frames are in it and
what is wrong with their sums, or what was done to files that are pinned. So mutations reach what is behind checksums.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from oms_journal import MessageDatabase
from oms_journal.journal.errors import JournalError, MessageDamaged
from oms_journal.journal.format.frames import FRAME_SIZE, GAP, encode_frame_head, seed_of
from oms_journal.journal.format.headers import CHECKSUM, FRAMES_AT, Ending, FileHeader, align, encode_headers, xxh3
from oms_journal.journal.format.records import BadRecord, Record, _decode_record
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from tests.fuzz.file_targets import folder, frames_in, golden, mended_footer, mended_header
from tests.fuzz.target import Taker, Target, target
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.journals import descriptions
from tests.support.journals.java_reader import HAS_JAVA, java_reader

DIRECTORY_TARGETS: dict[str, Target] = {}
SPOOL = Path("/spool")
PAYLOADS_MAX = 1 << 16  # bytes in one frame
NUMBERS_MAX = 20_000  # of one frame's sets: both readers list them
_HEADER = FileHeader(
    database=bytes(range(16)), identity=0x1234, sequence=1, owner=7, next_message=100, next_commit=50, low_water=1,
    created=1_767_225_600_000_000,
)  # fmt: skip
_WRONG_SUM, _IS_GAP, _IS_ROTTEN, _IS_FAR = 1, 2, 4, 8


def file_of(taker: Taker, header: FileHeader) -> tuple[bytes, FileHeader]:
    """Return the data file that an input says, and the header of one that follows it.

    Until a count of 0: 1 byte of what is wrong with the frame, then its records, as many bytes as the two before say.
    """
    header = replace(header, alignment=8 << taker.number() % 10)
    data = bytearray(encode_headers(header))
    commit, end, chain = header.next_commit, len(data), b""
    frame_count = 1 + taker.number() % 4
    for _ in range(frame_count):
        wrong = taker.number()
        records, payloads, operations = mended_records(taker.piece(), is_rotten=bool(wrong & _IS_ROTTEN))
        length = align(FRAME_SIZE + len(records) + len(payloads), 8)
        said = (commit, header.identity, end if wrong & _IS_FAR else len(data), header.created + commit)
        counted = (operations + (wrong & _WRONG_SUM), GAP if wrong & _IS_GAP else 0)
        head = encode_frame_head(records, seed_of(header.sequence) + len(data), length, *said, *counted)
        data += (head + payloads).ljust(length, b"\0")
        chain += head[:8]
        commit, end = commit + 1, len(data)
    previous = Ending(sequence=header.sequence, identity=header.identity, end=end, commit=commit - 1, chain=xxh3(chain))
    after = replace(
        header, sequence=header.sequence + 1, identity=header.identity + 1, previous=previous, next_commit=commit
    )
    return bytes(data), replace(after, next_message=1000)


def mended_records(records: bytes, *, is_rotten: bool) -> tuple[bytes, bytes, int]:
    """Return records whose checksums are those of payloads, these payloads, and how many operations there are."""
    body, payloads, operations = bytearray(records.ljust(-(-len(records) // 8) * 8, b"\0")), bytearray(), 0
    at = end = 0
    try:
        while end < len(body):
            at = end
            one, end = _decode_record(bytes(body), at)
            is_add = one.kind == Operation.ADD
            operations += one.count if one.kind <= Operation.DELETE else 1
            sizes = one.sizes if is_add else [one.count] * (one.kind == Operation.PUT)
            if sum(sizes) + len(payloads) > PAYLOADS_MAX or operations > NUMBERS_MAX:
                break
            for place, size in enumerate(sizes):
                payload = _payload(one, place, size)
                payloads += payload
                where = at + 16 + 8 * place if is_add else at + 8
                body[where : where + 8] = (xxh3(payload) ^ is_rotten).to_bytes(8, "little")
    except (BadRecord, struct.error, ValueError):
        pass
    return bytes(body), bytes(payloads), operations & 0xFFFFFFFF


def _payload(one: Record, place: int, size: int) -> bytes:
    """Return properties that are some, where there is room for them, and a payload."""
    of_properties = one.property_sizes[place] if one.property_sizes else 0
    pair = b""
    if 4 <= of_properties <= size:
        pair = (
            (1).to_bytes(2, "little") + b"k" + (of_properties - 5).to_bytes(2, "little") if of_properties > 4 else b""
        )
    return pair.ljust(min(of_properties, size), b"v").ljust(size, b"p")[:size]


def _frames_of_golden() -> Iterator[tuple[bytes, ...]]:
    for data in golden().values():
        yield tuple(data[one.records] for one in frames_in(data))


def _built() -> Iterator[bytes]:
    for frames in _frames_of_golden():
        for wrong in (0, _IS_GAP, _IS_ROTTEN, _IS_FAR):
            some = frames[:4]
            pieces = [bytes([wrong]) + len(one).to_bytes(2, "little") + one for one in some]
            yield bytes([0, len(some) - 1]) + b"".join(pieces)
            yield bytes([3, len(some) - 1]) + b"".join(pieces) + bytes([0, 0, 0, 0, 0])


def _patches() -> Iterator[bytes]:
    for place in range(len(_sets())):
        yield bytes([place])
        for verb in range(len(_VERBS)):
            yield bytes([place, 0, verb]) + (900).to_bytes(2, "little") + bytes([16, 0xAA, 0x55])


@target(DIRECTORY_TARGETS, _built)
def built_file(data: bytes) -> None:
    """A file of frames with good checksums: what we say of it, and what the reader in Java says."""
    made, _ = file_of(Taker(data), _HEADER)
    compare({str(DataFileName(1)): made})


def _heads() -> Iterator[bytes]:
    for data in golden().values():
        yield data[FRAMES_AT + CHECKSUM.size : 5000]


@target(DIRECTORY_TARGETS, _heads)
def built_frame(data: bytes) -> None:
    """A file of one frame of which everything but its checksum and its file's identity may be wrong: likewise."""
    body = bytearray(data.ljust(FRAME_SIZE - CHECKSUM.size, b"\0"))
    body[16:24] = _HEADER.identity.to_bytes(8, "little")
    meta = int.from_bytes(body[4:8], "little")
    checked = bytes(body[: FRAME_SIZE - CHECKSUM.size + meta])
    checksum = CHECKSUM.pack(xxh3(checked, seed_of(_HEADER.sequence) + FRAMES_AT & (1 << 64) - 1))
    compare({str(DataFileName(1)): encode_headers(_HEADER) + checksum + bytes(body)})


@target(DIRECTORY_TARGETS, _built)
def built_directory(data: bytes) -> None:
    """Two such files: recovered, opened, read, closed, and opened again."""
    taker = Taker(data)
    first, header = file_of(taker, _HEADER)
    second, _ = file_of(taker, header)
    open_twice({str(DataFileName(1)): first, str(DataFileName(2)): second})


@target(DIRECTORY_TARGETS, _patches)
def patched_file(data: bytes) -> None:
    """Pinned files to which something was done: what we say of them, and what the reader in Java says."""
    files, mended = patched(Taker(data))
    # Of a footer with a right checksum only who verifies sees all that is wrong. Behind a header with other numbers no
    # frame counts, and yet a value can be read where it stands.
    parts = descriptions.PARTS[: 1 if _mend_footer in mended else 3 if _mend_header in mended else 4]
    compare(files, parts)


@target(DIRECTORY_TARGETS, _patches)
def patched_directory(data: bytes) -> None:
    """Likewise: recovered, opened, read, closed, and opened again."""
    files, _ = patched(Taker(data))
    open_twice(files)


# Patching.


@cache
def _sets() -> tuple[dict[str, bytes], ...]:
    """Return directories of pinned files that belong together."""
    files = golden()
    pair = {str(DataFileName(1)): files["sealed"], str(DataFileName(2)): files["unsealed"]}
    return (pair, *({str(DataFileName(1)): files[name]} for name in ("smallest", "sealed", "aligned", "repaired")))


def patched(taker: Taker) -> tuple[dict[str, bytes], "set[Verb]"]:
    """Return the files that an input says: which pinned ones, then a file, a verb, a place and a size in turns.

    And what was done.
    """
    sets = _sets()
    files, done = dict(sets[taker.number() % len(sets)]), set[Verb]()
    while taker:
        names = sorted(files)
        name = names[taker.number() % len(names)]
        verb = _VERBS[taker.number() % len(_VERBS)]
        data = bytearray(files[name])
        at = taker.number(2) % (len(data) + 1)
        files[name] = bytes(verb(data, at, taker))
        done.add(verb)
    return files, done


Verb = Callable[[bytearray, int, Taker], bytearray]


def _overwrite(data: bytearray, at: int, taker: Taker) -> bytearray:
    part = taker.take(taker.number() % 64)
    data[at : at + len(part)] = part
    return data


def _flip(data: bytearray, at: int, taker: Taker) -> bytearray:
    if at < len(data):
        data[at] ^= 1 << taker.number() % 8
    return data


def _cut(data: bytearray, at: int, _: Taker) -> bytearray:
    return data[:at]


def _zero(data: bytearray, at: int, taker: Taker) -> bytearray:
    size = 8 * taker.number()
    data[at : at + size] = bytes(len(data[at : at + size]))
    return data


def _move(data: bytearray, at: int, taker: Taker) -> bytearray:
    """Write what stands here somewhere else, as a misdirected write does."""
    size, to = 8 * taker.number(), taker.number(2) % (len(data) + 1)
    part = data[at : at + size]
    data[to : to + len(part)] = part
    return data


def _grow(data: bytearray, _: int, taker: Taker) -> bytearray:
    return data + bytes(8 * taker.number())


def _mend_header(data: bytearray, at: int, taker: Taker) -> bytearray:
    """Change a number of the header, both copies of it, and make its checksums right."""
    if len(data) < FRAMES_AT:
        return data
    header = bytearray(data[:256])
    place = 12 + at % 156
    part = taker.take(8)
    header[place : place + len(part)] = part
    data[:256] = data[4096:FRAMES_AT] = mended_header(bytes(header))
    return data


def _mend_footer(data: bytearray, at: int, taker: Taker) -> bytearray:
    """Change a number of the footer, and make its checksums right."""
    size = int.from_bytes(data[-16:-8], "little")
    if not 472 <= size <= len(data):
        return data
    part = taker.take(taker.number() % 9)
    foot = data[-size:]
    foot[at % size : at % size + len(part)] = part
    return data[:-size] + mended_footer(bytes(foot[:size]))


_VERBS: tuple[Verb, ...] = (_overwrite, _flip, _cut, _zero, _move, _grow, _mend_header, _mend_footer)


# What is held against them.


def on_disk(files: dict[str, bytes]) -> SimulatedDisk:
    """Return a disk in memory with these files."""
    disk = SimulatedDisk()
    disk.make_directory(SPOOL)
    for name, data in files.items():
        disk.put(SPOOL / name, data)
    return disk


def compare(files: dict[str, bytes], parts: Sequence[str] = descriptions.PARTS) -> None:
    """See that we and the reader in Java, where it can run, say the same of the files."""
    directory = folder() / "spool"
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    ours = descriptions.describe(directory)
    if HAS_JAVA:
        found = descriptions.difference(ours, java_reader().read(directory), parts)
        assert not found, found


def open_twice(files: dict[str, bytes]) -> None:
    """See that a directory is opened, or refused as documented; and that a second opening finds what the first did."""
    disk = on_disk(files)
    options = {"max_data_file_size": 1 << 16, "cleanup_interval": 0, "disk": disk, "clock": lambda: _HEADER.created}
    seen = []
    for _ in range(2):
        try:
            database = MessageDatabase.open(SPOOL, **options)  # type: ignore[arg-type]
        except JournalError:
            return
        try:
            seen.append(_everything(database))
        finally:
            database.close()
    assert seen[0] == seen[1]


def _everything(database: MessageDatabase) -> object:
    messages: dict[int, object] = {}
    for number in database.numbers():
        try:
            found = database.read(number)
            messages[number] = (found.queue, found.payload, found.properties, found.producer_id)
        except JournalError:  # damaged, or its number is none that a writer would have given it
            messages[number] = None
    keys: dict[str, object] = {}
    for key in database.keys():  # noqa: SIM118 - not a mapping
        try:
            keys[key] = database.get(key)
        except MessageDamaged:  # reported, and known as damaged: the key is there, its value is lost
            keys[key] = None
    database.stats()
    database.explain()
    return messages, keys
