"""Two openings of one directory, since the first one's lock looked free, or since it was silent and was passed:
whatever the first still does, nothing of the second one's is lost, and nothing of the first one's is acknowledged
any more.

The first opening is stopped anywhere, and comes back anywhere in the work of the second. What it writes
before the second has read its tail may be found by that one; nothing that it writes later ever is.

The sample stops it after a few numbers of commits and has it come back at some changes; the rest, at all others.
"""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, Options
from oms_journal.database.maintenance import Maintenance
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseLocked, JournalError, NotAttempted, OutcomeUnknown, TakenOver
from oms_journal.journal.lock import Holder, read_holder
from tests.support.crashes.crash_model import (
    SPOOL,
    Account,
    State,
    Unattended,
    Writer,
    check_goes_on,
    found_after,
    open_unattended,
    state_of,
)
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.servers.stomp_server import eventually
from tests.support.sweeps import Share, a_sample, in_three_sizes, in_two_sizes, sampled

TOO_LATE = b"too late" * 100


def overtaken(
    disk: SimulatedDisk, *, commits: int, is_ahead: bool = True, is_held: bool = False
) -> tuple[Unattended, Account]:
    """Return an opening that has written so many commits, and lost its lock without noticing, or still has it.

    It has made its next file ahead, or not.
    """
    account = Account()
    former = open_unattended(disk)
    former.patience = 1 if is_ahead else 1000
    writer = Writer(former, account)
    for turn in range(commits):
        writer.add("former", bytes([turn]) * 300)
    former._ownership.renew()
    if not is_held:
        disk.let_go_of_locks()
    return former, account


def silent(disk: SimulatedDisk) -> Holder:
    """Return the owner, of whom nothing was heard."""
    holder = read_holder(disk, SPOOL)
    assert holder is not None
    return holder


def come_back(former: Unattended) -> None:
    """Do everything that a process does that comes back and has not noticed."""
    with contextlib.suppress(JournalError):
        former.maintain()
    for _ in range(3):
        with pytest.raises(JournalError):
            former.add("former", TOO_LATE)
    with contextlib.suppress(JournalError):
        former.cleanup()
    with contextlib.suppress(JournalError):
        former.close()


@in_two_sizes
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_power_cut_while_the_lock_file_is_written_leaves_who_owned_the_directory(
    is_synced: bool, share: Share
) -> None:
    """By the first opening, by the next ones, and by a sign of life; a sector that was being written may be garbage.

    The last sign of life of the one before may still be on its way to the disk when the next one writes.
    """
    disk, checked = SimulatedDisk(), 0
    for _ in range(3):
        for change in range(1, 8):
            for seed in share.of(range(8 if is_synced else 64), 6):
                left = disk.restart()
                left.kill_at = change
                with contextlib.suppress(Killed):
                    open_unattended(left)._ownership.renew()
                checked += left.is_dead
                with open_unattended(left.crash(seed, is_harsh=True)) as database:
                    assert database.recovery.intact
                    assert state_of(database).messages == {}
        open_unattended(disk)._ownership.renew()
        disk = disk.crash(0) if is_synced else disk.restart()
    assert checked > 20


def test_one_of_the_two_lines_says_who_owned_the_directory() -> None:
    disk = SimulatedDisk()
    open_unattended(disk).close()
    lines = disk.content(SPOOL / names.LOCK)
    for line in range(2):
        disk.put(SPOOL / names.LOCK, lines[: 512 * line] + b"rotten" + lines[512 * line + 6 :])
        with open_unattended(disk) as database:
            assert database._ownership.number == 2


def test_without_a_good_line_and_a_good_copy_nobody_opens_the_directory_while_somebody_has_it() -> None:
    disk = SimulatedDisk()
    former = open_unattended(disk)
    former.add("q", b"x")
    lines = disk.content(SPOOL / names.LOCK)
    disk.put(SPOOL / names.LOCK, b"rotten" + lines[6:512] + b"rotten" + lines[518:])
    for is_open in (True, False):
        if is_open:
            with pytest.raises(DatabaseLocked, match="in use by one that"):
                open_unattended(disk)
        else:
            former._ownership.close()
            with open_unattended(disk) as database:
                assert [message.payload for message in database.undelivered()] == [b"x"]
                assert database._ownership.number > former._ownership.number


@a_sample(4, more=12)
@pytest.mark.parametrize("commits", sampled(range(1, 24), 6))
@pytest.mark.parametrize("is_held", [False, True])
def test_the_first_commit_after_the_takeover_is_not_acknowledged(commits: int, is_held: bool) -> None:
    disk = SimulatedDisk()
    former, account = overtaken(disk, commits=commits, is_held=is_held)
    current = open_unattended(disk, passing=silent(disk), is_shared=is_held)
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


@a_sample(3, more=4)
@in_three_sizes
@pytest.mark.parametrize("commits", [1, 4, 5, 9])
@pytest.mark.parametrize(("is_ahead", "is_held"), [(False, False), (True, False), (True, True)])
def test_a_former_owner_that_comes_back_at_any_moment_costs_the_new_one_nothing(
    commits: int, is_ahead: bool, is_held: bool, share: Share
) -> None:
    for step in share.every(24, range(1, 200)):
        disk = SimulatedDisk()
        former, account = overtaken(disk, commits=commits, is_ahead=is_ahead, is_held=is_held)
        passing = silent(disk)
        has_come_back = come_back_before(disk, step, former)
        current = open_unattended(disk, passing=passing)
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


@a_sample(3, more=6)
@in_three_sizes
@pytest.mark.parametrize("commits", [0, 1, 4, 5, 9])
@pytest.mark.parametrize("is_held", [False, True])
def test_what_was_not_there_at_the_takeover_is_never_there(commits: int, is_held: bool, share: Share) -> None:
    """The former owner stops before any change of a commit; the new one looks, and commits nothing; it goes on."""
    for change in share.every(6, range(1, 200)):
        disk = SimulatedDisk()
        former, _ = overtaken(disk, commits=commits, is_ahead=False, is_held=is_held)
        opened = take_over_before(disk, change, is_held=is_held)
        if not former_adds(former):
            assert opened, "only a takeover fails it"
        if not opened:
            assert change > 1
            return
        current, found = opened[0]
        with contextlib.suppress(JournalError):
            former.close()
        if change % 2:
            current.close()
        assert state_of(current_of(disk)) == found, change
        assert found_after(disk.crash(change)) == found, change
    raise AssertionError("a commit makes fewer changes than that")


def former_adds(former: Unattended) -> bool:
    """Let the former owner add a message that needs a file of its own; say whether it was acknowledged."""
    try:
        former.add("former", TOO_LATE * 6)
    except JournalError:
        return False
    return True


def take_over_before(disk: SimulatedDisk, change: int, *, is_held: bool) -> list[tuple[Unattended, State]]:
    """Let another process open the directory before the n-th change from here on; return it, and what it found."""
    opened: list[tuple[Unattended, State]] = []
    remaining = [change]

    def count(_: str) -> None:
        remaining[0] -= 1
        if remaining[0] == 0:
            disk.before_change = None
            current = open_unattended(disk, passing=silent(disk) if is_held else None, is_shared=not is_held)
            opened.append((current, state_of(current)))

    disk.before_change = count
    return opened


def current_of(disk: SimulatedDisk) -> Unattended:
    """Return the next opening, of a copy."""
    return open_unattended(disk.restart())


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


def test_an_owner_that_counts_on_is_not_passed() -> None:
    disk = SimulatedDisk()
    former, _ = overtaken(disk, commits=2, is_held=True)
    seen = silent(disk)
    former._ownership.renew()
    with pytest.raises(DatabaseLocked):
        open_unattended(disk, passing=seen)
    former.add("former", b"it is still the owner")


def test_an_owner_that_is_still_opening_the_directory_is_not_passed() -> None:
    disk = SimulatedDisk()
    former = open_unattended(disk)
    seen = silent(disk)
    assert (seen.number, seen.count, seen.is_open) == (1, 0, True)
    with pytest.raises(DatabaseLocked):
        open_unattended(disk, passing=seen)
    former.add("former", b"it is still the owner")


def test_of_two_that_pass_a_silent_owner_one_becomes_the_next() -> None:
    disk = SimulatedDisk()
    overtaken(disk, commits=2, is_held=True)
    seen = silent(disk)
    current = open_unattended(disk, passing=seen)
    with pytest.raises(DatabaseLocked):
        open_unattended(disk, passing=seen)
    current.add("current", b"by the new owner")


def test_a_former_owner_no_longer_shows_that_it_is_alive() -> None:
    disk = SimulatedDisk()
    former, _ = overtaken(disk, commits=2, is_held=True)
    current = open_unattended(disk, passing=silent(disk))
    current._ownership.renew()
    before = disk.contents(SPOOL)[names.LOCK]
    with pytest.raises(TakenOver):
        former._ownership.renew()
    assert disk.contents(SPOOL)[names.LOCK] == before


def test_an_owner_with_nothing_to_commit_finds_out_all_the_same(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, renew_interval=0.01) as former:
        former.add("former", b"in time")
        eventually(lambda: read_holder(RealDisk(), tmp_path).count > 0)  # type: ignore[union-attr]
        former._maintenance.stop()
        seen = read_holder(RealDisk(), tmp_path)
        with MessageDatabase.open(tmp_path, options=Options(passing=seen, is_shared=True)) as current:
            former._maintenance = started_again(former._maintenance)
            eventually(lambda: isinstance(former._group.failure, TakenOver))
            with pytest.raises(NotAttempted, match="another process has taken over"):
                former.add("former", TOO_LATE)
            current.add("current", b"by the new owner")
    with MessageDatabase.open(tmp_path) as database:
        assert [message.payload for message in database.undelivered()] == [b"in time", b"by the new owner"]


def started_again(stopped: Maintenance) -> Maintenance:
    """Return what goes on where the one that was stopped left off."""
    again = replace(stopped)
    again.start()
    return again
