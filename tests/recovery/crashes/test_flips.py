"""One bit of a store flipped: every bit of one file's frames and its footer's ends, bits of every other part of all.

The sample has a bit of each byte of frames' and files' headers, and of each other part of every file; the rest has
all other bits of what decides. The campaign (`-m slow`) flips every bit of every file.

What must be left is known exactly: everything but what the flipped frame held. When may the verdict
be "clean" although a byte differs? Only where nothing was promised and nothing can tell:

    frame padding, and the zeros between the header's copies, of a file without a footer
"""

from collections.abc import Iterator

import pytest

from oms_journal.journal.format.frames import FRAME_SIZE
from oms_journal.journal.operations import LOW_WATER_KEY
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.survey import survey
from oms_journal.recovery.validation import examine
from tests.support.crashes.crash_model import SPOOL, State, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, archives_in, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
HEADERS = 4352
ALIGNED = small_store(group_alignment=64)
STORES = [pytest.param(SEALED, id="sealed"), pytest.param(UNSEALED, id="unsealed")]


def places(store: Store, name: str, *, stride: int) -> Iterator[int]:
    """Yield bits of a file: every `stride`-th byte, each time another of its bits."""
    for turn, byte in enumerate(range(0, len(store.files[name]), stride)):
        yield 8 * byte + turn % 8


def bits_that_decide(store: Store, name: str) -> Iterator[int]:
    """Yield every bit of frames' headers and records, and of the footer's ends, and one of each byte of the headers."""
    data = store.files[name]
    frames = store.frames_of(name)
    yield from (8 * byte + byte % 8 for byte in range(256))
    yield from (8 * byte + (byte + 4) % 8 for byte in range(512, HEADERS))
    ranges = [(frame.offset, frame.body) for frame in frames]
    if store is not UNSEALED or name != store.newest():
        ranges += [(frames[-1].end, frames[-1].end + 232), (len(data) - 32, len(data))]
    for start, end in ranges:
        yield from range(8 * start, 8 * end)


def part_of(store: Store, name: str, bit: int) -> tuple[str, int]:
    """Return which part of a file a bit lies in, of headers of frames the byte too."""
    byte = bit // 8
    frame = store.frame_at(name, byte)
    if frame is None:
        return ("headers", byte // 64) if byte < HEADERS else ("footer", 0)
    if byte < frame.offset + FRAME_SIZE:
        return "frame", byte - frame.offset
    if byte < frame.body:
        return "records", 0
    return ("payload" if any(piece.start <= byte < piece.end for piece in frame.pieces) else "padding"), 0


def is_vouched(store: Store, frame: FrameAt) -> bool:
    """Say whether something besides the frame itself says that it was durable."""
    if store is not UNSEALED or frame.name != store.newest():
        return True
    return any(other.synced > frame.offset for other in store.frames_of(frame.name) if other is not frame)


def expected(store: Store, name: str, bit: int) -> State:
    """Return what a start must find after the flip."""
    frame = store.frame_at(name, bit // 8)
    if frame is None:
        return store.state()
    if not is_vouched(store, frame):
        in_padding = bit // 8 >= max([frame.body, *(piece.end for piece in frame.pieces)])
        return store.state() if in_padding else store.state(lost=[frame])
    if bit // 8 < frame.body:
        return store.rotted(frame)
    return store.rotted(pieces=[piece for piece in frame.pieces if piece.start <= bit // 8 < piece.end])


def is_unpromised(store: Store, name: str, bit: int) -> bool:
    """Say whether the flip is where nothing was promised, so that "clean" is no lie."""
    if store is not UNSEALED or name != store.newest():
        return False
    frame, byte = store.frame_at(name, bit // 8), bit // 8
    if frame is None:
        return 256 <= byte < 4096
    return byte >= max([frame.body, *(piece.end for piece in frame.pieces)])


def verdict_on(disk: SimulatedDisk, name: str) -> tuple[Verdict, str]:
    """Return the verdict on one file, without judging the others."""
    (task,) = [task for task in survey(disk, SPOOL) if task.path.name == name]
    decision = examine(disk, task, full=True).decision
    return decision.verdict, decision.row


def check_noticed(store: Store, name: str, bit: int) -> None:
    verdict, row = verdict_on(store.flipped(name, bit), name)
    assert verdict is not Verdict.CLEAN or is_unpromised(store, name, bit), (name, divmod(bit, 8), row)


def share_of(share: Share, store: Store, name: str, stride: int) -> list[int]:
    return share.of(places(store, name, stride=stride), 2, kind=lambda bit: part_of(store, name, bit)[0])


@a_sample(1, more=1)
@in_three_sizes
@pytest.mark.parametrize("store", STORES)
def test_no_flipped_bit_that_decides_something_goes_unnoticed(store: Store, share: Share) -> None:
    name = store.newest()
    for bit in share.of(bits_that_decide(store, name), 25, kind=lambda bit: part_of(store, name, bit)):
        check_noticed(store, name, bit)


@in_three_sizes
@pytest.mark.parametrize("store", STORES)
def test_no_flipped_byte_anywhere_goes_unnoticed(store: Store, share: Share) -> None:
    for name in store.data_files():
        for bit in share.of(places(store, name, stride=7), 8):
            check_noticed(store, name, bit)


@a_sample(1, more=1)
@in_three_sizes
@pytest.mark.parametrize("store", STORES)
def test_a_flipped_bit_costs_what_its_frame_held_and_nothing_else(store: Store, share: Share) -> None:
    for name in store.data_files() if store is SEALED else [store.newest()]:
        for bit in share_of(share, store, name, stride=61):
            check_salvage(store, name, bit)


@in_three_sizes
def test_a_flipped_bit_between_groups_costs_nothing(share: Share) -> None:
    """Nor anywhere else more than its frame held, where groups are aligned."""
    for name in ALIGNED.data_files():
        for bit in share_of(share, ALIGNED, name, stride=47):
            check_salvage(ALIGNED, name, bit)


@in_three_sizes
def test_a_flipped_low_water_mark_lets_go_of_nothing(share: Share) -> None:
    name, piece = next((f.name, p) for f in SEALED.frames for p in f.pieces if p.key == LOW_WATER_KEY.decode())
    for bit in share.of(range(8 * piece.start, 8 * piece.end), 2):
        check_salvage(SEALED, name, bit)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_every_flipped_bit_costs_what_its_frame_held_and_nothing_else(store: Store) -> None:
    for name in store.data_files():
        for bit in range(8 * len(store.files[name])):
            check_noticed(store, name, bit)
            if bit % 11 == 0:
                check_salvage(store, name, bit)


def check_salvage(store: Store, name: str, bit: int) -> None:
    disk = store.flipped(name, bit)
    verdict, row = verdict_on(disk, name)
    with open_unattended(disk) as database:
        (report,) = [report for report in database.recovery.files if report.name == name]
        assert (report.verdict, report.row) == (verdict, row)
        assert state_of(database) == expected(store, name, bit), (name, divmod(bit, 8), row)
        if verdict is not Verdict.CLEAN:
            assert archives_in(disk)[report.archive or ""] == store.flipped(name, bit).content(SPOOL / name)
    assert found_after(disk) == expected(store, name, bit), (name, divmod(bit, 8), row)
