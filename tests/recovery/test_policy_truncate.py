"""The policy "truncate": a file ends at its first bad place; what was cut with it is lost, and told as exactly."""

from itertools import pairwise
from pathlib import Path

import pytest

from oms_journal.journal.format.frames import GAP
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.walk import Span, walk
from oms_journal.recovery.report import Loss, Verdict
from oms_journal.recovery.startup import RecoveryOptions, recover
from tests.support.crashes.crash_model import SPOOL, Account, Writer, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, archives_in, headers_of, small_store
from tests.support.disks.faulty_disk import SimulatedDisk

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
ALIGNED = small_store(group_alignment=512, max_data_file_size="64K")
FOLLOWED = small_store(group_alignment=512)
STORES = pytest.mark.parametrize("store", [SEALED, UNSEALED, ALIGNED], ids=["sealed", "unsealed", "aligned"])


def added(frames: list[FrameAt]) -> set[int]:
    return {piece.number for frame in frames for piece in frame.pieces if piece.content is not None}


def numbers(loss: Loss) -> set[int]:
    return {number for first, last in loss.numbers for number in range(first, last + 1)}


def check_cut(store: Store, disk: SimulatedDisk, frame: FrameAt) -> None:
    """Check that a start cuts the frame's file there, reports all of it, and that later ones find the same."""
    found = disk.contents(SPOOL)[frame.name]
    lost = [other for other in store.frames_of(frame.name) if other.offset >= frame.offset]
    with open_unattended(disk, policy="truncate") as database:
        state = state_of(database)
        (loss,) = database.recovery.lost
        suspects = [one for one in database.recovery.suspects if one.kind == "message"]
    with open_unattended(disk.restart()) as again:
        assert again.recovery.intact, again.recovery
    assert state == store.state(lost=lost), (frame.name, frame.offset)
    assert loss.name == frame.name
    assert loss.end == lost[-1].end
    assert max([FRAMES_AT, *(one.end for one in store.frames_of(frame.name) if one not in lost)]) <= loss.start
    assert loss.start <= frame.offset
    assert added(lost) <= numbers(loss)
    if loss.is_exact:
        assert numbers(loss) == added(lost)
        queues = {piece.content.queue for one in lost for piece in one.pieces if piece.content is not None}
        assert queues <= set(loss.queues)
    check_gap(disk, frame.name)
    removed = {number for one in lost for number in one.removed}
    returned = removed & state.messages.keys()
    assert all(any(one.first <= number <= one.last for one in suspects) for number in returned)
    assert [*archives_in(disk).values()] == [found]
    assert found_after(disk) == store.state(lost=lost), (frame.name, frame.offset)


def check_gap(disk: SimulatedDisk, name: str) -> None:
    """Check that a gap begins where the frame before it ends: zeros between them could have been anything."""
    data = disk.contents(SPOOL).get(name, b"")
    if not data:
        return
    header = headers_of(data)
    span = Span(sequence=header.sequence, identity=header.identity, limit=len(data))
    frames = walk(data, span).frames
    for end, frame in zip([FRAMES_AT, *(frame.end for frame in frames)], frames, strict=False):
        assert frame.offset == end or not frame.flags & GAP, (name, end, frame)


@pytest.mark.whole
@STORES
def test_a_bad_frame_ends_its_file_and_all_behind_it_is_reported(store: Store) -> None:
    for name in store.data_files():
        for frame in store.frames_of(name):
            if frame.offset < max(one.synced for one in store.frames_of(name)) or name != store.newest():
                check_cut(store, store.flipped(name, 8 * frame.offset), frame)


@pytest.mark.whole
@STORES
def test_bytes_of_one_message_end_the_file_in_front_of_its_commit(store: Store) -> None:
    for name in store.data_files():
        for frame in store.frames_of(name):
            pieces = [piece for piece in frame.pieces if piece.start < piece.end]
            if pieces and (name != store.newest() or store is not UNSEALED):
                check_cut(store, store.flipped(name, 8 * pieces[-1].start), frame)


def test_bad_padding_behind_the_cut_goes_with_it() -> None:
    name = ALIGNED.newest()
    frames = [frame for frame in ALIGNED.frames_of(name) if frame.pieces]
    later = next(one for one in frames[1:] if one.pieces[-1].end + 8 < one.end)
    data = bytearray(ALIGNED.files[name])
    data[frames[0].offset] ^= 1
    data[later.end - 4] ^= 1
    check_cut(ALIGNED, ALIGNED.damaged(name, bytes(data)), frames[0])


@pytest.mark.whole
@pytest.mark.parametrize("store", [ALIGNED, FOLLOWED], ids=["last", "followed"])
def test_bad_padding_in_front_of_the_cut_goes_with_it_too(store: Store) -> None:
    tried = 0
    for name in store.data_files():
        for before, frame in pairwise(frame for frame in store.frames_of(name) if frame.pieces):
            payload = next((piece.start for piece in frame.pieces if piece.start < piece.end), None)
            if payload is not None and before.pieces[-1].end + 8 < before.end:
                data = bytearray(store.files[name])
                data[before.end - 4] ^= 1
                data[payload] ^= 1
                check_cut(store, store.damaged(name, bytes(data)), frame)
                tried += 1
    assert tried > 3


def test_numbers_that_nobody_knows_are_not_told_as_none_beside_those_that_are_known() -> None:
    """Behind the last commit that is good no number tells how many were added in one that is not."""
    name = SEALED.newest()
    *before, last, vouching = SEALED.frames_of(name)
    first = next(frame for frame in before if added([frame]))
    assert added([last]) and not added([vouching])
    data = bytearray(SEALED.files[name][: vouching.end])  # its footer is gone
    data[next(piece.start for piece in first.pieces if piece.start < piece.end)] ^= 1
    data[last.offset] ^= 1
    with open_unattended(SEALED.damaged(name, bytes(data)), policy="truncate") as database:
        known, unknown = database.recovery.lost
    assert (unknown.start, unknown.end, numbers(unknown)) == (last.offset, vouching.end, set())
    assert (known.start, known.end, numbers(known)) == (first.offset, last.offset, added(before))


def test_what_clean_up_had_let_go_of_is_not_missed_when_its_mark_is_cut() -> None:
    """The mark is in the file that is cut, and some of the files below it may still be there."""
    disk, account = SimulatedDisk(), Account()
    with open_unattended(disk) as database:
        writer = Writer(database, account)
        gone = [writer.add("q", bytes(2600)) for _ in range(4)]
        before = writer.add("q", b"stays")
        writer.deliver(*gone)
        database.cleanup()
        writer.add("q", b"lost")
    store = Store(disk.contents(SPOOL), account)
    name = store.newest()
    assert min(store.data_files()) > "omsmsg-0000000001"
    frames = store.frames_of(name)
    bad = next(frame for frame in frames if frame.removed or any(piece.number == before for piece in frame.pieces))
    cut = store.flipped(name, 8 * bad.offset)

    with open_unattended(cut, policy="truncate") as database:
        assert [loss.name for loss in database.recovery.lost] == [name]
    for _ in range(2):
        with open_unattended(cut) as database:
            assert database.recovery.intact, database.recovery


def test_a_dry_run_tells_what_would_be_cut(tmp_path: Path) -> None:
    name = SEALED.data_files()[1]
    frame = SEALED.frames_of(name)[2]
    for each, data in SEALED.flipped(name, 8 * frame.offset).contents(SPOOL).items():
        (tmp_path / each).write_bytes(data)

    told = recover(tmp_path, RecoveryOptions(policy="truncate"), dry_run=True)
    done = recover(tmp_path, RecoveryOptions(policy="truncate"))

    assert told.lost == done.lost
    assert told.suspects == done.suspects
    assert told.undelivered == done.undelivered


@pytest.mark.parametrize("left", ["gone", "zeros", "nothing"])
def test_with_a_file_of_which_all_was_cut_nothing_more_is_lost(left: str) -> None:
    disk = SimulatedDisk()
    killed = open_unattended(disk)
    killed.add("q", b"first")
    killed.vouch()
    disk = disk.restart()
    path = SPOOL / "omsmsg-0000000001.data"
    data = disk.content(path)
    disk.put(path, data[:4384] + bytes([data[4384] ^ 1]) + data[4385:])
    with open_unattended(disk, policy="truncate") as database:
        assert database.recovery.lost
        number = database.add("q", b"second")
    if left == "gone":
        disk.remove(path)
    else:
        disk.put(path, bytes(8192 if left == "zeros" else 0))
    with open_unattended(disk) as again:
        (report,) = (file for file in database.recovery.files if file.name == path.name)
        assert report.verdict is Verdict.DAMAGED and not again.recovery.lost and not again.recovery.suspects
        assert [*again.numbers()] == [number]
    assert found_after(disk).messages.keys() == {number}


@pytest.mark.parametrize("policy", ["salvage", "truncate"])
def test_with_a_file_that_ends_with_a_gap_all_that_stands_in_front_of_that_is_lost(policy: str) -> None:
    """Its last frame is of no commit then, and its successor says so."""
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        kept = database.add("q", b"kept")
        offset = database._journal.unsealed_bytes()
        database.add("q", b"lost")
    path = SPOOL / "omsmsg-0000000001.data"
    data = disk.content(path)
    with DataFile(disk, path) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer)
    end = footer.summary.end
    disk.put(path, data[:offset] + bytes(end - offset) + data[end:])
    with open_unattended(disk, policy=policy) as database:
        assert [message.number for message in database.undelivered()] == [kept] and database.recovery.lost
        database.add("q", b"later")
    disk.remove(path)
    with open_unattended(disk) as database:
        assert [loss.name for loss in database.recovery.lost] == [path.name]
