"""The work beside the commits: done when it should be, by a thread that no fault ends."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database import maintenance
from oms_journal.database.maintenance import Maintenance
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseClosed, DirectoryGone, JournalError, TakenOver
from oms_journal.journal.lock import read_holder
from oms_journal.journal.writing.segment import Segment
from oms_journal.journal.writing.supply import ROLLED_MAX
from tests.support.crashes.crash_model import found_after, open_unattended, state_of
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.stomp_server import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second be ten milliseconds."""
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 0.01)


@dataclass
class Diary:
    """What was done, and what there is to do."""

    done: list[str] = field(default_factory=list)
    is_due: bool = False
    roomless: bool = False
    vouching: bool = False
    failures: dict[str, Exception] = field(default_factory=dict)
    expired: bool = False
    ends: list[TakenOver | DirectoryGone] = field(default_factory=list)

    def chore(self, name: str) -> Callable[[], None]:
        def do_it() -> None:
            self.done.append(name)
            if name in self.failures:
                raise self.failures[name]

        return do_it

    def maintenance(self, cleanup_seconds: float = 0) -> Maintenance:
        return Maintenance(
            maintain=self.chore("maintain"),
            needs_maintenance=lambda: self.is_due,
            vouch=self.chore("vouch"),
            needs_vouching=lambda: self.vouching,
            renew=self.chore("renew"),
            taken_over=self.ends.append,
            clean_up=self.chore("clean up"),
            make_room=self.chore("make room"),
            needs_room=lambda: self.roomless,
            end_expired=self.chore("delete expired"),
            has_expired=lambda: self.expired,
            cleanup_seconds=cleanup_seconds,
            renew_seconds=0.03,
        )

    def wait_for(self, name: str, times: int = 3) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.done.count(name) < times:
            assert time.monotonic() < deadline, f"{name} was not done: {self.done}"
            time.sleep(0.001)


@pytest.fixture
def diary() -> Iterator[Diary]:
    yield Diary()


def test_only_what_is_needed_is_done(diary: Diary) -> None:
    thread = diary.maintenance()
    thread.start()
    diary.wait_for("renew")
    thread.stop()
    assert set(diary.done) == {"renew"}

    diary = Diary(is_due=True, vouching=True)
    thread = diary.maintenance(cleanup_seconds=0.02)
    thread.start()
    for name in ("maintain", "vouch", "renew", "clean up"):
        diary.wait_for(name)
    thread.stop()
    before = len(diary.done)
    time.sleep(0.05)
    assert len(diary.done) == before, "after its end it does nothing"


def test_room_is_made_as_soon_as_it_is_wanted_and_then_at_most_once_in_some_seconds(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary.roomless = True
    thread = diary.maintenance()
    thread.start()
    thread.wake()
    diary.wait_for("make room", 1)
    diary.wait_for("renew", 5)
    assert diary.done.count("make room") == 1, "the next attempt is some seconds away"
    thread.stop()

    monkeypatch.setattr(maintenance, "ROOM_SECONDS", 0.02)
    thread = diary.maintenance()
    thread.start()
    diary.wait_for("make room", 4)
    thread.stop()


def test_nothing_is_vouched_for_while_commits_follow_one_another(diary: Diary) -> None:
    diary.vouching = diary.is_due = True
    thread = diary.maintenance()
    stopping = threading.Event()

    def commits() -> None:
        while not stopping.is_set():
            thread.wake()

    waking = threading.Thread(target=commits)
    waking.start()
    thread.start()
    diary.wait_for("maintain", 100)
    assert diary.done.count("vouch") < diary.done.count("maintain") / 10
    stopping.set()
    waking.join()
    diary.wait_for("vouch")
    thread.stop()


@pytest.mark.parametrize(
    "failure", [OSError(5, "Input/output error"), JournalError("refused"), AssertionError("a bug")]
)
def test_no_fault_ends_the_work_and_each_is_told(
    failure: Exception, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    diary.is_due = diary.vouching = True
    diary.roomless = True
    diary.failures = dict.fromkeys(("maintain", "vouch", "renew", "clean up", "make room"), failure)
    thread = diary.maintenance(cleanup_seconds=0.01)
    with caplog.at_level(logging.WARNING, "oms.database"):
        thread.start()
        for name in ("maintain", "vouch", "renew", "clean up"):
            diary.wait_for(name)
        diary.wait_for("make room", 1)
        thread.stop()

    assert str(failure) in caplog.text
    assert len(caplog.records) < 5, "the same fault again and again is told once"
    assert thread.failure is not None


def test_that_the_database_is_closed_in_that_moment_is_nothing_to_tell(
    diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    diary.failures["maintain"] = DatabaseClosed("spool was closed")
    diary.is_due = True
    work = diary.maintenance()
    with caplog.at_level(logging.WARNING, "oms.database"):
        work.start()
        eventually(lambda: diary.done.count("maintain") > 1)
        work.stop()
    assert not caplog.records
    assert work.failure is None


def test_stopping_lets_what_is_being_done_be_finished(diary: Diary) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        assert leave.wait(TIMEOUT_SECONDS)
        diary.done.append("slow")

    thread = diary.maintenance()
    thread.renew = slow
    thread.start()
    assert entered.wait(TIMEOUT_SECONDS)
    threading.Timer(0.05, leave.set).start()
    thread.stop()

    assert diary.done == ["slow"]


def _wait_for(event: threading.Event) -> None:
    event.wait(TIMEOUT_SECONDS)


def test_long_work_does_not_keep_an_owner_from_showing_that_it_is_alive(diary: Diary) -> None:
    leave = threading.Event()
    diary.is_due = True
    thread = diary.maintenance()
    thread.maintain = lambda: _wait_for(leave)
    thread.start()
    thread.wake()
    diary.wait_for("renew")
    leave.set()
    thread.stop()


def test_an_owner_that_was_taken_over_shows_nothing_any_more_and_says_so(diary: Diary) -> None:
    diary.failures = {"renew": TakenOver()}
    thread = diary.maintenance(cleanup_seconds=0.01)
    thread.start()
    diary.wait_for("clean up")
    thread.stop()
    assert diary.done.count("renew") == 1
    assert len(diary.ends) == 1


def test_a_database_left_alone_vouches_for_its_last_commit_and_shows_that_it_is_alive(tmp_path: Path) -> None:
    def alive() -> str:
        return (tmp_path / "omsmsg.lock").read_bytes()[:512].decode().splitlines()[2]

    with MessageDatabase.open(tmp_path, renew_interval=0.03) as db:
        number = db.add("q", b"x")
        began = alive()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            with DatabaseView.open(tmp_path) as view:
                is_shown = list(view.numbers()) == [number]
            if is_shown and alive() != began and not db._journal.needs_vouching:
                break
            assert time.monotonic() < deadline
        holder = read_holder(RealDisk(), tmp_path)
        assert holder is not None and holder.is_open
        size = db.stats().bytes
        time.sleep(0.1)
        assert db.stats().bytes == size, "one empty frame is enough"


def test_files_that_nobody_seals_do_not_pile_up() -> None:
    """Where files are begun faster than the maintenance thread seals them, the commits do it themselves."""
    disk = SimulatedDisk()
    database = open_unattended(disk)
    database.patience = 1 << 60
    waiting = []
    for _ in range(3 * ROLLED_MAX):
        database.add("q", b"x" * 3000)
        waiting.append(len(database._journal._supply._rolled))
    state = state_of(database)
    database.close()

    assert max(waiting) == ROLLED_MAX
    assert waiting[-1] < ROLLED_MAX
    assert found_after(disk) == state


@pytest.mark.parametrize("is_replaced", [False, True])
def test_no_footer_names_a_file_that_is_begun_while_the_maintenance_comes_to_it_and_is_not_durable(
    is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    number = database.add("q", b"x")
    journal = database._journal
    seal = journal._supply.seal

    def begun_meanwhile(active: Callable[[], Segment | None]) -> None:
        unused = journal._active
        if is_replaced:
            assert unused is not None
            journal._replace_active(unused)
        else:
            journal._roll()
        seal(active)

    if is_replaced:
        journal._roll()
    monkeypatch.setattr(journal._supply, "seal", begun_meanwhile)
    journal.maintain()
    with open_unattended(disk.restart()) as again:
        assert (again.recovery.lost, list(again.numbers())) == ((), [number])
