"""An old copy that was put back by hand, and goes on, never takes the place of what the backup has."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.backup.backup import Backup, BackupOptions, back_up
from oms_journal.database.backup.follow import Follower
from oms_journal.journal import names
from oms_journal.journal.errors import BehindItsBackup
from oms_journal.journal.names import DataFileName
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.sweeps import a_sample, sampled

QUICK = BackupOptions(vouch_seconds=5.0)


def vouched_for(db: MessageDatabase) -> BackupOptions:
    """Return options under which the database vouches at once for what it has acknowledged, and not some time later."""
    return replace(QUICK, wait=lambda _: db._vouch())


def added(spool: Path, count: int, text: bytes) -> list[int]:
    with open_small(spool) as db:
        return [db.add("q", text) for _ in range(count)]


def copied(spool: Path, to: Path) -> Path:
    shutil.copytree(spool, to, ignore=shutil.ignore_patterns("*.new"))
    return to


def put_back(copy: Path, spool: Path) -> None:
    shutil.rmtree(spool)
    copied(copy, spool)


def numbers_in(directory: Path) -> set[int]:
    with DatabaseView.open(directory) as view:
        return set(view.numbers())


def assert_refused(spool: Path, target: Path, own: set[int]) -> None:
    before = {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK}
    for _ in range(2):
        with pytest.raises(BehindItsBackup, match="another directory"):
            back_up(spool, target, QUICK)
    with pytest.raises(BehindItsBackup), Backup.open(spool, target, QUICK) as backup:
        Follower(backup).poll()
    assert {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK} == before
    assert own <= numbers_in(target)
    back_up(spool, target.with_name("another"), QUICK)
    assert numbers_in(target.with_name("another")) == numbers_in(spool)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


@a_sample(2)
@pytest.mark.parametrize("went_on", [0, 1, 40], ids=lambda count: f"{count} more of the copy")
@pytest.mark.parametrize("had", [1, 20], ids=lambda count: f"{count} more of the original")
@pytest.mark.parametrize("starts", [1, 3])
def test_a_copy_of_a_closed_database_is_refused_however_far_it_has_gone_on(
    spool: Path, target: Path, tmp_path: Path, had: int, went_on: int, starts: int
) -> None:
    added(spool, 4, b"both")
    copy = copied(spool, tmp_path / "copy")
    own = set(added(spool, had, b"only the backup has it"))
    back_up(spool, target, QUICK)
    put_back(copy, spool)
    for _ in range(starts):
        added(spool, went_on, b"of the copy")

    assert_refused(spool, target, own)


@a_sample(2)
@pytest.mark.parametrize("went_on", [1, 40])
@pytest.mark.parametrize("had", [1, 40])
def test_a_copy_of_a_running_database_is_refused_however_far_it_has_gone_on(
    spool: Path, target: Path, tmp_path: Path, had: int, went_on: int
) -> None:
    with open_small(spool) as db:
        db.add("q", b"both")
        db._vouch()
        copy = copied(spool, tmp_path / "copy")
        own: set[int] = {db.add("q", b"only the backup has it") for _ in range(had)}
        back_up(spool, target, QUICK)
    put_back(copy, spool)
    added(spool, went_on, b"of the copy")

    assert_refused(spool, target, own)


@pytest.mark.parametrize("files", [1, 2, 6])
def test_it_is_refused_also_where_clean_up_has_removed_what_they_had_in_common(
    spool: Path, target: Path, tmp_path: Path, files: int
) -> None:
    first = added(spool, 4, b"both")
    copy = copied(spool, tmp_path / "copy")
    with open_small(spool) as db:
        own = {number for numbers in fill(db, 8).values() for number in numbers}
    back_up(spool, target, QUICK)
    put_back(copy, spool)
    with open_small(spool) as db:
        db.deliver_many(first)
        churn(db, files)
        db.cleanup()
        db.add("q", b"of the copy")
    assert not (spool / str(DataFileName(1))).exists()

    assert_refused(spool, target, own)


def _closes(spool: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"more")


def _grows(spool: Path) -> None:
    with open_small(spool) as db:
        fill(db, 3)


def _cleans_up(spool: Path) -> None:
    with open_small(spool) as db:
        db.deliver_many(list(db.numbers()))
        churn(db, 5)
        db.cleanup(compact=True)
        db.add("q", b"more")


def _damaged(at: int) -> Callable[[Path], None]:
    def damage(spool: Path) -> None:
        path = max(spool.glob("*.data"))
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.unlink()
        path.write_bytes(data)
        added(spool, 1, b"after the repair")

    return damage


def _loses_its_lock_file(spool: Path) -> None:
    (spool / names.LOCK).unlink()
    added(spool, 2, b"more")


@a_sample(2)
@pytest.mark.parametrize(
    "change",
    sampled(
        [
            _closes,
            _grows,
            _cleans_up,
            _damaged(100),
            _damaged(4352 + 60),
            _damaged(-1),
            _damaged(300),
            _loses_its_lock_file,
        ],
        3,
    ),
    ids=["closes", "grows", "cleans up", "header", "frame", "footer", "padding", "lock"],
)
@pytest.mark.parametrize("runs", [True, False], ids=["backed up as it ran", "backed up when it was closed"])
def test_the_database_itself_is_backed_up_whatever_has_become_of_it(
    spool: Path, target: Path, change: Callable[[Path], None], runs: bool
) -> None:
    for _ in range(3):
        if runs:
            with open_small(spool) as db:
                fill(db, 1)
                db.add("q", b"x")
                back_up(spool, target, vouched_for(db))
        else:
            added(spool, 5, b"x")
            back_up(spool, target, QUICK)
        change(spool)
        back_up(spool, target, QUICK)
        assert numbers_in(target) >= numbers_in(spool), "it keeps what a repair had to give up"
