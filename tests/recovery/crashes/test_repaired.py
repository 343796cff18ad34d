"""What an earlier start has repaired, cut at the end of every frame: its gaps, a neighbour or the lock file show it.

A repair writes gap frames and a footer at once, so a gap without a footer is damage, wherever the file ends.
"""

from collections.abc import Iterator

import pytest

from oms_journal.recovery.report import Verdict
from tests.support.crashes.crash_model import SPOOL, State, forget_witness, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, report_on, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

CLOSED, LEFT = small_store(), small_store(is_closed=False)
STORES = [pytest.param(CLOSED, id="of a closed store"), pytest.param(LEFT, id="of one that was left")]


def repaired(store: Store, frame: FrameAt, *, is_closed: bool) -> SimulatedDisk:
    """Return the disk after a start that found this frame rotted: closed, or killed without a commit."""
    disk = store.flipped(frame.name, 8 * (frame.offset + 20))
    database = open_unattended(disk)
    if is_closed:
        database.close()
    return disk.restart()


def cuts(disk: SimulatedDisk, name: str) -> Iterator[tuple[int, SimulatedDisk]]:
    """Yield the ends of a file's frames, and the disk with the file cut there; the last one costs the footer only."""
    data = disk.content(SPOOL / name)
    frames = Store({name: data}, CLOSED.account).frames
    for end in sorted({frame.end for frame in frames}):
        cut = disk.restart()
        cut.put(SPOOL / name, data[:end])
        yield end, cut


def state_after(disk: SimulatedDisk) -> State:
    with open_unattended(disk.restart()) as database:
        return state_of(database)


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("store", STORES)
def test_a_repaired_file_cut_at_the_end_of_any_frame_is_clean_only_where_nothing_is_lost(
    store: Store, is_closed: bool, share: Share
) -> None:
    for frame in share.every(25, store.frames):
        disk = repaired(store, frame, is_closed=is_closed)
        state = state_after(disk)
        for end, cut in cuts(disk, frame.name):
            where = frame.name, frame.offset, end
            report = report_on(cut, frame.name)
            with open_unattended(cut) as database:
                if report.verdict is Verdict.CLEAN:
                    assert database.recovery.intact, where
                    assert state_of(database) == state, where
                else:
                    assert (report.verdict, database.recovery.intact) == (Verdict.DAMAGED, False), where
            found_after(cut)


@pytest.mark.parametrize("store", STORES)
def test_a_gap_without_a_footer_is_damage_and_the_next_start_finds_no_fault(store: Store) -> None:
    for frame in store.frames[::5]:
        disk = repaired(store, frame, is_closed=True)
        if not any(one.is_gap for one in Store({frame.name: disk.content(SPOOL / frame.name)}, store.account).frames):
            continue  # a frame that nothing vouched for was torn
        end, cut = [*cuts(disk, frame.name)][-1]
        assert report_on(cut, frame.name).row == "damaged footer", (frame, end)
        with open_unattended(cut) as database:
            (loss,) = database.recovery.lost
            assert loss.start == frame.offset
        with open_unattended(cut) as database:
            assert database.recovery.intact


def test_without_the_lock_file_the_newest_one_cut_in_front_of_its_first_gap_looks_whole() -> None:
    """What the guarantees say cannot be told: frames of a repaired file are as any other ones."""
    frames = LEFT.frames_of(LEFT.newest())
    lost = frames[len(frames) // 2]
    disk = forget_witness(repaired(LEFT, lost, is_closed=True))
    told = {end: report_on(cut, lost.name).verdict for end, cut in cuts(disk, lost.name)}
    assert {end for end, verdict in told.items() if verdict is Verdict.CLEAN} == {
        end for end in told if end <= lost.offset
    }
    assert len({*told.values()}) == 2
