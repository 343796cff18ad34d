"""A backup that follows its database: through rolls, clean-up, restarts and failures, on a simulated disk."""

import errno
import random
from collections.abc import Iterator

import pytest

from oms_journal.database.backup.backup import Backup, BackupOptions
from oms_journal.database.backup.follow import Follower, Shipped
from oms_journal.journal.errors import BehindItsBackup
from oms_journal.journal.format import manifest
from tests.support.crashes.backup_model import BACKUP, COPIED, History, RecordedWriter, check_backup
from tests.support.crashes.crash_model import SPOOL, Account, Unattended, open_unattended, state_of, workload
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes, split


class Scene:
    """A database that works, and a follower beside it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.history = History()
        self.account = Account()
        self.chance = random.Random(1)
        self.database = open_unattended(self.disk)
        self.follower = self.begun()

    def begun(self, options: BackupOptions = COPIED) -> Follower:
        self.backup = Backup.open(SPOOL, BACKUP, options, disk=self.disk)
        return Follower(self.backup, options)

    @property
    def writer(self) -> RecordedWriter:
        return RecordedWriter(self.database, self.account, self.history)

    def works(self, rounds: int = 5) -> None:
        workload(self.writer, self.chance, rounds=rounds)

    def restarts(self) -> None:
        self.database.close()
        self.database = open_unattended(self.disk)

    def check(self) -> None:
        check_backup(self.disk, self.history, BACKUP)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.backup.close()


def test_what_is_vouched_for_is_shipped_by_the_next_poll(scene: Scene) -> None:
    for number in range(30):
        scene.writer.add("q", b"%d" % number)
        scene.database.vouch()
        shipped = scene.follower.poll()
        found = check_backup(scene.disk, scene.history)
        assert shipped.is_new and shipped.manifest == found
        assert scene.history.at(found.tail.commit) == scene.history.now
        assert shipped.lag_seconds == 0


def test_what_nothing_vouches_for_waits_and_its_age_is_the_lag(scene: Scene) -> None:
    scene.writer.add("q", b"first")
    scene.database.vouch()
    scene.follower.poll()
    scene.writer.add("q", b"second")

    shipped = scene.follower.poll()

    assert shipped.lag_seconds > 0
    scene.writer.add("q", b"third")
    scene.database.vouch()
    assert scene.follower.poll().lag_seconds == 0


def test_while_nothing_comes_nothing_is_written(scene: Scene) -> None:
    scene.works()
    scene.database.vouch()
    scene.follower.poll()
    before = scene.disk.steps
    for _ in range(100):
        shipped = scene.follower.poll()
        assert not shipped.is_new and not shipped.bytes
    assert scene.disk.steps == before


@pytest.mark.whole
@pytest.mark.parametrize("rounds", split([3, 20], rest=[1, 2, 7]))
def test_it_goes_on_through_rolls_clean_up_and_restarts(scene: Scene, rounds: int) -> None:
    for turn in range(100 // rounds):
        scene.works(rounds)
        if turn % 7 == 6:
            scene.restarts()
        scene.follower.poll()
        if manifest.read(scene.disk, BACKUP) is not None:
            scene.check()
    scene.database.close()
    for _ in range(3):
        shipped = scene.follower.poll()
    found = check_backup(scene.disk, scene.history)
    assert found == shipped.manifest and found.was_closed
    assert scene.history.at(found.tail.commit) == scene.history.now


def test_only_what_is_new_is_read_and_written(scene: Scene) -> None:
    scene.database.close()
    scene.database = open_unattended(scene.disk, max_data_file_size=1 << 20)
    scene.works(20)
    scene.follower.poll()
    for number in range(20):
        scene.writer.add("q", b"%d" % number)
        reads, opens = scene.disk.calls["read"], scene.disk.calls["open"]
        shipped = scene.follower.poll()
        assert shipped.report is None and 0 < shipped.bytes < 500
        assert scene.disk.calls["read"] - reads <= 3 and scene.disk.calls["open"] - opens <= 3
    scene.check()


def test_a_follower_that_comes_late_says_that_it_begins_anew(scene: Scene) -> None:
    scene.works(3)
    scene.follower.poll()
    for number in list(scene.database.numbers()):
        scene.writer.deliver(number)
    for _ in range(30):
        scene.writer.deliver(scene.writer.add("q", bytes(900)))
    scene.database.cleanup(compact=True)
    scene.works(3)

    shipped = scene.follower.poll()

    assert shipped.report is not None and shipped.report.fell_behind
    scene.check()


def test_another_follower_goes_on_where_the_last_one_ended(scene: Scene) -> None:
    for _ in range(10):
        scene.works(4)
        scene.follower.poll()
        scene.backup.close()
        scene.follower = scene.begun()
        scene.check()
    scene.follower.poll()
    scene.check()


@a_sample(2, more=4)
@pytest.mark.parametrize("verb", ["create", "write", "sync", "rename", "sync_directory", "open", "read", "unlink"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=lambda code: errno.errorcode[code])
def test_what_fails_once_is_told_and_done_by_a_later_poll(scene: Scene, verb: str, code: int) -> None:
    told: list[Shipped] = []
    for nth in range(1, 30):
        scene.works(2)
        scene.database.vouch()
        scene.disk.fail(verb, nth, code)
        told.append(scene.follower.poll())
        scene.disk._calls.faults.clear()
        if manifest.read(scene.disk, BACKUP) is not None:
            scene.check()
    assert any(shipped.failure for shipped in told) or verb in ("open", "read", "unlink")
    shipped = scene.follower.poll()
    assert shipped.failure is None
    assert scene.history.at(check_backup(scene.disk, scene.history).tail.commit) == scene.history.now


def test_a_database_that_has_gone_back_ends_it(scene: Scene) -> None:
    scene.works(5)
    old = scene.disk.contents(SPOOL)
    scene.works(10)
    scene.follower.poll()
    for name in scene.disk.contents(SPOOL):
        scene.disk.remove(SPOOL / name)
    for name, data in old.items():
        scene.disk.put(SPOOL / name, data)

    with pytest.raises(BehindItsBackup):
        for _ in range(50):
            scene.follower.poll()
    scene.check()


@in_three_sizes
def test_killed_at_any_change_the_backup_is_one_that_was_or_the_next(share: Share) -> None:
    scene = Scene()
    for turn in range(3):
        scene.works(3)
        scene.follower.poll()
        before = check_backup(scene.disk, scene.history)
        scene.works(3)
        base = scene.disk.restart()
        for kill_at in share.every(10, range(1, 1000)):
            disk = base.restart()
            disk.kill_at = disk.steps + kill_at
            follower = _at(disk, scene)
            try:
                if follower is not None:
                    follower.poll()
                    break
            except Killed:
                pass
            for after in (disk.restart(), disk.crash(turn), disk.crash(turn + 100)):
                found = check_backup(after, scene.history)
                assert found.tail.commit >= before.tail.commit
                restarted = _at(after, scene)
                assert restarted is not None and restarted.poll().failure is None
                check_backup(after, scene.history)


def _at(disk: SimulatedDisk, scene: Scene) -> Follower | None:
    try:
        return Follower(Backup.open(SPOOL, BACKUP, COPIED, disk=disk), COPIED)
    except Killed:
        return None


@pytest.mark.whole
def test_a_crash_of_the_database_costs_the_backup_nothing() -> None:
    scene = Scene()
    for turn in range(20):
        scene.works(4)
        scene.follower.poll()
        scene.check()
        scene.backup.close()
        scene.disk = scene.disk.crash(turn)
        scene.database = open_unattended(scene.disk)
        found = state_of(scene.database)
        assert scene.account.allows(found)
        scene.account = Account(state=found, highest=scene.database._journal.next_message)
        scene.history.states.append((scene.database._journal._opening.next_commit - 1, found))
        scene.chance = random.Random(turn)
        _again(scene.database)
        scene.follower = scene.begun()
        scene.follower.poll()
        scene.check()


def _again(database: Unattended) -> None:
    """Let the clean-up that a start does be over."""
    database.maintain()
