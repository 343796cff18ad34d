"""The payloads, values and properties of a file's messages, read where they stand and verified each by its checksum."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oms_journal.analysis.reading.columns import Numbers, Window, bitmap_of, byte_strings, texts
from oms_journal.analysis.reading.datafile import Reading
from oms_journal.analysis.reading.judgement import DAMAGED, damage, payload_reason
from oms_journal.analysis.reading.parts import Damage
from oms_journal.analysis.reading.schema import TEXTS
from oms_journal.journal.format.frames import FRAME_META_AT, FRAME_SIZE
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import PROPERTIES, RECORD_PARTS_AT, BadRecord, decode_properties, decode_records
from oms_journal.journal.operations import Operation

PAYLOAD, PROPERTY_MAP = "payload", "properties"  # the columns that are made here
RUN_BYTES_MAX = 32 << 20  # read at once, unless one message is larger
HOLE_BYTES_MAX = 64 << 10  # read along rather than skipped
_NONE: dict[str, str] = {}  # the properties of a message without any
_CHECKSUM_AT = FRAME_SIZE + RECORD_PARTS_AT  # where in a frame the checksum of its first record's first message stands


Objects = npt.NDArray[np.object_]
Unsigned = npt.NDArray[np.uint64]


class Payloads:
    """Reads the bytes of one file's messages and values, window by window."""

    def __init__(self, reading: Reading, wanted: Sequence[str], report: Callable[[Damage], None]) -> None:
        self._reading = reading
        self._wants_payload = PAYLOAD in wanted
        self._wants_properties = PROPERTY_MAP in wanted
        self._report = report
        self._last = (0, 0, b"")  # what was read last: from where, up to where, and the bytes
        columns = reading.contents.columns
        offsets = columns["offset"].view(np.int64)
        is_first = np.append(True, offsets[1:] != offsets[:-1])[: len(offsets)]
        self._firsts = np.flatnonzero(is_first)  # the first row of each frame that has rows
        self._frames = offsets[self._firsts]  # where these frames begin
        self._frame = np.cumsum(is_first) - 1  # of each row
        sizes = _sizes(columns["kind"], columns["size"].astype(np.int64), columns["properties"].astype(np.int64))
        before = np.cumsum(sizes) - sizes
        self._inside = before - before[self._firsts][self._frame]  # bytes of earlier messages of the same frame

    def columns(self, window: Window) -> dict[str, pa.Array]:
        """Return the columns `payload` and `properties` of these rows, as far as they are wanted; OSError."""
        is_add = window.kinds == Operation.ADD
        is_read = is_add & ((window.column("flags") & PROPERTIES) != 0)
        if self._wants_payload:
            is_read = is_add | (window.kinds == Operation.PUT)
        payloads, maps = np.full(window.count, None), np.full(window.count, None)
        maps[is_add] = _NONE
        places = np.flatnonzero(is_read)
        rows = np.arange(len(self._frame))[window.rows][places]
        for start, data, run in self._runs(rows):
            self._take(_Run(start, data, rows[run], places[run]), payloads, maps)
        found: dict[str, pa.Array] = {}
        if self._wants_payload:
            found[PAYLOAD] = byte_strings(payloads.tolist(), pa.binary())
        if self._wants_properties:
            found[PROPERTY_MAP] = _map_array(maps.tolist())
        return found

    def _runs(self, rows: Numbers) -> Iterator[tuple[int, bytes, slice]]:
        """Yield bytes of the file, where they begin, and which of the rows' messages stand in them."""
        if not len(rows):
            return
        if self._reading.data is not None:
            yield 0, self._reading.data, slice(0, len(rows))
            return
        frames, first_rows = np.unique(self._frame[rows], return_index=True)
        starts, ends = self._frames[frames], np.append(self._frames, self._reading.contents.end)[frames + 1]
        is_far = starts[1:] - ends[:-1] > HOLE_BYTES_MAX
        is_full = np.diff((starts - starts[0]) // RUN_BYTES_MAX) > 0
        firsts = np.append(0, np.flatnonzero(is_far | is_full) + 1)
        bounds = np.append(first_rows[firsts], len(rows)).tolist()
        lasts = np.append(firsts[1:], len(frames)) - 1
        for place, (start, end) in enumerate(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)):
            yield start, self._read(start, end), slice(bounds[place], bounds[place + 1])

    def _read(self, start: int, end: int) -> bytes:
        """Return bytes of the file; those of a large frame are read once for all its windows."""
        if self._last[:2] != (start, end):
            self._last = (start, end, b"")  # lets go of the bytes before others are read
            assert self._reading.file is not None, "a file that was not walked stays open"
            self._last = (start, end, self._reading.file.file.read(end - start, start))
        return self._last[2]

    def _take(self, run: "_Run", payloads: Objects, maps: Objects) -> None:
        """Put what is good of a run of messages into its place, and report what is not."""
        columns = self._reading.contents.columns
        frames = self._frames[self._frame[run.rows]] - run.start
        metas = _words(run.data, "<u4", frames + FRAME_META_AT).astype(np.int64)
        starts = frames + FRAME_SIZE + metas + self._inside[run.rows]
        splits = starts + columns["properties"][run.rows]
        stops = splits + columns["size"][run.rows]
        is_bad = np.zeros(len(run.rows), np.bool_)
        if self._wants_payload:
            found = _parts(run.data, splits, stops)
            is_bad = _differ(found, columns["hash"][run.rows].view(np.uint64), stops - splits)
            payloads[run.places] = found
            payloads[run.places[is_bad]] = None
        has = np.flatnonzero((columns["flags"][run.rows] & PROPERTIES) != 0)
        if self._wants_properties and len(has):
            whole = _parts(run.data, starts[has], stops[has])
            checksums = self._checksums(run, frames, metas, has)
            differ = _differ(whole, checksums, (stops - starts)[has])
            maps[run.places[has]] = [_properties(each) for each in _parts(run.data, starts[has], splits[has])]
            maps[run.places[has[differ]]] = None
            is_bad[has] |= maps[run.places[has]] == None  # noqa: E711  # one by one
        for row in run.rows[is_bad].tolist():
            self._report(self._damage(row))

    def _checksums(self, run: "_Run", frames: Numbers, metas: Numbers, has: Numbers) -> Unsigned:
        """Return the checksum over properties and payload of each message that has properties."""
        found = _words(run.data, "<u8", frames[has] + _CHECKSUM_AT)
        numbers = self._frame[run.rows[has]]
        firsts = self._firsts[numbers]
        behind = np.append(self._firsts, len(self._frame))[numbers + 1]
        of_frame: dict[int, list[int]] = {}
        for place in np.flatnonzero(behind - firsts > 1).tolist():
            frame = int(frames[has[place]])
            if frame not in of_frame:
                of_frame[frame] = _checksums_of(run.data, frame, int(metas[has[place]]))
            index = int(run.rows[has[place]] - firsts[place])
            found[place] = of_frame[frame][index] if index < len(of_frame[frame]) else 0
        return found

    def _damage(self, row: int) -> Damage:
        contents = self._reading.contents
        kind, number, offset = (int(contents.columns[name][row]) for name in ("kind", "number", "offset"))
        reason = payload_reason(kind, number, contents.names[int(contents.columns["name"][row])])
        return damage(self._reading.part, DAMAGED, reason, offset)


class _Run:
    """Messages whose bytes were read at once: where in the file, of which rows, and their places in the batch."""

    def __init__(self, start: int, data: bytes, rows: Numbers, places: Numbers) -> None:
        self.start = start
        self.data = data
        self.rows = rows
        self.places = places


def _sizes(kinds: npt.NDArray[np.int64], sizes: Numbers, property_sizes: Numbers) -> Numbers:
    """Return how many bytes each row has behind its frame's records."""
    is_put = kinds == Operation.PUT
    return np.where(kinds == Operation.ADD, sizes + property_sizes, np.where(is_put, sizes, 0))


def _words(data: bytes, kind: str, places: Numbers) -> Unsigned:
    """Return the numbers that stand at these places, each a multiple of its size; 0 behind the end of the bytes."""
    size = np.dtype(kind).itemsize
    words = np.frombuffer(data, kind, len(data) // size)
    found = np.zeros(len(places), np.uint64)
    is_there = places // size < len(words)
    found[is_there] = words[places[is_there] // size]
    return found


def _parts(data: bytes, starts: Numbers, stops: Numbers) -> list[bytes]:
    """Return parts of the bytes, shorter ones where these end."""
    return list(map(data.__getitem__, map(slice, starts.tolist(), stops.tolist())))


def _differ(parts: Sequence[bytes], checksums: Unsigned, sizes: Numbers) -> npt.NDArray[np.bool_]:
    """Say of each part whether it is not what its checksum is of."""
    count = len(parts)
    seen = np.fromiter(map(xxh3, parts), np.uint64, count)
    differ: npt.NDArray[np.bool_] = (seen != checksums) | (np.fromiter(map(len, parts), np.int64, count) != sizes)
    return differ


def _checksums_of(data: bytes, frame: int, meta: int) -> list[int]:
    """Return the checksum of each row of a frame, 0 for one that adds nothing; none where the records are bad."""
    found: list[int] = []
    try:
        for record in decode_records(data[frame + FRAME_SIZE : frame + FRAME_SIZE + meta]):
            found += record.checksums if record.kind == Operation.ADD else (0,)
    except BadRecord:
        return []
    return found


@lru_cache(maxsize=1024)
def _properties(data: bytes) -> dict[str, str] | None:
    try:
        return decode_properties(data)
    except ValueError:
        return None


def _map_array(maps: Sequence[dict[str, str] | None]) -> pa.Array:
    offsets = np.zeros(len(maps) + 1, np.int32)
    np.cumsum([len(each) if each else 0 for each in maps], out=offsets[1:])
    keys = texts([key.encode() for each in maps if each for key in each])
    values = texts([value.encode() for each in maps if each for value in each.values()])
    pairs = pa.StructArray.from_arrays([keys, values], fields=[TEXTS.key_field, TEXTS.item_field])
    nulls = sum(each is None for each in maps)
    bitmap = bitmap_of(np.array([each is not None for each in maps], np.bool_)) if nulls else None
    return pa.Array.from_buffers(TEXTS, len(maps), [bitmap, pa.py_buffer(offsets)], nulls, children=[pairs])
