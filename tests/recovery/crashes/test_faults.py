"""The disk fails: every call of every verb in turn, until the workload runs through without a fault.

The sample fails the first call of each verb and every fifth from there on, the rest all others.

A failed write or sync of a commit is final: its outcome is unknown, everything later is refused, no
sync is tried again on that file, and only the next start decides. A fault beside the commits costs
nothing. After either, with the page cache as it is or after a power cut, all that was acknowledged is
there, what was not is there whole or not at all, and nothing is invented.
"""

import errno
import random
from dataclasses import dataclass

import pytest

from oms_journal.journal.errors import CommitFailed, DiskError, DiskFull, JournalError, OutcomeUnknown
from oms_journal.journal.names import RESERVE
from tests.support.crashes.crash_model import (
    SPOOL,
    Account,
    Unattended,
    Writer,
    check_goes_on,
    found_after,
    open_unattended,
    state_of,
    workload,
)
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes


@dataclass(frozen=True, slots=True)
class Failing:
    """Which verb fails, and how."""

    verb: str
    code: int
    is_short: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {errno.errorcode[self.code]}{' short' if self.is_short else ''}"


FAULTS = [
    *(Failing(verb, errno.EIO) for verb in ["write", "write_durably", "sync", "create", "unlink", "sync_directory"]),
    *(Failing(verb, errno.EIO) for verb in ["truncate", "rename", "reserve", "read", "lock_write"]),
    *(
        Failing(verb, errno.ENOSPC)
        for verb in ["write", "write_durably", "sync", "create", "sync_directory", "reserve"]
    ),
    *(Failing(verb, errno.EIO, is_short=True) for verb in ("write", "write_durably")),
    *(Failing(verb, errno.ENOSPC, is_short=True) for verb in ("write", "write_durably")),
]


@dataclass(slots=True)
class Run:
    """One run of the workload with one fault."""

    disk: SimulatedDisk
    account: Account
    failure: JournalError | None = None


def run_with(failing: Failing, nth: int, *, rounds: int = 20, seed: int = 1) -> Run:
    """Run the workload while the n-th call of a verb fails, up to the first error that a caller sees."""
    run = Run(SimulatedDisk(), Account())
    run.disk.fail(failing.verb, nth, failing.code, is_short=failing.is_short)
    try:
        database = open_unattended(run.disk)
    except DiskError as failure:
        run.failure = failure
        return run
    try:
        workload(Writer(database, run.account), random.Random(seed), rounds=rounds)
    except JournalError as failure:
        run.failure = failure
        if isinstance(failure, CommitFailed):
            assert isinstance(failure, OutcomeUnknown)
            assert_refuses_everything(database)
        elif isinstance(failure, DiskFull):
            run.account.in_flight = None  # nothing of it was written
            assert database.add("after", b"a full disk") > run.account.highest
            run.account.state = state_of(database)
            run.account.highest = max(run.account.state.messages)
    try:
        database.close()
    except DiskError as failure:
        assert run.failure is None
        run.failure = failure
    return run


def assert_refuses_everything(database: Unattended) -> None:
    number = next(database.numbers(), None)
    with pytest.raises(CommitFailed):
        database.add("later", b"refused")
    with pytest.raises(CommitFailed):
        database.put("later", b"refused")
    if number is not None:
        with pytest.raises(CommitFailed):
            database.deliver(number)


def check_run(run: Run, where: str) -> None:
    assert [name for name in run.disk.syncs_after_failure if name != RESERVE] == [], where  # that one holds no data
    after_death = run.disk.restart()
    found = state_of(open_unattended(after_death))
    assert run.account.allows(found), where
    assert found_after(after_death.crash(5)) == found, where  # what a start has found, a power cut does not change
    after_power_cut = run.disk.crash(7)
    assert run.account.allows(found_after(after_power_cut)), where
    check_goes_on(after_power_cut, run.account)


@a_sample(4, more=8)
@in_three_sizes
@pytest.mark.parametrize("failing", FAULTS, ids=str)
def test_no_failing_call_costs_anything_that_was_acknowledged(failing: Failing, share: Share) -> None:
    for nth in share.every(22, range(1, 1000)):
        run = run_with(failing, nth)
        if not run.disk.failed:
            return
        check_run(run, f"{failing}, call {nth}")
    raise AssertionError("a run without a fault comes at last")


@in_three_sizes
@pytest.mark.parametrize("failing", [Failing(verb, errno.EIO) for verb in ("write", "write_durably", "sync")], ids=str)
def test_nor_while_files_grow_step_by_step(failing: Failing, share: Share) -> None:
    """Of larger files only the beginning is prepared at first, the rest while they are being written."""
    for nth in share.every(22, range(1, 1000)):
        run = Run(SimulatedDisk(), Account())
        run.disk.fail(failing.verb, nth, failing.code)
        writer = Writer(open_unattended(run.disk, max_data_file_size="400K"), run.account)
        try:
            for turn in range(36):
                writer.add("growing", bytes([turn]) * 20_000)
            writer.database.close()
        except CommitFailed as failure:
            run.failure = failure
        except DiskError as failure:
            run.failure = failure  # closing
        if not run.disk.failed:
            return
        check_run(run, f"{failing}, call {nth}")
    raise AssertionError("a run without a fault comes at last")


@pytest.mark.parametrize("verb", ["write_durably", "sync"])
def test_after_a_failed_sync_a_start_does_not_trust_the_page_cache(verb: str) -> None:
    disk, account = SimulatedDisk(), Account()
    writer = Writer(open_unattended(disk), account)
    writer.add("q", b"acknowledged")
    disk.fail("write_durably", code=errno.EIO)
    with pytest.raises(OutcomeUnknown):
        writer.add("q", b"in the page cache only")

    restarted = disk.restart()
    assert b"in the page cache only" in restarted.content(SPOOL / "omsmsg-0000000001.data")
    assert b"in the page cache only" not in restarted.crash(1).content(SPOOL / "omsmsg-0000000001.data")
    with open_unattended(restarted) as database:
        seen = state_of(database)
    assert account.allows(seen)
    assert found_after(restarted.crash(2)) == seen


@pytest.mark.parametrize("verb", ["list", "open", "read"])
def test_a_read_error_that_stays_stops_the_start_and_changes_nothing(verb: str) -> None:
    base = run_with(Failing("read", errno.EIO), 10**6).disk.restart()
    before = data_files_of(base)
    for nth in range(1, 200):
        disk = base.restart()
        disk.fail_from(verb, nth)
        try:
            database = open_unattended(disk)
        except DiskError:
            assert data_files_of(disk) == before
            continue
        if not disk.failed:
            return
        disk.faults.clear()
        database.close()
    raise AssertionError("the start makes fewer calls than that")


@pytest.mark.whole
@pytest.mark.parametrize("verb", ["read", "open", "list"])
def test_a_read_error_that_passes_is_not_damage(verb: str) -> None:
    run = run_with(Failing("read", errno.EIO), 10**6)
    base = run.disk.restart()
    for nth in range(1, 200):
        disk = base.restart()
        disk.fail(verb, nth)
        try:
            database = open_unattended(disk)
        except DiskError:
            database = open_unattended(disk)
        has_failed = bool(disk.failed)
        disk.faults.clear()
        assert database.recovery.intact
        assert state_of(database) == run.account.state
        database.close()
        if not has_failed:
            return
    raise AssertionError("the start makes fewer calls than that")


def data_files_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith(".data")}
