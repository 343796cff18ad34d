"""A restored database and its parent are never mistaken for each other, nor brought up on each other's files.

The parent goes on after its backup, and so does what was restored from it. Then files are put where they don't belong.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.journal.errors import NotThisDatabase
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.names import LOCK, DataFileName, parse
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import SPOOL
from tests.support.crashes.restored import BACKUP, NEW, backed_up, opened, restored
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.journals.java_reader import java_reader, needs_java
from tests.support.sweeps import a_sample

CHILD, SIBLING, GRANDCHILD = NEW, Path("/sibling"), Path("/grandchild")


def family(*, parent_goes_on: int = 20, closes: bool = True) -> SimulatedDisk:
    """Return a disk with a database and three generations that were restored, each of which has gone on."""
    disk = SimulatedDisk()
    parent = opened(disk, SPOOL)
    _add(parent, 10)
    parent.vouch()
    backed_up(disk)
    _add(parent, parent_goes_on)
    if closes:
        parent.close()
    for seed, directory in enumerate((CHILD, SIBLING), start=1):
        restored(disk, BACKUP, directory, seed=seed)
        with opened(disk, directory) as database:
            _add(database, 10)
    backed_up(disk, CHILD, Path("/backup2"))
    with opened(disk, CHILD) as database:
        _add(database, 10)
    restored(disk, Path("/backup2"), GRANDCHILD, seed=3)
    with opened(disk, GRANDCHILD) as database:
        _add(database, 10)
    return disk


def _add(database: MessageDatabase, count: int) -> None:
    for number in range(count):
        database.add("q", b"%d" % number * 300)


def files(disk: SimulatedDisk, directory: Path) -> dict[str, bytes]:
    """Return the data files, but for those that were only prepared."""
    return {name: data for name, data in disk.contents(directory).items() if name.endswith(".data") and any(data)}


def header(disk: SimulatedDisk, path: Path) -> FileHeader:
    with DataFile(disk, path) as file:
        found = file.header()
    assert isinstance(found, FileHeader)
    return found


def own(disk: SimulatedDisk, directory: Path) -> dict[str, bytes]:
    """Return the files that the directory's database has written itself."""
    there = files(disk, directory)
    newest = header(disk, directory / max(there)).database
    return {name: data for name, data in there.items() if header(disk, directory / name).database == newest}


def refuses(disk: SimulatedDisk, directory: Path) -> None:
    before = disk.contents(directory)
    for look in (
        lambda: opened(disk, directory),
        lambda: DatabaseView.open(directory, disk=disk),
        lambda: validate_directory(directory, disk),
    ):
        with pytest.raises(NotThisDatabase):
            look()
    after = disk.contents(directory)
    assert {name for name in after if after[name] != before.get(name)} <= {LOCK}


@needs_java
def test_every_one_of_the_family_is_read_by_itself(tmp_path: Path) -> None:
    disk = family()
    databases = set()
    for directory in (SPOOL, CHILD, SIBLING, GRANDCHILD):
        with opened(disk, directory) as database:
            assert database.recovery.intact
            databases.add(database._journal._opening.database)
        copy = tmp_path / directory.name
        copy.mkdir()
        for name, data in files(disk, directory).items():
            (copy / name).write_bytes(data)
        with DatabaseView.open(copy) as view:
            read = java_reader().read(copy)
            assert len(read["undelivered"]) == view.undelivered_count() > 0, "a reader of the pages alone reads it too"
    assert len(databases) == 4


@pytest.mark.whole
def test_a_file_of_any_other_of_the_family_in_any_directory_is_refused() -> None:
    disk = family()
    places = (SPOOL, CHILD, SIBLING, GRANDCHILD)
    tried = 0
    for place in places:
        there = files(disk, place)
        for other in places:
            strangers = {name: data for name, data in files(disk, other).items() if there.get(name) != data}
            for name, data in strangers.items():
                if name in there and len(there) == 1:
                    continue
                mixed = disk.restart()
                mixed.put(place / name, data)
                tried += 1
                _check_mixed(mixed, place, name, there)
    assert tried > 50


def _check_mixed(disk: SimulatedDisk, place: Path, name: str, there: dict[str, bytes]) -> None:
    """Check that a foreign file is refused; an older version of an own one, put over it, is damage."""
    try:
        verdicts = {one.name: one.verdict for one in validate_directory(place, disk)}
    except NotThisDatabase:
        refuses(disk, place)
        return
    assert name in there, f"{name} in {place} is of another database"
    assert len(disk.content(place / name)) < len(there[name])
    assert [one for one, verdict in verdicts.items() if verdict != "clean"] == [name]


def test_the_parents_tail_with_what_it_wrote_after_the_split_is_refused_by_the_child() -> None:
    disk = family(parent_goes_on=1)
    last = max(name for name, data in files(disk, SPOOL).items() if name in files(disk, CHILD))
    disk.put(CHILD / last, disk.content(SPOOL / last))
    refuses(disk, CHILD)


def test_the_parents_tail_is_refused_where_nothing_but_a_vouching_frame_has_come() -> None:
    disk = family(parent_goes_on=0)
    last = max(files(disk, SPOOL))
    disk.put(CHILD / last, disk.content(SPOOL / last))
    refuses(disk, CHILD)


@pytest.mark.parametrize("closes", [True, False])
def test_the_childs_files_are_refused_by_a_parent_that_has_gone_on_a_little(closes: bool) -> None:
    disk = family(parent_goes_on=1, closes=closes)
    disk.let_go_of_locks()
    assert len(files(disk, SPOOL)) == len(files(disk, BACKUP)), "it goes on in the file that was the last of its backup"
    for name, data in own(disk, CHILD).items():
        disk.put(SPOOL / name, data)
    refuses(disk, SPOOL)


def test_the_childs_files_are_refused_by_a_parent_that_has_gone_on_far() -> None:
    disk = family()
    for name, data in own(disk, CHILD).items():
        mixed = disk.restart()
        mixed.put(SPOOL / name, data)
        refuses(mixed, SPOOL)


def test_a_file_of_the_parent_from_after_the_split_is_refused_whichever_it_is() -> None:
    disk = family()
    behind = set(files(disk, SPOOL)) - set(files(disk, BACKUP))
    assert len(behind) > 3
    for name in behind:
        mixed = disk.restart()
        mixed.put(CHILD / name, disk.content(SPOOL / name))
        refuses(mixed, CHILD)


def rotted(data: bytes, *places: int) -> bytes:
    changed = bytearray(data)
    for place in places:
        changed[place] ^= 1
    return bytes(changed)


def test_where_the_file_that_names_the_next_ancestor_has_rotted_its_files_are_still_read() -> None:
    disk = family()
    in_between = [name for name in own(disk, CHILD) if name in files(disk, GRANDCHILD)]
    for name in in_between:
        data = disk.content(GRANDCHILD / name)
        disk.put(GRANDCHILD / name, rotted(data, 20, 532, len(data) - 20))  # both headers, and the footer
    with opened(disk, GRANDCHILD) as database:
        assert not database.recovery.intact
        numbers = {message.number for message in [*database.undelivered(), *database.held()]}
    with DatabaseView.open(BACKUP, disk=disk) as view:
        assert set(view.numbers()) <= numbers, "what the first one had is there"
    with opened(disk, GRANDCHILD) as database:
        assert database.recovery.intact


@a_sample(1)
@pytest.mark.parametrize("harm", ["rot", "removal"])
def test_whatever_file_of_a_restored_database_is_lost_the_others_are_read(harm: str) -> None:
    disk = family()
    lost = 0
    for name, data in files(disk, GRANDCHILD).items():
        mixed = disk.restart()
        if harm == "rot":
            mixed.put(GRANDCHILD / name, rotted(data, 20, 532, len(data) - 20))
        else:
            mixed.remove(GRANDCHILD / name)
        if harm == "removal" and {name} == set(own(disk, CHILD)) & set(files(disk, GRANDCHILD)):
            refuses(mixed, GRANDCHILD)  # with the only file of an ancestor nobody is left who names the next one
            continue
        with opened(mixed, GRANDCHILD) as database:
            lost += bool(database.recovery.lost)
            database.add("q", b"goes on")
        with opened(mixed, GRANDCHILD) as database:
            assert database.recovery.intact
    assert lost > 3 or harm == "rot"


def test_with_rot_in_between_a_stranger_is_still_a_stranger() -> None:
    disk = family()
    first = min(own(disk, CHILD))
    data = disk.content(CHILD / first)
    disk.put(CHILD / first, rotted(data, 20, 532, len(data) - 20))
    behind = max(set(files(disk, SPOOL)) - set(files(disk, BACKUP)))
    disk.put(CHILD / behind, disk.content(SPOOL / behind))
    refuses(disk, CHILD)


@pytest.mark.whole
def test_a_power_cut_while_the_files_of_ancestors_are_cleaned_up_leaves_a_directory_that_starts() -> None:
    disk = family()
    for step in range(1, 500):
        tried = disk.restart()
        database = opened(tried, GRANDCHILD)
        database.unhold()
        database.deliver_many(list(database.numbers()))
        tried.kill_at = tried.steps + step
        try:
            database.cleanup(compact=True)
        except Killed:
            for seed in range(6):
                left = tried.crash(100 * step + seed)
                with opened(left, GRANDCHILD) as again:
                    assert again.undelivered_count() == 0
            continue
        assert step > 10
        assert set(files(tried, GRANDCHILD)) <= set(own(tried, GRANDCHILD)), "all of the ancestors' are gone"
        return
    raise AssertionError("a clean-up without a kill comes at last")


@pytest.mark.parametrize(
    "look", [lambda disk: opened(disk, CHILD).close(), lambda disk: restored(disk, new=Path("/n"))]
)
def test_the_names_of_its_own_files_are_those_of_no_other(look: Callable[[SimulatedDisk], object]) -> None:
    disk = family()
    look(disk)
    every = [set(own(disk, place)) for place in (SPOOL, CHILD, SIBLING, GRANDCHILD)]
    assert sum(map(len, every)) == len(set().union(*every))
    parsed = [parse(name) for name in set().union(*every)]
    assert all(isinstance(one, DataFileName) for one in parsed)
