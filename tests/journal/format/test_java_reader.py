"""A reader in Java, written from the pages on the format alone, agrees with ours on directories of every kind.

Its author has not seen the code. The sample has some of the directories, the whole has all of them.
"""

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.format.records import TermColumns
from oms_journal.journal.operations import MIB
from oms_journal.recovery.startup import recover
from tests.support.crashes.crash_model import Unattended
from tests.support.journals.descriptions import describe, difference
from tests.support.journals.java_reader import java_reader, needs_java
from tests.support.journals.on_terms import add_on_terms
from tests.support.journals.random_directories import RandomDirectory
from tests.support.sweeps import Share, in_three_sizes, split

COUNT = 520
SAMPLE = 6
OPERATION_COUNT = 100
QUEUES = ("orders", "bills", "größe", "q" * 255)


pytestmark = needs_java


class RandomWriter:
    """Does random operations on a database; the same ones for the same seed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._random = random.Random(seed)
        self.directory = directory
        self._now = 1_767_225_600_000_000
        self._options: dict[str, Any] = {
            "max_data_file_size": self._random.choice([7680, 8192, 16384, MIB]),
            "group_alignment": self._random.choice([8, 8, 16, 64, 512, 4096]),
            "cleanup_interval": 0,
            "clock": self._clock,
        }

    def _clock(self) -> int:
        self._now += self._random.choice([0, 1, 999, 10**6, 10**9, -5_000_000])  # clocks jump back
        return self._now

    def run(self, operation_count: int) -> MessageDatabase:
        """Do so many operations, with reopening in between; return the database, still open."""
        database = MessageDatabase.open(self.directory, **self._options)
        for _ in range(operation_count):
            if self._random.random() < 0.03:
                database.close()
                database = MessageDatabase.open(self.directory, **self._options)
            self._operate(database)
        return database

    def _operate(self, database: MessageDatabase) -> None:
        chance, queue = self._random, self._random.choice(QUEUES)
        live = list(database.numbers(queue))
        match chance.randrange(12):
            case 0 | 1:
                database.add(queue, self._payload())
            case 2:
                database.add(queue, self._payload(), properties=self._properties(), producer_id=self._producer())
            case 3:
                payloads = [self._payload() for _ in range(chance.randrange(1, 9))]
                properties = [self._properties() for _ in payloads] if chance.random() < 0.5 else None
                database.add_many(queue, payloads, properties=properties, producer_id=self._producer())
            case 4 | 5:
                database.deliver_many(chance.sample(live, min(len(live), chance.randrange(1, 12))))
            case 6:
                database.delete_many(live[: chance.randrange(3)])
            case 7:
                database.put(f"key {chance.randrange(6)}", self._payload())
            case 8:
                database.drop(f"key {chance.randrange(6)}")
            case 9:
                self._commit_block(database, live)
            case 10:
                payloads = [self._payload() for _ in range(chance.randrange(1, 4))]
                add_on_terms(database, queue, payloads, self._terms(len(payloads)), properties=self._properties())
            case _:
                database.cleanup(compact=chance.random() < 0.5)

    def _commit_block(self, database: MessageDatabase, live: list[int]) -> None:
        with database.commit(producer_id=self._producer()) as commit:
            for _ in range(self._random.randrange(1, 6)):
                commit.add(self._random.choice(QUEUES), self._payload(), properties=self._properties())
            for number in live[:2]:
                commit.deliver(number)
            commit.put("block", self._payload())

    def _terms(self, count: int) -> TermColumns:
        chance = self._random
        times = [[chance.getrandbits(64) - (1 << 63) for _ in range(count)] for _ in range(2)]
        return TermColumns(
            due=times[0] if chance.random() < 0.5 else (),
            expiry=times[1] if chance.random() < 0.5 else (),
            attempts=[chance.getrandbits(32) for _ in range(count)] if chance.random() < 0.5 else (),
            groups=[chance.choice(["g", "größe", "", "g" * 255]).encode() for _ in range(count)],
        )

    def _payload(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 1, 7, 8, 9, 100, 700]))

    def _properties(self) -> dict[str, str]:
        return {f"k{number}": "wert ü" * number for number in range(self._random.randrange(3))}

    def _producer(self) -> str | None:
        return None if self._random.random() < 0.5 else f"producer {self._random.getrandbits(60)}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder in memory, where there is one: some thousand small files are written."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def random_journal(seed: int, directory: Path) -> Path:
    """Make a random database and return its directory: closed, or for odd seeds as it is while still open."""
    writer = RandomWriter(seed, directory / "spool")
    database = writer.run(OPERATION_COUNT)
    if seed % 2:
        (directory / "copy").mkdir(parents=True)
        for path in sorted(writer.directory.glob("*.data")):
            shutil.copy(path, directory / "copy")
    database.close()
    return directory / "copy" if seed % 2 else writer.directory


def differs(directory: Path) -> str:
    return difference(describe(directory), java_reader().read(directory))


def test_it_hashes_as_the_page_on_the_bytes_says() -> None:
    subprocess.run(java_reader().command("--self-test"), check=True)


@in_three_sizes
def test_it_says_of_a_directory_what_verify_list_and_dump_say(folder: Path, share: Share) -> None:
    differing: dict[str, tuple[list[str], str]] = {}
    made = refused = 0
    for seed in share.of(range(COUNT), SAMPLE):
        one = RandomDirectory(folder, seed)
        try:
            path = one.make()
        except JournalError:  # what was done to it before a restore is refused
            continue
        made += 1
        theirs = java_reader().read(path)
        refused += theirs["refused"] is not None
        if found := difference(describe(path), theirs):
            differing[str(path)] = one.told, found

    assert differing == {}
    assert refused < 0.2 * made


@pytest.mark.whole
def test_it_reads_terms_sets_and_every_alignment_as_we_do(folder: Path) -> None:
    shown: set[str] = set()
    for seed in range(12):  # closed, or for odd seeds as it is while it is open
        journal = random_journal(seed, folder / f"{seed}")
        read = java_reader().read(journal)
        assert difference(describe(journal), read) == "", seed
        shown |= {one["kind"] for one in read["operations"]} | {name for one in read["operations"] for name in one}
        shown |= {"moved once"} if any(one["moved"] for one in read["operations"]) else set()

    assert shown >= {"ADD", "DELIVER", "DELETE", "PUT", "DROP", "due", "expiry", "attempts", "group", "moved once"}


@pytest.mark.whole
@pytest.mark.parametrize("seed", split([2], [3, 4]))
def test_it_resynchronises_where_we_do(folder: Path, seed: int) -> None:
    spool = random_journal(2, folder)
    first = min(spool.glob("*.data"))
    whole = first.read_bytes()
    chance = random.Random(seed)
    for _ in range(50):
        at, size = chance.randrange(4352, len(whole)), chance.choice([1, 8, 100, 600])
        damaged = bytearray(whole)
        damaged[at : at + size] = chance.choice([bytes(size), chance.randbytes(size)])
        first.write_bytes(damaged[: len(whole)])

        assert differs(spool) == "", (at, size)


def test_it_reads_what_a_repair_leaves_behind(folder: Path) -> None:
    spool = random_journal(4, folder)
    first = min(spool.glob("*.data"))
    data = bytearray(first.read_bytes())
    data[4484] ^= 1
    first.write_bytes(data)
    assert not recover(spool).intact

    assert differs(spool) == ""
    assert any(one["damaged"] for one in java_reader().read(spool)["operations"])


def test_it_misses_the_footer_that_a_repair_wrote_where_the_file_is_cut_before_it(folder: Path) -> None:
    spool = random_journal(4, folder)
    first = min(spool.glob("*.data"))
    data = bytearray(first.read_bytes())
    data[FRAMES_AT + 16] ^= 1  # of a frame's header, so that a gap takes its place
    first.write_bytes(data)
    recover(spool)
    repaired = first.read_bytes()
    first.write_bytes(repaired[: repaired.rindex(b"OMSFOOT2")])

    assert differs(spool) == ""
    assert "damaged footer" in [one["row"] for one in java_reader().read(spool)["files"]]


@pytest.mark.whole
@pytest.mark.parametrize("alignment", [8, 512, 4096])
@pytest.mark.parametrize("has_lock", [True, False], ids=["with its lock file", "without it"])
def test_our_view_of_a_copy_of_an_open_store_shows_what_it_finds_vouched(
    alignment: int, has_lock: bool, folder: Path
) -> None:
    """After each commit, and behind each sealed file: a commit that begins a file is among them."""
    spool, copy, beginnings = folder / "spool", folder / "copy", 0
    with Unattended.open(spool, max_data_file_size=7680, group_alignment=alignment, cleanup_interval=0) as database:
        for step in range(24):
            database.add("orders", bytes(100 * (step % 5)))
            if step % 3 == 2:
                database._journal.seal_all()
            shutil.copytree(spool, copy)
            if not has_lock:
                (copy / "omsmsg.lock").unlink()
            operations = java_reader().read(copy)["operations"]
            vouched = {one["number"] for one in operations if one["vouched"]}
            with DatabaseView.open(copy) as view:
                assert set(view.numbers()) == vouched
            newest = [one for one in operations if one["sequence"] == operations[-1]["sequence"]]
            beginnings += len(newest) == 1 and newest[0]["vouched"]
            shutil.rmtree(copy)
    assert beginnings
