"""Messages of another database are taken in as they are, and what comes later is numbered behind them."""

from pathlib import Path

import pytest

from oms_journal import DatabaseView, Message, MessageDatabase
from oms_journal.database.bulk.loading import load
from tests.support.crashes.crash_model import open_unattended, state_of
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import open_small
from tests.support.disks.watched_disk import HandClock


def facts(database: MessageDatabase | DatabaseView) -> list[tuple[object, ...]]:
    return [message[:6] for message in database.undelivered()]


def source(directory: Path) -> list[Message]:
    with open_small(directory, clock=HandClock(1)) as database:
        database.add("q", b"one")
        gone = database.add("q", b"two")
        database.add("p", b"three", properties={"k": "v"}, producer_id="me")
        database.add_many("q", [b"four", b"", bytes(600)])
        database.deliver(gone)
        return list(database.undelivered())


def test_numbers_times_properties_and_identifiers_are_kept(tmp_path: Path) -> None:
    messages = source(tmp_path / "from")
    expected = [message[:6] for message in messages]
    assert [fact[0] for fact in expected] == [1, 3, 4, 5, 6]

    with open_small(tmp_path / "to") as database:
        for message in messages[:2]:
            load(database, [message], {f"key{message.number}": b"value"})
        load(database, messages[2:], {})
        assert facts(database) == expected
        with DatabaseView.open(tmp_path / "to") as view:
            assert facts(view) == expected[:-3], "the last commit is not vouched for yet"
        assert database.read(4).payload == b"four"
        assert database.queues() == {"q": 4, "p": 1}
        assert database.add("q", b"later") == 7
        assert database.deliver(3)
    with open_small(tmp_path / "to") as database:
        assert [fact for fact in facts(database) if fact[0] != 7] == [fact for fact in expected if fact[0] != 3]
        assert list(database.keys()) == ["key1", "key3"]
        assert database.add("q", b"later still") > 7
        database.cleanup(compact=True)
        assert facts(database)[:-2] == [fact for fact in expected if fact[0] != 3]


@pytest.mark.parametrize("numbers", [[3, 2], [2, 2], [1], [0], [4, 5, 5]])
def test_numbers_that_do_not_ascend_are_refused(tmp_path: Path, numbers: list[int]) -> None:
    with open_small(tmp_path) as database:
        database.add("q", b"x")
        made = [Message(number, "q", b"y", {}, 1, None, 0, 0) for number in numbers]
        with pytest.raises(ValueError, match="in the order"):
            load(database, made, {"k": b"v"})
        assert database.undelivered_count() == 1
        assert not list(database.keys())


@pytest.mark.parametrize("seed", range(5))
def test_a_power_cut_leaves_whole_commits_of_what_was_loaded(seed: int) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    for number in range(10, 60):
        load(
            database, [Message(number, f"q{number % 3}", bytes(200), {}, number, None, 0, 0)], {"last": b"%d" % number}
        )
    state = state_of(database)

    after = open_unattended(disk.crash(seed))
    assert state_of(after) == state
    assert [message.added_us for message in after.undelivered()] == list(range(10, 60))
    assert after.add("q", b"x") >= 60
    after.close()
