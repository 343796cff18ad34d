"""A file that is lost between two databases of one lineage is reported; no stranger is taken for its neighbour."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from oms_journal import DatabaseView
from oms_journal.analysis.reading.directory import sequence_of, survey
from oms_journal.analysis.storage import Location, Storage
from oms_journal.journal.errors import NotThisDatabase
from oms_journal.journal.names import LOCK, DataFileName
from oms_journal.recovery.validation import validate_directory
from tests.journal.reading.test_lineage import CHILD, GRANDCHILD, SIBLING, files, header, own, refuses, rotted
from tests.support.crashes.crash_model import SPOOL
from tests.support.crashes.restored import BACKUP, backed_up, opened, restored
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.journals.java_reader import HAS_JAVA, java_reader
from tests.support.sweeps import a_sample

AGAIN, OTHER = Path("/again"), Path("/other")


def lineage(*, closes: bool = True) -> SimulatedDisk:
    """Return a disk with a database that has not gone on, and its grandchild, which has one file of what was between.

    So nothing but the lock files, and that one file, tells the two directories apart.
    """
    disk = SimulatedDisk()
    parent = opened(disk, SPOOL)
    for number in range(8):
        parent.add("q", b"%d" % number * 300)
    parent.vouch()
    backed_up(disk)
    parent._journal.maintain()  # the next file is prepared: nobody can read its header
    if closes:
        parent.close()
    restored(disk, BACKUP, CHILD)
    restored(disk, BACKUP, SIBLING, seed=2)
    with opened(disk, SIBLING) as database:
        database.add("q", b"sibling")
    backed_up(disk, CHILD, AGAIN)
    restored(disk, AGAIN, GRANDCHILD, seed=3)
    for _ in range(2):
        with opened(disk, GRANDCHILD) as database:
            database.add("q", b"goes on")
    disk.let_go_of_locks()
    return disk


def between(disk: SimulatedDisk) -> str:
    """Return the only file of the child that the grandchild has."""
    (name,) = set(own(disk, CHILD)) & set(files(disk, GRANDCHILD))
    return name


def _without(disk: SimulatedDisk, directory: Path, gone: Sequence[str]) -> SimulatedDisk:
    left = disk.restart()
    for name in gone:
        left.remove(directory / name)
    return left


def _written(disk: SimulatedDisk, source: Path, target: Path) -> Location:
    """Write a simulated directory to a real one, for those who only read there."""
    target.mkdir()
    for name, data in disk.contents(source).items():
        (target / name).write_bytes(data)
    return Location(storage=Storage(), directory=target, is_whole=True)


@a_sample(1)
@pytest.mark.parametrize("count", [1, 2])
def test_whichever_files_are_gone_the_start_tells_and_goes_on_with_the_others(count: int, tmp_path: Path) -> None:
    disk = lineage()
    there = sorted(files(disk, GRANDCHILD))
    tried = 0
    for gone in combinations(there[:-1], count):  # of the newest one nobody knows
        left = _without(disk, GRANDCHILD, gone)
        missing = {report.name for report in validate_directory(GRANDCHILD, left) if report.row == "missing"}
        assert missing <= set(gone)
        assert (between(disk) in missing) == (between(disk) in gone)
        location = _written(left, GRANDCHILD, tmp_path / "-".join(gone))
        assert {str(DataFileName(one.sequence)) for one in survey(location).lost} == missing
        if HAS_JAVA:
            judged = java_reader().read(location.directory)["files"]
            assert {one["sequence"] for one in judged if one["row"] == "missing"} == {*map(sequence_of, missing)}
        with DatabaseView.open(GRANDCHILD, disk=left) as view:
            numbers = set(view.numbers())
        with opened(left, GRANDCHILD) as database:
            assert {loss.name for loss in database.recovery.lost} == missing
            assert numbers <= set(database.numbers())
            database.add("q", b"goes on")
        with opened(left, GRANDCHILD) as database:
            assert database.recovery.intact
        tried += 1
    assert tried > 4


def test_what_is_emptied_where_nobody_behind_it_names_it_is_lost_and_not_prepared() -> None:
    disk = lineage()
    first_own = min(own(disk, GRANDCHILD))
    left = _without(disk, GRANDCHILD, [first_own])
    left.put(GRANDCHILD / between(disk), bytes(4096))
    with opened(left, GRANDCHILD) as database:
        assert {loss.name for loss in database.recovery.lost} == {between(disk), first_own}


def test_what_is_gone_of_a_backup_is_told_by_its_restore() -> None:
    disk = backed_up(lineage(), GRANDCHILD, OTHER)
    for number, name in enumerate(files(disk, OTHER), start=4):
        left = _without(disk, OTHER, [name])
        report = restored(left, OTHER, Path("/made"), seed=number)
        assert (report.changed, {loss.name for loss in report.recovery.lost}) == ((name,), {name})
        with opened(left, Path("/made")) as database:
            assert database.recovery.intact


@a_sample(2)
@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("place", [SPOOL, SIBLING])
def test_the_grandchilds_files_are_refused_where_a_database_lives_that_has_never_seen_them(
    place: Path, closes: bool, tmp_path: Path
) -> None:
    disk = lineage(closes=closes)
    theirs = own(disk, GRANDCHILD)
    for count in range(1, len(theirs) + 1):
        for chosen in combinations(theirs, count):
            mixed = disk.restart()
            for name in chosen:
                mixed.put(place / name, theirs[name])
            refuses(mixed, place)
            refuses(mixed, place)  # however often somebody tries
            location = _written(mixed, place, tmp_path / "-".join(chosen))
            with pytest.raises(NotThisDatabase):
                survey(location)
            assert not HAS_JAVA or java_reader().read(location.directory)["refused"]


def test_of_the_files_that_clean_up_has_moved_away_any_may_be_elsewhere(tmp_path: Path) -> None:
    """Their folder is named after the newest one's database; nobody refuses what is left in it."""
    disk = lineage()
    there = files(disk, GRANDCHILD)
    kept = Path("/kept") / header(disk, GRANDCHILD / max(there)).database.hex()
    for gone in sorted(there)[:-1]:
        left = disk.restart()
        left.make_directory(kept)
        for name in there.keys() - {gone}:
            left.put(kept / name, there[name])
        names = {report.name for report in validate_directory(kept, left) if report.size}
        assert names == there.keys() - {gone}
        (tmp_path / gone).mkdir()
        assert {part.name for part in survey(_written(left, kept, tmp_path / gone / kept.name)).parts} == names


def test_without_a_lock_file_nobody_can_tell_whose_directory_it_is_and_it_is_refused(tmp_path: Path) -> None:
    disk = _without(lineage(), GRANDCHILD, [between(lineage()), LOCK])
    refuses(disk, GRANDCHILD)
    location = _written(disk, GRANDCHILD, tmp_path / "there")
    (location.directory / LOCK).unlink(missing_ok=True)
    with pytest.raises(NotThisDatabase):
        survey(location)


def test_a_stranger_is_a_stranger_though_a_file_is_lost_above_it() -> None:
    disk = lineage()
    with opened(disk, OTHER) as database:
        for number in range(8):
            database.add("q", b"%d" % number * 300)
    (last, *_) = sorted(files(disk, OTHER), reverse=True)
    gone = min(own(disk, SIBLING))
    for data in (None, rotted(disk.content(SIBLING / gone), 20, 532)):
        left = _without(disk, SIBLING, [gone])
        if data is not None:
            left.put(SIBLING / gone, data)
        left.put(SIBLING / last, disk.content(OTHER / last))
        refuses(left, SIBLING)  # the parent's last file is another one: nobody is unknown


def test_below_the_low_water_mark_nothing_is_lost_and_every_stranger_is_one() -> None:
    disk = lineage()
    with opened(disk, OTHER) as database:
        database.add("q", b"other")
    database = opened(disk, GRANDCHILD)
    database.add("q", b"stays")
    database.unhold()
    database.deliver_many(list(database.numbers())[:-1])
    assert database.cleanup().deleted
    database.close()
    left = files(disk, GRANDCHILD)
    assert min(left) > between(lineage())
    marks = {header(disk, GRANDCHILD / name).low_water for name in left}
    assert max(marks) < sequence_of(between(lineage())), "it stands in a frame, and in no header yet"
    with opened(disk.restart(), GRANDCHILD) as again:
        assert again.recovery.intact
    (stranger,) = files(disk, OTHER)
    disk.put(GRANDCHILD / stranger, disk.content(OTHER / stranger))
    refuses(disk, GRANDCHILD)
