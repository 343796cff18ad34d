"""Read every data file's header, and say what is to be examined and what its neighbours say of it.

What a directory must not hold together is refused here, before anything is changed: files of another
database, a file under another file's name, a newer format. Of a backup only what its manifest names counts, and
its last file ends as that says; so it is while a backup is being restored.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, NotThisDatabase
from oms_journal.journal.format import manifest
from oms_journal.journal.format.headers import BadHeader, Ending, FileHeader
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.neighbours import (
    counts,
    files_of_passed_owners,
    foreign_header,
    goes_on_behind,
    is_its_own,
    is_moved_away,
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
    is_promised: bool = False  # its first group was durable: the file before it, or the lock file, names it, or more
    is_listed: bool = True
    is_late: bool = False  # a former owner wrote it, when the directory was another's already
    near: FileHeader | None = None  # of the directory, for a file whose own is gone: they share their lineage
    owner: int = 0  # of its successor, likewise
    floor: int = 0  # no message is added with a lower number: files before it have those
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
    witness = read_witness(disk, directory)  # before the files are listed: the one that it names is there, or lost
    backup = _backup(disk, directory)
    wanted = {file.sequence for file in backup.files} if backup is not None else None
    files = _files(disk, directory, wanted)
    headers = {sequence: file.header for sequence, file in files.items()}
    late = files_of_passed_owners(headers)
    kept = {sequence: header for sequence, header in headers.items() if header is not None and sequence not in late}
    low_water = max((one.low_water for one in (backup, *kept.values()) if one is not None), default=0)
    check_lineage(disk, directory, list(headers.items()), low_water)
    witness = witness if wanted is None and counts(witness, kept) else None
    named = _named(kept, backup, witness)
    promised = promised_files(disk, directory, files, kept) if wanted is None else {}
    if witness is not None:
        promised.setdefault(witness.last.sequence, witness.last.identity)
    _check_split(disk, kept, named, directory)
    unnamed = unnamed_files(disk, directory, files, kept, witness) if wanted is None else set()
    lowest, newest, tasks = 0, kept[max(kept)] if kept else None, []
    for sequence in sorted({*files, *named, *promised, *unnamed, *(wanted or ())}):
        if sequence < low_water:
            continue
        file = files.get(sequence) or _File(directory / str(DataFileName(sequence)), None, is_rotted=False)
        previous, successor = named.get(sequence, (None, (0, 0)))
        near = kept.get(successor[0], newest)
        is_witnessed = witness is not None and witness.last.sequence == sequence
        if witness is not None and is_witnessed and (near is None or near.database != witness.database):
            near = _as_header(witness)
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
                near=near,
                owner=kept[successor[0]].owner if successor[0] else witness.owner if witness and is_witnessed else 0,
                numbers=(lowest, highest),
            )
        )
    return tasks


def _backup(disk: Disk, directory: Path) -> Manifest | None:
    """Return what a backup consists of, and what a restore copies, where the directory is one of these."""
    return manifest.read(disk, directory) or manifest.read(disk, directory, names.RESTORE)


def _files(disk: Disk, directory: Path, wanted: Collection[int] | None) -> dict[int, _File]:
    """Return the data files that are wanted, all where None is said. NotThisDatabase."""
    there = [(seq, path) for seq, path in data_files(disk, directory) if wanted is None or seq in wanted]
    files = {sequence: _read_header(disk, path) for sequence, path in there}
    found = ((sequence, file.path, file.header) for sequence, file in files.items())
    refuse_strangers({path: head for sequence, path, head in found if head is not None and head.sequence != sequence})
    return files


def _as_header(witness: Witness) -> FileHeader:
    """Return what is known of a file of which no header tells the lineage."""
    return FileHeader(
        database=witness.database,
        parent=witness.parent,
        parent_sequence=witness.parent_sequence,
        identity=witness.last.identity,
        sequence=witness.last.sequence,
        owner=witness.owner,
        next_message=0,
        next_commit=0,
        low_water=0,
        created=0,
    )


def _named(
    headers: Mapping[int, FileHeader], backup: Manifest | None, witness: Witness | None
) -> dict[int, tuple[Ending, tuple[int, int]]]:
    """Return how files ended and who says so: (sequence, identity) of the successor, 0 for a manifest or a witness."""
    found = {
        header.previous.sequence: (header.previous, (sequence, header.identity))
        for sequence, header in sorted(headers.items(), reverse=True)
        if header.previous.sequence
    }
    if backup is not None and backup.is_complete:
        found[backup.tail.sequence] = (backup.tail, (0, 0))
    if witness is not None and witness.is_of_closed and witness.last.sequence >= max(headers, default=0):
        found.setdefault(witness.last.sequence, (witness.last, (0, 0)))
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


def refuse_strangers(strangers: Mapping[Path, FileHeader]) -> None:
    """Raise NotThisDatabase for the first file that has another one's header: of this one nobody can tell what it had.

    A file gets its name when its first zeros are durable, so no blocks of a removed file can look like that.
    """
    for path, header in sorted(strangers.items()):
        raise NotThisDatabase(
            f"{path} holds {DataFileName(header.sequence)} of database {header.database.hex()} under another name: "
            f"put back what belongs here, and give this file its own name, or move it away; nothing was changed"
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
