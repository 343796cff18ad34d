"""A database that failed is opened again in the same process: what it had not acknowledged is archived and cut."""

import errno
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.database import Reopening
from oms_journal.journal.errors import CannotContinue, CommitFailed, DiskError, NotAttempted, OutcomeUnknown
from oms_journal.journal.names import LOCK
from tests.support.crashes.crash_model import SPOOL, Unattended, found_after, open_unattended, state_of
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import for_each


def fail_to_add(database: MessageDatabase, payload: bytes = b"told as failed") -> None:
    with pytest.raises(OutcomeUnknown):
        database.add("q", payload)
    with pytest.raises(NotAttempted):
        database.add("q", b"not even tried")


def payloads(database: MessageDatabase) -> list[bytes]:
    return [message.payload for message in database.undelivered()]


def data_files(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.contents(SPOOL) if name.endswith(".data")]


@pytest.mark.parametrize("alignment", [8, 64, 512, 4096])
def test_what_was_told_as_failed_is_not_there_though_the_disk_has_it(alignment: int) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk, group_alignment=alignment, max_data_file_size=40_000)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    fail_to_add(database)

    again = Reopening(database).attempt()

    assert payloads(again) == [b"acknowledged"]
    (report,) = again.recovery.files
    assert (report.row, report.maybe_acknowledged) == ("told as failed", 1)
    assert "told that they had failed" in report.reason
    assert again.recovery.lost == ()
    (archive,) = again.recovery.archives
    assert b"told as failed" in disk.contents(SPOOL)[archive]
    again.add("q", b"goes on")
    state = state_of(again)
    again.close()
    assert found_after(disk) == state


def test_another_process_takes_the_same_commit_for_good() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    fail_to_add(database)

    with open_unattended(disk.restart()) as restarted:
        assert payloads(restarted) == [b"acknowledged", b"told as failed"]


@pytest.mark.parametrize("is_short", [False, True])
def test_the_first_commit_of_an_opening_is_cut_with_its_file(is_short: bool) -> None:
    disk = SimulatedDisk()
    with open_unattended(disk) as first:
        first.add("q", b"of the opening before")
    database = open_unattended(disk)
    disk.fail("write_durably", is_short=is_short)
    fail_to_add(database)
    assert len(data_files(disk)) == 2

    again = Reopening(database).attempt()

    assert payloads(again) == [b"of the opening before"]
    assert len(data_files(disk)) == 1
    again.close()


def test_the_first_commit_of_a_file_that_was_rolled_into_is_cut() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    numbers = [database.add("q", bytes(700)) for _ in range(4)]
    database._journal.roll_at_next_commit()
    disk.fail("write_durably")
    fail_to_add(database)

    again = Reopening(database).attempt()

    assert list(again.numbers()) == numbers
    assert again.recovery.lost == ()
    again.close()


def test_every_commit_of_the_group_that_failed_is_cut() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    drafts = [database._drafting.add("q", payload, {"k": "v"}, None) for payload in (b"one", b"two", b"three")]

    class Waiter:
        def lead(self) -> None: ...

        def tell(self) -> None: ...

    for draft in drafts:
        draft.waiter = Waiter()
    assert database._group.submit(drafts)
    database._group.lead()
    assert [type(draft.failure) for draft in drafts] == [OutcomeUnknown] * 3

    again = Reopening(database).attempt()

    assert payloads(again) == [b"acknowledged"]
    assert again.recovery.files[0].maybe_acknowledged == 3
    again.close()


def test_a_healthy_database_loses_nothing() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"one")
    database.put("key", b"value")

    again = Reopening(database).attempt()

    assert again.recovery.intact
    assert payloads(again) == [b"one"]
    assert again.get("key") == b"value"
    again.close()


def test_an_attempt_that_fails_is_made_again() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    fail_to_add(database)
    reopening = Reopening(database)

    for verb in ("list", "read", "create", "rename", "sync"):
        disk.faults.clear()
        disk.fail_from(verb)
        with pytest.raises(DiskError):
            reopening.attempt()
    disk.faults.clear()

    again = reopening.attempt()
    assert payloads(again) == [b"acknowledged"]
    again.close()


@pytest.mark.whole
@for_each("nth", range(1, 40))
def test_whatever_fails_in_an_attempt_the_next_one_finds_the_same(nth: int) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    fail_to_add(database)
    reopening = Reopening(database)
    for verb in ("write", "sync", "create", "rename", "sync_directory", "lock_write", "unlink"):
        if disk.calls[verb]:
            disk.fail(verb, nth)
    again = None
    for _ in range(20):
        try:
            again = reopening.attempt()
            break
        except DiskError:
            continue
    assert again is not None
    assert payloads(again) == [b"acknowledged"]
    disk.faults.clear()
    again.close()
    assert [one.payload for one in found_after(disk).messages.values()] == [b"acknowledged"]


def test_it_may_fail_and_go_on_again_and_again() -> None:
    disk = SimulatedDisk()
    database: MessageDatabase = open_unattended(disk)
    kept = []
    for turn in range(5):
        kept.append(b"kept %d" % turn)
        database.add("q", kept[-1])
        disk.fail("write_durably", is_short=turn % 2 == 1)
        fail_to_add(database, b"failed %d" % turn)
        database = Reopening(database).attempt()
        assert payloads(database) == kept
    database.close()


def test_a_directory_that_another_opening_has_had_is_left_alone() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    disk.fail("write_durably")
    fail_to_add(database)
    reopening = Reopening(database)
    with open_unattended(disk) as other:
        other.add("q", b"of the other")
    before = disk.contents(SPOOL)

    for _ in range(2):
        with pytest.raises(CannotContinue, match="has been opened by process"):
            reopening.attempt()

    assert disk.contents(SPOOL) == before


def test_an_empty_directory_in_its_place_is_left_alone() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"acknowledged")
    reopening = Reopening(database)
    for name in disk.contents(SPOOL):
        disk.remove(SPOOL / name)

    with pytest.raises(CannotContinue, match="no lock file"):
        reopening.attempt()

    assert disk.contents(SPOOL) == {}


def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    database = MessageDatabase.open(spool)
    database.add("q", b"acknowledged")
    reopening = Reopening(database)
    spool.rename(tmp_path / "unmounted")

    with pytest.raises(CannotContinue):
        reopening.attempt()
    assert not spool.exists()

    (tmp_path / "unmounted").rename(spool)
    with reopening.attempt() as again:
        assert payloads(again) == [b"acknowledged"]


def test_an_older_copy_in_its_place_is_left_alone() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.add("q", b"in the copy")
    copy = disk.contents(SPOOL)
    database.add("q", b"not in the copy")
    disk.fail("write_durably", code=errno.EIO)
    fail_to_add(database)
    reopening = Reopening(database)
    for name, data in copy.items():
        if name != LOCK:
            disk.put(SPOOL / name, data)

    with pytest.raises(CannotContinue, match="which this process had acknowledged"):
        reopening.attempt()


def test_a_failure_before_the_write_leaves_nothing_to_cut() -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk, max_data_file_size="64K")
    database.add("q", b"acknowledged")
    disk.fail_from("create", code=errno.EROFS)
    database._journal.roll_at_next_commit()
    with pytest.raises(CommitFailed):
        database.add("q", b"needs a new file")
    disk.faults.clear()

    again = Reopening(database).attempt()

    assert payloads(again) == [b"acknowledged"]
    assert again.recovery.archives == ()
    assert isinstance(again, Unattended)
    again.close()
