"""Read every data file's header, and say what is to be examined and what its neighbours say of it.

What a directory must not hold together is refused here, before anything is changed: files of another
database, a file under another file's name, a newer format. Of a backup only what its manifest names counts, and
its last file ends as that says; so it is while a backup is being restored.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, NotThisDatabase
from oms_journal.journal.format import manifest
from oms_journal.journal.format.headers import ALIGNMENT_MIN, BadHeader, Ending, FileHeader
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import SEQUENCE_MAX, DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.neighbours import (
    beginnings,
    files_of_passed_owners,
    foreign_header,
    goes_on_behind,
    is_its_own,
    is_moved_away,
    next_commit,
    promised_files,
    unnamed_files,
)

Named = Mapping[int, tuple[Ending, tuple[int, int]]]  # how files ended, and which later one says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One data file to examine, and what its neighbours say of it."""

    sequence: int
    path: Path
    header: FileHeader | None
    is_rotted: bool
    named: Ending | None  # how it ended, as its successor's header says
    successor: tuple[int, int]
    identity: int | None = None  # as its header or a neighbour says
    is_promised: bool = False  # its first group was durable: the file before it names it, or has been cleaned up
    is_listed: bool = True
    is_late: bool = False  # a former owner wrote it, when the directory was another's already
    foreign_header: FileHeader | None = None  # the header of another file, where its own should be
    near: FileHeader | None = None  # of the directory, for a file whose own is gone: they share their lineage
    owner: int = 0  # of its successor, likewise
    alignment: int = ALIGNMENT_MIN  # of its neighbours, likewise
    others: tuple[tuple[int, int], ...] = ()  # (first commit, identity) of the others, where nobody tells its own
    next_commit: int = 0  # likewise: no commit before the file before it was as high
    numbers: tuple[int, int] = (0, 0)  # which messages it can have, as the headers say; 0 where they don't
    vouched_only: bool = False
    kept_commit: int | None = None  # its writer told the callers of later commits that they had failed


@dataclass(frozen=True, slots=True)
class _File:
    """A data file that is there: its header, where one of the copies can be read."""

    path: Path
    header: FileHeader | None
    is_rotted: bool


def data_files(disk: Disk, directory: Path) -> list[tuple[int, Path]]:
    """Return the directory's data files in the order of writing; DiskError when it cannot be listed."""
    try:
        entries = disk.list(directory)
    except OSError as failure:
        raise DiskError(directory, failure, "list") from failure
    parsed = [(names.parse(entry), entry) for entry in entries]
    return sorted((name.sequence, directory / entry) for name, entry in parsed if isinstance(name, DataFileName))


def refuse_newer(disk: Disk, directory: Path) -> None:
    """Raise NewerFormat where a data file's header is beyond this program, before so much as a lock's line is written.

    What cannot be listed or read now is for the survey, which is made once nobody else writes.
    """
    with contextlib.suppress(DiskError):
        for _, path in data_files(disk, directory):
            with contextlib.suppress(OSError), DataFile(disk, path) as file:
                file.header()


def survey(disk: Disk, directory: Path) -> list[Candidate]:
    """Read every header, and say what is to be examined; files below the low-water mark are not.

    NotThisDatabase when the headers name different databases; NewerFormat; ManifestDamaged of a backup.
    """
    backup = _backup(disk, directory)
    wanted = {file.sequence for file in backup.files} if backup is not None else None
    files, strangers = _files(disk, directory, wanted)
    headers = {sequence: file.header for sequence, file in files.items()}
    late = files_of_passed_owners(headers)
    kept = {sequence: header for sequence, header in headers.items() if header is not None and sequence not in late}
    low_water = max((one.low_water for one in (backup, *kept.values()) if one is not None), default=0)
    check_lineage(disk, directory, [*headers.items(), *_between(strangers, kept)], low_water)
    named = _named(kept, backup)
    promised = promised_files(disk, directory, files, kept) if wanted is None else {}
    _check_split(disk, kept, named, directory)
    unnamed = unnamed_files(disk, directory, files, kept) if wanted is None else set()
    lowest, newest, tasks = 0, kept[max(kept)] if kept else None, []
    for sequence in sorted({*files, *named, *promised, *unnamed, *(wanted or ())}):
        if sequence < low_water:
            continue
        file = files.get(sequence) or _File(directory / str(DataFileName(sequence)), None, is_rotted=False)
        previous, successor = named.get(sequence, (None, (0, 0)))
        near = kept.get(successor[0], newest)
        lowest = file.header.next_message if file.header is not None else lowest
        highest = kept[successor[0]].next_message - 1 if successor[0] else 0
        identity = next((one.identity for one in (file.header, previous) if one is not None), promised.get(sequence))
        tasks.append(
            Candidate(
                sequence=sequence,
                path=file.path,
                header=file.header,
                is_rotted=file.is_rotted,
                named=previous,
                successor=successor,
                identity=identity,
                is_promised=sequence in promised or sequence in unnamed,
                is_listed=sequence in files,
                is_late=sequence in late,
                foreign_header=strangers.get(sequence),
                near=near,
                owner=kept[successor[0]].owner if successor[0] else 0,
                alignment=near.alignment if near else ALIGNMENT_MIN,
                others=beginnings(kept) if identity is None else (),
                next_commit=next_commit(kept, sequence) if identity is None else 0,
                numbers=(lowest, highest),
            )
        )
    return tasks


def _between(strangers: Mapping[int, FileHeader], kept: Collection[int]) -> Iterable[tuple[int, FileHeader]]:
    """Yield those that are not behind all others: one that is, was being prepared, and `check_strangers` knows it."""
    newest = max(kept, default=SEQUENCE_MAX)
    return ((one.sequence, one) for sequence, one in strangers.items() if sequence < newest)


def _backup(disk: Disk, directory: Path) -> Manifest | None:
    """Return what a backup consists of, and what a restore copies, where the directory is one of these."""
    return manifest.read(disk, directory) or manifest.read(disk, directory, names.RESTORE)


def _files(
    disk: Disk, directory: Path, wanted: Collection[int] | None
) -> tuple[dict[int, _File], dict[int, FileHeader]]:
    """Return the data files that are wanted, all where None is said, and the headers of those that are another file."""
    there = [(seq, path) for seq, path in data_files(disk, directory) if wanted is None or seq in wanted]
    files = {sequence: _read_header(disk, path) for sequence, path in there}
    strangers = {seq: one.header for seq, one in files.items() if one.header is not None and one.header.sequence != seq}
    files |= {sequence: _File(files[sequence].path, None, is_rotted=False) for sequence in strangers}
    return files, strangers


def _named(headers: Mapping[int, FileHeader], backup: Manifest | None) -> dict[int, tuple[Ending, tuple[int, int]]]:
    """Return how files ended and who says so: (sequence, identity) of the successor, 0 for a manifest."""
    found = {
        header.previous.sequence: (header.previous, (sequence, header.identity))
        for sequence, header in sorted(headers.items(), reverse=True)
        if header.previous.sequence
    }
    if backup is not None and backup.is_complete:
        found[backup.tail.sequence] = (backup.tail, (0, 0))
    return found


def _read_header(disk: Disk, path: Path) -> _File:
    try:
        with DataFile(disk, path) as file:
            before, found = None, _headers(file)
            while found != before and any(copy != found[1] for copy in found[0]):
                before, found = found, _headers(file)  # it was being written, perhaps, and is written once
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    copies, best = found
    header = best if isinstance(best, FileHeader) else None
    return _File(path, header, is_rotted=any(copy != header for copy in copies))


def _headers(file: DataFile) -> tuple[list[FileHeader | BadHeader], FileHeader | BadHeader]:
    """Return what the two copies of the header say, and the best of what the file says."""
    copies = file.headers()
    return copies, file.best_of(copies)


def check_strangers(tasks: Iterable[Candidate], low_water: int) -> None:
    """Raise NotThisDatabase for a file under another one's name, unless nothing can be lost with it.

    A file that was being prepared when the power went may show what its blocks held before: a file that is not
    needed any more, one that is there under its own name, one that a start has dropped and no other went on from, or
    one of a database that was on this disk, or that a former owner began where it had lost the directory by then.
    """
    tasks = list(tasks)
    headers = [task.header for task in tasks if task.header is not None]
    there = {one.identity for one in headers}
    lineage = {one.database for one in headers} | {one.parent for one in headers}
    newest = max((task.sequence for task in tasks if task.header is not None and not task.is_late), default=0)
    wanted = {task.sequence: task.identity for task in tasks if task.named is not None or task.is_promised}
    for task in tasks:
        if (header := task.foreign_header) is None:
            continue
        is_expected = task.named is not None or task.is_promised
        is_wanted = wanted.get(header.sequence, 0) in (None, header.identity)
        is_dropped = header.sequence < newest and not is_wanted
        is_foreign = 0 < newest < task.sequence and header.database not in lineage
        is_harmless = header.sequence < low_water or header.identity in there or is_dropped or is_foreign
        if is_expected or not is_harmless:
            raise NotThisDatabase(
                f"{task.path} is {DataFileName(header.sequence)} under another name: "
                "give it its own name, or move it away when it is a copy; nothing was changed"
            )


def check_lineage(
    disk: Disk, directory: Path, headers: Sequence[tuple[int, FileHeader | None]], low_water: int
) -> None:
    """Raise NotThisDatabase where a header is of another database, and of no ancestor. DiskError, FormatError.

    A file that is needed, and is not there, may be lost where the others were written in this directory, or copied
    into it by a restore; and any file where clean-up has moved them.
    """

    def may_be_lost(sequence: int) -> bool:
        if is_moved_away(directory, (header for _, header in headers)):
            return True
        if sequence < low_water:
            return False
        backup = _backup(disk, directory)
        if backup is None:
            return is_its_own(disk, directory, (header for _, header in headers))
        copied = {file.sequence: file.identity for file in backup.files}
        return all(header is None or header.identity == copied.get(seq) for seq, header in headers)

    found = foreign_header(headers, may_be_lost)
    if found is not None:
        databases = sorted({header.database.hex() for _, header in headers if header is not None})
        raise NotThisDatabase(
            f"{directory} holds data files of different databases ({' and '.join(databases)}); "
            f"move the strangers away, starting with {DataFileName(found.sequence)}"
        )


def _check_split(disk: Disk, headers: Mapping[int, FileHeader], named: Named, directory: Path) -> None:
    """Refuse a file that its database went on with after another one was restored from what it was before."""
    for sequence, (previous, (successor, _)) in named.items():
        header = headers.get(sequence)
        if header is None or not successor or header.database == headers[successor].database:
            continue
        path = directory / str(DataFileName(sequence))
        if goes_on_behind(disk, path, header, previous.end):
            raise NotThisDatabase(
                f"{path} was written on by database {header.database.hex()} after byte {previous.end}, where database "
                f"{headers[successor].database.hex()} was restored from it: these are files of two directories; "
                f"put {path.name} back as the restored one had it, or move the files from "
                f"{DataFileName(successor)} on away; nothing was changed"
            )
