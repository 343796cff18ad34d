"""A data file cut at every byte, the newest one and the others, sealed and not.

Every whole frame in front of the cut is kept, nothing else is lost. One cut cannot be seen: where the
newest file, whose end nothing else tells, is cut behind a frame it ends like a file that ended there.

The sample cuts around every end of a frame and of a header, and in between at some bytes; the rest cuts at all others.
"""

from collections.abc import Iterable, Iterator

import pytest

from oms_journal.recovery.report import Verdict
from oms_journal.recovery.survey import survey
from oms_journal.recovery.validation import examine
from tests.support.crashes.crash_model import SPOOL, Account, forget_witness, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, archives_in, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
HEADER_ENDS = (0, 1, 255, 256, 4095, 4096, 4351, 4352)
CASES = [
    pytest.param(SEALED, SEALED.data_files()[0], id="an old file"),
    pytest.param(SEALED, SEALED.newest(), id="the newest file, sealed"),
    pytest.param(UNSEALED, UNSEALED.newest(), id="the newest file, being written"),
]


def cut_off(store: Store, name: str, size: int) -> list[FrameAt]:
    return [frame for frame in store.frames_of(name) if frame.end > size]


def may_look_whole(store: Store, name: str, size: int) -> bool:
    """Say whether nothing can tell that the file was longer, or nothing but zeros and footer was cut.

    Zeros behind the end of a frame tell nothing: the next frame may begin with some.
    """
    ends = [frame.end for frame in store.frames_of(name)]
    behind = [store.files[name][end:size] for end in ends if end <= size]
    return size >= ends[-1] or (name == store.newest() and bool(behind) and not any(behind[-1]))


def around_ends(store: Store, name: str) -> set[int]:
    return {frame.end + offset for frame in store.frames_of(name) for offset in (-1, 0, 1, 8)} | {*HEADER_ENDS}


@a_sample(more=2)
@in_three_sizes
@pytest.mark.parametrize(("store", "name"), CASES)
def test_a_cut_at_any_byte_shows(store: Store, name: str, share: Share) -> None:
    ends = around_ends(store, name)
    check_shows(
        store, name, share.of(range(len(store.files[name])), 100, kind=lambda size: size if size in ends else None)
    )


def test_a_cut_behind_zeros_that_the_next_frame_begins_with_looks_whole() -> None:
    """A checksum begins with a zero byte once in 256 frames."""
    store, found = next((store, found) for store in _stores() if (found := _begins_with_zeros(store)))
    check_shows(store, found.name, range(found.offset - 1, found.offset + 9))


def _stores() -> Iterator[Store]:
    while True:
        disk = SimulatedDisk()
        database = open_unattended(disk, max_data_file_size="64K")
        for _ in range(300):
            database.add("q", b"x")
        yield Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, Account())


def _begins_with_zeros(store: Store) -> FrameAt | None:
    frames = store.frames_of(store.newest())[1:]
    return next((frame for frame in frames if store.files[frame.name][frame.offset] == 0), None)


def check_shows(store: Store, name: str, sizes: Iterable[int]) -> None:
    for size in sizes:
        disk = store.damaged(name, store.files[name][:size])
        (task,) = [task for task in survey(disk, SPOOL) if task.path.name == name]
        examined = examine(disk, task, full=True)
        is_clean = examined.decision.verdict is Verdict.CLEAN
        assert is_clean <= may_look_whole(store, name, size), (size, examined.decision)
        assert examined.decision.row != "missing"


@a_sample(1, more=2)
@in_three_sizes
@pytest.mark.parametrize(("store", "name"), CASES)
def test_a_cut_at_any_byte_costs_the_frames_behind_it(store: Store, name: str, share: Share) -> None:
    sizes = around_ends(store, name) | set(range(0, len(store.files[name]), 41))
    for size in share.of(sorted(size for size in sizes if size < len(store.files[name])), 6):
        check_salvage(store, name, size)


@pytest.mark.slow
@pytest.mark.parametrize(("store", "name"), CASES)
def test_every_single_cut_costs_the_frames_behind_it(store: Store, name: str) -> None:
    for size in range(len(store.files[name])):
        check_salvage(store, name, size)


def check_salvage(store: Store, name: str, size: int) -> None:
    data = store.files[name][:size]
    disk = store.damaged(name, data)
    expected = store.state(lost=cut_off(store, name, size))
    with open_unattended(disk) as database:
        assert state_of(database) == expected, size
        (report,) = [report for report in database.recovery.files if report.name == name]
        if report.archive:
            assert archives_in(disk)[report.archive] == data
        else:
            assert report.verdict is Verdict.CLEAN, size
        assert database.recovery.intact == (report.verdict is Verdict.CLEAN)
    assert found_after(disk) == expected, size


@pytest.mark.parametrize(("store", "name"), CASES)
def test_a_file_that_is_gone_or_emptied_is_a_loss(store: Store, name: str) -> None:
    for left in (None, b"", bytes(len(store.files[name]))):
        disk = store.damaged(name, left)
        with open_unattended(disk) as database:
            (loss,) = database.recovery.lost
            assert loss.name == name
            assert state_of(database) == store.state(lost=store.frames_of(name))
            assert database.add("q", b"new") > store.account.highest
        found_after(disk)


def test_what_was_lost_is_named_by_its_numbers() -> None:
    name = SEALED.data_files()[1]
    lost = {piece.number for frame in SEALED.frames_of(name) for piece in frame.pieces if piece.content}
    with open_unattended(SEALED.damaged(name, None)) as database:
        (loss,) = database.recovery.lost

    assert lost <= {number for first, last in loss.numbers for number in range(first, last + 1)}


def test_the_newest_file_cut_behind_its_first_group_is_no_loss_of_the_ones_before() -> None:
    """A torn first write: the only one that a header may be missing after."""
    name = UNSEALED.newest()
    first = UNSEALED.frames_of(name)[0]
    whole = UNSEALED.files[name][: first.end]
    for torn in (bytes(512) + whole[512:], whole[:4096] + bytes(256) + whole[4352:], whole[:4096]):
        disk = forget_witness(UNSEALED.damaged(name, torn.ljust(4096, b"\0")))
        disk.put(SPOOL / UNSEALED.data_files()[-2], _unsealed(UNSEALED, UNSEALED.data_files()[-2]))
        with open_unattended(disk) as database:
            assert not database.recovery.lost
            assert [file.verdict for file in database.recovery.files][-1] is Verdict.TORN
        found_after(disk)


def _unsealed(store: Store, name: str) -> bytes:
    """Return the file as it was before it got its footer."""
    return store.files[name][: store.frames_of(name)[-1].end].ljust(4096, b"\0")
