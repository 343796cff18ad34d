"""Where a lake lies, on the local disk or on an object store: its files are listed, read, replaced whole, and removed.

    DEST/
      _oms.lock                     held while one export writes; on the local disk only
      _oms-state.json               what the last export saw, see `state.py`
      DATABASE-ID/
        omsmsg-SEQ.parquet          the operations of one data file
        _missing.csv                which data files are not in the lake, see `missing.py`

Whoever lists `DEST/*/*.parquet` at any moment sees each data file at most once, and whole: on the local disk a file is
written beside its place under a hidden name, made durable, and renamed; on an object store it comes with one request.
What begins with `_` or `.` is no data for Spark, pandas and pyarrow, and does not end with `.parquet` for the others.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from oms_journal.analysis.outdir import CannotWrite
from oms_journal.analysis.storage import Storage, file_system, parsed, storage_options
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.names import DataFileName
from oms_journal.journal.names import parse as parse_name

LOCK = "_oms.lock"
STATE = "_oms-state.json"
MISSING = "_missing.csv"
WHAT = "a Parquet data set"  # in what is told where it cannot be written
LOCK_LOOK_SECONDS = 0.05
_LAKE_FILE = re.compile(r"([0-9a-f]{32})/omsmsg-([0-9]{10})\.parquet")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = ".unfinished"


class LakeInJournal(JournalError):
    """The directory for a lake has data files in it, or lies in one that has."""


class LakeIsBusy(JournalError):
    """Another export writes to this lake, and went on doing so for as long as this one could wait."""


@dataclass(frozen=True, slots=True, order=True)
class LakeFile:
    """The name of a Parquet file in a lake."""

    database: str  # 32 hexadecimal digits
    sequence: int  # of the data file

    def __str__(self) -> str:
        return f"{self.database}/omsmsg-{self.sequence:010}.parquet"


def parse(name: str) -> LakeFile | None:
    """Return the lake file that a name below DEST names, None for any other."""
    match = _LAKE_FILE.fullmatch(name)
    return LakeFile(match[1], int(match[2])) if match else None


class Place(Protocol):
    """A directory for a lake. Names are relative to it, with at most one folder."""

    def sizes(self) -> dict[LakeFile, int]:
        """Return the lake files that are there, in order, and how many bytes each has; LakeInJournal."""

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None where it is not there."""

    def opened(self, name: str) -> BinaryIO:
        """Open a file for reading; FileNotFoundError."""

    def replaced(self, name: str) -> AbstractContextManager[Path]:
        """Yield where to write what becomes the file when the block ends well; nothing else of it is ever seen."""

    def remove(self, name: str) -> None:
        """Remove a file that may be gone already."""

    def locked(self, wait_seconds: float) -> AbstractContextManager[None]:
        """Let nobody else write within the block; LakeIsBusy."""

    def holds(self, directory: Path, storage: Storage) -> bool:
        """Say whether the place is this directory, or lies in it."""

    def is_in(self, directory: Path, storage: Storage) -> bool:
        """Say whether this directory is a folder of the place."""


def place_of(destination: str, options: Mapping[str, str] | None = None) -> Place:
    """Return the place that a path or URL means, which need not be there yet; NoFileSystem."""
    storage, path = parsed(destination, storage_options(options or {}))
    return LocalPlace(path) if storage.is_local else RemotePlace(storage, path)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A directory on the local disk."""

    directory: Path
    disk: Disk = field(default_factory=RealDisk)

    def sizes(self) -> dict[LakeFile, int]:
        found = {}
        with self._refusals():
            for folder in self._folders():
                with os.scandir(folder) as entries:
                    for entry in entries:
                        name = parse(f"{folder.name}/{entry.name}")
                        if name is not None:
                            found[name] = entry.stat().st_size
                        elif isinstance(parse_name(entry.name), DataFileName):
                            raise LakeInJournal(f"{folder} holds data files of a journal; give a directory of its own")
        return dict(sorted(found.items()))

    def read(self, name: str) -> bytes | None:
        with self._refusals(), suppress(FileNotFoundError):
            return (self.directory / name).read_bytes()
        return None

    def opened(self, name: str) -> BinaryIO:
        return (self.directory / name).open("rb")

    @contextmanager
    def replaced(self, name: str) -> Iterator[Path]:
        target = self.directory / name
        unfinished = target.with_name(f".{target.name}{_UNFINISHED}")
        with self._refusals():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield unfinished
                written = self.disk.open(unfinished, writable=True)
                try:
                    written.sync()
                finally:
                    written.close()
                self.disk.rename(unfinished, target)
                self.disk.sync_directory(target.parent)
            except BaseException:
                with suppress(OSError):
                    self.disk.unlink(unfinished)
                raise

    def remove(self, name: str) -> None:
        with self._refusals(), suppress(FileNotFoundError):
            self.disk.unlink(self.directory / name)

    @contextmanager
    def locked(self, wait_seconds: float) -> Iterator[None]:
        with self._refusals():
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = self.disk.open_lock(self.directory / LOCK)
        try:
            end = time.monotonic() + wait_seconds
            while not lock.try_lock(0):
                if time.monotonic() >= end:
                    raise LakeIsBusy(f"another export writes to {self.directory}; try again when it is done")
                time.sleep(LOCK_LOOK_SECONDS)
            self._remove_what_killed_runs_left()
            yield
        finally:
            lock.close()

    def holds(self, directory: Path, storage: Storage) -> bool:
        here = self.directory.resolve()
        return storage.is_local and directory.resolve() in (here, *here.parents)

    def is_in(self, directory: Path, storage: Storage) -> bool:
        return storage.is_local and directory.resolve().parent == self.directory.resolve()

    def _folders(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return [entry for entry in self.directory.iterdir() if _IDENTITY.fullmatch(entry.name) and entry.is_dir()]
        return []

    def _remove_what_killed_runs_left(self) -> None:
        with self._refusals():
            for folder in (self.directory, *self._folders()):
                for entry in folder.glob(f".*{_UNFINISHED}"):
                    if _is_ours(entry.name, folder.name):
                        self.disk.unlink(entry)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn what the system refuses into CannotWrite, and let all else pass."""
        try:
            yield
        except OSError as failure:
            raise CannotWrite(self.directory, failure, WHAT) from failure


def _is_ours(name: str, folder: str) -> bool:
    name = name.removeprefix(".").removesuffix(_UNFINISHED)
    return name in (STATE, MISSING) or parse(f"{folder}/{name}") is not None


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """A prefix on an object store, or a directory on another file system that fsspec knows.

    Nothing there can be locked. Who writes at once writes whole files, and the next export puts right what an older
    one has put over a newer one.
    """

    storage: Storage
    path: Path

    def sizes(self) -> dict[LakeFile, int]:
        files = file_system(self.storage)
        with self._refusals():
            files.invalidate_cache(str(self.path))
            try:
                entries = files.find(str(self.path), maxdepth=2, detail=True)
            except FileNotFoundError:
                return {}
        found = {}
        for path, entry in entries.items():
            name = parse("/".join(Path(path).parts[-2:]))
            if name is not None and Path(path).parts[:-2] == Path(str(self.path)).parts:
                found[name] = int(entry["size"])
        return dict(sorted(found.items()))

    def read(self, name: str) -> bytes | None:
        with self._refusals(), suppress(FileNotFoundError):
            return bytes(file_system(self.storage).cat_file(str(self.path / name)))
        return None

    def opened(self, name: str) -> BinaryIO:
        found: BinaryIO = file_system(self.storage).open(str(self.path / name), "rb")
        return found

    @contextmanager
    def replaced(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="oms-export-") as folder:
            written = Path(folder) / Path(name).name
            with self._refusals():
                yield written
                file_system(self.storage).put_file(str(written), str(self.path / name))

    def remove(self, name: str) -> None:
        with self._refusals(), suppress(FileNotFoundError):
            file_system(self.storage).rm_file(str(self.path / name))

    @contextmanager
    def locked(self, wait_seconds: float) -> Iterator[None]:
        yield

    def holds(self, directory: Path, storage: Storage) -> bool:
        return storage.root == self.storage.root and directory in (self.path, *self.path.parents)

    def is_in(self, directory: Path, storage: Storage) -> bool:
        return storage.root == self.storage.root and directory.parent == self.path

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            raise CannotWrite(self.path, failure, WHAT) from failure
