"""A full store that was drained has room again: what pins the oldest files is moved, and they go.

The sample has five of the crashes while room is made.
"""

import contextlib
import threading
import time
from itertools import product

import pytest

from oms_journal import DiskFull, MessageDatabase
from oms_journal.database import maintenance
from oms_journal.index.held import Held
from oms_journal.journal.errors import JournalError
from oms_journal.journal.names import RESERVE
from tests.support.crashes.crash_model import (
    SMALL,
    SPOOL,
    Account,
    Unattended,
    Writer,
    found_after,
    open_unattended,
    state_of,
)
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.sweeps import a_sample, for_each, split

SIZE = 16 * SMALL  # of a data file
RESERVED = (1 << 20) + 2 * SIZE
SPACE = RESERVED + 24 * SIZE


def opened(disk: SimulatedDisk, **named: object) -> Unattended:
    return open_unattended(disk, max_data_file_size=SIZE, **named)


def fill(writer: Writer) -> None:
    """Add messages until there is no room."""
    with contextlib.suppress(DiskFull):
        while True:
            writer.add("q", bytes(4000))
    writer.account.in_flight = None


def drained(pins: int = 1, space: int = SPACE, **named: object) -> tuple[SimulatedDisk, Writer]:
    """Return a full disk of messages that are all delivered, but for the oldest ones; and one key is as old."""
    disk = SimulatedDisk(space=space)
    writer = Writer(opened(disk, **named), Account())
    writer.put("old", b"value" * 10)
    for _ in range(pins):
        writer.add("pinning", bytes(4000))
    fill(writer)
    numbers = list(writer.database.numbers("q"))
    assert len(numbers) > 250
    for start in range(0, len(numbers), 20):
        writer.deliver(*numbers[start : start + 20])
    return disk, writer


def test_what_pins_the_oldest_file_is_moved_once_a_message_was_refused_and_then_there_is_room() -> None:
    disk, writer = drained()
    database = writer.database
    assert isinstance(database, Unattended)
    with pytest.raises(DiskFull, match="deliver or delete messages, which still works"):
        database.add("q", bytes(4000))
    assert database._is_full and database._needs_room

    database.look_for_room()
    assert not database._is_full and not database._needs_room
    for _ in range(100):
        writer.add("q", bytes(4000))
    assert state_of(database) == writer.account.state
    database.close()
    assert found_after(disk, max_data_file_size=SIZE) == writer.account.state


@a_sample(1)
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_what_little_pins_the_oldest_files_is_moved_by_any_clean_up_where_room_is_wanted(share: float) -> None:
    disk, writer = drained(compact_share=share)
    database = writer.database
    assert database._is_full
    assert database._reclaim()
    for _ in range(100):
        writer.add("q", bytes(4000))
    assert state_of(database) == writer.account.state
    database.close()
    assert found_after(disk, max_data_file_size=SIZE) == writer.account.state


def test_the_active_file_goes_too_where_it_is_what_fills_the_disk() -> None:
    disk = SimulatedDisk(space=(1 << 20) + 5 * (1 << 20))
    database = open_unattended(disk, max_data_file_size=2 << 20)
    writer = Writer(database, Account())
    writer.put("old", b"value")
    writer.add("pinning", bytes(4000))
    fill(writer)
    numbers = list(database.numbers("q"))
    writer.deliver(*numbers)
    with pytest.raises(DiskFull):
        database.add("q", bytes(40_000))

    database.look_for_room()
    assert not database._is_full
    writer.add("q", bytes(40_000))
    assert state_of(database) == writer.account.state
    database.close()
    assert found_after(disk, max_data_file_size=2 << 20) == writer.account.state


def test_it_is_looked_for_again_only_when_something_was_committed_since() -> None:
    disk = SimulatedDisk(space=SPACE)
    writer = Writer(opened(disk), Account())
    fill(writer)
    database = writer.database
    assert isinstance(database, Unattended)
    database.look_for_room()
    assert database._is_full and not database._needs_room
    writer.deliver(*list(database.numbers())[:200])
    assert database._needs_room


@a_sample(1)
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_start_on_a_full_disk_makes_room(is_closed: bool, has_reserve: bool) -> None:
    disk, writer = drained()
    if is_closed:
        writer.database.close()
    disk = disk.restart()
    if not has_reserve:
        disk.remove(SPOOL / RESERVE)
        disk.space = disk.used() + SIZE

    with opened(disk) as database:
        assert len(database.cleaned_at_start.deleted) > 10
        assert not database._is_full
        writer.database = database
        writer.add("q", bytes(4000))
        assert state_of(database) == writer.account.state
    assert found_after(disk, max_data_file_size=SIZE) == writer.account.state


@pytest.mark.parametrize("free", [0, 5000])
def test_a_start_on_a_full_disk_says_at_once_that_messages_are_refused(free: int) -> None:
    disk = SimulatedDisk(space=SPACE)
    writer = Writer(opened(disk), Account())
    fill(writer)
    writer.database.close()
    disk = disk.restart()
    disk.space = disk.used() + free

    with opened(disk) as database:
        assert database._is_full
        with pytest.raises(DiskFull):
            database.add("q", bytes(4000))


def test_a_start_that_found_damage_moves_nothing() -> None:
    disk, writer = drained(pins=50)
    writer.database.close()
    disk = disk.restart()
    name = sorted(name for name in disk.contents(SPOOL) if name.endswith(".data"))[3]
    data = bytearray(disk.content(SPOOL / name))
    data[30_000] ^= 1
    disk.put(SPOOL / name, bytes(data))
    disk.space = disk.used()
    with opened(disk) as database:
        assert database.recovery.lost
        assert database.cleaned_at_start.moved_messages == 0


def test_a_start_that_holds_something_back_moves_nothing() -> None:
    disk, writer = drained(pins=50)
    with writer.database._holds.lock:
        writer.database._holds.write(Held([(1, 20)]))
    writer.database.close()
    disk = disk.restart()
    disk.space = disk.used()
    with opened(disk) as database:
        assert database.recovery.intact
        assert len(list(database.held())) == 20
        assert database.cleaned_at_start.moved_messages == 0


@pytest.mark.whole
@pytest.mark.parametrize("pins", split([150], [1, 400]))
def test_more_than_the_reserve_has_is_moved_a_few_files_at_a_time(pins: int) -> None:
    disk, writer = drained(pins=pins, space=RESERVED + 80 * SIZE)
    database = writer.database
    report = database.cleanup(compact=True)

    assert report.moved_messages == pins
    assert len(report.deleted) > 60
    assert state_of(database) == writer.account.state
    fill(writer)
    assert len(list(database.numbers("q"))) > 250
    database.close()
    assert found_after(disk, max_data_file_size=SIZE) == writer.account.state


@pytest.mark.whole
@for_each(("seed", "is_cut"), product(range(12), [False, True]), sample=5, is_long=True)
def test_a_crash_while_room_is_made_loses_nothing_and_doubles_nothing(seed: int, is_cut: bool) -> None:
    disk, writer = drained(pins=80, space=RESERVED + 40 * SIZE)
    disk.kill_at = disk.steps + 1 + seed * 7
    with pytest.raises((Killed, JournalError)):
        writer.database.cleanup(compact=True)
        raise Killed("at its end")
    disk = disk.crash(seed) if is_cut else disk.restart()
    disk.kill_at = None

    assert found_after(disk, max_data_file_size=SIZE) == writer.account.state


def test_the_running_database_makes_room_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "ROOM_SECONDS", 0.05)
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 0.01)
    disk = SimulatedDisk(space=SPACE)
    with MessageDatabase.open(SPOOL, disk=disk, max_data_file_size=SIZE, cleanup_interval=0) as db:
        pin = db.add("pinning", b"x")
        db._journal.maintain()  # the reserve is there before the disk is full
        numbers = []
        with pytest.raises(DiskFull):
            while True:
                numbers.append(db.add("q", bytes(4000)))
        db.deliver_many(numbers)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                db.add("q", bytes(9000))
                break
            except DiskFull:
                assert time.monotonic() < deadline
                threading.Event().wait(0.01)
        assert next(db.undelivered("pinning")).number == pin


def test_where_even_removals_have_no_room_that_is_what_is_said() -> None:
    disk = SimulatedDisk()
    number = Writer(opened(disk), Account()).add("q", b"x")
    disk = disk.restart()
    disk.remove(SPOOL / RESERVE)
    disk.space = disk.used()
    with opened(disk) as database, pytest.raises(DiskFull) as refused:
        database.deliver(number)
    assert "remove messages" in str(refused.value)
    assert "add messages" not in str(refused.value)
    assert "free some on its file system" in str(refused.value)
