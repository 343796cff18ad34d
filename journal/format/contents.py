"""The operations of one data file as columns: what a footer holds, and what a walk gathers.

One row is one operation, but for a removal, where one row is one set of numbers. Rows are in the
order of the journal. Names are kept once and referred to by their place in `names`.

    column      of            meaning
    kind        all           1 ADD, 2 DELIVER, 3 DELETE, 4 PUT, 5 DROP
    flags       all           as in the record: PROPERTIES, PRODUCER, MOVED, WHOLE COMMIT; and 16 DAMAGED: the
                              message's or value's bytes were found not to match when the file was rebuilt
    name        all           place of the queue or key in `names`, from 0
    number      messages      the message, or the first of a set; else 0
    count       messages      1, or how many numbers the set holds; else 0
    size        not DROP      bytes of payload (without properties) or value; of a set: its coded bytes; else 0
    properties  ADD           bytes of the properties; else 0
    producer    ADD           0, or 1 + place of the identifier in `producers`
    offset      all           of the frame
    commit      all           number of the commit
    time        all           of the commit, microseconds since 1970-01-01 UTC, signed
    first_time  MOVED ADD     of the message's first ADD, as `time`; else 0
    hash        ADD, PUT      XXH3 of the payload (without properties) or value; else 0
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.journal.format.headers import FRAME, FRAME_SIZE, GAP
from oms_journal.journal.format.records import check_texts, decode_set
from oms_journal.journal.format.rows import COLUMNS, Rows, Tables, check_rows, rows_of
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import VALUE_HEAD_BYTES
from oms_journal.journal.writing.heads import PACK_COUNT, Heads

DAMAGED = 16
FLAGS_AT = FRAME_SIZE - 4  # of a frame: the last field of its header

Column = npt.NDArray[np.generic]


NOTHING = (1, 0)
NO_FRAMES = xxhash.xxh3_64_intdigest(b"")  # the chain of a file that has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Lowest and highest of what a file holds, (1, 0) where it holds none: for skipping whole files."""

    time: tuple[int, int] = NOTHING
    added: tuple[int, int] = NOTHING
    removed: tuple[int, int] = NOTHING
    commit: tuple[int, int] = NOTHING
    offset: tuple[int, int] = NOTHING
    first_time: tuple[int, int] = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The operations of one data file, and where its frames end."""

    columns: Mapping[str, npt.NDArray[np.int64]]
    names: Sequence[bytes] = ()
    producers: Sequence[bytes] = ()
    sets: bytes = b""  # the coded sets of the removal rows, behind one another
    value_heads: bytes = b""  # the first 128 bytes of each PUT's value, behind one another
    frame_count: int = 0
    end: int = 0  # behind the last frame
    last_commit: int = 0
    chain: int = 0  # XXH3 over the frames' checksums
    ranges: Ranges | None = None  # where a footer has told them already
    has_gaps: bool = False  # an earlier repair put gap frames in, which changes the chain

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def value_head(self, key: bytes) -> bytes | None:
        """Return the first 128 bytes of the last undamaged value put under the key in this file."""
        if key not in self.names:
            return None
        puts = self.columns["kind"] == Operation.PUT
        is_good = (self.columns["flags"][puts] & DAMAGED) == 0
        mine = np.flatnonzero(is_good & (self.columns["name"][puts] == list(self.names).index(key)))
        if not len(mine):
            return None
        ends = np.cumsum(value_head_sizes(self.columns["size"][puts].astype(np.int64)))
        start = int(ends[mine[-1] - 1]) if mine[-1] else 0
        return self.value_heads[start : int(ends[mine[-1]])]

    def removal_sets(self) -> "list[npt.NDArray[np.uint64]]":
        """Return the numbers of every removal row that holds more than one, in the order of the rows."""
        if not self.sets:
            return []
        found: list[npt.NDArray[np.uint64]] = []
        kinds, counts, sizes = (self.columns[name] for name in ("kind", "count", "size"))
        numbers = self.columns["number"]
        at = 0
        removal = (kinds == Operation.DELIVER) | (kinds == Operation.DELETE)
        for row in np.flatnonzero(removal & (sizes > 0)).tolist():
            end = at + int(sizes[row])
            found.append(decode_set(int(numbers[row]), int(counts[row]), self.sets[at:end]))
            at = end
        return found


def empty_columns() -> dict[str, npt.NDArray[np.int64]]:
    return {name: np.empty(0, f"<{kind}") for name, kind in COLUMNS.items()}


class ContentsBuilder:
    """Gathers the frames of one file as they are written or walked; columns are made at the end.

    What is kept of a frame are the bytes of its header and records, which exist already: a plain message, whose way is
    the shortest, pays two appends. Where there are values, many frames are packed together (`heads.py`) at a time. The
    columns are made in bulk (`rows.py`).
    """

    __slots__ = ("_hasher", "_heads", "_offsets", "_value_heads")

    def __init__(self) -> None:
        self._heads = Heads()
        self._offsets = array("Q")
        self._value_heads = Heads()
        self._hasher = xxhash.xxh3_64()

    def add(self, offset: int, head: bytes, value_heads: Sequence[bytes] = ()) -> None:
        """Take in one frame's header and records; the value heads are those of its PUTs, in order."""
        self.add_one(offset, head)
        if value_heads:
            self.add_value_heads(value_heads)

    def add_plain(self, offsets: Sequence[int], heads: Sequence[bytes]) -> None:
        """Take in frames; for each that has PUTs `add_value_heads` follows, in their order."""
        self._heads.loose += heads
        self._offsets.extend(offsets)
        self._hasher.update(heads[0][:8] if len(heads) == 1 else b"".join([head[:8] for head in heads]))

    def add_one(self, offset: int, head: bytes) -> None:
        """Take in one frame; where it has PUTs, `add_value_heads` follows."""
        self._heads.loose.append(head)
        self._offsets.append(offset)
        self._hasher.update(head[:8])

    def add_nothing(self, offset: int, header: bytes) -> None:
        """Take in a frame that counts, and whose records are left out: no row comes from it."""
        self.add_one(offset, header[:FLAGS_AT] + GAP.to_bytes(4, "little"))

    def add_value_heads(self, value_heads: Sequence[bytes]) -> None:
        """Take in the beginnings of the values of one frame's PUTs, in order, behind those of all frames before it."""
        loose = self._value_heads.loose
        loose += value_heads
        if len(loose) >= PACK_COUNT:
            self._value_heads.pack(len(loose))
        if len(self._heads.loose) >= PACK_COUNT:
            self._heads.pack(PACK_COUNT)  # and not all, so that no commit waits for many plain messages before it

    def chain(self) -> int:
        """Return XXH3 over the checksums of the frames so far."""
        return self._hasher.intdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def build(self, end: int) -> Contents:
        """Return the columns of all frames taken in; the last of them ends at `end`."""
        heads, tables = self._heads.all(), Tables()
        return self._contents(heads, rows_of(heads, self._offsets, tables), tables, end)

    def build_checked(self, end: int) -> Contents:
        """Return the same; BadRecord where a reader would not understand one of the frames."""
        heads, tables = self._heads.all(), Tables()
        rows = rows_of(heads, self._offsets, tables)
        check_rows(heads, rows)
        contents = self._contents(heads, rows, tables, end)
        check_texts((*contents.names, *contents.producers))
        contents.removal_sets()
        return contents

    def _contents(self, heads: Sequence[bytes], rows: Rows, tables: Tables, end: int) -> Contents:
        last_commit = FRAME.unpack_from(heads[-1])[3] if heads else 0
        return Contents(
            columns={name: rows[name] for name in COLUMNS},
            names=list(tables.names),
            producers=list(tables.producers),
            sets=b"".join(tables.sets),
            value_heads=b"".join(self._value_heads.all()),
            frame_count=len(heads),
            end=end,
            last_commit=last_commit,
            chain=self.chain(),
        )


def value_head_sizes(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many bytes of each PUT's value stand in `value_heads`, given the values' sizes."""
    return np.minimum(sizes, VALUE_HEAD_BYTES)
