"""Several disks as one: each directory lies on one of them, as mounted file systems do.

Mounted({Path("/backup"): (tape, Path("/backup")), Path("/new"): (disk, Path("/spool"))})
"""

import errno
from collections.abc import Mapping
from pathlib import Path

from oms_journal.journal.disk import Disk, DiskFile, LockFile
from tests.support.disks.faulty_calls import failure
from tests.support.disks.faulty_disk import SimulatedDisk


class Mounted(Disk):
    """Directories of simulated disks, under names of their own. What is not mounted is not there."""

    def __init__(self, mounts: Mapping[Path, tuple[SimulatedDisk, Path]]) -> None:
        self._mounts = mounts

    def list(self, directory: Path) -> list[str]:
        disk, place = self._at(directory)
        return disk.list(place)

    def size(self, path: Path) -> int:
        disk, place = self._of(path)
        return disk.size(place)

    def modified(self, path: Path) -> float:
        disk, place = self._of(path)
        return disk.modified(place)

    def make_directory(self, path: Path) -> None:
        disk, place = self._at(path)
        disk.make_directory(place)

    def create(self, path: Path) -> DiskFile:
        disk, place = self._of(path)
        return disk.create(place)

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        disk, place = self._of(path)
        return disk.open(place, writable=writable)

    def open_lock(self, path: Path) -> LockFile:
        disk, place = self._of(path)
        return disk.open_lock(place)

    def rename(self, old: Path, new: Path) -> None:
        (disk, from_), (other, to) = self._of(old), self._of(new)
        if disk is not other:
            raise failure(errno.EXDEV, new)
        disk.rename(from_, to)

    def link(self, old: Path, new: Path) -> None:
        (disk, from_), (other, to) = self._of(old), self._of(new)
        if disk is not other:
            raise failure(errno.EXDEV, new)
        disk.link(from_, to)

    def unlink(self, path: Path) -> None:
        disk, place = self._of(path)
        disk.unlink(place)

    def sync_directory(self, directory: Path) -> None:
        disk, place = self._at(directory)
        disk.sync_directory(place)

    def free_bytes(self, directory: Path) -> int:
        disk, place = self._at(directory)
        return disk.free_bytes(place)

    def _at(self, directory: Path) -> tuple[SimulatedDisk, Path]:
        found = self._mounts.get(directory)
        if found is None:
            raise failure(errno.ENOENT, directory)
        return found

    def _of(self, path: Path) -> tuple[SimulatedDisk, Path]:
        disk, directory = self._at(path.parent)
        return disk, directory / path.name
