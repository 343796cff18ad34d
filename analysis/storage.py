"""Where journals lie: paths, lists and globs made into directories, on the local disk or any that fsspec knows.

What travels to a worker is the name of a file system and its options. Nothing here writes.
"""

import errno
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from oms_journal.journal import names
from oms_journal.journal.disk import Buffer, Disk, DiskFile, LockFile, RealDisk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.names import ArchiveName, DataFileName

OPTION_PREFIX = "storage."  # of what is handed to the file system: storage.key, storage.endpoint_url, …
_PROTOCOLS = {"s3a": "s3", "s3n": "s3"}  # as Hadoop names them, and as fsspec does
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_VERSION_FIELDS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "modified", "created")


class NoJournal(JournalError):
    """A path leads to no journal: nothing is there, or nothing that is a data file or an archive."""


class NoFileSystem(JournalError):
    """No file system of this kind can be read here: what would read it is not installed, or not known."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A file system, by name: the local disk, or one that fsspec knows by its URL. Small, and pickles."""

    root: str = ""  # like s3://bucket/; "" for the local disk
    options: str = field(default="{}", repr=False)  # JSON, for the file system; may hold credentials

    @property
    def is_local(self) -> bool:
        return not self.root

    def disk(self) -> Disk:
        """Return the file system, read-only but for the local one; NoFileSystem."""
        return RealDisk() if self.is_local else RemoteDisk(file_system(self), self.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A directory, and which of its files are asked for."""

    storage: Storage
    directory: Path
    is_whole: bool = False  # all its data files; else only the named ones
    named: frozenset[str] = frozenset()  # data files and archives that were named one by one
    is_root: bool = False  # of retained files: clean-up may make folders in it, named after databases

    @property
    def identity(self) -> str:
        """The database that a folder of retained files is named after, "" for any other directory."""
        return self.directory.name if _IDENTITY.fullmatch(self.directory.name) else ""

    def names(self, disk: Disk) -> list[str]:
        """Return the names of the files that are asked for, in the order of their sequences; DiskError."""
        found = {entry for entry in _entries(disk, self.directory) if self.is_whole and _is_data_file(entry)}
        return sorted(found | self.named)

    def stamps(self) -> dict[str, str]:
        """Return what its listing tells of each data file that lies there: another text after any change; DiskError.

        No file is opened.
        """
        try:
            if self.storage.is_local:
                found = {
                    entry.name: _stamp(entry) for entry in _entries_of(self.directory) if _is_data_file(entry.name)
                }
            else:
                found = {name: _remote_stamp(entry) for name, entry in _listed(self.storage, self.directory)}
        except OSError as failure:
            raise DiskError(self.directory, failure, "list") from failure
        return {name: stamp for name, stamp in found.items() if stamp}


def locate(paths: Sequence[str], options: Mapping[str, str] | None = None) -> list[Location]:
    """Return the directories that the paths mean: directories, data files, archives, or globs of them.

    A directory stands for its data files, and for those in its folders that are named after a database (retained
    ones); archives are read only when they are named. The options that begin with `storage.` go to the file system.
    NoJournal where there is none, NoFileSystem, DiskError.
    """
    given = storage_options(options or {})
    merged: dict[tuple[Storage, Path], Location] = {}
    for text in paths:
        for one in _matching(text, *parsed(text, given)):
            merged[one.storage, one.directory] = _joined(one, merged.get((one.storage, one.directory), one))
    found = list(merged.values())
    if not any(location.is_whole or location.named for location in found):
        raise NoJournal(f"{', '.join(paths) or 'no path at all'}: there are no data files")
    return found


def storage_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return what is for the file system: `storage.key` as `key`; true, false and JSON lists and maps as such."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(OPTION_PREFIX):
            is_json = value in ("true", "false") or value.startswith(("{", "["))
            found[name.removeprefix(OPTION_PREFIX)] = json.loads(value) if is_json else value
    return found


def parsed(text: str, options: Mapping[str, Any]) -> tuple[Storage, Path]:
    """Return the file system of a path or URL, and the path in it; NoFileSystem."""
    if not _URL.match(text):
        return Storage(), Path(text).absolute()
    parts = urlsplit(text, allow_fragments=False)
    if parts.scheme == "file":
        return Storage(), Path(unquote(parts.path)).absolute()
    protocol = _PROTOCOLS.get(parts.scheme, parts.scheme)
    storage = Storage(f"{protocol}://{parts.netloc}/", json.dumps(options, sort_keys=True))
    return storage, Path(file_system(storage)._strip_protocol(f"{protocol}:{text.partition(':')[2]}"))


@lru_cache
def file_system(storage: Storage) -> Any:
    """Return what fsspec has for a file system that is not the local disk; NoFileSystem."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as failure:
        text = f"fsspec is not installed: pip install 'oms-journal[{_extra(storage)}]'"
        raise NoFileSystem(f"cannot read {storage.root}: {text}") from failure
    try:
        # A listing that is remembered hides what was shipped or removed since.
        return url_to_fs(storage.root, **({"use_listings_cache": False} | json.loads(storage.options)))[0]
    except (ImportError, ValueError, OSError) as failure:
        text = str(failure).splitlines()[0]
        if isinstance(failure, ImportError) and _extra(storage) == "s3":
            text = "s3fs is not installed: pip install 'oms-journal[s3]'"
        raise NoFileSystem(f"cannot read {storage.root}: {text}") from failure


def _extra(storage: Storage) -> str:
    """Return the extra that brings what reads a file system."""
    return "s3" if storage.root.startswith("s3:") else "analysis"


def _matching(text: str, storage: Storage, path: Path) -> list[Location]:
    """Return the directories and files that one path means; NoJournal where there are none."""
    if _exists(storage, path):
        if _is_directory(storage, path):
            return _in_directory(storage, path)
        if not _is_data_file(path.name) and not _is_archive(path.name):
            raise NoJournal(f"{text} is not named like a data file or an archive")
        return [Location(storage=storage, directory=path.parent, named=frozenset((path.name,)))]
    wants_archives = path.name.endswith(".archive")
    found: list[Location] = []
    for match in sorted({match for pattern in _alternatives(str(path)) for match in _glob(storage, pattern)}):
        if _is_data_file(match.name) or (wants_archives and _is_archive(match.name)):
            found.append(Location(storage=storage, directory=match.parent, named=frozenset((match.name,))))
        elif _is_directory(storage, match):
            with suppress(NoJournal):  # whatever else the pattern meets is none of ours
                found += _in_directory(storage, match)
    if not found:
        raise NoJournal(f"{text} does not exist" if "*" not in text else f"no journal is like {text}")
    return found


def _in_directory(storage: Storage, path: Path) -> list[Location]:
    """Return the directory, and its folders of retained files; NoJournal when it holds other things only."""
    entries = _entries(storage.disk(), path)
    folders = [path / entry for entry in entries if _IDENTITY.fullmatch(entry) and _is_directory(storage, path / entry)]
    ours = [name for name in map(names.parse, entries) if name is not None]
    is_whole = any(not isinstance(name, ArchiveName) for name in ours) or bool(_IDENTITY.fullmatch(path.name))
    if entries and not is_whole and not folders:
        archives = "data files, and archives are read when they are named"
        raise NoJournal(f"{path} holds no {archives if ours else 'message database'}")
    is_root = not is_whole or bool(folders)
    found = [Location(storage=storage, directory=path, is_whole=is_whole, is_root=is_root)]
    return found + [Location(storage=storage, directory=folder, is_whole=True) for folder in folders]


def _joined(one: Location, other: Location) -> Location:
    """Return what two paths into the same directory ask for."""
    is_whole, is_root = one.is_whole or other.is_whole, one.is_root or other.is_root
    return replace(one, is_whole=is_whole, is_root=is_root, named=one.named | other.named)


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that a pattern with {a,b} stands for."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    made = [pattern[: match.start()] + choice + pattern[match.end() :] for choice in match[1].split(",")]
    return [one for text in made for one in _alternatives(text)]


def _is_data_file(name: str) -> bool:
    return isinstance(names.parse(name), DataFileName)


def _is_archive(name: str) -> bool:
    return isinstance(names.parse(name), ArchiveName)


def _entries(disk: Disk, directory: Path) -> list[str]:
    try:
        return disk.list(directory)
    except OSError as failure:
        raise DiskError(directory, failure, "list") from failure


def _entries_of(directory: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(directory) as found:
        return list(found)


def _stamp(entry: "os.DirEntry[str]") -> str:
    """Return a file's size, its time and its number; "" where it has gone."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"


def _listed(storage: Storage, directory: Path) -> list[tuple[str, Mapping[str, Any]]]:
    files = file_system(storage)
    files.invalidate_cache(str(directory))
    entries = [(Path(entry["name"]).name, entry) for entry in files.ls(str(directory), detail=True)]
    return [(name, entry) for name, entry in entries if _is_data_file(name)]


def _remote_stamp(entry: Mapping[str, Any]) -> str:
    """Return the size of an object, and what else tells whether it was replaced: it differs from store to store."""
    told = next((entry[name] for name in _VERSION_FIELDS if entry.get(name)), "")
    return f"{entry.get('size')}-{told}"


def _exists(storage: Storage, path: Path) -> bool:
    return path.exists() if storage.is_local else bool(file_system(storage).exists(str(path)))


def _is_directory(storage: Storage, path: Path) -> bool:
    return path.is_dir() if storage.is_local else bool(file_system(storage).isdir(str(path)))


def _glob(storage: Storage, pattern: str) -> list[Path]:
    if storage.is_local:
        return list(Path("/").glob(pattern.lstrip("/")))
    return [Path(one) for one in file_system(storage).glob(pattern)]


class RemoteDisk:
    """A file system that fsspec reads. What writes is refused."""

    def __init__(self, file_system: Any, root: str) -> None:
        self._file_system = file_system
        self._root = root

    def list(self, directory: Path) -> "list[str]":
        self._file_system.invalidate_cache(str(directory))
        entries = self._file_system.ls(str(directory), detail=False)
        return sorted({name for entry in entries if (name := Path(entry).name) != directory.name})

    def size(self, path: Path) -> int:
        return int(self._file_system.info(str(path))["size"])

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        if writable:
            self._refuse(path)
        return RemoteFile(self._file_system, path, self.size(path))

    def _refuse(self, path: Path) -> NoReturn:
        raise OSError(errno.EROFS, f"the analysis only reads {self._root}", str(path))

    def make_directory(self, path: Path) -> None:
        self._refuse(path)

    def create(self, path: Path) -> DiskFile:
        self._refuse(path)

    def open_lock(self, path: Path) -> LockFile:
        self._refuse(path)

    def rename(self, old: Path, new: Path) -> None:
        self._refuse(old)

    def link(self, old: Path, new: Path) -> None:
        self._refuse(new)

    def unlink(self, path: Path) -> None:
        self._refuse(path)

    def sync_directory(self, directory: Path) -> None:
        self._refuse(directory)

    def modified(self, path: Path) -> float:
        self._refuse(path)

    def free_bytes(self, directory: Path) -> int:
        self._refuse(directory)


class RemoteFile:
    """One file on it, read by ranges. Its size is that of when it was opened."""

    def __init__(self, file_system: Any, path: Path, size: int) -> None:
        self._file_system = file_system
        self._path = path
        self._size = size

    def read(self, size: int, offset: int) -> bytes:
        end = min(offset + size, self._size)
        if offset >= end:
            return b""
        return bytes(self._file_system.cat_file(str(self._path), start=offset, end=end))

    def read_now(self, size: int, offset: int) -> bytes:
        return b""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.read(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """Let go; nothing is open between two reads."""

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "the analysis only reads", str(self._path))

    def write(self, data: Buffer, offset: int) -> None:
        self._refuse()

    def write_durably(self, buffers: Sequence[Buffer], offset: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def truncate(self, size: int) -> None:
        self._refuse()

    def reserve(self, size: int) -> None:
        self._refuse()
