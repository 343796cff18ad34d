"""What the data files of one directory say of each other: whose they are, and which of them there must be."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.files import exists
from oms_journal.journal.format.footer import Summary
from oms_journal.journal.format.headers import FileHeader, align
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.lock import last_owner
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.note import first_sequence
from oms_journal.journal.reading.walk import Span, walk

Headers = Mapping[int, FileHeader | None]  # of the data files that are there, by sequence; None: not to be read
NO_PARENT = bytes(16)


def foreign_header(
    headers: Iterable[tuple[int, FileHeader | None]], may_be_lost: Callable[[int], bool]
) -> FileHeader | None:
    """Return the newest header that belongs neither to the newest one's database nor to its lineage; None for none.

    A database that was restored names its parent, and the last file of its parent's that is its own; the parent's
    files name theirs. Where the header of that last file has rotted, nobody may be left who can name the next
    ancestor: a file of an unknown database is taken for its, so that rot costs no more than it destroys. So it is
    where that last file is not there, and `may_be_lost`.
    """
    ordered = sorted(headers, key=lambda pair: -pair[0])
    there = {sequence for sequence, _ in ordered}
    mine: FileHeader | None = None  # the newest one of the database that was seen last of the lineage
    # What was made by a repair, which could not know of the lineage either, is like what is rotted.
    told = {sequence: header for sequence, header in ordered if header is not None and header.created}
    for sequence, header in ordered:
        if header is None or not header.created or (mine is not None and header.database == mine.database):
            continue
        if mine is not None:
            last = mine.parent_sequence
            is_nameless = mine.parent != NO_PARENT and last not in told and (last in there or may_be_lost(last))
            if sequence > last or not (header.database == mine.parent or is_nameless):
                return header
        mine = header
    return None


def is_its_own(disk: Disk, directory: Path, headers: Iterable[FileHeader | None]) -> bool:
    """Say whether the directory is the one that all these files were written in, as its lock file tells.

    That has known each owner of theirs. Of a directory that some of them were only copied into it has not, since who
    restores a database leaves out more numbers than an operator has starts.
    """
    return last_owner(disk, directory) >= max((header.owner for header in headers if header is not None), default=0)


def is_moved_away(directory: Path, headers: Iterable[FileHeader | None]) -> bool:
    """Say whether the directory has files that clean-up has moved away: any others of theirs may be elsewhere.

    It is named after the database, the newest one that is in it.
    """
    known = [header for header in headers if header is not None]
    return bool(known) and directory.name == max(known, key=lambda header: header.sequence).database.hex()


def splits(headers: Mapping[int, FileHeader]) -> frozenset[int]:
    """Return the data files behind which another database goes on: the last one of every ancestor."""
    ordered = sorted(headers.items())
    return frozenset(
        sequence for (sequence, header), (_, behind) in pairwise(ordered) if header.database != behind.database
    )


def goes_on_behind(disk: Disk, path: Path, header: FileHeader, end: int) -> bool:
    """Say whether frames stand behind the offset at which a file ended when its database was split. DiskError."""
    try:
        with DataFile(disk, path) as file:
            footer = file.footer(identity=header.identity)
            if isinstance(footer, Footer):
                return footer.summary.end > end
            data = file.bytes()
    except FileNotFoundError:
        return False
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    span = Span(sequence=header.sequence, identity=header.identity, start=align(end, 8), limit=len(data))
    return bool(walk(data, span).frames)


def files_of_passed_owners(headers: Headers) -> set[int]:
    """Return the files that an owner wrote after it had lost the directory to another.

    The other one has written files of lower sequences, or one whose predecessor it says is further back.
    """
    late: set[int] = set()
    ordered = sorted(headers)
    owners = {sequence: header.owner if header is not None else -1 for sequence, header in headers.items()}
    highest = 0
    for sequence in ordered:
        header = headers[sequence]
        if header is None:
            continue
        if header.owner < highest:
            late.add(sequence)
        elif header.previous.sequence:
            skipped = ordered[bisect_right(ordered, header.previous.sequence) : bisect_left(ordered, sequence)]
            late |= {other for other in skipped if owners[other] < header.owner}
        highest = max(highest, header.owner)
    return late


def promised_files(
    disk: Disk, directory: Path, there: Collection[int], kept: Mapping[int, FileHeader]
) -> dict[int, int]:
    """Return the files, with their identities, that the footer of the one before them tells of. DiskError.

    A file is sealed when its successor has a durable group: so that one was begun and was promised, even
    when its header is gone, or all of its frames, or the whole file, and when others were prepared behind it. Asked
    where nothing else tells: `kept` are the headers of the files that have one and count.
    """
    found = {}
    ordered = sorted(there)
    newest = max(kept, default=0)  # a file without a header behind it names none
    follower = {header.previous.sequence: sequence for sequence, header in kept.items()}
    for sequence, following in zip(ordered, [*ordered[1:], None], strict=False):
        is_vouched = following in kept and following != newest
        if sequence not in kept or is_vouched:
            continue
        summary = _summary(disk, directory / str(DataFileName(sequence)))
        if summary is None or not summary.successor:
            continue
        if follower.get(sequence, summary.successor) != summary.successor:
            continue  # another database goes on behind it, restored from what it was before
        if summary.successor not in there and exists(disk, directory / str(DataFileName(summary.successor))):
            continue  # begun since the directory was listed
        found[summary.successor] = summary.successor_identity
    return found


def counts(witness: Witness | None, kept: Mapping[int, FileHeader]) -> bool:
    """Say whether what the lock file says of the newest file holds for these, which have headers and count.

    It may be of a database that was in the directory before, and of an owner that was passed when it wrote it.
    """
    if witness is None or not witness.last.sequence:
        return False
    if any(header.owner > witness.owner for header in kept.values()):
        return False
    newest = kept[max(kept)] if kept else None
    if newest is None or newest.database == witness.database:
        return True
    return newest.database == witness.parent and newest.sequence <= witness.parent_sequence


def unnamed_files(
    disk: Disk, directory: Path, there: Collection[int], kept: Mapping[int, FileHeader], witness: Witness | None
) -> set[int]:
    """Return the files that must have been begun, though no other names them: `kept` are those that have headers.

    Behind the last file of a database another one goes on that was restored from it: that file is there, or lost, or
    cleaned up. And where no header is left anywhere, what was before the first file went when its first group was
    durable: that it has no header is damage. The first file ever may only have been prepared, and so may one behind
    files of which a start has noted that it removed all that was there, or behind the one of the `witness`. DiskError.
    """
    if not kept and witness is not None and min(there, default=0) > witness.last.sequence:
        return set()
    if not kept:
        return {first for first in [min(there, default=0)] if first > 1 and first > first_sequence(disk, directory)}
    return {header.parent_sequence for header in kept.values() if header.parent_sequence}


def _summary(disk: Disk, path: Path) -> Summary | None:
    """Return what the file's footer says; None without a good one, and for a file that has gone meanwhile."""
    try:
        with DataFile(disk, path) as file:
            footer = file.footer(identity=None)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    return footer.summary if isinstance(footer, Footer) else None
