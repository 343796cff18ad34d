"""What a start does otherwise in a directory that a backup has been copied into, and who keeps out of it until then.

The database that goes on there is another one than the one that was backed up: that one may be alive, and has
perhaps gone on. So it gets an identity of its own, names its parent, and keeps so far away with all its
numbers that neither it, nor its parent, nor another one restored from the same backup gives one that another
has given. What may have been delivered since the backup is held.
"""

from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import BackupUnfinished, RestoreUnfinished
from oms_journal.journal.files import exists
from oms_journal.journal.format import manifest
from oms_journal.journal.names import SEQUENCE_MAX

MESSAGES_APART = 1 << 44  # half a year of the parent's life at a million a second, or 8,000 ends without a close
FILES_APART = 1 << 20
OWNERS_APART = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Where a database parts from the one it is restored from."""

    database: bytes  # the new identity: 16 random bytes
    parent: bytes
    sequence: int  # the parent's data files up to this one are the new database's too
    next_message: int = 1  # no lower number is free, whatever the files say
    next_commit: int = 1
    owner: int = 0
    low_water: int = 1  # of the parent: the file that says so may be lost
    holds: bool = True  # all that is undelivered

    @property
    def jump(self) -> int:
        """How many numbers of messages and commits are left out: never those of another restore of the same backup."""
        return MESSAGES_APART + int.from_bytes(self.database[:8], "little") % MESSAGES_APART

    @property
    def next_sequence(self) -> int:
        """The sequence of the first data file of its own; no file of the parent or of another restore has its name."""
        wanted = self.sequence + FILES_APART + int.from_bytes(self.database[8:], "little") % FILES_APART
        return wanted if wanted < SEQUENCE_MAX - FILES_APART else self.sequence + 1


def refuse_unfinished(disk: Disk, directory: Path) -> None:
    """Raise RestoreUnfinished where a backup was being copied into the directory, and is not there as a whole.

    BackupUnfinished where the directory is to be a backup, and holds none yet. DiskError where that cannot be told,
    ManifestDamaged where a backup's is.
    """
    if exists(disk, directory / names.RESTORE):
        raise RestoreUnfinished(directory)
    backup = manifest.read(disk, directory) if exists(disk, directory / names.BACKUP) else None
    if backup is not None and not backup.is_complete:
        raise BackupUnfinished(directory)
