"""What a start has found lost is told, also when that start does not come to its end after a repair."""

import contextlib
import errno
from functools import cache

import pytest

from oms_journal import JournalError
from oms_journal.journal import names
from oms_journal.journal.reserve import Reserve
from oms_journal.recovery import findings
from oms_journal.recovery.findings import EarlierFindings
from oms_journal.recovery.numbering import NumberFloor
from oms_journal.recovery.report import Loss, RecoveryReport
from oms_journal.recovery.startup import recover
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.crashes.crash_store import Store, small_store
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import for_each

SEALED = small_store()
LOSS = Loss(name="omsmsg-0000000001.data", start=4352, end=4500, reason="zeros", numbers=((1, 3),), queues=("q",))


def rotten(store: Store = SEALED) -> SimulatedDisk:
    """Return the store with one bit wrong in a frame of each file."""
    disk = store.disk()
    for name in store.data_files():
        data = bytearray(store.files[name])
        data[store.frames_of(name)[1].offset + 40] ^= 1
        disk.put(SPOOL / name, bytes(data))
    return disk


def with_rotted_note(disk: SimulatedDisk, damage: int = 0) -> SimulatedDisk:
    """Have in the store a note of which one byte is wrong."""
    findings.note(disk, SPOOL, NOTHING, EarlierFindings((LOSS,)), lambda _: False)
    data = bytearray(disk.content(SPOOL / names.FOUND))
    data[damage % len(data)] ^= 1
    disk.put(SPOOL / names.FOUND, bytes(data))
    return disk


def told(disk: SimulatedDisk) -> RecoveryReport:
    with open_unattended(disk) as database:
        return database.recovery


NOTHING = EarlierFindings()


@cache
def expected() -> RecoveryReport:
    return told(rotten())


@pytest.mark.whole
@pytest.mark.parametrize("how", ["killed", "power cut", "a call fails", "full"])
def test_it_is_told_by_the_next_start_wherever_the_first_one_ended(how: str) -> None:
    assert len(expected().lost) == len(SEALED.data_files())
    last_but_one = 0
    for step in range(1, 1000):
        disk = rotten()
        if how in ("killed", "power cut"):
            disk.kill_at = step
        else:
            disk.fail("write", step, errno.ENOSPC if how == "full" else errno.EIO)
        reports: list[RecoveryReport] = []
        is_ended = False
        was_last = False
        try:
            with contextlib.suppress(JournalError), open_unattended(disk) as database:
                reports.append(database.recovery)
                is_ended = True
        except Killed as where:
            was_last = str(where).startswith("sync_directory") and names.FOUND not in disk.restart().contents(SPOOL)
        if is_ended and not disk.failed and not disk.is_dead:
            assert step > 3
            assert names.FOUND not in disk.contents(SPOOL)
            return
        if was_last and not reports:
            assert step == last_but_one + 1, "of all calls of a start this alone is between the note and its caller"
            continue
        last_but_one = step if not reports else last_but_one
        if not reports:
            reports.append(told(disk.crash(step) if how == "power cut" else disk.restart()))
        assert set(reports[0].lost) == set(expected().lost), step
        assert reports[0].suspects == expected().suspects
    raise AssertionError("it comes to its end at last")


def test_a_report_is_handed_over_though_the_directory_cannot_be_synced() -> None:
    """The note is gone by then: with an error in the report's place nobody would ever be told."""
    disk = SEALED.disk()
    findings.note(disk, SPOOL, NOTHING, EarlierFindings((LOSS,)), lambda _: False)
    disk.fail("sync_directory", 1, errno.EIO)
    findings.handed_over(disk, SPOOL, NumberFloor())
    assert disk.failed
    assert findings.noted(disk, SPOOL) == NOTHING


@pytest.mark.parametrize("odd", [0, 1, 511])
def test_it_is_noted_on_a_full_disk_with_what_the_reserve_gives_back(odd: int) -> None:
    disk = SEALED.disk()
    disk.put(SPOOL / names.RESERVE, bytes(3 * (1 << 16) + odd))
    disk.space = disk.used()
    findings.note(disk, SPOOL, NOTHING, EarlierFindings((LOSS,)), Reserve(disk, SPOOL, 1 << 18).release)
    assert findings.noted(disk, SPOOL) == EarlierFindings((LOSS,))


def test_it_is_told_once() -> None:
    disk = rotten()
    assert told(disk).lost == expected().lost
    assert told(disk).intact


def test_whoever_only_recovers_has_been_told_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("spool")
    for name, data in rotten().contents(SPOOL).items():
        (directory / name).write_bytes(data)
    assert recover(directory, dry_run=True).lost == expected().lost
    assert recover(directory).lost == expected().lost
    assert recover(directory).intact


def test_what_was_noted_and_is_found_again_is_told_once_and_new_damage_beside_it_too() -> None:
    elsewhere = Loss(name=LOSS.name, start=4600, end=4700, reason="zeros")
    again = Loss(name=LOSS.name, start=4300, end=4600, reason="more of it")
    assert findings.together([LOSS], [LOSS, elsewhere]) == (LOSS, elsewhere)
    assert findings.together([again], [LOSS, elsewhere]) == (again, elsewhere)
    other = Loss(name="omsmsg-0000000002.data", start=4352, end=4500, reason="zeros")
    assert findings.together([other], [LOSS]) == (other, LOSS)


def test_a_loss_comes_back_as_it_was_noted() -> None:
    disk = SimulatedDisk()
    disk.make_directory(SPOOL)
    assert findings.noted(disk, SPOOL) == NOTHING
    findings.note(disk, SPOOL, NOTHING, EarlierFindings((LOSS,)), lambda _: False)
    assert findings.noted(disk, SPOOL) == EarlierFindings((LOSS,))
    findings.handed_over(disk, SPOOL, NumberFloor())
    assert findings.noted(disk, SPOOL) == NOTHING


@pytest.mark.whole
@for_each("damage", range(0, 300, 7))
def test_a_note_that_rotted_is_told_of_and_stops_nobody(damage: int) -> None:
    disk = with_rotted_note(SEALED.disk(), damage)
    assert findings.UNREADABLE in told(disk).notes
    assert findings.UNREADABLE not in told(disk).notes


@pytest.mark.parametrize("damage", [0, 20], ids=["checksum", "text"])
def test_the_numbers_that_a_rotted_note_told_are_not_given_again(damage: int) -> None:
    disk, kept = SEALED.disk(), NumberFloor(next_message=1 << 39, next_commit=1 << 39)
    findings.note(disk, SPOOL, NOTHING, EarlierFindings(numbers=kept), lambda _: False)
    data = bytearray(disk.content(SPOOL / names.FOUND))
    data[damage] ^= 1
    disk.put(SPOOL / names.FOUND, bytes(data))
    for _ in range(2):  # the second one finds a note that can be read again
        with open_unattended(disk) as database:
            assert database._journal._opening.next_commit >= kept.next_commit
    with open_unattended(disk) as database:
        assert database.add("q", b"") >= kept.next_message


@pytest.mark.whole
def test_a_note_that_rotted_is_told_of_though_another_start_has_found_more_and_was_killed() -> None:
    for step in range(1, 1000):
        disk = with_rotted_note(rotten()).restart()
        disk.kill_at = step
        with contextlib.suppress(Killed):
            told(disk)
        was_handed_over = not findings.noted(disk.restart(), SPOOL).tells
        if was_handed_over:
            assert step > 10
            return
        report = told(disk.restart())
        assert findings.UNREADABLE in report.notes and set(report.lost) == set(expected().lost), step
    raise AssertionError("it comes to its end at last")
