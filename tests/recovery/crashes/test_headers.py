"""Headers that rotted, one copy or both, and headers and frames of a newer format."""

import pytest

from oms_journal import DatabaseView
from oms_journal.journal.errors import DiskError, NewerFormat, NotThisDatabase
from oms_journal.journal.format.frames import FRAME_SIZE, seed_of
from oms_journal.journal.format.headers import HEADER_COPIES, xxh3
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.report import Loss, Verdict
from tests.support.crashes.crash_model import SPOOL, forget_witness, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import (
    archives_in,
    assert_refused,
    headers_of,
    report_on,
    small_store,
    with_header,
)
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import a_sample

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
LAST = SEALED.newest()
FIRST = "omsmsg-0000000001.data"


@a_sample(5)
@pytest.mark.parametrize("name", SEALED.data_files())
@pytest.mark.parametrize("place", [0, 8, 255, 4096, 4351])
def test_one_rotted_copy_of_a_header_costs_nothing(name: str, place: int) -> None:
    disk = SEALED.flipped(name, 8 * place)
    assert report_on(disk, name).row == "damaged header"
    assert found_after(disk) == SEALED.state()


@pytest.mark.parametrize("validation", ["full", "footers"])
@pytest.mark.parametrize("name", SEALED.data_files())
def test_a_frame_that_rotted_beside_a_copy_of_the_header_is_found_since_the_file_is_written_anew(
    name: str, validation: str
) -> None:
    frame = SEALED.frames_of(name)[1]
    data = bytearray(SEALED.files[name])
    data[8] ^= 1
    data[frame.offset + 20] ^= 1
    with open_unattended(SEALED.damaged(name, bytes(data)), validation=validation) as database:
        assert [(loss.name, loss.start, loss.end) for loss in database.recovery.lost] == [
            (name, frame.offset, frame.end)
        ]
        assert state_of(database) == SEALED.rotted(frame)


@pytest.mark.parametrize("name", SEALED.data_files())
def test_both_rotted_copies_of_a_header_cost_nothing_while_a_neighbour_or_the_footer_knows_the_file(name: str) -> None:
    data = SEALED.files[name]
    for rest in (data, data[: SEALED.frames_of(name)[-1].end]):
        disk = SEALED.damaged(name, bytes(256) + b"x" + bytes(4095) + rest[4352:])
        with open_unattended(disk) as database:
            assert not database.recovery.lost
            assert state_of(database) == SEALED.state()
        found_after(disk)


@pytest.mark.parametrize("lost", [4352 + 8, 4352 + 104, 4352 + 3 * 104])
def test_a_lone_file_whose_header_is_lost_is_kept_in_an_archive_and_its_numbers_stay_lost(lost: int) -> None:
    """Its first groups perhaps with it: their sectors may have been written elsewhere."""
    disk = SimulatedDisk()
    with open_unattended(disk, max_data_file_size="64K") as database:
        numbers = [database.add("q", b"lost") for _ in range(5)]
    (name,) = [name for name in disk.list(SPOOL) if name.endswith(".data")]
    frames = disk.content(SPOOL / name)[lost : 4352 + 5 * 104]
    disk.put(SPOOL / name, bytes(lost) + frames + bytes(1000))
    forget_witness(disk)
    with open_unattended(disk) as database:
        assert [loss.name for loss in database.recovery.lost] == [name]
        assert len(archives_in(disk)) == 1
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert database.add("q", b"new") > numbers[-1]


def test_a_lone_file_whose_header_is_lost_and_whose_first_commit_is_not_has_lost_nothing() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk, max_data_file_size="64K") as database:
        numbers = [database.add("q", b"kept") for _ in range(5)]
    (name,) = [name for name in disk.list(SPOOL) if name.endswith(".data")]
    frames = disk.content(SPOOL / name)[4352 : 4352 + 5 * 104]
    disk.put(SPOOL / name, bytes(4352) + frames + bytes(1000))
    forget_witness(disk)
    with open_unattended(disk) as database:
        assert [(file.row, file.losses) for file in database.recovery.files] == [("damaged header", ())]
        assert len(archives_in(disk)) == 1
        assert [*database.numbers()] == numbers
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert database.add("q", b"new") > numbers[-1]


@pytest.mark.parametrize("left", [0, 4096])
def test_a_lone_file_of_zeros_that_was_never_the_first_ever_is_lost_and_its_numbers_stay_lost(left: int) -> None:
    """Its only write may have gone elsewhere, and clean-up has removed what was before it."""
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        numbers = [database.add("q", b"x" * 1000) for _ in range(5)]
        database.deliver_many(numbers)
        database.cleanup()
    (name,) = [name for name in disk.list(SPOOL) if name.endswith(".data")]
    disk.put(SPOOL / name, bytes(left))
    with open_unattended(disk) as database:
        assert [loss.name for loss in database.recovery.lost] == [name]
        assert database.recovery.files[-1].row == "emptied"
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert database.add("q", b"new") > numbers[-1]


def test_the_first_file_ever_may_be_prepared_and_never_used() -> None:
    disk = SimulatedDisk()
    disk.make_directory(SPOOL)
    disk.put(SPOOL / FIRST, bytes(4096))
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert database.recovery.files[-1].row == "prepared"


def _of_one_file(kept: int) -> bytes:
    """Return a database's only file, of which its first write has left so much."""
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        database.add("q", b"never acknowledged")
    return disk.content(SPOOL / FIRST)[:kept].ljust(8192, b"\0")


def _prepare(disk: SimulatedDisk) -> list[Loss]:
    """Start, and end while the next file is prepared; return what that start has lost."""
    database = open_unattended(disk)
    disk.put(SPOOL / str(DataFileName(database._first_sequence)), bytes(4096))
    return list(database.recovery.lost)


@pytest.mark.whole
@pytest.mark.parametrize("kept", [0, 300, 4352, 4384])
def test_nor_is_a_later_one_lost_where_starts_have_removed_those_before_it(kept: int) -> None:
    """Wherever these starts end: whatever they had to remove was promised to nobody."""
    for step in range(1, 1000):
        disk = SimulatedDisk()
        disk.make_directory(SPOOL)
        disk.put(SPOOL / FIRST, _of_one_file(kept))
        assert report_on(disk, FIRST).row == ("never begun" if kept else "prepared")
        is_ended = True
        for turn in range(3):
            disk.kill_at = step + turn
            try:
                assert not _prepare(disk), (step, turn)
            except Killed:
                is_ended = False
            disk = disk.crash(step)
        for _ in range(3):
            assert not _prepare(disk), step
            disk = disk.restart()
        with open_unattended(disk) as database:
            assert not database.recovery.lost
        if is_ended:
            return
    raise AssertionError("a start without a kill comes at last")


@pytest.mark.parametrize("starts", [0, 1])
@pytest.mark.parametrize("removed", [1, 3])
def test_but_where_one_was_begun_since_a_lone_file_of_zeros_is_lost_again(removed: int, starts: int) -> None:
    """Clean-up has removed what was before it."""
    disk = SimulatedDisk()
    for _ in range(removed):
        assert not _prepare(disk)
        disk = disk.restart()
    for _ in range(starts):
        open_unattended(disk).close()
    with open_unattended(disk) as database:
        numbers = [database.add("q", b"x" * 1000) for _ in range(5)]
        database.deliver_many(numbers)
        database.cleanup()
    (name,) = [name for name in disk.list(SPOOL) if name.endswith(".data")]
    disk.put(SPOOL / name, bytes(4096))
    with open_unattended(disk) as database:
        assert [loss.name for loss in database.recovery.lost] == [name]
        assert database.add("q", b"new") > numbers[-1]


def test_so_it_is_where_the_file_that_a_start_removes_says_that_there_were_others() -> None:
    header = headers_of(SEALED.files[LAST])
    disk = SimulatedDisk()
    disk.make_directory(SPOOL)
    begun = with_header(SEALED.files[LAST][:4352], sequence=header.sequence, low_water=header.sequence)
    disk.put(SPOOL / LAST, begun.ljust(4096, b"\0"))
    assert report_on(disk, LAST).row == "never begun"
    assert not _prepare(disk)
    assert [loss.name for loss in _prepare(disk.restart())] == [f"omsmsg-{header.sequence + 1:010}.data"]


def test_older_frames_without_a_header_are_what_the_blocks_of_a_prepared_file_held_before() -> None:
    name = f"omsmsg-{headers_of(SEALED.files[LAST]).sequence + 1:010}.data"
    stale = bytes(4352) + SEALED.files[SEALED.data_files()[0]][4352:5632] + bytes(2048)
    disk = SEALED.damaged(name, stale)
    with open_unattended(disk) as database:
        assert database.recovery.files[-1].row == "torn at birth"
        assert not database.recovery.lost
        assert state_of(database) == SEALED.state()


@pytest.mark.parametrize("sector", range(1, 7))
@pytest.mark.parametrize("place", range(-3, 0))
def test_a_write_of_another_file_that_lies_in_a_prepared_one_makes_it_no_lost_one(sector: int, place: int) -> None:
    """At the offset where it should have been in its own file, too."""
    frame = UNSEALED.frames_of(LAST)[place]
    start, end = frame.offset // 512 * 512, -(-frame.end // 512) * 512
    name = f"omsmsg-{headers_of(UNSEALED.files[LAST]).sequence + 1:010}.data"
    zeros = bytearray(4096)
    zeros[sector * 512 : sector * 512 + end - start] = UNSEALED.files[LAST][start:end]
    with open_unattended(UNSEALED.damaged(name, bytes(zeros))) as database:
        assert not database.recovery.lost
        assert state_of(database) == UNSEALED.state()


@pytest.mark.parametrize("has_prepared", [False, True])
def test_the_first_group_of_a_file_is_promised_by_the_footer_before_it_whatever_was_prepared_behind_it(
    has_prepared: bool,
) -> None:
    """A file is sealed when its successor has a durable group."""
    first = UNSEALED.frames_of(LAST)[0]
    data = bytearray(UNSEALED.files[LAST][: first.end].ljust(4096, b"\0"))
    data[first.offset + 20] ^= 1
    disk = UNSEALED.damaged(LAST, bytes(data))
    if has_prepared:
        disk.put(SPOOL / f"omsmsg-{headers_of(UNSEALED.files[LAST]).sequence + 1:010}.data", bytes(4096))
    with open_unattended(disk) as database:
        assert [(loss.name, loss.start) for loss in database.recovery.lost] == [(LAST, first.offset)]
        assert state_of(database) == UNSEALED.state(lost=UNSEALED.frames_of(LAST))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("into_footer", [0, 8, 16, 40, 600])
def test_the_last_frames_of_a_closed_file_are_promised_though_its_footer_rots_with_them(
    count: int, into_footer: int
) -> None:
    data, frames = SEALED.files[LAST], SEALED.frames_of(LAST)[-count:]
    start, end = frames[0].offset, frames[-1].end
    rotten = data[:start] + b"\xee" * (end + into_footer - start) + data[end + into_footer :]
    disk = SEALED.damaged(LAST, rotten)
    with open_unattended(disk) as database:
        assert [(loss.name, loss.start, loss.end) for loss in database.recovery.lost] == [(LAST, start, end)]
        assert state_of(database) == SEALED.state(lost=frames)
    found_after(disk)


@pytest.mark.parametrize("change", [(8, 3), (12, 0), (116, 1)], ids=["version", "header size", "flags"])
@pytest.mark.parametrize("name", SEALED.data_files())
def test_a_newer_format_is_refused_and_nothing_changes(name: str, change: tuple[int, int]) -> None:
    place, value = change
    data = bytearray(SEALED.files[name])
    for copy in HEADER_COPIES:
        data[copy + place : copy + place + 4] = value.to_bytes(4, "little")
        data[copy + 248 : copy + 256] = xxh3(data[copy : copy + 248]).to_bytes(8, "little")
    assert_refused(SEALED.damaged(name, bytes(data)), NewerFormat, "")


def test_a_frame_with_a_flag_that_its_files_version_does_not_know_is_lost_and_no_other_is() -> None:
    frame = UNSEALED.frames_of(LAST)[0]
    data = bytearray(UNSEALED.files[LAST])
    data[frame.offset + 52] |= 2
    body = bytes(data[frame.offset + 8 : frame.body])
    checksum = xxh3(body, (seed_of(headers_of(bytes(data)).sequence) + frame.offset) % 2**64)
    data[frame.offset : frame.offset + 8] = checksum.to_bytes(8, "little")
    assert frame.body - frame.offset > FRAME_SIZE
    disk = UNSEALED.damaged(LAST, bytes(data))
    with open_unattended(disk) as database:
        (loss,) = database.recovery.lost
    assert (loss.start, loss.end) == (frame.offset, frame.end)
    assert "flags 2" in loss.reason
    assert found_after(disk) == UNSEALED.rotted(frame)


def other_than(name: str) -> bytes:
    return SEALED.files[next(each for each in SEALED.data_files() if each != name)]


@a_sample(3)
@pytest.mark.parametrize("name", SEALED.data_files())
@pytest.mark.parametrize(("start", "end"), [(0, 512), (4096, 4352), (0, 4352)])
def test_another_files_header_over_a_files_own_costs_nothing_while_anything_says_whose_the_file_is(
    name: str, start: int, end: int
) -> None:
    """A write that went to another file: the other copy of the header, or the footer, is still this one's."""
    data = SEALED.files[name]
    disk = SEALED.damaged(name, data[:start] + other_than(name)[start:end] + data[end:])
    report = report_on(disk, name)
    assert (report.row, report.losses) == ("damaged header", ())
    with DatabaseView.open(SPOOL, disk=disk) as view:
        assert view.undelivered_count() == len(SEALED.state().messages)
    with open_unattended(disk.restart()) as database:
        assert not database.recovery.lost
    assert found_after(disk) == SEALED.state()


@pytest.mark.parametrize("name", SEALED.data_files())
def test_of_a_file_without_a_footer_whose_header_is_anothers_altogether_nobody_knows_what_it_is(name: str) -> None:
    data = SEALED.files[name][: SEALED.frames_of(name)[-1].end]
    assert_refused(SEALED.damaged(name, other_than(name)[:4352] + data[4352:]), NotThisDatabase, "under another name")


def torn_when_it_was_begun() -> SimulatedDisk:
    """Return a disk whose newest file has its first group and one copy of its header; no file has a footer yet."""
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.patience = 1 << 30  # nobody tends it
    for _ in range(3):
        database.add("q", bytes(3000))
    left = disk.restart()
    path = SPOOL / f"omsmsg-{database._journal.active_sequence:010}.data"
    data = left.content(path)
    left.put(path, data[:4096] + bytes(256) + data[4352:])
    return forget_witness(left)


@pytest.mark.whole
@pytest.mark.parametrize("room", ["enough", "none"])
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_a_header_that_was_torn_at_birth_is_no_damage_wherever_the_first_start_ended(how: str, room: str) -> None:
    """Who names it in a footer makes all of it durable first, both copies of its header too."""
    for step in range(1, 1000):
        disk = torn_when_it_was_begun()
        if room == "none":
            disk.space = disk.used()
        found = disk.contents(SPOOL)
        disk.kill_at = step
        try:
            open_unattended(disk).close()
        except (Killed, DiskError):
            disk.space = None
            left = disk.restart() if how == "killed" else disk.crash(step)
            with open_unattended(left) as again:
                assert not again.recovery.lost and again.undelivered_count() == 3, step
                verdicts = {file.verdict for file in again.recovery.files}
                assert verdicts <= {Verdict.CLEAN, Verdict.TORN}, (step, again.recovery)
            assert {*archives_in(left).values()} <= {*found.values()}, step
        if disk.steps < step:
            assert step > 10
            return
    raise AssertionError("it comes to its end at last")
