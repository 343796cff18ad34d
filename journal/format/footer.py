"""The footer of a sealed file: its contents as columns, and the proof that the file is whole.

It begins where the last frame ends, and is the last thing in the file:

    part       bytes            meaning
    summary    184              below
    header     256              the file's header once more
    directory  32 × columns     one entry a column: id, width (1 byte each), 6 zeros, base, step, size (8 bytes each)
    columns    sizes            each padded with zeros to a multiple of 8
    trailer    32               below

A column of width 0 has the value base + step × row (mod 2^64). Otherwise each row has a little-endian number of
`width` bytes (1, 2, 4 or 8), and its value is base + that number (mod 2^64). Times are signed 64-bit numbers.
Column ids 1 to 17 are those of `contents.py` in their order. Five more are bytes, with width 255 and base = how many:

    id   holds
    32   names: 1 byte length and the name, each
    33   producer identifiers, likewise
    34   the coded sets of the removal rows with a size above 0
    35   the first 128 bytes of each PUT's value (fewer where the value is shorter: see its size)
    36   names of groups, as the names

Summary:

    field               bytes  meaning
    magic               8      OMSFOOT2
    size                8      of the footer, trailer included
    rows                8      how many
    end                 8      the first byte behind the last frame
    frames              8      how many
    last commit         8      number of the last frame's commit
    chain               8      XXH3 over the frames' checksums, in order, 8 bytes each
    successor           8      sequence of the next file, 0 when none was begun
    successor identity  8      its identity
    columns             8      entries in the directory
    ranges              96     6 × (lowest, highest), 8 bytes each, signed: time of commits; message numbers of ADD,
                               of removals; commit numbers; frame offsets; first times of ADD. (1, 0) where there is
                               nothing
    flags               8      1: the file was repaired, and its chain need not be the one its successor names;
                               2: written by a recovery: whoever begins the next file leaves out 2^31 numbers;
                               others refused

Trailer:

    field            bytes  meaning
    file checksum    8      XXH3 over the file from byte 0 up to the footer
    footer checksum  8      XXH3 over the footer up to here, seed: the file's identity
    size             8      of the footer, as above
    magic            8      2ATOOFSM

A column is decoded when it is first asked for, since a start needs only some of them.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oms_journal.journal.format.contents import (
    COLUMNS,
    DAMAGED,
    NOTHING,
    TERM_COLUMNS,
    Contents,
    EncodedColumns,
    Places,
    Ranges,
)
from oms_journal.journal.format.frames import number_at
from oms_journal.journal.format.headers import (
    CHECKSUM,
    HEADER_SIZE,
    NUMBERS_END,
    BadHeader,
    FileHeader,
    decode_header,
    encode_header,
    xxh3,
)
from oms_journal.journal.format.records import (
    ATTEMPTS,
    DUE,
    EXPIRY,
    GROUP,
    MESSAGE_CHECKSUM_BYTES,
    MESSAGE_SIZE_BYTES,
    MOVED,
    TERMS,
    VALUE_HEAD_BYTES,
    BadRecord,
    check_texts,
)
from oms_journal.journal.operations import Operation

ROW_BYTES_MAX = 66  # of a footer, as most files have it
NAME_COUNTS = (1 << 8, 1 << 16, 1 << 32)  # so many names, and the column that tells them apart is wider
# Which columns of a footer a draft makes longer than the shortest possible (`footer.py`).
HAS_PRODUCER, HAS_PROPERTIES, HAS_SETS, HAS_MOVED = 1, 2, 4, 8
HAS_TERMS = DUE | EXPIRY | GROUP | ATTEMPTS  # as in the record's flags
_TERM_BYTES = {DUE: 8, EXPIRY: 8, GROUP: 4, ATTEMPTS: 4}
TERM_BYTES_MAX = sum(_TERM_BYTES.values())  # of a row, beside the others

Entry = tuple[int, int, int, int, int]  # of the directory: id, width, base, step, size
U64 = (1 << 64) - 1
ATTEMPTS_END = 1 << 32  # what a record has room for


def encode_column(values: npt.NDArray[np.int64]) -> tuple[int, int, int, bytes]:
    """Return width, base, step and bytes of a column."""
    if not len(values):
        return 0, 0, 0, b""
    first = int(values[0])
    if not any(values.strides):  # one value for all rows
        return 0, first & U64, 0, b""
    numbers = values.astype(values.dtype.str.replace("i", "u")).astype(np.uint64)
    step = (int(numbers[1]) - int(numbers[0])) & U64 if len(values) > 1 else 0
    if len(values) <= 2 or bool((np.diff(numbers) == np.uint64(step)).all()):
        return 0, first & U64, step, b""
    lowest = int(values.min())
    above = numbers - np.uint64(lowest & U64)
    highest = int(above.max())
    width = next(width for width in (1, 2, 4, 8) if highest < 1 << 8 * width)
    return width, lowest & U64, 0, above.astype(f"<u{width}").tobytes()


class FooterColumns(EncodedColumns):
    """The columns of a footer, each decoded when it is first asked for: a start needs only some of them."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.encoded: dict[str, tuple[Entry, memoryview]] = {}

    def line(self, name: str) -> tuple[int, int] | None:
        """Return (base, step) of a column whose values lie on a line; None for any other."""
        (_, width, base, step, _), _ = self.encoded[name]
        return None if width else (base, step)

    def bounds(self, name: str) -> tuple[int, int]:
        """Return a lowest and a highest value; what goes round beyond 64 bits is as high as can be."""
        (_, width, base, step, _), data = self.encoded[name]
        if not width:
            last = base + (step if step < 1 << 63 else step - (1 << 64)) * (self.rows - 1)
            return (min(base, last), max(base, last)) if last >= 0 else (0, U64)
        return base, base + int(np.frombuffer(data, f"<u{width}").max())

    def narrow(self, name: str, unit: int = 1) -> npt.NDArray[np.uint32]:
        """Return a column of values below 2^32 × unit, divided by the unit, with as few passes as it takes."""
        (_, width, base, step, _), data = self.encoded[name]
        if width == 0 and step == 0:
            return np.full(self.rows, base // unit, np.uint32)
        first, by = base // unit, step // unit
        is_low = first + self.rows * by < 1 << 32  # a column that descends has a step just below 2^64
        if width == 0 and step % unit == base % unit == 0 and is_low:
            return np.arange(first, first + self.rows * by, by, dtype=np.uint32)
        if width in (1, 2, 4) and base % unit == 0 and unit == 1:
            values: npt.NDArray[np.uint32] = np.frombuffer(data, f"<u{width}").astype(np.uint32)
            return values + np.uint32(base)
        return (self[name] // unit).astype(np.uint32)

    def part(self, name: str, rows: Places) -> npt.NDArray[np.int64]:
        entry, data = self.encoded[name]
        return _decoded(entry, data, name, self.rows, rows)

    def stored(self, name: str) -> npt.NDArray[np.int64]:
        """Return how far each value is above the column's base, as narrow as it stands in the footer.

        These are in the order of the values, where `bounds` says that none goes round beyond 64 bits.
        """
        (_, width, _, step, _), data = self.encoded[name]
        if width:
            return np.frombuffer(data, f"<u{width}", self.rows)
        return np.arange(self.rows) * (step if step < NUMBERS_END else step - (1 << 64))

    def __missing__(self, name: str) -> npt.NDArray[np.int64]:
        column = self[name] = self.part(name, slice(0, self.rows))
        return column


def _decoded(
    entry: Entry, data: memoryview, name: str, row_count: int, rows: Places | None = None
) -> npt.NDArray[np.int64]:
    """Return some rows of a column, None for all. What is added is so modulo the size of what comes out."""
    _, width, base, step, _ = entry
    kind = np.dtype(f"<{COLUMNS[name]}")
    unsigned = np.dtype(f"<u{kind.itemsize}")
    base &= (1 << 8 * kind.itemsize) - 1
    rows = slice(0, row_count) if rows is None else rows
    if width:
        stored = np.frombuffer(data, f"<u{width}", row_count)[rows]
        values = stored.astype(unsigned, copy=isinstance(rows, slice))
    elif step:
        values = (np.arange(row_count, dtype=np.uint64)[rows] * np.uint64(step)).astype(unsigned, copy=False)
    else:
        return np.full(_count_of(rows, row_count), base, unsigned).view(kind)
    if base:
        values += unsigned.type(base)
    return values.view(kind)


def _count_of(rows: Places, row_count: int) -> int:
    if isinstance(rows, slice):
        return len(range(*rows.indices(row_count)))
    return int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)


MAGIC = b"OMSFOOT2"
TRAILER_MAGIC = b"2ATOOFSM"
TRAILER_MAGIC_OF_VERSION_1 = b"1ATOOFSM"
SUMMARY = struct.Struct("<8sQQQQQQQQQ12qQ")
SUMMARY_SIZE_AT = len(MAGIC)
SUMMARY_ROWS_AT = SUMMARY_SIZE_AT + 8
ENTRY = struct.Struct("<BB6xQQQ")
TRAILER = struct.Struct("<QQQ8s")
TRAILER_END = struct.Struct("<QQ8s")  # the trailer without the file checksum, which the footer's is over too
GAPS, RECOVERED = 1, 2  # flags
FLAGS = GAPS | RECOVERED
BYTES = 255  # the width of a column of bytes
NAMES, PRODUCERS, SETS, VALUE_HEADS, GROUPS = 32, 33, 34, 35, 36
_NUMBER_IDS = {column: number for number, column in enumerate(COLUMNS, start=1)}
_WIDTHS = {  # which ones a column may have
    **dict.fromkeys(_NUMBER_IDS.values(), (0, 1, 2, 4, 8)),
    **dict.fromkeys((NAMES, PRODUCERS, SETS, VALUE_HEADS, GROUPS), (BYTES,)),
}
_DIRECTORY_COUNT = len(_WIDTHS)
FIXED_SIZE = SUMMARY.size + HEADER_SIZE + _DIRECTORY_COUNT * ENTRY.size + TRAILER.size
OUTLINE_SIZE = FIXED_SIZE - TRAILER.size  # its beginning: summary, header and directory
# Of an operation in its frame: a checksum and a size; a footer's rows can take no bytes at all.
ROW_BYTES_MIN = MESSAGE_CHECKSUM_BYTES + MESSAGE_SIZE_BYTES
assert SUMMARY.size == 184
assert TRAILER.size == 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The fixed part of a footer."""

    size: int
    rows: int
    end: int
    frame_count: int
    last_commit: int
    chain: int
    successor: int
    successor_identity: int
    columns: int
    ranges: Ranges
    has_gaps: bool
    is_recovered: bool
    header: FileHeader
    file_checksum: int

    @property
    def start(self) -> int:
        """Where the footer begins; the file checksum goes up to here."""
        return self.end


@dataclass(frozen=True, slots=True)
class Outline:
    """The beginning of a footer: its summary, and of each column the entry, and where in the footer its values begin.

    Believed as it stands: the footer's checksum is over all of it.
    """

    summary: Summary
    places: Mapping[str, tuple[Entry, int]]

    def values_of(self, name: str) -> tuple[int, int]:
        """Return where in the file a column's values stand, and how many bytes they are."""
        entry, at = self.places[name]
        return self.summary.start + at, entry[4]

    def column(self, name: str, values: bytes) -> npt.NDArray[np.int64]:
        """Return a column of these values."""
        return _decoded(self.places[name][0], memoryview(values), name, self.summary.rows)


@dataclass(frozen=True, slots=True)
class BadFooter:
    """A footer that was finished once and is not whole any more."""

    reason: str
    is_newer: bool = False  # its header is whole, and of a version that is beyond us


def footer_size_max(*, rows: int, row_bytes: int, blob_bytes: int) -> int:
    """Return a bound on the footer's size; `row_bytes` as `row_bytes_max` gives it."""
    return FIXED_SIZE + rows * row_bytes + blob_bytes + _DIRECTORY_COUNT * 8


def row_bytes_max(*, name_count: int, features: int) -> int:
    """Return the most bytes a row can take; `features` says what else any of them has, by HAS_…."""
    name = next(1 << place for place, count in enumerate(NAME_COUNTS) if name_count <= count)
    fixed = 1 + 1 + name + 8 + 4 + 8 + 8 + 8 + 8  # kind flags name number size offset commit time hash
    sizes = {HAS_PRODUCER: 4, HAS_PROPERTIES: 4, HAS_SETS: 4, HAS_MOVED: 8, **_TERM_BYTES}
    return fixed + sum(size for feature, size in sizes.items() if features & feature)


def encode_footer(
    contents: Contents,
    header: FileHeader,
    file_checksum: int,
    successor: tuple[int, int],
    *,
    is_recovered: bool = False,
) -> bytes:
    """Return the footer of a file with these contents; `successor` is the next file's (sequence, identity)."""
    entries: list[bytes] = []
    parts: list[bytes] = []
    for name, number in _NUMBER_IDS.items():
        width, base, step, data = encode_column(contents.columns[name])
        entries.append(ENTRY.pack(number, width, base, step, len(data)))
        parts.append(data + bytes(-len(data) % 8))
    for number, count, data in _blobs(contents):
        entries.append(ENTRY.pack(number, BYTES, count, 0, len(data)))
        parts.append(data + bytes(-len(data) % 8))
    body = b"".join((encode_header(header), *entries, *parts))
    size = SUMMARY.size + len(body) + TRAILER.size
    numbers = (size, len(contents), contents.end, contents.frame_count, contents.last_commit, contents.chain)
    flags = GAPS * contents.has_gaps | RECOVERED * is_recovered
    summary = SUMMARY.pack(MAGIC, *numbers, *successor, len(entries), *_encode_ranges(ranges(contents)), flags)
    checked = summary + body + CHECKSUM.pack(file_checksum)
    return checked + TRAILER_END.pack(xxh3(checked, header.identity), size, TRAILER_MAGIC)


def _blobs(contents: Contents) -> Iterator[tuple[int, int, bytes]]:
    yield NAMES, len(contents.names), _encode_names(contents.names)
    yield PRODUCERS, len(contents.producers), _encode_names(contents.producers)
    yield SETS, len(contents.sets), contents.sets
    yield VALUE_HEADS, len(contents.value_heads), contents.value_heads
    yield GROUPS, len(contents.groups), _encode_names(contents.groups)


def _encode_names(names: Sequence[bytes]) -> bytes:
    return b"".join([part for name in names for part in (bytes((len(name),)), name)])


def _decode_names(data: bytes, count: int) -> list[bytes]:
    """Return so many names of UTF-8. BadRecord."""
    names = []
    at = 0
    for _ in range(count):
        end = at + 1 + data[at] if at < len(data) else at
        if at == end or end > len(data):
            raise BadRecord("a footer has fewer names than it says")
        names.append(data[at + 1 : end])
        at = end
    check_texts(names)
    return names


def ranges(contents: Contents) -> Ranges:
    """Return lowest and highest of what the contents hold."""
    if contents.ranges is not None:
        return contents.ranges
    columns = contents.columns
    is_add = columns["kind"] == Operation.ADD
    is_removal = (columns["kind"] == Operation.DELIVER) | (columns["kind"] == Operation.DELETE)
    removed = _range(columns["number"][is_removal])
    highest = max((int(numbers[-1]) for numbers in contents.removal_sets()), default=0)
    return Ranges(
        time=_range(columns["time"]),
        added=_range(columns["number"][is_add]),
        removed=(removed[0], max(removed[1], highest)) if is_removal.any() else NOTHING,
        commit=_range(columns["commit"]),
        offset=_range(columns["offset"]),
        first_time=_range(np.where(columns["flags"] & MOVED, columns["first_time"], columns["time"])[is_add]),
    )


def check_ranges(contents: Contents) -> None:
    """Raise BadRecord where a footer's ranges are not those of its rows."""
    if contents.ranges != ranges(replace(contents, ranges=None)):
        raise BadRecord("the ranges of a footer are not those of its rows")


def _encode_ranges(found: Ranges) -> list[int]:
    pairs = (found.time, found.added, found.removed, found.commit, found.offset, found.first_time)
    return [number for pair in pairs for number in pair]


def _range(values: npt.NDArray[np.int64]) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else NOTHING


def begins_footer(data: bytes, at: int) -> bool:
    """Say whether a footer was begun at this place: its magic stands there."""
    return data.startswith(MAGIC, at)


def last_beginning(data: bytes) -> int:
    """Return the last place where one may have been begun, -1 for none."""
    return data.rfind(MAGIC)


def begun_size(data: bytes, at: int) -> int | None:
    """Return the size that a footer names in its beginning, None where none was begun, or not so far."""
    is_there = begins_footer(data, at) and len(data) >= at + SUMMARY_ROWS_AT
    return number_at(data, at + SUMMARY_SIZE_AT) if is_there else None


def trailer_size(tail: bytes) -> int | None:
    """Return the footer's size that a file's last 32 bytes name, or None when no footer ends there."""
    if len(tail) < TRAILER.size:
        return None
    _, _, size, magic = TRAILER.unpack(tail[-TRAILER.size :])
    return int(size) if magic == TRAILER_MAGIC else None


def decode_summary(data: bytes, *, identity: int | None) -> Summary | BadFooter:
    """Return what a footer's bytes say; with the file's identity known, they must belong to this file."""
    return _summary(data, data[-TRAILER.size :], identity, is_whole=True)


def decode_outline(data: bytes, trailer: bytes, *, identity: int) -> Outline | BadFooter:
    """Return what the first OUTLINE_SIZE bytes of a footer say, and its trailer: its checksum is not looked at."""
    summary = _summary(data, trailer, identity, is_whole=False)
    return summary if isinstance(summary, BadFooter) else Outline(summary, dict(_places(data, summary)))


def _places(data: bytes, summary: Summary) -> Iterator[tuple[str, tuple[Entry, int]]]:
    """Yield each column's name, with its entry, and where in the footer its values begin."""
    names = {number: name for name, number in _NUMBER_IDS.items()}
    directory = SUMMARY.size + HEADER_SIZE
    at = directory + summary.columns * ENTRY.size
    for index in range(summary.columns):
        entry = ENTRY.unpack_from(data, directory + index * ENTRY.size)
        if entry[0] in names:
            yield names[entry[0]], (entry, at)
        at += entry[4] + -entry[4] % 8


def _summary(data: bytes, trailer: bytes, identity: int | None, *, is_whole: bool) -> Summary | BadFooter:
    """Return what a footer's beginning and trailer say; `data` is the whole of it, or its beginning only."""
    if len(data) < FIXED_SIZE - _DIRECTORY_COUNT * ENTRY.size or not begins_footer(data, 0):
        return BadFooter("the footer does not begin where its end says")
    _, said_size, rows, end, frame_count, last_commit, chain, *others = SUMMARY.unpack_from(data)
    successor, successor_identity, columns, *limits, flags = others
    header = decode_header(data[SUMMARY.size : SUMMARY.size + HEADER_SIZE])
    if isinstance(header, BadHeader):
        return BadFooter(f"the header in the footer: {header.reason}", is_newer=header.version is not None)
    file_checksum, checksum, size, magic = TRAILER.unpack(trailer)
    if magic != TRAILER_MAGIC or size != said_size or (is_whole and size != len(data)):
        return BadFooter("the footer's checksum does not match")
    if is_whole and checksum != xxh3(memoryview(data)[: size - TRAILER.size + CHECKSUM.size], header.identity):
        return BadFooter("the footer's checksum does not match")
    if identity not in (None, header.identity):
        return BadFooter("the footer belongs to another file")
    is_known = not flags & ~FLAGS and rows <= end // ROW_BYTES_MIN
    if not is_known or not _is_directory_known(data, size, columns=columns, rows=rows):
        return BadFooter("the footer has flags or columns that its format version does not know")
    kinds = ("time", "added", "removed", "commit", "offset", "first_time")
    pairs = [(limits[at], limits[at + 1]) for at in range(0, 2 * len(kinds), 2)]
    return Summary(
        size=size,
        rows=rows,
        end=end,
        frame_count=frame_count,
        last_commit=last_commit,
        chain=chain,
        successor=successor,
        successor_identity=successor_identity,
        columns=columns,
        ranges=Ranges(**dict(zip(kinds, pairs, strict=True))),
        has_gaps=bool(flags & GAPS),
        is_recovered=bool(flags & RECOVERED),
        header=header,
        file_checksum=file_checksum,
    )


def _is_directory_known(data: bytes, size: int, *, columns: int, rows: int) -> bool:
    """Say whether all columns of this format version are there, each as long as it must be, in a footer of this size.

    A column with another id is none of ours and is left alone.
    """
    at = SUMMARY.size + HEADER_SIZE
    room = size - TRAILER.size - at - columns * ENTRY.size
    if room < 0 or len(data) < at + columns * ENTRY.size:
        return False
    missing = set(_WIDTHS)
    for index in range(columns):
        number, width, _, _, taken = ENTRY.unpack_from(data, at + index * ENTRY.size)
        if number in _WIDTHS and (width not in _WIDTHS[number] or (width != BYTES and taken != width * rows)):
            return False
        missing.discard(number)
        room -= taken + -taken % 8
    return not missing and room == 0


def decode_columns(data: bytes, summary: Summary) -> FooterColumns:
    """Return the columns alone, each to be decoded when it is asked for. BadRecord where they contradict the rest."""
    return _parts(data, summary)[0]


def _parts(data: bytes, summary: Summary) -> tuple[FooterColumns, dict[int, bytes], dict[int, int]]:
    """Return the columns, and what is bytes, with its counts, by column id."""
    ids = {number: name for name, number in _NUMBER_IDS.items()}
    at = SUMMARY.size + HEADER_SIZE
    entries = [ENTRY.unpack_from(data, at + index * ENTRY.size) for index in range(summary.columns)]
    at += summary.columns * ENTRY.size
    columns = FooterColumns(summary.rows)
    blobs: dict[int, bytes] = {}
    counts: dict[int, int] = {}
    for entry in entries:
        number, _, base, _, size = entry
        if number in ids:
            columns.encoded[ids[number]] = (entry, memoryview(data)[at : at + size])
        else:
            blobs[number], counts[number] = data[at : at + size], base
        at += size + -size % 8
    _check_columns(columns, summary, blobs, counts)
    return columns, blobs, counts


def _check_columns(columns: FooterColumns, summary: Summary, blobs: dict[int, bytes], counts: dict[int, int]) -> None:
    """Raise BadRecord where a column says what no writer does; costs a pass over the narrow ones."""
    if not columns.rows:
        return
    lowest, highest = columns.bounds("kind")
    is_known = lowest >= Operation.ADD and highest <= Operation.DROP
    is_known &= columns.bounds("name")[1] < counts[NAMES] and columns.bounds("producer")[1] <= counts[PRODUCERS]
    is_known &= columns.bounds("offset")[1] < summary.end and columns.bounds("group")[1] <= counts[GROUPS]
    is_known &= columns.bounds("flags")[1] < 2 * DAMAGED and _are_terms_known(columns)
    is_known &= columns.bounds("attempts")[1] < ATTEMPTS_END
    if is_known and highest > Operation.ADD:
        kinds = columns["kind"]
        is_removal = (kinds == Operation.DELIVER) | (kinds == Operation.DELETE)
        sets = columns.part("size", is_removal).sum(dtype=np.uint64)
        heads = np.minimum(columns.part("size", kinds == Operation.PUT), VALUE_HEAD_BYTES).sum(dtype=np.uint64)
        is_known = int(sets) == len(blobs[SETS]) and int(heads) == len(blobs[VALUE_HEADS])
        is_known &= bool(columns.part("count", is_removal).all())
    if not is_known:
        raise BadRecord("the columns of a footer contradict one another")


def _are_terms_known(columns: FooterColumns) -> bool:
    """Say whether only messages have terms, and only those whose flags say so."""
    is_none = all(columns.line(name) == (0, 0) for name in TERM_COLUMNS)
    if is_none and columns.bounds("flags")[1] < DUE:
        return True
    flags = columns["flags"]
    is_known = not ((columns["kind"] != Operation.ADD) & (flags & TERMS != 0)).any()
    for name, flag in zip(TERM_COLUMNS, (DUE, EXPIRY, ATTEMPTS, GROUP), strict=True):
        is_known &= not ((columns[name] != 0) & (flags & flag == 0)).any()
    return is_known


def check_order(columns: FooterColumns, summary: Summary) -> None:
    """Raise BadRecord where rows do not stand in the order of a journal, or say what only another kind has.

    In bulk: a column that lies on a line costs nothing, any other one a pass or two.
    """
    header, is_whole = summary.header, not summary.has_gaps
    first = (header.next_message, header.next_commit) if header.created else (0, 0)
    is_good = not (is_whole and header.created) or summary.last_commit == first[1] + summary.frame_count - 1
    if not summary.frame_count:
        is_good = summary.last_commit == 0
    if columns.rows:
        lowest, highest = columns.bounds("commit")
        is_good &= first[1] <= lowest and highest < NUMBERS_END and not (is_whole and highest > summary.last_commit)
        (is_next_frame, is_frame_before), (is_next, is_before) = (
            _turns(columns, name) for name in ("offset", "commit")
        )
        is_good &= not (is_frame_before.any() or is_before.any()) and bool(np.all(is_next_frame == is_next))
        is_good &= _are_numbers_known(columns, first[0])
    if not is_good:
        raise BadRecord("the numbers in a footer are not in order")


def _are_numbers_known(columns: FooterColumns, lowest: int) -> bool:
    """Say whether messages that are added, but for moved ones, ascend from the lowest on, and keys have no numbers."""
    if columns.bounds("number")[1] >= NUMBERS_END:
        return False
    if columns.line("kind") == (Operation.ADD, 0) and columns.line("flags") == (0, 0):
        is_one = columns.line("count") == (1, 0)
        return is_one and columns.bounds("number")[0] >= lowest and bool(_turns(columns, "number")[0].all())
    kinds = columns["kind"]
    is_add = kinds == Operation.ADD
    is_first = is_add if columns.bounds("flags")[1] < MOVED else is_add & (columns["flags"] & MOVED == 0)
    added = columns.stored("number")[is_first]
    is_known = not len(added) or bool((added[1:] > added[:-1]).all())
    is_known &= not len(added) or int(columns.part("number", np.array([is_first.argmax()]))[0]) >= lowest
    is_known &= not is_add[_places_without(columns, "count", 1)].any()
    if columns.bounds("kind")[1] >= Operation.PUT:
        is_key = kinds >= Operation.PUT
        is_known &= not any(columns.part(name, is_key).any() for name in ("number", "count"))
    return is_known


def _places_without(columns: FooterColumns, name: str, value: int) -> npt.NDArray[np.int64]:
    """Return the places of the rows that have another value in a column."""
    (_, _, base, _, _), _ = columns.encoded[name]
    return np.flatnonzero(columns.stored(name) != value - base)


def _turns(columns: FooterColumns, name: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return whether each row's value is higher than the one before, and whether it is lower; one for all on a line.

    `bounds` must have said that no value goes round beyond 64 bits.
    """
    if (line := columns.line(name)) is not None:
        turns = (0 < line[1] < NUMBERS_END, line[1] >= NUMBERS_END)
        higher, lower = (np.array([turn] if columns.rows > 1 else [], np.bool_) for turn in turns)
        return higher, lower
    values = columns.stored(name)
    return values[1:] > values[:-1], values[1:] < values[:-1]


def decode_contents(data: bytes, summary: Summary) -> Contents:
    """Return the columns of a footer whose summary was read and whose checksum was right. BadRecord, as above."""
    columns, blobs, counts = _parts(data, summary)
    return Contents(
        columns=columns,
        names=_decode_names(blobs[NAMES], counts[NAMES]),
        producers=_decode_names(blobs[PRODUCERS], counts[PRODUCERS]),
        groups=_decode_names(blobs[GROUPS], counts[GROUPS]),
        sets=blobs[SETS],
        value_heads=blobs[VALUE_HEADS],
        frame_count=summary.frame_count,
        end=summary.end,
        last_commit=summary.last_commit,
        chain=summary.chain,
        ranges=summary.ranges,
        has_gaps=summary.has_gaps,
    )
