"""Two openings of one directory, since the first one's lock looked free: whatever the first still does, nothing
of the second one's is lost, and nothing of the first one's is acknowledged any more.

The first opening is stopped anywhere, and comes back anywhere in the work of the second. What it writes
before the second has read its tail may be found by that one; nothing that it writes later ever is.
"""

import contextlib

import pytest

from journal.errors import JournalError, OutcomeUnknown
from tests.crash_model import (
    SPOOL,
    Account,
    Unattended,
    Writer,
    check_goes_on,
    found_after,
    open_unattended,
    state_of,
)
from tests.faulty_disk import SimulatedDisk

TOO_LATE = b"too late" * 100


def overtaken(disk: SimulatedDisk, *, commits: int, is_ahead: bool = True) -> tuple[Unattended, Account]:
    """Return an opening that has written so many commits, and lost its lock without noticing.

    It has made its next file ahead, or not.
    """
    account = Account()
    former = open_unattended(disk)
    former.patience = 1 if is_ahead else 1000
    writer = Writer(former, account)
    for turn in range(commits):
        writer.add("former", bytes([turn]) * 300)
    disk.let_go_of_locks()
    return former, account


def come_back(former: Unattended) -> None:
    """Do everything that a process does that comes back and has not noticed."""
    with contextlib.suppress(JournalError):
        former.tend()
    for _ in range(3):
        with pytest.raises(JournalError):
            former.add("former", TOO_LATE)
    with contextlib.suppress(JournalError):
        former.cleanup()
    with contextlib.suppress(JournalError):
        former.close()


@pytest.mark.parametrize("commits", range(1, 24))
def test_the_first_commit_after_the_takeover_is_not_acknowledged(commits: int) -> None:
    disk = SimulatedDisk()
    former, account = overtaken(disk, commits=commits)
    current = open_unattended(disk)
    assert state_of(current) == account.state
    with pytest.raises(OutcomeUnknown, match="another process has taken over"):
        former.add("former", TOO_LATE)
    writer = Writer(current, account)
    number = writer.add("current", b"by the new owner")
    come_back(former)
    writer.add("current", b"and again")
    assert number > commits
    current.close()
    assert found_after(disk) == account.state
    check_goes_on(disk, account)


@pytest.mark.parametrize("commits", [1, 4, 5, 9])
@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_former_owner_that_comes_back_at_any_moment_costs_the_new_one_nothing(commits: int, is_ahead: bool) -> None:
    for step in range(1, 200):
        disk = SimulatedDisk()
        former, account = overtaken(disk, commits=commits, is_ahead=is_ahead)
        has_come_back = come_back_before(disk, step, former)
        current = open_unattended(disk)
        found = state_of(current)
        in_time = {number: one for number, one in found.messages.items() if one.payload != TOO_LATE}
        assert in_time == account.state.messages, (step, has_come_back)
        account.state = found
        writer = Writer(current, account)
        for turn in range(6):
            writer.add("current", bytes([turn]) * 300)
        if step % 2:
            current.close()
        assert found_after(disk.crash(step)) == account.state, (step, has_come_back)
        if not has_come_back:
            return
    raise AssertionError("the new owner makes fewer changes than that")


def come_back_before(disk: SimulatedDisk, step: int, former: Unattended) -> list[str]:
    """Let the former owner come back before the disk's next changes, the `step`-th one; return what that was."""
    begun: list[str] = []
    remaining = [step]

    def count(change: str) -> None:
        remaining[0] -= 1
        if remaining[0] == 0:
            begun.append(change)
            disk.before_change = None
            come_back_unless_still_owner(former)

    disk.before_change = count
    return begun


def come_back_unless_still_owner(former: Unattended) -> None:
    """Before the new owner has written its number nothing has happened yet."""
    if former._ownership.is_ours():
        return
    come_back(former)


def test_a_former_owner_finds_no_file_of_its_own_again() -> None:
    disk = SimulatedDisk()
    former, account = overtaken(disk, commits=3)
    with open_unattended(disk) as current:
        Writer(current, account).add("current", b"by the new owner")
    before = disk.contents(SPOOL)
    come_back(former)
    after = disk.contents(SPOOL)
    assert {n: d for n, d in after.items() if n.endswith(".data")} == {
        n: d for n, d in before.items() if n.endswith(".data")
    }
