"""Which directory is meant, whether it holds a message database, and whether a new one may be begun there.

    the directory holds                    who looks at it   who opens it
    a name that begins with omsmsg         a database        goes on with it
    nothing, hidden names, lost+found      NotADatabase      begins a new one
    any other name                         NotADatabase      NotADatabase, unless `create` asks for a new one

A directory that does not exist holds nothing.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, NotADatabase

_NOBODYS = "lost+found"  # of the file system: in every directory that is a volume of its own


def directory_of(directory: object, what: str = "directory") -> Path:
    """Return the absolute path that a caller names. TypeError, ValueError for what names no directory."""
    if not isinstance(directory, str | os.PathLike):
        came = "None" if directory is None else type(directory).__name__
        raise TypeError(f"{what} must be text or a path, not {came}")
    text = os.fspath(directory)
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text or a path of text, not {type(text).__name__}")
    if not text:
        raise ValueError(f'{what} is empty, as a variable is that nobody has set; the working directory is "."')
    if not text.strip():
        raise ValueError(
            f"{what} is {text!r}, of blanks only, as a variable is that was set by mistake; "
            "a directory of that name has a path with more in it"
        )
    if "\0" in text:
        raise ValueError(f"{what} has a NUL character in it: {text!r}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a character that no file name can have: {text!r}") from None
    return Path(text).absolute()


def make_directory(disk: Disk, directory: Path) -> None:
    """Make the directory where it is missing; DiskError, also where a file has its name."""
    try:
        disk.make_directory(directory)
    except FileExistsError:
        failure = NotADirectoryError(errno.ENOTDIR, "it is there, and is not a directory")
        raise DiskError(directory, failure, "use") from None
    except OSError as failure:
        raise DiskError(directory, failure, "make") from failure


def holds_database(disk: Disk, directory: Path) -> bool:
    """Say whether the directory holds a database, be it one without a message. DiskError where it cannot be listed."""
    return any(names.is_ours(entry) for entry in _entries(disk, directory))


def check_database(disk: Disk, directory: Path) -> None:
    """Raise NotADatabase where there is none to look at, DiskError where the directory cannot be listed."""
    if not holds_database(disk, directory):
        raise NotADatabase(directory)


def check_place(disk: Disk, directory: Path, *, aside: Path | None = None) -> None:
    """Raise NotADatabase where a new database would lie among files of somebody else. DiskError.

    `aside` is where clean-up moves data files to: it may have been made before the database.
    """
    try:
        entries = _entries(disk, directory)
    except DiskError as failure:
        if isinstance(failure.failure, FileNotFoundError | NotADirectoryError):
            return  # to make it is the next step
        raise
    found = sorted(others(entries, directory, aside))
    if found and not any(map(names.is_ours, found)):
        raise NotADatabase(directory, beside=found[0])


def others(entries: Iterable[str], directory: Path, aside: Path | None) -> list[str]:
    """Return the names that say something of whose the directory is."""
    expected = (_NOBODYS, *_first_name(aside, directory))
    return [entry for entry in entries if entry not in expected and not entry.startswith(".")]


def _first_name(aside: Path | None, directory: Path) -> tuple[str, ...]:
    """Return the directory's entry that `aside` is or lies below; nothing where it lies elsewhere."""
    if aside is None or not (place := aside.absolute()).is_relative_to(directory):
        return ()
    return place.relative_to(directory).parts[:1]


def _entries(disk: Disk, directory: Path) -> list[str]:
    try:
        return list(disk.list(directory))
    except OSError as failure:
        raise DiskError(directory, failure, "list") from failure
