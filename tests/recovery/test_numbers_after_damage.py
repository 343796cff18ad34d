"""Numbers of messages that damage has taken with them are never given again, whatever of a file is left."""

import contextlib
from collections.abc import Callable

import pytest

from oms_journal.database.bulk.loading import load, number_behind
from oms_journal.journal.format.headers import NUMBERS_MAX
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.log import DATA_FILE_BYTES_MAX
from oms_journal.recovery.numbering import NUMBER_JUMP, NUMBER_JUMP_BLIND
from oms_journal.recovery.restoring import Split
from tests.support.crashes.crash_model import SPOOL, Account, open_unattended
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_disk import Killed, SimulatedDisk

FIRST, SECOND = (SPOOL / str(DataFileName(sequence)) for sequence in (1, 2))
LONG = 4 << 20  # of a data file: it is prepared far ahead of its first commits


def hurt(disk: SimulatedDisk, places: int) -> None:
    """Let the heads of the last commits in the first file that add something rot."""
    data = bytearray(disk.content(FIRST))
    frames = Store({FIRST.name: bytes(data)}, Account()).frames
    for frame in [frame for frame in frames if frame.pieces][-places:]:
        data[frame.offset + 4] ^= 255
    disk.put(FIRST, bytes(data))


def one_file(*, is_closed: bool) -> tuple[SimulatedDisk, int]:
    """Return a disk with a data file of which two places have rotted, and the highest number that it had."""
    disk = SimulatedDisk()
    database = open_unattended(disk)
    given = [database.add("q", b"m%d" % count * 100) for count in range(5)]
    database.vouch()
    if is_closed:
        database.close()
    disk = disk.restart()
    hurt(disk, 2)
    return disk, given[-1]


@pytest.mark.whole
def test_they_are_not_where_the_start_was_killed_that_repaired_the_file_in_front_of_a_prepared_one() -> None:
    for at in range(1, 1000):
        disk, highest = one_file(is_closed=False)
        assert not any(disk.content(SECOND))
        disk.kill_at = disk.steps + at
        with contextlib.suppress(Killed):
            open_unattended(disk)
            assert at > 20
            return
        with open_unattended(disk.restart()) as database:
            assert database.add("q", b"behind them") > highest, at
    raise AssertionError("it comes to its end at last")


@pytest.mark.whole
def test_they_are_not_where_the_first_commit_behind_a_repair_was_cut_off() -> None:
    for at in range(1, 1000):
        disk, highest = one_file(is_closed=True)
        repaired = open_unattended(disk)
        disk.kill_at = disk.steps + at
        with contextlib.suppress(Killed):
            repaired.add("q", b"another one")
            assert at > 3
            return
        with open_unattended(disk.restart()) as database:
            assert database.add("q", b"behind them") > highest, at
    raise AssertionError("it comes to its end at last")


def test_no_file_can_have_given_more_than_a_start_leaves_out() -> None:
    """A message takes a checksum and its size in the records of its commit, and a commit has a head."""
    assert DATA_FILE_BYTES_MAX // (8 + 4) < NUMBERS_MAX
    assert DATA_FILE_BYTES_MAX // 56 < NUMBERS_MAX == NUMBER_JUMP


def test_a_restore_goes_further_than_many_starts_and_a_start_that_knows_nothing_further_than_a_restore() -> None:
    furthest = Split(database=b"\xff" * 16, parent=bytes(16), sequence=1).jump
    nearest = Split(database=bytes(16), parent=bytes(16), sequence=1).jump
    assert furthest + 2 * NUMBER_JUMP < NUMBER_JUMP_BLIND
    assert nearest > 5000 * NUMBER_JUMP


def loaded(number: int) -> Message:
    return Message(number, "q", bytes(700), {}, 1, None, 0, 0)


def cut(disk: SimulatedDisk, name: str) -> None:
    disk.put(SPOOL / name, disk.content(SPOOL / name)[:4096])


def remove(disk: SimulatedDisk, name: str) -> None:
    disk.remove(SPOOL / name)


@pytest.mark.parametrize("take", [cut, remove], ids=["cut", "missing"])
def test_they_are_not_though_hardly_anything_of_a_long_file_is_left(
    take: Callable[[SimulatedDisk, str], None],
) -> None:
    """As far as a file's numbers can go at all: what is loaded comes with numbers of its own."""
    disk, highest = SimulatedDisk(), NUMBERS_MAX
    with open_unattended(disk, max_data_file_size=LONG) as database:
        database.add("q", b"in the first file")
        database._journal.roll_at_next_commit()
        load(database, [loaded(number) for number in range(2, 8)], {})
        load(database, [loaded(highest)], {})
    assert disk.content(SECOND)[4096:] and len(list(disk.contents(SPOOL))) < 6
    take(disk, SECOND.name)
    for _ in range(2):
        open_unattended(disk).close()
    with open_unattended(disk) as database:
        assert database.add("q", b"behind them") > highest


@pytest.mark.parametrize("groups", [1, 3], ids=["torn at birth", "lost header"])
def test_they_are_not_where_the_file_has_lost_its_header_that_began_behind_those_left_out(groups: int) -> None:
    """The file before it was as long as it had been prepared when a start sealed it, and is short ever since."""
    disk = SimulatedDisk()
    database = open_unattended(disk, max_data_file_size=LONG)
    database.deliver(database.add("q", bytes(1_500_000)))
    database.add("q", b"first")
    disk = disk.restart()
    assert disk.size(FIRST) == LONG
    database = open_unattended(disk, max_data_file_size=LONG)  # this one seals it
    highest = [database.add("q", b"second") for _ in range(groups)][-1]
    disk = disk.restart()
    newest = SPOOL / max(name for name, data in disk.contents(SPOOL).items() if name.endswith(".data") and any(data))
    assert newest != FIRST
    disk.put(newest, b"\xaa" * 4352 + disk.content(newest)[4352:])
    with open_unattended(disk, max_data_file_size=LONG) as again:
        assert again.add("q", b"third") > highest


def test_they_are_not_where_only_a_footer_tells_how_far_those_of_a_loaded_database_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when nothing is committed between the repair and the next start."""
    disk, number = SimulatedDisk(), 1 << 40
    with monkeypatch.context() as before, open_unattended(disk) as database:
        before.setattr(
            "oms_journal.journal.writing.segment.NUMBERS_MAX", 1 << 62
        )  # so it was once: one file went any way
        load(database, [loaded(5)], {})
        load(database, [loaded(number)], {})
    assert not disk.contents(SPOOL).get(SECOND.name)
    hurt(disk, 1)
    for _ in range(2):
        open_unattended(disk).close()
    with open_unattended(disk) as database:
        assert database.add("q", b"behind them") > number


@pytest.mark.parametrize("last", [0, 1 << 41], ids=["the last message", "a number behind it"])
def test_they_are_not_though_any_file_of_a_loaded_database_is_lost(last: int) -> None:
    disk, number = SimulatedDisk(), 1 << 40
    database = open_unattended(disk)
    database.add("q", b"in the first file")
    database._journal.roll_at_next_commit()
    load(database, [loaded(5)], {})
    load(database, [loaded(number)], {})
    number_behind(database, last or number)
    files = [name for name, data in disk.restart().contents(SPOOL).items() if name.endswith(".data") and any(data)]
    assert len(files) == 3 + bool(last)
    for name in files:
        left = disk.restart()
        remove(left, name)
        with open_unattended(left) as again:
            assert again.add("q", b"behind them") > max(last, number), name
