"""A follower whose destination goes away names it, goes on when it is back, and says how far it is behind."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.backup.backup import Backup, BackupOptions
from oms_journal.database.backup.follow import Follower, Shipped
from tests.support.cli_runner import command_line, environment, oms
from tests.support.crashes.backup_model import BACKUP, COPIED
from tests.support.crashes.crash_model import SPOOL
from tests.support.crashes.restored import BEGAN, opened
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample
from tests.support.warm_starts import Process

SECOND = 1_000_000


@contextmanager
def following(spool: Path, target: Path, *arguments: str) -> Iterator[Callable[[], dict[str, object]]]:
    """Run a follower; yield what returns its next line, None where it has ended."""
    process = Process(
        command_line("backup", str(target), "--follow", "--interval", "0.02", "--json", *arguments),
        env=environment(spool),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        lines = process.stdout
        assert lines is not None
        yield lambda: json.loads(lines.readline())
    finally:
        process.kill()
        process.communicate()


def _removed(target: Path) -> None:
    shutil.rmtree(target)


def _moved(target: Path) -> None:
    target.rename(target.with_name("elsewhere"))


def _replaced(target: Path) -> None:
    _moved(target)
    target.mkdir()


def _a_file(target: Path) -> None:
    _moved(target)
    target.write_text("no directory")


@a_sample(4)
@pytest.mark.parametrize("change", [_removed, _moved, _replaced, _a_file])
@pytest.mark.parametrize("rolls", [False, True], ids=["what comes to the file", "a new file"])
@pytest.mark.parametrize("links", [False, True], ids=["copies", "links"])
def test_a_destination_that_goes_away_is_named_and_nothing_is_made_in_its_place(
    tmp_path: Path, change: Callable[[Path], None], rolls: bool, links: bool
) -> None:
    spool, target = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool, max_data_file_size=16_384) as db:
        db.add("q", b"x")
        db._vouch()
        options = BackupOptions(links=links)
        with Backup.open(spool, target, options) as backup:
            follower = Follower(backup, options)
            assert follower.poll().failure is None
            change(target)
            for _ in range(3):
                for _ in range(60 if rolls else 1):
                    db.add("q", b"y" * 500)
                db._vouch()
                if rolls:
                    db._journal.seal_all()
                shipped = follower.poll()
                assert shipped.failure is not None
                assert str(target) in str(shipped.failure) and str(spool) not in str(shipped.failure)
            there = sorted(target.iterdir()) if target.is_dir() else []
            assert there == []


def test_it_goes_on_when_the_destination_is_back(tmp_path: Path) -> None:
    spool, target = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as db, Backup.open(spool, target) as backup:
        follower = Follower(backup)
        db.add("q", b"x")
        db._vouch()
        follower.poll()
        _moved(target)
        db.add("q", b"y")
        db._vouch()
        assert follower.poll().failure is not None
        target.with_name("elsewhere").rename(target)
        shipped = follower.poll()
        assert shipped.failure is None and shipped.lag_seconds == 0
        assert shipped.manifest is not None and shipped.manifest.next_message == 3


@pytest.mark.whole
def test_the_command_names_the_destination_too_and_gives_no_advice_about_the_database(tmp_path: Path) -> None:
    spool, target = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as db:
        db.add("q", b"x")
        with following(spool, target) as line:
            assert "failure" not in line()
            shutil.rmtree(target)
            db.add("q", b"y")
            told = line()
    assert str(target) in str(told["failure"])
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        text = oms("backup", str(place), spool=spool, code=4).stderr
        assert str(place) in text and "--spool" not in text and "SPOOL_DIRECTORY" not in text


# How far it is behind.


class Behind:
    """A database on a simulated disk, and followers of it on another one that is full, one after another."""

    def __init__(self) -> None:
        self.disk, self.target = SimulatedDisk(), SimulatedDisk()
        self.now = BEGAN
        self.database = opened(self.disk, SPOOL, clock=lambda: self.now)
        self.options = replace(COPIED, clock=lambda: self.now)

    def adds(self, text: bytes = b"x") -> None:
        self.database.add("q", text)
        self.database.vouch()

    def poll(self, count: int = 1, *, every: int = 0) -> list[Shipped]:
        """Return what a new follower says, polling so often."""
        said = []
        with Backup.open(SPOOL, BACKUP, self.options, disk=self.disk, onto=self.target) as backup:
            follower = Follower(backup, self.options)
            for _ in range(count):
                said.append(follower.poll())
                self.now += every
        return said


@pytest.fixture
def behind() -> Behind:
    behind = Behind()
    behind.adds(b"in the backup")
    assert behind.poll()[0].lag_seconds == 0
    return behind


@pytest.mark.parametrize("size", [10, 3000, 300_000], ids=["in the same file", "in another file", "in a large frame"])
@pytest.mark.parametrize("restarts", [True, False])
def test_the_lag_is_the_age_of_the_oldest_commit_that_is_missing_however_often_it_is_restarted(
    behind: Behind, size: int, restarts: bool
) -> None:
    behind.now += 500 * SECOND
    behind.adds(bytes([1]) * size)
    first = behind.now
    behind.target.space = behind.target.used()
    lags: list[float] = []
    for minute in range(5):
        behind.adds(b"later")
        behind.now = first + minute * 60 * SECOND
        said = behind.poll(1 if restarts else 2)
        assert all(shipped.failure is not None for shipped in said)
        lags += [shipped.lag_seconds for shipped in said]
    assert lags == sorted(lags)
    assert {round(lag) for lag in lags} == {0, 60, 120, 180, 240}
    behind.target.space = None
    assert behind.poll()[0].lag_seconds == 0


def test_with_nothing_missing_a_failure_is_no_lag(behind: Behind) -> None:
    behind.now += 100 * SECOND
    behind.database.close()
    behind.target.space = behind.target.used()
    (said,) = behind.poll()
    assert said.failure is not None
    assert said.lag_seconds == 0, "a close adds nothing that anybody sent"


def test_before_the_first_backup_the_oldest_commit_of_all_is_missing() -> None:
    behind = Behind()
    behind.adds()
    behind.now += 70 * SECOND
    behind.target.space = 0
    with Backup.open(SPOOL, BACKUP, behind.options, disk=behind.disk, onto=behind.target) as backup:
        said = Follower(backup, behind.options).poll()
    assert said.failure is not None and round(said.lag_seconds) == 70


def test_what_nothing_vouches_for_yet_is_missing_also_for_a_new_follower() -> None:
    behind = Behind()
    behind.database.add("q", b"the first group of the file, which the lock file vouches for")
    behind.database.add("q", b"x")
    behind.now += 7 * SECOND
    assert [round(one.lag_seconds) for one in behind.poll(2)] == [7, 7]


def test_where_the_database_cannot_be_read_it_is_the_time_since_the_backup_had_all(behind: Behind) -> None:
    with Backup.open(SPOOL, BACKUP, behind.options, disk=behind.disk, onto=behind.target) as backup:
        follower = Follower(backup, behind.options)
        behind.now += 100 * SECOND
        assert follower.poll().lag_seconds == 0
        for seconds in (20, 40):
            behind.now += 20 * SECOND
            behind.disk.fail_from("list")
            said = follower.poll()
            assert said.failure is not None and round(said.lag_seconds) == seconds
