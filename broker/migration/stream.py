"""A store on its way to another: all that it holds as one stream of bytes, and what both ends count of it.

    part         bytes  meaning
    size         4      of what follows kind
    kind         1      1 message, 2 record, 3 producer's identifier, 4 last number
    message             number 8, added 8, then queue, producer and properties, each with its length in 4; the payload
    record              key with its length in 4; the value
    identifier          first 8, messages 8, digest 8, added 8, then queue and producer, each with its length in 4
    last number         number 8

Numbers are unsigned, but for times, least significant byte first. The order is that of `scan`: messages by number,
records by key, identifiers, the last number. Nothing of a store is left out but what is about the store itself.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from oms_journal.broker.records import MASTER, MASTER_KEY, PUBLICATION, UOW, RecordError, RecordKind, kind_of
from oms_journal.broker.store.report import TYPES, Action, ReportLine
from oms_journal.broker.store.start import STORE_PREFIX, MessageUnreadable
from oms_journal.broker.store.stored import LastNumber, Loaded, StoredIdentifier, StoredMessage, StoredRecord
from oms_journal.journal.format.records import decode_properties, encode_properties

CHUNK_BYTES = 1 << 20  # of the stream, in one request
PART_BYTES_MAX = (1 << 30) + (8 << 20)  # the longest message with its properties and names
MESSAGE, OTHER = "Message", "Other"  # beside the types of the report
_HEAD = struct.Struct("<IB")
_MESSAGE, _IDENTIFIER, _LAST, _SIZE = struct.Struct("<Qq"), struct.Struct("<QQQq"), struct.Struct("<Q"), "<I"


class Readable(Protocol):
    """What can be moved: a source, and for the comparison the store that was loaded."""

    def messages(self) -> Iterator[StoredMessage]: ...

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]: ...

    def identifiers(self) -> Iterator[StoredIdentifier]: ...

    def highest(self) -> int: ...

    def message_count(self) -> int: ...


def scan(store: Readable) -> Iterator[Loaded]:
    """Yield all that the store holds, raw. MessageUnreadable where something of it cannot be read; StoreUnavailable."""
    found = 0
    for message in store.messages():
        found += 1
        yield message
    if found != (there := store.message_count()):
        raise MessageUnreadable(f"{there - found} of {there} messages cannot be read (the log says which)")
    for key, value in store.records(""):
        if not key.startswith(STORE_PREFIX):
            yield StoredRecord(key, value)
    yield from store.identifiers()
    yield LastNumber(store.highest())


# As bytes.


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(_SIZE, len(data)) + data


def encode_part(part: Loaded) -> bytes:
    """Return the part as bytes of the stream."""
    match part:
        case StoredMessage():
            properties = encode_properties(part.properties) if part.properties else b""
            head = _MESSAGE.pack(part.number, part.added) + _text(part.queue) + _text(part.producer or "")
            kind, body = 1, b"".join((head, struct.pack(_SIZE, len(properties)), properties, part.payload))
        case StoredRecord():
            kind, body = 2, _text(part.key) + part.value
        case StoredIdentifier():
            numbers = _IDENTIFIER.pack(part.first, part.messages, part.digest, part.added)
            kind, body = 3, numbers + _text(part.queue) + _text(part.producer)
        case LastNumber():
            kind, body = 4, _LAST.pack(part.number)
    assert len(body) <= PART_BYTES_MAX, "no store holds longer ones"
    return _HEAD.pack(len(body), kind) + body


def chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the stream of encoded parts in pieces of at most CHUNK_BYTES; a long message is cut into several."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        if len(waiting) >= CHUNK_BYTES:
            whole = len(waiting) - len(waiting) % CHUNK_BYTES
            for at in range(0, whole, CHUNK_BYTES):
                yield bytes(memoryview(waiting)[at : at + CHUNK_BYTES])
            del waiting[:whole]
    if waiting:
        yield bytes(waiting)


class NotAReplica(ValueError):
    """The bytes are not what `encode_part` makes."""


class Decoder:
    """The stream, put together again from its pieces."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> Iterator[Loaded]:
        """Yield the parts that are whole now. NotAReplica."""
        self._waiting += data
        at = 0
        try:
            while at + _HEAD.size <= len(self._waiting):
                size, kind = _HEAD.unpack_from(self._waiting, at)
                if size > PART_BYTES_MAX:
                    raise NotAReplica(f"a part of {size} bytes, more than a store holds")
                end = at + _HEAD.size + size
                if end > len(self._waiting):
                    break
                yield _decoded(kind, bytes(memoryview(self._waiting)[at + _HEAD.size : end]))
                at = end
        finally:
            del self._waiting[:at]

    @property
    def is_between(self) -> bool:
        """Whether no part is cut off."""
        return not self._waiting


def _decoded(kind: int, body: bytes) -> Loaded:
    try:
        match kind:
            case 1:
                number, added = _MESSAGE.unpack_from(body)
                (queue, producer, properties), payload = _cut(body, _MESSAGE.size, 3)
                named = decode_properties(properties) if properties else {}
                return StoredMessage(number, queue.decode(), payload, named, added, producer.decode() or None)
            case 2:
                (key,), value = _cut(body, 0, 1)
                return StoredRecord(key.decode(), value)
            case 3:
                (queue, producer), rest = _cut(body, _IDENTIFIER.size, 2)
                if rest:
                    raise NotAReplica("bytes behind an identifier")
                first, messages, digest, added = _IDENTIFIER.unpack_from(body)
                return StoredIdentifier(queue.decode(), producer.decode(), first, messages, digest, added)
            case 4:
                return LastNumber(*_LAST.unpack(body))
            case _:
                raise NotAReplica(f"a part of kind {kind}")
    except (struct.error, ValueError) as failure:
        raise NotAReplica(f"a part that cannot be read: {failure}") from failure


def _cut(body: bytes, at: int, count: int) -> tuple[list[bytes], bytes]:
    """Return so many pieces with their lengths before them, and what is behind them."""
    found = []
    for _ in range(count):
        (size,) = struct.unpack_from(_SIZE, body, at)
        at += 4
        if at + size > len(body):
            raise NotAReplica("a part that ends too early")
        found.append(body[at : at + size])
        at += size
    return found, body[at:]


# What both ends count.


@dataclass(frozen=True, slots=True)
class Tally:
    """What there is of one type."""

    count: int
    bytes: int  # of payloads with properties, or of values
    digest: str  # of all of it, in the order of the stream


Summary = Mapping[str, Tally]


@dataclass(slots=True)
class Tallies:
    """Counts, bytes and digests by type, while parts go by."""

    _counts: dict[str, int] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)
    _digests: dict[str, hashlib.blake2b] = field(default_factory=dict)
    count: int = 0  # of messages and records
    last: int = 0  # no message has had a higher number

    def take(self, part: Loaded, encoded: bytes) -> None:
        """Count a part and its bytes. Identifiers grow old by themselves, and are not compared."""
        match part:
            case StoredMessage():
                name, size = MESSAGE, len(part.payload)
            case StoredRecord():
                kind = kind_of(part.key)
                name, size = TYPES[kind] if kind is not None else OTHER, len(part.value)
            case StoredIdentifier():
                return
            case LastNumber():
                self.last = part.number
                return
        self.count += 1
        self._counts[name] = self._counts.get(name, 0) + 1
        self._bytes[name] = self._bytes.get(name, 0) + size
        if name not in self._digests:
            self._digests[name] = hashlib.blake2b(digest_size=16)
        self._digests[name].update(encoded)

    def summary(self) -> dict[str, Tally]:
        """Return what has gone by, by type."""
        return {
            name: Tally(self._counts[name], self._bytes[name], self._digests[name].hexdigest())
            for name in sorted(self._counts)
        }


def differences(here: Summary, there: Summary) -> list[str]:
    """Return a line for every type of which the two do not have the same."""
    nothing = Tally(0, 0, "")
    return [
        f"{name}: {ours.count:,} of {ours.bytes:,} bytes here, {theirs.count:,} of {theirs.bytes:,} bytes there"
        + (", of other contents" if (ours.count, ours.bytes) == (theirs.count, theirs.bytes) else "")
        for name in sorted({*here, *there})
        if (ours := here.get(name, nothing)) != (theirs := there.get(name, nothing))
    ]


def told(summary: Summary) -> str:
    """Return the summary in words: "3 Conversation (1,148 bytes), 12 Message (30,000 bytes)"."""
    return ", ".join(f"{tally.count:,} {name} ({tally.bytes:,} bytes)" for name, tally in summary.items()) or "nothing"


def reported(part: Loaded, action: Action) -> ReportLine | None:
    """Return what the report says of a part; None of what is no record of the broker's.

    Elements are the messages of a unit of work or publication, Total length is the record with their payloads: the
    same whichever driver has it. (EntireX 8.0, Concepts of Persistent Messaging, "Persistent Store Report".)
    """
    if not isinstance(part, StoredRecord) or (kind := kind_of(part.key)) is None:
        return None
    identifier, elements, length = part.key.rpartition("/")[2], 1, len(part.value)
    try:
        if kind is RecordKind.UOW or kind is RecordKind.PUBLICATION:
            layout = UOW if kind is RecordKind.UOW else PUBLICATION
            record = layout.decode(part.value)
            elements, length = record.messages, length + record.size
        elif part.key == MASTER_KEY:
            identifier = MASTER.decode(part.value).broker_id
    except RecordError:  # it is moved as it is, whatever it is
        elements = 0
    return ReportLine(identifier, kind, action, elements, length)
