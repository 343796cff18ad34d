"""A message as a reader gets it, and reading it from the frame it lies in, verified.

The index knows in which frame a message lies. The frame's checksum proves its records, and the
record has the checksum of the message's own properties and payload: so reading one message reads
and verifies that message, not the whole commit.

What the records of a large commit say is kept for whoever reads the next message out of it. It was verified when it
was read; a message or a value is verified whenever it is read.
"""

import struct
import sys
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from oms_journal.journal.disk import DiskFile
from oms_journal.journal.errors import FormatError, MessageDamaged
from oms_journal.journal.format.frames import (
    FRAME_LENGTH_AT,
    FRAME_META_AT,
    FRAME_SIZE,
    META,
    SEED_MASK,
    BadFrame,
    FrameHeader,
    decode_frame,
    seed_of,
)
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.plain import FIRST, PLAIN, PLAIN_MARK
from oms_journal.journal.format.records import (
    GROUP,
    MOVED,
    RECORD_PARTS_AT,
    TERMS,
    WITHOUT_TERMS,
    BadRecord,
    Record,
    TermColumns,
    Terms,
    decode_properties,
    decode_records,
    single_parts,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer

READ_BYTES = 4096  # the first read of a frame: header and records of most, and a small payload
SINGLE_BYTES = 512  # besides what the index knows of a message: its frame's header and first record, most of them
WINDOW_BYTES = 256 << 10  # read at once when many messages are wanted in order
RUN_MESSAGES_MAX = 1024  # of one commit, cut out of one read
AHEAD = (1023, 127, 16)  # so many messages ahead are in one window, where they lie so near
KEPT_BYTES_MAX = 32 << 20  # of the contents of frames, in memory for one database
FRAME_KEPT_BYTES_MAX = 24 << 20  # of one: a million messages of a commit take 20 MB, with properties 24
FRAME_KEPT_MIN = 4  # messages and values; a frame with fewer is read again as fast
_ADD = Operation.ADD.value
_NAME_AT = FIRST.size  # of the queue, in a frame that begins by adding one plain message
_new = tuple.__new__  # of a NamedTuple whose fields are all there, without a call of ours
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        """The time when the message was added, by the clock of the machine that added it."""
        return EPOCH + timedelta(microseconds=self.added_us)

    @property
    def attempts(self) -> int:
        """How often it was handed out in vain, as far as whoever read it knows; 0 for one that was never taken."""
        return 0


class MessageOnTerms(Message):
    """A message that was added with terms. They are no part of what it is compared by, nor of what a caller sees."""

    _terms: Terms

    @classmethod
    def _of(cls, message: Message, terms: Terms) -> "MessageOnTerms":
        found = tuple.__new__(cls, message)
        found._terms = terms
        return found

    @property
    def attempts(self) -> int:
        return self._terms.attempts or 0


def record_key(message: Message) -> tuple[object, ...]:
    """Return what messages have in common that one ADD record can add again."""
    if not isinstance(message, MessageOnTerms):
        return message.queue, message.producer_id
    terms = message._terms
    has = [value is not None for value in (terms.due, terms.expiry, terms.attempts)]
    return message.queue, message.producer_id, *has


def term_columns(messages: Sequence[Message]) -> TermColumns:
    """Return the terms of messages with one `record_key`."""
    given = [message._terms for message in messages if isinstance(message, MessageOnTerms)]
    if not given:
        return WITHOUT_TERMS
    return TermColumns(
        due=[one.due for one in given if one.due is not None],
        expiry=[one.expiry for one in given if one.expiry is not None],
        attempts=[one.attempts for one in given if one.attempts is not None],
        groups=[one.group or b"" for one in given],
    )


class Stored(NamedTuple):
    """A value of a key: where its bytes begin in the file, how many there are, their checksum."""

    start: int
    size: int
    checksum: int


class FrameContents(NamedTuple):
    """The messages and values of one verified frame; nothing in it changes, so that threads can share it.

    Messages are columns in the order of their bytes. Those of properties and first times may be empty: then there
    are no properties, and the first time is the frame's.
    """

    offset: int
    time: int
    numbers: Sequence[int]
    order: Sequence[int]  # the places of the messages, by ascending number
    starts: Sequence[int]  # in the file
    sizes: Sequence[int]
    checksums: Sequence[int]
    property_sizes: Sequence[int]
    first_times: Sequence[int]
    terms: Mapping[int, TermColumns]  # of those ADD records that have any, by their place among these
    ends: Sequence[int]  # of each ADD record, the place behind its last message
    names: Sequence[tuple[bytes, bytes]]  # of each ADD record, its queue and producer identifier
    values: Mapping[bytes, Stored]

    @property
    def is_plain(self) -> bool:
        """Whether all its messages were added by one record, without properties, identifier and terms."""
        is_bare = not (any(self.property_sizes) or self.first_times or self.terms)
        return is_bare and len(self.names) == 1 and not self.names[0][1]

    def place(self, number: int) -> int | None:
        """Return the message's place in the columns; None when the frame does not hold it."""
        at = bisect_left(self.order, number, key=self.numbers.__getitem__)
        return self.order[at] if at < len(self.order) and self.numbers[self.order[at]] == number else None

    def memory(self) -> int:
        """Return about how many bytes it takes, not less."""
        columns = (self.numbers, self.order, self.starts, self.sizes, self.checksums, self.property_sizes)
        names = sum(200 + len(queue) + len(producer) for queue, producer in self.names)
        values = sum(400 + len(key) for key in self.values)
        terms = sum(1000 + sum(map(sys.getsizeof, (*one, *set(one.groups)))) for one in self.terms.values())
        return 1000 + sum(map(sys.getsizeof, (*columns, self.first_times))) + names + values + terms


class KeptFrames:
    """Contents of frames for whoever reads next, at most 32 MiB for one database and 24 MiB of one frame.

    Those kept longest go first. A frame that is larger is decoded for every message that is read out of it. Safe
    from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards changes of what is kept, together with its bytes
        # By the file's identity and the frame's offset, with the bytes it takes.
        self.frames: OrderedDict[tuple[int, int], tuple[FrameContents, int]] = OrderedDict()
        self._bytes = 0

    def find(self, identity: int, offset: int) -> FrameContents | None:
        """Return what is kept of the frame at that offset of the file with that identity."""
        kept = self.frames.get((identity, offset))
        return None if kept is None else kept[0]

    def keep(self, identity: int, contents: FrameContents) -> None:
        """Keep what a verified frame says, if it is worth it."""
        if len(contents.sizes) + len(contents.values) < FRAME_KEPT_MIN:
            return
        size = contents.memory()
        if size > FRAME_KEPT_BYTES_MAX:
            return
        with self._lock:
            if (identity, contents.offset) not in self.frames:
                self._bytes += size  # first, so that an exception of a signal's handler leaves no less than there is
                self.frames[identity, contents.offset] = contents, size
            while self.frames and self._bytes > KEPT_BYTES_MAX:
                self._bytes -= self.frames.popitem(last=False)[1][1]

    def forget(self, identity: int) -> None:
        """Give up what is kept of a file that nobody will read again."""
        with self._lock:
            for key in [key for key in self.frames if key[0] == identity]:
                self._bytes -= self.frames.pop(key)[1]


@dataclass(frozen=True, slots=True)
class Source:
    """An open data file and what is needed to verify a frame in it."""

    file: DiskFile
    path: Path
    identity: int
    sequence: int
    kept: KeptFrames = field(default_factory=KeptFrames)
    seed: int = field(init=False)  # of its frames' checksums, before the offset is added

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.sequence))


def single_message(source: Source, data: bytes, place: tuple[int, int, int]) -> Message | None:
    """Return the message of a (number, frame offset, size) from the bytes at that offset, verified.

    Only where its frame begins by adding it alone: None for a frame that holds anything else, that the bytes hold in
    part, or that has rotted. `FrameReader` reads each of these, or says what is wrong.
    """
    number, offset, size = place
    try:
        fields = FIRST.unpack_from(data)
    except struct.error:
        return None
    checksum, length, meta, identity, time, kind, flags, name_size, extra, count, first, payload_hash, its_size = fields
    start = FRAME_SIZE + meta
    end = start + size
    if first != number or count != 1 or kind != _ADD or flags & MOVED:
        return None
    if identity != source.identity or end > len(data) or end - FRAME_SIZE > length or not name_size:
        return None
    payload, sequence = data[start:end], source.sequence
    if xxh3(data[FRAME_LENGTH_AT:start], (source.seed + offset) & SEED_MASK) != checksum:
        return None
    if xxh3(payload) != payload_hash:
        return None
    try:
        if not flags:
            if its_size != size:
                return None
            queue = data[_NAME_AT : _NAME_AT + name_size].decode()
            return _new(Message, (number, queue, payload, {}, time, None, sequence, offset))
        parts, (size_at, split_at, due_at, expiry_at, attempts_at, group_at) = single_parts(flags)
        had = (*parts.unpack_from(data, _PARTS_AT), None)  # which the places of what is not there name
        if had[size_at] != size:
            return None
        at = _PARTS_AT + parts.size
        end = at + name_size
        queue, producer = data[at:end].decode(), data[end : end + extra].decode() or None
        split = had[split_at] or 0
        properties = decode_properties(payload[:split]) if split else {}
    except ValueError:
        return None
    made = (number, queue, payload[split:], properties, time, producer, sequence, offset)
    if not flags & TERMS:
        return tuple.__new__(Message, made)
    group = None
    if flags & GROUP:
        group = data[end + extra : end + extra + had[group_at]] or None
    found = tuple.__new__(MessageOnTerms, made)
    found._terms = tuple.__new__(Terms, (had[due_at], had[expiry_at], had[attempts_at], group))
    return found


_PARTS_AT = FRAME_SIZE + RECORD_PARTS_AT  # of a frame's first record, behind its head


class FrameReader:
    """Reads messages out of one data file, keeping the bytes of the last frame or window it read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._data = b""
        self._base = 0
        self._queues: dict[bytes, str] = {}
        self._frame: FrameContents | None = None
        self._reads_ahead = False  # more than one message is wanted

    def messages(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Message | MessageDamaged]:
        """Yield the messages of (number, frame offset) pairs, best in the order of the offsets.

        Frames of one plain message are read here, without a call of our own for each: they are most.
        """
        sequence, queues = self._source.sequence, self._queues
        file_seed, mine = self._source.seed, self._source.identity
        unpack, hashed, make, head_size = PLAIN.unpack_from, xxh3, tuple.__new__, PLAIN.size
        data, base = self._data, self._base
        self._reads_ahead = len(wanted) > 1
        pairs = enumerate(wanted)
        for index, (number, offset) in pairs:
            if self._frame is not None and self._frame.offset == offset:
                ahead = wanted[index : index + RUN_MESSAGES_MAX]
                count = len(list(takewhile(offset.__eq__, map(itemgetter(1), ahead))))
                run = self._run(ahead[:count])
                yield from run or (self._message(*one) for one in ahead[:count])
                deque(islice(pairs, len(run or ahead[:count]) - 1), 0)
                data, base = self._data, self._base  # the window may have moved on, behind the frame's start
                continue
            at = offset - base
            if not 0 <= at <= len(data) - head_size:
                self._load_for(wanted, index)
                data, base, at = self._data, self._base, offset - self._base
            if at <= len(data) - head_size:
                fields = unpack(data, at)
                checksum, length, meta, identity, time, kind, name_size, first, payload_hash, size = fields
                start = at + FRAME_SIZE + meta
                is_it = kind == PLAIN_MARK and identity == mine and first == number
                if is_it and at + length <= len(data) and size <= length:
                    payload = data[start : start + size]
                    seed = (file_seed + offset) & SEED_MASK
                    if hashed(data[at + FRAME_LENGTH_AT : start], seed) == checksum and hashed(payload) == payload_hash:
                        name = data[at + head_size : at + head_size + name_size]
                        if queue := queues.get(name) or self._queue(name):
                            yield make(Message, (number, queue, payload, {}, time, None, sequence, offset))
                            continue
            yield self._message(number, offset)
            data, base = self._data, self._base

    def _run(self, wanted: Sequence[tuple[int, int]]) -> list[Message]:
        """Return neighbours in a commit of plain messages, cut out of one read without a step of ours for each.

        As many as one read holds. Nothing where the first has to be read by itself, or one of them says what is wrong.
        """
        frame, (first, offset) = self._frame, wanted[0]
        assert frame is not None
        numbers, mine = frame.numbers, list(map(itemgetter(0), wanted))
        if not isinstance(numbers, range) or first not in numbers or not frame.is_plain:
            return []
        low = first - numbers[0]
        if mine != [*numbers[low : low + len(mine)]]:
            return []
        start = frame.starts[low]
        high = bisect_right(frame.starts, start + WINDOW_BYTES, low, low + len(mine))
        if frame.starts[high - 1] + frame.sizes[high - 1] > start + WINDOW_BYTES:
            high -= 1
        if high - low < 2:
            return []
        sizes = frame.sizes[low:high]
        if not self._covers(start, sum(sizes)):
            self._load(start, sum(sizes))
        data, bounds = self._data, [*accumulate(sizes, initial=start - self._base)]
        payloads = [*map(data.__getitem__, map(slice, bounds, bounds[1:]))]
        queue = self._queue(frame.names[0][0])
        if not queue or [*map(xxh3, payloads)] != [*frame.checksums[low:high]]:
            return []
        # Each has properties of its own.
        alike = map(repeat, (frame.time, None, self._source.sequence, offset))
        fields = zip(mine, repeat(queue), payloads, iter(dict, None), *alike, strict=False)
        return [*map(_new, repeat(Message), fields)]

    def _queue(self, name: bytes) -> str:
        """Return the name as text and remember it; nothing where it is none, which whoever reads the records tells."""
        try:
            return self._queues.setdefault(name, name.decode())
        except UnicodeDecodeError:
            return ""

    def _load_for(self, wanted: Sequence[tuple[int, int]], index: int) -> None:
        """Read from the frame on: as much as is worth it for what is wanted next."""
        offset, last = wanted[index][1], len(wanted) - 1
        for ahead in AHEAD:
            size = wanted[min(index + ahead, last)][1] - offset
            if 0 < size < WINDOW_BYTES:
                self._load(offset, size + READ_BYTES)
                return
        self._load(offset, READ_BYTES)

    def _covers(self, offset: int, size: int) -> bool:
        return self._base <= offset and offset + size <= self._base + len(self._data)

    def _load(self, offset: int, size: int) -> None:
        self._data = self._source.file.read(size, offset)
        self._base = offset

    def _message(self, number: int, offset: int) -> Message | MessageDamaged:
        source, found = self._source, self._contents(offset)
        if isinstance(found, BadFrame):
            return MessageDamaged(number, source.path, offset, found.reason)
        place = found.place(number)
        if place is None:
            return MessageDamaged(number, source.path, offset, "the frame does not hold this message")
        return self._extract(found, place)

    def added_us(self, number: int, offset: int) -> int | None:
        """Return when the message was added; None where its frame cannot be read. Its bytes are not looked at."""
        found = self._contents(offset)
        place = None if isinstance(found, BadFrame) else found.place(number)
        if place is None or isinstance(found, BadFrame):
            return None
        return found.first_times[place] if found.first_times else found.time

    def value(self, key: bytes, offset: int) -> bytes | BadFrame:
        """Return the value that the frame puts under the key, verified; where it has rotted, the footer's copy."""
        found = self._value(key, offset)
        if isinstance(found, bytes):
            return found
        said = short_value(self._source, key, offset)
        return found if said is None else said

    def _value(self, key: bytes, offset: int) -> bytes | BadFrame:
        found = self._contents(offset)
        if isinstance(found, BadFrame):
            return found
        stored = found.values.get(key)
        if stored is None:
            return BadFrame(offset, "the frame does not hold this key")
        value = self._source.file.read(stored.size, stored.start)
        if xxh3(value) == stored.checksum and len(value) == stored.size:
            return value
        return BadFrame(offset, "the value's checksum does not match")

    def _contents(self, offset: int) -> FrameContents | BadFrame:
        """Return what the frame's records say: as it was kept, or read and verified."""
        if self._frame is None or self._frame.offset != offset:
            source = self._source
            found = source.kept.find(source.identity, offset)
            if found is None:
                frame = self._read_frame(offset)
                if isinstance(frame, BadFrame):
                    return frame
                start = offset - self._base + FRAME_SIZE
                try:
                    found = contents_of(frame, list(decode_records(self._data[start : start + frame.meta])))
                except (BadRecord, OverflowError) as failure:  # the second: a number that 64 bits cannot hold
                    return BadFrame(offset, f"the commit cannot be understood: {failure}")
                source.kept.keep(source.identity, found)
            self._frame = found
        return self._frame

    def _read_frame(self, offset: int) -> FrameHeader | BadFrame:
        """Return the frame with its records in the window, wherever its payloads are."""
        if not self._covers(offset, FRAME_SIZE):
            self._load(offset, READ_BYTES)
        if not self._covers(offset, FRAME_SIZE):
            return BadFrame(offset, "the file ends before it")
        (meta,) = META.unpack_from(self._data, offset - self._base + FRAME_META_AT)
        limit = self._source.file.size()
        if not self._covers(offset, FRAME_SIZE + meta):
            self._load(offset, max(READ_BYTES, min(FRAME_SIZE + meta, limit - offset)))
        source = self._source
        return decode_frame(
            self._data, offset, sequence=source.sequence, identity=source.identity, base=self._base, limit=limit
        )

    def _extract(self, frame: FrameContents, place: int) -> Message | MessageDamaged:
        source, number, size, start = self._source, frame.numbers[place], frame.sizes[place], frame.starts[place]
        if self._covers(start, size):
            data = self._data[start - self._base : start - self._base + size]
        elif size < WINDOW_BYTES and self._reads_ahead and len(frame.sizes) > 1:
            data = self._read_ahead(start, size)
        else:
            data = source.file.read(size, start)
        if len(data) != size or xxh3(data) != frame.checksums[place]:
            return MessageDamaged(number, source.path, frame.offset, "the message's checksum does not match")
        properties_size = frame.property_sizes[place] if frame.property_sizes else 0
        record = bisect_right(frame.ends, place)
        name, producer = frame.names[record]
        try:
            queue = self._queues.get(name) or self._queues.setdefault(name, name.decode())
            properties, producer_id = decode_properties(data[:properties_size]), producer.decode() or None
        except ValueError:
            return MessageDamaged(number, source.path, frame.offset, "its names or its properties are no text")
        found = Message(
            number,
            queue,
            data[properties_size:],
            properties,
            frame.first_times[place] if frame.first_times else frame.time,
            producer_id,
            source.sequence,
            frame.offset,
        )
        terms = frame.terms.get(record)
        if terms is None:
            return found
        return MessageOnTerms._of(found, terms.of(place - (frame.ends[record - 1] if record else 0)))

    def _read_ahead(self, start: int, size: int) -> bytes:
        self._load(start, WINDOW_BYTES)
        return self._data[:size]


def short_value(source: Source, key: bytes, offset: int) -> bytes | None:
    """Return a value that the file's footer has as a whole; None where there is no footer, or it has less."""
    found = DataFile.opened(source.file, source.path).footer(identity=source.identity)
    try:
        return found.contents().short_value(key, offset) if isinstance(found, Footer) else None
    except FormatError:
        return None


def contents_of(frame: FrameHeader, records: Iterable[Record]) -> FrameContents:
    """Return what the records of a verified frame say; OverflowError for a number that 64 bits cannot hold."""
    at = frame.offset + FRAME_SIZE + frame.meta
    adds: list[Record] = []
    starts: list[int] = []
    values: dict[bytes, Stored] = {}
    for record in records:
        if record.kind == Operation.ADD:
            adds.append(record)
            starts += accumulate(record.sizes, initial=at)
            at = starts.pop()
        elif record.kind == Operation.PUT:
            values[record.name] = Stored(at, record.count, record.number)  # the last one wins
            at += record.count
    runs = [record.numbers or range(record.number, record.number + record.count) for record in adds]
    numbers, order = _in_order(runs)
    property_sizes: Sequence[int] = ()
    if any(record.property_sizes for record in adds):
        property_sizes = array("I", chain.from_iterable(one.property_sizes or [0] * one.count for one in adds))
    first_times: Sequence[int] = ()
    if any(record.first_times for record in adds):
        first_times = array("q", chain.from_iterable(one.first_times or [frame.time] * one.count for one in adds))
    return FrameContents(
        offset=frame.offset,
        time=frame.time,
        numbers=numbers,
        order=order,
        starts=array("Q", starts),
        sizes=array("I", _joined([record.sizes for record in adds])),
        checksums=array("Q", _joined([record.checksums for record in adds])),
        property_sizes=property_sizes,
        first_times=first_times,
        terms={place: _packed_terms(record.terms) for place, record in enumerate(adds) if record.flags & TERMS},
        ends=[*accumulate(record.count for record in adds)],
        names=[(record.name, record.producer) for record in adds],
        values=values,
    )


def _in_order(runs: Sequence[Sequence[int]]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the numbers of records in the order of their bytes, and their places by ascending number."""
    if len(runs) == 1 and isinstance(runs[0], range):
        return runs[0], range(len(runs[0]))
    numbers = [*chain.from_iterable(runs)]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    run = range(numbers[0], numbers[0] + len(numbers)) if numbers else range(0)
    is_run, is_in_order = numbers == [*run], order == [*range(len(order))]
    return run if is_run else array("Q", numbers), range(len(order)) if is_in_order else array("I", order)


def _joined(columns: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return columns of records as one."""
    return columns[0] if len(columns) == 1 else [*chain.from_iterable(columns)]


def _packed_terms(terms: TermColumns) -> TermColumns:
    """Return a record's terms in little memory."""
    names: dict[bytes, bytes] = {}
    groups = [names.setdefault(group, group) for group in terms.groups]
    return TermColumns(array("q", terms.due), array("q", terms.expiry), array("I", terms.attempts), groups)
