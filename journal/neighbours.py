"""What the data files of one directory say of each other: whose they are, and which of them there must be."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from pathlib import Path

from journal.datafile import DataFile, Footer
from journal.disk import Disk
from journal.errors import DiskError
from journal.footer import Summary
from journal.format import FileHeader
from journal.names import DataFileName

Headers = Mapping[int, FileHeader | None]  # of the data files that are there, by sequence; None: not to be read


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
        if following is None and _is_there(disk, directory / str(DataFileName(summary.successor))):
            continue  # begun since the directory was listed
        if following in (None, summary.successor):
            found[summary.successor] = summary.successor_identity
    return found


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


def _is_there(disk: Disk, path: Path) -> bool:
    try:
        disk.size(path)
    except FileNotFoundError:
        return False
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    return True
