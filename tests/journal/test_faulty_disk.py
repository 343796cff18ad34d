"""The simulated disk itself: each of its faults shows what it should, and nothing that was synced is ever harmed."""

import errno
import random
from pathlib import Path

import pytest

from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.watched_disk import HandClock

HOME = Path("/home")
FILE = HOME / "omsmsg-0000000001.data"
SEEDS = range(200)
OLD, NEW = b"o" * 4 * SECTOR, b"n" * 4 * SECTOR


def disk_with(data: bytes = OLD) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(HOME)
    disk.put(FILE, data)
    return disk


def left(disk: SimulatedDisk, *, is_harsh: bool = False) -> list[bytes]:
    """Return what power cuts leave of the file."""
    return [disk.crash(seed, is_harsh=is_harsh).content(FILE) for seed in SEEDS]


def sectors(data: bytes) -> list[bytes]:
    return [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]


def fresh(disk: SimulatedDisk, data: bytes, *, reserved: bool = False) -> None:
    """Write a new file without a sync, its name durable."""
    file = disk.create(FILE)
    disk.sync_directory(HOME)
    if reserved:
        file.reserve(len(data))
    file.write(data, 0)


def test_of_a_write_without_a_sync_any_sectors_are_left_and_each_is_old_or_new() -> None:
    disk = disk_with()
    disk.open(FILE, writable=True).write(NEW, 0)

    found = left(disk)

    assert all(set(sectors(data)) <= {OLD[:SECTOR], NEW[:SECTOR]} for data in found)
    assert {OLD, NEW} < set(found) and len(set(found)) > 10


def test_with_a_sync_everything_is_left() -> None:
    disk = disk_with()
    file = disk.open(FILE, writable=True)
    file.write(NEW, 0)
    file.sync()
    file.write_durably([NEW], len(NEW))

    assert set(left(disk, is_harsh=True)) == {NEW + NEW}


def test_a_sector_without_anything_durable_may_be_torn() -> None:
    disk = disk_with(bytes(4 * SECTOR))
    disk.open(FILE, writable=True).write(NEW, 0)

    torn = {sector for data in left(disk) for sector in sectors(data)} - {bytes(SECTOR), NEW[:SECTOR]}

    assert torn and all(set(sector) == {0, ord("n")} for sector in torn)


def test_a_harsh_power_cut_leaves_zeros_and_garbage_in_what_was_being_written_and_nowhere_else() -> None:
    disk = disk_with()
    disk.open(FILE, writable=True).write(NEW[:SECTOR], SECTOR)

    found = left(disk, is_harsh=True)

    assert all(data[:SECTOR] + data[2 * SECTOR :] == OLD[: 3 * SECTOR] for data in found)
    written = {data[SECTOR : 2 * SECTOR] for data in found}
    assert bytes(SECTOR) in written and len(written) > 5


def test_a_length_is_as_of_the_last_sync_or_any_since_and_what_was_not_written_is_zeros() -> None:
    disk = disk_with(OLD[:100])
    file = disk.open(FILE, writable=True)
    file.write(NEW[:300], 100)
    file.truncate(2000)

    found = left(disk)

    assert {len(data) for data in found} == {100, 400, 2000}
    assert all(data.startswith(OLD[:100]) and set(data[100:]) <= {0, ord("n")} for data in found)


@pytest.mark.parametrize("reserved", [False, True])
def test_a_new_files_blocks_may_show_what_a_removed_file_held_unless_they_were_reserved(reserved: bool) -> None:
    disk = disk_with(b"secret!!" * 256)
    disk.unlink(FILE)
    disk.sync_directory(HOME)
    fresh(disk, bytes(2048), reserved=reserved)

    shown = any(b"secret!!" in data for data in left(disk))

    assert shown is not reserved


def test_names_are_left_only_as_far_as_they_were_synced() -> None:
    disk = disk_with()
    disk.create(HOME / "made")
    disk.rename(FILE, HOME / "renamed")
    found = {tuple(disk.crash(seed).list(HOME)) for seed in SEEDS}

    assert found == {(FILE.name,), ("made", FILE.name), ("made", "renamed"), ("renamed",)}
    disk.sync_directory(HOME)
    assert {tuple(disk.crash(seed).list(HOME)) for seed in SEEDS} == {("made", "renamed")}


def test_an_unlinked_file_may_come_back_until_the_directory_is_synced() -> None:
    disk = disk_with()
    disk.unlink(FILE)
    assert {tuple(disk.crash(seed).list(HOME)) for seed in SEEDS} == {(), (FILE.name,)}
    disk.sync_directory(HOME)
    assert {tuple(disk.crash(seed).list(HOME)) for seed in SEEDS} == {()}


def test_after_a_failed_sync_the_bytes_read_back_and_are_gone_after_the_power_cut() -> None:
    disk = disk_with()
    file = disk.open(FILE, writable=True)
    file.write(NEW, 0)
    disk.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()  # says that all is well

    assert file.read(len(NEW), 0) == NEW
    assert disk.restart().content(FILE) == NEW
    assert set(left(disk)) == {OLD}
    assert disk.syncs_after_failure == [FILE.name]


def test_a_short_write_leaves_its_beginning() -> None:
    disk = disk_with()
    disk.fail("write", code=errno.ENOSPC, is_short=True)
    with pytest.raises(OSError, match="No space"):
        disk.open(FILE, writable=True).write(NEW, 0)

    assert disk.content(FILE) == NEW[: len(NEW) // 2] + OLD[len(OLD) // 2 :]


def test_a_read_fails_once() -> None:
    disk = disk_with()
    file = disk.open(FILE)
    disk.fail("read", 2)
    assert file.read(4, 0) == b"oooo"
    with pytest.raises(OSError, match="Input/output"):
        file.read(4, 0)
    assert file.read(4, 0) == b"oooo"


def test_a_full_disk_refuses_what_needs_new_blocks_and_nothing_else() -> None:
    disk = disk_with()
    disk.space = disk.used() + SECTOR
    file = disk.open(FILE, writable=True)
    file.write(NEW, 0)
    file.write(NEW[:SECTOR], len(OLD))
    with pytest.raises(OSError, match="No space"):
        file.write(b"n", len(OLD) + SECTOR)
    disk.unlink(FILE)
    disk.create(FILE).write(NEW, 0)


def test_a_slow_call_lets_time_pass_and_works() -> None:
    disk, clock = disk_with(), HandClock(0)
    disk.tell_time(lambda: clock.now / 1e6, clock.advance)
    disk.slow("write", 1, 3.5)
    disk.open(FILE, writable=True).write(NEW, 0)

    assert clock.now == 3_500_000
    assert disk.content(FILE) == NEW
    assert disk.modified(FILE) == 3.5


def test_rot_reads_back_outlives_a_power_cut_and_goes_when_the_place_is_written_again() -> None:
    disk = disk_with()
    disk.rot(FILE, b"rotten", 600)
    for one in (disk, disk.restart(), disk.crash(1)):
        assert one.content(FILE)[598:608] == b"oorottenoo"
        assert one.rotten(FILE) == [(600, 601), (602, 606)], "the second letter is what it was"
        assert one.healed().content(FILE) == OLD
    disk.open(FILE, writable=True).write(b"new", 600)
    assert disk.content(FILE)[598:608] == b"oonewtenoo"


def test_what_has_rotted_can_be_read_as_it_was_written_for_a_while() -> None:
    disk = disk_with()
    disk.rot(FILE, b"rotten", 600)
    file, rotten = disk.open(FILE), disk.rotten(FILE)
    with disk.as_written():
        assert file.read(len(OLD), 0) == OLD
        assert (disk.rotten(FILE), disk.restart().rotten(FILE)) == ([], [])
    assert file.read(10, 598) == b"oorottenoo"
    assert disk.rotten(FILE) == rotten


@pytest.mark.parametrize("verb", ["write", "write_durably"])
def test_a_misdirected_write_reports_success_and_lies_elsewhere(verb: str) -> None:
    other = HOME / "omsmsg-0000000002.data"
    targets = set()
    for seed in range(60):
        disk = disk_with()
        disk.put(other, OLD)
        disk.misdirect(verb, 1, seed)
        file = disk.open(FILE, writable=True)
        file.write(NEW[:SECTOR], SECTOR) if verb == "write" else file.write_durably([NEW[:SECTOR]], SECTOR)

        every = [
            (path.name, at, found) for path in (FILE, other) for at, found in enumerate(sectors(disk.content(path)))
        ]
        written = [(name, at) for name, at, found in every if found == NEW[:SECTOR]]
        assert len(written) == 1
        targets.update(written)
        assert disk.healed().content(FILE) == OLD[:SECTOR] + NEW[:SECTOR] + OLD[2 * SECTOR :]
        assert disk.healed().content(other) == OLD
    assert {name for name, _ in targets} == {FILE.name, other.name}
    assert len(targets) == 8


def test_a_killed_process_does_nothing_more() -> None:
    disk = disk_with()
    disk.kill_at = disk.steps + 2
    file = disk.open(FILE, writable=True)
    file.write(NEW[:1], 0)
    for call in (lambda: file.write(NEW, 0), lambda: disk.list(HOME), lambda: disk.sync_directory(HOME)):
        with pytest.raises(Killed):
            call()
    assert disk.content(FILE) == NEW[:1] + OLD[1:]


def test_copies_share_nothing_that_one_of_them_changes() -> None:
    chance = random.Random(3)
    disks = [disk_with()]
    contents = [OLD]
    for _ in range(300):
        place = chance.randrange(len(disks))
        match chance.randrange(4):
            case 0:
                disks.append(disks[place].restart())
                contents.append(contents[place])
            case 1:
                at, data = chance.randrange(len(OLD) - 9), chance.randbytes(9)
                disks[place].open(FILE, writable=True).write(data, at)
                contents[place] = contents[place][:at] + data + contents[place][at + 9 :]
            case 2:
                disks[place].open(FILE, writable=True).sync()
                assert disks[place].crash(1).content(FILE) == contents[place]
            case _:
                assert disks[place].healed().content(FILE) == contents[place]
        assert [disk.content(FILE) for disk in disks] == contents


def test_a_seed_is_one_outcome() -> None:
    def made() -> SimulatedDisk:
        disk = disk_with()
        disk.open(FILE, writable=True).write(NEW, 0)
        disk.create(HOME / "made")
        return disk

    assert [made().crash(seed).digest() for seed in SEEDS] == [made().crash(seed).digest() for seed in SEEDS]
    assert len({made().crash(seed).digest() for seed in SEEDS}) > 20
