"""Another reader, made from docs/reference/format.md alone, reads what we write as we do."""

import ast
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.contents import COLUMNS
from oms_journal.journal.operations import MIB
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.dump import Dumped, DumpedDamage, DumpedOperation, dump
from oms_journal.recovery.startup import recover
from tests.support.journals import foreign_reader
from tests.support.journals.foreign_reader import Fields

QUEUES = ("orders", "bills", "größe", "q" * 255)
SEEDS = range(12)
OPERATION_COUNT = 100


class RandomWriter:
    """Does random operations on a database; the same ones for the same seed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._random = random.Random(seed)
        self.directory = directory
        self._now = 1_767_225_600_000_000
        self._options: dict[str, Any] = {
            "max_data_file_size": self._random.choice([4096, 8192, 16384, MIB]),
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
        match chance.randrange(11):
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
            case _:
                database.cleanup(compact=chance.random() < 0.5)

    def _commit_block(self, database: MessageDatabase, live: list[int]) -> None:
        with database.commit(producer_id=self._producer()) as commit:
            for _ in range(self._random.randrange(1, 6)):
                commit.add(self._random.choice(QUEUES), self._payload(), properties=self._properties())
            for number in live[:2]:
                commit.deliver(number)
            commit.put("block", self._payload())

    def _payload(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 1, 7, 8, 9, 100, 700]))

    def _properties(self) -> dict[str, str]:
        return {f"k{number}": "wert ü" * number for number in range(self._random.randrange(3))}

    def _producer(self) -> str | None:
        return None if self._random.random() < 0.5 else f"producer {self._random.getrandbits(60)}"


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the directory of a random database for each seed."""
    return [random_journal(seed, tmp_path_factory.mktemp(f"seed-{seed}-")) for seed in SEEDS]


@pytest.fixture(params=SEEDS)
def journal(request: pytest.FixtureRequest, journals: list[Path]) -> Path:
    seed: int = request.param
    return journals[seed]


def random_journal(seed: int, directory: Path) -> Path:
    """Make a random database and return its directory: closed, or for odd seeds as it is while still open."""
    writer = RandomWriter(seed, directory / "spool")
    database = writer.run(OPERATION_COUNT)
    if seed % 2:
        (directory / "copy").mkdir()
        for path in sorted(writer.directory.glob("*.data")):
            shutil.copy(path, directory / "copy")
    database.close()
    return directory / "copy" if seed % 2 else writer.directory


def test_it_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(foreign_reader.__file__).read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}

    assert {module.split(".")[0] for module in modules} <= {*sys.stdlib_module_names, "xxhash"}


def test_it_reads_every_operation_as_our_dump_does(journal: Path) -> None:
    ours = list(dump(RealDisk(), [journal]))
    for file in foreign_reader.directory(journal):
        _assert_same(file, ours)


def _assert_same(file: Fields, dumped: list[Dumped]) -> None:
    mine = [one for one in dumped if one.sequence == file["sequence"]]
    operations = [_comparable(one) for one in mine if isinstance(one, DumpedOperation)]
    damage = [(one.start, one.end) for one in mine if isinstance(one, DumpedDamage) and not one.is_gap]
    gaps = [(one.start, one.end) for one in mine if isinstance(one, DumpedDamage) and one.is_gap]

    assert [_as_ours(one) for one in file["operations"]] == operations
    assert (file["bad"], file["gaps"]) == (damage, gaps)


def _comparable(one: DumpedOperation) -> Fields:
    names = ("offset", "commit", "owner", "operation", "message", "queue", "key", "time", "first_time", "payload")
    found = {name: getattr(one, name) for name in (*names, "producer", "moved", "vouched", "damaged")}
    return found | {"properties": {} if one.damaged else one.properties or {}}


def _as_ours(one: Fields) -> Fields:
    empty = dict.fromkeys(("message", "queue", "key", "payload", "producer"))
    found = {**empty, "properties": {}, "moved": False, "damaged": False, "first_time": one["time"], **one}
    return found | {"producer": found["producer"] or None}


def test_it_finds_in_each_footer_what_it_finds_by_walking(journal: Path) -> None:
    for file in foreign_reader.directory(journal):
        if file["footer"] is None:
            continue
        listed = file["operations"]
        for row in foreign_reader.rows(file["footer"]):
            numbers = row.get("set", [row["number"]])
            mine, listed = listed[: len(numbers)], listed[len(numbers) :]
            assert [one.get("message", 0) for one in mine] == numbers
            for one in mine:
                assert _row_of(one) == {name: row[name] for name in _row_of(one)}
            if row["kind"] == "PUT":
                assert row["head"] == mine[0]["payload"][:128]
        assert listed == []


def _row_of(one: Fields) -> Fields:
    """Return what a footer's row must say of an operation."""
    found: Fields = {name: one[name] for name in ("offset", "commit", "time")}
    found |= {"kind": one["operation"], "name": one.get("queue", one.get("key"))}
    found |= {"first_time": one.get("first_time", 0), "producer": one.get("producer", "")}
    if "payload" in one:
        found |= {"size": len(one["payload"]), "hash": foreign_reader.xxh3(one["payload"])}
    return found


def test_it_reads_the_columns_of_each_footer_as_we_do(journal: Path) -> None:
    for file in foreign_reader.directory(journal):
        if file["footer"] is None:
            continue
        with DataFile(RealDisk(), journal / f"omsmsg-{file['sequence']:010}.data") as opened:
            ours = opened.footer(identity=file["header"]["identity"])
        assert isinstance(ours, Footer)
        contents = ours.contents()
        assert file["footer"]["column"] == {name: contents.columns[name].tolist() for name in COLUMNS}
        assert foreign_reader.names(file["footer"]["blob"][32]) == [name.decode() for name in contents.names]


def test_every_file_ends_as_its_footer_and_the_next_file_say(journal: Path) -> None:
    named_count = 0
    for file in foreign_reader.directory(journal):
        frames, foot, named = file["frames"], file["footer"], file["named"]
        ending = (frames[-1]["end"], frames[-1]["commit"], foreign_reader.chain(frames))
        if foot is not None:
            assert ending == (foot["end"], foot["last_commit"], foot["chain"])
            assert foot["frames"] == len(frames)
            data = (journal / f"omsmsg-{file['sequence']:010}.data").read_bytes()
            assert foreign_reader.xxh3(data[: foot["begin"]]) == foot["file_checksum"]
        if named is not None:
            assert ending == (named["previous_end"], named["previous_commit"], named["previous_chain"])
            assert named["previous_identity"] == file["header"]["identity"]
            named_count += 1
        commits = [frame["commit"] for frame in frames]
        assert commits == list(range(file["header"]["next_commit"], file["header"]["next_commit"] + len(frames)))
    assert named_count or len(foreign_reader.directory(journal)) == 1


def test_it_finds_the_same_messages_and_keys_alive(journal: Path) -> None:
    files = foreign_reader.directory(journal)
    vouched = [dict(file, operations=[one for one in file["operations"] if one["vouched"]]) for file in files]
    messages, keys = foreign_reader.state(vouched)

    with DatabaseView.open(journal) as view:
        ours = {message.number: message for message in view.undelivered()}
        our_keys = {key: view.get(key) for key in view.keys()}  # noqa: SIM118 - not a mapping

    assert {number: (one["queue"], one["payload"], one["properties"]) for number, one in messages.items()} == {
        number: (message.queue, message.payload, message.properties) for number, message in ours.items()
    }
    assert {key: value for key, value in keys.items() if not key.startswith("\0")} == our_keys


def test_the_first_group_of_a_file_is_vouched_for_by_the_footer_before_it(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=4096, cleanup_interval=0) as database:
        numbers = [database.add("orders", bytes(700)) for _ in range(8)]
    first, second, *others = foreign_reader.directory(tmp_path)
    first_group = second["frames"][0]
    path = tmp_path / f"omsmsg-{second['sequence']:010}.data"
    path.write_bytes(path.read_bytes()[: first_group["end"]] + bytes(4096))
    for other in others:
        (tmp_path / f"omsmsg-{other['sequence']:010}.data").unlink()
    assert (first["footer"]["successor"], first_group["synced"]) == (second["sequence"], 0)

    (theirs,) = foreign_reader.directory(tmp_path)[1]["operations"]
    *_, ours = dump(RealDisk(), [tmp_path])
    with DatabaseView.open(tmp_path) as view:
        shown = list(view.numbers("orders"))

    assert isinstance(ours, DumpedOperation)
    assert (theirs["vouched"], ours.vouched) == (True, True)
    assert shown == numbers[: len(shown)]
    assert theirs["message"] == ours.message == shown[-1]


def test_it_resynchronises_where_we_do(tmp_path: Path) -> None:
    spool = random_journal(2, tmp_path)
    first = min(spool.glob("*.data"))
    whole = first.read_bytes()
    chance = random.Random(2)
    for _ in range(150):
        at, size = chance.randrange(768, len(whole)), chance.choice([1, 8, 100, 600])
        damaged = bytearray(whole)
        damaged[at : at + size] = chance.choice([bytes(size), chance.randbytes(size)])
        first.write_bytes(damaged[: len(whole)])

        file = foreign_reader.directory(spool)[0]

        assert first.name == f"omsmsg-{file['sequence']:010}.data"
        _assert_same(file, list(dump(RealDisk(), [spool])))


def test_it_reads_what_a_repair_leaves_behind(tmp_path: Path) -> None:
    spool = random_journal(4, tmp_path)
    first = min(spool.glob("*.data"))
    data = bytearray(first.read_bytes())
    data[900] ^= 1
    first.write_bytes(data)
    recover(spool)

    files = foreign_reader.directory(spool)

    assert [len(file["gaps"]) for file in files] == [1] + [0] * (len(files) - 1)
    assert not any(file["bad"] for file in files)
    ours = list(dump(RealDisk(), [spool]))
    for file in files:
        _assert_same(file, ours)


def test_the_random_journals_show_all_that_the_format_has(journals: list[Path]) -> None:
    seen = dict.fromkeys(("moved", "set", "unsealed", "low water", "duplicates", "aligned", "vouch"), False)
    for journal in journals:
        for file in foreign_reader.directory(journal):
            records = [record for frame in file["frames"] for record in frame["records"]]
            keys = {one["key"] for one in file["operations"] if "key" in one}
            seen["moved"] |= any(
                record["kind"] == "ADD" and record["flags"] & foreign_reader.MOVED for record in records
            )
            seen["set"] |= any(record.get("set") for record in records)
            seen["unsealed"] |= file["footer"] is None
            seen["low water"] |= "\0low-water" in keys
            seen["duplicates"] |= any(key.startswith("\0duplicates/") for key in keys)
            seen["aligned"] |= file["header"]["alignment"] > 8 and len(file["frames"]) > 1
            seen["vouch"] |= any(not frame["operations"] for frame in file["frames"])

    assert [feature for feature, is_seen in seen.items() if not is_seen] == []
