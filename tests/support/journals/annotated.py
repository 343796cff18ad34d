"""The bytes of a data file as text that a person can read: hex, with the name of each field behind it.

    68 65 6c 6c 6f                                   # payload of message 1
    00 *15616                                        # a run of zeros

What stands behind a `#` is a comment. The names are those of the format's own tables.
"""

import re
from collections.abc import Iterator, Sequence

from oms_journal.journal.format import footer, headers, records
from oms_journal.journal.format.contents import COLUMNS
from oms_journal.journal.format.frames import FrameHeader
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.format.records import Record, decode_records
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.walk import Span, walk
from tests.support.journals.format_tables import docstring_tables, widths

_LINE_BYTES = 16
_ZEROS_MIN = 25  # so many zeros in a row are written as a run
_OPAQUE = {"magic", "database", "parent", "checksum", "chain", "identity", "file checksum", "footer checksum"}
_SIGNED = {"created", "time"}
_RANGES = ("time", "added", "removed", "commit", "offset", "first time")


def as_bytes(text: str) -> bytes:
    """Return the bytes that an annotated text stands for."""
    found = bytearray()
    for line in text.splitlines():
        code = line.split("#")[0].strip()
        if match := re.fullmatch(r"00 \*(\d+)", code):
            found += bytes(int(match[1]))
        else:
            found += bytes.fromhex(code)
    return bytes(found)


def annotated(data: bytes) -> str:
    """Return the text of a data file that is whole."""
    return "\n".join(_Annotator(data).lines()) + "\n"


class _Annotator:
    """Goes through a file once, from its first byte to its last."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def lines(self) -> Iterator[str]:
        header = headers.decode_header(self._data[: headers.HEADER_SIZE])
        assert isinstance(header, FileHeader)
        limit = self._data.rfind(footer.MAGIC)
        span = Span(
            sequence=header.sequence,
            identity=header.identity,
            limit=limit if limit > 0 else len(self._data),
        )
        for copy in headers.HEADER_COPIES:
            yield from self._zeros_up_to(copy)
            yield f"# <{copy}> header"
            yield from self._fields("oms_journal.journal.format.headers", 0)
        for frame in walk(self._data, span).frames:
            yield from self._zeros_up_to(frame.offset)
            yield from self._frame(frame)
        yield from self._zeros_up_to(limit if limit > 0 else len(self._data))
        if limit > 0:
            yield from self._footer()
        assert self._at == len(self._data)

    def _take(self, size: int, comment: str) -> Iterator[str]:
        """Yield lines with the next bytes, the comment behind the first."""
        data = self._data[self._at : self._at + size]
        self._at += size
        if size >= _ZEROS_MIN and not any(data):
            yield f"{f'00 *{size}':48} # {comment}"
            return
        for at in range(0, size, _LINE_BYTES):
            part = data[at : at + _LINE_BYTES].hex(" ")
            yield f"{part:48} # {comment}" if at == 0 else part

    def _zeros_up_to(self, offset: int) -> Iterator[str]:
        if offset > self._at:
            yield from self._take(offset - self._at, "zeros")

    def _fields(self, module: str, table: int) -> Iterator[str]:
        for name, size in widths(docstring_tables(module)[table]):
            yield from self._field(name, size)

    def _field(self, name: str, size: int, note: str = "") -> Iterator[str]:
        data = self._data[self._at : self._at + size]
        if any(word in name for word in _OPAQUE) or size > 8:
            value = ""
        else:
            value = f" {int.from_bytes(data, 'little', signed=name in _SIGNED)}"
        yield from self._take(size, f"{name}{value}{note}")

    def _frame(self, frame: FrameHeader) -> Iterator[str]:
        yield f"# <{frame.offset}> frame"
        yield from self._fields("oms_journal.journal.format.frames", 0)
        found = list(decode_records(self._data[frame.records]))
        for record in found:
            yield from self._record(record)
        for record in found:
            yield from self._payloads(record)
        yield from self._padding(frame.end)

    def _padding(self, end: int) -> Iterator[str]:
        if end > self._at:
            yield from self._take(end - self._at, "padding")

    def _record(self, record: Record) -> Iterator[str]:
        kind = "GAP" if record.kind == records.GAP_KIND else Operation(record.kind).name
        start = self._at
        yield f"# <{start}> record"
        for name, size in widths(docstring_tables("oms_journal.journal.format.records")[0]):
            yield from self._field(name, size, f" {kind}" if name == "kind" else "")
        if record.kind == Operation.ADD:
            yield from self._add_columns(record)
        elif record.kind in (Operation.DELIVER, Operation.DELETE):
            yield from self._field("size", 4)
            yield from self._take(len(record.set_bytes), "set")
        yield from self._take(len(record.name), f"name {record.name.decode()}")
        yield from self._take(len(record.producer), f"producer {record.producer.decode()}")
        for group in record.terms.groups:
            yield from self._take(len(group), f"group {group.decode()}")
        yield from self._padding(start + (self._at - start + 7) // 8 * 8)

    def _add_columns(self, record: Record) -> Iterator[str]:
        columns: list[tuple[str, Sequence[int], int]] = [("checksum of message", record.checksums, 8)]
        columns += [("number", record.numbers, 8), ("first time", record.first_times, 8)]
        columns += [("due", record.terms.due, 8), ("expiry", record.terms.expiry, 8)]
        columns += [("size", record.sizes, 4), ("properties", record.property_sizes, 4)]
        columns += [("attempts", record.terms.attempts, 4), ("size of group", list(map(len, record.terms.groups)), 1)]
        for name, values, size in columns:
            for value in values:
                is_hash = name.startswith("checksum")
                yield from self._take(size, name if is_hash else f"{name} {value}")

    def _payloads(self, record: Record) -> Iterator[str]:
        if record.kind == Operation.PUT:
            yield from self._take(record.count, f"value of {record.name.decode()}")
        for index, size in enumerate(record.sizes):
            of_properties = record.property_sizes[index] if record.property_sizes else 0
            number = record.message(index)
            yield from self._take(of_properties, f"properties of message {number}")
            yield from self._take(size - of_properties, f"payload of message {number}")

    def _footer(self) -> Iterator[str]:
        yield f"# <{self._at}> footer"
        for name, size in widths(docstring_tables("oms_journal.journal.format.footer")[2]):
            if name != "ranges":
                yield from self._field(name, size)
                continue
            for kind in _RANGES:
                low, high = (
                    int.from_bytes(self._data[at : at + 8], "little", signed=True) for at in (self._at, self._at + 8)
                )
                yield from self._take(16, f"{kind} from {low} to {high}")
        yield f"# <{self._at}> header"
        yield from self._fields("oms_journal.journal.format.headers", 0)
        yield from self._directory()
        yield f"# <{self._at}> trailer"
        yield from self._fields("oms_journal.journal.format.footer", 3)

    def _directory(self) -> Iterator[str]:
        yield f"# <{self._at}> directory"
        names = dict(enumerate(COLUMNS, start=1))
        names |= {footer.NAMES: "names", footer.PRODUCERS: "producers"}
        names |= {footer.SETS: "sets", footer.VALUE_HEADS: "value heads", footer.GROUPS: "groups"}
        found: list[tuple[str, int, int, int]] = []
        while len(found) < len(names):
            number, width, base, step, size = footer.ENTRY.unpack_from(self._data, self._at)
            yield from self._take(16, f"{number} {names[number]}: width {width}, base {base}")
            yield from self._take(16, f"step {step}, size {size}")
            found.append((names[number], width, base, size))
        yield f"# <{self._at}> columns"
        for name, width, base, size in found:
            start = self._at
            for _ in range(-(-size // _LINE_BYTES)):
                yield from self._column(min(_LINE_BYTES, start + size - self._at), name, width, base)
            yield from self._padding(start + (size + 7) // 8 * 8)

    def _column(self, size: int, name: str, width: int, base: int) -> Iterator[str]:
        """Yield one line of a column, with its values where they say something to a person."""
        data = self._data[self._at : self._at + size]
        if width == footer.BYTES:
            values = [data.decode("latin-1")] if data.isascii() and name != "sets" else []
        elif name == "hash":
            values = []
        else:
            signed = base - (base >> 63 << 64)
            parts = [data[at : at + width] for at in range(0, size, width)]
            values = [str(signed + int.from_bytes(part, "little")) for part in parts]
        yield from self._take(size, " ".join([name, *(repr(value)[1:-1] for value in values)]))
