"""The bytes of one file of a simulated disk: what reads see, and what a power cut would leave.

Kept apart are the page cache, what is durable, what each sector was since its last sync, and what has rotted
under it: a mask, so that the same file without its rot can be looked at. Copies share everything until one of
the two is changed.
"""

import random
from collections.abc import Sequence

import xxhash

SECTOR = 512  # what a device writes as a whole, or not
_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)  # of the unsynced sectors that a power cut keeps


class FileBytes:
    """One file, whatever its names are."""

    def __init__(self) -> None:
        self.unreadable: list[tuple[int, int]] = []
        self.failed_syncs = 0
        self.changed = 0.0  # seconds since 1970-01-01 UTC
        self._is_shared = False  # with a copy: what follows is copied before it is changed
        self._data = bytearray()  # the page cache
        self._durable = bytearray()
        self._versions: dict[int, list[bytes]] = {}  # unsynced: what each sector was, and is
        self._lengths: list[int] = []  # unsynced
        self._lost: set[int] = set()  # sectors that a failed sync has marked clean: no sync writes them
        self._space: set[int] = set()  # sectors that have blocks of their own
        self._fresh: set[int] = set()  # those whose blocks nobody has written durably: what they held may show
        self._rot: dict[int, bytearray] = {}  # sector -> what its bytes are changed by when they are read
        self._digest: int | None = None

    @classmethod
    def durably(cls, data: bytes) -> "FileBytes":
        file = cls()
        file._data, file._durable = bytearray(data), bytearray(data)
        file._space = set(_sectors(0, len(data)))
        return file

    def copy(self) -> "FileBytes":
        file = FileBytes.__new__(FileBytes)
        self._is_shared = True
        file.__dict__.update(self.__dict__)
        file.unreadable = list(self.unreadable)
        file.failed_syncs = 0  # nobody of those who have the copy open knows of them
        return file

    def _own(self) -> None:
        """Make what is shared with a copy this file's own: it is about to change."""
        self._digest = None
        if not self._is_shared:
            return
        self._is_shared = False
        self._data, self._durable = bytearray(self._data), bytearray(self._durable)
        self._versions = {sector: list(versions) for sector, versions in self._versions.items()}
        self._lengths, self._lost = list(self._lengths), set(self._lost)
        self._space, self._fresh = set(self._space), set(self._fresh)
        self._rot = {sector: bytearray(mask) for sector, mask in self._rot.items()}

    # Reads.

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes as a reader gets them, rot and all."""
        data = self._data[start:end]
        if self._rot:
            for sector in _sectors(start, start + len(data)):
                if sector in self._rot:
                    _apply(data, self._rot[sector], sector * SECTOR - start)
        return bytes(data)

    def is_unreadable(self, start: int, end: int) -> bool:
        return any(start < high and low < end for low, high in self.unreadable)

    def digest(self) -> int:
        """Return a number that stands for the bytes as a reader gets them."""
        if self._digest is None:
            self._digest = xxhash.xxh3_64_intdigest(self.read(0, self.size) if self._rot else self._data)
        return self._digest

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
        self._own()
        end = offset + len(data)
        if end > len(self._data):
            self._data.extend(bytes(end - len(self._data)))
            self._lengths.append(end)
        self._data[offset:end] = data
        for sector in _sectors(offset, end):
            self._versions.setdefault(sector, []).append(bytes(self._data[sector * SECTOR : (sector + 1) * SECTOR]))
            self._lost.discard(sector)
            if sector not in self._space:
                self._space.add(sector)
                self._fresh.add(sector)
            if sector in self._rot:
                self._write_over_rot(sector, offset, end)

    def _write_over_rot(self, sector: int, start: int, end: int) -> None:
        mask, at = self._rot[sector], sector * SECTOR
        low, high = max(start - at, 0), min(end - at, SECTOR)
        mask[low:high] = bytes(high - low)
        if not any(mask):
            del self._rot[sector]

    def resize(self, size: int) -> None:
        """Cut the file, or make it longer with a hole."""
        self._own()
        if size < len(self._data):
            del self._data[size:]
            self._forget_from(size)
        else:
            self._data.extend(bytes(size - len(self._data)))
        self._lengths.append(size)

    def _forget_from(self, size: int) -> None:
        first = -(-size // SECTOR)
        for sectors in (self._space, self._lost, self._fresh):
            sectors.difference_update([sector for sector in sectors if sector >= first])
        for sector in [sector for sector in self._versions if sector >= first]:
            del self._versions[sector]
        for sector in [sector for sector in self._rot if sector >= first]:
            del self._rot[sector]
        if size % SECTOR and first - 1 in self._rot:
            self._write_over_rot(first - 1, size, first * SECTOR)

    def allocate(self, size: int) -> None:
        """Give the file space of its own up to `size`; it reads as zeros until it is written."""
        self._own()
        self._space.update(_sectors(0, size))
        if size > len(self._data):
            self.resize(size)

    def sync(self, start: int = 0, end: int | None = None) -> None:
        """Make the range durable, and the length that it needs; without an end, the whole file."""
        self._own()
        wanted = [
            sector
            for sector in self._versions
            if sector not in self._lost and (end is None or (start < (sector + 1) * SECTOR and sector * SECTOR < end))
        ]
        if end is None:
            _resize(self._durable, len(self._data))
            self._lengths.clear()
        elif end > len(self._durable):
            _resize(self._durable, end)
        for sector in wanted:
            _put(self._durable, sector, self._versions.pop(sector)[-1])
        self._fresh.difference_update(wanted)

    def is_lost(self, start: int, end: int) -> bool:
        """Say whether a failed sync has left something of the range undone, that was not written again since."""
        return not self._lost.isdisjoint(_sectors(start, end))

    def lose_unsynced(self) -> None:
        """A sync has failed: what was not durable reads back, and is never written by a later sync."""
        self._own()
        self._lost |= set(self._versions)
        self.failed_syncs += 1

    # Rot.

    def rot(self, data: bytes, offset: int) -> None:
        """Have these bytes read back from now on, until the place is written again; the file is as long as it was."""
        self._own()
        end = min(offset + len(data), len(self._data))
        for sector in _sectors(offset, end):
            at = sector * SECTOR
            mask = self._rot.setdefault(sector, bytearray(SECTOR))
            for place in range(max(offset, at), min(end, at + SECTOR)):
                mask[place - at] = self._data[place] ^ data[place - offset]
            if not any(mask):
                del self._rot[sector]

    def rotten(self) -> list[tuple[int, int]]:
        """Return the ranges of bytes that read back otherwise than they were written."""
        ranges: list[tuple[int, int]] = []
        for sector, mask in sorted(self._rot.items()):
            for place in range(sector * SECTOR, min((sector + 1) * SECTOR, len(self._data))):
                if mask[place % SECTOR]:
                    if ranges and ranges[-1][1] == place:
                        ranges[-1] = (ranges[-1][0], place + 1)
                    else:
                        ranges.append((place, place + 1))
        return ranges

    def exchange_rot(self, rot: dict[int, bytearray]) -> dict[int, bytearray]:
        """Have this rot in the place of the file's own, and return that."""
        self._digest = None
        before, self._rot = self._rot, rot
        return before

    def heal(self) -> None:
        """Have the file as it would be without its rot."""
        if self._rot or self.unreadable:
            self._own()
            self._rot = {}
            self.unreadable = []

    # After a power cut.

    def is_durable(self) -> bool:
        """Say whether a power cut would leave the file as it is."""
        return not self._versions and not self._lengths

    def after_power_cut(self, chance: random.Random, *, is_harsh: bool, stale: Sequence[bytes] = ()) -> "FileBytes":
        """Return the file as a power cut may leave it; `stale` are bytes whose blocks it may have got."""
        if self.is_durable():
            file = self.copy()
            file._fresh = set()
            return file
        data = bytearray(self._durable)
        if self._lengths:
            _resize(data, chance.choice([len(self._durable), *self._lengths]))
        is_stale = bool(stale) and chance.random() < 0.3
        share = chance.choice(_SHARES)
        for sector, versions in sorted(self._versions.items()):
            if sector not in self._lost and chance.random() < share:
                version = chance.choice((versions[-1], chance.choice(versions)))
                if chance.random() < 0.1:
                    version = self._torn(sector, version, chance, is_harsh=is_harsh)
                _put(data, sector, version)
            elif is_harsh and chance.random() < 0.3:
                _put(data, sector, chance.choice((bytes(SECTOR), chance.randbytes(SECTOR))))
            elif is_stale and sector in self._fresh:
                _put(data, sector, _stale(sector, stale, chance))
        file = FileBytes.durably(bytes(data))
        file._rot = {sector: bytearray(mask) for sector, mask in self._rot.items() if sector * SECTOR < len(data)}
        file._space |= {sector for sector in self._space if sector * SECTOR < len(data)}
        file.changed = self.changed
        return file

    def _torn(self, sector: int, version: bytes, chance: random.Random, *, is_harsh: bool) -> bytes:
        """Return a sector of which a part was written; one that holds anything durable is old or new, if not harsh."""
        old = bytes(self._durable[sector * SECTOR : (sector + 1) * SECTOR])
        if any(old) and not is_harsh:
            return version
        at = chance.randrange(0, SECTOR, 8)
        old = old.ljust(SECTOR, b"\0")
        return chance.choice((version[:at] + old[at : len(version)], old[:at] + version[at:]))


def _stale(sector: int, stale: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a sector of a file that was removed: mostly of the same place."""
    former = chance.choice(stale)
    place = sector if chance.random() < 0.8 else chance.randrange(1 + len(former) // SECTOR)
    return bytes(former[place * SECTOR : (place + 1) * SECTOR]).ljust(SECTOR, b"\0")


def _put(data: bytearray, sector: int, version: bytes) -> None:
    start = sector * SECTOR
    end = min(start + len(version), len(data))
    data[start:end] = version[: max(0, end - start)]


def _apply(data: bytearray, mask: bytes | bytearray, offset: int) -> None:
    """Change data by the mask, which begins at this offset of it, perhaps before its beginning."""
    for place in range(max(0, -offset), min(len(mask), len(data) - offset)):
        data[offset + place] ^= mask[place]


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _sectors(start: int, end: int) -> range:
    return range(start // SECTOR, -(-end // SECTOR))
