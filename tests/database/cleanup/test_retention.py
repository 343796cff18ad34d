"""The retention directory: clean-up moves files there, bounded by age and bytes, and overwrites nothing."""

import errno
import os
import time
from pathlib import Path

import pytest

from oms_journal import DatabaseView, DiskError, MessageDatabase
from oms_journal.database.cleanup import Retention
from oms_journal.database.options import Options
from oms_journal.journal.disk import DiskFile, RealDisk
from oms_journal.journal.names import DataFileName
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.crashes.crash_store import with_header
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.small_files import churn, open_small
from tests.support.disks.watched_disk import WatchedDisk


class TwoFileSystems(WatchedDisk):
    """A disk on which no file of one directory can have a name in another one."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _open(tmp_path: Path, **named: object) -> MessageDatabase:
    return open_small(tmp_path / "spool", retention_directory=tmp_path / "kept", **named)


def _kept(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((tmp_path / "kept").glob("*/*"))}


@pytest.mark.parametrize("disk", [WatchedDisk, TwoFileSystems])
def test_what_clean_up_lets_go_is_kept_as_it_was(disk: type[WatchedDisk], tmp_path: Path) -> None:
    with _open(tmp_path, disk=disk()) as db:
        kept = db.add("q", b"kept")
        churn(db, 5)
        before = {path.name: path.read_bytes() for path in db.directory.glob("*.data")}
        report = db.cleanup(compact=True)
        assert report.deleted == () and len(report.moved) >= 5
        assert _kept(tmp_path) == {name: before[name] for name in report.moved}
        left = {path.name for path in db.directory.glob("*.data")}
        assert not left & set(report.moved)
        assert db.read(kept).payload == b"kept"
        churn(db, 3)
        again = db.cleanup(compact=True)
        assert set(_kept(tmp_path)) == {*report.moved, *again.moved}
    directories = list((tmp_path / "kept").iterdir())
    assert len(directories) == 1, "one for each database, named after its identity"
    assert len(bytes.fromhex(directories[0].name)) == 16
    assert directories[0].stat().st_mode & 0o777 == 0o700
    with _open(tmp_path) as db:
        assert db.recovery.intact
    with DatabaseView.open(directories[0]) as history:
        assert history.undelivered_count() > 0, "what is kept can be read like a database"


class TwoSimulatedFileSystems(SimulatedDisk):
    """Likewise, in memory, where the power can be cut."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


@pytest.mark.whole
@pytest.mark.parametrize("kind", [SimulatedDisk, TwoSimulatedFileSystems])
def test_a_power_cut_while_clean_up_moves_files_leaves_each_of_them_here_or_there(kind: type[SimulatedDisk]) -> None:
    retention, step = Path("/kept"), 0
    while True:
        disk = kind()
        db = open_unattended(disk, retention_directory=retention)
        for _ in range(3):
            db.deliver_many(db.add_many("q", [bytes(700)] * 5))
        before = {name: data for name, data in disk.contents(SPOOL).items() if name.endswith(".data")}
        disk.kill_at = disk.steps + (step := step + 1)
        try:
            moved = db.cleanup(compact=True).moved
        except Killed:
            moved = ()
        kept = retention / db._journal._opening.database.hex()
        for seed in range(4):
            left = disk.crash(seed)
            here = left.contents(SPOOL)
            there = left.contents(kept) if kept in left._directories else {}
            for name, data in before.items():
                assert name in here or there.get(name) == data, (step, seed, name)
            again = open_unattended(left, retention_directory=retention)
            again.cleanup(compact=True)
            assert not left.contents(SPOOL).keys() & left.contents(kept).keys(), "what was interrupted is finished"
            found = left.contents(SPOOL).keys() | left.contents(kept).keys()
            assert found >= {name for name, data in before.items() if any(data)}, (step, seed, "nothing is deleted")
            again.close()
        if moved:
            assert step > 5 and len(moved) >= 2
            return


def test_what_a_former_owner_began_too_late_is_no_history() -> None:
    """It had made a file, stood still, and wrote into it when another one had passed that sequence by."""
    disk, kept, name = SimulatedDisk(), Path("/kept"), "omsmsg-0000000003.data"
    with open_unattended(disk) as former:
        former.add("q", b"too late")
    late = with_header(disk.content(SPOOL / "omsmsg-0000000001.data"), sequence=3)
    with open_unattended(disk, retention_directory=kept) as database:
        disk.put(SPOOL / name, bytes(len(late)))
        for _ in range(8):
            database.add("q", b"y" * 1000)
        assert disk.content(SPOOL / name).count(0) == len(late), "it may be a later owner's"
        disk.put(SPOOL / name, late)
        database.deliver_many(list(database.numbers()))
        report = database.cleanup()

    assert name in report.deleted
    (directory,) = [path for path in disk.directories() if path.parent == kept]
    assert disk.contents(directory).keys() == set(report.moved)
    assert "omsmsg-0000000001.data" in report.moved
    assert name not in report.moved


def test_what_a_former_owner_makes_in_the_place_of_history_is_none() -> None:
    """It makes its next file late, where clean-up has moved one away that was there at the start."""
    disk, kept, name = SimulatedDisk(), Path("/kept"), "omsmsg-0000000001.data"
    with open_unattended(disk) as former:
        former.deliver(former.add("q", b"history"))
    with open_unattended(disk, retention_directory=kept) as database:
        for _ in range(4):
            database.deliver(database.add("q", b"y" * 1000))
        assert name in database.cleanup().moved
        (directory,) = [path for path in disk.directories() if path.parent == kept]
        disk.remove(directory / name)  # its time is over, or an operator has put it elsewhere
        disk.put(SPOOL / name, bytes(4096))
        assert database.cleanup().deleted == (name,)
    assert name not in disk.contents(directory)


def test_two_databases_may_share_a_retention_directory(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with open_small(tmp_path / name, retention_directory=tmp_path / "kept") as db:
            churn(db, 3)
            assert db.cleanup().moved
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_file_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    with _open(tmp_path) as db:
        churn(db, 3)
        home = tmp_path / "kept" / db._cleanup._context.database.hex()
        home.mkdir(parents=True)
        name = str(DataFileName(min(fact.sequence for fact in db.explain())))
        (home / name).write_bytes(b"somebody else's")
        report = db.cleanup()
        assert name in report.deleted and name not in report.moved
        assert (home / name).read_bytes() == b"somebody else's"


def test_what_was_being_copied_when_a_process_was_killed_is_copied_again(tmp_path: Path) -> None:
    with _open(tmp_path, disk=TwoFileSystems()) as db:
        churn(db, 3)
        home = tmp_path / "kept" / db._cleanup._context.database.hex()
        home.mkdir(parents=True)
        name = str(DataFileName(min(fact.sequence for fact in db.explain())))
        (home / f"{name}.new").write_bytes(b"half of it")
        whole = (db.directory / name).read_bytes()
        assert name in db.cleanup().moved
        assert (home / name).read_bytes() == whole
        assert not (home / f"{name}.new").exists()


@pytest.mark.parametrize("limit", [0, 1, 5000, 10_000, 10**9])
def test_no_more_bytes_are_kept_than_the_bound_allows_and_the_newest_stay(limit: int, tmp_path: Path) -> None:
    with _open(tmp_path, retention_bytes=limit) as db:
        churn(db, 8)
        moved = db.cleanup().moved
    kept = _kept(tmp_path)
    total = sum(map(len, kept.values()))

    assert total <= limit
    assert list(kept) == sorted(moved)[len(moved) - len(kept) :]
    assert limit < 10**9 or len(kept) == len(moved)


def test_what_is_older_than_the_bound_goes(tmp_path: Path) -> None:
    with _open(tmp_path, retention_age="1h") as db:
        churn(db, 4)
        old = db.cleanup().moved
        home = tmp_path / "kept" / db._cleanup._context.database.hex()
        now = time.time()
        for name in old:
            os.utime(home / name, (now - 3601, now - 3601))
        os.utime(home / old[-1], (now - 3500, now - 3500))
        churn(db, 4)
        new = db.cleanup().moved
    assert list(_kept(tmp_path)) == [old[-1], *new]


def test_strangers_in_the_retention_directory_are_left_alone(tmp_path: Path) -> None:
    with _open(tmp_path, retention_bytes=0) as db:
        home = tmp_path / "kept" / db._cleanup._context.database.hex()
        home.mkdir(parents=True)
        (home / "notes.txt").write_bytes(b"mine")
        (home / "omsmsg-0000000001-v0001.archive").write_bytes(b"mine too")
        churn(db, 3)
        db.cleanup()
    assert sorted(_kept(tmp_path)) == ["notes.txt", "omsmsg-0000000001-v0001.archive"]


def test_a_retention_directory_that_cannot_be_used_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"a file where a directory should be")
    with _open(tmp_path) as db:
        number = db.add("q", b"kept")
        churn(db, 3)
        with pytest.raises(DiskError, match="remove"):
            db.cleanup(compact=True)
        assert db.read(number).payload == b"kept"
        db.add("q", b"goes on")
    (tmp_path / "kept").unlink()
    with _open(tmp_path) as db:
        assert db.recovery.intact
        assert [message.payload for message in db.undelivered()] == [b"kept", b"goes on"]
        churn(db, 3)
        assert db.cleanup(compact=True).moved


def test_a_directory_that_is_not_there_has_nothing_to_trim(tmp_path: Path) -> None:
    retention = Retention(RealDisk(), tmp_path / "none", Options(retention_bytes=0))

    assert retention.trim() == []


class FullRetention(TwoFileSystems):
    """Two file systems, of which the one with what is retained has room for so many files."""

    room = 1

    def create(self, path: Path) -> DiskFile:
        if path.parent.parent.name == "kept":
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            self.room -= 1
        return super().create(path)


def test_where_the_retention_directory_is_full_the_files_stay_and_that_is_told_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullRetention()
    with _open(tmp_path, disk=disk) as db:
        db.put("key", b"value")
        churn(db, 5)
        report = db.cleanup(compact=True)
        assert len(report.moved) == 1
        assert report.stays.startswith(f"cannot move data files into {tmp_path / 'kept'}")
        assert report.stays.endswith("No space left on device")
        assert report.freed_bytes < 8584, "of the one that has gone"
        again = db.cleanup(compact=True)
        assert (again.moved, again.stays) == ((), report.stays)
        assert caplog.text.count(str(tmp_path / "kept")) == 1, "the same is logged once"
        assert "omsmsg-" not in caplog.text
        churn(db, 1)
        disk.room = 100
        later = db.cleanup(compact=True)
        assert (len(later.moved) >= 5, later.stays) == (True, "")
        assert db.get("key") == b"value"
        assert len(_kept(tmp_path)) == 1 + len(later.moved)


def test_a_start_moves_what_a_full_retention_directory_did_not_take(tmp_path: Path) -> None:
    with _open(tmp_path, disk=FullRetention()) as db:
        churn(db, 5)
        assert db.cleanup().stays
        names = {path.name for path in db.directory.glob("*.data")}
    with _open(tmp_path) as db:
        assert db.recovery.intact
        left = {path.name for path in db.directory.glob("*.data")}
        assert names <= left | set(_kept(tmp_path))


class HalfCopied(FullRetention):
    """One that is full in the middle of a file."""

    room = 100

    def create(self, path: Path) -> DiskFile:
        file = super().create(path)
        if path.parent.parent.name == "kept":
            file.write = _no_room  # type: ignore[assignment,method-assign]
        return file


def _no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_half_a_copy_does_not_stay_in_a_full_retention_directory(tmp_path: Path) -> None:
    with _open(tmp_path, disk=HalfCopied()) as db:
        churn(db, 5)
        assert db.cleanup().stays
    assert _kept(tmp_path) == {}
