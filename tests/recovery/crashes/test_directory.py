"""What else may be found in a directory: holes, strangers, copies, late files, rotted headers, piled up archives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseLocked, DiskError, JournalError, NotThisDatabase, RecoveryRefused
from oms_journal.journal.lock import LOCK_BYTE_BASE, read_holder
from oms_journal.journal.names import LOCK, ArchiveName, DataFileName
from oms_journal.recovery.report import FileReport, Verdict
from oms_journal.recovery.restoring import OWNERS_APART
from oms_journal.recovery.survey import survey
from oms_journal.recovery.validation import examine, validate_directory
from tests.support.crashes.crash_model import SPOOL, found_after, open_unattended, state_of
from tests.support.crashes.crash_store import (
    archives_in,
    assert_refused,
    headers_of,
    report_on,
    small_store,
    with_header,
)
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import open_small

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
OTHER = small_store(seed=2)
FIRST, MIDDLE, LAST = SEALED.data_files()
NEXT = str(DataFileName(headers_of(SEALED.files[LAST]).sequence + 1))


def data_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith(".data")}


# Files that are not there, or not whole.


def test_a_hole_in_the_sequence_is_a_loss_where_a_neighbour_names_the_file() -> None:
    disk = SEALED.damaged(MIDDLE, None)
    with open_unattended(disk) as database:
        assert [(loss.name, database.recovery.files[1].row) for loss in database.recovery.lost] == [(MIDDLE, "missing")]
        assert state_of(database) == SEALED.state(lost=SEALED.frames_of(MIDDLE))
    assert data_of(disk)[MIDDLE]
    found_after(disk)


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 2), (2, 3)])
@pytest.mark.parametrize("is_gone", [True, False], ids=["missing", "emptied"])
def test_a_file_that_is_lost_has_lost_no_number_of_the_files_before_it(lost: tuple[int, ...], is_gone: bool) -> None:
    disk = SimulatedDisk()
    given: list[set[int]] = []
    for _ in range(5):
        with open_unattended(disk) as database:
            given.append({database.add("q", b"x") for _ in range(10)})
    for place in lost:
        path = SPOOL / str(DataFileName(place + 1))
        disk.remove(path) if is_gone else disk.put(path, bytes(4096))
    with open_unattended(disk) as database:
        told = {n for loss in database.recovery.lost for low, high in loss.numbers for n in range(low, high + 1)}
        assert told == set().union(*(given[place] for place in lost))


def test_a_hole_that_nobody_names_is_none() -> None:
    """A sequence is skipped where a file was prepared and never used."""
    disk = SEALED.disk()
    disk.put(SPOOL / NEXT, bytes(4096))
    with open_unattended(disk) as database:
        assert database.recovery.intact
        database.add("q", b"in the file behind it")
    assert NEXT not in disk.list(SPOOL)
    with open_unattended(disk) as database:
        assert database.recovery.intact


@pytest.mark.parametrize("data", [b"", bytes(1), bytes(4096), bytes(70_000)])
def test_a_newest_file_of_nothing_but_zeros_is_removed_without_a_word(data: bytes) -> None:
    disk = SEALED.disk()
    disk.put(SPOOL / NEXT, data)
    assert report_on(disk, NEXT).row == "prepared"
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert state_of(database) == SEALED.state()
    assert NEXT not in disk.list(SPOOL)
    assert not archives_in(disk)


def test_a_first_file_of_nothing_but_zeros_is_an_empty_database() -> None:
    disk = SimulatedDisk()
    disk.put(SPOOL / "omsmsg-0000000001.data", b"")
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert database.add("q", b"first") == 1


def test_files_below_the_low_water_mark_are_left_unread_and_go_with_the_next_cleanup() -> None:
    disk = SEALED.disk()
    below = str(DataFileName(1))
    disk.put(SPOOL / below, with_header(SEALED.files[FIRST][:4352], sequence=1) + b"rotten" * 500)
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert below not in [file.name for file in database.recovery.files]
        assert state_of(database) == SEALED.state()
        database.cleanup()
    assert below not in disk.list(SPOOL)


# Files of others.


def test_an_unknown_file_is_left_alone_and_named_in_the_notes() -> None:
    disk = SEALED.disk()
    disk.put(SPOOL / "notes.txt", b"do not touch")
    disk.put(SPOOL / "omsmsg-7.data", b"nor this")
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert any("notes.txt" in note for note in database.recovery.notes)
        assert any("omsmsg-7.data" in note for note in database.recovery.notes)
    assert disk.content(SPOOL / "notes.txt") == b"do not touch"


@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST, NEXT])
def test_a_data_file_of_another_database_is_refused_and_nothing_changes(name: str) -> None:
    sequence = int(name[7:17])
    stranger = with_header(OTHER.files[FIRST], sequence=sequence)
    assert_refused(SEALED.damaged(name, stranger), NotThisDatabase, "different databases")


@pytest.mark.parametrize("place", [FIRST, MIDDLE, LAST, NEXT])
@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST])
def test_a_copy_of_a_file_under_another_files_name_is_refused_wherever_it_stands(name: str, place: str) -> None:
    """Whole, and as the blocks of a removed file would show it, of which no named file can have any."""
    if name != place:
        for copy in (SEALED.files[name], SEALED.files[name][:4352], SEALED.files[name][:2048] + bytes(2304)):
            assert_refused(SEALED.damaged(place, copy), NotThisDatabase, "under another name")


def test_files_that_have_changed_their_names_are_refused() -> None:
    renamed = SEALED.disk()
    renamed.put(SPOOL / NEXT, SEALED.files[LAST])
    renamed.remove(SPOOL / LAST)
    assert_refused(renamed, NotThisDatabase, "under another name")
    swapped = SEALED.damaged(FIRST, SEALED.files[MIDDLE])
    swapped.put(SPOOL / MIDDLE, SEALED.files[FIRST])
    assert_refused(swapped, NotThisDatabase, "under another name")


@pytest.mark.parametrize("sequence", [1, 2, 9])
@pytest.mark.parametrize("place", [FIRST, MIDDLE, LAST, NEXT])
def test_a_file_of_another_database_is_refused_wherever_it_stands(place: str, sequence: int) -> None:
    other = with_header(OTHER.files[FIRST], sequence=sequence)  # its footer still says the number of the first one
    text = "different databases" if place == FIRST else "under another name"
    assert_refused(SEALED.damaged(place, other), NotThisDatabase, text)


def test_a_file_that_was_removed_from_the_directory_is_refused_under_another_name_too() -> None:
    """Clean-up removed it, or a start dropped it: nobody can tell of which file it has taken the name."""
    below = with_header(SEALED.files[FIRST], sequence=1)
    assert headers_of(SEALED.files[FIRST]).low_water > 1 or headers_of(SEALED.files[LAST]).low_water > 1
    dropped = with_header(SEALED.files[MIDDLE], identity=headers_of(SEALED.files[MIDDLE]).identity ^ 1)
    for data in (below, dropped):
        assert_refused(SEALED.damaged(NEXT, data), NotThisDatabase, "under another name")
    assert_refused(SEALED.damaged(LAST, below), NotThisDatabase, "under another name")


def test_an_older_copy_of_a_file_in_its_place_is_a_loss_of_what_it_lacks() -> None:
    last = SEALED.frames_of(MIDDLE)[-2]
    older = SEALED.files[MIDDLE][: last.end]
    disk = SEALED.damaged(MIDDLE, older)
    with open_unattended(disk) as database:
        assert database.recovery.lost
        assert state_of(database) == SEALED.state(lost=SEALED.frames_of(MIDDLE)[-1:])
    found_after(disk)


def test_another_file_of_the_same_place_shows_by_its_identity() -> None:
    """The same database, the same sequence, other bytes: as after a restore by hand."""
    header = headers_of(SEALED.files[LAST])
    forged = with_header(SEALED.files[MIDDLE], identity=header.identity ^ 1)
    disk = SEALED.damaged(MIDDLE, forged)
    assert report_on(disk, MIDDLE).verdict is Verdict.DAMAGED
    found_after(disk)


# Former owners.


def late_file(sequence: int, previous: str) -> bytes:
    """Return what an owner with a lower number writes into a file, behind the given one, when it comes back."""
    header = headers_of(SEALED.files[previous])
    return with_header(SEALED.files[previous], sequence=sequence, owner=0, identity=header.identity ^ 3)


def test_a_late_file_behind_the_newest_one_is_ignored_and_archived() -> None:
    disk = SEALED.damaged(NEXT, late_file(int(NEXT[7:17]), LAST))
    with open_unattended(disk) as database:
        assert report_of(database, NEXT).row == "late"
        assert state_of(database) == SEALED.state()
        assert not database.recovery.lost
    assert NEXT not in disk.list(SPOOL)
    assert len(archives_in(disk)) == 1
    found_after(disk)


def test_a_late_file_in_a_hole_that_its_successor_skips_is_ignored() -> None:
    """The new owner found the name taken, took the next one, and says which file came before."""
    with open_unattended(SEALED.disk()) as database:
        disk = database._disk
        assert isinstance(disk, SimulatedDisk)
        database.add("q", b"by the new owner")
    owner = headers_of(SEALED.files[LAST]).owner
    skipping = with_header(disk.content(SPOOL / NEXT), sequence=int(NEXT[7:17]) + 1, owner=owner + 1)
    behind = str(DataFileName(int(NEXT[7:17]) + 1))
    disk = SEALED.damaged(behind, skipping)
    for late in (late_file(int(NEXT[7:17]), LAST), b"\1" * 4096):
        disk.put(SPOOL / NEXT, late)
        reports = {report.name: report for report in validate_directory(SPOOL, disk)}
        assert reports[NEXT].row == "late"
        assert reports[LAST].verdict is Verdict.CLEAN


def report_of(database: MessageDatabase, name: str) -> FileReport:
    return next(report for report in database.recovery.files if report.name == name)


def test_what_stands_behind_the_end_that_a_successor_names_is_ignored() -> None:
    """A former owner may have gone on writing into its file before it noticed."""
    end = SEALED.frames_of(MIDDLE)[-1].end
    more = SEALED.frames_of(LAST)[0]
    for extra in (b"\xff" * 900, SEALED.files[LAST][more.offset : more.end], bytes(900)):
        disk = SEALED.damaged(MIDDLE, SEALED.files[MIDDLE][:end] + extra)
        with open_unattended(disk) as database:
            assert not database.recovery.lost
            assert state_of(database) == SEALED.state()
        found_after(disk)


# Archives.


def test_archives_that_pile_up_are_reported() -> None:
    disk = SEALED.disk()
    for version in range(1, 23):
        disk.put(SPOOL / str(ArchiveName(1, version)), b"old")
    with open_unattended(disk, archives_max=21) as database:
        assert any("22 archives" in note for note in database.recovery.notes)
    with open_unattended(disk, archives_max=22) as database:
        assert not database.recovery.notes


def test_an_identical_archive_is_used_again_and_another_one_is_not_overwritten() -> None:
    damaged = SEALED.flipped(LAST, 8 * SEALED.frames_of(LAST)[0].offset)
    bytes_found = damaged.content(SPOOL / LAST)
    sequence = int(LAST[7:17])
    damaged.put(SPOOL / str(ArchiveName(sequence, 3)), b"something else")
    open_unattended(damaged).close()
    assert archives_in(damaged) == {
        str(ArchiveName(sequence, 3)): b"something else",
        str(ArchiveName(sequence, 4)): bytes_found,
    }
    damaged.put(SPOOL / LAST, bytes_found)
    with open_unattended(damaged) as database:
        assert database.recovery.archives == (str(ArchiveName(sequence, 4)),)
    assert len(archives_in(damaged)) == 2


def test_when_all_archive_names_are_taken_the_start_says_so_and_changes_nothing() -> None:
    disk = SEALED.flipped(LAST, 8 * SEALED.frames_of(LAST)[0].offset)
    disk.put(SPOOL / str(ArchiveName(int(LAST[7:17]), 9999)), b"the last one")
    assert_refused(disk, JournalError, "archives, and no more can be named")


# The lock file, and policies.


def test_a_lost_lock_file_never_brings_an_owner_number_back() -> None:
    disk = SEALED.disk()
    disk.remove(SPOOL / LOCK)
    with open_unattended(disk) as database:
        assert database.recovery.intact
        database.add("q", b"new")
        holder = read_holder(disk, SPOOL)
    owners = [headers_of(data).owner for _, data in sorted(data_of(disk).items())]
    assert owners == sorted(owners)
    assert owners[-1] > owners[-2]
    assert holder is not None and holder.number == owners[-1]
    found_after(disk)


def test_a_lock_file_that_says_nothing_is_an_error_while_somebody_has_it_locked_and_nothing_changes() -> None:
    disk = SEALED.disk()
    disk.put(SPOOL / LOCK, b"owner of this file: somebody\n" * 5)
    other = disk.open_lock(SPOOL / LOCK)
    other.try_lock(LOCK_BYTE_BASE + 12)
    before = disk.content(SPOOL / LOCK)
    assert_refused(disk, DatabaseLocked, "in use by one that")
    assert disk.content(SPOOL / LOCK) == before


@pytest.mark.parametrize("content", [None, b"", bytes(600), b"owner of this file: somebody\n" * 5, b"\xff" * 9000])
def test_a_lock_file_that_says_nothing_and_nobody_has_locked_is_lost_and_the_report_says_so(
    content: bytes | None,
) -> None:
    disk = SEALED.disk()
    disk.remove(SPOOL / LOCK) if content is None else disk.put(SPOOL / LOCK, content)
    with open_unattended(disk) as database:
        assert database.recovery.intact
        assert any("did not say who owns" in note for note in database.recovery.notes)
        assert state_of(database) == SEALED.state()
        holder = read_holder(disk, SPOOL)
    highest = max(headers_of(SEALED.files[name]).owner for name in SEALED.data_files())
    assert holder is not None and holder.number == highest + OWNERS_APART
    with open_unattended(disk) as database:
        assert not database.recovery.notes
        assert database._ownership.number == holder.number + 1


def test_a_second_opener_is_told_who_has_the_directory() -> None:
    disk = SEALED.disk()
    with open_unattended(disk):
        with pytest.raises(DatabaseLocked) as locked:
            open_unattended(disk)
        assert locked.value.pid
        assert locked.value.host
        assert str(locked.value.pid) in str(locked.value)
    open_unattended(disk).close()


@pytest.mark.parametrize("is_new", [True, False])
def test_an_opener_beside_one_that_has_not_said_yet_who_it_is_hears_just_that(tmp_path: Path, is_new: bool) -> None:
    if not is_new:
        open_small(tmp_path).close()
    disk, other = RealDisk(), RealDisk().open_lock(tmp_path / LOCK)
    holder = read_holder(disk, tmp_path)
    assert (holder is None) == is_new
    assert other.try_lock(LOCK_BYTE_BASE + (holder.number if holder is not None else 0) + 1)
    try:
        with pytest.raises(DatabaseLocked, match="is being opened by another process or thread") as locked:
            open_small(tmp_path)
    finally:
        other.close()

    assert (locked.value.pid, locked.value.host) == (0, "")
    open_small(tmp_path).close()


def damages() -> list[Callable[[], SimulatedDisk]]:
    first = SEALED.frames_of(MIDDLE)[2]
    return [
        lambda: SEALED.flipped(MIDDLE, 8 * first.offset),
        lambda: SEALED.damaged(MIDDLE, None),
        lambda: SEALED.flipped(LAST, 0),
        lambda: UNSEALED.flipped(LAST, 8 * UNSEALED.frames_of(LAST)[-1].offset),
    ]


@pytest.mark.parametrize("damaged", damages())
def test_the_policy_refuse_changes_nothing(damaged: Callable[[], SimulatedDisk]) -> None:
    disk = damaged()
    disk.put(SPOOL / f"{LAST}.new", b"left over")
    assert_refused(disk, RecoveryRefused, "nothing was changed", policy="refuse")


def test_the_policy_refuse_opens_what_is_intact_or_only_unsealed() -> None:
    for store in (SEALED, UNSEALED):
        with open_unattended(store.disk(), policy="refuse") as database:
            assert state_of(database) == store.state()


@pytest.mark.whole
def test_the_policy_truncate_cuts_a_file_at_its_first_bad_place() -> None:
    for name in SEALED.data_files():
        for frame in SEALED.frames_of(name):
            disk = SEALED.flipped(name, 8 * frame.offset)
            lost = [other for other in SEALED.frames_of(name) if other.offset >= frame.offset]
            with open_unattended(disk, policy="truncate") as database:
                assert state_of(database) == SEALED.state(lost=lost), (name, frame.offset)
                assert database.recovery.lost
            assert archives_in(disk)
            assert found_after(disk) == SEALED.state(lost=lost), (name, frame.offset)


# A database that somebody has open.


def test_what_is_being_written_is_in_flight_and_torn_only_once_its_writer_has_gone() -> None:
    disk = SEALED.disk()
    database = open_unattended(disk)
    database.add("q", b"durable")
    half = disk.open(SPOOL / NEXT, writable=True)
    half.write(b"half a group" * 9, database._journal.unsealed_bytes())
    running = report_on(disk, NEXT)
    gone = report_on(disk.restart(), NEXT)

    assert (running.verdict, running.row) == (Verdict.CLEAN, "torn")
    assert "being written by process" in running.reason
    assert (gone.verdict, gone.row) == (Verdict.TORN, "torn")


def test_a_file_that_is_begun_while_it_is_being_validated_is_no_damage() -> None:
    """Its header was not there when the headers were read."""
    disk = UNSEALED.damaged(LAST, bytes(len(UNSEALED.files[LAST])))
    task = next(task for task in survey(disk, SPOOL) if task.path.name == LAST)
    assert task.header is None
    disk.put(SPOOL / LAST, UNSEALED.files[LAST])

    examined = examine(disk, task, full=True)

    assert examined.decision.row == "unsealed"
    assert not examined.losses


# Bytes that cannot be read.


def test_bytes_that_cannot_be_read_stop_the_start_and_change_nothing() -> None:
    disk = SEALED.disk()
    frame = SEALED.frames_of(MIDDLE)[2]
    disk.make_unreadable(SPOOL / MIDDLE, frame.offset, frame.offset + 1)
    assert_refused(disk, DiskError, "cannot read", files_that_can_be_read=(FIRST, LAST))


def test_only_on_request_are_unreadable_bytes_damage() -> None:
    disk = SEALED.disk()
    frame = SEALED.frames_of(MIDDLE)[2]
    disk.make_unreadable(SPOOL / MIDDLE, frame.offset, frame.offset + 1)
    with open_unattended(disk, unreadable_as_damaged=True) as database:
        assert [loss.name for loss in database.recovery.lost] == [MIDDLE]
        block = range(frame.offset // 4096 * 4096, frame.offset // 4096 * 4096 + 4096)
        lost = [other for other in SEALED.frames_of(MIDDLE) if other.offset < block.stop]
        assert state_of(database) == SEALED.rotted(*lost)
    assert disk.content(SPOOL / MIDDLE)
    found_after(disk)
