"""Recovery itself killed at each of its steps: the next start does the same again, with the same result.

Each situation is recovered once without a kill. Then the start is killed before its first change, its
second, and so on, by the death of the process or by a power cut; what the next start makes of it must
be the same state, the same data files byte for byte, and the same archives. The sample kills before one change of
each kind and some others, the rest before all others.
"""

import contextlib
from collections.abc import Callable
from functools import cache

import pytest

from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.names import FOUND, RESERVE, DataFileName, parse
from oms_journal.journal.operations import LOW_WATER_KEY
from oms_journal.recovery.findings import noted
from oms_journal.recovery.report import FileReport, RecoveryReport, Verdict
from tests.support.crashes.crash_model import (
    SMALL,
    SPOOL,
    Account,
    State,
    forget_witness,
    found_after,
    kind_of,
    open_unattended,
    state_of,
)
from tests.support.crashes.crash_store import Store, small_store
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

SEALED = small_store()
UNSEALED = small_store(is_closed=False)
FIRST, MIDDLE, LAST = SEALED.data_files()


def nothing_wrong() -> SimulatedDisk:
    return SEALED.disk()


def unsealed_end() -> SimulatedDisk:
    return UNSEALED.disk()


def torn_tail() -> SimulatedDisk:
    last = UNSEALED.frames_of(LAST)[-1]
    return UNSEALED.flipped(LAST, 8 * last.offset)


def torn_tail_and_rolled_file_without_footer() -> SimulatedDisk:
    disk = torn_tail()
    end = UNSEALED.frames_of(MIDDLE)[-1].end
    disk.put(SPOOL / MIDDLE, UNSEALED.files[MIDDLE][:end].ljust(SMALL, b"\0"))
    return disk


def torn_at_birth() -> SimulatedDisk:
    disk = UNSEALED.damaged(LAST, (bytes(4352) + UNSEALED.files[LAST][4352:4584]).ljust(SMALL, b"\0"))
    end = UNSEALED.frames_of(MIDDLE)[-1].end
    disk.put(SPOOL / MIDDLE, UNSEALED.files[MIDDLE][:end].ljust(SMALL, b"\0"))
    return disk


def flipped_frames_in_every_file() -> SimulatedDisk:
    disk = SEALED.disk()
    for name in SEALED.data_files():
        data = bytearray(SEALED.files[name])
        data[SEALED.frames_of(name)[1].offset + 20] ^= 1
        disk.put(SPOOL / name, bytes(data))
    return disk


def flipped_payload() -> SimulatedDisk:
    frame = next(frame for frame in SEALED.frames_of(MIDDLE) if any(p.end > p.start for p in frame.pieces))
    return SEALED.flipped(MIDDLE, 8 * next(p.start for p in frame.pieces if p.end > p.start))


def missing_file() -> SimulatedDisk:
    return SEALED.damaged(MIDDLE, None)


def missing_newest_file() -> SimulatedDisk:
    return SEALED.damaged(LAST, None)


def emptied_file() -> SimulatedDisk:
    return SEALED.damaged(FIRST, b"")


def lost_headers() -> SimulatedDisk:
    disk = SEALED.disk()
    for name in SEALED.data_files():
        disk.put(SPOOL / name, bytes(4352) + SEALED.files[name][4352:-40] + bytes(40))
    return forget_witness(disk)


def prepared_file_left_over() -> SimulatedDisk:
    disk = UNSEALED.disk()
    disk.put(SPOOL / "omsmsg-0000000007.data", bytes(SMALL))
    return disk


def unfinished_repairs_left_over() -> SimulatedDisk:
    disk = torn_tail()
    disk.put(SPOOL / f"{LAST}.new", b"half a file")
    disk.put(SPOOL / "omsmsg-0000000006-v0001.archive.new", b"half an archive")
    return disk


def full_disk_with_a_reserve() -> SimulatedDisk:
    disk = torn_tail_and_rolled_file_without_footer()
    disk.put(SPOOL / RESERVE, bytes(2 * SMALL + (1 << 20)))
    disk.space = disk.used()
    return disk


def full_disk_without_a_reserve() -> SimulatedDisk:
    disk = UNSEALED.disk()
    disk.space = disk.used()
    return disk


def _newest(disk: SimulatedDisk) -> str:
    """Return the newest data file that holds anything."""
    return max(name for name, data in disk.contents(SPOOL).items() if name.endswith(".data") and any(data))


def _given_in_files_of_which_nothing_is_left(times: int, kept: int) -> tuple[SimulatedDisk, int]:
    disk = SimulatedDisk()
    open_unattended(disk).add("q", b"in a file that is not closed")
    disk, highest = disk.restart(), 1
    for _ in range(times):
        number = open_unattended(disk).add("q", b"in the next one")
        assert number > highest
        highest = number
        disk = disk.restart()
        path = SPOOL / max(name for name in disk.contents(SPOOL) if name.endswith(".data"))
        data = disk.content(path)
        disk.put(path, data[:kept] + (b"" if kept else b"x" * HEADERS_SIZE) + bytes(len(data) - HEADERS_SIZE))
        forget_witness(disk)
    return disk, highest


_made_once = cache(_given_in_files_of_which_nothing_is_left)


def only_the_header_of_the_newest_file_left() -> SimulatedDisk:
    return _made_once(1, HEADERS_SIZE)[0].restart()


def nothing_left_of_the_newest_file() -> SimulatedDisk:
    return _made_once(2, 0)[0].restart()


SITUATIONS = [
    *(nothing_wrong, unsealed_end, torn_tail, torn_tail_and_rolled_file_without_footer, torn_at_birth),
    *(flipped_frames_in_every_file, flipped_payload, missing_file, missing_newest_file, emptied_file),
    *(lost_headers, prepared_file_left_over, unfinished_repairs_left_over),
    *(full_disk_with_a_reserve, full_disk_without_a_reserve),
    *(only_the_header_of_the_newest_file_left, nothing_left_of_the_newest_file),
]


def recovered(disk: SimulatedDisk) -> tuple[State, dict[str, bytes], RecoveryReport]:
    """Return what a start finds and leaves."""
    database = open_unattended(disk)
    state, report = state_of(database), database.recovery
    database.close()
    kept = {name: data for name, data in disk.contents(SPOOL).items() if name.endswith((".data", ".archive"))}
    kept = {name: data for name, data in kept.items() if name[:17] <= LAST[:17]}  # clean-up may have begun another
    assert not [name for name in disk.list(SPOOL) if name.endswith(".new")]
    return state, kept, report


def torn(report: RecoveryReport, newest: int) -> list[FileReport]:
    """Return what the report says is torn of the files that were there; a start may have begun another."""
    return [file for file in report.files if file.verdict is Verdict.TORN and file.sequence <= newest]


def newest_of(disk: SimulatedDisk) -> int:
    return max(name.sequence for entry in disk.list(SPOOL) if isinstance(name := parse(entry), DataFileName))


@a_sample(4, more=8)
@in_three_sizes
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_killed_start_is_repeated_with_the_same_result(situation: Callable[[], SimulatedDisk], share: Share) -> None:
    """And with the same word on what was torn, unless the one that was killed was about to hand it over."""
    expected, files, report = recovered(situation())
    newest = newest_of(situation())
    changes = changes_of(situation())
    assert len(changes) > 2
    for step in share.of(range(1, len(changes) + 1), len(changes) // 40, kind=lambda step: changes[step - 1]):
        disk = situation()
        disk.kill_at = step
        try:
            open_unattended(disk)
        except Killed as where:
            for left in (disk.restart(), disk.crash(step), disk.crash(1000 + step)):
                is_handed_over = str(where).startswith("sync_directory") and not noted(left, SPOOL).tells
                state, left_files, again = recovered(left)
                assert state == expected, step
                assert left_files == files, step
                assert torn(again, newest) == torn(report, newest) or (is_handed_over and again.intact), step
        else:
            raise AssertionError(f"it is not killed before change {step}")


def changes_of(disk: SimulatedDisk) -> list[str]:
    """Return the kinds of the changes that a start makes, one after another."""
    kinds: list[str] = []
    disk.before_change = lambda change: kinds.append(kind_of(change))
    open_unattended(disk)
    return kinds


@a_sample(6)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_the_second_and_the_third_start_find_what_the_first_one_found(
    situation: Callable[[], SimulatedDisk],
) -> None:
    disk = situation()
    if situation is not full_disk_without_a_reserve:
        found_after(disk)
        return
    states = []
    for _ in range(3):
        with open_unattended(disk) as database:
            states.append(state_of(database))
            assert not database.recovery.lost
    assert states[0] == states[1] == states[2]


def test_what_a_start_reports_stays_lost_and_its_numbers_never_come_again() -> None:
    """Also when nothing is committed between the repair and the next start."""
    for store, situation in ((SEALED, flipped_frames_in_every_file), (SEALED, missing_newest_file)):
        disk = situation()
        for _ in range(2):
            open_unattended(disk).close()
        with open_unattended(disk) as database:
            assert database.recovery.intact
            assert database.add("q", b"after the loss") > store.account.highest


@pytest.mark.parametrize("name", SEALED.data_files())
def test_a_file_whose_header_is_gone_keeps_all_its_frames(name: str) -> None:
    data: Store = SEALED
    rotted = bytes(4352) + data.files[name][4352:]
    for changed in (rotted, rotted[: data.frames_of(name)[-1].end], rotted[:-1]):
        disk = data.damaged(name, changed)
        with open_unattended(disk) as database:
            assert state_of(database) == data.state()
            assert not database.recovery.lost
        assert found_after(disk) == data.state()


def _sealing(disk: SimulatedDisk) -> None:
    """Fill some files, whose footers come as the writing goes on, and close."""
    with open_unattended(disk) as database:
        for _ in range(2):
            database.add("q", bytes(2600))  # so that a footer reaches beyond what was prepared


def _ended_while_sealing(at: int, *, fails: bool) -> SimulatedDisk | None:
    """Return what the process leaves that ends before a change, or whose sync fails; None where it comes to its end."""
    disk = SimulatedDisk()
    if fails:
        disk.fail("sync", at)
    else:
        disk.kill_at = at
    with contextlib.suppress(Killed, JournalError):
        _sealing(disk)
        if not disk.failed:
            return None
    return disk.restart()


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("fails", [False, True], ids=["killed", "a failed sync"])
def test_a_footer_that_a_start_trusts_is_there_after_a_power_cut(fails: bool, share: Share) -> None:
    """The process that wrote it may have ended before its sync, or the sync may have failed: the page cache has it."""
    seeds = share.of(range(16), 1)
    for at in range(1, 1000):
        disk = _ended_while_sealing(at, fails=fails)
        if disk is None:
            assert at > 5
            return
        with open_unattended(disk) as database:
            assert database.recovery.intact
            state = state_of(database)
            cuts = [disk.crash(seed) for seed in seeds]
        for cut in cuts:
            with open_unattended(cut) as database:
                assert database.recovery.intact, (at, database.recovery)
                assert state_of(database) == state
    raise AssertionError("it comes to its end at last")


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("size", [100, 900])
def test_a_footer_says_that_a_file_was_begun_only_when_that_is_durable(size: int, share: Share) -> None:
    """A process ends with the first group of a file in the page cache only; the power, while the next start repairs."""
    full = SimulatedDisk()

    def end(what: str) -> None:
        if what == "sync of write_durably omsmsg-0000000002.data":
            raise Killed(what)

    full.before_change = end
    database = open_unattended(full)
    with pytest.raises(Killed):
        for _ in range(40):
            database.add("q", bytes([7]) * size)
    for step in range(1, 60):
        disk = full.restart()
        disk.kill_at = disk.steps + step
        with contextlib.suppress(Killed), open_unattended(disk):
            assert step > 10
            return
        for seed in share.of(range(12), 1):
            with open_unattended(disk.crash(seed)) as again:
                assert not again.recovery.lost, (step, seed)
    raise AssertionError("a start without a kill comes at last")


@pytest.mark.parametrize("kept", [HEADERS_SIZE, 0], ids=["with a header", "without one"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_was_given_in_a_file_of_which_nothing_is_left_is_not_given_again(times: int, kept: int) -> None:
    """The file before it was sealed by a start: each one that begins the next file leaves out as many numbers."""
    disk, highest = _given_in_files_of_which_nothing_is_left(times, kept)
    with open_unattended(disk) as database:
        assert not database.recovery.lost
        assert database.add("q", b"behind them") > highest


@pytest.mark.parametrize("kept", [HEADERS_SIZE, 0], ids=["with a header", "without one"])
@pytest.mark.parametrize("how", ["closed", "left", "full disk"])
def test_it_is_not_given_again_though_starts_that_commit_nothing_came_between(how: str, kept: int) -> None:
    assert is_never_given_again(how, kept, step=0)


@a_sample(more=2)
@in_three_sizes
@pytest.mark.parametrize("kept", [HEADERS_SIZE, 0], ids=["with a header", "without one"])
@pytest.mark.parametrize("how", ["killed", "power cut"])
def test_nor_though_starts_that_were_killed_came_between(how: str, kept: int, share: Share) -> None:
    for step in share.every(18, range(1, 1000)):
        if is_never_given_again(how, kept, step):
            return
    raise AssertionError("a start without a kill comes at last")


def is_never_given_again(how: str, kept: int, step: int) -> bool:
    """Check it for three starts of which each ends at this change, with 0 at none; say whether none was killed."""
    disk, highest = _given_in_files_of_which_nothing_is_left(2, kept)
    is_ended = True
    for turn in range(3):
        disk.kill_at = step + turn if step else None
        disk.space = disk.used() if how == "full disk" else None
        try:
            idle = open_unattended(disk)
            if how == "closed":
                idle.close()
        except Killed:
            is_ended = False
        disk = disk.crash(step) if how == "power cut" else disk.restart()
    disk.space = None
    with open_unattended(disk) as database:
        assert database.add("q", b"behind them") > highest, step
    with open_unattended(disk) as database:
        assert database.recovery.intact and FOUND not in disk.contents(SPOOL), step
    return is_ended


def test_a_mark_of_clean_up_that_only_the_header_of_a_dropped_file_tells_is_not_lost_with_it() -> None:
    """Else the files that clean-up has removed are reported as missing from then on."""
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.deliver_many([database.add("q", bytes(1500)) for _ in range(5)])
    assert database.cleanup().deleted
    marked = _newest(disk)
    while (newest := _newest(disk)) == marked:
        database.add("q", bytes(1500))
    disk = disk.restart()
    store = Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, Account())
    mark = next(each for each in store.frames if any(one.key == LOW_WATER_KEY.decode() for one in each.pieces))
    (group,) = (each for each in store.frames if each.name == newest)
    end = store.frames_of(mark.name)[-1].end  # its footer was not written yet
    for frame, size in ((mark, end), (group, SMALL)):
        data = bytearray(disk.content(SPOOL / frame.name)[:size].ljust(SMALL, b"\0"))
        data[frame.offset + 20] ^= 1
        disk.put(SPOOL / frame.name, bytes(data))
    forget_witness(disk)
    with open_unattended(disk) as again:
        assert [(loss.name, loss.start) for loss in again.recovery.lost] == [(mark.name, mark.offset)]
        assert "archived and removed" in [file.action for file in again.recovery.files]
    for _ in range(2):
        with open_unattended(disk) as again:
            assert not again.recovery.lost
