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
The next opening that counts attempts counts the file and removes it. Where it dies in between, the one after it does.
A file counts once: the commit with what it counted says whose file that was, under a key of the engine's:

    bytes                meaning
    0 to 7               owner number of the opening whose file was counted last
"""

import logging
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.operations import ENGINE_PREFIX

MAGIC = b"OMSHAND\1"
COUNTED_KEY = f"{ENGINE_PREFIX}hand".encode()
_COUNTED = struct.Struct("<Q")
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
        places, free = self._places, self._free
        if number in places:
            return
        if free:
            place = free.pop()
        else:
            place = self._count
            self._count += 1
        places[number] = place
        self._write(place, _PLACE.pack(number, xxh3(_PLACE.pack(number, place), self._owner)))

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


class LeftInHand(NamedTuple):
    """What was in hand when an opening died, by its owner number: message numbers, ascending."""

    owner: int
    numbers: Sequence[int]


NOTHING_LEFT = LeftInHand(0, ())


def in_hand(disk: Disk, directory: Path, owner: int) -> LeftInHand:
    """Return what was in hand when the last opening before this owner's died that left a file.

    NOTHING_LEFT where it was closed, or counted no attempts.
    """
    try:
        file = disk.open(directory / names.HAND)
        try:
            data = file.read(file.size(), 0)
        finally:
            file.close()
    except OSError:
        return NOTHING_LEFT
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        return NOTHING_LEFT
    _, dead = _HEAD.unpack_from(data)
    if not dead < owner:
        return NOTHING_LEFT
    places = range((len(data) - _HEAD.size) // _PLACE.size)
    found = [(place, *_PLACE.unpack_from(data, _HEAD.size + place * _PLACE.size)) for place in places]
    numbers = {number for place, number, proof in found if number and proof == _proof(number, place, dead)}
    return LeftInHand(dead, sorted(numbers))


def forget(disk: Disk, directory: Path) -> None:
    """Remove the file, where there is one. It does not come back with a power cut."""
    path = directory / names.HAND
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return
    except OSError as failure:
        _log.warning("%s cannot be removed: %s", path, failure)
        return
    try:
        disk.sync_directory(directory)
    except OSError as failure:
        _log.warning("%s may come back after a power cut: %s", path, failure)


def encode_counted(owner: int) -> bytes:
    """Return the value that says whose file was counted last."""
    return _COUNTED.pack(owner)


def decode_counted(value: bytes | None) -> int:
    """Return the owner number in such a value; 0 for none, and for one that nobody writes."""
    return _COUNTED.unpack(value)[0] if value is not None and len(value) == _COUNTED.size else 0


def _proof(number: int, place: int, owner: int) -> int:
    return xxh3(_PLACE.pack(number, place), owner)
