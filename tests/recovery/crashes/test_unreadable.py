"""Bytes that cannot be read, and are given up: they are damage, and never say that nothing was written."""

from itertools import combinations

import pytest

from oms_journal.journal.format.headers import align
from oms_journal.recovery.report import Verdict
from tests.support.crashes.crash_model import SPOOL, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import Store, archives_in, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample

BLOCK = 4096
LONE = "omsmsg-0000000001.data"
SEALED = small_store()


def lone_file(alignment: int, commits: int, *, is_closed: bool) -> tuple[Store, list[int]]:
    """Return a store of one file, and the numbers of its messages, one a commit."""
    disk = SimulatedDisk()
    database = open_unattended(disk, max_data_file_size=1 << 20, group_alignment=alignment)
    database.patience = 1 << 60  # no empty frame vouches for the last one
    given: list[int] = [database.add("q", bytes([1 + turn]) * 100) for turn in range(commits)]
    if is_closed:
        database.close()
    return Store({LONE: disk.content(SPOOL / LONE)}, None), given  # type: ignore[arg-type]


@a_sample(1)
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "not closed"])
@pytest.mark.parametrize(("alignment", "commits"), [(8, 60), (512, 20), (4096, 2)])
def test_whichever_blocks_of_a_lone_file_cannot_be_read_what_they_held_is_lost_and_told(
    alignment: int, commits: int, is_closed: bool
) -> None:
    store, given = lone_file(alignment, commits, is_closed=is_closed)
    frames, size = store.frames_of(LONE), len(store.files[LONE])
    behind = align(frames[-1].end, alignment)  # there the footer begins, which has a copy of the header
    blocks = range(-(-min(size, behind + 2 * BLOCK) // BLOCK))
    for count in (1, 2, len(blocks)):
        for chosen in combinations(blocks, count):
            disk = store.disk()
            for block in chosen:
                disk.make_unreadable(SPOOL / LONE, block * BLOCK, block * BLOCK + BLOCK)
            hidden = [f for f in frames if any(f.offset < BLOCK * (b + 1) and BLOCK * b < f.end for b in chosen)]
            is_known = not {0, 1} <= {*chosen} or (is_closed and (chosen[-1] + 1) * BLOCK <= behind)
            lost = hidden if is_known else frames
            with open_unattended(disk, unreadable_as_damaged=True) as database:
                found, report = state_of(database), database.recovery
                assert found == store.state(lost=lost), chosen
                assert not report.intact, chosen
                assert archives_in(disk)
                told = [(loss.start, loss.end) for loss in report.lost]
                assert all(any(low < f.end and f.offset < max(high, low + 1) for low, high in told) for f in lost)
                assert database.add("q", b"later") > given[-1], chosen
            found_after(disk, unreadable_as_damaged=True)


@pytest.mark.parametrize("name", SEALED.data_files())
def test_a_block_of_one_of_several_files_takes_with_it_what_it_held(name: str) -> None:
    for block in range(len(SEALED.files[name]) // BLOCK + 1):
        disk = SEALED.disk()
        disk.make_unreadable(SPOOL / name, block * BLOCK, block * BLOCK + 1)
        frames = SEALED.frames_of(name)
        lost = [frame for frame in frames if frame.offset < BLOCK * (block + 1) and BLOCK * block < frame.end]
        with open_unattended(disk, unreadable_as_damaged=True) as database:
            assert {loss.name for loss in database.recovery.lost} == ({name} if lost else set())
            assert archives_in(disk)
            assert state_of(database) == SEALED.rotted(*lost)
        found_after(disk, unreadable_as_damaged=True)


@pytest.mark.parametrize("size", [1, BLOCK])
def test_what_hides_the_header_of_a_newest_file_of_zeros_may_hide_its_commits(size: int) -> None:
    disk = SEALED.disk()
    path = SPOOL / "omsmsg-0000000099.data"
    disk.put(path, bytes(size))
    disk.make_unreadable(path, 0, 1)
    with open_unattended(disk, unreadable_as_damaged=True) as database:
        assert [loss.name for loss in database.recovery.lost] == [path.name]


@pytest.mark.parametrize("block", [0, 1])
def test_zeros_in_the_place_of_a_header_say_that_a_file_was_never_begun_whatever_cannot_be_read_elsewhere(
    block: int,
) -> None:
    disk = SEALED.disk()
    path = SPOOL / "omsmsg-0000000099.data"
    disk.put(path, bytes(3 * BLOCK))
    disk.make_unreadable(path, block * BLOCK, block * BLOCK + BLOCK)
    with open_unattended(disk, unreadable_as_damaged=True) as database:
        assert [file.verdict for file in database.recovery.files if file.name == path.name] == [Verdict.TORN]
        assert not database.recovery.lost
        assert state_of(database) == SEALED.state()
    assert archives_in(disk), "it is not removed as one that was only prepared"
