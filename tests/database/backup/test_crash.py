"""While a backup is made the machine stops at any change, or any call fails.

It is the one before or the new one, and the next one works. The sample stops it at every sixth change and has every
25th call fail, from the first one on; the rest has all others.
"""

from collections.abc import Iterator

import pytest

from oms_journal.database.backup.backup import BackupOptions
from oms_journal.journal.errors import DiskError
from oms_journal.journal.format import manifest
from oms_journal.journal.format.manifest import Manifest
from tests.support.crashes.backup_model import BACKUP, COPIED, LINKED, History, check_backup, grown, run_backup
from tests.support.crashes.crash_model import Account
from tests.support.disks.faulty_disk import VERBS, Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, for_each, in_three_sizes

SEEDS = 3  # of what a power cut keeps
WAYS = [pytest.param(COPIED, id="copied"), pytest.param(LINKED, id="linked")]


class Scene:
    """A database with a backup of an earlier state, and a disk that begins with both as often as wanted."""

    def __init__(self, options: BackupOptions, *, rounds: tuple[int, int] = (25, 25)) -> None:
        self.history = History()
        account = Account()
        disk = SimulatedDisk()
        grown(disk, self.history, account, rounds[0], seed=1)
        disk = disk.restart()
        self.before: Manifest | None = run_backup(disk, options).manifest if rounds[0] else None
        grown(disk, self.history, account, rounds[1], seed=2)
        self.disk = disk.restart()
        self.options = options

    def runs(self, share: Share) -> Iterator[SimulatedDisk]:
        """Yield the disk after a backup was ended before each of its changes in turn."""
        for kill_at in share.every(6, range(3, 10_000)):  # the first two make its directory and its lock file
            disk = self.disk.restart()
            disk.kill_at = disk.steps + kill_at
            try:
                run_backup(disk, self.options)
            except Killed:
                yield disk
                continue
            return


@a_sample(1, more=2)
@in_three_sizes
@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("is_first", [True, False])
def test_whenever_the_machine_stops_the_backup_is_the_one_before_or_the_new_one(
    options: BackupOptions, is_first: bool, share: Share
) -> None:
    scene = Scene(options, rounds=(0, 40) if is_first else (25, 25))
    ended = count = 0
    for disk in scene.runs(share):
        for after in [disk.restart(), *(disk.crash(seed) for seed in range(SEEDS))]:
            count += 1
            ended += _check(after, scene)
    is_enough = 0 < ended < count or (share is Share.MORE and count > 0)
    assert is_enough, "some end with the backup before, some with the new one"


@in_three_sizes
@for_each("options", WAYS)
@for_each("verb", sorted(VERBS - {"make_directory", "reserve", "truncate", "write_durably"}))
def test_whichever_call_fails_it_is_told_as_an_error_of_the_disk_or_does_no_harm(
    options: BackupOptions, verb: str, share: Share
) -> None:
    scene = Scene(options, rounds=(8, 8))
    for nth in share.every(50, range(1, 10_000)):
        disk = scene.disk.restart()
        disk.fail(verb, nth)
        try:
            run_backup(disk, options)
        except DiskError:
            assert disk.failed
        disk.faults.clear()
        _check(disk.restart(), scene)
        if not disk.failed:
            assert nth > 1 or (verb == "link" and options is COPIED)
            return


def _check(disk: SimulatedDisk, scene: Scene) -> bool:
    """Check the backup, and that the next one is whole; say whether the new one was there already."""
    is_new = False
    if scene.before is not None or manifest.read(disk, BACKUP) is not None:
        found = check_backup(disk, scene.history)
        is_new = found.is_complete and (scene.before is None or found.tail.commit > scene.before.tail.commit)
        assert found.is_complete or scene.before is None
    else:
        assert not [name for name in _names(disk) if name.endswith(".data")], "it would be taken for a database"
    report = run_backup(disk, scene.options)
    assert check_backup(disk, scene.history) == report.manifest
    assert report.manifest.tail.commit >= (scene.before.tail.commit if scene.before else 1)
    assert not report.damage
    return is_new


def _names(disk: SimulatedDisk) -> list[str]:
    try:
        return disk.list(BACKUP)
    except FileNotFoundError:
        return []
