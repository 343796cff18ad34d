"""The bytes of one file of a simulated disk: what reads see, and what a power cut would leave."""

import itertools
import random

SECTOR = 512  # what a device writes as a whole, or not

_numbers = itertools.count(1)


class FileBytes:
    """One file, whatever its names are."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.data = bytearray()  # the page cache
        self.unreadable: list[tuple[int, int]] = []
        self.failed_syncs = 0
        self._durable = bytearray()
        self._versions: dict[int, list[bytes]] = {}  # unsynced: what each sector was, and is
        self._lengths: list[int] = []  # unsynced
        self._lost: set[int] = set()  # sectors that a failed sync has marked clean: no sync writes them
        self._space: set[int] = set()  # sectors that have blocks of their own

    @classmethod
    def durably(cls, data: bytes) -> "FileBytes":
        file = cls()
        file.data, file._durable = bytearray(data), bytearray(data)
        file._space = set(_sectors(0, len(data)))
        return file

    def copy(self) -> "FileBytes":
        file = FileBytes()
        file.data, file._durable = bytearray(self.data), bytearray(self._durable)
        file.unreadable = list(self.unreadable)
        file._versions = {sector: list(versions) for sector, versions in self._versions.items()}
        file._lengths, file._lost, file._space = list(self._lengths), set(self._lost), set(self._space)
        return file

    def is_unreadable(self, start: int, end: int) -> bool:
        return any(start < high and low < end for low, high in self.unreadable)

    # Space.

    def space(self) -> int:
        return len(self._space) * SECTOR

    def new_space(self, start: int, end: int) -> int:
        """Return how many bytes more the file needs to have space behind this range."""
        return sum(sector not in self._space for sector in _sectors(start, end)) * SECTOR

    # Changes.

    def write(self, data: bytes, offset: int) -> None:
        if not data:
            return
        end = offset + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
            self._lengths.append(end)
        self.data[offset:end] = data
        for sector in _sectors(offset, end):
            self._versions.setdefault(sector, []).append(bytes(self.data[sector * SECTOR : (sector + 1) * SECTOR]))
            self._lost.discard(sector)
        self._space.update(_sectors(offset, end))

    def resize(self, size: int) -> None:
        """Cut the file, or make it longer with a hole."""
        if size < len(self.data):
            del self.data[size:]
            self._space = {sector for sector in self._space if sector * SECTOR < size}
            gone = [sector for sector in self._versions if sector * SECTOR >= size]
            for sector in gone:
                del self._versions[sector]
            self._lost = {sector for sector in self._lost if sector * SECTOR < size}
        else:
            self.data.extend(bytes(size - len(self.data)))
        self._lengths.append(size)

    def allocate(self, size: int) -> None:
        self._space.update(_sectors(0, size))
        if size > len(self.data):
            self.resize(size)

    def sync(self, start: int = 0, end: int | None = None) -> None:
        """Make the range durable, and the length that it needs; without an end, the whole file."""
        wanted = [
            sector
            for sector in self._versions
            if sector not in self._lost and (end is None or (start < (sector + 1) * SECTOR and sector * SECTOR < end))
        ]
        if end is None:
            _resize(self._durable, len(self.data))
            self._lengths.clear()
        elif end > len(self._durable):
            _resize(self._durable, end)
        for sector in wanted:
            self._put(self._durable, sector, self._versions.pop(sector)[-1])

    def lose_unsynced(self) -> None:
        """A sync has failed: what was not durable reads back, and is never written by a later sync."""
        self._lost |= set(self._versions)
        self.failed_syncs += 1

    def after_power_cut(self, chance: random.Random, *, is_harsh: bool) -> "FileBytes":
        """Return the file as a power cut may leave it."""
        data = bytearray(self._durable)
        if self._lengths:
            _resize(data, chance.choice([len(self._durable), *self._lengths]))
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for sector, versions in sorted(self._versions.items()):
            if sector not in self._lost and chance.random() < share:
                self._put(data, sector, chance.choice((versions[-1], chance.choice(versions))))
            elif is_harsh and chance.random() < 0.3:
                self._put(data, sector, chance.randbytes(SECTOR))
        return FileBytes.durably(bytes(data))

    @staticmethod
    def _put(data: bytearray, sector: int, version: bytes) -> None:
        start = sector * SECTOR
        end = min(start + len(version), len(data))
        data[start:end] = version[: max(0, end - start)]


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _sectors(start: int, end: int) -> range:
    return range(start // SECTOR, -(-end // SECTOR))
