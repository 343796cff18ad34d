"""What a backup must hold: the state after the acknowledged commit that its manifest says it ends with."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from oms_journal import BackupUnfinished, DatabaseView
from oms_journal.database.backup.backup import BackupOptions, BackupReport, back_up
from oms_journal.journal.disk import Disk
from oms_journal.journal.format import manifest
from oms_journal.journal.format.manifest import Manifest
from tests.support.crashes.crash_model import (
    SPOOL,
    Account,
    Change,
    State,
    Unattended,
    Writer,
    open_unattended,
    state_of,
    workload,
)
from tests.support.disks.faulty_disk import SimulatedDisk

BACKUP = Path("/backup")
COPIED = BackupOptions(links=False, wait=lambda _: None)
LINKED = BackupOptions(wait=lambda _: None)


@dataclass(slots=True)
class History:
    """The state of a database after each acknowledged commit."""

    states: list[tuple[int, State]] = field(default_factory=lambda: [(0, State())])

    def at(self, commit: int) -> State:
        """Return the state after the last commit up to this number."""
        return next(state for number, state in reversed(self.states) if number <= commit)

    @property
    def now(self) -> State:
        return self.states[-1][1]


class RecordedWriter(Writer):
    """A writer that remembers the state after each of its commits."""

    def __init__(self, database: Unattended, account: Account, history: History) -> None:
        super().__init__(database, account)
        self._history = history

    def _do(self, change: Change, operation: object) -> Sequence[int]:
        numbers = super()._do(change, operation)  # type: ignore[arg-type]
        self._history.states.append((self.database._journal.last_commit, self.account.state))
        return numbers


def backed_up(disk: Disk, directory: Path = BACKUP) -> tuple[Manifest | None, State]:
    """Return the backup's manifest, and what a reader finds in it."""
    found = manifest.read(disk, directory)
    if found is not None and not found.is_complete:
        with pytest.raises(BackupUnfinished):
            DatabaseView.open(directory, disk=disk)
        return found, State()
    with DatabaseView.open(directory, disk=disk) as view:
        return found, state_of(view)  # type: ignore[arg-type]


def check_backup(disk: Disk, history: History, directory: Path = BACKUP) -> Manifest:
    """Check that the backup holds exactly the state after the commit that it says it ends with."""
    found, state = backed_up(disk, directory)
    assert found is not None
    assert state == (history.at(found.tail.commit) if found.is_complete else State())
    return found


def run_backup(disk: SimulatedDisk, options: BackupOptions = COPIED) -> BackupReport:
    return back_up(SPOOL, BACKUP, options, disk=disk)


def grown(disk: SimulatedDisk, history: History, account: Account, rounds: int, seed: int) -> None:
    """Let an unattended database do its work, and leave it as a killed process does."""
    database = open_unattended(disk)
    workload(RecordedWriter(database, account, history), random.Random(seed), rounds=rounds)
