"""Files of one database that are aligned differently: a header that is lost takes its alignment along."""

from collections.abc import Callable

import pytest

from tests.crash_model import SPOOL, Account, State, Writer, found_after, open_unattended, state_of
from tests.crash_store import FrameAt, Store, archives_in
from tests.faulty_disk import SimulatedDisk

ALIGNMENTS = [8, 64, 512, 4096]
HEADERS = 768


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
    rotten = bytearray(bytes(256) + b"x" + bytes(511) + data[HEADERS : max(frame.end for frame in frames)])
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


@pytest.mark.parametrize("damage", [_gone, _zeros, _rotten, _cut])
@pytest.mark.parametrize("commits", [1, 3, 12])
@pytest.mark.parametrize("behind", ALIGNMENTS)
@pytest.mark.parametrize("before", ALIGNMENTS)
def test_a_file_of_which_nothing_is_left_becomes_a_gap_whatever_its_successor_is_aligned_to(
    before: int, behind: int, commits: int, damage: Damage
) -> None:
    store = store_of(before, behind, commits)
    name = store.data_files()[0]
    lost = store.frames_of(name)
    disk = store.damaged(name, damage(store.files[name], lost))
    assert found(disk, name) == store.state(lost=lost)
    assert len(archives_in(disk)) == (damage is not _gone)


@pytest.mark.parametrize("policy", ["salvage", "truncate"])
@pytest.mark.parametrize("commits", [2, 12])
@pytest.mark.parametrize("behind", ALIGNMENTS)
@pytest.mark.parametrize("before", ALIGNMENTS)
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
