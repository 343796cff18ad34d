"""A start on a full disk that cannot write a file anew, and a power cut in it: nothing that was durable is touched."""

import contextlib
from collections.abc import Iterator

import pytest

from oms_journal.journal.errors import JournalError
from oms_journal.journal.names import RESERVE
from tests.support.crashes.crash_model import SPOOL, Account, Unattended, Writer, found_after, open_unattended
from tests.support.disks.faulty_calls import Killed
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

SECTOR = 512
FILE_BYTES = 64 << 10
SEEDS = 6  # power cuts at each change, one of them in the sample
KEPT = "kept without a footer"


def full(alignment: int, *, is_vouched: bool, commits: int) -> tuple[SimulatedDisk, Account]:
    """Return a disk without a free byte or a reserve after the death of a process, and what it was promised."""
    disk = SimulatedDisk()
    writer = Writer(open_unattended(disk, max_data_file_size=FILE_BYTES, group_alignment=alignment), Account())
    for number in range(commits):
        writer.add("q", bytes([number]) * 700)
    if is_vouched:
        writer.database._vouch()
    disk = disk.restart()
    if RESERVE in disk.contents(SPOOL):
        disk.remove(SPOOL / RESERVE)
    for name in disk.contents(SPOOL):
        if name.endswith(".data") and not disk.content(SPOOL / name).strip(b"\0"):
            disk.remove(SPOOL / name)  # only prepared
    disk.space = disk.used()
    return disk, writer.account


def started(disk: SimulatedDisk, alignment: int) -> Unattended | None:
    """Start, and return the database; None where the start is refused or killed."""
    with contextlib.suppress(Killed, JournalError):
        return open_unattended(disk, max_data_file_size=FILE_BYTES, group_alignment=alignment)
    return None


def cuts(alignment: int, *, is_vouched: bool, commits: int) -> Iterator[tuple[int, SimulatedDisk]]:
    """Yield the disk as it is when the start is killed before each of its changes."""
    disk, _ = full(alignment, is_vouched=is_vouched, commits=commits)
    whole = disk.restart()
    database = started(whole, alignment)
    may_be_torn = alignment >= SECTOR and not is_vouched and commits > 1  # the lock file vouches for the first one
    assert (database is None) == may_be_torn, "without room nobody starts whose last commits a power cut might take"
    assert database is None or KEPT in str(database.recovery.as_dict()), "this is what is to be cut"
    for step in range(1, whole.steps + 2):
        cut = disk.restart()
        cut.kill_at = step
        started(cut, alignment)
        yield step, cut


@a_sample(2)
@in_three_sizes
@pytest.mark.parametrize("commits", [1, 5])
@pytest.mark.parametrize("is_vouched", [True, False], ids=["vouched", "in flight"])
@pytest.mark.parametrize("is_harsh, alignment", [(False, 8), (True, SECTOR)])
def test_a_power_cut_while_frames_are_written_again_in_their_place_costs_nothing(
    is_harsh: bool, alignment: int, is_vouched: bool, commits: int, share: Share
) -> None:
    _, account = full(alignment, is_vouched=is_vouched, commits=commits)
    for step, disk in cuts(alignment, is_vouched=is_vouched, commits=commits):
        for seed in share.of(range(step, step + SEEDS), 1):
            after = disk.crash(seed, is_harsh=is_harsh)
            after.space = None
            found = found_after(after, max_data_file_size=FILE_BYTES, group_alignment=alignment)
            assert account.allows(found), f"cut before change {step}, seed {seed}"
