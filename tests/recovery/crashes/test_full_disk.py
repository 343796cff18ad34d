"""A full disk: messages are refused, nothing that makes room is, and nothing is lost."""

import contextlib
import errno
import random

import pytest

from oms_journal.journal.errors import CommitFailed, DiskError, DiskFull, JournalError
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
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample, sampled

SPACE = (1 << 20) + 48 * SMALL  # the reserve, and some forty files


def fill(writer: Writer) -> int:
    """Add messages until there is no room; return how many there are."""
    for turn in range(10_000):
        try:
            writer.add(f"q{turn % 3}", bytes([turn % 256]) * 500, turn=str(turn))
        except DiskFull:
            writer.account.in_flight = None
            return turn
    raise AssertionError("the disk is full at last")


def filled(space: int = SPACE) -> tuple[SimulatedDisk, Writer]:
    disk = SimulatedDisk(space=space)
    writer = Writer(open_unattended(disk), Account())
    assert fill(writer) > 80
    return disk, writer


def drain(writer: Writer, *, each: int = 7) -> None:
    numbers = list(writer.database.numbers())
    for start in range(0, len(numbers), each):
        writer.deliver(*numbers[start : start + each])


def test_only_messages_are_refused_and_the_refusal_is_not_final() -> None:
    _, writer = filled()
    database = writer.database

    with pytest.raises(DiskFull) as refused:
        database.add("q", b"x" * 500)
    assert refused.value.failure.errno == errno.ENOSPC
    assert "add messages" in str(refused.value)
    with pytest.raises(DiskFull), database.commit() as block:
        block.put("key", b"with a message")
        block.add("q", b"x" * 500)
    writer.put("key", b"value")
    writer.drop("key")
    first = next(database.numbers())
    writer.delete(first)
    assert state_of(database) == writer.account.state


def test_a_full_database_is_drained_from_the_reserve_cleaned_up_and_takes_messages_again() -> None:
    disk, writer = filled()
    drain(writer)
    assert writer.database.undelivered_count() == 0
    freed = writer.database.cleanup()
    assert len(freed.deleted) > 10

    assert fill(writer) > 80
    assert state_of(writer.database) == writer.account.state
    writer.database.close()
    assert found_after(disk) == writer.account.state


@a_sample(1)
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_full_database_opens_for_draining(is_closed: bool, has_reserve: bool) -> None:
    disk, writer = filled()
    if is_closed:
        writer.database.close()
    disk = disk.restart()
    if not has_reserve:
        disk.remove(SPOOL / RESERVE)
    disk.space = disk.used()

    writer.database = open_unattended(disk)
    assert state_of(writer.database) == writer.account.state
    assert writer.database.recovery.lost == ()
    with pytest.raises(DiskFull):
        writer.database.add("q", b"x" * 5000)
    if has_reserve:
        drain(writer)
        assert writer.database.cleanup().deleted
        writer.add("q", b"there is room again")
    writer.database.close()
    assert found_after(disk) == writer.account.state


@pytest.mark.parametrize("size", [SMALL, 16 * SMALL, 256 * SMALL])
def test_a_database_of_one_message_is_drained_on_a_full_disk_too(size: int) -> None:
    disk = SimulatedDisk()
    writer = Writer(open_unattended(disk, max_data_file_size=size), Account())
    number = writer.add("q", b"the only one")
    writer.database.close()
    disk = disk.restart()
    disk.space = disk.used()

    writer.database = open_unattended(disk, max_data_file_size=size)
    with pytest.raises(DiskFull):
        writer.database.add("q", b"x" * 500)
    writer.deliver(number)
    writer.put("key", b"value")
    writer.database.close()
    assert found_after(disk, max_data_file_size=size) == writer.account.state


@pytest.mark.whole
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_space_that_comes_and_goes_costs_nothing(seed: int, is_cut: bool) -> None:
    disk, account = SimulatedDisk(space=SPACE), Account()
    chance = random.Random(seed)
    database = open_unattended(disk)
    for turn in range(150):
        disk.space = chance.choice((SPACE, disk.used() + chance.randint(0, 3000), SPACE))
        try:
            _do_something(Writer(database, account), chance)
        except DiskFull:
            account.in_flight = None
        except CommitFailed:
            database.close()
            disk = disk.crash(turn) if is_cut else disk.restart()
            disk.space = SPACE
            database = open_unattended(disk)
            found = state_of(database)
            assert account.allows(found), f"seed {seed}, turn {turn}"
            account.state, account.in_flight = found, None
            account.highest = max([account.highest, *found.messages])
        assert state_of(database) == account.state, f"seed {seed}, turn {turn}"
    disk.space = SPACE
    database.close()
    assert found_after(disk) == account.state


def _do_something(writer: Writer, chance: random.Random) -> None:
    live = list(writer.database.numbers())
    match chance.randrange(6):
        case 0 | 1:
            writer.add_many("q", [chance.randbytes(chance.randint(0, 400)) for _ in range(chance.randint(1, 6))])
        case 2 if len(live) > 3:
            writer.deliver(*sorted(chance.sample(live, 3)))
        case 3:
            writer.put(f"key{chance.randrange(3)}", chance.randbytes(100))
        case 4 if live:
            writer.exchange(live[0], "other", b"x" * 50, "pair", b"v")
        case _:
            _clean_up(writer.database)


def _clean_up(database: Unattended | object) -> None:
    assert isinstance(database, Unattended)
    try:
        database.cleanup(compact=True)
    except CommitFailed:
        raise
    except (DiskError, JournalError):
        pass  # it may find no room for what it has to move


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_disk_too_small_for_the_reserve_takes_messages_after_a_restart_as_before_it(is_cut: bool) -> None:
    disk = SimulatedDisk(space=40 * SMALL)
    for turn in range(3):
        database = open_unattended(disk)
        for number in range(4):
            database.add("q", b"%d %d" % (turn, number))
            database.maintain()
        database.close()
        disk = disk.crash(turn) if is_cut else disk.restart()


@a_sample(1)
@pytest.mark.parametrize("size", [100, 500, SMALL - 1200])
def test_a_disk_that_is_full_before_anything_was_kept_back_beside_the_commits_is_drained_all_the_same(
    size: int,
) -> None:
    disk = SimulatedDisk(space=SPACE)
    database = open_unattended(disk)
    database.patience = 1 << 40  # its maintenance has no turn
    with pytest.raises(DiskFull):
        for _ in range(SPACE):
            database.add_many("q", [bytes(size)] * (SMALL // 2 // size or 1))
    numbers = list(database.numbers())

    assert len(numbers) > 25
    for number in numbers:
        assert database.deliver(number)
    assert database.cleanup().deleted
    database.add("q", bytes(size))


def test_a_disk_too_small_for_the_reserve_is_asked_for_it_once_by_commits() -> None:
    disk = SimulatedDisk(space=40 * SMALL)
    database = open_unattended(disk)
    database.patience = 1 << 40
    for _ in range(20):
        database.add_many("q", [bytes(500)] * 4)

    assert disk.calls["reserve"] == 1


def test_a_full_disk_while_a_commit_is_written_is_final() -> None:
    disk, account = SimulatedDisk(), Account()
    writer = Writer(open_unattended(disk), account)
    writer.add("q", b"acknowledged")
    disk.fail("write_durably", code=errno.EDQUOT)
    with pytest.raises(CommitFailed):
        writer.add("q", b"unknown")
    with pytest.raises(CommitFailed):
        writer.database.deliver(1)
    assert account.allows(found_after(disk.restart()))


@pytest.mark.whole
@pytest.mark.parametrize("files", sampled([60, 300], 1))
def test_messages_never_eat_the_reserve_that_deliveries_live_on(files: int) -> None:
    _, writer = filled((1 << 20) + files * SMALL)
    for number in list(writer.database.numbers()):
        for size in (1500, 100, 0):
            with contextlib.suppress(DiskFull):
                writer.add("pushing in", bytes(size))
            writer.account.in_flight = None
        writer.deliver(number)
    drain(writer)
    assert writer.database.cleanup().deleted
    assert fill(writer) > 80
