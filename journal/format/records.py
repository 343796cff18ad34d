"""The records inside a frame: what a commit does, as bytes.

Every record starts with the same 16 bytes and is padded with zeros to a multiple of 8:

    field   bytes  meaning
    kind    1      1 ADD, 2 DELIVER, 3 DELETE, 4 PUT, 5 DROP, 6 GAP
    flags   1      1 PROPERTIES, 2 PRODUCER, 4 MOVED, 8 WHOLE COMMIT, 16 DUE, 32 EXPIRY, 64 GROUP, 128 ATTEMPTS; PUT
                   has only MOVED, the others but ADD have none
    name    1      bytes of the queue or key, 1 to 255
    extra   1      bytes of the producer identifier: 1 to 255 with PRODUCER, 0 without
    count   4      ADD, DELIVER, DELETE: messages, at least 1; PUT: bytes of the value; DROP, GAP: 0
    number  8      ADD (0 with MOVED), DELIVER, DELETE: the first message's number; PUT: XXH3 of the value; DROP: 0;
                   GAP: bytes lost

and goes on:

    kind             part         bytes      meaning
    ADD              checksums    8 × count  XXH3 over properties and payload of each message
                     numbers      8 × count  with MOVED (else the numbers follow one another)
                     first times  8 × count  with MOVED: time of the first ADD, as a frame's `time`
                     due          8 × count  with DUE: not handed out before this time, as a frame's `time`
                     expiry       8 × count  with EXPIRY: not handed out from this time on, likewise
                     sizes        4 × count  bytes of properties and payload together
                     properties   4 × count  with PROPERTIES: bytes of the properties
                     attempts     4 × count  with ATTEMPTS: how often it had been handed out
                     group sizes  1 × count  with GROUP: bytes of the group's name, 0 for a message without; not all 0
                     name         name       the queue
                     producer     extra      with PRODUCER: the producer's identifier
                     groups       sum        with GROUP: the names, behind one another
    DELIVER, DELETE  size         4          bytes of the coded set
                     set          size       LEB128 numbers: a run's length, the gap to the next run, its length, …
                     name         name       the queue
    PUT, DROP        name         name       the key
    GAP              name         name       the archive that holds what was here

Behind the records of a frame stand the bytes they speak of, in the same order and without padding:
for an ADD each message's properties and payload, for a PUT the value. Properties are pairs of
(2 bytes length, key, 2 bytes length, value) in UTF-8.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oms_journal.journal.disk import Buffer
from oms_journal.journal.errors import InvalidName, JournalError
from oms_journal.journal.format.headers import NUMBERS_END, xxh3
from oms_journal.journal.operations import PROPERTIES_BYTES_MAX, Operation, check_size

VALUE_HEAD_BYTES = 128  # of a keyed value, kept in the footer so that it can be read in bulk

RECORD = struct.Struct("<BBBBIQ")
SET_SIZE = struct.Struct("<I")
SINGLE = struct.Struct("<BBBBIQQI")  # an ADD of one plain message: the record's head, its checksum, its size
# Where each field stands, from the beginning of the record.
RECORD_KIND_AT = 0
RECORD_FLAGS_AT = 1
RECORD_NAME_AT = 2  # its size
RECORD_EXTRA_AT = 3
RECORD_COUNT_AT = 4
RECORD_NUMBER_AT = 8
RECORD_PARTS_AT = RECORD.size  # of an ADD, its checksums
SINGLE_CHECKSUM_AT = RECORD_PARTS_AT
MESSAGE_CHECKSUM_BYTES = 8  # of each message that a record adds, as its number and its first time
MESSAGE_SIZE_BYTES = 4
SINGLE_SIZE_AT = SINGLE_CHECKSUM_AT + MESSAGE_CHECKSUM_BYTES
assert SINGLE.size == SINGLE_SIZE_AT + MESSAGE_SIZE_BYTES
NUMBER = struct.Struct("<Q")  # of a message, and of any other field of 8 bytes
GAP_KIND = 6
PROPERTIES, PRODUCER, MOVED, WHOLE_COMMIT = 1, 2, 4, 8
DUE, EXPIRY, GROUP, ATTEMPTS = 16, 32, 64, 128
TERMS = DUE | EXPIRY | GROUP | ATTEMPTS
RECORD_FLAGS = 255
_FLAGS_OF: dict[int, int] = {Operation.ADD: RECORD_FLAGS, Operation.PUT: MOVED}  # the other kinds have none
_WITHOUT_COUNT = (Operation.DROP, GAP_KIND)
_PAIR = struct.Struct("<H")
_PROPERTIES_SIZE = struct.Struct("<I")
_TIMES_AND_SIZE = tuple(struct.Struct(f"<{count}qI") for count in range(3))
_PADDING = tuple(bytes(size) for size in range(8))
_BEHIND = "a removal set ends behind the last possible number"

Numbers = npt.NDArray[np.uint64]


class Terms(NamedTuple):
    """On which terms a message is handed out; None for what it has not. Times in microseconds since 1970-01-01 UTC."""

    due: int | None = None  # not before this time
    expiry: int | None = None  # not from this time on
    attempts: int | None = None  # how often it had been, when it was added
    group: bytes | None = None  # one after another of those with this name


NO_TERMS = Terms()


class TermColumns(NamedTuple):
    """The terms of a record's messages; each column has one for every message, or is empty."""

    due: Sequence[int] = ()
    expiry: Sequence[int] = ()
    attempts: Sequence[int] = ()
    groups: Sequence[bytes] = ()  # b"" for a message without one

    def flags(self) -> int:
        """Return the flags of the record."""
        flags = (DUE if self.due else 0) | (EXPIRY if self.expiry else 0) | (ATTEMPTS if self.attempts else 0)
        return flags | (GROUP if any(self.groups) else 0)

    def of(self, index: int) -> Terms:
        """Return the terms of the message at this place in the record."""
        return Terms(
            due=self.due[index] if self.due else None,
            expiry=self.expiry[index] if self.expiry else None,
            attempts=self.attempts[index] if self.attempts else None,
            group=(self.groups[index] or None) if self.groups else None,
        )


WITHOUT_TERMS = TermColumns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as it was read: columns are views on the bytes, empty where the kind has none."""

    kind: int
    flags: int
    name: bytes
    producer: bytes
    count: int
    number: int
    checksums: Sequence[int] = ()
    sizes: Sequence[int] = ()
    property_sizes: Sequence[int] = ()
    numbers: Sequence[int] = ()
    first_times: Sequence[int] = ()
    terms: TermColumns = WITHOUT_TERMS
    set_bytes: bytes = b""

    def checksum(self, index: int) -> int:
        """Return the checksum of the message or value at this place in the record."""
        return self.checksums[index] if self.kind == Operation.ADD else self.number

    def message(self, index: int) -> int:
        """Return the number of the message at this place in an ADD record."""
        return self.numbers[index] if self.numbers else self.number + index


class BadRecord(JournalError, ValueError):
    """The records of a frame whose checksum is right are not what this format version knows: that frame is lost."""


def padding(size: int) -> bytes:
    """Return the zeros that fill the size up to a multiple of 8."""
    return bytes(-size % 8)


def padded(record: bytes) -> bytes:
    return record + padding(len(record))


class Added(NamedTuple):
    """Messages of one queue that one ADD record adds: what the record needs to know of them."""

    queue: bytes
    payloads: Sequence[Buffer]
    properties: Sequence[bytes] | None = None
    producer: bytes = b""
    flags: int = 0
    numbers: Sequence[int] = ()  # only of moved messages
    first_times: Sequence[int] = ()
    terms: TermColumns = WITHOUT_TERMS
    sizes: Sequence[int] = ()  # of the payloads, where they are known


def encode_add(added: Added) -> bytes:
    """Return the record of the messages; the number of the first is filled in when it is known."""
    payloads, properties, producer, terms = added.payloads, added.properties, added.producer, added.terms
    count = len(payloads)
    if count == 1 and not added.flags and not terms.attempts and (properties is None or properties[0]):
        return encode_single(
            added.queue,
            payloads[0],
            b"" if properties is None else properties[0],
            producer,
            None if terms is WITHOUT_TERMS else terms,
        )
    flags = added.flags | (PRODUCER if producer else 0) | (PROPERTIES if properties is not None else 0) | terms.flags()
    head = RECORD.pack(Operation.ADD, flags, len(added.queue), len(producer), count, 0)
    sizes = added.sizes or list(map(len, payloads))
    wholes = payloads if properties is None else map(add, properties, payloads)
    parts = [head, _column("Q", list(map(xxh3, wholes)))]
    if flags & MOVED:
        parts += (_column("Q", added.numbers), _column("q", added.first_times))
    parts += (_column("q", terms.due), _column("q", terms.expiry))
    if properties is None:
        parts.append(_column("I", sizes))
    else:
        property_sizes = list(map(len, properties))
        parts += (_column("I", map(add, sizes, property_sizes)), _column("I", property_sizes))
    parts.append(_column("I", terms.attempts))
    groups = terms.groups if flags & GROUP else ()
    return padded(b"".join((*parts, bytes(map(len, groups)), added.queue, producer, *groups)))


def encode_single(
    queue: bytes, payload: Buffer, properties: bytes, producer: bytes, terms: TermColumns | None = None
) -> bytes:
    """Return the record of one message that is added for the first time, likewise."""
    flags, before, extra = PRODUCER if producer else 0, b"", len(producer)
    if properties:
        flags |= PROPERTIES
        before = _PROPERTIES_SIZE.pack(len(properties))
        payload = properties + payload
    if terms is None:
        head = SINGLE.pack(Operation.ADD, flags, len(queue), extra, 1, 0, xxh3(payload), len(payload))
        record = head + before + queue + producer
    else:
        head = RECORD.pack(Operation.ADD, flags | terms.flags(), len(queue), extra, 1, 0) + NUMBER.pack(xxh3(payload))
        times = (*terms.due, *terms.expiry)
        sizes = _TIMES_AND_SIZE[len(times)].pack(*times, len(payload))
        group = terms.groups[0] if terms.groups else b""
        record = b"".join((head, sizes, before, bytes((len(group),)) if group else b"", queue, producer, group))
    return record + _PADDING[-len(record) & 7]


def _column(kind: str, numbers: Iterable[int]) -> bytes:
    if isinstance(numbers, array) and numbers.typecode == kind and sys.byteorder == "little":
        return numbers.tobytes()
    column = array(kind, numbers)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def single_removal(kind: int, queue: bytes) -> tuple[bytes, bytes]:
    """Return what stands before the number and behind it in the record that removes one message."""
    record = encode_removal(kind, queue, (0,))
    return record[:RECORD_NUMBER_AT], record[RECORD_NUMBER_AT + NUMBER.size :]


def encode_removal(kind: int, queue: bytes, numbers: Sequence[int] | Numbers) -> bytes:
    """Return the record that removes the numbers: ascending, without repetition, at least one."""
    coded = encode_set(numbers)
    head = RECORD.pack(kind, 0, len(queue), 0, len(numbers), int(numbers[0]))
    return padded(head + SET_SIZE.pack(len(coded)) + coded + queue)


def encode_put(key: bytes, value: bytes, checksum: int, *, moved: bool = False) -> bytes:
    record = RECORD.pack(Operation.PUT, MOVED if moved else 0, len(key), 0, len(value), checksum) + key
    return record + _PADDING[-len(record) & 7]


def encode_drop(key: bytes) -> bytes:
    return padded(RECORD.pack(Operation.DROP, 0, len(key), 0, 0, 0) + key)


def encode_gap(archive: bytes, lost: int) -> bytes:
    return padded(RECORD.pack(GAP_KIND, 0, len(archive), 0, 0, lost) + archive)


def encode_set(numbers: Sequence[int] | Numbers) -> bytes:
    """Return ascending numbers as run lengths and gaps; a single number needs no bytes at all."""
    count = len(numbers)
    if count == 1:
        return b""
    if int(numbers[-1]) - int(numbers[0]) == count - 1:
        return bytes((count,)) if count < 0x80 else _leb128(np.array([count], np.uint64))
    numbers = np.asarray(numbers, np.uint64)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    starts = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [len(numbers) - 1]))
    values = np.empty(2 * len(starts) - 1, np.uint64)
    values[0::2] = ends - starts + 1
    values[1::2] = numbers[starts[1:]] - numbers[ends[:-1]] - np.uint64(1)
    return _leb128(values)


def decode_set(first: int, count: int, coded: bytes) -> Numbers:
    """Return the numbers of a removal record; BadRecord when the bytes do not give `count` of them."""
    if count == 1 and not coded:
        if first >= NUMBERS_END:
            raise BadRecord(_BEHIND)
        return np.array([first], np.uint64)
    values = _unleb128(coded)
    runs, gaps = values[0::2], values[1::2]
    if not len(values) % 2 or _sum(runs) != count or not runs.all():
        raise BadRecord("a removal set does not hold as many numbers as it says")
    if first + _sum(values) > NUMBERS_END:
        raise BadRecord(_BEHIND)
    if len(runs) == 1:
        return np.arange(first, first + count, dtype=np.uint64)
    steps = np.ones(count, np.uint64)
    steps[0] = first
    steps[np.cumsum(runs)[:-1].astype(np.int64)] = gaps + np.uint64(1)
    return np.cumsum(steps, dtype=np.uint64)


def _sum(values: Numbers) -> int:
    """Return the sum, which may be more than 64 bits can hold."""
    high, low = values >> np.uint64(32), values & np.uint64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def _leb128(values: Numbers) -> bytes:
    if not len(values) or int(values.max()) < 0x80:
        return values.astype(np.uint8).tobytes()
    out = bytearray()
    for value in values.tolist():
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def _unleb128(coded: bytes) -> Numbers:
    data = np.frombuffer(coded, np.uint8)
    last = data < 0x80
    if not len(data) or not last[-1]:
        raise BadRecord("a removal set is cut off")
    if last.all():
        return data.astype(np.uint64)
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    if place.max() > 9 or (data[place == 9] > 1).any():
        raise BadRecord("a removal set holds a number of more than 64 bits")
    septets = (data & 0x7F).astype(np.uint64) << (place * 7).astype(np.uint64)
    values: Numbers = np.add.reduceat(septets, starts)
    return values


def encode_low_water(sequence: int) -> bytes:
    """Return the value of the engine's key that says which data file is the first one that is needed."""
    return NUMBER.pack(sequence)


def decode_low_water(value: bytes | None) -> int:
    """Return the sequence that this value says; 0 without one, and for one of another size."""
    return int(NUMBER.unpack(value)[0]) if value is not None and len(value) == NUMBER.size else 0


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the properties as bytes; LimitExceeded above 64 KiB, InvalidName for texts that are not valid Unicode.

    TypeError where they are not text.
    """
    parts: list[bytes] = []
    try:
        for text in chain.from_iterable(properties.items()):
            data = str.encode(text)
            if len(data) > _PAIR_BYTES_MAX:
                check_size(len(data), _PAIR_BYTES_MAX, "property text")
            parts += (_PAIR.pack(len(data)), data)
    except UnicodeEncodeError as failure:
        raise InvalidName(f"the property text {text!r} is not valid Unicode: {failure.reason}") from None
    except TypeError:
        raise TypeError(f"properties must map text to text, not to or from {type(text).__name__}") from None
    encoded = b"".join(parts)
    if len(encoded) > PROPERTIES_BYTES_MAX:
        check_size(len(encoded), PROPERTIES_BYTES_MAX, "properties")
    return encoded


_PAIR_BYTES_MAX = 0xFFFF


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the properties that the bytes hold; ValueError when they are not properties."""
    texts: list[str] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + _PAIR.size], "little")
        at += _PAIR.size
        if at + size > len(data):
            raise ValueError("a property is cut off")
        texts.append(data[at : at + size].decode())
        at += size
    return dict(zip(texts[0::2], texts[1::2], strict=True))


def decode_records(meta: bytes | memoryview) -> Iterator[Record]:
    """Yield the records of a frame whose checksum was right; BadRecord on anything unknown."""
    at = 0
    data = bytes(meta)
    while at < len(data):
        try:
            record, at = _decode_record(data, at)
        except (struct.error, ValueError) as failure:
            raise BadRecord(f"a record at byte {at} of its frame: {failure}") from None
        yield record


def _decode_record(data: bytes, start: int) -> tuple[Record, int]:
    kind, flags, name_size, producer_size, count, number = RECORD.unpack_from(data, start)
    if not 1 <= kind <= GAP_KIND or flags & ~_FLAGS_OF.get(kind, 0):
        raise BadRecord(f"kind {kind} with flags {flags} is unknown to this format version")
    if not name_size or bool(producer_size) != bool(flags & PRODUCER):
        raise BadRecord("its name or its producer identifier is missing")
    if flags & (PRODUCER | WHOLE_COMMIT) == WHOLE_COMMIT:
        raise BadRecord("it speaks for its whole commit without a producer identifier")
    if flags & (MOVED | WHOLE_COMMIT) == MOVED | WHOLE_COMMIT:
        raise BadRecord("it was moved, and speaks for its whole commit")
    _check_numbers(kind, flags, count, number)
    at = start + RECORD.size
    columns: dict[str, Sequence[int]] = {}
    coded = b""
    terms = WITHOUT_TERMS
    if kind == Operation.ADD:
        for name, code, width in _columns(flags):
            columns[name] = struct.unpack_from(f"<{count}{code}", data, at)
            at += count * width
        if flags & TERMS:
            due, expiry, attempts = (columns.pop(name, ()) for name in ("due", "expiry", "attempts"))
            groups: Sequence[bytes] = ()
            if flags & GROUP:
                groups = _groups(data, at + count + name_size + producer_size, data[at : at + count])
                at += count
            terms = TermColumns(due, expiry, attempts, groups)
    elif kind in (Operation.DELIVER, Operation.DELETE):
        (size,) = SET_SIZE.unpack_from(data, at)
        coded = data[at + SET_SIZE.size : at + SET_SIZE.size + size]
        at += SET_SIZE.size + size
    name_end = at + name_size
    groups_at = name_end + producer_size
    end = groups_at + sum(map(len, terms.groups))
    if end > len(data):
        raise BadRecord("it ends behind its frame")
    record = Record(
        kind=kind,
        flags=flags,
        name=data[at:name_end],
        producer=data[name_end:groups_at],
        count=count,
        number=number,
        set_bytes=coded,
        terms=terms,
        **columns,
    )
    return record, end + -(end - start) % 8


def _check_numbers(kind: int, flags: int, count: int, number: int) -> None:
    """Raise BadRecord where a count or a number is 0 and must not be, or is not and must be."""
    if not count and kind <= Operation.DELETE:
        raise BadRecord("it is about no message at all")
    is_numbered = kind != Operation.DROP and not (kind == Operation.ADD and flags & MOVED)
    if (count and kind in _WITHOUT_COUNT) or (number and not is_numbered):
        raise BadRecord(f"its count {count} or its number {number} must be 0")


def _groups(data: bytes, start: int, sizes: bytes) -> list[bytes]:
    """Return the groups of a record's messages, whose names stand from a place on; BadRecord where none has one."""
    if not any(sizes) or start + sum(sizes) > len(data):
        raise BadRecord("the groups of its messages are not there")
    return [data[at:end] for at, end in pairwise(accumulate(sizes, initial=start))]


def is_gap(record: Record) -> bool:
    """Say whether it stands for what was lost. BadRecord for one that no repair has written."""
    check_texts((record.name, record.producer))
    if record.terms.groups:
        check_texts(record.terms.groups)
    return record.kind == GAP_KIND


def check_gap(operations: int, records: Sequence[Record]) -> None:
    """Raise BadRecord unless this is what a repair has put into a gap: its record, or nothing."""
    if operations or len(records) > 1 or any(not is_gap(record) for record in records):
        raise BadRecord("a gap that holds something")


def check_record(record: Record) -> None:
    """Raise BadRecord unless a commit's frame can hold it: no gap, names in UTF-8, a set of so many numbers."""
    if is_gap(record):
        raise BadRecord("a gap in the frame of a commit")
    if any(of > size for of, size in zip(record.property_sizes, record.sizes, strict=False)):
        raise BadRecord("a message's properties are longer than the message")
    if record.kind in (Operation.DELIVER, Operation.DELETE):
        decode_set(record.number, record.count, record.set_bytes)
    if record.kind == Operation.ADD and _highest(record) >= NUMBERS_END:
        raise BadRecord("a message's number is behind the last possible one")


def check_whole(added: Sequence[Record]) -> None:
    """Raise BadRecord unless all ADD records of a commit that are not moved speak for the whole of it, or none does."""
    is_whole = any(record.flags & WHOLE_COMMIT for record in added)
    if is_whole and any(not one.flags & WHOLE_COMMIT or one.producer != added[0].producer for one in added):
        raise BadRecord("only some of its messages are the whole commit of their producer identifier")


def _highest(record: Record) -> int:
    return max(record.numbers) if record.flags & MOVED else record.number + record.count - 1


def check_texts(texts: Sequence[bytes]) -> None:
    """Raise BadRecord unless each of these names, producer identifiers or groups is UTF-8."""
    try:
        str(b"\0".join(texts), "utf-8")
    except UnicodeDecodeError:
        raise BadRecord("its name, its producer identifier or a group is not UTF-8") from None


@lru_cache(RECORD_FLAGS + 1)
def _columns(flags: int) -> Sequence[tuple[str, str, int]]:
    """Return the columns of an ADD up to the attempts: the name, the code of a value, its bytes."""
    wide, narrow = MESSAGE_CHECKSUM_BYTES, MESSAGE_SIZE_BYTES
    every = (
        (0, "checksums", "Q", wide),
        (MOVED, "numbers", "Q", wide),
        (MOVED, "first_times", "q", wide),
        (DUE, "due", "q", wide),
        (EXPIRY, "expiry", "q", wide),
        (0, "sizes", "I", narrow),
        (PROPERTIES, "property_sizes", "I", narrow),
        (ATTEMPTS, "attempts", "I", narrow),
    )
    return [(name, code, size) for flag, name, code, size in every if flags & flag == flag]


_PLACED = ("sizes", "property_sizes", "due", "expiry", "attempts", "group_sizes")


@lru_cache(RECORD_FLAGS + 1)
def single_parts(flags: int) -> tuple[struct.Struct, Sequence[int]]:
    """Return what stands between head and name of an ADD of one message, and where in it the fields stand.

    These are the sizes of the message, of its properties, its due time, its expiry, its attempts and the size of its
    group's name; -1 stands for what is not there.
    """
    codes, names = ["<"], []
    for name, code, _ in _columns(flags):
        codes.append(code)
        names.append(name)
    if flags & GROUP:
        codes.append("B")
        names.append("group_sizes")
    return struct.Struct("".join(codes)), [names.index(name) if name in names else -1 for name in _PLACED]
