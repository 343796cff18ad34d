"""A database from a backup: another one, whole or not at all, that delivers nothing twice by itself.

The sample kills at every fourth change and has every fourth call fail, from the first one on; the rest has all others.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from oms_journal import DatabaseView, Message, MessageDatabase
from oms_journal.database.backup.restore import RestoreReport
from oms_journal.database.bulk.locked import LockedView
from oms_journal.database.lookup import look_up
from oms_journal.journal import names
from oms_journal.journal.errors import DatabaseLocked, DiskError, RestoreRefused, RestoreUnfinished
from oms_journal.journal.lock import DirectoryLock
from oms_journal.recovery.startup import RecoveryOptions, start
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import SPOOL, Account, State, Unattended, Writer, state_of, workload
from tests.support.crashes.restored import BACKUP, BEGAN, NEW, backed_up, opened, restored
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

MINUTE = 60 * 1_000_000
DAY = 24 * 60 * MINUTE


@dataclass(slots=True)
class Made:
    """A disk with a backup, and what the database held when it was taken."""

    disk: SimulatedDisk
    state: State
    account: Account
    numbers: list[int]  # of the undelivered messages
    next_message: int
    owner: int
    commits: int


def made(seed: int = 1, *, closed: bool = False, rounds: int = 40) -> Made:
    disk = SimulatedDisk()
    database = opened(disk, SPOOL)
    account = Account()
    workload(Writer(database, account), random.Random(seed), rounds=rounds)
    database.vouch()
    found = Made(
        disk=disk,
        state=state_of(database),
        account=account,
        numbers=list(database.numbers()),
        next_message=database._journal.next_message,
        owner=database._ownership.number,
        commits=database._journal.last_commit,
    )
    if closed:
        database.close()
    backed_up(disk)
    return found


def held(database: MessageDatabase) -> list[int]:
    return [message.number for message in database.held()]


def test_what_was_undelivered_is_there_unchanged_and_all_of_it_held() -> None:
    was = made()
    before = was.disk.contents(BACKUP)

    report = restored(was.disk)

    assert was.disk.contents(BACKUP) == before, "the backup is only read"
    assert report.intact
    assert not report.was_closed
    assert report.undelivered == report.held == len(was.numbers) > 10
    with DatabaseView.open(BACKUP, disk=was.disk) as old, opened(was.disk, NEW, at=BEGAN + DAY) as database:
        assert database.recovery.intact, "a start has nothing to repair"
        assert list(database.undelivered()) == []
        assert held(database) == was.numbers
        assert database.take("many") is None
        assert [(m.number, m.queue, m.payload, m.properties, m.producer_id, m.added_us) for m in database.held()] == [
            (m.number, m.queue, m.payload, m.properties, m.producer_id, m.added_us) for m in old.undelivered()
        ]
        assert database.unhold() == len(was.numbers)
        assert state_of(database) == was.state


def test_nothing_is_held_where_the_database_was_closed_before() -> None:
    was = made(closed=True)

    report = restored(was.disk)

    assert (report.was_closed, report.held, report.undelivered) == (True, 0, len(was.numbers))
    with opened(was.disk, NEW) as database:
        assert state_of(database) == was.state
        assert held(database) == []


def test_a_database_that_was_closed_and_opened_again_may_have_delivered_what_its_backup_has() -> None:
    was = made(closed=True)
    with opened(was.disk, SPOOL, at=BEGAN + DAY) as again:
        again.deliver(was.numbers[0])

    report = restored(was.disk)

    assert (report.was_closed, report.went_on, report.held) == (True, True, len(was.numbers))
    with opened(was.disk, NEW) as database:
        assert held(database) == was.numbers


def test_whoever_knows_that_it_was_opened_elsewhere_has_all_of_it_held() -> None:
    was = made(closed=True)

    report = restored(was.disk, hold=True)

    assert (report.was_closed, report.went_on, report.held) == (True, False, len(was.numbers))


def test_it_is_another_database_and_gives_no_number_that_its_parent_or_a_sibling_gives() -> None:
    was = made()
    reports = [restored(was.disk, new=Path(f"/new{seed}"), seed=seed) for seed in (1, 2, 3)]

    first = []
    sequences = set()
    for report in reports:
        assert len({report.parent, *(one.database for one in reports)}) == 4
        disk, directory = was.disk, Path(report.directory)
        with opened(disk, directory) as database:
            assert database._ownership.number >= was.owner + (1 << 20)
            assert database._journal._opening.parent.hex() == report.parent
            first.append(database.add("q", b"new"))
            assert database._journal.last_commit >= was.commits + (1 << 20)
            sequence = database._journal.active_sequence
            assert sequence is not None and sequence >= (1 << 20)
            sequences.add(sequence)
    assert min(first) >= was.next_message + (1 << 40)
    assert min(abs(a - b) for a in first for b in first if a != b) > 1 << 20
    assert len(sequences) == 3


def test_what_was_held_at_the_backup_stays_held_whether_it_was_closed_or_not() -> None:
    for closed in (False, True):
        was = made()
        restored(was.disk)
        with opened(was.disk, NEW) as database:
            database.unhold(was.numbers[3:])
            if not closed:
                backed_up(was.disk, NEW, Path("/backup2"))
        if closed:
            backed_up(was.disk, NEW, Path("/backup2"))
        restored(was.disk, Path("/backup2"), Path("/newer"), seed=2)
        with opened(was.disk, Path("/newer")) as database:
            assert held(database) == (was.numbers[:3] if closed else was.numbers)


def test_a_resend_of_what_was_sent_before_the_backup_gets_the_first_answer_however_long_the_machine_was_gone() -> None:
    disk = SimulatedDisk()
    with opened(disk, SPOOL) as database:
        assert isinstance(database, Unattended)
        old = database.add("q", b"old", producer_id="old")
        gone = database.add("q", b"gone", producer_id="gone")
        several = database.add_many("many", [b"a", b"b"], producer_id="several")
        database.deliver(gone)
        database.vouch()
        backed_up(disk, at=BEGAN + 50 * MINUTE)
    away = BEGAN + 300 * DAY
    restored(disk, at=away)

    with opened(disk, NEW, at=away + 9 * MINUTE) as database:
        assert database.add("q", b"old", producer_id="old") == old
        assert database.add("q", b"gone", producer_id="gone") == gone
        assert database.add_many("many", [b"a", b"b"], producer_id="several") == several
        database.cleanup(compact=True)
    with opened(disk, NEW, at=away + 9 * MINUTE) as database:
        assert database.add("q", b"old", producer_id="old") == old, "and still after a clean-up and a start"
    with opened(disk, NEW, at=away + 11 * MINUTE) as database:
        assert database.add("q", b"old", producer_id="old") > old, "the hour is over, without the time of absence"


def test_what_is_sent_again_after_the_restore_counts_from_then() -> None:
    disk = SimulatedDisk()
    with opened(disk, SPOOL) as database:
        assert isinstance(database, Unattended)
        first = database.add("q", b"x", producer_id="p")
        database.vouch()
        backed_up(disk, at=BEGAN + 10 * MINUTE)
    away = BEGAN + DAY
    restored(disk, at=away)
    with opened(disk, NEW, at=away + 55 * MINUTE) as database:
        second = database.add("q", b"x", producer_id="p")
        assert second > first
    with opened(disk, NEW, at=away + 100 * MINUTE) as database:
        assert database.add("q", b"x", producer_id="p") == second


@pytest.mark.parametrize("size", [700, 2600], ids=["mark in the file being written", "mark in a new file"])
def test_what_clean_up_had_carried_forward_is_restored_though_nothing_vouches_for_it_yet(size: int) -> None:
    disk = SimulatedDisk()
    database = opened(disk, SPOOL)
    first = database.add("q", b"sent once", producer_id="order-1")
    while len(disk.list(SPOOL)) < 8:
        database.deliver(database.add("q", bytes(size)))
        database.vouch()
    database.deliver(first)
    database.vouch()
    assert database.cleanup().deleted
    assert database._journal.needs_vouching, "the mark, and what was carried forward, are in the last group"
    backed_up(disk.crash(1))  # no frame comes any more
    left = backed_up(disk)  # nor has it come yet
    for one in (left, disk.crash(1)):
        restored(one)
        with opened(one, NEW) as again:
            assert again.add("q", b"sent once", producer_id="order-1") == first


@pytest.mark.whole
def test_it_goes_on_like_any_database_through_starts_clean_ups_and_further_restores() -> None:
    was = made()
    disk, backup, new = was.disk, BACKUP, NEW
    for generation in range(2, 6):
        restored(disk, backup, new, seed=generation)
        with opened(disk, new) as database:
            assert isinstance(database, Unattended)
            assert held(database) == was.numbers
            assert database.unhold() == len(was.numbers)
            assert state_of(database) == was.state
            added = [database.add("q", b"later" * 200) for _ in range(12)]
            database.deliver_many(added)
            if generation == 4:
                database.cleanup(compact=True)
            database.vouch()
            backup = Path(f"/backup{generation}")
            backed_up(disk, new, backup)
        with opened(disk, new) as database:
            assert database.recovery.intact
            assert state_of(database) == was.state
        assert all(one.verdict == "clean" for one in validate_directory(new, disk))
        new = Path(f"/new{generation}")


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("closed", [False, True])
def test_killed_or_cut_off_at_any_change_it_is_whole_or_unfinished_and_can_be_repeated(
    closed: bool, share: Share
) -> None:
    whole = made(rounds=12, closed=closed)
    before = whole.disk.steps
    restored(whole.disk)
    count = whole.disk.steps - before
    assert count > 20
    outcomes = set()
    for step in share.of(range(1, count + 1), count // 8):
        was = made(rounds=12, closed=closed)
        was.disk.kill_at = was.disk.steps + step
        with pytest.raises(Killed):
            restored(was.disk)
        for left in (was.disk.restart(), was.disk.crash(step), was.disk.crash(1000 + step)):
            outcomes.add(_check_whole_or_unfinished(left, was, closed=closed))
    assert outcomes == {"nothing", "unfinished", "whole"} or share is not Share.SAMPLE


def _check_whole_or_unfinished(disk: SimulatedDisk, was: Made, *, closed: bool) -> str:
    if NEW not in disk._directories or set(disk.list(NEW)) <= {names.LOCK, "omsmsg.restore.new"}:
        outcome = "nothing"
    elif names.RESTORE in disk.list(NEW):
        outcome = "unfinished"
        before = disk.contents(NEW)
        for look in (
            lambda: opened(disk, NEW),
            lambda: DatabaseView.open(NEW, disk=disk),
            lambda: look_up(NEW, 1, disk=disk),
            lambda: validate_directory(NEW, disk),
            lambda: LockedView.open(NEW, disk=disk),
        ):
            with pytest.raises(RestoreUnfinished, match="run `oms restore` again"):
                look()
        assert disk.contents(NEW) == before
    else:
        outcome = "whole"
    if outcome != "whole":
        restored(disk, seed=2)
    with opened(disk, NEW) as database:
        assert held(database) == ([] if closed else was.numbers)
        database.unhold()
        assert state_of(database) == was.state
        assert database.add("q", b"new") >= was.next_message + (1 << 40)
    with DatabaseView.open(BACKUP, disk=disk) as view:
        assert state_of(view) == was.state  # type: ignore[arg-type]
    return outcome


@a_sample(2, more=6)
@in_three_sizes
@pytest.mark.parametrize(
    "verb", ["create", "write", "sync", "rename", "sync_directory", "unlink", "open", "read", "list", "lock_write"]
)
def test_a_verb_that_fails_once_anywhere_fails_the_restore_or_is_got_over_and_it_can_be_repeated(
    verb: str, share: Share
) -> None:
    failed = 0
    for nth in share.every(8, range(1, 400)):
        was = made(rounds=6)
        was.disk.fail(verb, nth)
        try:
            restored(was.disk)
        except (DiskError, OSError) as failure:
            assert isinstance(failure, DiskError), failure
            failed += 1
            assert was.disk.failed
            restored(was.disk, seed=2)
        was.disk.faults.clear()
        assert _check_whole_or_unfinished(was.disk, was, closed=False) == "whole"
        if not was.disk.failed:
            assert failed
            return
    raise AssertionError("a restore without the fault comes at last")


def test_a_full_disk_fails_the_restore_and_with_room_it_can_be_repeated() -> None:
    was = made()
    used = was.disk.used()
    for room in (0, 1000, 5000, 10_000):
        was.disk.space = used + room
        with pytest.raises(DiskError, match="No space left"):
            restored(was.disk)
    was.disk.space = None
    restored(was.disk, seed=2)
    assert _check_whole_or_unfinished(was.disk, was, closed=False) == "whole"


# Damage.


@pytest.mark.whole
def test_a_backup_that_rotted_anywhere_is_restored_as_far_as_it_can_be_and_says_so() -> None:
    was = made(rounds=20)
    chance = random.Random(4)
    files = [name for name in was.disk.contents(BACKUP) if name.endswith(".data")]
    with DatabaseView.open(SPOOL, disk=was.disk) as view:
        whole = {message.number: message for message in view.undelivered()}
    for name in files:
        size = len(was.disk.content(BACKUP / name))
        for at in sorted(chance.sample(range(size), 12)):
            disk = was.disk.restart()
            data = bytearray(disk.content(BACKUP / name))
            data[at] ^= 1 << chance.randrange(8)
            disk.put(BACKUP / name, bytes(data))
            report = restored(disk)
            assert report.changed == (name,), (name, at)
            assert not report.intact
            _check_part(disk, whole, report)


@pytest.mark.whole
def test_a_file_that_is_gone_or_cut_is_a_loss_and_all_else_is_there() -> None:
    was = made()
    with DatabaseView.open(SPOOL, disk=was.disk) as view:
        whole = {message.number: message for message in view.undelivered()}
    for name in [name for name in was.disk.contents(BACKUP) if name.endswith(".data")]:
        for size in (None, 0, 100, 800, 1000):
            disk = was.disk.restart()
            if size is None:
                disk.remove(BACKUP / name)
            else:
                disk.put(BACKUP / name, disk.content(BACKUP / name)[:size])
            report = restored(disk)
            assert name in report.changed
            assert not report.intact
            _check_part(disk, whole, report)


def _check_part(disk: SimulatedDisk, whole: dict[int, Message], report: RestoreReport) -> None:
    with opened(disk, NEW) as database:
        assert database.recovery.intact, "what was damaged is repaired"
        assert list(database.undelivered()) == [], "all is held, what damage may have brought back too"
        for message in database.held():
            known = whole.get(message.number)
            assert known is None or message.payload == known.payload
        lost = set(whole) - set(held(database))
        assert not lost or report.recovery.lost
        assert database.add("q", b"new") > max(whole) + (1 << 40)


def test_what_the_backups_device_cannot_read_stops_it_or_is_given_up_on_request() -> None:
    was = made()
    name = next(name for name in was.disk.contents(BACKUP) if name.endswith(".data"))
    was.disk.make_unreadable(BACKUP / name, 5000, 5001)
    with pytest.raises(DiskError):
        restored(was.disk)
    report = restored(was.disk, unreadable_as_damaged=True)
    assert report.changed == (name,)
    assert report.recovery.lost


# What is refused.


def test_what_is_no_finished_backup_is_refused_and_nothing_is_made() -> None:
    disk = SimulatedDisk()
    disk.make_directory(BACKUP)
    with pytest.raises(RestoreRefused, match="is no backup"):
        restored(disk)
    opened(disk, SPOOL).close()
    with pytest.raises(RestoreRefused, match="is no backup"):
        restored(disk, SPOOL)
    with pytest.raises(RestoreRefused, match="is no backup"):
        restored(disk, Path("/nowhere"))
    assert NEW not in disk._directories


@pytest.mark.parametrize("entry", ["notes.txt", "omsmsg-0000000001.data", "omsmsg.index", "omsmsg.backup"])
def test_a_directory_that_is_not_empty_is_refused_and_stays_as_it_is(entry: str) -> None:
    was = made(rounds=4)
    was.disk.put(NEW / entry, b"x")
    with pytest.raises(RestoreRefused, match="not empty"):
        restored(was.disk)
    assert was.disk.contents(NEW) == {entry: b"x"}


def test_a_restore_does_not_go_over_a_database_nor_twice_into_one_directory() -> None:
    was = made(rounds=4)
    restored(was.disk)
    before = was.disk.contents(NEW)
    for new in (NEW, SPOOL, BACKUP, BACKUP / "new", BACKUP.parent):
        with pytest.raises(RestoreRefused):
            restored(was.disk, new=new)
    assert was.disk.contents(NEW) == before


def test_beside_another_restore_into_the_same_directory_it_is_locked_out() -> None:
    was = made(rounds=4)
    was.disk.make_directory(NEW)
    was.disk.put(NEW / names.RESTORE, b"")
    with_lock = DirectoryLock.acquire(was.disk, NEW)
    with pytest.raises(DatabaseLocked):
        restored(was.disk)
    with_lock.close()
    restored(was.disk)


def test_a_stranger_in_an_unfinished_restore_is_not_removed() -> None:
    was = made(rounds=4)
    was.disk.make_directory(NEW)
    was.disk.put(NEW / names.RESTORE, b"")
    was.disk.put(NEW / "notes.txt", b"mine")
    with pytest.raises(RestoreRefused):
        restored(was.disk)
    assert was.disk.content(NEW / "notes.txt") == b"mine"


def test_a_start_that_is_told_to_recover_only_says_it_too() -> None:
    disk = SimulatedDisk()
    disk.make_directory(NEW)
    disk.put(NEW / names.RESTORE, b"")
    with pytest.raises(RestoreUnfinished):
        start(disk, NEW, RecoveryOptions())
    assert disk.list(NEW) == [names.RESTORE]
