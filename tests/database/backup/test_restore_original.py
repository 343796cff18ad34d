"""A restore hands nothing out by itself, unless the original is seen untouched: everything else may have gone on."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.backup.backup import Backup, back_up
from oms_journal.database.backup.follow import Follower
from oms_journal.database.backup.restore import RestoreOptions, restore
from oms_journal.journal import names
from oms_journal.journal.format import manifest
from tests.support.crashes.crash_model import SPOOL
from tests.support.crashes.restored import BACKUP, BEGAN, NEW, backed_up, opened, restored
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import for_each

OTHER = Path("/other")
NUMBERS = list(range(1, 7))


def closed() -> SimulatedDisk:
    """Return a disk with a database of six messages that was closed, and its backup."""
    disk = SimulatedDisk()
    with opened(disk, SPOOL) as database:
        for number in NUMBERS:
            database.add("q", b"%d" % number)
    return backed_up(disk)


def held(disk: SimulatedDisk, directory: Path = NEW) -> list[int]:
    with opened(disk, directory) as database:
        return [message.number for message in database.held()]


def _of(disk: SimulatedDisk, **named: object) -> None:
    known = manifest.read(disk, BACKUP)
    assert known is not None
    manifest.write(disk, BACKUP, replace(known, **named))  # type: ignore[arg-type]


def _gone(disk: SimulatedDisk) -> None:
    for name in disk.contents(SPOOL):
        disk.remove(SPOOL / name)


def _delivers(disk: SimulatedDisk) -> None:
    with opened(disk, SPOOL, at=BEGAN + 10**9) as database:
        database.deliver(NUMBERS[0])


def _opened_only(disk: SimulatedDisk) -> None:
    opened(disk, SPOOL, at=BEGAN + 10**9).close()


def _is_open(disk: SimulatedDisk) -> None:
    disk.still = opened(disk, SPOOL, at=BEGAN + 10**9)  # type: ignore[attr-defined]


def _was_killed(disk: SimulatedDisk) -> None:
    _is_open(disk)
    disk.still.deliver(NUMBERS[0])  # type: ignore[attr-defined]


def _other_database(disk: SimulatedDisk) -> None:
    _gone(disk)
    with opened(disk, SPOOL) as database:
        database.add("q", b"another one's")


def _its_sibling(disk: SimulatedDisk) -> None:
    _gone(disk)
    restored(disk, BACKUP, SPOOL, seed=9)


def _newest(disk: SimulatedDisk) -> Path:
    return SPOOL / max(name for name in disk.contents(SPOOL) if name.endswith(".data"))


def _damaged(disk: SimulatedDisk) -> None:
    data = bytearray(disk.content(_newest(disk)))
    data[-1] ^= 1
    disk.put(_newest(disk), bytes(data))


LOOKS: dict[str, tuple[Callable[[SimulatedDisk], object], bool | None]] = {
    "untouched": (lambda disk: None, False),
    "it delivered": (_delivers, True),
    "it was opened and closed": (_opened_only, True),
    "it is open": (_is_open, True),
    "it was killed": (_was_killed, True),
    "all its files are gone": (_gone, None),
    "its newest file is gone": (lambda disk: disk.remove(_newest(disk)), None),
    "its lock file is gone": (lambda disk: disk.remove(SPOOL / names.LOCK), None),
    "its lock file rotted": (lambda disk: disk.put(SPOOL / names.LOCK, b"owner who knows\n" * 100), None),
    "its last footer is damaged": (_damaged, None),
    "another database is there": (_other_database, None),
    "what was restored from the backup is there": (_its_sibling, None),
    "a restore there was not finished": (lambda disk: disk.put(SPOOL / names.RESTORE, b""), None),
    "a backup is there": (lambda disk: disk.put(SPOOL / names.BACKUP, b""), None),
    "another machine": (lambda disk: _of(disk, source=f"elsewhere:{SPOOL}"), None),
    "another directory": (lambda disk: _of(disk, source=f"{os.uname().nodename}:/nowhere"), None),
    "a path of no directory": (lambda disk: _of(disk, source=f"{os.uname().nodename}:spool"), None),
    "nothing is said": (lambda disk: _of(disk, source=""), None),
}


@pytest.mark.parametrize("case", LOOKS)
def test_nothing_is_handed_out_unless_the_original_is_seen_untouched(case: str) -> None:
    change, went_on = LOOKS[case]
    disk = closed()
    change(disk)

    report = restored(disk)

    assert (report.was_closed, report.went_on) == (True, went_on)
    assert held(disk) == ([] if went_on is False else NUMBERS)
    assert report.held == len(held(disk))


@pytest.mark.whole
@for_each("case", LOOKS)
@for_each("hold", [True, False])
def test_who_knows_better_decides_whatever_can_be_seen(case: str, hold: bool) -> None:
    change, went_on = LOOKS[case]
    disk = closed()
    change(disk)

    report = restored(disk, hold=hold)

    assert report.went_on is went_on
    assert held(disk) == (NUMBERS if hold else [])


def test_of_a_running_database_all_is_held_though_it_can_be_seen() -> None:
    disk = SimulatedDisk()
    database = opened(disk, SPOOL)
    number = database.add("q", b"x")
    database.vouch()
    backed_up(disk)
    as_it_was = restored(disk)
    assert (as_it_was.was_closed, as_it_was.went_on, as_it_was.held) == (False, None, 1)
    database.deliver(number)
    database.close()
    went_on = restored(disk, new=OTHER)
    assert (went_on.was_closed, went_on.went_on, went_on.held) == (False, True, 1)


def test_what_was_held_already_stays_held_where_nobody_holds_more() -> None:
    disk = closed()
    restored(disk, hold=True)
    backed_up(disk, NEW, OTHER)

    restored(disk, OTHER, Path("/again"), hold=False, seed=2)

    assert held(disk, Path("/again")) == NUMBERS


def test_a_database_restored_to_where_the_lost_one_was_has_all_of_it_held(tmp_path: Path) -> None:
    spool, backup = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as database:
        numbers = database.add_many("q", [b"a", b"b", b"c"])
    back_up(spool, backup)
    with MessageDatabase.open(spool) as database:
        database.deliver_many(numbers)
    for path in spool.iterdir():
        path.unlink()

    report = restore(backup, spool)

    assert (report.was_closed, report.went_on, report.held) == (True, None, 3)
    with MessageDatabase.open(spool) as database:
        assert database.take("q") is None


def test_a_clean_restart_that_a_follower_saw_no_more_of_has_all_of_it_held(tmp_path: Path) -> None:
    spool, backup = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as database:
        numbers = database.add_many("q", [b"a", b"b", b"c"])
        with Backup.open(spool, backup) as following:
            Follower(following).poll()
            database.close()
            Follower(following).poll()
    with MessageDatabase.open(spool) as database:
        database.deliver_many(numbers)
    spool.rename(tmp_path / "lost")

    report = restore(backup, tmp_path / "new")

    assert (report.was_closed, report.went_on, report.held) == (True, None, 3)


@pytest.mark.parametrize("hold", ["no", "yes", 0, 1, 1.0, [], b""])
def test_a_hold_that_is_no_answer_is_refused_and_nothing_is_made(hold: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="hold must be True, False or None"):
        restore(tmp_path / "backup", tmp_path / "new", RestoreOptions(hold=hold))  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_a_look_at_the_original_changes_nothing_there(tmp_path: Path) -> None:
    spool, backup = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as database:
        database.add("q", b"x")
    back_up(spool, backup)
    before = {path.name: path.read_bytes() for path in spool.iterdir()}

    assert restore(backup, tmp_path / "new").went_on is False

    assert {path.name: path.read_bytes() for path in spool.iterdir()} == before
