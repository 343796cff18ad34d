"""The real disk, that notes which data files were opened, and how many bytes of each were read."""

from collections import Counter
from pathlib import Path

import pytest

from oms_journal.analysis.storage import Storage
from oms_journal.journal.disk import DiskFile, RealDisk, RealFile


class CountingDisk(RealDisk):
    """Counts opens, and bytes, by the names of files."""

    def __init__(self) -> None:
        self.opens: Counter[str] = Counter()
        self.read: Counter[str] = Counter()

    @classmethod
    def watching(cls, monkeypatch: pytest.MonkeyPatch) -> "CountingDisk":
        """Return the disk of whatever the analysis reads from now on."""
        disk = cls()
        monkeypatch.setattr(Storage, "disk", lambda _: disk)
        return disk

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = super().open(path, writable=writable)
        assert isinstance(file, RealFile)
        self.opens[path.name] += 1
        return _CountingFile(file, self.read, path.name)  # type: ignore[return-value]


class _CountingFile:
    def __init__(self, file: RealFile, read: Counter[str], name: str) -> None:
        self._file = file
        self._read = read
        self._name = name
        self.size = file.size
        self.close = file.close

    def read(self, size: int, offset: int) -> bytes:
        data = self._file.read(size, offset)
        self._read[self._name] += len(data)
        return data

    def read_into(self, buffer: memoryview, offset: int) -> int:
        count = self._file.read_into(buffer, offset)
        self._read[self._name] += count
        return count
