"""The values of many keys at once are those that are asked for one by one, whatever lies between them."""

import random
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.bulk.values import in_order, values
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import SMALL, open_small
from tests.support.sweeps import a_sample


def in_bulk(database: MessageDatabase, prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for batch in values(database._state(), prefix):
        for key, value in zip(batch.keys, batch.values, strict=True):
            assert key.decode() not in found, "once each"
            found[key.decode()] = value
    return found


def ordered(database: MessageDatabase, prefix: str = "") -> dict[str, bytes | None]:
    found = list(in_order(database._state(), prefix))
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    return {key.decode(): value for key, value in found}


def one_by_one(database: MessageDatabase, prefix: str = "") -> dict[str, bytes | None]:
    return {key: database.get(key) for key in list(database.keys(prefix))}


def scribble(database: MessageDatabase, chance: random.Random, rounds: int) -> None:
    """Commits of every shape, with values among them."""
    live: list[int] = []
    for turn in range(rounds):
        with database.commit() as commit:
            for _ in range(chance.randint(0, 3)):
                commit.add(f"q{chance.randrange(3)}", chance.randbytes(chance.randint(0, 200)))
            if chance.random() < 0.3:
                commit.add("p", b"with properties", properties={"turn": str(turn)})
            for number in [number for number in live if chance.random() < 0.3]:
                commit.deliver(number)
                live.remove(number)
            for _ in range(chance.randint(0, 3)):
                prefix = chance.choice(("a/", "b/", ""))
                commit.put(f"{prefix}{chance.randrange(40)}", chance.randbytes(chance.choice((0, 5, 130, 400))))
            if chance.random() < 0.2:
                commit.drop(f"a/{chance.randrange(40)}")
        live += commit.numbers
    database.put("nothing", b"")


@a_sample(2)
@pytest.mark.parametrize("seed", range(8))
def test_values_in_bulk_are_those_one_by_one(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with open_small(tmp_path, max_data_file_size=chance.choice((SMALL, 64 << 10))) as database:
        scribble(database, chance, 120)
        assert in_bulk(database) == ordered(database) == one_by_one(database)
        database.cleanup(compact=True)
        assert in_bulk(database) == ordered(database) == one_by_one(database)
    with open_small(tmp_path) as database:
        expected = one_by_one(database)
        assert in_bulk(database) == ordered(database) == expected
        for prefix in ("a/", "b/", "zz"):
            wanted = {key: expected[key] for key in expected if key.startswith(prefix)}
            assert in_bulk(database, prefix) == ordered(database, prefix) == wanted


@pytest.mark.parametrize("payload_size", [10, 100_000])
def test_values_between_large_messages_are_found(tmp_path: Path, payload_size: int) -> None:
    with MessageDatabase.open(tmp_path) as database:
        for turn in range(50):
            with database.commit() as commit:
                commit.add("q", bytes(payload_size))
                commit.put(f"k{turn:02}", turn.to_bytes(8, "little"))
                commit.put("same", b"%d" % turn)
    with MessageDatabase.open(tmp_path) as database:
        found = in_bulk(database)
    assert found.pop("same") == b"49"
    assert found == {f"k{turn:02}": turn.to_bytes(8, "little") for turn in range(50)}


def test_a_damaged_value_is_named_and_the_others_are_there() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk, max_data_file_size=64 << 10) as database:
        for turn in range(5):
            database.put(f"k{turn}", (b"value number %d" % turn).ljust(200))  # too long for the footer to have it, too
    (name,) = [name for name in disk.contents(SPOOL) if name.endswith(".data")]
    data = disk.contents(SPOOL)[name]
    disk.put(SPOOL / name, data.replace(b"value number 3", b"value numbed 3", 1))

    with open_unattended(disk) as database:
        (batch,) = values(database._state(), "k")
        assert ordered(database)["k3"] is None
        assert ordered(database)["k4"] == b"value number 4".ljust(200)
    assert batch.damaged == [b"k3"]
    assert list(batch.keys) == [b"k0", b"k1", b"k2", b"k4"]
    assert list(batch.values)[-1] == b"value number 4".ljust(200)
