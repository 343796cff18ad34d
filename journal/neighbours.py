"""What the data files of one directory say of each other: whose they are, and which of them there must be."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from journal.datafile import DataFile, Footer
from journal.disk import Disk
from journal.errors import DiskError
from journal.existing import exists
from journal.footer import Summary
from journal.format import FileHeader, align
from journal.names import DataFileName
from journal.walk import Span, walk

Headers = Mapping[int, FileHeader | None]  # of the data files that are there, by sequence; None: not to be read
NO_PARENT = bytes(16)


def stranger(headers: Iterable[tuple[int, FileHeader | None]], *, is_whole: bool = True) -> FileHeader | None:
    """Return the newest header that belongs neither to the newest one's database nor to its lineage; None for none.

    A database that was restored names its parent, and up to which file that one's are its own; the parent's
    files name theirs. Where a header between them has rotted, nobody can name the next ancestor: a file of
    an unknown database is taken for its, so that rot costs no more than it destroys. So it is where a file
    between them was left out, when not the `is_whole` directory is asked about.
    """
    ordered = sorted(headers, key=lambda pair: -pair[0])
    there = {sequence for sequence, _ in ordered}
    mine: FileHeader | None = None  # the last one seen of the lineage
    above: FileHeader | None = None
    is_gap = False
    for sequence, header in ordered:
        if header is None or not header.created:  # made by a repair, which could not know of the lineage either
            is_gap = is_gap or mine is not None
            continue
        if not is_whole and above is not None:
            is_gap = is_gap or sequence < above.previous.sequence not in there
        if mine is None or header.database == mine.database:
            mine = mine or header
        elif sequence > mine.parent_sequence or not (header.database == mine.parent or _may_be_between(mine, is_gap)):
            return header
        else:
            mine = header
        above, is_gap = header, False
    return None


def splits(headers: Mapping[int, FileHeader]) -> frozenset[int]:
    """Return the data files behind which another database goes on: the last one of every ancestor."""
    ordered = sorted(headers.items())
    return frozenset(
        sequence for (sequence, header), (_, behind) in pairwise(ordered) if header.database != behind.database
    )


def _may_be_between(header: FileHeader, is_gap: bool) -> bool:
    return is_gap and header.parent != NO_PARENT


def is_grown(disk: Disk, path: Path, header: FileHeader, end: int) -> bool:
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
    start = align(end, 8)
    span = Span(path=path, identity=header.identity, start=start, limit=len(data), alignment=header.alignment)
    return bool(walk(data, span).frames)


def late_files(headers: Headers) -> set[int]:
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


def promised_files(disk: Disk, directory: Path, there: Collection[int], kept: Collection[int]) -> dict[int, int]:
    """Return the files, with their identities, that the footer of the one before them tells of. DiskError.

    A file is sealed when its successor has a durable group: so that one was begun and was promised, even
    when its header is gone, or all of its frames, or the whole file. Asked where nothing else tells: `kept`
    are those of the files that have headers and count.
    """
    found = {}
    ordered = sorted(there)
    newest = max(kept, default=0)  # a file without a header behind it names none
    for sequence, following in zip(ordered, [*ordered[1:], None], strict=False):
        is_vouched = following in kept and following != newest
        if sequence not in kept or is_vouched:
            continue
        summary = _summary(disk, directory / str(DataFileName(sequence)))
        if summary is None or not summary.successor:
            continue
        if following is None and exists(disk, directory / str(DataFileName(summary.successor))):
            continue  # begun since the directory was listed
        if following in (None, summary.successor):
            found[summary.successor] = summary.successor_identity
    return found


def orphaned(there: Collection[int], kept: Collection[int]) -> int:
    """Return the first of the files where no header is left anywhere, 0 where one is, and for the first file ever.

    Files before it went when its first group was durable: that no header is left is damage.
    """
    first = min(there, default=0)
    return first if first > 1 and not kept else 0


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
