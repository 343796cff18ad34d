"""One data file or archive, opened for the analysis: its operations as columns, and what is bad in it.

A sealed file is known by its footer. Any other is walked frame by frame, and what nothing vouches for is left out. The
file may be written to, sealed, moved or removed meanwhile.
"""

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

from oms_journal.analysis.reading.frames import scan
from oms_journal.analysis.reading.judgement import (
    DAMAGED,
    GONE,
    ROTTED,
    TORN,
    UNREADABLE,
    damage,
    ends_as,
    judge,
    other_ending,
)
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format.contents import Contents, empty_columns, with_lost_rows
from oms_journal.journal.format.footer import BadFooter, Summary
from oms_journal.journal.format.headers import FRAMES_AT, HEADERS_SIZE, FileHeader
from oms_journal.journal.format.records import BadRecord
from oms_journal.journal.lock import read_holder
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import counts, first_identity, lost_in, was_written_on

LOOKS_MAX = 3  # at a file that seems damaged, and may only have been changed while it was read


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read of one file. Of its contents those count whose frames begin below `end`; others may be there."""

    part: FilePart
    contents: Contents = field(default_factory=lambda: Contents(columns=empty_columns()))
    end: int = 0
    owner: int = 0
    size: int = 0
    summary: Summary | None = None  # of a good footer, from which the contents are
    file: DataFile | None = None  # open, for the payloads of a file that was not walked
    data: bytes | None = None  # of a file that was walked
    damages: tuple[Damage, ...] = ()

    @property
    def is_sealed(self) -> bool:
        return self.summary is not None


@contextmanager
def opened(disk: Disk, part: FilePart, *, is_thorough: bool = False) -> Iterator[Reading]:
    """Read the file, and keep it open for its payloads; NewerFormat, DiskError.

    A file that has gone, or that the device cannot read, has no operations, and damage that says so. Payloads are
    verified, and beginnings of values kept, only in a file that is walked; to be thorough is to walk any without a
    good footer, and not only those that do not seem whole.
    """
    if part.failure:
        yield Reading(part=part, damages=(damage(part, UNREADABLE, part.failure),))
        return
    before: tuple[Damage, ...] = ()
    for look in range(1, LOOKS_MAX + 1):
        with ExitStack() as stack:
            reading = _look(disk, part, stack, is_thorough=is_thorough)
            if look == LOOKS_MAX or reading.damages in ((), before):
                yield _without_what_is_in_flight(disk, reading)
                return
        before = reading.damages


def durable_end(disk: Disk, part: FilePart) -> int:
    """Return how far a file that may be being written is known to be durable, with as little work as it takes."""
    with suppress(OSError), DataFile(disk, part.path) as file:
        footer = file.footer(identity=part.identity) if part.header is not None else None
        if isinstance(footer, Footer) and agrees(footer, file, part):
            return footer.summary.end
        if part.header is not None and footer is None:
            found = scan(file.bytes(), part, part.header)
            if found is not None:
                return found.vouched
    with opened(disk, part) as reading:
        return reading.end


def _look(disk: Disk, part: FilePart, stack: ExitStack, *, is_thorough: bool) -> Reading:
    try:
        file = _open(disk, part)
        if file is None:
            return _gone(part)
        return _read(stack.enter_context(file), part, is_thorough=is_thorough)
    except FileNotFoundError:
        return _gone(part)
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise DiskError(part.path, failure, "read") from failure
        return Reading(part=part, damages=(damage(part, UNREADABLE, str(DiskError(part.path, failure, "read"))),))


def _without_what_is_in_flight(disk: Disk, reading: Reading) -> Reading:
    torn = [one for one in reading.damages if one.kind == TORN]
    if not torn or not reading.part.is_newest or not _is_written(disk, reading.part):
        return reading
    return replace(reading, damages=tuple(one for one in reading.damages if one.kind != TORN))


def _gone(part: FilePart) -> Reading:
    if part.identity is None:
        return Reading(part=part)  # it was prepared and never used: a close removes such a file
    return Reading(
        part=part, damages=(damage(part, GONE, "it was removed, by a clean-up perhaps, before it was read"),)
    )


def _open(disk: Disk, part: FilePart) -> DataFile | None:
    """Return the file, from where clean-up has moved it if need be; None when it is nowhere."""
    try:
        return DataFile(disk, part.path)
    except FileNotFoundError:
        pass
    for storage, path in part.elsewhere:
        try:
            file = DataFile(storage.disk(), path)
        except FileNotFoundError:
            continue
        header = file.header()
        if isinstance(header, FileHeader) and header.identity == part.identity:
            return file
        file.close()
    return None


def _read(file: DataFile, part: FilePart, *, is_thorough: bool) -> Reading:
    if part.header is None and file.is_zero():
        return _without_frames(file, part)
    part = _with_finished_header(file, part) if part.is_rotted else part
    identity = part.identity if part.identity is not None else _first_identity(file, part)
    if identity is None:
        return _without_identity(file, part)
    part = replace(part, identity=identity)
    footer = file.footer(identity=identity)
    footer = footer.checked() if isinstance(footer, Footer) else footer
    if isinstance(footer, Footer) and agrees(footer, file, part):
        return _sealed(file, part, footer, identity)
    if footer is None and not part.is_rotted and not is_thorough and (scanned := _scanned(file, part)) is not None:
        return scanned
    return walked(file, part, footer, identity)


def _with_finished_header(file: DataFile, part: FilePart) -> FilePart:
    """Return the file with its header, where that was only being written when the file was planned."""
    first, second = file.headers()
    if not isinstance(first, FileHeader) or first != second or first.identity != part.identity:
        return part
    return replace(part, header=first, is_rotted=False, owner=first.owner)


def agrees(footer: Footer, file: DataFile, part: FilePart) -> bool:
    """Say whether a footer is this file's, and ends where its successor says."""
    is_ours = footer.summary.header == part.header or footer.summary.header == file.header()
    return is_ours and (part.named is None or footer.summary.end == part.named.end)


def _sealed(file: DataFile, part: FilePart, footer: Footer, identity: int) -> Reading:
    summary = footer.summary
    damages = []
    if part.is_rotted:
        damages.append(damage(part, DAMAGED, ROTTED, end=HEADERS_SIZE))
    if not summary.has_gaps and not ends_as(part, identity, summary.end, summary.last_commit, summary.chain):
        damages.append(other_ending(part, summary.end))
    return Reading(
        part=part,
        contents=footer.contents(),
        end=_limited(summary.end, part),
        owner=summary.header.owner,
        size=file.size(),
        summary=summary,
        file=file,
        damages=tuple(damages),
    )


def _scanned(file: DataFile, part: FilePart) -> Reading | None:
    """Return what the frames of a file say that has no footer; None where it is not whole."""
    data = file.bytes()
    header = part.header
    found = scan(data, part, header) if header is not None else None
    if header is None or found is None:
        return None
    try:
        contents = found.builder.build_checked(found.end, header, data)
    except BadRecord:
        return None
    return Reading(
        part=part,
        contents=contents,
        end=_limited(found.vouched, part),
        owner=found.owner,
        size=found.vouched,
        data=data,
    )


def walked(file: DataFile, part: FilePart, footer: Footer | BadFooter | None, identity: int) -> Reading:
    """Return what a walk over all frames finds; `footer` is what stands at the end of the file.

    Where a good footer counts, it tells what the frames did that are gone.
    """
    data = file.bytes()
    judged = judge(data, part, footer.summary if isinstance(footer, Footer) else footer, identity)
    found = judged.found
    contents = found.builder.build(found.end)
    if isinstance(footer, Footer) and counts(footer.summary, identity, part.named):
        contents = with_lost_rows(contents, footer.contents(), lost_in(found, judged.ranges)) or contents
    return Reading(
        part=part,
        contents=contents,
        end=_limited(judged.vouched, part),
        owner=part.header.owner if part.header is not None else part.owner,
        size=max([frame.end for frame in found.frames if frame.offset < judged.vouched], default=FRAMES_AT),
        data=data,
        damages=judged.damages,
    )


def _limited(end: int, part: FilePart) -> int:
    return end if part.limit is None else min(end, part.limit)


def _without_frames(file: DataFile, part: FilePart) -> Reading:
    """Return what is to be said of a file of zeros: it was prepared and never used, or it was emptied."""
    if part.named is None and not part.is_promised:
        return Reading(part=part)
    end = part.named.end if part.named is not None else file.size()
    return Reading(part=part, damages=(damage(part, DAMAGED, "nothing but zeros where frames were promised", end=end),))


def _first_identity(file: DataFile, part: FilePart) -> int | None:
    return None if isinstance(file.header(), FileHeader) else first_identity(file.bytes(), part.sequence)


def _without_identity(file: DataFile, part: FilePart) -> Reading:
    """Return what is to be said of a file whose header is lost, and which no neighbour knows.

    Where it has a header now, it was prepared when it was planned, and was begun since: nothing of it was meant.
    """
    if isinstance(file.header(), FileHeader):
        return Reading(part=part)
    data = file.bytes()
    is_written = was_written_on(data, part.sequence)
    kind = DAMAGED if file.footer(identity=None) is not None or is_written else TORN
    reason = "neither copy of the header can be read, and no neighbour tells the file's identity"
    return Reading(part=part, damages=(damage(part, kind, reason, end=len(data.rstrip(b"\0"))),))


def _is_written(disk: Disk, part: FilePart) -> bool:
    """Say whether somebody is writing the file: what is only half there is in flight then, not torn."""
    if not part.storage.is_local:
        return False
    try:
        holder = read_holder(disk, part.path.parent)
    except JournalError:
        return False
    return holder is not None and holder.is_open and part.owner in (0, holder.number)
