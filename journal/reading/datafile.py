"""One data file, opened for reading: its header, its footer, its bytes. Changes nothing.

What is wrong with a file is a value here, not an exception: recovery, `verify`, `dump` and the
analysis all read through this module and decide differently. An error of the operating system is
not a property of the file and is raised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from oms_journal.journal import names
from oms_journal.journal.disk import Buffer, Disk, DiskFile
from oms_journal.journal.errors import FormatError, NewerFormat
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.footer import (
    OUTLINE_SIZE,
    TRAILER,
    TRAILER_MAGIC_OF_VERSION_1,
    BadFooter,
    FooterColumns,
    Outline,
    Summary,
    check_order,
    check_ranges,
    decode_columns,
    decode_contents,
    decode_outline,
    decode_summary,
    trailer_size,
)
from oms_journal.journal.format.headers import (
    HEADER_COPIES,
    HEADER_SIZE,
    HEADERS_SIZE,
    MAGIC_OF_VERSION_1,
    SECOND_HEADER_OF_VERSION_1_AT,
    WRITTEN_BY_VERSION_1,
    BadHeader,
    FileHeader,
    decode_header,
)
from oms_journal.journal.format.records import BadRecord
from oms_journal.journal.names import ArchiveName, DataFileName

HASH_BYTES = 1 << 20  # read and hashed at once: stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Footer:
    """A good footer: its summary, and its bytes, from which the columns are made when wanted.

    FormatError where they contradict one another: no program has written them on purpose.
    """

    summary: Summary
    data: bytes
    path: Path
    decoded: Contents | None = field(default=None, repr=False, compare=False)  # what was made to be checked

    def contents(self) -> Contents:
        if self.decoded is not None:
            return self.decoded
        try:
            return decode_contents(self.data, self.summary)
        except BadRecord as failure:
            raise FormatError(self.path, self.summary.start, str(failure)) from failure

    def checked(self, *, with_ranges: bool = False) -> "Footer | BadFooter":
        """Return this footer where its columns agree with one another, else what is wrong with it.

        To hold its ranges against its columns takes further passes over these.
        """
        try:
            contents = decode_contents(self.data, self.summary)
            assert isinstance(contents.columns, FooterColumns)
            check_order(contents.columns, self.summary)
            contents.check_sets()
            if with_ranges:
                check_ranges(contents)
        except BadRecord as failure:
            return BadFooter(str(failure))
        return replace(self, decoded=contents)

    def columns(self) -> FooterColumns:
        try:
            return decode_columns(self.data, self.summary)
        except BadRecord as failure:
            raise FormatError(self.path, self.summary.start, str(failure)) from failure


class DataFile:
    """One data file or archive, opened read-only. `close` it."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._begin(disk.open(path), path)

    @classmethod
    def opened(cls, file: DiskFile, path: Path) -> "DataFile":
        """Return one that reads what somebody else has open, and closes."""
        found = cls.__new__(cls)
        found._begin(file, path)
        return found

    def _begin(self, file: DiskFile, path: Path) -> None:
        self.path = path
        name = names.parse(path.name)
        self._sequence = name.sequence if isinstance(name, DataFileName | ArchiveName) else 0
        self.file = file
        self._size: int | None = None

    def __enter__(self) -> "DataFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()

    def size(self) -> int:
        """Return the file's length in bytes when it was first asked for."""
        if self._size is None:
            self._size = self.file.size()
        return self._size

    def headers(self) -> list[FileHeader | BadHeader]:
        """Return what each of the header's two copies says; NewerFormat when one is beyond us."""
        data = self.file.read(HEADERS_SIZE, 0)
        found = [decode_header(data[at : at + HEADER_SIZE]) for at in HEADER_COPIES]
        for header in found:
            if isinstance(header, BadHeader) and header.version is not None:
                raise NewerFormat(self.path, 0, header.reason)
        if not any(isinstance(header, FileHeader) for header in found) and self._is_of_version_1(data):
            raise NewerFormat(self.path, 0, WRITTEN_BY_VERSION_1)
        return found

    def _is_of_version_1(self, data: Buffer) -> bool:
        """Say whether that version's magic stands where its second header, or the end of its footer, has it."""
        size = self.file.size()
        end = self.file.read(len(TRAILER_MAGIC_OF_VERSION_1), max(0, size - len(TRAILER_MAGIC_OF_VERSION_1)))
        second = data[SECOND_HEADER_OF_VERSION_1_AT:]
        return bytes(second[: len(MAGIC_OF_VERSION_1)]) == MAGIC_OF_VERSION_1 or end == TRAILER_MAGIC_OF_VERSION_1

    def header(self) -> FileHeader | BadHeader:
        """Return the header by its first good copy, the footer's included."""
        return self.best_of(self.headers())

    def best_of(self, copies: Sequence[FileHeader | BadHeader]) -> FileHeader | BadHeader:
        """Return the first good one of the header's copies, else the footer's, else what is wrong with the first.

        A copy that is the header of the file's name goes before one of another file, whose write came here.
        """
        good = [header for header in copies if isinstance(header, FileHeader)]
        own = [header for header in good if header.sequence == self._sequence]
        if own or (good and not self._sequence):
            return (own or good)[0]
        footer = self.footer(identity=None)
        if isinstance(footer, Footer):
            good.insert(0 if footer.summary.header.sequence == self._sequence else len(good), footer.summary.header)
        return good[0] if good else copies[0]

    def footer(self, *, identity: int | None) -> Footer | BadFooter | None:
        """Return the footer, what is wrong with it, or None when the file ends without one."""
        size = self.size()
        tail = self.file.read(TRAILER.size, max(0, size - TRAILER.size))
        footer_size = trailer_size(tail)
        if footer_size is None:
            return None
        if not size - footer_size >= HEADERS_SIZE:
            return BadFooter("the footer's size is impossible")
        data = self.file.read(footer_size, size - footer_size)
        summary = decode_summary(data, identity=identity)
        if isinstance(summary, BadFooter):
            if summary.is_newer:
                raise NewerFormat(self.path, size - footer_size, summary.reason)
            return summary
        if summary.start != size - footer_size:
            return BadFooter("the footer does not start where the frames end")
        return Footer(summary, data, self.path)

    def trailer(self) -> bytes | None:
        """Return the last bytes of a footer; None when the file ends without one."""
        tail = self.file.read(TRAILER.size, max(0, self.size() - TRAILER.size))
        return None if trailer_size(tail) is None else tail

    def outline(self, *, identity: int) -> Outline | None:
        """Return the beginning of the footer, as it stands; None where it is not as it must be, or there is none."""
        tail = self.trailer()
        start = self.size() - (trailer_size(tail) or 0) if tail is not None else 0
        if tail is None or start < HEADERS_SIZE:
            return None
        found = decode_outline(self.file.read(OUTLINE_SIZE, start), tail, identity=identity)
        return found if isinstance(found, Outline) and found.summary.start == start else None

    def values(self, outline: Outline, column: str) -> npt.NDArray[np.int64]:
        """Return a column of the footer, without reading the others."""
        at, size = outline.values_of(column)
        return outline.column(column, self.file.read(size, at) if size else b"")

    def checksum(self, end: int) -> int:
        """Return the XXH3 of the file's bytes up to `end`."""
        hasher = xxhash.xxh3_64()
        buffer = memoryview(bytearray(min(HASH_BYTES, max(end, 1))))
        at = 0
        while at < end:
            count = self.file.read_into(buffer[: min(len(buffer), end - at)], at)
            if not count:
                break
            hasher.update(buffer[:count])
            at += count
        return hasher.intdigest()

    def bytes(self, size: int | None = None) -> bytes:
        """Return the file's bytes from the start."""
        return self.file.read(self.size() if size is None else size, 0)

    def is_zero(self) -> bool:
        """Say whether the file holds nothing but zeros: a prepared file, or none at all."""
        at = 0
        while data := self.file.read(HASH_BYTES, at):
            if data.count(0) != len(data):
                return False
            at += len(data)
        return True


def require_header(file: DataFile) -> FileHeader:
    """Return the file's header; FormatError when it has none that can be read."""
    header = file.header()
    if isinstance(header, BadHeader):
        raise FormatError(file.path, 0, header.reason)
    return header
