"""Backups and what is restored from them, on a simulated disk: the same identities and the same time in every run."""

from itertools import count
from pathlib import Path

from oms_journal.database.backup.backup import BackupOptions, back_up
from oms_journal.database.backup.restore import RestoreOptions, RestoreReport, restore
from oms_journal.journal.format.headers import xxh3
from tests.support.crashes.crash_model import SMALL, SPOOL, Unattended
from tests.support.disks.faulty_disk import SimulatedDisk

BACKUP, NEW = Path("/backup"), Path("/new")
BEGAN = 1_700_000_000_000_000  # when the tests' databases begin, microseconds


def backed_up(
    disk: SimulatedDisk, spool: Path = SPOOL, backup: Path = BACKUP, *, at: int = BEGAN + 60_000_000
) -> SimulatedDisk:
    """Return the disk with a backup of a database on it, taken at this time."""
    back_up(spool, backup, BackupOptions(clock=lambda: at, wait=lambda _: None, vouch_seconds=0), disk=disk)
    return disk


def restored(
    disk: SimulatedDisk,
    backup: Path = BACKUP,
    new: Path = NEW,
    *,
    at: int = BEGAN + 120_000_000,
    seed: int = 1,
    unreadable_as_damaged: bool = False,
    hold: bool | None = None,
) -> RestoreReport:
    """Make a database from the backup; which identities it draws is told by the seed."""
    numbers = count(seed << 32)
    options = RestoreOptions(
        clock=lambda: at,
        new_identity=lambda: xxh3(b"a", next(numbers)).to_bytes(8, "little") + xxh3(b"b", seed).to_bytes(8, "little"),
        data_file_bytes_max=SMALL,
        unreadable_as_damaged=unreadable_as_damaged,
        hold=hold,
    )
    return restore(backup, new, options, disk=disk)


def opened(disk: SimulatedDisk, directory: Path, *, at: int = BEGAN, **named: object) -> Unattended:
    """Open a database anywhere on the disk; its clock begins at this time."""
    ticks = count(at, 1000)
    defaults = {"max_data_file_size": SMALL, "cleanup_interval": 0, "clock": lambda: next(ticks)}
    database = Unattended.open(directory, disk=disk, **(defaults | named))  # type: ignore[arg-type]
    assert isinstance(database, Unattended)
    return database
