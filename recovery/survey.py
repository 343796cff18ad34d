"""Read every data file's header, and say what is to be examined and what its neighbours say of it.

What a directory must not hold together is refused here, before anything is changed: files of another
database, a file under another file's name, a newer format.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from journal import names
from journal.datafile import Footer, open_data_file
from journal.disk import Disk
from journal.errors import DiskError, NotThisDatabase
from journal.format import FileHeader, Previous
from journal.names import DataFileName


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One data file to examine, and what its neighbours say of it."""

    sequence: int
    path: Path
    header: FileHeader | None
    is_rotted: bool
    named: Previous | None
    successor: tuple[int, int]
    is_late: bool = False  # its owner is lower than that of a file before it
    database: bytes = bytes(16)
    owner: int = 0
    identity: int | None = None  # as its header or a neighbour says
    vouched_only: bool = False


def data_files(disk: Disk, directory: Path) -> list[tuple[int, Path]]:
    """Return the directory's data files in the order of writing; DiskError when it cannot be listed."""
    try:
        entries = disk.list(directory)
    except OSError as failure:
        raise DiskError(directory, failure, "list") from failure
    parsed = [(names.parse(entry), entry) for entry in entries]
    return sorted((name.sequence, directory / entry) for name, entry in parsed if isinstance(name, DataFileName))


def survey(disk: Disk, directory: Path) -> list[Task]:
    """Read every header, and say what is to be examined; files below the low-water mark are not.

    NotThisDatabase when the headers name different databases; NewerFormat when one is beyond us.
    """
    headers: dict[int, tuple[Path, FileHeader | None, bool]] = {}
    for sequence, path in data_files(disk, directory):
        with open_data_file(disk, path) as file:
            copies = file.headers()
            best = file.header()
        is_rotted = not all(isinstance(copy, FileHeader) for copy in copies)
        headers[sequence] = (path, best if isinstance(best, FileHeader) else None, is_rotted)
    late = _late({sequence: header for sequence, (_, header, _) in headers.items() if header is not None})
    known = [header for _, header, _ in headers.values() if header is not None]
    _check_names({path: header for path, header, _ in headers.values() if header is not None})
    _check_lineage(known, directory)
    low_water = max((header.low_water for header in known), default=0)
    named: dict[int, tuple[Previous, tuple[int, int]]] = {}
    for sequence, (_, header, _) in headers.items():
        if header is not None and header.previous.sequence and sequence not in late:
            named.setdefault(header.previous.sequence, (header.previous, (sequence, header.identity)))
    tasks = []
    for sequence in sorted({*headers, *named}):
        if sequence < low_water:
            continue
        path, header, is_rotted = headers.get(sequence, (directory / str(DataFileName(sequence)), None, False))
        previous, successor = named.get(sequence, (None, (0, 0)))
        tasks.append(
            Task(
                sequence=sequence,
                path=path,
                header=header,
                is_rotted=is_rotted,
                named=previous,
                successor=successor,
                is_late=sequence in late,
                database=known[-1].database if known else bytes(16),
                owner=_owner_of(headers.get(successor[0])),
                identity=_identity(disk, header, previous, headers.get(sequence - 1), sequence),
            )
        )
    return tasks


def _identity(
    disk: Disk,
    header: FileHeader | None,
    named: Previous | None,
    before: tuple[Path, FileHeader | None, bool] | None,
    sequence: int,
) -> int | None:
    """Return a file's identity: by its header, its successor's header, or its predecessor's footer."""
    if header is not None:
        return header.identity
    if named is not None:
        return named.identity
    if before is None or before[1] is None:
        return None
    with open_data_file(disk, before[0]) as file:
        footer = file.footer(identity=before[1].identity)
    if not isinstance(footer, Footer) or footer.summary.successor != sequence:
        return None
    return footer.summary.successor_identity


def _owner_of(found: tuple[Path, FileHeader | None, bool] | None) -> int:
    return found[1].owner if found is not None and found[1] is not None else 0


def _late(headers: dict[int, FileHeader]) -> set[int]:
    """Return the files that an owner wrote after it had lost the directory to another."""
    late = set()
    owner = 0
    for sequence, header in sorted(headers.items()):
        if header.owner < owner:
            late.add(sequence)
        owner = max(owner, header.owner)
    return late


def _check_names(headers: dict[Path, FileHeader]) -> None:
    for path, header in headers.items():
        if path.name != str(DataFileName(header.sequence)):
            raise NotThisDatabase(
                f"{path} is {DataFileName(header.sequence)} under another name: "
                "give it its own name, or move it away when it is a copy; nothing was changed"
            )


def _check_lineage(headers: Iterable[FileHeader], directory: Path) -> None:
    databases = sorted({header.database for header in headers})
    newest = max(headers, key=lambda header: header.sequence, default=None)
    for header in headers:
        assert newest is not None
        is_parent = header.database == newest.parent and header.sequence <= newest.parent_sequence
        if header.database != newest.database and not is_parent:
            found = " and ".join(database.hex() for database in databases)
            raise NotThisDatabase(
                f"{directory} holds data files of different databases ({found}); "
                f"move the strangers away, starting with {DataFileName(header.sequence)}"
            )
