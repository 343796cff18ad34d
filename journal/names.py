"""The names of the journal's files: made and parsed here, nowhere else.

    file                        holds
    omsmsg-SEQ.data             data file, SEQ ten digits from 1
    omsmsg-SEQ-vVER.archive     copy of a data file from before a repair, VER four digits from 1
    omsmsg-SEQ.data.new         a repaired data file before it takes its place; an archive's name likewise
    omsmsg-SEQ-oOWNER.data.new  a data file before its first zeros are durable, of the owner with that number
    omsmsg.index                directory of the sealed files, for readers without the lock
    omsmsg.lock                 who owns the directory, and which data file must be there
    omsmsg.reserve              space kept back so that a full disk can be drained
    omsmsg.hold                 what a start is about to hold back, until that is durable
    omsmsg.hand                 which messages were in hand, should the process die
    omsmsg.found                what a start has found lost or torn, until its report was handed over
    omsmsg.backup               only in a backup: what it consists of
    omsmsg.restore              the same, where it is being restored, until that is done

(Seed "Message Database Environment" for data file, archive, index and lock; the others are ours.)
Sorted names of data files are in the order of writing.
"""

import re
from dataclasses import dataclass

_PREFIX = "omsmsg"
LOCK = "omsmsg.lock"
INDEX = "omsmsg.index"
RESERVE = "omsmsg.reserve"
HOLD = "omsmsg.hold"
FOUND = "omsmsg.found"
HAND = "omsmsg.hand"
BACKUP = "omsmsg.backup"
RESTORE = "omsmsg.restore"
SEQUENCE_MAX = 9_999_999_999
VERSION_MAX = 9_999

_DATA = re.compile(r"omsmsg-([0-9]{10})\.data")
_UNFINISHED = re.compile(
    r"omsmsg-[0-9]{10}(\.data|-o[0-9]+\.data|-v[0-9]{4}\.archive)\.new|omsmsg\.(index|hold|found|backup|restore)\.new"
)
_ARCHIVE = re.compile(r"omsmsg-([0-9]{10})-v([0-9]{4})\.archive")


@dataclass(frozen=True, slots=True, order=True)
class DataFileName:
    """The name of a data file."""

    sequence: int

    def __str__(self) -> str:
        return f"omsmsg-{self.sequence:010}.data"


@dataclass(frozen=True, slots=True, order=True)
class ArchiveName:
    """The name of the copy kept of a data file before it was repaired."""

    sequence: int
    version: int

    def __str__(self) -> str:
        return f"omsmsg-{self.sequence:010}-v{self.version:04}.archive"


@dataclass(frozen=True, slots=True, order=True)
class UnfinishedName:
    """The name of a file that was being built when the machine stopped; it may be removed."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, order=True)
class OwnName:
    """The name of one of the journal's single files: index, lock, reserve, hold, backup, restore."""

    name: str

    def __str__(self) -> str:
        return self.name


JournalName = DataFileName | ArchiveName | UnfinishedName | OwnName


def parse(name: str) -> JournalName | None:
    """Return what the name names, or None when the file is not the journal's."""
    if match := _DATA.fullmatch(name):
        return DataFileName(int(match[1])) if int(match[1]) else None
    if match := _ARCHIVE.fullmatch(name):
        sequence, version = int(match[1]), int(match[2])
        return ArchiveName(sequence, version) if sequence and version else None
    if _UNFINISHED.fullmatch(name):
        return UnfinishedName(name)
    if name in (LOCK, INDEX, RESERVE, HOLD, FOUND, HAND, BACKUP, RESTORE):
        return OwnName(name)
    return None


def is_ours(name: str) -> bool:
    """Say whether the name can only be a file of a database's, be it of another version or cut by somebody."""
    return name.startswith(_PREFIX)


def prepared(sequence: int, owner: int) -> str:
    """Return the name under which an owner prepares a data file before it has its own.

    Another owner's is another name: one that was passed, and does not know it yet, must not give away a file of its
    successor's.
    """
    return f"omsmsg-{sequence:010}-o{owner}.data.new"


def unfinished(name: str) -> str:
    """Return the name under which the file `name` is built before it takes its place."""
    return f"{name}.new"
