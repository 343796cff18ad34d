"""The retention directory: where clean-up moves data files, so that their history can be analysed.

A file gets a second name there, or, on another file system, is copied; its first name goes when that is durable.
Nothing is ever overwritten. The oldest go when the bounds on age and bytes are reached.
"""

import contextlib
from pathlib import Path

from oms_journal.database.options import Options
from oms_journal.journal import names
from oms_journal.journal.disk import NO_LINKS, Disk
from oms_journal.journal.errors import DiskError, DiskFull
from oms_journal.journal.reserve import NO_SPACE

COPY_BYTES = 1 << 20


class Retention:
    """The retained files of one database."""

    def __init__(self, disk: Disk, directory: Path, options: Options) -> None:
        self._disk = disk
        self._directory = directory
        self._options = options

    def take(self, path: Path) -> bool:
        """Move a data file here; False when there is one of this name already. OSError, DiskFull."""
        try:
            if not self._has_taken(path):
                return False
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            raise DiskFull(self._directory, failure, "move data files into") from failure
        self._disk.unlink(path)
        return True

    def _has_taken(self, path: Path) -> bool:
        """Give the file a name here too, durably; False when there is another one of this name."""
        self._disk.make_directory(self._directory)
        target = self._directory / path.name
        if path.name not in self._disk.list(self._directory):
            self._put(path, target)
        elif not self._is_same(path, target):  # it is, where a move was interrupted
            return False
        self._disk.sync_directory(self._directory)  # a rename would be two changes here, of which either may be lost
        return True

    def _put(self, path: Path, target: Path) -> None:
        try:
            self._disk.link(path, target)
        except OSError as failure:
            if failure.errno not in NO_LINKS:
                raise
            self._copy(path, target)

    def _is_same(self, path: Path, target: Path) -> bool:
        one, other = self._disk.open(path), self._disk.open(target)
        try:
            size = one.size()
            return size == other.size() and all(
                one.read(COPY_BYTES, at) == other.read(COPY_BYTES, at) for at in range(0, size, COPY_BYTES)
            )
        finally:
            one.close()
            other.close()

    def _copy(self, path: Path, target: Path) -> None:
        unfinished = target.with_name(names.unfinished(target.name))
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(unfinished)
        source, copy = self._disk.open(path), self._disk.create(unfinished)
        try:
            at = 0
            while data := source.read(COPY_BYTES, at):
                copy.write(data, at)
                at += len(data)
            copy.sync()
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.unlink(unfinished)  # what is there of it takes room for nothing
            raise
        finally:
            source.close()
            copy.close()
        self._disk.rename(unfinished, target)

    def trim(self) -> list[str]:
        """Remove the oldest files beyond the bounds on age and bytes; return their names."""
        try:
            return self._trim()
        except OSError as failure:
            raise DiskError(self._directory, failure, "trim") from failure

    def _trim(self) -> list[str]:
        try:
            entries = self._disk.list(self._directory)
        except FileNotFoundError:
            return []
        kept = [entry for entry in entries if isinstance(names.parse(entry), names.DataFileName)]
        sizes = {entry: self._disk.size(self._directory / entry) for entry in kept}
        total = sum(sizes.values())
        now = self._options.clock() / 1e6
        removed = []
        for entry in kept:
            path = self._directory / entry
            limit, age = self._options.retention_bytes, self._options.retention_age
            is_old = age is not None and now - self._disk.modified(path) > age
            if not is_old and (limit is None or total <= limit):
                break
            self._disk.unlink(path)
            total -= sizes[entry]
            removed.append(entry)
        if removed:
            self._disk.sync_directory(self._directory)
        return removed
