"""What is lost as a whole, and at the end: the lock file says which data file must be there, and after a close its end.

Also who must not be fooled by that: whoever takes over, copies, backs up, restores, or opens again what has failed.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.backup.backup import back_up
from oms_journal.database.backup.restore import restore
from oms_journal.database.bulk.locked import LockedView
from oms_journal.database.database import Reopening
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.startup import RecoveryOptions, recover
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import (
    SMALL,
    SPOOL,
    State,
    Unattended,
    forget_witness,
    found_after,
    open_unattended,
    state_of,
)
from tests.support.crashes.crash_store import headers_of, small_store
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, in_three_sizes, in_two_sizes

FIRST_FILE = str(DataFileName(1))


def closed(messages: int = 5, size: int = 10) -> SimulatedDisk:
    """Return the disk of a database that was closed, of one file where that is enough."""
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        for number in range(messages):
            database.add("q", bytes([number + 1]) * size)
    return disk


def left(messages: int = 5, size: int = 10) -> SimulatedDisk:
    """Return the disk of a database whose process was killed."""
    disk = SimulatedDisk()
    database = open_unattended(disk)
    for number in range(messages):
        database.add("q", bytes([number + 1]) * size)
    return disk.restart()


def data_files(disk: SimulatedDisk) -> list[str]:
    """Return the data files that hold something."""
    return [name for name, data in disk.contents(SPOOL).items() if name.endswith(".data") and any(data)]


def losses(disk: SimulatedDisk) -> list[str]:
    """Return the files that validation says are lost or damaged, and check that it looks the same to a start."""
    found = [report.name for report in validate_directory(SPOOL, disk) if report.verdict is Verdict.DAMAGED]
    with open_unattended(disk.restart()) as database:
        assert sorted({loss.name for loss in database.recovery.lost}) == found
    return found


# What is told.


@pytest.mark.parametrize("made", [closed, left])
@pytest.mark.parametrize("content", [None, b"", bytes(SMALL)], ids=["gone", "emptied", "zeros"])
def test_an_only_file_that_is_gone_or_emptied_is_lost(made: Callable[[], SimulatedDisk], content: bytes | None) -> None:
    disk = made()
    database_before = headers_of(disk.content(SPOOL / FIRST_FILE)).database
    disk.remove(SPOOL / FIRST_FILE) if content is None else disk.put(SPOOL / FIRST_FILE, content)
    assert losses(disk) == [FIRST_FILE]
    with open_unattended(disk) as database:
        assert state_of(database) == State()
        assert database.add("q", b"new") > 5
        assert database._journal.database == database_before
    found_after(disk)


@in_three_sizes
def test_a_closed_file_that_is_cut_anywhere_has_lost_what_it_lacks(share: Share) -> None:
    whole = closed()
    data, state = whole.content(SPOOL / FIRST_FILE), found_after(whole)
    witness = read_witness(whole, SPOOL)
    assert witness is not None
    for size in share.of(range(0, witness.last.end, 8), 40):
        disk = whole.restart()
        disk.put(SPOOL / FIRST_FILE, data[:size])
        assert losses(disk) == [FIRST_FILE], size
        with open_unattended(disk) as database:
            kept = state_of(database).messages
            assert kept == {number: state.messages[number] for number in kept}
        found_after(disk)
    for size in share.of(range(witness.last.end, len(data), 64), 12):
        disk = whole.restart()
        disk.put(SPOOL / FIRST_FILE, data[:size])
        with open_unattended(disk) as database:
            assert state_of(database) == state


def test_a_closed_file_without_a_header_and_a_footer_is_read_all_the_same() -> None:
    disk = closed()
    state, data = found_after(disk.restart()), disk.content(SPOOL / FIRST_FILE)
    witness = read_witness(disk, SPOOL)
    assert witness is not None
    start = FRAMES_AT
    disk.put(SPOOL / FIRST_FILE, bytes(start) + data[start : witness.last.end])
    with open_unattended(disk) as database:
        assert not database.recovery.lost
        assert state_of(database) == state


def test_the_first_group_of_a_file_that_is_open_is_lost_when_it_is_torn_and_later_ones_cannot_be_told() -> None:
    whole = left()
    data = whole.content(SPOOL / FIRST_FILE)
    start = FRAMES_AT
    for size in range(start, start + 96, 8):
        disk = whole.restart()
        disk.put(SPOOL / FIRST_FILE, data[:size].ljust(len(data), b"\0"))
        assert losses(disk) == [FIRST_FILE], size
    disk = whole.restart()
    disk.put(SPOOL / FIRST_FILE, data[: start + 104].ljust(len(data), b"\0"))
    assert not losses(disk)


def test_a_file_that_only_a_footer_names_is_lost_also_where_another_is_prepared_behind_it() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    while database._journal.active_sequence != 2:
        database.add("q", bytes(1000))
    database.maintain()
    disk = forget_witness(disk.restart())
    second = str(DataFileName(2))
    disk.put(SPOOL / str(DataFileName(3)), bytes(SMALL))
    disk.remove(SPOOL / second)
    assert losses(disk) == [second]
    with open_unattended(disk) as again:
        assert again.add("q", b"new") > 4
    found_after(disk)


@in_three_sizes
def test_every_file_that_had_an_answer_is_missed_when_it_is_gone_and_the_power_with_it(share: Share) -> None:
    """The process ends before any change of its work, the power goes, and the newest file that was answered is gone."""
    for step in share.every(7, range(1, 1000)):
        disk = SimulatedDisk()
        disk.make_directory(SPOOL)
        disk.kill_at = step + 1
        answered: str | None = None
        try:
            with open_unattended(disk) as database:
                for _ in range(8):
                    database.add("q", bytes(1500))
                    answered = str(DataFileName(database._journal.active_sequence or 0))
        except Killed:
            after = disk.crash(step)
            assert not losses(after), step
            if answered is None or answered not in after.list(SPOOL):
                continue
            later = [name for name in data_files(after) if name > answered]
            for name in [answered, *later]:
                after.remove(SPOOL / name)
            assert losses(after), (step, answered)
            continue
        return
    raise AssertionError("it comes to its end at last")


# What is not told, since it is no loss, or nobody knows.


def test_without_a_lock_file_nothing_is_missed() -> None:
    disk = closed()
    disk.remove(SPOOL / FIRST_FILE)
    disk.remove(SPOOL / names.LOCK)
    disk.put(SPOOL / names.INDEX, b"")
    assert not losses(disk)


def test_a_witness_of_a_lower_owner_than_a_files_is_ignored() -> None:
    disk = closed()
    lock = disk.content(SPOOL / names.LOCK)
    with open_unattended(disk) as database:
        database.add("q", b"in the next file")
    later = disk.content(SPOOL / names.LOCK)
    disk.put(SPOOL / names.LOCK, later[:4096] + lock[4096:])
    assert not losses(disk)
    disk.remove(SPOOL / str(DataFileName(2)))
    assert not losses(disk), "nobody knows of it: the witness of a process that came back is older"


@pytest.mark.parametrize("is_closed", [True, False], ids=["after a close", "of the same opening"])
def test_an_older_witness_costs_nothing_and_the_next_start_writes_it_anew(is_closed: bool) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", bytes(1000))
    if is_closed:
        database.close()
        database = open_unattended(disk)
    older = disk.content(SPOOL / names.LOCK)
    for _ in range(8):
        database.add("q", bytes(1000))
    disk = disk.restart()
    files = data_files(disk)
    disk.put(SPOOL / names.LOCK, disk.content(SPOOL / names.LOCK)[:4096] + older[4096:])
    assert len(files) > 1
    assert not losses(disk)
    with open_unattended(disk) as again:
        assert len(state_of(again).messages) == 9
    newest = data_files(disk)[-1]
    disk.remove(SPOOL / newest)
    assert losses(disk) == [newest]


def test_a_witness_that_is_newer_than_the_files_put_back_beside_it_names_what_is_lost() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", bytes(1000))
    earlier = disk.restart()
    while database._journal.active_sequence != 3:
        database.add("q", bytes(1000))
    earlier.put(SPOOL / names.LOCK, disk.content(SPOOL / names.LOCK))
    assert losses(earlier) == [str(DataFileName(3))]
    with open_unattended(earlier) as again:
        assert again.add("q", b"new") > 1
    found_after(earlier)


def test_a_restore_into_a_directory_with_an_older_lock_file_misses_nothing_of_what_was_there(tmp_path: Path) -> None:
    spool, backup, target = tmp_path / "spool", tmp_path / "backup", tmp_path / "target"
    for path, count in ((spool, 1), (target, 9)):
        with MessageDatabase.open(path, max_data_file_size=SMALL) as database:
            for _ in range(count):
                database.add("q", bytes(1000))
    back_up(spool, backup)
    for path in target.iterdir():
        if path.name != names.LOCK:
            path.unlink()
    witness = read_witness(RealDisk(), target)
    assert witness is not None and witness.last.sequence > 2
    restore(backup, target)
    assert all(report.verdict is Verdict.CLEAN for report in validate_directory(target))
    with MessageDatabase.open(target) as again:
        assert again.recovery.intact


def test_a_witness_of_another_database_is_ignored() -> None:
    other, disk = closed(messages=9, size=1000), closed()
    witness = other.content(SPOOL / names.LOCK)[4096:]
    disk.put(SPOOL / names.LOCK, disk.content(SPOOL / names.LOCK)[:4096] + witness)
    assert not losses(disk)


@in_two_sizes
def test_a_power_cut_in_the_very_first_opening_brings_no_witness_back_from_a_block(share: Share) -> None:
    """A lock file that was removed has left its bytes in the blocks that the next one gets."""
    before = closed()
    for step in share.every(5, range(1, 60)):
        for seed in range(12):
            disk = before.restart()
            for name in disk.list(SPOOL):
                disk.unlink(SPOOL / name)
            disk.sync_directory(SPOOL)
            disk.kill_at = disk.steps + step
            with contextlib.suppress(Killed):
                open_unattended(disk).add("q", b"x")
            assert not losses(disk.crash(seed)), (step, seed)


# Who must not be fooled.


def test_an_opening_that_commits_nothing_leaves_the_end_known() -> None:
    disk = left()
    for _ in range(2):
        open_unattended(disk).close()
        witness = read_witness(disk, SPOOL)
        assert witness is not None and witness.is_of_closed
        assert not losses(disk)
    data = disk.content(SPOOL / FIRST_FILE)
    disk.put(SPOOL / FIRST_FILE, data[: FRAMES_AT + 104])
    assert losses(disk) == [FIRST_FILE]


def test_after_a_repair_of_the_witnessed_file_the_next_start_finds_no_fault() -> None:
    for damage in (None, b"", bytes(900)):
        disk = closed()
        disk.remove(SPOOL / FIRST_FILE) if damage is None else disk.put(SPOOL / FIRST_FILE, damage)
        open_unattended(disk)
        for _ in range(3):
            disk = disk.restart()
            with open_unattended(disk) as database:
                assert database.recovery.intact
        found_after(disk)


def test_recover_tells_the_loss_once_and_then_the_directory_is_intact(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as database:
        database.add("q", b"x")
    (tmp_path / FIRST_FILE).unlink()
    assert recover(tmp_path, dry_run=True).lost
    assert recover(tmp_path, RecoveryOptions()).lost
    assert not recover(tmp_path, RecoveryOptions()).lost
    assert not recover(tmp_path, dry_run=True).lost


def test_what_a_process_that_goes_on_had_not_acknowledged_is_not_missed_by_the_next_one() -> None:
    """The first group of a file is durable, and what witnesses it fails, or the answer."""
    for nth in (1, 2, 3):
        disk = closed()
        failed = open_unattended(disk)
        disk.fail("lock_write", nth)
        if nth == 1:
            disk.faults.clear()
            checks = iter([True, False])
            failed._group._is_ours = lambda checks=checks: next(checks)  # type: ignore[misc]
            failed._group._witness = lambda witness, failed=failed: _witnessed_and_interrupted(failed, witness)  # type: ignore[misc]
        try:
            failed.add("q", b"not acknowledged")
        except JournalError:
            again = Reopening(failed).attempt()
            assert [message.number for message in again.undelivered()] == [1, 2, 3, 4, 5]
            assert isinstance(again, Unattended)
            left_by_again = disk.restart()
            with open_unattended(left_by_again) as later:
                assert later.recovery.intact, later.recovery
            again.close()
            assert not losses(disk)


def _witnessed_and_interrupted(failed: Unattended, witness: object) -> None:
    failed._ownership.witness(witness)  # type: ignore[arg-type]
    raise OSError("behind the witness")


def test_a_standstill_that_removes_all_files_is_no_loss(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as database:
        database.add("q", b"x")
    standstill = LockedView.open(tmp_path)
    standstill.remove()
    standstill.close()
    with MessageDatabase.open(tmp_path) as database:
        assert database.recovery.intact and not database.recovery.files


def test_a_directory_that_is_copied_as_a_whole_is_intact(tmp_path: Path) -> None:
    spool, copied = tmp_path / "spool", tmp_path / "copied"
    with MessageDatabase.open(spool) as database:
        database.add("q", b"x")
    copied.mkdir()
    for path in spool.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    with MessageDatabase.open(copied) as database:
        assert database.recovery.intact
        database.add("q", b"y")
    with DatabaseView.open(copied) as view:
        assert view.undelivered_count() == 2


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_backup_and_what_is_restored_from_it_are_intact(tmp_path: Path, is_closed: bool) -> None:
    spool, backup, restored = tmp_path / "spool", tmp_path / "backup", tmp_path / "restored"
    database = MessageDatabase.open(spool)
    database.add("q", b"x")
    if is_closed:
        database.close()
    back_up(spool, backup)
    database.close()
    assert all(report.verdict is Verdict.CLEAN for report in validate_directory(backup))
    restore(backup, restored)
    assert all(report.verdict is Verdict.CLEAN for report in validate_directory(restored))
    with MessageDatabase.open(restored) as again:
        assert again.recovery.intact
        own = str(DataFileName(again._first_sequence - 1))
    (restored / own).unlink()
    with MessageDatabase.open(restored) as again:
        assert own in [loss.name for loss in again.recovery.lost]
        identity = again._journal.database
    with MessageDatabase.open(restored) as again:
        assert again.recovery.intact
        assert again._journal.database == identity


def test_a_child_of_a_fork_witnesses_nothing(tmp_path: Path) -> None:
    database = MessageDatabase.open(tmp_path)
    database.add("q", b"x")
    before = (tmp_path / names.LOCK).read_bytes()[4096:]
    child = os.fork()
    if not child:
        database.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / names.LOCK).read_bytes()[4096:] == before
    database.close()
    witness = read_witness(RealDisk(), tmp_path)
    assert witness is not None and witness.is_of_closed


def test_a_store_of_several_files_is_witnessed_by_its_newest_one() -> None:
    store = small_store()
    disk = store.disk()
    witness = read_witness(disk, SPOOL)
    assert witness is not None
    assert (str(DataFileName(witness.last.sequence)), witness.is_of_closed) == (store.newest(), True)
