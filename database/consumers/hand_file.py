"""Which messages were in hand when a process died: `omsmsg.hand`, where `max_attempts` is set.

    bytes                meaning
    0 to 7               the magic
    8 to 15              owner number of the opening that writes it
    16 and on, 16 each   a place: the number of a message in hand, and XXH3 over number, place and owner number;
                         zeros where it was given back

A place is written when its message is handed out, and never synced: the file survives the process, not the machine. A
place that does not verify counts nothing, nor does one whose message is gone: where it was delivered or deleted, the
place is left as it is until another message needs it. A close removes the file, so that it counts nothing either.

An opening that another one has taken the directory over from touches no file of that name: it is the new owner's.
"""

import logging
import struct
from collections.abc import Callable
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.format.headers import xxh3

MAGIC = b"OMSHAND\1"
_HEAD = struct.Struct("<8sQ")
_PLACE = struct.Struct("<QQ")
_FREE = bytes(_PLACE.size)
_log = logging.getLogger("oms.database")


class HandFile:
    """The file of one opening. Does not lock: its owner does."""

    def __init__(self, disk: Disk, directory: Path, owner: int, is_ours: Callable[[], bool] = lambda: True) -> None:
        self._disk = disk
        self._is_ours = is_ours  # the directory
        self._path = directory / names.HAND
        self._owner = owner
        self._file: DiskFile | None = None
        self._is_failed = False  # it cannot be written, or is another owner's: nothing is counted
        self._places: dict[int, int] = {}  # of the messages in hand
        self._free: list[int] = []
        self._count = 0  # of places, free ones too

    def put(self, number: int) -> None:
        """Note that a message is in hand."""
        if number in self._places:
            return
        if self._free:
            place = self._free.pop()
        else:
            place = self._count
            self._count += 1
        self._places[number] = place
        self._write(place, _PLACE.pack(number, _proof(number, place, self._owner)))

    def remove(self, number: int, *, is_gone: bool) -> None:
        """Note that a message is in hand no more; one that is gone for good counts nothing where it stands."""
        place = self._places.pop(number, None)
        if place is not None:
            if not is_gone:
                self._write(place, _FREE)
            self._free.append(place)

    def _write(self, place: int, data: bytes) -> None:
        if self._is_failed:
            return
        try:
            if self._file is None:
                if not self._is_ours():
                    self._is_failed = True
                    return
                self._file = self._begin()
            self._file.write(data, _HEAD.size + place * _PLACE.size)
        except OSError as failure:
            self._is_failed = True
            _log.warning("%s cannot be written, so that no death of a process counts: %s", self._path, failure)

    def _begin(self) -> DiskFile:
        try:
            file = self._disk.create(self._path)
        except FileExistsError:
            file = self._disk.open(self._path, writable=True)
            file.truncate(0)
        file.write(_HEAD.pack(MAGIC, self._owner), 0)
        return file

    def close(self) -> None:
        """Let go of the file, and of what it says: it does not come back with a power cut."""
        self._is_failed = True
        file, self._file = self._file, None
        if file is not None:
            file.close()
            if not self._is_ours():
                return
            forget(self._disk, self._path.parent)
            try:
                self._disk.sync_directory(self._path.parent)
            except OSError as failure:
                _log.warning("%s may come back after a power cut: %s", self._path, failure)


def in_hand(disk: Disk, directory: Path, owner: int) -> list[int]:
    """Return the numbers that were in hand when the opening with this owner number died, ascending.

    [] where it was closed, or counted no attempts.
    """
    try:
        file = disk.open(directory / names.HAND)
        try:
            data = file.read(file.size(), 0)
        finally:
            file.close()
    except OSError:
        return []
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        return []
    if _HEAD.unpack_from(data)[1] != owner:
        return []
    places = range((len(data) - _HEAD.size) // _PLACE.size)
    found = [(place, *_PLACE.unpack_from(data, _HEAD.size + place * _PLACE.size)) for place in places]
    return sorted({number for place, number, proof in found if number and proof == _proof(number, place, owner)})


def forget(disk: Disk, directory: Path) -> None:
    """Remove the file, where there is one."""
    try:
        disk.unlink(directory / names.HAND)
    except FileNotFoundError:
        pass
    except OSError as failure:
        _log.warning("%s cannot be removed: %s", directory / names.HAND, failure)


def _proof(number: int, place: int, owner: int) -> int:
    return xxh3(_PLACE.pack(number, place), owner)
