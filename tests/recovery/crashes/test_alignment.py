"""Files of one database that are aligned differently: a header that is lost takes its alignment along.

The sample has every alignment before and behind, and every damage; the rest has all their combinations.
"""

from collections.abc import Callable
from itertools import product
from operator import itemgetter

import pytest

from oms_journal.recovery.report import Verdict
from tests.support.crashes.crash_model import SPOOL, Account, State, Writer, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, archives_in
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, for_each, in_three_sizes

ALIGNMENTS = [8, 64, 512, 4096]
HEADERS = 4352


def store_of(before: int, behind: int, commits: int) -> Store:
    """Return a store of two files, with as many commits of 104 bytes in the first one."""
    disk, account = SimulatedDisk(), Account()
    for alignment, count in ((before, commits), (behind, 1)):
        with open_unattended(disk, group_alignment=alignment, max_data_file_size="64K") as database:
            for _ in range(count):
                Writer(database, account).add("q", b"a message")
    return Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, account)


def _gone(_data: bytes, _frames: list[FrameAt]) -> None:
    return None


def _zeros(data: bytes, _frames: list[FrameAt]) -> bytes:
    return bytes(len(data))


def _rotten(data: bytes, frames: list[FrameAt]) -> bytes:
    """Return the file without its headers and its footer, and with frames that don't match their checksums."""
    rotten = bytearray(bytes(256) + b"x" + bytes(4095) + data[HEADERS : max(frame.end for frame in frames)])
    for frame in frames:
        rotten[frame.offset] ^= 1
    return bytes(rotten)


def _cut(_data: bytes, _frames: list[FrameAt]) -> bytes:
    return b"x" * HEADERS


Damage = Callable[[bytes, list[FrameAt]], bytes | None]


def found(disk: SimulatedDisk, name: str, **named: object) -> State:
    """Return what a start finds that tells a loss in this file, and which later starts find, too."""
    with open_unattended(disk, **named) as database:
        assert {loss.name for loss in database.recovery.lost} == {name}
        state = state_of(database)
    assert found_after(disk, **named) == state
    return state


@for_each(
    ("before", "behind", "commits", "damage"),
    product(ALIGNMENTS, ALIGNMENTS, [1, 3, 12], [_gone, _zeros, _rotten, _cut]),
    sample=16,
    is_long=True,
    kind=itemgetter(0, 1),
)
def test_a_file_of_which_nothing_is_left_becomes_a_gap_whatever_its_successor_is_aligned_to(
    before: int, behind: int, commits: int, damage: Damage
) -> None:
    store = store_of(before, behind, commits)
    name = store.data_files()[0]
    lost = store.frames_of(name)
    disk = store.damaged(name, damage(store.files[name], lost))
    assert found(disk, name) == store.state(lost=lost)
    assert len(archives_in(disk)) == (damage is not _gone)


@for_each(
    ("before", "behind", "commits", "policy"),
    product(ALIGNMENTS, ALIGNMENTS, [2, 12], ["salvage", "truncate"]),
    sample=10,
    kind=itemgetter(0, 1),
)
def test_what_stands_behind_a_lost_header_and_a_lost_first_commit_is_kept(
    before: int, behind: int, commits: int, policy: str
) -> None:
    store = store_of(before, behind, commits)
    name = store.data_files()[0]
    frames = store.frames_of(name)
    data = bytearray(_rotten(store.files[name], frames))
    for frame in frames[1:]:
        data[frame.offset] ^= 1
    disk = store.damaged(name, bytes(data))
    lost = frames[:1] if policy == "salvage" else frames
    assert found(disk, name, policy=policy) == store.state(lost=lost)


@for_each(
    ("before", "behind", "zeros"),
    product(ALIGNMENTS, ALIGNMENTS, [1, 2, 3, 4, 6, 7, 10, 11]),
    sample=25,
    kind=itemgetter(0, 1),
)
def test_a_loss_begins_no_later_than_the_first_commit_that_a_write_gone_elsewhere_has_left_as_zeros(
    before: int, behind: int, zeros: int
) -> None:
    store = store_of(before, behind, 12)
    name = store.data_files()[0]
    frames = store.frames_of(name)
    at = frames[zeros].offset
    body = store.files[name][at : frames[-1].end]
    disk = store.damaged(name, bytes(at) + body)
    with open_unattended(disk) as database:
        lost = [loss for loss in database.recovery.lost if loss.name == name]
        assert state_of(database) == store.state(lost=frames[:zeros])
    assert min(loss.start for loss in lost) <= frames[0].offset
    assert max(loss.end for loss in lost) >= frames[zeros - 1].end


# A file of a copy of the database that went on by itself: its successor names another ending than it has.


def exchanged(ours: int, theirs: int, size: int) -> SimulatedDisk:
    """Return three files, in the middle one that of a copy: two keys with values of this size."""
    base, disk = SimulatedDisk(), SimulatedDisk()
    with open_unattended(base) as database:
        database.add("q", b"of both")
    copy = base.restart()
    with open_unattended(copy, group_alignment=theirs) as database:
        for key in ("one", "two"):
            database.put(key, bytes(size))
    for alignment, sizes in ((ours, (0, 100)), (8, (5,))):
        with open_unattended(base, group_alignment=alignment) as database:
            for each in sizes:
                database.add("q", bytes(each))
    files, exchanged_files = base.contents(SPOOL), copy.contents(SPOOL)
    name = sorted(name for name in files if name.endswith(".data"))[1]
    for there, data in {**files, name: exchanged_files[name]}.items():
        disk.put(SPOOL / there, data)
    return disk


@a_sample(3, more=6)
@in_three_sizes
@pytest.mark.parametrize("ours", [8, 512])
@pytest.mark.parametrize("theirs", [8, 512, 4096])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_start_goes_on_with_a_file_of_a_copy_wherever_the_lost_one_ended(
    ours: int, theirs: int, is_closed: bool, share: Share
) -> None:
    for size in share.of(range(0, 112, 8), 4):
        disk = exchanged(ours, theirs, size)
        name = sorted(name for name in disk.contents(SPOOL) if name.endswith(".data"))[1]
        if not is_closed:
            disk.put(SPOOL / name, disk.content(SPOOL / name)[:-1])
        with open_unattended(disk) as database:
            assert database.recovery.files[1].verdict is Verdict.DAMAGED
            state = state_of(database)
        assert [len(content.payload) for content in state.messages.values()] == [7, 5]
        assert set(state.keys) <= {"one", "two"}
        assert found_after(disk) == state


@pytest.mark.whole
@for_each("boundary", [4608, 8192])
@for_each("behind", [*range(-16, 0, 8), *range(8, 72, 8)])
def test_what_stands_behind_a_first_write_that_went_elsewhere_is_kept_and_the_write_is_told(
    boundary: int, behind: int
) -> None:
    """Headers and first commit are zeros; in another alignment there is no room for a frame before the next one."""
    disk = SimulatedDisk()
    with open_unattended(disk, max_data_file_size="64K") as database:
        database.add("q", bytes(64 << 10))
        for size in (boundary + behind - HEADERS - 88, 1):
            database.add("q", bytes(size))
        files = disk.contents(SPOOL)
    store = Store({name: data for name, data in files.items() if any(data)}, Account())
    name = store.newest()
    first, second = store.frames_of(name)
    assert second.offset == boundary + behind
    gone = store.damaged(name, bytes(first.end) + store.files[name][first.end :])
    with open_unattended(gone) as database:
        assert [loss.name for loss in database.recovery.lost] == [name]
        assert database.recovery.lost[0].end == first.end
        assert state_of(database) == store.state(lost=[first])
    assert found_after(gone) == store.state(lost=[first])
