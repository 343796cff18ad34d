"""Archive, then write anew; the only code that shortens or replaces a data file.

A repaired file is built beside the old one, synced, and takes its place by a rename: a crash at any
step leaves the old file or the new one, and the next start does the same again. Before that, a copy
of what was found is kept as `omsmsg-SEQ-vVER.archive`, built and named in the same way; a repair that
is repeated finds the identical archive and does not make a second one. Good frames keep their
offsets; every bad range becomes a gap frame of the same length that names the archive.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.errors import DiskError, FormatError, RecoveryRefused
from oms_journal.journal.files import COPY_BYTES, are_same, build, copy, pieces
from oms_journal.journal.format.contents import Contents, with_lost_rows
from oms_journal.journal.format.footer import encode_footer
from oms_journal.journal.format.frames import FRAME_BYTES_MAX, FRAME_SIZE, GAP, encode_frame_head, seed_of
from oms_journal.journal.format.headers import (
    ALIGNMENT_MAX,
    FRAMES_AT,
    SECTOR_BYTES,
    Ending,
    FileHeader,
    encode_headers,
    xxh3,
)
from oms_journal.journal.format.records import encode_gap
from oms_journal.journal.names import ArchiveName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.evidence import PROMISED_BYTES, lost_in
from oms_journal.journal.reading.walk import Span, walk
from oms_journal.journal.reserve import NO_SPACE
from oms_journal.recovery.decision import TORN_HEADER, Action
from oms_journal.recovery.examination import Examination, mark_damaged, read_contents
from oms_journal.recovery.report import Verdict

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known when it is a file's turn: how the file before it ended, and which numbers may come."""

    database: bytes
    previous: Ending = field(default_factory=Ending)
    owner: int = 0
    next_message: int = 1
    next_commit: int = 1
    low_water: int = 0  # as any header says, that of a file which is dropped among them


@dataclass(frozen=True, slots=True)
class Repaired:
    """One data file after its repair; no contents where the file is gone."""

    sequence: int
    contents: Contents | None
    header: FileHeader | None
    archive: str | None
    action: str

    @property
    def ending(self) -> Ending:
        """How the file ends, as its successor will say it."""
        assert self.header is not None and self.contents is not None
        return self.contents.ending(self.header)


class Repairer:
    """Carries out decisions. `make_room` gives up reserved bytes and says whether there were any."""

    def __init__(self, disk: Disk, directory: Path, make_room: Callable[[int], bool]) -> None:
        self._disk = disk
        self._directory = directory
        self._make_room = make_room
        self._archives: dict[int, str | None] = {}  # of files that were archived before their turn, by sequence

    def repair(self, examined: Examination, before: Before, following: Examination | None = None) -> Repaired:
        """Do what the decision says.

        Who wrote the footer of a file may have ended before its sync: it is synced before anything behind it is
        touched. What a new footer says was begun, the file `following` it, is durable before. DiskError; then the next
        start does it again.
        """
        is_kept = examined.decision.action is Action.KEEP
        try:
            # Footers are written one after the other: only the last before a file without one may not be durable.
            if is_kept and (following is None or following.decision.action is not Action.KEEP):
                self._sync(examined.path)
            if not is_kept and following is not None and following.in_doubt == 0:
                self._settle(following)
            return self._repair(examined, before)
        except OSError as failure:
            raise DiskError(self._directory, failure, "write the repaired files in") from failure

    def _settle(self, begun: Examination) -> None:
        """Make durable what nothing vouches for, its first group: what a footer says was begun was promised.

        Its header, too, where one copy was torn: that would be damage from now on. It is archived as it was found.
        """
        if begun.decision.row == TORN_HEADER:
            self._archives[begun.sequence] = self._with_room(begun.size, lambda: self.archive(begun))
        try:
            self._with_room(begun.size, lambda: self._build(begun.path, lambda new: self._copy_of(begun, new)))
        except OSError as failure:
            if failure.errno not in NO_SPACE or _may_be_torn(begun):
                raise
            self._rewrite_in_place(begun, 0)

    def _copy_of(self, examined: Examination, new: DiskFile) -> None:
        source = self._disk.open(examined.path)
        try:
            _copy(source, source.size(), new)
            _write_headers(examined, new)
        finally:
            source.close()

    def _repair(self, examined: Examination, before: Before) -> Repaired:
        action = examined.decision.action
        if action is Action.KEEP:
            return Repaired(examined.sequence, read_contents(self._disk, examined), examined.header, None, "")
        if action is Action.REMOVE:
            self._remove(examined.path)
            return Repaired(examined.sequence, None, None, None, action.value)
        if action is Action.SEAL:
            return self._seal(examined, before)
        archive = self._archives.pop(examined.sequence, None)
        archive = archive or self._with_room(examined.size, lambda: self.archive(examined))
        if action is Action.DROP:
            self._remove(examined.path)
            return Repaired(examined.sequence, None, None, archive, action.value)
        needed = max(examined.size, examined.end, examined.extent)
        return self._with_room(needed, lambda: self._rebuild(examined, before, archive))

    def _seal(self, examined: Examination, before: Before) -> Repaired:
        """Write the frames again with a footer; where there is no space, in their place and without."""
        try:
            return self._with_room(examined.end, lambda: self._rebuild(examined, before, None))
        except OSError as failure:
            if failure.errno not in NO_SPACE or _may_be_torn(examined):
                raise
        if examined.in_doubt is not None:
            self._rewrite_in_place(examined, examined.in_doubt)
        return Repaired(examined.sequence, examined.contents, examined.header, None, "kept without a footer: no space")

    def _sync(self, path: Path) -> None:
        file = self._disk.open(path, writable=True)
        try:
            file.sync()
        finally:
            file.close()

    def _rewrite_in_place(self, examined: Examination, start: int) -> None:
        """Write the last frames once more where they are and sync them: after a failed sync the page cache lies.

        A power cut in the middle costs nothing: what is written is what is there. A sector that holds durable bytes is
        old or new, and both are the same; one that does not was promised to nobody. What something vouches for is not
        touched, since it is durable without that.
        """
        file = self._disk.open(examined.path, writable=True)
        try:
            if not start:
                _write_headers(examined, file)
            copy(file, file, start, examined.end)
            file.sync()
        finally:
            file.close()

    def _with_room(self, size: int, step: Callable[[], _T]) -> _T:
        """Take the step; when the disk is full, once more with what the reserve gives."""
        try:
            return step()
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
        self._make_room(size + COPY_BYTES)
        return step()

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(path)
        self._disk.sync_directory(self._directory)

    # The archive.

    def archive(self, examined: Examination) -> str | None:
        """Copy the file as it is to the next free archive name, durably; return the name. None without a file."""
        path = examined.path
        try:
            source = self._disk.open(path)
        except FileNotFoundError:
            return None
        try:
            size = source.size()
            versions = self._versions(examined.sequence)
            for version in versions:
                name = ArchiveName(examined.sequence, version)
                if self._is_identical(source, self._directory / str(name)):
                    return str(name)
            version = max(versions, default=0) + 1
            if version > names.VERSION_MAX:
                raise RecoveryRefused(
                    f"{path} has {len(versions)} archives, and no more can be named: move some of them to another place"
                )
            target = self._directory / str(ArchiveName(examined.sequence, version))
            self._build(target, lambda new: _copy(source, size, new))
        finally:
            source.close()
        return target.name

    def _versions(self, sequence: int) -> list[int]:
        parsed = [names.parse(entry) for entry in self._disk.list(self._directory)]
        return sorted(name.version for name in parsed if isinstance(name, ArchiveName) and name.sequence == sequence)

    def _is_identical(self, source: DiskFile, path: Path) -> bool:
        file = self._disk.open(path)
        try:
            return are_same(source, file)
        finally:
            file.close()

    def _build(self, path: Path, fill: Callable[[DiskFile], None]) -> None:
        build(self._disk, path, fill)
        self._disk.sync_directory(self._directory)

    # The new file.

    def _rebuild(self, examined: Examination, before: Before, archive: str | None) -> Repaired:
        header = examined.header or _stand_in(examined, before)
        if examined.decision.verdict is Verdict.DAMAGED:  # what says which files are not needed may be what it has lost
            header = replace(header, low_water=max(header.low_water, before.low_water, examined.low_water))
        end, ranges = _extent(examined)
        data = self._new_bytes(examined, header, archive or "-", end, ranges)
        span = Span(
            sequence=header.sequence,
            identity=header.identity,
            limit=end,
            alignment=header.alignment,
        )
        found = walk(bytes(data), span)
        if found.bad_ranges or found.end != end:
            raise FormatError(examined.path, found.end, f"what says that it ends at byte {end} is of no writer")
        is_other = examined.decision.row == "other ending"
        contents = replace(found.builder.build(end), has_gaps=found.has_gaps or is_other)
        if examined.said is not None:
            contents = with_lost_rows(contents, examined.said, lost_in(found)) or contents
        mark_damaged(contents, found.bad_payloads)
        data += encode_footer(contents, header, xxh3(data), examined.successor, is_recovered=True)
        self._build(examined.path, lambda new: new.write(data, 0))
        return Repaired(examined.sequence, contents, header, archive, examined.decision.action.value)

    def _new_bytes(
        self, examined: Examination, header: FileHeader, archive: str, end: int, gaps: Sequence[tuple[int, int]]
    ) -> bytearray:
        data = bytearray(end)
        if examined.decision.action is not Action.ENTOMB:
            with DataFile(self._disk, examined.path) as file:
                found = file.bytes(min(end, file.size()))
                data[: len(found)] = found
        data[:FRAMES_AT] = encode_headers(header)
        for start, stop in gaps:
            data[start:stop] = b"".join(_gap_frames(header, archive, start, stop))
        return data


def _may_be_torn(examined: Examination) -> bool:
    """Say whether a power cut may take commits that are written again in their place, and may have been acknowledged.

    With groups that are aligned to sectors, nothing is assumed of a sector that is written while the power goes, be it
    the same bytes. So there must be room for a copy, or nobody starts; an empty frame that only vouches may go.
    """
    if examined.in_doubt is None or examined.alignment < SECTOR_BYTES or examined.contents is None:
        return False
    return bool((examined.contents.columns["offset"] >= examined.in_doubt).any())


def _write_headers(examined: Examination, file: DiskFile) -> None:
    if examined.decision.row == TORN_HEADER and examined.header is not None:
        file.write(encode_headers(examined.header), 0)


def _copy(source: DiskFile, size: int, file: DiskFile) -> None:
    for at, data in pieces(source, 0, size):
        if data.count(0) != len(data):  # what was only prepared stays a hole
            file.write(data, at)
    file.truncate(size)


def _extent(examined: Examination) -> tuple[int, Sequence[tuple[int, int]]]:
    """Return where the rebuilt file's frames end, and which ranges become gap frames."""
    if examined.decision.action is Action.ENTOMB:
        end = examined.extent if examined.named is not None else max(examined.extent, FRAMES_AT + PROMISED_BYTES)
        return end, [(FRAMES_AT, end)]
    return examined.end, [(bad.start, bad.end) for bad in examined.bad_ranges]


def _stand_in(examined: Examination, before: Before) -> FileHeader:
    """Return a header for a file whose own is gone, from what its neighbours and its frames say."""
    near, identity = examined.task.near, examined.task.identity
    database = near.database if near is not None else before.database
    return FileHeader(
        database=database,
        parent=near.parent if near is not None else bytes(16),
        parent_sequence=near.parent_sequence if near is not None else 0,
        identity=stand_in_identity(database, examined.sequence) if identity is None else identity,
        sequence=examined.sequence,
        owner=examined.owner or before.owner,
        next_message=before.next_message,
        next_commit=before.next_commit,
        low_water=0,
        created=0,
        alignment=ALIGNMENT_MAX,  # its own may have been that
        previous=before.previous,
    )


def stand_in_identity(database: bytes, sequence: int) -> int:
    """Return the identity that a repair gives to a file of which nothing tells its own."""
    return xxh3(database, sequence)


def _gap_frames(header: FileHeader, archive: str, start: int, stop: int) -> Iterable[bytes]:
    """Yield frames that fill a range: usually one, more where one frame cannot be so long."""
    while start < stop:
        length = min(stop - start, FRAME_BYTES_MAX // 8 * 8)
        record = encode_gap(archive.encode(), length) if length >= FRAME_SIZE + 64 else b""
        head = encode_frame_head(record, seed_of(header.sequence) + start, length, 0, header.identity, start, 0, 0, GAP)
        yield head.ljust(length, b"\0")
        start += length
