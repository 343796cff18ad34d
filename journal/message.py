"""A message as a reader gets it, and reading it from the frame it lies in, verified.

The index knows in which frame a message lies. The frame's checksum proves its records, and the
record has the checksum of the message's own properties and payload: so reading one message reads
and verifies that message, not the whole commit.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from journal.disk import DiskFile
from journal.errors import MessageDamaged
from journal.format import FRAME, FRAME_SIZE, SEED_MASK, BadFrame, FrameHeader, decode_frame, xxh3
from journal.operations import Operation
from journal.records import MOVED, PROPERTIES, SINGLE, BadRecord, Record, decode_properties, decode_records

READ_BYTES = 4096  # the first read of a frame: header and records of most, and a small payload
WINDOW_BYTES = 256 << 10  # read at once when many messages are wanted in order
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Frame header and record of a plain message, with what makes it one (`_PLAIN_KIND`) as one field: operations,
# frame flags, kind, flags; then name, producer and count are read over but for the name's size.
_PLAIN = struct.Struct("<QII24xq10sB5xQQI")
_PLAIN_KIND = struct.pack("<IIBB", 1, 0, Operation.ADD, 0)
assert _PLAIN.size == FRAME_SIZE + SINGLE.size


class Message(NamedTuple):
    """One message. Sizes are in bytes, times in microseconds since 1970-01-01 UTC."""

    number: int
    queue: str
    payload: bytes
    properties: dict[str, str]
    added_us: int
    producer_id: str | None
    sequence: int  # of the data file it lies in
    offset: int  # of its frame there

    @property
    def added_at(self) -> datetime:
        """When it was added, by the clock of the machine that added it."""
        return EPOCH + timedelta(microseconds=self.added_us)


@dataclass(frozen=True, slots=True)
class Source:
    """An open data file and what is needed to verify a frame in it."""

    file: DiskFile
    path: Path
    identity: int
    sequence: int


_Frame = tuple[int, FrameHeader, list[Record], list[list[int]]]  # offset, header, records, where their bytes begin


class FrameReader:
    """Reads messages out of one data file, keeping the bytes of the last frame or window it read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._data = b""
        self._base = 0
        self._queues: dict[bytes, str] = {}
        self._frame: _Frame | None = None

    def messages(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Message | MessageDamaged]:
        """Yield the messages of (number, frame offset) pairs, best in the order of the offsets.

        Frames of one plain message are read here, without a call of our own for each: they are most.
        """
        sequence, identity, queues = self._source.sequence, self._source.identity, self._queues
        unpack, hashed, make = _PLAIN.unpack_from, xxh3, tuple.__new__
        data, base = self._data, self._base
        for index, (number, offset) in enumerate(wanted):
            if self._frame is not None and self._frame[0] == offset:
                yield self._message(number, offset)  # the window may have moved on, behind the frame's start
                continue
            at = offset - base
            if not 0 <= at <= len(data) - _PLAIN.size:
                self._load_for(wanted, index)
                data, base, at = self._data, self._base, offset - self._base
            if at <= len(data) - _PLAIN.size:
                fields = unpack(data, at)
                checksum, length, meta, time, kind, name_size, first, payload_hash, size = fields
                start = at + FRAME_SIZE + meta
                if kind == _PLAIN_KIND and first == number and at + length <= len(data) and size <= length:
                    payload = data[start : start + size]
                    seed = (identity + offset) & SEED_MASK
                    if hashed(data[at + 8 : start], seed) == checksum and hashed(payload) == payload_hash:
                        name = data[at + _PLAIN.size : at + _PLAIN.size + name_size]
                        queue = queues.get(name) or queues.setdefault(name, name.decode())
                        yield make(Message, (number, queue, payload, {}, time, None, sequence, offset))
                        continue
            yield self._message(number, offset)
            data, base = self._data, self._base

    def _load_for(self, wanted: Sequence[tuple[int, int]], index: int) -> None:
        """Read from the frame on: as much as is worth it for what is wanted next."""
        offset = wanted[index][1]
        near = wanted[min(index + 16, len(wanted) - 1)][1]
        self._load(offset, WINDOW_BYTES if 0 < near - offset < WINDOW_BYTES else READ_BYTES)

    def _covers(self, offset: int, size: int) -> bool:
        return self._base <= offset and offset + size <= self._base + len(self._data)

    def _load(self, offset: int, size: int) -> None:
        self._data = self._source.file.read(size, offset)
        self._base = offset

    def _message(self, number: int, offset: int) -> Message | MessageDamaged:
        source, found = self._source, self._records(offset)
        if isinstance(found, BadFrame):
            return MessageDamaged(number, source.path, offset, found.reason)
        _, frame, records, starts = found
        for record, begins in zip(records, starts, strict=True):
            if record.kind == Operation.ADD and (index := _index(record, number)) is not None:
                return self._extract(frame, record, index, begins[index])
        return MessageDamaged(number, source.path, offset, "the frame does not hold this message")

    def value(self, key: bytes, offset: int) -> bytes | BadFrame:
        """Return the value that the frame puts under the key, verified."""
        found = self._records(offset)
        if isinstance(found, BadFrame):
            return found
        _, _, records, starts = found
        for record, begins in zip(reversed(records), reversed(starts), strict=True):  # the last one wins
            if record.kind == Operation.PUT and record.name == key:
                value = self._source.file.read(record.count, begins[0])
                if xxh3(value) == record.number and len(value) == record.count:
                    return value
                return BadFrame(offset, "the value's checksum does not match")
        return BadFrame(offset, "the frame does not hold this key")

    def _records(self, offset: int) -> _Frame | BadFrame:
        """Return the frame's records, and where what they speak of begins."""
        if self._frame is None or self._frame[0] != offset:
            frame = self._read_frame(offset)
            if isinstance(frame, BadFrame):
                return frame
            start = offset - self._base + FRAME_SIZE
            try:
                records = list(decode_records(self._data[start : start + frame.meta]))
            except BadRecord as failure:
                return BadFrame(offset, f"the commit cannot be understood: {failure}")
            self._frame = (offset, frame, records, payload_offsets(frame, records))
        return self._frame

    def _read_frame(self, offset: int) -> FrameHeader | BadFrame:
        """Return the frame with its records in the window, wherever its payloads are."""
        if not self._covers(offset, FRAME_SIZE):
            self._load(offset, READ_BYTES)
        if not self._covers(offset, FRAME_SIZE):
            return BadFrame(offset, "the file ends before it")
        meta = FRAME.unpack_from(self._data, offset - self._base)[2]
        limit = self._source.file.size()
        if not self._covers(offset, FRAME_SIZE + meta):
            self._load(offset, max(READ_BYTES, min(FRAME_SIZE + meta, limit - offset)))
        return decode_frame(self._data, offset, identity=self._source.identity, base=self._base, limit=limit)

    def _extract(self, frame: FrameHeader, record: Record, index: int, start: int) -> Message | MessageDamaged:
        source, size = self._source, record.sizes[index]
        number = record.message(index)
        if self._covers(start, size):
            data = self._data[start - self._base : start - self._base + size]
        elif size < WINDOW_BYTES and len(record.sizes) > 1:
            data = self._read_ahead(start, size)
        else:
            data = source.file.read(size, start)
        if len(data) != size or xxh3(data) != record.checksums[index]:
            return MessageDamaged(number, source.path, frame.offset, "the message's checksum does not match")
        properties_size = record.property_sizes[index] if record.flags & PROPERTIES else 0
        name = record.name
        try:
            queue = self._queues.get(name) or self._queues.setdefault(name, name.decode())
            properties, producer = decode_properties(data[:properties_size]), record.producer.decode() or None
        except ValueError:
            return MessageDamaged(number, source.path, frame.offset, "its names or its properties are no text")
        return Message(
            number,
            queue,
            data[properties_size:],
            properties,
            record.first_times[index] if record.flags & MOVED else frame.time,
            producer,
            source.sequence,
            frame.offset,
        )

    def _read_ahead(self, start: int, size: int) -> bytes:
        self._load(start, WINDOW_BYTES)
        return self._data[:size]


def payload_offsets(frame: FrameHeader, records: Sequence[Record]) -> list[list[int]]:
    """Return, for each record, where in the file the bytes of each of its messages or its value start."""
    at = frame.offset + FRAME_SIZE + frame.meta
    found: list[list[int]] = []
    for record in records:
        sizes = record.sizes if record.kind == Operation.ADD else [record.count] * (record.kind == Operation.PUT)
        starts = []
        for size in sizes:
            starts.append(at)
            at += size
        found.append(starts)
    return found


def _index(record: Record, number: int) -> int | None:
    if record.numbers:
        return list(record.numbers).index(number) if number in record.numbers else None
    index = number - record.number
    return index if 0 <= index < record.count else None
