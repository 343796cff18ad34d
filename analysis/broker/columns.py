"""The values of the broker's records taken apart: heads and texts of a whole batch at once. No Spark here.

What is no record of its kind, which any program can put under a key that begins like the broker's, is null in every
column. `docs/reference/broker-records.md` describes the bytes, `broker/records.py` has their layouts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.reading.columns import Mask, Numbers, bitmap_of, longs
from oms_journal.broker.records import (
    LAYOUTS,
    VERSION,
    Flag,
    Layout,
    RecordKind,
)

Bytes = npt.NDArray[np.uint8]

VALUE = "payload"  # the column of the source that holds a value
NUMBERS = frozenset({"acknowledged", "numbers"})  # what stands behind the texts of a subscription, or of what is held
SERVICE = "service"  # of a unit of work, the name of its queue: the receiver's, of an answer the sender's
_NUMBER_BYTES = 8
_BY_KIND: Mapping[RecordKind, Layout[Any]] = {layout.kind: layout for layout in LAYOUTS}


class Texts(NamedTuple):
    """Where a text of each row begins in the bytes, and how long it is."""

    starts: Numbers
    lengths: Numbers


class Values:
    """The values of one kind of record, taken apart as far as it is asked for."""

    def __init__(self, kind: RecordKind, values: pa.Array) -> None:
        """`values` are bytes, null where they are damaged."""
        self.layout = _BY_KIND[kind]
        self.count = len(values)
        self._data, starts, self._ends = _bytes_of(values)
        size = self.layout.size
        long_enough = self._ends - starts >= size
        self.heads = np.zeros(self.count, self.layout.dtype)
        self.heads[long_enough] = _heads(self.layout, values, long_enough)
        self.is_newer: Mask = long_enough & (self.heads["version"] > VERSION) & (self.heads["kind"] == kind)
        self._texts, rest = self._walked(starts + size)
        self._numbers = Texts(rest, self._ends - rest)
        self.is_readable = long_enough & self._are_heads_good() & self._are_texts_good(starts + size)

    def _walked(self, places: Numbers) -> tuple[dict[str, Texts], Numbers]:
        """Return where each text stands, and where the last one ends: behind the value where they do not fit in."""
        found: dict[str, Texts] = {}
        last = max(len(self._data) - 1, 0)
        data = self._data if len(self._data) else np.zeros(1, np.uint8)
        for name in self.layout.texts:
            is_in = places < self._ends
            lengths = np.where(is_in, data[np.minimum(places, last)], 0).astype(np.int64)
            found[name] = Texts(places + 1, lengths)
            places = places + 1 + lengths
        return found, places

    def _are_heads_good(self) -> Mask:
        heads = self.heads
        good: Mask = (heads["version"] == VERSION) & (heads["kind"] == self.layout.kind) & (heads["reserved"] == 0)
        for name, known in self.layout.known.items():
            good &= np.isin(heads[name], known)
        return good

    def _are_texts_good(self, starts: Numbers) -> Mask:
        """Say whether the texts are whole, the extent is theirs, and they are texts."""
        rest = self._numbers.lengths
        good: Mask = (rest >= 0) & (rest % _NUMBER_BYTES == 0) if self.layout.has_numbers else rest == 0
        shared = list(self._texts.values())[: self.layout.shared_texts]
        behind = shared[-1].starts + shared[-1].lengths if shared else starts
        good &= behind - starts == self.heads["extent"]
        odd = good & self._have_more_than_ascii(starts)
        if odd.any():
            for each in self._texts.values():
                good &= self._are_utf8(each, odd & good)
        return good

    def _have_more_than_ascii(self, starts: Numbers) -> Mask:
        """Say whether a byte above 127 stands in what is behind the heads: in a text, or as the length of one."""
        bounds = np.minimum(np.stack([starts, self._ends], axis=1).reshape(-1), len(self._data))
        padded = np.append(self._data, np.uint8(0))  # so that every bound is a place
        seen = np.bitwise_or.reduceat(padded, bounds)[::2] if self.count else padded[:0]
        return seen >= 128

    def _are_utf8(self, where: Texts, good: Mask) -> Mask:
        rows = np.flatnonzero(good)
        found = np.ones(self.count, np.bool_)
        try:
            self._strings(where, rows).validate(full=True)
        except pa.ArrowInvalid:
            parts = self._strings(where, rows).cast(pa.binary())
            found[rows] = [_is_text(part) for part in parts.to_pylist()]
        return found

    def _strings(self, where: Texts, rows: Numbers) -> pa.Array:
        offsets, data = self._gathered(where.starts[rows], where.lengths[rows])
        return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)

    def _gathered(self, starts: Numbers, lengths: Numbers) -> tuple[npt.NDArray[np.int32], Bytes]:
        """Return parts of the bytes behind one another, and where each begins and the last one ends."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return offsets.astype(np.int32), self._data[places]

    # As columns.

    def column(self, name: str) -> pa.Array:
        """Return a text, the numbers behind the texts, or the service; null where the value is no record."""
        if name in NUMBERS:
            return self._behind()
        if name == SERVICE:
            return self._service()
        return self._spread(self._strings(self._texts[name], np.flatnonzero(self.is_readable)))

    def _behind(self) -> pa.Array:
        rows = np.flatnonzero(self.is_readable)
        offsets, data = self._gathered(self._numbers.starts[rows], self._numbers.lengths[rows])
        numbers = longs(data.view(np.int64), pa.int64())
        lists = pa.ListArray.from_arrays(longs32(offsets // _NUMBER_BYTES), numbers)
        return self._spread(lists)

    def _service(self) -> pa.Array:
        rows, is_reply = np.flatnonzero(self.is_readable), (self.heads["flags"] & Flag.FROM_SERVER) != 0
        parts = []
        for part in ("class", "server", "service"):
            of_sender, of_receiver = self._texts[f"sender_{part}"], self._texts[f"receiver_{part}"]
            starts = np.where(is_reply, of_sender.starts, of_receiver.starts)
            text = self._strings(Texts(starts, np.where(is_reply, of_sender.lengths, of_receiver.lengths)), rows)
            parts.append(pc.replace_substring(pc.replace_substring(text, "~", "~0"), "/", "~1"))
        return self._spread(pc.binary_join_element_wise(*parts, "/"))

    def _spread(self, found: pa.Array) -> pa.Array:
        """Return what was made for the readable rows in the places of all rows."""
        if len(found) == self.count:
            return found
        places = np.cumsum(self.is_readable) - 1
        missing = self.count - len(found)
        return found.take(longs(np.maximum(places, 0), pa.int64(), (bitmap_of(self.is_readable), missing)))


def longs32(values: npt.NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def _bytes_of(values: pa.Array) -> tuple[Bytes, Numbers, Numbers]:
    """Return the bytes, and where each value begins and ends in them; one that is null is empty."""
    whole = values.cast(pa.large_binary())
    if whole.null_count:
        whole = pc.fill_null(whole, b"")
    _, offsets, data = whole.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(whole) + 1, whole.offset * _NUMBER_BYTES) if len(whole) else _NONE
    return np.frombuffer(data or b"", np.uint8), bounds[:-1], bounds[1:]


_NONE = np.zeros(1, np.int64)


def _heads(layout: Layout[Any], values: pa.Array, rows: Mask) -> npt.NDArray[np.void]:
    """Return the heads of the values that are long enough for one."""
    count = int(np.count_nonzero(rows))
    if not count:
        return np.zeros(0, layout.dtype)
    good = values if count == len(values) else values.take(longs(np.flatnonzero(rows), pa.int64()))
    cut = pc.binary_slice(good, 0, layout.size)
    _, offsets, data = cut.buffers()
    start = np.frombuffer(offsets, np.int32 if pa.types.is_binary(cut.type) else np.int64, cut.offset + 1)[cut.offset]
    return np.frombuffer(data, layout.dtype, count, int(start))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
