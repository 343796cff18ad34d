"""All frames of a sealed file, many at once: held against the footer's columns, their payloads against their checksums.

A walk takes the frames one by one and says what is wrong with each. This says of a file whose frames are as its footer
has them which messages and values cannot be read, with as little work for each as there can be; of any other file it
says nothing, and there is the walk.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.journal.disk import DiskFile
from oms_journal.journal.format.contents import (
    COLUMNS,
    DAMAGED,
    TERM_COLUMNS,
    Contents,
    Rows,
    Tables,
    check_rows,
    have_properties,
    payload_starts,
    rows_of,
    without_rows,
)
from oms_journal.journal.format.footer import Summary
from oms_journal.journal.format.frames import (
    CHECKSUM_WORD,
    COMMIT_WORD,
    COUNTS_WORD,
    FRAME_SIZE,
    GAP,
    HIGH_HALF,
    IDENTITY_WORD,
    LOW_HALF,
    SIZES_WORD,
    TIME_WORD,
    WORD_BYTES,
    FrameHeader,
    Words,
    decode_frame,
    seed_of,
    words_of,
)
from oms_journal.journal.format.headers import CHECKSUM, FRAMES_AT, NUMBERS_END, xxh3
from oms_journal.journal.format.plain import (
    HASH_WORD,
    NUMBER_WORD,
    PLAIN,
    PLAIN_COUNTS,
    PLAIN_RECORD,
    RECORD_NAME_MASK,
    RECORD_NAME_SHIFT,
    RECORD_WORD,
    SIZE_WORD,
)
from oms_journal.journal.format.records import (
    SINGLE,
    BadRecord,
    decode_properties,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.walk import BadPayload

WINDOW_BYTES = 1 << 20  # read at once: stays in the processor's cache
_PLAIN_COLUMNS = {
    **{"kind": int(Operation.ADD), "flags": 0, "count": 1, "properties": 0, "producer": 0, "first_time": 0},
    **dict.fromkeys(TERM_COLUMNS, 0),
}

Ints = npt.NDArray[np.int64]


def sweep(file: DiskFile, summary: Summary, contents: Contents) -> list[BadPayload] | None:
    """Return the messages and values that cannot be read; None where the frames are not as the footer has them.

    `contents` are the footer's; its rows of what an earlier repair has found lost have no frames. OSError.
    """
    try:
        contents.check_sets()
        return _Sweep(file, summary, without_rows(contents, lost_rows(file, summary, contents))).run()
    except BadRecord:
        return None


def lost_rows(file: DiskFile, summary: Summary, contents: Contents) -> npt.NDArray[np.bool_]:
    """Say of each row of a footer whether its frame was lost when the file was repaired. OSError."""
    found: npt.NDArray[np.bool_] = (contents.columns["flags"] & DAMAGED) != 0
    if not summary.has_gaps or not found.any():
        return np.zeros(len(contents), np.bool_)
    data, header, offsets = file.read(summary.end, 0), summary.header, contents.columns["offset"]
    for offset in np.unique(offsets[found]).tolist():
        frame = decode_frame(data, offset, sequence=header.sequence, identity=header.identity)
        if isinstance(frame, FrameHeader) and not frame.flags & GAP:
            found &= offsets != offset
    return found


def lost_payloads(contents: Contents, lost: npt.NDArray[np.bool_]) -> Iterator[BadPayload]:
    """Yield the messages and values whose frames were lost, but for those values that the footer has."""
    columns = contents.columns
    for row in np.flatnonzero(lost & np.isin(columns["kind"], (Operation.ADD, Operation.PUT))).tolist():
        kind, name, offset, number = (int(columns[column][row]) for column in ("kind", "name", "offset", "number"))
        text = bytes(contents.names[name])
        if kind == Operation.ADD or contents.short_value(text, offset) is None:
            yield BadPayload(offset, Operation(kind), text, number if kind == Operation.ADD else 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """Some frames with rows, one behind the other, and their bytes."""

    base: int  # where the bytes begin in the file
    data: bytes
    words: Words
    offsets: Ints  # of the frames, in the bytes
    places: Ints  # likewise, in the words
    ends: Ints  # of their records, in the bytes


class _Sweep:
    """Goes through the frames of a file, as many at once as stay in the cache."""

    def __init__(self, file: DiskFile, summary: Summary, contents: Contents) -> None:
        self._file = file
        self._summary = summary
        self._contents = contents
        self._columns = {name: contents.columns[name] for name in COLUMNS}
        self._columns["flags"] = self._columns["flags"] & ~np.uint16(DAMAGED)
        self._sizes = np.array([len(name) for name in contents.names], np.uint64)
        offsets = self._columns["offset"].astype(np.int64)
        is_first = np.concatenate(([True], offsets[1:] != offsets[:-1]))[: len(offsets)]
        self._first_rows = np.append(np.flatnonzero(is_first), len(offsets))
        self._offsets = offsets[is_first]
        self._tables = Tables()
        self._set_bytes = 0
        self._frame_count = 0
        self._chain = xxhash.xxh3_64()

    def run(self) -> list[BadPayload] | None:
        """Return what is bad; None where a frame is none, or not the footer's; BadRecord likewise."""
        offsets, summary = self._offsets, self._summary
        if (offsets[1:] <= offsets[:-1]).any() or (offsets % WORD_BYTES).any() or (offsets >= summary.end).any():
            return None
        bad: list[BadPayload] = []
        at, low = FRAMES_AT, 0
        while at < summary.end:
            high = max(int(np.searchsorted(offsets, at + WINDOW_BYTES)), low + 1)
            end = int(offsets[high]) if high < len(offsets) else summary.end
            window = self._window(at, end, offsets[low:high])
            rows = slice(*self._first_rows[[low, min(high, len(offsets))]].tolist())
            found = self._checked(window, rows) if window is not None else None
            if found is None:
                return None
            bad += found
            at, low = end, high
        is_all = self._frame_count == summary.frame_count and self._chain.intdigest() == summary.chain
        return bad if is_all and b"".join(self._tables.sets) == self._contents.sets else None

    def _window(self, at: int, end: int, offsets: Ints) -> _Window | None:
        """Return the frames between two places; None where the bytes there are others."""
        data = self._file.read(end - at, at)
        if len(data) != end - at or (len(offsets) and offsets[0] < at):
            return None
        words, relative = words_of(data, 0), offsets - at
        places = relative // WORD_BYTES
        if len(places) and relative[-1] + FRAME_SIZE > len(data):
            return None
        sizes = words[places + SIZES_WORD]
        ends = relative + FRAME_SIZE + (sizes >> HIGH_HALF).astype(np.int64)
        behind = np.concatenate(([0], relative + (sizes & LOW_HALF).astype(np.int64)))
        frames = [relative]
        for place in np.flatnonzero(behind != np.append(relative, len(data))).tolist():
            stop = int(relative[place]) if place < len(relative) else len(data)
            between = _between(data, at, (int(behind[place]), stop), self._summary)
            if between is None:
                return None
            frames.append(np.array(between, np.int64))
        every = np.sort(np.concatenate(frames)) if len(frames) > 1 else relative
        if not self._summary.has_gaps and (np.diff(words[every // WORD_BYTES + COMMIT_WORD]) != 1).any():
            return None
        self._frame_count += len(every)
        self._chain.update(words[every // WORD_BYTES + CHECKSUM_WORD].tobytes())
        if (ends > len(data)).any():
            return None
        return _Window(at, data, words, relative, places, ends)

    def _checked(self, window: _Window, rows: slice) -> list[BadPayload] | None:
        """Return the bad payloads of the frames, which should have these rows; None where they have not."""
        if not len(window.offsets):
            return []
        is_plain = rows.stop - rows.start == len(window.offsets) and self._are_plain(window)
        words, places = window.words, window.places
        sizes = (words[places + SIZE_WORD] & LOW_HALF).astype(np.int64) if is_plain else np.zeros(1, np.int64)
        alike = _alike(window, sizes) if is_plain else None
        bodies = alike[0] if alike else _parts(window.data, window.offsets + CHECKSUM.size, window.ends)
        seeds = (window.offsets + window.base).astype(np.uint64) + np.uint64(seed_of(self._summary.header.sequence))
        seen = np.fromiter(map(xxh3, bodies, seeds.tolist()), np.uint64, len(bodies))
        identity = np.uint64(self._summary.header.identity)
        if (seen != words[places + CHECKSUM_WORD]).any() or (words[places + IDENTITY_WORD] != identity).any():
            return None
        if not is_plain:
            return self._others(window, rows)
        payloads = alike[1] if alike else _parts(window.data, window.ends, window.ends + sizes)
        return self._plain(window, rows, np.fromiter(map(xxh3, payloads), np.uint64, len(payloads)))

    def _are_plain(self, window: _Window) -> bool:
        words, places = window.words, window.places
        if (window.ends - window.offsets < PLAIN.size).any():
            return False
        is_one = words[places + COUNTS_WORD] == PLAIN_COUNTS
        return bool((is_one & (words[places + RECORD_WORD] & ~RECORD_NAME_MASK == PLAIN_RECORD)).all())

    def _plain(self, window: _Window, rows: slice, seen: Words) -> list[BadPayload] | None:
        """Return the bad ones of plain messages, of which each has a frame: no head is looked at by itself.

        The hashes that were `seen` of their payloads are given.
        """
        words, places, columns = window.words, window.places, self._columns
        sizes, names = words[places + SIZE_WORD] & LOW_HALF, columns["name"][rows].astype(np.int64)
        metas = words[places + SIZES_WORD] >> HIGH_HALF
        name_sizes = (words[places + RECORD_WORD] & RECORD_NAME_MASK) >> RECORD_NAME_SHIFT
        is_same = (metas == _padded(np.uint64(SINGLE.size) + name_sizes)) & (name_sizes == self._sizes[names])
        held = np.uint64(FRAME_SIZE) + metas + sizes
        lengths = words[places + SIZES_WORD] & LOW_HALF
        is_same &= (held <= lengths) & (lengths < held + np.uint64(self._summary.header.alignment))
        found = {"number": words[places + NUMBER_WORD], "hash": words[places + HASH_WORD], "size": sizes}
        found |= {"commit": words[places + COMMIT_WORD], "time": words[places + TIME_WORD].view(np.int64)}
        is_same &= (found["number"] < NUMBERS_END) & (name_sizes > 0)
        is_same &= np.logical_and.reduce([columns[name][rows] == found[name] for name in found])
        is_same &= np.logical_and.reduce([columns[name][rows] == said for name, said in _PLAIN_COLUMNS.items()])
        if not is_same.all() or not self._are_named(window, names):
            return None
        bad = np.flatnonzero(seen != found["hash"]).tolist()
        return [
            BadPayload(
                int(window.offsets[place]) + window.base,
                Operation.ADD,
                bytes(self._contents.names[names[place]]),
                int(found["number"][place]),
            )
            for place in bad
        ]

    def _are_named(self, window: _Window, names: Ints) -> bool:
        """Say whether each frame has the name that the footer gives it; their sizes are the same."""
        data = np.frombuffer(window.data, np.uint8)
        for name in np.unique(names).tolist():
            text = np.frombuffer(self._contents.names[name], np.uint8)
            starts = window.offsets[names == name] + PLAIN.size
            if (data[starts[:, None] + np.arange(len(text))] != text).any():
                return False
        return True

    def _others(self, window: _Window, rows: slice) -> list[BadPayload] | None:
        """Return the bad ones of frames of any kind."""
        heads = _parts(window.data, window.offsets, window.ends)
        found = rows_of(heads, window.offsets + window.base, self._tables)
        check_rows(heads, found, self._summary.header.alignment)
        if not self._are_as_said(found, rows):
            return None
        return self._bad_payloads(window, found, rows)

    def _are_as_said(self, rows: Rows, here: slice) -> bool:
        """Say whether the footer has the same rows."""
        for name in COLUMNS:
            found = rows[name]
            if name == "hash":  # of payloads with properties the records have none
                found = np.where(have_properties(rows), self._columns[name][here], found)
            elif name == "name":
                found = _places(self._tables.names, self._contents.names)[found.astype(np.int64)]
            elif name in ("producer", "group"):
                tables, said = self._tables, self._contents
                known = (tables.producers, said.producers) if name == "producer" else (tables.groups, said.groups)
                found = np.concatenate(([0], _places(*known) + 1))[found.astype(np.int64)]
            if not np.array_equal(self._columns[name][here], found):
                return False
        return True

    def _bad_payloads(self, window: _Window, rows: Rows, here: slice) -> list[BadPayload] | None:
        """Return what does not match its checksum, or is no message though it does; None as `_others`."""
        kinds, places = rows["kind"], rows["frame"].astype(np.int64)
        sizes = rows["size"].astype(np.int64) + rows["properties"].astype(np.int64)
        starts = payload_starts(rows, window.ends)
        mine = np.flatnonzero((kinds == Operation.ADD) | (kinds == Operation.PUT))
        seen = _hashes(window.data, starts[mine], starts[mine] + sizes[mine])
        is_bad = seen != rows["hash"][mine].astype(np.uint64)
        for place in np.flatnonzero(have_properties(rows)[mine] & ~is_bad).tolist():
            row = int(mine[place])
            start, split, end = (
                int(starts[row]),
                int(starts[row] + rows["properties"][row]),
                int(starts[row] + sizes[row]),
            )
            if xxh3(window.data[split:end]) != int(self._columns["hash"][here][row]):
                return None
            is_bad[place] = not _are_properties(window.data[start:split])
        names = list(self._tables.names)
        found: list[BadPayload] = []
        for row in mine[is_bad].tolist():
            operation = Operation(int(kinds[row]))
            number = int(rows["number"][row]) if operation is Operation.ADD else 0
            frame = int(window.offsets[places[row]]) + window.base
            found.append(BadPayload(frame, operation, names[int(rows["name"][row])], number))
        return found


def _between(data: bytes, base: int, span: tuple[int, int], summary: Summary) -> list[int] | None:
    """Return where frames without rows stand between two others; None where there are other bytes."""
    at, end = span
    found: list[int] = []
    while at < end:
        header = summary.header
        frame = decode_frame(data, at + base, sequence=header.sequence, identity=header.identity, base=base)
        if not isinstance(frame, FrameHeader):
            return None
        found.append(at)
        at = frame.end - base
    return found if at == end else None


def _alike(window: _Window, sizes: Ints) -> tuple[Sequence[bytes], Sequence[bytes]] | None:
    """Return heads, but for their checksums, and payloads of frames that are all laid out alike; None of any others."""
    offsets, count = window.offsets, len(window.offsets)
    length = int(offsets[1] - offsets[0]) if count > 1 else 0
    head, size = int(window.ends[0] - offsets[0]), int(sizes[0])
    rest, start = length - head - size, int(offsets[0])
    is_alike = (
        rest >= 0 and int(offsets[-1]) == start + (count - 1) * length and start + count * length <= len(window.data)
    )
    if not is_alike or (np.diff(offsets) != length).any():
        return None
    if (window.ends - offsets != head).any() or (sizes != size).any():
        return None
    layout = struct.Struct(f"<{CHECKSUM.size}x{head - CHECKSUM.size}s{size}s{rest}x")
    pairs = layout.iter_unpack(memoryview(window.data)[start : start + count * length])
    parts = list(chain.from_iterable(pairs))
    return parts[0::2], parts[1::2]


def _padded(sizes: Words) -> Words:
    return sizes + np.uint64(7) & ~np.uint64(7)


def _parts(data: bytes, starts: Ints, ends: Ints) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _hashes(data: bytes, starts: Ints, ends: Ints) -> Words:
    return np.fromiter(map(xxh3, _parts(data, starts, ends)), np.uint64, len(starts))


def _places(found: Mapping[bytes, int], said: Sequence[bytes]) -> Ints:
    """Return where the footer has each of the names that were found, in their order; -1 where it has not."""
    known = {bytes(name): place for place, name in enumerate(said)}
    return np.array([known.get(name, -1) for name in found], np.int64)


def _are_properties(data: bytes) -> bool:
    try:
        decode_properties(data)
    except ValueError:
        return False
    return True
