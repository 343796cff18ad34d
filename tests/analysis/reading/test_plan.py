"""Which files are read, and how far, is planned without a lock: no operation is missed, and none is read twice."""

import errno
import pickle
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.analysis.reading import damage, plan, schema
from oms_journal.analysis.reading.damage import DamageFound
from oms_journal.analysis.reading.directory import late_archives
from oms_journal.analysis.reading.parts import Damage, FilePart, Partition
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.analysis.storage import locate
from oms_journal.journal.disk import DiskFile, RealDisk
from oms_journal.journal.errors import DiskError, NewerFormat, NotThisDatabase
from oms_journal.journal.format.headers import CHECKSUM, FRAMES_AT, HEADER_COPIES, HEADER_SIZE, xxh3
from oms_journal.journal.names import DataFileName
from oms_journal.journal.writing.log import Opening
from tests.support.crashes.crash_store import with_header
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.journals.analysed import (
    ALL,
    Row,
    analysed,
    batches_of,
    comparable,
    damages,
    dumped,
    files_table,
    plain,
    planned,
)
from tests.support.journals.golden_files import add, journal, write
from tests.support.journals.late_files import journal_by, write_late
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import QUEUES, RandomWriter
from tests.support.sweeps import a_sample

OWN, OTHER = bytes(range(16)), bytes(range(16, 32))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a spool and the files that clean-up has retained of it."""
    folder = tmp_path_factory.mktemp("written")
    RandomWriter(folder / "spool", 7, retention=folder / "retained").write(openings=3, steps=60)
    return folder


def _names(*paths: Path, wanted: Wanted = ALL) -> list[str]:
    return [part.name for one in planned(*paths, wanted=wanted) for part in one.parts]


def test_every_file_is_read_by_one_worker_in_the_order_of_the_journal(written: Path) -> None:
    spool = written / "spool"
    names = sorted(path.name for path in spool.glob("*.data"))

    for partition_bytes in (1, 10_000, 5_000_000, 1 << 30):
        partitions = planned(spool, partition_bytes=partition_bytes)
        assert [part.name for one in partitions for part in one.parts] == names
        largest = max(path.stat().st_size for path in spool.glob("*.data")) + plan.OPEN_BYTES
        assert all(len(one.parts) == 1 or one.bytes <= max(partition_bytes, largest) for one in partitions)
    assert [len(one.parts) for one in planned(spool, partition_bytes=1)] == [1] * len(names)


def test_small_files_are_put_together_and_the_newest_goes_alone(written: Path) -> None:
    count = len(list((written / "spool").glob("*.data")))

    assert [len(one.parts) for one in planned(written / "spool")] == [count - 1, 1]
    assert len(planned(written / "spool", partitions_min=4)) >= 4


def test_a_file_as_large_as_a_partition_has_one_of_its_own(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="100K") as db:
        db.add_many("q", [bytes(3000)] * 100)

    partitions = planned(tmp_path, partition_bytes=50_000)

    assert len(partitions) == len(list(tmp_path.glob("*.data"))) > 1


def test_what_travels_to_a_worker_is_small(written: Path) -> None:
    for partition in planned(written / "spool", written / "retained"):
        assert len(pickle.dumps(partition)) < 1500 + 800 * len(partition.parts)


def test_retained_files_and_those_of_the_spool_are_one_history(written: Path) -> None:
    spool, retained = written / "spool", written / "retained"
    database = database_of(spool)
    expected = comparable([*dumped(retained / database, database=database), *dumped(spool)])

    assert len(list(retained.glob("*/*.data"))) > 3
    assert comparable(analysed(spool, retained)) == expected
    assert comparable(analysed(retained, spool)) == expected
    assert comparable(analysed(written / "*", retained / database)) == expected
    assert damages(spool, retained) == []
    assert damages(spool) == [], "clean-up has said which files are not needed any more"
    assert damages(retained) == [], "the next file has not come yet"


def test_which_files_are_retained_is_told(written: Path) -> None:
    names = {path.name for path in (written / "retained").glob("*/*.data")}

    rows = files_table(written / "spool", written / "retained")

    assert {row["file"] for row in rows if row["retained"]} == names
    assert {row["file"] for row in files_table(written / "spool") if row["retained"]} == set()


def test_files_below_the_low_water_mark_are_history_and_are_read(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool", retention_directory=tmp_path / "retained") as db:
        churn(db, 3)
        expected = analysed(tmp_path / "spool")
        assert len(db.cleanup().moved) >= 3
        db.add("q", b"x")
    for path in (tmp_path / "retained").glob("*/*.data"):
        shutil.copy(path, tmp_path / "spool")  # everything shipped into one directory

    rows = analysed(tmp_path / "spool")

    assert rows[: len(expected)] == expected
    assert damages(tmp_path / "spool") == []


def test_a_copy_of_a_journal_beside_it_changes_nothing(written: Path, tmp_path: Path) -> None:
    spool, backup = written / "spool", tmp_path / "backup"
    expected = analysed(spool)
    shutil.copytree(spool, backup)
    newest = max(backup.glob("*.data"))
    shutil.copy(min(path for path in spool.glob("*.data")), tmp_path)
    newest.unlink()

    assert analysed(spool, backup) == analysed(backup, spool) == expected
    assert [row["kind"] for row in damages(backup)] == ["missing"]
    assert damages(backup, spool) == [], "the other directory has what this one lacks"


def test_of_two_copies_the_one_that_has_more_is_read(tmp_path: Path) -> None:
    spool, early, torn = tmp_path / "spool", tmp_path / "early", tmp_path / "torn"
    with open_small(spool, max_data_file_size="1M") as db:
        db.add("q", b"one")
        db.add("q", b"two")
        shutil.copytree(spool, early)
        for turn in range(20):
            db.add("q", bytes([turn]))
    shutil.copytree(spool, torn)
    [path] = torn.glob("*.data")
    path.write_bytes(path.read_bytes()[:900])
    expected = analysed(spool)

    assert len(analysed(early)) < len(expected)
    for paths in ((early, torn, spool), (torn, spool, early), (spool, early, torn)):
        assert analysed(*paths) == expected
        assert damages(*paths) == []


def test_a_copy_whose_header_is_lost_is_not_read_beside_a_good_one(tmp_path: Path) -> None:
    spool, copy = tmp_path / "spool", tmp_path / "copy"
    with open_small(spool) as db:
        fill(db, 1)
    shutil.copytree(spool, copy)
    path = max(copy.glob("*.data"))
    path.write_bytes(bytes(1000) + path.read_bytes()[1000:])
    expected = analysed(spool)

    assert analysed(copy, spool) == analysed(spool, copy) == expected
    assert damages(copy, spool) == []


def test_directories_that_nobody_knows_are_told_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tmp_path.joinpath(name).mkdir()
        (tmp_path / name / "omsmsg-0000000001.data").write_bytes(b"x" * 1000)

    assert analysed(tmp_path / "*", report=_ignore) == []
    assert [(row["kind"], row["database"]) for row in damages(tmp_path / "one", tmp_path / "two")] == [
        ("torn", None)
    ] * 2


def test_two_histories_of_one_database_are_refused(tmp_path: Path) -> None:
    spool, fork = tmp_path / "spool", tmp_path / "fork"
    with open_small(spool) as db:
        fill(db, 1)
    shutil.copytree(spool, fork)
    for directory in (spool, fork):
        with open_small(directory) as db:
            db.add("q", directory.name.encode())

    with pytest.raises(NotThisDatabase, match="two histories of the database"):
        planned(spool, fork)
    assert {row["payload"] for row in analysed(spool)} >= {b"spool"}


def test_journals_of_several_databases_are_read_side_by_side(tmp_path: Path) -> None:
    for seed, name in enumerate("abc"):
        RandomWriter(tmp_path / name, seed).write(openings=1, steps=20)
    expected = [row for name in "abc" for row in analysed(tmp_path / name)]

    assert len({row["database"] for row in expected}) == 3
    assert analysed(tmp_path / "*") == expected


def test_what_a_former_owner_wrote_late_is_ignored(tmp_path: Path) -> None:
    write_late(tmp_path / "spool")

    assert [(row["sequence"], row["payload"]) for row in analysed(tmp_path / "spool")] == [
        (1, b"by owner 1"),
        (3, b"by owner 3"),
    ]
    assert damages(tmp_path / "spool") == []


def test_archives_of_what_was_late_are_told_from_those_of_repairs(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    write_late(spool)
    with MessageDatabase.open(spool) as db:
        assert [file.action for file in db.recovery.files if file.sequence in (2, 4)] == ["archived and removed"] * 2
        late = {archive.name for archive in spool.glob("*.archive")}
        db.add("q", b"after")
    repaired = spool / "omsmsg-0000000003.data"
    data = bytearray(repaired.read_bytes())
    data[data.index(b"by owner 3")] ^= 1
    repaired.write_bytes(data)
    with MessageDatabase.open(spool):
        pass
    archives = {archive.name for archive in spool.glob("*.archive")}

    [location] = locate([str(spool)])
    assert len(late) == 2
    assert len(archives - late) == 1
    assert late_archives(location) == late


def test_an_archive_of_a_number_that_a_later_owner_has_used_was_late(tmp_path: Path) -> None:
    write_late(tmp_path / "spool")
    [three] = (tmp_path / "spool").glob("*-0000000003.data")
    for owner, name in ((1, "omsmsg-0000000003-v0001.archive"), (3, "omsmsg-0000000003-v0002.archive")):
        (tmp_path / "other").mkdir(exist_ok=True)
        journal_by(tmp_path / "other", 3, Opening(database=OWN, owner=owner)).close(seal=True)
        [made] = (tmp_path / "other").glob("*.data")
        made.rename(three.with_name(name))

    assert late_archives(locate([str(tmp_path / "spool")])[0]) == {"omsmsg-0000000003-v0001.archive"}


def test_files_of_the_database_that_another_was_restored_from_are_its_history(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with open_small(spool) as db:
        fill(db, 2)
    files = sorted(spool.glob("*.data"))
    for path in files[:-1]:
        assert database_of(path) == database_of(spool)
    parent = bytes.fromhex(database_of(spool))
    newest = files[-1]
    with MessageDatabase.open(spool) as db:
        db.add("q", b"after")
    [made] = set(spool.glob("*.data")) - set(files)
    data = with_header(made.read_bytes(), database=OTHER, parent=parent, parent_sequence=int(newest.stem[-10:]))
    made.write_bytes(data)

    rows = analysed(spool)

    assert {row["database"] for row in rows} == {OTHER.hex()}, "a message is found under one name in all its history"
    assert {row["file"] for row in rows} == {path.name for path in (*files, made)}

    made.write_bytes(with_header(data, parent_sequence=1))
    with pytest.raises(NotThisDatabase, match="different databases"):
        planned(spool)


def test_a_directory_that_is_only_named_like_a_database_is_read_as_any_other(tmp_path: Path) -> None:
    spool = tmp_path / "0123456789abcdef0123456789abcdef"
    with open_small(spool) as db:
        fill(db, 1)
        rows = analysed(spool)

        assert {row["database"] for row in rows} == {database_of(spool)} != {spool.name}
        assert not any(row["retained"] for row in files_table(spool))
        assert [part.is_newest for one in planned(spool) for part in one.parts if part.identity] == [False, True]


def test_a_file_under_another_files_name_is_refused(written: Path, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    shutil.copytree(written / "spool", spool)
    oldest = min(spool.glob("*.data"))
    oldest.rename(oldest.with_name("omsmsg-0000009999.data"))

    with pytest.raises(NotThisDatabase, match="under another name"):
        planned(spool)


def test_a_file_of_a_newer_format_is_refused_by_its_version(written: Path, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    shutil.copytree(written / "spool", spool)
    path = max(spool.glob("*.data"))
    data = bytearray(path.read_bytes())
    for at in HEADER_COPIES:
        data[at + 8] = 3
        body = bytes(data[at : at + HEADER_SIZE - CHECKSUM.size])
        data[at + HEADER_SIZE - CHECKSUM.size : at + HEADER_SIZE] = CHECKSUM.pack(xxh3(body))
    path.write_bytes(data)

    for read in (planned, damages, analysed):
        with pytest.raises(NewerFormat, match=rf"{path.name} .*format version 3, this program knows up to 2"):
            read(spool)


FILTERS: list[Callable[[random.Random, list[Row]], Wanted]] = [
    lambda chance, rows: replace(ALL, since=chance.choice(rows)["time"]),
    lambda chance, rows: replace(ALL, until=chance.choice(rows)["time"]),
    lambda chance, rows: replace(
        ALL,
        **dict(
            zip(("since", "until"), sorted((chance.choice(rows)["time"], chance.choice(rows)["time"])), strict=True)
        ),
    ),
    lambda chance, rows: replace(ALL, queues=frozenset(chance.sample((*QUEUES, "none"), 2))),
    lambda chance, rows: replace(
        ALL, operations=frozenset(chance.sample(("ADD", "DELIVER", "DELETE", "PUT", "DROP"), chance.randint(1, 3)))
    ),
    lambda chance, rows: replace(
        ALL, sequences=tuple(sorted((chance.choice(rows)["sequence"], chance.choice(rows)["sequence"])))
    ),
    lambda chance, rows: replace(
        ALL, commits=tuple(sorted((chance.choice(rows)["commit"], chance.choice(rows)["commit"])))
    ),
]


def _passes(row: Row, wanted: Wanted) -> bool:
    return (
        (wanted.since is None or row["time"] >= wanted.since)
        and (wanted.until is None or row["time"] < wanted.until)
        and (wanted.queues is None or row["queue"] in wanted.queues)
        and (wanted.operations is None or row["operation"] in wanted.operations)
        and (wanted.sequences is None or wanted.sequences[0] <= row["sequence"] <= wanted.sequences[1])
        and (wanted.commits is None or wanted.commits[0] <= row["commit"] <= wanted.commits[1])
    )


@a_sample(1, more=3)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_out_is_what_is_not_wanted(seed: int, written: Path) -> None:
    paths = written / "spool", written / "retained"
    every = analysed(*paths)
    chance = random.Random(seed)
    for make in FILTERS:
        wanted = make(chance, every)
        other = chance.choice(FILTERS)(chance, every)
        both = replace(
            wanted,
            **{
                name: getattr(other, name)
                for name in ("since", "until", "queues", "operations", "sequences", "commits")
                if getattr(wanted, name) is None
            },
        )
        for each in (wanted, both):
            assert analysed(*paths, wanted=each) == [row for row in every if _passes(row, each)]


def test_files_without_anything_wanted_are_not_read(written: Path) -> None:
    paths = written / "spool", written / "retained"
    every = analysed(*paths)
    newest = max(row["file"] for row in every)
    tried = [
        replace(ALL, since=max(row["time"] for row in every)),
        replace(ALL, until=min(row["time"] for row in every) + 1),
        replace(ALL, sequences=(2, 2)),
        replace(ALL, commits=(every[0]["commit"], every[0]["commit"])),
        replace(ALL, operations=frozenset(("DROP",))),
        replace(ALL, operations=frozenset(("DELETE",))),
        replace(ALL, queues=frozenset(("none",))),
    ]

    for wanted in tried:
        needed = {row["file"] for row in every if _passes(row, wanted)}
        assert set(_names(*paths, wanted=wanted)) - {newest} == needed - {newest}
        assert len(needed) < len(_names(*paths))


def test_a_footer_that_is_not_good_leaves_out_nothing(tmp_path: Path) -> None:
    """A range that rotted must not hide rows: every bit of it counts."""
    with open_small(tmp_path) as db:
        fill(db, 1)
    path = min(tmp_path.glob("*.data"))
    data = path.read_bytes()
    start = data.rindex(b"OMSFOOT2")
    expected = [row for row in analysed(tmp_path) if row["file"] == path.name]
    wanted = replace(ALL, since=expected[0]["time"], until=expected[-1]["time"] + 1)
    for byte in range(start + 80, start + 96):
        path.write_bytes(data[:byte] + bytes((data[byte] ^ 0x80,)) + data[byte + 1 :])
        rows = analysed(tmp_path, wanted=wanted, report=lambda _: None)
        assert [row for row in rows if row["file"] == path.name] == expected


def _ignore(_: Damage) -> None:
    """Hear of damage and go on."""


def test_a_file_that_clean_up_moves_between_planning_and_reading_is_found_there(tmp_path: Path) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    retained.mkdir()
    with open_small(spool, retention_directory=retained) as db:
        churn(db, 4)
        expected = analysed(spool)
        partitions = planned(spool, retained)
        assert len(db.cleanup().moved) >= 4

        assert plain(batches_of(partitions, report=damage.refuse)) == expected


def test_a_file_that_clean_up_removes_between_planning_and_reading_is_damage_that_says_so(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        churn(db, 4)
        expected = analysed(tmp_path)
        partitions = planned(tmp_path)
        deleted = set(db.cleanup().deleted)
        heard: list[Damage] = []

        rows = plain(batches_of(partitions, report=heard.append))

        assert rows == [row for row in expected if row["file"] not in deleted]
        assert {(one.kind, one.file) for one in heard} == {("gone", name) for name in deleted}
        assert {one.database for one in heard} == {database_of(tmp_path)}
        with pytest.raises(DamageFound, match="gone: it was removed"):
            batches_of(partitions, report=damage.refuse)
        assert damages(tmp_path) == [], "a plan that is made now does not miss them"


def test_a_file_that_goes_while_its_directory_is_planned_is_looked_for_again(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        churn(db, 3)
        [location] = locate([str(tmp_path)])
        disk = _Vanishing(db)

        found = plan.surveyed([replace(location, storage=disk)])  # type: ignore[arg-type]

        assert disk.has_cleaned
        assert [part.name for one in found for part in one.parts] == sorted(p.name for p in tmp_path.glob("*.data"))


class _Vanishing(RealDisk):
    """A storage and its disk: clean-up comes between the listing and the reading of headers."""

    is_local = True

    def __init__(self, db: MessageDatabase) -> None:
        self._db = db
        self.has_cleaned = False

    def disk(self) -> RealDisk:
        return self

    def list(self, directory: Path) -> "list[str]":
        found = super().list(directory)
        if not self.has_cleaned:
            self.has_cleaned = True
            assert self._db.cleanup().deleted
        return found


def test_a_header_that_the_device_cannot_read_makes_its_file_unreadable_and_no_other(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 2)
    [location] = locate([str(tmp_path)])
    name = "omsmsg-0000000002.data"
    heard: list[Damage] = []

    partitions = plan.plan([replace(location, storage=_Unreadable(name))])  # type: ignore[arg-type]

    assert {row["sequence"] for row in plain(batches_of(partitions, report=heard.append))} == {1, 3}
    assert [(one.kind, one.file) for one in heard] == [("unreadable", name)]


class _Unreadable(RealDisk):
    """A storage and its disk, on which one file cannot be read."""

    is_local = True

    def __init__(self, name: str) -> None:
        self._name = name

    def disk(self) -> RealDisk:
        return self

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        if path.name == self._name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().open(path, writable=writable)


def test_a_named_file_that_has_gone_is_said_to_be(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 1)
    locations = locate([str(tmp_path / "omsmsg-0000000001.data")])
    (tmp_path / "omsmsg-0000000001.data").unlink()

    with pytest.raises(DiskError, match=r"omsmsg-0000000001\.data"):
        plan.plan(locations)


def test_a_file_named_alone_ends_where_its_neighbour_says(tmp_path: Path) -> None:
    """The crashed file 1 has more behind its end than its successor vouches for; file 2 is the successor."""
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.add("q", b"one")
    with open_small(tmp_path, max_data_file_size="1M") as db:
        db.add("q", b"two")
    [first, second] = sorted(tmp_path.glob("*.data"))
    expected = analysed(tmp_path)
    data = first.read_bytes()
    first.write_bytes(data[: data.rindex(b"OMSFOOT2")] + bytes(4096))  # not sealed any more

    assert analysed(first) == [row for row in expected if row["file"] == first.name]
    assert analysed(second) == [row for row in expected if row["file"] == second.name]
    assert [part.named is not None for one in planned(first) for part in one.parts] == [True]


def test_a_file_that_is_closed_between_planning_and_reading_is_read_with_the_payload_that_was_promised(
    tmp_path: Path,
) -> None:
    """It was planned up to the first place, by the footer before it alone; its payload stands behind that."""
    writing = journal(tmp_path)
    write(writing, add(b"q", b"one"))
    writing.roll_at_next_commit()
    write(writing, add(b"q", bytes(700)))
    writing.seal_all()
    expected = analysed(tmp_path)
    partitions = planned(tmp_path)
    assert _second(partitions).limit == FRAMES_AT + 1
    assert [row["payload"] for row in expected] == [b"one", bytes(700)]

    writing.close(seal=True)

    assert plain(batches_of(partitions, report=damage.refuse)) == expected


@pytest.mark.parametrize("shown", [0, HEADER_SIZE], ids=["no header", "half of the header"])
def test_a_file_that_is_begun_while_headers_are_read_is_not_damaged(shown: int, tmp_path: Path) -> None:
    """Its header is read before it is there, or before all of it is; then the file before it says that it was begun."""
    spool = tmp_path / "spool"
    spool.mkdir()
    writing = journal(spool)
    write(writing, add(b"q", b"one"))
    writing.roll_at_next_commit()
    write(writing, add(b"q", bytes(700)))
    writing.seal_all()
    expected = analysed(spool)
    begun = spool / str(DataFileName(2))
    before = tmp_path / begun.name
    before.write_bytes(begun.read_bytes()[:shown].ljust(begun.stat().st_size, b"\0"))
    [location] = locate([str(spool)])

    partitions = plan.plan([replace(location, storage=_Earlier(begun, before))], ALL)  # type: ignore[arg-type]

    assert _second(partitions).is_rotted and _second(partitions).is_promised
    assert plain(batches_of(partitions, report=damage.refuse)) == expected
    found = plan.plan_damage([replace(location, storage=_Earlier(begun, before))])  # type: ignore[arg-type]
    assert [list(damage.batches(one, schema.default_columns("damage"))) for one in found] == [[]] * len(found)
    writing.close(seal=False)


def _second(partitions: list[Partition]) -> FilePart:
    return next(part for one in partitions for part in one.parts if part.sequence == 2)


class _Earlier(RealDisk):
    """A storage and its disk: who opens one of the files for the first time sees it as it was before."""

    is_local = True

    def __init__(self, path: Path, before: Path) -> None:
        self._path = path
        self._before = before
        self._was_opened = False

    def disk(self) -> RealDisk:
        return self

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        if path == self._path and not self._was_opened:
            self._was_opened = True
            path = self._before
        return super().open(path, writable=writable)


@pytest.mark.whole
def test_a_running_database_is_read_as_far_as_it_is_known_to_be_durable(tmp_path: Path) -> None:
    """While it is written to, rolled over and cleaned up: each reading is the beginning of the next, nothing is bad."""
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    writer = RandomWriter(spool, 11, retention=retained)
    writer.write(openings=1, steps=5, cleans=False)
    retained.mkdir()
    running = threading.Thread(target=lambda: writer.write(openings=2, steps=150))
    before: list[Row] = []
    heard: list[Damage] = []
    running.start()
    while True:
        is_last = not running.is_alive()
        rows = analysed(spool, retained, report=heard.append)
        assert rows[: len(before)] == before
        before = rows
        if is_last:
            break
    running.join()

    assert heard == []
    assert comparable(before) == comparable([*dumped(retained / database_of(spool)), *dumped(spool)])
