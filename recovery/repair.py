"""Archive, then write anew; the only code that shortens or replaces a data file.

A repaired file is built beside the old one, synced, and takes its place by a rename: a crash at any
step leaves the old file or the new one, and the next start does the same again. Before that, a copy
of what was found is kept as `omsmsg-SEQ-vVER.archive`, synced too; a repair that is repeated finds
the identical archive and does not make a second one. Good frames keep their offsets; every bad range
becomes a gap frame of the same length that names the archive.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import xxhash

from journal import names
from journal.contents import DAMAGED, Contents
from journal.datafile import DataFile
from journal.disk import Disk, DiskFile
from journal.errors import DiskError, JournalError
from journal.footer import encode_footer
from journal.format import (
    FRAME_BYTES_MAX,
    FRAME_SIZE,
    GAP,
    FileHeader,
    Previous,
    encode_frame_head,
    encode_headers,
)
from journal.names import ArchiveName
from journal.operations import Operation
from journal.records import encode_gap
from journal.reserve import NO_SPACE
from journal.walk import BadPayload, Span, walk
from recovery.decide import Action
from recovery.validate import Examined, read_contents

COPY_BYTES = 1 << 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Repaired:
    """One data file after its repair; no contents where the file is gone."""

    sequence: int
    contents: Contents | None
    ending: Previous | None
    archive: str | None
    action: str


class Repairer:
    """Carries out decisions. `make_room` gives up reserved bytes and says whether there were any."""

    def __init__(self, disk: Disk, directory: Path, make_room: Callable[[int], bool]) -> None:
        self._disk = disk
        self._directory = directory
        self._make_room = make_room

    def repair(self, examined: Examined, *, truncate: bool = False) -> Repaired:
        """Do what the decision says; with `truncate`, cut at the first bad place as the seed's system does."""
        action = examined.decision.action
        if action is Action.KEEP:
            contents = read_contents(self._disk, examined)
            assert contents is not None and examined.header is not None
            return Repaired(examined.sequence, contents, _ending(examined.header, contents), None, "")
        if action is Action.REMOVE:
            self._remove(examined.path)
            return Repaired(examined.sequence, None, None, None, action.value)
        archive = None
        if action is not Action.SEAL:
            archive = self._with_room(examined.size, lambda: self.archive(examined))
        if action is Action.DROP:
            self._remove(examined.path)
            return Repaired(examined.sequence, None, None, archive, action.value)
        if action is Action.SEAL:
            return self._seal(examined)
        needed = max(examined.size, examined.end)
        return self._with_room(needed, lambda: self._rebuild(examined, archive or "", truncate=truncate))

    def _seal(self, examined: Examined) -> Repaired:
        """Write the frames again with a footer; where there is no space, the last ones in their place."""
        try:
            return self._with_room(examined.end, lambda: self._rebuild(examined, "", truncate=False))
        except DiskError as failure:
            if failure.failure.errno not in NO_SPACE:
                raise
        self._rewrite_tail(examined)
        assert examined.contents is not None and examined.header is not None
        ending = _ending(examined.header, examined.contents)
        return Repaired(examined.sequence, examined.contents, ending, None, "kept without a footer: no space")

    def _rewrite_tail(self, examined: Examined) -> None:
        """Write the frames once more where they are and sync them: after a failed sync the page cache lies."""
        file = self._disk.open(examined.path, writable=True)
        try:
            for at in range(0, examined.end, COPY_BYTES):
                file.write(file.read(min(COPY_BYTES, examined.end - at), at), at)
            file.sync()
        except OSError as failure:
            raise DiskError(examined.path, failure, "write") from failure
        finally:
            file.close()

    def _with_room(self, size: int, step: Callable[[], _T]) -> _T:
        """Take the step; when the disk is full, once more with what the reserve gives."""
        try:
            return step()
        except OSError as failure:
            if failure.errno not in NO_SPACE or not self._make_room(size + COPY_BYTES):
                raise DiskError(self._directory, failure, "write the repaired files in") from failure
        try:
            return step()
        except OSError as failure:
            raise DiskError(self._directory, failure, "write the repaired files in") from failure

    def _remove(self, path: Path) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(path)
            self._disk.sync_directory(self._directory)
        except OSError as failure:
            raise DiskError(path, failure, "remove") from failure

    # The archive.

    def archive(self, examined: Examined) -> str | None:
        """Copy the file as it is to the next free archive name, durably; return the name."""
        path = examined.path
        try:
            source = self._disk.open(path)
        except FileNotFoundError:
            return None
        try:
            size = source.size()
            versions = self._versions(examined.sequence)
            for version in versions:
                if self._is_identical(source, size, self._archive_path(examined.sequence, version)):
                    return str(ArchiveName(examined.sequence, version))
            version = max(versions, default=0) + 1
            if version > names.VERSION_MAX:
                raise JournalError(f"{path.name} has {len(versions)} archives; move some of them away")
            target = self._archive_path(examined.sequence, version)
            self._copy(source, size, target)
        finally:
            source.close()
        self._disk.sync_directory(self._directory)
        return target.name

    def _versions(self, sequence: int) -> list[int]:
        parsed = [names.parse(entry) for entry in self._disk.list(self._directory)]
        return sorted(name.version for name in parsed if isinstance(name, ArchiveName) and name.sequence == sequence)

    def _archive_path(self, sequence: int, version: int) -> Path:
        return self._directory / str(ArchiveName(sequence, version))

    def _is_identical(self, source: DiskFile, size: int, path: Path) -> bool:
        file = self._disk.open(path)
        try:
            if file.size() != size:
                return False
            return all(
                source.read(COPY_BYTES, at) == file.read(COPY_BYTES, at) for at in range(0, max(size, 1), COPY_BYTES)
            )
        finally:
            file.close()

    def _copy(self, source: DiskFile, size: int, path: Path) -> None:
        file = self._disk.create(path)
        try:
            for at in range(0, size, COPY_BYTES):
                data = source.read(COPY_BYTES, at)
                if data.count(0) != len(data):  # what was only prepared stays a hole
                    file.write(data, at)
            file.truncate(size)
            file.sync()
        except BaseException:
            with contextlib.suppress(OSError):
                self._disk.unlink(path)
            raise
        finally:
            file.close()

    # The new file.

    def _rebuild(self, examined: Examined, archive: str, *, truncate: bool) -> Repaired:
        header = examined.header or _stand_in(examined)
        end, ranges = _extent(examined, header, truncate=truncate)
        data = self._new_bytes(examined, header, archive, end, ranges)
        span = Span(
            path=examined.path,
            identity=header.identity,
            start=header.start(),
            limit=end,
            alignment=header.alignment,
            owner=header.owner,
        )
        found = walk(bytes(data), span)
        assert not found.bad_ranges and found.end == end, "a rebuilt file has good frames only"
        is_other = examined.decision.row == "other ending"
        contents = replace(found.builder.build(end), has_gaps=found.has_gaps or is_other)
        _mark(contents, found.bad_payloads)
        checksum = xxhash.xxh3_64(data).intdigest()
        data += encode_footer(contents, header, checksum, examined.successor)
        self._replace(examined.path, data)
        action = examined.decision.action.value
        return Repaired(examined.sequence, contents, _ending(header, contents), archive or None, action)

    def _new_bytes(
        self, examined: Examined, header: FileHeader, archive: str, end: int, ranges: Sequence[tuple[int, int]]
    ) -> bytearray:
        data = bytearray(end)
        if examined.decision.action is not Action.ENTOMB:
            with DataFile(self._disk, examined.path) as file:
                found = file.bytes(min(end, file.size()))
                data[: len(found)] = found
        data[: header.start()] = encode_headers(header)
        for start, stop in ranges:
            is_padding = stop - start < FRAME_SIZE
            gap = bytes(stop - start) if is_padding else b"".join(_gap_frames(header, archive, start, stop, examined))
            data[start:stop] = gap
        return data

    def _replace(self, path: Path, data: bytes | bytearray) -> None:
        new = path.with_name(names.unfinished(path.name))
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(new)
        file = self._disk.create(new)
        try:
            file.write(data, 0)
            file.sync()
        except BaseException:
            with contextlib.suppress(OSError):
                self._disk.unlink(new)
            raise
        finally:
            file.close()
        self._disk.rename(new, path)
        self._disk.sync_directory(self._directory)


def _extent(examined: Examined, header: FileHeader, *, truncate: bool) -> tuple[int, Sequence[tuple[int, int]]]:
    """Return where the rebuilt file's frames end, and which ranges become gap frames."""
    if examined.decision.action is Action.ENTOMB:
        assert examined.named is not None
        return examined.named.end, [(header.start(), examined.named.end)]
    ranges = [(bad.start, bad.end) for bad in examined.bad_ranges]
    bad_places = [start for start, _ in ranges] + [bad.frame for bad in examined.bad_payloads]
    if truncate and bad_places:
        first = min(bad_places)
        return (first, []) if examined.named is None else (examined.named.end, [(first, examined.named.end)])
    return examined.end, ranges


def _stand_in(examined: Examined) -> FileHeader:
    """Return a header for a file whose own is gone, from what its neighbours say."""
    return FileHeader(
        database=examined.database,
        identity=examined.identity,
        sequence=examined.sequence,
        owner=examined.owner,
        next_message=1,
        next_commit=1,
        low_water=0,
        created=0,
    )


def _gap_frames(header: FileHeader, archive: str, start: int, stop: int, examined: Examined) -> Iterable[bytes]:
    """Yield frames that fill a range: usually one, more where one frame cannot be so long."""
    commit = examined.named.commit if examined.named is not None else 0
    name = archive.encode() or b"-"
    while start < stop:
        length = min(stop - start, FRAME_BYTES_MAX // 8 * 8)
        record = encode_gap(name, length) if length >= FRAME_SIZE + 64 else b""
        fields = (length, commit, header.owner, start, 0, 0, GAP)
        head = encode_frame_head(record, header.identity + start, *fields)
        yield head.ljust(length, b"\0")
        start += length


def _mark(contents: Contents, bad: Iterable[BadPayload]) -> None:
    """Flag the rows whose bytes are known not to match, so that later starts don't report them anew."""
    columns = contents.columns
    for payload in bad:
        mine = columns["offset"] == payload.frame
        if payload.operation is Operation.ADD:
            mine &= columns["number"] == payload.number
        else:
            names_ = [place for place, name in enumerate(contents.names) if name == payload.name]
            mine &= (columns["kind"] == Operation.PUT) & np.isin(columns["name"], names_)
        columns["flags"][mine] |= DAMAGED


def _ending(header: FileHeader, contents: Contents) -> Previous:
    return Previous(
        sequence=header.sequence,
        identity=header.identity,
        end=contents.end,
        commit=contents.last_commit,
        chain=contents.chain,
    )
