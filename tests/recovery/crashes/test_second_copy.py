"""A rotted frame of a sealed file: its footer is a second copy of what the frame did.

Nothing that was removed comes back, and no older value. What is lost are the bytes of messages, whose numbers are
known, and values that are longer than what a footer has of them.
"""

from dataclasses import replace

import pytest

from oms_journal.journal.errors import MessageDamaged, RecoveryRefused
from oms_journal.journal.format.contents import COLUMNS, DAMAGED
from oms_journal.journal.format.footer import encode_footer
from oms_journal.journal.format.records import VALUE_HEAD_BYTES
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import SPOOL, Account, Writer, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, in_two_sizes

FIRST = "omsmsg-0000000001.data"


def long_store() -> Store:
    """Return a closed store of one file in which everything was done to messages and keys, long values among them."""
    disk, account = SimulatedDisk(), Account()
    with open_unattended(disk, max_data_file_size="64K") as database:
        writer = Writer(database, account)
        numbers = writer.add_many("q", [b"one", b"two", b"three"])
        numbers = [*numbers, *writer.add_many("q", [b"x" * 40] * 9)]
        writer.put("short", b"older")
        writer.put("long", b"older")
        writer.put("gone", b"not for long")
        writer.deliver(*numbers[:2])
        writer.deliver(numbers[5], numbers[7], numbers[8])
        writer.delete(numbers[2])
        writer.put("short", b"n" * VALUE_HEAD_BYTES)
        writer.put("long", b"n" * (VALUE_HEAD_BYTES + 1))
        writer.drop("gone")
        writer.exchange(numbers[3], "q", b"answer", "pair", b"v" * 200)
        writer.add("q", b"identified", producer_id="order-1")
    return Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, account)


LONG = long_store()
STORES = [pytest.param(LONG, id="long"), *(pytest.param(small_store(seed=seed), id=f"small {seed}") for seed in (1, 2))]


def rotted(store: Store, *frames: FrameAt) -> SimulatedDisk:
    """Return a disk with the store, one bit of each of these frames' headers flipped."""
    disk = store.disk()
    for frame in frames:
        data = bytearray(disk.content(SPOOL / frame.name))
        data[frame.offset + 20] ^= 4
        disk.put(SPOOL / frame.name, bytes(data))
    return disk


def added(*frames: FrameAt) -> set[int]:
    return {piece.number for frame in frames for piece in frame.pieces if piece.content is not None}


def long_values(*frames: FrameAt) -> int:
    return sum(len(piece.value) > VALUE_HEAD_BYTES for frame in frames for piece in frame.pieces if piece.key)


@in_two_sizes
@pytest.mark.parametrize("store", STORES)
def test_a_rotted_frame_of_a_sealed_file_costs_bytes_and_undoes_nothing(store: Store, share: Share) -> None:
    for frame in share.every(4, store.frames):
        disk = rotted(store, frame)
        with open_unattended(disk) as database:
            report, state, there = database.recovery, state_of(database), {*database.numbers()}
        where = frame.name, frame.offset
        assert state == store.rotted(frame), where
        assert there == store.state().messages.keys(), where
        assert not report.suspects, where
        told = {number for loss in report.lost for first, last in loss.numbers for number in range(first, last + 1)}
        assert told == added(frame), where
        assert all(loss.is_exact for loss in report.lost), where
        assert sum(not loss.is_range for loss in report.lost) == long_values(frame), where
        assert found_after(disk) == store.rotted(frame), where


@in_two_sizes
@pytest.mark.parametrize("store", STORES)
def test_a_file_that_rots_after_its_repair_still_knows_what_was_lost_before(store: Store, share: Share) -> None:
    for first, second in share.every(4, zip(store.frames, store.frames[1:], strict=False)):
        if first.name != second.name:
            continue
        disk = rotted(store, first)
        open_unattended(disk).close()
        data = bytearray(disk.content(SPOOL / second.name))
        data[second.offset + 20] ^= 4
        disk.put(SPOOL / second.name, bytes(data))
        with open_unattended(disk) as database:
            assert state_of(database) == store.rotted(first, second), (first.name, first.offset)
            assert not database.recovery.suspects
        assert found_after(disk) == store.rotted(first, second), (first.name, first.offset)


def test_what_was_delivered_and_dropped_stays_so_and_no_older_value_comes_back() -> None:
    for frame in LONG.frames:
        if not frame.removed and not frame.dropped and not frame.pieces:
            continue
        with open_unattended(rotted(LONG, frame)) as database:
            assert database.get("gone") in (None, b"not for long")
            assert not {number for one in LONG.frames for number in one.removed} & {*database.numbers()}
            assert database.get("gone") is None
            assert database.get("short") == b"n" * VALUE_HEAD_BYTES
            try:
                assert database.get("long") == b"n" * (VALUE_HEAD_BYTES + 1)
            except MessageDamaged:
                assert any(piece.key == "long" for piece in frame.pieces)


def test_a_message_whose_frame_is_gone_can_be_deleted_and_its_identifier_is_known() -> None:
    frame = [frame for frame in LONG.frames if added(frame)][-1]
    number = next(iter(added(frame)))
    disk = rotted(LONG, frame)
    with open_unattended(disk) as database:
        with pytest.raises(MessageDamaged):
            database.read(number)
        assert database.add("q", b"identified", producer_id="order-1") == number
        database.delete(number)
    with open_unattended(disk) as database:
        assert number not in {*database.numbers()}


def test_the_repaired_file_keeps_the_rows_of_what_was_lost_marked() -> None:
    frame = next(frame for frame in LONG.frames if len(frame.removed) > 1)
    disk = rotted(LONG, frame)
    open_unattended(disk).close()
    with DataFile(disk, SPOOL / FIRST) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer)
    contents = footer.contents()
    mine = contents.columns["offset"] == frame.offset
    assert mine.any() and (contents.columns["flags"][mine] & DAMAGED).all()
    assert not (contents.columns["flags"][~mine] & DAMAGED).any()


def test_a_footer_that_contradicts_a_good_frame_is_damaged_and_tells_nothing() -> None:
    frame = LONG.frames[2]
    disk = rotted(LONG, frame)
    with DataFile(disk, SPOOL / FIRST) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer)
    contents = footer.contents()
    columns = {name: contents.columns[name].copy() for name in COLUMNS}
    columns["time"][0] += 100
    summary = footer.summary
    successor = summary.successor, summary.successor_identity
    other = encode_footer(
        replace(contents, columns=columns, ranges=None), summary.header, summary.file_checksum, successor
    )
    disk.put(SPOOL / FIRST, disk.content(SPOOL / FIRST)[: summary.end] + other)
    (report,) = validate_directory(SPOOL, disk)
    assert report.verdict is Verdict.DAMAGED and "footer does not say what the frames do" in report.reason
    assert not any(loss.is_exact for loss in report.losses)
    assert found_after(disk) == LONG.state(lost=[frame])


def test_the_policies_truncate_and_refuse_are_as_they_were() -> None:
    frame = next(frame for frame in LONG.frames if len(frame.removed) > 1)
    behind = [other for other in LONG.frames if other.offset >= frame.offset]
    with open_unattended(rotted(LONG, frame), policy="truncate") as database:
        assert state_of(database) == LONG.state(lost=behind)
        assert database.recovery.suspects
    with pytest.raises(RecoveryRefused):
        open_unattended(rotted(LONG, frame), policy="refuse")


@in_two_sizes
@pytest.mark.parametrize("store", STORES)
def test_what_only_the_footer_of_a_repaired_file_knew_is_told_as_lost_when_that_footer_rots(
    store: Store, share: Share
) -> None:
    for frame in share.every(4, store.frames):
        disk = rotted(store, frame)
        open_unattended(disk).close()
        data = bytearray(disk.content(SPOOL / frame.name))
        data[-40] ^= 1
        disk.put(SPOOL / frame.name, bytes(data))
        with open_unattended(disk) as database:
            report, state = database.recovery, state_of(database)
        where = frame.name, frame.offset
        (loss,) = (loss for loss in report.lost if loss.is_range)
        assert (loss.name, loss.start, loss.end) == (frame.name, frame.offset, frame.end), where
        assert not loss.is_remembered and "an earlier repair" in loss.reason, where
        assert state == store.state(lost=[frame]), where
        back = {*state.messages} - {*store.state().messages}
        assert back <= {n for one in report.suspects if one.kind == "message" for n in range(one.first, one.last + 1)}
        assert found_after(disk) == state, where


@in_two_sizes
@pytest.mark.parametrize("store", STORES)
def test_a_cut_at_the_first_bad_place_forgets_nothing_of_a_gap_before_it(store: Store, share: Share) -> None:
    for first, second in share.every(4, zip(store.frames, store.frames[1:], strict=False)):
        if first.name != second.name:
            continue
        disk = rotted(store, first)
        open_unattended(disk).close()
        data = bytearray(disk.content(SPOOL / second.name))
        data[second.offset + 20] ^= 4
        disk.put(SPOOL / second.name, bytes(data))
        behind = [frame for frame in store.frames_of(second.name) if frame.offset >= second.offset]
        with open_unattended(disk, policy="truncate") as database:
            state = state_of(database)
        lost = [piece for piece in first.pieces if not piece.is_short_value]
        assert state == store.state(lost=behind, damaged=lost), (first.name, first.offset)
        assert found_after(disk) == state, (first.name, first.offset)
