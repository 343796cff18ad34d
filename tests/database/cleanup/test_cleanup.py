"""Clean-up: what goes, what never does, and that a clean-up that stops anywhere loses nothing."""

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from oms_journal import CommitFailed, DiskError, MessageDatabase
from oms_journal.database.cleanup import IDLE_BYTES
from oms_journal.journal.names import DataFileName
from tests.support.disks.small_files import SMALL, churn, fill, open_small, sequences
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk
from tests.support.sweeps import a_sample

_RESERVE = shutil.ignore_patterns("omsmsg.reserve", "*.new")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with open_small(tmp_path / "spool") as opened:
        yield opened


def _roll(db: MessageDatabase) -> None:
    """Let what comes next stand in a new file."""
    db._journal.roll_at_next_commit()


# What goes.


@a_sample(6)
@pytest.mark.parametrize(
    "needed", list(product([False, True], repeat=4)), ids=lambda n: "".join("-x"[each] for each in n)
)
def test_only_the_leading_run_of_files_that_hold_nothing_needed_goes(
    needed: tuple[bool, ...], db: MessageDatabase
) -> None:
    files = fill(db, 4)
    every = sorted(files)
    for sequence, is_needed in zip(every, needed, strict=False):
        db.deliver_many(files[sequence][1:] if is_needed else files[sequence])
    planned = db.cleanup(dry_run=True)
    assert sequences(db)[: len(every)] == every, "a dry run changes nothing"
    report = db.cleanup()

    first_needed = next((sequence for sequence, is_needed in zip(every, needed, strict=False) if is_needed), None)
    gone = [sequence for sequence in every[:4] if first_needed is None or sequence < first_needed]
    assert report.deleted == planned.deleted == tuple(str(DataFileName(sequence)) for sequence in gone)
    assert not set(gone) & set(sequences(db))
    assert report.freed_bytes == planned.freed_bytes
    for sequence, is_needed in zip(every, needed, strict=False):
        assert [n for n in db.numbers() if n in files[sequence]] == (files[sequence][:1] if is_needed else [])


def test_what_a_clean_up_frees_is_what_the_directory_loses(db: MessageDatabase) -> None:
    files = fill(db, 5)
    db.deliver_many([number for numbers in files.values() for number in numbers])
    db._journal.seal_all()
    sizes = {path.name: path.stat().st_size for path in db.directory.glob("*.data")}
    report = db.cleanup()

    assert len(report.deleted) == 5
    assert report.freed_bytes == sum(sizes[name] for name in report.deleted)
    assert db.cleanup() == type(report)(), "there is nothing more to do"


def test_a_removal_stays_as_long_as_what_it_removes(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        kept = db.add("q", b"pins the first file")
        gone = [db.add("q", bytes(700)) for _ in range(20)]
        db.deliver_many(gone)
        _roll(db)
        db.add("q", b"later")
        db.cleanup()
    with open_small(tmp_path) as db:
        assert db.undelivered_count() == 2
        assert db.read(kept).sequence == 1


def test_a_key_keeps_its_file_and_a_newer_version_lets_it_go(db: MessageDatabase) -> None:
    db.put("k", b"old")
    files = fill(db, 3)
    db.deliver_many([number for numbers in files.values() for number in numbers])
    assert db.cleanup().deleted == ()
    db.put("k", b"new")
    assert len(db.cleanup().deleted) >= 3
    assert db.get("k") == b"new"


def test_a_start_lets_go_of_what_is_dead(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        files = fill(db, 6)
        db.deliver_many([number for numbers in files.values() for number in numbers])
    before = len(list(tmp_path.glob("*.data")))
    with open_small(tmp_path) as db:
        assert len(list(tmp_path.glob("*.data"))) < before - 4
        assert db.add("q", b"x") > max(max(numbers) for numbers in files.values())


def test_a_file_whose_loss_was_meant_is_not_missed(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        files = fill(db, 5)
        db.deliver_many([number for numbers in files.values() for number in numbers])
        db.cleanup()
    for _ in range(3):
        with open_small(tmp_path) as db:
            assert db.recovery.intact, db.recovery


def test_the_maintenance_cleans_up_by_itself(tmp_path: Path) -> None:
    with open_small(tmp_path, cleanup_interval=0.01) as db:
        files = fill(db, 3)
        db.deliver_many([number for numbers in files.values() for number in numbers])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while min(sequences(db)) <= max(files) - 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# The active file.


@pytest.mark.parametrize("size", [100, IDLE_BYTES + 1000])
def test_an_idle_active_file_goes_when_it_is_worth_it(size: int, tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.deliver(db.add("q", bytes(size)))
        planned = db.cleanup(dry_run=True)
        report = db.cleanup()
        assert report.deleted == planned.deleted == ((str(DataFileName(1)),) if size > IDLE_BYTES else ())
        number = db.add("q", b"after")
        assert db.read(number).sequence == (2 if size > IDLE_BYTES else 1)
        assert db.cleanup().deleted == ()
    with open_small(tmp_path) as db:
        assert db.recovery.intact, db.recovery
        assert [message.payload for message in db.undelivered()] == [b"after"]


@pytest.mark.parametrize("compact", [False, True])
def test_an_active_file_that_is_needed_stays(compact: bool, tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.deliver(db.add("q", bytes(100_000)))
        db.put("k", b"v")
        assert db.cleanup(compact=compact).deleted == ()
        assert db.get("k") == b"v"


def test_what_comes_into_an_idle_file_while_it_is_about_to_go_keeps_it(tmp_path: Path) -> None:
    """A commit is added at every step of a clean-up that has found the active file idle."""
    for step in range(12):
        disk = WatchedDisk()
        with open_small(tmp_path / str(step), max_data_file_size="1M", disk=disk) as db:
            db.deliver(db.add("q", bytes(50_000)))
            late: list[int] = []
            countdown = iter(range(step, -1, -1))
            state, write = db._cleanup._context.state, db._cleanup._context.write

            def add_at_the_step(db: MessageDatabase = db, late: list[int] = late) -> None:
                if next(countdown, -1) == 0:  # noqa: B023
                    late.append(db.add("q", b"late"))

            def looking() -> object:
                add_at_the_step()
                found = state()  # noqa: B023
                add_at_the_step()
                return found

            def writing(draft: object) -> None:
                add_at_the_step()
                write(draft)  # type: ignore[arg-type]  # noqa: B023
                add_at_the_step()

            object.__setattr__(db._cleanup._context, "state", looking)
            object.__setattr__(db._cleanup._context, "write", writing)
            db.cleanup()
            db.add("q", b"last")
        with open_small(tmp_path / str(step)) as db:
            assert db.recovery.intact, (step, db.recovery)
            assert [message.payload for message in db.undelivered()] == [b"late"] * len(late) + [b"last"]


# Faults and crashes between the steps.


@pytest.mark.whole
@pytest.mark.parametrize("step", range(9))
def test_a_clean_up_that_stops_anywhere_loses_nothing_and_is_done_again(step: int, tmp_path: Path) -> None:
    disk = WatchedDisk()
    db = open_small(tmp_path / "spool", disk=disk)
    kept = [db.add("q", b"kept %d" % index, producer_id=str(index)) for index in range(3)]
    db.put("k", b"v")
    db.deliver_many([number for numbers in fill(db, 6).values() for number in numbers])
    countdown = iter(range(step, -1, -1))

    def refuse() -> None:
        if threading.current_thread() is threading.main_thread() and next(countdown, -1) == 0:
            raise OSError(5, "Input/output error")

    disk.before_change = refuse
    with contextlib.suppress(DiskError, CommitFailed):
        db.cleanup(compact=True)
    disk.before_change = lambda: None
    crashed = tmp_path / "crashed"
    shutil.copytree(db.directory, crashed, ignore=_RESERVE)
    with contextlib.suppress(CommitFailed):
        db.cleanup(compact=True)
    db.close()
    for directory in (tmp_path / "spool", crashed):
        for _ in range(2):
            with open_small(directory) as again:
                assert not again.recovery.lost, again.recovery
                assert list(again.numbers()) == kept
                assert again.get("k") == b"v"
                assert [again.add("q", b"kept %d" % index, producer_id=str(index)) for index in range(3)] == kept
                again.cleanup(compact=True)


@a_sample(4)
@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_file_that_comes_back_below_the_mark_goes_again_and_takes_nothing_with_it(
    place: int, is_begun: bool, tmp_path: Path
) -> None:
    """A former owner that goes on late makes one: prepared only, or with frames. The mark does not go down to it."""
    directory, crashed = tmp_path / "spool", tmp_path / "crashed"
    with open_small(directory) as db:
        kept = []
        for index in range(3):
            kept.append(db.add("q", b"kept %d" % index, producer_id=str(index)))
            churn(db, 2)
        content = {path.name: path.read_bytes() for path in directory.glob("*.data")}
        db.put("k", b"needed")  # in a file that stays, and says what was before it
        _roll(db)  # so that both marks stand in one file, in whose header there is none yet
        deleted = db.cleanup(compact=True).deleted
        assert len(deleted) >= 6
        late = deleted[place]
        (directory / late).write_bytes(content[late] if is_begun else bytes(SMALL))
        assert db.cleanup().deleted == (late,)
        shutil.copytree(directory, crashed, ignore=_RESERVE)
    for left in (directory, crashed):
        with open_small(left) as again:
            assert not again.recovery.lost, again.recovery
            assert list(again.numbers()) == kept
            assert [again.add("q", b"kept %d" % index, producer_id=str(index)) for index in range(3)] == kept
